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

// Before the first row: only the rows of the row groups or record batches that begin in the bytes
// from … to-1 of the file. The ranges of a file that follow each other give all rows, each once.
void table_rows(struct table *table, int64_t from, int64_t to);
bool table_has_ranges(const struct table *table); // whether a range is found without reading all

// From the next row on only these columns are needed: others are not read, nor in the rows. Names
// that the file does not have are ignored; where it has none of them, all are read.
enum err table_keep(struct table *table, const struct text *names, size_t count);
void table_close(struct table *table); // accepts NULL
