// SPDX-License-Identifier: Apache-2.0
// Time to simulate an epoch of a million examples with lengths like those of instruction data, for
// each packer. Each line: the case, milliseconds of CPU time, their share of the limit of 100 ms
// for packing a whole set, and how full the rows are.

#include "base/rng.h"
#include "core/data/packing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { EXAMPLES = 1000000, LIMIT_MS = 100 };

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void bench(const struct lengths *list, const char *name, const struct packing_rule *rule)
{
    struct packing_setup setup = { .window = 4096, .micro_batch = 8, .seed = 1 };
    double best = INFINITY;
    struct packing packing;
    for (int round = 0; round < 5; round++) {
        struct arena arena = { 0 };
        double start = processor_seconds();
        if (packing_plan(&packing, &arena, list, rule, &setup))
            printf("%s\n", error_text());
        best = fmin(best, processor_seconds() - start);
        arena_release(&arena);
    }
    printf("%-32s %8.1f ms  %5.0f %% of %d ms  fill %.4f  rows %lld\n", name, 1e3 * best,
           1e5 * best / LIMIT_MS, LIMIT_MS, packing.sums.fill, (long long)packing.sums.rows);
}

// A word as argument selects the cases whose names contain it.
int main(int argc, char **argv)
{
    struct arena arena = { 0 };
    struct lengths list = { .arena = &arena };
    struct rng rng = rng_seeded(1);
    for (int i = 0; i < EXAMPLES; i++) {
        double tokens = exp(5.2 + 0.9 * rng_normal(&rng));
        lengths_add(&list, (int64_t)tokens + 8, (int64_t)(tokens / 2));
    }
    for (const struct packing_trainer *t = packing_trainers; t->name; t++) {
        char name[64];
        snprintf(name, sizeof name, "%s %s", t->name, t->packer);
        if (!t->note && (argc < 2 || strstr(name, argv[1])))
            bench(&list, name, t->packed);
    }
    const struct packing_trainer *hf = packing_trainers;
    struct packing_rule longest = packing_rule(hf, BATCHING_LONGEST);
    struct packing_rule grouped = packing_rule(hf, BATCHING_GROUPED);
    if (argc < 2) {
        bench(&list, "padded to the longest of 8", &longest);
        bench(&list, "grouped by length, 8", &grouped);
    }
    arena_release(&arena);
    return 0;
}
