#include "test/core/knowledge.h"

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
    CHECK(strstr(error_text(), "the nearest is axolotl"));
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

TEST(stack_file_that_is_wrong_is_refused_with_its_key)
{
    struct knowledge k = knowledge_open();
    struct stack *own;
    size_t count;
    static const char *const bad[] = {
        "{\"name\": \"mine\"}",                                     // nothing to be like
        "{\"name\": \"mine\", \"like\": \"nobody\"}",               // unknown base
        "{\"name\": \"mine\", \"like\": \"hf\", \"speed\": 2}",     // unknown key
        "{\"name\": \"mine\", \"like\": \"hf\", \"slack\": \"x\"}", // not a number
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
