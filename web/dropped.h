// SPDX-License-Identifier: Apache-2.0
// dropped: counts files dropped onto the page, chunk by chunk, with the same result as the program.
//
//     TRY(dropped_open(&dropped, &options));           // tokenizer, template
//     TRY(dropped_file(&dropped, "train.jsonl", bytes));
//     memcpy(dropped_room(&dropped, size), chunk, size);
//     TRY(dropped_push(&dropped, size, false)); …
//     TRY(dropped_push(&dropped, 0, true));            // end of the file
//     TRY(dropped_close(&dropped));                    // profile and lengths are complete
//
// Bad rows are counted and skipped, as with --bad-rows skip. The texts of tokenizer and template
// are not used after dropped_open() returns.

#pragma once

#include "core/data/counting.h"

enum { DROPPED_FILES = 64 };

struct dropped_text {
    const char *name; // NULL: none
    struct text text;
};

struct dropped_options {
    const char *model;             // its family is used to estimate tokens
    struct dropped_text tokenizer; // none: the built-in vocabulary
    struct dropped_text config;    // tokenizer_config.json
    struct dropped_text template;  // chat_template.jinja
    struct template_date date;     // today
};

struct dropped {
    struct arena arena; // rule, profile, lengths
    struct example_rule rule;
    struct example_worker worker;
    struct profile profile;
    struct lengths lengths;
    struct counting counting;
    struct census census; // of the columns of all rows
    struct profile_file files[DROPPED_FILES];
    // The current file.
    struct lines_cutter cutter;
    bool begun, skipping;
    struct example_table table;
    int64_t line; // of the start of the buffer
    char *buffer; // incomplete rows, then the chunk
    size_t size, room, scanned;
    struct arena rows; // memory of one row
};

enum err dropped_open(struct dropped *dropped, const struct dropped_options *options);
enum err dropped_file(struct dropped *dropped, const char *name, int64_t bytes);
char *dropped_room(struct dropped *dropped, size_t size); // valid until the next call
enum err dropped_push(struct dropped *dropped, size_t size, bool ended);
enum err dropped_close(struct dropped *dropped);
void dropped_release(struct dropped *dropped); // accepts a zeroed struct
