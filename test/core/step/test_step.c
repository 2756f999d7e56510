// SPDX-License-Identifier: Apache-2.0
#include "test/core/knowledge.h"

static double forward_attention(const struct setup *setup)
{
    // 2 · q · L · Σl² · ½ · 2: causal, the core's two products (research sheet, section 4a).
    return 2 * (double)model_query_width(setup->model) * (double)setup->model->layers *
           setup->batch.squares;
}

static double executed(const struct setup *setup)
{
    struct estimate estimate = knowledge_estimate(setup);
    return step_flops(&estimate.step);
}

// Check values, FLOPs per token, causal, attention counted three times forward; the list runs the
// backward kernel's five products, half a forward more.
static void check_flops(const char *model, double width, int method, int checkpointing,
                        double per_token)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, model, "hf", 1, width);
    setup.recipe.method = method;
    setup.recipe.checkpointing = checkpointing;
    setup.recipe.rank = 1;
    struct estimate estimate = knowledge_estimate(&setup);
    double adapters = 0;
    for (size_t i = 0; i < estimate.step.count; i++)
        if (!strncmp(estimate.step.ops[i].name, "adapter", 7))
            adapters += estimate.step.ops[i].flops * estimate.step.ops[i].repeats;
    double counted = step_flops(&estimate.step) - adapters - 0.5 * forward_attention(&setup);
    CHECK_NEAR(counted / width, per_token, 6e-4);
}

TEST(step_flops_equal_the_closed_formulas)
{
    check_flops("llama-3.1-8b", 2048, RECIPE_FULL, RECIPE_KEEP_ALL, 4.664e10);
    check_flops("llama-3.1-8b", 8192, RECIPE_FULL, RECIPE_KEEP_ALL, 5.147e10);
    check_flops("llama-3.1-8b", 32768, RECIPE_FULL, RECIPE_KEEP_ALL, 7.080e10);
    check_flops("llama-3.1-8b", 2048, RECIPE_FULL, RECIPE_RECOMPUTE, 6.113e10);
    check_flops("llama-3.1-70b", 2048, RECIPE_FULL, RECIPE_KEEP_ALL, 4.251e11);
    check_flops("qwen2.5-7b", 2048, RECIPE_FULL, RECIPE_KEEP_ALL, 4.365e10);
    check_flops("llama-3.1-8b", 2048, RECIPE_LORA, RECIPE_KEEP_ALL, 3.163e10);
    check_flops("llama-3.1-8b", 2048, RECIPE_LORA, RECIPE_RECOMPUTE, 4.612e10);
    check_flops("llama-3.1-70b", 2048, RECIPE_LORA, RECIPE_KEEP_ALL, 2.861e11);
}

// bench/gpu/saved_tensors.py: what autograd keeps of a layer under PEFT, bytes a token. Phi-4 keeps
// the whole output of its fused product, of which values are a part.
TEST(step_keeps_what_autograd_does_in_a_layer_of_other_families)
{
    static const struct {
        const char *model;
        double bytes;
    } measured[] = { { "phi-4-14b", 320424 },
                     { "glm-4-9b", 269832 },
                     { "olmo-2-7b", 307280 },
                     { "gemma-2-9b", 313900 } };
    struct knowledge k = knowledge_open();
    for (size_t m = 0; m < sizeof measured / sizeof *measured; m++) {
        struct setup setup = knowledge_setup(&k, measured[m].model, "hf-peft", 1, 2048);
        struct stack plain = *setup.stack; // without autocast
        plain.adapters = STACK_ADAPTERS_PLAIN;
        setup.stack = &plain;
        setup.recipe.adapter_dtype = RECIPE_FP32;
        struct estimate estimate = knowledge_estimate(&setup);
        double kept = 0, layers = (double)setup.model->layers;
        for (size_t i = 0; i < estimate.step.count; i++) {
            const struct step_op *op = &estimate.step.ops[i];
            kept += op->repeats >= layers ? op->kept_bytes * op->repeats : 0; // not the head's
        }
        CHECK_NEAR(kept / layers / 2048, measured[m].bytes, 2e-3);
    }
}

// Forward, of attention, over what a causal kernel without a window computes.
static double attention_share(const char *model, const char *stack, double width, bool packed)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, model, stack, 2, width);
    setup.batch.packed = packed;
    struct estimate estimate = knowledge_estimate(&setup);
    double flops = 0;
    for (size_t i = 0; i < estimate.step.count; i++) {
        const struct step_op *op = &estimate.step.ops[i];
        bool forward = op->kind == STEP_ATTENTION && op->phase == STEP_FORWARD;
        flops += forward ? op->flops * op->repeats : 0;
    }
    return flops / forward_attention(&setup);
}

// transformers makes a mask for layers whose window is no longer than the rows. Steps of StarCoder2
// 7B, 2 × 4,096, took 0.954 s on an H200; without the mask 0.75 s were forecast.
TEST(step_of_transformers_computes_the_scores_that_a_window_hides)
{
    CHECK_NEAR(attention_share("starcoder2-7b", "hf-peft", 4096, false), 2, 1e-9);
    CHECK_NEAR(attention_share("starcoder2-7b", "hf-peft", 2048, false), 1, 1e-9);
    double local = 29, all = 34; // layers of Gemma 3 4B with a window of 1,024
    CHECK_NEAR(attention_share("gemma-3-4b", "hf", 2048, false), (2 * local + 5) / all, 1e-9);
    double seen = (local * 0.75 + 5) / all; // in its window alone, by kernels that know windows
    CHECK_NEAR(attention_share("gemma-3-4b", "unsloth", 2048, false), seen, 1e-9);
    CHECK_NEAR(attention_share("gemma-3-4b", "hf", 2048, true), seen, 1e-9);
}

TEST(step_adapters_cost_six_flops_per_weight_and_token)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 2, 512);
    struct estimate estimate = knowledge_estimate(&setup);
    double flops = 0;
    for (size_t i = 0; i < estimate.step.count; i++)
        if (!strncmp(estimate.step.ops[i].name, "adapter", 7))
            flops += estimate.step.ops[i].flops * estimate.step.ops[i].repeats;
    CHECK_NEAR(flops, 6.0 * 41943040 * 1024, 1e-12);
    CHECK_NEAR(estimate.step.trained_weights, 41943040, 1e-12); // as PEFT prints it
}

static double kept_per_token(const char *stack, int method)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", stack, 1, 1024);
    setup.recipe.method = method;
    return knowledge_estimate(&setup).step.layer_kept_bytes / 1024;
}

TEST(step_keeps_what_the_formulas_list)
{
    // Fused norms and gate: 12h + 4k + 4nh + 6f (research sheet, section 4b).
    CHECK_NEAR(kept_per_token("llmq", RECIPE_FULL), 139392, 1e-12);
    // Eager norms keep an fp32 copy, the eager gate its activation, adapters 2r for each linear:
    // measured on an H200 as 184.7 kB, from the difference of two batch sizes.
    CHECK_NEAR(kept_per_token("hf", RECIPE_LORA), 184448 + 7 * 2 * 16, 1e-12);
    // A trained norm keeps the normalised input too.
    CHECK_NEAR(kept_per_token("hf", RECIPE_FULL), 184448 + 4 * 4096, 1e-12);
}

TEST(step_weights_add_up_to_the_parameters_of_every_model)
{
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < k.catalog.model_count; i++) {
        struct arena_mark mark = arena_mark(&test_arena);
        const struct model *model = &k.catalog.models[i];
        struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 1, 128);
        setup.model = model;
        setup.recipe.method = RECIPE_FULL;
        struct step step = knowledge_estimate(&setup).step;
        // Biases and norms of odd places are left out of the list: under a thousandth.
        CHECK_NEAR(step.trained_weights, (double)model_parameters(model), 2e-3);
        arena_rewind(&test_arena, mark);
    }
}

TEST(step_has_room_for_the_operations_of_every_model)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 2, 4096);
    setup.batch.padded = true;
    setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    setup.recipe.precision = RECIPE_FP8;
    size_t most = 0;
    for (size_t i = 0; i < k.catalog.model_count * k.stack_count * 3; i++) {
        struct arena_mark mark = arena_mark(&test_arena);
        setup.model = &k.catalog.models[i / 3 / k.stack_count];
        setup.stack = &k.stacks[i / 3 % k.stack_count];
        setup.recipe.method = (int)(i % 3);
        struct step step = knowledge_estimate(&setup).step;
        most = step.count > most ? step.count : most;
        arena_rewind(&test_arena, mark);
    }
    CHECK(most > 512 && most < STEP_OPS); // DeepSeek-V3's, quantised; the others have far fewer
}

TEST(step_packed_rows_attend_to_themselves_only)
{
    struct knowledge k = knowledge_open();
    struct setup whole = knowledge_setup(&k, "llama-3.1-8b", "hf", 1, 8192);
    struct setup packed = whole;
    packed.batch.squares = 8 * 1024.0 * 1024.0; // eight documents in the row
    double saved = executed(&whole) - executed(&packed);
    CHECK_NEAR(saved, 3.5 * forward_attention(&whole) * 7 / 8, 1e-9);
}

TEST(step_attention_under_a_mask_computes_the_whole_square)
{
    struct knowledge k = knowledge_open();
    static const struct {
        const char *model;
        double computed; // of the causal half without padding: a window of 4,096 has a mask anyway
    } cases[] = { { "llama-3.1-8b", 1 }, { "mistral-7b-v0.1", 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct setup setup = knowledge_setup(&k, cases[i].model, "hf", 2, 8192);
        double plain = executed(&setup), half = 3.5 * forward_attention(&setup);
        setup.batch.padded = true;
        CHECK_NEAR(executed(&setup) - plain, (2 - cases[i].computed) * half, 1e-9);
    }
}

TEST(step_experts_count_only_the_active_ones)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "mixtral-8x7b", "nemo", 1, 2048);
    setup.recipe.method = RECIPE_FULL;
    struct estimate estimate = knowledge_estimate(&setup);
    double linear = 6 * (double)model_active_linear_weights(setup.model) * 2048;
    CHECK_NEAR(step_flops(&estimate.step), linear + 3.5 * forward_attention(&setup), 1e-3);
}

TEST(step_selective_recomputation_costs_no_products)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "torchtune", 1, 4096);
    setup.recipe.method = RECIPE_FULL;
    double flops = executed(&setup);
    setup.recipe.checkpointing = RECIPE_SELECTIVE;
    struct estimate lean = knowledge_estimate(&setup);
    CHECK(step_flops(&lean.step) == flops);
    CHECK(lean.step.layer_lean_bytes < lean.step.layer_kept_bytes);
}

TEST(step_selective_recomputation_of_torchtitan_costs_every_second_product)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "torchtitan", 1, 4096);
    setup.recipe.method = RECIPE_FULL;
    double flops = executed(&setup), again = 4096.0 * (1024 + 4096 + 14336); // k, o, up
    setup.recipe.checkpointing = RECIPE_SELECTIVE;
    CHECK_NEAR(executed(&setup) - flops, 32 * 2 * 4096.0 * again, 1e-9);
}

TEST(step_selective_recomputation_of_megatron_costs_attention)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "megatron", 1, 4096);
    setup.recipe.method = RECIPE_FULL;
    double flops = executed(&setup);
    setup.recipe.checkpointing = RECIPE_SELECTIVE;
    CHECK_NEAR(executed(&setup) - flops, forward_attention(&setup), 1e-9);
}

// Bytes of the operations of a name and phase, once each.
static double bytes_of(const struct setup *setup, const char *name, enum step_phase phase)
{
    struct estimate estimate = knowledge_estimate(setup);
    double sum = 0;
    for (size_t i = 0; i < estimate.step.count; i++)
        if (estimate.step.ops[i].phase == phase && !strcmp(estimate.step.ops[i].name, name))
            sum += estimate.step.ops[i].bytes * estimate.step.ops[i].repeats;
    return sum;
}

TEST(step_layer_norm_is_one_kernel_where_an_eager_rms_norm_is_seven)
{
    struct knowledge k = knowledge_open();
    struct setup layer_norm = knowledge_setup(&k, "mpt-7b", "hf", 1, 1000);
    struct setup rms_norm = knowledge_setup(&k, "llama-2-7b", "hf", 1, 1000);
    double elements = 1000.0 * 4096; // both are 4,096 wide
    CHECK_NEAR(bytes_of(&layer_norm, "final norm", STEP_FORWARD), 4 * elements, 1e-12);
    CHECK_NEAR(bytes_of(&layer_norm, "final norm", STEP_BACKWARD), 10 * elements, 1e-12);
    CHECK_NEAR(bytes_of(&rms_norm, "final norm", STEP_FORWARD), 36 * elements, 1e-12);
    CHECK_NEAR(bytes_of(&rms_norm, "final norm", STEP_BACKWARD), 96 * elements, 1e-12);
}

TEST(step_dequantisation_costs_what_its_quantiser_moves)
{
    static const double bytes[] = {
        [RECIPE_NF4] = 4.3, [RECIPE_NF4_NESTED] = 4.2, [RECIPE_GPTQ4] = 22, [RECIPE_INT8] = 5
    };
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-peft", 1, 256);
    setup.recipe.method = RECIPE_QLORA;
    double weights = 32.0 * (double)model_layer_linear_weights(setup.model, MODEL_DENSE);
    for (int i = RECIPE_NF4; i <= RECIPE_INT8; i++) {
        setup.recipe.quantization = i;
        CHECK_NEAR(bytes_of(&setup, "dequantize", STEP_FORWARD), bytes[i] * weights, 1e-12);
        CHECK_NEAR(bytes_of(&setup, "dequantize", STEP_BACKWARD), bytes[i] * weights, 1e-12);
    }
}

TEST(step_dequantisation_by_pytorchs_operations_moves_what_was_measured)
{
    struct knowledge k = knowledge_open();
    static const char *const stacks[] = { "torchtune-eager", "torchtune" }; // compiled: one kernel
    static const double bytes[] = { 58, 4.2 };
    for (int i = 0; i < 2; i++) {
        struct setup setup = knowledge_setup(&k, "llama-3.1-8b", stacks[i], 1, 256);
        setup.recipe.method = RECIPE_QLORA;
        setup.recipe.quantization = RECIPE_NF4_NESTED;
        double weights = 32.0 * (double)model_layer_linear_weights(setup.model, MODEL_DENSE);
        CHECK_NEAR(bytes_of(&setup, "dequantize", STEP_FORWARD), bytes[i] * weights, 1e-12);
        setup.recipe.quantization = RECIPE_INT8; // by bitsandbytes
        CHECK_NEAR(bytes_of(&setup, "dequantize", STEP_FORWARD), 5 * weights, 1e-12);
    }
}

TEST(step_ring_of_context_parallelism_merges_an_output_for_each_piece)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "nemo", 1, 8192);
    CHECK(bytes_of(&setup, "ring", STEP_FORWARD) == 0);
    setup.layout.context = 4; // 2,048 tokens here, of 4,096 values, in four pieces
    CHECK_NEAR(bytes_of(&setup, "ring", STEP_FORWARD), 32.0 * 12 * 4 * 2048 * 4096, 1e-12);
    CHECK_NEAR(bytes_of(&setup, "ring", STEP_BACKWARD), 32.0 * 8 * 4 * 2048 * 4096, 1e-12);
}

static const struct step_op *named(const struct step *step, const char *name)
{
    for (size_t i = 0; i < step->count; i++)
        if (!strcmp(step->ops[i].name, name))
            return &step->ops[i];
    return NULL;
}

TEST(step_of_gelu_written_out_moves_ten_times_what_one_kernel_does)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "phi-2", "hf", 1, 1024);
    struct model one_kernel = *setup.model;
    CHECK(one_kernel.composed_gelu);
    one_kernel.composed_gelu = false;
    struct step written = knowledge_estimate(&setup).step;
    setup.model = &one_kernel;
    struct step fused = knowledge_estimate(&setup).step;
    const struct step_op *many = named(&written, "activation"), *one = named(&fused, "activation");
    CHECK(many->bytes > 10 * one->bytes && many->launches == 10 * one->launches);
    CHECK_NEAR(many->kept_bytes, 14 * 1024.0 * (double)one_kernel.ffn_width, 1e-9);
    struct stack compiled = *setup.stack;
    compiled.kernels = STACK_COMPILED;
    setup.stack = &compiled;
    double bytes = named(&fused, "activation")->bytes;
    setup.model = &one_kernel;
    fused = knowledge_estimate(&setup).step;
    one_kernel.composed_gelu = true;
    written = knowledge_estimate(&setup).step;
    CHECK(named(&written, "activation")->bytes == named(&fused, "activation")->bytes);
    CHECK(bytes > 0);
}

// Loops that people write themselves call one kernel and pad the vocabulary; six of eight rates
// that transformers' way of it had forecast for GPT-2 on an H200 were half of what was measured.
TEST(step_of_a_loop_of_ones_own_has_one_kernel_for_gelu_and_an_even_vocabulary)
{
    struct knowledge k = knowledge_open();
    struct setup own = knowledge_setup(&k, "gpt-2-124m", "other", 8, 1024);
    struct setup theirs = knowledge_setup(&k, "gpt-2-124m", "hf", 8, 1024);
    struct step loop = knowledge_estimate(&own).step, trainer = knowledge_estimate(&theirs).step;
    CHECK(own.model->composed_gelu);
    CHECK(named(&trainer, "activation")->launches == 10 * named(&loop, "activation")->launches);
    CHECK(named(&loop, "head")->aligned == 0 && named(&trainer, "head")->aligned != 0);
}

TEST(step_under_autocast_casts_weights_and_inputs)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.2-1b", "hf", 1, 1024);
    setup.recipe.method = RECIPE_FULL;
    struct step step = knowledge_estimate(&setup).step;
    CHECK(!named(&step, "cast of weights") && !named(&step, "cast of inputs"));
    setup.recipe.weights = setup.recipe.states = RECIPE_FP32;
    step = knowledge_estimate(&setup).step;
    double weights = 0;
    for (size_t i = 0; i < step.count; i++)
        if (!strcmp(step.ops[i].name, "cast of weights") && step.ops[i].phase == STEP_FORWARD)
            weights += step.ops[i].repeats * step.ops[i].bytes / 6;
    double linears = step.trained_weights;
    CHECK(weights > 0.9 * linears && weights < 1.3 * linears); // the head is the embedding
    CHECK(named(&step, "cast of inputs"));
}

TEST(step_of_adafactor_goes_from_tensor_to_tensor)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.2-1b", "hf", 1, 1024);
    setup.recipe.method = RECIPE_FULL;
    struct step adam = knowledge_estimate(&setup).step;
    setup.recipe.optimizer = RECIPE_ADAFACTOR;
    struct step step = knowledge_estimate(&setup).step;
    double tensors =
        16 * (7 + 2) + 2; // linears and norms of 16 layers, the last norm, the embedding
    CHECK(step.trained_tensors >= tensors - 1 && step.trained_tensors <= tensors);
    CHECK_NEAR(named(&step, "optimizer")->launches, 2 * step.trained_tensors, 1e-9);
    CHECK_NEAR(named(&step, "optimizer")->bytes, 143 * step.trained_weights, 1e-9);
    CHECK(named(&adam, "optimizer")->bytes < 15 * adam.trained_weights);
}
