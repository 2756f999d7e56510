// SPDX-License-Identifier: Apache-2.0
// The summary of a pilot for a person.

#include "core/measured/pilot.h"
#include "base/stats.h"
#include "base/text.h"

#include <math.h>

static void put_rate(const struct pilot *pilot, struct arena *arena, struct out *out)
{
    const struct pilot_rate *rate = &pilot->tokens_per_s;
    if (isnan(rate->mean)) {
        double seconds = pilot->step_seconds.mean;
        out_labelled(out, "speed",
                     seconds > 0 ? text_format(arena,
                                               "%.3g steps/s; tokens/s needs "
                                               "--tokens-per-step, --from or --plan",
                                               1 / seconds)
                                 : "not measured: too few steps");
    } else {
        const char *interval = isnan(rate->low) || isnan(rate->high)
                                   ? "no interval: too few steps"
                                   : text_format(arena, "90 %% interval %s to %s, ± %.1f %%",
                                                 text_commas(arena, llround(rate->low)),
                                                 text_commas(arena, llround(rate->high)),
                                                 50 * (rate->high - rate->low) / rate->mean);
        out_labelled(out, "speed",
                     text_format(arena, "%s tokens/s%s  (%s)",
                                 text_commas(arena, llround(rate->mean)),
                                 pilot->steady ? " sustained" : "", interval));
    }
    if (pilot->verdict)
        out_labelled(out, pilot->steady ? "steady" : "NOT STEADY", pilot->verdict);
    else if (!pilot->steady)
        out_labelled(out, "NOT STEADY", "the rate did not settle; run the pilot longer");
}

static void put_doubts(const struct pilot *pilot, struct out *out)
{
    if (pilot->doubts)
        out_labelled(out, "DOUBTFUL", pilot->doubts);
}

static void put_steps(const struct pilot *pilot, struct arena *arena, struct out *out)
{
    const struct pilot_seconds *s = &pilot->step_seconds;
    const char *warmup =
        text_format(arena, "%lld measured after %lld warm-up step%s", (long long)pilot->steps,
                    (long long)pilot->warmup_steps, text_plural((double)pilot->warmup_steps));
    out_labelled(out, "steps",
                 isnan(s->p50)
                     ? warmup
                     : text_format(arena, "%s: median %s (80 %% from %s to %s, longest %s)", warmup,
                                   text_seconds(arena, s->p50), text_seconds(arena, s->p10),
                                   text_seconds(arena, s->p90), text_seconds(arena, s->max)));
    const struct pilot_fit *fit = &pilot->fit;
    if (fit->samples > 0)
        out_labelled(
            out, "micro-batch",
            text_format(
                arena,
                "%s + %.3g µs per token + %.3g ns per squared token + %.3g µs per labelled token, "
                "± %.1f %% (%lld timed)",
                text_seconds(arena, fit->constant_seconds), 1e6 * fit->seconds_per_token,
                1e9 * fit->seconds_per_square, 1e6 * fit->seconds_per_labelled, 100 * fit->spread,
                (long long)fit->samples));
}

// Joins the known ones of a list of seconds; NULL if none is known.
static const char *join_seconds(struct arena *arena, const char *const *names, const double *values,
                                size_t count)
{
    struct out line = { .arena = arena };
    for (size_t i = 0; i < count; i++)
        if (values[i] > 0)
            out_put(&line, "%s%s %s", line.size ? ", " : "", names[i],
                    text_seconds(arena, values[i]));
    return line.size ? out_string(&line) : NULL;
}

static void put_stalls(const struct pilot *pilot, struct arena *arena, struct out *out)
{
    static const char *const names[] = { "data loading", "evaluation", "saves", "other" };
    const double values[] = { pilot->stalls.data_seconds, pilot->stalls.evaluation_seconds,
                              pilot->stalls.save_seconds, pilot->stalls.other_seconds };
    const char *stalled = join_seconds(arena, names, values, 4);
    if (stalled && pilot->stalls.recurring_share > 0)
        stalled = text_format(
            arena, "%s; recurring stalls take %s ± %s of the steps' time, and plans include them",
            stalled, text_share(arena, pilot->stalls.recurring_share),
            text_share(arena, STATS_P90 * pilot->stalls.recurring_error));
    out_labelled(out, "stalls", stalled ? stalled : "none");
    static const char *const apart_names[] = { "start-up",         "optimizer step",
                                               "first evaluation", "evaluation",
                                               "checkpoint",       "between ranks, a step" };
    const struct pilot_apart *a = &pilot->apart;
    const double apart[] = { a->startup_seconds,    a->update_seconds, a->first_evaluation_seconds,
                             a->evaluation_seconds, a->save_seconds,   a->communication_seconds };
    const char *line = join_seconds(arena, apart_names, apart, sizeof apart / sizeof *apart);
    if (line)
        out_labelled(out, "overheads", line);
}

static void put_phases(const struct pilot *pilot, struct arena *arena, struct out *out)
{
    static const char *const names[] = { "rollout", "reward",   "reference",    "log-probabilities",
                                         "critic",  "training", "weight update" };
    const struct pilot_phases *p = &pilot->phases;
    const double values[] = { p->rollout, p->reward,   p->reference,    p->log_probabilities,
                              p->critic,  p->training, p->weight_update };
    const char *line = join_seconds(arena, names, values, sizeof values / sizeof *values);
    if (line)
        out_labelled(out, "phases", line);
}

static void put_gpu(const struct pilot *pilot, struct arena *arena, struct out *out)
{
    const struct pilot_gpu *gpu = &pilot->gpu;
    if (!isnan(pilot->peak_bytes))
        out_labelled(out, "memory",
                     isnan(gpu->memory_bytes)
                         ? text_format(arena, "peak %s", text_bytes(arena, pilot->peak_bytes))
                         : text_format(arena, "peak %s of %s", text_bytes(arena, pilot->peak_bytes),
                                       text_bytes(arena, gpu->memory_bytes)));
    struct out line = { .arena = arena };
    if (gpu->count > 0)
        out_put(&line, "%lld × %s", (long long)gpu->count, gpu->name ? gpu->name : "unknown");
    if (!isnan(gpu->utilisation))
        out_put(&line, ", %.0f %% busy", 100 * gpu->utilisation);
    if (!isnan(gpu->power_watts))
        out_put(&line, ", %.0f W", gpu->power_watts);
    if (!isnan(gpu->power_limit_watts))
        out_put(&line, " of %.0f", gpu->power_limit_watts);
    if (!isnan(gpu->clock_hertz))
        out_put(&line, ", %.0f MHz", gpu->clock_hertz / 1e6);
    if (!isnan(gpu->temperature_celsius))
        out_put(&line, ", %.0f °C", gpu->temperature_celsius);
    if (gpu->throttled_share > 0)
        out_put(&line, ", throttled %.0f %% of the time%s%s", 100 * gpu->throttled_share,
                gpu->throttling ? ": " : "", gpu->throttling ? gpu->throttling : "");
    if (line.size)
        out_labelled(out, "device", out_string(&line));
}

static void put_transient(const struct pilot *pilot, struct arena *arena, struct out *out)
{
    const struct pilot_transient *t = &pilot->transient;
    if (t->seconds_per_width > 0 && t->widths_seen >= 1)
        out_labelled(
            out, "new widths",
            text_format(arena,
                        "%.0f seen of the %.0f in the run, %s each, not included in the rate",
                        t->widths_seen, fmax(t->widths_run, t->widths_seen),
                        text_seconds(arena, t->seconds_per_width)));
}

void pilot_text(const struct pilot *pilot, struct arena *arena, struct out *out)
{
    put_rate(pilot, arena, out);
    put_doubts(pilot, out);
    put_steps(pilot, arena, out);
    put_phases(pilot, arena, out);
    put_transient(pilot, arena, out);
    put_stalls(pilot, arena, out);
    if (pilot->not_seen)
        out_labelled(
            out, "not seen",
            text_format(arena, "%s; the plan's assumptions are kept for these", pilot->not_seen));
    put_gpu(pilot, arena, out);
}
