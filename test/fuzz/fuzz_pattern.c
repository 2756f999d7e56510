// SPDX-License-Identifier: Apache-2.0
// The first line is a pattern, the rest the text it is run on.

#include "base/pattern.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct pattern *pattern;
    const unsigned char *line = size ? memchr(data, '\n', size) : NULL;
    size_t end = line ? (size_t)(line - data) : size;
    struct text source = { (const char *)data, end };
    struct text text = { (const char *)data + end, size - end };
    if (!pattern_read(&pattern, &arena, source, "fuzz")) {
        struct pattern_stack stack = { .arena = &arena };
        struct pattern_match match;
        size_t at = 0;
        for (int i = 0;
             i < 50 && at <= text.size && pattern_find(pattern, &stack, text, at, &match); i++) {
            if (match.end < match.start || match.end > text.size)
                __builtin_trap();
            at = match.end > match.start ? match.end : match.end + 1;
        }
    }
    arena_release(&arena);
    return 0;
}
