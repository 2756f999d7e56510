// SPDX-License-Identifier: Apache-2.0
// Reads measured runs from a CSV file, and says which reading of memory a row quotes.

#include "core/measured/run_internal.h"

#include <math.h>
#include <string.h>

// Words of columns. "unknown" is what a blank cell means; the others stand at the value of their
// enum plus one, so that run_recipe.c can set a setup by a table.
#define AFTER(value) [(value) + 1]
static const char *const answers[] = { "unknown", "no", "yes", NULL };
static const char *const quantizations[] = { "unknown",
                                             AFTER(RECIPE_NF4) = "nf4",
                                             AFTER(RECIPE_NF4_NESTED) = "nf4-nested",
                                             AFTER(RECIPE_GPTQ4) = "gptq4",
                                             AFTER(RECIPE_INT8) = "int8",
                                             AFTER(RECIPE_GPTQ8) = "gptq8",
                                             NULL };
static const char *const kernels[] = { "unknown", AFTER(STACK_EAGER) = "eager",
                                       AFTER(STACK_COMPILED) = "compiled",
                                       AFTER(STACK_FUSED) = "fused", NULL };
static const char *const attentions[] = { "unknown",
                                          AFTER(STACK_ATTENTION_EAGER) = "eager",
                                          AFTER(STACK_FLASH2) = "flash2",
                                          AFTER(STACK_TRITON) = "triton",
                                          AFTER(STACK_FLASH3) = "flash3",
                                          AFTER(STACK_CUDNN) = "cudnn",
                                          NULL };
static const char *const losses[] = { [RUN_LOSS_UNSAID] = "unknown",
                                      [RUN_PLAIN] = "plain",
                                      [RUN_COMPILED] = "compiled",
                                      [RUN_FUSED] = "fused",
                                      [RUN_CHUNKED] = "chunked",
                                      [RUN_WITH_HEAD] = "with-head",
                                      NULL };
static const char *const adapters[] = { "unknown", AFTER(STACK_ADAPTERS_PLAIN) = "plain",
                                        AFTER(STACK_ADAPTERS_AUTOCAST) = "autocast",
                                        AFTER(STACK_ADAPTERS_FUSED) = "fused", NULL };
static const char *const dtypes[] = { "unknown",
                                      AFTER(RECIPE_FP32) = "fp32",
                                      AFTER(RECIPE_FP16) = "fp16",
                                      AFTER(RECIPE_BF16) = "bf16",
                                      AFTER(RECIPE_FP8) = "fp8",
                                      NULL };
static const char *const optimizers[] = { "unknown",
                                          AFTER(RECIPE_ADAMW) = "adamw",
                                          AFTER(RECIPE_ADAMW_8BIT) = "adamw-8bit",
                                          AFTER(RECIPE_ADAMW_PAGED) = "adamw-paged",
                                          AFTER(RECIPE_SGD) = "sgd",
                                          AFTER(RECIPE_ADAFACTOR) = "adafactor",
                                          AFTER(RECIPE_ADAMW_PAGED_8BIT) = "adamw-paged-8bit",
                                          NULL };
static const char *const autocasts[] = { "unknown", AFTER(STACK_NEVER_CASTS) = "no",
                                         AFTER(STACK_ALWAYS_CASTS) = "yes", NULL };
static const char *const expert_kernels[] = {
    "unknown", "loop", "grouped", "fused", "dense", NULL
};
static const char *const covers[] = { "unknown", "steps", "run", "start", NULL };
static const char *const counts[] = { "unknown", "padded", "real", NULL };
static const char *const outcomes[] = { "unknown", "fits", "out-of-memory", NULL };

const struct field run_fields[] = {
    FIELD_NEEDED(run, id, TEXT, "row name"),
    FIELD_NEEDED(run, source, TEXT, "where it was published"),
    FIELD_NEEDED(run, model, TEXT, "what was trained"),
    FIELD(run, params_b, NUMBER, "billions of parameters, as stated"),
    FIELD_NEEDED(run, method, TEXT, "full, pretrain, lora or qlora"),
    FIELD(run, lora_rank, TEXT, "rank"),
    FIELD(run, lora_targets, TEXT, "adapted linears, as --targets takes them"),
    FIELD(run, precision, TEXT, "of the products: bf16, fp16, fp32, fp8 or nvfp4"),
    FIELD_OF(run, quantization, quantizations, "of a frozen base"),
    FIELD(run, seq_len, COUNT, "tokens per row; the cap where rows are not packed"),
    FIELD(
        run, packed, TEXT,
        "yes; no: padded to the longest; grouped by length; padding-free; full: all have seq_len"),
    FIELD(run, lengths, TEXT,
          "tokens of unpacked rows, or of documents in packed ones: the mean, or \"P10,P50,P90\""),
    FIELD(run, images, NUMBER, "images of a row; its tokens include theirs", .since = "0.11.0"),
    FIELD(run, image_size, TEXT, "of each, WIDTHxHEIGHT", .since = "0.11.0"),
    FIELD(run, micro_batch, NUMBER, "rows per micro-batch and GPU"),
    FIELD(run, grad_accum, NUMBER, "micro-batches per step"),
    FIELD(run, global_batch_tokens, NUMBER, "tokens per optimizer step"),
    FIELD(run, checkpointing, TEXT, "as --checkpointing, or unknown"),
    FIELD(run, parallelism, TEXT, "layout, as --parallel takes it"),
    FIELD(run, offload, TEXT,
          "to the host: weights, gradients, optimizer, activations, joined by +"),
    FIELD(run, framework, TEXT, "as the source names it; maps to a stack where stack is blank"),
    FIELD(run, stack, TEXT, "name in data/stacks.json"),
    FIELD_OF(run, kernels, kernels, "of norms, positions and activation functions"),
    FIELD_OF(run, attention, attentions, "attention kernel"),
    FIELD_OF(run, masks, answers, "padded batches run attention under a mask"),
    FIELD_OF(run, loss, losses, "how the loss is computed; with-head: without whole logits"),
    FIELD_OF(run, adapters, adapters, "how LoRA products are run"),
    FIELD_OF(run, weights, dtypes, "of trained weights; fp32 is a master copy; of LoRA's base"),
    FIELD_OF(run, autocast, autocasts,
             "fp32 weights are cast for each product; blank: unless FSDP does it",
             .since = "0.10.0"),
    FIELD_OF(run, sequence_parallel, answers, "tensor parallelism splits norms and residuals",
             .since = "0.10.0"),
    FIELD_OF(run, loss_parallel, answers,
             "the loss is computed over the split vocabulary; no: tensor ranks gather the logits",
             .since = "0.10.0"),
    FIELD_OF(run, gradients, dtypes, "of gradients"),
    FIELD_OF(run, states, dtypes, "of optimizer states"),
    FIELD_OF(run, optimizer, optimizers, "optimizer"),
    FIELD_OF(run, optimizer_in_backward, answers, "weights are updated during backward"),
    FIELD_OF(run, no_sync, answers, "FSDP keeps whole gradients between accumulated micro-batches"),
    FIELD_OF(run, trains_embeddings, answers, "embedding and head are trained beside adapters"),
    FIELD_OF(run, widens_unquantized, answers, "unquantised weights are fp32 beside the base"),
    FIELD_OF(run, copies_on_save, answers, "a checkpoint copies 8-bit linears on the GPU",
             .since = "0.9.7"),
    FIELD_OF(run, bare_loop, answers, "no trainer around the steps"),
    FIELD_OF(run, rowwise_scales, answers, "fp8 has a scale for each row, not for each tensor",
             .since = "0.10.0"),
    FIELD_OF(run, cuda_graphs, answers, "a layer's operations are replayed as one"),
    FIELD_OF(run, expert_kernel, expert_kernels, "how products of experts are run"),
    FIELD_OF(run, balanced_routing, answers, "tokens are forced evenly onto experts"),
    FIELD(run, series, TEXT,
          "runs of one name that differ in layout and results alone are one job on more and more "
          "GPUs"),
    FIELD(run, gpu, TEXT, "card"),
    FIELD(run, card_gib, NUMBER, "memory of the card, where only that is known"),
    FIELD(run, context_gib, NUMBER, "memory beside PyTorch's: CUDA context and libraries",
          .since = "0.9.7"),
    FIELD(run, n_gpus, COUNT, "cards"),
    FIELD(run, node_gpus, COUNT, "cards of a node, where they are not as many as usual",
          .since = "0.10.0"),
    FIELD(run, node_gbit_per_s, NUMBER, "network of a node, in Gb/s, where the source states it",
          .since = "0.10.0"),
    FIELD(run, tokens_per_s_total, NUMBER, "measured, over all GPUs"),
    FIELD(run, tokens_per_s_per_gpu, NUMBER, "measured"),
    FIELD_OF(run, rate_covers, covers,
             "what tokens/s were taken over; run: with evaluation; start: with the first steps"),
    FIELD_OF(run, counts, counts, "whether tokens/s count padding"),
    FIELD(run, tflops_per_gpu, NUMBER, "as the source states it"),
    FIELD(run, mfu, NUMBER, "as the source states it"),
    FIELD(run, peak_mem_gib_per_gpu, NUMBER, "measured"),
    FIELD(run, mem_kind, TEXT, "allocated, reserved, device or unknown"),
    FIELD(run, held_gib, NUMBER, "memory of the card that its driver counted as held"),
    FIELD_OF(run, outcome, outcomes, "of a test whether it fits"),
    FIELD(run, wall_hours, NUMBER, "measured"),
    FIELD_OF(run, wall_covers, covers,
             "what wall_hours were taken over; run: with evaluation; start: with the first steps"),
    FIELD(run, evaluation_hours, NUMBER, "evaluation within wall_hours"),
    FIELD(run, total_tokens, NUMBER, "in that time"),
    FIELD(run, excluded, TEXT, "why the row is not compared"),
    FIELD(run, notes, TEXT, "for people; nothing is read from them"),
    { 0 },
};

enum err run_read(struct run **out, size_t *count, struct arena *arena, struct text csv,
                  const char *name)
{
    void *rows;
    TRY(field_read_csv(run_fields, sizeof(struct run), &rows, count, arena, csv, name));
    *out = rows;
    for (size_t i = 0; i < *count; i++) {
        struct run_lengths lengths;
        struct layout layout = layout_single();
        const struct run *run = &(*out)[i];
        if (run_lengths(&lengths, run->lengths) || run_offload(&layout, run->offload))
            return error_prefix(ERR_INPUT, "%s: row %s: ", name, run->id);
    }
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

double run_memory(const struct run *run, const struct memory *memory)
{
    struct text kind = text_of(run->mem_kind);
    if (text_is(kind, "allocated"))
        return memory->allocated_bytes;
    return text_is(kind, "reserved") ? memory->reserved_bytes : memory->total_bytes;
}

enum err run_lengths(struct run_lengths *out, const char *cell)
{
    // Half of the range from P10 to P90 of a normal distribution, in standard deviations.
    enum { MOST = 3 };
    double values[MOST] = { NAN };
    size_t count = 0;
    struct text rest = text_of(cell), piece;
    while (cell && text_next(&rest, ',', &piece)) {
        if (count == MOST || text_read_number(&values[count], text_trim(piece)) ||
            !(values[count] >= 1) || (count && values[count] < values[count - 1]))
            count = MOST + 1;
        if (count > MOST)
            break;
        count++;
    }
    if (cell && count != 1 && count != 3)
        return fail(ERR_INPUT, "lengths is \"%s\", must be a mean or \"P10,P50,P90\"", cell);
    out->mean = values[0];
    out->spread = RUN_LENGTH_SPREAD;
    if (count == 3) {
        out->spread = log(values[2] / values[0]) / (2 * STATS_P90);
        out->mean = values[1] * exp(0.5 * out->spread * out->spread);
    }
    return OK;
}
