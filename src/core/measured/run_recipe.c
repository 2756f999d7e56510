// SPDX-License-Identifier: Apache-2.0
// Derives the setup of a measured run: model, recipe, stack, layout, batch.
//
// Sources state much of it in prose, so phrases of the notes are recognised here. A column in
// data/runs.csv would be better, and whatever gets one is to be deleted here.

#include "core/measured/run_internal.h"

#include <math.h>
#include <string.h>

// --- precision and method ----------------------------------------------------

static void read_precision(struct recipe *recipe, const char *precision)
{
    if (run_mentions(precision, "nvfp4"))
        recipe->precision = RECIPE_FP4;
    else if (run_mentions(precision, "fp8"))
        recipe->precision = RECIPE_FP8;
    else if (run_mentions(precision, "fp16") && !run_mentions(precision, "bf16"))
        recipe->precision = RECIPE_FP16;
    else if (run_mentions(precision, "fp32"))
        recipe->precision = RECIPE_FP32;
    if (run_mentions(precision, "nf4") ||
        (run_mentions(precision, "fp4+") && !run_mentions(precision, "nvfp4")))
        recipe->quantization = run_mentions(precision, "double") ? RECIPE_NF4_NESTED : RECIPE_NF4;
    else if (run_mentions(precision, "gptq8") || run_mentions(precision, "int8"))
        recipe->quantization = RECIPE_INT8;
    else if (run_mentions(precision, "gptq4"))
        recipe->quantization = RECIPE_GPTQ4;
    else
        return;
    if (recipe->method == RECIPE_LORA)
        recipe->method = RECIPE_QLORA;
}

static enum err read_method(struct recipe *recipe, const struct run *run, struct arena *arena)
{
    static const struct {
        const char *word;
        int method;
    } methods[] = { { "full", RECIPE_FULL },
                    { "pretrain", RECIPE_FULL },
                    { "lora", RECIPE_LORA },
                    { "qlora", RECIPE_QLORA } };
    size_t i = 0;
    while (i < 4 && strcmp(run->method, methods[i].word))
        i++;
    if (i == 4)
        return fail(ERR_INPUT, "method \"%s\" is not full, pretrain, lora or qlora", run->method);
    recipe->method = methods[i].method;
    read_precision(recipe, run->precision);
    int64_t rank;
    if (run->lora_rank && !text_read_count(&rank, text_of(run->lora_rank)) && rank > 0)
        recipe->rank = rank;
    if (!run->lora_targets)
        return OK;
    // "attention (qkv,o)", "q,v,o + mlp", "PEFT default (q,v)", "all linear"
    const char *targets = run->lora_targets, *bracket = strchr(targets, '(');
    if (run_mentions(targets, "all linear") || run_mentions(targets, "all-linear"))
        return OK;
    struct out list = { .arena = arena };
    if (run_mentions(targets, "default") && bracket)
        targets = bracket + 1;
    if (run_mentions(targets, "c_attn"))
        return recipe->targets = "q,k,v", OK; // as Qwen's first models call it
    for (const char *c = targets; *c && *c != (targets == run->lora_targets ? '(' : ')'); c++)
        if (*c != ' ')
            out_char(&list, *c == '+' || *c == '/' ? ',' : *c);
    recipe->targets = out_string(&list);
    return OK;
}

// Conditions that sources state in their notes, in words that data/runs.csv keeps alike.
static void read_notes(struct setup *setup, const char *notes, const char *framework,
                       struct arena *arena)
{
    struct recipe *recipe = &setup->recipe;
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    *stack = *setup->stack;
    setup->stack = stack;
    if (run_mentions(notes, "states all in bf16") || run_mentions(notes, "bf16 Adam states") ||
        run_mentions(notes, "pure bf16") || run_mentions(notes, "AdamW in bf16")) {
        recipe->states = recipe->weights = RECIPE_BF16;
        stack->gradients = RECIPE_BF16;
        stack->copies_weights = false;
    }
    if ((run_mentions(notes, "fp32 master") && !run_mentions(notes, "no fp32 master")) ||
        run_mentions(notes, "memory implies fp32 states")) {
        recipe->states = recipe->weights = RECIPE_FP32;
        stack->gradients = RECIPE_FP32;
    }
    if (run_mentions(notes, "8-bit AdamW") || run_mentions(notes, "adamw_8bit") ||
        run_mentions(notes, "8-bit optimizer"))
        recipe->optimizer = RECIPE_ADAMW_8BIT;
    if (run_mentions(notes, "paged Adam"))
        recipe->optimizer = RECIPE_ADAMW_PAGED;
    if (run_mentions(notes, "head also trained"))
        recipe->trains_embeddings = true;
    if (run_mentions(notes, "foak") || run_mentions(notes, "liger")) {
        stack->kernels = STACK_FUSED;
        stack->loss_bytes = run_mentions(notes, "liger") ? 0.5 : 9;
        stack->loss_moved_bytes = 10;
    }
    if (run_mentions(notes, "baseline-peft-bnb") && setup->layout.data == 1)
        stack->widens_unquantized = true;
    if (run_mentions(notes, "bare loop"))
        stack->step_seconds = 0;
    if (run_mentions(notes, "no autocast"))
        stack->adapters = STACK_ADAPTERS_PLAIN;
    if (run_mentions(framework, "no compile"))
        stack->kernels = STACK_EAGER;
    if (run_mentions(framework, "FlashAttention"))
        stack->masks = false; // it unpads
    if (run_mentions(notes, "cut cross entropy"))
        stack->loss_bytes = 0.5;
}

// --- batch -------------------------------------------------------------------

static void read_batch(struct setup *setup, const struct run *run)
{
    double rows = run->micro_batch >= 1 ? run->micro_batch : 2; // what most notebooks start with
    double width = run->seq_len > 0 ? (double)run->seq_len : 2048;
    double ranks = (double)setup->layout.data;
    // Unpacked rows are mostly shorter than seq_len, but the longest of them sets the peak.
    if (run->packed && !strcmp(run->packed, "no")) {
        double short_width = fmin(width, 512);
        bool compact = run_mentions(run->notes, "padding-free");
        bool dense = run_mentions(run->notes, "dense sequence");
        setup->worst = step_batch(rows, compact ? short_width : width);
        setup->worst.padded = !compact && !dense && rows > 1;
        setup->varied_widths = !compact && width > 768 && !dense;
        width = short_width;
    }
    setup->batch = step_batch(rows, width);
    setup->batch.padded = setup->worst.padded;
    setup->accumulation = 1;
    if (run->grad_accum >= 1)
        setup->accumulation = run->grad_accum;
    else if (run->global_batch_tokens > 0)
        setup->accumulation = fmax(1, run->global_batch_tokens / (rows * width * ranks));
}

static void read_checkpointing(struct recipe *recipe, const char *word)
{
    for (int i = RECIPE_KEEP_ALL; word && i < RECIPE_AUTO; i++)
        if (!strcmp(word, recipe_checkpointings[i]))
            recipe->checkpointing = i;
}

// A model that the catalog does not have is replaced by the dense one nearest in size, within 20 %.
static enum err find_model(const struct model **out, const struct run *run,
                           const struct catalog *catalog)
{
    if (!catalog_model(out, catalog, run->model))
        return OK;
    double wanted = run->params_b * 1e9, best = log(1.2);
    *out = NULL;
    for (size_t i = 0; i < catalog->model_count; i++) {
        const struct model *model = &catalog->models[i];
        double off = fabs(log((double)model_parameters(model) / wanted));
        if (!model->experts && off < best) {
            best = off;
            *out = model;
        }
    }
    return *out ? OK
                : fail(ERR_INPUT,
                       "the catalog has no model \"%s\" and no dense one of about %g B parameters",
                       run->model, run->params_b);
}

// An unknown framework counts as plain transformers.
static enum err find_stack(const struct stack **out, const struct run *run, int method,
                           const struct stack *stacks, size_t count)
{
    if (run->framework && !stack_find(out, stacks, count, run->framework))
        return OK;
    return stack_find(out, stacks, count, stack_default(method));
}

enum err run_setup(struct setup *out, struct arena *arena, const struct run *run,
                   const struct catalog *catalog, const struct stack *stacks, size_t stack_count)
{
    *out = (struct setup){ .recipe = recipe_default(), .layout = layout_single() };
    TRY(find_model(&out->model, run, catalog));
    TRY(read_method(&out->recipe, run, arena));
    TRY(find_stack(&out->stack, run, out->recipe.method, stacks, stack_count));
    int64_t gpus = run->n_gpus > 0 ? run->n_gpus : 1;
    if (run->parallelism)
        TRY(layout_read(&out->layout, text_of(run->parallelism), gpus));
    else
        out->layout.data = gpus;
    read_checkpointing(&out->recipe, run->checkpointing);
    read_notes(out, run->notes, run->framework, arena);
    read_batch(out, run);
    if (!run->gpu ||
        run_mentions(run->gpu, "card")) // only a memory size is given: no time can be predicted
        return OK;
    TRY(catalog_gpu(&out->gpu, catalog, run->gpu));
    out->node = catalog_node_of(catalog, out->gpu);
    return OK;
}
