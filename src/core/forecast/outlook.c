// SPDX-License-Identifier: Apache-2.0
// Reads a plan's document, and extrapolates a measured run to its end.

#include "core/forecast/outlook.h"

#include <math.h>
#include <string.h>

static const double Z90 = 1.6448536269514722; // half a 90 % interval, in standard deviations
// The same steps minutes apart differ by 2 % with the GPU's clocks and by 6 % where they wait for
// the host (transfer.c); a plan's document does not say which: half of both.
static const double later_spread = 0.04;

// --- the plan ----------------------------------------------------------------

static void read_overheads(struct outlook_plan *out, const struct json *list)
{
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++) {
        struct text name = json_get_text(&list->items[i], "name");
        double seconds = json_get_number(&list->items[i], "seconds", 0);
        for (int kind = 0; kind < OVERHEAD_KINDS; kind++)
            if (name.at && text_is(name, overhead_names[kind]) && seconds > 0)
                out->seconds[kind] = seconds;
    }
}

static void read_failures(struct outlook_plan *out, const struct json *list)
{
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++) {
        struct text name = json_get_text(&list->items[i], "name");
        double low = json_get_number(&list->items[i], "gpu_hours_low", NAN);
        double high = json_get_number(&list->items[i], "gpu_hours_high", NAN);
        if (name.at && text_is(name, "failures") && high > low)
            out->failures_high_seconds = 3600 * (high - low) / out->gpus;
    }
}

static void read_assumptions(struct outlook_plan *out, const struct json *list)
{
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++) {
        struct text name = json_get_text(&list->items[i], "name");
        if (name.at && text_is(name, "first sight of a width"))
            out->width_seconds = (struct range){ json_get_number(&list->items[i], "low", 0),
                                                 json_get_number(&list->items[i], "value", 0),
                                                 json_get_number(&list->items[i], "high", 0) };
        if (name.at && text_is(name, "evaluation share"))
            out->evaluation_share = json_get_number(&list->items[i], "value", 0);
    }
}

enum err outlook_plan_read(struct outlook_plan *out, struct arena *arena, struct text document,
                           const char *name)
{
    struct json tree;
    *out = (struct outlook_plan){ .name = name, .document = document };
    TRY(json_read_document(&tree, arena, document, name, "plan"));
    const struct json *workload = json_get(&tree, "workload");
    if (!workload)
        return fail(ERR_INPUT, "%s: lacks \"workload\"; gpuhours plan --json writes whole plans",
                    name);
    TRY(pilot_configuration_read(&out->configuration, arena, &tree, name));
    out->processed_tokens = json_get_number(workload, "processed_tokens", NAN);
    out->steps = json_get_number(workload, "steps", NAN);
    out->steps_per_epoch = out->steps / json_get_number(workload, "epochs", NAN);
    out->gpus = out->configuration.gpus > 0 ? (double)out->configuration.gpus : 1;
    out->tokens_per_s = json_get_range(&tree, "tokens_per_second");
    out->wall_hours = json_get_range(&tree, "wall_hours");
    out->gpu_hours = json_get_range(&tree, "gpu_hours");
    out->cost_usd = json_get_range(&tree, "cost_usd");
    out->usd_per_gpu_hour = out->cost_usd.mid / out->gpu_hours.mid;
    if (!(out->gpu_hours.low <= out->gpu_hours.high) || !(out->processed_tokens > 0))
        return fail(ERR_INPUT,
                    "%s: lacks gpu_hours or processed_tokens; gpuhours plan --json writes both",
                    name);
    struct text objective = json_get_text(&tree, "objective");
    if (objective.size && !text_is(objective, "sft"))
        out->objective = text_copy(arena, objective);
    pilot_phases_read(&out->phases, &tree);
    read_overheads(out, json_get(&tree, "overheads"));
    out->seconds[OVERHEAD_STALLS] += out->seconds[OVERHEAD_RECURRING]; // a run shows their sum
    read_failures(out, json_get(&tree, "drivers"));
    workload_read_widths(&out->sights, workload, 1);
    const struct json *mean = json_get(workload, "batch"), *worst = json_get(workload, "worst");
    out->width = mean ? json_get_number(mean, "width", NAN) : NAN;
    out->labelled_share =
        mean ? json_get_number(mean, "labelled", NAN) / json_get_number(mean, "tokens", NAN) : NAN;
    out->longest_width = worst ? json_get_number(worst, "width", NAN) : NAN;
    read_assumptions(out, json_get(&tree, "assumptions"));
    return OK;
}

bool outlook_elsewhere(struct pilot_configuration *ran, const struct outlook_plan *plan,
                       const char *gpu, int64_t gpus)
{
    *ran = plan->configuration;
    ran->gpu = gpu ? gpu : ran->gpu;
    ran->gpus = gpus > 0 ? gpus : (int64_t)plan->gpus;
    bool same_gpu = !plan->configuration.gpu || !strcmp(ran->gpu, plan->configuration.gpu);
    if (same_gpu && ran->gpus == (int64_t)plan->gpus)
        return false;
    ran->parallel = NULL;
    ran->nodes = 0;
    return true;
}

double outlook_step_tokens(const struct outlook_plan *plan)
{
    return plan->steps > 0 ? plan->processed_tokens / plan->steps : NAN;
}

const struct packing_sights *outlook_sights(const struct outlook_plan *plan)
{
    const struct packing_sights *sights = &plan->sights;
    return sights->count > 1 && packing_widths_seen(sights, plan->steps) > 1 ? sights : NULL;
}

struct steady_rule outlook_rule(const struct outlook_plan *plan)
{
    const struct range *rate = &plan->tokens_per_s;
    double tokens = outlook_step_tokens(plan);
    struct steady_rule rule = {
        .width_seconds = plan->width_seconds,
        .total_steps = plan->steps > 0 ? plan->steps : 0,
        .total_widths = packing_widths_seen(&plan->sights, plan->steps),
        .widths_error = packing_widths_error(&plan->sights, plan->steps),
    };
    if (tokens > 0 && rate->low > 0)
        rule.step_seconds =
            (struct range){ tokens / rate->high, tokens / rate->mid, tokens / rate->low };
    return rule;
}

// --- the rest of a run -------------------------------------------------------

struct rest {
    double seconds, variance;
};

static void add(struct rest *rest, double seconds, double deviation)
{
    rest->seconds += seconds;
    rest->variance += deviation * deviation;
}

// Time that one cause of slow steps will still take: with its frequency so far, whose relative
// error is one over the root of its count; as planned, with an error of 100 %, if it has not
// happened yet.
static void add_slow(struct rest *rest, const struct outlook_plan *plan,
                     const struct outlook_progress *now, enum steady_cause cause,
                     enum overhead_kind kind, double steps)
{
    const struct steady_slow *slow = &now->steady->slow[cause];
    double done = (double)now->steady->ordinary_steps + (double)slow->count;
    if (slow->count > 0 && done > 0) {
        double seconds = steps * slow->extra_seconds / done;
        add(rest, seconds, seconds / sqrt((double)slow->count));
    } else if (plan->steps > 0) {
        double seconds = plan->seconds[kind] * steps / plan->steps;
        add(rest, seconds, seconds);
    }
}

// The first evaluation loads kernels: those after it tell what the next ones take. Until there is
// one, the plan does, and no more than the first.
static void add_evaluations(struct rest *rest, const struct outlook_plan *plan,
                            const struct outlook_progress *now, double steps)
{
    const struct steady_slow *slow = &now->steady->slow[STEADY_EVALUATION];
    double done = (double)now->steady->ordinary_steps + (double)slow->count;
    double count = (double)slow->count * steps / done;
    if (!slow->first_seconds || !slow->count) {
        add_slow(rest, plan, now, STEADY_EVALUATION, OVERHEAD_EVALUATION, steps);
    } else if (slow->later) {
        double seconds = count * slow->later_seconds / (double)slow->later;
        add(rest, seconds, seconds / sqrt((double)slow->later));
    } else {
        double planned = plan->seconds[OVERHEAD_EVALUATION] * steps / plan->steps;
        double most = count * slow->first_seconds,
               seconds = planned > 0 ? fmin(planned, most) : most / 2;
        add(rest, seconds, fmax(seconds, (most - seconds) / 2));
    }
}

// Where widths vary, the stalls that nothing else explains and that do not go on load kernels, as
// new widths do: they come as often as these.
static void add_stalls(struct rest *rest, const struct outlook_plan *plan,
                       const struct outlook_progress *now, double steps, double new_widths)
{
    const struct steady *steady = now->steady;
    if (!(steady->seconds_per_width >= 0) || !(steady->widths_seen > 0)) {
        add_slow(rest, plan, now, STEADY_STALL, OVERHEAD_STALLS, steps);
        return;
    }
    struct steady_recurring recurring = steady_recurring(steady);
    double loading = steady->slow[STEADY_STALL].extra_seconds - recurring.seconds;
    double seconds = loading * new_widths / steady->widths_seen;
    double train = steps * steady->step_seconds.mid;
    add(rest, seconds, seconds);
    add(rest, recurring.share * train, recurring.error * train);
}

// Tokens that the steps left have more than as many measured ones: grouped rows begin with the
// longest.
static double more_tokens(const struct outlook_plan *plan, const struct outlook_progress *now,
                          double steps)
{
    const struct steady *steady = now->steady;
    double left = packing_tokens_seen(&plan->sights, now->steps + steps) -
                  packing_tokens_seen(&plan->sights, now->steps);
    if (!(left > 0))
        left = steps * outlook_step_tokens(plan);
    return left - steps * steady->ordinary_tokens / (double)steady->ordinary_steps;
}

static struct range measured_rest(const struct outlook_plan *plan,
                                  const struct outlook_progress *now, double steps, double share)
{
    struct rest rest = { 0 };
    const struct range *step = &now->steady->step_seconds;
    double deviation = hypot((step->high - step->low) / (2 * Z90), later_spread * step->mid);
    add(&rest, steps * step->mid, steps * deviation);
    double new_widths = fmax(0, packing_widths_seen(&plan->sights, now->steps + steps) -
                                    packing_widths_seen(&plan->sights, now->steps));
    double more = now->steady->seconds_per_token > 0 && now->steady->ordinary_tokens > 0
                      ? now->steady->seconds_per_token * more_tokens(plan, now, steps)
                      : 0;
    add(&rest, fmax(more, -0.5 * rest.seconds), 0.3 * more);
    add_evaluations(&rest, plan, now, steps);
    add_slow(&rest, plan, now, STEADY_SAVE, OVERHEAD_SAVES, steps);
    add_stalls(&rest, plan, now, steps, new_widths);
    if (now->steady->seconds_per_width > 0) { // the steps above are without first sights
        double seconds = new_widths * now->steady->seconds_per_width;
        add(&rest, seconds, 0.3 * seconds);
    }
    double failures = share * plan->seconds[OVERHEAD_FAILURES];
    double half = STATS_P90 * sqrt(rest.variance);
    return (struct range){ fmax(rest.seconds - half, 0), rest.seconds + failures,
                           rest.seconds + failures + half + share * plan->failures_high_seconds };
}

static struct range times(struct range range, double factor)
{
    return (struct range){ range.low * factor, range.mid * factor, range.high * factor };
}

static enum outlook_place place_of(double value, struct range range)
{
    if (isnan(value) || isnan(range.low) || isnan(range.high))
        return OUTLOOK_UNKNOWN;
    return value < range.low ? OUTLOOK_BELOW : value > range.high ? OUTLOOK_ABOVE : OUTLOOK_INSIDE;
}

// The plan of the steps since the start: their share of it, and a start-up as all steps have.
static void plan_part(struct outlook *out, const struct outlook_plan *plan, double begun)
{
    double share = begun > 0 && begun < out->total ? (out->total - begun) / out->total : 1;
    double startup = plan->seconds[OVERHEAD_STARTUP] / (3600 * plan->wall_hours.mid);
    if (startup > 0 && startup < 1)
        share += (1 - share) * startup;
    out->planned.wall_hours = times(plan->wall_hours, share);
    out->planned.gpu_hours = times(plan->gpu_hours, share);
    out->planned.cost_usd = times(plan->cost_usd, share);
}

struct outlook outlook_make(const struct outlook_plan *plan, const struct outlook_progress *now)
{
    struct outlook out = { .total = now->total > 0 ? now->total : plan->steps };
    double gpus = now->gpus > 0 ? now->gpus : plan->gpus;
    double price = isnan(now->usd_per_gpu_hour) ? plan->usd_per_gpu_hour : now->usd_per_gpu_hour;
    double steps = fmax(out.total - now->steps, 0);
    plan_part(&out, plan, now->begun);
    double share = out.total > 0 ? steps / out.total : 1;
    // Until the rate is known, other GPUs are taken to need as many GPU hours.
    struct range rest = times(plan->wall_hours, 3600 * share * plan->gpus / gpus);
    if (now->steady && now->steady->step_seconds.mid > 0 && !isnan(now->steady->step_seconds.low)) {
        out.measured = true;
        rest = measured_rest(plan, now, steps, share);
    }
    out.remaining_seconds = rest.mid;
    double done = now->elapsed_seconds / 3600;
    out.wall_hours =
        (struct range){ done + rest.low / 3600, done + rest.mid / 3600, done + rest.high / 3600 };
    out.gpu_hours = times(out.wall_hours, gpus);
    out.cost_usd = times(out.gpu_hours, price);
    out.used_gpu_hours = done * gpus;
    out.used_usd = out.used_gpu_hours * price;
    out.place = out.measured ? place_of(out.gpu_hours.mid, out.planned.gpu_hours) : OUTLOOK_UNKNOWN;
    return out;
}
