// SPDX-License-Identifier: Apache-2.0
// Rate, step times, stalls and GPU figures of a wrapped run, as a pilot.

#include "cli/wrapped/wrapped_pilot.h"

#include "base/stats.h"

#include <math.h>
#include <string.h>

static const double IDLE_SHARE = 0.5;

// --- GPUs --------------------------------------------------------------------

// Start and end of the steady steps.
static void steady_time(const struct wrapped *run, double *from, double *to)
{
    const struct step_series *series = &run->source->series;
    size_t count = series->count, first = 0;
    int64_t warmup = run->steady.warmup_steps;
    for (; first + 1 < count && warmup > 0; first++)
        warmup -= series->steps[first].count > 0 ? series->steps[first].count : 1;
    *from = count ? series->steps[first].end_seconds - series->steps[first].seconds
                  : run->began_seconds;
    *to = count ? series->steps[count - 1].end_seconds : run->ended_seconds;
}

static const char *spell_throttling(struct arena *arena, const double *shares)
{
    struct out out = { .arena = arena };
    for (int i = 0; i < GPU_THROTTLES; i++)
        if (shares[i] > 0)
            out_put(&out, "%s%s %.0f %%", out.size ? ", " : "", gpu_throttle_name(i),
                    100 * shares[i]);
    return out.size ? out_string(&out) : NULL;
}

// The GPUs in use during the steady steps.
static void fill_gpus(struct pilot *out, struct arena *arena, const struct wrapped *run)
{
    double from, to, shares[GPU_THROTTLES] = { 0 };
    struct pilot_gpu *gpu = &out->gpu;
    double use = 0, watts = 0, clock = 0, throttled = 0;
    steady_time(run, &from, &to);
    for (int i = 0; i < gpu_monitor_count(run->gpu); i++) {
        const struct gpu_about *about = gpu_monitor_about(run->gpu, i);
        struct gpu_summary s = gpu_monitor_summary(run->gpu, i, from, to);
        if (!wrapped_uses(run, i))
            continue;
        if (!gpu->count++)
            gpu->name = text_copy(arena, text_of(about->name));
        out->peak_bytes = fmax(out->peak_bytes, s.peak_bytes);
        gpu->memory_bytes = about->memory_bytes;
        gpu->power_limit_watts = about->power_limit_watts;
        gpu->clock_limit_hertz = about->clock_limit_hertz;
        gpu->temperature_celsius = fmax(gpu->temperature_celsius, s.celsius);
        use += s.utilisation, watts += s.watts, clock += s.clock_hertz;
        throttled += s.throttled_share;
        for (int r = 0; r < GPU_THROTTLES; r++)
            shares[r] += s.throttled[r];
    }
    if (!gpu->count)
        return;
    double count = (double)gpu->count;
    gpu->utilisation = use / count;
    gpu->power_watts = watts / count;
    gpu->clock_hertz = clock / count;
    gpu->throttled_share = throttled / count;
    for (int r = 0; r < GPU_THROTTLES; r++)
        shares[r] /= count;
    gpu->throttling = spell_throttling(arena, shares);
}

// --- steps -------------------------------------------------------------------

static void fill_seconds(struct pilot_seconds *out, struct arena *arena, const struct wrapped *run)
{
    const struct step_series *series = &run->source->series;
    const struct steady *steady = &run->steady;
    double *seconds = ARENA_NEW(arena, double, series->count + 1);
    size_t count = 0;
    int64_t warmup = steady->warmup_steps;
    for (size_t i = 0; i < series->count; i++) {
        int64_t steps = series->steps[i].count > 0 ? series->steps[i].count : 1;
        if (warmup <= 0 && !series->steps[i].flags)
            seconds[count++] = series->steps[i].seconds / (double)steps;
        warmup -= steps;
    }
    *out = (struct pilot_seconds){ .mean = steady->step_seconds.mid,
                                   .p10 = steady->spread.low,
                                   .p50 = steady->spread.mid,
                                   .p90 = steady->spread.high,
                                   .p99 = NAN,
                                   .max = NAN };
    if (!count)
        return;
    stats_sort(seconds, count);
    out->p99 = stats_quantile(seconds, count, 0.99);
    out->max = seconds[count - 1];
}

// Whether unexplained slow steps waited for data: the GPUs were idle meanwhile. Where widths vary,
// GPUs are idle while kernels load, too.
static bool idle_in_stalls(const struct wrapped *run)
{
    const struct step_series *series = &run->source->series;
    double idle = 0, all = 0;
    for (size_t i = 0; run->gpu && i < series->count; i++) {
        const struct steady_step *step = &series->steps[i];
        double steps = step->count > 0 ? (double)step->count : 1;
        if (step->flags || step->seconds < 2 * steps * run->steady.spread.high)
            continue;
        for (int g = 0; g < gpu_monitor_count(run->gpu); g++) {
            struct gpu_summary s = gpu_monitor_summary(
                run->gpu, g, step->end_seconds - step->seconds, step->end_seconds);
            if (!s.samples || !wrapped_uses(run, g))
                continue;
            all += step->seconds;
            idle += s.utilisation < IDLE_SHARE ? step->seconds : 0;
        }
    }
    return all > 0 && idle > all / 2;
}

// Evaluations and saves as the run will pay for them.
static void fill_apart(struct pilot_apart *out, const struct steady_slow *slow,
                       const struct outlook_plan *plan)
{
    const struct steady_slow *evaluation = &slow[STEADY_EVALUATION], *save = &slow[STEADY_SAVE];
    out->evaluations = evaluation->count;
    out->saves = save->count;
    if (evaluation->count)
        out->first_evaluation_seconds = evaluation->first_seconds;
    if (evaluation->later)
        out->evaluation_seconds = evaluation->later_seconds / (double)evaluation->later;
    if (evaluation->count && plan && plan->evaluation_share > 0)
        out->evaluation_share = plan->evaluation_share;
    if (save->count)
        out->save_seconds = save->extra_seconds / (double)save->count;
}

static void fill_stalls(struct pilot *out, const struct wrapped *run)
{
    const struct steady_slow *slow = run->steady.slow;
    double stalled = slow[STEADY_STALL].extra_seconds;
    bool widths_vary = run->steady.widths_seen > 0;
    bool data = stalled > 0 && !widths_vary && idle_in_stalls(run);
    struct steady_recurring recurring = steady_recurring(&run->steady);
    out->stalls =
        (struct pilot_stalls){ .data_seconds = data ? stalled : NAN,
                               .evaluation_seconds = slow[STEADY_EVALUATION].extra_seconds,
                               .save_seconds = slow[STEADY_SAVE].extra_seconds,
                               .other_seconds = data ? 0 : stalled,
                               .recurring_share = recurring.share,
                               .recurring_error = recurring.error };
    const struct wrapped_source *source = run->source;
    double first = !isnan(source->begin_seconds) ? source->begin_seconds
                   : source->series.count        ? source->series.steps[0].end_seconds
                                                 : NAN;
    out->apart.startup_seconds = first - run->began_seconds;
}

// What first sights of widths cost. The stalls that nothing else explains and that do not go on
// load kernels: on an H200 they came with the first width of an alignment, and not again on that
// machine.
static void fill_transient(struct pilot *out, const struct wrapped *run,
                           const struct outlook_plan *plan)
{
    const struct steady *steady = &run->steady;
    out->transient.first_steps_seconds = steady->first_seconds;
    if (!plan || !(steady->seconds_per_width >= 0) || !(steady->widths_seen > 0))
        return;
    double stalled = steady->slow[STEADY_STALL].extra_seconds - steady_recurring(steady).seconds;
    out->transient = (struct pilot_transient){
        .seconds_per_width = steady->seconds_per_width,
        .widths_seen = steady->widths_seen,
        .widths_run = packing_widths_seen(&plan->sights, plan->steps),
        .first_steps_seconds = steady->first_seconds + stalled,
    };
}

// Whether the pilot certainly met the longest rows: all batches are about as wide, rows are grouped
// by length, whose longest come first, the pilot lasted an epoch, or a step had as many tokens.
static bool met_longest(const struct step_series *series, const struct outlook_plan *plan)
{
    const double alike = 0.95; // of a width
    const struct pilot_configuration *c = &plan->configuration;
    double most = c->global_batch * plan->longest_width; // tokens of one step
    double steps = series->last_step - series->first_step;
    bool first = c->batching && !strcmp(c->batching, batching_names_auto[BATCHING_GROUPED]);
    if (!(plan->width < alike * plan->longest_width) || first || steps >= plan->steps_per_epoch)
        return true;
    for (size_t i = 0; c->accumulation == 1 && i < series->count; i++)
        if (series->steps[i].count <= 1 && series->steps[i].tokens >= alike * most)
            return true;
    return false;
}

// What the run has and the pilot did not meet; without a plan, what most runs have.
static const char *not_seen(const struct wrapped *run, const struct outlook_plan *plan,
                            const struct pilot_transient *transient, struct arena *arena)
{
    struct out list = { .arena = arena };
    const struct steady_slow *slow = run->steady.slow;
    static const struct {
        enum steady_cause cause;
        enum overhead_kind planned;
        const char *name;
    } parts[] = { { STEADY_EVALUATION, OVERHEAD_EVALUATION, "evaluation" },
                  { STEADY_SAVE, OVERHEAD_SAVES, "saves" } };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!slow[parts[i].cause].count && (!plan || plan->seconds[parts[i].planned] > 0))
            out_put(&list, "%s%s", list.size ? ", " : "", parts[i].name);
    double left = transient->widths_run - transient->widths_seen;
    if (left >= 1)
        out_put(&list, "%s%.0f of %.0f widths", list.size ? ", " : "", left, transient->widths_run);
    if (plan && !met_longest(&run->source->series, plan))
        out_put(&list, "%sthe longest rows (%s tokens)", list.size ? ", " : "",
                text_commas(arena, llround(plan->longest_width)));
    return list.size ? out_string(&list) : NULL;
}

// Moves the rate from the tokens of the measured steps to those of the run's mean step, where the
// fit tells what a token costs: grouped rows begin with the longest. Steps of other batches than
// the plan's stay as they are.
static void move_rate(struct pilot *out, const struct steady *steady,
                      const struct outlook_plan *plan)
{
    double planned = plan ? outlook_step_tokens(plan) : NAN, seen = out->composition.tokens;
    double seconds = steady->step_seconds.mid;
    double moved = seconds + steady->seconds_per_token * (planned - seen);
    if (!(planned < 2 * seen && seen < 2 * planned) || !(moved > 0.2 * seconds) ||
        !(moved < 5 * seconds))
        return;
    double factor = planned / moved / out->tokens_per_s.mean;
    out->tokens_per_s.mean *= factor;
    out->tokens_per_s.low *= factor;
    out->tokens_per_s.high *= factor;
    out->composition.tokens = planned;
    out->step_seconds.mean = moved;
}

// What the trainer printed of the phases. A sum that it gives in place of its parts stands for
// them.
static void fill_phases(struct pilot *out, const struct wrapped *run,
                        const struct outlook_plan *plan)
{
    struct step_series_phases found =
        step_series_phases(&run->source->series, run->steady.warmup_steps);
    const double *seconds = found.seconds;
    bool parts = seconds[TRAINER_PHASE_LOG_PROBABILITIES] > 0;
    double values = seconds[TRAINER_PHASE_VALUES];
    out->phases = (struct pilot_phases){
        .rollout = seconds[TRAINER_PHASE_ROLLOUT],
        .reward = seconds[TRAINER_PHASE_REWARD],
        .reference = seconds[TRAINER_PHASE_REFERENCE],
        .log_probabilities =
            seconds[parts ? TRAINER_PHASE_LOG_PROBABILITIES : TRAINER_PHASE_SCORING],
        .critic = seconds[TRAINER_PHASE_CRITIC] + (values > 0 ? values : 0),
        .training = seconds[TRAINER_PHASE_TRAINING],
        .weight_update = seconds[TRAINER_PHASE_WEIGHTS],
    };
    out->answer_tokens = found.answer_tokens;
    if (plan) {
        out->objective = plan->objective;
        out->planned = plan->phases;
    }
}

static void doubt(struct out *out, const char *text)
{
    out_put(out, "%s%s", out->size ? "; " : "", text);
}

// Steps of an epoch, by the epochs that are printed, against the plan's; a short pilot may count to
// fewer steps than the plan, but not to more.
static void doubt_steps(struct out *out, const struct step_series *series,
                        const struct outlook_plan *plan)
{
    const double most = WRAPPED_DEPARTS, rounded = 0.005; // of epochs with two decimals
    double planned = plan->steps_per_epoch, epoch = series->epoch;
    if (epoch > 2 * rounded && (series->last_step > most * planned * (epoch + rounded) ||
                                planned * (epoch - rounded) > most * series->last_step))
        doubt(out, text_format(out->arena,
                               "an epoch has about %.0f of its steps, and %.0f of the "
                               "plan's: its batches or its data are others",
                               series->last_step / epoch, planned));
    else if (isnan(epoch) && series->total > most * plan->steps)
        doubt(out, text_format(out->arena, "it counts to %.0f step%s, and the plan to %.0f",
                               series->total, text_plural(series->total), plan->steps));
}

// The batches of the trainer against the plan's, as far as it tells them. Trainers of reinforcement
// learning count prompts, answers or pairs.
static void doubt_batches(struct out *out, const struct wrapped *run,
                          const struct outlook_plan *plan)
{
    const struct step_series *series = &run->source->series;
    double rows = plan->configuration.micro_batch;
    int64_t gpus = wrapped_gpus(run), nodes = plan->configuration.nodes;
    double of_node = plan->gpus / (double)(nodes > 0 ? nodes : 1);
    bool planned = series->origin == STEP_SERIES_GIVEN && !(run->settings.step_tokens > 0);
    if (plan->objective)
        return;
    if (rows > 0 && series->micro_batch > 0 && rows != series->micro_batch)
        doubt(out, text_format(out->arena, "its micro-batches have %.0f row%s, and the plan's %.0f",
                               series->micro_batch, text_plural(series->micro_batch), rows));
    if (gpus && (double)gpus != of_node)
        doubt(out, text_format(out->arena, "it uses %lld GPU%s, and the plan %.0f", (long long)gpus,
                               text_plural(gpus), of_node));
    if (planned && !(series->global_batch > 0))
        doubt_steps(out, series, plan);
}

// What the trainer printed against itself, and its steps against the plan's.
static const char *find_doubts(const struct wrapped *run, const struct pilot *pilot,
                               const struct outlook_plan *plan, struct arena *arena)
{
    double counted = plan && plan->labelled_share < 1 ? plan->labelled_share : 1;
    const char *own =
        step_series_doubts(&run->source->series, arena, pilot->tokens_per_s.mean, counted);
    double seen = pilot->composition.tokens, planned = plan ? outlook_step_tokens(plan) : NAN;
    struct out out = { .arena = arena };
    if (run->source->series.out_of_memory)
        doubt(&out, "the trainer ran out of GPU memory");
    if (own)
        doubt(&out, own);
    if (wrapped_departs(run, seen))
        doubt(&out,
              text_format(arena, "its steps have %s tokens, and the plan's %s",
                          text_commas(arena, llround(seen)), text_commas(arena, llround(planned))));
    if (plan)
        doubt_batches(&out, run, plan);
    return out.size ? out_string(&out) : NULL;
}

void wrapped_pilot_fill(struct pilot *out, struct arena *arena, const struct wrapped *run,
                        const struct outlook_plan *plan)
{
    const struct steady *steady = &run->steady;
    const struct step_series *series = &run->source->series;
    pilot_clear(out);
    out->tokens_per_s = (struct pilot_rate){ NAN, NAN, NAN };
    if (series->origin != STEP_SERIES_NONE)
        out->tokens_per_s = (struct pilot_rate){ steady->tokens_per_s.mid, steady->tokens_per_s.low,
                                                 steady->tokens_per_s.high };
    out->warmup_steps = steady->warmup_steps;
    out->steps = steady->ordinary_steps;
    out->steady = steady->verdict == STEADY_YES;
    out->verdict = steady->reason ? text_copy(arena, text_of(steady->reason)) : NULL;
    if (series->count)
        fill_seconds(&out->step_seconds, arena, run);
    if (series->origin != STEP_SERIES_NONE && steady->ordinary_steps > 0)
        out->composition.tokens = steady->ordinary_tokens / (double)steady->ordinary_steps;
    fill_stalls(out, run);
    fill_apart(&out->apart, steady->slow, plan);
    fill_transient(out, run, plan);
    fill_phases(out, run, plan);
    out->not_seen = not_seen(run, plan, &out->transient, arena);
    out->doubts = find_doubts(run, out, plan, arena);
    if (steady->seconds_per_token >= 0)
        move_rate(out, steady, plan);
    fill_gpus(out, arena, run);
    if (isnan(out->peak_bytes))
        out->peak_bytes = series->peak_bytes;
    if (plan) {
        out->configuration = plan->configuration;
        out->stack = plan->configuration.stack;
    }
    out->elapsed_seconds = wrapped_elapsed(run);
}
