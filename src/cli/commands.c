// SPDX-License-Identifier: Apache-2.0
// The table of commands, in the order of the guide.

#include "cli/command.h"

extern const struct command command_plan, command_profile, command_memory, command_pilot,
    command_train, command_watch, command_hosts, command_launch, command_report, command_runs,
    command_merge, command_pack, command_tokenize, command_template, command_show, command_validate;

const struct command *const commands[] = {
    &command_plan,
    &command_profile,
    &command_memory,
    &command_pilot,
    &command_train,
    &command_watch,
    &command_hosts,
    &command_launch,
    &command_report,
    &command_runs,
    &command_merge,
    &command_pack,
    &command_tokenize,
    &command_template,
    &command_show,
    &command_validate,
    NULL,
};
