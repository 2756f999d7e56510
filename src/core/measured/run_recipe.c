// SPDX-License-Identifier: Apache-2.0
// Derives the setup of a measured run from its columns: model, recipe, stack, layout, batch.

#include "core/measured/run_internal.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

// --- facts -------------------------------------------------------------------

// A column whose words stand in the order of the member's values, after "unknown".
static const struct column_of {
    size_t column; // of struct run
    enum { IN_RECIPE, IN_STACK } part;
    size_t member;
    enum { CHOICE, FLAG } kind;
} facts[] = {
#define FACT(column, part, type, member, kind)                                  \
    {                                                                           \
        offsetof(struct run, column), part, offsetof(struct type, member), kind \
    }
    FACT(kernels, IN_STACK, stack, kernels, CHOICE),
    FACT(attention, IN_STACK, stack, attention, CHOICE),
    FACT(masks, IN_STACK, stack, masks, FLAG),
    FACT(adapters, IN_STACK, stack, adapters, CHOICE),
    FACT(weights, IN_RECIPE, recipe, weights, CHOICE),
    FACT(autocast, IN_STACK, stack, autocasts, CHOICE),
    FACT(gradients, IN_STACK, stack, gradients, CHOICE),
    FACT(states, IN_RECIPE, recipe, states, CHOICE),
    FACT(optimizer, IN_RECIPE, recipe, optimizer, CHOICE),
    FACT(optimizer_in_backward, IN_RECIPE, recipe, optimizer_in_backward, FLAG),
    FACT(trains_embeddings, IN_RECIPE, recipe, trains_embeddings, FLAG),
    FACT(expert_kernel, IN_RECIPE, recipe, experts, CHOICE),
    FACT(balanced_routing, IN_STACK, stack, even_routing, FLAG),
    FACT(widens_unquantized, IN_STACK, stack, widens_unquantized, FLAG),
    FACT(copies_on_save, IN_STACK, stack, copies_on_save, FLAG),
    FACT(rowwise_scales, IN_STACK, stack, rowwise_scales, FLAG),
    FACT(cuda_graphs, IN_STACK, stack, cuda_graphs, FLAG),
};

// What follows from the type of the weights where it is said: gradients and states of weights that
// are the only copy have it too, unless said otherwise; under LoRA it is the base's.
static void set_weights(struct recipe *recipe, struct stack *stack, const struct run *run)
{
    if (!run->weights)
        return;
    if (recipe->method == RECIPE_LORA && !stack->copies_weights)
        stack->frozen = recipe->weights;
    if (recipe->weights != RECIPE_FP32)
        stack->copies_weights = false; // they are the only copy
    if (recipe->method != RECIPE_FULL || stack->copies_weights)
        return;
    if (!run->gradients)
        stack->gradients = recipe->weights;
    if (!run->states)
        recipe->states = recipe->weights;
}

static void set_facts(struct recipe *recipe, struct stack *stack, const struct run *run)
{
    for (size_t i = 0; i < COUNT_OF(facts); i++) {
        int word = *(const int *)((const char *)run + facts[i].column);
        char *object = facts[i].part == IN_RECIPE ? (char *)recipe : (char *)stack;
        if (word && facts[i].kind == FLAG)
            *(bool *)(object + facts[i].member) = word == RUN_YES;
        else if (word)
            *(int *)(object + facts[i].member) = word - 1;
    }
    set_weights(recipe, stack, run);
    bool flash = stack->attention == STACK_FLASH2 || stack->attention == STACK_FLASH3;
    if (run->attention && flash && !run->masks)
        stack->masks = false; // FlashAttention takes rows and windows of any length
    if (run->sequence_parallel)
        stack->whole_sequences = run->sequence_parallel == RUN_NO;
    if (run->loss_parallel)
        stack->whole_logits = run->loss_parallel == RUN_NO;
    if (run->widens_unquantized)
        stack->narrows_for_bf16 = false; // what the run says holds for any precision
    if (run->context_gib > 0)
        stack->context_bytes = run->context_gib * 1073741824;
    if (run->bare_loop == RUN_YES)
        stack_without_trainer(stack);
    if (run->no_sync == RUN_NO || (run->no_sync && !stack->held_gradients))
        stack->held_gradients =
            run->no_sync == RUN_YES ? STACK_GRADIENTS_WHOLE : STACK_GRADIENTS_SHARDED;
}

// Bytes per logit, kept and moved, as the stacks that compute the loss so have them.
static void set_loss(struct stack *stack, int loss)
{
    static const struct {
        double kept, moved;
    } bytes[] = {
        [RUN_PLAIN] = { 12, 46 },  [RUN_COMPILED] = { 10, 16 },   [RUN_FUSED] = { 8, 10 },
        [RUN_CHUNKED] = { 2, 16 }, [RUN_WITH_HEAD] = { 0.5, 10 },
    };
    if (!loss)
        return;
    stack->loss_bytes = bytes[loss].kept;
    stack->loss_moved_bytes = bytes[loss].moved;
}

// --- precision and method ----------------------------------------------------

enum { UNSAID = -1 };

// A cell names the precision of the products, or as publications do, "nf4+bf16".
static const struct {
    const char *word;
    int precision, quantization;
} precisions[] = {
    { "bf16", RECIPE_BF16, UNSAID },
    { "fp16", RECIPE_FP16, UNSAID },
    { "fp32", RECIPE_FP32, UNSAID },
    { "fp8", RECIPE_FP8, UNSAID },
    { "mxfp8", RECIPE_FP8, UNSAID },
    { "nvfp4", RECIPE_FP4, UNSAID },
    { "16bit", UNSAID, UNSAID },
    { "bf16-or-fp16", UNSAID, UNSAID },
    { "not stated", UNSAID, UNSAID },
    { "unknown", UNSAID, UNSAID },
    { "nf4", UNSAID, RECIPE_NF4 },
    { "fp4", UNSAID, RECIPE_NF4 },
    { "nf4 (double quant)", UNSAID, RECIPE_NF4_NESTED },
    { "gptq4", UNSAID, RECIPE_GPTQ4 },
    { "gptq8", UNSAID, RECIPE_GPTQ8 },
    { "int8", UNSAID, RECIPE_INT8 },
};

static enum err find_precision(size_t *out, struct text piece)
{
    const char *bracket = memchr(piece.at, '(', piece.size); // a remark, unless it is known
    struct text before = { piece.at, bracket ? (size_t)(bracket - piece.at) : piece.size };
    for (size_t i = 0; i < COUNT_OF(precisions); i++)
        if (text_is(piece, precisions[i].word) || text_is(text_trim(before), precisions[i].word)) {
            *out = i;
            if (text_is(piece, precisions[i].word) || !bracket)
                return OK;
        }
    return *out < COUNT_OF(precisions)
               ? OK
               : fail(ERR_INPUT, "precision \"%.*s\" is not bf16, fp16, fp32, fp8 or nvfp4",
                      TEXT_BRIEF(piece));
}

static enum err read_precision(struct recipe *recipe, const struct run *run)
{
    int precision = UNSAID, quantization = UNSAID;
    struct text rest = text_of(run->precision), piece;
    while (run->precision && text_next(&rest, '+', &piece)) {
        size_t i = COUNT_OF(precisions);
        TRY(find_precision(&i, text_trim(piece)));
        if (precision == UNSAID)
            precision = precisions[i].precision;
        if (quantization == UNSAID)
            quantization = precisions[i].quantization;
    }
    if (run->quantization)
        quantization = run->quantization - 1;
    if (precision != UNSAID)
        recipe->precision = precision;
    if (quantization == UNSAID)
        return OK;
    recipe->quantization = quantization;
    if (recipe->method == RECIPE_LORA)
        recipe->method = RECIPE_QLORA;
    return OK;
}

// Targets in the words of publications; every other cell is a list as --targets takes it, in which
// "+" and spaces may stand between words and a remark in brackets at the end.
static const char *const target_spellings[][2] = {
    { "all linear", "all-linear" },
    { "all linear (*_proj)", "all-linear" },
    { "all linear incl. output head", "all-linear,head" },
    { "c_attn,c_proj,w1,w2 (all linear)", "all-linear" },
    { "c_attn,c_proj,w1,w2 (all linear) + emb,head", "all-linear" },
    { "default attention (c_attn / qkv)", "q,k,v" }, // as Qwen's first models call it
    { "PEFT default (q,v)", "q,v" },
};

static const char *read_targets(const char *cell, struct arena *arena)
{
    for (size_t i = 0; i < COUNT_OF(target_spellings); i++)
        if (!strcmp(cell, target_spellings[i][0]))
            return target_spellings[i][1];
    struct out list = { .arena = arena };
    for (const char *c = cell; *c && *c != '('; c++)
        if (*c != ' ')
            out_char(&list, *c == '+' || *c == '/' ? ',' : *c);
    return out_string(&list);
}

// A word of an old column, whose rows are refused one by one: unlike the file, they may be others'.
static enum err find_word(int *out, const char *column, const char *cell, const char *const *words)
{
    for (*out = 0; cell && words[*out]; ++*out)
        if (!strcmp(cell, words[*out]))
            return OK;
    *out = 0;
    return cell ? fail(ERR_INPUT, "%s has no word \"%s\"", column, cell) : OK;
}

static enum err read_recipe(struct recipe *recipe, const struct run *run, struct arena *arena)
{
    static const char *const methods[] = { "full", "pretrain", "lora", "qlora", NULL };
    static const int method_of[] = { RECIPE_FULL, RECIPE_FULL, RECIPE_LORA, RECIPE_QLORA };
    int method, mode;
    if (find_word(&method, "method", run->method, methods))
        return fail(ERR_INPUT, "method \"%s\" is not full, pretrain, lora or qlora", run->method);
    recipe->method = method_of[method];
    bool known = run->checkpointing && strcmp(run->checkpointing, "unknown") != 0;
    TRY(find_word(&mode, "checkpointing", known ? run->checkpointing : NULL,
                  recipe_checkpointings));
    if (known)
        recipe->checkpointing = mode;
    TRY(read_precision(recipe, run));
    int64_t rank;
    if (run->lora_rank && !text_read_count(&rank, text_of(run->lora_rank)) && rank > 0)
        recipe->rank = rank;
    if (run->lora_targets)
        recipe->targets = read_targets(run->lora_targets, arena);
    return OK;
}

// --- batch -------------------------------------------------------------------

// Tokens of an unpacked row of which neither the source nor its cap says more.
static const double USUAL_LENGTH = 512;

enum packed {
    PACKED_UNSAID,
    PACKED_NO,
    PACKED_YES,
    PACKED_END_TO_END,
    PACKED_FULL,
    PACKED_GROUPED
};

static enum err read_packed(int *out, const struct run *run)
{
    static const char *const words[] = { "unknown", "no",      "yes", "padding-free",
                                         "full",    "grouped", NULL };
    return find_word(out, "packed", run->packed, words);
}

// The typical width of a batch of unpacked rows, with its padding unless they lie end to end.
static double short_width(const struct run *run, double rows, double cap, bool padded)
{
    struct run_lengths lengths;
    if (!run->lengths || run_lengths(&lengths, run->lengths))
        return fmin(cap, USUAL_LENGTH);
    double longest = padded ? stats_lognormal_longest(lengths.spread, rows) : 1;
    return fmin(cap, lengths.mean * longest);
}

// The longest row of a run, which sets its peak: all the cap allows, unless lengths say that hardly
// any row comes near it. A mean does not tell the tail, which is taken for one of the longest.
static double longest_width(const struct run *run, double cap)
{
    static const double rows = 1e4; // of a run that nobody counted
    struct run_lengths lengths;
    if (!run->lengths || run_lengths(&lengths, run->lengths))
        return cap;
    double spread = strchr(run->lengths, ',') ? lengths.spread : RUN_LONG_TAIL;
    return fmin(cap, lengths.mean * stats_lognormal_longest(spread, rows));
}

static double rows_of(const struct run *run)
{
    return run->micro_batch >= 1 ? run->micro_batch : 2; // what most notebooks start with
}

// Micro-batches of a step that says neither them nor its tokens. A pipeline is not run with few, as
// it stands idle for (stages - 1)/micro-batches of the time; how many is assumed.
static const double PIECES_PER_STAGE = 8;

static double accumulation_of(const struct run *run, double micro_batch_tokens,
                              const struct layout *layout)
{
    if (run->grad_accum >= 1)
        return run->grad_accum;
    if (run->global_batch_tokens > 0)
        return fmax(1, run->global_batch_tokens / (micro_batch_tokens * (double)layout->data));
    return layout->pipeline > 1 && !layout->split ? PIECES_PER_STAGE * (double)layout->pipeline : 1;
}

static double width_of(const struct run *run)
{
    return run->seq_len > 0 ? (double)run->seq_len : 2048;
}

static enum err read_batch(struct setup *setup, const struct run *run)
{
    double rows = rows_of(run), width = width_of(run);
    int packed;
    TRY(read_packed(&packed, run));
    // Unpacked rows are mostly shorter than seq_len, but the longest of them sets the peak.
    if (packed == PACKED_NO || packed == PACKED_END_TO_END || packed == PACKED_GROUPED) {
        bool compact = packed == PACKED_END_TO_END;
        double usual = short_width(run, rows, width, packed == PACKED_NO);
        setup->worst = step_batch(rows, compact ? usual : longest_width(run, width));
        setup->worst.padded = !compact && rows > 1;
        setup->varied_widths = !compact && width > 768;
        width = usual;
    }
    setup->batch = step_batch(rows, width);
    setup->batch.padded = setup->worst.padded;
    struct run_lengths lengths = { NAN, RUN_LENGTH_SPREAD };
    if (run->lengths)
        TRY(run_lengths(&lengths, run->lengths));
    if (packed == PACKED_YES && run->lengths) // the documents in rows: E[l²] = E[l]² · exp(σ²)
        setup->batch.squares =
            setup->batch.tokens * fmin(width, lengths.mean * exp(lengths.spread * lengths.spread));
    if (packed == PACKED_NO || packed == PACKED_END_TO_END) // grouped rows are alike in all ranks
        setup->batch.spread = step_batch_spread(lengths.spread, rows, packed == PACKED_NO);
    setup->batch.varies = packed == PACKED_GROUPED ? lengths.spread : setup->batch.spread;
    setup->accumulation = accumulation_of(run, rows * width, &setup->layout);
    return OK;
}

static enum err read_images(struct setup *setup, struct arena *arena, const struct run *run)
{
    if (!(run->images > 0))
        return OK;
    struct image_size size;
    struct vision_image image;
    TRY(model_find_tower(&setup->model, arena));
    if (!setup->model->tower)
        return fail(ERR_INPUT, "images: %s reads text alone", setup->model->name);
    TRY(error_prefix(image_read_words(&size, text_of(run->image_size ? run->image_size : "")),
                     "image_size: "));
    TRY(vision_measure(&image, setup->model->tower, &size));
    struct vision_load one = { 0 };
    vision_load_add(&one, &image);
    setup->batch.images = setup->worst.images =
        vision_load_scaled(&one, rows_of(run) * run->images);
    return OK;
}

// The share of computed tokens that the source counts, NAN where its padding is not known.
static double counted(const struct run *run)
{
    int packed;
    struct run_lengths lengths;
    if (run->counts != RUN_REAL || read_packed(&packed, run) || packed != PACKED_NO)
        return 1;
    if (!run->lengths || run_lengths(&lengths, run->lengths))
        return NAN;
    return fmin(1, lengths.mean / short_width(run, rows_of(run), width_of(run), true));
}

double run_other_hours(const struct run *run)
{
    if (run->wall_covers == RUN_STEPS || run->wall_covers == RUN_START)
        return 0;
    return run->wall_covers == RUN_WHOLE ? run->evaluation_hours : NAN;
}

double run_tokens_per_s(const struct run *run)
{
    double gpus = (double)(run->n_gpus > 0 ? run->n_gpus : 1);
    double rate =
        run->tokens_per_s_total > 0 ? run->tokens_per_s_total : run->tokens_per_s_per_gpu * gpus;
    if (run->rate_covers == RUN_WHOLE) {
        double seconds = run->total_tokens / rate - 3600 * run->evaluation_hours;
        rate = seconds > 0 ? run->total_tokens / seconds : NAN;
    }
    return rate / counted(run);
}

// Seconds of a token that the first steps take, over all tokens of the run.
static double start_share(const struct run *run, const struct setup *setup)
{
    if (run->rate_covers != RUN_START)
        return 0;
    double layers = (double)setup->model->layers;
    return setup->stack->first_steps_seconds * layers / run->total_tokens;
}

double run_reported_rate(const struct run *run, const struct setup *setup, double steady)
{
    return 1 / (1 / steady + start_share(run, setup));
}

double run_steady_rate(const struct run *run, const struct setup *setup, double reported)
{
    double seconds = 1 / reported - start_share(run, setup);
    return seconds > 0 ? 1 / seconds : NAN;
}

// --- hardware, stack and layout ----------------------------------------------

// Whether a model's name says that its size tells little of its cost: "Qwen3-30B-A3B", "8x7B",
// "Jamba".
static bool is_sparse_or_hybrid(const struct run *run)
{
    static const char *const words[] = { "moe",        "mamba",     "jamba", "nemotron-h",
                                         "qwen3-next", "granite-4", "rwkv",  "hybrid" };
    char name[128] = "";
    for (size_t i = 0; run->model[i] && i + 1 < sizeof name; i++)
        name[i] = (char)tolower((unsigned char)run->model[i]);
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strstr(name, words[i]))
            return true;
    for (const char *c = name; *c; c++)
        if ((c[0] == '-' && c[1] == 'a' && isdigit((unsigned char)c[2])) ||
            (isdigit((unsigned char)c[0]) && c[1] == 'x' && isdigit((unsigned char)c[2])))
            return true;
    return run->expert_kernel || run->balanced_routing;
}

// A dense model that the catalog does not have is replaced by the one nearest in size, within 20 %.
// Of small ones the vocabulary decides what a token costs, and 0.5 B parameters do not tell it.
static const double LEAST_STAND_IN = 1; // billions

static enum err find_model(const struct model **out, const struct run *run,
                           const struct catalog *catalog)
{
    if (!catalog_model(out, catalog, run->model))
        return OK;
    if (is_sparse_or_hybrid(run))
        return fail(ERR_INPUT,
                    "the catalog has no model \"%s\", which no dense one of its size can stand for",
                    run->model);
    double wanted = run->params_b * 1e9, best = log(1.2);
    *out = NULL;
    if (run->params_b > 0 && run->params_b < LEAST_STAND_IN)
        return fail(ERR_INPUT,
                    "the catalog has no model \"%s\", and one of less than %g B parameters has no "
                    "stand-in of its size",
                    run->model, LEAST_STAND_IN);
    for (size_t i = 0; i < catalog->model_count; i++) {
        const struct model *model = &catalog->models[i];
        double off = fabs(log((double)model_parameters(model) / wanted));
        if (!model->experts && off < best) {
            best = off;
            *out = model;
        }
    }
    if (!*out && !(run->params_b > 0))
        return fail(
            ERR_INPUT,
            "the catalog has no model \"%s\"; params_b, its weights in billions, would find "
            "one of about its size",
            run->model);
    return *out ? OK
                : fail(ERR_INPUT,
                       "the catalog has no model \"%s\" and no dense one of about %g B parameters",
                       run->model, run->params_b);
}

// By name; else by what the source calls its framework. One that no stack knows wraps PEFT where it
// trains adapters; where it trains whole models it is a trainer of its own, by its kernels.
static enum err find_stack(const struct stack **out, const struct run *run, int method,
                           const struct stack *stacks, size_t count)
{
    for (size_t i = 0; run->stack && i < count; i++)
        if (!strcmp(stacks[i].name, run->stack))
            return *out = &stacks[i], OK;
    if (run->stack)
        return fail(ERR_INPUT, "stack: there is no stack \"%s\"", run->stack);
    if (run->framework && !stack_find(out, stacks, count, run->framework))
        return OK;
    bool fused = run->kernels == STACK_FUSED + 1 || run->kernels == STACK_COMPILED + 1;
    const char *unknown = fused ? "other-fused" : "other";
    bool whole = method == RECIPE_FULL && run->framework;
    return stack_find(out, stacks, count, whole ? unknown : stack_default(method));
}

enum err run_offload(struct layout *out, const char *cell)
{
    struct text rest = text_of(cell), piece;
    while (cell && text_next(&rest, '+', &piece)) {
        if (text_is(piece, "weights"))
            out->offload_weights = true;
        else if (text_is(piece, "optimizer"))
            out->offload_optimizer = true;
        else if (text_is(piece, "activations"))
            out->offload_activations = true;
        else if (!text_is(piece, "gradients")) // they go where the optimizer is
            return fail(ERR_INPUT,
                        "offload has no word \"%.*s\", only weights, gradients, optimizer and "
                        "activations",
                        TEXT_BRIEF(piece));
    }
    return OK;
}

static enum err read_layout(struct layout *out, const struct run *run)
{
    int64_t gpus = run->n_gpus > 0 ? run->n_gpus : 1;
    if (run->parallelism)
        TRY(layout_read(out, text_of(run->parallelism), gpus));
    else
        out->data = gpus;
    return run_offload(out, run->offload);
}

// "24 GB cards": only a memory size is given, and no time can be predicted.
static bool is_size_alone(const char *gpu)
{
    size_t digits = strspn(gpu, "0123456789");
    return digits && !strncmp(gpu + digits, " GB", 3);
}

// A card's usual node, with what the run says of its own.
static const struct node *find_node(struct arena *arena, const struct run *run,
                                    const struct catalog *catalog, const struct gpu *gpu)
{
    const struct node *usual = catalog_node_of(catalog, gpu);
    if (!(run->node_gpus > 0) && !(run->node_gbit_per_s > 0))
        return usual;
    struct node *node = ARENA_NEW(arena, struct node, 1);
    *node = usual ? *usual : network_plain_node(gpu, 8);
    if (run->node_gpus > 0) {
        node->gpus = run->node_gpus;
        node->link_domain_gpus = 0;
    }
    if (run->node_gbit_per_s > 0)
        node->network_bytes_per_s_per_gpu = run->node_gbit_per_s * 1e9 / 8 / (double)node->gpus;
    return node;
}

enum err run_setup(struct setup *out, struct arena *arena, const struct run *run,
                   const struct catalog *catalog, const struct stack *stacks, size_t stack_count)
{
    *out = (struct setup){ .recipe = recipe_default(), .layout = layout_single() };
    if (run->excluded)
        return fail(ERR_INPUT, "%s", run->excluded);
    TRY(find_model(&out->model, run, catalog));
    TRY(read_recipe(&out->recipe, run, arena));
    TRY(find_stack(&out->stack, run, out->recipe.method, stacks, stack_count));
    TRY(read_layout(&out->layout, run));
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    *stack = *out->stack;
    out->stack = stack;
    set_facts(&out->recipe, stack, run);
    set_loss(stack, run->loss);
    TRY(read_batch(out, run));
    TRY(read_images(out, arena, run));
    if (!run->gpu || is_size_alone(run->gpu))
        return OK;
    TRY(catalog_gpu(&out->gpu, catalog, run->gpu));
    if (out->recipe.precision == RECIPE_BF16 && !out->gpu->supports_bf16)
        out->recipe.precision = RECIPE_FP16;
    out->node = find_node(arena, run, catalog, out->gpu);
    return OK;
}
