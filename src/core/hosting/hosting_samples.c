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
    };
    s->stalls = shuffled(arena, &rng, normal);
    s->saves = shuffled(arena, &rng, normal);
    for (size_t i = 0; i < HOSTING_SAMPLES; i++) {
        s->speed[i] = evidence_tail(s->speed[i]);
        s->preemption_normal[i] = normal[(size_t)(s->preemption[i] * HOSTING_SAMPLES)];
    }
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

// The column of that range in a list, or a new one, which *is_new says: its values are not set.
static double *column_of(struct hosting_column **list, struct arena *arena, struct range range,
                         bool *is_new)
{
    struct hosting_column *column = *list;
    while (column && !hosting_range_is(&column->range, &range))
        column = column->next;
    *is_new = !column;
    if (!column) {
        column = ARENA_NEW(arena, struct hosting_column, 1);
        *column =
            (struct hosting_column){ range, ARENA_NEW(arena, double, HOSTING_SAMPLES), *list };
        *list = column;
    }
    return column->values;
}

const double *hosting_column(struct hosting_column **list, struct arena *arena,
                             const double *normal, struct range range)
{
    bool is_new;
    double *values = column_of(list, arena, range, &is_new);
    struct assumption_spread spread = assumption_spread(&(struct assumption){ .value = range });
    for (size_t i = 0; is_new && i < HOSTING_SAMPLES; i++)
        values[i] = assumption_at(&spread, normal[i]);
    return values;
}

// Samples of a group's efficiency; most groups have the spread of another one.
static const double *speed_column(struct hosting_job *job, const struct hosting_group *group)
{
    const struct efficiency *e = &group->efficiency;
    struct range range = { efficiency_at(e, -1), e->log_mid, efficiency_at(e, 1) };
    bool is_new;
    double *values = column_of(&job->speed, job->arena, range, &is_new);
    for (size_t i = 0; is_new && i < HOSTING_SAMPLES; i++)
        values[i] = exp(efficiency_at(e, job->samples.speed[i]));
    return values;
}

// --- quantiles ---------------------------------------------------------------

static double *copy(struct arena *arena, const double *values, size_t count)
{
    double *out = ARENA_NEW(arena, double, count);
    memcpy(out, values, count * sizeof *out);
    return out;
}

struct range hosting_range(const double *values, size_t count, struct arena *arena)
{
    struct arena_mark mark = arena_mark(arena);
    struct range range = stats_quick_range(copy(arena, values, count), count);
    arena_rewind(arena, mark);
    assert(!(range.low > range.mid) && !(range.mid > range.high));
    return range;
}

double hosting_run_hours(const struct hosting_row *row, struct arena *arena, double share)
{
    if (!row->wall_seconds)
        return NAN;
    struct arena_mark mark = arena_mark(arena);
    double *values = copy(arena, row->wall_seconds, HOSTING_SAMPLES);
    stats_sort(values, HOSTING_SAMPLES);
    double seconds = stats_quantile(values, HOSTING_SAMPLES, share);
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
    const struct range *factor =
        job->lengths_factor.mid > 0 ? &job->lengths_factor : &workload->processed_factor;
    const double *lengths = hosting_column(&job->lengths, job->arena, s->lengths, *factor);
    const struct overheads *o = &group->overheads;
    const struct {
        struct hosting_column **list;
        const double *normal;
        const struct assumption *assumption;
    } of[] = {
        { &job->startup, s->startup, &o->startup_seconds },
        { &job->compile, s->startup, &o->compile_seconds },
        { &job->storage, s->storage, &o->storage_bytes_per_s },
        { &job->evaluation, s->evaluation, overhead_evaluation(o) },
        { &job->saves, s->saves, &o->save_seconds },
        { &job->stalls, s->stalls, &o->stall_share },
    };
    const double *columns[sizeof of / sizeof *of];
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        columns[i] = hosting_column(of[i].list, job->arena, of[i].normal, of[i].assumption->value);
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
                                               .startup_seconds = columns[0],
                                               .compile_seconds = columns[1],
                                               .storage_bytes_per_s = columns[2],
                                               .evaluation = columns[3],
                                               .save_seconds = columns[4],
                                               .stall_share = columns[5],
                                               .failures_per_gpu_hour = s->failure_rate,
                                               .failed_runs = s->failed_runs,
                                               .failure_chance = s->failure,
                                               .lost_share = s->lost,
                                               .retries = s->retries },
                   HOSTING_SAMPLES);
    group->wall_hours = hosting_hours(group->wall_seconds, HOSTING_SAMPLES, job->arena);
    arena_rewind(job->arena, mark);
}
