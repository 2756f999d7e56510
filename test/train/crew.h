// SPDX-License-Identifier: Apache-2.0
// crew: the same run by several ranks, each on a thread and a device of its own.
//
//     struct crew *crew = crew_make(3, RECIPE_LORA, DTYPE_F32, change);
//     CHECK(ranks_run(3, crew_run_rank, crew));
//     crew_finish(crew, 3);

#pragma once

#include "test/train/ranks.h"
#include "test/train/whole.h"

enum { CREW_ACCUMULATION = 24 }; // a multiple of every number of ranks

struct crew {
    struct whole *runs[RANKS_MOST];
    struct device devices[RANKS_MOST];
    bool resumes;
};

static inline bool crew_run_rank(struct group *group, void *context)
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
static inline struct crew *crew_make(int size, int method, enum dtype compute,
                                     void (*change)(struct whole *run, int rank, int size))
{
    struct crew *crew = ARENA_NEW(&test_arena, struct crew, 1);
    for (int i = 0; i < size; i++) {
        CHECK(!backend_cpu.open(&crew->devices[i], 0));
        crew->runs[i] = whole_make(method, compute, 1, CREW_ACCUMULATION);
        crew->runs[i]->training.settings.epochs = 2;
        if (change)
            change(crew->runs[i], i, size);
        whole_start(crew->runs[i], &crew->devices[i]);
    }
    return crew;
}

// Goes on from the checkpoint of a crew that was stopped.
static inline void crew_go_on(struct crew *crew, int size, const struct crew *stopped)
{
    char command[256];
    snprintf(command, sizeof command, "cp -r %s/checkpoints %s/", stopped->runs[0]->folder,
             crew->runs[0]->folder);
    CHECK(!system(command));
    for (int rank = 0; rank < size; rank++)
        crew->runs[rank]->training.out = crew->runs[0]->folder;
    crew->resumes = true;
}

static inline void crew_finish(struct crew *crew, int size)
{
    for (int i = 0; i < size; i++) {
        whole_finish(crew->runs[i]);
        crew->devices[i].backend->close(&crew->devices[i]);
    }
}

static inline double crew_farthest(const double *a, const double *b, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++)
        worst = fmax(worst, fabs(a[i] - b[i]) / fabs(b[i]));
    return worst;
}
