// trainer_config: what a trainer is configured with, key by key; plan_from makes options of it.
//
//     struct trainer_config config = { .arena = arena };
//     TRY(trainer_config_add(&config, &tree, "axolotl.yml"));       // a JSON tree, once a file
//     TRY(trainer_config_words(&config, words));                    // a command line, if any
//
// Which trainer a file is of is told by its keys. Several files are merged: a later one beats an
// earlier one. Every key ends up in a list: understood (it stands for an option), ignored (and
// whether that is harmless), and what contradicts each other is a sentence. What a trainer does
// where a key is missing is understood too, as its default. Tables: trainer_config_tables.c.
//
// Texts point into the arena and into the trees, which the caller keeps.

#pragma once

#include "base/json.h"
#include "base/text.h"

enum trainer_config_effect {
    TRAINER_CONFIG_UNDERSTOOD,
    TRAINER_CONFIG_HARMLESS, // ignored: it changes neither time nor memory
    TRAINER_CONFIG_MATTERS,  // ignored: it does, and no option stands for it
    TRAINER_CONFIG_UNKNOWN,  // ignored: nobody here knows the key
};
extern const char *const trainer_config_effects[]; // "understood", "harmless", "matters", "unknown"

struct trainer_config_item {
    const char *file, *key, *value;
    enum trainer_config_effect effect;
    const char *option; // it goes into, as in JSON; NULL where it is ignored
    const char *remark; // may be NULL
    bool off;           // a switch that is off and so sets nothing
    bool beaten;        // the command line says otherwise
};

struct trainer_config_file {
    const char *name, *trainer;
};

enum {
    TRAINER_CONFIG_FILES = 16,
    TRAINER_CONFIG_FACTS = 48,
    TRAINER_CONFIG_OPTIONS = 24,
    TRAINER_CONFIG_CONTRADICTIONS = 16,
};

// Something said, before it is an option: accumulation is one, the global batch the other.
struct trainer_config_fact {
    const char *value; // NULL: not said
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
    unsigned trainers; // a bit for each that a file was of
    struct {
        const char *option, *value;
    } options[TRAINER_CONFIG_OPTIONS]; // as filled in
    size_t option_count;
};

// ERR_INPUT where the tree is of no known trainer, or a value is none that its key can have.
enum err trainer_config_add(struct trainer_config *config, const struct json *tree,
                            const char *name);

// Reads the words of a trainer's command line, NULL-terminated: trl sft --lora_r 16, and what
// launchers before it say of GPUs. Words that nobody knows are passed over.
enum err trainer_config_words(struct trainer_config *config, char **words);

// A file that another names is not here: what its name says of it ("ds_z3_config.json").
void trainer_config_missing(struct trainer_config *config, const char *path);

// Such a file is here, but cannot be read.
void trainer_config_unreadable(struct trainer_config *config, const char *path, const char *why);

const char *trainer_config_option(const struct trainer_config *config, const char *option); // NULL

void trainer_config_text(const struct trainer_config *config, struct out *out);
void trainer_config_write(const struct trainer_config *config, struct json_writer *w); // "from"
