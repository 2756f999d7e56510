// SPDX-License-Identifier: Apache-2.0
// zip: unpacks the files of a small zip archive into memory.
//
//     struct zip_file *files;
//     TRY(zip_read(&files, &count, arena, text, "catalog.zip"));
//     files[0].name …, files[0].text …
//
// Reads the central directory and members that are stored or deflated, and checks their CRC. What
// is encrypted, split over disks, larger than 4 GiB or packed otherwise is refused with a sentence,
// as is an archive that unpacks to more than 100 times its size once it is past 64 MiB. Folders are
// left out.

#pragma once

#include "base/text.h"

struct zip_file {
    const char *name;
    struct text text;
};

bool zip_is(struct text bytes); // by the first bytes
enum err zip_read(struct zip_file **out, size_t *count, struct arena *arena, struct text zip,
                  const char *name);
