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
    enum { REQUESTS = 80 / TEST_CASES_OF, CARDS = 3 };
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

TEST(plans_with_images_count_their_tokens_and_their_encoder)
{
    const struct plan *text =
        planning_make("{\"model\": \"qwen2.5-7b\", \"examples\": 10000, \"mean_length\": 1201, "
                      "\"gpu\": \"h100\", "
                      "\"gpus\": 1, \"search\": false, \"context\": 4096, \"micro_batch\": \"1\"}");
    const struct plan *seeing = planning_make(
        "{\"model\": \"qwen2.5-vl-7b\", \"examples\": 10000, \"mean_length\": 200, \"image_size\": "
        "\"1024x768\", \"gpu\": \"h100\", \"gpus\": 1, \"search\": false, \"context\": 4096, "
        "\"micro_batch\": \"1\"}");
    CHECK(seeing->rule.tokens == 10000.0 * (200 + 37 * 27 + 2));
    CHECK_NEAR(seeing->chosen.workload.tokens, text->chosen.workload.tokens, 1e-9);
    CHECK(seeing->estimate.timing.step_seconds > 1.02 * text->estimate.timing.step_seconds);
    CHECK(seeing->estimate.memory.allocated_bytes > text->estimate.memory.allocated_bytes + 1.2e9);
    // Nobody has published a run with images: the range is the widest.
    CHECK(seeing->prior.log_spread > text->prior.log_spread);
    struct out out = { .arena = &test_arena };
    plan_text(seeing, &test_arena, &out);
    CHECK(strstr(out_string(&out), "1 per example, 1,001 tokens each"));
}

TEST(plans_read_back_from_their_document_have_the_same_images)
{
    const struct plan *plan = planning_make(
        "{\"model\": \"gemma-3-4b\", \"examples\": 5000, \"mean_length\": 100, \"image_size\": "
        "\"900x900\", \"images\": 3, \"gpu\": \"h100\", \"gpus\": 1, \"search\": false}");
    struct out out = { .arena = &test_arena };
    struct json document;
    struct plan_request again = plan_request_default();
    plan_write(plan, &test_arena, &out);
    CHECK(!json_read(&document, &test_arena, out_view(&out), "plan.json"));
    plan_read_images(&again, &test_arena, &document);
    CHECK_NEAR(again.seen.images, 15000, 1e-9);
    CHECK_NEAR(again.seen.tokens, 15000 * 260, 1e-9);
    CHECK(again.seen_as && !strcmp(again.seen_as, "gemma-3"));
}

TEST(plans_refuse_images_that_cannot_be_with_one_sentence)
{
    static const struct {
        const char *request, *problem;
    } wrong[] = {
        { "{\"model\": \"llama-3.1-8b\", \"tokens\": 1000000, \"image_size\": \"5x5\"}",
          "reads text alone" },
        { "{\"model\": \"qwen2-vl-7b\", \"tokens\": 1000, \"examples\": 10, \"image_size\": "
          "\"0x1000000000\"}",
          "0 × 1000000000" },
        { "{\"model\": \"qwen2-vl-7b\", \"tokens\": 1000, \"examples\": 10, \"image_size\": "
          "\"10x9000\"}",
          "200 times" },
        { "{\"model\": \"qwen2-vl-7b\", \"tokens\": 1000, \"image_size\": \"10x10\"}",
          "add --examples" },
        { "{\"model\": \"qwen2-vl-7b\", \"tokens\": 1000, \"examples\": 10, \"images\": 2}",
          "add --image-size" },
        { "{\"model\": \"qwen2-vl-7b\", \"tokens\": 1000, \"examples\": 10, \"image_size\": "
          "\"large\"}",
          "width x height" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct plan plan;
        CHECK(planning_try(&plan, wrong[i].request) == ERR_USAGE);
        CHECK(strstr(error_text(), wrong[i].problem));
    }
}
