// arena: memory that is freed together.
//
// A function that returns memory takes the arena it comes from as an argument; nobody frees a
// piece. One command, one request of the page and one test each have one arena.
//
//     struct arena arena = { 0 };
//     double *lengths = ARENA_NEW(&arena, double, count);
//     arena_release(&arena);
//
// Memory is zeroed. When the machine has none left the program says so and aborts.

#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct arena {
    struct arena_block *block; // the newest; older ones hang behind it
    size_t used;               // of the newest
    struct arena_block *spare; // given back by a rewind, used again: a loop does not call malloc
};

struct arena_mark {
    struct arena_block *block;
    size_t used;
};

// Told of each new block of a megabyte or more before it is touched; NULL: nobody is. A native
// program sets it to have large tables in large pages (host/pages.h); the page has no such thing.
extern void (*arena_large)(void *at, size_t size);

void *arena_alloc(struct arena *arena, size_t size);
void *arena_grow(struct arena *arena, void *old, size_t old_size,
                 size_t size);                                      // copies unless last
char *arena_copy(struct arena *arena, const char *at, size_t size); // ends it with a NUL
void arena_release(struct arena *arena);

// Gives back everything taken since the mark: scratch space in a loop stays flat.
struct arena_mark arena_mark(const struct arena *arena);
void arena_rewind(struct arena *arena, struct arena_mark mark);

void *arena_array(struct arena *arena, size_t size, size_t count); // aborts if the product is none

#define ARENA_NEW(arena, type, count) ((type *)arena_array((arena), sizeof(type), (size_t)(count)))

#ifdef __cplusplus
}
#endif
