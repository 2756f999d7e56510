// SPDX-License-Identifier: Apache-2.0
// Runs by several ranks, as threads of this process: what they give equals what one rank gives.

#include "test/train/ranks.h"
#include "test/train/whole.h"

enum { ACCUMULATION = 24 }; // a multiple of every number of ranks

struct crew {
    struct whole *runs[RANKS_MOST];
    struct device devices[RANKS_MOST];
    bool resumes;
};

static bool run_rank(struct group *group, void *context)
{
    struct crew *crew = context;
    struct whole *run = crew->runs[group->rank];
    struct arena arena = { 0 };
    run->group = *group;
    bool good = !group_use(&run->group, run->tiny->transformer.device) &&
                !training_plan(&run->training) &&
                (!crew->resumes || !training_resume(&run->training, &arena)) &&
                !training_run(&run->training);
    if (!good)
        fprintf(stderr, "rank %d: %s\n", group->rank, error_text());
    arena_release(&arena);
    return good;
}

// What the ranks differ in is set by change(), before they are laid out.
static struct crew *make_crew(int size, int method, enum dtype compute,
                              void (*change)(struct whole *run, int rank, int size))
{
    struct crew *crew = ARENA_NEW(&test_arena, struct crew, 1);
    for (int i = 0; i < size; i++) {
        CHECK(!backend_cpu.open(&crew->devices[i], 0));
        crew->runs[i] = whole_make(method, compute, 1, ACCUMULATION);
        crew->runs[i]->training.settings.epochs = 2;
        if (change)
            change(crew->runs[i], i, size);
        whole_start(crew->runs[i], &crew->devices[i]);
    }
    return crew;
}

static void finish_crew(struct crew *crew, int size)
{
    for (int i = 0; i < size; i++) {
        whole_finish(crew->runs[i]);
        crew->devices[i].backend->close(&crew->devices[i]);
    }
}

static double farthest(const double *a, const double *b, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++)
        worst = fmax(worst, fabs(a[i] - b[i]) / fabs(b[i]));
    return worst;
}

// Losses and norms of the gradient at every step, ragged last ones among them.
static void check_equality(int method, enum dtype compute, double band,
                           void (*change)(struct whole *run, int rank, int size))
{
    static const int sizes[] = { 2, 3, 4, 8 };
    struct crew *one = make_crew(1, method, compute, change);
    CHECK(ranks_run(1, run_rank, one));
    struct whole *alone = one->runs[0];
    int64_t steps = alone->training.steps;
    CHECK(steps > 4 && alone->training.epoch_batches % ACCUMULATION);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct crew *crew = make_crew(sizes[i], method, compute, change);
        CHECK(ranks_run(sizes[i], run_rank, crew));
        for (int rank = 0; rank < sizes[i]; rank++) {
            CHECK(farthest(crew->runs[rank]->losses, alone->losses, steps) < band);
            CHECK(farthest(crew->runs[rank]->norms, alone->norms, steps) < 10 * band);
            CHECK(!memcmp(crew->runs[rank]->losses, crew->runs[0]->losses,
                          sizeof alone->losses)); // the same bits on every rank
        }
        finish_crew(crew, sizes[i]);
    }
    finish_crew(one, 1);
}

TEST(training_lora_by_ranks_equals_one_rank)
{
    check_equality(RECIPE_LORA, DTYPE_F32, 1e-6, NULL);
}

TEST(training_qlora_by_ranks_equals_one_rank)
{
    check_equality(RECIPE_QLORA, DTYPE_F32, 1e-6, NULL);
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
