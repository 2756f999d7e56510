// SPDX-License-Identifier: Apache-2.0
// Copies between the device and pinned host memory, beside the operations: each direction on a
// stream of its own, because the link carries both at once.

#include "train/cuda/cuda.h"
#include "train/cuda/operations.h"

static bool open_lanes(struct cuda *cuda)
{
    struct cuda_lanes *lanes = &cuda->lanes;
    cuda_check(cuda, cudaStreamCreateWithFlags(&lanes->out, cudaStreamNonBlocking), "a stream");
    cuda_check(cuda, cudaStreamCreateWithFlags(&lanes->in, cudaStreamNonBlocking), "a stream");
    for (cudaEvent_t *event : { &lanes->queued, &lanes->done[0], &lanes->done[1] })
        cuda_check(cuda, cudaEventCreateWithFlags(event, cudaEventDisableTiming), "an event");
    return !cuda->err;
}

void cuda_lanes_close(struct cuda *cuda)
{
    struct cuda_lanes *lanes = &cuda->lanes;
    for (cudaEvent_t event : { lanes->queued, lanes->done[0], lanes->done[1] })
        if (event)
            cudaEventDestroy(event);
    for (cudaStream_t stream : { lanes->out, lanes->in })
        if (stream)
            cudaStreamDestroy(stream);
    *lanes = {};
}

enum err cuda_pin(struct device *device, void **out, int64_t bytes)
{
    struct cuda *cuda = cuda_of(device);
    cudaError_t status = cudaHostAlloc(out, (size_t)bytes, cudaHostAllocDefault);
    if (status != cudaSuccess) {
        cudaGetLastError();
        return fail(ERR_MEMORY, "%s: cannot pin %.2f GiB of host memory: %s", device->name,
                    (double)bytes / (1 << 30), cudaGetErrorString(status));
    }
    if (cuda->lanes.out || open_lanes(cuda))
        return OK;
    cudaFreeHost(*out);
    return fail(cuda->err, "%s: %s", device->name, cuda->problem);
}

void cuda_unpin(struct device *device, void *host, int64_t)
{
    struct cuda *cuda = cuda_of(device);
    for (cudaStream_t stream : { cuda->lanes.out, cuda->lanes.in })
        cuda_check(cuda, cudaStreamSynchronize(stream), "a copy");
    cuda_check(cuda, cudaFreeHost(host), "freeing pinned memory");
}

static void copy_on(struct cuda *cuda, cudaStream_t stream, int lane, void *to, const void *from,
                    int64_t bytes, enum cudaMemcpyKind kind)
{
    struct cuda_lanes *lanes = &cuda->lanes;
    if (cuda->err)
        return;
    cuda_check(cuda, cudaEventRecord(lanes->queued, cuda->stream), "a copy");
    cuda_check(cuda, cudaStreamWaitEvent(stream, lanes->queued, 0), "a copy");
    cuda_check(cuda, cudaMemcpyAsync(to, from, (size_t)bytes, kind, stream), "a copy");
    cuda_check(cuda, cudaEventRecord(lanes->done[lane], stream), "a copy");
}

void cuda_copy_out(struct device *device, int lane, void *host, const void *at, int64_t bytes)
{
    struct cuda *cuda = cuda_of(device);
    copy_on(cuda, cuda->lanes.out, lane, host, at, bytes, cudaMemcpyDeviceToHost);
}

void cuda_copy_in(struct device *device, int lane, void *at, const void *host, int64_t bytes)
{
    struct cuda *cuda = cuda_of(device);
    copy_on(cuda, cuda->lanes.in, lane, at, host, bytes, cudaMemcpyHostToDevice);
}

void cuda_copied(struct device *device, int lane)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->lanes.out)
        cuda_check(cuda, cudaStreamWaitEvent(cuda->stream, cuda->lanes.done[lane], 0), "a copy");
}
