// SPDX-License-Identifier: Apache-2.0
// Process groups with MPI. Without a launcher MPI is not started, so that plain commands stay fast.

#include "train/group.h"

#include <mpi.h>
#include <stdlib.h>

enum { PIECE = 1 << 24 }; // elements per call: MPI counts are ints

static int has_launcher(void)
{
    static const char *const variables[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK" };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]))
            return 1;
    return 0;
}

enum err group_open(struct group *group)
{
    *group = (struct group){ 0, 1 };
    if (!has_launcher())
        return OK;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return fail(ERR_UNAVAILABLE,
                    "MPI cannot be started although mpirun's environment variables are set");
    MPI_Comm_rank(MPI_COMM_WORLD, &group->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &group->size);
    return OK;
}

void group_close(struct group *group)
{
    int started = 0, ended = 0;
    (void)group;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (started && !ended)
        MPI_Finalize();
}

void group_abort(const struct group *group, enum err err)
{
    if (group->size > 1)
        MPI_Abort(MPI_COMM_WORLD, (int)err);
}

void group_sum(const struct group *group, double *values, int64_t count)
{
    if (group->size > 1)
        MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

void group_sum_f32(const struct group *group, float *values, int64_t count)
{
    for (int64_t at = 0; group->size > 1 && at < count; at += PIECE)
        MPI_Allreduce(MPI_IN_PLACE, values + at, (int)(count - at < PIECE ? count - at : PIECE),
                      MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

void group_wait(const struct group *group)
{
    if (group->size > 1)
        MPI_Barrier(MPI_COMM_WORLD);
}
