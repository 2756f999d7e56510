// SPDX-License-Identifier: Apache-2.0
// Reads measured runs from a CSV file, and says which reading of memory a row quotes.

#include "core/measured/run_internal.h"

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

bool run_mentions(const char *text, const char *phrase)
{
    return text && strstr(text, phrase) != NULL;
}

double run_memory(const struct run *run, const struct memory *memory)
{
    if (run_mentions(run->notes, "mem column = nvidia-smi"))
        return memory->total_bytes;
    if (run_mentions(run->mem_kind, "allocated"))
        return memory->allocated_bytes;
    return run_mentions(run->mem_kind, "reserved") ? memory->reserved_bytes : memory->total_bytes;
}
