// dropped: files that were dropped onto the page, counted chunk by chunk as the program does.
//
//     TRY(dropped_open(&dropped, &options));           // tokenizer, template
//     TRY(dropped_file(&dropped, "train.jsonl", bytes));
//     memcpy(dropped_room(&dropped, size), chunk, size);
//     TRY(dropped_push(&dropped, size, false)); …
//     TRY(dropped_push(&dropped, 0, true));            // the file ends
//     TRY(dropped_close(&dropped));                    // profile and lengths are there
//
// Rows that cannot be used are counted and left out, as with --bad-rows skip. The text of a
// tokenizer and of a template must outlive dropped_open() only.

#pragma once

#include "core/data/counting.h"

enum { DROPPED_FILES = 64 };

struct dropped_text {
    const char *name; // NULL: there is none
    struct text text;
};

struct dropped_options {
    const char *model;             // whose family an estimate is for
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
    struct profile_file files[DROPPED_FILES];
    // The file that is being read.
    struct lines_cutter cutter;
    bool begun, skipping;
    struct example_table table;
    int64_t line; // where the buffer begins
    char *buffer; // begun rows, then the chunk
    size_t size, room, scanned;
    struct arena rows; // of one row
};

enum err dropped_open(struct dropped *dropped, const struct dropped_options *options);
enum err dropped_file(struct dropped *dropped, const char *name, int64_t bytes);
char *dropped_room(struct dropped *dropped, size_t size); // good until the next call
enum err dropped_push(struct dropped *dropped, size_t size, bool ended);
enum err dropped_close(struct dropped *dropped);
void dropped_release(struct dropped *dropped); // accepts a zeroed one
