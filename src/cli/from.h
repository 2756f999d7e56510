// SPDX-License-Identifier: Apache-2.0
// from: fills the options of a command from configurations of trainers, before its own are read.
//
//     struct from from = { 0 };
//     const struct options groups[] = { …, { "Trainer", from_fields, &from }, { 0 } };
//     TRY(command_read(line, groups));
//     if (from_given(&from, line)) {
//         TRY(from_read(&from, line));
//         TRY(from_fill(&from, &request, given.gpus));
//         TRY(command_read(line, groups));               // the command line beats the files
//     }
//
// --from may be given several times; the files are merged. Files that they name (a DeepSpeed JSON)
// are read too, as named or from the folder of the file that names them. The words after -- are a
// trainer's command line. Contradictions go to standard error.

#pragma once

#include "cli/command.h"
#include "core/plan/plan_from.h"

struct from {
    const char *from; // the last --from; the word "command" means the words after --
    struct trainer_config *config;
};
extern const struct field from_fields[];

bool from_given(const struct from *from, const struct command_line *line);
enum err from_read(struct from *from, struct command_line *line);

// gpus: of the command line, PLAN_NOT_GIVEN if it says nothing.
enum err from_fill(struct from *from, struct plan_request *request, int64_t gpus);

// Prints what contradicts to standard error, and which options of the line beat a file.
void from_warn(const struct from *from, const struct command_line *line);
