// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"
#include "host/pages.h"
#include "test/test.h"

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
