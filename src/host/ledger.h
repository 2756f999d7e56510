// SPDX-License-Identifier: Apache-2.0
// ledger: stores plans, pilots and runs in one SQLite file.
//
//     struct ledger *ledger;
//     TRY(ledger_open(&ledger, &(struct ledger_options){ .path = path, .wait_seconds = 5 }));
//     TRY(ledger_add(ledger, fields, &entry));       // an existing uid: updates time and name
//     struct ledger_filter like[] = { { "stack", "=", "hf-peft" }, { 0 } };
//     TRY(ledger_find(ledger, arena, fields, sizeof entry, like, 0, &rows, &count));
//     ledger_close(ledger);
//
// A row is a struct described by a table of fields (base/field.h); its columns are those of the
// schema in ledger.c, among them id and uid. Behaviour on failures:
//   several writers   each waits for the others, up to wait_seconds
//   kill or crash     completed additions persist, an incomplete one does not
//   older schema      upgraded in one transaction
//   newer schema      ERR_UNAVAILABLE; the file is not touched
//   damaged file      renamed, and a new one is created; ledger_notice() reports it
//   damaged entry     left out of what is found; ledger_damaged() counts them
//   full disk         ERR_INPUT; earlier entries persist

#pragma once

#include "base/field.h"

struct ledger;

struct ledger_options {
    const char *path;
    double wait_seconds; // for other writers
    bool asked;          // the user gave the path: a file that is not a database is not renamed
    bool copied;         // read a copy in memory: the file may be read-only, old or damaged
};

// The path of --ledger, or the default one in the user's data folder if asked is NULL; *out is NULL
// if there is no home folder either.
void ledger_path(const char **out, struct arena *arena, const char *asked);

enum err ledger_open(struct ledger **out, const struct ledger_options *options);
void ledger_close(struct ledger *ledger);               // accepts NULL
const char *ledger_notice(const struct ledger *ledger); // a message for the user; NULL: none

// Entries that the last search left out, because they are not what was written.
size_t ledger_damaged(const struct ledger *ledger);

// Sets the entry's id. Adds all of several, or none of them; added: how many had a new uid, not
// counted where it is NULL.
enum err ledger_add(struct ledger *ledger, const struct field *fields, void *entry);
enum err ledger_add_all(struct ledger *ledger, const struct field *fields, void *entries,
                        size_t size, size_t count, size_t *added);

struct ledger_filter { // ended by { 0 }
    const char *column, *compare, *value;
};

// Newest first; most: 0 is all. Members that the fields do not list are zero.
enum err ledger_find(struct ledger *ledger, struct arena *arena, const struct field *fields,
                     size_t size, const struct ledger_filter *filters, size_t most, void **rows,
                     size_t *count);

// Every row that can still be read, in the order they were added; lost: how many cannot.
enum err ledger_salvage(struct ledger *ledger, struct arena *arena, const struct field *fields,
                        size_t size, void **rows, size_t *count, size_t *lost);

enum err ledger_delete(struct ledger *ledger, int64_t id, bool *found);
