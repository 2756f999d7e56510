// gpu: what the NVIDIA driver says of its GPUs, sampled while something runs.
//
// NVML (libnvidia-ml.so.1) is loaded when asked for, so the same program runs where there is none.
//
//     struct gpu_monitor *monitor;
//     if (!gpu_monitor_start(&monitor, 0.1)) {     // else error_text() says why there is no NVML
//         …
//         struct gpu_summary s = gpu_monitor_summary(monitor, device, from_seconds, to_seconds);
//         gpu_monitor_end(monitor);
//     }
//
// A thread takes a sample of each GPU at that interval. Peaks are over all samples; means are over
// those that are kept: when the ring is full every other one goes and the interval of keeping
// doubles, so that it always spans the whole run. Times are of the monotonic clock. What a driver
// or card does not tell is NAN.
//
// GPUHOURS_NVML names another library file: tests bring one of their own.

#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { GPU_MOST = 64, GPU_RING = 4096 };

struct gpu_about {
    char name[96], uuid[96]; // "NVIDIA H200"
    double memory_bytes, power_limit_watts, clock_limit_hertz;
};

struct gpu_sample {
    double seconds;
    double memory_bytes; // in use on the device, as nvidia-smi shows it
    double utilisation;  // share of the time with a kernel running
    double watts, celsius, clock_hertz;
    uint64_t throttle; // NVML's bits
};

// Why clocks were lowered; more than one may hold at a time.
enum gpu_throttle {
    GPU_POWER_CAP,
    GPU_THERMAL,
    GPU_POWER_BRAKE,
    GPU_HARDWARE_SLOWDOWN,
    GPU_SETTING, // clocks that somebody set
    GPU_THROTTLES
};

struct gpu_summary {
    int64_t samples;       // in the time asked for
    double base_bytes;     // in use when the monitor started
    double peak_bytes;     // at any time since
    double own_peak_bytes; // of the processes asked about; NAN: the driver did not say
    double utilisation, watts, clock_hertz; // means
    double celsius;                         // highest
    double throttled_share;                 // of the samples, for any reason
    double throttled[GPU_THROTTLES];
};

struct gpu_monitor;

// ERR_UNAVAILABLE, with a sentence, where there is no NVML or no GPU.
enum err gpu_monitor_start(struct gpu_monitor **out, double interval_seconds);
void gpu_monitor_end(struct gpu_monitor *monitor); // accepts NULL

int gpu_monitor_count(const struct gpu_monitor *monitor);
const struct gpu_about *gpu_monitor_about(const struct gpu_monitor *monitor, int device);
struct gpu_sample gpu_monitor_last(struct gpu_monitor *monitor, int device);
struct gpu_summary gpu_monitor_summary(struct gpu_monitor *monitor, int device, double from,
                                       double to);

// Whose memory own_peak_bytes adds up: asked of is_ours with each process that holds some. In a
// container the driver may number processes otherwise; then nothing is ours and it stays NAN.
void gpu_monitor_own(struct gpu_monitor *monitor, bool (*is_ours)(void *context, int pid),
                     void *context);

const char *gpu_throttle_name(enum gpu_throttle reason); // "power cap"
const char *gpu_driver(const struct gpu_monitor *monitor);
