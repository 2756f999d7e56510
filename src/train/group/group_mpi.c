// SPDX-License-Identifier: Apache-2.0
// MPI between ranks that mpirun started. Elsewhere MPI is not started, so that plain commands stay
// fast; a rank that dies is mpirun's to notice.

#include "train/group/group_internal.h"
#include "train/group/group_place.h"

#include <mpi.h>
#include <stdlib.h>

static enum err exchange(struct group *group, const void *send, size_t sent, void *receive,
                         size_t received)
{
    int next = (group->rank + 1) % group->size;
    int before = (group->rank + group->size - 1) % group->size;
    int status = MPI_Sendrecv(send, (int)sent, MPI_BYTE, sent ? next : MPI_PROC_NULL, 0, receive,
                              (int)received, MPI_BYTE, received ? before : MPI_PROC_NULL, 0,
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return status == MPI_SUCCESS ? OK : fail(ERR_UNAVAILABLE, "MPI cannot reach the other ranks");
}

static void close_mpi(struct group *group)
{
    int ended = 0;
    (void)group;
    MPI_Finalized(&ended);
    if (!ended)
        MPI_Finalize();
}

static void abort_mpi(struct group *group, enum err err)
{
    (void)group;
    MPI_Abort(MPI_COMM_WORLD, (int)err);
}

static const struct group_transport transport_mpi = {
    .name = "MPI", .exchange = exchange, .close = close_mpi, .abort = abort_mpi
};

enum err group_mpi_open(struct group *group, const struct group_place *place, bool *is_open)
{
    *is_open = getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK");
    if (!*is_open || place->has_parent)
        return *is_open = false, OK;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return fail(ERR_UNAVAILABLE,
                    "MPI cannot be started although mpirun's environment variables are set");
    MPI_Comm_rank(MPI_COMM_WORLD, &group->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &group->size);
    group->transport = &transport_mpi;
    return OK;
}
