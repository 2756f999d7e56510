// engine_model: the model that a command has the engine run: a folder, a config.json or a name.
//
//     struct engine_model model;
//     TRY(engine_model_open(&model, arena, "./llama"));
//     if (model.has_weights) TRY(transformer_load(&t, &model.weights));
//     engine_model_close(&model);
//
// A folder with config.json and safetensors has weights; a folder or file without, and a name of
// the catalog, are a shape whose weights are random.

#pragma once

#include "train/decoder.h"
#include "train/weights.h"

struct engine_model {
    struct decoder decoder;
    const char *folder; // NULL where there is only a shape
    struct weights weights;
    bool has_weights;
};

enum err engine_model_open(struct engine_model *out, struct arena *arena, const char *name);
void engine_model_close(struct engine_model *model);
