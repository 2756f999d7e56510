// SPDX-License-Identifier: Apache-2.0
// direct: reads parts of files without the page cache, many pieces at a time, in the order of use.
//
//     struct direct *direct = direct_open(parts, count);
//     for (size_t i = 0; i < count; i++)
//         use(direct_next(direct));      // the bytes of parts[i], until the next call
//     direct_close(direct);
//
// Reading through the page cache costs a copy by the processor, and a mapped file is waited for
// page by page; direct reads go straight to the buffer (bench/bench_weights.c). Parts that are in
// memory already, and those of file systems without direct reads, are used where they are mapped;
// so is a part that cannot be read. The buffer has DIRECT_ROOM bytes, or those of the largest part.

#pragma once

#include <stddef.h>

enum { DIRECT_ROOM = 256 << 20 };

struct direct_part {
    const char *path; // NULL: only mapped
    size_t offset, bytes;
    const char *mapped; // the same bytes
};

struct direct;

struct direct *direct_open(const struct direct_part *parts, size_t count); // they are not copied
const char *direct_next(struct direct *direct);
void direct_close(struct direct *direct);
