// SPDX-License-Identifier: Apache-2.0
// Runs by several ranks, as threads of this process: what they give equals what one rank gives.

#include "test/train/crew.h"

// Losses and norms of the gradient at every step, ragged last ones among them.
static void check_equality(int method, enum dtype compute, double band,
                           void (*change)(struct whole *run, int rank, int size))
{
    static const int sizes[] = { 2, 3, 4, 8 };
    struct crew *one = crew_make(1, method, compute, change);
    CHECK(ranks_run(1, crew_run_rank, one));
    struct whole *alone = one->runs[0];
    int64_t steps = alone->training.steps;
    CHECK(steps > 4 && alone->training.epoch_batches % CREW_ACCUMULATION);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct crew *crew = crew_make(sizes[i], method, compute, change);
        CHECK(ranks_run(sizes[i], crew_run_rank, crew));
        for (int rank = 0; rank < sizes[i]; rank++) {
            CHECK(crew_farthest(crew->runs[rank]->losses, alone->losses, steps) < band);
            CHECK(crew_farthest(crew->runs[rank]->norms, alone->norms, steps) < 10 * band);
            CHECK(!memcmp(crew->runs[rank]->losses, crew->runs[0]->losses,
                          sizeof alone->losses)); // the same bits on every rank
        }
        crew_finish(crew, sizes[i]);
    }
    crew_finish(one, 1);
}

TEST(training_lora_by_ranks_equals_one_rank)
{
    check_equality(RECIPE_LORA, DTYPE_F32, 1e-6, NULL);
}

TEST(training_qlora_by_ranks_equals_one_rank)
{
    check_equality(RECIPE_QLORA, DTYPE_F32, 1e-6, NULL);
}

static void share_states(struct whole *run, int rank, int size)
{
    run->tiny->setup.rank = rank;
    run->tiny->setup.ranks = size;
}

TEST(training_full_by_ranks_that_share_the_states_equals_one_rank)
{
    check_equality(RECIPE_FULL, DTYPE_F32, 1e-6, share_states);
}

TEST(training_full_by_ranks_equals_one_rank)
{
    check_equality(RECIPE_FULL, DTYPE_F32, 1e-6, NULL);
}

static void set_dropout(struct whole *run, int rank, int size)
{
    (void)rank, (void)size;
    run->tiny->recipe.dropout = 0.1;
}

TEST(training_masks_of_dropout_do_not_depend_on_ranks)
{
    check_equality(RECIPE_LORA, DTYPE_F32, 1e-6, set_dropout);
}

// --- states that ranks share -------------------------------------------------

// What the runs below have besides, or not: set before a crew is made.
static struct {
    bool is_shared, has_bf16_states, is_sgd;
} variant;

static void vary(struct whole *run, int rank, int size)
{
    run->training.settings.epochs = 1.5;
    run->training.settings.clip = 0; // a norm is summed in another order by ranks that share
    run->tiny->setup.bf16_states = variant.has_bf16_states;
    run->tiny->setup.has_momentum = variant.is_sgd;
    if (variant.is_sgd) {
        run->tiny->recipe.optimizer = RECIPE_SGD;
        run->training.settings.momentum = 0.9;
    }
    run->training.settings.decay = 0.01;
    if (variant.is_shared)
        share_states(run, rank, size);
}

static const struct kind {
    enum dtype compute;
    bool has_bf16_states, is_sgd;
} kinds[] = { { DTYPE_F32, false, false },
              { DTYPE_BF16, false, false },
              { DTYPE_BF16, true, false },
              { DTYPE_F64, false, false },
              { DTYPE_F32, false, true } };
enum { KINDS = sizeof kinds / sizeof *kinds };

static struct crew *crew_of(const struct kind *kind, bool is_shared, int size)
{
    variant.is_shared = is_shared;
    variant.has_bf16_states = kind->has_bf16_states;
    variant.is_sgd = kind->is_sgd;
    return crew_make(size, RECIPE_FULL, kind->compute, vary);
}

static bool have_same_weights(const struct whole *a, const struct whole *b)
{
    const struct transformer *s = &a->tiny->transformer, *t = &b->tiny->transformer;
    for (size_t i = 0; i < t->parameter_count; i++)
        if (memcmp(s->parameters[i].value.at, t->parameters[i].value.at,
                   (size_t)tensor_bytes(t->parameters[i].value)))
            return false;
    return true;
}

// Of two ranks: of more, the parts that a ring sums begin elsewhere, and so do their roundings.
TEST(training_with_shared_states_gives_the_bits_of_whole_ones)
{
    for (int i = 0; i < KINDS; i++) {
        struct crew *whole = crew_of(&kinds[i], false, 2), *shared = crew_of(&kinds[i], true, 2);
        CHECK(ranks_run(2, crew_run_rank, whole) && ranks_run(2, crew_run_rank, shared));
        for (int rank = 0; rank < 2; rank++) {
            CHECK(have_same_weights(shared->runs[rank], whole->runs[0]));
            CHECK(!memcmp(shared->runs[rank]->losses, whole->runs[0]->losses,
                          sizeof whole->runs[0]->losses));
        }
        crew_finish(whole, 2);
        crew_finish(shared, 2);
    }
}

TEST(training_with_shared_states_needs_their_part_of_the_memory)
{
    for (int i = 0; i < KINDS; i++) {
        struct crew *whole = crew_of(&kinds[i], false, 1), *shared = crew_of(&kinds[i], true, 4);
        int64_t all = whole->runs[0]->tiny->transformer.blocks.bytes[BLOCKS_OPTIMIZER], sum = 0;
        for (int rank = 0; rank < 4; rank++)
            sum += shared->runs[rank]->tiny->transformer.blocks.bytes[BLOCKS_OPTIMIZER];
        CHECK(all > 0 && sum >= all && (double)sum < 1.1 * (double)all); // gaps between weights
        CHECK(blocks_are_full(&shared->runs[3]->tiny->transformer.blocks));
        crew_finish(whole, 1);
        crew_finish(shared, 4);
    }
}

// Stopped after half of the steps by three ranks, and continued by one, two and three.
static struct crew *stopped_crew(const struct kind *kind, int64_t half)
{
    struct crew *crew = crew_of(kind, true, 3);
    for (int rank = 0; rank < 3; rank++)
        crew->runs[rank]->stop_at = half;
    CHECK(ranks_run(3, crew_run_rank, crew));
    CHECK(crew->runs[0]->training.is_stopped && crew->runs[0]->training.state.step == half);
    return crew;
}

TEST(training_with_shared_states_goes_on_with_any_number_of_ranks)
{
    for (int i = 0; i < KINDS; i++) {
        struct crew *straight = crew_of(&kinds[i], true, 3);
        CHECK(ranks_run(3, crew_run_rank, straight));
        int64_t all = straight->runs[0]->training.steps, half = all / 2;
        struct crew *stopped = stopped_crew(&kinds[i], half);
        for (int size = 3; size > 0; size--) {
            struct crew *resumed = crew_of(&kinds[i], size > 1, size);
            crew_go_on(resumed, size, stopped);
            CHECK(ranks_run(size, crew_run_rank, resumed));
            const double *a = resumed->runs[0]->losses, *b = straight->runs[0]->losses;
            double band = kinds[i].compute == DTYPE_BF16 ? 2e-2 : 1e-6;
            CHECK(a[half - 1] == 0 && crew_farthest(a + half, b + half, all - half) < band);
            CHECK(size < 3 || have_same_weights(resumed->runs[0], straight->runs[0]));
            CHECK(size < 3 || !memcmp(a + half, b + half, (size_t)(all - half) * sizeof *a));
            crew_finish(resumed, size);
        }
        crew_finish(stopped, 3);
        crew_finish(straight, 3);
    }
}
