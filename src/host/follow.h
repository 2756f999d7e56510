// SPDX-License-Identifier: Apache-2.0
// follow: reads what is added to log files while another process writes them.
//
//     struct follow follow;
//     follow_start(&follow, arena, "runs/output", give, context);   // a file or a folder
//     … follow_poll(&follow, seconds);                              // regularly
//     follow_end(&follow);
//
// What the files hold at the start comes from earlier runs and is skipped. A path that does not
// exist yet is waited for. In a folder and its subfolders, the files that trainers log to are
// followed (follow_names in follow.c): trainer_state.json, event files, JSON Lines, logs.
//
// A log that is rotated (another file of that name), truncated or rewritten is read from its start,
// after the rest of the old one. Of more than FOLLOW_OPEN old files the others are opened once they
// change; beyond FOLLOW_FILES none is followed, and `full` is set. trainer_state.json is always
// written as a whole, and is passed on as a whole each time it changes.

#pragma once

#include "base/text.h"

enum { FOLLOW_FILES = 2048, FOLLOW_OPEN = 256, FOLLOW_DEPTH = 4, FOLLOW_HEAD = 64 };

struct follow_piece {
    const char *path;
    int file;          // index of the path; does not change
    bool whole;        // bytes is a whole document; otherwise what was added
    bool begins;       // the first piece of a new file of that name
    struct text bytes; // valid during the callback
    double seconds;    // as passed to follow_poll()
};

typedef void follow_callback(void *context, const struct follow_piece *piece);

struct follow_file {
    const char *path;
    int fd; // -1: not open
    bool whole, begins;
    int64_t offset, size;
    uint64_t device, inode;
    double modified_seconds;
    char head[FOLLOW_HEAD]; // the first bytes; if they change, it is another file
    size_t head_size;
};

struct follow {
    struct arena *arena;
    const char *path;
    follow_callback *give;
    void *context;
    struct follow_file files[FOLLOW_FILES];
    int count;
    bool full;
    bool started;           // files that appear from now on are new
    double scanned_seconds; // when the folder was last scanned
};

void follow_start(struct follow *follow, struct arena *arena, const char *path,
                  follow_callback *give, void *context);
bool follow_poll(struct follow *follow, double seconds); // whether anything was passed on
void follow_end(struct follow *follow);                  // accepts a zeroed one
