// SPDX-License-Identifier: Apache-2.0
// Finds the family of a model that reads images by its config.json, and takes the encoder's shape
// from the file where it is none that the table has.

#include "core/vision/vision.h"

#include <string.h>

static const struct {
    size_t offset;
    const char *names[3]; // the first that is there counts
} keys[] = {
    { offsetof(struct vision, layers), { "depth", "num_hidden_layers" } },
    { offsetof(struct vision, width), { "embed_dim", "hidden_size" } }, // Qwen2-VL has both
    { offsetof(struct vision, heads), { "num_heads", "num_attention_heads" } },
    { offsetof(struct vision, ffn_width), { "intermediate_size" } },
    { offsetof(struct vision, patch), { "patch_size", "spatial_patch_size" } },
};

static void read_shape(struct vision *out, const struct json *config)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (int n = 0; n < 3 && keys[i].names[n]; n++) {
            double value = json_get_number(config, keys[i].names[n], 0);
            if (!(value >= 1 && value <= 1 << 20))
                continue;
            *(int64_t *)((char *)out + keys[i].offset) = (int64_t)value;
            break;
        }
    double ratio = json_get_number(config, "mlp_ratio", 0);
    if (!json_get(config, "intermediate_size") && ratio > 0 && ratio <= 64)
        out->ffn_width = (int64_t)((double)out->width * ratio);
}

// The type that the table knows. Pixtral's file calls itself llava.
static const char *type_of(const struct json *file, const struct json *config, struct arena *arena)
{
    struct text type = json_get_text(file, "model_type");
    if (text_is(type, "llava") && text_is(json_get_text(config, "model_type"), "pixtral"))
        return "pixtral";
    return type.size ? text_copy(arena, type) : "";
}

// Another size of the same family: "qwen3-vl-small" of "qwen3-vl".
static bool is_same_family(const struct vision *row, const struct vision *family)
{
    size_t size = strlen(family->name);
    return !strncmp(row->name, family->name, size) &&
           (!row->name[size] || row->name[size] == '-') && row->rule == family->rule;
}

enum err vision_read_config(const struct vision **out, struct arena *arena, const struct json *file,
                            const char *name)
{
    const struct json *config = json_get(file, "vision_config");
    const struct vision *family;
    struct vision *rows;
    size_t count;
    *out = NULL;
    if (!config || config->kind != JSON_OBJECT)
        return OK;
    TRY(vision_find(&family, arena, type_of(file, config, arena)));
    if (!family)
        return OK;
    struct vision *own = ARENA_NEW(arena, struct vision, 1);
    *own = *family;
    read_shape(own, config);
    TRY(vision_table(&rows, &count, arena));
    for (size_t i = 0; i < count; i++)
        if (is_same_family(&rows[i], family) && rows[i].layers == own->layers &&
            rows[i].width == own->width && rows[i].ffn_width == own->ffn_width) {
            *out = &rows[i];
            return OK;
        }
    own->projector_in = family->projector_in * own->width / family->width;
    *out = own;
    return vision_check(own, name);
}
