// SPDX-License-Identifier: Apache-2.0
// launcher: the programs that start a command once per rank, and the variables that say which rank
// it is.
//
//     const struct launcher *from = launcher_find(getenv); // NULL: none
//     … from->name, getenv(from->rank), getenv(from->size) …
//
// One table serves the shares of `profile` and `pack` (host/shard) and the ranks of `train`
// (train/group/group_place), so that all commands of a job count its processes alike.

#pragma once

#include <stdbool.h>

// Names of environment variables; NULL: the launcher does not say.
struct launcher {
    const char *name;
    const char *rank, *size, *local_rank, *local_size;
    const char *mark; // must be set too, where rank and size may be another launcher's
    bool is_per_host; // starts one process per host: rank and size count hosts
    const char *address, *port, *job; // of rank 0; what tells this job from others of the user
};

// The launcher that started this process: the innermost, where one runs inside another.
const struct launcher *launcher_find(char *(*variable)(const char *name));
