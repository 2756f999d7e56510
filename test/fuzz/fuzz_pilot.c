// SPDX-License-Identifier: Apache-2.0
// Any bytes as pilot.json. What is read writes a document that reads back to the same one.

#include "core/measured/pilot.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(json)

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct pilot pilot, again;
    struct text in = { (const char *)data, size };
    if (!pilot_read(&pilot, &arena, in, "fuzz")) {
        struct out first = { .arena = &arena }, second = { .arena = &arena };
        pilot_write(&pilot, &first);
        if (pilot_read(&again, &arena, out_view(&first), "again"))
            abort();
        pilot_write(&again, &second);
        if (!text_equal(out_view(&first), out_view(&second)))
            abort();
    }
    arena_release(&arena);
    return 0;
}
