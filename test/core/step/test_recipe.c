// SPDX-License-Identifier: Apache-2.0
#include "test/core/knowledge.h"

static double adapters_by(const char *stack, const char *model, const char *targets, int64_t rank)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, model, stack, 1, 64);
    setup.recipe.targets = targets;
    setup.recipe.rank = rank;
    return knowledge_estimate(&setup).step.trained_weights;
}

static double adapters(const char *model, const char *targets, int64_t rank)
{
    return adapters_by("hf", model, targets, rank);
}

TEST(recipe_counts_adapters_as_peft_prints_them)
{
    CHECK_NEAR(adapters("llama-2-7b", "q,v", 8), 4194304, 1e-12); // PEFT's Llama example
    CHECK_NEAR(adapters("llama-2-7b", "q_proj,v_proj", 8), 4194304, 1e-12);
    CHECK_NEAR(adapters("llama-3.1-8b", "all-linear", 16), 41943040, 1e-12);
    CHECK_NEAR(adapters("llama-3.2-1b", "all-linear", 16), 11272192, 1e-12);
    CHECK_NEAR(adapters("llama-3.1-8b", "attention", 16), 13631488, 1e-12);
}

// gpt-oss holds its experts as parameters, which all-linear of PEFT does not find: 24 layers of q,
// k, v and o. They are adapted where their names are given, and by kernels that are not PEFT's.
TEST(recipe_all_linear_adapts_experts_only_where_they_are_modules)
{
    double attention = 24 * 8 * (2 * (2880 + 4096) + 2 * (2880 + 512));
    CHECK(adapters_by("hf-peft", "gpt-oss-20b", "all-linear", 8) == attention);
    CHECK(adapters_by("axolotl", "gpt-oss-20b", "all-linear", 8) == attention);
    CHECK(adapters_by("hf-peft", "gpt-oss-20b", "attention,mlp", 8) > 20 * attention);
    CHECK(adapters_by("native", "gpt-oss-20b", "all-linear", 8) > 20 * attention);
    CHECK(adapters_by("hf-peft", "mixtral-8x7b", "all-linear", 8) ==
          adapters_by("hf-peft", "mixtral-8x7b", "attention,mlp", 8));
}

TEST(recipe_refuses_targets_that_no_linear_has)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 1, 64);
    struct estimate estimate;
    setup.recipe.targets = "query_key_value";
    CHECK(estimate_make(&estimate, &test_arena, &setup) == ERR_USAGE);
    setup.recipe.targets = "all-linear";
    setup.recipe.rank = 0;
    CHECK(estimate_make(&estimate, &test_arena, &setup) == ERR_USAGE);
}

TEST(recipe_optimizer_states_have_the_bytes_people_quote)
{
    struct recipe recipe = recipe_default();
    CHECK(recipe_state_bytes(&recipe, RECIPE_FP32) == 8);
    CHECK(recipe_state_bytes(&recipe, RECIPE_BF16) == 4);
    recipe.optimizer = RECIPE_ADAMW_8BIT;
    CHECK_NEAR(recipe_state_bytes(&recipe, RECIPE_FP32), 2, 0.02);
    recipe.optimizer = RECIPE_SGD;
    CHECK(recipe_state_bytes(&recipe, RECIPE_FP32) == 0); // trainers' option has no momentum
}

TEST(recipe_fp4_is_for_products_alone)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "nemo", 1, 64);
    setup.recipe.precision = RECIPE_FP4;
    CHECK(!recipe_check(&setup.recipe, setup.model));
    setup.recipe.states = RECIPE_FP4;
    CHECK(recipe_check(&setup.recipe, setup.model) == ERR_USAGE);
}
