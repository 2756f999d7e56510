// SPDX-License-Identifier: Apache-2.0
// arrow: rows of Arrow IPC files (.arrow, .feather), as dataset libraries keep them, as JSON text.
//
// Reads the stream format and the file format, batch by batch, and of each batch only the columns
// that are needed: memory is that of one batch, at most ARROW_MOST_BATCH_BYTES. Columns of numbers,
// booleans, text, lists and structs become JSON values; times and dates become their numbers;
// bytes, which JSON cannot hold, become null. Dictionaries, unions, views and compressed batches
// are refused by name. Nothing in the file is trusted: each offset is checked.

#pragma once

#include "remote/object.h"

enum { ARROW_MOST_BATCH_BYTES = 768 << 20 };

struct arrow;

// A file, or a remote object that is not NULL and outlives the reader.
enum err arrow_open(struct arrow **out, const char *path, const struct object *object);

// Before the first row: only the batches that begin in the bytes from … to-1 of the file.
void arrow_rows(struct arrow *arrow, int64_t from, int64_t to);
bool arrow_has_ranges(const struct arrow *arrow); // not of an object: batches are found in turn

// From the next batch on only these columns are read. Where the file has none of them: all.
void arrow_keep(struct arrow *arrow, const struct text *names, size_t count);

enum err arrow_next(struct arrow *arrow, struct text *row); // .at NULL at the end; valid until next
void arrow_close(struct arrow *arrow);                      // accepts NULL
