// SPDX-License-Identifier: Apache-2.0
#include "core/forecast/forecast.h"
#include "test/core/knowledge.h"

// A run of 1e9 tokens at 1e5 tokens/s, nothing unknown but the efficiency.
static struct forecast_input input_of(double log_spread)
{
    struct knowledge k = knowledge_open();
    struct forecast_input input = {
        .roofline_tokens_per_s = 1e5,
        .efficiency = { .stack = "x", .family = "y", .log_mid = -0.2, .log_spread = log_spread },
        .processed_tokens = 1e9,
        .lengths_factor = { 1, 1, 1 },
        .price = price_given(&test_arena, 2),
    };
    struct overheads *o = &input.overheads;
    CHECK(!overhead_assume(o, &k.catalog, NULL));
    o->startup_seconds = assumption_given(o->startup_seconds, 0);
    o->eval_share = assumption_given(o->eval_share, 0);
    o->storage_bytes_per_s = assumption_given(o->storage_bytes_per_s, 1e9);
    o->failures_per_gpu_hour = assumption_given(o->failures_per_gpu_hour, 0);
    o->failed_runs = assumption_given(o->failed_runs, 0);
    o->gpus = 8;
    return input;
}

static struct forecast_samples samples_of(const struct forecast_input *input)
{
    struct forecast_samples samples;
    forecast_sample(&samples, &test_arena, &input->overheads, 1);
    return samples;
}

static struct forecast forecast_of(const struct forecast_input *input)
{
    struct forecast_samples samples = samples_of(input);
    struct forecast forecast;
    forecast_make(&forecast, &test_arena, input, &samples);
    return forecast;
}

TEST(forecast_without_unknowns_is_one_number)
{
    struct forecast_input input = input_of(0);
    struct forecast f = forecast_of(&input);
    double hours = 1e9 / (1e5 * exp(-0.2)) / 3600;
    CHECK_NEAR(f.wall_hours.low, hours, 1e-9);
    CHECK_NEAR(f.wall_hours.high, hours, 1e-9);
    CHECK_NEAR(f.gpu_hours.mid, 8 * hours, 1e-9);
    CHECK_NEAR(f.cost_usd.mid, 16 * hours, 1e-9);
}

TEST(forecast_with_a_slow_tail_takes_longer_at_most_and_the_same_otherwise)
{
    struct forecast_input input = input_of(0.1);
    struct forecast even = forecast_of(&input);
    input.efficiency.slow_tail = 1.5;
    struct forecast slow = forecast_of(&input);
    CHECK_NEAR(slow.wall_hours.low, even.wall_hours.low, 1e-12);
    CHECK_NEAR(slow.wall_hours.mid, even.wall_hours.mid,
               0.002); // samples have no middle of their own
    double middle = 1e9 / (1e5 * exp(-0.2)) / 3600;
    CHECK_NEAR(log(slow.wall_hours.high / middle), 2.5 * log(even.wall_hours.high / middle), 1e-6);
    CHECK(slow.tokens_per_s.low < even.tokens_per_s.low);
}

// Samples and the middle are drawn by two functions: with nothing uncertain both are one run.
TEST(forecast_of_what_is_certain_is_its_middle)
{
    struct forecast_input input = input_of(0);
    struct overheads *o = &input.overheads;
    struct assumption seconds = { .value = { 7, 7, 7 } };
    o->first_width_seconds = o->first_steps_seconds = o->first_evaluation_seconds = seconds;
    o->compile_seconds = o->compilations = o->evaluation_seconds = o->save_seconds = seconds;
    o->evals_per_epoch = assumption_given(o->evals_per_epoch, 1);
    o->new_widths = 5;
    o->epochs = 2;
    o->compiles = true;
    struct overhead_times middle;
    double hours = forecast_middle(&middle, &input) / 3600;
    CHECK_NEAR(middle.seconds[OVERHEAD_EVALUATION], 2 * 7 + 7, 1e-9);
    CHECK_NEAR(middle.seconds[OVERHEAD_WIDTHS], 5 * 7 + 7, 1e-9);
    struct forecast f = forecast_of(&input);
    CHECK_NEAR(f.wall_hours.low, hours, 1e-12);
    CHECK_NEAR(f.wall_hours.high, hours, 1e-12);
}

TEST(forecast_of_a_lognormal_efficiency_has_its_quantiles)
{
    struct forecast_input input = input_of(0.3);
    struct forecast f = forecast_of(&input);
    CHECK_NEAR(f.tokens_per_s.low, 1e5 * exp(-0.2 - 0.3 * STATS_P90), 0.01);
    CHECK_NEAR(f.tokens_per_s.mid, 1e5 * exp(-0.2), 0.01);
    CHECK_NEAR(f.tokens_per_s.high, 1e5 * exp(-0.2 + 0.3 * STATS_P90), 0.01);
    CHECK_NEAR(f.wall_hours.high, 1e9 / f.tokens_per_s.low / 3600, 1e-3);
}

TEST(forecast_with_the_same_seed_is_the_same)
{
    struct forecast_input input = input_of(0.3);
    struct forecast a = forecast_of(&input), b = forecast_of(&input);
    CHECK(a.gpu_hours.high == b.gpu_hours.high && a.cost_usd.low == b.cost_usd.low);
    struct forecast_samples others;
    forecast_sample(&others, &test_arena, &input.overheads, 2);
    forecast_make(&b, &test_arena, &input, &others);
    CHECK(a.gpu_hours.high != b.gpu_hours.high);
    CHECK_NEAR(a.gpu_hours.high, b.gpu_hours.high, 0.02);
}

TEST(forecast_widens_with_every_unknown)
{
    struct forecast_input input = input_of(0.2);
    double before = forecast_of(&input).gpu_hours.high;
    input.lengths_factor = (struct range){ 0.7, 1, 1.5 };
    double lengths = forecast_of(&input).gpu_hours.high;
    CHECK(lengths > before);
    input.overheads.retries = assumption_given(input.overheads.retries, 0.5);
    CHECK(forecast_of(&input).gpu_hours.high > lengths);
}

TEST(forecast_names_what_drives_the_range_first)
{
    struct forecast_input input = input_of(0.3);
    input.lengths_factor = (struct range){ 0.95, 1, 1.05 };
    struct forecast f = forecast_of(&input);
    CHECK(f.drivers[0].kind == FORECAST_EFFICIENCY);
    CHECK(f.drivers[1].kind == FORECAST_LENGTHS);
    CHECK(f.drivers[0].low < f.gpu_hours.mid && f.drivers[0].high > f.gpu_hours.mid);
    // Knowing the first leaves only the second.
    struct range left = f.drivers[0].gpu_hours_known;
    CHECK_NEAR(left.high / left.low, f.drivers[1].high / f.drivers[1].low, 0.01);
    input.lengths_factor = (struct range){ 0.3, 1, 3 };
    CHECK(forecast_of(&input).drivers[0].kind == FORECAST_LENGTHS);
}

TEST(forecast_driver_bars_contain_the_median)
{
    struct knowledge k = knowledge_open();
    struct forecast_input input = input_of(0.2);
    CHECK(!overhead_assume(&input.overheads, &k.catalog, NULL)); // every overhead unknown
    input.overheads.gpus = 8;
    input.overheads.eval_cost = 0.4;
    input.overheads.load_bytes = input.overheads.save_bytes = 16e9;
    const struct range skewed[] = { { 1, 1, 1.7 }, { 0.5, 1, 1 }, { 1, 1, 1 } };
    for (size_t i = 0; i < sizeof skewed / sizeof *skewed; i++) {
        input.lengths_factor = skewed[i];
        struct forecast f = forecast_of(&input);
        for (int d = 0; d < FORECAST_DRIVERS; d++)
            CHECK(f.drivers[d].low <= f.gpu_hours.mid && f.gpu_hours.mid <= f.drivers[d].high);
    }
}

TEST(forecast_of_one_configuration_is_the_same_alone_and_among_others)
{
    struct forecast_input input = input_of(0.3);
    input.lengths_factor = (struct range){ 1, 1, 1.7 };
    struct forecast f = forecast_of(&input);
    struct forecast_samples samples = samples_of(&input);
    struct forecast_outcome outcome;
    forecast_run(&outcome, &test_arena, &input, &samples, FORECAST_SAMPLES);
    CHECK(outcome.wall_hours.mid == f.wall_hours.mid &&
          outcome.wall_hours.high == f.wall_hours.high);
    CHECK(outcome.cost_usd.mid == f.cost_usd.mid);
}

TEST(forecast_of_prices_spans_the_offers)
{
    struct knowledge k = knowledge_open();
    const struct gpu *gpu;
    CHECK(!catalog_gpu(&gpu, &k.catalog, "h100-sxm"));
    struct price price = price_find(&test_arena, &k.catalog, gpu, 8);
    CHECK(price.offers >= 3);
    for (size_t i = 1; i < price.offers; i++)
        CHECK(price.usd_per_gpu_hour[i - 1] <= price.usd_per_gpu_hour[i]);
    CHECK(price.usd_per_gpu_hour[0] > 0.5 && price.usd_per_gpu_hour[price.offers - 1] < 20);
    CHECK(price.oldest && price.newest && strcmp(price.oldest, price.newest) <= 0);
    // Whole instances are billed: one GPU of a machine of eight costs the machine.
    double whole = price_median(&price);
    struct price half = price_find(&test_arena, &k.catalog, gpu, 12);
    CHECK(price_median(&half) >= whole);
    struct forecast_input input = input_of(0);
    input.price = price;
    struct forecast f = forecast_of(&input);
    CHECK(f.cost_usd.low < f.cost_usd.mid && f.cost_usd.mid < f.cost_usd.high);
    input.price = (struct price){ 0 };
    CHECK(isnan(forecast_of(&input).cost_usd.mid));
}

// --- failed runs -------------------------------------------------------------

static struct assumption usual_failed_runs(void)
{
    struct knowledge k = knowledge_open();
    struct overheads o;
    CHECK(!overhead_assume(&o, &k.catalog, NULL));
    return o.failed_runs;
}

TEST(forecast_of_failed_runs_takes_the_share_of_gpu_time_that_clusters_measured)
{
    struct knowledge k = knowledge_open();
    const struct fact *measured =
        catalog_operation(&k.catalog, "failure", "GPU time of failed over other jobs");
    struct forecast_input input = input_of(0.2);
    struct forecast without = forecast_of(&input);
    CHECK(without.repeats_gpu_hours == 0 && without.repeats_share == 0);
    input.overheads.failed_runs = usual_failed_runs();
    struct forecast with = forecast_of(&input);
    double share = with.repeats_gpu_hours / without.gpu_hours.mid;
    CHECK(measured && share > measured->low && share < measured->high);
    CHECK(with.repeats_share > 0.1 && with.repeats_share < 0.4);
    CHECK(with.gpu_hours.mid < 1.1 * without.gpu_hours.mid); // most runs end well
    CHECK(with.gpu_hours.high > 1.05 * without.gpu_hours.high);
    // A long run that saves loses little: what was saved is not lost.
    input.overheads.save_interval_seconds =
        assumption_given(input.overheads.save_interval_seconds, 600);
    CHECK(forecast_of(&input).repeats_gpu_hours < 0.2 * with.repeats_gpu_hours);
}

// --- sweeps ------------------------------------------------------------------

static struct forecast_sweep sweep_of(const struct forecast_input *input, int runs, int parallel)
{
    struct forecast_sweep sweep;
    struct forecast_samples samples = samples_of(input);
    forecast_sweep(&sweep, &test_arena, input, &samples, runs, parallel);
    return sweep;
}

TEST(forecast_sweep_of_one_run_is_that_run)
{
    struct forecast_input input = input_of(0.2);
    input.overheads.failed_runs = usual_failed_runs();
    struct forecast one = forecast_of(&input);
    struct forecast_sweep sweep = sweep_of(&input, 1, 4);
    CHECK(sweep.gpu_hours.low == one.gpu_hours.low && sweep.gpu_hours.mid == one.gpu_hours.mid);
    CHECK(sweep.wall_hours.high == one.wall_hours.high);
    CHECK(sweep.cost_usd.mid == one.cost_usd.mid && sweep.peak_gpus == 8);
}

TEST(forecast_sweep_of_certain_runs_is_their_sum_and_goes_in_turns)
{
    struct forecast_input input = input_of(0);
    double wall = forecast_of(&input).wall_hours.mid;
    const struct {
        int runs, parallel, turns;
    } cases[] = { { 20, 4, 5 }, { 20, 1, 20 }, { 20, 20, 1 }, { 20, 1000, 1 }, { 9, 4, 3 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct forecast_sweep sweep = sweep_of(&input, cases[i].runs, cases[i].parallel);
        CHECK_NEAR(sweep.gpu_hours.mid, cases[i].runs * wall * 8, 1e-9);
        CHECK_NEAR(sweep.cost_usd.high, cases[i].runs * wall * 8 * 2, 1e-9);
        CHECK_NEAR(sweep.wall_hours.mid, cases[i].turns * wall, 1e-9);
        CHECK(sweep.peak_gpus == 8 * fmin(cases[i].runs, cases[i].parallel));
    }
}

TEST(forecast_sweep_shares_the_error_of_speed_and_averages_luck)
{
    struct forecast_input input = input_of(0.2);
    struct forecast one = forecast_of(&input);
    struct forecast_sweep sweep = sweep_of(&input, 20, 4);
    CHECK_NEAR(sweep.gpu_hours.low, 20 * one.gpu_hours.low, 1e-9);
    CHECK_NEAR(sweep.gpu_hours.high, 20 * one.gpu_hours.high, 1e-9);
    // Failed attempts of a known rate are luck: of twenty runs some fail, hardly ever all.
    input = input_of(0);
    input.overheads.failed_runs = assumption_given(input.overheads.failed_runs, 0.3);
    one = forecast_of(&input);
    sweep = sweep_of(&input, 20, 4);
    double alone = (one.gpu_hours.high - one.gpu_hours.low) / one.gpu_hours.mid;
    double together = (sweep.gpu_hours.high - sweep.gpu_hours.low) / sweep.gpu_hours.mid;
    CHECK(together > 0.05 * alone && together < 0.5 * alone);
    CHECK(sweep.gpu_hours.mid > 20 * 1.05 * one.gpu_hours.low); // they do add up
    CHECK(sweep.wall_hours.mid * 32 >= sweep.gpu_hours.mid);    // four places are never all busy
}

TEST(forecast_lengths_are_the_median_effect_of_uncertain_lengths)
{
    static const struct range factors[] = {
        { 1, 1, 1.7 }, { 0.8, 1, 1.9 }, { 1, 1, 3 }, { 0.9, 1, 1 / 0.9 }
    };
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        struct forecast_input input = input_of(0.2);
        input.overheads.save_bytes = input.overheads.load_bytes = 0;
        double plain = forecast_of(&input).wall_hours.mid;
        input.lengths_factor = factors[i];
        double median = forecast_of(&input).wall_hours.mid / plain;
        CHECK_NEAR(forecast_lengths(&factors[i], 0.2), median, 0.06);
    }
    CHECK(forecast_lengths(&factors[0], 0) == 1);
}
