// SPDX-License-Identifier: Apache-2.0
#include "base/embedded.h"
#include "core/measured/run.h"
#include "core/measured/validate.h"
#include "test/core/knowledge.h"

static struct run *reference(size_t *count)
{
    struct run *runs = NULL;
    CHECK(!run_read(&runs, count, &test_arena, embedded_file("runs.csv"), "runs.csv"));
    return runs;
}

TEST(calibration_file_is_the_fit_of_the_shipped_runs)
{
    struct knowledge k = knowledge_open();
    size_t run_count, row_count;
    struct run *runs = reference(&run_count);
    struct validate_model model = { &k.catalog, k.stacks, k.stack_count };
    struct residual *residuals;
    size_t count = validate_residuals(&residuals, &test_arena, runs, run_count, &model);
    struct efficiency *fit =
        calibration_fit(&test_arena, k.stacks, k.stack_count, residuals, count);
    struct efficiency *rows;
    CHECK(!calibration_read(&rows, &row_count, &test_arena, embedded_file("efficiency.csv"),
                            "efficiency.csv"));
    CHECK(row_count == k.stack_count);
    for (size_t i = 0; i < row_count && i < k.stack_count; i++) {
        CHECK(!strcmp(rows[i].stack, fit[i].stack));
        CHECK(fabs(rows[i].log_mid - fit[i].log_mid) < 1e-5); // else: gpuhours validate --fit
        CHECK(fabs(rows[i].log_spread - fit[i].log_spread) < 1e-5);
    }
}

TEST(calibration_finds_what_sources_agree_on)
{
    struct knowledge k = knowledge_open();
    const struct stack *stack;
    CHECK(!stack_find(&stack, k.stacks, k.stack_count, "litgpt"));
    static char names[40][4];
    struct residual residuals[400];
    for (int i = 0; i < 400; i++) { // forty sources of ten runs, half as fast as the roofline
        names[i / 10][0] = (char)('a' + i / 10 % 26);
        names[i / 10][1] = (char)('a' + i / 260);
        double wobble = i % 2 ? 0.1 : -0.1;
        residuals[i] = (struct residual){ stack, text_of(names[i / 10]), log(0.5) + wobble, false };
    }
    struct efficiency *fit = calibration_fit(&test_arena, k.stacks, k.stack_count, residuals, 400);
    struct efficiency row = calibration_of(fit, k.stack_count, stack);
    CHECK_NEAR(exp(row.log_mid), 0.5, 0.03);
    CHECK(row.log_spread > 0.05 && row.log_spread < 0.15);
    CHECK(row.sources == 40 && row.runs == 400);
}

TEST(calibration_leaves_out_what_is_marked)
{
    struct knowledge k = knowledge_open();
    struct residual residuals[] = {
        { &k.stacks[0], TEXT("a"), log(0.8), false },
        { &k.stacks[0], TEXT("b"), log(0.2), true },
    };
    struct efficiency *fit = calibration_fit(&test_arena, k.stacks, k.stack_count, residuals, 2);
    CHECK_NEAR(exp(fit[0].log_mid), 0.8, 1e-9);
    CHECK(fit[0].runs == 1);
}
