// SPDX-License-Identifier: Apache-2.0
// Collectives as rings of exchanges between neighbours.
//
// A tensor is cut into as many slices as there are ranks. In each of n − 1 rounds a rank sends one
// slice to the next rank and receives another one from the rank before:
//
//     reduce-scatter   round s: send slice r − s − 1, add the received to slice r − s − 2
//                      after the last round slice r is the sum of all ranks
//     all-gather       round s: send slice r − s, receive slice r − s − 1
//     all-reduce       a reduce-scatter, then an all-gather: every rank has the same bits
//     broadcast        from the root around the ring, chunk after chunk
//
// So a rank sends (n − 1)/n of the bytes for each of the first two, and 2 (n − 1)/n for an
// all-reduce, which is what the forecast counts (core/step/network.h).

#include "train/group/group_internal.h"

#include "base/arena.h"
#include "base/half.h"
#include "host/clock.h"
#include "train/group/group_place.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const group_operation_names[] = { "all-reduce", "reduce-scatter", "all-gather",
                                              "broadcast",  "numbers",        NULL };

enum { CHUNK_BYTES = 1 << 20, MOST_RANKS = 4096 };

// --- opening -----------------------------------------------------------------

enum err group_open(struct group *group, const struct group_place *place)
{
    bool is_open = false;
    *group = (struct group){ .rank = place->rank,
                             .size = place->size,
                             .local_rank = place->local_rank,
                             .local_size = place->local_size };
    if (place->size > MOST_RANKS)
        return fail(ERR_USAGE, "%d ranks are more than the %d that a group may have", place->size,
                    MOST_RANKS);
    TRY(group_mpi_open(group, place, &is_open));
    return is_open || group->size == 1 ? OK : group_tcp_open(group, place);
}

void group_close(struct group *group)
{
    if (group->is_on_device)
        group->device->backend->group_close(group->device);
    if (group->transport)
        group->transport->close(group);
    group->transport = NULL;
    group->is_on_device = false;
}

void group_abort(struct group *group, enum err err)
{
    if (group->transport)
        group->transport->abort(group, err);
}

// Rank 0 draws NCCL's id, and the bytes reach the others as numbers. A rank without NCCL turns it
// off for all.
enum err group_use(struct group *group, struct device *device)
{
    const struct backend *backend = device->backend;
    struct group_id id = { { 0 } };
    double numbers[sizeof id.bytes + 1] = { 0 };
    enum { ABLE = sizeof id.bytes };
    group->device = device;
    if (group->size == 1)
        return OK;
    numbers[ABLE] = backend->group_id && !backend->group_id(device, group->rank ? NULL : &id);
    for (size_t i = 0; i < sizeof id.bytes; i++)
        numbers[i] = (unsigned char)id.bytes[i];
    TRY(group_sum(group, numbers, ABLE + 1));
    if (numbers[ABLE] < group->size) {
        if (backend->group_id)
            group->note = "NCCL cannot be loaded on every rank (libnccl.so.2): gradients take the "
                          "slower way through the host";
        return OK;
    }
    for (size_t i = 0; i < sizeof id.bytes; i++)
        id.bytes[i] = (char)(unsigned char)numbers[i];
    int64_t used = backend->used_bytes(device);
    TRY(backend->group_open(device, &id, group->rank, group->size));
    device->overhead_bytes += backend->used_bytes(device) - used;
    group->is_on_device = true;
    return OK;
}

// --- exchanges ---------------------------------------------------------------

static enum err exchange(struct group *group, const void *send, size_t sent, void *receive,
                         size_t received)
{
    group->traffic[group->operation].bytes += (int64_t)sent;
    return group->transport->exchange(group, send, sent, receive, received);
}

struct slice { // in the host's memory
    char *at;
    int64_t count;
};

static void add(char *to, const char *from, int64_t count, enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        for (int64_t i = 0; i < count; i++)
            ((float *)to)[i] += ((const float *)from)[i];
    else if (dtype == DTYPE_F64)
        for (int64_t i = 0; i < count; i++)
            ((double *)to)[i] += ((const double *)from)[i];
    else
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)to)[i] = half_to_bf16(half_from_bf16(((const uint16_t *)from)[i]) +
                                               half_from_bf16(((uint16_t *)to)[i]));
}

static int64_t within(int64_t count, int64_t first, int64_t most)
{
    return count <= first ? 0 : count - first < most ? count - first : most;
}

// Sends one slice and receives another, chunk by chunk; the received is added to what is there, or
// replaces it.
static enum err pass_slice(struct group *group, struct slice send, struct slice receive,
                           enum dtype dtype, char *chunk)
{
    int64_t element = dtype_bytes(dtype), each = CHUNK_BYTES / element;
    for (int64_t at = 0; at < send.count || at < receive.count; at += each) {
        int64_t sent = within(send.count, at, each), received = within(receive.count, at, each);
        char *to = receive.at ? receive.at + at * element : NULL;
        TRY(exchange(group, send.at ? send.at + at * element : NULL, (size_t)(sent * element),
                     chunk ? chunk : to, (size_t)(received * element)));
        if (chunk)
            add(to, chunk, received, dtype);
    }
    return OK;
}

static int around(const struct group *group, int rank)
{
    return (rank % group->size + group->size) % group->size;
}

static enum err reduce_slices(struct group *group, const struct slice *slices, enum dtype dtype)
{
    struct arena scratch = { 0 };
    char *chunk = arena_alloc(&scratch, CHUNK_BYTES);
    enum err err = OK;
    for (int round = 0; round < group->size - 1 && !err; round++)
        err = pass_slice(group, slices[around(group, group->rank - round - 1)],
                         slices[around(group, group->rank - round - 2)], dtype, chunk);
    arena_release(&scratch);
    return err;
}

static enum err gather_slices(struct group *group, const struct slice *slices, enum dtype dtype)
{
    for (int round = 0; round < group->size - 1; round++)
        TRY(pass_slice(group, slices[around(group, group->rank - round)],
                       slices[around(group, group->rank - round - 1)], dtype, NULL));
    return OK;
}

// --- tensors through the host ------------------------------------------------

struct group_part group_part_of(int64_t elements, int rank, int size)
{
    int64_t each = (elements + size - 1) / size;
    each = (each + GROUP_ALIGNMENT - 1) / GROUP_ALIGNMENT * GROUP_ALIGNMENT;
    int64_t first = each * rank < elements ? each * rank : elements;
    return (struct group_part){ first, within(elements, first, each) };
}

struct group_part group_part(const struct group *group, int64_t elements, int rank)
{
    return group_part_of(elements, rank, group->size);
}

static bool is_in_host_memory(const struct group *group)
{
    return !group->device || group->device->backend == &backend_cpu;
}

enum { STAGED = 1 << 20 }; // elements of each part that pass through the host at a time

struct collective {
    bool reduces, gathers;
    const char *own; // this rank's part, if it lies elsewhere
};

// The same window of every part: as it lies in the host's memory, or staged there.
static enum err run_window(struct group *group, struct tensor tensor, struct collective what,
                           int64_t first, int64_t most, char *stage)
{
    struct arena scratch = { 0 };
    struct device *device = group->device;
    int64_t element = dtype_bytes(tensor.dtype);
    struct slice *slices = ARENA_NEW(&scratch, struct slice, group->size);
    char **from = ARENA_NEW(&scratch, char *, group->size);
    for (int i = 0; i < group->size; i++) {
        struct group_part part = group_part(group, tensor.columns, i);
        from[i] = (char *)tensor.at + (part.first + first) * element;
        slices[i] = (struct slice){ stage ? stage + i * most * element : from[i],
                                    within(part.count, first, most) };
        const char *source = what.own && i == group->rank ? what.own + first * element : from[i];
        if (stage && (what.reduces || i == group->rank))
            device->backend->download(device, slices[i].at, source, slices[i].count * element);
        else if (source != from[i])
            memcpy(from[i], source, (size_t)(slices[i].count * element));
    }
    enum err err = what.reduces ? reduce_slices(group, slices, tensor.dtype) : OK;
    if (!err && what.gathers)
        err = gather_slices(group, slices, tensor.dtype);
    for (int i = 0; stage && !err && i < group->size; i++)
        if (what.gathers || i == group->rank)
            device->backend->upload(device, from[i], slices[i].at, slices[i].count * element);
    arena_release(&scratch);
    return err;
}

static enum err run_in_host(struct group *group, struct tensor tensor, struct collective what)
{
    int64_t longest = group_part(group, tensor.columns, 0).count;
    if (is_in_host_memory(group))
        return run_window(group, tensor, what, 0, longest, NULL);
    struct arena scratch = { 0 };
    char *stage = arena_alloc(&scratch, (size_t)(STAGED * group->size * dtype_bytes(tensor.dtype)));
    enum err err = OK;
    for (int64_t first = 0; first < longest && !err; first += STAGED)
        err = run_window(group, tensor, what, first, STAGED, stage);
    arena_release(&scratch);
    return err;
}

// From the root to the rank before it, chunk after chunk: all ranks are busy but for the ends.
static enum err broadcast_in_host(struct group *group, struct tensor tensor, int root)
{
    struct arena scratch = { 0 };
    struct device *device = group->device;
    bool is_staged = !is_in_host_memory(group), is_root = group->rank == root;
    bool sends = around(group, group->rank + 1) != root;
    int64_t bytes = tensor_bytes(tensor);
    char *stage = is_staged ? arena_alloc(&scratch, CHUNK_BYTES) : NULL;
    enum err err = OK;
    for (int64_t at = 0; at < bytes && !err; at += CHUNK_BYTES) {
        int64_t size = within(bytes, at, CHUNK_BYTES);
        char *there = (char *)tensor.at + at, *here = is_staged ? stage : there;
        if (is_staged && is_root)
            device->backend->download(device, here, there, size);
        if (!is_root)
            err = exchange(group, NULL, 0, here, (size_t)size);
        if (!err && sends)
            err = exchange(group, here, (size_t)size, NULL, 0);
        if (!err && is_staged && !is_root)
            device->backend->upload(device, there, here, size);
    }
    arena_release(&scratch);
    return err;
}

// --- tensors -----------------------------------------------------------------

static bool begin(struct group *group, struct tensor *tensor, enum group_operation operation)
{
    assert(tensor_is_dense(*tensor) && tensor->dtype != DTYPE_F8);
    group->operation = operation;
    group->traffic[operation].calls++;
    *tensor = tensor_flat(*tensor);
    return group->size > 1 && !group->err && tensor->columns;
}

static void keep(struct group *group, enum err err)
{
    if (!err || group->err)
        return;
    group->err = err;
    snprintf(group->problem, sizeof group->problem, "%s", error_text());
}

// Through the host, computation waits for all of a collective.
static void run_timed(struct group *group, struct tensor tensor, struct collective what)
{
    double began = clock_seconds();
    keep(group, run_in_host(group, tensor, what));
    group->seconds.all += clock_seconds() - began;
    group->seconds.waited = group->seconds.all;
}

struct group_seconds group_seconds(struct group *group)
{
    struct group_seconds seconds = group->seconds;
    group->seconds = (struct group_seconds){ 0 };
    return group->is_on_device ? group->device->backend->group_seconds(group->device) : seconds;
}

// What a ring would send; NCCL chooses its own way.
static void count(struct group *group, struct tensor tensor, int rounds)
{
    int64_t own = group_part(group, tensor.columns, group->rank).count;
    int64_t others = (tensor.columns - own) * dtype_bytes(tensor.dtype);
    group->traffic[group->operation].bytes += rounds * others;
}

void group_all_reduce(struct group *group, struct tensor tensor)
{
    if (!begin(group, &tensor, GROUP_ALL_REDUCE))
        return;
    if (!group->is_on_device)
        return run_timed(group, tensor, (struct collective){ true, true, NULL });
    count(group, tensor, 2);
    group->device->backend->all_reduce(group->device, tensor);
}

void group_reduce_scatter(struct group *group, struct tensor tensor)
{
    if (!begin(group, &tensor, GROUP_REDUCE_SCATTER))
        return;
    if (!group->is_on_device)
        return run_timed(group, tensor, (struct collective){ true, false, NULL });
    count(group, tensor, 1);
    group->device->backend->reduce_scatter(group->device, tensor,
                                           group_part(group, tensor.columns, 0).count);
}

void group_all_gather(struct group *group, struct tensor tensor)
{
    struct tensor all = tensor_flat(tensor);
    struct group_part own = group_part(group, all.columns, group->rank);
    group_all_gather_from(group, tensor, tensor_columns(all, own.first, own.count));
}

void group_all_gather_from(struct group *group, struct tensor tensor, struct tensor own)
{
    if (!begin(group, &tensor, GROUP_ALL_GATHER))
        return;
    assert(own.columns == group_part(group, tensor.columns, group->rank).count);
    if (!group->is_on_device)
        return run_timed(group, tensor, (struct collective){ false, true, own.at });
    count(group, tensor, 1);
    group->device->backend->all_gather(group->device, tensor, own.at,
                                       group_part(group, tensor.columns, 0).count);
}

void group_broadcast(struct group *group, struct tensor tensor, int root)
{
    if (!begin(group, &tensor, GROUP_BROADCAST))
        return;
    if (!group->is_on_device)
        return keep(group, broadcast_in_host(group, tensor, root));
    if (around(group, group->rank + 1) != root)
        group->traffic[group->operation].bytes += tensor_bytes(tensor);
    group->device->backend->broadcast(group->device, tensor, root);
}

void group_order(struct group *group)
{
    if (group->is_on_device)
        group->device->backend->group_wait(group->device);
}

enum err group_wait(struct group *group)
{
    group_order(group);
    enum err err = group->err;
    group->err = OK;
    return err ? fail(err, "%s", group->problem) : OK;
}

// --- numbers -----------------------------------------------------------------

static void cut_numbers(const struct group *group, struct slice *out, double *values,
                        int64_t numbers)
{
    for (int i = 0; i < group->size; i++) {
        int64_t first = numbers * i / group->size, end = numbers * (i + 1) / group->size;
        out[i] = (struct slice){ (char *)(values + first), end - first };
    }
}

enum err group_sum(struct group *group, double *values, int64_t numbers)
{
    if (group->size == 1)
        return OK;
    struct arena scratch = { 0 };
    struct slice *slices = ARENA_NEW(&scratch, struct slice, group->size);
    group->operation = GROUP_NUMBERS;
    group->traffic[GROUP_NUMBERS].calls++;
    cut_numbers(group, slices, values, numbers);
    enum err err = reduce_slices(group, slices, DTYPE_F64);
    err = err ? err : gather_slices(group, slices, DTYPE_F64);
    arena_release(&scratch);
    return err;
}

enum err group_least(struct group *group, double *values, int64_t numbers)
{
    if (group->size == 1)
        return OK;
    struct arena scratch = { 0 };
    struct slice *slices = ARENA_NEW(&scratch, struct slice, group->size);
    double *all = ARENA_NEW(&scratch, double, numbers * group->size);
    group->operation = GROUP_NUMBERS;
    group->traffic[GROUP_NUMBERS].calls++;
    memcpy(all + group->rank * numbers, values, (size_t)numbers * sizeof *values);
    cut_numbers(group, slices, all, numbers * group->size);
    enum err err = gather_slices(group, slices, DTYPE_F64);
    for (int64_t i = 0; i < numbers * group->size && !err; i++)
        values[i % numbers] = fmin(values[i % numbers], all[i]);
    arena_release(&scratch);
    return err;
}

enum err group_meet(struct group *group)
{
    double nothing = 0;
    return group_sum(group, &nothing, 1);
}

enum err group_gather(struct group *group, void *all, const int64_t *sizes)
{
    if (group->size == 1)
        return OK;
    struct arena scratch = { 0 };
    struct slice *slices = ARENA_NEW(&scratch, struct slice, group->size);
    int64_t at = 0;
    group->operation = GROUP_NUMBERS;
    group->traffic[GROUP_NUMBERS].calls++;
    for (int i = 0; i < group->size; i++) {
        slices[i] = (struct slice){ (char *)all + at, sizes[i] };
        at += sizes[i];
    }
    enum err err = gather_slices(group, slices, DTYPE_F8); // an element is a byte
    arena_release(&scratch);
    return err;
}
