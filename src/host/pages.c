// SPDX-License-Identifier: Apache-2.0
// Asks the kernel for huge pages under large blocks of memory.

#define _DEFAULT_SOURCE // madvise

#include "host/pages.h"

#include "base/arena.h"

#include <stdlib.h>
#include <sys/mman.h>

static void *allocate(size_t size)
{
    void *at = aligned_alloc(ARENA_LARGE, size);
    if (at)
        madvise(at, size, MADV_HUGEPAGE); // a hint: correctness does not depend on it
    return at;
}

void pages_init(void)
{
    arena_large = allocate;
}
