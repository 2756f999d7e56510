// SPDX-License-Identifier: Apache-2.0
// Reads how a model is split over GPUs, in the words that people and papers use, and spells it.

#include "core/step/layout.h"

#include <ctype.h>
#include <string.h>

struct layout layout_single(void)
{
    return (struct layout){
        .data = 1, .tensor = 1, .pipeline = 1, .context = 1, .expert = 1, .interleave = 1
    };
}

int64_t layout_gpus(const struct layout *layout)
{
    return layout->data * layout->tensor * layout->pipeline * layout->context;
}

int64_t layout_shards(const struct layout *layout)
{
    // Context-parallel ranks hold the same weights, so that a shard may be spread over them too.
    int64_t ranks = layout->data * layout->context;
    return layout->shard_group && layout->shard_group < ranks ? layout->shard_group : ranks;
}

enum word {
    SINGLE,
    DATA,
    TENSOR,
    PIPELINE,
    CONTEXT,
    EXPERT,
    INTERLEAVE,
    SHARDED,
    ZERO,
    GROUP,
    SPLIT,
    OFFLOAD,
    SYNC,
};

static const struct {
    const char *name;
    enum word word;
} words[] = {
    { "single", SINGLE },
    { "dp", DATA },
    { "ddp", DATA },
    { "tp", TENSOR },
    { "mp", TENSOR },
    { "pp", PIPELINE },
    { "cp", CONTEXT },
    { "sp", CONTEXT },
    { "ulysses", CONTEXT },
    { "ep", EXPERT },
    { "vp", INTERLEAVE },
    { "fsdp", SHARDED },
    { "interleaved", INTERLEAVE },
    { "zero", ZERO },
    { "hsdp", GROUP },
    { "device_map", SPLIT },
    { "over", SPLIT },
    { "offload", OFFLOAD },
    { "sync_each_batch", SYNC },
};

struct scan {
    struct text text; // lower case
    size_t at;
    bool offload_seen, cpu, optimizer, weights, activations;
    bool lists_shards; // llmq's "shard:weights"
    int64_t data;      // as named; 0 where it was not
    bool single;
};

// The next run of letters and the number after it; false at the end.
static bool next_word(struct scan *scan, struct text *name, int64_t *number)
{
    const char *t = scan->text.at;
    size_t n = scan->text.size;
    while (scan->at < n && !isalpha((unsigned char)t[scan->at]))
        scan->at++;
    if (scan->at == n)
        return false;
    size_t start = scan->at;
    while (scan->at < n && (isalpha((unsigned char)t[scan->at]) || t[scan->at] == '_'))
        scan->at++;
    *name = (struct text){ t + start, scan->at - start };
    size_t digits = scan->at;
    if (text_is(*name, "over") || text_is(*name, "device_map"))
        while (digits < n && t[digits] == ' ')
            digits++;
    *number = 0;
    while (digits < n && isdigit((unsigned char)t[digits]) && *number < 1000000)
        *number = *number * 10 + (t[digits++] - '0'), scan->at = digits;
    return true;
}

static void set_word(struct layout *out, struct scan *scan, enum word word, int64_t number)
{
    int64_t count = number ? number : 1;
    switch (word) {
    case SINGLE: scan->single = true; break;
    case DATA: scan->data = number; break;
    case TENSOR: out->tensor = count; break;
    case PIPELINE: out->pipeline = count; break;
    case CONTEXT: out->context = count; break;
    case EXPERT: out->expert = count; break;
    case INTERLEAVE: out->interleave = number ? number : 2; break;
    case SHARDED:
        out->zero = 3;
        scan->data = number;
        break;
    case ZERO: out->zero = number ? (int)number : 3; break;
    case GROUP:
        out->zero = 3;
        out->shard_group = count;
        break;
    case SPLIT:
        out->split = true;
        if (number)
            out->pipeline = number;
        break;
    case OFFLOAD: scan->offload_seen = true; break;
    case SYNC: out->sync_each_batch = true; break;
    }
}

// What is moved to host memory, in the words sources use.
static void read_offload(struct scan *scan, struct text name)
{
    scan->optimizer |=
        text_is(name, "optimizer") || text_is(name, "opt") || text_is(name, "master");
    scan->weights |= (text_is(name, "weights") || text_is(name, "parameters")) &&
                     (scan->offload_seen || !scan->lists_shards);
    scan->cpu |= text_is(name, "cpu");
    scan->activations |= text_is(name, "residual") || text_is(name, "activations");
}

enum { LONGEST = 256 };

static enum err read_lower(char lower[LONGEST], struct text text)
{
    if (text.size >= LONGEST)
        return fail(ERR_USAGE, "--parallel is %zu characters long, must be shorter than %d",
                    text.size, LONGEST);
    for (size_t i = 0; i < text.size; i++)
        lower[i] = (char)tolower((unsigned char)text.at[i]);
    return OK;
}

enum err layout_read(struct layout *out, struct text text, int64_t gpus)
{
    *out = layout_single();
    char lower[LONGEST];
    TRY(read_lower(lower, text));
    const char *bracket = memchr(lower, '(', text.size); // text in brackets is a remark
    struct scan scan = { .text = { lower, bracket ? (size_t)(bracket - lower) : text.size } };
    struct text name;
    for (int64_t number; next_word(&scan, &name, &number);) {
        size_t i = 0;
        while (i < sizeof words / sizeof *words && !text_is(name, words[i].name))
            i++;
        if (i < sizeof words / sizeof *words)
            set_word(out, &scan, words[i].word, number);
        else if (text_is(name, "shard"))
            scan.lists_shards = true;
        else
            read_offload(&scan, name);
    }
    if (scan.offload_seen) {
        // FSDP's "cpu offload" moves weights, gradients and states; "ZeRO offload" the last two.
        bool named = scan.optimizer || scan.weights || scan.activations;
        out->offload_optimizer = scan.optimizer || !named;
        out->offload_weights = scan.weights || (!named && scan.cpu);
        out->offload_activations = scan.activations;
    }
    if (scan.lists_shards && out->zero == 1)
        out->zero = 3; // llmq's "zero1 shard:weights+gradients"
    int64_t model_ranks = out->tensor * out->pipeline * out->context;
    if (out->zero > 3)
        return fail(ERR_USAGE, "--parallel %.*s: ZeRO has stages 1 to 3", TEXT_ARGS(text));
    if (gpus < 1 || gpus % model_ranks)
        return fail(ERR_USAGE, "--parallel %.*s needs a multiple of %lld GPUs, but there are %lld",
                    TEXT_ARGS(text), (long long)model_ranks, (long long)gpus);
    out->data = gpus / model_ranks;
    if (scan.single && gpus > 1)
        return fail(
            ERR_USAGE,
            "--parallel %.*s is one GPU, but there are %lld; ddp holds the model on each of "
            "them, fsdp spreads it",
            TEXT_ARGS(text), (long long)gpus);
    if (scan.data && scan.data != out->data)
        return fail(ERR_USAGE,
                    "--parallel %.*s names %lld data-parallel ranks, but %lld GPUs make %lld",
                    TEXT_ARGS(text), (long long)scan.data, (long long)gpus, (long long)out->data);
    return OK;
}

enum err layout_check(struct text text)
{
    static const char *const offloaded[] = { "optimizer", "opt",      "master",      "weights",
                                             "cpu",       "residual", "activations", "parameters" };
    char lower[LONGEST];
    TRY(read_lower(lower, text));
    struct scan scan = { .text = { lower, text.size } };
    struct text name;
    for (int64_t number; next_word(&scan, &name, &number);) {
        bool known = false;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            known |= text_is(name, words[i].name);
        for (size_t i = 0; i < sizeof offloaded / sizeof *offloaded; i++)
            known |= text_is(name, offloaded[i]);
        if (!known)
            return fail(ERR_USAGE,
                        "--parallel %.*s: there is no scheme \"%.*s\"; try ddp, zero1, zero2, "
                        "fsdp, tp4, pp2, cp2, offload optimizer or sync_each_batch",
                        TEXT_ARGS(text), TEXT_ARGS(name));
    }
    return OK;
}

const char *layout_spell(const struct layout *layout, struct arena *arena)
{
    struct out out = { .arena = arena };
    if (layout_gpus(layout) == 1)
        out_put(&out, "single ");
    if (layout->split)
        out_put(&out, "device_map%lld ", (long long)layout->pipeline);
    else if (layout->pipeline > 1)
        out_put(&out, "pp%lld ", (long long)layout->pipeline);
    if (layout->tensor > 1)
        out_put(&out, "tp%lld ", (long long)layout->tensor);
    if (layout->context > 1)
        out_put(&out, "cp%lld ", (long long)layout->context);
    if (layout->expert > 1)
        out_put(&out, "ep%lld ", (long long)layout->expert);
    if (layout->shard_group)
        out_put(&out, "hsdp%lld ", (long long)layout->shard_group);
    static const char *const names[] = { "ddp", "zero1", "zero2", "fsdp" };
    if (layout->data > 1)
        out_put(&out, "%s%s%lld ", names[layout->zero],
                layout->zero == 1 || layout->zero == 2 ? " dp" : "", (long long)layout->data);
    else if (layout->zero && layout->context > 1) // context-parallel ranks share the weights
        out_put(&out, "%s ", names[layout->zero]);
    else if (layout->zero && layout_gpus(layout) == 1) // DeepSpeed's costs time on one GPU too
        out_put(&out, "zero%d ", layout->zero);
    if (layout->sync_each_batch)
        out_put(&out, "sync_each_batch ");
    if (layout->offload_optimizer)
        out_put(&out, "offload:optimizer ");
    if (layout->offload_weights)
        out_put(&out, "offload:weights ");
    if (layout->offload_activations)
        out_put(&out, "offload:activations ");
    const char *spelled = out_string(&out);
    return arena_copy(arena, spelled, out.size ? out.size - 1 : 0);
}
