// SPDX-License-Identifier: Apache-2.0
// hosts: the comparison of places that `gpuhours hosts` prints, for commands that choose from it.

#pragma once

#include "cli/command.h"
#include "core/hosting/hosting.h"

// Its options: the group of --plan and --offers, that of places and prices, that of one's own
// machine, and those of a plan.
const struct options *hosts_options(struct arena *arena);

// Reads the options, which contain at least the first three groups above, and compares all offers.
// Where no offer can run the job: ERR_ANSWER.
enum err hosts_make(struct hosting *out, struct command_line *line, const struct options *all);
