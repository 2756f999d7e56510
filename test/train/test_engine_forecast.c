// SPDX-License-Identifier: Apache-2.0
// What the forecast says that our engine allocates is what the engine plans, kind by kind.

#include "base/attention_workspace.h"
#include "core/step/engine.h"
#include "test/core/knowledge.h"
#include "test/train/tiny.h"

#include <stdlib.h>
#include <string.h>

struct variety {
    const char *kind;
    int method, precision, states, checkpointing;
    int64_t rank;
    const char *targets;
    double dropout;
    int ranks;
    bool shares_base, dora, embeddings;
};

static const enum recompute levels[] = {
    [RECIPE_KEEP_ALL] = RECOMPUTE_NONE,   [RECIPE_SELECTIVE] = RECOMPUTE_NORMS,
    [RECIPE_GATE] = RECOMPUTE_GATE,       [RECIPE_PROJECTIONS] = RECOMPUTE_PROJECTIONS,
    [RECIPE_RECOMPUTE] = RECOMPUTE_BLOCK,
};

static struct transformer_setup setup_of(const struct tiny *tiny, const struct variety *v,
                                         double beta)
{
    struct transformer_setup setup = tiny->setup;
    setup.compute = v->precision == RECIPE_FP32 ? DTYPE_F32 : DTYPE_BF16;
    setup.fp8 = v->precision == RECIPE_FP8;
    setup.bf16_states = v->states == RECIPE_BF16;
    setup.level = levels[v->checkpointing];
    setup.ranks = v->ranks;
    setup.beta = beta;
    setup.shards_base = v->shares_base;
    return setup;
}

static void plan_of_engine(struct blocks *out, const struct tiny *tiny, const struct variety *v,
                           struct device *device, double beta)
{
    struct transformer_setup setup = setup_of(tiny, v, beta);
    enum recompute level;
    enum err err = transformer_plan(out, &level, &test_arena, device, &setup);
    test_check(!err, err ? error_text() : "", __FILE__, __LINE__);
}

static struct engine_bytes plan_of_forecast(const struct knowledge *k, const struct tiny *tiny,
                                            const struct layout *layout,
                                            const struct device *device, bool has_reference)
{
    struct setup known = knowledge_setup(k, "llama-3.1-8b", "native", 1, 24);
    struct step_request request = { .model = &tiny->decoder.model,
                                    .recipe = &tiny->recipe,
                                    .layout = layout,
                                    .stack = known.stack,
                                    .batch = step_batch(2, 24),
                                    .passes = { .reference = has_reference },
                                    .accumulation = 1 };
    CHECK(engine_runs(&request));
    return engine_bytes(&request, &(struct engine_device){ device->padding, device->chunk_bytes });
}

static int64_t attention_bytes(const struct blocks *blocks)
{
    for (int i = 0; i < blocks->entry_count; i++)
        if (!strcmp(blocks->entries[i].name, "attention"))
            return blocks->entries[i].bytes;
    return 0;
}

static void take_recipe(struct recipe *out, const struct variety *v)
{
    out->method = v->method;
    out->precision = v->precision;
    out->states = v->states;
    out->checkpointing = v->checkpointing;
    out->rank = v->rank;
    out->targets = v->targets;
    out->dropout = v->dropout;
    out->dora = v->dora;
    out->trains_embeddings = v->embeddings;
}

static void check(const struct knowledge *k, const struct variety *v, int64_t padding, double beta)
{
    struct tiny *tiny = tiny_make(v->kind);
    struct layout layout = layout_single();
    layout.data = v->ranks;
    layout.zero = v->shares_base ? 3 : 0;
    take_recipe(&tiny->recipe, v);
    tiny->decoder.balance = 0; // models of the catalog have no auxiliary loss
    struct device device = *gradient_device();
    device.padding = padding;
    device.chunk_bytes = 61 * 80; // fewer rows of logits than there are tokens
    struct blocks blocks;
    plan_of_engine(&blocks, tiny, v, &device, beta);
    struct engine_bytes bytes = plan_of_forecast(k, tiny, &layout, &device, beta > 0);
    const int64_t forecast[BLOCKS_KINDS] = {
        [BLOCKS_WEIGHTS] = bytes.frozen + bytes.quantized,
        [BLOCKS_TRAINABLES] = bytes.trained + bytes.masters,
        [BLOCKS_GRADIENTS] = bytes.gradients,
        [BLOCKS_OPTIMIZER] = bytes.moments,
        [BLOCKS_ACTIVATIONS] = bytes.activations,
        [BLOCKS_WORKSPACE] = bytes.logits + bytes.scratch + attention_bytes(&blocks),
    };
    for (int kind = 0; kind < BLOCKS_KINDS; kind++)
        test_check(forecast[kind] == blocks.bytes[kind],
                   text_format(&test_arena, "%s %s: %lld forecast, %lld planned", v->kind,
                               blocks_names[kind], (long long)forecast[kind],
                               (long long)blocks.bytes[kind]),
                   __FILE__, __LINE__);
}

TEST(engine_forecast_of_memory_is_the_engines_plan_to_the_byte)
{
    enum { BF16 = RECIPE_BF16, FP32 = RECIPE_FP32, FP8 = RECIPE_FP8 };
    enum { LORA = RECIPE_LORA, QLORA = RECIPE_QLORA, FULL = RECIPE_FULL };
    enum { KEEP = RECIPE_KEEP_ALL, SOME = RECIPE_SELECTIVE, ALL = RECIPE_RECOMPUTE };
    static const struct variety varieties[] = {
        { "llama", LORA, BF16, FP32, KEEP, 4, "all-linear", 0, 1, false, false, false },
        { "qwen2", LORA, BF16, FP32, SOME, 3, "q,v", 0, 1, false, false, false },
        { "qwen3", LORA, FP32, FP32, ALL, 16, "attention", 0.1, 1, false, false, false },
        { "llama", LORA, FP8, FP32, KEEP, 4, "all-linear", 0, 1, false, false, false },
        { "qwen3", LORA, FP8, FP32, ALL, 4, "mlp", 0, 2, false, false, false },
        { "mistral", QLORA, BF16, FP32, KEEP, 5, "all-linear", 0.1, 1, false, false, false },
        { "qwen3", QLORA, BF16, FP32, ALL, 64, "q,k,down", 0, 4, false, false, false },
        { "llama", FULL, BF16, FP32, KEEP, 0, "all-linear", 0, 1, false, false, false },
        { "qwen2", FULL, BF16, BF16, SOME, 0, "all-linear", 0, 1, false, false, false },
        { "qwen3", FULL, FP32, FP32, ALL, 0, "all-linear", 0, 1, false, false, false },
        { "qwen2", FULL, BF16, FP32, KEEP, 0, "all-linear", 0, 3, false, false, false },
        { "qwen3", FULL, BF16, BF16, KEEP, 0, "all-linear", 0, 2, false, false, false },
        { "llama", FULL, FP32, FP32, KEEP, 0, "all-linear", 0, 4, false, false, false },
        { "qwen3_moe", LORA, BF16, FP32, KEEP, 4, "attention", 0, 1, false, false, false },
        { "qwen3_moe", LORA, FP32, FP32, ALL, 4, "all-linear", 0.1, 1, false, false, false },
        { "mixtral", LORA, BF16, FP32, SOME, 4, "all-linear", 0.1, 1, false, false, false },
        { "mixtral", QLORA, BF16, FP32, ALL, 8, "attention", 0, 1, false, false, false },
        { "qwen3_moe", QLORA, BF16, FP32, KEEP, 8, "all-linear", 0, 2, false, false, false },
        { "mixtral", FULL, BF16, BF16, KEEP, 0, "all-linear", 0, 1, false, false, false },
        { "qwen3_moe", FULL, BF16, FP32, SOME, 0, "all-linear", 0, 3, false, false, false },
        { "gpt_oss", LORA, BF16, FP32, KEEP, 4, "attention", 0.1, 1, false, false, false },
        { "gpt_oss", QLORA, BF16, FP32, ALL, 8, "q,v", 0, 1, false, false, false },
        { "gpt_oss", FULL, BF16, FP32, SOME, 0, "all-linear", 0, 3, false, false, false },
        { "gpt_oss", LORA, BF16, FP32, KEEP, 4, "attention", 0, 2, true, false, false },
        { "gpt_oss", LORA, BF16, FP32, SOME, 4, "all-linear", 0, 1, false, false, false },
        { "gpt_oss", QLORA, BF16, FP32, KEEP, 8, "all-linear", 0, 1, false, false, false },
        { "gpt_oss", LORA, BF16, FP32, KEEP, 4, "gate,down", 0, 2, true, false, false },
        { "llama", LORA, BF16, FP32, KEEP, 4, "all-linear", 0, 2, true, false, false },
        { "qwen3", LORA, FP8, FP32, ALL, 4, "q,v", 0.1, 3, true, false, false },
        { "qwen2", QLORA, BF16, FP32, SOME, 8, "all-linear", 0, 4, true, false, false },
        { "llama", LORA, FP32, FP32, KEEP, 5, "all-linear", 0, 3, true, false, false },
        { "llama", LORA, BF16, FP32, SOME, 4, "q,v,down", 0, 1, false, true, false },
        { "qwen3", QLORA, FP32, FP32, KEEP, 4, "all-linear", 0, 1, false, true, false },
        { "llama", LORA, BF16, FP32, KEEP, 4, "q,v", 0, 1, false, false, true },
        { "qwen2", QLORA, FP32, FP32, KEEP, 4, "all-linear", 0, 1, false, false, true },
        { "llama", LORA, FP32, FP32, KEEP, 5, "q,v", 0, 2, false, false, true },
        { "llama", QLORA, BF16, FP32, KEEP, 5, "q,v", 0, 2, true, false, true },
        { "phi3", LORA, BF16, FP32, KEEP, 4, "all-linear", 0.1, 1, false, false, false },
        { "phi3", QLORA, BF16, FP32, SOME, 8, "attention", 0, 1, false, false, false },
        { "gemma2", LORA, BF16, FP32, SOME, 4, "all-linear", 0, 1, false, false, false },
        { "gemma3_text", FULL, BF16, FP32, ALL, 0, "all-linear", 0, 2, false, false, false },
        { "gemma3_text", QLORA, BF16, FP32, KEEP, 4, "q,v", 0, 1, false, false, false },
        { "granite", LORA, BF16, FP32, SOME, 4, "all-linear", 0, 1, false, false, false },
        { "granite", FULL, BF16, FP32, ALL, 0, "all-linear", 0, 2, false, false, false },
        { "llama", LORA, BF16, FP32, KEEP, 4, "q,v,head", 0, 1, false, false, false },
        { "qwen2", QLORA, FP32, FP32, SOME, 5, "all-linear,head", 0, 2, true, false, false },
        { "mistral", LORA, FP8, FP32, KEEP, 8, "q,head", 0, 1, false, false, false },
    };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof varieties / sizeof *varieties; i++)
        for (int64_t padding = 1; padding <= 64; padding *= 64)
            check(&k, &varieties[i], padding, 0);
    for (size_t i = 0; i < sizeof varieties / sizeof *varieties; i++) // DPO needs no more
        if (varieties[i].method != FULL && !varieties[i].embeddings &&
            !strstr(varieties[i].targets, "head"))
            check(&k, &varieties[i], 64, 0.1);
}

// All layers: that is what the layout's words mean, and `train --offload` with their number.
TEST(engine_forecast_of_offloaded_activations_is_the_engines_plan_to_the_byte)
{
    enum { LAYERS = 5 };
    static const struct variety varieties[] = {
        { "llama", RECIPE_LORA, RECIPE_BF16, RECIPE_FP32, RECIPE_KEEP_ALL, 4, "all-linear", 0, 1,
          false, false, false },
        { "qwen3", RECIPE_FULL, RECIPE_BF16, RECIPE_FP32, RECIPE_SELECTIVE, 0, "all-linear", 0, 1,
          false, false, false },
        { "qwen3_moe", RECIPE_QLORA, RECIPE_BF16, RECIPE_FP32, RECIPE_RECOMPUTE, 4, "attention", 0,
          1, false, false, false },
    };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof varieties / sizeof *varieties; i++) {
        const struct variety *v = &varieties[i];
        struct device device = *gradient_device();
        struct tiny *tiny = tiny_make_deep(v->kind, LAYERS);
        struct transformer t;
        take_recipe(&tiny->recipe, v);
        struct transformer_setup setup = setup_of(tiny, v, 0);
        setup.offloaded = LAYERS;
        CHECK(!transformer_init(&t, &test_arena, &device, &setup));
        struct layout layout = layout_single();
        layout.offload_activations = true;
        struct engine_bytes bytes = plan_of_forecast(&k, tiny, &layout, &device, false);
        CHECK(bytes.activations == t.blocks.bytes[BLOCKS_ACTIVATIONS]);
        CHECK(bytes.host == t.host_bytes && bytes.host > 0);
        transformer_release(&t);
    }
}

// What the engine and the forecast are asked of one run on a GPU.
struct shape {
    const char *model, *targets;
    int method;
    double rows, context;
};
struct asked {
    struct decoder decoder;
    struct recipe recipe;
    struct layout layout;
    struct device device;
    struct transformer_setup setup;
    struct step_request request;
};

static struct asked *ask(const struct knowledge *k, const struct shape *shape)
{
    struct asked *a = ARENA_NEW(&test_arena, struct asked, 1);
    struct setup known = knowledge_setup(k, shape->model, "native", shape->rows, shape->context);
    int64_t tokens = (int64_t)(shape->rows * shape->context);
    CHECK(!decoder_of(&a->decoder, &test_arena, known.model));
    a->layout = layout_single();
    a->recipe = recipe_default();
    a->recipe.method = shape->method;
    a->recipe.targets = shape->targets;
    a->recipe.rank = 16;
    a->device = *gradient_device();
    a->device.padding = engine_cuda.padding;
    a->device.chunk_bytes = engine_cuda.chunk_bytes;
    a->setup = (struct transformer_setup){ .decoder = &a->decoder,
                                           .recipe = &a->recipe,
                                           .compute = DTYPE_BF16,
                                           .tokens = tokens,
                                           .labelled = tokens,
                                           .longest = (int64_t)shape->context };
    a->request = (struct step_request){ .model = known.model,
                                        .recipe = &a->recipe,
                                        .layout = &a->layout,
                                        .stack = known.stack,
                                        .batch = step_batch(shape->rows, shape->context),
                                        .accumulation = 1 };
    CHECK(engine_runs(&a->request));
    return a;
}

// At every level that the engine can choose, for shapes that people tune: a dense model, mixtures
// with frozen and with adapted experts.
TEST(engine_forecast_of_memory_is_the_engines_plan_at_every_level_of_recomputation)
{
    static const struct shape shapes[] = {
        { "qwen3-30b-a3b", "attention", RECIPE_LORA, 4, 4096 },
        { "qwen3-30b-a3b", "attention", RECIPE_QLORA, 1, 2048 },
        { "gpt-oss-20b", "all-linear", RECIPE_LORA, 2, 4096 },
        { "gpt-oss-20b", "attention", RECIPE_QLORA, 1, 8192 },
        { "mixtral-8x7b", "all-linear", RECIPE_LORA, 1, 4096 },
        { "gemma-3-4b", "all-linear", RECIPE_LORA, 2, 2048 },
        { "granite-3.3-8b", "q,v", RECIPE_LORA, 2, 4096 },
        { "llama-3.1-8b", "all-linear", RECIPE_LORA, 4, 4096 },
    };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int level = RECIPE_KEEP_ALL; level <= RECIPE_RECOMPUTE; level++) {
            struct asked *a = ask(&k, &shapes[i]);
            struct blocks blocks;
            enum recompute highest;
            a->recipe.checkpointing = level;
            a->setup.level = levels[level];
            CHECK(!transformer_plan(&blocks, &highest, &test_arena, &a->device, &a->setup));
            struct engine_bytes b = engine_bytes(&a->request, &engine_cuda);
            int64_t forecast = b.frozen + b.quantized + b.trained + b.masters + b.gradients +
                               b.moments + b.activations + b.logits + b.scratch +
                               attention_bytes(&blocks);
            test_check(forecast == blocks_total(&blocks),
                       text_format(&test_arena, "%s %s: %lld forecast, %lld planned",
                                   shapes[i].model, recipe_checkpointings[level],
                                   (long long)forecast, (long long)blocks_total(&blocks)),
                       __FILE__, __LINE__);
        }
}

// Cards from one that needs whole layers recomputed to one that has room for everything.
TEST(engine_forecast_of_layers_that_keep_more_is_the_engines_choice_for_a_card)
{
    static const struct shape shapes[] = {
        { "llama-3.1-8b", "all-linear", RECIPE_QLORA, 1, 32768 },
        { "llama-3.1-8b", "q,v", RECIPE_LORA, 4, 4096 },
        { "qwen3-30b-a3b", "attention", RECIPE_QLORA, 1, 8192 },
        { "gemma-3-4b", "all-linear", RECIPE_LORA, 2, 2048 },
    };
    struct knowledge k = knowledge_open();
    int mixed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct asked *a = ask(&k, &shapes[i]);
        for (double gib = 12; gib < 200; gib *= TEST_UNDER_SANITIZER ? 1.6 : 1.25) {
            struct blocks blocks;
            enum recompute highest;
            a->setup.budget_bytes = gib * 1073741824;
            if (transformer_plan(&blocks, &highest, &test_arena, &a->device, &a->setup))
                continue; // not even with everything recomputed
            double attention = (double)attention_bytes(&blocks);
            struct engine_fill fill =
                engine_fill(&a->request, &engine_cuda, a->setup.budget_bytes, attention);
            mixed += fill.lighter > 0;
            test_check(levels[fill.level] == highest &&
                           (double)fill.bytes + attention == (double)blocks_total(&blocks),
                       text_format(&test_arena, "%s, %.0f GiB: %lld bytes forecast, %lld planned",
                                   shapes[i].model, gib, (long long)fill.bytes,
                                   (long long)blocks_total(&blocks)),
                       __FILE__, __LINE__);
        }
    }
    CHECK(mixed > (TEST_UNDER_SANITIZER ? 4 : 10));
}

// bench/results/h200.md: bytes that the driver said were used, and layers at each level. The runs
// had cuDNN's workspace; for what our own kernel has needed less since, the card is smaller here.
TEST(engine_forecast_of_what_it_takes_of_a_card_is_what_it_took_of_an_h200)
{
    static const struct {
        int method, level;
        double context, used;
        int64_t lighter;
    } runs[] = { { RECIPE_QLORA, RECIPE_PROJECTIONS, 131072, 146815713280, 13 },
                 { RECIPE_LORA, RECIPE_SELECTIVE, 32768, 146293522432, 9 } };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "native", 1, runs[i].context);
        CHECK(!catalog_gpu(&setup.gpu, &k.catalog, "h200-sxm"));
        int64_t context = (int64_t)runs[i].context;
        struct attention_shape shape = { context, context, 32, 8, 128, false, true };
        int64_t most = attention_room_most((int64_t)setup.gpu->memory_bytes, true);
        double saved = (double)(attention_cudnn_room(&shape, most) - attention_room(&shape, most));
        struct gpu smaller = *setup.gpu;
        smaller.memory_bytes -= saved / engine_card_share;
        setup.gpu = &smaller;
        setup.recipe.method = runs[i].method;
        setup.recipe.checkpointing = runs[i].level;
        struct memory memory = knowledge_estimate(&setup).memory;
        CHECK(memory.fits && memory.filled.level == runs[i].level);
        CHECK_NEAR((memory.filled.total_bytes + saved) / runs[i].used, 1, 0.01);
        CHECK(llabs(memory.filled.lighter - runs[i].lighter) <= 1); // catalog's card, other context
    }
}

// The memory of experts in frameworks is off by up to 77 %; the engine's is its plan.
TEST(engine_forecast_of_a_mixtures_memory_is_as_sure_as_of_a_dense_model)
{
    struct knowledge k = knowledge_open();
    struct setup dense = knowledge_setup(&k, "llama-3.1-8b", "native", 1, 2048);
    struct setup mixture = knowledge_setup(&k, "qwen3-30b-a3b", "native", 1, 2048);
    struct setup refused = knowledge_setup(&k, "deepseek-v3", "native", 1, 2048);
    mixture.recipe.experts = refused.recipe.experts = RECIPE_EXPERTS_FUSED;
    double spread = knowledge_estimate(&dense).memory.spread;
    CHECK(knowledge_estimate(&mixture).memory.spread == spread);
    CHECK(knowledge_estimate(&refused).memory.spread > spread);
}
