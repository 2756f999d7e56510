// SPDX-License-Identifier: Apache-2.0
// The options of a recipe, which linears LoRA adapts, and bytes per weight and optimizer state.

#include "core/step/recipe.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

const char *const recipe_methods[] = { "full", "lora", "qlora", NULL };
const char *const recipe_precisions[] = { "fp32", "fp16", "bf16", "fp8", "fp4", NULL };
// Trained weights, adapters and optimizer states need fp8 or more: the place of fp4 is empty.
static const char *const dtypes[] = { "fp32", "fp16", "bf16", "fp8", "", "auto", NULL };
const char *const recipe_quantizations[] = { "nf4", "nf4-nested", "gptq4", "int8", "gptq8", NULL };
static const char *const optimizers[] = { "adamw",     "adamw-8bit",       "adamw-paged", "sgd",
                                          "adafactor", "adamw-paged-8bit", NULL };
const char *const recipe_checkpointings[] = { "none", "selective", "gate", "projections",
                                              "full", "auto",      NULL };

static const char *const attentions[] = { "eager", "sdpa", "flash2", "flash3", "auto", NULL };
const char *const recipe_expert_kernels[] = { "eager", "grouped", "fused", "dense", "auto", NULL };

const struct field recipe_fields[] = {
    FIELD_OF(recipe, method, recipe_methods, "training method", .value = "METHOD"),
    FIELD(recipe, rank, COUNT, "LoRA rank"),
    FIELD(recipe, alpha, NUMBER, "LoRA alpha, the scale of the adapters",
          .fallback = "twice the rank"),
    FIELD(recipe, targets, TEXT, "adapted layers: all-linear, attention, mlp, or a list like q,v",
          .value = "LAYERS"),
    FIELD(recipe, dropout, SHARE, "dropout on the adapters' input",
          .fallback = "that of the stack"),
    FIELD(recipe, rslora, FLAG, "scale the adapters by alpha / √rank instead of alpha / rank",
          .since = "0.8.0"),
    FIELD(recipe, dora, FLAG, "DoRA: also train a magnitude per output (--stack native)",
          .since = "0.8.0"),
    FIELD_OF(recipe, adapter_dtype, dtypes, "data type of the adapters", .value = "DTYPE"),
    FIELD_OF(recipe, quantization, recipe_quantizations, "data type of frozen weights under qlora",
             .value = "DTYPE"),
    FIELD_OF(recipe, precision, recipe_precisions, "data type of matrix products",
             .value = "DTYPE"),
    FIELD_OF(recipe, optimizer, optimizers, "optimizer", .value = "NAME"),
    FIELD_OF(recipe, states, dtypes, "data type of optimizer states", .value = "DTYPE"),
    FIELD_OF(recipe, weights, dtypes, "data type of trained weights (fp32 is a master copy)",
             .value = "DTYPE"),
    FIELD_OF(recipe, checkpointing, recipe_checkpointings, "activation checkpointing",
             .value = "MODE"),
    FIELD_OF(recipe, attention, attentions, "attention kernel; auto: the one of the stack",
             .value = "KERNEL", .since = "0.10.0"),
    FIELD_OF(recipe, experts, recipe_expert_kernels,
             "kernels of experts: eager one after another, dense all on every token",
             .value = "KERNEL", .since = "0.3.0"),
    FIELD(recipe, trains_encoder, FLAG,
          "train the encoder of images too; it is frozen unless given", .since = "0.4.0"),
    FIELD(recipe, trains_embeddings, FLAG, "train embeddings and head next to the adapters"),
    FIELD(recipe, optimizer_in_backward, FLAG,
          "update each weight in the backward pass, and free its gradient", .since = "0.3.0"),
    FIELD(recipe, nondeterministic, FLAG,
          "faster attention, not reproducible to the bit (--stack native)", .since = "0.8.0"),
    { 0 },
};

struct recipe recipe_default(void)
{
    return (struct recipe){
        .method = RECIPE_LORA,
        .precision = RECIPE_BF16,
        .rank = 16,
        .alpha = NAN,
        .targets = "all-linear",
        .dropout = NAN,
        .adapter_dtype = RECIPE_DTYPE_AUTO,
        .quantization = RECIPE_NF4_NESTED,
        .optimizer = RECIPE_ADAMW,
        .states = RECIPE_DTYPE_AUTO,
        .weights = RECIPE_DTYPE_AUTO,
        .checkpointing = RECIPE_AUTO,
        .attention = RECIPE_ATTENTION_AUTO,
        .experts = RECIPE_EXPERTS_AUTO,
    };
}

bool recipe_is_paged(const struct recipe *recipe)
{
    return recipe->optimizer == RECIPE_ADAMW_PAGED || recipe->optimizer == RECIPE_ADAMW_PAGED_8BIT;
}

int recipe_quantization_of(struct text name)
{
    static const struct {
        const char *ending; // in lower case
        enum recipe_quantization quantization;
    } endings[] = {
        { "-bnb-4bit", RECIPE_NF4_NESTED }, // Unsloth's have nested scales
        { "-bnb-8bit", RECIPE_INT8 },
        { "-nf4", RECIPE_NF4 },
        { "-gptq", RECIPE_GPTQ4 },
        { "-gptq-int4", RECIPE_GPTQ4 },
        { "-gptq-4bit", RECIPE_GPTQ4 },
        { "-gptq-int8", RECIPE_GPTQ8 },
        { "-gptq-8bit", RECIPE_GPTQ8 },
        { "-awq", RECIPE_GPTQ4 }, // the same bytes: groups of 128 with a scale and a zero
        { "-awq-int4", RECIPE_GPTQ4 },
    };
    while (name.size && name.at[name.size - 1] == '/')
        name.size--;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t size = strlen(endings[i].ending), same = 0;
        const char *end = name.at + name.size - size;
        while (name.size > size && same < size &&
               tolower((unsigned char)end[same]) == endings[i].ending[same])
            same++;
        if (same == size)
            return (int)endings[i].quantization;
    }
    return -1;
}

bool recipe_is_gptq(const struct recipe *recipe)
{
    return recipe->quantization == RECIPE_GPTQ4 || recipe->quantization == RECIPE_GPTQ8;
}

bool recipe_is_nf4(const struct recipe *recipe)
{
    return recipe->quantization == RECIPE_NF4 || recipe->quantization == RECIPE_NF4_NESTED;
}

// Whether one word of a list of targets names this linear. "k_proj" and "k" are the same; any part
// of a fused linear names it, since PEFT adapts the whole.
static bool names(struct text word, const struct recipe *recipe, const struct model_linear *linear)
{
    if (word.size > 5 && !memcmp(word.at + word.size - 5, "_proj", 5))
        word.size -= 5;
    if (text_is(word, linear->name))
        return true;
    if (linear->role == MODEL_HEAD)
        return text_is(word, "lm_head"); // as files and PEFT call it
    bool attention = linear->role == MODEL_ATTENTION;
    bool mlp =
        linear->role == MODEL_MLP || linear->role == MODEL_EXPERT || linear->role == MODEL_SHARED;
    if (text_is(word, "all-linear") || text_is(word, "all"))
        return attention || (mlp && !(linear->role == MODEL_EXPERT && recipe->skips_experts));
    if (text_is(word, "attention"))
        return attention;
    if (text_is(word, "mlp"))
        return mlp;
    if (!strcmp(linear->name, "qkv"))
        return text_is(word, "q") || text_is(word, "k") || text_is(word, "v");
    bool gate_up = text_ends(text_of(linear->name), "gate_up"); // of experts too
    if (gate_up && (text_is(word, "gate") || text_is(word, "up")))
        return true;
    if (linear->role == MODEL_EXPERT && word.size && strlen(linear->name) > 7)
        return text_is(word, linear->name + 7); // "expert_up"
    return false;
}

bool recipe_targets(const struct recipe *recipe, const struct model_linear *linear)
{
    if (recipe->method == RECIPE_FULL)
        return false;
    struct text rest = text_of(recipe->targets), word;
    while (text_next(&rest, ',', &word))
        if (names(text_trim(word), recipe, linear))
            return true;
    return false;
}

enum err recipe_check(const struct recipe *recipe, const struct model *model)
{
    if (recipe->adapter_dtype == RECIPE_FP4 || recipe->weights == RECIPE_FP4 ||
        recipe->states == RECIPE_FP4)
        return fail(ERR_USAGE, "fp4 is for --precision, the matrix products; trained weights, "
                               "adapters and optimizer states need fp8 or more");
    if (recipe->method == RECIPE_FULL)
        return OK;
    if (recipe->rank <= 0 || recipe->rank > model->width)
        return fail(ERR_USAGE, "--rank is %lld, must be from 1 to the model's width of %lld",
                    (long long)recipe->rank, (long long)model->width);
    if (!isnan(recipe->alpha) && !(recipe->alpha > 0))
        return fail(ERR_USAGE, "--alpha is %g, must be above 0: it scales the adapters",
                    recipe->alpha);
    if (recipe->dropout >= 1)
        return fail(ERR_USAGE,
                    "--dropout is %g, must be from 0 to below 1: it is the share of "
                    "inputs that the adapters do not see",
                    recipe->dropout);
    struct model_linear linears[MODEL_LINEARS];
    for (int kind = MODEL_DENSE; kind <= MODEL_SPARSE; kind++) {
        if (!model_layers(model, (enum model_layer)kind))
            continue;
        size_t count = model_linears(model, (enum model_layer)kind, linears);
        for (size_t i = 0; i < count; i++)
            if (recipe_targets(recipe, &linears[i]))
                return OK;
    }
    struct model_linear head = model_head(model);
    if (recipe_targets(recipe, &head))
        return OK;
    return fail(ERR_USAGE,
                "--targets \"%s\" matches no linear of %s; try all-linear, attention or q,k,v,o",
                recipe->targets, model->name);
}

bool recipe_is_small(const struct recipe *recipe)
{
    return recipe->precision == RECIPE_FP8 || recipe->precision == RECIPE_FP4;
}

double recipe_dtype_bytes(int dtype)
{
    return dtype == RECIPE_FP32 ? 4 : dtype == RECIPE_FP8 ? 1 : 2;
}

double recipe_weight_bytes(const struct recipe *recipe)
{
    // A block of 64 weights has one scale; nested statistics keep it in 8 bits with an fp32 scale
    // and offset per 256 blocks (QLoRA, section 3).
    switch (recipe->quantization) {
    case RECIPE_NF4: return 0.5 + 4.0 / 64;
    case RECIPE_NF4_NESTED: return 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
    case RECIPE_GPTQ4: return 0.5 + (2.0 + 0.5) / 128; // groups of 128: fp16 scale, 4-bit zero
    case RECIPE_GPTQ8: return 1 + (2.0 + 1) / 128;     // the same with an 8-bit zero
    default: return 1;
    }
}

double recipe_state_bytes(const struct recipe *recipe, int states)
{
    switch (recipe->optimizer) {
    case RECIPE_ADAMW_8BIT:
    case RECIPE_ADAMW_PAGED_8BIT: return 2 + 2 * 4.0 / 256; // two bytes, a scale per 256 each
    case RECIPE_SGD: return 0;          // without momentum, as trainers' option has it
    case RECIPE_ADAFACTOR: return 0.01; // row and column sums only
    default: return 2 * recipe_dtype_bytes(states);
    }
}
