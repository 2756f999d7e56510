// SPDX-License-Identifier: Apache-2.0
// tiny: a model small enough to differentiate by differences, and packs to feed it.

#pragma once

#include "test/train/gradient.h"
#include "train/transformer.h"

struct tiny {
    struct decoder decoder;
    struct recipe recipe;
    struct transformer_setup setup;
    struct transformer transformer;
};

// Layers of width 32, 4 and 2 heads of 8, feed-forward 48, vocabulary 61. Mixtures of experts:
// each token to 2 of 5, of width 24 in a second layer of Qwen 3's, whose first is dense, or 48 in
// all of Mixtral's and of gpt-oss's.
static inline struct tiny *tiny_make_deep(const char *kind, int layers)
{
    struct tiny *tiny = ARENA_NEW(&test_arena, struct tiny, 1);
    const char *json = text_format(
        &test_arena,
        "{\"model_type\": \"%s\", \"hidden_size\": 32, \"num_hidden_layers\": %d, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "
        "\"intermediate_size\": 48, \"vocab_size\": 61, \"max_position_embeddings\": 64, "
        "\"sliding_window\": 5, \"rope_theta\": 100.0, \"rms_norm_eps\": 1e-5, "
        "\"num_experts_per_tok\": 2, \"num_experts\": 5, \"moe_intermediate_size\": 24, "
        "\"mlp_only_layers\": [0], \"norm_topk_prob\": true, \"output_router_logits\": true, "
        "\"embedding_multiplier\": 3, \"attention_multiplier\": 0.4, "
        "\"residual_multiplier\": 0.7, \"logits_scaling\": 2, "
        "\"router_aux_loss_coef\": 0.5, \"tie_word_embeddings\": %s}",
        kind, layers, !strcmp(kind, "qwen3") ? "true" : "false");
    enum err err = decoder_read(&tiny->decoder, &test_arena, text_of(json), "tiny");
    test_check(!err, err ? error_text() : "", "tiny", 0);
    tiny->recipe = recipe_default();
    tiny->recipe.rank = 4;
    tiny->recipe.dropout = 0;
    tiny->setup = (struct transformer_setup){ .decoder = &tiny->decoder,
                                              .recipe = &tiny->recipe,
                                              .compute = DTYPE_F64,
                                              .tokens = 48,
                                              .labelled = 48,
                                              .longest = 24 };
    return tiny;
}

static inline struct tiny *tiny_make(const char *kind)
{
    return tiny_make_deep(kind, 2);
}

// Allocates and starts; the adapters' second factors too, so that gradients reach the first.
static inline struct transformer *tiny_open(struct tiny *tiny)
{
    struct transformer *t = &tiny->transformer;
    enum err err = transformer_init(t, &test_arena, gradient_device(), &tiny->setup);
    test_check(!err, err ? error_text() : "", "tiny", 0);
    transformer_random_weights(t, 1);
    for (size_t i = 0; i < t->parameter_count; i++) {
        struct parameter *p = &t->parameters[i];
        float *values = ARENA_NEW(&test_arena, float, tensor_count(p->value));
        struct rng rng = rng_seeded(i + 100);
        for (int64_t j = 0; j < tensor_count(p->value); j++)
            values[j] = (float)(p->start == PARAMETER_ONE ? 1 + 0.1 * rng_normal(&rng)
                                                          : 0.2 * rng_normal(&rng));
        transformer_set(t, p, STORAGE_F32, values);
    }
    return t;
}

// Documents of these sizes end to end, tokens by a seed; every third token without a label.
static inline struct micro_batch tiny_batch(const int32_t *sizes, int count, uint64_t seed)
{
    int64_t tokens = 0, labelled = 0;
    for (int i = 0; i < count; i++)
        tokens += sizes[i];
    int32_t *ids = ARENA_NEW(&test_arena, int32_t, tokens + 1);
    int32_t *positions = ARENA_NEW(&test_arena, int32_t, tokens);
    int32_t *rows = ARENA_NEW(&test_arena, int32_t, tokens);
    int32_t *targets = ARENA_NEW(&test_arena, int32_t, tokens);
    struct span *spans = ARENA_NEW(&test_arena, struct span, count);
    struct rng rng = rng_seeded(seed);
    int32_t at = 0;
    for (int i = 0; i < count; i++) {
        spans[i] = (struct span){ at, sizes[i] };
        for (int32_t j = 0; j < sizes[i]; j++, at++) {
            ids[at] = (int32_t)rng_below(&rng, 61);
            positions[at] = j;
            if (j + 1 == sizes[i] || j % 3 == 1)
                continue;
            rows[labelled] = at;
            targets[labelled++] = (int32_t)rng_below(&rng, 61);
        }
    }
    return (struct micro_batch){ tokens, ids, positions, spans, count, rows, targets, labelled, 0 };
}

static inline double tiny_loss(struct transformer *t, const struct micro_batch *batch)
{
    struct transformer_sums sums;
    t->device->backend->zero(t->device, t->loss); // the gradients stay
    t->preferences = (struct preference_sums){ 0 };
    transformer_loss(t, batch, 0);
    CHECK(!transformer_sums(t, &sums));
    return sums.loss;
}

// Zeroes the gradients, runs a step's passes, and returns the loss.
static inline double tiny_pass(struct transformer *t, const struct micro_batch *batch, double scale)
{
    struct transformer_sums sums;
    transformer_begin(t);
    transformer_loss(t, batch, scale);
    transformer_backward(t, batch);
    CHECK(!transformer_sums(t, &sums));
    return sums.loss;
}
