// SPDX-License-Identifier: Apache-2.0
// Every constant of the byte plan against a closed form, derived by hand from the architecture.
// tools/mutate src/core/step/memory.c core/step/test_memory lists the constants that no test holds.
// Long because each part of the plan is computed by hand once, from the same few figures.

#include "base/attention_workspace.h"
#include "test/core/knowledge.h"

// Llama 3.2 1B: 16 layers, width 2048, 32 heads of 64 that share 8 keys and values, tied embedding.
enum { LAYERS = 16, WIDTH = 2048, HEADS = 32, KEYS = 512, FFN = 8192, VOCABULARY = 128256 };
static const double LINEARS = 2.0 * WIDTH * WIDTH + 2.0 * WIDTH * KEYS + 3.0 * WIDTH * FFN;
static const double NORMS = LAYERS * 2.0 * WIDTH + WIDTH; // two in a layer, one before the head
static const double EMBEDDING = (double)VOCABULARY * WIDTH;
static const double WEIGHTS = 1235814400;
// Rank 16 on all linears: r · (in + out) of q, o; k, v; gate, up, down.
static const double ADAPTERS =
    LAYERS * 16.0 * (2 * (WIDTH + WIDTH) + 2 * (WIDTH + KEYS) + 3 * (WIDTH + FFN));

// A setup without a card: nothing is clipped to its size.
struct trial {
    struct setup setup;
    struct stack stack; // a copy, to be changed
};

static struct trial *trial(const char *model, const char *stack, int method, double tokens)
{
    struct knowledge k = knowledge_open();
    struct trial *t = ARENA_NEW(&test_arena, struct trial, 1);
    t->setup = knowledge_setup(&k, model, stack, 1, tokens);
    t->setup.gpu = NULL;
    t->setup.recipe.method = method;
    t->stack = *t->setup.stack;
    t->setup.stack = &t->stack;
    return t;
}

static struct trial *of_1b(const char *stack, int method, double tokens)
{
    return trial("llama-3.2-1b", stack, method, tokens);
}

static struct memory plan(const struct trial *t)
{
    return knowledge_estimate(&t->setup).memory;
}

#define CHECK_BYTES(a, b) CHECK_NEAR(a, b, 1e-12)

// --- states ------------------------------------------------------------------

TEST(memory_shape_of_the_1b_model_is_the_one_computed_by_hand)
{
    CHECK(LAYERS * LINEARS + NORMS + EMBEDDING == WEIGHTS && ADAPTERS == 11272192); // as PEFT says
    struct step step = knowledge_estimate(&of_1b("hf", RECIPE_FULL, 8)->setup).step;
    CHECK(step.trained_weights == WEIGHTS && step.frozen_weights == 0);
}

TEST(memory_of_full_training_is_that_many_bytes_per_weight)
{
    static const struct {
        const char *stack;
        int precision, optimizer;
        double weights, states, gradients;
    } rows[] = {
        { "hf", RECIPE_BF16, RECIPE_ADAMW, 2, 4, 2 },               // all in bf16
        { "hf", RECIPE_FP32, RECIPE_ADAMW, 4, 8, 4 },               // all in fp32
        { "torchtitan", RECIPE_BF16, RECIPE_ADAMW, 4, 8, 4 },       // FSDP mixed precision
        { "hf-deepspeed", RECIPE_BF16, RECIPE_ADAMW, 2, 4 + 8, 2 }, // bf16 copy, fp32 master
        { "nemo", RECIPE_BF16, RECIPE_ADAMW, 2, 4 + 8, 2 },
        { "nemo", RECIPE_FP8, RECIPE_ADAMW, 1, 4 + 8, 2 },                   // the copy is fp8
        { "megatron", RECIPE_FP8, RECIPE_ADAMW, 2, 4 + 8, 4 },               // the copy stays bf16
        { "hf", RECIPE_BF16, RECIPE_SGD, 2, 0, 2 },                          // no momentum
        { "hf", RECIPE_BF16, RECIPE_ADAMW_8BIT, 2, 2 * (1 + 4.0 / 256), 2 }, // fp32 scale per 256
        { "hf", RECIPE_BF16, RECIPE_ADAFACTOR, 2, 0.01, 2 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trial *t = of_1b(rows[i].stack, RECIPE_FULL, 8);
        t->setup.recipe.precision = rows[i].precision;
        t->setup.recipe.optimizer = rows[i].optimizer;
        struct memory memory = plan(t);
        CHECK_BYTES(memory.parts[MEMORY_WEIGHTS], rows[i].weights * WEIGHTS);
        CHECK_BYTES(memory.parts[MEMORY_OPTIMIZER], rows[i].states * WEIGHTS);
        CHECK_BYTES(memory.parts[MEMORY_GRADIENTS], rows[i].gradients * WEIGHTS);
        CHECK(memory.parts[MEMORY_ADAPTERS] == 0 && memory.parts[MEMORY_QUANTIZED] == 0);
        CHECK(memory.parts[MEMORY_GATHERED] == 0);
    }
}

TEST(memory_of_a_dtype_is_its_width)
{
    CHECK(recipe_dtype_bytes(RECIPE_FP32) == 4 && recipe_dtype_bytes(RECIPE_FP16) == 2);
    CHECK(recipe_dtype_bytes(RECIPE_BF16) == 2 && recipe_dtype_bytes(RECIPE_FP8) == 1);
}

TEST(memory_of_lora_is_a_frozen_base_and_states_of_the_adapters)
{
    static const struct {
        const char *stack;
        int precision;
        double base, adapter, states; // bytes per weight
    } rows[] = {
        { "hf", RECIPE_BF16, 2, 2, 4 },
        { "hf", RECIPE_FP32, 4, 4, 8 },
        { "hf-peft", RECIPE_BF16, 2, 4, 8 },
        { "nemo", RECIPE_FP8, 1, 2, 4 + 8 }, // an fp32 master and states, as of whole models
        { "megatron", RECIPE_FP8, 2, 2, 4 + 8 },
        { "hf-deepspeed", RECIPE_BF16, 2, 2, 4 + 8 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trial *t = of_1b(rows[i].stack, RECIPE_LORA, 8);
        t->setup.recipe.precision = rows[i].precision;
        t->setup.accumulation = 2; // gradients are there at every moment
        struct memory memory = plan(t);
        CHECK_BYTES(memory.parts[MEMORY_WEIGHTS], rows[i].base * WEIGHTS);
        CHECK_BYTES(memory.parts[MEMORY_ADAPTERS], rows[i].adapter * ADAPTERS);
        CHECK_BYTES(memory.parts[MEMORY_GRADIENTS], rows[i].adapter * ADAPTERS);
        CHECK_BYTES(memory.parts[MEMORY_OPTIMIZER], rows[i].states * ADAPTERS);
    }
    struct trial *wide = of_1b("hf-deepspeed", RECIPE_LORA, 8); // fp32 adapters are their master
    wide->setup.recipe.adapter_dtype = RECIPE_FP32;
    CHECK_BYTES(plan(wide).parts[MEMORY_ADAPTERS], 4 * ADAPTERS);
    CHECK_BYTES(plan(wide).parts[MEMORY_OPTIMIZER], 8 * ADAPTERS);
}

// PEFT widens what is not quantized; TRL narrows it again beside NF4, if it trains in bf16.
TEST(memory_of_qlora_quantizes_the_layers_and_widens_the_rest_where_peft_does)
{
    static const struct {
        const char *stack;
        int precision;
        double rest; // bytes of embedding and norms
    } rows[] = { { "hf", RECIPE_FP16, 2 },
                 { "hf-peft", RECIPE_FP16, 4 },
                 { "hf-peft", RECIPE_BF16, 2 },
                 { "ms-swift", RECIPE_BF16, 4 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trial *t = of_1b(rows[i].stack, RECIPE_QLORA, 8);
        t->setup.recipe.precision = rows[i].precision;
        struct memory memory = plan(t);
        // 4 bits, one 8-bit scale per 64 weights, one fp32 scale per 256 of those.
        CHECK_BYTES(memory.parts[MEMORY_QUANTIZED],
                    LAYERS * LINEARS * (0.5 + 1.0 / 64 + 4.0 / (64 * 256)));
        CHECK_BYTES(memory.parts[MEMORY_WEIGHTS], rows[i].rest * (EMBEDDING + NORMS));
    }
    struct trial *int8 = of_1b("hf", RECIPE_QLORA, 8), *gptq = of_1b("hf", RECIPE_QLORA, 8);
    int8->setup.recipe.quantization = RECIPE_INT8;
    gptq->setup.recipe.quantization = RECIPE_GPTQ4; // groups of 128: an fp16 scale, a 4-bit zero
    CHECK_BYTES(plan(int8).parts[MEMORY_QUANTIZED], LAYERS * LINEARS);
    CHECK_BYTES(plan(gptq).parts[MEMORY_QUANTIZED], LAYERS * LINEARS * (0.5 + 2.5 / 128));
}

TEST(memory_of_each_zero_stage_shards_one_part_more)
{
    for (int zero = 0; zero <= 3; zero++) {
        struct trial *t = of_1b("hf-deepspeed", RECIPE_FULL, 8);
        t->setup.layout.data = 8;
        t->setup.layout.zero = zero;
        struct memory memory = plan(t);
        CHECK_BYTES(memory.parts[MEMORY_WEIGHTS], 2 * WEIGHTS / (zero >= 3 ? 8 : 1));
        CHECK_BYTES(memory.parts[MEMORY_GRADIENTS], 2 * WEIGHTS / (zero >= 2 ? 8 : 1));
        CHECK_BYTES(memory.parts[MEMORY_OPTIMIZER], 12 * WEIGHTS / (zero >= 1 ? 8 : 1));
    }
}

TEST(memory_of_accumulated_gradients_is_whole_where_fsdp_does_not_sync)
{
    struct trial *t = of_1b("hf", RECIPE_FULL, 8);
    t->setup.layout.data = 8;
    t->setup.layout.zero = 3;
    t->setup.accumulation = 2;
    CHECK_BYTES(plan(t).parts[MEMORY_GRADIENTS], 2 * WEIGHTS);
    t->stack.update_copies = 100; // in the update each GPU has its shard again
    CHECK(!strcmp(plan(t).moment, "update"));
    CHECK_BYTES(plan(t).parts[MEMORY_GRADIENTS], 2 * WEIGHTS / 8);
    t->stack.update_copies = 0;
    t->setup.layout.sync_each_batch = true;
    CHECK_BYTES(plan(t).parts[MEMORY_GRADIENTS], 2 * WEIGHTS / 8);
    t->setup.layout.sync_each_batch = false;
    t->setup.accumulation = 1;
    CHECK_BYTES(plan(t).parts[MEMORY_GRADIENTS], 2 * WEIGHTS / 8);

    struct trial *flat = of_1b("litgpt", RECIPE_LORA, 8); // frozen weights have gradients too
    flat->setup.layout = t->setup.layout;
    flat->setup.accumulation = 2;
    CHECK_BYTES(plan(flat).parts[MEMORY_GRADIENTS], 2 * (WEIGHTS + EMBEDDING + ADAPTERS));
    struct trial *reduced = of_1b("torchtitan", RECIPE_FULL, 8); // each micro-batch reduces
    reduced->setup.layout = t->setup.layout;
    reduced->setup.accumulation = 2;
    CHECK_BYTES(plan(reduced).parts[MEMORY_GRADIENTS], 4 * WEIGHTS / 8);
}

TEST(memory_of_an_optimizer_in_backward_has_one_weights_gradient)
{
    struct trial *t = of_1b("torchtune", RECIPE_FULL, 8);
    t->setup.recipe.optimizer_in_backward = true;
    t->stack.update_copies = 100;                                // there is no update at the end
    CHECK_BYTES(plan(t).parts[MEMORY_GRADIENTS], 2 * EMBEDDING); // the largest
    struct trial *wide = trial("llama-2-70b", "torchtune", RECIPE_FULL, 8); // a layer is larger
    wide->setup.recipe.optimizer_in_backward = true;
    double layer = knowledge_estimate(&wide->setup).step.largest_layer_weights;
    CHECK(layer > 32000.0 * 8192);
    CHECK_BYTES(plan(wide).parts[MEMORY_GRADIENTS], 2 * layer);
    wide->setup.layout.data = 8;
    wide->setup.layout.zero = 2;
    CHECK_BYTES(plan(wide).parts[MEMORY_GRADIENTS], 2 * layer / 8);
}

TEST(memory_of_litgpt_has_a_head_of_its_own)
{
    struct step step = knowledge_estimate(&of_1b("litgpt", RECIPE_FULL, 8)->setup).step;
    CHECK(step.trained_weights == WEIGHTS + EMBEDDING);
    struct trial *t = of_1b("litgpt", RECIPE_FULL, 8);
    t->setup.layout.data = 2;
    t->setup.layout.zero = 3;
    CHECK_BYTES(plan(t).parts[MEMORY_GATHERED], 2 * (LINEARS + 2 * WIDTH + 2 * EMBEDDING));
}

TEST(memory_of_deepspeed_keeps_a_billion_weights_gathered)
{
    double of_8b = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 3.0 * 4096 * 14336 + 2 * 4096;
    struct trial *t = trial("llama-3.1-8b", "hf-deepspeed", RECIPE_FULL, 8);
    t->setup.layout.data = 8;
    t->setup.layout.zero = 3;
    CHECK(2 * of_8b < 1e9);
    CHECK_BYTES(plan(t).parts[MEMORY_GATHERED], 2 * (1e9 + 2 * 4096.0 * 128256));
    struct trial *small = of_1b("hf-deepspeed", RECIPE_FULL, 8); // all its layers are fewer
    small->setup.layout = t->setup.layout;
    CHECK_BYTES(plan(small).parts[MEMORY_GATHERED],
                2 * (LAYERS * (LINEARS + 2 * WIDTH) + EMBEDDING));
}

// The copies have the type of what they copy, which stays beside them; adapters are in fp32.
TEST(memory_of_embeddings_that_peft_trains_is_a_copy_in_their_own_type)
{
    struct trial *t = of_1b("hf-peft", RECIPE_LORA, 8);
    t->setup.recipe.trains_embeddings = true;
    t->setup.accumulation = 2; // gradients are there at every moment
    struct memory memory = plan(t);
    CHECK_BYTES(memory.parts[MEMORY_WEIGHTS], 2 * WEIGHTS);
    CHECK_BYTES(memory.parts[MEMORY_ADAPTERS], 4 * ADAPTERS + 2 * EMBEDDING);
    CHECK_BYTES(memory.parts[MEMORY_GRADIENTS], 4 * ADAPTERS + 2 * EMBEDDING);
    CHECK_BYTES(memory.parts[MEMORY_OPTIMIZER], 8 * ADAPTERS + 4 * EMBEDDING);
}

TEST(memory_of_a_gptq_base_is_not_widened)
{
    struct trial *t = of_1b("ms-swift", RECIPE_QLORA, 8);
    CHECK_BYTES(plan(t).parts[MEMORY_WEIGHTS], 4 * (EMBEDDING + NORMS));
    static const struct {
        int quantization;
        double bytes; // per weight: groups of 128 with an fp16 scale and a zero
    } rows[] = { { RECIPE_GPTQ4, 0.5 + 2.5 / 128 }, { RECIPE_GPTQ8, 1 + 3.0 / 128 } };
    for (size_t i = 0; i < 2; i++) {
        t->setup.recipe.quantization = rows[i].quantization;
        CHECK_BYTES(plan(t).parts[MEMORY_WEIGHTS], 2 * (EMBEDDING + NORMS));
        CHECK_BYTES(plan(t).parts[MEMORY_QUANTIZED], LAYERS * LINEARS * rows[i].bytes);
    }
}

TEST(memory_of_layers_dealt_over_gpus_is_that_share_of_the_states)
{
    struct trial *t = of_1b("hf", RECIPE_FULL, 8);
    t->setup.layout.split = true;
    t->setup.layout.pipeline = 2;
    struct memory memory = plan(t);
    CHECK_BYTES(memory.parts[MEMORY_WEIGHTS], 2 * WEIGHTS / 2);
    CHECK_BYTES(memory.parts[MEMORY_OPTIMIZER], 4 * WEIGHTS / 2);
}

TEST(memory_of_fsdp_gathers_what_the_moment_of_the_peak_needs)
{
    double layer = LINEARS + 2 * WIDTH, bigger = 4096.0 * 128256;
    struct trial *t = of_1b("hf", RECIPE_FULL, 8); // all gradients: the last layer of backward
    t->setup.layout.data = 2;
    t->setup.layout.zero = 3;
    CHECK_BYTES(plan(t).parts[MEMORY_GATHERED], 2 * (layer + EMBEDDING));
    t->setup.recipe.precision = RECIPE_FP32;
    CHECK_BYTES(plan(t).parts[MEMORY_GATHERED], 4 * (layer + EMBEDDING));
    t->setup.recipe.precision = RECIPE_BF16;
    t->setup.layout.tensor = 2;
    CHECK_BYTES(plan(t).parts[MEMORY_GATHERED], 2 * (LINEARS / 2 + 2 * WIDTH + EMBEDDING / 2));
    t->setup.layout.data = t->setup.layout.tensor = 1; // nobody to gather from
    CHECK(plan(t).parts[MEMORY_GATHERED] == 0);
    t->setup.layout.data = 2, t->setup.layout.zero = 2;
    CHECK(plan(t).parts[MEMORY_GATHERED] == 0);
    t->setup.layout.zero = 3;
    t->stack.update_copies = 100; // in the update all weights are sharded
    struct memory update = plan(t);
    CHECK(!strcmp(update.moment, "update") && update.parts[MEMORY_GATHERED] == 0);
    t->stack.update_copies = 0, t->stack.loss_bytes = 1e6; // at the loss only the ends are whole
    struct memory loss = plan(t);
    CHECK(!strcmp(loss.moment, "loss"));
    CHECK_BYTES(loss.parts[MEMORY_GATHERED], 2 * EMBEDDING);

    struct trial *quantized = of_1b("hf", RECIPE_QLORA, 8); // the first layer, and the next one
    quantized->setup.layout.data = 2;
    quantized->setup.layout.zero = 3;
    double byte = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
    CHECK_BYTES(plan(quantized).parts[MEMORY_GATHERED],
                2 * byte * (layer + ADAPTERS / LAYERS) + 2 * EMBEDDING);

    struct trial *untied = trial("llama-3.1-8b", "hf", RECIPE_FULL, 8);
    untied->setup.layout.data = 2;
    untied->setup.layout.zero = 3;
    double of_8b = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 3.0 * 4096 * 14336 + 2 * 4096;
    CHECK_BYTES(plan(untied).parts[MEMORY_GATHERED], 2 * (of_8b + 2 * bigger));
}

TEST(memory_of_communication_has_buffers)
{
    struct trial *t = of_1b("hf", RECIPE_FULL, 8);
    CHECK(plan(t).parts[MEMORY_BUFFERS] == 0);
    t->setup.layout.data = 2; // DDP: a flat copy of the gradients
    CHECK_BYTES(plan(t).parts[MEMORY_BUFFERS], 2 * WEIGHTS);
    t->setup.layout.zero = 1;
    CHECK(plan(t).parts[MEMORY_BUFFERS] == 0);
    // DeepSpeed: two buckets of 5e8 elements, or of all there are, whatever the GPUs.
    CHECK_BYTES(plan(of_1b("hf-deepspeed", RECIPE_FULL, 8)).parts[MEMORY_BUFFERS], 2 * 5e8 * 2);
    struct trial *small = trial("qwen2.5-0.5b", "hf-deepspeed", RECIPE_FULL, 8);
    double weights = knowledge_estimate(&small->setup).step.trained_weights;
    CHECK(weights < 5e8);
    CHECK_BYTES(plan(small).parts[MEMORY_BUFFERS], 2 * weights * 2);
    CHECK(plan(of_1b("nemo", RECIPE_FULL, 8)).parts[MEMORY_BUFFERS] == 0); // Megatron has none
}

TEST(memory_offloaded_is_on_the_host)
{
    struct trial *t = of_1b("hf-deepspeed", RECIPE_FULL, 8);
    struct memory memory = plan(t);
    CHECK_BYTES(memory.host_bytes, 4e9); // at least, beside 2.5 GB of weights
    t->setup.layout.data = 8;
    t->setup.layout.zero = 1;
    t->setup.layout.offload_optimizer = true;
    memory = plan(t);
    CHECK(memory.parts[MEMORY_OPTIMIZER] == 0);
    CHECK_BYTES(memory.parts[MEMORY_GRADIENTS], 2 * WEIGHTS);
    CHECK_BYTES(memory.host_bytes, 12 * WEIGHTS / 8 + 4e9);
    t->setup.layout.zero = 2; // gradients go too, but for a tenth in buckets
    memory = plan(t);
    CHECK_BYTES(memory.parts[MEMORY_GRADIENTS], 0.1 * 2 * WEIGHTS / 8);
    CHECK_BYTES(memory.host_bytes, (12 + 2) * WEIGHTS / 8 + 4e9);

    struct trial *weights = of_1b("hf", RECIPE_QLORA, 8);
    double quantized = LAYERS * LINEARS * (0.5 + 1.0 / 64 + 4.0 / (64 * 256));
    weights->setup.layout.offload_weights = true;
    memory = plan(weights);
    CHECK(memory.parts[MEMORY_WEIGHTS] == 0 && memory.parts[MEMORY_QUANTIZED] == 0);
    CHECK_BYTES(memory.host_bytes, 2 * (EMBEDDING + NORMS) + quantized + 4e9);

    struct trial *paged = of_1b("hf", RECIPE_FULL, 8);
    paged->setup.recipe.optimizer = RECIPE_ADAMW_PAGED;
    CHECK(plan(paged).parts[MEMORY_OPTIMIZER] == 0);
    CHECK_BYTES(plan(paged).host_bytes, 4 * WEIGHTS + 4e9);
    paged->setup.recipe.optimizer = RECIPE_ADAMW_PAGED_8BIT;
    CHECK(plan(paged).parts[MEMORY_OPTIMIZER] == 0);
    CHECK_BYTES(plan(paged).host_bytes, 2 * (1 + 4.0 / 256) * WEIGHTS + 4e9);
    double parameters = (double)model_parameters(trial("llama-3.1-8b", "hf", 0, 8)->setup.model);
    CHECK_NEAR(plan(trial("llama-3.1-8b", "hf", 0, 8)).host_bytes, 2 * parameters, 1e-9);
}

// --- activations -------------------------------------------------------------

enum { TOKENS = 1024 };
// Kept per token and layer (docs/formulas.md): eager modules with LoRA, and fused kernels.
static const double EAGER = 12.0 * WIDTH + 4 * WIDTH + 4 * KEYS + 4 * HEADS + 8.0 * FFN + 14 * 16;
static const double FUSED = 12.0 * WIDTH + 4 * KEYS + 4 * HEADS + 6.0 * FFN;
static const double HEAD = 2 * 2.0 * WIDTH; // hidden states around the final norm, per token

TEST(memory_at_the_loss_is_activations_and_twelve_bytes_a_logit)
{
    struct trial *t = of_1b("hf", RECIPE_LORA, TOKENS);
    struct memory memory = plan(t);
    CHECK(!strcmp(memory.moment, "loss"));
    CHECK_BYTES(memory.parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS * EAGER + HEAD));
    CHECK_BYTES(memory.parts[MEMORY_LOGITS], 12.0 * VOCABULARY * TOKENS);
    CHECK(memory.parts[MEMORY_TEMPORARIES] == 0);
    CHECK(memory.parts[MEMORY_GRADIENTS] == 0); // the first micro-batch has none yet
    t->setup.accumulation = 2;
    CHECK_BYTES(plan(t).parts[MEMORY_GRADIENTS], 2 * ADAPTERS);
    t->setup.recipe.precision = RECIPE_FP16; // pure fp16, logits too: 8 bytes of the 12
    t->stack.copies_weights = true;
    CHECK_BYTES(plan(t).parts[MEMORY_LOGITS], 8.0 * VOCABULARY * TOKENS);
    t->stack.loss_most_bytes = 1e6; // logits in chunks
    CHECK(plan(t).parts[MEMORY_LOGITS] <= 1e6);
}

TEST(memory_in_the_first_layer_of_backward_has_all_activations_and_temporaries)
{
    struct trial *t = of_1b("llmq", RECIPE_LORA, TOKENS);
    t->stack.loss_bytes = 0;
    struct memory memory = plan(t);
    CHECK(!strcmp(memory.moment, "backward"));
    double adapters = 7 * 2 * 16; // a rank's inputs of B, for each linear
    CHECK_BYTES(memory.parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS * (FUSED + adapters) + HEAD));
    // Gradients of gate, up and their product, and of two hidden states.
    CHECK_BYTES(memory.parts[MEMORY_TEMPORARIES], TOKENS * 2.0 * (3 * FFN + 2 * WIDTH));
    CHECK(memory.parts[MEMORY_GRADIENTS] == 0 && memory.parts[MEMORY_LOGITS] == 0);
    t->setup.layout.tensor = 2;
    CHECK_BYTES(plan(t).parts[MEMORY_TEMPORARIES], TOKENS * 2.0 * (3 * FFN / 2 + 2 * WIDTH));
    t->setup.layout.tensor = 1;
    t->setup.layout.context = 2;
    CHECK_BYTES(plan(t).parts[MEMORY_TEMPORARIES], TOKENS / 2 * 2.0 * (3 * FFN + 2 * WIDTH));
    t->setup.layout.context = 1;
    t->setup.recipe.precision = RECIPE_FP32;
    CHECK_BYTES(plan(t).parts[MEMORY_TEMPORARIES], TOKENS * 4.0 * (3 * FFN + 2 * WIDTH));
    t->setup.recipe.precision = RECIPE_BF16;
    t->setup.recipe.method = RECIPE_QLORA; // and one dequantised weight
    CHECK_BYTES(plan(t).parts[MEMORY_TEMPORARIES],
                TOKENS * 2.0 * (3 * FFN + 2 * WIDTH) + 2.0 * WIDTH * FFN);
    t->setup.recipe.method = RECIPE_LORA;
    t->setup.recipe.adapter_dtype = RECIPE_FP32;
    t->stack.adapters = STACK_ADAPTERS_AUTOCAST;
    CHECK_BYTES(plan(t).parts[MEMORY_TEMPORARIES], TOKENS * 2.0 * (3 * FFN + 2 * WIDTH));
}

// Measured on an H200 (bench/gpu/eager_scores.py): the softmax in fp32 and its 16-bit copy are
// kept.
TEST(memory_of_eager_attention_keeps_six_bytes_a_score_and_has_sixteen_in_backward)
{
    enum { LONG = 4096 };
    static const struct {
        int precision;
        double element, kept, gradients;
    } cases[] = { { RECIPE_BF16, 2, 6, 10 }, { RECIPE_FP32, 4, 4, 12 } };
    double scores = (double)HEADS * LONG * LONG;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial *t = of_1b("llmq", RECIPE_LORA, LONG);
        t->stack.loss_bytes = 0;
        t->setup.recipe.precision = cases[i].precision;
        double without = plan(t).parts[MEMORY_ACTIVATIONS];
        t->stack.attention = STACK_ATTENTION_EAGER;
        struct memory eager = plan(t);
        CHECK_BYTES(eager.parts[MEMORY_ACTIVATIONS] - without, LAYERS * cases[i].kept * scores);
        CHECK_BYTES(eager.parts[MEMORY_TEMPORARIES],
                    cases[i].gradients * scores + LONG * cases[i].element * 2 * WIDTH);
        t->setup.batch = step_batch(1, 64); // short rows: the feed-forward network has more
        CHECK_BYTES(plan(t).parts[MEMORY_TEMPORARIES],
                    64 * cases[i].element * (3 * FFN + 2 * WIDTH));
    }
}

TEST(memory_in_the_last_layer_of_backward_has_all_gradients)
{
    struct trial *t = of_1b("llmq", RECIPE_FULL, TOKENS);
    t->stack.loss_bytes = 0;
    struct memory memory = plan(t);
    CHECK(!strcmp(memory.moment, "backward"));
    CHECK_BYTES(memory.parts[MEMORY_GRADIENTS], 2 * WEIGHTS);
    CHECK_BYTES(memory.parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS * FUSED + HEAD) / LAYERS);
    CHECK_BYTES(memory.parts[MEMORY_TEMPORARIES], TOKENS * 2.0 * (3 * FFN + 2 * WIDTH));
    // With gradients held from the start, the first layer of backward is the fuller one.
    t->setup.accumulation = 2;
    memory = plan(t);
    CHECK_BYTES(memory.parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS * FUSED + HEAD));
    CHECK_BYTES(memory.parts[MEMORY_GRADIENTS], 2 * WEIGHTS);
}

TEST(memory_of_reentrant_recomputation_under_fsdp_keeps_inputs_and_their_gradients)
{
    enum { MANY = 16 * TOKENS }; // they outweigh a gathered layer
    struct trial *t = of_1b("fms", RECIPE_LORA, MANY);
    t->stack.loss_bytes = 0;
    t->setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    double inputs = MANY * LAYERS * 2.0 * WIDTH;
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], inputs + MANY * HEAD); // nobody to shard with
    t->setup.layout.data = 2;
    t->setup.layout.zero = 3;
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], 2 * inputs);
    t->stack.reentrant = false;
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], inputs + MANY * HEAD);
    t->stack.reentrant = true;
    t->setup.recipe.method = RECIPE_FULL; // FSDP frees a trained layer by its gradient
    t->setup.accumulation = 2;
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], inputs + MANY * HEAD);
}

TEST(memory_of_experts_counts_the_active_ones)
{
    struct trial *t = trial("mixtral-8x7b", "llmq", RECIPE_LORA, TOKENS);
    t->stack.loss_bytes = 0;
    CHECK_BYTES(plan(t).parts[MEMORY_TEMPORARIES], TOKENS * 2.0 * (3 * 2 * 14336 + 2 * 3 * 4096));
}

TEST(memory_of_recomputation_keeps_a_layers_input_and_makes_one_layer_again)
{
    struct trial *t = of_1b("llmq", RECIPE_FULL, TOKENS);
    t->stack.loss_bytes = 0;
    t->setup.accumulation = 2;
    double temporaries = 2.0 * (3 * FFN + 2 * WIDTH);
    t->setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    struct memory memory = plan(t);
    CHECK_BYTES(memory.parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS * 2.0 * WIDTH + HEAD));
    CHECK_BYTES(memory.parts[MEMORY_TEMPORARIES], TOKENS * (temporaries + FUSED));
    // Selective: outputs of the norms and of the activation function are made again; the inputs of
    // both norms are kept for it.
    double lean = FUSED - 4 * WIDTH - 4.0 * FFN + 4 * WIDTH;
    t->setup.recipe.checkpointing = RECIPE_SELECTIVE;
    memory = plan(t);
    CHECK_BYTES(memory.parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS * lean + HEAD));
    CHECK_BYTES(memory.parts[MEMORY_TEMPORARIES], TOKENS * (temporaries + FUSED - lean));
    t->setup.layout.offload_activations = true;
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], TOKENS * (2 * lean + HEAD)); // two in flight
    t->setup.layout.offload_activations = false;
    t->stack.offloads_checkpoints = true; // a stack does it with full recomputation alone
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS * lean + HEAD));
    t->setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], TOKENS * (2 * 2.0 * WIDTH + HEAD));
    t->stack.inner_gradients = 1; // kernels that write them over the values
    CHECK_BYTES(plan(t).parts[MEMORY_TEMPORARIES], TOKENS * (2.0 * (FFN + 2 * WIDTH) + FUSED));
}

TEST(memory_of_selective_recomputation_is_never_more_than_without)
{
    // One norm and a narrow network: the inputs that selective recomputation keeps, 4C, are more
    // than the 2C + 4F that it saves.
    struct trial *t = of_1b("llmq", RECIPE_FULL, TOKENS);
    struct model narrow = *t->setup.model;
    narrow.ffn_width = 256, narrow.norms_per_layer = 1;
    t->setup.model = &narrow;
    t->stack.loss_bytes = 0;
    t->setup.accumulation = 2;
    t->setup.recipe.checkpointing = RECIPE_SELECTIVE;
    double kept = FUSED - 2 * WIDTH - 6.0 * FFN + 6.0 * 256;
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS * kept + HEAD));
    CHECK_BYTES(plan(t).parts[MEMORY_TEMPORARIES], TOKENS * 2.0 * (3 * 256 + 2 * WIDTH));
}

TEST(memory_of_a_stage_with_half_a_layer_keeps_all_of_it_to_the_end)
{
    struct trial *t = of_1b("llmq", RECIPE_FULL, TOKENS);
    t->stack.loss_bytes = 0;
    t->setup.layout.pipeline = 2 * LAYERS;
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], TOKENS * (FUSED / 2 + HEAD));
}

TEST(memory_of_a_pipeline_keeps_the_micro_batches_in_flight)
{
    struct trial *t = of_1b("llmq", RECIPE_FULL, TOKENS);
    t->stack.loss_bytes = 0;
    t->setup.layout.pipeline = 4;
    static const struct {
        double accumulation;
        int64_t interleave;
        double flight;
    } rows[] = {
        { 1, 1, 1 }, { 2, 1, 2 },   { 8, 1, 4 },
        { 1, 2, 1 }, { 2, 2, 2.5 }, { 8, 2, 5.5 }, // 4 · (1 + 3/(4·2))
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        t->setup.accumulation = rows[i].accumulation;
        t->setup.layout.interleave = rows[i].interleave;
        struct memory memory = plan(t);
        double kept = rows[i].flight * LAYERS / 4 * FUSED + HEAD;
        double part = memory.parts[MEMORY_ACTIVATIONS] / TOKENS;
        CHECK_BYTES(part, rows[i].accumulation > 1 ? kept : kept / (LAYERS / 4.0));
    }
    t->setup.layout.split = true; // device_map: one micro-batch, and a quarter of the layers
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS / 4 * FUSED + HEAD));
}

// Adapters' backward pass has no sums of its own, which would make it the peak: 11 % too much.
TEST(memory_of_recomputed_adapters_with_a_small_vocabulary_is_that_of_an_h200)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "mistral-7b", "hf-peft", 2, 8192);
    setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    struct memory memory = knowledge_estimate(&setup).memory;
    CHECK_NEAR(memory.allocated_bytes / 1073741824, 24.13, 0.01);
    CHECK(!strcmp(memory.moment, "loss"));
}

TEST(memory_in_the_update_has_the_copies_that_the_optimizer_makes)
{
    struct trial *t = of_1b("hf-deepspeed", RECIPE_FULL, 8);
    struct memory memory = plan(t); // bf16 gradients, widened for the fp32 master
    CHECK(!strcmp(memory.moment, "update"));
    CHECK_BYTES(memory.parts[MEMORY_TEMPORARIES], 4 * WEIGHTS);
    CHECK(memory.parts[MEMORY_ACTIVATIONS] == 0 && memory.parts[MEMORY_LOGITS] == 0);
    t->setup.layout.data = 4;
    t->setup.layout.zero = 1;
    CHECK_BYTES(plan(t).parts[MEMORY_TEMPORARIES], 4 * WEIGHTS / 4);
    CHECK(strcmp(plan(of_1b("nemo", RECIPE_FULL, 8)).moment, "update"));     // by its own kernels
    CHECK(strcmp(plan(of_1b("megatron", RECIPE_FULL, 8)).moment, "update")); // fp32 already
    CHECK(strcmp(plan(of_1b("hf", RECIPE_FULL, 8)).moment, "update"));       // no master
    // An optimizer over lists of tensors holds a copy of one of the two states.
    CHECK_BYTES(plan(of_1b("fms", RECIPE_FULL, 8)).parts[MEMORY_TEMPORARIES], 4 * WEIGHTS / 2);
}

// --- what one layer keeps ----------------------------------------------------

static double kept(const struct trial *t) // per token, of one layer
{
    return knowledge_estimate(&t->setup).step.layer_kept_bytes / TOKENS;
}

// Eager modules with a frozen base, bf16, without adapters: two norms keep an fp32 copy of their
// input, attention its queries, keys, values, output and a sum per head, the gate three values.
static const double MODULES = 8 * WIDTH + 4 * WIDTH + 4 * KEYS + 4 * HEADS + 6.0 * FFN;
// The inputs of all linears, and those that are kept once: of q, k, v; gate, up; down.
static const double ALL_INPUTS = 5 * WIDTH + WIDTH + FFN, INPUTS = 2 * WIDTH + FFN;

TEST(memory_kept_by_adapters_depends_on_their_dtype)
{
    static const struct {
        int adapters, dtype;
        double inputs; // bytes
    } rows[] = {
        { STACK_ADAPTERS_PLAIN, RECIPE_BF16, 2 * (2 * WIDTH + FFN) },
        { STACK_ADAPTERS_PLAIN, RECIPE_FP32, 4 * (6.0 * WIDTH + FFN) + 7 * 2 * 16 }, // fp32 ranks
        { STACK_ADAPTERS_AUTOCAST, RECIPE_FP32, 2 * (6.0 * WIDTH + FFN) },
        { STACK_ADAPTERS_AUTOCAST, RECIPE_BF16, 2 * (2 * WIDTH + FFN) },
        { STACK_ADAPTERS_FUSED, RECIPE_FP32, 2 * (2 * WIDTH + FFN) },
    };
    CHECK_BYTES(EAGER, MODULES + 2 * INPUTS + 7 * 2 * 16);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trial *t = of_1b("hf", RECIPE_LORA, TOKENS);
        t->stack.adapters = rows[i].adapters;
        t->setup.recipe.adapter_dtype = rows[i].dtype;
        CHECK_BYTES(kept(t), MODULES + rows[i].inputs + 7 * 2 * 16);
    }
    struct trial *fp32 = of_1b("hf", RECIPE_LORA, TOKENS);
    fp32->setup.recipe.precision = RECIPE_FP32; // twice as wide, but for what was fp32 already
    CHECK_BYTES(kept(fp32), 2 * MODULES - 8 * WIDTH - 4 * HEADS + 4 * ALL_INPUTS + 7 * 4 * 16);
}

TEST(memory_kept_by_dropout_is_its_result_and_a_mask)
{
    static const struct {
        int adapters, dtype;
        double bytes; // per input of a linear: the result and a byte of mask
    } rows[] = {
        { STACK_ADAPTERS_PLAIN, RECIPE_BF16, 2 + 1 },
        { STACK_ADAPTERS_AUTOCAST, RECIPE_FP32, 2 + 1 - 2 }, // in place of the cast input
        { STACK_ADAPTERS_PLAIN, RECIPE_FP32, 4 + 1 - 4 },
        { STACK_ADAPTERS_FUSED, RECIPE_BF16, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trial *t = of_1b("hf", RECIPE_LORA, TOKENS);
        t->stack.adapters = rows[i].adapters;
        t->setup.recipe.adapter_dtype = rows[i].dtype;
        double without = kept(t);
        t->setup.recipe.dropout = 0.1;
        CHECK_BYTES(kept(t), without + rows[i].bytes * ALL_INPUTS);
    }
}

TEST(memory_kept_by_a_quantized_linear_that_casts_is_its_output_again)
{
    struct trial *t = of_1b("hf", RECIPE_QLORA, TOKENS);
    double without = kept(t);
    t->stack.casts_quantized = true;
    CHECK_BYTES(kept(t), without + 2 * (WIDTH + 2 * KEYS + WIDTH + 2 * FFN + WIDTH));
}

TEST(memory_kept_by_norms_and_gates_depends_on_the_kernels)
{
    struct trial *t = of_1b("hf", RECIPE_FULL, TOKENS); // a trained norm keeps its result too
    CHECK_BYTES(kept(t), MODULES + 2 * 2 * WIDTH + 2 * INPUTS);
    t->stack.kernels = STACK_FUSED; // the norm's input in bf16, gate and up
    CHECK_BYTES(kept(t), FUSED);
    t->stack.remakes = true; // a compiler makes norm and gate outputs again
    CHECK_BYTES(kept(t), FUSED - 2 * INPUTS);
    t->stack.remakes = false;
    struct model plain = *t->setup.model;
    plain.gated = false; // up alone
    t->setup.model = &plain;
    CHECK_BYTES(kept(t), FUSED - 2 * FFN);
}

TEST(memory_kept_by_attention_depends_on_mask_and_kernel)
{
    struct trial *t = of_1b("hf", RECIPE_LORA, TOKENS);
    t->setup.batch.padded = true; // the mask as bf16, and keys and values for each of 32 heads
    CHECK_BYTES(kept(t), EAGER + 2 * 2 * (WIDTH - KEYS) + 2 * TOKENS);
    t->stack.attention = STACK_ATTENTION_EAGER; // scores and probabilities of all heads instead
    CHECK_BYTES(kept(t), EAGER + 6.0 * HEADS * TOKENS);
    struct model windowed = *t->setup.model;
    windowed.sliding_window = TOKENS / 4; // of the square 2/4 − 1/16 are seen
    t->setup.model = &windowed;
    CHECK_BYTES(kept(t), EAGER + 6.0 * HEADS * TOKENS * 7 / 16);
    windowed.full_attention_layers = LAYERS / 2;
    CHECK_BYTES(kept(t), EAGER + 6.0 * HEADS * TOKENS * (7.0 / 16 + 1) / 2);
}

TEST(memory_kept_by_experts_is_their_share_and_the_routed_copies)
{
    // Mixtral: two of eight experts of 14,336 each, width 4,096, keys 1,024, 32 heads.
    struct trial *t = trial("mixtral-8x7b", "llmq", RECIPE_FULL, TOKENS);
    CHECK_BYTES(kept(t), 12.0 * 4096 + 4 * 1024 + 4 * 32 + 2 * 6.0 * 14336 + 2 * 2 * 4096 + 4 * 8);
}

TEST(memory_kept_under_recomputation_is_fp32_beside_widened_embeddings)
{
    struct trial *t = of_1b("hf-peft", RECIPE_QLORA, TOKENS);
    t->setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    t->setup.recipe.precision = RECIPE_FP16;
    CHECK_BYTES(knowledge_estimate(&t->setup).step.layer_input_bytes, 4.0 * WIDTH * TOKENS);
    t->stack.widens_unquantized = false;
    CHECK_BYTES(knowledge_estimate(&t->setup).step.layer_input_bytes, 2.0 * WIDTH * TOKENS);
}

TEST(memory_of_sequence_parallelism_splits_norms_and_inputs)
{
    struct trial *t = of_1b("llmq", RECIPE_FULL, TOKENS);
    t->setup.layout.tensor = 2;
    CHECK_BYTES(kept(t), FUSED / 2);
    CHECK_BYTES(knowledge_estimate(&t->setup).step.layer_input_bytes, 2.0 * WIDTH * TOKENS / 2);
    CHECK_BYTES(knowledge_estimate(&t->setup).step.loss_peak_bytes, 0.5 * VOCABULARY / 2 * TOKENS);
}

TEST(memory_of_logits_counts_labelled_tokens_where_the_head_does)
{
    struct trial *t = of_1b("llmq", RECIPE_LORA, TOKENS);
    t->setup.batch.labelled = TOKENS / 4;
    CHECK_BYTES(knowledge_estimate(&t->setup).step.loss_peak_bytes, 0.5 * VOCABULARY * TOKENS);
    t->stack.labelled_head = true;
    CHECK_BYTES(knowledge_estimate(&t->setup).step.loss_peak_bytes, 0.5 * VOCABULARY * TOKENS / 4);
}

// --- allocator, context, card ------------------------------------------------

TEST(memory_slack_is_a_share_and_the_holes_of_an_unfused_loss)
{
    struct trial *t = of_1b("hf", RECIPE_LORA, TOKENS);
    double logits = (double)VOCABULARY * TOKENS;
    struct memory memory = plan(t);
    CHECK_BYTES(memory.parts[MEMORY_SLACK], 0.04 * memory.allocated_bytes + 0.75 * 4 * logits);
    t->stack.loss_bytes = 6; // Megatron's: in place, beside 16 bits
    memory = plan(t);
    CHECK_BYTES(memory.parts[MEMORY_SLACK], 0.04 * memory.allocated_bytes + 0.75 * 4 * logits);
    t->stack.loss_bytes = 5.9; // fused: no fp32 block that leaves a hole
    memory = plan(t);
    CHECK_BYTES(memory.parts[MEMORY_SLACK], 0.04 * memory.allocated_bytes);
    CHECK(memory.reserved_bytes == memory.allocated_bytes + memory.parts[MEMORY_SLACK]);
    t->setup.varied_widths = true;
    memory = plan(t);
    CHECK_BYTES(memory.parts[MEMORY_SLACK],
                2 * (memory.parts[MEMORY_ACTIVATIONS] + memory.parts[MEMORY_LOGITS] +
                     memory.parts[MEMORY_TEMPORARIES]));
}

TEST(memory_of_the_context_grows_by_nccl_from_two_gpus_on)
{
    struct trial *t = of_1b("hf", RECIPE_LORA, TOKENS);
    CHECK_BYTES(plan(t).parts[MEMORY_CONTEXT], 0.6 * 1073741824);
    t->setup.layout.data = 2;
    CHECK_BYTES(plan(t).parts[MEMORY_CONTEXT], 0.6 * 1073741824 + 0.8e9);
}

TEST(memory_of_the_context_grows_by_nccl_with_each_way_of_splitting_work)
{
    struct trial *t = of_1b("megatron", RECIPE_FULL, TOKENS);
    t->setup.layout.data = t->setup.layout.tensor = t->setup.layout.pipeline = 2;
    CHECK_BYTES(plan(t).parts[MEMORY_CONTEXT], 2 * 1073741824.0 + 0.8e9 + 2 * 0.7e9);
}

// The same trial on an H200 with other bytes of memory.
static struct memory on_card(struct trial *t, double bytes)
{
    struct knowledge k = knowledge_open();
    const struct gpu *h200;
    CHECK(!catalog_gpu(&h200, &k.catalog, "h200"));
    struct gpu gpu = *h200;
    gpu.memory_bytes = bytes;
    t->setup.gpu = &gpu;
    struct memory memory = plan(t);
    t->setup.gpu = NULL;
    return memory;
}

TEST(memory_fits_while_a_hundredth_of_what_is_allocated_is_left)
{
    struct trial *t = of_1b("hf", RECIPE_LORA, TOKENS);
    t->stack.context_bytes = 1e9;
    double allocated = plan(t).allocated_bytes, need = 1.01 * allocated + 1e9;
    CHECK(on_card(t, need + 1024).fits && !on_card(t, need - 1024).fits);
}

TEST(memory_slack_never_fills_more_than_the_card)
{
    struct trial *t = of_1b("hf", RECIPE_LORA, TOKENS);
    t->stack.context_bytes = 1e9;
    double allocated = plan(t).allocated_bytes, lost = 0.01 * allocated;
    CHECK(plan(t).parts[MEMORY_SLACK] > lost + 5e6);
    double full = allocated + lost + 1e9;
    CHECK_NEAR(on_card(t, full + 5e6).parts[MEMORY_SLACK], lost + 5e6, 1);
    CHECK_NEAR(on_card(t, full).parts[MEMORY_SLACK], lost, 1);
    CHECK_NEAR(on_card(t, full / 2).parts[MEMORY_SLACK], lost, 1); // it does not fit
}

TEST(memory_range_is_the_spread_of_the_stack)
{
    struct memory memory = { .total_bytes = 100, .spread = log(1.25) };
    struct range range = memory_range(&memory);
    CHECK_NEAR(range.low, 80, 1e-12);
    CHECK_NEAR(range.high, 125, 1e-12);
    CHECK(range.mid == 100);
    struct trial *t = of_1b("hf-peft", RECIPE_LORA, 8);
    t->stack.memory_spread = 0.1, t->stack.quantized_spread = 0.3;
    CHECK(plan(t).spread == 0.1);
    t->setup.recipe.method = RECIPE_QLORA;
    CHECK(plan(t).spread == 0.3);
    struct trial *experts = trial("mixtral-8x7b", "hf-peft", RECIPE_LORA, 8);
    CHECK(plan(experts).spread == 0.3);
    experts->stack.memory_spread = 0.7;
    CHECK(plan(experts).spread == 0.7);
}

TEST(memory_range_ends_at_the_card_where_the_run_fits)
{
    struct memory memory = { .total_bytes = 100, .spread = log(1.25), .device_bytes = 110 };
    CHECK_NEAR(memory_range(&memory).high, 110, 1e-12);
    memory.device_bytes = 90; // it does not fit: what it would need
    CHECK_NEAR(memory_range(&memory).high, 125, 1e-12);
}

TEST(memory_fits_with_the_probability_of_its_spread)
{
    struct trial *t = of_1b("hf", RECIPE_LORA, TOKENS);
    t->stack.context_bytes = 1e9;
    double allocated = plan(t).allocated_bytes, spread = t->stack.memory_spread;
    CHECK_NEAR(on_card(t, 1.01 * allocated + 1e9).fit_probability, 0.5, 1e-9);
    CHECK_NEAR(on_card(t, 1.01 * allocated * exp(spread) + 1e9).fit_probability, 0.9, 1e-4);
    CHECK_NEAR(on_card(t, 1.01 * allocated / exp(spread) + 1e9).fit_probability, 0.1, 1e-3);
    CHECK(on_card(t, 0.5e9).fit_probability == 0 && isnan(plan(t).fit_probability));
    t->setup.varied_widths = true; // free blocks of every size
    CHECK_NEAR(on_card(t, 1.10 * allocated + 1e9).fit_probability, 0.5, 1e-9);
    t->setup.varied_widths = false;
    t->setup.layout.data = 2;
    t->setup.layout.zero = 3; // weights are gathered beside the passes
    struct memory sharded = plan(t);
    double dynamic = sharded.parts[MEMORY_ACTIVATIONS] + sharded.parts[MEMORY_LOGITS] +
                     sharded.parts[MEMORY_TEMPORARIES];
    double needed = sharded.allocated_bytes + 0.2 * dynamic + 1e9 + 0.8e9;
    CHECK_NEAR(on_card(t, needed).fit_probability, 0.5, 1e-9);
}

TEST(memory_says_fits_without_a_number_only_when_it_is_sure)
{
    static const struct {
        double probability;
        const char *words;
    } rows[] = { { 0.996, "fits" },
                 { 0.97, "fits (97 %)" },
                 { 0.95, "fits (95 %)" },
                 { 0.9496, "may not fit (94 % that it does)" }, // never the number of one that fits
                 { 0.94, "may not fit (94 % that it does)" },
                 { 0.62, "may not fit (62 % that it does)" },
                 { 0.49, "does not fit" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct memory memory = { .fit_probability = rows[i].probability,
                                 .fits = rows[i].probability >= 0.5 };
        CHECK(!strcmp(memory_verdict(&memory, &test_arena), rows[i].words));
    }
}

TEST(memory_of_our_engine_has_the_workspace_that_it_reserves)
{
    struct knowledge k = knowledge_open();
    struct trial *t = of_1b("native", RECIPE_LORA, 4096);
    CHECK(!catalog_gpu(&t->setup.gpu, &k.catalog, "h200"));
    double context = t->stack.context_bytes;
    int64_t most = attention_room_most((int64_t)t->setup.gpu->memory_bytes, true);
    struct attention_shape shape = { 4096, 4096, HEADS, 8, 64, false, false };
    double room = (double)attention_room(&shape, most);
    CHECK(room == 32.0 * 4096 * (2 * 4096 + 4 * 64 + 4) + 1048576);
    CHECK_BYTES(plan(t).parts[MEMORY_CONTEXT], context + room);
    t->setup.recipe.precision = RECIPE_FP8; // attention stays in bf16
    CHECK_BYTES(plan(t).parts[MEMORY_CONTEXT], context + room);
    t->setup.recipe.precision = RECIPE_FP32;
    CHECK(plan(t).parts[MEMORY_CONTEXT] == context);
    t->setup.recipe.precision = RECIPE_BF16;

    struct model windowed = *t->setup.model;
    windowed.sliding_window = 1024;
    t->setup.model = &windowed;
    CHECK(plan(t).parts[MEMORY_CONTEXT] == context); // the engine's own kernels do windows
    windowed.full_attention_layers = 1;
    CHECK_BYTES(plan(t).parts[MEMORY_CONTEXT], context + room);
    windowed.sliding_window = windowed.full_attention_layers = 0;
    windowed.family = "gemma2";
    CHECK(plan(t).parts[MEMORY_CONTEXT] == context); // and soft caps
    windowed.family = NULL;

    t->setup.layout.tensor = 32; // one head each
    struct attention_shape one = { 4096, 4096, 1, 1, 64, false, false };
    CHECK_BYTES(plan(t).parts[MEMORY_CONTEXT],
                context + (double)attention_room(&one, most) + 0.8e9);
    t->setup.layout.tensor = 1;
    CHECK(!catalog_gpu(&t->setup.gpu, &k.catalog, "a100-sxm-80gb"));
    CHECK_BYTES(plan(t).parts[MEMORY_CONTEXT], context + 1048576); // forward only
}

// --- what autocast, pipelines and tensor ranks keep ---------------------------

TEST(memory_of_fp32_weights_under_autocast_has_their_16_bit_copies_and_a_wide_residual_stream)
{
    struct trial *t = of_1b("hf", RECIPE_LORA, TOKENS);
    t->setup.recipe.targets = "q,v";
    t->stack.loss_bytes = 0;
    double narrow = plan(t).parts[MEMORY_ACTIVATIONS];
    t->stack.frozen = RECIPE_FP32;
    struct memory memory = plan(t);
    double adapters = LAYERS * 16.0 * (WIDTH + WIDTH + WIDTH + KEYS);
    double copies = 2 * (LAYERS * (LINEARS + 2.0 * WIDTH) + adapters + EMBEDDING);
    CHECK_BYTES(memory.parts[MEMORY_WEIGHTS], 4 * WEIGHTS);
    // Eager norms keep an fp32 copy of their input anyway; those around the head are twice as wide.
    CHECK_BYTES(memory.parts[MEMORY_ACTIVATIONS], narrow + copies + TOKENS * 4.0 * WIDTH);
    t->setup.recipe.checkpointing = RECIPE_RECOMPUTE; // frozen weights are cast again
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS * 4.0 + 8) * WIDTH);
    t->setup.layout.data = 2;
    t->setup.layout.zero = 3; // FSDP gathers 16 bits
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS * 2.0 + 4) * WIDTH);
}

TEST(memory_of_full_training_under_autocast_has_a_cache_of_all_weights_at_the_loss_alone)
{
    struct trial *t = of_1b("hf", RECIPE_FULL, TOKENS);
    t->setup.recipe.weights = RECIPE_FP32;
    t->setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    t->stack.loss_bytes = 100; // the loss is the peak
    struct memory memory = plan(t);
    double cache = 2 * (LAYERS * (LINEARS + 2.0 * WIDTH) + EMBEDDING);
    CHECK(!strcmp(memory.moment, "loss"));
    CHECK_BYTES(memory.parts[MEMORY_ACTIVATIONS], cache + TOKENS * (LAYERS * 4.0 + 8) * WIDTH);
    t->stack.autocasts = STACK_NEVER_CASTS;
    CHECK_BYTES(plan(t).parts[MEMORY_ACTIVATIONS], TOKENS * (LAYERS * 2.0 + 4) * WIDTH);
}

TEST(memory_of_a_pipeline_has_the_logits_on_its_last_stage_and_most_batches_on_its_first)
{
    struct trial *t = of_1b("megatron", RECIPE_FULL, TOKENS);
    t->setup.layout.pipeline = 4;
    t->setup.accumulation = 8;
    t->stack.loss_bytes = 1000;
    struct memory last = plan(t);
    t->stack.loss_bytes = 0;
    struct memory first = plan(t);
    CHECK(!strcmp(last.moment, "loss") && !strcmp(first.moment, "backward"));
    CHECK_BYTES(first.parts[MEMORY_ACTIVATIONS] - TOKENS * HEAD,
                4 * (last.parts[MEMORY_ACTIVATIONS] - TOKENS * HEAD));
}

TEST(memory_of_a_pipeline_counts_the_pieces_of_a_batch_of_many_rows)
{
    struct trial *t = of_1b("torchtitan", RECIPE_FULL, TOKENS);
    t->setup.layout.pipeline = 4;
    t->setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    t->stack.loss_bytes = 1000;
    double one = plan(t).parts[MEMORY_LOGITS];
    t->setup.batch = step_batch(4, TOKENS); // four pieces of one row
    CHECK_BYTES(plan(t).parts[MEMORY_LOGITS], one);
}

TEST(memory_of_fsdp_in_a_pipeline_has_whole_weights_and_gradients_of_a_stage)
{
    struct trial *t = of_1b("torchtitan", RECIPE_FULL, 8);
    t->setup.layout.data = 4;
    t->setup.layout.zero = 3;
    t->setup.layout.pipeline = 2;
    t->setup.accumulation = 4;
    struct memory memory = plan(t);
    CHECK_NEAR(memory.parts[MEMORY_GRADIENTS], 4 * WEIGHTS / 2, 0.001);
    CHECK(memory.parts[MEMORY_GATHERED] > 2 * (WEIGHTS - EMBEDDING) / 2);
}

TEST(memory_of_half_the_products_is_every_second_output_and_attentions)
{
    struct trial *t = of_1b("torchtitan", RECIPE_FULL, TOKENS);
    t->setup.recipe.checkpointing = RECIPE_SELECTIVE;
    struct step step = knowledge_estimate(&t->setup).step;
    // The layer's input; q, v and gate of q, k, v, o, gate, up, down; attention's output with a
    // log-sum-exp for each head. The last product's output is read by nobody.
    double compiled = 2.0 * (WIDTH + WIDTH + KEYS + FFN + WIDTH) + 4.0 * HEADS;
    CHECK_BYTES(step.layer_lean_bytes, TOKENS * compiled);
    t->stack.kernels = STACK_EAGER;
    step = knowledge_estimate(&t->setup).step;
    CHECK_BYTES(step.layer_lean_bytes, TOKENS * (compiled + 2.0 * WIDTH));
}

TEST(memory_of_selective_recomputation_in_megatron_leaves_out_scores_alone)
{
    struct trial *t = of_1b("megatron", RECIPE_FULL, TOKENS);
    t->setup.recipe.checkpointing = RECIPE_SELECTIVE;
    struct step step = knowledge_estimate(&t->setup).step;
    CHECK_BYTES(step.layer_lean_bytes, step.layer_kept_bytes);
    double without = step.layer_kept_bytes;
    t->stack.attention = STACK_ATTENTION_EAGER;
    step = knowledge_estimate(&t->setup).step;
    CHECK_BYTES(step.layer_lean_bytes, without);
    CHECK(step.layer_kept_bytes > without);
}

TEST(memory_of_tensor_ranks_is_whole_where_the_stack_does_not_split_it)
{
    struct trial *t = of_1b("megatron", RECIPE_FULL, TOKENS);
    t->setup.layout.tensor = 4;
    t->setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    struct step split = knowledge_estimate(&t->setup).step;
    t->stack.whole_sequences = true;
    struct step whole = knowledge_estimate(&t->setup).step;
    CHECK_BYTES(whole.layer_input_bytes, 4 * split.layer_input_bytes);
    CHECK_BYTES(whole.loss_peak_bytes, split.loss_peak_bytes);
    t->stack.whole_logits = true;
    CHECK_BYTES(knowledge_estimate(&t->setup).step.loss_peak_bytes, 4 * split.loss_peak_bytes);
    t->stack.whole_sequences = t->stack.whole_logits = false;
    t->stack.whole_inputs = true; // of q, k, v and of gate, up
    CHECK_BYTES(knowledge_estimate(&t->setup).step.layer_kept_bytes,
                split.layer_kept_bytes + 2 * TOKENS * 2.0 * WIDTH * 0.75);
}

TEST(memory_of_fp8_under_a_compiler_keeps_inputs_in_8_bits)
{
    struct trial *t = of_1b("torchtitan", RECIPE_FULL, TOKENS);
    double wide = knowledge_estimate(&t->setup).step.layer_kept_bytes;
    t->setup.recipe.precision = RECIPE_FP8;
    double narrow = knowledge_estimate(&t->setup).step.layer_kept_bytes;
    CHECK_BYTES(wide - narrow, TOKENS * (WIDTH + WIDTH + FFN)); // one of two bytes each
}
