// SPDX-License-Identifier: Apache-2.0
// parquet: rows of Parquet files, local or remote, as JSON text.
//
// Reads the footer, then row group by row group the pages of each column as they are needed: no
// byte is read twice, and memory is one page per column (at most 768 MiB in all), whatever the size
// of the file and its row groups. Pages may be plain, snappy, gzip, zstd or raw lz4, in every
// encoding that current writers use; brotli, lzo and encrypted files are refused by name. Lists,
// structs and maps become JSON values, times and dates become their numbers, and bytes that are
// neither text nor an image become null. Nothing in the file is trusted: each length is checked.

#pragma once

#include "remote/object.h"

struct parquet;

// A file, or a remote object that is not NULL and outlives the reader.
enum err parquet_open(struct parquet **out, const char *path, const struct object *object);
enum err parquet_next(struct parquet *parquet,
                      struct text *row); // .at NULL at the end; valid until next

// Before the first row: only the row groups that begin in the bytes from … to-1 of the file.
void parquet_rows(struct parquet *parquet, int64_t from, int64_t to);

// From the next row on only these columns are read, and in the rows; names that the file does not
// have are ignored; where it has none of them, all are read. Until this is called, little is read
// ahead of an object.
enum err parquet_keep(struct parquet *parquet, const struct text *names, size_t count);
void parquet_close(struct parquet *parquet); // accepts NULL
