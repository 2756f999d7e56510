// SPDX-License-Identifier: Apache-2.0
// Maps the weights of a model folder and checks them against config.json.

#include "train/files/weights.h"

#include "base/checksum.h"
#include "train/files/architecture.h"

#include <stdlib.h>
#include <string.h>

// --- slots -------------------------------------------------------------------

const char *weights_path(struct arena *arena, const struct model *model, const char *part,
                         int64_t layer, int64_t expert)
{
    const char *theirs = architecture_spelling(architecture_of(model), part);
    if (!theirs)
        return NULL;
    const char *number = strstr(theirs, "%lld"); // of the expert
    return number ? text_format(arena, "model.layers.%lld.%.*s%lld%s", (long long)layer,
                                (int)(number - theirs), theirs, (long long)expert,
                                number + strlen("%lld"))
                  : text_format(arena, "model.layers.%lld.%s", (long long)layer, theirs);
}

int64_t weights_elements(const struct weights_slot *slot)
{
    return slot->rank == 2 ? slot->shape[0] * slot->shape[1] : slot->shape[0];
}

const char *weights_module(struct arena *arena, const struct weights_slot *slot)
{
    return arena_copy(arena, slot->file_name, strlen(slot->file_name) - strlen(".weight"));
}

struct stacked weights_stacked(const struct weights_slot *slot)
{
    return (struct stacked){ .experts = slot->stacked,
                             .rows = slot->shape[0],
                             .columns = slot->shape[1],
                             .alternates = !strcmp(slot->part, "expert_gate_up"),
                             .expert = slot->expert };
}

struct list {
    struct arena *arena;
    struct weights_slot *slots;
    size_t count;
    enum storage type;
};

static void add(struct list *list, const char *name, const char *file_name, const char *part,
                int64_t layer, int64_t rows, int64_t columns)
{
    list->slots[list->count++] = (struct weights_slot){
        .name = name,
        .file_name = file_name,
        .part = part,
        .layer = layer,
        .expert = -1,
        .rank = columns ? 2 : 1,
        .shape = { rows, columns },
        .type = list->type,
    };
}

static void add_of_layer(struct list *list, const struct model *model, const char *part,
                         int64_t layer, int64_t expert, int64_t rows, int64_t columns, bool bias)
{
    const char *number = expert < 0 ? "" : text_format(list->arena, ".%lld", (long long)expert);
    add(list,
        text_format(list->arena, "layers.%lld.%s%s%s", (long long)layer, part, number,
                    bias ? ".bias" : ""),
        text_format(list->arena, "%s.%s", weights_path(list->arena, model, part, layer, expert),
                    bias ? "bias" : "weight"),
        part, layer, rows, columns);
    list->slots[list->count - 1].bias = bias;
    list->slots[list->count - 1].expert = expert;
    if (expert >= 0 && architecture_of(model)->stacks_experts)
        list->slots[list->count - 1].stacked = model->experts;
}

static void add_sinks(struct list *list, const struct model *model, int64_t layer)
{
    add(list, text_format(list->arena, "layers.%lld.sinks", (long long)layer),
        weights_path(list->arena, model, "sinks", layer, -1), "sinks", layer, model->heads, 0);
}

static void add_layer(struct list *list, const struct model *model, int64_t layer)
{
    struct model_linear linears[MODEL_LINEARS];
    struct model_norm norms[MODEL_NORMS];
    size_t linear_count = model_linears(model, model_layer(model, layer), linears);
    size_t norm_count = model_norms(model, norms);
    for (size_t i = 0; i < norm_count; i++)
        add_of_layer(list, model, norms[i].name, layer, -1, norms[i].size, 0, false);
    if (model->attention_sinks)
        add_sinks(list, model, layer);
    for (size_t i = 0; i < linear_count; i++) {
        const struct model_linear *l = &linears[i];
        for (int64_t j = 0; j < l->count; j++) {
            int64_t expert = l->role == MODEL_EXPERT ? j : -1;
            add_of_layer(list, model, l->name, layer, expert, l->out, l->in, false);
            if (l->bias)
                add_of_layer(list, model, l->name, layer, expert, l->out, 0, true);
        }
    }
}

static size_t most_in_layer(const struct model *model)
{
    return 1 + MODEL_NORMS + 2 * MODEL_LINEARS + 6 * (size_t)model->experts;
}

enum err weights_list(struct weights_slot **out, size_t *count, struct arena *arena,
                      const struct model *model, enum storage type)
{
    const char *foreign = architecture_foreign(architecture_of(model), model);
    if (foreign)
        return fail(ERR_UNAVAILABLE, "%s: has %s; the engine trains models of the types %s",
                    model->name, foreign, architecture_types(arena));
    size_t room = 3 + (size_t)model->layers * most_in_layer(model);
    struct list list = { arena, ARENA_NEW(arena, struct weights_slot, room), 0, type };
    add(&list, "embedding", "model.embed_tokens.weight", "embedding", -1, model->vocabulary,
        model->width);
    for (int64_t i = 0; i < model->layers; i++)
        add_layer(&list, model, i);
    add(&list, "final_norm", "model.norm.weight", "final_norm", -1, model->width, 0);
    if (!model->tied_embeddings)
        add(&list, "head", "lm_head.weight", "head", -1, model->vocabulary, model->width);
    *out = list.slots;
    *count = list.count;
    return OK;
}

// --- one weight of a file ----------------------------------------------------

static enum err map_quantized(struct weights *w, struct arena *arena, struct weights_item *item)
{
    const struct weights_slot *slot = &item->slot;
    struct nf4 *nf4 = ARENA_NEW(arena, struct nf4, 1);
    TRY(nf4_read(nf4, arena, &w->file, slot->file_name));
    if (slot->rank != 2 || nf4->rows != slot->shape[0] || nf4->columns != slot->shape[1])
        return fail(ERR_INPUT, "%s: is quantized from [%lld, %lld], but config.json needs %s",
                    slot->file_name, (long long)nf4->rows, (long long)nf4->columns,
                    safetensors_shape(arena, slot->rank, slot->shape));
    item->nf4 = nf4;
    item->slot.type = nf4->type;
    w->quantized = true;
    return OK;
}

static enum err map_stacked(struct weights *w, struct arena *arena, struct weights_item *item)
{
    struct stacked *stacked = ARENA_NEW(arena, struct stacked, 1);
    *stacked = weights_stacked(&item->slot);
    TRY(stacked_find(stacked, arena, &w->file, item->slot.file_name));
    item->stacked = stacked;
    item->tensor = stacked->tensor;
    item->slot.type = stacked->scales ? STORAGE_BF16 : stacked->tensor->type;
    w->quantized |= stacked->scales != NULL;
    return OK;
}

static enum err map_item(struct weights *w, struct arena *arena, struct weights_item *item)
{
    const struct weights_slot *slot = &item->slot;
    if (slot->stacked)
        return map_stacked(w, arena, item);
    const struct safetensors_tensor *t = safetensors_find(&w->file, slot->file_name);
    if (!t)
        return fail(ERR_INPUT, "%s: is not in the files, but config.json needs it in shape %s",
                    slot->file_name, safetensors_shape(arena, slot->rank, slot->shape));
    item->tensor = t;
    if (nf4_is(&w->file, slot->file_name))
        return map_quantized(w, arena, item);
    if (!storage_is_real(t->type))
        return fail(ERR_INPUT, "%s: is stored as %s; F64, F32, F16, BF16 and NF4 can be read",
                    slot->file_name, storage_name(t->type));
    if (t->rank != slot->rank || t->shape[0] != slot->shape[0] ||
        (t->rank == 2 && t->shape[1] != slot->shape[1]))
        return fail(ERR_INPUT, "%s: has shape %s, but config.json needs %s", slot->file_name,
                    safetensors_shape(arena, t->rank, t->shape),
                    safetensors_shape(arena, slot->rank, slot->shape));
    item->slot.type = t->type;
    return OK;
}

// --- a folder ----------------------------------------------------------------

static enum err read_config(struct weights *w, struct arena *arena)
{
    const char *path = text_format(arena, "%s/config.json", w->folder);
    struct text json;
    // A copy: texts of the model point into it.
    TRY(file_read(&json, arena, path));
    TRY(model_read_config(&w->model, arena, json, path));
    if (architecture_find(text_of(w->model.family)))
        return OK;
    return fail(ERR_UNAVAILABLE, "%s: the engine cannot train model_type \"%s\"; it trains %s",
                path, w->model.family, architecture_types(arena));
}

static int by_file_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// An unexpected tensor is a part of the model that would silently be ignored: refuse it. Exceptions
// are the rotary frequencies of old files, and the head of models with tied embeddings.
static enum err refuse_unexpected(const struct weights *w, struct arena *arena)
{
    const char **names = ARENA_NEW(arena, const char *, 2 * w->count);
    size_t count = 0;
    for (size_t i = 0; i < w->count; i++) {
        names[count++] = w->items[i].tensor->name;
        if (w->items[i].stacked && w->items[i].stacked->scales)
            names[count++] = w->items[i].stacked->scales->name;
    }
    qsort(names, count, sizeof *names, by_file_name);
    for (size_t i = 0; i < w->file.count; i++) {
        const char *name = w->file.tensors[i].name;
        bool tied_head = w->model.tied_embeddings && !strcmp(name, "lm_head.weight");
        if (!bsearch(&name, names, count, sizeof *names, by_file_name) && !tied_head &&
            !nf4_is_part(name) && !text_ends(text_of(name), ".rotary_emb.inv_freq"))
            return fail(ERR_INPUT, "%s: holds %.80s, which a model of this config does not have",
                        w->folder, name);
    }
    return OK;
}

static enum err map_items(struct weights *w, struct arena *arena)
{
    struct weights_slot *slots;
    TRY(weights_list(&slots, &w->count, arena, &w->model, STORAGE_BF16));
    w->items = ARENA_NEW(arena, struct weights_item, w->count);
    for (size_t i = 0; i < w->count; i++) {
        w->items[i].slot = slots[i];
        enum err err = map_item(w, arena, &w->items[i]);
        if (err)
            return error_prefix(err, "%s: ", w->folder);
    }
    return refuse_unexpected(w, arena);
}

enum err weights_open(struct weights *out, struct arena *arena, const char *folder)
{
    *out = (struct weights){ .folder = folder };
    TRY(read_config(out, arena));
    TRY(safetensors_open(&out->file, arena, folder));
    enum err err = map_items(out, arena);
    if (err)
        weights_release(out);
    return err;
}

void weights_release(struct weights *weights)
{
    safetensors_release(&weights->file);
    *weights = (struct weights){ 0 };
}

const struct weights_item *weights_find(const struct weights *weights, const char *name)
{
    for (size_t i = 0; i < weights->count; i++)
        if (!strcmp(weights->items[i].slot.name, name))
            return &weights->items[i];
    return NULL;
}

uint64_t weights_sum(const struct weights *weights, uint64_t seed)
{
    enum { WHOLE = 1 << 18, SAMPLE = 1 << 16 };
    for (size_t i = 0; i < weights->file.count; i++) {
        const struct safetensors_tensor *t = &weights->file.tensors[i];
        size_t size = t->bytes > WHOLE ? SAMPLE : t->bytes;
        seed = checksum(text_of(t->name), seed + (uint64_t)t->bytes);
        seed = checksum((struct text){ t->at, size }, seed);
        if (size < t->bytes) {
            seed = checksum((struct text){ t->at + t->bytes / 2, size }, seed);
            seed = checksum((struct text){ t->at + t->bytes - size, size }, seed);
        }
    }
    return seed;
}

enum err weights_check_values(const struct weights *weights, const struct weights_item *item,
                              const void *values)
{
    size_t count = (size_t)weights_elements(&item->slot);
    if (item->nf4) // its scales were checked when it was read
        return OK;
    if (item->stacked)
        return stacked_is_finite(item->stacked, values)
                   ? OK
                   : fail(ERR_INPUT,
                          "%s: %s: expert %lld has a value that is no finite number; "
                          "the file is broken",
                          weights->folder, item->tensor->name, (long long)item->slot.expert);
    size_t bad = storage_first_not_finite(item->tensor->type, values, count);
    if (bad == count)
        return OK;
    return fail(ERR_INPUT, "%s: %s: element %zu is not a finite number; the file is broken",
                weights->folder, item->slot.file_name, bad);
}

const char *weights_at(const struct weights_item *item)
{
    return item->stacked ? stacked_at(item->stacked) : item->tensor->at;
}

enum err weights_check_finite(const struct weights *weights)
{
    for (size_t i = 0; i < weights->count; i++)
        TRY(weights_check_values(weights, &weights->items[i], weights_at(&weights->items[i])));
    return OK;
}

void weights_read(float *out, const struct weights_item *item, int64_t first, int64_t count)
{
    if (item->nf4) {
        nf4_dequantize(out, item->nf4, first, count);
        return;
    }
    if (item->stacked) {
        stacked_read(out, item->stacked, stacked_at(item->stacked), first, count);
        return;
    }
    const struct safetensors_tensor *t = item->tensor;
    storage_read(out, t->type, t->at + (size_t)first * storage_bytes(t->type), (size_t)count);
}
