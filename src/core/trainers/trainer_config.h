// SPDX-License-Identifier: Apache-2.0
// trainer_config: reads the configuration of a trainer, key by key; plan_from makes options of it.
//
//     struct trainer_config config = { .arena = arena };
//     TRY(trainer_config_add(&config, &tree, "axolotl.yml"));       // a JSON tree, once per file
//     TRY(trainer_config_words(&config, words));                    // a command line, if any
//
// The keys of a file tell which trainer it belongs to. Several files are merged; a later one
// overrides an earlier one. Every key is listed as understood (it sets an option) or ignored (and
// whether that is harmless); contradictions are sentences. The trainer's default of a missing key
// is applied too. Tables: trainer_config_tables.c and trainer_rows_*.c.
//
// Texts point into the arena and into the trees, which the caller keeps.

#pragma once

#include "base/json.h"
#include "base/text.h"

enum trainer_config_effect {
    TRAINER_CONFIG_UNDERSTOOD,
    TRAINER_CONFIG_HARMLESS, // ignored: it changes neither time nor memory
    TRAINER_CONFIG_MATTERS,  // ignored: it does, but there is no option for it
    TRAINER_CONFIG_UNKNOWN,  // ignored: the key is not in the tables
};
extern const char *const trainer_config_effects[]; // "understood", "harmless", "matters", "unknown"

struct trainer_config_item {
    const char *file, *key, *value;
    enum trainer_config_effect effect;
    const char *option; // that it sets, as in JSON; NULL if it is ignored
    const char *remark; // may be NULL
    bool off;           // a switch that is off: it sets nothing
    bool beaten;        // overridden by the command line
};

struct trainer_config_file {
    const char *name, *trainer;
};

enum {
    TRAINER_CONFIG_FILES = 16,
    TRAINER_CONFIG_FACTS = 80,
    TRAINER_CONFIG_OPTIONS = 48,
    TRAINER_CONFIG_CONTRADICTIONS = 16,
};

// A setting before it becomes an option: accumulation, for example, goes into the global batch.
struct trainer_config_fact {
    const char *value; // NULL: not given
    const char *file, *key;
};

struct trainer_config {
    struct arena *arena;
    struct trainer_config_file files[TRAINER_CONFIG_FILES];
    size_t file_count;
    struct trainer_config_item *items;
    size_t item_count, item_room;
    const char *contradictions[TRAINER_CONFIG_CONTRADICTIONS];
    size_t contradiction_count;
    const char *references[TRAINER_CONFIG_FILES]; // files that a file names: a DeepSpeed JSON
    size_t reference_count;
    struct trainer_config_fact facts[TRAINER_CONFIG_FACTS];
    unsigned trainers; // a bit for each trainer recognised
    struct {
        const char *option, *value;
    } options[TRAINER_CONFIG_OPTIONS]; // that plan_from filled in
    size_t option_count;
};

// ERR_INPUT for a shell script, a Python program or a notebook, by its name or its first words:
// says what to do instead.
enum err trainer_config_check_look(struct text text, const char *name);

// ERR_INPUT if the tree belongs to no known trainer, or a value is invalid for its key.
enum err trainer_config_add(struct trainer_config *config, const struct json *tree,
                            const char *name);

// Reads a trainer's command line, NULL-terminated: trl sft --lora_r 16, and the GPU options of
// launchers before it. Unknown words are skipped.
enum err trainer_config_words(struct trainer_config *config, char **words);

// A referenced file is missing: takes what its name tells ("ds_z3_config.json").
void trainer_config_missing(struct trainer_config *config, const char *path);

// A referenced file cannot be read.
void trainer_config_unreadable(struct trainer_config *config, const char *path, const char *why);

const char *trainer_config_option(const struct trainer_config *config, const char *option); // NULL

// The keys that matter and are ignored, two by name and the number of the others; NULL: none.
const char *trainer_config_lost(const struct trainer_config *config);

void trainer_config_text(const struct trainer_config *config, struct out *out);
void trainer_config_write(const struct trainer_config *config, struct json_writer *w); // "from"
