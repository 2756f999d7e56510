// SPDX-License-Identifier: Apache-2.0
// Opens the CPU backend, or loads the CUDA backend at run time.

#define _GNU_SOURCE // memrchr
#include "train/device.h"

#include "base/text.h"
#include "host/clock.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const device_kinds[] = { "auto", "cpu", "cuda", NULL };

enum { PATH_ROOM = 4096 };
static const char library[] = "libgpuhours-cuda.so";

// Where the library may lie, relative to the program: beside it (make), or installed.
static const char *const places[] = { "/libgpuhours-cuda.so",
                                      "/../lib/gpuhours/libgpuhours-cuda.so" };

// Looks in these places, then where the loader looks. A library that is there but cannot be loaded
// is an error: another one might be of another version.
static void *load(void)
{
    char path[PATH_ROOM];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path);
    char *slash = size > 0 && size < PATH_ROOM ? memrchr(path, '/', (size_t)size) : NULL;
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        size_t room = sizeof path - (size_t)(slash - path);
        if ((size_t)snprintf(slash, room, "%s", places[i]) < room && !access(path, F_OK))
            return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return dlopen(library, RTLD_NOW | RTLD_LOCAL);
}

// Without a driver no GPU can be used, and loading CUDA's libraries to hear so takes 0.1 s.
static bool has_driver(void)
{
    return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
}

// The table stays loaded until the program ends.
static enum err find_cuda(const struct backend **out)
{
    void *handle = load();
    if (!handle) {
        const char *why = dlerror();
        return fail(
            ERR_UNAVAILABLE,
            "cannot load the CUDA library (%s); make builds %s if nvcc is installed; --device "
            "cpu does not need it",
            why ? why : "not found", library);
    }
    const struct backend *(*table)(int version);
    *(void **)&table = dlsym(handle, "gpuhours_cuda");
    *out = table ? table(BACKEND_VERSION) : NULL;
    if (!*out)
        return fail(ERR_UNAVAILABLE,
                    "%s is of another version of the program; run make to rebuild it", library);
    if ((*out)->devices() < 1)
        return fail(ERR_UNAVAILABLE,
                    "CUDA finds no usable GPU; give --device cpu to run without one");
    return OK;
}

enum err device_open(struct device *out, enum device_kind kind, int index)
{
    const struct backend *cuda = NULL;
    *out = (struct device){ 0 };
    if (kind == DEVICE_CPU || (kind == DEVICE_AUTO && !has_driver()))
        return backend_cpu.open(out, 0);
    enum err err = find_cuda(&cuda);
    if (err)
        return kind == DEVICE_AUTO ? backend_cpu.open(out, 0) : err;
    if (cuda->devices() == 1)
        index = 0; // Slurm can show each of its processes only the GPU that is theirs
    if (index >= cuda->devices())
        return fail(ERR_USAGE, "GPU %d does not exist: this machine has %d", index,
                    cuda->devices());
    return cuda->open(out, index);
}

bool device_is_gpu(const struct device *device)
{
    return device->backend && device->backend != &backend_cpu;
}

// The fastest of several products of square matrices. Random values, because zeros are faster.
double device_peak(struct device *device)
{
    enum { TRIES = 4 };
    int64_t size = device_is_gpu(device) ? 8192 : 512;
    enum dtype type = device_is_gpu(device) ? DTYPE_BF16 : DTYPE_F32;
    int64_t bytes = 3 * size * size * dtype_bytes(type);
    void *at = NULL;
    if (device->backend->allocate(device, &at, bytes))
        return NAN;
    struct tensor matrices = tensor_of(at, type, 3 * size, size);
    double best = INFINITY;
    device->backend->fill(device, matrices, FILL_NORMAL, 1, 1);
    for (int i = 0; i < TRIES; i++) {
        if (device->backend->sync(device))
            break;
        double began = clock_seconds();
        device->backend->matmul_nt(device, tensor_rows(matrices, 0, size),
                                   tensor_rows(matrices, size, size),
                                   tensor_rows(matrices, 2 * size, size), 1, 0);
        if (device->backend->sync(device))
            break;
        best = fmin(best, clock_seconds() - began);
    }
    device->backend->release(device, at, bytes);
    return 2 * pow((double)size, 3) / best;
}
