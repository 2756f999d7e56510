// SPDX-License-Identifier: Apache-2.0
// Adds up the bytes of each column. A name that belongs to the smallest hashes of all rows belongs
// to those of any part of them: it is never dropped, so its sum is complete.

#include "core/data/census.h"

#include "base/checksum.h"

#include <string.h>

// Where a hash stands, or would stand.
static size_t place_of(const struct census *census, uint64_t hash)
{
    size_t from = 0, to = census->count;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (census->columns[middle].hash < hash)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void insert(struct census *census, size_t at, struct census_column column)
{
    if (census->count == CENSUS_NAMES)
        census->count--; // the largest hash
    census->columns = arena_room(census->arena, census->columns, sizeof *census->columns,
                                 census->count, &census->room);
    memmove(&census->columns[at + 1], &census->columns[at],
            (census->count - at) * sizeof *census->columns);
    census->columns[at] = column;
    census->count++;
}

// The first part in the alphabet, whatever came first.
static const char *either(const char *a, const char *b)
{
    return !a || (b && strcmp(b, a) < 0) ? b : a;
}

void census_add(struct census *census, struct text name, const char *part, int64_t bytes)
{
    census->bytes += bytes;
    if (!bytes || name.size > CENSUS_NAME_BYTES)
        return;
    uint64_t hash = checksum(name, 0);
    size_t at = place_of(census, hash);
    bool known = at < census->count && census->columns[at].hash == hash;
    if (!known && at == CENSUS_NAMES)
        return;
    if (!known)
        insert(census, at, (struct census_column){ hash, text_copy(census->arena, name), NULL, 0 });
    census->columns[at].part = either(census->columns[at].part, part);
    census->columns[at].bytes += bytes;
}

void census_merge(struct census *to, const struct census *from)
{
    int64_t bytes = to->bytes + from->bytes;
    for (size_t i = 0; i < from->count; i++)
        census_add(to, text_of(from->columns[i].name), from->columns[i].part,
                   from->columns[i].bytes);
    to->bytes = bytes;
}

const struct census_column *census_find(const struct census *census, struct text name)
{
    uint64_t hash = checksum(name, 0);
    size_t at = place_of(census, hash);
    return at < census->count && census->columns[at].hash == hash ? &census->columns[at] : NULL;
}
