// SPDX-License-Identifier: Apache-2.0
// tuned: keeps what tuning chose in a file, so that the next run of the same work need not tune.
//
//     if (!tuned_recall(device, work)) {   // gives the device what the file has for this work
//         … tune …
//         tuned_keep(device, work);
//     }
//
// `work` is a checksum of whatever decides which operations a run has. A run takes the choices of a
// run of the same work, all of them or none: so the algorithms of a run do not depend on what else
// ran on this machine. The file is a cache: choices count only with the checksum they were written
// with and on the same card, driver and libraries, and a file that somebody else could have written
// is not read. Writers take turns by a lock and replace the file as a whole. Where it cannot be
// written, nothing is kept and training goes on.

#pragma once

#include "base/text.h"
#include "train/backend.h"

enum { TUNED_MOST = 4096 }; // choices in a file; those of the latest works are kept

// Beside the ledger, or the file that GPUHOURS_TUNED names; NULL: none.
const char *tuned_path(struct arena *arena);

bool tuned_recall(struct device *device, uint64_t work); // whether there were any
void tuned_keep(struct device *device, uint64_t work);

// The choices for a work on a device that is described by `about`; none where there is no such
// file, or it is not one of ours.
struct tuned_list {
    struct tuned *items;
    int64_t count;
};
struct tuned_list tuned_read(struct arena *arena, const char *path, const char *about,
                             uint64_t work);

// Replaces the choices of that work, and keeps those of others.
enum err tuned_write(const char *path, const char *about, uint64_t work, struct tuned_list list);
