// SPDX-License-Identifier: Apache-2.0
// group_start: starts the ranks of a run on this host as processes, and ends them together.
//
//     if (group_start_is_wanted(&place, ranks))
//         return group_start(arena, words, &place, ranks);   // this process only watches
//
// Each rank is this program with the same words and torchrun's variables. The first that fails says
// why; one that a signal kills is reported here. The others then end by themselves, or after two
// seconds by SIGKILL. If this process is killed, the kernel kills the ranks. SIGINT and SIGTERM
// reach all of them: they save, and end.

#pragma once

#include "train/group/group_place.h"

#include <stdint.h>

// Whether this process should start ranks instead of being one. asked: --ranks, 0 if not given.
bool group_start_is_wanted(const struct group_place *place, int64_t asked);

// Until all have ended. words: of the command line, the program's name first, ended by NULL. The
// text of the failure is empty where a rank has told it.
enum err group_start(struct arena *arena, char **words, const struct group_place *place,
                     int64_t asked);
