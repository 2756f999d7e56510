// SPDX-License-Identifier: Apache-2.0
// Whatever the text, a config.json becomes a decoder that the engine can train, or is refused. What
// is read is written and read back as the same.

#include "test/fuzz/mutate.h"
#include "train/decoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
MUTATES_AS(json)

static void check(const struct decoder *d)
{
    for (int64_t i = 0; i < DECODER_ROTATIONS * (d->rotary_size / 2); i++)
        if (!isfinite(d->frequencies[i]))
            abort();
    for (int64_t layer = 0; layer < d->model.layers; layer++)
        if (decoder_window(d, layer) < 0 || decoder_rotation(d, layer, 100) > ROTATION_NONE)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct decoder read, again;
    if (!decoder_read(&read, &arena, (struct text){ (const char *)data, size }, "fuzz")) {
        struct out out = { .arena = &arena };
        struct json_writer w = { .out = &out };
        check(&read);
        decoder_write(&read, &w, "float32");
        if (decoder_read(&again, &arena, (struct text){ out.at, out.size }, "again") ||
            model_parameters(&again.model) != model_parameters(&read.model) ||
            again.rotary_size != read.rotary_size || again.architecture != read.architecture)
            abort();
        check(&again);
    }
    arena_release(&arena);
    return 0;
}
