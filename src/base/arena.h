// SPDX-License-Identifier: Apache-2.0
// arena: memory that is freed together.
//
// A function that returns memory takes the arena as an argument; single pieces are never freed.
// Each command, each request of the web page and each test has one arena.
//
//     struct arena arena = { 0 };
//     double *lengths = ARENA_NEW(&arena, double, count);
//     arena_release(&arena);
//
// Memory is zeroed. If the machine runs out of memory, the program says so and ends with
// the exit code for that: no caller could go on.

#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct arena {
    struct arena_block *block; // the newest; it links to the older ones
    size_t used;               // bytes of the newest block
    struct arena_block *spare; // freed by a rewind and reused, so that loops do not call malloc
};

struct arena_mark {
    struct arena_block *block;
    size_t used;
};

// Allocates blocks of ARENA_LARGE bytes or more, of a multiple of it, for free(); NULL: malloc()
// does. Native programs use it to put large tables into huge pages (host/pages.h).
enum { ARENA_LARGE = 2 << 20 };
extern void *(*arena_large)(size_t size);

void *arena_alloc(struct arena *arena, size_t size);
void *arena_grow(struct arena *arena, void *old, size_t old_size,
                 size_t size); // in place if it is the last piece, else copies
// An array that grows: room for one more item after `count` of them; doubles it where it is full.
// *room is the number of items that it has room for, 0 at first.
//
//     list->items = arena_room(arena, list->items, sizeof *list->items, list->count, &list->room);
//     list->items[list->count++] = item;
void *arena_double(struct arena *arena, void *items, size_t size, size_t *room);
static inline void *arena_room(struct arena *arena, void *items, size_t size, size_t count,
                               size_t *room)
{
    return count < *room ? items : arena_double(arena, items, size, room);
}

char *arena_copy(struct arena *arena, const char *at, size_t size); // adds a NUL
void arena_release(struct arena *arena);
void arena_exhausted(size_t wanted)
    __attribute__((noreturn)); // also for those who call malloc() themselves

// Frees everything allocated since the mark, so that a loop's scratch space stays bounded.
struct arena_mark arena_mark(const struct arena *arena);
void arena_rewind(struct arena *arena, struct arena_mark mark);

void *arena_array(struct arena *arena, size_t size,
                  size_t count); // aborts if the product overflows

#define ARENA_NEW(arena, type, count) ((type *)arena_array((arena), sizeof(type), (size_t)(count)))

#ifdef __cplusplus
}
#endif
