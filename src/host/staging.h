// SPDX-License-Identifier: Apache-2.0
// staging: a folder that appears complete or not at all.
//
//     struct staging staging;
//     TRY(staging_open(&staging, arena, "out"));
//     err = fill(staging.temporary);
//     err = err ? err : staging_commit(&staging);
//     staging_release(&staging);
//
// Files are created in a folder of a temporary name next to the target, which is renamed when all
// is done. staging_release() removes what was not committed.

#pragma once

#include "base/text.h"

struct staging {
    const char *path, *temporary; // in the arena
    bool made;                    // the temporary folder exists
};

// ERR_INPUT if something other than an empty folder has that name.
enum err staging_open(struct staging *staging, struct arena *arena, const char *path);
enum err staging_commit(struct staging *staging);
void staging_release(struct staging *staging);
