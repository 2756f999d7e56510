// SPDX-License-Identifier: Apache-2.0
// Spot instances: the checkpoint interval that costs least, and the expected run time with it.

#include "core/hosting/hosting.h"

#include <math.h>

enum { MOST_SAVES = 1000000 };

// Preemptions are a Poisson process of rate λ while the instance runs. Each loses the current
// interval, and the next instance first has to fetch the weights and start up, Q seconds, during
// which it may be preempted too (Daly 2006, complete form, where Q is R). The first instance starts
// in R seconds, since data and weights were moved there before. With n intervals of s = work/n +
// save seconds:
//
//     E = e^(λQ)/λ · (1 − e^(−λR) + n · (e^(λs) − 1))
double hosting_spot_seconds(const struct hosting_preemption *p, double saves)
{
    double rate = p->rate_per_second, part = p->work_seconds / saves + p->save_seconds;
    if (!(rate > 0))
        return p->restart_seconds + saves * part;
    double again = exp(rate * (p->restart_seconds + p->fetch_seconds));
    return again * (saves * expm1(rate * part) - expm1(-rate * p->restart_seconds)) / rate;
}

struct hosting_spot hosting_spot_best(const struct hosting_preemption *p)
{
    double rate = p->rate_per_second, saves = 1;
    struct hosting_spot out = {
        .young_daly_seconds = rate > 0 ? sqrt(2 * p->save_seconds / rate) : p->work_seconds,
    };
    if (out.young_daly_seconds > 0)
        saves = fmin(MOST_SAVES, fmax(1, rint(p->work_seconds / out.young_daly_seconds)));
    else if (rate > 0)
        saves = MOST_SAVES;
    // The expectation is convex in the number of intervals; its minimum is near that estimate.
    for (double step = fmax(1, floor(saves / 8)); step >= 1; step = floor(step / 2)) {
        while (saves + step <= MOST_SAVES &&
               hosting_spot_seconds(p, saves + step) < hosting_spot_seconds(p, saves))
            saves += step;
        while (saves - step >= 1 &&
               hosting_spot_seconds(p, saves - step) < hosting_spot_seconds(p, saves))
            saves -= step;
    }
    out.saves = saves;
    out.interval_seconds = p->work_seconds / saves;
    out.billed_seconds = hosting_spot_seconds(p, saves);
    out.preemptions = rate * out.billed_seconds;
    out.wall_seconds = out.billed_seconds + out.preemptions * p->wait_seconds;
    return out;
}

double hosting_spot_available(const struct hosting_preemption *p)
{
    return 1 / (1 + p->rate_per_second * p->wait_seconds);
}

// Seconds until the next preemption.
static double sample_life(const struct hosting_preemption *p, struct rng *rng)
{
    return p->rate_per_second > 0 ? -log1p(-rng_uniform(rng)) / p->rate_per_second : INFINITY;
}

double hosting_spot_simulate(const struct hosting_preemption *p, double saves, struct rng *rng,
                             double *wall_seconds)
{
    double billed = 0, waited = 0, life = sample_life(p, rng);
    double part = p->work_seconds / saves + p->save_seconds, start = p->restart_seconds;
    bool started = false;
    for (double done = 0; done < saves;) {
        double stage = started ? part : start;
        if (life < stage) {
            billed += life;
            waited += p->wait_seconds;
            life = sample_life(p, rng);
            started = false;
            start = p->restart_seconds + p->fetch_seconds;
            continue;
        }
        billed += stage;
        life -= stage;
        if (started)
            done++;
        started = true;
    }
    *wall_seconds = billed + waited;
    return billed;
}
