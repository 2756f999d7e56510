// group: the processes that train one model together: one alone, or those that mpirun started.
//
//     struct group group;
//     TRY(group_open(&group));
//     group_sum(&group, &loss, 1);   // the same on every rank
//     group_close(&group);
//
// group_one.c is linked where there is no MPI, group_mpi.c where there is; the latter is a group of
// one unless a launcher started it.

#pragma once

#include "base/error.h"

#include <stdint.h>

struct group {
    int rank, size;
};

enum err group_open(struct group *group);
void group_close(struct group *group);
void group_abort(const struct group *group, enum err err); // ends all processes, with that code
void group_sum(const struct group *group, double *values, int64_t count);
void group_sum_f32(const struct group *group, float *values, int64_t count);
void group_wait(const struct group *group); // until all are here
