// SPDX-License-Identifier: Apache-2.0
// An event file: the bytes as they are, and as the content of a record whose checksums are right.

#include "core/trainers/tensorboard.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(words)

static void on_scalar(void *context, const struct tensorboard_scalar *scalar)
{
    size_t *sum = context;
    for (size_t i = 0; i < scalar->tag.size; i++)
        *sum += (unsigned char)scalar->tag.at[i];
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    size_t used, sum = 0;
    if (tensorboard_read(&used, (struct text){ (const char *)data, size }, "fuzz", on_scalar,
                         &sum) == OK &&
        used > size)
        abort();
    unsigned char *record = calloc(1, size + 16);
    memcpy(record, &size, sizeof size);
    uint32_t check = tensorboard_checksum(record, 8);
    memcpy(record + 8, &check, 4);
    if (size)
        memcpy(record + 12, data, size);
    check = tensorboard_checksum(record + 12, size);
    memcpy(record + 12 + size, &check, 4);
    struct text text = { (const char *)record, size + 16 };
    if (tensorboard_read(&used, text, "fuzz", on_scalar, &sum) || used != size + 16)
        abort();
    free(record);
    return 0;
}
