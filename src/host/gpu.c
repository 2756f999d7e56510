// SPDX-License-Identifier: Apache-2.0
// Loads NVML at run time and samples every GPU from a thread of its own.

#include "host/gpu.h"

#include "base/text.h"
#include "host/clock.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// --- NVML's C interface, as far as it is needed ------------------------------

struct nvml_memory { // version 1: `used` includes what the driver reserves
    unsigned long long total, free, used;
};

struct nvml_memory2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct nvml_utilisation {
    unsigned gpu, memory; // percent
};

struct nvml_process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

enum { NVML_TEMPERATURE_GPU = 0, NVML_CLOCK_SM = 1, NVML_TOO_SMALL = 7, NVML_MOST = 256 };
static const unsigned long long NVML_UNKNOWN = ~0ULL;

typedef void *nvml_device;

static struct {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int code);
    int (*driver)(char *text, unsigned size);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, nvml_device *device);
    int (*name)(nvml_device device, char *text, unsigned size);
    int (*uuid)(nvml_device device, char *text, unsigned size);
    int (*memory)(nvml_device device, struct nvml_memory *memory);
    int (*memory2)(nvml_device device, struct nvml_memory2 *memory);
    int (*utilisation)(nvml_device device, struct nvml_utilisation *rates);
    int (*power)(nvml_device device, unsigned *milliwatts);
    int (*power_limit)(nvml_device device, unsigned *milliwatts);
    int (*temperature)(nvml_device device, int sensor, unsigned *celsius);
    int (*clock)(nvml_device device, int kind, unsigned *megahertz);
    int (*clock_limit)(nvml_device device, int kind, unsigned *megahertz);
    int (*reasons)(nvml_device device, unsigned long long *bits);
    int (*processes)(nvml_device device, unsigned *count, struct nvml_process *list);
} nvml;

static const struct {
    const char *symbol, *older; // name in newer and in older drivers
    void *slot;
    bool needed;
} symbols[] = {
    { "nvmlInit_v2", "nvmlInit", &nvml.init, true },
    { "nvmlShutdown", NULL, &nvml.shutdown, true },
    { "nvmlErrorString", NULL, &nvml.error, true },
    { "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", &nvml.count, true },
    { "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", &nvml.handle, true },
    { "nvmlDeviceGetName", NULL, &nvml.name, true },
    { "nvmlDeviceGetMemoryInfo", NULL, &nvml.memory, true },
    { "nvmlDeviceGetMemoryInfo_v2", NULL, &nvml.memory2, false },
    { "nvmlSystemGetDriverVersion", NULL, &nvml.driver, false },
    { "nvmlDeviceGetUUID", NULL, &nvml.uuid, false },
    { "nvmlDeviceGetUtilizationRates", NULL, &nvml.utilisation, false },
    { "nvmlDeviceGetPowerUsage", NULL, &nvml.power, false },
    { "nvmlDeviceGetEnforcedPowerLimit", NULL, &nvml.power_limit, false },
    { "nvmlDeviceGetTemperature", NULL, &nvml.temperature, false },
    { "nvmlDeviceGetClockInfo", NULL, &nvml.clock, false },
    { "nvmlDeviceGetMaxClockInfo", NULL, &nvml.clock_limit, false },
    { "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
      &nvml.reasons, false },
    { "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
      &nvml.processes, false },
};

// The meaning of NVML's bits, from its manual. Bit 0, idle, is not throttling.
static const struct {
    const char *name;
    uint64_t bits;
} throttles[GPU_THROTTLES] = {
    [GPU_POWER_CAP] = { "power cap", 0x4 },
    [GPU_THERMAL] = { "temperature", 0x20 | 0x40 },
    [GPU_POWER_BRAKE] = { "power brake", 0x80 },
    [GPU_HARDWARE_SLOWDOWN] = { "hardware slowdown", 0x8 },
    [GPU_SETTING] = { "clocks set by hand", 0x2 | 0x10 | 0x100 },
};

const char *gpu_throttle_name(enum gpu_throttle reason)
{
    return throttles[reason].name;
}

static void *library; // stays loaded: unloading a driver's library is not safe

static enum err load(void)
{
    const char *given = getenv("GPUHOURS_NVML");
    const char *file = given && *given ? given : "libnvidia-ml.so.1";
    if (library)
        return OK;
    void *opened = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        return fail(ERR_UNAVAILABLE,
                    "no GPU statistics: %s, a part of NVIDIA's driver, was not found", file);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(opened, symbols[i].symbol);
        if (!symbol && symbols[i].older)
            symbol = dlsym(opened, symbols[i].older);
        if (!symbol && symbols[i].needed) {
            dlclose(opened);
            return fail(ERR_UNAVAILABLE, "no GPU statistics: %s has no function %s", file,
                        symbols[i].symbol);
        }
        memcpy(symbols[i].slot, &symbol, sizeof symbol); // ISO C has no cast to a function
    }
    library = opened;
    return OK;
}

// --- one sample --------------------------------------------------------------

static double memory_used(nvml_device device, double *total)
{
    struct nvml_memory2 newer = { .version = sizeof newer | 2u << 24 };
    struct nvml_memory older = { 0 };
    if (nvml.memory2 && !nvml.memory2(device, &newer)) {
        *total = (double)newer.total;
        return (double)newer.used;
    }
    if (nvml.memory(device, &older))
        return NAN;
    *total = (double)older.total;
    return (double)older.used;
}

static struct gpu_sample take_sample(nvml_device device, double now)
{
    struct gpu_sample sample = { now, NAN, NAN, NAN, NAN, NAN, 0 };
    struct nvml_utilisation rates;
    unsigned value;
    unsigned long long bits;
    double total;
    sample.memory_bytes = memory_used(device, &total);
    if (nvml.utilisation && !nvml.utilisation(device, &rates))
        sample.utilisation = 0.01 * rates.gpu;
    if (nvml.power && !nvml.power(device, &value))
        sample.watts = 1e-3 * value;
    if (nvml.temperature && !nvml.temperature(device, NVML_TEMPERATURE_GPU, &value))
        sample.celsius = value;
    if (nvml.clock && !nvml.clock(device, NVML_CLOCK_SM, &value))
        sample.clock_hertz = 1e6 * value;
    if (nvml.reasons && !nvml.reasons(device, &bits))
        sample.throttle = bits;
    return sample;
}

static double process_bytes(nvml_device device, bool (*is_ours)(void *context, int pid),
                            void *context)
{
    struct nvml_process list[NVML_MOST];
    unsigned count = NVML_MOST;
    double bytes = NAN;
    if (!nvml.processes || nvml.processes(device, &count, list))
        return NAN;
    for (unsigned i = 0; i < count && i < NVML_MOST; i++)
        if (list[i].bytes != NVML_UNKNOWN && is_ours(context, (int)list[i].pid))
            bytes = (isnan(bytes) ? 0 : bytes) + (double)list[i].bytes;
    return bytes;
}

// --- the thread --------------------------------------------------------------

struct watched {
    nvml_device device;
    struct gpu_about about;
    struct gpu_sample ring[GPU_RING], last;
    size_t count;
    double base_bytes, peak_bytes, own_peak_bytes;
};

struct gpu_monitor {
    double interval_seconds;
    int keep, skipped; // every keep-th sample is kept
    int count;
    struct watched *watched;
    char driver[96];
    bool (*is_ours)(void *context, int pid);
    void *context;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending;
};

static void keep_sample(struct watched *w, struct gpu_sample sample)
{
    if (w->count == GPU_RING) {
        for (size_t i = 0; i < GPU_RING / 2; i++)
            w->ring[i] = w->ring[2 * i];
        w->count = GPU_RING / 2;
    }
    w->ring[w->count++] = sample;
}

static void sample_all(struct gpu_monitor *monitor)
{
    bool kept = ++monitor->skipped >= monitor->keep;
    bool full = kept && monitor->watched[0].count == GPU_RING;
    pthread_mutex_lock(&monitor->lock);
    bool (*is_ours)(void *context, int pid) = monitor->is_ours;
    void *context = monitor->context;
    pthread_mutex_unlock(&monitor->lock);
    for (int i = 0; i < monitor->count; i++) {
        struct watched *w = &monitor->watched[i];
        struct gpu_sample sample = take_sample(w->device, clock_seconds());
        double own = is_ours ? process_bytes(w->device, is_ours, context) : NAN;
        pthread_mutex_lock(&monitor->lock);
        w->last = sample;
        w->peak_bytes = fmax(w->peak_bytes, sample.memory_bytes);
        w->own_peak_bytes = fmax(w->own_peak_bytes, own);
        if (kept)
            keep_sample(w, sample);
        pthread_mutex_unlock(&monitor->lock);
    }
    monitor->skipped = kept ? 0 : monitor->skipped;
    monitor->keep *= full ? 2 : 1;
}

static void *run(void *argument)
{
    struct gpu_monitor *monitor = argument;
    double due = clock_seconds();
    pthread_mutex_lock(&monitor->lock);
    while (!monitor->ending) {
        pthread_mutex_unlock(&monitor->lock);
        sample_all(monitor);
        due = fmax(due + monitor->interval_seconds, clock_seconds());
        struct timespec until = { .tv_sec = (time_t)due,
                                  .tv_nsec = (long)(1e9 * (due - floor(due))) };
        pthread_mutex_lock(&monitor->lock);
        if (!monitor->ending)
            pthread_cond_timedwait(&monitor->changed, &monitor->lock, &until);
    }
    pthread_mutex_unlock(&monitor->lock);
    return NULL;
}

static void describe(struct watched *w, unsigned index)
{
    unsigned value;
    w->about = (struct gpu_about){ .memory_bytes = NAN,
                                   .power_limit_watts = NAN,
                                   .clock_limit_hertz = NAN };
    if (nvml.name(w->device, w->about.name, sizeof w->about.name))
        snprintf(w->about.name, sizeof w->about.name, "GPU %u", index);
    if (!nvml.uuid || nvml.uuid(w->device, w->about.uuid, sizeof w->about.uuid))
        w->about.uuid[0] = 0;
    w->base_bytes = w->peak_bytes = memory_used(w->device, &w->about.memory_bytes);
    w->own_peak_bytes = NAN;
    if (nvml.power_limit && !nvml.power_limit(w->device, &value))
        w->about.power_limit_watts = 1e-3 * value;
    if (nvml.clock_limit && !nvml.clock_limit(w->device, NVML_CLOCK_SM, &value))
        w->about.clock_limit_hertz = 1e6 * value;
}

// Whether a word of CUDA_VISIBLE_DEVICES is this GPU: its index, or the beginning of its UUID.
static bool is_named(struct text word, unsigned index)
{
    char uuid[96], *end;
    nvml_device device;
    if (!word.size)
        return false;
    if (strtoul(word.at, &end, 10) == index && end == word.at + word.size)
        return true;
    return nvml.uuid && !nvml.handle(index, &device) && !nvml.uuid(device, uuid, sizeof uuid) &&
           !strncmp(uuid, word.at, word.size);
}

// The GPUs as CUDA numbers them for this process and for those that it starts, up to the first that
// is not there; all where nothing is said, or parts of GPUs are named.
static unsigned find_visible(unsigned *out, unsigned count)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    bool all = !list || strstr(list, "MIG");
    struct text rest = text_of(list ? list : ""), word;
    unsigned found = 0;
    for (unsigned i = 0; i < count && all; i++)
        out[found++] = i;
    while (!all && found < count && text_next(&rest, ',', &word)) {
        unsigned i = 0;
        while (i < count && !is_named(text_trim(word), i))
            i++;
        if (i == count)
            break;
        out[found++] = i;
    }
    return found;
}

static enum err find_devices(struct gpu_monitor *monitor)
{
    unsigned count = 0, order[GPU_MOST];
    int code = nvml.count(&count);
    if (code)
        return fail(ERR_UNAVAILABLE, "no GPU statistics: NVML reports: %s", nvml.error(code));
    count = find_visible(order, count < GPU_MOST ? count : GPU_MOST);
    monitor->watched = calloc(count ? count : 1, sizeof *monitor->watched);
    for (unsigned i = 0; i < count && monitor->watched; i++) {
        struct watched *w = &monitor->watched[monitor->count];
        if (nvml.handle(order[i], &w->device))
            continue; // one that fell off the bus
        describe(w, order[i]);
        monitor->count++;
    }
    if (!monitor->count)
        return fail(ERR_UNAVAILABLE, "no GPU statistics: NVML finds no GPU%s",
                    getenv("CUDA_VISIBLE_DEVICES") ? " that CUDA_VISIBLE_DEVICES names" : "");
    if (!nvml.driver || nvml.driver(monitor->driver, sizeof monitor->driver))
        monitor->driver[0] = 0;
    return OK;
}

static enum err start_thread(struct gpu_monitor *monitor)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&monitor->lock, NULL);
    pthread_cond_init(&monitor->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    sigset_t all, old;
    sigfillset(&all); // signals are for the main thread
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int problem = pthread_create(&monitor->thread, NULL, run, monitor);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return problem ? fail(ERR_UNAVAILABLE, "no GPU statistics: cannot create a thread: %s",
                          strerror(problem))
                   : OK;
}

enum err gpu_monitor_start(struct gpu_monitor **out, double interval_seconds)
{
    *out = NULL;
    TRY(load());
    int code = nvml.init();
    if (code)
        return fail(ERR_UNAVAILABLE, "no GPU statistics: NVML reports: %s", nvml.error(code));
    struct gpu_monitor *monitor = calloc(1, sizeof *monitor);
    enum err err = monitor ? OK : fail(ERR_MEMORY, "no GPU statistics: out of memory");
    if (!err) {
        monitor->interval_seconds = interval_seconds;
        monitor->keep = 1;
        err = find_devices(monitor);
    }
    if (!err)
        err = start_thread(monitor);
    if (err) {
        if (monitor)
            free(monitor->watched);
        free(monitor);
        nvml.shutdown();
        return err;
    }
    *out = monitor;
    return OK;
}

void gpu_monitor_own(struct gpu_monitor *monitor, bool (*is_ours)(void *context, int pid),
                     void *context)
{
    pthread_mutex_lock(&monitor->lock);
    monitor->context = context;
    monitor->is_ours = is_ours;
    pthread_mutex_unlock(&monitor->lock);
}

void gpu_monitor_end(struct gpu_monitor *monitor)
{
    if (!monitor)
        return;
    pthread_mutex_lock(&monitor->lock);
    monitor->ending = true;
    pthread_cond_broadcast(&monitor->changed);
    pthread_mutex_unlock(&monitor->lock);
    pthread_join(monitor->thread, NULL);
    pthread_mutex_destroy(&monitor->lock);
    pthread_cond_destroy(&monitor->changed);
    free(monitor->watched);
    free(monitor);
    nvml.shutdown();
}

// --- results -----------------------------------------------------------------

int gpu_monitor_count(const struct gpu_monitor *monitor)
{
    return monitor ? monitor->count : 0;
}

const struct gpu_about *gpu_monitor_about(const struct gpu_monitor *monitor, int device)
{
    return &monitor->watched[device].about;
}

const char *gpu_driver(const struct gpu_monitor *monitor)
{
    return monitor->driver;
}

struct gpu_sample gpu_monitor_last(struct gpu_monitor *monitor, int device)
{
    pthread_mutex_lock(&monitor->lock);
    struct gpu_sample sample = monitor->watched[device].last;
    pthread_mutex_unlock(&monitor->lock);
    return sample;
}

struct mean {
    double sum;
    int64_t count;
};

static void add(struct mean *mean, double value)
{
    if (isnan(value))
        return;
    mean->sum += value;
    mean->count++;
}

static double divide(struct mean mean)
{
    return mean.count ? mean.sum / (double)mean.count : NAN;
}

struct gpu_summary gpu_monitor_summary(struct gpu_monitor *monitor, int device, double from,
                                       double to)
{
    struct mean use = { 0 }, watts = { 0 }, clock = { 0 };
    int64_t any = 0, reasons[GPU_THROTTLES] = { 0 };
    pthread_mutex_lock(&monitor->lock);
    const struct watched *w = &monitor->watched[device];
    struct gpu_summary s = { .base_bytes = w->base_bytes,
                             .peak_bytes = w->peak_bytes,
                             .own_peak_bytes = w->own_peak_bytes,
                             .celsius = NAN };
    for (size_t i = 0; i < w->count; i++) {
        const struct gpu_sample *sample = &w->ring[i];
        if (sample->seconds < from || sample->seconds > to)
            continue;
        s.samples++;
        add(&use, sample->utilisation);
        add(&watts, sample->watts);
        add(&clock, sample->clock_hertz);
        s.celsius = fmax(s.celsius, sample->celsius);
        bool throttled = false;
        for (int r = 0; r < GPU_THROTTLES; r++)
            if (sample->throttle & throttles[r].bits) {
                throttled = true;
                reasons[r]++;
            }
        any += throttled;
    }
    pthread_mutex_unlock(&monitor->lock);
    s.utilisation = divide(use);
    s.watts = divide(watts);
    s.clock_hertz = divide(clock);
    s.throttled_share = s.samples ? (double)any / (double)s.samples : NAN;
    for (int r = 0; r < GPU_THROTTLES; r++)
        s.throttled[r] = s.samples ? (double)reasons[r] / (double)s.samples : NAN;
    return s;
}
