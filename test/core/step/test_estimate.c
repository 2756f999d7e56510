// SPDX-License-Identifier: Apache-2.0
#include "test/core/knowledge.h"

TEST(estimate_fills_in_from_the_stack_what_the_recipe_leaves_open)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-peft", 1, 128);
    setup.recipe.checkpointing = RECIPE_AUTO;
    struct recipe recipe = estimate_recipe(&setup);
    CHECK(recipe.adapter_dtype == RECIPE_FP32 && recipe.states == RECIPE_FP32);
    CHECK(recipe.checkpointing == RECIPE_RECOMPUTE && recipe.dropout == 0);
    setup.recipe.adapter_dtype = RECIPE_BF16;
    CHECK(estimate_recipe(&setup).states == RECIPE_BF16);
}

TEST(estimate_makes_states_of_the_weights_type_unless_the_optimizer_has_a_master_copy)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 1, 128);
    setup.recipe.method = RECIPE_FULL;
    CHECK(estimate_recipe(&setup).states == RECIPE_BF16);
    setup.recipe.weights = RECIPE_FP32;
    CHECK(estimate_recipe(&setup).states == RECIPE_FP32);
    struct setup master = knowledge_setup(&k, "llama-3.1-8b", "hf-deepspeed", 1, 128);
    master.recipe.method = RECIPE_FULL;
    master.recipe.weights = RECIPE_BF16;
    CHECK(estimate_recipe(&master).states == RECIPE_FP32);
}

TEST(estimate_times_the_average_batch_and_holds_the_worst)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 8, 200);
    struct estimate average = knowledge_estimate(&setup);
    setup.worst = step_batch(8, 1000);
    struct estimate worst = knowledge_estimate(&setup);
    CHECK(worst.tokens_per_s == average.tokens_per_s);
    CHECK(worst.memory.allocated_bytes > 1.5 * average.memory.allocated_bytes);
}

TEST(estimate_without_a_gpu_still_plans_memory)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 1, 512);
    setup.gpu = NULL;
    struct estimate estimate = knowledge_estimate(&setup);
    CHECK(isnan(estimate.tokens_per_s) && estimate.memory.total_bytes > 16e9);
}
