#include "train/transformer_internal.h"

#include "base/rng.h"
#include "train/nf4.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// --- planning ----------------------------------------------------------------

static enum err list(struct transformer *t, struct arena *arena, struct device *device,
                     const struct transformer_setup *setup)
{
    *t = (struct transformer){ .device = device, .setup = *setup, .decoder = setup->decoder };
    assert(setup->tokens > 0 && setup->labelled <= setup->tokens);
    return transformer_list(t, arena);
}

static void plan(struct transformer *t)
{
    blocks_init(&t->blocks);
    transformer_place(t);
}

// Raises layers, one at a time and the last first, until the whole meets the budget: a level more
// for all layers before the next level for any, since each level costs more FLOPs per byte.
static enum err choose_levels(struct transformer *t)
{
    double budget = t->setup.budget_bytes;
    plan(t);
    for (int level = (int)t->setup.level + 1; level < RECOMPUTE_LEVELS; level++)
        for (int64_t i = t->decoder->model.layers; i-- > 0;) {
            if (!budget || (double)blocks_total(&t->blocks) <= budget)
                return OK;
            t->layers[i].level = (enum recompute)level;
            plan(t);
        }
    if (budget && (double)blocks_total(&t->blocks) > budget)
        return fail(ERR_DEVICE_MEMORY,
                    "%lld bytes are needed even if every layer is computed again, the budget is "
                    "%.0f; a smaller --context or --micro-batch, or --method qlora, needs less",
                    (long long)blocks_total(&t->blocks), budget);
    return OK;
}

enum err transformer_plan(struct blocks *out, struct arena *arena, struct device *device,
                          const struct transformer_setup *setup)
{
    struct transformer t;
    TRY(list(&t, arena, device, setup));
    TRY(choose_levels(&t));
    *out = t.blocks;
    return OK;
}

enum err transformer_init(struct transformer *t, struct arena *arena, struct device *device,
                          const struct transformer_setup *setup)
{
    TRY(list(t, arena, device, setup));
    TRY(choose_levels(t));
    TRY(blocks_allocate(&t->blocks, device));
    transformer_place(t);
    return OK;
}

void transformer_release(struct transformer *t)
{
    if (t->device)
        blocks_release(&t->blocks, t->device);
}

// --- weights -----------------------------------------------------------------

struct parameter *transformer_find(struct transformer *t, const char *name)
{
    for (size_t i = 0; i < t->parameter_count; i++)
        if (!strcmp(t->parameters[i].name, name))
            return &t->parameters[i];
    return NULL;
}

bool transformer_set_nf4(struct transformer *t, struct parameter *p, const struct nf4 *nf4)
{
    const struct backend *backend = t->device->backend;
    if (!p->quantized.codes || !nf4->nested || nf4->block != p->quantized.block ||
        nf4->nested_block != p->quantized.nested_block)
        return false;
    int64_t blocks = nf4_blocks(nf4), nested = (blocks + nf4->nested_block - 1) / nf4->nested_block;
    backend->upload(t->device, (void *)p->quantized.codes, nf4->codes,
                    (tensor_count(p->value) + 1) / 2);
    backend->upload(t->device, (void *)p->quantized.nested_codes, nf4->scales, blocks);
    backend->upload(t->device, (void *)p->quantized.nested, nf4->nested_scales, 4 * nested);
    backend->upload(t->device, (void *)p->quantized.levels, nf4->nested_levels,
                    (int64_t)sizeof nf4->nested_levels);
    p->quantized.offset = nf4->offset;
    return true;
}

static void set_quantized(struct transformer *t, struct parameter *p, const float *values,
                          struct arena *arena)
{
    struct arena_mark mark = arena_mark(arena);
    struct nf4 nf4;
    nf4_quantize(&nf4, arena, values, p->value.rows, p->value.columns, STORAGE_BF16);
    bool set = transformer_set_nf4(t, p, &nf4);
    assert(set);
    (void)set;
    arena_rewind(arena, mark);
}

void transformer_set(struct transformer *t, struct parameter *p, const float *values,
                     struct arena *arena)
{
    if (p->quantized.codes) {
        set_quantized(t, p, values, arena);
        return;
    }
    struct tensor in = tensor_of((void *)values, DTYPE_F32, p->value.rows, p->value.columns);
    t->device->backend->cast(t->device, p->value, in);
    if (p->master.at && p->master.at != p->value.at)
        t->device->backend->cast(t->device, p->master, in);
}

void transformer_refresh(struct transformer *t)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        struct parameter *p = &t->parameters[i];
        if (p->master.at && p->master.at != p->value.at)
            t->device->backend->cast(t->device, p->value, p->master);
    }
}

// Each weight draws from a generator of its own, seeded by its name: what else is trained, and in
// which order, does not change it.
static uint64_t seed_of(const char *name, uint64_t seed)
{
    uint64_t hash = seed ^ 0xCBF29CE484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
    return hash;
}

static void start(struct transformer *t, struct parameter *p, uint64_t seed)
{
    struct rng rng = rng_seeded(seed_of(p->name, seed));
    struct arena scratch = { 0 };
    int64_t count = tensor_count(p->value);
    float *values = ARENA_NEW(&scratch, float, count);
    double bound = 1 / sqrt((double)p->value.columns); // Kaiming with a = √5, as PEFT's
    for (int64_t i = 0; i < count; i++)
        values[i] = p->start == PARAMETER_NORMAL    ? (float)(0.02 * rng_normal(&rng))
                    : p->start == PARAMETER_KAIMING ? (float)(bound * (2 * rng_uniform(&rng) - 1))
                    : p->start == PARAMETER_ONE     ? 1
                                                    : 0;
    transformer_set(t, p, values, &scratch);
    arena_release(&scratch);
}

void transformer_start(struct transformer *t, uint64_t seed)
{
    for (size_t i = 0; i < t->parameter_count; i++)
        start(t, &t->parameters[i], seed);
}

void transformer_start_adapters(struct transformer *t, uint64_t seed)
{
    for (size_t i = 0; i < t->parameter_count; i++)
        if (t->parameters[i].is_adapter)
            start(t, &t->parameters[i], seed);
}

// --- running -----------------------------------------------------------------

void transformer_note(struct transformer *t, const char *name, double flops)
{
    struct transformer_trace *trace = t->trace;
    if (!trace)
        return;
    int i = 0;
    while (i < trace->count &&
           (strcmp(trace->items[i].name, name) || trace->items[i].phase != t->phase))
        i++;
    assert(i < (int)(sizeof trace->items / sizeof *trace->items));
    if (i == trace->count)
        trace->items[trace->count++] = (struct transformer_traced){ name, t->phase, 0, 0 };
    trace->items[i].flops += flops;
    trace->items[i].count++;
}

struct tensor transformer_weight(struct transformer *t, const struct parameter *weight)
{
    if (!weight->quantized.codes)
        return weight->value;
    struct tensor out = t->scratch.unpacked;
    out.rows = weight->value.rows;
    out.columns = weight->value.columns;
    transformer_note(t, "dequantize", 0);
    t->device->backend->dequantize(t->device, out, &weight->quantized);
    return out;
}

static double head_flops(const struct transformer *t, int64_t rows)
{
    return 2.0 * (double)rows * (double)t->decoder->model.width *
           (double)t->decoder->model.vocabulary;
}

// The head and the loss on some of the labelled rows; the gradients follow at once, while the
// logits are there.
static double score_rows(struct transformer *t, const struct micro_batch *batch, int64_t first,
                         int64_t rows, double scale)
{
    const struct backend *backend = t->device->backend;
    struct transformer_scratch *s = &t->scratch;
    struct tensor picked = tensor_rows(s->picked, first, rows);
    struct tensor logits = tensor_rows(s->logits, 0, rows);
    double sum = 0;
    t->phase = STEP_FORWARD;
    transformer_note(t, "head", head_flops(t, rows));
    backend->matmul_nt(t->device, logits, picked, t->head->value, 1, 0);
    transformer_note(t, "loss", 0);
    backend->cross_entropy(t->device, t->losses + first, logits, batch->targets + first, scale);
    for (int64_t i = 0; i < rows; i++)
        sum += t->losses[first + i];
    if (!scale)
        return sum;
    t->phase = STEP_BACKWARD;
    transformer_note(t, "loss", 0);
    transformer_note(t, "head", head_flops(t, rows));
    backend->matmul_nn(t->device, tensor_rows(s->dpicked, first, rows), logits, t->head->value, 1,
                       0);
    if (t->head->gradient.at) {
        transformer_note(t, "head", head_flops(t, rows));
        backend->matmul_tn(t->device, t->head->gradient, logits, picked, 1, 1);
    }
    return sum;
}

enum err transformer_loss(struct transformer *t, const struct micro_batch *batch, double scale,
                          double *loss)
{
    assert(batch->tokens <= t->setup.tokens && batch->labelled <= t->setup.labelled);
    assert(!scale || !t->setup.only_forward);
    const struct backend *backend = t->device->backend;
    transformer_run_forward(t, batch);
    backend->gather(t->device, tensor_rows(t->scratch.picked, 0, batch->labelled), t->hidden,
                    batch->rows);
    *loss = 0;
    for (int64_t first = 0; first < batch->labelled; first += t->scratch.logits.rows) {
        int64_t left = batch->labelled - first;
        *loss += score_rows(t, batch, first,
                            left < t->scratch.logits.rows ? left : t->scratch.logits.rows, scale);
    }
    return backend->sync(t->device);
}

void transformer_backward(struct transformer *t, const struct micro_batch *batch)
{
    transformer_run_backward(t, batch);
}

void transformer_logits(struct transformer *t, const struct micro_batch *batch, double *out)
{
    const struct backend *backend = t->device->backend;
    struct tensor picked = tensor_rows(t->scratch.picked, 0, batch->labelled);
    transformer_run_forward(t, batch);
    backend->gather(t->device, picked, t->hidden, batch->rows);
    for (int64_t i = 0; i < batch->labelled; i++) {
        struct tensor logits = tensor_rows(t->scratch.logits, 0, 1);
        backend->matmul_nt(t->device, logits, tensor_rows(picked, i, 1), t->head->value, 1, 0);
        tensor_load(out + i * logits.columns, logits, 0, 0, logits.columns);
    }
}

struct tensor transformer_gradients(const struct transformer *t)
{
    enum dtype type = t->setup.compute == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    return tensor_of(t->blocks.at[BLOCKS_GRADIENTS], type, 1,
                     t->blocks.bytes[BLOCKS_GRADIENTS] / dtype_bytes(type));
}
