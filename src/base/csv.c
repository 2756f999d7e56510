// SPDX-License-Identifier: Apache-2.0
// Reads comma- or tab-separated values, record by record or as a table.

#include "base/csv.h"

#include <string.h>

static int line_ends(const char *at, const char *end)
{
    int count = 0;
    for (; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        count++;
    return count;
}

// Reads a quoted cell; in->at is after the opening quote.
static struct text quoted(struct csv_reader *in, struct arena *arena)
{
    const char *start = in->at, *at = start, *quote;
    bool doubled = false;
    for (;; at = quote + 2) {
        quote = at < in->end ? memchr(at, '"', (size_t)(in->end - at)) : NULL;
        if (!quote) {
            in->line += line_ends(start, in->end);
            in->at = in->end;
            in->problem = "has an unclosed quoted cell";
            return (struct text){ "", 0 };
        }
        if (quote + 1 == in->end || quote[1] != '"')
            break;
        doubled = true;
    }
    struct text cell = { start, (size_t)(quote - start) };
    in->line += line_ends(start, quote);
    in->at = quote + 1;
    if (!doubled)
        return cell;
    char *copy = arena_alloc(arena, cell.size);
    size_t size = 0;
    for (size_t i = 0; i < cell.size; i++) {
        copy[size++] = cell.at[i];
        i += cell.at[i] == '"';
    }
    return (struct text){ copy, size };
}

bool csv_record(struct csv_reader *in, struct arena *arena, struct text *cells, size_t room,
                size_t *count)
{
    *count = 0;
    if (in->at >= in->end || in->problem)
        return false;
    for (;;) {
        struct text cell;
        if (in->at < in->end && *in->at == '"') {
            in->at++;
            cell = quoted(in, arena);
            if (in->problem)
                return false;
            if (in->at < in->end && *in->at != in->separator && *in->at != '\n' &&
                *in->at != '\r') {
                in->problem = "has text after a closing quote";
                return false;
            }
        } else {
            const char *start = in->at;
            while (in->at < in->end && *in->at != in->separator && *in->at != '\n' &&
                   *in->at != '\r')
                in->at++;
            cell = (struct text){ start, (size_t)(in->at - start) };
        }
        if (*count < room)
            cells[*count] = cell;
        ++*count;
        if (in->at < in->end && *in->at == in->separator) {
            in->at++;
            continue;
        }
        if (in->at < in->end && *in->at == '\r')
            in->at++;
        if (in->at < in->end && *in->at == '\n')
            in->at++;
        in->line++;
        return true;
    }
}

enum { MOST_COLUMNS = 1024 };

enum err csv_read(struct csv *out, struct arena *arena, struct text in, const char *name,
                  char separator)
{
    *out = (struct csv){ .name = name };
    in = text_after_mark(in);
    struct csv_reader reader = { in.at, in.at + in.size, separator, 1, NULL };
    while (reader.at < reader.end && *reader.at == '#') {
        const char *end = memchr(reader.at, '\n', (size_t)(reader.end - reader.at));
        reader.at = end ? end + 1 : reader.end;
        reader.line++;
    }
    struct text cells[MOST_COLUMNS];
    size_t count, room = 0;
    if (!csv_record(&reader, arena, cells, MOST_COLUMNS, &count))
        return reader.problem ? fail(ERR_INPUT, "%s:%d: %s", name, reader.line, reader.problem)
                              : fail(ERR_INPUT, "%s: has no header line", name);
    if (count > MOST_COLUMNS)
        return fail(ERR_INPUT, "%s: has %zu columns; at most %d are supported", name, count,
                    MOST_COLUMNS);
    out->columns = count;
    out->header = ARENA_NEW(arena, struct text, count);
    memcpy(out->header, cells, count * sizeof *cells);
    size_t rows = 0;
    struct {
        struct text *cells;
        int *lines;
    } grown = { 0 };
    int line = reader.line;
    while (csv_record(&reader, arena, cells, MOST_COLUMNS, &count)) {
        if (count == 1 && !cells[0].size) { // an empty line
            line = reader.line;
            continue;
        }
        if (count != out->columns)
            return fail(ERR_INPUT, "%s:%d: has %zu cells, but the header has %zu", name, line,
                        count, out->columns);
        if (rows == room) {
            size_t more = room ? room * 2 : 64, width = out->columns * sizeof(struct text);
            grown.cells = arena_grow(arena, grown.cells, room * width, more * width);
            grown.lines = arena_grow(arena, grown.lines, room * sizeof(int), more * sizeof(int));
            room = more;
        }
        memcpy(grown.cells + rows * out->columns, cells, count * sizeof *cells);
        grown.lines[rows++] = line;
        line = reader.line;
    }
    if (reader.problem)
        return fail(ERR_INPUT, "%s:%d: %s", name, line, reader.problem);
    out->rows = rows;
    out->cells = grown.cells;
    out->lines = grown.lines;
    return OK;
}

int csv_column(const struct csv *csv, const char *name)
{
    for (size_t i = 0; i < csv->columns; i++)
        if (text_is(csv->header[i], name))
            return (int)i;
    return -1;
}

struct text csv_cell(const struct csv *csv, size_t row, int column)
{
    if (column < 0)
        return (struct text){ "", 0 };
    return csv->cells[row * csv->columns + (size_t)column];
}
