// SPDX-License-Identifier: Apache-2.0
// Any bytes as the result of a work unit. What is read writes and reads back to the same examples.

#include "core/data/counted.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct out out = { .arena = &arena };
    struct counted_writer writer = { .out = &out };
    struct counted_reader in = { .arena = &arena,
                                 .at = (const char *)data,
                                 .end = (const char *)data + size };
    struct example example;
    uint64_t hashes = 0, again = 0;
    int64_t lines = 0;
    for (; counted_next(&in, &example); hashes += example.hash, lines += example.line)
        counted_put(&writer, in.file, &example);
    if (!in.failed) {
        counted_put_end(&writer, in.shapes, in.shape_count, &in.census, in.lines);
        struct counted_reader copy = { .arena = &arena, .at = out.at, .end = out.at + out.size };
        for (; counted_next(&copy, &example); again += example.hash, lines -= example.line)
            ;
        if (copy.failed || copy.shape_count != in.shape_count || again != hashes || lines)
            abort();
    }
    arena_release(&arena);
    return 0;
}
