// SPDX-License-Identifier: Apache-2.0
// Asks the kernel for huge pages under large blocks of memory.

#define _DEFAULT_SOURCE // madvise

#include "host/pages.h"

#include "base/arena.h"

#include <stdint.h>
#include <sys/mman.h>

static void request_huge_pages(void *at, size_t size)
{
    const uintptr_t page = 4096;
    uintptr_t start = ((uintptr_t)at + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)at + size) & ~(page - 1);
    if (end > start)
        madvise((void *)start, end - start,
                MADV_HUGEPAGE); // a hint: correctness does not depend on it
}

void pages_init(void)
{
    arena_large = request_huge_pages;
}
