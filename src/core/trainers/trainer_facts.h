// trainer_facts: what the keys of trainers' configurations mean: facts, as tables per trainer.

#pragma once

#include "core/trainers/trainer_config.h"

enum trainer_config_fact_name {
    FACT_NONE, // ignored, harmless
    FACT_LOST, // ignored, and it matters; the row's word says how
    FACT_MODEL,
    FACT_ADAPTER, // full, lora, qlora
    FACT_QUANTIZATION,
    FACT_NESTED,
    FACT_RANK,
    FACT_ALPHA,
    FACT_DROPOUT,
    FACT_TARGETS,
    FACT_EMBEDDINGS,
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
    FACT_FSDP_USED, // however it shards
    FACT_OFFLOAD_OPTIMIZER,
    FACT_OFFLOAD_WEIGHTS,
    FACT_TENSOR,
    FACT_SEQUENCE,
    FACT_PIPELINE,
    FACT_GPUS,
    FACT_GPUS_PER_NODE,
    FACT_NODES,
    FACT_EPOCHS,
    FACT_EVAL_SHARE,
    FACT_EVALS,
    FACT_SEED,
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
    READ_SHARE,    // 0 to 1; a count above it matters and is lost
    READ_TEXT,     // as it is
    READ_FLAG,     // yes or no
    READ_IF,       // the row's word if it is true, else nothing
    READ_IF_AUTO,  // likewise, and "auto" is true
    READ_IF_NOT,   // if it is false
    READ_ADD,      // the row's word is added to a list if it is true
    READ_LIST,     // of words: targets
    READ_SAVED,    // modules trained whole: embeddings or not
    READ_WORD,     // by the row's table
    READ_COMPONENT // torchtune's model builder
};

struct trainer_config_word {
    const char *from; // in lower case, without - _ . and what stands before the last point
    const char *to;   // NULL: it says nothing
};

struct trainer_config_row {
    const char *key; // of nested ones: "train.epochs"; ends in '*' if more may follow
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
    TRAINER_TORCHTUNE,
    TRAINER_PEFT,
    TRAINER_AXOLOTL,
    TRAINER_LLAMA_FACTORY,
    TRAINER_LITGPT,
    TRAINER_ACCELERATE,
    TRAINER_DEEPSPEED,
    TRAINER_TRL,
    TRAINER_TRANSFORMERS,
    TRAINER_COMMAND,
    TRAINERS,
};

struct trainer_config_table {
    const char *trainer;
    const char *tells[6];                          // a file with one of these keys is of it
    const struct trainer_config_row *rows, *more;  // more: of what it runs on; may be NULL
    const struct trainer_config_default *defaults; // ended by { 0 }; NULL: it has none
    const char *stack;                             // NULL: it decides nothing
    const char *many;                              // layout on several GPUs where nothing is said
};
extern const struct trainer_config_table trainer_config_tables[TRAINERS]; // the first that tells

extern const struct trainer_config_row trainer_config_common[]; // of all, looked at last

// The option that a fact goes into, as in JSON; "" where it is one of several causes.
extern const char *const trainer_config_fact_options[FACTS];

// A value as text: "16", "true", "q_proj,v_proj".
const char *trainer_config_spell(struct arena *arena, const struct json *value);

void trainer_config_note(struct trainer_config *config, struct trainer_config_item item);
void trainer_config_contradict(struct trainer_config *config, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Says a fact; another value said before is a contradiction, and the later one stands.
void trainer_config_say(struct trainer_config *config, enum trainer_config_fact_name fact,
                        const char *value, const char *file, const char *key);
