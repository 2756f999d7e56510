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
    { "samples_for_tokens", "\"tokens\":52002", "\"tokens\":52002000" },
    { "rows_cut", "\"packing\":\"off\",\"mean_length\":4200,\"context\":2048",
      "\"packing\":\"off\",\"mean_length\":4200" },
    { "no_packing", "\"packing\":\"off\",\"micro_batch\":\"8\"", "\"packing\":\"on\"" },
    { "lengths_assumed", "\"packing\":\"off\"", "\"packing\":\"off\",\"examples\":100000" },
    { "context_beyond_data", "\"packing\":\"off\",\"mean_length\":100,\"context\":8192",
      "\"packing\":\"off\",\"mean_length\":2000,\"context\":8192" },
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
    { "qlora_where_lora_fits", "\"method\":\"qlora\",\"packing\":\"on\",\"gpu\":\"h200\"",
      "\"method\":\"lora\",\"gpu\":\"h200\"" },
    { "full_under_pressure", "\"method\":\"full\",\"gpu\":\"rtx-4090\",\"gpus\":1",
      "\"method\":\"full\",\"gpu\":\"h200\",\"gpus\":8" },
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
    { "many_epochs", "\"epochs\":10", "\"epochs\":4" },
    { "many_epochs", "\"epochs\":15,\"examples\":20000", "\"epochs\":15,\"examples\":1000" },
    { "no_evaluation", "\"eval_share\":0", "\"eval_share\":0.05" },
    { "no_saves", "\"tokens\":1e9,\"save_interval\":\"1000h\",\"gpus\":1",
      "\"tokens\":1e9,\"save_interval\":\"1h\",\"gpus\":1" },
    { "unmeasured_stack", "\"stack\":\"litgpt\"", "\"stack\":\"nemo\"" },
    { "unmeasured_configuration", "\"gpu\":\"gaudi3\"", "\"gpu\":\"h200\"" },
    { "stale_prices", "\"gpu\":\"h100\",\"gpus\":8", "\"price\":2" },
    { "idle_gpus", "\"gpu\":\"gb200\",\"gpus\":1", "\"gpu\":\"gb200\",\"gpus\":4" },
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
        test_check(!warning_of(plan_with(cases[i].remedy), cases[i].code), "is remedied",
                   cases[i].code, 0);
    }
}

TEST(advice_of_a_sound_plan_is_short)
{
    const struct plan *plan =
        plan_with("\"stack\":\"nemo\",\"packing\":\"on\",\"price\":2,\"gpu\":\"h200\"");
    CHECK(plan->advice.count <= 1);
}
