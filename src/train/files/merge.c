// SPDX-License-Identifier: Apache-2.0
// Merges a LoRA adapter into its base: W + scale · B A, row by row, into a new model folder. With
// DoRA each row then gets the length that the adapter says.

#include "train/files/merge.h"

#include "host/staging.h"
#include "train/files/adapter_file.h"
#include "train/files/weights.h"

#include <math.h>
#include <string.h>

// A merge in progress. modules and saved are per slot: at most one of them applies to a weight.
struct merge {
    struct arena *arena;
    struct weights base;
    struct adapter_file adapter;
    struct weights_slot *slots;
    const struct adapter_file_module **modules;
    const struct adapter_file_saved **saved;
    struct weights_writer out;
    struct merge_report *report;
};

// --- matching ----------------------------------------------------------------

static enum err match_module(struct merge *m, size_t slot, size_t *used)
{
    const struct weights_slot *s = &m->slots[slot];
    if (s->rank != 2)
        return OK;
    const char *name = weights_module(m->arena, s);
    const struct adapter_file_module *module = adapter_file_find(&m->adapter, name);
    if (!module)
        return OK;
    if (!strcmp(s->part, "embedding"))
        return fail(ERR_INPUT, "%s: adapts %s; factors on the embedding are not supported",
                    m->adapter.folder, name);
    if (module->out != s->shape[0] || module->in != s->shape[1])
        return fail(ERR_INPUT, "%s: adapts %s as [%lld, %lld], but the weight of the base is %s",
                    m->adapter.folder, name, (long long)module->out, (long long)module->in,
                    safetensors_shape(m->arena, 2, s->shape));
    m->modules[slot] = module;
    ++*used;
    return OK;
}

static enum err match_saved(struct merge *m, size_t slot, size_t *used)
{
    const struct weights_slot *s = &m->slots[slot];
    const struct adapter_file_saved *saved = adapter_file_find_saved(&m->adapter, s->file_name);
    if (!saved)
        return OK;
    const struct safetensors_tensor *t = saved->tensor;
    if (t->rank != s->rank || t->shape[0] != s->shape[0] ||
        (s->rank == 2 && t->shape[1] != s->shape[1]))
        return fail(ERR_INPUT, "%s: saves %s as %s, but the base has %s", m->adapter.folder,
                    s->file_name, safetensors_shape(m->arena, t->rank, t->shape),
                    safetensors_shape(m->arena, s->rank, s->shape));
    m->saved[slot] = saved;
    ++*used;
    return OK;
}

// A part of the adapter that matches no weight would be lost silently: refuse it.
static enum err name_unused(const struct merge *m)
{
    const struct adapter_file *a = &m->adapter;
    const char *tied = m->base.model.tied_embeddings ? "; its head is tied to the embedding" : "";
    for (size_t i = 0; i < a->module_count; i++) {
        bool found = false;
        for (size_t k = 0; k < m->base.count && !found; k++)
            found = m->modules[k] == &a->modules[i];
        if (!found)
            return fail(ERR_INPUT, "%s: adapts %s, which %s does not have%s", a->folder,
                        a->modules[i].name, m->base.folder, tied);
    }
    for (size_t i = 0; i < a->saved_count; i++) {
        bool found = false;
        for (size_t k = 0; k < m->base.count && !found; k++)
            found = m->saved[k] == &a->saved[i];
        if (!found)
            return fail(ERR_INPUT, "%s: saves %s, which %s does not have%s", a->folder,
                        a->saved[i].name, m->base.folder, tied);
    }
    return OK;
}

static enum err match(struct merge *m)
{
    size_t used = 0, count = m->base.count;
    m->slots = ARENA_NEW(m->arena, struct weights_slot, count);
    m->modules = ARENA_NEW(m->arena, const struct adapter_file_module *, count);
    m->saved = ARENA_NEW(m->arena, const struct adapter_file_saved *, count);
    for (size_t i = 0; i < count; i++) {
        m->slots[i] = m->base.items[i].slot;
        TRY(match_module(m, i, &used));
        TRY(match_saved(m, i, &used));
    }
    return used == m->adapter.module_count + m->adapter.saved_count ? OK : name_unused(m);
}

// --- the weights -------------------------------------------------------------

// rows += scale · B A, for rows first … first + count of W: (count, in), (count, rank), (rank, in).
static void add_product(float *rows, const float *b, const float *a, int64_t count, int64_t in,
                        int64_t rank, float scale)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < rank; k++) {
            float factor = scale * b[i * rank + k];
            for (int64_t j = 0; j < in; j++)
                rows[i * in + j] += factor * a[k * in + j];
        }
}

static void set_lengths(float *rows, const float *lengths, int64_t count, int64_t in)
{
    for (int64_t i = 0; i < count; i++) {
        double squares = 0;
        for (int64_t j = 0; j < in; j++)
            squares += (double)rows[i * in + j] * rows[i * in + j];
        float factor = squares > 0 ? (float)(lengths[i] / sqrt(squares)) : 1;
        for (int64_t j = 0; j < in; j++)
            rows[i * in + j] *= factor;
    }
}

static float *load_values(struct arena *arena, const struct safetensors_tensor *t)
{
    size_t count = (size_t)safetensors_elements(t);
    float *values = ARENA_NEW(arena, float, count);
    storage_read(values, t->type, t->at, count);
    return values;
}

static void read_rows(const struct merge *m, size_t slot, float *out, int64_t first, int64_t count)
{
    const struct adapter_file_saved *saved = m->saved[slot];
    if (!saved) {
        weights_read(out, &m->base.items[slot], first, count);
        return;
    }
    const struct safetensors_tensor *t = saved->tensor;
    storage_read(out, t->type, t->at + (size_t)first * storage_bytes(t->type), (size_t)count);
}

static enum err merge_weight(struct merge *m, size_t slot)
{
    enum { PIECE_ELEMENTS = 1 << 20 };
    const struct weights_slot *s = &m->slots[slot];
    const struct adapter_file_module *module = m->modules[slot];
    int64_t rows = s->shape[0], in = s->rank == 2 ? s->shape[1] : 1;
    int64_t piece = PIECE_ELEMENTS / in < 1 ? 1 : PIECE_ELEMENTS / in;
    piece = piece < rows ? piece : rows;
    int64_t rank = m->adapter.config.rank;
    float scale = (float)adapter_file_scale(&m->adapter.config);
    struct arena_mark mark = arena_mark(m->arena);
    float *values = ARENA_NEW(m->arena, float, piece *in);
    float *a = module ? adapter_file_a(m->arena, module) : NULL;
    float *b = module ? adapter_file_b(m->arena, module) : NULL;
    float *lengths = module && module->magnitude ? load_values(m->arena, module->magnitude) : NULL;
    enum err err = OK;
    for (int64_t row = 0; row < rows && !err; row += piece) {
        int64_t here = rows - row < piece ? rows - row : piece;
        read_rows(m, slot, values, row * in, here * in);
        if (module)
            add_product(values, b + row * rank, a, here, in, rank, scale);
        if (lengths)
            set_lengths(values, lengths + row, here, in);
        err = weights_write(&m->out, slot, row * in, values, here * in);
    }
    arena_rewind(m->arena, mark);
    *(module           ? &m->report->folded
      : m->saved[slot] ? &m->report->replaced
                       : &m->report->copied) += 1;
    m->report->bytes += (double)weights_elements(s) * (double)storage_bytes(s->type);
    return err;
}

static enum err write_folder(struct merge *m, const char *folder)
{
    enum err err = weights_create(&m->out, m->arena, folder, m->slots, m->base.count);
    for (size_t i = 0; i < m->base.count && !err; i++)
        err = merge_weight(m, i);
    err = err ? err : weights_finish(&m->out);
    weights_release_writer(&m->out);
    TRY(err);
    return weights_copy_config(m->base.folder, folder, m->arena, m->slots[0].type);
}

static enum err fold(struct merge *m, const char *adapter_folder, const char *out_folder)
{
    TRY(weights_check_config(m->base.folder, m->arena));
    TRY(adapter_file_open(&m->adapter, m->arena, adapter_folder));
    TRY(weights_check_finite(&m->base));
    TRY(match(m));
    m->report->dequantized = m->base.quantized;
    struct staging staging;
    enum err err = staging_open(&staging, m->arena, out_folder);
    err = err ? err : write_folder(m, staging.temporary);
    err = err ? err : staging_commit(&staging);
    staging_release(&staging);
    return err;
}

enum err merge_fold(struct merge_report *report, struct arena *arena, const char *model_folder,
                    const char *adapter_folder, const char *out_folder)
{
    struct merge merge = { .arena = arena, .report = report };
    *report = (struct merge_report){ 0 };
    TRY(weights_open(&merge.base, arena, model_folder));
    enum err err = fold(&merge, adapter_folder, out_folder);
    adapter_file_release(&merge.adapter);
    weights_release(&merge.base);
    return err;
}
