// SPDX-License-Identifier: Apache-2.0
// group: the ranks that train one model together, and what they send each other.
//
//     struct group group;
//     TRY(group_open(&group, &place));               // place: from group_place() (group_place.h)
//     group_use(&group, &device);                    // tensors lie in this device's memory
//     group_all_reduce(&group, gradients);           // queued: the sum of all ranks, on every rank
//     TRY(group_wait(&group));                       // later operations see it; the first error
//     TRY(group_sum(&group, &loss, 1));              // numbers of the host, at once
//     group_close(&group);
//
// A collective is a ring over one primitive: send to the next rank while receiving from the one
// before (group.c). Transports differ only in that primitive: sockets (group_tcp.c), threads of
// one process (group_threads.c, for tests) and MPI (group_mpi.c). With GPUs and NCCL, NCCL moves
// the tensors between the devices instead, on a stream of its own, and only numbers of the host use
// the ring.
//
// Every rank makes the same calls in the same order. Sums are added in an order that depends only
// on the number of ranks, and every rank gets the same bits. The parts of a reduce-scatter and an
// all-gather are those of group_part(): the last ones may be smaller, or empty.

#pragma once

#include "train/backend.h"

#include <stddef.h>

// What crosses between ranks: tensors by collective, and numbers of the host.
enum group_operation {
    GROUP_ALL_REDUCE,
    GROUP_REDUCE_SCATTER,
    GROUP_ALL_GATHER,
    GROUP_BROADCAST,
    GROUP_NUMBERS,
    GROUP_OPERATIONS
};
extern const char *const group_operation_names[];

struct group_transport;

struct group {
    int rank, size;
    int local_rank, local_size;              // among the ranks of this host
    const struct group_transport *transport; // NULL: a single rank
    void *own;                               // the transport's
    struct device *device;                   // NULL: tensors lie in the host's memory
    bool is_on_device;                       // tensors go from device to device
    const char *note;                        // why they do not, though the devices are GPUs
    enum group_operation operation;          // the present one, that bytes are counted for
    struct group_traffic {
        int64_t calls, bytes; // bytes that this rank sent
    } traffic[GROUP_OPERATIONS];
    struct group_seconds seconds; // of collectives through the host, until group_seconds()
    enum err err;                 // of a tensor's collective, until group_wait() returns it
    char problem[256];
};

static inline struct group group_alone(void)
{
    return (struct group){ .rank = 0, .size = 1, .local_rank = 0, .local_size = 1 };
}

struct group_place; // group_place.h: which rank this process is, and where the others are

enum err group_open(struct group *group, const struct group_place *place);
void group_close(struct group *group); // all ranks end in order
// This rank fails: the others are told, and end.
void group_abort(struct group *group, enum err err);

// The device whose memory the tensors lie in. Opens NCCL where the devices have it.
enum err group_use(struct group *group, struct device *device);

// The elements of a tensor that are a rank's: `count` of them from `first` on, so that all parts
// but the last ones are equal and begin at a multiple of GROUP_ALIGNMENT elements.
enum { GROUP_ALIGNMENT = 128 };
struct group_part {
    int64_t first, count;
};
struct group_part group_part(const struct group *group, int64_t elements, int rank);
struct group_part group_part_of(int64_t elements, int rank, int size); // without a group

// In place, on a dense tensor of fp32, fp64 or bf16 that every rank has in the same shape.
void group_all_reduce(struct group *group, struct tensor tensor);
void group_reduce_scatter(struct group *group, struct tensor tensor); // sums the rank's own part
void group_all_gather(struct group *group, struct tensor tensor);     // spreads each rank's part
// The same from parts that lie elsewhere; this rank's is `own`.
void group_all_gather_from(struct group *group, struct tensor tensor, struct tensor own);
void group_broadcast(struct group *group, struct tensor tensor, int root);
void group_order(struct group *group);    // later operations wait for what was queued
enum err group_wait(struct group *group); // the same; returns the first error

// What this rank spent in tensors' collectives since the last call, and how much of it computation
// waited for; the rest lay under computation. Waits for the device.
struct group_seconds group_seconds(struct group *group);

// Numbers of the host; the same result on every rank.
enum err group_sum(struct group *group, double *values, int64_t count);
enum err group_least(struct group *group, double *values, int64_t count); // of each number
enum err group_meet(struct group *group); // until every rank has come here

// Bytes of the host: those of rank 0, then those of rank 1, …; sizes has one number for each rank.
// Every rank comes with its own in place and has all of them after.
enum err group_gather(struct group *group, void *all, const int64_t *sizes);

// N ranks in one process, each for a thread of its own, so that tests need one machine and no GPU.
// group_abort() of one ends the waits of the others with an error.
struct group_threads;
enum err group_threads_open(struct group_threads **out, struct group *groups, int size);
void group_threads_close(struct group_threads *threads); // after every thread has ended
