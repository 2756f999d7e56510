// SPDX-License-Identifier: Apache-2.0
// ranks: runs a command as one of several processes that train together, or starts these processes.
//
//     bool is_over;
//     TRY(ranks_open(&group, line, "train", asked, &is_over)); // --ranks N starts N processes …
//     if (is_over)
//         return OK;                                           // … and waits for them
//     enum err err = work(&group);
//     err = ranks_report(&group, err);                         // says it once, and ends the others

#pragma once

#include "cli/command.h"
#include "train/group/group.h"

enum err ranks_open(struct group *group, struct command_line *line, const char *command,
                    int64_t asked, bool *is_over);
enum err ranks_report(struct group *group, enum err err);
