// SPDX-License-Identifier: Apache-2.0
// trainer_rows: what the tables of configuration keys share: words, and how a row is written.
//
// The rows of each trainer stand in trainer_rows_*.c, the words that several of them read in
// trainer_words.c; trainer_config_tables.c says how each trainer is recognised.

#pragma once

#include "core/trainers/trainer_facts.h"

extern const struct trainer_config_word trainer_words_optimizers[], trainer_words_precisions[],
    trainer_words_adapters[], trainer_words_recomputes[], trainer_words_attentions[],
    trainer_words_shardings[], trainer_words_reshards[], trainer_words_stages[],
    trainer_words_devices[];

extern const struct trainer_config_row trainer_rows_axolotl[], trainer_rows_transformers[],
    trainer_rows_llama_factory[], trainer_rows_peft[], trainer_rows_torchtune[],
    trainer_rows_litgpt[], trainer_rows_nemo[], trainer_rows_accelerate[], trainer_rows_deepspeed[],
    trainer_rows_verl[], trainer_rows_nemo_rl[], trainer_rows_openrlhf[], trainer_rows_ms_swift[],
    trainer_rows_command[];

extern const struct trainer_config_default trainer_defaults_axolotl[],
    trainer_defaults_transformers[], trainer_defaults_trl[], trainer_defaults_llama_factory[],
    trainer_defaults_peft[], trainer_defaults_torchtune[], trainer_defaults_litgpt[],
    trainer_defaults_nemo[], trainer_defaults_whole_model[], trainer_defaults_verl[],
    trainer_defaults_openrlhf[], trainer_defaults_ms_swift[];

#define IGNORE(key)                           \
    {                                         \
        key, FACT_NONE, READ_SKIP, NULL, NULL \
    }
#define LOST(key, why)                       \
    {                                        \
        key, FACT_LOST, READ_SKIP, why, NULL \
    }
#define WORD(key, fact, table)            \
    {                                     \
        key, fact, READ_WORD, NULL, table \
    }
#define READ(key, fact, how)       \
    {                              \
        key, fact, how, NULL, NULL \
    }
#define IF(key, fact, word)            \
    {                                  \
        key, fact, READ_IF, word, NULL \
    }
#define ADD(key, word)                          \
    {                                           \
        key, FACT_TARGETS, READ_ADD, word, NULL \
    }

// Of the engine that samples answers, whose share and split the forecast chooses itself.
#define CACHE_SHARE "how much memory the sampler has for its cache; the forecast assumes its own"
#define SAMPLER_SPLIT "GPUs of one sampling engine; the forecast takes the fewest that hold it"

// A key that one objective alone has, whatever its value.
#define KIND(key, objective)                          \
    {                                                 \
        key, FACT_KIND, READ_PRESENT, objective, NULL \
    }
#define HINT(key)                                 \
    {                                             \
        key, FACT_HINT, READ_PRESENT, "yes", NULL \
    }
