// SPDX-License-Identifier: Apache-2.0
// host_speed [SECONDS]: how fast one core is at what an interpreter does.
//
//     cc -O2 -o build/host_speed bench/gpu/host_speed.c && build/host_speed
//
// Nanoseconds, the least and the median of seven: a chain of multiplications (the clock), loads
// that depend on each other out of 256 KiB, 4 MiB and 64 MiB (caches), calls through a table that
// no branch predictor can learn, small blocks from malloc, and system calls. With SECONDS a line
// every so often, until it is stopped: the time, each of them once, and hundredths of a second that
// other virtual machines have taken from all cores since the start.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

static volatile uint64_t sink;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static double multiply(void)
{
    uint64_t x = sink | 1;
    double began = now();
    for (int i = 0; i < 4000000; i++)
        x = x * 6364136223846793005u + 1;
    sink = x;
    return (now() - began) / 4000000;
}

static uint32_t *ring; // a random cycle of one element per line of cache

static void ring_make(size_t bytes)
{
    size_t count = bytes / 64;
    uint32_t *order = malloc(count * sizeof *order);
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count - 1; i > 0; i--) {
        size_t j = draw(&state) % (i + 1);
        uint32_t kept = order[i];
        order[i] = order[j], order[j] = kept;
    }
    free(ring);
    ring = malloc(bytes);
    for (size_t i = 0; i < count; i++)
        ring[16 * order[i]] = 16 * order[(i + 1) % count];
    free(order);
}

static double chase(void)
{
    uint32_t at = 0;
    double began = now();
    for (int i = 0; i < 2000000; i++)
        at = ring[at];
    sink = at;
    return (now() - began) / 2000000;
}

#define OPERATION(name, expression)              \
    static uint64_t name(uint64_t x, uint64_t y) \
    {                                            \
        return expression;                       \
    }
OPERATION(op0, x + y)
OPERATION(op1, x ^ (y << 1))
OPERATION(op2, x - y)
OPERATION(op3, x + (y >> 3))
OPERATION(op4, (x << 1) ^ y)
OPERATION(op5, x | y)
OPERATION(op6, x + 3 * y)
OPERATION(op7, x ^ y)

static double call(void)
{
    static uint64_t (*const table[8])(uint64_t,
                                      uint64_t) = { op0, op1, op2, op3, op4, op5, op6, op7 };
    uint64_t state = 88172645463325252u + sink % 2, x = 0;
    double began = now();
    for (int i = 0; i < 1000000; i++)
        x = table[draw(&state) & 7](x, state);
    sink = x;
    return (now() - began) / 1000000;
}

static double allocate(void)
{
    static void *kept[4096];
    uint64_t state = 88172645463325252u;
    double began = now();
    for (int i = 0; i < 1000000; i++) {
        size_t at = draw(&state) & 4095;
        free(kept[at]);
        kept[at] = malloc(32 + (state >> 20) % 480);
    }
    return (now() - began) / 1000000;
}

static double enter(void)
{
    double began = now();
    for (int i = 0; i < 200000; i++)
        sink += (uint64_t)syscall(SYS_getppid);
    return (now() - began) / 200000;
}

static int larger(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const struct {
    const char *name;
    double (*measure)(void);
    size_t bytes; // of the ring
} parts[] = {
    { "multiplication", multiply, 0 },     { "load from 256 KiB", chase, 256 << 10 },
    { "load from 4 MiB", chase, 4 << 20 }, { "load from 64 MiB", chase, 64 << 20 },
    { "unpredicted call", call, 0 },       { "malloc and free", allocate, 0 },
    { "system call", enter, 0 },
};

static unsigned long long stolen(void)
{
    unsigned long long taken = 0;
    FILE *file = fopen("/proc/stat", "r");
    if (file && fscanf(file, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &taken) != 1)
        taken = 0;
    if (file)
        fclose(file);
    return taken;
}

int main(int count, char **words)
{
    unsigned pause = count > 1 ? (unsigned)atoi(words[1]) : 0;
    unsigned long long before = stolen();
    do {
        if (pause)
            printf("%lld", (long long)time(NULL));
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            double taken[7];
            if (parts[k].bytes)
                ring_make(parts[k].bytes);
            for (int i = 0; i < (pause ? 1 : 7); i++)
                taken[i] = parts[k].measure();
            if (pause) {
                printf(" %.2f", taken[0]);
                continue;
            }
            qsort(taken, 7, sizeof *taken, larger);
            printf("%-22s %7.2f %7.2f\n", parts[k].name, taken[0], taken[3]);
        }
        if (pause)
            printf(" %llu\n", stolen() - before), fflush(stdout), sleep(pause);
    } while (pause);
    return 0;
}
