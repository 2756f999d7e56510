// SPDX-License-Identifier: Apache-2.0
// group: the processes that train one model together: a single one, or those of mpirun.
//
//     struct group group;
//     TRY(group_open(&group));
//     group_sum(&group, &loss, 1);   // the same on every rank
//     group_close(&group);
//
// group_one.c is linked without MPI, group_mpi.c with it; the latter is a group of one unless a
// launcher started it.

#pragma once

#include "base/error.h"

#include <stdint.h>

struct group {
    int rank, size;
};

enum err group_open(struct group *group);
void group_close(struct group *group);
void group_abort(const struct group *group, enum err err); // ends all processes with that exit code
void group_sum(const struct group *group, double *values, int64_t count);
void group_sum_f32(const struct group *group, float *values, int64_t count);
void group_wait(const struct group *group); // a barrier
