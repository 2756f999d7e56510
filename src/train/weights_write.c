// SPDX-License-Identifier: Apache-2.0
// Writes a model folder: weights, config.json and tokenizer.

#include "train/weights.h"

#include "host/folder.h"

#include <string.h>

enum err weights_create(struct weights_writer *out, struct arena *arena, const char *folder,
                        const struct weights_slot *slots, size_t count)
{
    safetensors_init(&out->file, arena, folder, "model");
    for (size_t i = 0; i < count; i++)
        safetensors_declare(&out->file, slots[i].file_name, slots[i].type, slots[i].rank,
                            slots[i].shape);
    return safetensors_begin(&out->file);
}

enum err weights_write(struct weights_writer *out, size_t slot, int64_t first, const float *values,
                       int64_t count)
{
    return safetensors_write_floats(&out->file, slot, first, values, count);
}

enum err weights_finish(struct weights_writer *out)
{
    return safetensors_finish(&out->file);
}

void weights_release_writer(struct weights_writer *out)
{
    safetensors_release_writer(&out->file);
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

static enum err copy_config(const char *from, const char *to, struct arena *arena,
                            enum storage type)
{
    struct file file;
    struct out out = { .arena = arena };
    const char *path = text_format(arena, "%s/config.json", from);
    TRY(file_open(&file, path));
    enum err err = edit_config(&out, file.text, type, path);
    file_close(&file);
    TRY(err);
    return file_write(text_format(arena, "%s/config.json", to), out_view(&out));
}

enum err weights_copy_config(const char *from_folder, const char *to_folder, struct arena *arena,
                             enum storage type)
{
    static const char *const names[] = {
        "generation_config.json",  "tokenizer.json",    "tokenizer_config.json",
        "tokenizer.model",         "vocab.json",        "merges.txt",
        "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
        "chat_template.json",
    };
    TRY(copy_config(from_folder, to_folder, arena, type));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!folder_has(from_folder, names[i]))
            continue;
        struct file file;
        TRY(file_open(&file, text_format(arena, "%s/%s", from_folder, names[i])));
        enum err err = file_write(text_format(arena, "%s/%s", to_folder, names[i]), file.text);
        file_close(&file);
        TRY(err);
    }
    return OK;
}
