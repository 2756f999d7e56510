// SPDX-License-Identifier: Apache-2.0
// Whatever the text, a config.json is read or refused, and what is read has totals that add up.

#include "core/step/model.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
MUTATES_AS(json)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct model model;
    if (!model_read_config(&model, &arena, (struct text){ (const char *)data, size }, "fuzz")) {
        int64_t total = model_parameters(&model), active = model_active_parameters(&model);
        if (active <= 0 || active > total)
            abort();
        if (model_layers(&model, MODEL_DENSE) + model_layers(&model, MODEL_SPARSE) != model.layers)
            abort();
    }
    arena_release(&arena);
    return 0;
}
