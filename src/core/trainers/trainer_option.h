// SPDX-License-Identifier: Apache-2.0
// trainer_option: what the options of other trainers are called here, for hints in errors.
//
//     const struct trainer_option *known = trainer_option_find(TEXT("max_seq_length"), NULL);
//     fail(ERR_USAGE, "did you mean %s?", trainer_option_words(known, arena)); // --context
//
// The names are those of transformers, TRL, PEFT, axolotl, LLaMA-Factory, torchtune and DeepSpeed.
// Nothing is read by them: --from reads whole configurations of trainers.

#pragma once

#include "base/text.h"

struct trainer_option {
    const char *theirs;    // letters and digits count, as in text_alike()
    const char *ours;      // the field of ours
    const char *words;     // what to write; NULL: the option itself
    const char *otherwise; // the way out where a command has no such option; NULL: by the caller
};

// The row behind the given one, the first behind NULL; NULL: the end.
const struct trainer_option *trainer_option_next(const struct trainer_option *after);

// The first row with this name behind the given one (NULL: of all), or NULL. Commands differ in
// their options, so that a name may have several.
const struct trainer_option *trainer_option_find(struct text name,
                                                 const struct trainer_option *after);
const char *trainer_option_words(const struct trainer_option *option, struct arena *arena);

// The options that say this value of an option of ours: --method dora is "--method lora --dora".
const char *trainer_option_value(struct text ours, struct text value); // NULL: not known
