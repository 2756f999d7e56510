// SPDX-License-Identifier: Apache-2.0
// Random requests, the same ones at every run: what must hold for all of them.
#include "test/core/planning.h"
#include "test/core/random_request.h"

#include <math.h>

// The catalog with more memory on every card.
static struct plan_data with_memory(double factor)
{
    struct plan_data data = *planning_data();
    struct gpu *larger = ARENA_NEW(&test_arena, struct gpu, data.catalog.gpu_count);
    for (size_t i = 0; i < data.catalog.gpu_count; i++) {
        larger[i] = data.catalog.gpus[i];
        larger[i].memory_bytes *= factor;
    }
    data.catalog.gpus = larger;
    return data;
}

TEST(requests_with_more_gpu_memory_fit_too_and_take_no_more_hours)
{
    enum { REQUESTS = 160 / TEST_CASES_OF, CARDS = 3 };
    const double equal = 1.012; // of equals the search keeps the simpler one
    struct rng rng = rng_seeded(20261116);
    struct plan_data data[CARDS] = { with_memory(1), with_memory(1.15), with_memory(1.5) };
    int compared = 0;
    for (int i = 0; i < REQUESTS; i++) {
        struct arena_mark mark = arena_mark(&test_arena);
        const char *json = random_request(&rng, true, false);
        struct plan_request request;
        CHECK(!plan_request_read(&request, &test_arena, text_of(json), "request"));
        double hours = NAN;
        for (int k = 0; k < CARDS; k++) {
            struct plan plan;
            if (plan_make(&plan, &test_arena, &data[k], &request))
                break; // no layout of so many GPUs
            test_check(plan.fits || isnan(hours), "what fitted fits more memory", json, 0);
            test_check(isnan(hours) || plan.forecast.gpu_hours.mid <= equal * hours,
                       "more memory takes no more hours", json, 0);
            compared += !isnan(hours);
            hours = plan.fits ? plan.forecast.gpu_hours.mid : NAN;
        }
        arena_rewind(&test_arena, mark);
    }
    CHECK(compared > REQUESTS);
}
