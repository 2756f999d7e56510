// SPDX-License-Identifier: Apache-2.0
// trainer_facts: the meaning of the keys in trainers' configurations, as one table per trainer.

#pragma once

#include "core/trainers/trainer_config.h"

enum trainer_config_fact_name {
    FACT_NONE, // ignored, harmless
    FACT_LOST, // ignored although it matters; the row's word tells how
    FACT_MODEL,
    FACT_ADAPTER, // full, none (full, whatever is said of adapters), lora, qlora
    FACT_QUANTIZATION,
    FACT_NESTED,
    FACT_RANK,
    FACT_ALPHA,
    FACT_DROPOUT,
    FACT_TARGETS,
    FACT_EMBEDDINGS,
    FACT_ATTENTION,
    FACT_EXPERTS,
    FACT_PRECISION,
    FACT_WEIGHTS,
    FACT_OPTIMIZER,
    FACT_CONTEXT,
    FACT_PACKED,
    FACT_PADDED, // to the context
    FACT_GROUPED,
    FACT_MICRO,
    FACT_ACCUMULATION,
    FACT_GLOBAL,
    FACT_RECOMPUTE,
    FACT_RECOMPUTE_FSDP,
    FACT_ZERO,
    FACT_FSDP,
    FACT_FSDP_USED, // whatever it shards
    FACT_OFFLOAD_OPTIMIZER,
    FACT_OFFLOAD_WEIGHTS,
    FACT_OFFLOAD_FSDP, // weights, gradients and optimizer states
    FACT_OFFLOAD_ACTIVATIONS,
    FACT_SYNC,
    FACT_IN_BACKWARD,
    FACT_TENSOR,
    FACT_SEQUENCE,
    FACT_PIPELINE,
    FACT_GPUS,
    FACT_GPUS_PER_NODE,
    FACT_NODES,
    FACT_EPOCHS,
    FACT_EVAL_SHARE, // of the data, held out of the training; rows from 1 on
    FACT_MOST_ROWS,  // of each data set; the others are not read
    FACT_EVALS,
    FACT_EVAL_WHEN,  // no, steps, epoch
    FACT_EVAL_EVERY, // steps; below 1 a share of the run
    FACT_EVAL_SET,   // there are rows of its own to evaluate on
    FACT_SAVES,      // per epoch
    FACT_SAVE_WHEN,
    FACT_SAVE_EVERY,
    FACT_SEED,
    FACT_OBJECTIVE, // as the trainer spells it; what the two below say counts without it
    FACT_PROGRAM,   // the objective that the name of the program tells
    FACT_KIND,      // the objective of a key that only it has
    FACT_LOSS,      // of preference tuning: sigmoid, ipo, simpo
    FACT_HINT,      // a key that only preference tuning or RL has, which of them is not said
    FACT_REFERENCE,
    FACT_KL,          // how much the distance to a reference counts; 0: there is no reference
    FACT_MOST_PROMPT, // tokens
    FACT_MOST_ANSWER,
    FACT_GENERATIONS,
    FACT_PROMPTS,        // of a step, each answered by generations
    FACT_UPDATE_PROMPTS, // of them, those of one update
    FACT_ROUNDS,         // of training on the answers of a step
    FACT_EPISODES,       // passes over the prompts, where epochs are rounds
    FACT_SAMPLER,
    FACT_ASYNC, // steps that answers may be behind
    FACT_REWARD,
    FACT_STEPS,   // of the run, in place of epochs
    FACT_DATASET, // the first one that is named
    FACT_STACK,
    FACT_FILE, // names another configuration
    FACTS,
};
_Static_assert((int)FACTS <= (int)TRAINER_CONFIG_FACTS, "facts have no room");

// How a value becomes a fact.
enum trainer_config_reads {
    READ_SKIP,     // of FACT_NONE
    READ_COUNT,    // 1 and more
    READ_NUMBER,   // not negative
    READ_SHARE,    // 0 to 1; of rows held out, a count too
    READ_TEXT,     // unchanged
    READ_DATASET,  // a text, or the path of the first of a list
    READ_FLAG,     // yes or no
    READ_IF,       // the row's word if true, else nothing
    READ_IF_AUTO,  // likewise, and "auto" is true
    READ_IF_NOT,   // the row's word if false
    READ_PRESENT,  // the row's word, whatever the value
    READ_ADD,      // adds the row's word to a list if true
    READ_LIST,     // a list of words: targets
    READ_SAVED,    // modules trained in full: embeddings or not
    READ_WORD,     // by the row's table
    READ_COMPONENT // torchtune's model builder
};

struct trainer_config_word {
    const char *from; // in lower case, without - and _, only the part after the last "."
    const char *to;   // NULL: means nothing
};

struct trainer_config_row {
    const char *key; // nested: "train.epochs"; ends in '*' if it is a prefix
    enum trainer_config_fact_name fact;
    enum trainer_config_reads reads;
    const char *word;                        // of READ_IF, READ_ADD and FACT_LOST
    const struct trainer_config_word *words; // of READ_WORD, ended by { 0 }
};

struct trainer_config_default {
    enum trainer_config_fact_name fact;
    const char *value;
};

enum trainer_config_trainer {
    TRAINER_VERL,
    TRAINER_NEMO_RL,
    TRAINER_OPENRLHF,
    TRAINER_TORCHTUNE,
    TRAINER_PEFT,
    TRAINER_AXOLOTL,
    TRAINER_LLAMA_FACTORY,
    TRAINER_MS_SWIFT,
    TRAINER_NEMO,
    TRAINER_LITGPT,
    TRAINER_ACCELERATE,
    TRAINER_DEEPSPEED,
    TRAINER_TRL,
    TRAINER_TRANSFORMERS,
    TRAINER_COMMAND,
    TRAINERS,
};

enum { TRAINER_CONFIG_TELLS = 16 };

struct trainer_config_table {
    const char *trainer;
    const char *tells[TRAINER_CONFIG_TELLS];       // keys by which its files are recognised
    const struct trainer_config_row *rows, *more;  // more: of the library below it; may be NULL
    const struct trainer_config_default *defaults; // ended by { 0 }; NULL: it has none
    const char *stack;                             // NULL: does not tell the stack
    const char *many;                              // default layout on several GPUs
};
extern const struct trainer_config_table trainer_config_tables[TRAINERS]; // the first match counts

extern const struct trainer_config_row trainer_config_common[]; // for all trainers, searched last

// The option that a fact sets, as in JSON; "" if several facts set it together.
extern const char *const trainer_config_fact_options[FACTS];

void trainer_config_note(struct trainer_config *config, struct trainer_config_item item);
void trainer_config_contradict(struct trainer_config *config, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Sets a fact; a different earlier value is reported as a contradiction and replaced.
void trainer_config_say(struct trainer_config *config, enum trainer_config_fact_name fact,
                        const char *value, const char *file, const char *key);
