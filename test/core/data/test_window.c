// SPDX-License-Identifier: Apache-2.0
// Context candidates and the recommendation.

#include "core/data/window.h"

#include "test/real_lengths.h"

#include <string.h>

static struct window_plan plan_of(const char *path, enum batching batching)
{
    struct lengths list = real_lengths(path);
    struct lengths_tally tally;
    struct window_plan plan;
    lengths_tally(&tally, &test_arena, &list);
    struct window_request request = { .batching = batching, .seed = 1 };
    CHECK(window_plan(&plan, &test_arena, &tally, &request) == OK);
    return plan;
}

static const struct window *row(const struct window_plan *plan, int64_t context)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->rows[i].context == context)
            return &plan->rows[i];
    CHECK(!"the window is a candidate");
    return &plan->rows[0];
}

TEST(window_candidates_increase_and_larger_ones_never_cut_more)
{
    struct window_plan plan = plan_of("test/data/c4_lengths.csv", BATCHING_LONGEST);
    for (size_t i = 1; i < plan.count; i++) {
        const struct window *a = &plan.rows[i - 1], *b = &plan.rows[i];
        CHECK(a->context < b->context);
        CHECK(a->truncated_examples >= b->truncated_examples);
        CHECK(a->truncated_tokens >= b->truncated_tokens);
        CHECK(a->relative_cost <= b->relative_cost);
    }
    CHECK(row(&plan, 16384)->truncated_examples == 0);
}

TEST(window_efficiencies_are_those_of_simulating_each_window)
{
    struct lengths list = real_lengths("test/data/gsm8k_lengths.csv"), shuffled;
    struct lengths_tally tally;
    struct window_plan plan;
    lengths_tally(&tally, &test_arena, &list);
    struct window_request request = { .context = 200, .seed = 4, .micro_batch = 16 };
    CHECK(window_plan(&plan, &test_arena, &tally, &request) == OK);
    lengths_unroll(&shuffled, &test_arena, &tally, 4);
    const struct packing_trainer *trainer;
    packing_trainer_find(&trainer, "hf", NULL);
    static const int64_t contexts[] = { 200, 512, 4096 };
    for (size_t i = 0; i < 3; i++) {
        const struct window *window = row(&plan, contexts[i]);
        struct packing_setup setup = { .window = contexts[i], .micro_batch = 16, .seed = 4 };
        struct packing packing;
        struct packing_rule rule = packing_rule(trainer, BATCHING_LONGEST);
        packing_plan(&packing, &test_arena, &shuffled, &rule, &setup);
        CHECK_NEAR(window->padded_efficiency, 1 - packing.sums.padding_share, 1e-12);
        CHECK(window->truncated_examples == packing.sums.cut_examples);
        CHECK(window->truncated_tokens == packing.sums.lost_tokens);
        rule = packing_rule(trainer, BATCHING_GROUPED);
        packing_plan(&packing, &test_arena, &shuffled, &rule, &setup);
        CHECK_NEAR(window->grouped_efficiency, 1 - packing.sums.padding_share, 1e-3);
        rule = packing_rule(trainer, BATCHING_PACKED);
        packing_plan(&packing, &test_arena, &shuffled, &rule, &setup);
        CHECK(window->packs == packing.sums.rows);
        CHECK_NEAR(window->packed_efficiency, packing.sums.fill, 1e-12);
    }
}

TEST(window_recommended_cuts_nothing_if_that_is_cheap)
{
    struct window_plan plan = plan_of("test/data/gsm8k_lengths.csv", BATCHING_LONGEST);
    const struct window *window = &plan.rows[plan.recommended];
    CHECK(window->truncated_examples == 0);
    CHECK(window->context == 512); // the longest record has 469 tokens
    CHECK(strstr(plan.reason, "cuts no example"));
}

TEST(window_recommended_cuts_a_costly_tail)
{
    struct lengths list = { .arena = &test_arena };
    for (int i = 0; i < 10000; i++)
        lengths_add(&list, 200 + i % 300, 100);
    for (int i = 0; i < 10; i++)
        lengths_add(&list, 30000, 100); // 5 % of all tokens in ten examples
    struct lengths_tally tally;
    struct window_plan plan;
    lengths_tally(&tally, &test_arena, &list);
    struct window_request request = { .batching = BATCHING_LONGEST, .seed = 1 };
    CHECK(window_plan(&plan, &test_arena, &tally, &request) == OK);
    CHECK(plan.rows[plan.recommended].context == 512);
    CHECK(plan.rows[plan.recommended].truncated_examples == 10);
    CHECK(strstr(plan.reason, "cuts 0.1"));
}

TEST(window_recommended_keeps_answers_after_long_prompts)
{
    struct lengths list = { .arena = &test_arena };
    for (int i = 0; i < 10000; i++)
        lengths_add(&list, 300, 20);
    for (int i = 0; i < 60; i++) // 0.6 % of the examples, but a quarter of what is learned
        lengths_add(&list, 6000, 1100);
    struct lengths_tally tally;
    struct window_plan plan;
    lengths_tally(&tally, &test_arena, &list);
    struct window_request request = { .batching = BATCHING_LONGEST, .seed = 1 };
    CHECK(window_plan(&plan, &test_arena, &tally, &request) == OK);
    CHECK(plan.rows[plan.recommended].context == 6016);
}

TEST(window_recommended_for_packing_fills_its_rows)
{
    struct lengths list = { .arena = &test_arena };
    for (int i = 0; i < 5000; i++)
        lengths_add(&list, 330 + i % 20, 100); // one fits into 512 and wastes 170
    struct lengths_tally tally;
    struct window_plan plan;
    lengths_tally(&tally, &test_arena, &list);
    struct window_request request = { .batching = BATCHING_PACKED, .seed = 1 };
    CHECK(window_plan(&plan, &test_arena, &tally, &request) == OK);
    CHECK(plan.rows[plan.recommended].packed_efficiency >= 0.95);
}

TEST(window_of_no_examples_does_not_crash)
{
    struct lengths_tally none = { 0 };
    struct window_plan plan;
    CHECK(window_plan(&plan, &test_arena, &none, &(struct window_request){ 0 }) == OK);
    CHECK(plan.count == 7 && plan.rows[0].packs == 0);
}

TEST(window_recommended_keeps_the_positions_of_the_model)
{
    struct lengths list = real_lengths("test/data/c4_lengths.csv");
    struct lengths_tally tally;
    struct window_plan plan;
    lengths_tally(&tally, &test_arena, &list);
    static const int64_t positions[] = { 300, 1000, 1024 };
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        struct window_request request = { .seed = 1, .positions = positions[i] };
        CHECK(window_plan(&plan, &test_arena, &tally, &request) == OK);
        CHECK(plan.rows[plan.recommended].context == positions[i]);
        CHECK(strstr(plan.reason, "positions"));
    }
    struct window_request request = { .seed = 1, .positions = 131072 };
    CHECK(window_plan(&plan, &test_arena, &tally, &request) == OK);
    CHECK(!strstr(plan.reason, "positions"));
}

TEST(window_of_rows_without_labels_says_nothing_of_labelled_tokens)
{
    enum { ROWS = 1000 };
    struct lengths list = { .count = ROWS, .items = ARENA_NEW(&test_arena, struct length, ROWS) };
    struct lengths_tally tally;
    struct window_plan plan;
    for (size_t i = 0; i < ROWS; i++)
        list.items[i] = (struct length){ .tokens = i < 997 ? 60 : 5700 };
    lengths_tally(&tally, &test_arena, &list);
    CHECK(!window_plan(&plan, &test_arena, &tally, &(struct window_request){ .seed = 1 }));
    CHECK(strstr(plan.reason, "cuts 0.3 % of the examples; cutting none would cost "));
}

TEST(window_that_costs_nothing_more_is_not_said_to_cost_something)
{
    enum { ROWS = 1000 };
    struct lengths list = { .count = ROWS, .items = ARENA_NEW(&test_arena, struct length, ROWS) };
    struct lengths_tally tally;
    struct window_plan plan;
    struct window_request request = { .batching = BATCHING_LONGEST, .seed = 1 };
    for (size_t i = 0; i < ROWS; i++)
        list.items[i] = (struct length){ .tokens = i < 999 ? 1020 : 1025, .labelled = 1000 };
    lengths_tally(&tally, &test_arena, &list);
    CHECK(!window_plan(&plan, &test_arena, &tally, &request));
    CHECK(!strcmp(plan.reason, "cuts no example and costs no more than 1,024"));
}
