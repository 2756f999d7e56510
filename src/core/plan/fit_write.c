// SPDX-License-Identifier: Apache-2.0
// The document that `gpuhours memory --json` writes.

#include "core/plan/fit.h"

#include "core/plan/plan_internal.h"
#include "core/trainers/trainer_config.h"

#include <math.h>

void fit_write(const struct fit *fit, struct arena *arena, struct out *out)
{
    struct json_writer w = { .out = out };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "memory");
    json_put_count(&w, "version", 1);
    plan_put_memory(&w, &fit->memory, fit->memory.fits, fit->chooses);
    json_open(&w, "configuration", '{');
    json_put_string(&w, "model", fit->model->name);
    json_put_string(&w, "stack", fit->stack->name);
    json_put_string(&w, "gpu", fit->gpu ? fit->gpu->name : NULL);
    json_put_count(&w, "gpus", layout_gpus(&fit->layout));
    json_put_string(&w, "parallel", layout_spell(&fit->layout, arena));
    json_put_number(&w, "context", fit->context);
    json_put_number(&w, "micro_batch", fit->micro_batch);
    json_put_number(&w, "accumulation", fit->accumulation);
    if (fit->objective.kind != OBJECTIVE_SFT) {
        json_put_string(&w, "objective", objective_names[fit->objective.kind]);
        json_put_string(
            &w, "reference",
            objective_reference_names[objective_reference_of(&fit->objective, &fit->recipe)]);
    }
    field_write(recipe_fields, &fit->recipe, &w);
    json_close(&w, '}');
    if (fit->from)
        trainer_config_write(fit->from, &w);
    json_open(&w, "largest", '[');
    for (int i = 0; fit->gpu && i < RECIPE_AUTO; i++) {
        if (!fit_offers(fit, i))
            continue;
        json_open(&w, NULL, '{');
        json_put_string(&w, "checkpointing", recipe_checkpointings[i]);
        json_put_count(&w, "micro_batch", fit->largest[i].micro_batch);
        json_put_count(&w, "context", fit->largest[i].context);
        json_close(&w, '}');
    }
    json_close(&w, ']');
    json_open(&w, "fewest", '[');
    for (int i = 0; fit->gpu && i < RECIPE_METHODS; i++) {
        const struct fit_fewest *fewest = &fit->fewest[i];
        if (fewest->gpus < 0)
            continue;
        json_open(&w, NULL, '{');
        json_put_string(&w, "method", recipe_methods[i]);
        json_put_count(&w, "gpus", fewest->gpus);
        json_put_string(&w, "parallel", fewest->gpus ? layout_spell(&fewest->layout, arena) : NULL);
        json_put_string(&w, "checkpointing",
                        fewest->gpus ? recipe_checkpointings[fewest->checkpointing] : NULL);
        json_put_number(&w, "fit_probability", fewest->gpus ? fewest->fit_probability : NAN);
        json_close(&w, '}');
    }
    json_close(&w, ']');
    json_close(&w, '}');
    out_char(out, '\n');
}
