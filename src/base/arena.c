// Arenas: blocks of zeroed memory that are freed together or rewound to a mark.

#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *older;
    size_t size; // of data
    _Alignas(16) unsigned char data[];
};

enum { BLOCK_BYTES = 64 * 1024, ALIGN = 16 };

void (*arena_large)(void *at, size_t size);

static size_t aligned(size_t size)
{
    return (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

static void push(struct arena *arena, struct arena_block *block)
{
    block->older = arena->block;
    arena->block = block;
    arena->used = 0;
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
    struct arena_block *block = malloc(sizeof *block + size);
    if (!block) {
        fprintf(stderr, "gpuhours: this machine has no memory left (wanted %zu bytes)\n", size);
        abort();
    }
    if (arena_large && size >= (size_t)1 << 20)
        arena_large(block, sizeof *block + size);
    block->size = size;
    push(arena, block);
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > PTRDIFF_MAX / 2) {
        fprintf(stderr, "gpuhours: asked for %zu bytes at once, a bug\n", size);
        abort();
    }
    size = aligned(size ? size : 1);
    if (!arena->block || arena->block->size - arena->used < size)
        add_block(arena, size);
    void *at = arena->block->data + arena->used;
    arena->used += size;
    return memset(at, 0, size);
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
    size_t had = aligned(old_size ? old_size : 1), need = aligned(size ? size : 1);
    if (size <= old_size && old)
        return old;
    unsigned char *at = old;
    if (old && arena->used >= had && at == arena->block->data + arena->used - had &&
        arena->block->size - arena->used >= need - had) { // the last piece grows in place
        memset(at + old_size, 0, need - old_size);
        arena->used += need - had;
        return old;
    }
    void *grown = arena_alloc(arena, size);
    if (old)
        memcpy(grown, old, old_size);
    return grown;
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

void arena_rewind(struct arena *arena, struct arena_mark mark)
{
    while (arena->block != mark.block) {
        struct arena_block *newest = arena->block;
        arena->block = newest->older;
        if (!arena->spare || arena->spare->size < newest->size) { // keeps the largest
            free(arena->spare);
            arena->spare = newest;
        } else {
            free(newest);
        }
    }
    arena->used = mark.used;
}
