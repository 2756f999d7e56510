// SPDX-License-Identifier: Apache-2.0
// A library that answers as NVML does, with known numbers: two GPUs, of which the first works.
//
// Each call for memory moves it on a sample: 1 GiB, then 2, 3, 4, 3, 2 and so on.

#include <stdio.h>
#include <stdlib.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlSystemGetDriverVersion(char *text, unsigned size);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *text, unsigned size);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory);
int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *megahertz);
int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned *megahertz);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits);

enum { NOT_SUPPORTED = 3 };
static int handles[2], samples[2];

static int index_of(void *device)
{
    return (int)((int *)device - handles);
}

int nvmlInit_v2(void)
{
    samples[0] = samples[1] = 0;
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int code)
{
    return code ? "an error" : "no error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    snprintf(text, size, "580.1");
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &handles[index];
    return 0;
}

int nvmlDeviceGetName(void *device, char *text, unsigned size)
{
    const char *name = getenv("GPUHOURS_TEST_GPU");
    if (name)
        snprintf(text, size, "%s", name);
    else
        snprintf(text, size, "Test GPU %d", index_of(device));
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory)
{
    static const int steps[] = { 1, 2, 3, 4, 3, 2 };
    int at = index_of(device), sample = samples[at]++;
    memory[0] = 80ULL << 30;
    memory[2] = (unsigned long long)(at ? 1 : steps[sample % 6]) << 30;
    memory[1] = memory[0] - memory[2];
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates)
{
    rates[0] = index_of(device) ? 0 : 90;
    rates[1] = 40;
    return 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    *milliwatts = index_of(device) ? 70000 : 650000;
    return 0;
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts)
{
    (void)device;
    *milliwatts = 700000;
    return 0;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    (void)device, (void)sensor;
    *celsius = 61;
    return 0;
}

int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *megahertz)
{
    if (index_of(device) || kind != 1)
        return NOT_SUPPORTED;
    *megahertz = 1755;
    return 0;
}

int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned *megahertz)
{
    (void)device, (void)kind;
    *megahertz = 1980;
    return 0;
}

// Every third sample of the first GPU: the power cap.
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits)
{
    *bits = !index_of(device) && samples[0] % 3 == 0 ? 0x4 : index_of(device) ? 0x1 : 0;
    return 0;
}
