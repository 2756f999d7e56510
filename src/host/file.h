// SPDX-License-Identifier: Apache-2.0
// file: reads or maps files, and writes them atomically.

#pragma once

#include "base/text.h"

struct file {
    struct text text; // the whole content; readable while the file is open
    void *mapped;     // NULL if the content was read into memory
    void *owned;
};

// Maps a large regular file; reads a small one, a pipe, a device or "-" (standard input) to its
// end. If a mapped file is truncated meanwhile, the program ends with a sentence and code
// ERR_INPUT.
enum err file_open(struct file *file, const char *path);
void file_close(struct file *file);

// Copies the whole content into an arena, for callers that keep pointers into it.
enum err file_read(struct text *out, struct arena *arena, const char *path);

// Whether a file, its links followed, lies in the folder where it was found. The cache of Hugging
// Face counts as one folder: its snapshots link to the blobs beside them.
bool file_lies_in(const char *path, const char *folder);

// Writes to a temporary name next to path, then renames: readers see the old content or the new. A
// file that is replaced keeps its permissions; a symbolic link stays and its target is replaced. A
// device, FIFO or socket is written in place. "-" is standard output.
enum err file_write(const char *path, struct text content);

// Whether file_write() could write there, for work whose result comes hours later; leaves nothing.
// NULL is no file. ERR_INPUT with the reason.
enum err file_try(const char *path);

// The same for content that comes in pieces:
//
//     TRY(file_create(&file, path));
//     err = file_append(&file, piece); …
//     err = err ? err : file_commit(&file);
//     file_abandon(&file); // removes what was not committed
struct file_new {
    const char *path;
    char temporary[4096];
    int fd; // -1: committed, or never created
};
enum err file_create(struct file_new *file, const char *path);
enum err file_append(struct file_new *file, struct text piece);
enum err file_commit(struct file_new *file); // flushes to disk, then renames
void file_abandon(struct file_new *file);

// Creates the folders above a file, for its user only; whoever opens the file reports a failure.
void file_make_folders(const char *path);

// Flushes a folder's entries to disk, so that a rename survives a power failure.
enum err file_sync_folder(const char *path);
