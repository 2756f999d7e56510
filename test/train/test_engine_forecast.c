// SPDX-License-Identifier: Apache-2.0
// What the forecast says that our engine allocates is what the engine plans, kind by kind.

#include "core/step/engine.h"
#include "test/core/knowledge.h"
#include "test/train/tiny.h"

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
    [RECIPE_KEEP_ALL] = RECOMPUTE_NONE,
    [RECIPE_SELECTIVE] = RECOMPUTE_NORMS,
    [RECIPE_RECOMPUTE] = RECOMPUTE_BLOCK,
};

static void plan_of_engine(struct blocks *out, struct tiny *tiny, const struct variety *v,
                           struct device *device)
{
    struct transformer_setup setup = tiny->setup;
    enum recompute level;
    setup.compute = v->precision == RECIPE_FP32 ? DTYPE_F32 : DTYPE_BF16;
    setup.fp8 = v->precision == RECIPE_FP8;
    setup.bf16_states = v->states == RECIPE_BF16;
    setup.level = levels[v->checkpointing];
    setup.ranks = v->ranks;
    setup.shards_base = v->shares_base;
    enum err err = transformer_plan(out, &level, &test_arena, device, &setup);
    test_check(!err, err ? error_text() : "", __FILE__, __LINE__);
}

static struct engine_bytes plan_of_forecast(const struct knowledge *k, const struct tiny *tiny,
                                            const struct variety *v, const struct device *device)
{
    struct setup known = knowledge_setup(k, "llama-3.1-8b", "native", 1, 24);
    struct layout layout = layout_single();
    layout.data = v->ranks;
    layout.zero = v->shares_base ? 3 : 0;
    struct step_request request = { .model = &tiny->decoder.model,
                                    .recipe = &tiny->recipe,
                                    .layout = &layout,
                                    .stack = known.stack,
                                    .batch = step_batch(2, 24),
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

static void check(const struct knowledge *k, const struct variety *v, int64_t padding)
{
    struct tiny *tiny = tiny_make(v->kind);
    tiny->recipe.method = v->method;
    tiny->recipe.precision = v->precision;
    tiny->recipe.states = v->states;
    tiny->recipe.checkpointing = v->checkpointing;
    tiny->recipe.rank = v->rank;
    tiny->recipe.targets = v->targets;
    tiny->recipe.dropout = v->dropout;
    tiny->decoder.balance = 0; // models of the catalog have no auxiliary loss
    tiny->recipe.dora = v->dora;
    tiny->recipe.trains_embeddings = v->embeddings;
    struct device device = *gradient_device();
    device.padding = padding;
    device.chunk_bytes = 61 * 80; // fewer rows of logits than there are tokens
    struct blocks blocks;
    plan_of_engine(&blocks, tiny, v, &device);
    struct engine_bytes bytes = plan_of_forecast(k, tiny, v, &device);
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
        { "llama", LORA, BF16, FP32, KEEP, 4, "all-linear", 0, 2, true, false, false },
        { "qwen3", LORA, FP8, FP32, ALL, 4, "q,v", 0.1, 3, true, false, false },
        { "qwen2", QLORA, BF16, FP32, SOME, 8, "all-linear", 0, 4, true, false, false },
        { "llama", LORA, BF16, FP32, SOME, 4, "q,v,down", 0, 1, false, true, false },
        { "qwen3", QLORA, FP32, FP32, KEEP, 4, "all-linear", 0, 1, false, true, false },
        { "llama", LORA, BF16, FP32, KEEP, 4, "q,v", 0, 1, false, false, true },
        { "qwen2", QLORA, FP32, FP32, KEEP, 4, "all-linear", 0, 1, false, false, true },
        { "phi3", LORA, BF16, FP32, KEEP, 4, "all-linear", 0.1, 1, false, false, false },
        { "phi3", QLORA, BF16, FP32, SOME, 8, "attention", 0, 1, false, false, false },
        { "gemma2", LORA, BF16, FP32, SOME, 4, "all-linear", 0, 1, false, false, false },
        { "gemma3_text", FULL, BF16, FP32, ALL, 0, "all-linear", 0, 2, false, false, false },
        { "gemma3_text", QLORA, BF16, FP32, KEEP, 4, "q,v", 0, 1, false, false, false },
    };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof varieties / sizeof *varieties; i++)
        for (int64_t padding = 1; padding <= 64; padding *= 64)
            check(&k, &varieties[i], padding);
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
