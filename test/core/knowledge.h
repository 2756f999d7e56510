// SPDX-License-Identifier: Apache-2.0
// knowledge: catalogs and stacks for the tests of the core, opened in the test's arena.

#pragma once

#include "base/embedded.h"
#include "core/measured/calibration.h"
#include "core/step/estimate.h"
#include "test/test.h"

#include <string.h>

struct knowledge {
    struct catalog catalog;
    struct stack *stacks;
    size_t stack_count;
};

static inline struct knowledge knowledge_open(void)
{
    struct knowledge k = { 0 };
    CHECK(!catalog_open(&k.catalog, &test_arena, NULL, 0));
    CHECK(!stack_read(&k.stacks, &k.stack_count, &test_arena, NULL, 0, embedded_file("stacks.json"),
                      "stacks.json"));
    return k;
}

static inline const struct gpu *knowledge_card(const struct knowledge *k, const char *name)
{
    const struct gpu *gpu = NULL;
    CHECK(!catalog_gpu(&gpu, &k->catalog, name));
    return gpu;
}

// A setup on one H200; the test changes what it is about.
static inline struct setup knowledge_setup(const struct knowledge *k, const char *model,
                                           const char *stack, double rows, double width)
{
    struct setup setup = { .recipe = recipe_default(),
                           .layout = layout_single(),
                           .batch = step_batch(rows, width),
                           .accumulation = 1 };
    CHECK(!catalog_model(&setup.model, &k->catalog, model));
    CHECK(!stack_find(&setup.stack, k->stacks, k->stack_count, stack));
    CHECK(!catalog_gpu(&setup.gpu, &k->catalog, "h200"));
    setup.recipe.checkpointing = RECIPE_KEEP_ALL;
    return setup;
}

static inline struct estimate knowledge_estimate(const struct setup *setup)
{
    struct estimate estimate = { 0 };
    CHECK(!estimate_make(&estimate, &test_arena, setup));
    return estimate;
}
