#include "cli/columns.h"

#include <string.h>

// Characters, not bytes: continuation bytes of UTF-8 take no room.
static int width_of(const char *cell)
{
    int width = 0;
    for (; *cell; cell++)
        width += (*cell & 0xC0) != 0x80;
    return width;
}

void columns_add(struct columns *columns, const char *cell)
{
    if (columns->count == columns->room) {
        size_t more = columns->room ? columns->room * 2 : 64, size = sizeof *columns->cells;
        columns->cells =
            arena_grow(columns->arena, columns->cells, columns->room * size, more * size);
        columns->room = more;
    }
    columns->cells[columns->count++] = cell ? cell : "";
}

void columns_write(const struct columns *columns, struct out *out)
{
    size_t width = strlen(columns->align);
    int *widest = ARENA_NEW(columns->arena, int, width);
    for (size_t i = 0; i < columns->count; i++) {
        int cell = width_of(columns->cells[i]);
        if (cell > widest[i % width])
            widest[i % width] = cell;
    }
    int owed = 0; // blanks that only what follows makes necessary
    for (size_t i = 0; i < columns->count; i++) {
        size_t column = i % width;
        int pad = widest[column] - width_of(columns->cells[i]);
        owed = column ? owed + 2 : 0;
        if (columns->align[column] == 'r')
            owed += pad, pad = 0;
        if (*columns->cells[i]) {
            out_repeat(out, ' ', owed);
            out_put(out, "%s", columns->cells[i]);
            owed = 0;
        } else {
            pad = columns->align[column] == 'r' ? 0 : widest[column];
        }
        owed += pad;
        if (column + 1 == width || i + 1 == columns->count)
            out_char(out, '\n');
    }
}
