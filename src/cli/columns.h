// columns: text in aligned columns.
//
//     struct columns columns = { .arena = arena, .align = "lrr" };
//     columns_add(&columns, "GPU"); columns_add(&columns, "memory"); …
//     columns_write(&columns, &out);
//
// align has a letter per column: l left, r right. The first row is the heading. Two blanks part the
// columns; blanks at a line's end are left out.

#pragma once

#include "base/text.h"

struct columns {
    struct arena *arena;
    const char *align;
    const char **cells;
    size_t count, room;
};

void columns_add(struct columns *columns, const char *cell); // row after row; NULL is empty
void columns_write(const struct columns *columns, struct out *out);
