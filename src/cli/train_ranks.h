// SPDX-License-Identifier: Apache-2.0
// train_ranks: starts the ranks of a training run on this host, and ends them together.
//
//     if (train_ranks_are_wanted(&place, ranks))
//         return train_ranks_run(line, &place, ranks);   // this process only watches
//
// Each rank is this program with the same words and torchrun's variables. The first that fails says
// why; one that a signal kills is reported here. The others then end by themselves, or after ten
// seconds by SIGKILL. If this process is killed, the kernel kills the ranks. SIGINT and SIGTERM
// reach all of them: they save, and end.

#pragma once

#include "cli/command.h"
#include "train/group/group.h"
#include "train/group/group_place.h"

// Whether this process should start ranks instead of being one. asked: --ranks, 0 if not given.
bool train_ranks_are_wanted(const struct group_place *place, int64_t asked);
enum err train_ranks_run(const struct command_line *line, const struct group_place *place,
                         int64_t asked);

// For group_place.lost: says what happened, if it is this rank's to say, and ends the process.
void train_ranks_end_process(void *context, enum err err, const char *text);

// The end of a rank: a failure is told here, once for all ranks that meet the same, and to them.
enum err train_ranks_report(struct group *group, enum err err);
