// SPDX-License-Identifier: Apache-2.0
// group_internal: what the files of group share: the table of a transport, and how it fails.

#pragma once

#include "train/group/group.h"

// How bytes reach the neighbours in the ring: rank + 1, and rank − 1.
struct group_transport {
    const char *name;
    // Sends to the next rank while receiving from the one before; either size may be 0, and a size
    // that one rank sends is what the next one receives.
    enum err (*exchange)(struct group *group, const void *send, size_t sent, void *receive,
                         size_t received);
    void (*close)(struct group *group);
    void (*abort)(struct group *group, enum err err); // tells the others that this rank failed
};

// Sockets between processes (group_tcp.c).
enum err group_tcp_open(struct group *group, const struct group_place *place);

// With MPI, if mpirun started this process and the build has MPI; *is_open tells (group_mpi.c).
enum err group_mpi_open(struct group *group, const struct group_place *place, bool *is_open);
