// SPDX-License-Identifier: Apache-2.0
#include "core/forecast/outlook.h"
#include "test/test.h"

#include <string.h>

static const char *const document =
    "{\"kind\":\"plan\",\"version\":1,"
    "\"workload\":{\"processed_tokens\":40960000,\"steps\":1000},"
    "\"tokens_per_second\":{\"p10\":9000,\"p50\":11378,\"p90\":14000},"
    "\"wall_hours\":{\"p10\":0.9,\"p50\":1.1,\"p90\":1.5},"
    "\"gpu_hours\":{\"p10\":3.6,\"p50\":4.4,\"p90\":6.0},"
    "\"cost_usd\":{\"p10\":7.2,\"p50\":8.8,\"p90\":12},"
    "\"configuration\":{\"model\":\"m\",\"gpus\":4},"
    "\"overheads\":[{\"name\":\"start-up\",\"seconds\":180},{\"name\":\"evaluation\",\"seconds\":"
    "100},"
    "{\"name\":\"saves\",\"seconds\":50}],"
    "\"drivers\":[{\"name\":\"failures\",\"gpu_hours_low\":4.4,\"gpu_hours_high\":4.8}]}";

static struct outlook_plan read_plan(void)
{
    struct outlook_plan plan;
    CHECK(!outlook_plan_read(&plan, &test_arena, text_of(document), "plan.json"));
    return plan;
}

// 3.6 s a step, known within 2 % at 90 %, nothing slow.
static struct steady steps_of(double seconds)
{
    return (struct steady){ .ordinary_steps = 100,
                            .step_seconds = { 0.98 * seconds, seconds, 1.02 * seconds } };
}

static struct outlook look(const struct outlook_plan *plan, const struct steady *steady)
{
    return outlook_make(plan, &(struct outlook_progress){ .elapsed_seconds = 540,
                                                          .steps = 100,
                                                          .total = NAN,
                                                          .steady = steady,
                                                          .gpus = NAN,
                                                          .usd_per_gpu_hour = NAN });
}

TEST(outlook_reads_what_it_needs_of_a_plan)
{
    struct outlook_plan plan = read_plan();
    CHECK(plan.gpus == 4 && plan.steps == 1000 && plan.gpu_hours.high == 6.0);
    CHECK_NEAR(plan.usd_per_gpu_hour, 2, 1e-12);
    CHECK_NEAR(outlook_step_tokens(&plan), 40960, 1e-12);
    CHECK(plan.seconds[OVERHEAD_EVALUATION] == 100 && plan.seconds[OVERHEAD_STARTUP] == 180);
    CHECK_NEAR(plan.failures_high_seconds, 3600 * 0.4 / 4, 1e-9);
}

TEST(outlook_of_a_measured_run_adds_the_remaining_steps)
{
    struct outlook_plan plan = read_plan();
    struct steady steady = steps_of(3.6);
    struct outlook now = look(&plan, &steady);
    // 540 s used, 900 steps to go, and nine tenths of the planned evaluation and saves.
    CHECK(now.measured && now.total == 1000);
    CHECK_NEAR(now.remaining_seconds, 900 * 3.6 + 0.9 * 150, 1e-9);
    CHECK_NEAR(now.gpu_hours.mid, 4 * (540 + 3240 + 135) / 3600.0, 1e-9);
    CHECK_NEAR(now.used_gpu_hours, 0.6, 1e-9);
    CHECK_NEAR(now.used_usd, 1.2, 1e-9);
    CHECK_NEAR(now.cost_usd.mid, 2 * now.gpu_hours.mid, 1e-9);
    CHECK(now.gpu_hours.low < now.gpu_hours.mid && now.gpu_hours.mid < now.gpu_hours.high);
    CHECK(now.place == OUTLOOK_INSIDE);
}

TEST(outlook_takes_evaluations_as_they_were_measured)
{
    struct outlook_plan plan = read_plan();
    struct steady steady = steps_of(3.6), slow = steady;
    slow.slow[STEADY_EVALUATION] = (struct steady_slow){ .count = 4, .extra_seconds = 104 };
    double more = look(&plan, &slow).remaining_seconds - look(&plan, &steady).remaining_seconds;
    CHECK_NEAR(more, 900 * 104 / 104.0 - 90, 1e-9); // a second a step instead of the planned 90
    slow.slow[STEADY_EVALUATION] = (struct steady_slow){ .count = 100, .extra_seconds = 200 };
    struct outlook often = look(&plan, &slow);
    slow.slow[STEADY_EVALUATION] = (struct steady_slow){ .count = 1, .extra_seconds = 101 };
    struct outlook once = look(&plan, &slow);
    CHECK_NEAR(often.remaining_seconds, once.remaining_seconds, 1e-9);
    CHECK(often.wall_hours.high - often.wall_hours.low <
          once.wall_hours.high - once.wall_hours.low);
}

TEST(outlook_says_when_a_run_leaves_its_plan)
{
    struct outlook_plan plan = read_plan();
    struct steady slow = steps_of(6), fast = steps_of(2);
    CHECK(look(&plan, &slow).place == OUTLOOK_ABOVE);
    CHECK(look(&plan, &fast).place == OUTLOOK_BELOW);
    CHECK(look(&plan, NULL).place == OUTLOOK_UNKNOWN);
}

TEST(outlook_before_a_rate_is_known_is_the_plans)
{
    struct outlook_plan plan = read_plan();
    struct outlook now = look(&plan, NULL);
    CHECK(!now.measured);
    CHECK_NEAR(now.wall_hours.mid, 0.15 + 0.9 * 1.1, 1e-9);
    CHECK_NEAR(now.wall_hours.high, 0.15 + 0.9 * 1.5, 1e-9);
}

TEST(outlook_at_the_end_is_what_was_used)
{
    struct outlook_plan plan = read_plan();
    struct steady steady = steps_of(3.6);
    struct outlook end =
        outlook_make(&plan, &(struct outlook_progress){ .elapsed_seconds = 4000,
                                                        .steps = 500,
                                                        .total = 500, // as the trainer says
                                                        .steady = &steady,
                                                        .gpus = 8,
                                                        .usd_per_gpu_hour = 3 });
    CHECK(end.remaining_seconds == 0 && end.gpu_hours.low == end.gpu_hours.high);
    CHECK_NEAR(end.gpu_hours.mid, 8 * 4000 / 3600.0, 1e-9);
    CHECK_NEAR(end.used_usd, 3 * end.gpu_hours.mid, 1e-9);
}

TEST(outlook_of_other_gpus_has_the_plans_gpu_hours_until_it_measures)
{
    struct outlook_plan plan = read_plan();
    struct outlook_progress now = { .total = NAN, .gpus = 8, .usd_per_gpu_hour = NAN };
    struct outlook start = outlook_make(&plan, &now);
    CHECK_NEAR(start.gpu_hours.mid, plan.gpu_hours.mid, 1e-9);
    CHECK_NEAR(start.wall_hours.mid, plan.wall_hours.mid / 2, 1e-9);
}

TEST(outlook_refuses_documents_that_are_not_plans)
{
    struct outlook_plan plan;
    CHECK(outlook_plan_read(&plan, &test_arena, TEXT("[]"), "x.json") == ERR_INPUT);
    CHECK(outlook_plan_read(&plan, &test_arena, TEXT("{\"kind\":\"pilot\"}"), "x.json") ==
          ERR_INPUT);
    CHECK(strstr(error_text(), "x.json: is not a plan"));
    CHECK(outlook_plan_read(&plan, &test_arena,
                            TEXT("{\"kind\":\"plan\",\"workload\":{},\"configuration\":{}}"),
                            "x.json") == ERR_INPUT);
    CHECK(strstr(error_text(), "processed_tokens"));
}

TEST(outlook_adds_the_widths_that_are_still_to_be_met)
{
    struct outlook_plan plan = read_plan();
    struct json tree;
    const char *workload = "{\"widths\":[{\"steps\":1,\"widths\":1},{\"steps\":100,\"widths\":80},"
                           "{\"steps\":1000,\"widths\":200}]}";
    CHECK(!json_read(&tree, &test_arena, text_of(workload), "workload"));
    workload_read_widths(&plan.sights, &tree, 1);
    struct steady steady = steps_of(3.6), fitted = steady;
    fitted.seconds_per_width = 0.2;
    struct outlook with = look(&plan, &fitted), without = look(&plan, &steady);
    CHECK_NEAR(with.remaining_seconds - without.remaining_seconds, 0.2 * (200 - 80), 1e-9);
    CHECK(with.wall_hours.high - with.wall_hours.low >
          without.wall_hours.high - without.wall_hours.low);
}
