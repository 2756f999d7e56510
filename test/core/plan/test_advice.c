// SPDX-License-Identifier: Apache-2.0
#include "test/core/planning.h"

static const char *warning_of(const struct plan *plan, const char *code)
{
    for (size_t i = 0; i < plan->advice.count; i++)
        if (!strcmp(plan->advice.items[i].code, code))
            return plan->advice.items[i].text;
    return NULL;
}

// A request that makes each mistake, and what changes for the same request not to make it.
static const struct {
    const char *code, *mistake, *remedy;
} cases[] = {
    { "does_not_fit", "\"method\":\"full\",\"gpu\":\"t4\",\"gpus\":1", "\"gpu\":\"h200\"" },
    { "deadline_missed", "\"gpus\":1,\"deadline\":\"1h\",\"tokens\":1e9",
      "\"gpus\":1,\"deadline\":\"900h\",\"tokens\":1e9" },
    { "peak_for_sustained", "\"gpus\":8,\"deadline\":\"3h\",\"tokens\":1e9",
      "\"gpus\":8,\"deadline\":\"100h\",\"tokens\":1e9" },
    { "budget_missed", "\"gpus\":8,\"budget\":1,\"tokens\":1e9",
      "\"gpus\":8,\"budget\":100000,\"tokens\":1e9" },
    { "unsupported_precision", "\"gpu\":\"v100\",\"method\":\"qlora\"",
      "\"gpu\":\"v100\",\"method\":\"qlora\",\"precision\":\"fp16\"" },
    { "context_beyond_model", "\"context\":262144,\"gpu\":\"b200\",\"gpus\":8",
      "\"context\":4096" },
    { "samples_for_tokens", "\"tokens\":21", "\"tokens\":21000000" },
    { "samples_for_tokens", "\"tokens\":52002", "\"tokens\":52002000" },
    { "rows_cut", "\"packing\":\"off\",\"mean_length\":4200,\"context\":2048",
      "\"packing\":\"off\",\"mean_length\":4200" },
    { "no_packing", "\"packing\":\"off\",\"micro_batch\":\"8\"", "\"packing\":\"on\"" },
    { "packed_images",
      "\"model\":\"qwen2.5-vl-7b\",\"examples\":20000,\"image_size\":\"1024x1024\","
      "\"packing\":\"on\"",
      "\"model\":\"qwen2.5-vl-7b\",\"examples\":20000,\"image_size\":\"1024x1024\","
      "\"packing\":\"on\",\"stack\":\"ms-swift\"" },
    { "packed_images",
      "\"model\":\"qwen2.5-vl-7b\",\"examples\":20000,\"image_size\":\"1024x1024\","
      "\"packing\":\"on\",\"stack\":\"unsloth\"",
      "\"model\":\"qwen2.5-vl-7b\",\"examples\":20000,\"image_size\":\"1024x1024\","
      "\"packing\":\"on\",\"stack\":\"xtuner\"" },
    { "packed_pairs", "\"objective\":\"dpo\",\"packing\":\"on\"",
      "\"objective\":\"dpo\",\"packing\":\"off\"" },
    { "packed_pairs", "\"objective\":\"kto\",\"packing\":\"on\",\"stack\":\"llama-factory\"",
      "\"packing\":\"on\",\"stack\":\"llama-factory\"" },
    { "packed_pairs", "\"objective\":\"dpo\",\"packing\":\"on\",\"stack\":\"torchtune\"",
      "\"objective\":\"dpo\",\"packing\":\"on\",\"stack\":\"native\"" },
    { "packed_pairs", "\"objective\":\"dpo\",\"packing\":\"on\",\"stack\":\"unsloth\"",
      "\"objective\":\"dpo\",\"packing\":\"on\",\"stack\":\"xtuner\"" }, // is like hf, and packs
    { "packed_pairs", "\"objective\":\"dpo\",\"packing\":\"on\",\"stack\":\"torchtune-eager\"",
      "\"objective\":\"dpo\",\"packing\":\"on\",\"stack\":\"prime-rl\"" },
    { "host_memory",
      "\"model\":\"llama-3.1-70b\",\"method\":\"full\",\"gpu\":\"v100\",\"gpus\":8,"
      "\"parallel\":\"fsdp offload optimizer\"",
      "\"method\":\"full\",\"weights\":\"fp32\",\"gpus\":8" },
    { "lengths_assumed", "\"packing\":\"off\"", "\"packing\":\"off\",\"examples\":100000" },
    { "context_beyond_data", "\"packing\":\"off\",\"mean_length\":100,\"context\":8192",
      "\"packing\":\"off\",\"mean_length\":2000,\"context\":8192" },
    { "context_beyond_data", "\"packing\":\"off\",\"mean_length\":100,\"context\":2048",
      "\"packing\":\"off\",\"mean_length\":100" }, // the plan's own default
    { "checkpointing_without_pressure",
      "\"checkpointing\":\"full\",\"model\":\"llama-3.2-1b\",\"micro_batch\":\"1\"",
      "\"checkpointing\":\"none\",\"model\":\"llama-3.2-1b\",\"micro_batch\":\"1\"" },
    { "logits_peak", "\"model\":\"llama-3.2-1b\",\"micro_batch\":\"8\",\"checkpointing\":\"full\"",
      "\"model\":\"llama-3.2-1b\",\"micro_batch\":\"8\",\"checkpointing\":\"full\",\"stack\":"
      "\"axolotl\"" },
    { "worst_batch", "\"packing\":\"off\",\"gpu\":\"rtx-4090\",\"micro_batch\":\"1\"",
      "\"packing\":\"on\",\"gpu\":\"rtx-4090\",\"micro_batch\":\"1\"" },
    { "wide_adapters", "\"stack\":\"hf-peft\"",
      "\"stack\":\"hf-peft\",\"adapter_dtype\":\"bf16\"" },
    { "engine_lacks_gpu", "\"stack\":\"native\",\"gpu\":\"mi300x\"",
      "\"stack\":\"native\",\"gpu\":\"rtx-3090\"" },
    { "engine_lacks_gpu", "\"stack\":\"native\",\"gpu\":\"t4\"", "\"gpu\":\"t4\"" },
    { "stack_lacks_gpu", "\"stack\":\"neuronx\",\"gpu\":\"h100\"",
      "\"stack\":\"neuronx\",\"gpu\":\"trainium2\",\"gpus\":16" },
    { "stack_lacks_gpu", "\"stack\":\"hf-peft\",\"gpu\":\"gaudi2\",\"gpus\":8",
      "\"stack\":\"optimum-habana\",\"gpu\":\"gaudi2\",\"gpus\":8" },
    { "stack_lacks_gpu", "\"stack\":\"llmq\",\"gpu\":\"mi300x\"",
      "\"stack\":\"hf-peft\",\"gpu\":\"mi300x\"" },
    { "engine_lacks_experts", "\"stack\":\"native\",\"model\":\"deepseek-v2-lite\"",
      "\"stack\":\"native\",\"model\":\"qwen3-30b-a3b\"" },
    { "engine_lacks_objective", "\"stack\":\"native\",\"objective\":\"dpo\",\"method\":\"full\"",
      "\"stack\":\"native\",\"objective\":\"dpo\"" },
    { "qlora_where_lora_fits", "\"method\":\"qlora\",\"checkpointing\":\"full\"",
      "\"method\":\"lora\",\"checkpointing\":\"full\"" },
    { "full_under_pressure", "\"method\":\"full\",\"gpu\":\"rtx-4090\",\"gpus\":1",
      "\"method\":\"full\",\"gpu\":\"h200\",\"gpus\":8" },
    { "images_one_by_one",
      "\"model\":\"qwen2.5-vl-7b\",\"image_size\":\"1024x768\",\"examples\":1000,"
      "\"tokens\":1e5,\"stack\":\"hf-peft\"",
      "\"model\":\"qwen2.5-vl-7b\",\"image_size\":\"1024x768\",\"examples\":1000,"
      "\"tokens\":1e5,\"stack\":\"hf-peft\",\"attention\":\"flash2\"" },
    { "images_one_by_one",
      "\"model\":\"qwen2.5-vl-7b\",\"image_size\":\"1024x768\",\"examples\":1000,"
      "\"tokens\":1e5,\"stack\":\"hf-peft\"",
      "\"model\":\"gemma-3-4b\",\"image_size\":\"1024x768\",\"examples\":1000,"
      "\"tokens\":1e5,\"stack\":\"hf-peft\"" },
    { "launch_bound",
      "\"model\":\"llama-3.2-1b\",\"micro_batch\":\"1\",\"mean_length\":100,"
      "\"packing\":\"off\"",
      "\"model\":\"llama-3.1-8b\",\"packing\":\"on\",\"context\":8192,\"gpu\":\"h200\"" },
    { "better_settings",
      "\"micro_batch\":\"1\",\"checkpointing\":\"full\",\"packing\":\"on\","
      "\"global_batch\":64",
      "\"packing\":\"on\",\"global_batch\":64" },
    { "more_gpus_cost_more", "\"gpus\":64,\"gpu\":\"h100\",\"global_batch\":64",
      "\"gpus\":1,\"gpu\":\"h100\"" },
    { "global_batch_raised", "\"gpus\":8,\"global_batch\":3", "\"gpus\":8,\"global_batch\":64" },
    { "global_batch_lowered", "\"gpus\":8,\"global_batch\":9", "\"gpus\":8,\"global_batch\":3" },
    { "global_batch_raised", "\"gpus\":8,\"global_batch\":3", "\"gpus\":8,\"global_batch\":9" },
    { "many_epochs", "\"epochs\":10", "\"epochs\":4" },
    { "many_epochs", "\"epochs\":15,\"examples\":20000", "\"epochs\":15,\"examples\":1000" },
    { "many_epochs", "\"steps\":100000,\"examples\":400", "\"steps\":100,\"examples\":400" },
    { "no_evaluation", "\"eval_share\":0", "\"eval_share\":0.05" },
    { "no_saves", "\"tokens\":1e9,\"save_interval\":\"1000h\",\"gpus\":1",
      "\"tokens\":1e9,\"save_interval\":\"1h\",\"gpus\":1" },
    { "unmeasured_stack", "\"stack\":\"ms-swift\"", "\"stack\":\"nemo\"" },
    { "unmeasured_configuration", "\"gpu\":\"mi210\"", "\"gpu\":\"h200\"" },
    { "stale_prices", "\"gpu\":\"h100\",\"gpus\":8", "\"price\":2" },
    { "idle_gpus", "\"gpu\":\"gb200\",\"gpus\":1", "\"gpu\":\"gb200\",\"gpus\":4" },
    { "idle_gpus", "\"gpus\":5", "\"gpus\":4" },
    { "idle_gpus", "\"gpus\":9", "\"gpus\":16" },
    { "unconnected_gpus", "\"gpu\":\"gh200\",\"gpus\":4", "\"gpu\":\"gh200\",\"gpus\":1" },
};

static const struct plan *plan_with(const char *members)
{
    // Members named twice: the later one counts.
    return planning_make(text_format(
        &test_arena, "{\"model\":\"llama-3.1-8b\",\"tokens\":5e7,\"gpu\":\"h100\",\"gpus\":1,%s}",
        members));
}

TEST(advice_notices_each_mistake_and_its_remedy)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = warning_of(plan_with(cases[i].mistake), cases[i].code);
        test_check(text && strlen(text) > 20, "is noticed", cases[i].code, 0);
        if (!TEST_UNDER_SANITIZER || i % 2)
            test_check(!warning_of(plan_with(cases[i].remedy), cases[i].code), "is remedied",
                       cases[i].code, 0);
    }
}

TEST(advice_against_more_gpus_names_the_count_that_needs_the_fewest_hours)
{
    const struct plan *plan = plan_with("\"model\":\"mistral-7b\",\"method\":\"full\",\"gpus\":32,"
                                        "\"global_batch\":128");
    const struct search_result *least = &plan->chosen, *first = NULL;
    for (size_t i = 0; i < plan->scaling_count; i++) {
        const struct search_result *r = &plan->scaling[i];
        bool smaller = r->stable && r->gpus < plan->chosen.gpus;
        first = smaller && !first ? r : first;
        least = smaller && r->gpu_hours < least->gpu_hours ? r : least;
    }
    CHECK(first && first->gpus < least->gpus && first->gpu_hours < plan->chosen.gpu_hours / 1.15);
    const char *text = warning_of(plan, "more_gpus_cost_more");
    CHECK(text && strstr(text, text_format(&test_arena, " on %lld (", (long long)least->gpus)));
}

TEST(advice_of_a_sound_plan_is_short)
{
    const struct plan *plan =
        plan_with("\"stack\":\"nemo\",\"packing\":\"on\",\"price\":2,\"gpu\":\"h200\"");
    CHECK(plan->advice.count <= 1);
}

// Rows of 300 tokens on average, up to 2,176, on a card that they fill.
#define TIGHT                                                                                   \
    "\"tokens\":1.2e6,\"examples\":4000,\"packing\":\"off\",\"context\":2176,\"gpu\":\"4090\"," \
    "\"method\":\"qlora\",\"stack\":\"unsloth\",\"epochs\":3"

TEST(advice_against_checkpointing_is_given_only_where_the_rest_fits)
{
    static const char *const code = "checkpointing_without_pressure";
    for (int rows = 1; rows <= 4; rows *= 2) {
        const char *settings =
            text_format(&test_arena,
                        TIGHT ",\"micro_batch\":\"%d\",\"global_batch\":64,\"search\":false", rows);
        const struct plan *full = plan_with(text_format(
            &test_arena, "%s,\"checkpointing\":\"full\",\"parallel\":\"single\"", settings));
        const struct plan *none =
            plan_with(text_format(&test_arena, "%s,\"checkpointing\":\"none\"", settings));
        CHECK((warning_of(full, code) != NULL) == (none->fits && none->chosen.stable));
    }
}

// What the allocator keeps fills a card wherever widths vary: it is not what a run needs.
TEST(advice_against_checkpointing_names_what_is_needed_not_what_is_kept)
{
    const struct plan *plan =
        plan_with("\"model\":\"qwen2.5-7b\",\"tokens\":2e7,\"packing\":\"off\",\"mean_length\":800,"
                  "\"gpu\":\"h100\",\"gpus\":1,\"micro_batch\":\"2\",\"checkpointing\":\"full\"");
    const char *text = warning_of(plan, "checkpointing_without_pressure");
    CHECK(text && strstr(text, " of 79.6 GiB; --checkpointing none is "));
    CHECK(text && !strstr(text, "79.6 GiB of 79.6 GiB"));
}

TEST(advice_of_lora_for_full_tuning_is_better_in_what_it_promises)
{
    static const char *const unpressed[] = {
        "\"model\":\"mistral-7b\",\"tokens\":2e8,\"method\":\"full\",\"gpu\":\"a100-40gb\","
        "\"gpus\":4",
        "\"model\":\"qwen2.5-7b\",\"objective\":\"grpo\",\"method\":\"full\",\"gpus\":8,"
        "\"examples\":"
        "5000,\"steps\":100,\"response_length\":\"2000,6000,16000\"",
    };
    for (size_t i = 0; i < sizeof unpressed / sizeof *unpressed; i++)
        CHECK(!warning_of(plan_with(unpressed[i]), "full_under_pressure"));
}

TEST(advice_names_no_way_out_that_the_plan_has_taken)
{
    const char *text = warning_of(plan_with("\"gpu\":\"rtx-4090\",\"micro_batch\":\"1\","
                                            "\"checkpointing\":\"full\",\"search\":false"),
                                  "tight_memory");
    CHECK(text && !strstr(text, "micro-batch") && !strstr(text, "--checkpointing"));
    text =
        warning_of(plan_with("\"gpu\":\"rtx-4090\",\"micro_batch\":\"1\",\"checkpointing\":"
                             "\"full\",\"search\":false,\"stack\":\"unsloth\",\"method\":\"qlora\","
                             "\"context\":200000"),
                   "does_not_fit");
    CHECK(text && !strstr(text, "qlora") && strstr(text, "--context"));
    text = warning_of(plan_with("\"objective\":\"grpo\",\"examples\":5000,\"steps\":100,\"gpus\":8,"
                                "\"micro_batch\":\"1\",\"method\":\"full\",\"search\":false,"
                                "\"response_length\":\"2000,6000,16000\""),
                      "logits_peak");
    CHECK(text && !strstr(text, "micro-batch"));
    const struct plan *images =
        plan_with("\"model\":\"qwen2.5-vl-7b\",\"examples\":20000,\"image_size\":"
                  "\"256x256\",\"packing\":\"off\",\"micro_batch\":\"8\"");
    CHECK(!warning_of(images, "no_packing"));
}

TEST(advice_where_nothing_is_searched_names_settings_that_fit)
{
    const struct plan *plan =
        plan_with(TIGHT ",\"micro_batch\":\"4\",\"checkpointing\":\"none\",\"search\":false");
    const char *text = warning_of(plan, "does_not_fit");
    CHECK(text && strstr(text, "with --checkpointing full it fits") && !strstr(text, "qlora"));
    CHECK(plan_with(TIGHT ",\"micro_batch\":\"4\",\"checkpointing\":\"full\",\"search\":false")
              ->fits);
}

TEST(advice_on_few_tokens_names_the_unit_that_may_be_missing)
{
    const char *text =
        warning_of(plan_with("\"tokens\":21,\"search\":false"), "samples_for_tokens");
    CHECK(text && strstr(text, "21 tokens do not fill one row") && strstr(text, "--tokens 21M"));
    text = warning_of(plan_with("\"tokens\":52002,\"search\":false"), "samples_for_tokens");
    CHECK(text && !strstr(text, "million"));
}

TEST(advice_on_idle_gpus_names_the_number_that_costs_less)
{
    const char *text = warning_of(plan_with("\"gpus\":5"), "idle_gpus");
    CHECK(text && strstr(text, "8 of these GPUs for the 5") && strstr(text, "--gpus 8 costs"));
    CHECK(warning_of(plan_with("\"gpus\":9,\"search\":false"), "idle_gpus"));
}

TEST(advice_on_host_memory_says_with_what_it_compares)
{
    const char *text =
        warning_of(plan_with("\"model\":\"llama-3.1-70b\",\"method\":\"full\",\"gpu\":"
                             "\"v100\",\"gpus\":8,\"search\":false,\"parallel\":"
                             "\"fsdp offload optimizer\""),
                   "host_memory");
    CHECK(text && strstr(text, "aws/p3"));
}

TEST(advice_on_a_missed_budget_names_the_command_that_compares_offers)
{
    static const char *const members =
        "\"gpus\":8,\"budget\":500,\"deadline\":\"4h\",\"tokens\":1e10";
    const char *command = "gpuhours hosts --plan plan.json --deadline 4h --budget 500";
    const char *text = warning_of(plan_with(members), "budget_missed");
    CHECK(text && strstr(text, command));
    text =
        warning_of(plan_with(text_format(&test_arena, "%s,\"price\":3", members)), "budget_missed");
    CHECK(text && !strstr(text, command)); // who gives a price has an offer
}

TEST(advice_on_launches_gives_no_more_seconds_than_the_step_takes)
{
    const struct plan *plan = plan_with("\"gpus\":8,\"mean_length\":43,\"micro_batch\":\"8\","
                                        "\"global_batch\":64,\"packing\":\"off\","
                                        "\"search\":false");
    const char *text = warning_of(plan, "launch_bound");
    const char *from = text ? strchr(text, '(') : NULL, *to = from ? strstr(from, " per") : NULL;
    double seconds = NAN;
    CHECK(to && !text_read_seconds(&seconds, (struct text){ from + 1, (size_t)(to - from - 1) }));
    CHECK(seconds <= 1.01 * plan->chosen.seconds_per_step);
}

TEST(advice_proposes_a_pilot_as_long_as_its_steps_need)
{
    const struct plan *slow =
        plan_with("\"model\":\"qwen2.5-7b\",\"objective\":\"grpo\",\"examples\":5000,\"steps\":100,"
                  "\"method\":\"full\",\"gpus\":8,\"response_length\":\"2000,6000,16000\","
                  "\"search\":false");
    const struct plan *fast =
        plan_with("\"startup\":\"60s\",\"search\":false,\"model\":\"llama-3.2-1b\","
                  "\"global_batch\":8");
    const char *slowly = NULL, *quickly = NULL;
    for (int i = 0; i < FORECAST_DRIVERS; i++) {
        if (slow->forecast.drivers[i].kind == FORECAST_EFFICIENCY)
            slowly = slow->forecast.drivers[i].measurement;
        if (fast->forecast.drivers[i].kind == FORECAST_EFFICIENCY)
            quickly = fast->forecast.drivers[i].measurement;
    }
    CHECK(slow->chosen.seconds_per_step > 200);
    CHECK(slowly && strstr(slowly, "--minutes") && quickly && strstr(quickly, "five-minute"));
}
