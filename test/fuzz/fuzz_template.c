// SPDX-License-Identifier: Apache-2.0
// Any bytes as a template, rendered with a small conversation under tight limits.

#include "core/template/template.h"
#include "test/fuzz/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
MUTATES_AS(template)

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": "
    "\"<a> \\u00e9 \\ud83d\\ude00\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": "
    "[{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, true, null]}}}]}], "
    "\"tools\": [{\"name\": \"f\"}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    const struct template *template;
    struct template_value variables;
    struct text source = { (const char *)data, size };
    if (!template_compile(&template, &arena, source, "fuzz") &&
        !template_value_read(&variables, &arena, text_of(conversation), "fuzz")) {
        struct template_run run;
        struct out out = { .arena = &arena };
        template_run_init(&run, template);
        run.limits = (struct template_limits){ 20000, 1 << 20, 1 << 20, 200 };
        run.date = (struct template_date){ .year = 2026, .month = 2, .day = 3 };
        for (size_t i = 0; i < variables.dict->count; i++)
            template_set(&run, text_copy(&arena, variables.dict->entries[i].key.string),
                         variables.dict->entries[i].value);
        run.watched = variables.dict->entries[0].value.list;
        template_render(&run, &out);
        template_render(&run, &out);
        template_run_release(&run);
    }
    arena_release(&arena);
    return 0;
}
