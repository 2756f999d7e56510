// SPDX-License-Identifier: Apache-2.0
// Lays out a table: natural widths first, then cuts and spare columns until it fits.

#include "base/columns.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

void columns_add(struct columns *columns, const char *cell)
{
    columns->cells = arena_room(columns->arena, columns->cells, sizeof *columns->cells,
                                columns->count, &columns->room);
    columns->cells[columns->count++] = cell ? text_one_line(columns->arena, text_of(cell)) : "";
}

void columns_add_row(struct columns *columns, const char *const *cells)
{
    for (; *cells; cells++)
        columns_add(columns, *cells);
}

// --- fitting -----------------------------------------------------------------

struct widths {
    int each[COLUMNS_MOST]; // -1: the column is left out
    size_t count;
};

static struct widths natural(const struct columns *columns)
{
    struct widths widths = { .count = strlen(columns->align) };
    for (size_t i = 0; i < columns->count; i++) {
        int *width = &widths.each[i % widths.count];
        int cell = text_columns(text_of(columns->cells[i]));
        *width = cell > *width ? cell : *width;
    }
    return widths;
}

static int sum(const struct columns *columns, const struct widths *widths)
{
    int total = columns->indent - 2;
    for (size_t i = 0; i < widths->count; i++)
        total += widths->each[i] >= 0 ? 2 + widths->each[i] : 0;
    return total;
}

// A capital column is not cut below its title and .least, or, as a last resort, below 1.
static int least(const struct columns *columns, size_t column, bool last_resort)
{
    int title = text_columns(text_of(columns->cells[column]));
    int enough = columns->least ? columns->least : COLUMNS_LEAST;
    return last_resort ? 1 : title > enough ? title : enough;
}

static void cut(const struct columns *columns, struct widths *widths, int room, bool last_resort)
{
    while (sum(columns, widths) > room) {
        int *widest = NULL;
        for (size_t i = 0; i < widths->count; i++)
            if (isupper((unsigned char)columns->align[i]) &&
                widths->each[i] > least(columns, i, last_resort) &&
                (!widest || widths->each[i] > *widest))
                widest = &widths->each[i];
        if (!widest)
            return;
        --*widest;
    }
}

// Leaves the next spare column out; false: there is none.
static bool drop(const struct columns *columns, struct widths *widths)
{
    size_t next = widths->count;
    for (size_t i = 0; columns->spare && i < widths->count; i++)
        if (widths->each[i] >= 0 && columns->spare[i] > '0' &&
            (next == widths->count || columns->spare[i] < columns->spare[next]))
            next = i;
    if (next == widths->count)
        return false;
    widths->each[next] = -1;
    return true;
}

static struct widths fit(const struct columns *columns, int room)
{
    struct widths whole = natural(columns);
    for (;;) {
        struct widths widths = whole;
        cut(columns, &widths, room, false);
        if (sum(columns, &widths) <= room)
            return widths;
        if (!drop(columns, &whole)) {
            cut(columns, &widths, room, true);
            return widths;
        }
    }
}

// --- writing -----------------------------------------------------------------

static void put_row(const struct columns *columns, const struct widths *widths, size_t row,
                    struct out *out)
{
    size_t count = widths->count;
    int owed = 0; // blanks that are written only when something follows them
    bool first = true;
    for (size_t i = 0; i < count && row * count + i < columns->count; i++) {
        if (widths->each[i] < 0)
            continue;
        const char *cell =
            text_cut(columns->arena, columns->cells[row * count + i], widths->each[i]);
        int pad = widths->each[i] - text_columns(text_of(cell));
        bool right = tolower((unsigned char)columns->align[i]) == 'r';
        owed += (first ? 0 : 2) + (right ? pad : 0);
        first = false;
        if (*cell) {
            out_repeat(out, ' ', owed);
            out_put(out, "%s", cell);
            owed = 0;
        }
        owed += right ? 0 : pad;
    }
}

static void put_left_out(const struct columns *columns, const struct widths *widths,
                         struct out *out)
{
    struct out names = { .arena = columns->arena };
    for (size_t i = 0; i < widths->count; i++)
        if (widths->each[i] < 0 && *columns->cells[i])
            out_put(&names, "%s%s", names.size ? ", " : "", columns->cells[i]);
    if (!names.size)
        return;
    out_repeat(out, ' ', columns->indent);
    out_wrapped(out, columns->indent, columns->indent,
                out_styled(out, OUT_NOTE,
                           text_format(columns->arena,
                                       "(columns not shown: %s; widen the terminal or set COLUMNS)",
                                       out_string(&names))));
}

void columns_write(const struct columns *columns, struct out *out)
{
    size_t count = strlen(columns->align);
    assert(count && count <= COLUMNS_MOST);
    if (!columns->count)
        return;
    struct widths widths = fit(columns, out_columns(out));
    for (size_t row = 0; row * count < columns->count; row++) {
        struct out line = { .arena = columns->arena };
        out_put(&line, "%*s", columns->indent, row && row == columns->marked ? "> " : "");
        put_row(columns, &widths, row, &line);
        while (line.size && line.at[line.size - 1] == ' ')
            line.size--; // an empty row
        if (row)
            out_put(out, "%s\n", out_string(&line));
        else
            out_heading(out, out_string(&line));
    }
    put_left_out(columns, &widths, out);
}
