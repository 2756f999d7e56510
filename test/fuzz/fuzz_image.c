// SPDX-License-Identifier: Apache-2.0
// Any bytes as an image file, and as base64 of one: a size that every family's rule counts, or a
// refusal.

#include "core/vision/vision.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(words)

static void measure(const struct image_size *size)
{
    static const char *const names[] = { "qwen2.5-vl", "llava-onevision", "internvl",
                                         "llama-4",    "smolvlm",         "pixtral" };
    enum { FAMILIES = sizeof names / sizeof *names };
    static const struct vision *families[FAMILIES];
    static struct arena arena;
    for (int i = 0; i < FAMILIES; i++) {
        struct vision_image image;
        if (!families[i] && vision_find(&families[i], &arena, names[i]))
            abort();
        if (!vision_measure(&image, families[i], size) && (image.tokens < 1 || image.patches < 1))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct text bytes = { (const char *)data, size };
    struct image_size found;
    if (!image_read(&found, bytes))
        measure(&found);
    if (!image_read_base64(&found, bytes))
        measure(&found);
    if (!image_read_words(&found, bytes))
        measure(&found);
    return 0;
}
