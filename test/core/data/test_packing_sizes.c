// SPDX-License-Identifier: Apache-2.0
// The simulation from sizes alone against the whole one.

#include "core/data/packing.h"

#include "base/rng.h"
#include "test/test.h"

static struct lengths some_lengths(struct rng *rng, size_t count, uint64_t longest)
{
    struct lengths list = { .arena = &test_arena };
    for (size_t i = 0; i < count; i++) {
        int64_t tokens = (int64_t)rng_below(rng, i % 50 ? longest : 8 * longest);
        lengths_add(&list, tokens, i % 7 ? (int64_t)rng_below(rng, (uint64_t)tokens + 1) : 0);
    }
    return list;
}

// Whether sizes told the sums.
static bool agree(const struct packing_sizes *sizes, const struct lengths *list,
                  const struct packing_setup *setup)
{
    struct batches quick;
    struct packing whole;
    if (!packing_sizes_simulate(&quick, sizes, setup))
        return false;
    CHECK(packing_plan(&whole, &test_arena, list, &sizes->rule, setup) == OK);
    CHECK(quick.rows == whole.sums.rows);
    CHECK(quick.processed_tokens == whole.sums.processed_tokens);
    CHECK(quick.useful_tokens == whole.sums.useful_tokens);
    CHECK(quick.attended == whole.sums.attended);
    CHECK(quick.padding_share == whole.sums.padding_share);
    CHECK(quick.fill == whole.sums.fill);
    return true;
}

// All windows of one rule; returns how many of them sizes told.
static int compare(const struct lengths *list, const struct packing_rule *rule, uint64_t seed,
                   int64_t micro_batch)
{
    static const int64_t windows[] = { 2, 63, 512, 700, 4096, 1 << 20 };
    int told = 0;
    struct packing_setup setup = { .micro_batch = micro_batch,
                                   .accumulation = 1 + (int64_t)seed % 3,
                                   .seed = seed,
                                   .window = windows[0] };
    struct packing_sizes sizes;
    packing_sizes_init(&sizes, &test_arena, list, rule, &setup);
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        setup.window = windows[i];
        told += agree(&sizes, list, &setup);
    }
    return told;
}

TEST(packing_from_sizes_has_the_sums_of_the_whole_simulation_for_every_trainer)
{
    struct rng rng = rng_seeded(17);
    static const size_t counts[] = { 0, 1, 7, 399, 2600 };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct arena_mark mark = arena_mark(&test_arena);
        struct lengths list = some_lengths(&rng, counts[c], 600);
        for (const struct packing_trainer *t = packing_trainers; t->name; t++)
            for (int batching = 0; batching <= BATCHING_PACKED; batching++) {
                struct packing_rule rule = packing_rule(t, (enum batching)batching);
                compare(&list, &rule, c, 0);
                compare(&list, &rule, c + 1, 8);
            }
        arena_rewind(&test_arena, mark);
    }
}

TEST(packing_from_sizes_tells_every_window_of_the_usual_trainer)
{
    struct rng rng = rng_seeded(18);
    struct lengths list = some_lengths(&rng, 2600, 600);
    const struct packing_trainer *hf;
    CHECK(packing_trainer_find(&hf, "hf", NULL) == OK);
    for (int batching = BATCHING_LONGEST; batching <= BATCHING_PACKED; batching++) {
        struct packing_rule rule = packing_rule(hf, (enum batching)batching);
        CHECK(compare(&list, &rule, 3, 8) == 6);
    }
}

TEST(packing_from_sizes_leaves_ranks_samples_and_impossible_windows_to_the_whole_simulation)
{
    struct rng rng = rng_seeded(19);
    struct lengths list = some_lengths(&rng, 100, 600);
    const struct packing_trainer *hf;
    CHECK(packing_trainer_find(&hf, "hf", NULL) == OK);
    struct packing_rule rule = packing_rule(hf, BATCHING_PACKED);
    struct packing_setup setup = { .window = 512, .ranks = 2 };
    struct packing_sizes sizes;
    struct batches sums;
    packing_sizes_init(&sizes, &test_arena, &list, &rule, &setup);
    CHECK(!packing_sizes_simulate(&sums, &sizes, &setup));
    setup.ranks = 1;
    packing_sizes_init(&sizes, &test_arena, &list, &rule, &setup);
    CHECK(packing_sizes_simulate(&sums, &sizes, &setup));
    setup.window = 1;
    CHECK(!packing_sizes_simulate(&sums, &sizes, &setup));
    setup.window = 512;
    list.each = 2;
    packing_sizes_init(&sizes, &test_arena, &list, &rule, &setup);
    CHECK(!packing_sizes_simulate(&sums, &sizes, &setup));
}
