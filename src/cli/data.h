// data: the catalogs and the model that a command line asks for.

#pragma once

#include "cli/command.h"
#include "core/plan/plan.h"

// Opens the embedded catalogs, with the files of --data DIR over them.
enum err data_open(struct catalog *catalog, const struct command_line *line);

// Likewise with the stacks and their efficiencies.
enum err data_plan(struct plan_data *data, const struct command_line *line);

// The model of a config.json, of a folder that holds one, or of the catalog.
enum err data_model(const struct model **out, const struct catalog *catalog, const char *name);

// Reads the model and the stack of a request where they are files.
enum err data_request(struct plan_request *request, const struct plan_data *data);

// The trainer (core/data/packing.h) that a stack names: of the catalog, or of a file.
enum err data_trainer(const char **out, const struct command_line *line, const char *stack);

// Today's date, as the universal clock has it: "2026-11-15".
const char *data_today(struct arena *arena);
