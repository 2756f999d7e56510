// SPDX-License-Identifier: Apache-2.0
// Reads stacks from JSON and finds them by the names that people use.

#include "core/step/stack.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

static const char *const kernel_names[] = { "eager", "compiled", "fused", NULL };
static const char *const attention_names[] = {
    "eager", "triton", "flash2", "flash3", "cudnn", NULL
};
static const char *const gradient_names[] = { "sharded", "whole", "flat", NULL };
static const char *const fetch_names[] = { "units", "tensors", NULL };
static const char *const autocast_names[] = { "no", "yes", "unsharded", NULL };
static const char *const selective_names[] = { "cheap", "half", "attention", NULL };
static const char *const adapter_names[] = { "plain", "autocast", "fused", NULL };

const struct field stack_fields[] = {
    FIELD_NEEDED(stack, name, TEXT, "as --stack takes it"),
    FIELD(stack, like, TEXT, "the stack it differs from"),
    FIELD(stack, title, TEXT, "what it is"),
    FIELD(stack, aliases, TEXT, "names of frameworks that run this way, separated by |"),
    FIELD(stack, family, TEXT, "stacks of one family share their prior"),
    FIELD(stack, vendors, TEXT, "whose accelerators it runs on, separated by |", .since = "0.9.9"),
    FIELD_OF(stack, kernels, kernel_names, "norms, positions and activation functions"),
    FIELD_OF(stack, attention, attention_names, "attention kernel"),
    FIELD(stack, masks, FLAG, "padded batches run attention under a mask"),
    FIELD_OF(stack, experts, recipe_expert_kernels, "how the experts of a mixture are run",
             .since = "0.3.0"),
    FIELD(stack, dense_experts, TEXT, "families whose experts compute every token",
          .since = "0.3.0"),
    FIELD(stack, even_routing, FLAG, "tokens are forced evenly onto experts", .since = "0.3.0"),
    FIELD(stack, strided_experts, FLAG, "gate and up of experts are views of one product",
          .since = "0.4.0"),
    FIELD(stack, expert_launches, NUMBER, "per expert and product, of a fused kernel",
          .since = "0.3.0"),
    FIELD(stack, expert_rate, NUMBER,
          "rate of a fused kernel's products in full tiles, over dense ones", .since = "0.7.0"),
    FIELD(stack, experts_since, TEXT, "which versions run them so", .since = "0.3.0"),
    FIELD_OF(stack, adapters, adapter_names, "how LoRA products are run"),
    FIELD(stack, adapts_modules, FLAG,
          "all-linear finds modules, as in PEFT: not experts that are one tensor",
          .since = "0.13.0"),
    FIELD_OF(stack, adapter_dtype, recipe_precisions, "of adapters, their gradients and states"),
    FIELD_OF(stack, frozen, recipe_precisions, "of frozen weights that are not quantised, as held",
             .since = "0.3.0"),
    FIELD_OF(stack, autocasts, autocast_names,
             "fp32 weights stay so and are cast for each product; unsharded: but under FSDP",
             .since = "0.10.0"),
    FIELD_OF(stack, weights, recipe_precisions, "of trained weights; fp32 is a master copy"),
    FIELD_OF(stack, gradients, recipe_precisions, "of gradients under full training"),
    FIELD_OF(stack, reduces, recipe_precisions, "of gradients while they are summed over GPUs",
             .since = "0.3.0"),
    FIELD_OF(stack, states, recipe_precisions, "of optimizer states under full training"),
    FIELD(stack, copies_weights, FLAG, "keeps a 16-bit copy beside fp32 weights"),
    FIELD(stack, update_copies, NUMBER, "copies of one state alive in the update"),
    FIELD_OF(stack, held_gradients, gradient_names, "under FSDP, while micro-batches accumulate",
             .since = "0.3.0"),
    FIELD(stack, reentrant, FLAG, "recomputes in a backward pass of its own, layer by layer",
          .since = "0.4.0"),
    FIELD(stack, input_gradients, FLAG,
          "recomputation gives gradients to a frozen encoder's patches", .since = "0.11.0"),
    FIELD(stack, inner_gradients, NUMBER, "of inner values alive at once in backward",
          .since = "0.3.0"),
    FIELD(stack, unties, FLAG, "a tied head becomes a second matrix", .since = "0.3.0"),
    FIELD(stack, widens_unquantized, FLAG, "unquantised weights are fp32 under qlora"),
    FIELD(stack, narrows_for_bf16, FLAG, "unquantised weights stay bf16 beside NF4 under bf16",
          .since = "0.9.9"),
    FIELD(stack, casts_quantized, FLAG, "a quantised linear keeps a cast copy of its output"),
    FIELD(stack, copies_on_save, FLAG, "a checkpoint copies 8-bit linears on the GPU",
          .since = "0.9.7"),
    FIELD(stack, fp8_weights, FLAG, "weights are held in 8 bits under fp8"),
    FIELD(stack, widens_in_torch, FLAG,
          "4-bit weights are widened by PyTorch's operations (torchao), not by a kernel",
          .since = "0.12.0"),
    FIELD(stack, fp8_gathers, FLAG, "FSDP gathers linears in 8 bits under fp8", .since = "0.11.0"),
    FIELD(stack, rowwise_scales, FLAG, "fp8 has a scale for each row of a tensor",
          .since = "0.10.0"),
    FIELD(stack, remakes, FLAG, "a whole-model compiler recomputes norm and gate outputs"),
    FIELD(stack, dropout, SHARE, "on adapters, unless the recipe gives one"),
    FIELD(stack, loss_bytes, NUMBER, "kept per logit at the peak"),
    FIELD(stack, loss_most_bytes, BYTES, "kept of all logits, where they are computed in chunks"),
    FIELD(stack, pads_vocabulary, FLAG, "the head's columns are padded to a multiple of 64",
          .since = "0.11.0"),
    FIELD(stack, fused_gelu, FLAG,
          "GELU of GPT-2 and its like is one kernel; transformers runs it by its formula",
          .since = "0.16.0"),
    FIELD(stack, loss_moved_bytes, NUMBER, "moved per logit, forward and backward"),
    FIELD(stack, labelled_head, FLAG, "the head runs on labelled tokens only"),
    FIELD(stack, updates_on_gpu, FLAG,
          "offloaded optimizer states stream through the GPU, which updates them",
          .since = "0.13.0"),
    FIELD(stack, launch_seconds, SECONDS, "of the host per operation launched"),
    FIELD(stack, recompute_launches, NUMBER, "host time of a recomputed operation, in launches",
          .since = "0.3.0"),
    FIELD(stack, cuda_graphs, FLAG, "a layer's operations are replayed as one", .since = "0.8.0"),
    FIELD_OF(stack, fetches, fetch_names, "what is fetched one by one under ZeRO-3 or FSDP",
             .since = "0.4.0"),
    FIELD(stack, fetch_seconds, SECONDS, "of the host per fetch and pass", .since = "0.3.0"),
    FIELD(stack, gathers_again, FLAG, "under FSDP, recomputation gathers a layer's weights too",
          .since = "0.10.0"),
    FIELD(stack, copies_gathered, FLAG, "under FSDP, weights and gradients are copied by a buffer",
          .since = "0.10.0"),
    FIELD(stack, gathers_ahead, FLAG, "tensors are fetched before their product asks for them",
          .since = "0.10.0"),
    FIELD(stack, late_reduction, FLAG, "ZeRO-1 sums gradients after the backward pass",
          .since = "0.10.0"),
    FIELD(stack, step_seconds, SECONDS, "of the host per step, outside the passes"),
    FIELD(stack, pause_seconds, SECONDS, "of the host per adapted linear, while the GPU waits",
          .since = "0.9.1"),
    FIELD(stack, host_bytes_per_s, RATE, "of its optimizer in host memory, over the GPUs of a host",
          .since = "0.3.0"),
    FIELD(stack, first_width_seconds, SECONDS, "at the first sight of a width, on Hopper or newer",
          .since = "0.2.0"),
    FIELD(stack, first_steps_seconds, SECONDS,
          "of the first step of each alignment of widths, per layer", .since = "0.2.0"),
    FIELD(stack, overlap, SHARE, "of communication that can overlap with compute"),
    FIELD(stack, slack, NUMBER, "reserved over allocated memory when shapes repeat"),
    FIELD(stack, trainer_spread, NUMBER,
          "half of the 80 % range of the speed of trainers that go by its name, as a logarithm",
          .since = "0.11.0"),
    FIELD(stack, memory_spread, NUMBER, "half of the 80 % range of memory, as a logarithm",
          .since = "0.3.0"),
    FIELD(stack, quantized_spread, NUMBER, "the same under qlora", .since = "0.3.0"),
    FIELD(stack, offloads_checkpoints, FLAG, "recomputed layers keep their input on the host",
          .since = "0.3.0"),
    FIELD(stack, context_bytes, BYTES, "CUDA context, libraries and communicators"),
    FIELD(stack, attention_workspace, FLAG, "reserves a workspace for attention's backward pass",
          .since = "0.2.0"),
    FIELD(stack, zero, COUNT, "stage of ZeRO under plain data parallelism"),
    FIELD(stack, most_zero, COUNT, "the highest stage of ZeRO that it offers", .since = "0.5.0"),
    FIELD(stack, shares_base, FLAG, "under stage 3 shares the frozen base of adapters alone",
          .since = "0.6.0"),
    FIELD(stack, exact_gradients, FLAG, "sums gradients in fp32, unless full with bf16 states",
          .since = "0.5.0"),
    FIELD(stack, selective, FLAG, "can recompute norms and activation functions alone"),
    FIELD_OF(stack, recomputes, selective_names,
             "by selective recomputation: norms and activation functions; and half of the "
             "products; or attention alone",
             .since = "0.10.0"),
    FIELD(stack, whole_inputs, FLAG, "tensor parallelism keeps gathered inputs of linears",
          .since = "0.10.0"),
    FIELD(stack, whole_sequences, FLAG, "tensor parallelism splits neither norms nor residuals",
          .since = "0.10.0"),
    FIELD(stack, whole_logits, FLAG, "tensor ranks gather the logits for the loss",
          .since = "0.10.0"),
    FIELD(stack, partial, FLAG, "can recompute some of a layer's products alone", .since = "0.9.0"),
    FIELD(stack, stops_early, FLAG, "recomputes all of a layer but its last product"),
    FIELD_OF(stack, checkpointing, recipe_checkpointings, "its default"),
    FIELD_OF(stack, batching, batching_names, "its default"),
    FIELD(stack, pads_pairs, TEXT,
          "whose trainer of pairs it runs, which pads them; empty: not known to pad",
          .since = "0.13.0"),
    FIELD(stack, trainer, TEXT, "the trainer whose padding and packing it runs", .since = "0.2.0"),
    FIELD(stack, tensor_parallel, FLAG, "can split matrices over GPUs", .since = "0.2.0"),
    FIELD(stack, pipeline_parallel, FLAG, "can split layers over GPUs", .since = "0.2.0"),
    FIELD(stack, context_parallel, FLAG, "can split sequences over GPUs", .since = "0.2.0"),
    FIELD(stack, expert_parallel, FLAG, "can split experts over GPUs", .since = "0.2.0"),
    FIELD(stack, offloads, FLAG, "can keep optimizer states in host memory", .since = "0.2.0"),
    FIELD(stack, source, TEXT, "where this comes from"),
    FIELD(stack, as_of, DATE, "when that was looked up"),
    { 0 },
};

bool stack_runs_on(const struct stack *stack, const char *vendor)
{
    struct text rest = text_of(stack->vendors), name;
    while (stack->vendors && text_next(&rest, '|', &name))
        if (name.size == strlen(vendor) && !strncasecmp(name.at, vendor, name.size))
            return true;
    return !stack->vendors;
}

bool stack_recomputes(const struct stack *stack, int checkpointing)
{
    bool partial = checkpointing == RECIPE_GATE || checkpointing == RECIPE_PROJECTIONS;
    return partial ? stack->partial : checkpointing != RECIPE_SELECTIVE || stack->selective;
}

void stack_without_trainer(struct stack *stack)
{
    stack->step_seconds = stack->pause_seconds = 0;
    stack->gathers_ahead = true; // DeepSpeed's own default is 5e7 elements ahead
    stack->recompute_launches = fmin(stack->recompute_launches, 1.13);
    for (const struct stack *base = stack->base; base; base = base->base) // logits are not copied
        stack->loss_moved_bytes = fmin(stack->loss_moved_bytes, base->loss_moved_bytes);
}

static const struct stack *find_exact(const struct stack *stacks, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(stacks[i].name, name))
            return &stacks[i];
    return NULL;
}

static enum err read_one(struct stack *out, struct arena *arena, const struct stack *known,
                         size_t known_count, const struct stack *before, size_t before_count,
                         const struct json *in, const char *name)
{
    struct text like = json_get_text(in, "like");
    field_clear(stack_fields, out);
    out->first_width_seconds = 0.02; // nobody measured it
    out->first_steps_seconds = 0.1;
    if (like.at) {
        const char *wanted = text_copy(arena, like);
        const struct stack *base = find_exact(before, before_count, wanted);
        if (!base)
            base = find_exact(known, known_count, wanted);
        if (!base)
            return fail(ERR_INPUT, "%s: like \"%s\": there is no stack of that name before it",
                        name, wanted);
        *out = *base;
        out->base = base;
        out->aliases = NULL;
        out->title = NULL;
    }
    TRY(field_read(stack_fields, out, arena, in, name, true));
    for (const struct field *f = stack_fields; f->name; f++)
        if (f->kind >= FIELD_NUMBER && !field_known(f, out))
            return fail(ERR_INPUT,
                        "%s: stack \"%s\" needs %s (%s); give it, or \"like\" another stack", name,
                        out->name ? out->name : "?", f->name, f->help);
    if (!out->name || !out->source || !out->as_of || !out->family || !out->trainer)
        return fail(ERR_INPUT, "%s: a stack needs name, family, trainer, source and as_of", name);
    if (!(out->slack >= 1))
        return fail(ERR_INPUT, "%s: stack \"%s\": slack is %g, must be 1 or more", name, out->name,
                    out->slack);
    if (!(out->memory_spread > 0) || !(out->quantized_spread > 0))
        return fail(ERR_INPUT,
                    "%s: stack \"%s\": memory_spread and quantized_spread must be above 0", name,
                    out->name);
    if (out->checkpointing == RECIPE_AUTO)
        return fail(ERR_INPUT, "%s: stack \"%s\": checkpointing must not be auto", name, out->name);
    const struct packing_trainer *trainer;
    enum err err = packing_trainer_find(&trainer, out->trainer, NULL);
    if (err)
        return fail(ERR_INPUT, "%s: stack \"%s\": %s", name, out->name,
                    text_copy(arena, text_of(error_text())));
    return OK;
}

enum err stack_read(struct stack **out, size_t *count, struct arena *arena,
                    const struct stack *known, size_t known_count, struct text json,
                    const char *name)
{
    struct json tree;
    TRY(json_read(&tree, arena, json, name));
    bool is_single = tree.kind == JSON_OBJECT;
    if (!is_single && tree.kind != JSON_ARRAY)
        return fail(ERR_INPUT, "%s: is %s, must be a stack or a list of them", name,
                    json_kind_name(tree.kind));
    *count = is_single ? 1 : tree.count;
    *out = ARENA_NEW(arena, struct stack, *count);
    for (size_t i = 0; i < *count; i++)
        TRY(read_one(&(*out)[i], arena, known, known_count, *out, i,
                     is_single ? &tree : &tree.items[i], name));
    return OK;
}

// Lower case, letters and digits only, so that "HF Trainer/DeepSpeed" and "hf-trainer deepspeed"
// are one word.
static size_t plain(char *out, size_t room, const char *name)
{
    size_t size = 0;
    for (; *name && size + 1 < room; name++)
        if (isalnum((unsigned char)*name))
            out[size++] = (char)tolower((unsigned char)*name);
    out[size] = 0;
    return size;
}

// The stack with the longest alias in the framework's name, or that is the whole name; or NULL.
static const struct stack *find_alias(const struct stack *stacks, size_t count, const char *wanted,
                                      bool whole)
{
    const struct stack *best = NULL;
    size_t best_size = 0;
    for (size_t i = 0; i < count; i++) {
        struct text rest = text_of(stacks[i].aliases), piece;
        while (stacks[i].aliases && text_next(&rest, '|', &piece)) {
            char copy[128] = "", alias[128];
            if (piece.size < sizeof copy)
                memcpy(copy, piece.at, piece.size);
            size_t size = plain(alias, sizeof alias, copy);
            if (size > best_size &&
                (whole ? !strcmp(wanted, alias) : strstr(wanted, alias) != NULL)) {
                best_size = size;
                best = &stacks[i];
            }
        }
    }
    return best;
}

bool stack_widens(const struct stack *stack, const struct recipe *recipe)
{
    bool narrow =
        stack->narrows_for_bf16 && recipe_is_nf4(recipe) && recipe->precision == RECIPE_BF16;
    return recipe->method == RECIPE_QLORA && stack->widens_unquantized && !narrow &&
           !recipe_is_gptq(recipe);
}

bool stack_widens_in_parts(const struct stack *stack, const struct recipe *recipe)
{
    return recipe->method == RECIPE_QLORA && recipe_is_nf4(recipe) && stack->widens_in_torch &&
           stack->kernels == STACK_EAGER;
}

bool stack_is_engine(const struct stack *stack)
{
    return stack->exact_gradients;
}

bool stack_is_deepspeed(const struct stack *stack)
{
    return stack->fetches == STACK_FETCHES_TENSORS;
}

int stack_gradients(const struct stack *stack, const struct recipe *recipe)
{
    if (recipe->precision == RECIPE_FP32)
        return RECIPE_FP32;
    if (stack->exact_gradients)
        return recipe->states;
    if (recipe->method != RECIPE_FULL)
        return recipe->adapter_dtype;
    bool wide = recipe->weights == RECIPE_FP32 && !stack->copies_weights;
    return wide ? RECIPE_FP32 : stack->gradients;
}

int stack_experts(const struct stack *stack, const struct model *model)
{
    struct text rest = text_of(stack->dense_experts), family;
    while (model->family && stack->dense_experts && text_next(&rest, '|', &family))
        if (text_is(family, model->family))
            return RECIPE_EXPERTS_DENSE;
    return stack->experts;
}

const char *stack_default(int method)
{
    return method == RECIPE_FULL ? "hf" : "hf-peft";
}

enum err stack_find(const struct stack **out, const struct stack *stacks, size_t count,
                    const char *name)
{
    char wanted[128], known[128];
    plain(wanted, sizeof wanted, name);
    for (size_t i = 0; i < count; i++) {
        plain(known, sizeof known, stacks[i].name);
        if (!strcmp(known, wanted)) {
            *out = &stacks[i];
            return OK;
        }
    }
    // "torchtune (no compile)" is an alias; of "XTuner (HF + DeepSpeed)" the words before the
    // bracket count first.
    char before[128] = "";
    size_t size = strcspn(name, "(");
    if (size < sizeof before)
        memcpy(before, name, size);
    plain(known, sizeof known, before);
    *out = find_alias(stacks, count, wanted, true);
    if (!*out)
        *out = find_alias(stacks, count, known, false);
    if (!*out)
        *out = find_alias(stacks, count, wanted, false);
    if (*out)
        return OK;
    const char *names[64];
    size_t names_count = 0;
    for (; names_count < count && names_count < 64; names_count++)
        names[names_count] = stacks[names_count].name;
    const char *near = text_nearest(text_of(name), names, names_count);
    return fail(ERR_USAGE, "there is no stack \"%s\"%s%s; gpuhours show stacks lists them all",
                name, near ? "; did you mean " : "", near ? near : "");
}
