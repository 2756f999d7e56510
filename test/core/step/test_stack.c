// SPDX-License-Identifier: Apache-2.0
#include "test/core/knowledge.h"
#include "test/core/planning.h"

static const char *found(const struct knowledge *k, const char *name)
{
    const struct stack *stack = NULL;
    return stack_find(&stack, k->stacks, k->stack_count, name) ? "none" : stack->name;
}

TEST(stack_finds_frameworks_as_people_write_them)
{
    struct knowledge k = knowledge_open();
    static const char *const pairs[][2] = {
        { "hf-peft", "hf-peft" },
        { "HF Transformers + PEFT", "hf-peft" },
        { "HF TRL + PEFT", "hf-peft" },
        { "HF+DeepSpeed", "hf-deepspeed" },
        { "XTuner (HF + DeepSpeed)", "xtuner" },
        { "ms-swift (HF Trainer)", "ms-swift" },
        { "NeMo/Megatron (TransformerEngine)", "nemo" },
        { "Megatron-LM + TransformerEngine", "megatron" },
        { "HF Trainer + fms-acceleration", "fms" },
        { "LLMQ (C++/CUDA)", "llmq" },
        { "LLaMA-Factory", "llama-factory" },
        { "Unsloth", "unsloth" },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        CHECK(!strcmp(found(&k, pairs[i][0]), pairs[i][1]));
}

TEST(stack_unknown_names_the_nearest)
{
    struct knowledge k = knowledge_open();
    const struct stack *stack;
    CHECK(stack_find(&stack, k.stacks, k.stack_count, "axolotel") == ERR_USAGE);
    CHECK(strstr(error_text(), "did you mean axolotl"));
}

TEST(stack_of_a_user_differs_only_in_what_it_says)
{
    struct knowledge k = knowledge_open();
    struct stack *own;
    size_t count;
    struct text json = TEXT("{\"name\": \"mine\", \"like\": \"unsloth\", \"loss_bytes\": 7}");
    CHECK(!stack_read(&own, &count, &test_arena, k.stacks, k.stack_count, json, "mine.json"));
    const struct stack *unsloth;
    CHECK(!stack_find(&unsloth, k.stacks, k.stack_count, "unsloth"));
    CHECK(count == 1 && own->loss_bytes == 7 && own->kernels == unsloth->kernels);
    CHECK(own->launch_seconds == unsloth->launch_seconds);
}

TEST(stack_of_the_trainer_copies_its_logits_to_fp32_and_a_bare_loop_does_not)
{
    struct knowledge k = knowledge_open();
    const struct stack *hf, *peft;
    CHECK(!stack_find(&hf, k.stacks, k.stack_count, "hf"));
    CHECK(!stack_find(&peft, k.stacks, k.stack_count, "hf-peft"));
    CHECK(peft->loss_moved_bytes == hf->loss_moved_bytes + 2 + 4); // 16 bits read, 32 written
    struct stack bare = *peft;
    stack_without_trainer(&bare);
    CHECK(bare.loss_moved_bytes == hf->loss_moved_bytes);
    CHECK(bare.step_seconds == 0 && bare.pause_seconds == 0);
    CHECK(bare.recompute_launches < peft->recompute_launches);
    CHECK(bare.launch_seconds == peft->launch_seconds);
}

// A copy that changes nothing is the stack itself: no part of the program asks for a stack's name.
TEST(stack_like_another_plans_as_the_other_does)
{
    struct plan_data *data = planning_data();
    struct lengths lengths = { .arena = &test_arena };
    for (int i = 0; i < 300; i++)
        lengths_add(&lengths, 40 + i * 7 % 900, 30);
    for (size_t i = 0; i < data->stack_count; i += TEST_CASES_OF) {
        const struct stack *stack = &data->stacks[i];
        struct stack *copy;
        size_t count;
        const char *json =
            text_format(&test_arena, "{\"name\":\"copy\",\"like\":\"%s\"}", stack->name);
        CHECK(!stack_read(&copy, &count, &test_arena, data->stacks, data->stack_count,
                          text_of(json), "copy.json"));
        struct plan_request request = plan_request_default();
        request.model = "llama-3.2-1b", request.gpu = "h100-sxm", request.gpus = 8;
        request.context = 1024;
        request.packing = "on";
        request.lengths = &lengths;
        struct plan plans[2];
        const struct stack *own[] = { stack, copy };
        for (int k = 0; k < 2; k++) {
            struct plan_request *r = ARENA_NEW(&test_arena, struct plan_request, 1);
            *r = request;
            r->own_stack = own[k];
            CHECK(!plan_make(&plans[k], &test_arena, data, r));
        }
        CHECK(plans[0].forecast.tokens_per_s.mid == plans[1].forecast.tokens_per_s.mid);
        CHECK(plans[0].forecast.wall_hours.high == plans[1].forecast.wall_hours.high);
        CHECK(plans[0].chosen.workload.padding_share == plans[1].chosen.workload.padding_share);
        CHECK(plans[0].search.count == plans[1].search.count);
    }
}

TEST(stack_file_that_is_wrong_is_refused_with_its_key)
{
    struct knowledge k = knowledge_open();
    struct stack *own;
    size_t count;
    static const char *const bad[] = {
        "{\"name\": \"mine\"}",                                        // nothing to be like
        "{\"name\": \"mine\", \"like\": \"nobody\"}",                  // unknown base
        "{\"name\": \"mine\", \"like\": \"hf\", \"speed\": 2}",        // unknown key
        "{\"name\": \"mine\", \"like\": \"hf\", \"slack\": \"x\"}",    // not a number
        "{\"name\": \"mine\", \"like\": \"hf\", \"trainer\": \"x\"}",  // no such trainer
        "{\"name\": \"mine\", \"like\": \"hf\", \"batching\": \"x\"}", // no such batching
        "{\"name\": \"mine\", \"like\": \"hf\", \"checkpointing\": \"auto\"}",
        "{\"name\": \"mine\", \"like\": \"hf\", \"slack\": 0.9}", // less than is allocated
        "[1]",
        "7",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(stack_read(&own, &count, &test_arena, k.stacks, k.stack_count, text_of(bad[i]),
                         "mine.json") == ERR_INPUT);
}

TEST(stack_list_has_those_that_the_product_promises)
{
    struct knowledge k = knowledge_open();
    static const char *const promised[] = {
        "native",       "hf",         "hf-peft", "hf-compile",
        "hf-deepspeed", "unsloth",    "axolotl", "llama-factory",
        "torchtune",    "torchtitan", "litgpt",  "llm-foundry",
        "nemo",         "ms-swift",   "xtuner",  "llmq"
    };
    for (size_t i = 0; i < sizeof promised / sizeof *promised; i++)
        CHECK(!strcmp(found(&k, promised[i]), promised[i]));
}

TEST(stack_gradients_have_the_type_of_their_weights_unless_the_stack_copies_those)
{
    struct knowledge k = knowledge_open();
    const struct stack *hf, *deepspeed;
    CHECK(!stack_find(&hf, k.stacks, k.stack_count, "hf"));
    CHECK(!stack_find(&deepspeed, k.stacks, k.stack_count, "hf-deepspeed"));
    struct recipe recipe = recipe_default();
    recipe.method = RECIPE_FULL;
    recipe.weights = RECIPE_BF16;
    CHECK(stack_gradients(hf, &recipe) == RECIPE_BF16);
    recipe.weights = RECIPE_FP32;
    CHECK(stack_gradients(hf, &recipe) == RECIPE_FP32);
    CHECK(stack_gradients(deepspeed, &recipe) == RECIPE_BF16);
    recipe.method = RECIPE_LORA;
    recipe.adapter_dtype = RECIPE_FP32;
    CHECK(stack_gradients(hf, &recipe) == RECIPE_FP32);
}
