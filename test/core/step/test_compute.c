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
    // Adapters written by hand in that loop kept its host longer than PEFT's do.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "qwen2.5-0.5b", "hf", 4, 512);
    struct estimate eager = knowledge_estimate(&setup);
    CHECK_NEAR(eager.tokens_per_s, 12477, 0.35);
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

TEST(compute_of_our_engine_is_near_its_steps_at_every_length_of_rows)
{
    // 8B on one H200, random weights: tokens/s by bench_engine.c, before any fit. Where cuDNN's
    // backward pass of attention ran in parts, beyond 32,768 tokens, 131,072 had 3,094.
    static const struct {
        int method;
        double width, rows;
        int checkpointing;
        double tokens_per_s;
    } measured[] = {
        { RECIPE_LORA, 4096, 4, RECIPE_KEEP_ALL, 17373 },
        { RECIPE_LORA, 8192, 2, RECIPE_KEEP_ALL, 15497 },
        { RECIPE_QLORA, 131072, 1, RECIPE_PROJECTIONS, 3406 },
    };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        struct setup setup =
            knowledge_setup(&k, "llama-3.1-8b", "native", measured[i].rows, measured[i].width);
        setup.recipe.method = measured[i].method;
        setup.recipe.checkpointing = measured[i].checkpointing;
        CHECK_NEAR(knowledge_estimate(&setup).tokens_per_s, measured[i].tokens_per_s, 0.06);
    }
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
    double seconds = 0, once[STEP_OPS];
    compute_op_times(once, &estimate.step, &request, setup->gpu);
    for (size_t i = 0; i < estimate.step.count; i++) {
        const struct step_op *op = &estimate.step.ops[i];
        if (op->kind == STEP_ATTENTION || !strcmp(op->name, "repeat keys") ||
            !strcmp(op->name, "mask"))
            seconds += once[i];
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

TEST(compute_batch_of_a_step_is_cut_into_as_many_pieces_as_there_are_stages)
{
    // Llama-3.1-405B on 512 H100 (torchtitan): 32 rows a replica, 8 stages; interleaved 1.28 times
    // as fast as 1F1B. One micro-batch of 32 rows would make a bubble of seven times its length.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-405b", "torchtitan", 32, 8192);
    setup.recipe.method = RECIPE_FULL;
    setup.layout.tensor = setup.layout.pipeline = 8;
    struct timing plain = knowledge_estimate(&setup).timing;
    CHECK_NEAR(plain.bubble_seconds, 7.0 / 8 * plain.micro_seconds, 1e-12);
    setup.layout.interleave = 2;
    struct timing interleaved = knowledge_estimate(&setup).timing;
    CHECK_NEAR(plain.step_seconds / interleaved.step_seconds, 1.28, 0.03);
    setup.layout.interleave = 1;
    setup.batch = step_batch(2, 8192); // two rows make two pieces at most
    struct timing few = knowledge_estimate(&setup).timing;
    CHECK_NEAR(few.bubble_seconds, 7.0 / 2 * few.micro_seconds, 1e-12);
}

TEST(compute_waits_for_the_slowest_of_more_gpus)
{
    // MLPerf 4.1, Llama-2-70B LoRA in fp8 on H100, tensor 4 and context 2 (Oracle): 0.97 of the
    // rate of 64 GPUs on 128, 0.92 on 512.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-2-70b", "nemo", 1, 8192);
    setup.gpu = knowledge_card(&k, "h100-sxm");
    setup.recipe.targets = "attention";
    setup.recipe.precision = RECIPE_FP8;
    setup.layout.tensor = 4;
    setup.layout.context = 2;
    setup.layout.data = 8;
    struct timing of_64 = knowledge_estimate(&setup).timing;
    setup.layout.data = 16;
    struct timing of_128 = knowledge_estimate(&setup).timing;
    setup.layout.data = 64;
    struct timing of_512 = knowledge_estimate(&setup).timing;
    CHECK_NEAR(of_64.step_seconds / of_128.step_seconds, 0.97, 0.02);
    CHECK_NEAR(of_64.step_seconds / of_512.step_seconds, 0.92, 0.03);
}

// NVIDIA's guide to CUDA graphs, Llama-2-70B LoRA in fp8 on B200: steps without them over steps
// with.
TEST(compute_cuda_graphs_are_worth_what_nvidia_publishes_for_64_and_768_gpus)
{
    static const struct {
        int64_t data;
        double times;
    } cases[] = { { 8, 1.2 }, { 96, 2.7 } };
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-2-70b", "nemo", 1, 8192);
    setup.gpu = knowledge_card(&k, "b200-sxm");
    setup.recipe.targets = "attention";
    setup.recipe.precision = RECIPE_FP8;
    setup.layout.context = 8;
    struct stack without = *setup.stack;
    without.cuda_graphs = false;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setup.layout.data = cases[i].data;
        struct setup other = setup;
        other.stack = &without;
        CHECK_NEAR(knowledge_estimate(&other).timing.step_seconds /
                       knowledge_estimate(&setup).timing.step_seconds,
                   cases[i].times, 0.1);
    }
    setup.layout.data = setup.layout.context = 1; // one host waits for no other
    double alone = knowledge_estimate(&setup).timing.step_seconds;
    setup.stack = &without;
    CHECK_NEAR(knowledge_estimate(&setup).timing.step_seconds, alone, 1e-12);
}

TEST(compute_on_cdna_3_hides_a_fifth_of_what_runs_beside_it)
{
    // MLPerf 5.0, Llama-2-70B LoRA in fp8 on MI300X (MangoBoost), steps of its logs: 0.92 of the
    // rate of 8 GPUs on 16, 0.70 on 32.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-2-70b", "nemo", 1, 8192);
    setup.gpu = knowledge_card(&k, "mi300x");
    setup.node = catalog_node_of(&k.catalog, setup.gpu);
    setup.recipe.targets = "attention";
    setup.recipe.precision = RECIPE_FP8;
    setup.layout.data = 8;
    double seconds[3];
    for (int i = 0; i < 3; i++) {
        setup.layout.context = 1 << i;
        seconds[i] = knowledge_estimate(&setup).timing.step_seconds;
    }
    CHECK_NEAR(seconds[0] / 2 / seconds[1], 0.92, 0.03);
    CHECK(fabs(seconds[0] / 4 / seconds[2] - 0.70) <= 0.10);
}

TEST(compute_collectives_take_16_of_an_h100s_132_processors_and_copies_none)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 8, 4096);
    struct stack stack = *setup.stack;
    setup.stack = &stack;
    stack.overlap = 1;
    setup.gpu = knowledge_card(&k, "h100-sxm");
    setup.recipe.method = RECIPE_FULL;
    setup.layout.data = 8;
    setup.layout.zero = 3;
    struct estimate gathers = knowledge_estimate(&setup);
    stack.overlap = 0;
    double shown = knowledge_estimate(&setup).timing.exposed_seconds;
    CHECK_NEAR(gathers.timing.exposed_seconds / shown, 16.0 / 132, 0.05);
    setup.layout.offload_weights = true; // adds copies
    stack.overlap = 1;
    CHECK_NEAR(knowledge_estimate(&setup).timing.exposed_seconds, gathers.timing.exposed_seconds,
               1e-9);
    setup.layout.offload_weights = false;
    setup.gpu = knowledge_card(&k, "t4"); // over PCIe
    stack.overlap = 0;
    shown = knowledge_estimate(&setup).timing.exposed_seconds;
    stack.overlap = 1;
    struct timing beside = knowledge_estimate(&setup).timing;
    CHECK(beside.exposed_seconds > 0 && beside.exposed_seconds < 0.1 * shown);
}

TEST(compute_hides_a_reduction_only_behind_what_backward_leaves)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "nemo", 1, 128);
    setup.recipe.method = RECIPE_FULL;
    setup.layout.data = 64;
    struct timing brief = knowledge_estimate(&setup).timing;
    CHECK(brief.reduce_seconds > 0.8 * brief.micro_seconds); // little to hide behind
    setup.batch = step_batch(4, 8192);
    struct timing rich = knowledge_estimate(&setup).timing;
    CHECK(rich.reduce_seconds < 0.1 * rich.micro_seconds);
}

TEST(compute_hides_a_reduction_behind_the_draining_of_an_interleaved_pipeline)
{
    // MLPerf 5.0, Llama-3.1-405B in fp8, tensor 8, 8 stages, context 2 (NVIDIA): 0.87 of the rate
    // of 512 H100 on 8,192, with a twelfth of the micro-batches.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-405b", "nemo", 1, 8192);
    setup.gpu = knowledge_card(&k, "h100-sxm");
    setup.node = catalog_node_of(&k.catalog, setup.gpu);
    setup.recipe.method = RECIPE_FULL;
    setup.recipe.precision = RECIPE_FP8;
    setup.layout = (struct layout){
        .tensor = 8, .pipeline = 8, .context = 2, .data = 4, .expert = 1, .interleave = 8
    };
    setup.accumulation = 288;
    struct timing few = knowledge_estimate(&setup).timing;
    setup.layout.data = 64;
    setup.accumulation = 24;
    struct timing many = knowledge_estimate(&setup).timing;
    CHECK_NEAR(few.step_seconds / 288 * 24 / many.step_seconds, 0.90, 0.06);
    setup.layout.interleave = 1;
    CHECK(knowledge_estimate(&setup).timing.reduce_seconds > 2 * many.reduce_seconds);
}

TEST(compute_fsdp_fetches_a_unit_for_each_layer_and_adapter_matrix)
{
    // Mistral-7B, QLoRA on q, k, v, o, 1,156 tokens a micro-batch (fms-acceleration): 0.64 s on one
    // A100, 1.53 s on two.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "mistral-7b", "fms", 1, 1156);
    setup.recipe.targets = "q,k,v,o";
    setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    double alone = knowledge_estimate(&setup).timing.host_seconds;
    setup.layout.data = 2;
    setup.layout.zero = 3;
    double sharded = knowledge_estimate(&setup).timing.host_seconds;
    CHECK_NEAR(sharded - alone, 3 * (32 + 32 * 4 * 2) * setup.stack->fetch_seconds, 1e-9);
    CHECK_NEAR(sharded - alone, 0.89, 0.05);
    setup.recipe.method = RECIPE_FULL;
    sharded = knowledge_estimate(&setup).timing.host_seconds;
    setup.layout.data = 1;
    setup.layout.zero = 0;
    alone = knowledge_estimate(&setup).timing.host_seconds;
    CHECK_NEAR(sharded - alone, 3 * 32e-3, 1e-9);
}

TEST(compute_fsdp2_copies_weights_and_gradients_through_its_buffers)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "torchtitan", 1, 4096);
    setup.recipe.method = RECIPE_FULL;
    setup.layout.zero = 3;
    double alone = knowledge_estimate(&setup).timing.elementwise_seconds;
    setup.layout.data = 8;
    // Two gathers of 16-bit weights, each read and written; gradients read in 16, written in 32
    // bits.
    double bytes = (double)model_parameters(setup.model) * (2 * 4 + 2 + 4);
    double added = knowledge_estimate(&setup).timing.elementwise_seconds - alone;
    CHECK_NEAR(added, bytes / compute_memory_bytes_per_s(setup.gpu), 1e-3);
    CHECK(!stack_find(&setup.stack, k.stacks, k.stack_count, "fms-fsdp")); // FSDP1 has views
    CHECK(knowledge_estimate(&setup).timing.elementwise_seconds < alone * 1.001);
}

TEST(compute_gpus_of_a_node_go_at_the_speed_of_the_slowest)
{
    // Published jobs on two to eight GPUs of a node keep 0.94 to 0.99 of one's rate.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 4, 4096);
    setup.accumulation = 64; // next to no gradients to sum
    double one = knowledge_estimate(&setup).tokens_per_s, before = 1;
    for (int64_t gpus = 2; gpus <= 8; gpus *= 2) {
        setup.layout.data = gpus;
        double share = knowledge_estimate(&setup).tokens_per_s / one / (double)gpus;
        CHECK(share < before && share > 0.97);
        before = share;
    }
    CHECK(before < 0.985);
}

TEST(compute_casts_to_fp8_cost_what_they_were_measured_to_beside_the_products)
{
    // Linears of 4,096 x 14,336 on an H200, 16,384 tokens: 555 us with a scale for each tensor,
    // 1,054 with one for each row (bench/results/h200.md).
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "torchtitan", 4, 4096);
    struct stack stack = *setup.stack;
    setup.stack = &stack;
    setup.recipe.method = RECIPE_FULL;
    double seconds[2];
    for (int rowwise = 0; rowwise < 2; rowwise++) {
        stack.rowwise_scales = rowwise;
        setup.recipe.precision = RECIPE_FP8;
        double small = knowledge_estimate(&setup).timing.elementwise_seconds;
        setup.recipe.precision = RECIPE_BF16;
        seconds[rowwise] = small - knowledge_estimate(&setup).timing.elementwise_seconds;
    }
    // All linears of a layer: inputs, output gradients and weights.
    double elements =
        16384.0 * (5 * 4096 + 4096 + 14336 + 4096 + 2 * 1024 + 4096 + 2 * 14336 + 4096) +
        6979321856.0 / 32;
    CHECK_NEAR(seconds[0] / (32 * elements * 6.5 / 4.2e12), 1, 0.1);
    CHECK_NEAR(seconds[1] / seconds[0], 10.5 / 6.5, 0.02);
}

TEST(compute_ranks_wait_for_the_one_with_most_tokens)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "mistral-7b", "fms", 8, 289);
    setup.recipe.method = RECIPE_FULL;
    setup.layout.data = 8;
    CHECK(knowledge_estimate(&setup).timing.uneven_seconds == 0); // full rows
    setup.batch.spread = step_batch_spread(0.475, 8, false);
    struct timing each = knowledge_estimate(&setup).timing;
    double busy = each.micro_seconds - each.exposed_seconds - each.uneven_seconds;
    CHECK_NEAR(each.uneven_seconds / busy, 0.26, 0.03); // the fullest of eight
    setup.batch.fullest = 1.1 * setup.batch.tokens;
    CHECK(knowledge_estimate(&setup).timing.uneven_seconds <= 0.1 * busy); // no rank has more
    setup.batch.fullest = 0;
    setup.accumulation = 4; // they meet once a step, in which four micro-batches even out
    double once = knowledge_estimate(&setup).timing.uneven_seconds;
    CHECK_NEAR(once / each.uneven_seconds, 0.5, 0.05);
    setup.layout.zero = 3; // they meet in every layer
    CHECK(knowledge_estimate(&setup).timing.uneven_seconds > 1.5 * once);
    setup.layout.data = 1;
    CHECK(knowledge_estimate(&setup).timing.uneven_seconds == 0);
}

TEST(compute_zero3_of_deepspeed_fetches_each_weight_in_every_pass)
{
    // Qwen-7B, two A100, one row: 0.5 s a micro-batch at 256 and at 512 tokens.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-deepspeed", 1, 256);
    setup.recipe.method = RECIPE_FULL;
    setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    setup.layout.data = 2;
    setup.layout.zero = 2;
    double without = knowledge_estimate(&setup).timing.host_seconds;
    setup.layout.zero = 3;
    double fetches =
        32 * 7 * 3 + 2; // of 7 linears a layer, and of the head, which is not recomputed
    CHECK_NEAR(knowledge_estimate(&setup).timing.host_seconds, without + fetches * 0.55e-3, 1e-9);
}

TEST(compute_micro_batches_of_many_widths_wait_for_the_host_more_than_their_mean)
{
    // 330 micro-batches of four rows, 134 to 2,047 wide, on an H200: 0.28 s each beside new widths;
    // narrow ones 0.25 s, whatever their width.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-peft", 4, 538);
    double alike = knowledge_estimate(&setup).timing.micro_seconds;
    setup.batch.varies = 0.6;
    double varied = knowledge_estimate(&setup).timing.micro_seconds;
    CHECK(varied > 1.05 * alike && varied < 1.15 * alike);
    CHECK_NEAR(varied, 0.28, 0.1);
    setup.batch = step_batch(64, 2048); // the GPU has the longest part in all of them
    alike = knowledge_estimate(&setup).timing.micro_seconds;
    setup.batch.varies = 0.3;
    CHECK_NEAR(knowledge_estimate(&setup).timing.micro_seconds, alike, 1e-3);
}

TEST(compute_tensors_that_fit_the_cache_are_not_read_from_memory_again)
{
    // PEFT's benchmark on MetaMathQA: Llama 3.2 3B, 4 rows of about 210 tokens on an L40S, 96 MiB
    // of cache: 7,174 tokens/s (data/runs.csv, PFT-001), 1.4 times what its memory alone could
    // feed.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.2-3b", "hf-peft", 4, 210);
    setup.recipe.targets = "q,v";
    setup.recipe.checkpointing = RECIPE_KEEP_ALL;
    CHECK(!catalog_gpu(&setup.gpu, &k.catalog, "l40s"));
    struct gpu card = *setup.gpu;
    setup.gpu = &card;
    double with = knowledge_estimate(&setup).timing.elementwise_seconds;
    card.cache_bytes = NAN; // as where nobody has stated it
    double without = knowledge_estimate(&setup).timing.elementwise_seconds;
    CHECK(with < 0.5 * without);
    setup.batch.rows *= 100;
    setup.batch.tokens *= 100;
    setup.batch.squares *= 100;
    without = knowledge_estimate(&setup).timing.elementwise_seconds;
    card.cache_bytes = 96.0 * 1024 * 1024;
    CHECK_NEAR(knowledge_estimate(&setup).timing.elementwise_seconds, without, 0.02);
}

TEST(compute_host_time_is_near_what_peft_took_on_an_h200)
{
    // Seconds of micro-batches that the host bounds: bench/gpu/widths.py, bench/gpu/peft_steps.py,
    // and what steps of six_pilots.json take by regression on width and new widths, a micro-batch
    // of them. Autocast but for the plain ones.
    static const struct {
        const char *model;
        double rows, width;
        int checkpointing;
        bool plain;
        double seconds;
    } measured[] = {
        { "llama-3.2-1b", 8, 255, RECIPE_KEEP_ALL, false, 0.098 },
        { "llama-3.2-1b", 2, 255, RECIPE_KEEP_ALL, false, 0.102 },
        { "llama-3.2-1b", 8, 255, RECIPE_RECOMPUTE, false, 0.232 },
        { "qwen2.5-0.5b", 4, 512, RECIPE_KEEP_ALL, true, 0.165 },
        { "llama-3.1-8b", 1, 512, RECIPE_KEEP_ALL, true, 0.225 },
        { "llama-3.2-1b", 8, 261, RECIPE_KEEP_ALL, false, 0.118 },
        { "llama-3.2-1b", 8, 168, RECIPE_KEEP_ALL, false, 0.119 },
        { "llama-3.2-3b", 8, 262, RECIPE_RECOMPUTE, false, 0.355 },
        { "llama-3.2-3b", 8, 167, RECIPE_KEEP_ALL, false, 0.187 },
        { "llama-3.1-8b", 8, 261, RECIPE_KEEP_ALL, false, 0.244 },
        { "llama-3.1-8b", 4, 172, RECIPE_RECOMPUTE, false, 0.535 },
        // Two other machines, steps of whole runs whose widths had been seen before.
        { "llama-3.1-8b", 8, 190, RECIPE_RECOMPUTE, false, 0.399 },
        { "llama-3.1-8b", 8, 190, RECIPE_RECOMPUTE, false, 0.370 },
        { "llama-3.2-1b", 8, 190, RECIPE_KEEP_ALL, false, 0.131 },
        { "llama-3.2-1b", 8, 190, RECIPE_KEEP_ALL, false, 0.116 },
        { "llama-3.1-8b", 4, 190, RECIPE_KEEP_ALL, false, 0.237 },
        { "llama-3.1-8b", 4, 190, RECIPE_KEEP_ALL, false, 0.224 },
    };
    double sums[2] = { 0 }, counts[2] = { 0 };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        struct setup setup =
            knowledge_setup(&k, measured[i].model, "hf-peft", measured[i].rows, measured[i].width);
        struct stack stack = *setup.stack;
        if (measured[i].plain)
            stack.adapters = STACK_ADAPTERS_PLAIN;
        setup.stack = &stack;
        setup.recipe.checkpointing = measured[i].checkpointing;
        setup.batch.padded = !measured[i].plain;
        double seconds = knowledge_estimate(&setup).timing.micro_seconds;
        bool recomputed = measured[i].checkpointing == RECIPE_RECOMPUTE;
        // Hosts differ by a quarter, and more in what the hooks of recomputation cost them.
        CHECK_NEAR(seconds, measured[i].seconds, recomputed ? 0.35 : 0.25);
        sums[recomputed] += log(seconds / measured[i].seconds);
        counts[recomputed]++;
    }
    CHECK(fabs(sums[0] / counts[0]) < 0.1);
    CHECK(fabs(sums[1] / counts[1]) < 0.1);
}

TEST(compute_of_the_trainers_full_rows_on_an_h200_is_within_5_percent_of_their_steps)
{
    // Milliseconds of a step, bench/gpu/pilot_wrapped.sh: every row has 2,048 tokens, so no mask.
    static const struct {
        const char *model;
        double rows, seconds;
    } measured[] = { { "llama-3.2-1b", 4, 0.2022 }, { "llama-3.1-8b", 2, 0.4194 } };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        struct setup setup =
            knowledge_setup(&k, measured[i].model, "hf-peft", measured[i].rows, 2048);
        setup.recipe.checkpointing = RECIPE_KEEP_ALL;
        CHECK_NEAR(knowledge_estimate(&setup).timing.step_seconds, measured[i].seconds, 0.05);
    }
}

TEST(compute_of_flash_attention_needs_no_mask_where_rows_are_padded)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-peft", 4, 2048);
    setup.batch.padded = true;
    struct timing as_the_stack = knowledge_estimate(&setup).timing;
    setup.recipe.attention = RECIPE_SDPA;
    CHECK(knowledge_estimate(&setup).timing.step_seconds == as_the_stack.step_seconds);
    setup.recipe.attention = RECIPE_FLASH2;
    CHECK(knowledge_estimate(&setup).timing.step_seconds < as_the_stack.step_seconds);
}

// bench/gpu/kernels.py on an H200: steps of PEFT in a bare loop and by the Trainer, and kernels of
// the bare one. Its host took 1.27 times as long as the stack assumes.
static const struct profiled {
    const char *model;
    double rows, width, bare, trainer;
    double products, moved, attention; // milliseconds
} profiled[] = {
    { "llama-3.2-1b", 12, 1280, 346.0, 370.5, 118.1, 182.4, 36.3 },
    { "llama-3.2-1b", 4, 2048, 183.2, 203.6, 63.1, 96.5, 12.1 },
    { "llama-3.1-8b", 5, 896, 435.4, 480.7, 197.3, 189.2, 28.5 },
};

TEST(compute_of_profiled_products_and_moved_data_is_within_7_percent_and_steps_within_5)
{
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof profiled / sizeof *profiled; i++) {
        const struct profiled *p = &profiled[i];
        struct setup setup = knowledge_setup(&k, p->model, "hf-peft", p->rows, p->width);
        setup.recipe.checkpointing = RECIPE_KEEP_ALL;
        setup.batch.padded = p->width != 2048;
        struct timing ours = knowledge_estimate(&setup).timing;
        CHECK_NEAR(1000 * ours.matmul_seconds, p->products, 0.07);
        CHECK_NEAR(1000 * ours.elementwise_seconds, p->moved, 0.07);
        CHECK_NEAR(1000 * ours.attention_seconds, p->attention, 0.25); // 0.2 of it heads of 64
        CHECK_NEAR(1000 * ours.step_seconds, p->trainer, 0.05);
        struct stack bare = *setup.stack;
        stack_without_trainer(&bare);
        setup.stack = &bare;
        CHECK_NEAR(1000 * knowledge_estimate(&setup).timing.step_seconds, p->bare, 0.05);
    }
}

TEST(compute_trainer_visits_its_adapters_while_the_gpu_waits)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.2-1b", "hf-peft", 16, 4096);
    struct stack stack = *setup.stack;
    setup.stack = &stack;
    setup.recipe.checkpointing = RECIPE_KEEP_ALL;
    struct timing with = knowledge_estimate(&setup).timing;
    CHECK_NEAR(with.pause_seconds, 16 * 7 * stack.pause_seconds, 1e-9); // linears of all layers
    stack.pause_seconds = 0;
    struct timing without = knowledge_estimate(&setup).timing;
    // The GPU sets the time of 65,536 tokens, and the pause comes on top of it.
    CHECK_NEAR(with.micro_seconds - without.micro_seconds, with.pause_seconds, 0.02);
    CHECK(with.host_seconds == without.host_seconds);

    // Where the host sets it, the pause is a part of its time, and the step takes no longer.
    stack.pause_seconds = with.pause_seconds / (16 * 7);
    setup.batch = step_batch(1, 64);
    with = knowledge_estimate(&setup).timing;
    stack.pause_seconds = 0;
    without = knowledge_estimate(&setup).timing;
    CHECK_NEAR(with.micro_seconds, without.micro_seconds, 0.01);

    // Full training has no adapters to visit, and a host that needs no time has none to pause.
    stack.pause_seconds = 1;
    CHECK(knowledge_estimate(&setup).timing.micro_seconds >= 0.99 * without.micro_seconds);
    CHECK_NEAR(knowledge_estimate(&setup).timing.pause_seconds, without.host_seconds, 1e-9);
    setup.recipe.method = RECIPE_FULL;
    CHECK(knowledge_estimate(&setup).timing.pause_seconds == 0);
}

// Seconds of all products of fp32 adapters in a step.
static double fp32_adapter_seconds(struct setup *setup)
{
    struct recipe recipe = estimate_recipe(setup);
    struct estimate estimate = knowledge_estimate(setup);
    struct step_request request = { .model = setup->model,
                                    .recipe = &recipe,
                                    .layout = &setup->layout,
                                    .stack = setup->stack,
                                    .batch = setup->batch,
                                    .accumulation = 1 };
    double seconds = 0, once[STEP_OPS];
    compute_op_times(once, &estimate.step, &request, setup->gpu);
    for (size_t i = 0; i < estimate.step.count; i++)
        if (estimate.step.ops[i].fp32 && estimate.step.ops[i].kind == STEP_MATMUL)
            seconds += estimate.step.ops[i].repeats * once[i];
    return seconds;
}

TEST(compute_fp32_adapters_take_their_flops_at_the_rate_of_their_rank)
{
    // 6·T·r·(in + out) FLOP for each linear of the 8B shape, at 0.75·r/(r + 30) of 67 TFLOP/s.
    double sides = 2 * (4096.0 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336), tokens = 2 * 4096;
    struct knowledge k = knowledge_open();
    static const int64_t ranks[] = { 16, 64, 256 };
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 2, 4096);
        setup.recipe.adapter_dtype = RECIPE_FP32;
        setup.recipe.rank = ranks[i];
        double rank = (double)ranks[i], share = 0.75 * rank / (rank + 30);
        CHECK_NEAR(fp32_adapter_seconds(&setup), 6 * tokens * 32 * sides * rank / (67e12 * share),
                   1e-9);
        setup.recipe.adapter_dtype = RECIPE_BF16;
        CHECK(fp32_adapter_seconds(&setup) == 0);
    }
}

TEST(compute_evaluation_fetches_the_units_of_one_pass)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "mistral-7b", "fms", 1, 128); // waits for the host
    setup.recipe.targets = "q,k,v,o";
    setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    setup.layout.data = 2;
    setup.layout.zero = 3;
    struct stack slow = *setup.stack;
    slow.fetch_seconds = 10e-3; // all that counts
    setup.stack = &slow;
    struct timing timing = knowledge_estimate(&setup).timing;
    CHECK_NEAR(timing.evaluation_share, 1.0 / 3, 0.05); // one of three passes
}
