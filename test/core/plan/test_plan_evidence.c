// SPDX-License-Identifier: Apache-2.0
// What a plan says about the measured runs that its range rests on.
#include "test/core/planning.h"

#include <math.h>
#include <string.h>

static const struct json *evidence_of(const struct plan *plan)
{
    struct out out = { .arena = &test_arena };
    struct json *tree = ARENA_NEW(&test_arena, struct json, 1);
    plan_write(plan, &test_arena, &out);
    CHECK(!json_read(tree, &test_arena, out_view(&out), "plan.json"));
    const struct json *evidence = json_get(tree, "evidence");
    CHECK(evidence);
    return evidence;
}

static const struct json *level_of(const struct json *list, const char *factor)
{
    for (size_t i = 0; list && i < list->count; i++)
        if (text_is(json_get_text(&list->items[i], "factor"), factor))
            return &list->items[i];
    return NULL;
}

static const struct plan *plan_on(const char *model, const char *gpu)
{
    return planning_make(text_format(&test_arena,
                                     "{\"model\":\"%s\",\"tokens\":5e7,\"gpu\":\"%s\",\"stack\":"
                                     "\"hf-peft\",\"search\":false}",
                                     model, gpu));
}

TEST(plan_says_which_runs_its_range_rests_on)
{
    const struct plan *plan = plan_on("llama-3.1-8b", "h200");
    const char *words = plan_evidence_words(plan, &test_arena);
    CHECK(strstr(words, "of hf-peft (") && strstr(words, "on h200-sxm ("));
    CHECK(strstr(words, "dense models") && !strstr(words, "none "));
    CHECK(!plan_unmeasured_words(plan, &test_arena));
    const struct json *evidence = evidence_of(plan), *measured = json_get(evidence, "measured");
    CHECK(json_get_number(level_of(measured, "stack"), "runs", 0) >= 5);
    CHECK(json_get_number(level_of(measured, "gpu"), "sources", 0) >= 2);
    CHECK_NEAR(json_get_number(evidence, "log_spread", NAN), plan->efficiency.log_spread, 1e-9);
    CHECK(json_get(evidence, "never_measured")->count == 0);
}

TEST(plan_says_what_nobody_has_measured)
{
    const struct plan *known = plan_on("llama-3.1-8b", "h200");
    const struct plan *plan = plan_on("llama-3.1-8b", "mi210");
    const char *words = plan_evidence_words(plan, &test_arena);
    CHECK(strstr(words, "none on mi210, on CDNA2 cards: widened"));
    const char *warning = plan_unmeasured_words(plan, &test_arena);
    CHECK(warning && strstr(warning, "CDNA2"));
    CHECK(level_of(json_get(evidence_of(plan), "never_measured"), "generation"));
    CHECK(plan->efficiency.log_spread > 1.1 * known->efficiency.log_spread);
}

TEST(plan_of_a_mixture_of_experts_does_not_rest_on_dense_models)
{
    const struct plan *dense = plan_on("llama-3.1-8b", "h200");
    const struct plan *moe = plan_on("qwen3-30b-a3b", "h200");
    CHECK(strstr(plan_evidence_words(moe, &test_arena), "mixtures of experts"));
    CHECK(moe->efficiency.log_spread > dense->efficiency.log_spread);
    double runs =
        json_get_number(level_of(json_get(evidence_of(dense), "measured"), "kind"), "runs", 0);
    CHECK(runs >
          4 * json_get_number(level_of(json_get(evidence_of(moe), "measured"), "kind"), "runs", 0));
}

TEST(plan_says_what_hosts_add_to_the_range_where_they_set_the_time)
{
    const struct plan *small = planning_make(
        "{\"model\":\"llama-3.2-1b\",\"tokens\":5e7,\"gpu\":\"h200\",\"stack\":\"hf-peft\","
        "\"context\":512,\"micro_batch\":\"4\",\"search\":false}");
    CHECK(strstr(plan_evidence_words(small, &test_arena), "how fast the host launches kernels"));
    const struct plan *large = planning_make(
        "{\"model\":\"llama-3.1-8b\",\"tokens\":5e7,\"gpu\":\"h200\",\"stack\":\"hf-peft\","
        "\"context\":4096,\"micro_batch\":\"4\",\"search\":false}");
    CHECK(!strstr(plan_evidence_words(large, &test_arena), "the rest"));
}

TEST(plan_says_what_experts_add_to_the_range)
{
    const struct plan *shared =
        planning_make("{\"model\":\"qwen3-30b-a3b\",\"tokens\":5e7,\"gpu\":\"h100\",\"gpus\":8,"
                      "\"stack\":\"megatron\","
                      "\"method\":\"full\",\"parallel\":\"ep8\",\"search\":false}");
    CHECK(strstr(plan_evidence_words(shared, &test_arena), "how evenly GPUs share the experts"));
    const struct plan *loop = planning_make(
        "{\"model\":\"qwen3-30b-a3b\",\"tokens\":5e7,\"gpu\":\"h200\",\"stack\":\"hf-peft\","
        "\"experts\":\"eager\",\"search\":false}");
    CHECK(strstr(plan_evidence_words(loop, &test_arena), "what a loop over experts costs"));
    CHECK(!strstr(plan_evidence_words(plan_on("qwen3-30b-a3b", "h200"), &test_arena), "the rest"));
}
