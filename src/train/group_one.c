// SPDX-License-Identifier: Apache-2.0
// A group of one process: every value is already the sum.

#include "train/group.h"

enum err group_open(struct group *group)
{
    *group = (struct group){ 0, 1 };
    return OK;
}

void group_close(struct group *group)
{
    (void)group;
}

void group_abort(const struct group *group, enum err err)
{
    (void)group, (void)err; // there is no other process
}

void group_sum(const struct group *group, double *values, int64_t count)
{
    (void)group, (void)values, (void)count;
}

void group_sum_f32(const struct group *group, float *values, int64_t count)
{
    (void)group, (void)values, (void)count;
}

void group_wait(const struct group *group)
{
    (void)group;
}
