// SPDX-License-Identifier: Apache-2.0
// Samples of what is unknown, shared by all offers, and the run times that follow from them.
//
// A comparison has about fifteen unknowns: the speed of the stack, the lengths of the examples,
// start-up, storage, evaluation, failures, retries, the queue, preemptions. Each unknown is a
// column of HOSTING_SAMPLES numbers; row i of all columns together is one possible outcome of the
// run:
//
//                   speed    lengths   start-up    failure   lost   preemption
//                  normal    normal     normal      0..1     0..1      0..1
//     sample 0      +0.31     -1.20      +0.07      0.14     0.31      0.12
//     sample 1      -0.95     +0.44      +2.10      0.98     0.66      0.77   slow, and it fails
//       ...
//     sample 9999   +1.62     -0.03      -0.51      0.40     0.09      0.55   fast, undisturbed
//
// A column is one dimension of a Latin hypercube: the distribution is cut into HOSTING_SAMPLES
// equally likely slices, the middle of each slice is used exactly once, and each column is shuffled
// independently of the others. Quantiles settle with fewer samples than independent random numbers
// would need.
//
// All offers read the same rows ("common random numbers"): sample 1 is slow and fails on every
// machine. A difference between two offers is therefore caused by the offers, not by luck.
//
// Hardware failures are sampled by overhead_run(): the number of failures is the Poisson quantile
// of the column `failure`, with the mean (failures per GPU hour) · GPUs · hours; each failure costs
// a restart and the share `lost` of the interval since the last checkpoint. Preemptions of spot
// instances come on top of that: see hosting_preempt.c.

#include "core/hosting/hosting_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// The values in random order.
static double *shuffled(struct arena *arena, struct rng *rng, const double *values)
{
    double *column = ARENA_NEW(arena, double, HOSTING_SAMPLES);
    for (size_t i = 0; i < HOSTING_SAMPLES; i++) {
        size_t at = (size_t)rng_below(rng, i + 1);
        column[i] = column[at];
        column[at] = values[i];
    }
    return column;
}

// Replaces each standard normal value by the value of the assumption at that quantile.
static void scale_to(const struct assumption *assumption, double *column)
{
    struct assumption_spread spread = assumption_spread(assumption);
    for (size_t i = 0; i < HOSTING_SAMPLES; i++)
        column[i] = assumption_at(&spread, column[i]);
}

void hosting_sample(struct hosting_job *job)
{
    struct arena *arena = job->arena;
    const struct overheads *o = &job->plan->overheads;
    struct rng rng = rng_seeded((uint64_t)job->plan->request->seed);
    struct hosting_samples *s = &job->samples;
    double *uniform = ARENA_NEW(arena, double, HOSTING_SAMPLES);
    double *normal = ARENA_NEW(arena, double, HOSTING_SAMPLES);
    for (size_t i = 0; i < HOSTING_SAMPLES; i++) {
        uniform[i] = ((double)i + 0.5) / HOSTING_SAMPLES;
        normal[i] = stats_normal_quantile(uniform[i]);
    }
    *s = (struct hosting_samples){
        .speed = shuffled(arena, &rng, normal),
        .lengths = shuffled(arena, &rng, normal),
        .startup = shuffled(arena, &rng, normal),
        .storage = shuffled(arena, &rng, normal),
        .evaluation = shuffled(arena, &rng, normal),
        .failure_rate = shuffled(arena, &rng, normal),
        .failure = shuffled(arena, &rng, uniform),
        .lost = shuffled(arena, &rng, uniform),
        .retries = shuffled(arena, &rng, uniform),
        .failed = shuffled(arena, &rng, uniform),
        .queue = shuffled(arena, &rng, normal),
        .preemption_rate = shuffled(arena, &rng, normal),
        .preemption = shuffled(arena, &rng, uniform),
        .waiting = shuffled(arena, &rng, normal),
        .first_wait = shuffled(arena, &rng, uniform),
        .failed_runs = shuffled(arena, &rng, normal),
        .preemption_normal = ARENA_NEW(arena, double, HOSTING_SAMPLES),
        .compile = ARENA_NEW(arena, double, HOSTING_SAMPLES),
    };
    struct assumption_spread compile = assumption_spread(&o->compile_seconds);
    for (size_t i = 0; i < HOSTING_SAMPLES; i++) {
        s->speed[i] = evidence_tail(s->speed[i]);
        s->compile[i] = assumption_at(&compile, s->startup[i]);
        s->preemption_normal[i] = normal[(size_t)(s->preemption[i] * HOSTING_SAMPLES)];
    }
    scale_to(&o->startup_seconds, s->startup);
    scale_to(&o->eval_share, s->evaluation);
    scale_to(&o->failures_per_gpu_hour, s->failure_rate);
    scale_to(&o->failed_runs, s->failed_runs);
    // How many attempts fail is the same on every machine: it is counted once.
    for (size_t i = 0; i < HOSTING_SAMPLES; i++) {
        s->failed_runs[i] = overhead_count(s->failed_runs[i], s->failed[i]);
        s->retries[i] = overhead_further_runs(o->retries.value.mid, s->retries[i]);
    }
}

bool hosting_range_is(const struct range *a, const struct range *b)
{
    return a->low == b->low && a->mid == b->mid && a->high == b->high;
}

const double *hosting_column(struct hosting_column **list, struct arena *arena,
                             const double *normal, struct range range)
{
    for (const struct hosting_column *known = *list; known; known = known->next)
        if (hosting_range_is(&known->range, &range))
            return known->values;
    struct hosting_column *column = ARENA_NEW(arena, struct hosting_column, 1);
    *column = (struct hosting_column){ range, ARENA_NEW(arena, double, HOSTING_SAMPLES), *list };
    struct assumption_spread spread = assumption_spread(&(struct assumption){ .value = range });
    for (size_t i = 0; i < HOSTING_SAMPLES; i++)
        column->values[i] = assumption_at(&spread, normal[i]);
    *list = column;
    return column->values;
}

// Samples of a group's efficiency; most groups have the spread of another one.
static const double *speed_column(struct hosting_job *job, const struct hosting_group *group)
{
    const struct efficiency *e = &group->efficiency;
    struct range range = { efficiency_at(e, -1), e->log_mid, efficiency_at(e, 1) };
    for (const struct hosting_column *known = job->speed; known; known = known->next)
        if (hosting_range_is(&known->range, &range))
            return known->values;
    struct hosting_column *column = ARENA_NEW(job->arena, struct hosting_column, 1);
    *column = (struct hosting_column){ range, ARENA_NEW(job->arena, double, HOSTING_SAMPLES),
                                       job->speed };
    for (size_t i = 0; i < HOSTING_SAMPLES; i++)
        column->values[i] = exp(efficiency_at(e, job->samples.speed[i]));
    job->speed = column;
    return column->values;
}

// --- quantiles ---------------------------------------------------------------

// Hoare's selection: puts the value of that rank in its place, smaller ones before it.
static double select_rank(double *values, size_t count, size_t rank)
{
    size_t low = 0, high = count - 1;
    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i >= j)
                break;
            double moved = values[i];
            values[i++] = values[j];
            values[j--] = moved;
        }
        size_t last = values[j] > pivot ? j - 1 : j; // of the lower part
        if (rank <= last)
            high = last == high ? high - 1 : last;
        else
            low = last + 1;
    }
    return values[rank];
}

// Where the values of each rank lie: values are counted in buckets of equal width, which keep their
// order, and only the bucket of a rank is searched.
struct buckets {
    double least, per_unit;
    uint32_t count[512];
};

static size_t bucket_of(const struct buckets *b, double value)
{
    enum { LAST = sizeof b->count / sizeof *b->count - 1 };
    double at = (value - b->least) * b->per_unit;
    return at < LAST ? (size_t)at : LAST; // also what is infinite
}

static double value_of_rank(const struct buckets *b, const double *values, size_t count,
                            size_t rank, double *room)
{
    size_t bucket = 0, found = 0;
    for (; rank >= b->count[bucket]; bucket++)
        rank -= b->count[bucket];
    for (size_t i = 0; i < count; i++) {
        room[found] = values[i];
        found += bucket_of(b, values[i]) == bucket;
    }
    return select_rank(room, found, rank);
}

struct range hosting_range(const double *values, size_t count, struct arena *arena)
{
    size_t mid = count / 2, low = count / 10, high = count - 1 - count / 10;
    double least = values[0], most = values[0];
    for (size_t i = 1; i < count; i++) {
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
    }
    struct buckets b = { .least = least };
    if (most > least && isfinite(most - least))
        b.per_unit = sizeof b.count / sizeof *b.count / (most - least);
    for (size_t i = 0; i < count; i++)
        b.count[bucket_of(&b, values[i])]++;
    struct arena_mark mark = arena_mark(arena);
    double *room = ARENA_NEW(arena, double, count + 1);
    struct range range = { value_of_rank(&b, values, count, low, room),
                           value_of_rank(&b, values, count, mid, room),
                           value_of_rank(&b, values, count, high, room) };
    arena_rewind(arena, mark);
    assert(!(range.low > range.mid) && !(range.mid > range.high));
    return range;
}

double hosting_run_hours(const struct hosting_row *row, struct arena *arena, double share)
{
    if (!row->wall_seconds)
        return NAN;
    struct arena_mark mark = arena_mark(arena);
    double *values = ARENA_NEW(arena, double, HOSTING_SAMPLES);
    memcpy(values, row->wall_seconds, HOSTING_SAMPLES * sizeof *values);
    size_t rank = (size_t)ceil(share * (HOSTING_SAMPLES - 1));
    double seconds = select_rank(values, HOSTING_SAMPLES, rank);
    arena_rewind(arena, mark);
    return seconds / 3600;
}

struct range hosting_hours(const double *seconds, size_t count, struct arena *arena)
{
    struct range range = hosting_range(seconds, count, arena);
    return (struct range){ range.low / 3600, range.mid / 3600, range.high / 3600 };
}

// --- the run of a group ------------------------------------------------------

void hosting_group_sample(struct hosting_job *job, struct hosting_group *group)
{
    const struct hosting_samples *s = &job->samples;
    if (group->wall_seconds)
        return;
    const struct workload *workload = &group->result.workload;
    const double *speed = speed_column(job, group);
    const double *lengths =
        hosting_column(&job->lengths, job->arena, s->lengths, workload->processed_factor);
    const double *storage = hosting_column(&job->storage, job->arena, s->storage,
                                           group->overheads.storage_bytes_per_s.value);
    group->wall_seconds = ARENA_NEW(job->arena, double, HOSTING_SAMPLES);
    struct arena_mark mark = arena_mark(job->arena);
    double *tokens = ARENA_NEW(job->arena, double, HOSTING_SAMPLES);
    double *seconds = ARENA_NEW(job->arena, double, HOSTING_SAMPLES);
    for (size_t i = 0; i < HOSTING_SAMPLES; i++) {
        tokens[i] = workload->processed_tokens * lengths[i];
        seconds[i] = tokens[i] / (group->tokens_per_s * speed[i]);
    }
    overhead_walls(group->wall_seconds, &group->overheads,
                   &(struct overhead_columns){ .train_seconds = seconds,
                                               .tokens = tokens,
                                               .startup_seconds = s->startup,
                                               .compile_seconds = s->compile,
                                               .storage_bytes_per_s = storage,
                                               .eval_share = s->evaluation,
                                               .failures_per_gpu_hour = s->failure_rate,
                                               .failed_runs = s->failed_runs,
                                               .failure_chance = s->failure,
                                               .lost_share = s->lost,
                                               .retries = s->retries },
                   HOSTING_SAMPLES);
    group->wall_hours = hosting_hours(group->wall_seconds, HOSTING_SAMPLES, job->arena);
    arena_rewind(job->arena, mark);
}
