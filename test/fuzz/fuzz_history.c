// SPDX-License-Identifier: Apache-2.0
// Any bytes as one of our documents, or as an export. What is read writes and reads back the same.

#include "core/measured/history.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(json)

static void check_export(struct history_entry *entries, size_t count, struct arena *arena)
{
    struct out out = { .arena = arena }, csv = { .arena = arena };
    struct history_entry *again;
    size_t back;
    history_write(entries, count, &out);
    history_write_csv(entries, count, arena, &csv);
    history_coverage(arena, entries, count, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        history_lacks(&entries[i]);
    if (history_read_all(&again, &back, arena, out_view(&out), "again") || back != count)
        abort();
    for (size_t i = 0; i < count; i++)
        if (strcmp(again[i].uid, entries[i].uid))
            abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct text in = { (const char *)data, size };
    struct history_entry entry, *entries;
    size_t count;
    if (!history_read(&entry, &arena, in, "fuzz")) {
        entry.at = "2026-11-15T11:20:05Z";
        check_export(&entry, 1, &arena);
    }
    if (!history_read_all(&entries, &count, &arena, in, "fuzz"))
        check_export(entries, count, &arena);
    arena_release(&arena);
    return 0;
}
