// SPDX-License-Identifier: Apache-2.0
// The objectives as a table, what trainers do differently, and the phases of a step.

#include "core/objective/objective.h"

#include "core/data/packing.h"
#include "core/objective/rollout.h"

#include <math.h>
#include <string.h>

const char *const objective_names[] = { "sft",  "dpo",  "orpo", "kto",  "simpo", "ipo",  "reward",
                                        "grpo", "dapo", "gspo", "rloo", "ppo",   "auto", NULL };
const char *const objective_reference_names[] = { "auto",        "adapters", "model",
                                                  "precomputed", "none",     NULL };
const char *const objective_reward_names[] = { "rule", "model", NULL };

// KTO's trainers estimate a KL term from mismatched answers: a pass of the policy and one of the
// reference more, both without gradients. ORPO and SimPO were made to need no reference, DAPO too.
// DAPO samples again until no prompt is left whose answers are all right or all wrong: twice as
// many on average is assumed (its authors sample three times the batch at once). GSPO weighs whole
// answers where GRPO weighs tokens, and RLOO takes another mean off: the step is the same.
static const struct {
    double rows_each;         // sequences of what --micro-batch counts
    double reference, policy; // passes without gradients
    double generations;       // answers to a prompt; 0: it does not sample
    double oversampling;
    bool critic;
    bool scores_rows; // no logits
} objectives[OBJECTIVES] = {
    [OBJECTIVE_SFT] = { .rows_each = 1 },
    [OBJECTIVE_DPO] = { .rows_each = 2, .reference = 1 },
    [OBJECTIVE_IPO] = { .rows_each = 2, .reference = 1 },
    [OBJECTIVE_KTO] = { .rows_each = 1, .reference = 2, .policy = 1 },
    [OBJECTIVE_ORPO] = { .rows_each = 2 },
    [OBJECTIVE_SIMPO] = { .rows_each = 2 },
    [OBJECTIVE_REWARD] = { .rows_each = 2, .scores_rows = true },
    [OBJECTIVE_GRPO] = { 1, 1, 1, .generations = 8, .oversampling = 1 },
    [OBJECTIVE_DAPO] = { 1, 0, 1, .generations = 16, .oversampling = 2 },
    [OBJECTIVE_GSPO] = { 1, 1, 1, .generations = 8, .oversampling = 1 },
    [OBJECTIVE_RLOO] = { 1, 1, 1, .generations = 2, .oversampling = 1 },
    [OBJECTIVE_PPO] = { 1, 1, 1, .generations = 1, .oversampling = 1, .critic = true },
};

// Log-probabilities need the logits, so that losses fused with the head do not apply. Bytes per
// logit at the peak, and moved in both passes. TRL takes them row by row, under autocast in fp32:
// what backward needs (4) and the gradient of the 16-bit logits (2), with 9 of the row at work;
// kernels of one row at a time, over vectors as long as the vocabulary, move some 54 bytes at half
// the memory's rate. LLaMA-Factory and OpenRLHF make fp32 logits first. Megatron's trainers pack
// pairs and take fp32 log-probabilities of each shard. PEFT switches an adapter off and on in 0.17
// ms of the host. TRL's and PEFT's were measured: bench/results/h200.md. Our engine packs pairs,
// keeps its loss of labelled rows, and skips adapters where they are part of a product.
static const struct {
    const char *trainer; // as a stack names it; NULL: all others, which build on TRL
    double loss_bytes, loss_row_bytes, loss_moved_bytes;
    double switch_launches; // for each of an adapter's two products
    bool packs;
} trainers[] = {
    { "llama-factory", 14, 0, 46, 2, false },
    { "nemo", 10, 0, 24, 0, true },
    { "native", 0, 0, 0, 0, true },
    { NULL, 6, 9, 100, 3.1, false },
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
    if (objective->reward == REWARD_MODEL && !objective_samples(objective->kind))
        return fail(ERR_USAGE, "--reward model: %s samples no answers that could be scored", name);
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

bool objective_samples(enum objective_kind kind)
{
    return objectives[kind].generations > 0;
}

double objective_generations(enum objective_kind kind)
{
    return objectives[kind].generations;
}

double objective_fewest_generations(enum objective_kind kind)
{
    return objectives[kind].critic ? 1 : 2;
}

double objective_oversampling(enum objective_kind kind)
{
    return objectives[kind].oversampling;
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
    double reward = objective->reward == REWARD_MODEL ? 1 : 0;
    return (struct step_passes){
        .reference = passes,
        .policy = objectives[objective->kind].policy,
        .reward = reward,
        .critic = objectives[objective->kind].critic ? 1 : 0,
        .frozen_copies = (reference == REFERENCE_MODEL) + reward,
        .scores_rows = scores,
        .loss_bytes = scores ? 0 : trainers[trainer].loss_bytes,
        .loss_moved_bytes = scores ? 0 : trainers[trainer].loss_moved_bytes,
        .loss_row_bytes = scores ? 0 : trainers[trainer].loss_row_bytes,
        .switch_launches = reference == REFERENCE_ADAPTERS ? trainers[trainer].switch_launches : 0,
    };
}

double objective_spread(enum objective_kind kind)
{
    return kind == OBJECTIVE_SFT ? 0 : objective_samples(kind) ? 0.35 : 0.15;
}

// --- phases ------------------------------------------------------------------

static void add_phase(struct objective_phases *out, const char *name, double seconds)
{
    if (seconds > 0)
        out->items[out->count++] = (struct objective_phase){ .name = name, .seconds = seconds };
}

enum err objective_check_pilot(enum objective_kind kind, const char *measured, const char *name)
{
    if (!strcmp(objective_names[kind], measured ? measured : "sft"))
        return OK;
    return fail(ERR_INPUT, "%s: measured %s, and this plan is of %s; give a pilot of it", name,
                measured ? measured : "sft", objective_names[kind]);
}

// What the passes of one phase add to a step that has those of the phases before it, with
// everything that they gather, send and wait for.
static enum err time_added(double *out, struct timing *before, struct arena *arena,
                           struct setup *setup)
{
    struct estimate estimate;
    TRY(estimate_make(&estimate, arena, setup));
    *out = estimate.timing.step_seconds - before->step_seconds;
    *before = estimate.timing;
    return OK;
}

enum err objective_phases(struct objective_phases *out, struct arena *arena,
                          const struct setup *setup, double efficiency)
{
    struct arena_mark mark = arena_mark(arena);
    struct setup part = *setup;
    const struct step_passes *all = &setup->passes;
    struct timing timing = { 0 };
    double training, policy, reference, reward, critic;
    *out = (struct objective_phases){ 0 };
    part.passes = (struct step_passes){ .scores_rows = all->scores_rows,
                                        .loss_bytes = all->loss_bytes,
                                        .loss_moved_bytes = all->loss_moved_bytes,
                                        .loss_row_bytes = all->loss_row_bytes,
                                        .switch_launches = all->switch_launches,
                                        .updates = all->updates,
                                        .rounds = all->rounds };
    TRY(time_added(&training, &timing, arena, &part));
    double micro = setup->accumulation * timing.micro_seconds;
    double update = timing.update_seconds + timing.offload_seconds;
    part.passes.policy = all->policy;
    TRY(time_added(&policy, &timing, arena, &part));
    part.passes.reference = all->reference;
    TRY(time_added(&reference, &timing, arena, &part));
    part.passes.reward = all->reward;
    TRY(time_added(&reward, &timing, arena, &part));
    part.passes.critic = all->critic;
    TRY(time_added(&critic, &timing, arena, &part));
    arena_rewind(arena, mark);
    struct rollout_seconds rollout = { 0 };
    double sampler_waits = 0, trainer = timing.step_seconds / efficiency;
    if (all->rollout) {
        struct links links = network_links(setup->gpu, setup->node);
        rollout_time(&rollout, all->rollout, setup->model, setup->gpu, &links,
                     (double)layout_gpus(&setup->layout));
        sampler_waits = rollout_added(&rollout, all->rollout, trainer) - rollout.transfer;
    }
    bool beside = all->rollout && all->rollout->async_steps > 0;
    double total = trainer + rollout_added(&rollout, all->rollout, trainer);
    add_phase(out, "rollout", rollout.prefill + rollout.decode + (beside ? rollout.waiting : 0));
    if (beside)
        out->items[0].beside = true;
    add_phase(out, "reward", (beside ? 0 : rollout.reward) + reward / efficiency);
    add_phase(out, "reference", reference / efficiency);
    add_phase(out, "log-probabilities", policy / efficiency);
    add_phase(out, "critic", critic / efficiency);
    add_phase(out, "training", micro / efficiency);
    add_phase(out, "weight update", update / efficiency + rollout.transfer);
    add_phase(out, "waiting",
              (training - micro - update) / efficiency +
                  (beside ? sampler_waits : rollout.waiting));
    for (size_t i = 0; i < out->count; i++)
        out->items[i].share = out->items[i].seconds / total;
    return OK;
}
