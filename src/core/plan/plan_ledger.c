// SPDX-License-Identifier: Apache-2.0
// How the user's own past runs changed a plan, as a sentence and in the document.

#include "core/plan/plan_internal.h"

#include <math.h>

static double speed_factor(const struct plan *plan)
{
    return exp(plan->efficiency.log_mid - plan->prior.log_mid);
}

// The run that moved the speed most: its id, configuration, and speed over the assumed one.
static const char *nearest_words(const struct plan *plan, struct arena *arena)
{
    const struct search_result *chosen = &plan->chosen;
    const struct prior_run target = { .stack = plan->stack->name,
                                      .model = plan->model->name,
                                      .gpu = chosen->gpu->name,
                                      .method = chosen->recipe.method,
                                      .parameters = (double)model_parameters(plan->model),
                                      .gpus = (double)chosen->gpus };
    const struct prior_run *run = prior_nearest(&plan->data->ledger, &target);
    if (!run)
        return "";
    return text_format(arena, "; nearest: %lld (%s, %s, %.0f × %s), which ran at %.2f × that speed",
                       (long long)run->id, run->model,
                       run->method < 0 ? "unknown method" : recipe_methods[run->method], run->gpus,
                       run->gpu, exp(run->log_ratio - plan->prior.log_mid));
}

const char *plan_ledger_words(const struct plan *plan, struct arena *arena)
{
    int64_t runs = plan->efficiency.own;
    if (!runs)
        return NULL;
    return text_format(arena,
                       "%lld run%s of yours moved the assumed speed by × %.2f: %s GPU hours, %s "
                       "without%s; --ledger off forecasts without %s",
                       (long long)runs, runs == 1 ? "" : "s", speed_factor(plan),
                       text_hours(arena, plan->forecast.gpu_hours.mid),
                       text_hours(arena, plan->gpu_hours_without_ledger.mid),
                       nearest_words(plan, arena), runs == 1 ? "it" : "them");
}

void plan_put_ledger(struct json_writer *w, const struct plan *plan)
{
    if (!plan->efficiency.own)
        return;
    json_open(w, "ledger", '{');
    json_put_count(w, "runs", plan->efficiency.own);
    json_put_number(w, "speed_factor", speed_factor(plan));
    json_put_number(w, "log_spread_before", plan->prior.log_spread);
    json_put_number(w, "log_spread_left", plan->efficiency.log_spread);
    json_put_range(w, "gpu_hours_without", &plan->gpu_hours_without_ledger);
    json_close(w, '}');
}
