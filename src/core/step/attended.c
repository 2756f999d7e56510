// SPDX-License-Identifier: Apache-2.0
// Which scores of attention a layer computes: within its window, or all of them under a mask.

#include "core/step/attended.h"

enum stack_attention attended_kernel(const struct step_request *r)
{
    static const enum stack_attention kernels[] = {
        [RECIPE_ATTENTION_EAGER] = STACK_ATTENTION_EAGER,
        [RECIPE_SDPA] = STACK_CUDNN,
        [RECIPE_FLASH2] = STACK_FLASH2,
        [RECIPE_FLASH3] = STACK_FLASH3,
    };
    int chosen = r->recipe->attention;
    return chosen == RECIPE_ATTENTION_AUTO ? (enum stack_attention)r->stack->attention
                                           : kernels[chosen];
}

static bool has_masks(const struct step_request *r)
{
    int chosen = r->recipe->attention;
    return chosen == RECIPE_ATTENTION_AUTO ? r->stack->masks : chosen == RECIPE_SDPA;
}

// Σ l² as a layer with a sliding window sees it: l·(2w − w²/l) for rows longer than the window.
static double windowed(const struct step_batch *batch, double window)
{
    double length = batch->tokens > 0 ? batch->squares / batch->tokens : 0;
    if (window <= 0 || length <= window)
        return batch->squares;
    return batch->squares * (2 * window / length - window * window / (length * length));
}

double attended_squares(const struct step_request *request)
{
    const struct model *model = request->model;
    double all = (double)model->layers, full = (double)model_full_attention_layers(model);
    return (full * request->batch.squares +
            (all - full) * windowed(&request->batch, (double)model->sliding_window)) /
           all;
}

double attended_masked_share(const struct step_request *r)
{
    const struct model *model = r->model;
    if (!has_masks(r) || attended_kernel(r) == STACK_ATTENTION_EAGER)
        return 0;
    double length = r->batch.tokens > 0 ? r->batch.squares / r->batch.tokens : 0;
    bool binds = model->sliding_window && length >= (double)model->sliding_window;
    double full = (double)model_full_attention_layers(model);
    return r->batch.padded ? 1 : binds && !r->batch.packed ? 1 - full / (double)model->layers : 0;
}

bool attended_by_piece(const struct step_request *r)
{
    return has_masks(r) || attended_kernel(r) == STACK_ATTENTION_EAGER;
}
