// SPDX-License-Identifier: Apache-2.0
// Opens the model of --model for the engine: decoder, and weights where there are some.

#include "cli/engine/engine_model.h"

#include "core/step/catalog.h"
#include "host/file.h"
#include "host/folder.h"

#include <string.h>

static bool has_weight_files(const char *folder)
{
    return folder_has(folder, "model.safetensors") ||
           folder_has(folder, "model.safetensors.index.json");
}

static enum err read_config(struct decoder *out, struct arena *arena, const char *path)
{
    struct text copy;
    TRY(file_read(&copy, arena, path));
    return decoder_read(out, arena, copy, path);
}

enum err engine_model_open(struct engine_model *out, struct arena *arena, const char *name,
                           const struct model *shape)
{
    *out = (struct engine_model){ 0 };
    if (folder_has(name, "config.json")) {
        TRY(read_config(&out->decoder, arena, text_format(arena, "%s/config.json", name)));
        out->folder = name;
        if (!has_weight_files(name))
            return OK;
        TRY(weights_open(&out->weights, arena, name));
        out->has_weights = true;
        return OK;
    }
    size_t size = strlen(name);
    bool is_here = folder_has(name, "");
    if (size > 5 && !strcmp(name + size - 5, ".json") && (is_here || !shape))
        return read_config(&out->decoder, arena, name);
    if (shape)
        return decoder_of(&out->decoder, arena, shape);
    if (*name == '/' || *name == '.')
        return fail(ERR_INPUT,
                    "%s: no config.json found there; give a folder with config.json and "
                    "*.safetensors",
                    name);
    struct catalog catalog;
    const struct model *model;
    TRY(catalog_open(&catalog, arena, NULL, 0));
    TRY(catalog_model(&model, &catalog, name));
    return decoder_of(&out->decoder, arena, model);
}

void engine_model_close(struct engine_model *model)
{
    if (model->has_weights)
        weights_release(&model->weights);
    model->has_weights = false;
}
