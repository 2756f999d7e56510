// SPDX-License-Identifier: Apache-2.0
// ledger_entry: adds the results of commands to the ledger, and gives its runs to the next plan.
//
//     ledger_entry_document(line, out_view(&document));   // at the end of a command
//
// A failure of the ledger never costs a command its result: it is reported on standard error and
// does not change the exit code. If the user's data folder is not writable and no --ledger was
// given, nothing is reported.

#pragma once

#include "cli/command.h"
#include "core/measured/history.h"
#include "core/plan/plan.h"
#include "host/ledger.h"

// Adds a document of kind profile, plan, pilot or run. A pilot or run is linked to the newest plan
// with its --name, otherwise to the newest one of the same configuration.
void ledger_entry_document(const struct command_line *line, struct text document);

// The same, linked to this plan's document, which is added too.
void ledger_entry_answer(const struct command_line *line, struct text document, struct text plan);

// Says why a result is not added to it. Nothing with --ledger off.
void ledger_entry_refuse(const struct command_line *line, const char *why);

// Gives the plan the ledger's pilots and runs: data->ledger. Nothing with --ledger off.
void ledger_entry_learn(struct plan_data *data, const struct command_line *line);

// For `runs`: failures of the ledger are failures of the command. NULL with OK: there is no ledger
// yet.
enum err ledger_entry_open(struct ledger **out, const struct command_line *line, bool to_write);

// Says how many entries the last search left out as damaged, where there are any.
void ledger_entry_warn(const struct ledger *ledger);

// Adds the plan that a result answers; where it is in the ledger already, it keeps its date.
enum err ledger_entry_add_plan(struct ledger *ledger, const struct command_line *line,
                               struct history_entry *plan);

// Adds an entry that was read from a document, linked to plan unless that is NULL. Refuses rates
// above the peak of the GPUs.
enum err ledger_entry_add(struct ledger *ledger, const struct command_line *line,
                          struct history_entry *entry, const struct history_entry *plan);
