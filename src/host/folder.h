// SPDX-License-Identifier: Apache-2.0
// folder: the files of a folder with a given ending, mapped and sorted by name.
//
//     struct folder folder = { 0 };
//     TRY(folder_open(&folder, arena, "my-data", ".csv"));
//     … folder.files[0].file.text …
//     folder_close(&folder);

#pragma once

#include "host/file.h"

struct folder_file {
    const char *name, *path; // "gpus.csv", "my-data/gpus.csv"
    struct file file;
};

struct folder {
    struct folder_file *files;
    size_t count;
};

enum err folder_open(struct folder *folder, struct arena *arena, const char *path,
                     const char *ending);
void folder_close(struct folder *folder);
enum err folder_try(const char *path); // ERR_INPUT: files cannot be put there, nor can it be made
bool folder_is(const char *path);      // whether it is a folder
bool folder_has(const char *path,
                const char *name); // whether that file exists; name "": path itself
