// SPDX-License-Identifier: Apache-2.0
// Whatever the text, a table of GPUs is read or refused, and as a name it finds a row or a
// sentence.

#include "core/step/catalog.h"
#include "test/fuzz/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
MUTATES_AS(lines)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct arena kept;
    static struct catalog catalog;
    struct arena arena = { 0 };
    struct text text = { (const char *)data, size };
    const struct gpu *gpu;
    const struct model *model;
    void *rows;
    size_t count;
    if (!catalog.model_count && catalog_open(&catalog, &kept, NULL, 0))
        return 0;
    (void)field_read_csv(gpu_fields, sizeof *gpu, &rows, &count, &arena, text, "fuzz");
    catalog.arena = catalog.gpu_names.arena = catalog.model_names.arena = &arena;
    const char *name = text_copy(&arena, text);
    if (size % 2)
        (void)catalog_gpu(&gpu, &catalog, name);
    else
        (void)catalog_model(&model, &catalog, name);
    arena_release(&arena);
    return 0;
}
