// SPDX-License-Identifier: Apache-2.0
// Reads the request of reinforcement learning: what is sampled in a step, and the rows that are
// then trained on.

#include "core/plan/plan_internal.h"

#include "base/rng.h"
#include "core/forecast/lengths.h"

#include <math.h>

enum {
    USUAL_ANSWERS = 256, // of a step, unless --global-batch says how many
    ANSWERS = 2048,      // of the distribution of lengths, which are simulated
};
// Tokens, where neither data nor --mean-length tell: P10 and P90 of data sets are assumed to be a
// quarter and four times that (questions of GSM8K have 67; code with its tests, or passages to
// read, a thousand).
static const double usual_prompt = 256, prompts_differ = 4;

static enum err read_lengths(struct rollout *out, const struct plan *plan)
{
    const char *given = plan->request->response_length;
    const char *objective = objective_names[plan->objective.kind];
    double values[3] = { 0 };
    if (!given && plan->request->response_limit > 0)
        return fail(ERR_USAGE,
                    "--objective %s needs --response-length P10,P50,P90, the lengths of answers in "
                    "tokens: that they end at %lld does not tell how long most are",
                    objective, (long long)plan->request->response_limit);
    if (!given)
        return fail(ERR_USAGE,
                    "--objective %s needs --response-length P10,P50,P90, the lengths of answers in "
                    "tokens, e.g. 600,1400,4096",
                    objective);
    struct text rest = text_of(given), piece;
    int count = 0;
    while (text_next(&rest, ',', &piece)) {
        int64_t tokens = 0;
        if (count == 3 || text_read_count(&tokens, text_trim(piece)))
            return fail(ERR_USAGE, "--response-length is \"%s\", must be three counts: P10,P50,P90",
                        given);
        values[count++] = (double)tokens;
    }
    if (count != 3 || !(values[0] >= 1 && values[0] <= values[1] && values[1] <= values[2]))
        return fail(ERR_USAGE,
                    "--response-length is \"%s\", must be three counts that do not fall: "
                    "P10,P50,P90",
                    given);
    out->p10 = values[0], out->p50 = values[1], out->p90 = values[2];
    return OK;
}

bool plan_assumes_prompts(const struct plan_request *request)
{
    bool counted = request->lengths || (request->tokens > 0 && request->examples > 0);
    return request->objective != OBJECTIVE_AUTO &&
           objective_samples((enum objective_kind)request->objective) && !counted &&
           isnan(request->mean_length);
}

double plan_prompt_length(const struct plan_request *request)
{
    const struct lengths *lengths = request->lengths;
    double tokens = 0;
    for (size_t i = 0; lengths && i < lengths->count; i++) {
        const struct length *row = &lengths->items[i];
        tokens += row->labelled < row->tokens ? row->tokens - row->labelled : row->tokens;
    }
    if (lengths && lengths->count)
        return tokens / (double)lengths->count;
    if (!isnan(request->mean_length))
        return request->mean_length;
    if (request->tokens > 0 && request->examples > 0)
        return (double)request->tokens / (double)request->examples;
    bool limited = request->context > 0 && request->response_limit > 0;
    double most = limited ? (double)(request->context - request->response_limit) : usual_prompt;
    return fmax(1, fmin(usual_prompt, most));
}

// The context that holds prompt and answer: as given, else the longest answer, else with room above
// the P90.
static enum err find_limit(struct plan *plan)
{
    const struct plan_request *request = plan->request;
    struct rollout *r = &plan->rollout;
    bool given = request->context > 0 && !request->context_from_data;
    bool limited = request->response_limit > 0;
    double most = limited ? (double)request->response_limit : 1.25 * r->p90;
    double context =
        given ? (double)request->context : ceil((r->prompt_length + most) / 1024) * 1024;
    if (plan->model->max_positions > 0 && !given)
        context = fmin(context, (double)plan->model->max_positions);
    if (r->prompt_length + r->p90 > context)
        return fail(ERR_USAGE,
                    "--response-length: a prompt of %.0f tokens and an answer of %.0f (P90) are "
                    "longer than the context of %.0f",
                    r->prompt_length, r->p90, context);
    if (limited && r->p90 > most)
        return fail(ERR_USAGE,
                    "--response-length: answers of %.0f tokens (P90) are longer than "
                    "--response-limit %.0f",
                    r->p90, most);
    plan->rule.context = context;
    r->limit = context - r->prompt_length;
    if (limited)
        r->limit = fmin(r->limit, most);
    return OK;
}

static enum err find_generations(double *out, const struct plan *plan)
{
    int64_t asked = plan->request->generations;
    enum objective_kind kind = plan->objective.kind;
    *out = asked > 0 ? (double)asked : objective_generations(kind);
    if (*out < objective_fewest_generations(kind))
        return fail(ERR_USAGE,
                    "--generations is %.0f, must be %.0f or more: %s compares the answers to a "
                    "prompt with each other, and from a single one nothing is learned",
                    *out, objective_fewest_generations(kind), objective_names[kind]);
    return OK;
}

static enum err find_batch(struct plan *plan)
{
    const struct plan_request *request = plan->request;
    struct rollout *r = &plan->rollout;
    enum objective_kind kind = plan->objective.kind;
    TRY(find_generations(&r->generations, plan));
    double answers = request->global_batch > 0
                         ? (double)request->global_batch
                         : r->generations * ceil(USUAL_ANSWERS / r->generations);
    if (fmod(answers, r->generations) != 0)
        return fail(ERR_USAGE,
                    "--global-batch is %.0f answers, must be a multiple of --generations %.0f",
                    answers, r->generations);
    r->prompts = answers / r->generations;
    r->oversampling = objective_oversampling(kind);
    r->async_steps = request->async_steps > 0 ? (double)request->async_steps : 0;
    plan->splits = request->sampler_gpus == PLAN_NOT_GIVEN;
    r->gpus = request->sampler_gpus > 0 ? (double)request->sampler_gpus : 0;
    if (r->async_steps > 0 && request->sampler_gpus == 0)
        return fail(ERR_USAGE,
                    "--async-steps %.0f samples while training goes on, which needs GPUs of "
                    "its own, but --sampler-gpus is 0",
                    r->async_steps);
    if (r->async_steps > 0 && request->gpus == 1)
        return fail(ERR_USAGE,
                    "--async-steps %.0f samples while training goes on, which needs at least 2 "
                    "GPUs",
                    r->async_steps);
    if (request->sampler_gpus > 0 && request->gpus > 0 && request->sampler_gpus >= request->gpus)
        return fail(
            ERR_USAGE,
            "--sampler-gpus is %lld, must be below the %lld GPUs of --gpus: some must train",
            (long long)request->sampler_gpus, (long long)request->gpus);
    return OK;
}

static enum err find_steps(double *out, const struct plan *plan)
{
    const struct plan_request *request = plan->request;
    double epochs = isnan(request->epochs) ? 1 : request->epochs;
    *out = (double)request->steps;
    if (request->steps > 0)
        return OK;
    const char *missing = plan_missing_data(request, plan->advice.arena);
    double prompts = request->examples > 0 ? (double)request->examples
                                           : (double)request->tokens / request->mean_length;
    if (!(prompts > 0) && missing)
        return fail(ERR_USAGE, "%s", missing);
    if (!(prompts > 0))
        return fail(ERR_USAGE,
                    "--objective %s goes through prompts: give data files, their number "
                    "(--examples), their tokens with --mean-length, or --steps",
                    objective_names[plan->objective.kind]);
    double sampled = plan->rollout.prompts * plan->rollout.oversampling;
    *out = fmax(1, ceil(epochs * prompts / sampled));
    return OK;
}

// The answers of a run by quantiles of their lengths, in random order.
static struct lengths *answers_of(const struct rollout *r, struct arena *arena, double total,
                                  uint64_t seed)
{
    struct lengths *out = ARENA_NEW(arena, struct lengths, 1);
    out->arena = arena;
    struct rng rng = rng_seeded(seed);
    int order[ANSWERS];
    for (int i = 0; i < ANSWERS; i++) {
        int at = (int)rng_below(&rng, (uint64_t)i + 1);
        order[i] = at < i ? order[at] : i, order[at] = i;
    }
    for (int i = 0; i < ANSWERS; i++) {
        double answer = fmax(1, rint(rollout_quantile(r, (order[i] + 0.5) / ANSWERS)));
        lengths_add(out, (int64_t)(rint(r->prompt_length) + answer), (int64_t)answer);
    }
    out->each = total / ANSWERS;
    return out;
}

enum err plan_check_sampler(const struct plan *plan)
{
    const struct search_result *chosen = &plan->chosen;
    if (!objective_samples(plan->objective.kind) || isfinite(plan->estimate.timing.step_seconds))
        return OK;
    return fail(ERR_USAGE,
                "--sampler %s: the weights of %s in %s bits and the cache of one answer do not fit "
                "the %.0f × %s that sample; give more GPUs",
                plan->rollout.sampler->name, plan->model->name,
                plan->rollout.precision == SAMPLER_FP8 ? "8" : "16",
                plan->rollout.gpus > 0 ? plan->rollout.gpus : (double)chosen->gpus,
                chosen->gpu->title);
}

// The plan with prompts as short and as long as they may be, within the context.
static enum err make_prompts(struct plan *plan, struct arena *arena)
{
    double least = plan->rollout.prompt_length / prompts_differ,
           most = plan->rollout.prompt_length * prompts_differ,
           room = plan->request->context > 0       ? (double)plan->request->context
                  : plan->model->max_positions > 0 ? (double)plan->model->max_positions
                                                   : INFINITY;
    room -= fmax(plan->rollout.p90, (double)plan->request->response_limit);
    for (int i = 0; i < 2; i++) {
        struct plan *like = ARENA_NEW(arena, struct plan, 1);
        struct plan_request *said = ARENA_NEW(arena, struct plan_request, 1);
        *like = *plan, *said = *plan->request;
        said->mean_length =
            i ? fmax(plan->rollout.prompt_length, fmin(most, room)) : fmax(1, least);
        like->request = said;
        TRY(plan_rollout(like, arena));
        plan->prompts[i] =
            (struct plan_prompts){ like->rollout.prompt_length, like->rollout.limit, like->rule };
    }
    return OK;
}

enum err plan_prompts_factor(struct range *out, const struct plan *plan, struct arena *arena,
                             const struct setup *setup, const struct workload *workload)
{
    double middle, seconds;
    double ranks = rint(workload->global_batch / (workload->micro_batch * workload->accumulation));
    TRY(lengths_seconds(&middle, arena, setup, workload));
    *out = (struct range){ 1, 1, 1 };
    for (int i = 0; i < 2; i++) {
        const struct plan_prompts *prompts = &plan->prompts[i];
        struct setup like = *setup;
        struct rollout rollout = *setup->passes.rollout;
        struct workload other;
        rollout.prompt_length = prompts->length, rollout.limit = prompts->limit;
        like.passes.rollout = &rollout;
        workload_make(&other, &prompts->rule, workload->micro_batch, ranks, workload->global_batch);
        TRY(lengths_seconds(&seconds, arena, &like, &other));
        if (!isfinite(seconds / middle))
            continue; // no room for such answers beside the weights
        out->low = fmin(out->low, seconds / middle);
        out->high = fmax(out->high, seconds / middle);
    }
    return OK;
}

enum err plan_rollout(struct plan *plan, struct arena *arena)
{
    const struct plan_request *request = plan->request;
    struct rollout *r = &plan->rollout;
    plan->rule = workload_rule();
    *r = (struct rollout){ .sampler = &samplers[request->sampler],
                           .precision = (enum sampler_precision)request->sampler_precision,
                           .prompt_length = plan_prompt_length(request),
                           .efficiency = exp(plan->prior.log_mid) };
    double steps;
    TRY(read_lengths(r, plan));
    TRY(find_limit(plan));
    TRY(find_batch(plan));
    TRY(find_steps(&steps, plan));
    TRY(plan_batching(&plan->rule.batching, plan));
    struct lengths *answers =
        answers_of(r, arena, steps * r->prompts * r->generations, (uint64_t)request->seed);
    TRY(workload_measure(&plan->rule, arena, answers, plan->stack->trainer,
                         (uint64_t)request->seed));
    return plan_assumes_prompts(request) ? make_prompts(plan, arena) : OK;
}
