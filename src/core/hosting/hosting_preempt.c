// SPDX-License-Identifier: Apache-2.0
// Preempted runs: how often spot instances are taken away, and the run times that follow.
//
// A run on spot instances is cut into n equal intervals of work, each followed by a checkpoint. A
// preemption loses the current interval; the next instance arrives after a wait that is not billed,
// fetches the weights and starts up again (billed) and continues from the last checkpoint:
//
//     billed      |start|  work  |save|  work  |save|  wo X       |fetch, start|  work  |save| ...
//     time        0----------------------------------------------------------------------->
//                                                    |lost|
//                                                         |wait|
//
// hosting_spot.c has the expected billed seconds E in closed form and chooses n to minimize it. The
// distribution around E is sampled for each row i of hosting_samples.c:
//
//     work     = wall_seconds[i] - start - saves      the undisturbed run of sample i
//     calm     = start + work + n · save              billed seconds without any preemption
//     rate     = preemption_rate[i]                   per second
//     events   = Poisson quantile of preemption[i], mean rate · E(work, rate)
//     billed   = calm + events · (E - calm) / (rate · E)
//     wall     = billed + the sum of `events` waiting times, exponential ones, by waiting[i]
//                + the wait for the first instance, by first_wait[i]
//
// The first instance is free at once with probability a = up / (up + wait), the availability; else
// it takes an exponential time of the mean `wait`, which has no memory of when the wait began.
//
// Each event costs its expected loss, (E - calm) / (rate · E), so that the mean of `billed` over
// the samples is E. A test compares the closed form with an event-by-event simulation.

#include "core/hosting/hosting_internal.h"

#include <assert.h>
#include <math.h>

static double fact_of(const struct catalog *catalog, const char *item, double otherwise)
{
    const struct fact *fact = catalog_operation(catalog, "spot", item);
    return fact ? fact->typical : otherwise;
}

struct range hosting_preemption_rate(const struct hosting_job *job, double instances,
                                     double own_rate)
{
    const struct catalog *c = &job->plan->data->catalog;
    double low = fact_of(c, "preemptions per instance-hour, 4x V100 group", 0.2);
    double high = fact_of(c, "preemptions per available hour, 1x V100", 0.47);
    double shared = fact_of(c, "co-interruption within 3 minutes", 1);
    double independent = 1 + (instances - 1) * (1 - shared);
    struct range rate = { low, sqrt(low * high), high };
    double given = isnan(own_rate) ? job->request->preemptions_per_hour : own_rate;
    if (!isnan(given))
        rate = (struct range){ given, given, given };
    return (struct range){ rate.low * independent, rate.mid * independent,
                           rate.high * independent };
}

// Mean time without an instance: with availability a = up / (up + wait) and up = 1 / rate, it is
// (1 - a) / a / rate.
static double wait_seconds(const struct hosting_job *job, const struct hosting_group *group,
                           double rate_per_second)
{
    const struct catalog *c = &job->plan->data->catalog;
    bool whole_node = group->node.gpus >= 8 || group->instances > 1;
    double available =
        fact_of(c, whole_node ? "availability 8x V100 node" : "availability 1x V100", 0.5);
    if (!isnan(job->request->spot_wait))
        return job->request->spot_wait;
    return rate_per_second > 0 ? (1 - available) / available / rate_per_second : 0;
}

// A Poisson quantile: inverted for a small mean, by Cornish and Fisher's expansion for a large one.
static double count_events(double mean, double chance, double normal)
{
    if (mean > 4)
        return fmax(0, rint(mean + sqrt(mean) * normal + (normal * normal - 1) / 6));
    return chance < 1 - mean ? 0 : overhead_count(mean, chance); // e^-mean is above 1 - mean
}

// Seconds until the first instance, at that quantile.
static double first_wait(const struct hosting_preemption *run, double chance)
{
    double available = hosting_spot_available(run);
    return chance < available ? 0 : -run->wait_seconds * log((1 - chance) / (1 - available));
}

// The first waits of all samples. Most groups have the same rates and the same mean wait.
static const double *first_waits(struct hosting_job *job, const struct hosting_spot_samples *spot,
                                 const double *rates)
{
    double mean = spot->preemption.wait_seconds;
    for (const struct hosting_waits *w = job->waits; w; w = w->next)
        if (w->mean_seconds == mean && w->rates == rates)
            return w->seconds;
    struct hosting_waits *waits = ARENA_NEW(job->arena, struct hosting_waits, 1);
    double *seconds = ARENA_NEW(job->arena, double, HOSTING_SAMPLES);
    *waits = (struct hosting_waits){ rates, mean, seconds, job->waits };
    struct hosting_preemption run = spot->preemption;
    for (size_t i = 0; i < HOSTING_SAMPLES; i++) {
        run.rate_per_second = rates[i] / 3600;
        seconds[i] = first_wait(&run, job->samples.first_wait[i]);
    }
    job->waits = waits;
    return seconds;
}

// The sum of so many exponential times of mean 1, a gamma distribution, at a normal's quantile: its
// cube root is near normal (Wilson and Hilferty). One alone has the median 0.70 then, exactly 0.69.
static inline double sum_of_waits(double count, double normal)
{
    if (!(count > 0))
        return 0;
    double root = fmax(0, 1 - 1 / (9 * count) + normal / (3 * sqrt(count)));
    return count * root * root * root;
}

// Sample i of a preempted run: billed seconds, and wall seconds with all waits but the first.
static double sample_run(double *wall_seconds, const struct hosting_job *job,
                         const struct hosting_preemption *run, double saves, size_t i)
{
    const struct hosting_samples *s = &job->samples;
    double calm = run->restart_seconds + run->work_seconds + saves * run->save_seconds;
    double expected = hosting_spot_seconds(run, saves);
    double mean = run->rate_per_second * expected;
    assert(!(expected < calm * (1 - 1e-9))); // preemptions never make a run cheaper
    double events = count_events(mean, s->preemption[i], s->preemption_normal[i]);
    double loss = mean > 0 ? (expected - calm) / mean : 0;
    double waited = run->wait_seconds * sum_of_waits(events, s->waiting[i]);
    double billed = calm + events * loss;
    *wall_seconds = billed + waited;
    return billed;
}

void hosting_spot_sample(struct hosting_job *job, struct hosting_group *group,
                         struct hosting_spot_samples *spot)
{
    if (spot->wall_seconds)
        return;
    hosting_group_sample(job, group);
    double start = spot->preemption.restart_seconds;
    double saving = group->middle.seconds[OVERHEAD_SAVES];
    spot->wall_seconds = ARENA_NEW(job->arena, double, HOSTING_SAMPLES);
    const double *rates =
        hosting_column(&job->rates, job->arena, job->samples.preemption_rate, spot->rates);
    const double *first = first_waits(job, spot, rates);
    struct arena_mark mark = arena_mark(job->arena);
    double *billed = ARENA_NEW(job->arena, double, HOSTING_SAMPLES);
    for (size_t i = 0; i < HOSTING_SAMPLES; i++) {
        struct hosting_preemption run = spot->preemption;
        run.work_seconds = fmax(1, group->wall_seconds[i] - start - saving);
        run.rate_per_second = rates[i] / 3600;
        double saves = fmax(1, rint(run.work_seconds / spot->best.interval_seconds));
        double wall;
        billed[i] = sample_run(&wall, job, &run, saves, i);
        spot->wall_seconds[i] = wall + first[i];
    }
    spot->billed_hours = hosting_hours(billed, HOSTING_SAMPLES, job->arena);
    spot->wall_hours = hosting_hours(spot->wall_seconds, HOSTING_SAMPLES, job->arena);
    arena_rewind(job->arena, mark);
}

struct hosting_spot_samples *hosting_spot_of(struct hosting_job *job, struct hosting_group *group,
                                             double own_rate)
{
    struct range rates = hosting_preemption_rate(job, (double)group->instances, own_rate);
    for (struct hosting_spot_samples *known = group->spots; known; known = known->next)
        if (hosting_range_is(&known->rates, &rates))
            return known;
    const double *t = group->middle.seconds;
    double start = t[OVERHEAD_STARTUP] + t[OVERHEAD_COMPILATION] + t[OVERHEAD_LOADING];
    struct hosting_spot_samples *spot = ARENA_NEW(job->arena, struct hosting_spot_samples, 1);
    spot->rates = rates;
    spot->preemption = (struct hosting_preemption){
        .work_seconds = fmax(1, group->middle.wall_seconds - start - t[OVERHEAD_SAVES]),
        .save_seconds = t[OVERHEAD_SAVES] / fmax(1, group->middle.saves),
        .restart_seconds = start,
        .rate_per_second = rates.mid / 3600,
        .wait_seconds = wait_seconds(job, group, rates.mid / 3600),
        .fetch_seconds = hosting_model_bytes(job->plan) / hosting_link(job->request),
    };
    spot->best = hosting_spot_best(&spot->preemption);
    spot->next = group->spots;
    group->spots = spot;
    return spot;
}
