// SPDX-License-Identifier: Apache-2.0
#include "base/embedded.h"
#include "core/measured/validate.h"
#include "test/core/knowledge.h"

TEST(validate_shipped_runs_stay_within_the_promised_errors)
{
    struct knowledge k = knowledge_open();
    struct run *runs;
    size_t count, understood = 0;
    CHECK(!run_read(&runs, &count, &test_arena, embedded_file("runs.csv"), "runs.csv"));
    struct validate_model model = { &k.catalog, k.stacks, k.stack_count };
    struct validate_row *rows;
    CHECK(!validate_runs(&rows, &test_arena, runs, count, runs, count, &model));
    for (size_t i = 0; i < count; i++)
        understood += rows[i].setup != NULL;
    CHECK((double)understood >= 0.95 * (double)count);
    struct validate_summary tokens =
        validate_summarize(rows, count, VALIDATE_TOKENS, &test_arena, NULL, NULL);
    CHECK(tokens.n > 350 && tokens.median_error <= 1.20 && tokens.p90_error <= 1.9);
    CHECK(tokens.coverage >= 0.75 && tokens.coverage <= 0.88);
    struct validate_summary memory =
        validate_summarize(rows, count, VALIDATE_MEMORY, &test_arena, NULL, NULL);
    CHECK(memory.n > 250 && memory.median_error <= 1.08 && memory.coverage >= 0.80);
}

TEST(validate_a_row_does_not_help_to_predict_itself)
{
    struct knowledge k = knowledge_open();
    struct run *runs;
    size_t count;
    CHECK(!run_read(&runs, &count, &test_arena, embedded_file("runs.csv"), "runs.csv"));
    struct validate_model model = { &k.catalog, k.stacks, k.stack_count };
    struct validate_row *before, *after;
    CHECK(!validate_runs(&before, &test_arena, runs, 1, runs, count, &model));
    double mid = before[0].tokens_per_s.predicted.mid;
    struct text source = run_source(&runs[0]);
    for (size_t i = 0; i < count; i++) // its own source says something absurd
        if (text_equal(run_source(&runs[i]), source))
            runs[i].tokens_per_s_total *= 1000;
    CHECK(!validate_runs(&after, &test_arena, runs, 1, runs, count, &model));
    CHECK(after[0].tokens_per_s.predicted.mid == mid);
}

TEST(validate_errors_are_factors_in_either_direction)
{
    struct validate_row rows[2] = { 0 };
    struct setup setup = { 0 };
    rows[0].setup = rows[1].setup = &setup;
    rows[0].tokens_per_s = (struct validate_value){ { 50, 100, 150 }, 80, 1.25, true };
    rows[1].tokens_per_s = (struct validate_value){ { 50, 100, 150 }, 200, 2, false };
    struct validate_summary s =
        validate_summarize(rows, 2, VALIDATE_TOKENS, &test_arena, NULL, NULL);
    CHECK(s.n == 2 && s.coverage == 0.5 && s.unsafe == 1);
    CHECK_NEAR(s.median_error, 1.625, 1e-12);
}
