// SPDX-License-Identifier: Apache-2.0
// Rates of products and of attention's kernels, by card, shape and length of rows.

#include "test/core/knowledge.h"

TEST(compute_of_products_whose_rows_begin_between_16_bytes_is_within_a_fifth_of_cublas)
{
    // TFLOP/s of a head on 8,192 rows of 4,096 on an H200 (bench/results/h200.md).
    static const struct {
        int64_t vocabulary;
        double rate;
    } measured[] = { { 32000, 695 }, { 32001, 99 }, { 32002, 286 }, { 32004, 287 } };
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-2-7b", "hf", 2, 4096);
    struct model model = *setup.model;
    double head[4] = { 0 };
    for (int i = 0; i < 4; i++) {
        model.vocabulary = measured[i].vocabulary;
        setup.model = &model;
        struct estimate estimate = knowledge_estimate(&setup);
        head[i] = estimate.timing.matmul_seconds;
    }
    // Two products a step of it, and as many FLOP in all: what the odd ones take more.
    double flops = 2 * 2 * 8192 * 4096.0 * 32000;
    for (int i = 1; i < 4; i++) {
        double more = flops * (1 / measured[i].rate - 1 / measured[0].rate) / 1e12;
        CHECK_NEAR(head[i] - head[0], more, 0.2);
    }
}

TEST(compute_of_attention_is_within_6_percent_of_pytorchs_kernels_at_every_length_of_rows)
{
    // Milliseconds forward and backward of 32 heads, 16,384 tokens or one row, on one H200:
    // bench/gpu/attention_lengths.py.
    static const struct {
        const char *stack, *model; // cuDNN, FlashAttention-2; heads of 128 and of 64 elements
        double width, forward, backward;
    } measured[] = {
        { "hf", "llama-3.1-8b", 512, 0.216, 0.846 },
        { "hf", "llama-3.1-8b", 4096, 1.066, 3.081 },
        { "hf", "llama-3.1-8b", 32768, 14.882, 42.048 },
        { "hf", "llama-3.1-8b", 131072, 252.576, 653.46 },
        { "hf", "llama-3.2-1b", 512, 0.143, 0.57 },
        { "hf", "llama-3.2-1b", 4096, 0.688, 1.912 },
        { "torchtitan", "llama-3.1-8b", 512, 0.363, 1.483 },
        { "torchtitan", "llama-3.1-8b", 4096, 1.759, 5.343 },
        { "torchtitan", "llama-3.1-8b", 65536, 103.604, 270.479 },
        { "torchtitan", "llama-3.2-1b", 4096, 0.99, 3.077 },
    };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        double width = measured[i].width, layers;
        struct setup setup = knowledge_setup(&k, measured[i].model, measured[i].stack,
                                             fmax(1, 16384 / width), width);
        setup.recipe.checkpointing = RECIPE_KEEP_ALL;
        layers = (double)setup.model->layers;
        CHECK_NEAR(1e3 * knowledge_estimate(&setup).timing.attention_seconds / layers,
                   measured[i].forward + measured[i].backward, 0.06);
    }
}

TEST(compute_of_our_engines_own_attention_is_slower_than_cudnns)
{
    // Where cuDNN's workspace is not known to fit, as on Ampere; and with soft caps, as Gemma 2
    // has.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "native", 1, 16384);
    struct setup other = knowledge_setup(&k, "llama-3.1-8b", "hf", 1, 16384);
    double hopper = knowledge_estimate(&setup).timing.attention_seconds /
                    knowledge_estimate(&other).timing.attention_seconds;
    CHECK(!catalog_gpu(&setup.gpu, &k.catalog, "a100-sxm-80gb"));
    other.gpu = setup.gpu;
    double ampere = knowledge_estimate(&setup).timing.attention_seconds /
                    knowledge_estimate(&other).timing.attention_seconds;
    CHECK(hopper < 1.2 && ampere > 1.25 && ampere < 1.5);
    setup = knowledge_setup(&k, "gemma-2-9b", "native", 1, 4096);
    double capped = knowledge_estimate(&setup).timing.attention_seconds;
    setup = knowledge_setup(&k, "gemma-2-9b", "llmq", 1, 4096);
    CHECK(capped > 1.5 * knowledge_estimate(&setup).timing.attention_seconds);
}

TEST(compute_card_sustains_what_its_power_limit_feeds)
{
    struct knowledge k = knowledge_open();
    double of_700_w = compute_matmul_flops_per_s(knowledge_card(&k, "h100-sxm"), RECIPE_BF16);
    CHECK_NEAR(of_700_w, 0.86 * 794.5e12, 1e-9);
    // 700 TFLOP/s at 700 W: 700 · (500/700)^⅔ = 559.3 at 500 W.
    double of_500_w = compute_matmul_flops_per_s(knowledge_card(&k, "h100-sxm-96gb"), RECIPE_BF16);
    CHECK_NEAR(of_500_w, 559.3e12, 1e-3);
    CHECK(compute_matmul_flops_per_s(knowledge_card(&k, "rtx-6000-ada"), RECIPE_BF16) <
          compute_matmul_flops_per_s(knowledge_card(&k, "l40s"), RECIPE_BF16));
    // MLPerf 5.1, 70B LoRA on eight: MI325X 2,848 tokens/s a card, MI300X 2,091; the same chip.
    double mi325x = compute_matmul_flops_per_s(knowledge_card(&k, "mi325x"), RECIPE_BF16);
    double mi300x = compute_matmul_flops_per_s(knowledge_card(&k, "mi300x"), RECIPE_BF16);
    CHECK_NEAR(mi325x / mi300x, 2848.0 / 2091, 0.12);
    // Intel: Gaudi 3 trains at 1.4 to 1.7 times a Gaudi 2; its memory is 1.5 times as fast.
    double gaudi3 = compute_matmul_flops_per_s(knowledge_card(&k, "gaudi3"), RECIPE_BF16);
    CHECK_NEAR(gaudi3 / compute_matmul_flops_per_s(knowledge_card(&k, "gaudi2"), RECIPE_BF16), 1.8,
               0.03);
}

TEST(compute_of_a_card_cut_down_in_its_units_is_near_its_peak)
{
    // A 7B in rows of 16,384 tokens on four H20 of 148 TFLOP/s: 7,384 tokens/s with
    // FlashAttention-2 (NOV-042); documents of about 9,000 tokens.
    struct knowledge k = knowledge_open();
    CHECK_NEAR(compute_matmul_flops_per_s(knowledge_card(&k, "h20-sxm"), RECIPE_BF16),
               0.95 * 148e12, 1e-9);
    CHECK(compute_matmul_flops_per_s(knowledge_card(&k, "h800-sxm"), RECIPE_BF16) < 0.8 * 989e12);
    struct setup setup = knowledge_setup(&k, "qwen2.5-7b", "hf-liger-deepspeed", 1, 16384);
    setup.gpu = knowledge_card(&k, "h20-sxm");
    setup.node = catalog_node_of(&k.catalog, setup.gpu);
    setup.recipe.method = RECIPE_FULL;
    setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    setup.recipe.attention = RECIPE_FLASH2;
    setup.layout.data = 4;
    setup.layout.zero = 3;
    setup.accumulation = 4;
    setup.batch.squares = 16384.0 * 12700; // lognormal, of spread 0.59
    CHECK_NEAR(knowledge_estimate(&setup).tokens_per_s, 7384, 0.12);
}

TEST(compute_fp4_products_run_at_the_cards_fp4_rate)
{
    struct knowledge k = knowledge_open();
    const struct gpu *b200 = knowledge_card(&k, "b200"), *h200 = knowledge_card(&k, "h200");
    double fp8 = compute_matmul_flops_per_s(b200, RECIPE_FP8);
    CHECK_NEAR(compute_matmul_flops_per_s(b200, RECIPE_FP4), 2 * fp8, 1e-12); // 9,000 of 4,500
    CHECK(compute_matmul_flops_per_s(h200, RECIPE_FP4) ==
          compute_matmul_flops_per_s(h200, RECIPE_FP8)); // it has none
    // MLPerf 5.1, Llama-2-70B LoRA, eight B200: 1,064 ms a step in nvfp4.
    struct setup setup = knowledge_setup(&k, "llama-2-70b", "nemo", 1, 8192);
    setup.gpu = b200;
    setup.layout.data = 8;
    setup.recipe.targets = "attention";
    setup.recipe.precision = RECIPE_FP4;
    CHECK_NEAR(knowledge_estimate(&setup).timing.step_seconds, 1.064, 0.1);
}

TEST(compute_of_eager_attention_in_a_fused_stack_is_near_what_llm_c_took)
{
    // GPT-2 without cuDNN, 32 rows of 1,024 on an A100 PCIe: 125,356 tokens/s (NOV-119).
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "gpt-2-124m", "llm.c", 32, 1024);
    setup.gpu = knowledge_card(&k, "a100-pcie-40gb");
    setup.recipe.method = RECIPE_FULL;
    setup.recipe.attention = RECIPE_ATTENTION_EAGER;
    setup.accumulation = 16;
    CHECK_NEAR(knowledge_estimate(&setup).tokens_per_s, 125356, 0.1);
}

TEST(compute_of_eager_attention_on_an_h200_is_within_12_percent_of_measured_layers)
{
    // Milliseconds of a layer, bench/gpu/masked.py: 16,384 tokens, eager less causal sdpa.
    static const struct {
        const char *model;
        double width, forward, both;
    } measured[] = {
        { "llama-3.2-1b", 1024, 6.067, 12.319 },  { "llama-3.2-1b", 2048, 12.354, 24.861 },
        { "llama-3.2-1b", 4096, 27.039, 52.163 }, { "llama-3.1-8b", 1024, 6.079, 11.177 },
        { "llama-3.1-8b", 2048, 12.101, 23.284 }, { "llama-3.1-8b", 4096, 26.342, 49.668 }
    };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        double width = measured[i].width, took[2][2];
        for (int recomputed = 0; recomputed < 2; recomputed++)
            for (int eager = 0; eager < 2; eager++) {
                struct setup setup =
                    knowledge_setup(&k, measured[i].model, "hf", 16384 / width, width);
                setup.recipe.checkpointing = recomputed ? RECIPE_RECOMPUTE : RECIPE_KEEP_ALL;
                setup.recipe.attention = eager ? RECIPE_ATTENTION_EAGER : RECIPE_SDPA;
                struct timing t = knowledge_estimate(&setup).timing;
                double layers = (double)setup.model->layers;
                took[recomputed][eager] =
                    1000 * (t.attention_seconds + t.elementwise_seconds) / layers;
            }
        double both = took[0][1] - took[0][0], again = took[1][1] - took[1][0];
        CHECK_NEAR(both, measured[i].both, 0.12);
        CHECK_NEAR(again - both, measured[i].forward, 0.2);
    }
}

// bench/gpu/random_steps.py: seconds of a micro-batch and its update, before any efficiency.
// Autocast casts weights and inputs; Adafactor goes over each weight many times.
TEST(compute_of_fp32_weights_and_of_adafactor_is_within_6_percent_of_the_trainers_steps_on_an_h200)
{
    static const struct {
        const char *model;
        double rows, width;
        int weights, optimizer;
        double accumulation, seconds;
    } steps[] = {
        { "falcon3-7b", 2, 4096, RECIPE_FP32, RECIPE_SGD, 1, 0.8062 },
        { "qwen2-1.5b", 1, 16384, RECIPE_FP32, RECIPE_SGD, 4, 2.2908 },
        { "yi-6b", 64, 256, RECIPE_BF16, RECIPE_ADAFACTOR, 1, 1.3962 },
    };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct setup setup =
            knowledge_setup(&k, steps[i].model, "hf", steps[i].rows, steps[i].width);
        setup.batch.packed = true;
        setup.recipe.method = RECIPE_FULL;
        setup.recipe.weights = setup.recipe.states = steps[i].weights;
        setup.recipe.optimizer = steps[i].optimizer;
        setup.accumulation = steps[i].accumulation;
        CHECK_NEAR(knowledge_estimate(&setup).timing.step_seconds, steps[i].seconds, 0.06);
    }
}

// Boards whose power holds their products far below the datasheet, as measured.
TEST(compute_of_boards_of_little_power_is_at_what_it_feeds)
{
    static const struct {
        const char *gpu;
        int precision;
        double rate, datasheet;
    } measured[] = { { "t4", RECIPE_FP16, 24e12, 65e12 }, { "a10", RECIPE_BF16, 70.7e12, 125e12 } };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        const struct gpu *gpu;
        CHECK(!catalog_gpu(&gpu, &k.catalog, measured[i].gpu));
        double rate = compute_matmul_flops_per_s(gpu, measured[i].precision);
        CHECK(rate > 0.85 * measured[i].rate && rate <= measured[i].rate);
        CHECK(rate < 0.6 * measured[i].datasheet);
    }
}
