// SPDX-License-Identifier: Apache-2.0
#include "test/core/knowledge.h"

#include <math.h>

TEST(compute_is_near_transformers_on_an_h200_before_any_fit)
{
    // Tokens/s of transformers 5.17, hand-written bf16 LoRA, one H200, random weights.
    static const struct {
        const char *model;
        int method;
        double width, rows;
        int checkpointing;
        double tokens_per_s;
    } measured[] = {
        { "llama-3.1-8b", RECIPE_LORA, 4096, 2, RECIPE_KEEP_ALL, 12066 },
        { "llama-3.1-8b", RECIPE_LORA, 4096, 4, RECIPE_RECOMPUTE, 8666 },
        { "llama-3.1-8b", RECIPE_FULL, 4096, 1, RECIPE_KEEP_ALL, 9394 },
        { "llama-3.1-8b", RECIPE_LORA, 16384, 1, RECIPE_RECOMPUTE, 7065 },
        { "llama-3.1-8b", RECIPE_LORA, 512, 8, RECIPE_KEEP_ALL, 12374 },
        { "llama-3.2-1b", RECIPE_FULL, 4096, 4, RECIPE_RECOMPUTE, 40179 },
    };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        struct setup setup =
            knowledge_setup(&k, measured[i].model, "hf", measured[i].rows, measured[i].width);
        setup.recipe.method = measured[i].method;
        setup.recipe.checkpointing = measured[i].checkpointing;
        CHECK_NEAR(knowledge_estimate(&setup).tokens_per_s, measured[i].tokens_per_s, 0.15);
    }
}

TEST(compute_never_beats_the_datasheet)
{
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < k.catalog.gpu_count; i++) {
        struct arena_mark mark = arena_mark(&test_arena);
        struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "native", 8, 4096);
        setup.gpu = &k.catalog.gpus[i];
        struct timing timing = knowledge_estimate(&setup).timing;
        CHECK(timing.peak_share > 0 && timing.peak_share < 1);
        arena_rewind(&test_arena, mark);
    }
}

TEST(compute_starves_a_small_model_on_a_slow_host)
{
    // Qwen2.5-0.5B's shape at 512 tokens: 12,477 tokens/s measured, hardly any of the card's rate.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "qwen2.5-0.5b", "hf", 4, 512);
    struct estimate eager = knowledge_estimate(&setup);
    CHECK_NEAR(eager.tokens_per_s, 12477, 0.2);
    CHECK(eager.timing.host_seconds > 5 * eager.timing.matmul_seconds);
}

TEST(compute_pays_for_fp32_adapters)
{
    // The 8B shape at two rows of 4,096: PEFT 8,939 tokens/s, bf16 adapters 12,066.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 2, 4096);
    double bf16 = knowledge_estimate(&setup).tokens_per_s;
    setup.recipe.adapter_dtype = RECIPE_FP32;
    CHECK_NEAR(bf16 / knowledge_estimate(&setup).tokens_per_s, 12066.0 / 8939, 0.05);
}

TEST(compute_charges_the_bubble_of_a_pipeline)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-70b", "nemo", 1, 4096);
    setup.layout.pipeline = 4;
    setup.accumulation = 12;
    struct timing timing = knowledge_estimate(&setup).timing;
    CHECK_NEAR(timing.bubble_seconds, 3 * timing.micro_seconds, 1e-12);
    setup.layout.interleave = 5;
    timing = knowledge_estimate(&setup).timing;
    CHECK_NEAR(timing.bubble_seconds, 3 * timing.micro_seconds / 5, 1e-12);
}

// Of one layer, the attention and what a mask adds around it.
static double attention_milliseconds(struct setup *setup, bool padded)
{
    setup->batch.padded = padded;
    struct estimate estimate = knowledge_estimate(setup);
    struct step_request request = { .model = setup->model,
                                    .recipe = &setup->recipe,
                                    .layout = &setup->layout,
                                    .stack = setup->stack,
                                    .batch = setup->batch,
                                    .accumulation = 1 };
    double seconds = 0;
    for (size_t i = 0; i < estimate.step.count; i++) {
        const struct step_op *op = &estimate.step.ops[i];
        if (op->kind == STEP_ATTENTION || !strcmp(op->name, "repeat keys") ||
            !strcmp(op->name, "mask"))
            seconds += compute_op_seconds(op, &request, setup->gpu);
    }
    return 1000 * seconds;
}

TEST(compute_of_a_mask_is_near_what_it_cost_transformers_on_an_h200)
{
    // bench/gpu/masked.py: milliseconds of a layer with a mask less those without, 16,384 tokens.
    // They are differences of layers of 12 to 43 ms, and of short rows they scatter by 0.3 ms.
    static const struct {
        const char *model;
        double width, milliseconds;
    } measured[] = {
        { "llama-3.2-1b", 256, 0.679 },  { "llama-3.2-1b", 512, 0.893 },
        { "llama-3.2-1b", 1024, 1.742 }, { "llama-3.2-1b", 2048, 2.532 },
        { "llama-3.2-1b", 4096, 5.315 }, { "llama-3.1-8b", 256, 0.722 },
        { "llama-3.1-8b", 512, 1.635 },  { "llama-3.1-8b", 1024, 2.634 },
        { "llama-3.1-8b", 2048, 4.868 }, { "llama-3.1-8b", 4096, 8.837 },
    };
    struct knowledge k = knowledge_open();
    double sums[2][2] = { { 0 } }; // ours, measured
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        double width = measured[i].width, theirs = measured[i].milliseconds;
        struct setup setup = knowledge_setup(&k, measured[i].model, "hf", 16384 / width, width);
        setup.recipe = estimate_recipe(&setup);
        double ours = attention_milliseconds(&setup, true) - attention_milliseconds(&setup, false);
        CHECK(fabs(ours - theirs) < fmax(0.25 * theirs, 0.45));
        sums[i / 5][0] += ours, sums[i / 5][1] += theirs;
    }
    CHECK_NEAR(sums[0][0], sums[0][1], 0.2);
    CHECK_NEAR(sums[1][0], sums[1][1], 0.2);
}

TEST(compute_of_padded_rows_is_that_of_full_ones_where_no_mask_is_made)
{
    struct knowledge k = knowledge_open();
    static const char *const stacks[] = { "unsloth", "axolotl", "torchtune", "native", "fms" };
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
        struct setup setup = knowledge_setup(&k, "llama-3.1-8b", stacks[i], 4, 2048);
        double full = knowledge_estimate(&setup).timing.step_seconds;
        setup.batch.padded = true;
        CHECK_NEAR(knowledge_estimate(&setup).timing.step_seconds, full, 1e-12);
    }
}
