// SPDX-License-Identifier: Apache-2.0
// Time of plans and searches against their limits, and configurations per second.

#include "core/plan/plan.h"

#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static const struct {
    const char *name, *request;
    double limit_seconds;
} cases[] = {
    { "plan alone, LoRA 8B on 8 H100",
      "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"gpu\":\"h100\",\"gpus\":8,"
      "\"search\":\"off\"}",
      0.020 },
    { "all GPUs and schemes, LoRA 8B",
      "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"gpu\":\"h100\",\"gpus\":8}", 0.100 },
    { "all GPUs and schemes, full 70B, nemo",
      "{\"model\":\"llama-3.1-70b\",\"tokens\":\"1B\",\"method\":\"full\",\"stack\":\"nemo\"}",
      0.100 },
    { "all GPUs and schemes, Mixtral, nemo",
      "{\"model\":\"mixtral-8x7b\",\"tokens\":\"1B\",\"method\":\"lora\",\"stack\":\"nemo\","
      "\"context\":32768}",
      0.100 },
};

// The fastest of some rounds: what the machine can do, apart from its other work.
static int time_case(const struct plan_data *data, size_t i)
{
    double best = 1e9;
    size_t considered = 0;
    for (int round = 0; round < 20; round++) {
        struct arena arena = { 0 };
        struct plan_request request;
        struct plan *plan = ARENA_NEW(&arena, struct plan, 1);
        double start = now();
        if (plan_request_read(&request, &arena, text_of(cases[i].request), "request") ||
            plan_make(plan, &arena, data, &request)) {
            printf("%s: %s\n", cases[i].name, error_text());
            return 1;
        }
        double seconds = now() - start;
        best = seconds < best ? seconds : best;
        considered = plan->search.considered;
        arena_release(&arena);
    }
    printf("%-40s %8.2f ms  %5.1f %% of the limit", cases[i].name, 1e3 * best,
           100 * best / cases[i].limit_seconds);
    if (considered)
        printf("  %8.0f configurations/s", (double)considered / best);
    printf("\n");
    return best > cases[i].limit_seconds;
}

int main(void)
{
    struct arena arena = { 0 };
    struct plan_data data;
    double start = now();
    if (plan_open(&data, &arena, NULL, 0)) {
        printf("%s\n", error_text());
        return 1;
    }
    printf("%-40s %8.2f ms\n", "catalogs read", 1e3 * (now() - start));
    int slow = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        slow |= time_case(&data, i);
    arena_release(&arena);
    return slow;
}
