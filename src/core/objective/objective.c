// SPDX-License-Identifier: Apache-2.0
// The objectives as a table, what trainers do differently, and the phases of a step.

#include "core/objective/objective.h"

#include "core/data/packing.h"
#include "core/objective/rollout.h"

#include <math.h>
#include <string.h>

const char *const objective_names[] = { "sft",    "dpo",  "orpo", "kto",  "simpo", "ipo",
                                        "reward", "grpo", "ppo",  "auto", NULL };
const char *const objective_reference_names[] = { "auto",        "adapters", "model",
                                                  "precomputed", "none",     NULL };

// KTO's trainers estimate a KL term from mismatched answers: a pass of the policy and one of the
// reference more, both without gradients. ORPO and SimPO were made to need no reference.
static const struct {
    double rows_each;         // sequences of what --micro-batch counts
    double reference, policy; // passes without gradients
    bool scores_rows;         // no logits
    const char *refused;      // why it is not forecast; NULL: it is
} objectives[OBJECTIVES] = {
    [OBJECTIVE_SFT] = { 1, 0, 0, false, NULL },
    [OBJECTIVE_DPO] = { 2, 1, 0, false, NULL },
    [OBJECTIVE_IPO] = { 2, 1, 0, false, NULL },
    [OBJECTIVE_KTO] = { 1, 2, 1, false, NULL },
    [OBJECTIVE_ORPO] = { 2, 0, 0, false, NULL },
    [OBJECTIVE_SIMPO] = { 2, 0, 0, false, NULL },
    [OBJECTIVE_REWARD] = { 2, 0, 0, true, NULL },
    [OBJECTIVE_GRPO] = { 1, 1, 1, false, NULL },
    [OBJECTIVE_PPO] = { 1, 1, 1, false, "its critic is not modelled yet; grpo has none" },
};

// Log-probabilities need the logits, so that losses fused with the head do not apply. Bytes per
// logit at the peak, and moved in both passes. TRL takes 16-bit logits row by row: logits,
// log-softmax, gradient, and the copy whose mean it logs. LLaMA-Factory and OpenRLHF make fp32
// logits first. Megatron's trainers pack pairs and take fp32 log-probabilities of each shard.
static const struct {
    const char *trainer; // as a stack names it; NULL: all others, which build on TRL
    double loss_bytes, loss_moved_bytes;
    bool packs;
} trainers[] = {
    { "llama-factory", 14, 46, false },
    { "nemo", 10, 24, true },
    { NULL, 8, 24, false },
};

static size_t trainer_of(const struct stack *stack)
{
    size_t at = 0;
    while (trainers[at].trainer &&
           (!stack->trainer || strcmp(stack->trainer, trainers[at].trainer)))
        at++;
    return at;
}

enum err objective_check(const struct objective *objective, const struct recipe *recipe)
{
    const char *name = objective_names[objective->kind];
    const char *reference = objective_reference_names[objective->reference];
    if (objectives[objective->kind].refused)
        return fail(ERR_USAGE, "--objective %s: %s", name, objectives[objective->kind].refused);
    if (objective->reference == REFERENCE_AUTO || objective->reference == REFERENCE_NONE)
        return OK;
    if (!(objectives[objective->kind].reference > 0))
        return fail(ERR_USAGE, "--reference %s: %s has no reference; leave it out", reference,
                    name);
    if (objective->reference == REFERENCE_ADAPTERS && recipe->method == RECIPE_FULL)
        return fail(ERR_USAGE, "--reference adapters: --method full has no adapters to switch off; "
                               "use model or precomputed");
    return OK;
}

bool objective_is_paired(enum objective_kind kind)
{
    return objectives[kind].rows_each == 2;
}

double objective_rows_each(enum objective_kind kind)
{
    return objectives[kind].rows_each;
}

int objective_batching(enum objective_kind kind, const struct stack *stack, int usual)
{
    if (kind == OBJECTIVE_SFT)
        return usual;
    return trainers[trainer_of(stack)].packs ? BATCHING_PACKED : BATCHING_LONGEST;
}

enum objective_reference objective_reference_of(const struct objective *objective,
                                                const struct recipe *recipe)
{
    if (!(objectives[objective->kind].reference > 0))
        return REFERENCE_NONE;
    if (objective->reference != REFERENCE_AUTO)
        return objective->reference;
    return recipe->method == RECIPE_FULL ? REFERENCE_MODEL : REFERENCE_ADAPTERS;
}

struct step_passes objective_passes(const struct objective *objective, const struct recipe *recipe,
                                    const struct stack *stack, double epochs)
{
    if (objective->kind == OBJECTIVE_SFT)
        return (struct step_passes){ 0 };
    enum objective_reference reference = objective_reference_of(objective, recipe);
    double passes = reference == REFERENCE_NONE ? 0 : objectives[objective->kind].reference;
    // Once over the data, whatever the number of epochs: spread over the steps of all of them.
    if (reference == REFERENCE_PRECOMPUTED)
        passes /= fmax(1, epochs);
    size_t trainer = trainer_of(stack);
    bool scores = objectives[objective->kind].scores_rows;
    return (struct step_passes){
        .reference = passes,
        .policy = objectives[objective->kind].policy,
        .frozen_copy = reference == REFERENCE_MODEL,
        .scores_rows = scores,
        .loss_bytes = scores ? 0 : trainers[trainer].loss_bytes,
        .loss_moved_bytes = scores ? 0 : trainers[trainer].loss_moved_bytes,
    };
}

double objective_spread(enum objective_kind kind)
{
    return kind == OBJECTIVE_SFT ? 0 : kind == OBJECTIVE_GRPO ? 0.35 : 0.15;
}

// --- phases ------------------------------------------------------------------

static void add_phase(struct objective_phases *out, const char *name, double seconds)
{
    if (seconds > 0)
        out->items[out->count++] = (struct objective_phase){ .name = name, .seconds = seconds };
}

// Seconds of a step with only some of the passes. A phase is the difference that its passes make,
// with everything that they gather, send and wait for.
static enum err time_passes(struct timing *out, struct arena *arena, const struct setup *setup,
                            double reference, double policy)
{
    struct setup part = *setup;
    struct estimate estimate;
    part.passes.sampling = NULL;
    part.passes.reference = reference;
    part.passes.policy = policy;
    TRY(estimate_make(&estimate, arena, &part));
    *out = estimate.timing;
    return OK;
}

enum err objective_check_pilot(enum objective_kind kind, const char *name)
{
    if (kind == OBJECTIVE_SFT || kind == OBJECTIVE_AUTO)
        return OK;
    return fail(
        ERR_UNAVAILABLE,
        "%s: is of %s, of which pilots are not modelled yet: the phases of its steps are not "
        "told apart; plan without --pilot, and follow the run with gpuhours watch",
        name, objective_names[kind]);
}

enum err objective_phases(struct objective_phases *out, struct arena *arena,
                          const struct setup *setup, double efficiency)
{
    struct arena_mark mark = arena_mark(arena);
    struct timing training, with_policy, all;
    *out = (struct objective_phases){ 0 };
    TRY(time_passes(&training, arena, setup, 0, 0));
    TRY(time_passes(&with_policy, arena, setup, 0, setup->passes.policy));
    TRY(time_passes(&all, arena, setup, setup->passes.reference, setup->passes.policy));
    arena_rewind(arena, mark);
    struct rollout_seconds rollout = { 0 };
    if (setup->passes.rollout) {
        struct links links = network_links(setup->gpu, setup->node);
        rollout_time(&rollout, setup->passes.rollout, setup->model, setup->gpu, &links,
                     (double)layout_gpus(&setup->layout));
    }
    double micro = setup->accumulation * training.micro_seconds;
    double update = training.update_seconds + training.offload_seconds;
    double reference = all.step_seconds - with_policy.step_seconds;
    double policy = with_policy.step_seconds - training.step_seconds;
    double waiting = training.step_seconds - micro - update;
    double total = all.step_seconds / efficiency + rollout_total(&rollout);
    add_phase(out, "rollout", rollout.prefill + rollout.decode);
    add_phase(out, "reward", rollout.reward);
    add_phase(out, "reference", reference / efficiency);
    add_phase(out, "log-probabilities", policy / efficiency);
    add_phase(out, "training", micro / efficiency);
    add_phase(out, "weight update", update / efficiency + rollout.transfer);
    add_phase(out, "waiting", waiting / efficiency + rollout.waiting);
    for (size_t i = 0; i < out->count; i++)
        out->items[i].share = out->items[i].seconds / total;
    return OK;
}
