// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: each tensor that is handed out lies inside the file, no two
// share a byte, all data belongs to one; quantized weights decode without reading beyond.

#include "train/nf4.h"
#include "test/fuzz/mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(safetensors)

static void must(bool holds, const char *claim)
{
    if (holds)
        return;
    fprintf(stderr, "not so: %s\n", claim);
    abort();
}

static void check_tensor(const struct safetensors *in, const struct safetensors_tensor *t,
                         struct text file)
{
    must(t->at >= file.at + 8 && t->at + t->bytes <= file.at + file.size, "inside the file");
    must((size_t)safetensors_elements(t) * storage_bytes(t->type) == t->bytes, "shape and bytes");
    must(safetensors_find(in, t->name) == t, "found by its name");
    if (storage_is_real(t->type))
        must(storage_first_not_finite(t->type, t->at, t->bytes / storage_bytes(t->type)) <=
                 t->bytes / storage_bytes(t->type),
             "can be read");
}

static void check_quantized(const struct safetensors *in, struct arena *arena, const char *name)
{
    struct nf4 nf4;
    float values[256];
    if (!nf4_is(in, name) || nf4_read(&nf4, arena, in, name))
        return;
    int64_t count = nf4.rows * nf4.columns;
    for (int64_t i = 0; i < count; i += 256)
        nf4_dequantize(values, &nf4, i, count - i < 256 ? count - i : 256);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct text file = { (const char *)data, size };
    struct safetensors in;
    if (!safetensors_read(&in, &arena, file, "fuzz")) {
        size_t bytes = 0;
        for (size_t i = 0; i < in.count; i++) {
            check_tensor(&in, &in.tensors[i], file);
            check_quantized(&in, &arena, in.tensors[i].name);
            bytes += in.tensors[i].bytes;
            must(!i || strcmp(in.tensors[i - 1].name, in.tensors[i].name) < 0, "sorted, once each");
        }
        must(bytes <= size - 8, "no byte twice");
    } else {
        must(*error_text(), "a refusal says why");
    }
    arena_release(&arena);
    return 0;
}
