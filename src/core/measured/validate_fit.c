// SPDX-License-Identifier: Apache-2.0
// Compares the probability that a run fits with what became of it.

#include "core/measured/validate_fit.h"

#include <math.h>

static const double GIB = 1073741824.0;

double validate_fit_probability(struct arena *arena, const struct run *run,
                                const struct validate_model *model)
{
    struct setup setup;
    struct memory memory;
    if (!run->outcome ||
        run_setup(&setup, arena, run, model->catalog, model->stacks, model->stack_count) ||
        estimate_memory(&memory, arena, &setup))
        return NAN;
    return memory_fit_probability(&memory,
                                  setup.gpu ? setup.gpu->memory_bytes : run->card_gib * GIB);
}

struct validate_fits validate_fits(struct arena *arena, const struct run *runs, size_t count,
                                   const struct validate_model *model)
{
    struct validate_fits out = { 0 };
    for (size_t i = 0; i < count; i++) {
        struct arena_mark mark = arena_mark(arena);
        double share = validate_fit_probability(arena, &runs[i], model);
        arena_rewind(arena, mark);
        if (isnan(share))
            continue;
        bool failed = runs[i].outcome == RUN_OUT_OF_MEMORY;
        out.n++;
        out.right += failed == (share < 0.5);
        out.failed += failed;
        out.failed_sure += failed && share > VALIDATE_FIT_MOST;
    }
    return out;
}
