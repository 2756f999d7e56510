#include "test/core/knowledge.h"

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
