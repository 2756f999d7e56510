#include "core/measured/run.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

const struct field run_fields[] = {
    FIELD_NEEDED(run, id, TEXT, "row name"),
    FIELD_NEEDED(run, source, TEXT, "where it was published"),
    FIELD_NEEDED(run, model, TEXT, "what was trained"),
    FIELD(run, params_b, NUMBER, "billions of parameters, as stated"),
    FIELD_NEEDED(run, method, TEXT, "full, pretrain, lora or qlora"),
    FIELD(run, lora_rank, TEXT, "rank"),
    FIELD(run, lora_targets, TEXT, "adapted linears"),
    FIELD(run, precision, TEXT, "of the products and of a quantised base"),
    FIELD(run, seq_len, COUNT, "tokens per row; the cap where rows are not packed"),
    FIELD(run, packed, TEXT, "yes, no or unknown"),
    FIELD(run, micro_batch, NUMBER, "rows per micro-batch and GPU"),
    FIELD(run, grad_accum, NUMBER, "micro-batches per step"),
    FIELD(run, global_batch_tokens, NUMBER, "tokens per optimizer step"),
    FIELD(run, checkpointing, TEXT, "none, selective, full or unknown"),
    FIELD(run, parallelism, TEXT, "layout"),
    FIELD(run, framework, TEXT, "maps to a stack"),
    FIELD(run, gpu, TEXT, "card"),
    FIELD(run, n_gpus, COUNT, "cards"),
    FIELD(run, tokens_per_s_total, NUMBER, "measured, over all GPUs"),
    FIELD(run, tokens_per_s_per_gpu, NUMBER, "measured"),
    FIELD(run, tflops_per_gpu, NUMBER, "as the source states it"),
    FIELD(run, mfu, NUMBER, "as the source states it"),
    FIELD(run, peak_mem_gib_per_gpu, NUMBER, "measured"),
    FIELD(run, mem_kind, TEXT, "allocated, reserved, device or unknown"),
    FIELD(run, wall_hours, NUMBER, "measured"),
    FIELD(run, total_tokens, NUMBER, "in that time"),
    FIELD(run, notes, TEXT, "conditions"),
    { 0 },
};

enum err run_read(struct run **out, size_t *count, struct arena *arena, struct text csv,
                  const char *name)
{
    void *rows;
    TRY(field_read_csv(run_fields, sizeof(struct run), &rows, count, arena, csv, name));
    *out = rows;
    return OK;
}

struct text run_source(const struct run *run)
{
    struct text source = text_of(run->source);
    size_t size = 0;
    while (size < source.size && !strchr("@, ", source.at[size]))
        size++;
    return (struct text){ source.at, size };
}

static bool says(const char *text, const char *word)
{
    return text && strstr(text, word) != NULL;
}

double run_memory(const struct run *run, const struct memory *memory)
{
    if (says(run->notes, "mem column = nvidia-smi"))
        return memory->total_bytes;
    if (says(run->mem_kind, "allocated"))
        return memory->allocated_bytes;
    return says(run->mem_kind, "reserved") ? memory->reserved_bytes : memory->total_bytes;
}

// --- precision and method ----------------------------------------------------

static void read_precision(struct recipe *recipe, const char *precision)
{
    if (says(precision, "fp8") || says(precision, "nvfp4"))
        recipe->precision = RECIPE_FP8;
    else if (says(precision, "fp16") && !says(precision, "bf16"))
        recipe->precision = RECIPE_FP16;
    else if (says(precision, "fp32"))
        recipe->precision = RECIPE_FP32;
    if (says(precision, "nf4") || says(precision, "fp4+"))
        recipe->quantization = says(precision, "double") ? RECIPE_NF4_NESTED : RECIPE_NF4;
    else if (says(precision, "gptq8") || says(precision, "int8"))
        recipe->quantization = RECIPE_INT8;
    else if (says(precision, "gptq4"))
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
    if (says(targets, "all linear") || says(targets, "all-linear"))
        return OK;
    struct out list = { .arena = arena };
    if (says(targets, "default") && bracket)
        targets = bracket + 1;
    if (says(targets, "c_attn"))
        return recipe->targets = "q,k,v", OK; // as Qwen's first models call it
    for (const char *c = targets; *c && *c != (targets == run->lora_targets ? '(' : ')'); c++)
        if (*c != ' ')
            out_char(&list, *c == '+' || *c == '/' ? ',' : *c);
    recipe->targets = out_string(&list);
    return OK;
}

// Conditions that sources state in words.
static void read_notes(struct setup *setup, const char *notes, const char *framework,
                       struct arena *arena)
{
    struct recipe *recipe = &setup->recipe;
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    *stack = *setup->stack;
    setup->stack = stack;
    if (says(notes, "states all in bf16") || says(notes, "bf16 Adam states") ||
        says(notes, "pure bf16") || says(notes, "AdamW in bf16")) {
        recipe->states = recipe->weights = RECIPE_BF16;
        stack->gradients = RECIPE_BF16;
        stack->copies_weights = false;
    }
    if ((says(notes, "fp32 master") && !says(notes, "no fp32 master")) ||
        says(notes, "memory implies fp32 states")) {
        recipe->states = recipe->weights = RECIPE_FP32;
        stack->gradients = RECIPE_FP32;
    }
    if (says(notes, "8-bit AdamW") || says(notes, "adamw_8bit") || says(notes, "8-bit optimizer"))
        recipe->optimizer = RECIPE_ADAMW_8BIT;
    if (says(notes, "paged Adam"))
        recipe->optimizer = RECIPE_ADAMW_PAGED;
    if (says(notes, "head also trained"))
        recipe->trains_embeddings = true;
    if (says(notes, "foak") || says(notes, "liger")) {
        stack->kernels = STACK_FUSED;
        stack->loss_bytes = says(notes, "liger") ? 0.5 : 9;
        stack->loss_moved_bytes = 10;
    }
    if (says(notes, "baseline-peft-bnb") && setup->layout.data == 1)
        stack->widens_unquantized = true;
    if (says(notes, "bare loop"))
        stack->step_seconds = 0;
    if (says(notes, "no autocast"))
        stack->adapters = STACK_ADAPTERS_PLAIN;
    if (says(framework, "no compile"))
        stack->kernels = STACK_EAGER;
    if (says(framework, "FlashAttention"))
        stack->masks = false; // it unpads
    if (says(notes, "cut cross entropy"))
        stack->loss_bytes = 0.5;
}

// --- batch -------------------------------------------------------------------

static void read_batch(struct setup *setup, const struct run *run)
{
    double rows = run->micro_batch >= 1 ? run->micro_batch : 2; // what notebooks start with
    double width = run->seq_len > 0 ? (double)run->seq_len : 2048;
    double ranks = (double)setup->layout.data;
    if (run->packed &&
        !strcmp(run->packed, "no")) { // rows are shorter than the cap; the worst is not
        double short_width = fmin(width, 512);
        bool compact = says(run->notes, "padding-free");
        bool dense = says(run->notes, "dense sequence");
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
    if (!word)
        return;
    if (!strcmp(word, "none"))
        recipe->checkpointing = RECIPE_KEEP_ALL;
    else if (!strcmp(word, "selective"))
        recipe->checkpointing = RECIPE_SELECTIVE;
    else if (!strcmp(word, "full"))
        recipe->checkpointing = RECIPE_RECOMPUTE;
}

// A model that the catalog does not have stands for itself by one of its size, where there is one.
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
                : fail(ERR_INPUT, "there is no model \"%s\", and no dense one of %g B parameters",
                       run->model, run->params_b);
}

// A framework that is not known runs as plain transformers do.
static enum err find_stack(const struct stack **out, const struct run *run, int method,
                           const struct stack *stacks, size_t count)
{
    if (run->framework && !stack_find(out, stacks, count, run->framework))
        return OK;
    return stack_find(out, stacks, count, method == RECIPE_FULL ? "hf" : "hf-peft");
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
    if (!run->gpu || says(run->gpu, "card")) // a size is all that is known: memory only
        return OK;
    TRY(catalog_gpu(&out->gpu, catalog, run->gpu));
    out->node = catalog_node_of(catalog, out->gpu);
    return OK;
}
