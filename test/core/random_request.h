// SPDX-License-Identifier: Apache-2.0
// random_request: requests of plans as a user may write them, from a seeded generator.

#pragma once

#include "base/rng.h"
#include "test/test.h"

#define RANDOM_PICK(rng, list) (list)[rng_below((rng), sizeof(list) / sizeof *(list))]

// Each option is named or left to the plan; gpu: it is always named.
static inline const char *random_request(struct rng *rng, bool gpu, bool search)
{
    static const char *const models[] = { "llama-3.1-8b",   "llama-3.1-70b", "qwen2.5-7b",
                                          "llama-3.2-1b",   "gemma-3-27b",   "qwen3-30b-a3b",
                                          "mistral-7b-v0.1" };
    static const char *const gpus[] = { "a100-sxm-80gb",  "h100-sxm", "rtx-4090", "l40s", "a10g",
                                        "v100-sxm2-16gb", "h200",     "b200",     "t4" };
    static const char *const stacks[] = { "hf",      "hf-peft",   "hf-deepspeed", "nemo",
                                          "unsloth", "torchtune", "axolotl" };
    static const char *const methods[] = { "full", "lora", "qlora" };
    static const char *const batchings[] = { "auto", "longest", "packed", "grouped" };
    static const char *const precisions[] = { "bf16", "fp16", "fp8" };
    struct out out = { .arena = &test_arena };
    out_put(&out, "{\"model\":\"%s\",\"tokens\":%.0f,\"method\":\"%s\",\"context\":%d",
            RANDOM_PICK(rng, models), 1e6 * (double)(1 << rng_below(rng, 12)),
            RANDOM_PICK(rng, methods), 512 << rng_below(rng, 8));
    if (gpu || rng_below(rng, 4))
        out_put(&out, ",\"gpu\":\"%s\"", RANDOM_PICK(rng, gpus));
    if (rng_below(rng, 2))
        out_put(&out, ",\"stack\":\"%s\"", RANDOM_PICK(rng, stacks));
    if (rng_below(rng, 3))
        out_put(&out, ",\"gpus\":%d", 1 << rng_below(rng, 6));
    if (rng_below(rng, 2))
        out_put(&out, ",\"batching\":\"%s\"", RANDOM_PICK(rng, batchings));
    if (rng_below(rng, 4) == 0)
        out_put(&out, ",\"mean_length\":%d", 100 << rng_below(rng, 3));
    if (rng_below(rng, 4) == 0)
        out_put(&out, ",\"global_batch\":%d", 8 << rng_below(rng, 5));
    if (rng_below(rng, 4) == 0)
        out_put(&out, ",\"epochs\":%d", 1 + (int)rng_below(rng, 4));
    if (rng_below(rng, 4) == 0)
        out_put(&out, ",\"precision\":\"%s\"", RANDOM_PICK(rng, precisions));
    if (rng_below(rng, 8) == 0)
        out_put(&out, ",\"retries\":2,\"failed_runs\":0.5");
    out_put(&out, ",\"search\":%s}", search ? "true" : "false");
    return out_string(&out);
}
