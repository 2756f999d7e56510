// SPDX-License-Identifier: Apache-2.0
// lengths: a plan without lengths has a range that plans with lengths lie in.

#include "core/forecast/lengths.h"

#include "base/csv.h"
#include "host/file.h"
#include "test/core/planning.h"

static const struct plan *plan_with(const char *settings, double mean)
{
    const char *length = isnan(mean) ? "" : text_format(&test_arena, ",\"mean_length\":%.0f", mean);
    return planning_make(text_format(&test_arena,
                                     "{\"tokens\":\"10M\",\"gpu\":\"h100-sxm\",\"gpus\":1,"
                                     "\"stack\":\"hf-peft\",\"search\":false,%s%s}",
                                     settings, length));
}

// Rows of the shortest and the longest assumed means.
static void check_holds(const char *settings)
{
    const struct plan *unknown = plan_with(settings, NAN);
    struct range mean = workload_mean_lengths(&unknown->rule);
    CHECK(lengths_are_assumed(&unknown->rule) && mean.low < mean.high);
    double ends[] = { mean.low, mean.high };
    for (int i = 0; i < 2; i++) {
        const struct plan *known = plan_with(settings, ends[i]);
        double hours = known->forecast.gpu_hours.mid;
        CHECK(hours > 0.97 * unknown->forecast.gpu_hours.low);
        CHECK(hours < 1.03 * unknown->forecast.gpu_hours.high);
    }
}

TEST(lengths_that_are_assumed_range_from_the_hours_of_long_rows_to_those_of_short_ones)
{
    check_holds("\"model\":\"qwen2.5-0.5b\",\"packing\":\"off\",\"micro_batch\":\"1\"");
    check_holds("\"model\":\"llama-3.1-8b\",\"packing\":\"off\",\"micro_batch\":\"1\"");
    check_holds("\"model\":\"llama-3.1-8b\",\"packing\":\"off\",\"micro_batch\":\"4\"");
    check_holds("\"model\":\"llama-3.2-1b\",\"batching\":\"grouped\",\"micro_batch\":\"2\"");
}

TEST(lengths_that_are_assumed_hold_four_fifths_of_public_data_sets)
{
    struct csv csv = { 0 };
    struct file file;
    const char *path = "bench/data_lengths.csv";
    CHECK(!file_open(&file, path));
    CHECK(!csv_read(&csv, &test_arena, file.text, path, ','));
    double sets = 0, inside = 0, shorter = 0;
    for (size_t i = 0; i < csv.rows; i++) {
        double mean = 0, context = 0;
        CHECK(!text_read_number(&mean, csv_cell(&csv, i, csv_column(&csv, "mean_tokens"))));
        if (text_read_number(&context, csv_cell(&csv, i, csv_column(&csv, "context"))) ||
            context > 16384)
            continue;
        struct range assumed = workload_assumed_lengths(context);
        sets++;
        inside += mean >= assumed.low && mean <= assumed.high;
        shorter += mean < assumed.mid;
    }
    file_close(&file);
    fail(OK, "%s", ""); // a set of which no recipe is known has no context
    CHECK(sets > 40);
    CHECK(inside > 0.74 * sets && inside < 0.88 * sets);
    CHECK(shorter > 0.4 * sets && shorter < 0.6 * sets);
}

TEST(lengths_that_are_unknown_reach_from_full_rows_to_typical_ones)
{
    const char *settings = "\"model\":\"llama-3.1-8b\",\"micro_batch\":\"2\"";
    const struct plan *full = plan_with(settings, NAN);
    CHECK(full->rule.full_rows);
    const struct plan *typical = plan_with(settings, workload_mean_lengths(&full->rule).mid);
    CHECK(typical->forecast.gpu_hours.mid < full->forecast.gpu_hours.high);
    CHECK(typical->forecast.gpu_hours.mid > 0.7 * full->forecast.gpu_hours.high);
}

// Attention over long rows takes most of a step: rows that are shorter than the context are faster.
TEST(lengths_that_are_unknown_may_save_time_in_a_long_context)
{
    const struct plan *full =
        plan_with("\"model\":\"llama-3.2-1b\",\"context\":131072,\"micro_batch\":\"1\"", NAN);
    CHECK(full->lengths_factor.low < 0.8 && full->lengths_factor.mid == 1);
    bool said = false;
    for (size_t i = 0; i < full->advice.count; i++)
        said |= !strcmp(full->advice.items[i].code, "lengths_assumed") &&
                strstr(full->advice.items[i].text, "tokens the run takes 0.") != NULL;
    CHECK(said); // it was "up to 1.0 times as long, padded to the longest of 1"
}

TEST(lengths_that_are_known_leave_the_range_of_padding)
{
    const struct plan *plan =
        plan_with("\"model\":\"llama-3.1-8b\",\"packing\":\"off\",\"micro_batch\":\"4\"", 300);
    const struct range *padding = &plan->chosen.workload.processed_factor;
    CHECK(!lengths_are_assumed(&plan->rule));
    CHECK(plan->lengths_factor.low == padding->low && plan->lengths_factor.high == padding->high);
    plan = plan_with("\"model\":\"llama-3.1-8b\",\"packing\":\"on\"", 300);
    CHECK(!lengths_are_assumed(&plan->rule));
    CHECK(plan->lengths_factor.low == plan->chosen.workload.processed_factor.low);
}

// A packed row holds one example or many, each of which attends to itself alone.
TEST(lengths_that_nobody_told_are_in_the_range_of_packed_rows_too)
{
    const char *settings = "\"model\":\"qwen2.5-7b\",\"packing\":\"on\",\"context\":65536,"
                           "\"micro_batch\":\"1\",\"checkpointing\":\"full\"";
    const struct plan *unknown = plan_with(settings, NAN);
    double mean = workload_mean_lengths(&unknown->rule).mid;
    const struct plan *known = plan_with(settings, mean);
    CHECK(lengths_are_assumed(&unknown->rule) && unknown->rule.full_rows);
    CHECK(known->forecast.gpu_hours.mid < 0.75 * unknown->forecast.gpu_hours.mid);
    CHECK(known->forecast.gpu_hours.mid > unknown->forecast.gpu_hours.low); // it was below
    bool said = false;
    for (size_t i = 0; i < unknown->advice.count; i++)
        said |= !strcmp(unknown->advice.items[i].code, "lengths_assumed");
    CHECK(said);
}

TEST(lengths_of_packed_rows_hardly_matter_in_a_short_context)
{
    const struct plan *plan = plan_with("\"model\":\"llama-3.1-8b\",\"packing\":\"on\"", NAN);
    CHECK(plan->lengths_factor.low > 0.9);
    for (size_t i = 0; i < plan->advice.count; i++)
        CHECK(strcmp(plan->advice.items[i].code, "lengths_assumed"));
}

static const struct plan *rl_plan(const char *settings, double prompts)
{
    const char *length =
        isnan(prompts) ? "" : text_format(&test_arena, ",\"mean_length\":%.0f", prompts);
    return planning_make(
        text_format(&test_arena,
                    "{\"model\":\"llama-3.1-8b\",\"objective\":\"grpo\",\"examples\":10000,"
                    "\"gpu\":\"h100-sxm\",\"gpus\":8,\"search\":false,%s%s}",
                    settings, length));
}

TEST(lengths_of_prompts_that_nobody_told_are_in_the_range_of_hours)
{
    static const char *const settings[] = {
        "\"response_length\":\"50,100,200\",\"response_limit\":512,\"context\":2048",
        "\"response_length\":\"200,400,800\"",
    };
    for (int s = 0; s < 2; s++) {
        const struct plan *unknown = rl_plan(settings[s], NAN);
        const struct range *factor = &unknown->lengths_factor;
        CHECK(factor->mid == 1 && factor->high > 1.02 * factor->low);
        for (int i = 0; i < 2; i++) {
            double length = unknown->prompts[i].length;
            double hours = rl_plan(settings[s], length)->forecast.gpu_hours.mid;
            CHECK(length == (i ? 1024 : 64));
            CHECK(hours > 0.97 * unknown->forecast.gpu_hours.low);
            CHECK(hours < 1.03 * unknown->forecast.gpu_hours.high);
        }
        bool drives = false;
        for (int i = 0; i < FORECAST_DRIVERS; i++)
            drives = drives || unknown->forecast.drivers[i].kind == FORECAST_LENGTHS;
        CHECK(drives);
        CHECK(rl_plan(settings[s], 256)->lengths_factor.high == 1);
    }
    CHECK(rl_plan(settings[0], NAN)->lengths_factor.high > 1.2); // longer ones take longer there
    const struct plan *full = rl_plan("\"response_length\":\"50,100,1700\",\"context\":2048", NAN);
    CHECK(full->prompts[1].length == 348); // there is no room for longer ones
}

// It holds no other lengths: tokens/s of other rows are not tokens/s of these.
TEST(lengths_that_are_assumed_are_said_to_be_those_of_the_range_of_speed)
{
    static const char *const settings[] = {
        "\"model\":\"llama-3.1-8b\",\"micro_batch\":\"2\"",
        "\"model\":\"llama-3.1-8b\",\"packing\":\"off\",\"micro_batch\":\"4\"",
        "\"model\":\"qwen2.5-7b\",\"packing\":\"on\",\"context\":65536,\"micro_batch\":\"1\"",
    };
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        const struct plan *plan = plan_with(settings[s], NAN);
        bool said = false;
        for (size_t i = 0; i < plan->advice.count; i++)
            said |= !strcmp(plan->advice.items[i].code, "lengths_assumed") &&
                    strstr(plan->advice.items[i].text, "range of tokens/s does not") != NULL;
        CHECK(said);
    }
}
