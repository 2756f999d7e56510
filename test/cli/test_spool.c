// SPDX-License-Identifier: Apache-2.0
// The spool gives each example back once, whole, in blocks of a bounded size.

#include "cli/dataset/spool.h"

#include "test/files.h"
#include "test/test.h"

#include <string.h>

enum { EXAMPLES = 1234, RUN = 10, RUNS = 5 };

// Example i has i % 7 tokens; each of them is i, and the odd ones are learned.
static int64_t tokens_of(int32_t example)
{
    return example % 7;
}

static void add_all(struct spool *spool, bool with_ids)
{
    spool->run = RUN;
    spool->most_runs = RUNS;
    for (int32_t i = 0; i < EXAMPLES; i++) {
        const int32_t ids[] = { i, i, i, i, i, i };
        static const uint8_t learned[] = { 0, 1, 0, 1, 0, 1 };
        struct example example = { .tokens = tokens_of(i), .labelled = tokens_of(i) / 2 };
        if (with_ids)
            example.ids = ids, example.learned = learned;
        CHECK(spool_add(spool, &example) == OK);
    }
}

// The examples of a block: each as it was added, in the order of the data.
static void check_block(struct spool_block *block, int *seen)
{
    int32_t last = -1;
    for (size_t i = 0; i < block->lengths.count; i++) {
        int64_t tokens = block->lengths.items[i].tokens;
        struct spool_view view = spool_look(block, block->starts[i], tokens);
        CHECK(block->starts[i + 1] - block->starts[i] == tokens);
        for (int64_t k = 0; k < tokens; k++)
            CHECK(view.ids[k] == view.ids[0] && view.learned[k] == k % 2);
        if (!tokens)
            continue;
        CHECK(tokens == tokens_of(view.ids[0]) && view.ids[0] > last);
        last = view.ids[0];
        seen[last]++;
    }
}

static void check_blocks(struct spool *spool)
{
    int seen[EXAMPLES] = { 0 };
    size_t examples = 0;
    CHECK(spool->blocks == (EXAMPLES + RUN * RUNS - 1) / (RUN * RUNS));
    for (size_t i = 0; i < spool->blocks; i++) {
        struct spool_block block;
        CHECK(spool_open_block(&block, spool, i) == OK);
        CHECK(block.lengths.count <= RUN * RUNS);
        examples += block.lengths.count;
        check_block(&block, seen);
        spool_close_block(&block);
    }
    CHECK(examples == EXAMPLES);
    for (int32_t i = 0; i < EXAMPLES; i++)
        CHECK(seen[i] == (tokens_of(i) > 0));
}

TEST(spool_gives_each_example_once_in_blocks_of_a_bounded_size)
{
    struct spool spool;
    CHECK(spool_create(&spool, &test_arena, files_folder()) == OK);
    add_all(&spool, true);
    CHECK(spool_draw(&spool, true, 7) == OK);
    CHECK(lengths_sum(&spool.tally).examples == EXAMPLES);
    check_blocks(&spool);
    size_t late = 0; // runs of the last half in the first half of the blocks
    for (size_t i = 0; i < spool.runs / 2; i++)
        late += spool.drawn[i] >= spool.runs / 2;
    CHECK(late > spool.runs / 8);
    spool_release(&spool);
}

TEST(spool_reads_tokens_of_units_wherever_runs_are_cut)
{
    int32_t ids[6 * EXAMPLES + 2];
    uint8_t learned[6 * EXAMPLES + 8];
    int64_t count = 0, ends[] = { 0, 1, 700, 700, 0 };
    for (int32_t i = 0; i < EXAMPLES; i++)
        for (int64_t k = 0; k < tokens_of(i); k++, count++)
            ids[count] = i, learned[count] = k % 2;
    ends[4] = count;
    struct spool spool;
    CHECK(spool_create(&spool, &test_arena, files_folder()) == OK);
    add_all(&spool, false);
    for (int i = 0; i < 4; i++) { // each with eight bytes of a sum after it
        const char *name = text_format(&test_arena, "part%d", i);
        int64_t first = ends[i], size = ends[i + 1] - first;
        files_write(text_format(&test_arena, "%s.ids", name),
                    (struct text){ (const char *)(ids + first), (size_t)size * 4 + 8 });
        files_write(text_format(&test_arena, "%s.learned", name),
                    (struct text){ (const char *)(learned + first), (size_t)size + 8 });
        spool_add_part(&spool, files_folder(), name, size);
    }
    CHECK(spool_draw(&spool, true, 3) == OK);
    check_blocks(&spool);
    spool_release(&spool);
}

TEST(spool_refuses_units_with_other_tokens_than_were_counted)
{
    struct spool spool;
    CHECK(spool_create(&spool, &test_arena, files_folder()) == OK);
    add_all(&spool, false);
    spool_add_part(&spool, "tokens", "key", 1);
    CHECK(spool_draw(&spool, true, 3) == ERR_INPUT);
    CHECK(strstr(error_text(), "tokens: the tokens are not those of the counted examples"));
    spool_release(&spool);
}
