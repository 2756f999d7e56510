// SPDX-License-Identifier: Apache-2.0
// Writes a model folder: weights, config.json and tokenizer.

#include "train/files/weights.h"

#include "host/folder.h"

#include <stdlib.h>
#include <string.h>

// The tensor of all experts is declared with the first one's weight.
static size_t declare_stacked(struct weights_writer *out, struct arena *arena, size_t slot)
{
    const struct weights_slot *s = &out->slots[slot], *before = s;
    int64_t expert, matrix[] = { s->stacked, s->shape[1], s->shape[0] };
    int64_t bias[] = { s->stacked, s->shape[0] };
    if (!s->expert)
        return safetensors_declare(&out->file, stacked_name(arena, s->file_name, &expert), s->type,
                                   s->rank + 1, s->bias ? bias : matrix);
    do
        before--;
    while (before->expert != s->expert - 1 || before->bias != s->bias ||
           strcmp(before->part, s->part) != 0);
    return out->tensors[before - out->slots];
}

enum err weights_create(struct weights_writer *out, struct arena *arena, const char *folder,
                        const struct weights_slot *slots, size_t count)
{
    *out = (struct weights_writer){ .slots = slots, .tensors = ARENA_NEW(arena, size_t, count) };
    safetensors_init(&out->file, arena, folder, "model");
    for (size_t i = 0; i < count; i++)
        out->tensors[i] = slots[i].stacked
                              ? declare_stacked(out, arena, i)
                              : safetensors_declare(&out->file, slots[i].file_name, slots[i].type,
                                                    slots[i].rank, slots[i].shape);
    return safetensors_begin(&out->file);
}

// Rows of the matrix are spread over the file: it is written as a whole.
static enum err write_stacked(struct weights_writer *out, size_t slot, const float *values,
                              int64_t count)
{
    const struct weights_slot *s = &out->slots[slot];
    struct stacked place = weights_stacked(s);
    int64_t all = weights_elements(s);
    if (!out->filled)
        out->stacked = realloc(out->stacked, 2 * (size_t)all * sizeof *out->stacked);
    if (!out->stacked)
        return fail(ERR_MEMORY, "out of memory; cannot write %s", s->file_name);
    memcpy(out->stacked + out->filled, values, (size_t)count * sizeof *values);
    out->filled += count;
    if (out->filled < all)
        return OK;
    out->filled = 0;
    stacked_arrange(out->stacked + all, &place, out->stacked);
    return safetensors_write_floats(&out->file, out->tensors[slot], s->expert * all,
                                    out->stacked + all, all);
}

enum err weights_write(struct weights_writer *out, size_t slot, int64_t first, const float *values,
                       int64_t count)
{
    return out->slots[slot].stacked
               ? write_stacked(out, slot, values, count)
               : safetensors_write_floats(&out->file, out->tensors[slot], first, values, count);
}

enum err weights_finish(struct weights_writer *out)
{
    return safetensors_finish(&out->file);
}

void weights_release_writer(struct weights_writer *out)
{
    safetensors_release_writer(&out->file);
    free(out->stacked);
    *out = (struct weights_writer){ 0 };
}

// --- config and tokenizer ----------------------------------------------------

// Copies each member as the file spells it, so that no number is rounded.
static enum err edit_config(struct out *out, struct text json, enum storage type, const char *path)
{
    struct json_reader in = json_reader(json);
    bool first = true;
    json_object(&in);
    out_put(out, "{");
    for (struct text key; json_key(&in, out->arena, &key);) {
        struct text value = json_skip(&in);
        if (text_is(key, "quantization_config"))
            continue;
        out_put(out, "%s\n  ", first ? "" : ",");
        json_quote(out, key);
        out_put(out, ": ");
        if (text_is(key, "torch_dtype") || text_is(key, "dtype"))
            out_put(out, "\"%s\"", storage_torch_name(type));
        else
            out_bytes(out, value.at, value.size);
        first = false;
    }
    out_put(out, "\n}\n");
    return json_end(&in, path);
}

static const char *const copied[] = {
    "config.json",        "generation_config.json",  "tokenizer.json",
    "tokenizer.model",    "tokenizer_config.json",   "vocab.json",
    "merges.txt",         "special_tokens_map.json", "added_tokens.json",
    "chat_template.json", "chat_template.jinja",
};
enum { COPIED = sizeof copied / sizeof *copied };

enum err weights_check_config(const char *folder, struct arena *arena)
{
    for (size_t i = 0; i < COPIED; i++) {
        const char *path = text_format(arena, "%s/%s", folder, copied[i]);
        if (folder_has(folder, copied[i]) && !file_lies_in(path, folder))
            return fail(ERR_INPUT,
                        "%s: is a link that leads out of the model's folder, and the file would "
                        "be copied beside the new weights; put a copy of it there if you trust it",
                        path);
    }
    return OK;
}

static enum err copy_one(const char *from, const char *to, struct arena *arena, const char *name,
                         enum storage type)
{
    struct file file;
    struct out config = { .arena = arena };
    const char *path = text_format(arena, "%s/%s", from, name);
    bool is_config = !strcmp(name, "config.json");
    TRY(file_open(&file, path));
    enum err err = is_config ? edit_config(&config, file.text, type, path) : OK;
    if (!err)
        err = file_write(text_format(arena, "%s/%s", to, name),
                         is_config ? out_view(&config) : file.text);
    file_close(&file);
    return err;
}

enum err weights_copy_config(const char *from_folder, const char *to_folder, struct arena *arena,
                             enum storage type)
{
    TRY(weights_check_config(from_folder, arena));
    for (size_t i = 0; i < COPIED; i++)
        if (!i || folder_has(from_folder, copied[i])) // without config.json there is no model
            TRY(copy_one(from_folder, to_folder, arena, copied[i], type));
    return OK;
}
