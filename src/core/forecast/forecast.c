// SPDX-License-Identifier: Apache-2.0
// Monte Carlo over the unknowns of a run: samples them, runs the overhead model on each sample, and
// takes quantiles. Also finds which unknown widens the range most.

#include "core/forecast/forecast.h"

#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// One sample: standard normal variables, that of the efficiency with longer tails, and uniform ones
// in [0, 1).
struct chance {
    double efficiency, lengths, startup, storage, evaluation, failure_rate;
    double failure, lost, retry, failed, price;
    double first_sights, failed_rate, stalls;
};

struct forecast_sample {
    struct chance chance;
    struct overhead_draw draw; // of overheads that are the same for every configuration
};

static const struct {
    const char *name, *measurement;
} drivers[] = {
    [FORECAST_EFFICIENCY] = { "throughput of the stack", "the speed, with a five-minute pilot" },
    [FORECAST_LENGTHS] = { "lengths of the examples", "the lengths, with gpuhours profile" },
    [FORECAST_STARTUP] = { "start-up", "the start-up time of one job (--startup)" },
    [FORECAST_STORAGE] = { "storage throughput", "the storage throughput (--storage)" },
    [FORECAST_EVALUATION] = { "evaluation", "the share of the data to evaluate on (--eval-share)" },
    [FORECAST_FAILURES] = { "failures", NULL },
    [FORECAST_RETRIES] = { "failed and repeated runs", NULL },
    [FORECAST_WIDTHS] = { "new widths",
                          "new widths, with a pilot, or avoid them with --pad-to-multiple-of" },
};

static void sample_chances(struct chance *chances, size_t count, uint64_t seed)
{
    struct rng rng = rng_seeded(seed);
    for (size_t i = 0; i < count; i++)
        chances[i] = (struct chance){
            .efficiency = evidence_tail(rng_normal(&rng)),
            .lengths = rng_normal(&rng),
            .startup = rng_normal(&rng),
            .storage = rng_normal(&rng),
            .evaluation = rng_normal(&rng),
            .failure_rate = rng_normal(&rng),
            .failure = rng_uniform(&rng),
            .lost = rng_uniform(&rng),
            .retry = rng_uniform(&rng),
            .failed = rng_uniform(&rng),
            .price = rng_uniform(&rng),
        };
    for (size_t i = 0; i < count; i++)
        chances[i].first_sights = rng_normal(&rng);
    for (size_t i = 0; i < count; i++)
        chances[i].failed_rate = rng_normal(&rng);
    for (size_t i = 0; i < count; i++)
        chances[i].stalls = rng_normal(&rng);
}

// The sample with one unknown at its middle, or with all others at theirs.
static struct chance hold(struct chance chance, enum forecast_driver_kind kind, bool others)
{
    struct chance middle = { .failure = NAN, .lost = 0.5, .retry = NAN, .failed = NAN };
    struct chance *to = others ? &middle : &chance, from = others ? chance : middle;
    switch (kind) {
    case FORECAST_EFFICIENCY: // as piloted, with the stalls of its steps
        to->efficiency = from.efficiency;
        to->stalls = from.stalls;
        break;
    case FORECAST_LENGTHS: to->lengths = from.lengths; break;
    case FORECAST_STARTUP: to->startup = from.startup; break;
    case FORECAST_STORAGE: to->storage = from.storage; break;
    case FORECAST_EVALUATION: to->evaluation = from.evaluation; break;
    case FORECAST_FAILURES:
        to->failure_rate = from.failure_rate;
        to->failure = from.failure;
        to->lost = from.lost;
        break;
    case FORECAST_WIDTHS: to->first_sights = from.first_sights; break;
    default: // repeats: where a failed attempt ends is the luck of failures too
        to->retry = from.retry;
        to->failed = from.failed;
        to->failed_rate = from.failed_rate;
    }
    return *to;
}

static double tokens_per_s(const struct forecast_input *input, const struct chance *chance)
{
    return input->roofline_tokens_per_s *
           exp(efficiency_at(&input->efficiency, chance->efficiency));
}

// What all samples need of each unknown, worked out once.
struct unknowns {
    const struct forecast_input *input;
    struct assumption_spread lengths;
    struct assumption_spread startup, compile, storage, evaluation, save, failures, failed_runs;
    struct assumption_spread stalls;
    struct assumption_spread first_width, first_steps, first_evaluation, compilations;
};

static void set_unknowns(struct unknowns *out, const struct forecast_input *input)
{
    const struct overheads *o = &input->overheads;
    struct assumption lengths = { .value = input->lengths_factor };
    *out = (struct unknowns){
        .input = input,
        .lengths = assumption_spread(&lengths),
        .startup = assumption_spread(&o->startup_seconds),
        .compile = assumption_spread(&o->compile_seconds),
        .storage = assumption_spread(&o->storage_bytes_per_s),
        .evaluation = assumption_spread(overhead_evaluation(o)),
        .save = assumption_spread(&o->save_seconds),
        .stalls = assumption_spread(&o->stall_share),
        .failures = assumption_spread(&o->failures_per_gpu_hour),
        .failed_runs = assumption_spread(&o->failed_runs),
        .first_width = assumption_spread(&o->first_width_seconds),
        .first_steps = assumption_spread(&o->first_steps_seconds),
        .first_evaluation = assumption_spread(&o->first_evaluation_seconds),
        .compilations = assumption_spread(&o->compilations),
    };
}

// Of what is the same for every configuration of a plan.
static struct overhead_draw draw_shared(const struct unknowns *u, const struct chance *chance)
{
    return (struct overhead_draw){
        .startup_seconds = assumption_at(&u->startup, chance->startup),
        .compile_seconds = assumption_at(&u->compile, chance->startup),
        .storage_bytes_per_s = assumption_at(&u->storage, chance->storage),
        .evaluation = assumption_at(&u->evaluation, chance->evaluation),
        .save_seconds = assumption_at(&u->save, -chance->storage),
        .failures_per_gpu_hour = assumption_at(&u->failures, chance->failure_rate),
        .failed_runs =
            overhead_count(assumption_at(&u->failed_runs, chance->failed_rate), chance->failed),
        .retries = overhead_further_runs(u->input->overheads.retries.value.mid, chance->retry),
        .failure_chance = chance->failure,
        .lost_share = chance->lost,
    };
}

// A sample of a run: what overhead_run() takes.
struct sampled_run {
    struct overhead_draw draw;
    double train_seconds, tokens;
};

// With the draw of what is shared.
static inline struct sampled_run run_with(const struct unknowns *u, const struct chance *chance,
                                          const struct overhead_draw *shared)
{
    const struct forecast_input *input = u->input;
    const struct overheads *o = &input->overheads;
    struct sampled_run run = { .draw = *shared };
    if (o->new_widths > 0)
        run.draw.first_width_seconds = assumption_at(&u->first_width, chance->first_sights);
    run.draw.first_steps_seconds = assumption_at(&u->first_steps, chance->first_sights);
    if (o->evals_per_epoch.value.mid > 0)
        run.draw.first_evaluation_seconds =
            assumption_at(&u->first_evaluation, chance->first_sights);
    if (o->compiles)
        run.draw.compilations = assumption_at(&u->compilations, chance->first_sights);
    if (o->stall_share.value.mid > 0)
        run.draw.stall_share = assumption_at(&u->stalls, chance->stalls);
    run.tokens = input->processed_tokens * assumption_at(&u->lengths, chance->lengths);
    run.train_seconds = run.tokens / tokens_per_s(input, chance);
    return run;
}

static double wall_seconds_with(const struct unknowns *u, const struct chance *chance,
                                const struct overhead_draw *shared)
{
    struct sampled_run run = run_with(u, chance, shared);
    return overhead_wall(&u->input->overheads, &run.draw, run.train_seconds, run.tokens);
}

static double wall_seconds(const struct unknowns *u, const struct chance *chance)
{
    struct overhead_draw shared = draw_shared(u, chance);
    return wall_seconds_with(u, chance, &shared);
}

double forecast_middle(struct overhead_times *out, const struct forecast_input *input)
{
    struct chance middle = { 0 };
    struct overhead_draw draw = overhead_middle(&input->overheads);
    double tokens = input->processed_tokens * input->lengths_factor.mid;
    overhead_run(out, &input->overheads, &draw, tokens / tokens_per_s(input, &middle), tokens);
    return out->wall_seconds;
}

// The logarithm of the factor is Y = b·z above its middle and a·z below, and X that of the speed.
// The median of X + Y by the first terms of Cornish and Fisher: mean − κ₃ / (6 · variance). X has
// the tails of measured runs (evidence.h), and with the same P10 and P90 as a normal a narrower
// middle.
double forecast_lengths(const struct range *factor, double log_spread)
{
    double a = log(factor->mid / factor->low) / STATS_P90,
           b = log(factor->high / factor->mid) / STATS_P90;
    double spread = STATS_T4_SCALE * STATS_T4_SCALE * log_spread * log_spread;
    if (!(spread > 0) || a == b || !(factor->low > 0))
        return factor->mid;
    double mean = (b - a) / sqrt(2 * acos(-1)), square = (a * a + b * b) / 2,
           cube = (b * b * b - a * a * a) * sqrt(2 / acos(-1));
    double variance = square - mean * mean;
    double skewed = cube - 3 * mean * square + 2 * mean * mean * mean;
    double median = mean - skewed / (6 * (variance + spread));
    // The expansion overshoots where lengths are far less certain than the speed.
    return factor->mid * exp((b > a ? fmax : fmin)(0, median));
}

// --- what drives the range ---------------------------------------------------

static bool varies(const struct forecast_input *input, enum forecast_driver_kind kind)
{
    const struct overheads *o = &input->overheads;
    switch (kind) {
    case FORECAST_EFFICIENCY: return input->efficiency.log_spread > 0;
    case FORECAST_LENGTHS: return input->lengths_factor.low != input->lengths_factor.high;
    case FORECAST_RETRIES: return o->retries.value.mid > 0 || o->failed_runs.value.mid > 0;
    case FORECAST_WIDTHS:
        return o->first_width_seconds.value.low != o->first_width_seconds.value.high;
    default: return true;
    }
}

static struct range gpu_hours(double *scratch, const struct unknowns *unknowns,
                              const struct forecast_samples *samples, size_t count,
                              enum forecast_driver_kind kind, bool others)
{
    for (size_t i = 0; i < count; i++) {
        struct chance chance = hold(samples->items[i].chance, kind, others);
        scratch[i] = wall_seconds(unknowns, &chance) / 3600 * unknowns->input->overheads.gpus;
    }
    return stats_quick_range(scratch, count);
}

static double width(const struct forecast_driver *driver)
{
    return driver->high - driver->low;
}

// A driver's bar. Alone, an unknown gives a distribution around the run with every *middle* value,
// which is not the forecast's median where unknowns are skewed: lengths can only add padding. The
// bar is that distribution moved so that its median is the forecast's:
//
//     alone            ├──────┼─────────┤             P10, P50, P90 with the others at their middle
//     the others add          ├────→                  forecast's P50 − P50 alone
//     bar                   ├──────┼─────────┤        so every bar contains the forecast's median
static void set_bar(struct forecast_driver *driver, struct range alone, double median)
{
    double others = median - alone.mid;
    driver->low = alone.low + others;
    driver->high = alone.high + others;
    assert(!(driver->low > median * (1 + 1e-9)) && !(driver->high < median * (1 - 1e-9)));
}

static void find_drivers(struct forecast *out, double *scratch, const struct unknowns *unknowns,
                         const struct forecast_samples *samples)
{
    const struct forecast_input *input = unknowns->input;
    enum { FEWER = FORECAST_SAMPLES / 10 }; // enough for one unknown alone
    for (int kind = 0; kind < FORECAST_DRIVERS; kind++) {
        struct forecast_driver driver = {
            .kind = (enum forecast_driver_kind)kind,
            .name = drivers[kind].name,
            .measurement = drivers[kind].measurement,
            .low = out->gpu_hours.mid,
            .high = out->gpu_hours.mid,
            .gpu_hours_known = out->gpu_hours,
        };
        if (kind == FORECAST_EFFICIENCY && input->efficiency.is_piloted)
            driver.name = "throughput, as piloted", driver.measurement = NULL;
        if (varies(input, driver.kind)) {
            set_bar(&driver, gpu_hours(scratch, unknowns, samples, FEWER, driver.kind, true),
                    out->gpu_hours.mid);
            driver.gpu_hours_known =
                gpu_hours(scratch, unknowns, samples, FEWER, driver.kind, false);
        }
        int at = kind;
        for (; at > 0 && width(&out->drivers[at - 1]) < width(&driver); at--)
            out->drivers[at] = out->drivers[at - 1];
        out->drivers[at] = driver;
    }
}

static double usd_per_gpu_hour(const struct forecast_input *input, const struct chance *chance)
{
    return stats_quantile(input->price.usd_per_gpu_hour, input->price.offers, chance->price);
}

// --- many configurations on the same samples ---------------------------------

void forecast_sample(struct forecast_samples *out, struct arena *arena,
                     const struct overheads *overheads, uint64_t seed)
{
    struct forecast_sample *items = ARENA_NEW(arena, struct forecast_sample, FORECAST_SAMPLES);
    struct arena_mark mark = arena_mark(arena);
    struct chance *chances = ARENA_NEW(arena, struct chance, FORECAST_SAMPLES);
    sample_chances(chances, FORECAST_SAMPLES, seed);
    struct forecast_input input = { .overheads = *overheads };
    struct unknowns unknowns;
    set_unknowns(&unknowns, &input);
    for (size_t i = 0; i < FORECAST_SAMPLES; i++)
        items[i] = (struct forecast_sample){ chances[i], draw_shared(&unknowns, &chances[i]) };
    arena_rewind(arena, mark);
    *out = (struct forecast_samples){ items, FORECAST_SAMPLES, seed };
}

void forecast_run(struct forecast_outcome *out, struct arena *arena,
                  const struct forecast_input *input, const struct forecast_samples *samples,
                  size_t count)
{
    assert(count <= samples->count);
    struct arena_mark mark = arena_mark(arena);
    double *wall = ARENA_NEW(arena, double, count), *cost = ARENA_NEW(arena, double, count);
    struct unknowns unknowns;
    set_unknowns(&unknowns, input);
    for (size_t i = 0; i < count; i++) {
        const struct forecast_sample *sample = &samples->items[i];
        wall[i] = wall_seconds_with(&unknowns, &sample->chance, &sample->draw) / 3600;
        cost[i] = wall[i] * input->overheads.gpus * usd_per_gpu_hour(input, &sample->chance);
    }
    *out = (struct forecast_outcome){ .wall_hours = stats_quick_range(wall, count),
                                      .cost_usd = { NAN, NAN, NAN },
                                      .tokens_per_s = input->roofline_tokens_per_s *
                                                      exp(input->efficiency.log_mid) };
    if (input->price.offers)
        out->cost_usd = stats_quick_range(cost, count);
    arena_rewind(arena, mark);
}

static void sum_repeats(struct forecast *out, double *gpu_hours)
{
    for (size_t i = 0; i < FORECAST_SAMPLES; i++) {
        out->repeats_share += (gpu_hours[i] > 0) / (double)FORECAST_SAMPLES;
        out->repeats_gpu_hours += gpu_hours[i] / FORECAST_SAMPLES;
    }
    struct range range = stats_quick_range(gpu_hours, FORECAST_SAMPLES);
    out->repeats_gpu_hours_mid = range.mid;
    out->repeats_gpu_hours_high = range.high;
}

void forecast_make(struct forecast *out, struct arena *arena, const struct forecast_input *input,
                   const struct forecast_samples *samples)
{
    struct arena_mark mark = arena_mark(arena);
    double *rate = ARENA_NEW(arena, double, FORECAST_SAMPLES);
    double *wall = ARENA_NEW(arena, double, FORECAST_SAMPLES);
    double *cost = ARENA_NEW(arena, double, FORECAST_SAMPLES);
    double *repeats = ARENA_NEW(arena, double, FORECAST_SAMPLES);
    double gpus = input->overheads.gpus;
    struct unknowns unknowns;
    set_unknowns(&unknowns, input);
    for (size_t i = 0; i < FORECAST_SAMPLES; i++) {
        const struct chance *chance = &samples->items[i].chance;
        struct overhead_draw shared = draw_shared(&unknowns, chance);
        struct sampled_run run = run_with(&unknowns, chance, &shared);
        struct overhead_times times;
        overhead_run(&times, &input->overheads, &run.draw, run.train_seconds, run.tokens);
        rate[i] = tokens_per_s(input, chance);
        wall[i] = times.wall_seconds / 3600;
        cost[i] = wall[i] * gpus * usd_per_gpu_hour(input, chance);
        repeats[i] = times.seconds[OVERHEAD_RETRIES] / 3600 * gpus;
    }
    *out = (struct forecast){ .tokens_per_s = stats_quick_range(rate, FORECAST_SAMPLES),
                              .wall_hours = stats_quick_range(wall, FORECAST_SAMPLES),
                              .cost_usd = { NAN, NAN, NAN } };
    if (input->price.offers)
        out->cost_usd = stats_quick_range(cost, FORECAST_SAMPLES);
    out->gpu_hours = (struct range){ out->wall_hours.low * gpus, out->wall_hours.mid * gpus,
                                     out->wall_hours.high * gpus };
    stats_sort(wall, FORECAST_SAMPLES);
    for (int i = 0; i < FORECAST_PERCENTILES; i++)
        out->gpu_hours_percentiles[i] =
            gpus * stats_quantile(wall, FORECAST_SAMPLES, 0.05 * (double)(i + 1));
    forecast_middle(&out->middle, input);
    sum_repeats(out, repeats);
    find_drivers(out, rate, &unknowns, samples);
    arena_rewind(arena, mark);
}

// --- several runs ------------------------------------------------------------

// The same unknowns with the luck of another run.
static struct chance reroll(struct chance chance, struct rng *rng)
{
    chance.failure = rng_uniform(rng);
    chance.lost = rng_uniform(rng);
    chance.retry = rng_uniform(rng);
    chance.failed = rng_uniform(rng);
    return chance;
}

// Gives a run to the place that is free first. places is a heap of the times at which they are
// free.
static void take_place(double *places, size_t count, double hours)
{
    double free_at = places[0] + hours;
    size_t at = 0;
    for (size_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && places[child + 1] < places[child])
            child++;
        if (places[child] >= free_at)
            break;
        places[at] = places[child];
        at = child;
    }
    places[at] = free_at;
}

void forecast_sweep(struct forecast_sweep *out, struct arena *arena,
                    const struct forecast_input *input, const struct forecast_samples *samples,
                    int64_t runs, int64_t parallel)
{
    enum { LEAST = 1000, WORK = 400000 }; // samples; runs in all of them, some tenths of a second
    size_t places_count = (size_t)(parallel < runs ? parallel : runs);
    size_t most = WORK / (size_t)runs > LEAST ? WORK / (size_t)runs : LEAST;
    size_t count = samples->count < most ? samples->count : most;
    struct arena_mark mark = arena_mark(arena);
    double *wall = ARENA_NEW(arena, double, count), *hours = ARENA_NEW(arena, double, count);
    double *cost = ARENA_NEW(arena, double, count),
           *places = ARENA_NEW(arena, double, places_count);
    struct rng rng = rng_seeded(samples->seed + 1);
    struct unknowns unknowns;
    set_unknowns(&unknowns, input);
    for (size_t i = 0; i < count; i++) {
        memset(places, 0, places_count * sizeof *places);
        hours[i] = wall[i] = 0;
        for (int64_t run = 0; run < runs; run++) {
            struct chance chance =
                run ? reroll(samples->items[i].chance, &rng) : samples->items[i].chance;
            double of_run = wall_seconds(&unknowns, &chance) / 3600;
            hours[i] += of_run * input->overheads.gpus;
            take_place(places, places_count, of_run);
        }
        for (size_t k = 0; k < places_count; k++)
            wall[i] = fmax(wall[i], places[k]);
        cost[i] = hours[i] * usd_per_gpu_hour(input, &samples->items[i].chance);
    }
    *out = (struct forecast_sweep){ .runs = runs,
                                    .parallel = (int64_t)places_count,
                                    .peak_gpus = (double)places_count * input->overheads.gpus,
                                    .wall_hours = stats_quick_range(wall, count),
                                    .gpu_hours = stats_quick_range(hours, count),
                                    .cost_usd = { NAN, NAN, NAN } };
    if (input->price.offers)
        out->cost_usd = stats_quick_range(cost, count);
    arena_rewind(arena, mark);
}
