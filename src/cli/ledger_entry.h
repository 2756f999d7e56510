// ledger_entry: what commands leave in the ledger, and what it teaches the next plan.
//
//     ledger_entry_document(line, out_view(&document));   // at the end of a command
//
// The command's own work is never lost for the ledger's sake: what goes wrong there is a line on
// standard error and changes no exit code. Where the user's data folder cannot be written and no
// --ledger was asked for, nothing is said.

#pragma once

#include "cli/command.h"
#include "core/measured/history.h"
#include "core/plan/plan.h"
#include "host/ledger.h"

// Remembers a document of kind profile, plan, pilot or run. A pilot or run becomes the answer to
// the newest plan of its --name, else to the newest of the same configuration.
void ledger_entry_document(const struct command_line *line, struct text document);

// Likewise, as the answer to that plan's document, which is remembered too if it is not yet.
void ledger_entry_answer(const struct command_line *line, struct text document, struct text plan);

// Gives the plan the ledger's pilots and runs: data->ledger. Nothing with --ledger off.
void ledger_entry_learn(struct plan_data *data, const struct command_line *line);

// For `runs`, where the ledger is the matter: its failures are the command's. NULL with OK: there
// is none to look at yet.
enum err ledger_entry_open(struct ledger **out, const struct command_line *line, bool to_write);

// Adds one that was read from a document, as the answer to plan where that is not NULL.
enum err ledger_entry_add(struct ledger *ledger, const struct command_line *line,
                          struct history_entry *entry, const struct history_entry *plan);
