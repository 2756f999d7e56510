// SPDX-License-Identifier: Apache-2.0
// table: Parquet, Arrow and remote files, row by row as JSON text.
//
// Local Arrow files are read by host/arrow; all else goes through DuckDB, whose C library is loaded
// when the first such table is opened. It is looked for in GPUHOURS_DUCKDB (the file or its
// folder), where `make duckdb` puts it, in ~/.local/share/gpuhours, and on the library path.
// Without it table_open() returns ERR_UNAVAILABLE and says how to install it.
//
//     struct table *table;
//     TRY(table_open(&table, "train.parquet", head));
//     for (struct text row; !(err = table_next(table, &row)) && row.at;) …
//     table_close(table);

#pragma once

#include "remote/object.h"

struct table;

bool table_is_for(const char *path, struct text head); // by name, address or first bytes
enum err table_open(struct table **out, const char *path, const struct object *object,
                    struct text head);                      // its first bytes
enum err table_next(struct table *table, struct text *row); // .at NULL at the end; valid until next
void table_close(struct table *table);                      // accepts NULL

// A path inside quotes of SQL. DuckDB takes [, * and ? for patterns: in the name of a file that
// exists they stand for themselves.
void table_put_path(struct out *sql, const char *path);
