// SPDX-License-Identifier: Apache-2.0
// Loads and saves weights and adapters of a transformer.

#include "train/transformer_files.h"

#include "host/file.h"
#include "train/files/direct.h"
#include "train/transformer_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- reading -----------------------------------------------------------------

static enum err load_weight(struct transformer *t, const struct weights_item *item,
                            const void *stored, struct arena *scratch)
{
    struct parameter *p = transformer_find(t, item->slot.file_name);
    if (!p || tensor_count(p->value) != weights_elements(&item->slot))
        return fail(ERR_INPUT, "%s: the engine has no weight of this name and size",
                    item->slot.file_name);
    if (!item->nf4 && !item->stacked) {
        transformer_set(t, p, item->tensor->type, stored);
        return OK;
    }
    if (item->nf4 && transformer_set_nf4(t, p, item->nf4))
        return OK;
    int64_t count = weights_elements(&item->slot);
    float *values = ARENA_NEW(scratch, float, count);
    if (item->stacked)
        stacked_read(values, item->stacked, stored, 0, count);
    else
        weights_read(values, item, 0, count);
    transformer_set(t, p, STORAGE_F32, values);
    return OK;
}

// Codes of NF4 lie beside their scales and are used where they are mapped. Of a stacked weight only
// the expert's own bytes are read.
static struct direct_part part_of(const struct weights *weights, const struct weights_item *item)
{
    const struct safetensors_tensor *tensor = item->tensor;
    struct direct_part part = { .bytes = tensor->bytes, .mapped = weights_at(item) };
    if (!item->nf4)
        part.path = safetensors_place(&weights->file, tensor, &part.offset);
    if (item->stacked) {
        part.bytes = stacked_bytes(item->stacked);
        part.offset += (size_t)(part.mapped - tensor->at);
    }
    return part;
}

static enum err load_weights(struct transformer *t, const struct weights *weights,
                             struct direct *files)
{
    enum err err = OK;
    for (size_t i = 0; i < weights->count && !err; i++) {
        struct arena scratch = { 0 };
        const struct weights_item *item = &weights->items[i];
        const char *stored = direct_next(files);
        err = weights_check_values(weights, item, stored);
        err = err ? err : load_weight(t, item, stored, &scratch);
        arena_release(&scratch);
    }
    return err;
}

enum err transformer_load(struct transformer *t, const struct weights *weights)
{
    struct arena scratch = { 0 };
    struct direct_part *parts = ARENA_NEW(&scratch, struct direct_part, weights->count);
    for (size_t i = 0; i < weights->count; i++)
        parts[i] = part_of(weights, &weights->items[i]);
    struct direct *files = direct_open(parts, weights->count);
    enum err err = files ? load_weights(t, weights, files)
                         : fail(ERR_MEMORY, "out of memory; cannot read the weights");
    direct_close(files);
    arena_release(&scratch);
    return err ? err : t->device->backend->sync(t->device);
}

// --- adapters ----------------------------------------------------------------

static const char *const prefix = "base_model.model.";

// "base_model.model.X.lora_A.weight" → "X"
static const char *module_of(struct arena *arena, const struct parameter *a)
{
    const char *start = a->name + strlen(prefix), *end = strstr(start, ".lora_A");
    return arena_copy(arena, start, (size_t)(end - start));
}

static const float *values_of(struct transformer *t, struct arena *arena, struct tensor in)
{
    float *out = ARENA_NEW(arena, float, tensor_count(in));
    transformer_get(t, in, out);
    return out;
}

enum err transformer_save_adapter(struct transformer *t, struct arena *arena, const char *folder,
                                  const char *base)
{
    struct adapter_file_factors *factors =
        ARENA_NEW(arena, struct adapter_file_factors, t->parameter_count);
    struct adapter_file_config config = transformer_adapter_config(t->setup.recipe);
    config.base = base;
    size_t count = 0;
    for (size_t i = 0; i < t->parameter_count; i++) {
        const struct parameter *a = &t->parameters[i], *b = a + 1; // magnitudes follow
        if (!a->is_adapter || a->start != PARAMETER_KAIMING)
            continue;
        factors[count++] =
            (struct adapter_file_factors){ module_of(arena, a),
                                           a->value.columns,
                                           b->value.rows,
                                           values_of(t, arena, a->master),
                                           values_of(t, arena, b->master),
                                           config.has_magnitudes ? values_of(t, arena, a[2].master)
                                                                 : NULL };
    }
    struct adapter_file_whole whole[2];
    size_t whole_count = 0;
    struct parameter *ends[] = { t->embedding, t->head };
    for (int i = 0; t->setup.recipe->trains_embeddings && i < 2; i++)
        whole[whole_count++] =
            (struct adapter_file_whole){ ends[i]->name,
                                         2,
                                         { ends[i]->value.rows, ends[i]->value.columns },
                                         values_of(t, arena, ends[i]->master) };
    return adapter_file_write(folder, arena, &config,
                              &(struct adapter_file_content){
                                  .factors = factors,
                                  .factor_count = count,
                                  .whole = whole,
                                  .whole_count = whole_count,
                                  .type = STORAGE_F32,
                                  .stacked_experts = t->decoder->architecture->stacks_experts
                                                         ? t->decoder->model.experts
                                                         : 0,
                              });
}

static enum err check_count(const struct parameter *p, const char *name, int64_t count)
{
    return count == tensor_count(p->value)
               ? OK
               : fail(ERR_INPUT, "%s: has %lld elements, expected %lld", name, (long long)count,
                      (long long)tensor_count(p->value));
}

static enum err set_factor(struct transformer *t, struct parameter *p,
                           const struct safetensors_tensor *in)
{
    TRY(check_count(p, in->name, safetensors_elements(in)));
    transformer_set(t, p, in->type, in->at);
    return OK;
}

// Embedding and head, where they are trained beside the adapters.
static enum err set_saved(struct transformer *t, const struct adapter_file *in)
{
    for (size_t i = 0; i < in->saved_count; i++) {
        struct parameter *p = transformer_find(t, in->saved[i].name);
        if (!p || !p->master.at)
            return fail(ERR_INPUT, "%s: holds %s, which this run does not train%s", in->folder,
                        in->saved[i].name, p ? "; give --trains-embeddings" : "");
        TRY(set_factor(t, p, in->saved[i].tensor));
    }
    return OK;
}

static enum err set_module(struct transformer *t, struct arena *arena,
                           const struct adapter_file *in, const struct adapter_file_module *m)
{
    static const char *const names[] = { "A.weight", "B.weight", "magnitude_vector" };
    const float *values[] = { adapter_file_a(arena, m), adapter_file_b(arena, m) };
    int64_t counts[] = { in->config.rank * m->in, m->out * in->config.rank };
    for (int i = 0; i < (m->magnitude ? 3 : 2); i++) {
        struct parameter *p =
            transformer_find(t, text_format(arena, "%s%s.lora_%s", prefix, m->name, names[i]));
        if (!p)
            return fail(ERR_INPUT, "%s: adapts %s, this run does not; give the same --targets",
                        in->folder, m->name);
        if (i == 2)
            return set_factor(t, p, m->magnitude);
        TRY(check_count(p, m->name, counts[i]));
        transformer_set(t, p, STORAGE_F32, values[i]);
    }
    return OK;
}

static enum err set_adapter(struct transformer *t, struct arena *arena,
                            const struct adapter_file *in)
{
    if (in->config.rank != t->setup.recipe->rank ||
        in->config.has_magnitudes != t->setup.recipe->dora ||
        fabs(adapter_file_scale(&in->config) - t->adapter_scale) > 1e-9)
        return fail(
            ERR_INPUT,
            "%s: has rank %lld and scale %g%s, this run has %lld and %g; give the same --rank "
            "and --alpha, and --rslora or --dora if it was trained with them",
            in->folder, (long long)in->config.rank, adapter_file_scale(&in->config),
            in->config.has_magnitudes ? " and DoRA" : "", (long long)t->setup.recipe->rank,
            t->adapter_scale);
    for (size_t i = 0; i < in->module_count; i++) {
        struct arena_mark mark = arena_mark(arena);
        TRY(set_module(t, arena, in, &in->modules[i]));
        arena_rewind(arena, mark);
    }
    return set_saved(t, in);
}

enum err transformer_load_adapter(struct transformer *t, struct arena *arena, const char *folder)
{
    struct adapter_file in;
    TRY(adapter_file_open(&in, arena, folder));
    enum err err = set_adapter(t, arena, &in);
    adapter_file_release(&in);
    return err;
}

// --- whole models ------------------------------------------------------------

static enum err write_weights(struct transformer *t, struct weights_writer *out,
                              const struct weights_slot *slots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct arena scratch = { 0 };
        struct parameter *p = transformer_find(t, slots[i].file_name);
        enum err err =
            p ? weights_write(out, i, 0, values_of(t, &scratch, p->value), tensor_count(p->value))
              : fail(ERR_BUG, "%s: is not in the engine", slots[i].file_name);
        arena_release(&scratch);
        if (err)
            return err;
    }
    return weights_finish(out);
}

static enum err write_config(struct transformer *t, struct arena *arena, const char *folder,
                             enum storage type)
{
    struct out document = { .arena = arena };
    struct json_writer w = { .out = &document };
    decoder_write(t->decoder, &w, storage_torch_name(type));
    out_char(&document, '\n');
    return file_write(text_format(arena, "%s/config.json", folder), out_view(&document));
}

enum err transformer_save(struct transformer *t, struct arena *arena, const char *folder,
                          const char *base)
{
    struct weights_slot *slots;
    size_t count;
    enum storage type = t->setup.compute == DTYPE_BF16 ? STORAGE_BF16 : STORAGE_F32;
    TRY(weights_list(&slots, &count, arena, &t->decoder->model, type));
    struct weights_writer out;
    TRY(weights_create(&out, arena, folder, slots, count));
    enum err err = write_weights(t, &out, slots, count);
    weights_release_writer(&out);
    TRY(err);
    return base ? weights_copy_config(base, folder, arena, type)
                : write_config(t, arena, folder, type);
}
