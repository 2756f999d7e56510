// SPDX-License-Identifier: Apache-2.0
#include "core/forecast/search.h"
#include "test/core/knowledge.h"

struct world {
    struct knowledge knowledge;
    struct overheads overheads;
    struct search_space space;
};

static void open_world(struct world *w, const char *model, const char *stack, int method)
{
    w->knowledge = knowledge_open();
    CHECK(!overhead_assume(&w->overheads, &w->knowledge.catalog, NULL));
    w->space = (struct search_space){
        .catalog = &w->knowledge.catalog,
        .recipe = recipe_default(),
        .rule = workload_rule(),
        .efficiency = { .log_mid = -0.1, .log_spread = 0.2 },
        .overheads = &w->overheads,
        .global_batch = 64,
        .usd_per_gpu_hour = NAN,
        .vendor = "nvidia",
    };
    w->space.rule.tokens = 2e8;
    w->space.recipe.method = method;
    CHECK(!catalog_model(&w->space.model, w->space.catalog, model));
    CHECK(!stack_find(&w->space.stack, w->knowledge.stacks, w->knowledge.stack_count, stack));
}

static struct search run(const struct search_space *space)
{
    struct search search;
    CHECK(!search_run(&search, &test_arena, space));
    return search;
}

TEST(search_results_all_fit_and_come_in_order)
{
    struct world w;
    open_world(&w, "llama-3.1-8b", "hf-peft", RECIPE_LORA);
    struct search search = run(&w.space);
    CHECK(search.count > 50);
    for (size_t i = 0; i < search.count; i++) {
        const struct search_result *r = &search.best[i];
        CHECK(r->memory.fits && r->memory.allocated_bytes <= r->gpu->memory_bytes);
        CHECK(layout_gpus(&r->layout) == r->gpus);
        CHECK_NEAR(r->gpu_hours, r->wall_hours * (double)r->gpus, 1e-12);
        CHECK(i == 0 || search.best[i - 1].gpu_hours <= r->gpu_hours);
        struct setup setup = search_setup(r, w.space.model, w.space.stack);
        struct estimate estimate = knowledge_estimate(&setup);
        CHECK(estimate.memory.total_bytes == r->memory.total_bytes);
        CHECK_NEAR(estimate.tokens_per_s * exp(w.space.efficiency.log_mid), r->tokens_per_s, 1e-12);
    }
}

TEST(search_leaves_out_numbers_of_gpus_that_no_offer_joins)
{
    struct world w;
    open_world(&w, "llama-3.1-8b", "hf-peft", RECIPE_LORA);
    struct search search = run(&w.space);
    for (size_t i = 0; i < search.count; i++) {
        const struct search_result *r = &search.best[i];
        CHECK(!price_find(&test_arena, w.space.catalog, r->gpu, (double)r->gpus).unconnected);
    }
    CHECK(!catalog_gpu(&w.space.gpu, w.space.catalog, "gh200")); // rented one by one
    search = run(&w.space);
    CHECK(search.count == 1 && search.best[0].gpus == 1);
    w.space.gpus = 4; // asked for
    CHECK(run(&w.space).count == 1);
    w.space.gpus = 0;
    CHECK(!catalog_model(&w.space.model, w.space.catalog, "llama-3.1-70b"));
    search = run(&w.space); // more than one holds: several are better than no answer
    CHECK(search.count > 0 && search.best[0].gpus > 1);
}

// With --nodes, where no row of data/nodes.csv has the card.
TEST(search_keeps_the_link_of_cards_that_no_catalogued_node_has)
{
    struct world w;
    open_world(&w, "llama-3.1-8b", "hf-deepspeed", RECIPE_FULL);
    CHECK(!catalog_gpu(&w.space.gpu, w.space.catalog, "gh200-96gb"));
    w.space.gpus = 8;
    w.space.node_gpus = 4;
    struct search search = run(&w.space);
    CHECK(search.count > 0);
    for (size_t i = 0; i < search.count; i++) {
        CHECK(search.best[i].node.gpus == 4);
        CHECK(search.best[i].node.link_bytes_per_s ==
              knowledge_card(&w.knowledge, "gh200-96gb")->link_bytes_per_s);
    }
}

TEST(search_pareto_set_holds_exactly_what_nothing_beats)
{
    struct world w;
    open_world(&w, "llama-3.1-8b", "hf", RECIPE_FULL);
    struct search search = run(&w.space);
    size_t members = 0;
    for (size_t i = 0; i < search.count; i++) {
        const struct search_result *a = &search.best[i];
        bool beaten = false;
        for (size_t k = 0; k < search.count; k++)
            beaten |= search.best[k].wall_hours < a->wall_hours &&
                      search.best[k].gpu_hours < a->gpu_hours;
        bool member = search_is_pareto(&search, a);
        members += member;
        CHECK(!(member && beaten));
    }
    CHECK(members >= 2 && members < search.count);
}

TEST(search_shows_efficiency_falling_with_more_gpus)
{
    struct world w;
    open_world(&w, "llama-3.1-8b", "hf", RECIPE_FULL);
    CHECK(!catalog_gpu(&w.space.gpu, w.space.catalog, "h100-sxm"));
    w.space.parallel = "fsdp";
    w.space.micro_batch = 1;
    w.space.global_batch = 512;
    w.space.rule.batching = BATCHING_PACKED;
    w.space.recipe.checkpointing = RECIPE_RECOMPUTE;
    double before = INFINITY, hours = 0;
    for (int64_t gpus = 8; gpus <= 64; gpus *= 2) {
        w.space.gpus = gpus;
        struct search search = run(&w.space);
        CHECK(search.count == 1);
        double each = search.best[0].tokens_per_s / (double)gpus;
        CHECK(each < before);
        CHECK(search.best[0].gpu_hours > hours);
        before = each;
        hours = search.best[0].gpu_hours;
    }
}

TEST(search_chooses_settings_no_slower_than_any_by_hand)
{
    struct world w;
    open_world(&w, "llama-3.1-8b", "hf-peft", RECIPE_LORA);
    w.space.rule.batching = BATCHING_PACKED;
    CHECK(!catalog_gpu(&w.space.gpu, w.space.catalog, "a100-sxm-80gb"));
    w.space.gpus = 8;
    struct search chosen = run(&w.space);
    CHECK(chosen.count == 1 && chosen.best[0].stable);
    struct search_space by_hand = w.space;
    for (int level = RECIPE_KEEP_ALL; level <= RECIPE_RECOMPUTE; level++)
        for (int rows = 1; rows <= 8; rows *= 2) {
            by_hand.recipe.checkpointing = level;
            by_hand.micro_batch = rows;
            struct search search = run(&by_hand);
            if (search.count && search.best[0].stable)
                CHECK(chosen.best[0].wall_hours <= 1.03 * search.best[0].wall_hours);
        }
}

TEST(search_recomputes_only_under_pressure)
{
    struct world w;
    open_world(&w, "llama-3.2-1b", "hf-peft", RECIPE_LORA);
    CHECK(!catalog_gpu(&w.space.gpu, w.space.catalog, "h200"));
    w.space.gpus = 1;
    struct search search = run(&w.space);
    CHECK(search.best[0].recipe.checkpointing == RECIPE_KEEP_ALL);
    open_world(&w, "llama-3.1-8b", "hf-peft", RECIPE_QLORA);
    CHECK(!catalog_gpu(&w.space.gpu, w.space.catalog, "rtx-4090"));
    w.space.gpus = 1;
    w.space.rule.context = 4096;
    search = run(&w.space);
    CHECK(search.count == 1 && search.best[0].recipe.checkpointing != RECIPE_KEEP_ALL);
}

TEST(search_keeps_the_global_batch_that_it_is_given)
{
    struct world w;
    open_world(&w, "llama-3.1-8b", "hf-peft", RECIPE_LORA);
    w.space.global_batch = 8;
    struct search search = run(&w.space);
    CHECK(search.count > 10);
    for (size_t i = 0; i < search.count; i++)
        CHECK(search.best[i].workload.global_batch == 8);
    // Only a number of GPUs that was asked for may make it larger.
    CHECK(!catalog_gpu(&w.space.gpu, w.space.catalog, "h100-sxm"));
    w.space.gpus = 16;
    CHECK(run(&w.space).best[0].workload.global_batch == 16);
}

TEST(search_tries_context_parallelism_for_long_rows_only)
{
    struct world w;
    open_world(&w, "llama-3.1-8b", "hf", RECIPE_FULL);
    CHECK(!catalog_gpu(&w.space.gpu, w.space.catalog, "h100-sxm"));
    w.space.gpus = 8;
    w.space.rule.full_rows = true;
    w.space.rule.context = 131072;
    struct search search = run(&w.space);
    CHECK(search.count == 1 && search.best[0].layout.context > 1);
    w.space.rule.context = 2048;
    search = run(&w.space);
    CHECK(search.count == 1 && search.best[0].layout.context == 1);
}

TEST(search_remembers_the_closest_of_what_does_not_fit)
{
    struct world w;
    open_world(&w, "llama-3.1-405b", "hf", RECIPE_FULL);
    w.space.rule.context = 8192;
    w.space.micro_batch = 64;
    struct search search = run(&w.space);
    CHECK(search.count == 0 && search.closest.gpu);
    double least = memory_needed_bytes(&search.closest.memory) / search.closest.gpu->memory_bytes;
    CHECK(least > 1);
    struct search_space one = w.space;
    CHECK(!catalog_gpu(&one.gpu, one.catalog, "t4"));
    one.gpus = 1;
    search = run(&one);
    CHECK(search.closest.gpu == one.gpu && search.closest.gpus == 1);
    CHECK(memory_needed_bytes(&search.closest.memory) / one.gpu->memory_bytes > least);
}

TEST(search_spreads_large_models_over_what_the_stack_can_split)
{
    struct world w;
    open_world(&w, "llama-3.1-405b", "nemo", RECIPE_FULL);
    CHECK(!catalog_gpu(&w.space.gpu, w.space.catalog, "h200"));
    w.space.gpus = 64;
    struct search search = run(&w.space);
    CHECK(search.count == 1 && layout_gpus(&search.best[0].layout) == 64);
    open_world(&w, "llama-3.1-405b", "hf", RECIPE_FULL);
    w.space.gpus = 1;
    CHECK(run(&w.space).count == 0);
}
