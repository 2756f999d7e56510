// ledger: remembers what was planned, measured and run, in one SQLite file.
//
//     struct ledger *ledger;
//     TRY(ledger_open(&ledger, &(struct ledger_options){ .path = path, .wait_seconds = 5 }));
//     TRY(ledger_add(ledger, fields, &entry));       // the same uid again: a newer time or name
//     struct ledger_filter like[] = { { "stack", "=", "hf-peft" }, { 0 } };
//     TRY(ledger_find(ledger, arena, fields, sizeof entry, like, 0, &rows, &count));
//     ledger_close(ledger);
//
// A row is a struct that a table of fields describes (base/field.h); its columns are those of the
// schema in ledger.c, among them id and uid. What can happen to the file:
//   several writers   each waits for the others, up to wait_seconds
//   a kill, a crash   what was added is there, what was being added is not
//   an older schema   brought up to date in one transaction
//   a newer schema    ERR_UNAVAILABLE: nothing is touched
//   a damaged file    moved aside under another name, a new one begun; ledger_notice() says so
//   a full disk       ERR_INPUT with a sentence; what was there stays

#pragma once

#include "base/field.h"

struct ledger;

struct ledger_options {
    const char *path;
    double wait_seconds; // for other writers
    bool asked;          // the user named it: a file that is no database at all stays where it is
    bool copied;         // look at a copy in memory: the file may be read-only, old or damaged
};

// The path that is meant by --ledger, or the default one in the user's data folder where asked is
// NULL; *out is NULL where there is neither an asked one nor a home.
void ledger_path(const char **out, struct arena *arena, const char *asked);

enum err ledger_open(struct ledger **out, const struct ledger_options *options);
void ledger_close(struct ledger *ledger);               // accepts NULL
const char *ledger_notice(const struct ledger *ledger); // what a person should know; NULL: nothing

// Sets the entry's id. Adds all of several, or none of them; added: how many had a new uid, not
// counted where it is NULL.
enum err ledger_add(struct ledger *ledger, const struct field *fields, void *entry);
enum err ledger_add_all(struct ledger *ledger, const struct field *fields, void *entries,
                        size_t size, size_t count, size_t *added);

struct ledger_filter { // ended by { 0 }
    const char *column, *compare, *value;
};

// The newest first; most: 0 is all. Members that the fields do not name are zero.
enum err ledger_find(struct ledger *ledger, struct arena *arena, const struct field *fields,
                     size_t size, const struct ledger_filter *filters, size_t most, void **rows,
                     size_t *count);

// Every row that can still be read, one by one, in the order they were added; lost: ids between
// that cannot.
enum err ledger_salvage(struct ledger *ledger, struct arena *arena, const struct field *fields,
                        size_t size, void **rows, size_t *count, size_t *lost);

enum err ledger_delete(struct ledger *ledger, int64_t id, bool *found);
