// SPDX-License-Identifier: Apache-2.0
// The table of the families that the engine trains, and what it refuses.

#include "train/files/architecture.h"

#include <string.h>

// Gemma's four norms of a layer: before and after attention, before and after the feed-forward
// network.
#define GEMMA_NORMS                                       \
    { "attention_out_norm", "post_attention_layernorm" }, \
        { "mlp_norm", "pre_feedforward_layernorm" },      \
    {                                                     \
        "mlp_out_norm", "post_feedforward_layernorm"      \
    }

static const struct architecture architectures[] = {
    { .type = "llama", .class_name = "LlamaForCausalLM", .norms = 2 },
    { .type = "mistral", .class_name = "MistralForCausalLM", .norms = 2 },
    { .type = "qwen2", .class_name = "Qwen2ForCausalLM", .norms = 2 },
    { .type = "qwen3", .class_name = "Qwen3ForCausalLM", .norms = 2 },
    { .type = "phi3", .class_name = "Phi3ForCausalLM", .norms = 2 },
    { .type = "granite", .class_name = "GraniteForCausalLM", .norms = 2, .has_multipliers = true },
    { .type = "smollm3", .class_name = "SmolLM3ForCausalLM", .norms = 2, .unrotated_every = 4 },
    { .type = "gemma",
      .class_name = "GemmaForCausalLM",
      .norms = 2,
      .activation = ACTIVATION_GELU,
      .norm_offset = 1,
      .scales_embedding = true },
    { .type = "gemma2",
      .class_name = "Gemma2ForCausalLM",
      .norms = 4,
      .spellings = { GEMMA_NORMS },
      .activation = ACTIVATION_GELU,
      .norm_offset = 1,
      .scales_embedding = true,
      .score_size = 256,
      .attention_cap = 50,
      .logit_cap = 30,
      .spreads_windows = true },
    { .type = "gemma3_text",
      .class_name = "Gemma3ForCausalLM",
      .family = "gemma3",
      .norms = 4,
      .spellings = { GEMMA_NORMS },
      .activation = ACTIVATION_GELU,
      .norm_offset = 1,
      .scales_embedding = true,
      .score_size = 256,
      .theta = 1000000,
      .local_theta = 10000,
      .spreads_windows = true },
    { .type = "mixtral",
      .class_name = "MixtralForCausalLM",
      .norms = 2,
      .has_experts = true,
      .expert_count = "num_local_experts",
      .normalises_experts = true,
      .spellings = { { "router", "block_sparse_moe.gate" },
                     { "expert_gate", "block_sparse_moe.experts.%lld.w1" },
                     { "expert_up", "block_sparse_moe.experts.%lld.w3" },
                     { "expert_down", "block_sparse_moe.experts.%lld.w2" } } },
    { .type = "qwen3_moe", .class_name = "Qwen3MoeForCausalLM", .norms = 2, .has_experts = true },
    { .type = "gpt_oss",
      .class_name = "GptOssForCausalLM",
      .family = "gpt-oss",
      .norms = 2,
      .theta = 150000,
      .swiglu = { .slope = 1.702, .offset = 1, .limit = 7 },
      .spreads_windows = true,
      .has_sinks = true,
      .has_biases = true,
      .has_experts = true,
      .stacks_experts = true,
      .expert_count = "num_local_experts",
      .normalises_experts = true,
      .spellings = { { "router", "mlp.router" } } },
};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

static const struct architecture_spelling spellings[] = {
    { "q", "self_attn.q_proj" },
    { "k", "self_attn.k_proj" },
    { "v", "self_attn.v_proj" },
    { "qkv", "self_attn.qkv_proj" },
    { "o", "self_attn.o_proj" },
    { "gate", "mlp.gate_proj" },
    { "up", "mlp.up_proj" },
    { "gate_up", "mlp.gate_up_proj" },
    { "down", "mlp.down_proj" },
    { "attention_norm", "input_layernorm" },
    { "mlp_norm", "post_attention_layernorm" },
    { "q_norm", "self_attn.q_norm" },
    { "k_norm", "self_attn.k_norm" },
    { "sinks", "self_attn.sinks" },
    { "router", "mlp.gate" },
    { "expert_gate", "mlp.experts.%lld.gate_proj" },
    { "expert_up", "mlp.experts.%lld.up_proj" },
    { "expert_gate_up", "mlp.experts.%lld.gate_up_proj" },
    { "expert_down", "mlp.experts.%lld.down_proj" },
};

const struct architecture *architecture_find(struct text type)
{
    for (int i = 0; type.at && i < ARCHITECTURES; i++)
        if (text_is(type, architectures[i].type))
            return &architectures[i];
    return NULL;
}

// A model of the catalog has the name of a family there, "llama2": its shape says the rest.
static const char *type_by_shape(const struct model *m)
{
    bool is_qwen3 = m->qk_norm == MODEL_QK_HEAD;
    return m->experts          ? is_qwen3 ? "qwen3_moe" : "mixtral"
           : m->fused_qkv      ? "phi3"
           : is_qwen3          ? "qwen3"
           : m->qkv_bias       ? "qwen2"
           : m->sliding_window ? "mistral"
                               : "llama";
}

const struct architecture *architecture_of(const struct model *model)
{
    const char *family = model->family ? model->family : "";
    for (int i = 0; i < ARCHITECTURES; i++) {
        const struct architecture *a = &architectures[i];
        if (!strcmp(family, a->type) || (a->family && !strcmp(family, a->family)))
            return a;
    }
    return architecture_find(text_of(type_by_shape(model)));
}

const char *architecture_types(struct arena *arena)
{
    struct out out = { .arena = arena };
    for (int i = 0; i < ARCHITECTURES; i++)
        out_put(&out, "%s%s",
                !i                       ? ""
                : i == ARCHITECTURES - 1 ? " and "
                                         : ", ",
                architectures[i].type);
    return out_string(&out);
}

static const char *find_spelling(const struct architecture_spelling *list, size_t count,
                                 const char *ours)
{
    for (size_t i = 0; i < count && list[i].ours; i++)
        if (!strcmp(list[i].ours, ours))
            return list[i].theirs;
    return NULL;
}

const char *architecture_spelling(const struct architecture *a, const char *part)
{
    const char *own = find_spelling(a->spellings, ARCHITECTURE_SPELLINGS, part);
    return own ? own : find_spelling(spellings, sizeof spellings / sizeof *spellings, part);
}

const char *architecture_foreign(const struct architecture *a, const struct model *m)
{
    const struct {
        bool is;
        const char *what;
    } parts[] = {
        { a->has_experts && m->experts <= 0, "no experts, unlike its type" },
        { !a->has_experts && m->experts > 0, "experts, unlike its type" },
        { m->shared_experts > 0 || m->shared_width > 0, "shared experts" },
        { m->router_bias && !a->has_biases, "a bias on its router" },
        { m->kv_lora_rank > 0, "latent attention" },
        { !m->gated, "a feed-forward network without a gate" },
        { m->norm != MODEL_RMS_NORM, "norms other than RMS" },
        { m->norms_per_layer != a->norms, "another number of norms in a layer" },
        { m->qk_norm == MODEL_QK_WIDTH, "a norm of queries over all heads" },
        { m->parallel, "attention and feed-forward in parallel" },
        { m->learned_positions, "learned positions" },
        { m->embedding_norm, "a norm after the embedding" },
        { m->head_bias || (!a->has_biases && (m->out_bias || m->mlp_bias)),
          "biases other than those of q, k and v" },
        { m->experts > 0 && m->fused_gate_up != a->stacks_experts,
          "gate and up of its experts stored otherwise than its type" },
        { m->attention_sinks != a->has_sinks, "attention sinks, or lacks those of its type" },
        { m->activation_parameters > 0, "a trained activation" },
        { m->head_size % 2 != 0, "heads of an odd size" },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].is)
            return parts[i].what;
    return NULL;
}
