// SPDX-License-Identifier: Apache-2.0
// Any bytes as a profile. What is read finishes, prints, writes and reads back to the same sums.

#include "core/data/profile.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(json)

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct profile profile, again;
    struct text in = { (const char *)data, size };
    if (!profile_read(&profile, &arena, in, "fuzz") && profile.examples < 100000 &&
        lengths_quantile(&profile.tally, 1) < 1 << 20) {
        struct out out = { .arena = &arena }, text = { .arena = &arena };
        struct json_writer w = { .out = &out };
        if (!profile_finish(&profile, &arena, NULL, &profile.settings)) {
            profile_print(&profile, &arena, &text);
            profile_write(&profile, &w);
            if (profile_read(&again, &arena, out_view(&out), "again") ||
                again.tokens != profile.tokens || again.examples != profile.examples)
                abort();
        }
    }
    arena_release(&arena);
    return 0;
}
