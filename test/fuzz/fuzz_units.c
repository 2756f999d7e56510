// SPDX-License-Identifier: Apache-2.0
// Any bytes as units.json, the list of work units that --merge reads. What is read writes a
// document that reads back to the same one, and each unit lies within the files.

#include "cli/dataset/units.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(json)

static void check_units(const struct units *units)
{
    for (size_t i = 0; i < units->manifest.count; i++) {
        struct arena arena = { 0 };
        const struct manifest_unit *unit = &units->manifest.units[i];
        if (!*manifest_name(&arena, &units->manifest, unit) ||
            unit->file + unit->files > units->manifest.inputs.count)
            abort();
        arena_release(&arena);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct units units, again;
    struct text in = { (const char *)data, size };
    if (!units_read_document(&units, &arena, in, "fuzz")) {
        check_units(&units);
        struct out first = { .arena = &arena }, second = { .arena = &arena };
        units_put_document(&first, &units);
        if (units_read_document(&again, &arena, out_view(&first), "again"))
            abort();
        units_put_document(&second, &again);
        if (!text_equal(out_view(&first), out_view(&second)))
            abort();
    }
    arena_release(&arena);
    return 0;
}
