// SPDX-License-Identifier: Apache-2.0
// What a request says of a step before it is listed: its batch, its rounds, its types.

#include "core/step/shared_base.h"
#include "core/step/step.h"

#include <math.h>

bool step_autocasts(const struct step_request *r)
{
    const struct recipe *recipe = r->recipe;
    bool full = recipe->method == RECIPE_FULL, quantized = recipe->method == RECIPE_QLORA;
    bool sharded = r->layout->zero == 3 && layout_shards(r->layout) > 1;
    bool wide = full ? recipe->weights == RECIPE_FP32 && !r->stack->copies_weights
                     : r->stack->frozen == RECIPE_FP32 && !quantized;
    bool masters = stack_is_engine(r->stack); // beside them a copy
    return wide && !masters && recipe->precision != RECIPE_FP32 &&
           (r->stack->autocasts == STACK_ALWAYS_CASTS ||
            (r->stack->autocasts == STACK_CASTS_UNSHARDED && !sharded));
}

bool step_stays_gathered(const struct step_request *r)
{
    const struct layout *layout = r->layout;
    return layout->zero == 3 && !shared_base(r) && layout_shards(layout) > 1 &&
           !stack_is_deepspeed(r->stack) && layout->pipeline > 1 && !layout->split;
}

double step_rounds(const struct step_request *request)
{
    return fmax(1, request->passes.rounds);
}

double step_updates(const struct step_request *request)
{
    return step_rounds(request) * fmax(1, fmin(request->passes.updates, request->accumulation));
}

struct step_batch step_batch(double rows, double width)
{
    return (struct step_batch){ .rows = rows,
                                .width = width,
                                .tokens = rows * width,
                                .squares = rows * width * width,
                                .labelled = rows * width };
}

double step_batch_spread(double lengths, double rows, bool padded)
{
    if (!(rows > 1))
        return lengths;
    // The longest of n normal values deviates by 1/√(1 + 0.6·log2 n) of one (within 4 % up to 64).
    if (padded)
        return lengths / sqrt(1 + 0.6 * log2(rows));
    return sqrt(log1p(expm1(lengths * lengths) / rows)); // variances of summands add
}
