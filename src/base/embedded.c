// SPDX-License-Identifier: Apache-2.0
// Finds a file of data/ that is compiled in.

#include "base/embedded.h"

#include <string.h>

struct text embedded_file(const char *name)
{
    for (const struct embedded *e = embedded_files; e->name; e++)
        if (!strcmp(e->name, name))
            return (struct text){ e->at, e->size };
    return (struct text){ 0 };
}
