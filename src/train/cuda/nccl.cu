// SPDX-License-Identifier: Apache-2.0
// Collectives between GPUs through NCCL, which is loaded when ranks first need it: the library is
// not linked, and the same build runs without it.
//
// They run on a stream of their own. An event lets it wait for what was queued before, and another
// lets later operations wait for it:
//
//     compute  ──▶ backward ─┬─▶ …                  ─┬─▶ optimizer
//     group                  └─▶ reduce, gather ─────┘ group_wait()
//
// Events on both streams time the collectives, and how long computation waited for them.
//
// The few declarations of NCCL that are used stand here; its ABI keeps them since version 2.10.
// Where nccl.h is installed, the build compares.

#include "train/cuda/cuda.h"

#include "train/cuda/operations.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

typedef struct nccl_state *nccl_comm;
enum { NCCL_SUM = 0, NCCL_F32 = 7, NCCL_F64 = 8, NCCL_BF16 = 9 };

#ifdef NCCL_VERSION_CODE
static_assert((int)NCCL_SUM == (int)ncclSum && (int)NCCL_F32 == (int)ncclFloat32 &&
                  (int)NCCL_F64 == (int)ncclFloat64 && (int)NCCL_BF16 == (int)ncclBfloat16 &&
                  sizeof(struct group_id) == sizeof(ncclUniqueId) && ncclSuccess == 0,
              "nccl.h says otherwise");
#endif

// The functions by name; int stands for NCCL's enums.
static struct nccl {
    int (*get_id)(struct group_id *);
    int (*open)(nccl_comm *, int size, struct group_id, int rank);
    int (*destroy)(nccl_comm);
    const char *(*explain)(int);
    int (*begin)(void);
    int (*end)(void);
    int (*all_reduce)(const void *, void *, size_t, int, int, nccl_comm, cudaStream_t);
    int (*reduce_scatter)(const void *, void *, size_t, int, int, nccl_comm, cudaStream_t);
    int (*all_gather)(const void *, void *, size_t, int, nccl_comm, cudaStream_t);
    int (*broadcast)(const void *, void *, size_t, int, int, nccl_comm, cudaStream_t);
    int (*reduce)(const void *, void *, size_t, int, int, int, nccl_comm, cudaStream_t);
} nccl;

// Stretches of a stream, each between two events.
struct spans {
    cudaEvent_t (*ends)[2];
    int count, room;
};

struct cuda_group {
    nccl_comm comm;
    cudaStream_t stream;
    cudaEvent_t before, after; // of the compute stream; of this one
    int rank, size;
    bool is_used; // since the last group_wait()
    struct spans collectives, waits;
};

// --- loading -----------------------------------------------------------------

// By its soname, from where the system's loader looks: never from the current folder.
static enum err load()
{
    static const struct {
        const char *name;
        void **to;
    } symbols[] = {
        { "ncclGetUniqueId", (void **)&nccl.get_id },
        { "ncclCommInitRank", (void **)&nccl.open },
        { "ncclCommDestroy", (void **)&nccl.destroy },
        { "ncclGetErrorString", (void **)&nccl.explain },
        { "ncclGroupStart", (void **)&nccl.begin },
        { "ncclGroupEnd", (void **)&nccl.end },
        { "ncclAllReduce", (void **)&nccl.all_reduce },
        { "ncclReduceScatter", (void **)&nccl.reduce_scatter },
        { "ncclAllGather", (void **)&nccl.all_gather },
        { "ncclBroadcast", (void **)&nccl.broadcast },
        { "ncclReduce", (void **)&nccl.reduce },
    };
    static void *handle;
    if (handle)
        return OK;
    void *found = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!found) {
        const char *why = dlerror();
        return fail(ERR_UNAVAILABLE, "cannot load NCCL: %s", why ? why : "libnccl.so.2 not found");
    }
    for (auto &symbol : symbols) {
        *symbol.to = dlsym(found, symbol.name);
        if (!*symbol.to)
            return fail(ERR_UNAVAILABLE, "NCCL has no %s; install version 2.10 or newer",
                        symbol.name);
    }
    handle = found;
    return OK;
}

enum err cuda_group_id(struct device *device, struct group_id *out)
{
    (void)device;
    enum err err = load();
    if (err || !out)
        return err;
    int status = nccl.get_id(out);
    return status ? fail(ERR_UNAVAILABLE, "NCCL: %s", nccl.explain(status)) : OK;
}

// --- timing ------------------------------------------------------------------

enum { SPANS_MOST = 1 << 16 }; // beyond that, nothing is timed until cuda_group_seconds()

static bool make_span(struct spans *spans)
{
    if (spans->count < spans->room)
        return true;
    if (spans->room == SPANS_MOST)
        return false;
    int room = spans->room ? 2 * spans->room : 64;
    void *ends = realloc(spans->ends, (size_t)room * sizeof *spans->ends);
    if (!ends)
        return false;
    spans->ends = (cudaEvent_t(*)[2])ends;
    for (; spans->room < room; spans->room++)
        if (cudaEventCreate(&spans->ends[spans->room][0]) != cudaSuccess ||
            cudaEventCreate(&spans->ends[spans->room][1]) != cudaSuccess)
            break;
    return spans->count < spans->room;
}

static void begin_span(struct spans *spans, cudaStream_t stream)
{
    if (make_span(spans))
        cudaEventRecord(spans->ends[spans->count][0], stream);
}

static void end_span(struct spans *spans, cudaStream_t stream)
{
    if (spans->count < spans->room)
        cudaEventRecord(spans->ends[spans->count++][1], stream);
}

static double seconds_of(struct spans *spans)
{
    double sum = 0;
    for (int i = 0; i < spans->count; i++) {
        float milliseconds = 0;
        if (cudaEventElapsedTime(&milliseconds, spans->ends[i][0], spans->ends[i][1]) ==
            cudaSuccess)
            sum += milliseconds / 1e3;
    }
    spans->count = 0;
    return sum;
}

static void release_spans(struct spans *spans)
{
    for (int i = 0; i < spans->room; i++)
        for (int end = 0; end < 2; end++)
            cudaEventDestroy(spans->ends[i][end]);
    free(spans->ends);
}

struct group_seconds cuda_group_seconds(struct device *device)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_group *group = cuda->group;
    struct group_seconds seconds = { 0, 0 };
    if (!group || cuda->err ||
        !cuda_check(cuda, cudaStreamSynchronize(group->stream), "a collective") ||
        !cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "an operation"))
        return seconds;
    seconds.all = seconds_of(&group->collectives);
    seconds.waited = seconds_of(&group->waits);
    return seconds;
}

// --- opening -----------------------------------------------------------------

// NCCL connects, allocates its buffers and loads its kernels when each kind of collective first
// runs. Here, so that the memory is counted before the run is planned.
static int connect(const struct cuda *cuda)
{
    const struct cuda_group *group = cuda->group;
    float *at = (float *)cuda->partials, *own = at + group->rank;
    size_t all = (size_t)group->size;
    int status = nccl.all_reduce(at, at, all, NCCL_F32, NCCL_SUM, group->comm, group->stream);
    status = status
                 ? status
                 : nccl.reduce_scatter(at, own, 1, NCCL_F32, NCCL_SUM, group->comm, group->stream);
    status = status ? status : nccl.all_gather(own, at, 1, NCCL_F32, group->comm, group->stream);
    status = status ? status
                    : nccl.reduce(at, at, all, NCCL_F32, NCCL_SUM, 0, group->comm, group->stream);
    return status ? status : nccl.broadcast(at, at, all, NCCL_F32, 0, group->comm, group->stream);
}

void cuda_group_close(struct device *device)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_group *group = cuda->group;
    if (!group)
        return;
    if (group->stream)
        cudaStreamSynchronize(group->stream);
    if (group->comm)
        nccl.destroy(group->comm);
    release_spans(&group->collectives);
    release_spans(&group->waits);
    if (group->before)
        cudaEventDestroy(group->before);
    if (group->after)
        cudaEventDestroy(group->after);
    if (group->stream)
        cudaStreamDestroy(group->stream);
    cudaGetLastError();
    free(group);
    cuda->group = NULL;
}

enum err cuda_group_open(struct device *device, const struct group_id *id, int rank, int size)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_group *group = (struct cuda_group *)calloc(1, sizeof *group);
    if (!group)
        return fail(ERR_MEMORY, "out of memory: cannot open NCCL");
    group->rank = rank;
    group->size = size;
    cuda->group = group;
    cuda_check(cuda, cudaStreamCreateWithFlags(&group->stream, cudaStreamNonBlocking), "a stream");
    cuda_check(cuda, cudaEventCreateWithFlags(&group->before, cudaEventDisableTiming), "an event");
    cuda_check(cuda, cudaEventCreateWithFlags(&group->after, cudaEventDisableTiming), "an event");
    if (cuda->err)
        return fail(cuda->err, "%s: %s", device->name, cuda->problem);
    cudaMemsetAsync(cuda->partials, 0, (size_t)size * sizeof(float), group->stream);
    int status = nccl.open(&group->comm, size, *id, rank);
    status = status ? status : connect(cuda);
    if (status)
        return fail(ERR_UNAVAILABLE,
                    "NCCL cannot connect rank %d of %d: %s; NCCL_DEBUG=WARN says more", rank, size,
                    nccl.explain(status));
    return cuda_check(cuda, cudaStreamSynchronize(group->stream), "connecting ranks")
               ? OK
               : fail(cuda->err, "%s: %s", device->name, cuda->problem);
}

// --- collectives -------------------------------------------------------------

static int type_of(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? NCCL_F64 : dtype == DTYPE_BF16 ? NCCL_BF16 : NCCL_F32;
}

static size_t bytes_of(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? 8 : dtype == DTYPE_BF16 ? 2 : 4;
}

// The group's stream waits for what is queued on the device's; NULL: an error is already there.
static struct cuda_group *begin(struct cuda *cuda)
{
    struct cuda_group *group = cuda->group;
    if (cuda->err || !cuda_check(cuda, cudaEventRecord(group->before, cuda->stream), "an event") ||
        !cuda_check(cuda, cudaStreamWaitEvent(group->stream, group->before, 0), "a stream"))
        return NULL;
    group->is_used = true;
    begin_span(&group->collectives, group->stream);
    return group;
}

static void end(struct cuda *cuda, int status, const char *what)
{
    end_span(&cuda->group->collectives, cuda->group->stream);
    if (status)
        cuda_fail(cuda, ERR_UNAVAILABLE, "NCCL: %s failed: %s; NCCL_DEBUG=WARN says more", what,
                  nccl.explain(status));
}

void cuda_all_reduce(struct device *device, struct tensor t)
{
    struct cuda_group *group = begin(cuda_of(device));
    if (group)
        end(cuda_of(device),
            nccl.all_reduce(t.at, t.at, (size_t)t.columns, type_of(t.dtype), NCCL_SUM, group->comm,
                            group->stream),
            "all-reduce");
}

static int64_t part_count(int64_t elements, int64_t part, int rank)
{
    int64_t left = elements - part * rank;
    return left < 0 ? 0 : left < part ? left : part;
}

static char *part_at(struct tensor t, int64_t part, int rank)
{
    return (char *)t.at + (size_t)(part * rank) * bytes_of(t.dtype);
}

// NCCL's parts are equal. Others are a reduce to each rank, and a broadcast from each, in one group
// of calls.
void cuda_reduce_scatter(struct device *device, struct tensor t, int64_t part)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_group *group = begin(cuda);
    int type = type_of(t.dtype);
    if (!group)
        return;
    if (part * group->size == t.columns) {
        end(cuda,
            nccl.reduce_scatter(t.at, part_at(t, part, group->rank), (size_t)part, type, NCCL_SUM,
                                group->comm, group->stream),
            "reduce-scatter");
        return;
    }
    int status = nccl.begin();
    for (int rank = 0; rank < group->size && !status; rank++)
        if (part_count(t.columns, part, rank))
            status = nccl.reduce(part_at(t, part, rank), part_at(t, part, rank),
                                 (size_t)part_count(t.columns, part, rank), type, NCCL_SUM, rank,
                                 group->comm, group->stream);
    int ended = nccl.end();
    end(cuda, status ? status : ended, "reduce-scatter");
}

void cuda_all_gather(struct device *device, struct tensor t, const void *own, int64_t part)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_group *group = begin(cuda);
    int type = type_of(t.dtype);
    if (!group)
        return;
    if (part * group->size == t.columns) {
        end(cuda, nccl.all_gather(own, t.at, (size_t)part, type, group->comm, group->stream),
            "all-gather");
        return;
    }
    int status = nccl.begin();
    for (int rank = 0; rank < group->size && !status; rank++)
        if (part_count(t.columns, part, rank))
            status = nccl.broadcast(
                rank == group->rank ? own : part_at(t, part, rank), part_at(t, part, rank),
                (size_t)part_count(t.columns, part, rank), type, rank, group->comm, group->stream);
    int ended = nccl.end();
    end(cuda, status ? status : ended, "all-gather");
}

void cuda_broadcast(struct device *device, struct tensor t, int root)
{
    struct cuda_group *group = begin(cuda_of(device));
    if (group)
        end(cuda_of(device),
            nccl.broadcast(t.at, t.at, (size_t)t.columns, type_of(t.dtype), root, group->comm,
                           group->stream),
            "broadcast");
}

void cuda_group_wait(struct device *device)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_group *group = cuda->group;
    if (!group || !group->is_used)
        return;
    group->is_used = false;
    begin_span(&group->waits, cuda->stream);
    cuda_check(cuda, cudaEventRecord(group->after, group->stream), "an event");
    cuda_check(cuda, cudaStreamWaitEvent(cuda->stream, group->after, 0), "a stream");
    end_span(&group->waits, cuda->stream);
}
