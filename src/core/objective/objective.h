// SPDX-License-Identifier: Apache-2.0
// objective: what is optimised, and what that adds to a training step.
//
// Supervised tuning is one forward and one backward pass of each row. Preference tuning compares
// two rows of a pair, and most kinds of it ask a frozen reference about both; a reward model scores
// rows instead of tokens. Reinforcement learning has the model write the answers first
// (rollout.h), and PPO trains a critic beside it. All of that is data here (objectives[], and what
// trainers differ in), and reaches the step list as struct step_passes: memory, time, search and
// forecast then work on its totals and know nothing of objectives.
//
//     struct objective objective = { .kind = OBJECTIVE_DPO, .reference = REFERENCE_AUTO };
//     TRY(objective_check(&objective, &recipe));
//     setup.passes = objective_passes(&objective, &recipe, stack, epochs);
//     TRY(objective_phases(&phases, arena, &setup, efficiency));
//
// Formulas: docs/formulas.md, section objective.

#pragma once

#include "core/step/estimate.h"

enum objective_kind {
    OBJECTIVE_SFT,
    OBJECTIVE_DPO,
    OBJECTIVE_ORPO,
    OBJECTIVE_KTO,
    OBJECTIVE_SIMPO,
    OBJECTIVE_IPO,
    OBJECTIVE_REWARD,
    OBJECTIVE_GRPO,
    OBJECTIVE_DAPO,
    OBJECTIVE_GSPO,
    OBJECTIVE_RLOO,
    OBJECTIVE_PPO,
    OBJECTIVES,
    OBJECTIVE_AUTO = OBJECTIVES, // of a request: nobody said; supervised tuning
};
extern const char *const objective_names[]; // "sft", "dpo", …, "auto", NULL

enum objective_reference {
    REFERENCE_AUTO,        // adapters switched off where there are some, else a second model
    REFERENCE_ADAPTERS,    // the model itself with its adapters switched off
    REFERENCE_MODEL,       // a second, frozen copy in the GPUs' memory
    REFERENCE_PRECOMPUTED, // one pass over the data before training
    REFERENCE_NONE,
};
extern const char *const objective_reference_names[]; // "auto", "adapters", …, NULL

enum objective_reward {
    REWARD_RULE,  // a function on the host's cores
    REWARD_MODEL, // a frozen model of the policy's size in the GPUs' memory
};
extern const char *const objective_reward_names[]; // "rule", "model", NULL

struct objective {
    enum objective_kind kind;
    enum objective_reference reference;
    enum objective_reward reward; // of those that sample
};

// ERR_USAGE for a reference or a reward that the objective cannot have.
enum err objective_check(const struct objective *objective, const struct recipe *recipe);

bool objective_is_paired(enum objective_kind kind); // a row of the data is two answers
bool objective_samples(enum objective_kind kind);   // it trains on answers that the model writes

// Of an objective that samples: the answers to a prompt where nobody says, and how many answers are
// sampled for each that is trained on.
double objective_generations(enum objective_kind kind);
double objective_oversampling(enum objective_kind kind);

// Without a critic an answer is held against the other answers to its prompt: two at least.
double objective_fewest_generations(enum objective_kind kind);

// The sequences of what --micro-batch counts: 2 of a pair.
double objective_rows_each(enum objective_kind kind);

// How the trainer of a stack batches the rows of this objective where nobody says; `usual` is what
// it does in supervised tuning.
int objective_batching(enum objective_kind kind, const struct stack *stack, int usual);

// The reference that is used: never REFERENCE_AUTO.
enum objective_reference objective_reference_of(const struct objective *objective,
                                                const struct recipe *recipe);

struct step_passes objective_passes(const struct objective *objective, const struct recipe *recipe,
                                    const struct stack *stack, double epochs);

// How much wider the logarithm of the speed is than that of supervised tuning, as a standard
// deviation: what was measured of an objective itself is little.
double objective_spread(enum objective_kind kind);

// Where the seconds of one step go. A phase that an objective does not have is not listed.
struct objective_phase {
    const char
        *name; // "rollout", "reward", "reference", "log-probabilities", "critic", "training" …
    double seconds, share;
    bool beside; // on GPUs of its own while the others run: not part of the step's time
};
enum { OBJECTIVE_PHASES = 8 };
struct objective_phases {
    struct objective_phase items[OBJECTIVE_PHASES];
    size_t count;
};

// ERR_INPUT where a pilot measured another objective (NULL: supervised tuning).
enum err objective_check_pilot(enum objective_kind kind, const char *measured, const char *name);

// Of the setup's step on its GPU, divided by what the stack reaches of the roofline. Without those
// that run beside, they add up to the step.
enum err objective_phases(struct objective_phases *out, struct arena *arena,
                          const struct setup *setup, double efficiency);
