// Whatever the text, a table of GPUs is read or refused, and any name finds a row or a sentence.

#include "core/catalog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct catalog catalog;
    struct text text = { (const char *)data, size };
    struct catalog_file files[] = {
        { "gpus.csv", "fuzz/gpus.csv", text },
        { "offers.csv", "fuzz/offers.csv",
          TEXT("provider,instance,gpu,gpus,region_scope,source,as_of\n") }
    };
    const struct gpu *gpu;
    const struct model *model;
    const char *name = text_copy(&arena, text);
    if (!catalog_open(&catalog, &arena, files, 2) ||
        !catalog_open(&catalog, &arena, files + 1, 1)) {
        (void)catalog_gpu(&gpu, &catalog, name);
        (void)catalog_model(&model, &catalog, name);
    }
    arena_release(&arena);
    return 0;
}
