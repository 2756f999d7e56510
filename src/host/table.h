// SPDX-License-Identifier: Apache-2.0
// table: Parquet and Arrow files, local or remote, row by row as JSON text.
//
//     struct table *table;
//     TRY(table_open(&table, "train.parquet", NULL, head));
//     for (struct text row; !(err = table_next(table, &row)) && row.at;) …
//     table_close(table);

#pragma once

#include "remote/object.h"

struct table;

bool table_is_for(const char *path, struct text head); // by name, address or first bytes
enum err table_open(struct table **out, const char *path, const struct object *object,
                    struct text head);                      // its first bytes
enum err table_next(struct table *table, struct text *row); // .at NULL at the end; valid until next

// From the next row on only these columns are needed; others may be left out of the rows, and are
// then not read (Parquet).
void table_keep(struct table *table, const struct text *names, size_t count);
void table_close(struct table *table); // accepts NULL
