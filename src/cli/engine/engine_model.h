// SPDX-License-Identifier: Apache-2.0
// engine_model: the model that the engine runs: a folder, a config.json or a catalog name.
//
//     struct engine_model model;
//     TRY(engine_model_open(&model, arena, "./llama", NULL));
//     if (model.has_weights) TRY(transformer_load(&t, &model.weights));
//     engine_model_close(&model);
//
// A folder with config.json and safetensors has weights. A folder or file without safetensors, and
// a name of the catalog, give only a shape: has_weights is false, and the caller decides whether
// random weights will do.

#pragma once

#include "train/decoder.h"
#include "train/files/weights.h"

struct engine_model {
    struct decoder decoder;
    const char *folder; // NULL: config.json or catalog name
    struct weights weights;
    bool has_weights;
};

// shape: what the name stands for where it is not a folder or file of this machine, as in a plan's
// document; NULL: the catalog's model of that name.
enum err engine_model_open(struct engine_model *out, struct arena *arena, const char *name,
                           const struct model *shape);
void engine_model_close(struct engine_model *model);
