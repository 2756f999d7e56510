// SPDX-License-Identifier: Apache-2.0
// Puts what a pilot measured beside its speed in the place of the assumptions: first steps,
// compilation, stalls, evaluations and saves, with ranges by how many were seen.

#include "core/plan/plan_internal.h"

#include <math.h>

// Between two runs of one configuration. Evaluations are passes of the model: as the steps that
// wait for the host, transfer.c. Saves of one size took 0.2 to 0.4 s on an H200's own disk.
static const double evaluation_spread = 0.06, save_spread = 0.25;

// Replaces what a first sight is assumed to cost by what the pilot measured. A pilot that did not
// tell first sights from steady steps has them in its rate. Its kernels are in the machine's file
// cache now: what loading them took does not come again, but for a little at the first step.
static void take_transient(struct overheads *o, const struct plan *plan, const struct pilot *pilot)
{
    const struct pilot_transient *t = &pilot->transient;
    const char *source = plan->request->pilot_name;
    if (t->seconds_per_width >= 0)
        o->first_width_seconds =
            assumption_measured(o->first_width_seconds, t->seconds_per_width, source, pilot->as_of);
    else if (plan->transfer.setup.varied_widths)
        o->first_width_seconds =
            assumption_measured(o->first_width_seconds, 0, "in the pilot's rate", pilot->as_of);
    if (t->first_steps_seconds >= 0) {
        double again = fmin(t->first_steps_seconds, o->first_steps_seconds.value.low);
        o->first_steps_seconds =
            assumption_measured(o->first_steps_seconds, again, source, pilot->as_of);
        if (o->file_cache == CACHE_COLD)
            o->first_steps_seconds.value.high = t->first_steps_seconds; // on another machine
    }
    if (pilot->stalls.evaluation_seconds > 0)
        o->first_evaluation_seconds.value.mid = o->first_evaluation_seconds.value.low;
}

// A stack that compiles does so in its first steps, or in the first one that the pilot counts as
// start-up. The compiler keeps what it made on disk: on the same machine, the run may find most of
// it there.
static void take_compilation(struct overheads *o, const struct plan *plan,
                             const struct pilot *pilot)
{
    double seconds = pilot->transient.first_steps_seconds;
    if (!o->compiles || !o->startup_loads || !(seconds >= 0) ||
        o->compile_seconds.origin == ASSUMPTION_GIVEN)
        return;
    o->compile_seconds =
        assumption_measured(o->compile_seconds, seconds, plan->request->pilot_name, pilot->as_of);
    o->compile_seconds.value.low = 0.2 * seconds;
    o->compilations =
        assumption_measured(o->compilations, 1, "all that the pilot saw, as one", pilot->as_of);
}

// The standard deviation of one step. A report that holds an evaluation or a save holds a step too,
// and tells what was beyond it no better than that.
static double step_error(const struct pilot *pilot)
{
    const struct pilot_seconds *s = &pilot->step_seconds;
    return s->p90 > s->p10 ? (s->p90 - s->p10) / (2 * STATS_P90) : 0;
}

static struct range around(double seconds, double error)
{
    double half = STATS_P90 * error;
    return (struct range){ fmax(seconds - half, 0.1 * seconds), seconds, seconds + half };
}

// The first evaluation loads kernels. Where it was the only one, and not much longer than loading
// may take, it tells nothing about the others: loading takes nothing to half as much again as is
// assumed.
static struct range evaluation_of(const struct pilot *pilot, double load)
{
    const struct pilot_apart *apart = &pilot->apart;
    double one = step_error(pilot), later = apart->evaluation_seconds,
           first = apart->first_evaluation_seconds;
    if (later > 0) {
        double seen = fmax(1, (double)apart->evaluations - 1);
        return around(later, hypot(one / sqrt(seen), evaluation_spread * later));
    }
    if (!(first > 3 * load))
        return (struct range){ 0 };
    struct range out = around(first - load, hypot(one, evaluation_spread * first));
    return (struct range){ fmax(out.low - load / 2, 0.1 * out.mid), out.mid, out.high + load };
}

// An evaluation of the pilot is one of the run. Where the user holds out another share than the
// plan that was measured did, it is scaled.
static void take_evaluation(struct overheads *o, const struct plan *plan, const struct pilot *pilot)
{
    struct range seconds = evaluation_of(pilot, o->evaluation_load_seconds);
    if (!overhead_evaluates(o) || !(seconds.mid > 0))
        return;
    double share = pilot->apart.evaluation_share;
    double scale =
        o->eval_share.origin == ASSUMPTION_GIVEN && share > 0 ? o->eval_share.value.mid / share : 1;
    o->evaluation_seconds =
        (struct assumption){ "evaluation",
                             "s each",
                             { scale * seconds.low, scale * seconds.mid, scale * seconds.high },
                             ASSUMPTION_MEASURED,
                             plan->request->pilot_name,
                             pilot->as_of };
}

static void take_saves(struct overheads *o, const struct plan *plan, const struct pilot *pilot)
{
    double seconds = pilot->apart.save_seconds, seen = fmax(1, (double)pilot->apart.saves);
    if (!(seconds > 0))
        return;
    o->save_seconds =
        (struct assumption){ "save",
                             "s each",
                             around(seconds,
                                    hypot(step_error(pilot), save_spread * seconds) / sqrt(seen)),
                             ASSUMPTION_MEASURED,
                             plan->request->pilot_name,
                             pilot->as_of };
}

// Steps that stall in the pilot stall as often in the run. One that was seen once may have been the
// only one. Where the run differs so far that the pilot has a part of the weight, so have its
// stalls: its rate is without them, that of the stack's runs with theirs. Then none may recur.
static void take_stalls(struct overheads *o, const struct plan *plan, const struct pilot *pilot,
                        double weight)
{
    double share = pilot->stalls.recurring_share, error = pilot->stalls.recurring_error;
    if (!(share > 0))
        return;
    bool once = !(error < 0.99 * share);
    struct range range = around(share, once ? share : error);
    if (once)
        range.low = 0, range.mid = share / 2;
    if (weight < 1)
        range.low = 0, range.mid *= weight;
    o->stall_share =
        (struct assumption){ "recurring stalls",  "of the steps' time",      range,
                             ASSUMPTION_MEASURED, plan->request->pilot_name, pilot->as_of };
}

void plan_take_measured(struct overheads *o, const struct plan *plan, const struct transferred *to)
{
    const struct pilot *pilot = plan->request->pilot;
    if (pilot && to->weight > 0)
        take_stalls(o, plan, pilot, to->weight);
    if (!pilot || to->weight < 1)
        return;
    if (pilot->apart.evaluation_seconds_per_token > 0)
        o->eval_cost = pilot->apart.evaluation_seconds_per_token * pilot->tokens_per_s.mean;
    take_transient(o, plan, pilot);
    take_compilation(o, plan, pilot);
    if (to->alike)
        take_evaluation(o, plan, pilot);
    if (!(to->spreads[TRANSFER_GPUS] > 0 || to->spreads[TRANSFER_LAYOUT] > 0))
        take_saves(o, plan, pilot);
}
