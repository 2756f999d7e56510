// SPDX-License-Identifier: Apache-2.0
// Random requests, the same ones at every run: what must hold for all of them.
#include "base/rng.h"
#include "test/core/planning.h"

#include <math.h>

#define PICK(rng, list) (list)[rng_below((rng), sizeof(list) / sizeof *(list))]

static const char *const models[] = { "llama-3.1-8b",   "llama-3.1-70b", "qwen2.5-7b",
                                      "llama-3.2-1b",   "gemma-3-27b",   "qwen3-30b-a3b",
                                      "mistral-7b-v0.1" };
static const char *const gpus[] = { "a100-sxm-80gb",  "h100-sxm", "rtx-4090", "l40s",
                                    "v100-sxm2-16gb", "h200",     "a10g" };
static const char *const stacks[] = { "hf",   "hf-peft", "hf-deepspeed",
                                      "nemo", "unsloth", "torchtune" };
static const char *const methods[] = { "full", "lora", "qlora" };
static const char *const batchings[] = { "auto", "longest", "packed", "grouped" };

// A request, with the number of GPUs given or left to the search.
static const char *random_request(struct rng *rng)
{
    struct out out = { .arena = &test_arena };
    out_put(&out, "{\"model\":\"%s\",\"tokens\":%.0f,\"method\":\"%s\"", PICK(rng, models),
            1e6 * (double)(1 << rng_below(rng, 12)), PICK(rng, methods));
    out_put(&out, ",\"gpu\":\"%s\",\"context\":%d", PICK(rng, gpus), 512 << rng_below(rng, 8));
    if (rng_below(rng, 2))
        out_put(&out, ",\"stack\":\"%s\"", PICK(rng, stacks));
    if (rng_below(rng, 3))
        out_put(&out, ",\"gpus\":%d", 1 << rng_below(rng, 6));
    if (rng_below(rng, 2))
        out_put(&out, ",\"batching\":\"%s\"", PICK(rng, batchings));
    if (rng_below(rng, 4) == 0)
        out_put(&out, ",\"mean_length\":%d", 100 << rng_below(rng, 3));
    if (rng_below(rng, 4) == 0)
        out_put(&out, ",\"global_batch\":%d", 8 << rng_below(rng, 5));
    if (rng_below(rng, 4) == 0)
        out_put(&out, ",\"epochs\":%d", 1 + (int)rng_below(rng, 4));
    out_put(&out, ",\"search\":false}");
    return out_string(&out);
}

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
        const char *json = random_request(&rng);
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
