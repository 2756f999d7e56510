// SPDX-License-Identifier: Apache-2.0
// Ranks configurations by what a reader sees: medians over the plan's samples.
//
// The search compares configurations with every unknown at its middle value, which is fast and
// close. The median of the samples is a little off that, by a factor that differs between
// configurations (a run of minutes is mostly start-up, a long one mostly training). So the search's
// best candidates are forecast on a part of the samples, the best of those on all of them, and the
// last comparison is of the very numbers that are printed:
//
//     all that fit ──middle──▶ CANDIDATES ──few samples──▶ within CLOSE ──all samples──▶ one

#include "core/plan/plan_internal.h"

#include <math.h>

enum { CANDIDATES = 24, FEW = FORECAST_SAMPLES / 10 };
static const double CLOSE = 1.03; // the median of a tenth of the samples is surer than this

// Forecasts a result over the plan's first count samples.
static enum err forecast(struct forecast_outcome *out, struct plan *plan, struct arena *arena,
                         const struct search_result *result, size_t count)
{
    struct arena_mark mark = arena_mark(arena);
    struct setup setup = search_setup(result, plan->model, result->stack);
    struct estimate estimate;
    TRY(estimate_make(&estimate, arena, &setup));
    struct forecast_input input;
    TRY(plan_input(&input, plan, arena, result, &setup, &estimate));
    input.price = plan_price(plan, arena, result);
    forecast_run(out, arena, &input, &plan->samples, count);
    arena_rewind(arena, mark);
    return OK;
}

// The same, once: cheapest, fastest and trade-offs are sought among the same results.
static enum err ask_few(struct plan *plan, struct arena *arena, struct search_result *result)
{
    return result->of_few.tokens_per_s > 0 ? OK
                                           : forecast(&result->of_few, plan, arena, result, FEW);
}

static enum err ask_all(struct plan *plan, struct arena *arena, struct search_result *result)
{
    return result->of_all.tokens_per_s > 0
               ? OK
               : forecast(&result->of_all, plan, arena, result, plan->samples.count);
}

static void set_medians(struct search_result *result, const struct forecast_outcome *outcome)
{
    result->wall_hours = outcome->wall_hours.mid;
    result->gpu_hours = outcome->wall_hours.mid * (double)result->gpus;
    result->cost_usd = outcome->cost_usd.mid;
    result->seconds_per_step *= result->tokens_per_s / outcome->tokens_per_s;
    result->tokens_per_s = outcome->tokens_per_s;
}

enum err plan_settle(struct plan *plan, struct arena *arena, struct search_result *result)
{
    if (result->sampled)
        return OK;
    TRY(ask_all(plan, arena, result));
    set_medians(result, &result->of_all);
    result->sampled = true;
    return OK;
}

enum err plan_sample(struct search_result *out, struct plan *plan, struct arena *arena,
                     struct search_result *result)
{
    TRY(ask_all(plan, arena, result));
    *out = *result;
    return plan_settle(plan, arena, out);
}

// --- the least of something --------------------------------------------------

static double value_of(const struct search_result *result, enum plan_goal goal)
{
    switch (goal) {
    case PLAN_CHEAPEST: return result->cost_usd;
    case PLAN_FASTEST: return result->wall_hours;
    default: return result->gpu_hours;
    }
}

// Of equals the cheaper is less, and of equally cheap ones the faster. What differs by rounding
// alone is equal.
static bool is_less(const struct search_result *a, const struct search_result *b,
                    enum plan_goal goal)
{
    double x = value_of(a, goal), y = value_of(b, goal);
    enum plan_goal next = goal == PLAN_CHEAPEST ? PLAN_FASTEST : PLAN_CHEAPEST;
    return fabs(x - y) > 1e-9 * y ? x < y : value_of(a, next) < value_of(b, next);
}

const struct search_result *plan_lesser(const struct search_result *a,
                                        const struct search_result *b, enum plan_goal goal)
{
    if (!b->stable || isnan(value_of(b, goal)))
        return a;
    return !a || is_less(b, a, goal) ? b : a;
}

// The stable results with the least middle values, ascending.
static size_t pick_candidates(struct search_result **out, const struct search *search,
                              enum plan_goal goal)
{
    size_t count = 0;
    for (size_t i = 0; i < search->count; i++) {
        struct search_result *r = &search->best[i];
        double value = value_of(r, goal);
        if (!r->stable || isnan(value) ||
            (count == CANDIDATES && value >= value_of(out[count - 1], goal)))
            continue;
        size_t at = count < CANDIDATES ? count++ : count - 1;
        for (; at > 0 && value_of(out[at - 1], goal) > value; at--)
            out[at] = out[at - 1];
        out[at] = r;
    }
    return count;
}

enum err plan_least(struct search_result *out, bool *found, struct plan *plan, struct arena *arena,
                    const struct search *search, enum plan_goal goal)
{
    struct search_result *candidates[CANDIDATES], sampled;
    size_t count = pick_candidates(candidates, search, goal);
    double rough[CANDIDATES], least = INFINITY;
    for (size_t i = 0; i < count; i++) {
        TRY(ask_few(plan, arena, candidates[i]));
        sampled = *candidates[i];
        set_medians(&sampled, &sampled.of_few);
        rough[i] = value_of(&sampled, goal);
        least = fmin(least, rough[i]);
    }
    *found = false;
    for (size_t i = 0; i < count; i++) {
        if (rough[i] > CLOSE * least)
            continue;
        TRY(plan_sample(&sampled, plan, arena, candidates[i]));
        if (!*found || is_less(&sampled, out, goal)) {
            *out = sampled;
            *found = true;
        }
    }
    return OK;
}

// --- within a deadline and a budget ------------------------------------------

struct limits {
    double wall_hours, cost_usd; // NAN: none
    bool surely;                 // P90 must keep them, else the median
};

static bool keeps(const struct forecast_outcome *outcome, const struct limits *limits, double slack)
{
    double wall = limits->surely ? outcome->wall_hours.high : outcome->wall_hours.mid;
    double cost = limits->surely ? outcome->cost_usd.high : outcome->cost_usd.mid;
    return !(wall > slack * limits->wall_hours) && !(cost > slack * limits->cost_usd);
}

// The cheapest stable result of that many GPUs within the limits, if cheaper than the one found.
static enum err cheapest_of(struct search_result *out, bool *found, struct plan *plan,
                            struct arena *arena, const struct search *search, int64_t gpus,
                            const struct limits *limits)
{
    const double slack = 1.3; // of the middle value, where the median may be less
    for (size_t i = 0; i < search->count; i++) {
        struct search_result *r = &search->best[i];
        if (r->gpus != gpus || !r->stable || r->wall_hours > slack * limits->wall_hours ||
            r->cost_usd > slack * limits->cost_usd ||
            (*found && r->cost_usd > slack * out->cost_usd))
            continue;
        TRY(ask_few(plan, arena, r));
        if (!keeps(&r->of_few, limits, CLOSE) ||
            (*found && r->of_few.cost_usd.mid > CLOSE * out->cost_usd))
            continue;
        struct search_result sampled;
        TRY(plan_sample(&sampled, plan, arena, r));
        bool dearer = *found && !isnan(out->cost_usd) && !(sampled.cost_usd < out->cost_usd);
        if (!keeps(&sampled.of_all, limits, 1) || dearer)
            continue;
        *out = sampled;
        *found = true;
    }
    return OK;
}

static bool is_of_one_card(const struct search *search)
{
    for (size_t i = 1; i < search->count; i++)
        if (search->best[i].gpu != search->best[0].gpu)
            return false;
    return true;
}

enum err plan_within(struct search_result *out, bool *found, struct plan *plan, struct arena *arena,
                     const struct search *search, double deadline, double budget)
{
    bool fewest = is_of_one_card(search);
    const struct plan_request *request = plan->request;
    double runs = request->runs > 1 ? (double)request->runs : 1;
    double parallel = request->parallel_runs > 1 ? (double)request->parallel_runs : 1;
    *found = false;
    for (int surely = 1; surely >= 0 && !*found; surely--) {
        // Of one run: runs of a sweep go in turns and share the budget.
        struct limits limits = { deadline / 3600 / ceil(runs / parallel), budget / runs, surely };
        for (int64_t gpus = 0; !(*found && fewest);) {
            int64_t more = INT64_MAX; // the next larger number of GPUs
            for (size_t i = 0; i < search->count; i++)
                if (search->best[i].gpus > gpus && search->best[i].gpus < more)
                    more = search->best[i].gpus;
            if (more == INT64_MAX)
                break;
            gpus = more;
            TRY(cheapest_of(out, found, plan, arena, search, gpus, &limits));
        }
    }
    return OK;
}
