// SPDX-License-Identifier: Apache-2.0
// Cuts data files into stretches of equal bytes, one for each rank.

#include "train/data_share.h"

#include "host/source.h"

// Whole files follow whole files in one unit.
static void add_share(struct manifest_unit *units, size_t *count, struct manifest_unit next)
{
    struct manifest_unit *last = *count ? &units[*count - 1] : NULL;
    if (last && !last->to && !next.to && last->file + last->files == next.file) {
        last->files++;
        last->bytes += next.bytes;
    } else
        units[(*count)++] = next;
}

size_t data_share(struct manifest_unit **out, struct arena *arena, const struct inputs *inputs,
                  int rank, int ranks)
{
    int64_t all = inputs->total_bytes, first = all / ranks * rank, begin = 0;
    int64_t end = rank + 1 < ranks ? first + all / ranks : all;
    size_t count = 0;
    *out = ARENA_NEW(arena, struct manifest_unit, inputs->count);
    for (size_t i = 0; i < inputs->count; i++) {
        int64_t size = all ? inputs->sizes[i] : 0, from = first - begin, to = end - begin;
        bool is_cut = (from > 0 && from < size) || (to > 0 && to < size);
        if (is_cut && source_has_ranges(inputs->paths[i])) {
            from = from > 0 ? from : 0;
            to = to < size ? to : size;
            if (from < to)
                add_share(*out, &count, (struct manifest_unit){ i, 1, from, to, to - from });
        } else if (all ? from <= 0 && (to > 0 || rank + 1 == ranks) : rank == 0)
            add_share(*out, &count, (struct manifest_unit){ .file = i, .files = 1, .bytes = size });
        begin += size;
    }
    return count;
}
