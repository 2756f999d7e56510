// SPDX-License-Identifier: Apache-2.0
// Writes adapters in PEFT's format.

#include "train/files/adapter_file.h"

#include <stdlib.h>
#include <string.h>

// --- config ------------------------------------------------------------------

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Each name once, sorted: the same adapter gives the same bytes.
static void put_names(struct json_writer *w, const char *key, const char **names, size_t count)
{
    if (!count) {
        json_put_string(w, key, NULL);
        return;
    }
    qsort(names, count, sizeof *names, by_text);
    json_open(w, key, '[');
    for (size_t i = 0; i < count; i++)
        if (!i || strcmp(names[i - 1], names[i]))
            json_put_string(w, NULL, names[i]);
    json_close(w, ']');
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static const char **target_names(struct arena *arena, const struct adapter_file_content *content)
{
    const char **names = ARENA_NEW(arena, const char *, content->factor_count + 1);
    for (size_t i = 0; i < content->factor_count; i++)
        names[i] = last_part(content->factors[i].name);
    return names;
}

// "model.embed_tokens.weight" → "embed_tokens"
static const char **saved_names(struct arena *arena, const struct adapter_file_content *content)
{
    const char **names = ARENA_NEW(arena, const char *, content->whole_count + 1);
    for (size_t i = 0; i < content->whole_count; i++) {
        const char *name = content->whole[i].name, *dot = strrchr(name, '.');
        names[i] = last_part(dot ? arena_copy(arena, name, (size_t)(dot - name)) : name);
    }
    return names;
}

static void put_empty(struct json_writer *w, const char *key)
{
    json_open(w, key, '{');
    json_close(w, '}');
}

// Only keys that every PEFT since 0.9 knows, in its order: PEFT refuses unknown keys.
static struct text spell_config(struct arena *arena, const struct adapter_file_config *config,
                                const struct adapter_file_content *content)
{
    struct out out = { .arena = arena };
    struct json_writer w = { .out = &out };
    json_open(&w, NULL, '{');
    put_empty(&w, "alpha_pattern");
    json_put_string(&w, "auto_mapping", NULL);
    json_put_string(&w, "base_model_name_or_path", config->base);
    json_put_string(&w, "bias", "none");
    json_put_bool(&w, "fan_in_fan_out", false);
    json_put_bool(&w, "inference_mode", true);
    json_put_bool(&w, "init_lora_weights", true);
    json_put_string(&w, "layers_pattern", NULL);
    json_put_string(&w, "layers_to_transform", NULL);
    json_put_number(&w, "lora_alpha", config->alpha);
    json_put_number(&w, "lora_dropout", config->dropout);
    put_names(&w, "modules_to_save", saved_names(arena, content), content->whole_count);
    json_put_string(&w, "peft_type", "LORA");
    json_put_count(&w, "r", config->rank);
    put_empty(&w, "rank_pattern");
    json_put_string(&w, "revision", NULL);
    put_names(&w, "target_modules", target_names(arena, content), content->factor_count);
    json_put_string(&w, "task_type", "CAUSAL_LM");
    json_put_bool(&w, "use_dora", config->has_magnitudes);
    json_put_bool(&w, "use_rslora", config->rank_stabilized);
    json_close(&w, '}');
    out_char(&out, '\n');
    return out_view(&out);
}

// --- tensors -----------------------------------------------------------------

static const char *full_name(struct arena *arena, const char *name, const char *ending)
{
    return text_format(arena, "base_model.model.%s%s", name, ending);
}

// Slots in order: A, B and the magnitudes of each module, then the weights saved in full.
static void declare(struct safetensors_writer *out, struct arena *arena, int64_t rank,
                    const struct adapter_file_content *content)
{
    for (size_t i = 0; i < content->factor_count; i++) {
        const struct adapter_file_factors *f = &content->factors[i];
        const int64_t a[] = { rank, f->in }, b[] = { f->out, rank };
        safetensors_declare(out, full_name(arena, f->name, ".lora_A.weight"), content->type, 2, a);
        safetensors_declare(out, full_name(arena, f->name, ".lora_B.weight"), content->type, 2, b);
        if (f->magnitude)
            safetensors_declare(out, full_name(arena, f->name, ".lora_magnitude_vector"),
                                content->type, 1, &f->out);
    }
    for (size_t i = 0; i < content->whole_count; i++) {
        const struct adapter_file_whole *w = &content->whole[i];
        safetensors_declare(out, full_name(arena, w->name, ""), content->type, w->rank, w->shape);
    }
}

static enum err write_tensors(struct safetensors_writer *out, int64_t rank,
                              const struct adapter_file_content *content)
{
    size_t slot = 0;
    TRY(safetensors_begin(out));
    for (size_t i = 0; i < content->factor_count; i++) {
        const struct adapter_file_factors *f = &content->factors[i];
        TRY(safetensors_write_floats(out, slot++, 0, f->a, rank * f->in));
        TRY(safetensors_write_floats(out, slot++, 0, f->b, rank * f->out));
        if (f->magnitude)
            TRY(safetensors_write_floats(out, slot++, 0, f->magnitude, f->out));
    }
    for (size_t i = 0; i < content->whole_count; i++) {
        const struct adapter_file_whole *w = &content->whole[i];
        int64_t count = w->rank == 2 ? w->shape[0] * w->shape[1] : w->shape[0];
        TRY(safetensors_write_floats(out, slot++, 0, w->values, count));
    }
    return safetensors_finish(out);
}

enum err adapter_file_write(const char *folder, struct arena *arena,
                            const struct adapter_file_config *config,
                            const struct adapter_file_content *content)
{
    struct safetensors_writer out;
    safetensors_init(&out, arena, folder, "adapter_model");
    out.shard_bytes = SIZE_MAX; // PEFT reads a single file
    declare(&out, arena, config->rank, content);
    enum err err = write_tensors(&out, config->rank, content);
    safetensors_release_writer(&out);
    TRY(err);
    return file_write(text_format(arena, "%s/adapter_config.json", folder),
                      spell_config(arena, config, content));
}
