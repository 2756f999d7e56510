// SPDX-License-Identifier: Apache-2.0
// gpu: memory, power, clocks and throttling of NVIDIA GPUs, sampled while a command runs.
//
// NVML (libnvidia-ml.so.1) is loaded on demand, so the same program runs without it.
//
//     struct gpu_monitor *monitor;
//     if (!gpu_monitor_start(&monitor, 0.1)) {     // otherwise error_text() says why
//         …
//         struct gpu_summary s = gpu_monitor_summary(monitor, device, from_seconds, to_seconds);
//         gpu_monitor_end(monitor);
//     }
//
// A thread samples each GPU at that interval. Peaks are over all samples; means are over the stored
// ones: when the ring is full, every other sample is dropped and the storing interval doubles, so
// that the ring always spans the whole run. Times are of the monotonic clock. What a driver or card
// does not report is NAN.
//
// Where CUDA_VISIBLE_DEVICES is set, only the GPUs that it names are sampled, in its order.
//
// GPUHOURS_NVML names another library file, for tests.

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

// Why clocks were lowered; several reasons may apply at once.
enum gpu_throttle {
    GPU_POWER_CAP,
    GPU_THERMAL,
    GPU_POWER_BRAKE,
    GPU_HARDWARE_SLOWDOWN,
    GPU_SETTING, // clocks set by an administrator or application
    GPU_THROTTLES
};

struct gpu_summary {
    int64_t samples;       // in the requested interval
    double base_bytes;     // in use when the monitor started
    double peak_bytes;     // at any time since
    double own_peak_bytes; // of the processes of gpu_monitor_own(); NAN: not reported
    double utilisation, watts, clock_hertz; // means
    double celsius;                         // highest
    double throttled_share;                 // of the samples, for any reason
    double throttled[GPU_THROTTLES];
};

struct gpu_monitor;

// ERR_UNAVAILABLE if there is no NVML or no GPU.
enum err gpu_monitor_start(struct gpu_monitor **out, double interval_seconds);
void gpu_monitor_end(struct gpu_monitor *monitor); // accepts NULL

int gpu_monitor_count(const struct gpu_monitor *monitor);
const struct gpu_about *gpu_monitor_about(const struct gpu_monitor *monitor, int device);
struct gpu_sample gpu_monitor_last(struct gpu_monitor *monitor, int device);
struct gpu_summary gpu_monitor_summary(struct gpu_monitor *monitor, int device, double from,
                                       double to);

// Selects the processes whose memory own_peak_bytes adds up: is_ours is called for each process
// that uses GPU memory. In a container the driver may report other process numbers; then nothing is
// ours and own_peak_bytes stays NAN.
void gpu_monitor_own(struct gpu_monitor *monitor, bool (*is_ours)(void *context, int pid),
                     void *context);

const char *gpu_throttle_name(enum gpu_throttle reason); // "power cap"
const char *gpu_driver(const struct gpu_monitor *monitor);
