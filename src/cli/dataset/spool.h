// SPDX-License-Identifier: Apache-2.0
// spool: keeps the tokens of all examples in files and gives them back in blocks.
//
//     TRY(spool_create(&spool, arena, folder));
//     TRY(spool_add(&spool, &example)); …                 // in order
//     spool_draw(&spool, true, seed);
//     for (size_t i = 0; i < spool.blocks; i++) {
//         TRY(spool_open_block(&block, &spool, i));
//         block.lengths, spool_look(&block, …) …
//         spool_close_block(&block);
//     }
//     spool_release(&spool);
//
// Memory is that of a block of a million examples, and twelve bytes for each thousand examples. Up
// to a million examples are one block, in order. More are cut into runs of a thousand neighbours;
// each block gets runs drawn at random from all data, so that each has examples of every source,
// and files are read in long stretches.
//
// Where work units have tokenized the data, their files take the place of the spool's own:
// spool_add_part().

#pragma once

#include "core/data/example.h"
#include "core/data/lengths.h"

#include <stdio.h>

// Ids, and for each whether it is learned: in NAME.ids (int32) and NAME.learned (bytes).
struct spool_tokens {
    FILE *ids, *learned;
    const char *name; // of the two, in messages
};

struct spool {
    struct arena *arena;
    const char *folder;
    size_t run, most_runs; // examples in a run, runs in a block
    struct spool_tokens own;
    FILE *lengths;   // of each example: struct length
    size_t count;    // of examples
    int64_t tokens;  // of all examples
    int64_t *starts; // the first token of each run
    size_t room;     // of starts
    uint32_t *drawn; // the runs, block after block
    size_t runs, blocks;
    struct spool_part *parts;
    size_t part_count;
    struct lengths_tally tally;
    struct lengths recent; // not in the tally yet
    struct arena recent_arena, tally_arena;
};

// The files are gone when the program ends, however it ends.
enum err spool_create(struct spool *spool, struct arena *arena, const char *folder);
void spool_release(struct spool *spool); // a zeroed one is fine

enum err spool_add(struct spool *spool, const struct example *example); // without ids: lengths only

// The next tokens are in folder/NAME.ids and folder/NAME.learned, `count` of them.
void spool_add_part(struct spool *spool, const char *folder, const char *name, int64_t count);

// After the last example: decides what each block has, and completes the tally.
enum err spool_draw(struct spool *spool, bool shuffles, uint64_t seed);

struct spool_block {
    struct arena arena;
    struct lengths lengths;   // in the order of the data
    int64_t *starts;          // of each example among the block's tokens; then their number
    struct spool_tokens copy; // where they are not those of the whole spool
    int32_t *ids;
    uint8_t *learned;
    int64_t touched; // bytes of mapped pages
};
enum err spool_open_block(struct spool_block *block, struct spool *spool, size_t index);
void spool_close_block(struct spool_block *block);

// Where `count` tokens from the place `start` of the block lie, until the next look.
struct spool_view {
    const int32_t *ids;
    const uint8_t *learned;
};
struct spool_view spool_look(struct spool_block *block, int64_t start, int64_t count);
