// SPDX-License-Identifier: Apache-2.0
// Counts what GPUs that share the frozen base of adapters keep, and what they gather.

#include "core/step/shared_base.h"

#include "core/step/stack.h"

// Parts are equal, and so are the layers that the engine gathers: a model whose layers differ would
// gather its largest one every time, and is not planned so.
static bool has_equal_layers(const struct model *model)
{
    int64_t sparse = model_layers(model, MODEL_SPARSE);
    return !sparse || sparse == model->layers;
}

bool shared_base(const struct step_request *r)
{
    return r->stack->shares_base && r->recipe->method != RECIPE_FULL && r->layout->expert == 1 &&
           has_equal_layers(r->model) && r->layout->zero == 3 && layout_shards(r->layout) > 1;
}

double shared_base_weights(const struct step_request *r)
{
    struct model_linear linears[MODEL_LINEARS];
    size_t count = model_linears(r->model, r->model->experts ? MODEL_SPARSE : MODEL_DENSE, linears);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        if (linears[i].role != MODEL_ROUTER) // whole on every GPU
            sum += (double)(linears[i].in * linears[i].out * linears[i].count);
    return sum;
}

// In fp8 a linear is there twice: as it is for the forward pass, and transposed for the backward.
double shared_base_bytes(const struct step_request *r)
{
    if (r->recipe->method == RECIPE_QLORA)
        return recipe_weight_bytes(r->recipe);
    return r->recipe->precision == RECIPE_FP32 ? 4 : 2;
}
