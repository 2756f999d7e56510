// SPDX-License-Identifier: Apache-2.0
// A run of the built-in engine in the words of a plan, on GPUs that this machine need not have.

#include "cli/data.h"
#include "cli/engine_run.h"
#include "test/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct decoder decoder;
static struct transformer transformer;
static struct transformer_layer layers[64];
static struct device device;
static struct group group;
static struct arrangement arrangement;
static struct command_line line;
static const struct backend some_gpu = { .name = "cuda" };

// LoRA of Llama 3.2 1B in bf16, four rows of 2,048 tokens in a micro-batch, two of them a step.
static struct engine_run run_on(const char *name)
{
    struct catalog catalog;
    const struct model *model;
    line = (struct command_line){ .arena = &test_arena };
    CHECK(!data_open(&catalog, &line) && !catalog_model(&model, &catalog, "llama-3.2-1b"));
    decoder.model = *model;
    transformer = (struct transformer){ .decoder = &decoder, .layers = layers };
    memset(layers, 0, sizeof layers);
    device = (struct device){ .backend = &some_gpu };
    snprintf(device.name, sizeof device.name, "%s", name);
    group = (struct group){ .size = 1, .local_size = 1 };
    arrangement = (struct arrangement){ .micro_batch = 4, .recipe = recipe_default() };
    arrangement.recipe.precision = RECIPE_BF16;
    return (struct engine_run){ .transformer = &transformer,
                                .group = &group,
                                .device = &device,
                                .arrangement = &arrangement,
                                .accumulation = 2,
                                .batch = step_batch(4, 2048) };
}

static double roofline_of(struct pilot_configuration *c, const struct engine_run *run)
{
    struct pilot nothing;
    double tokens_per_s;
    pilot_clear(&nothing);
    *c = nothing.configuration;
    CHECK(!engine_run_describe(c, run, &line));
    CHECK(!engine_run_roofline(&tokens_per_s, c, run, &line));
    return tokens_per_s;
}

TEST(engine_run_has_the_catalogs_name_of_its_gpu_and_the_lengths_of_its_rows)
{
    struct pilot_configuration c;
    struct engine_run run = run_on("NVIDIA H200");
    layers[3].level = RECOMPUTE_BLOCK;
    arrangement.setup.fp8 = true;
    roofline_of(&c, &run);
    CHECK(!strcmp(c.gpu, "h200-sxm") && !strcmp(c.parallel, "single") && c.gpus == 1);
    CHECK(c.micro_batch_tokens == 8192 && c.attended_tokens == 2048);
    CHECK(c.accumulation == 2 && c.global_batch == 8);
    CHECK(c.recipe.precision == RECIPE_FP8 && c.recipe.checkpointing == RECIPE_RECOMPUTE);
}

TEST(engine_run_has_the_roofline_that_a_plan_of_it_has)
{
    struct pilot_configuration c;
    struct engine_run run = run_on("NVIDIA H200");
    double tokens_per_s = roofline_of(&c, &run);
    struct plan_data data;
    struct setup setup = { .model = &decoder.model,
                           .recipe = c.recipe,
                           .layout = layout_single(),
                           .batch = step_batch(4, 2048),
                           .accumulation = 2 };
    struct estimate estimate;
    CHECK(!data_plan(&data, &line) && !catalog_gpu(&setup.gpu, &data.catalog, "h200"));
    CHECK(!stack_find(&setup.stack, data.stacks, data.stack_count, "native"));
    setup.node = catalog_node_of(&data.catalog, setup.gpu);
    CHECK(!estimate_make(&estimate, &test_arena, &setup));
    CHECK(tokens_per_s == estimate.tokens_per_s);
    run.batch.squares /= 8; // documents of 256 tokens in rows of 2,048
    CHECK(roofline_of(&c, &run) > tokens_per_s);
}

TEST(engine_run_on_a_cpu_or_an_unknown_gpu_has_no_roofline)
{
    struct pilot_configuration c;
    struct engine_run run = run_on("NVIDIA Unheard 9000");
    CHECK(isnan(roofline_of(&c, &run)) && !strcmp(c.gpu, "NVIDIA Unheard 9000"));
    device.backend = NULL;
    CHECK(isnan(roofline_of(&c, &run)) && !strcmp(c.gpu, "cpu"));
}
