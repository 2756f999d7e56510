// SPDX-License-Identifier: Apache-2.0
// Asks the kernel for huge pages under large blocks of memory.

#define _DEFAULT_SOURCE // madvise

#include "host/pages.h"

#include "base/arena.h"

#include <stdlib.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

static void *allocate(size_t size)
{
    void *at = aligned_alloc(ARENA_LARGE, size);
    if (at)
        madvise(at, size, MADV_HUGEPAGE); // a hint: correctness does not depend on it
    return at;
}

// glibc maps blocks above a threshold one by one and gives them back when they are freed. Unless
// told, it raises the threshold to 32 MiB, and its heap does not use the room of freed aligned
// blocks again. The end of its heap it would give back from 128 KiB on, and ask for it again at the
// next arena: half of the page faults of a profile.
void pages_init(void)
{
    arena_large = allocate;
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, ARENA_LARGE);
    mallopt(M_TRIM_THRESHOLD, 4 * ARENA_LARGE);
#endif
}
