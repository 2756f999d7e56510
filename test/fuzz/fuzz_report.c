// SPDX-License-Identifier: Apache-2.0
// Whatever the document, a report of it is made in every form, or it is refused with a sentence.

#include "core/report/report.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
MUTATES_AS(json)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct report_input *input = ARENA_NEW(&arena, struct report_input, 1);
    struct text text = { (const char *)data, size };
    if (!report_add(input, &arena, text, "fuzz")) {
        struct out html = { .arena = &arena }, other = { .arena = &arena };
        report_add(input, &arena, text, "again"); // compared with itself
        report_html(&html, &arena, input, NULL);
        if (strstr(out_string(&html), "<script"))
            abort();
        report_text(&other, &arena, input, 80, true);
        report_markdown(&other, &arena, input);
        report_csv(&other, &arena, input);
        report_json(&other, &arena, input);
    }
    arena_release(&arena);
    return 0;
}
