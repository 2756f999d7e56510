// SPDX-License-Identifier: Apache-2.0
// Arenas: alignment, zeroing, rewinding and growing.

#include "base/arena.h"
#include "base/rng.h"
#include "test/test.h"

#include <stdint.h>
#include <string.h>

static bool is_zero(const unsigned char *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (at[i])
            return false;
    return true;
}

TEST(an_array_grows_item_by_item_and_keeps_what_is_in_it)
{
    struct arena arena = { 0 };
    int *items = NULL;
    size_t count = 0, room = 0;
    for (int i = 0; i < 1000; i++) {
        items = arena_room(&arena, items, sizeof *items, count, &room);
        CHECK(room > count && !items[count]);
        items[count++] = i + 1;
        if (i % 3 == 0)
            arena_alloc(&arena, 5); // so that it cannot grow in place
    }
    for (int i = 0; i < 1000; i++)
        CHECK(items[i] == i + 1);
    CHECK(room == 1024);
    arena_release(&arena);
}

TEST(arena_memory_is_aligned_zeroed_and_does_not_overlap)
{
    struct arena arena = { 0 };
    struct rng rng = rng_seeded(1);
    unsigned char *pieces[300];
    size_t sizes[300];
    for (int i = 0; i < 300; i++) {
        sizes[i] = rng_below(&rng, i % 50 ? 2000 : 200000);
        pieces[i] = arena_alloc(&arena, sizes[i]);
        CHECK((uintptr_t)pieces[i] % 16 == 0 && is_zero(pieces[i], sizes[i]));
        memset(pieces[i], i % 251 + 1, sizes[i]);
    }
    for (int i = 0; i < 300; i++)
        for (size_t j = 0; j < sizes[i]; j++)
            if (pieces[i][j] != i % 251 + 1) {
                CHECK(!"a piece was written by another");
                break;
            }
    arena_release(&arena);
    CHECK(!arena.block && !arena.used);
}

TEST(arena_memory_is_zeroed_again_after_a_rewind)
{
    struct arena arena = { 0 };
    char *kept = arena_copy(&arena, "kept", 4);
    for (int turn = 0; turn < 5; turn++) {
        struct arena_mark mark = arena_mark(&arena);
        for (size_t size = 100; size < 1000000; size *= 7) {
            unsigned char *at = arena_alloc(&arena, size);
            CHECK(is_zero(at, size));
            memset(at, 0xFF, size);
        }
        arena_rewind(&arena, mark);
    }
    CHECK(!strcmp(kept, "kept"));
    arena_release(&arena);
}

TEST(arena_rewinds_to_nothing)
{
    struct arena arena = { 0 };
    struct arena_mark empty = arena_mark(&arena);
    memset(arena_alloc(&arena, 1000), 1, 1000);
    arena_rewind(&arena, empty);
    CHECK(is_zero(arena_alloc(&arena, 1000), 1000));
    arena_release(&arena);
}

TEST(arena_grown_memory_keeps_its_content_and_the_rest_is_zero)
{
    struct arena arena = { 0 };
    size_t size = 5;
    unsigned char *at = arena_grow(&arena, NULL, 0, size);
    memset(at, 7, size);
    for (int i = 0; i < 14; i++) {
        if (i % 3 == 0)
            arena_alloc(&arena, 10); // no longer the last piece: it must move
        at = arena_grow(&arena, at, size, size * 3);
        CHECK(at[0] == 7 && at[size - 1] == 7 && is_zero(at + size, 2 * size));
        memset(at, 7, size *= 3);
    }
    CHECK(arena_grow(&arena, at, size, size / 2) == at);
    arena_release(&arena);
}

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>

TEST(arena_is_poisoned_wherever_nothing_was_handed_out)
{
    struct arena arena = { 0 };
    char *first = arena_alloc(&arena, 10), *second = arena_alloc(&arena, 10);
    CHECK(!__asan_address_is_poisoned(first + 9) && __asan_address_is_poisoned(first + 10));
    CHECK(__asan_address_is_poisoned(second - 1) && __asan_address_is_poisoned(second + 10));
    struct arena_mark mark = arena_mark(&arena);
    char *third = arena_alloc(&arena, 10);
    arena_rewind(&arena, mark);
    CHECK(__asan_address_is_poisoned(third) && !__asan_address_is_poisoned(second));
    second = arena_grow(&arena, second, 10, 40);
    CHECK(!__asan_address_is_poisoned(second + 39) && __asan_address_is_poisoned(second + 40));
    arena_release(&arena);
}

TEST(arena_is_poisoned_in_every_block_that_a_rewind_gives_back)
{
    struct arena arena = { 0 };
    char *kept = arena_alloc(&arena, 10);
    struct arena_mark mark = arena_mark(&arena);
    for (int turn = 0; turn < 3; turn++) {
        char *same_block = arena_alloc(&arena, 1000), *large = arena_alloc(&arena, 1000000);
        char *last = arena_alloc(&arena, 1000);
        CHECK(!__asan_address_is_poisoned(same_block + 999));
        CHECK(!__asan_address_is_poisoned(large + 999999));
        CHECK(__asan_address_is_poisoned(large + 1000000));
        CHECK(!__asan_address_is_poisoned(last) && __asan_address_is_poisoned(last + 1000));
        arena_rewind(&arena, mark);
        CHECK(!__asan_region_is_poisoned(kept, 10));
        for (int i = 0; i < 1000; i++)
            CHECK(__asan_address_is_poisoned(same_block + i));
        for (int i = 0; i < 1000000; i += 997)
            CHECK(__asan_address_is_poisoned(large + i));
        CHECK(__asan_address_is_poisoned(last));
    }
    arena_release(&arena);
}
#endif
