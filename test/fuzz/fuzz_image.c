// SPDX-License-Identifier: Apache-2.0
// Any bytes as an image file, as base64 of one, and as the settings of a processor: a size that
// every family's rule counts, or a refusal.

#include "core/vision/vision.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(words)

enum { FAMILIES = 6 };
static const struct vision *families[FAMILIES];

static void open_families(void)
{
    static const char *const names[FAMILIES] = { "qwen2.5-vl", "llava-onevision", "internvl",
                                                 "llama-4",    "smolvlm",         "pixtral" };
    static struct arena arena;
    for (int i = 0; i < FAMILIES; i++)
        if (!families[i] && vision_find(&families[i], &arena, names[i]))
            abort();
}

static void measure_by(const struct vision *family, const struct image_size *size)
{
    struct vision_image image;
    if (!vision_measure(&image, family, size) && (image.tokens < 1 || image.patches < 1))
        abort();
}

static void measure(const struct image_size *size)
{
    for (int i = 0; i < FAMILIES; i++)
        measure_by(families[i], size);
}

static void measure_with(struct text processor)
{
    static const struct image_size sizes[] = { { 1, 1 }, { 1024, 768 }, { 65535, 333 } };
    struct arena arena = { 0 };
    for (int i = 0; i < FAMILIES; i++) {
        const struct vision *vision = families[i];
        if (vision_read_processor(&vision, &arena, processor, "processor"))
            continue;
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            measure_by(vision, &sizes[k]);
    }
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct text bytes = { (const char *)data, size };
    struct image_size found;
    open_families();
    measure_with(bytes);
    if (!image_read(&found, bytes))
        measure(&found);
    if (!image_read_base64(&found, bytes))
        measure(&found);
    if (!image_read_words(&found, bytes))
        measure(&found);
    return 0;
}
