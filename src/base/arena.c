// SPDX-License-Identifier: Apache-2.0
// Arenas: blocks of zeroed memory that are freed together or rewound to a mark.

#include "base/arena.h"

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *older;
    size_t size; // of data
    size_t used; // of data, when a newer block came
    _Alignas(16) unsigned char data[];
};

enum { BLOCK_BYTES = 64 * 1024, ALIGN = 16 };

void *(*arena_large)(size_t size);

// Under the address sanitizer everything in a block that was not handed out is poisoned: the rest
// of the block, what a rewind gave back, and a gap after each piece. Overflows and uses after a
// rewind are found then as they are with malloc().
#if defined __SANITIZE_ADDRESS__
#define POISONS 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define POISONS 1
#endif
#endif

#ifdef POISONS
#include <sanitizer/asan_interface.h>
enum { GAP = 16 };
#define POISON(at, size) __asan_poison_memory_region(at, size)
#define UNPOISON(at, size) __asan_unpoison_memory_region(at, size)
#else
enum { GAP = 0 };
#define POISON(at, size) ((void)(at), (void)(size))
#define UNPOISON(at, size) ((void)(at), (void)(size))
#endif

// What a piece takes in a block.
static size_t room_of(size_t size)
{
    return (((size ? size : 1) + ALIGN - 1) & ~(size_t)(ALIGN - 1)) + GAP;
}

static void push(struct arena *arena, struct arena_block *block)
{
    if (arena->block)
        arena->block->used = arena->used;
    block->older = arena->block;
    arena->block = block;
    arena->used = 0;
}

void arena_exhausted(size_t wanted)
{
    fprintf(stderr, "gpuhours: this machine has no memory left (wanted %zu bytes)\n", wanted);
#ifdef __wasm__
    abort();
#else
    _Exit(ERR_MEMORY); // without flushing what may need memory
#endif
}

static void add_block(struct arena *arena, size_t at_least)
{
    if (arena->spare && arena->spare->size >= at_least) {
        push(arena, arena->spare);
        arena->spare = NULL;
        return;
    }
    size_t size = arena->block ? arena->block->size * 2 : BLOCK_BYTES;
    if (size > (size_t)64 << 20)
        size = (size_t)64 << 20;
    if (size < at_least)
        size = at_least;
    bool large = arena_large && size >= ARENA_LARGE;
    if (large) // whole pages
        size = (sizeof(struct arena_block) + size + ARENA_LARGE - 1) / ARENA_LARGE * ARENA_LARGE -
               sizeof(struct arena_block);
    struct arena_block *block =
        large ? arena_large(sizeof *block + size) : malloc(sizeof *block + size);
    if (!block)
        arena_exhausted(size);
    block->size = size;
    POISON(block->data, size);
    push(arena, block);
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > PTRDIFF_MAX / 2) {
        fprintf(stderr, "gpuhours: asked for %zu bytes at once, a bug\n", size);
        abort();
    }
    size_t room = room_of(size);
    if (!arena->block || arena->block->size - arena->used < room)
        add_block(arena, room);
    void *at = arena->block->data + arena->used;
    arena->used += room;
    UNPOISON(at, room - GAP);
    memset(at, 0, room - GAP);
    POISON((char *)at + (size ? size : 1), room - (size ? size : 1));
    return at;
}

void *arena_array(struct arena *arena, size_t size, size_t count)
{
    if (size && count > PTRDIFF_MAX / size) {
        fprintf(stderr, "gpuhours: asked for %zu times %zu bytes, a bug\n", count, size);
        abort();
    }
    return arena_alloc(arena, size * count);
}

void *arena_grow(struct arena *arena, void *old, size_t old_size, size_t size)
{
    size_t had = room_of(old_size), need = room_of(size);
    if (size <= old_size && old)
        return old;
    unsigned char *at = old;
    if (old && arena->used >= had && at == arena->block->data + arena->used - had &&
        arena->block->size - arena->used >= need - had) { // the newest piece: it grows in place
        UNPOISON(at, need - GAP);
        memset(at + old_size, 0, need - GAP - old_size);
        POISON(at + size, need - size);
        arena->used += need - had;
        return old;
    }
    void *grown = arena_alloc(arena, size);
    if (old)
        memcpy(grown, old, old_size);
    return grown;
}

void *arena_double(struct arena *arena, void *items, size_t size, size_t *room)
{
    enum { FIRST = 8 };
    size_t had = *room;
    *room = had ? 2 * had : FIRST;
    return arena_grow(arena, items, had * size, *room * size);
}

char *arena_copy(struct arena *arena, const char *at, size_t size)
{
    char *copy = arena_alloc(arena, size + 1);
    if (size)
        memcpy(copy, at, size);
    return copy;
}

void arena_release(struct arena *arena)
{
    while (arena->block) {
        struct arena_block *older = arena->block->older;
        free(arena->block);
        arena->block = older;
    }
    free(arena->spare);
    *arena = (struct arena){ 0 };
}

struct arena_mark arena_mark(const struct arena *arena)
{
    return (struct arena_mark){ arena->block, arena->used };
}

// Poisons what was handed out since, and no more: that is poisoned already, and blocks are large.
void arena_rewind(struct arena *arena, struct arena_mark mark)
{
    size_t used = arena->used;
    while (arena->block != mark.block) {
        struct arena_block *newest = arena->block;
        POISON(newest->data, used);
        arena->block = newest->older;
        used = newest->older ? newest->older->used : 0;
        if (!arena->spare || arena->spare->size < newest->size) { // keeps the largest
            free(arena->spare);
            arena->spare = newest;
        } else {
            free(newest);
        }
    }
    if (arena->block)
        POISON(arena->block->data + mark.used, used - mark.used);
    arena->used = mark.used;
}
