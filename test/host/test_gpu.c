// SPDX-License-Identifier: Apache-2.0
#include "host/child.h"
#include "host/clock.h"
#include "host/gpu.h"
#include "test/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The stand-in for NVML (test/stand_ins/nvml.c) has memory of 1, 2, 3, 4, 3, 2 GiB and so on.

static const double GIB = 1073741824.0;

static struct gpu_monitor *start(void)
{
    const char *folder = getenv("STAND_INS");
    char path[4096];
    struct gpu_monitor *monitor = NULL;
    snprintf(path, sizeof path, "%s/nvml.so", folder ? folder : "build/fast/stand_in");
    setenv("GPUHOURS_NVML", path, 1);
    CHECK(!gpu_monitor_start(&monitor, 0.002));
    unsetenv("GPUHOURS_NVML"); // scripts that run later have none
    return monitor;
}

static void wait_for_samples(struct gpu_monitor *monitor, int64_t count)
{
    for (int i = 0; i < 5000 && gpu_monitor_summary(monitor, 0, 0, INFINITY).samples < count; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

// Runs first: a library that is loaded stays.
TEST(gpu_without_a_driver_is_a_sentence)
{
    struct gpu_monitor *monitor = NULL;
    setenv("GPUHOURS_NVML", "libno-such-library.so", 1);
    CHECK(gpu_monitor_start(&monitor, 0.1) == ERR_UNAVAILABLE);
    unsetenv("GPUHOURS_NVML");
    CHECK(!monitor && strstr(error_text(), "no GPU statistics"));
    CHECK(gpu_monitor_count(NULL) == 0);
}

TEST(gpu_monitor_sees_peaks_means_and_throttling)
{
    struct gpu_monitor *monitor = start();
    if (!monitor)
        return;
    wait_for_samples(monitor, 30);
    CHECK(gpu_monitor_count(monitor) == 2);
    CHECK(!strcmp(gpu_driver(monitor), "580.1"));
    const struct gpu_about *about = gpu_monitor_about(monitor, 0);
    CHECK(!strcmp(about->name, "Test GPU 0") && about->memory_bytes == 80 * GIB);
    CHECK(about->power_limit_watts == 700 && about->clock_limit_hertz == 1980e6);
    struct gpu_summary s = gpu_monitor_summary(monitor, 0, 0, INFINITY);
    CHECK(s.samples >= 30 && s.base_bytes == 1 * GIB && s.peak_bytes == 4 * GIB);
    CHECK_NEAR(s.utilisation, 0.9, 1e-9);
    CHECK_NEAR(s.watts, 650, 1e-9);
    CHECK_NEAR(s.clock_hertz, 1755e6, 1e-9);
    CHECK(s.celsius == 61);
    CHECK_NEAR(s.throttled_share, 1.0 / 3, 0.1);
    CHECK(s.throttled[GPU_POWER_CAP] == s.throttled_share && s.throttled[GPU_THERMAL] == 0);
    struct gpu_summary idle = gpu_monitor_summary(monitor, 1, 0, INFINITY);
    CHECK(idle.peak_bytes == 1 * GIB && idle.throttled_share == 0); // idle is not throttled
    CHECK(isnan(idle.clock_hertz) && isnan(idle.own_peak_bytes));   // not told by this card
    gpu_monitor_end(monitor);
}

TEST(gpu_monitor_watches_the_gpus_that_cuda_shows_and_no_others)
{
    static const struct {
        const char *visible, *first;
        int count;
    } cases[] = { { "1", "Test GPU 1", 1 },
                  { "1,0", "Test GPU 1", 2 },
                  { " 0 ", "Test GPU 0", 1 },
                  { "1,7,0", "Test GPU 1", 1 }, // as CUDA reads it
                  { "MIG-1", "Test GPU 0", 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("CUDA_VISIBLE_DEVICES", cases[i].visible, 1);
        struct gpu_monitor *monitor = start();
        CHECK(gpu_monitor_count(monitor) == cases[i].count);
        CHECK(monitor && !strcmp(gpu_monitor_about(monitor, 0)->name, cases[i].first));
        gpu_monitor_end(monitor);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(gpu_summary_covers_the_time_asked_for)
{
    struct gpu_monitor *monitor = start();
    if (!monitor)
        return;
    wait_for_samples(monitor, 10);
    double now = clock_seconds();
    CHECK(gpu_monitor_summary(monitor, 0, now + 1000, INFINITY).samples == 0);
    CHECK(isnan(gpu_monitor_summary(monitor, 0, now + 1000, INFINITY).watts));
    int64_t before = gpu_monitor_summary(monitor, 0, 0, now).samples;
    wait_for_samples(monitor, before + 10);
    CHECK(gpu_monitor_summary(monitor, 0, 0, now).samples <= before + 1);
    CHECK(gpu_monitor_last(monitor, 0).seconds > now);
    gpu_monitor_end(monitor);
}
