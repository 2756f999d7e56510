// SPDX-License-Identifier: Apache-2.0
// A build without MPI: ranks that mpirun started reach each other over sockets.

#include "train/group/group_internal.h"

enum err group_mpi_open(struct group *group, const struct group_place *place, bool *is_open)
{
    (void)group, (void)place;
    *is_open = false;
    return OK;
}
