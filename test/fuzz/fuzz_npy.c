// SPDX-License-Identifier: Apache-2.0
// Any bytes as a .npy file, as train reads packed rows. The numbers of what is read lie within the
// file.

#include "host/npy.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const size_t bytes[] = { [NPY_UINT8] = 1, [NPY_INT32] = 4, [NPY_INT64] = 8 };
    struct text in = { (const char *)data, size };
    for (enum npy_type type = NPY_UINT8; type <= NPY_INT64; type++) {
        const void *items;
        int64_t count;
        if (npy_read(&items, &count, in, type, "fuzz"))
            continue;
        const unsigned char *at = items;
        if (count < 0 || at < data || at + (size_t)count * bytes[type] > data + size)
            abort();
    }
    return 0;
}
