// SPDX-License-Identifier: Apache-2.0
// Counts what GPUs that share the frozen base of adapters keep, and what they gather.

#include "core/step/shared_base.h"

#include "core/step/stack.h"

#include <math.h>

bool shared_base(const struct step_request *r)
{
    return r->stack->shares_base && r->recipe->method != RECIPE_FULL && !r->model->experts &&
           r->layout->zero == 3 && layout_shards(r->layout) > 1;
}

double shared_base_weights(const struct step_request *r)
{
    struct model_linear linears[MODEL_LINEARS];
    size_t count = model_linears(r->model, MODEL_DENSE, linears);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)(linears[i].in * linears[i].out);
    return sum;
}

// In fp8 a linear is there twice: as it is for the forward pass, and transposed for the backward.
double shared_base_bytes(const struct step_request *r)
{
    if (r->recipe->method == RECIPE_QLORA)
        return recipe_weight_bytes(r->recipe);
    return r->recipe->precision == RECIPE_FP32 ? 4 : 2;
}

double shared_base_gathered_bytes(const struct step *step, const struct step_request *r)
{
    return fmax(0, step->layers - 2) * shared_base_weights(r) * shared_base_bytes(r);
}
