// SPDX-License-Identifier: Apache-2.0
// arrow: rows of Arrow IPC files (.arrow, .feather), as dataset libraries keep them, as JSON text.
//
// Reads the stream and the file format, batch by batch: memory is one batch. Columns of numbers,
// booleans, text, lists and structs become JSON values; times and dates become their numbers;
// bytes, which JSON cannot hold, become null. Dictionaries, unions, views and compressed batches
// are refused by name. Nothing in the file is trusted: each offset is checked.

#pragma once

#include "remote/object.h"

struct arrow;

// A file, or a remote object that is not NULL and outlives the reader.
enum err arrow_open(struct arrow **out, const char *path, const struct object *object);
enum err arrow_next(struct arrow *arrow, struct text *row); // .at NULL at the end; valid until next
void arrow_close(struct arrow *arrow);                      // accepts NULL
