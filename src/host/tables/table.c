// SPDX-License-Identifier: Apache-2.0
// Chooses the reader of a table by its name and its first bytes.

#include "host/tables/table.h"

#include "host/tables/arrow.h"
#include "host/tables/parquet.h"

#include <stdlib.h>
#include <string.h>

struct table { // one of them
    struct arrow *arrow;
    struct parquet *parquet;
};

static bool is_arrow(const char *path, struct text head)
{
    struct text name = text_of(path);
    return text_ends(name, ".arrow") || text_ends(name, ".feather") ||
           (head.size >= 6 && !memcmp(head.at, "ARROW1", 6));
}

bool table_is_for(const char *path, struct text head)
{
    bool parquet = head.size >= 4 && !memcmp(head.at, "PAR1", 4);
    return is_arrow(path, head) || parquet || text_ends(text_of(path), ".parquet");
}

enum err table_open(struct table **out, const char *path, const struct object *object,
                    struct text head)
{
    *out = NULL;
    struct table *t = calloc(1, sizeof *t);
    if (!t)
        return fail(ERR_MEMORY, "%s: out of memory", path);
    enum err err = is_arrow(path, head) ? arrow_open(&t->arrow, path, object)
                                        : parquet_open(&t->parquet, path, object);
    if (err)
        table_close(t);
    else
        *out = t;
    return err;
}

enum err table_next(struct table *t, struct text *row)
{
    return t->arrow ? arrow_next(t->arrow, row) : parquet_next(t->parquet, row);
}

void table_rows(struct table *t, int64_t from, int64_t to)
{
    if (t->arrow)
        arrow_rows(t->arrow, from, to);
    else
        parquet_rows(t->parquet, from, to);
}

bool table_has_ranges(const struct table *t)
{
    return t->parquet || arrow_has_ranges(t->arrow);
}

enum err table_keep(struct table *t, const struct text *names, size_t count)
{
    if (t->parquet)
        return parquet_keep(t->parquet, names, count);
    arrow_keep(t->arrow, names, count);
    return OK;
}

void table_close(struct table *t)
{
    if (!t)
        return;
    arrow_close(t->arrow);
    parquet_close(t->parquet);
    free(t);
}
