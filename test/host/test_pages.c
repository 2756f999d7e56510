// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"
#include "host/pages.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

TEST(pages_are_asked_for_and_the_memory_is_as_ever)
{
    pages_init();
    struct arena arena = { 0 };
    unsigned char *at = arena_alloc(&arena, 8 << 20);
    CHECK(at[0] == 0 && at[(8 << 20) - 1] == 0);
    at[4 << 20] = 7;
    CHECK(at[4 << 20] == 7);
    arena_release(&arena);
    arena_large = NULL;
}

static double resident_mib(void)
{
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &all, &resident) == 2);
    if (file)
        fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

TEST(pages_of_large_blocks_are_given_back_when_they_are_freed)
{
    pages_init();
    double before = resident_mib();
    for (int round = 0; round < (TEST_UNDER_SANITIZER ? 20 : 60); round++) { // of 37 MiB
        struct arena kept = { 0 }, arena = { 0 };
        for (size_t mib = 1; mib <= 9; mib += 2)
            memset(arena_alloc(mib % 4 == 1 ? &kept : &arena, mib << 20), 1, mib << 20);
        arena_release(&arena);
        memset(arena_alloc(&arena, 12 << 20), 1, 12 << 20);
        arena_release(&kept);
        arena_release(&arena);
    }
    CHECK(resident_mib() - before < 330); // sanitizers keep 256
    arena_large = NULL;
}
