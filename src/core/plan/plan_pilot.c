// SPDX-License-Identifier: Apache-2.0
// What a pilot does to a plan: the options that it sets, the batches it had, and how it is
// reported.

#include "core/plan/plan_internal.h"

#include <math.h>
#include <string.h>

// Half the width of P10 to P90 in percent.
static double percent(double log_spread)
{
    return 100 * (exp(STATS_P90 * log_spread) - 1);
}

// --- how long one takes ------------------------------------------------------

// From the start of the job: a result needs eight ordinary steps, after a few that warm up.
const char *plan_pilot_length(const struct plan *plan, struct arena *arena)
{
    const double steps = 10, usual = 5, longest = 20; // minutes; pilot stops at the longest
    const double *seconds = plan->forecast.middle.seconds;
    double start = seconds[OVERHEAD_STARTUP] + seconds[OVERHEAD_COMPILATION] +
                   seconds[OVERHEAD_LOADING] + seconds[OVERHEAD_WIDTHS];
    double minutes = (start + steps * plan->chosen.seconds_per_step) / 60;
    if (!(minutes > usual))
        return "a five-minute pilot";
    minutes = usual * ceil(minutes / usual);
    return minutes > longest
               ? text_format(arena, "a pilot of %.0f minutes (--minutes %.0f)", minutes, minutes)
               : text_format(arena, "a pilot of %.0f minutes", minutes);
}

// --- options -----------------------------------------------------------------

void plan_request_like(struct plan_request *request, const struct pilot *pilot, struct arena *arena)
{
    const struct pilot_configuration *c = &pilot->configuration;
    request->recipe = c->recipe;
    if (c->lighter_share > 0) // the engine chose what each layer recomputes, and will again
        request->recipe.checkpointing = RECIPE_AUTO;
    request->model = c->model;
    request->stack = c->stack ? c->stack : pilot->stack;
    request->gpu = c->gpu;
    if (c->gpus > 0)
        request->gpus = c->gpus;
    if (c->tokens >= 1)
        request->tokens = (int64_t)c->tokens;
    if (c->context >= 1)
        request->context = (int64_t)c->context;
    if (c->global_batch >= 1)
        request->global_batch = (int64_t)c->global_batch;
    if (c->micro_batch >= 1)
        request->micro_batch = text_format(arena, "%.0f", c->micro_batch);
    for (int i = 0; c->batching && i < BATCHING_AUTO; i++)
        if (!strcmp(c->batching, batching_names_auto[i]))
            request->batching = i;
}

static bool same_name(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

void plan_request_differ(struct plan_request *request, const struct plan_request *given,
                         const struct pilot *pilot)
{
    const struct pilot_configuration *c = &pilot->configuration;
    bool same = same_name(request->model, c->model) && same_name(request->gpu, c->gpu) &&
                request->recipe.method == c->recipe.method &&
                (double)request->context == c->context;
    if (!same && !given->micro_batch)
        request->micro_batch = NULL;
    if (!same && given->recipe.checkpointing == RECIPE_AUTO)
        request->recipe.checkpointing = RECIPE_AUTO;
    // Lengths are unknown: every row is assumed to fill the context, as without a pilot.
    bool unknown = !request->lengths && request->examples < 1 && isnan(request->mean_length);
    if (unknown && given->batching == BATCHING_AUTO && request->batching != BATCHING_PACKED)
        request->batching = BATCHING_AUTO;
    if (!given->parallel && c->parallel && request->gpus == c->gpus)
        request->parallel = c->parallel;
}

void plan_rows_of_pilot(struct workload_rule *rule, struct arena *arena, const struct plan *plan)
{
    const struct pilot *pilot = plan->request->pilot;
    const struct pilot_configuration *c = &pilot->configuration;
    const struct pilot_composition *step = &pilot->composition;
    double rows = c->global_batch > 0 ? c->global_batch : c->micro_batch * c->accumulation;
    double width = step->tokens / rows;
    if (!(width > 0) || width > 1.01 * rule->context || c->context != rule->context ||
        !same_name(c->batching, batching_names_auto[rule->batching]))
        return;
    bool packed = rule->batching == BATCHING_PACKED;
    bool flat = packed && packing_unpadded(plan->stack->trainer);
    bool planned = c->tokens >= 1 && c->padding_share >= 0 && c->padding_share < 1;
    double fill = flat ? 1 : planned ? 1 - c->padding_share : packed ? rule->packed_fill.mid : 1;
    struct workload_shape *shape = ARENA_NEW(arena, struct workload_shape, 1);
    *shape = (struct workload_shape){
        .micro_batch = c->micro_batch,
        .fill = fill,
        .width = width,
        .attended = step->squares > 0 ? step->squares / step->tokens : width,
        .worst_width = rule->context,
        .rows = ceil(rule->tokens / fill / width),
    };
    if (isnan(plan->request->labelled_share) && step->labelled > 0)
        rule->labelled_share = fmin(1, step->labelled / (step->tokens * fill));
    rule->shapes = shape;
    rule->shape_count = 1;
}

// --- words -------------------------------------------------------------------

// The causes of what is left, the largest first: "run to run 2.6, other lengths 0.8".
static const char *list_causes(const struct transferred *to, struct arena *arena)
{
    struct out out = { .arena = arena };
    bool listed[TRANSFER_CAUSES] = { false };
    for (int round = 0; round < TRANSFER_CAUSES; round++) {
        int widest = -1;
        for (int i = 0; i < TRANSFER_CAUSES; i++)
            if (!listed[i] && (widest < 0 || to->spreads[i] > to->spreads[widest]))
                widest = i;
        listed[widest] = true;
        if (percent(to->spreads[widest]) >= 0.05)
            out_put(&out, "%s%s ± %.1f %%", out.size ? ", " : "", transfer_names[widest],
                    percent(to->spreads[widest]));
    }
    return out.size ? out_string(&out) : "nothing";
}

static const char *list_stalls(const struct plan *plan, struct arena *arena)
{
    const struct range *share = &plan->overheads.stall_share.value;
    return share->mid > 0
               ? text_format(arena, ". Stalls between its steps add %s (%s to %s)",
                             text_share(arena, share->mid), text_share(arena, share->low),
                             text_share(arena, share->high))
               : "";
}

const char *plan_pilot_words(const struct plan *plan, struct arena *arena)
{
    const struct pilot *pilot = plan->request->pilot;
    const struct transfer *from = &plan->transfer;
    const struct transferred *to = &plan->transferred;
    if (!pilot)
        return NULL;
    const char *measured =
        text_format(arena, "%s tokens/s measured on %lld × %s, %.3g × the assumed speed of %s",
                    text_commas(arena, llround(pilot->tokens_per_s.mean)),
                    (long long)layout_gpus(&from->setup.layout), from->setup.gpu->name,
                    exp(from->log_measured - from->prior.log_mid), from->prior.stack);
    if (!to->same_stack)
        return text_format(arena, "%s; this plan uses %s, about which that tells nothing", measured,
                           plan->stack->name);
    const char *how =
        to->alike ? "this run is like it"
        : to->weight < 1
            ? text_format(arena, "weighted %.0f %% here, the stack's own figure %.0f %%",
                          100 * to->weight, 100 - 100 * to->weight)
        : to->by_fit ? "scaled to your run by its fit and the step model"
                     : "scaled to your run by the step model";
    const char *contradicts = fabs(to->contradiction) > TRANSFER_CONTRADICTS
                                  ? "it contradicts what its stack reaches; beside that, "
                                  : "";
    double spread = plan->efficiency.log_spread, without = plan->prior.log_spread;
    const char *known =
        spread < without
            ? text_format(arena, "Speed known to ± %.1f %% (± %.0f %% without the pilot)",
                          percent(spread), percent(without))
            : text_format(arena, "The pilot does not narrow the range of ± %.0f %%",
                          percent(spread));
    return text_format(arena, "%s; %s. %s; causes: %s%s%s", measured, how, known, contradicts,
                       list_causes(to, arena), list_stalls(plan, arena));
}

// --- assumptions -------------------------------------------------------------

static void add(struct plan *plan, struct assumption assumption)
{
    if (plan->assumption_count < PLAN_ASSUMPTIONS && !isnan(assumption.value.mid))
        plan->assumptions[plan->assumption_count++] = assumption;
}

void plan_assume_pilot(struct plan *plan)
{
    const struct pilot *pilot = plan->request->pilot;
    if (!pilot)
        return;
    const struct pilot_rate *rate = &pilot->tokens_per_s;
    const char *name = plan->request->pilot_name;
    bool known = rate->low > 0 && rate->high > 0;
    add(plan, (struct assumption){
                  "speed of the pilot",
                  "tokens/s",
                  { known ? rate->low : rate->mean, rate->mean, known ? rate->high : rate->mean },
                  ASSUMPTION_MEASURED,
                  name,
                  pilot->as_of });
    double ratio = transfer_memory_ratio(&plan->transfer);
    add(plan, (struct assumption){ "memory of the pilot",
                                   "of the bytes predicted for it",
                                   { ratio, ratio, ratio },
                                   ASSUMPTION_MEASURED,
                                   name,
                                   pilot->as_of });
    for (int i = TRANSFER_INTERVAL + 1; plan->transferred.same_stack && i < TRANSFER_CAUSES; i++) {
        double spread = plan->transferred.spreads[i];
        bool fitted = i == TRANSFER_LENGTHS && plan->transferred.by_fit;
        if (spread <= 0)
            continue;
        add(plan, (struct assumption){
                      transfer_names[i],
                      "of the logarithm of tokens/s",
                      { spread, spread, spread },
                      i == TRANSFER_RUNS ? ASSUMPTION_ASSUMED : ASSUMPTION_MEASURED,
                      i == TRANSFER_RUNS
                          ? "like GPUs differ by 8 % (Sinha et al., SC22), steps that wait for the "
                            "host by 6 % (27 pilots, measured)"
                      : fitted ? "residuals of the pilot's fit"
                               : "pairs of measured runs of one source, data/runs.csv",
                      NULL });
    }
}

// --- the document ------------------------------------------------------------

void plan_put_pilot(struct json_writer *w, const struct plan *plan)
{
    const struct pilot *pilot = plan->request->pilot;
    const struct transferred *to = &plan->transferred;
    if (!pilot)
        return;
    json_open(w, "pilot", '{');
    json_put_string(w, "source", plan->request->pilot_name);
    json_put_number(w, "tokens_per_second", pilot->tokens_per_s.mean);
    json_put_number(w, "measured_over_predicted",
                    exp(plan->transfer.log_measured - plan->transfer.prior.log_mid));
    json_put_number(w, "memory_measured_over_predicted", transfer_memory_ratio(&plan->transfer));
    json_put_bool(w, "alike", to->alike);
    json_put_bool(w, "by_fit", to->by_fit);
    json_put_number(w, "weight", to->weight);
    json_put_number(w, "log_spread_before", plan->prior.log_spread);
    json_put_number(w, "log_spread_left", plan->efficiency.log_spread);
    json_open(w, "left", '[');
    for (int i = 0; i < TRANSFER_CAUSES; i++) {
        if (to->spreads[i] <= 0)
            continue;
        json_open(w, NULL, '{');
        json_put_string(w, "cause", transfer_names[i]);
        json_put_number(w, "log_spread", to->spreads[i]);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_close(w, '}');
}
