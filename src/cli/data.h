// SPDX-License-Identifier: Apache-2.0
// data: the catalogs and the model that a command line names.

#pragma once

#include "cli/command.h"
#include "core/plan/plan.h"

// Opens the embedded catalogs, with the files of --data DIR over them.
enum err data_open(struct catalog *catalog, const struct command_line *line);

// The same, with the stacks and their efficiencies.
enum err data_plan(struct plan_data *data, const struct command_line *line);

// The model of a config.json, of a folder that holds one, or of the catalog.
enum err data_model(const struct model **out, const struct catalog *catalog, const char *name);

// Looks up the model of a request, unless a plan's document brought its shape, and reads a stack
// file.
enum err data_request(struct plan_request *request, const struct plan_data *data);

// Says which options of adapters or quantized weights stand beside a method that has none.
void data_note_unused(const struct recipe *recipe, const struct command_line *line);

// A checkpoint whose name says that its weights are quantized is planned as that, unless --method
// is given; says so either way.
void data_take_quantized(struct plan_request *request, const struct command_line *line);

// What a plan takes for options that are not given, with the built-in catalogs: for --help.
const struct plan_request *data_defaults(struct arena *arena);

// How the model reads images, NULL: it does not, or is not known; and its positions, 0: not known.
enum err data_vision(const struct vision **out, int64_t *positions, const struct command_line *line,
                     const char *model);

// The trainer (core/data/packing.h) that a stack names: of the catalog, or of a file.
enum err data_trainer(const char **out, const struct command_line *line, const char *stack);

// Today's date in UTC: "2026-11-15".
const char *data_today(struct arena *arena);
