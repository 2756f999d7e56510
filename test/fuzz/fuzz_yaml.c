// SPDX-License-Identifier: Apache-2.0
// Any bytes as YAML, and as a trainer's configuration: read or refused, never more than the limits.

#include "core/plan/plan_from.h"
#include "host/yaml.h"
#include "test/fuzz/mutate.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(lines)

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct json tree;
    struct trainer_config config = { .arena = &arena };
    struct plan_request request = plan_request_default();
    struct out out = { .arena = &arena };
    if (!yaml_read(&tree, &arena, (struct text){ (const char *)data, size }, "fuzz") &&
        !trainer_config_add(&config, &tree, "fuzz") &&
        !plan_from(&config, &request, size % 9 ? (int64_t)(size % 9) : PLAN_NOT_GIVEN)) {
        struct json_writer w = { .out = &out };
        trainer_config_text(&config, &out);
        json_open(&w, NULL, '{');
        trainer_config_write(&config, &w);
        json_close(&w, '}');
    }
    arena_release(&arena);
    return 0;
}
