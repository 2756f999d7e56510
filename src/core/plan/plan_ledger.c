// SPDX-License-Identifier: Apache-2.0
// How the user's own past runs changed a plan, as a sentence and in the document.

#include "core/plan/plan_internal.h"

#include <math.h>

static double speed_factor(const struct plan *plan)
{
    return exp(plan->efficiency.log_mid - plan->prior.log_mid);
}

// The run that moved the speed most, and in what it differs from the plan.
struct nearest {
    const struct prior_run *run; // NULL: none
    const char *differs;         // "other lengths, another GPU"; NULL: in nothing that counts
    double factor;               // its speed over the assumed one
};

static struct nearest find_nearest(const struct plan *plan, struct arena *arena)
{
    const double counts = 0.025; // deviation: lengths a fifth apart
    const struct setup setup = search_setup(&plan->chosen, plan->model, plan->stack);
    const struct prior_run target = prior_target(&setup);
    struct nearest nearest = { .run = prior_nearest(&plan->data->ledger, &target) };
    if (!nearest.run)
        return nearest;
    nearest.factor = exp(nearest.run->log_ratio - plan->prior.log_mid);
    double parts[TRANSFER_CAUSES];
    transfer_differences(parts, &target.place, &nearest.run->place);
    for (int cause = 0; cause < TRANSFER_CAUSES; cause++)
        if (parts[cause] > counts)
            nearest.differs = nearest.differs ? text_format(arena, "%s, %s", nearest.differs,
                                                            transfer_names[cause])
                                              : transfer_names[cause];
    return nearest;
}

static const char *nearest_words(const struct plan *plan, struct arena *arena)
{
    struct nearest nearest = find_nearest(plan, arena);
    const struct prior_run *run = nearest.run;
    if (!run)
        return "";
    const struct transfer_place *place = &run->place;
    return text_format(
        arena, "; nearest: %lld (%s, %s, %lld × %s; %s), which ran at %.2f × that speed",
        (long long)run->id, place->model,
        place->recipe.method < 0 ? "unknown method" : recipe_methods[place->recipe.method],
        (long long)layout_gpus(&place->layout), place->gpu ? place->gpu : "unknown GPU",
        nearest.differs ? nearest.differs : "the same configuration", nearest.factor);
}

const char *plan_ledger_words(const struct plan *plan, struct arena *arena)
{
    int64_t runs = plan->efficiency.own;
    if (!runs)
        return NULL;
    return text_format(arena,
                       "%lld run%s of yours moved the assumed speed by × %.2f: %s GPU hours, %s "
                       "without%s; --ledger off forecasts without %s",
                       (long long)runs, text_plural(runs), speed_factor(plan),
                       text_hours(arena, plan->forecast.gpu_hours.mid),
                       text_hours(arena, plan->gpu_hours_without_ledger.mid),
                       nearest_words(plan, arena), runs == 1 ? "it" : "them");
}

void plan_put_ledger(struct json_writer *w, const struct plan *plan, struct arena *arena)
{
    if (!plan->efficiency.own)
        return;
    struct nearest nearest = find_nearest(plan, arena);
    json_open(w, "ledger", '{');
    json_put_count(w, "runs", plan->efficiency.own);
    json_put_number(w, "speed_factor", speed_factor(plan));
    json_put_number(w, "log_spread_before", plan->prior.log_spread);
    json_put_number(w, "log_spread_left", plan->efficiency.log_spread);
    json_put_range(w, "gpu_hours_without", &plan->gpu_hours_without_ledger);
    json_open(w, "nearest", '{');
    json_put_count(w, "id", nearest.run->id);
    json_put_string(w, "differs", nearest.differs);
    json_put_number(w, "speed_factor", nearest.factor);
    json_close(w, '}');
    json_close(w, '}');
}
