// follow: reads what is added to files while somebody writes them.
//
//     struct follow follow;
//     follow_start(&follow, arena, "runs/output", give, context);   // a file or a folder
//     … follow_poll(&follow, seconds);                              // now and then
//     follow_end(&follow);
//
// What stands in the files at the start is of earlier runs and is left out. A path that is not yet
// there is waited for. In a folder, and in those in it, the files that trainers log to are followed
// (follow_names in follow.c): trainer_state.json, event files, JSON lines, logs.
//
// A log that is rotated (another file of that name), truncated or written anew is read from its
// start, after the rest of the old one. trainer_state.json is written whole each time, and is given
// whole each time it changes.

#pragma once

#include "base/text.h"

enum { FOLLOW_FILES = 256, FOLLOW_DEPTH = 4, FOLLOW_HEAD = 64 };

struct follow_piece {
    const char *path;
    int file;          // a number that stays the same for a path
    bool whole;        // bytes is the whole of a document; else what was added
    bool begins;       // the first of a new file of that name
    struct text bytes; // valid during the callback
    double seconds;    // as follow_poll() was given
};

typedef void follow_callback(void *context, const struct follow_piece *piece);

struct follow_file {
    const char *path;
    int fd; // -1: not open
    bool whole, begins;
    int64_t offset, size;
    uint64_t device, inode;
    double modified_seconds;
    char head[FOLLOW_HEAD]; // the first bytes: other ones are another file
    size_t head_size;
};

struct follow {
    struct arena *arena;
    const char *path;
    follow_callback *give;
    void *context;
    struct follow_file files[FOLLOW_FILES];
    int count;
    bool started;           // files that appear now are new ones
    double scanned_seconds; // when files were last looked for
};

void follow_start(struct follow *follow, struct arena *arena, const char *path,
                  follow_callback *give, void *context);
bool follow_poll(struct follow *follow, double seconds); // whether something was given
void follow_end(struct follow *follow);                  // accepts a zeroed one
