// SPDX-License-Identifier: Apache-2.0
// Quantiles and distributions against definitions and published tables.

#include "base/rng.h"
#include "base/stats.h"
#include "test/test.h"

TEST(stats_quantiles_lie_between_samples)
{
    double values[] = { 4, 1, 3, 2 };
    CHECK(stats_median(values, 4) == 2.5);
    CHECK(stats_quantile(values, 4, 0) == 1 && stats_quantile(values, 4, 1) == 4);
    CHECK_NEAR(stats_quantile(values, 4, 0.1), 1.3, 1e-15);
    struct range range = stats_range((double[]){ 7 }, 1);
    CHECK(range.low == 7 && range.mid == 7 && range.high == 7);
}

TEST(stats_quick_range_equals_the_sorted_one)
{
    struct rng rng = rng_seeded(3);
    double values[500], copy[500];
    for (size_t count = 1; count <= 500; count += 1 + count / 7)
        for (int spread = 1; spread <= 1000; spread *= 10) { // many ties, then few
            for (size_t i = 0; i < count; i++)
                copy[i] = values[i] = (double)rng_below(&rng, (uint64_t)spread);
            struct range quick = stats_quick_range(values, count), slow = stats_range(copy, count);
            CHECK(quick.low == slow.low && quick.mid == slow.mid && quick.high == slow.high);
        }
    CHECK(isnan(stats_quick_range(values, 0).mid));
}

TEST(stats_of_odd_input_are_defined)
{
    double values[] = { 1, 2 }, infinite[] = { 1, INFINITY, INFINITY };
    CHECK(isnan(stats_quantile(values, 0, 0.5)) && isnan(stats_mean(values, 0)));
    CHECK(stats_quantile(values, 2, -3) == 1 && stats_quantile(values, 2, 1e30) == 2);
    CHECK(isnan(stats_quantile(values, 2, NAN)));
    CHECK(stats_quantile(infinite, 3, 0.75) == INFINITY && stats_quantile(infinite, 3, 0) == 1);
    CHECK(stats_deviation(values, 1) == 0);
    double unknown[] = { NAN, 3, NAN, 1, 2 };
    stats_sort(unknown, 5);
    CHECK(unknown[0] == 1 && unknown[2] == 3 && isnan(unknown[3]) && isnan(unknown[4]));
}

TEST(stats_mean_and_deviation_of_a_sample)
{
    const double values[] = { 2, 4, 4, 4, 5, 5, 7, 9 }; // the textbook's: variance 32/7
    CHECK(stats_mean(values, 8) == 5);
    CHECK_NEAR(stats_deviation(values, 8), sqrt(32.0 / 7), 1e-15);
}

TEST(stats_normal_quantiles_match_published_values)
{
    // Abramowitz and Stegun, table 26.5, and the familiar 95 % point.
    CHECK_NEAR(stats_normal_quantile(0.975), 1.959963984540054, 1e-12);
    CHECK_NEAR(stats_normal_quantile(0.9), 1.281551565544600, 1e-12);
    CHECK_NEAR(stats_normal_quantile(1e-9), -5.997807015007687, 1e-9);
    CHECK(fabs(stats_normal_quantile(0.5)) < 1e-15);
    CHECK(stats_normal_quantile(0) == -INFINITY && stats_normal_quantile(1) == INFINITY);
    for (double share = 1e-12; share < 1; share = share < 0.4 ? share * 3 : share + 0.05)
        CHECK_NEAR(stats_normal_below(stats_normal_quantile(share)), share, 1e-9);
}

TEST(stats_p90_is_the_normal_quantile_of_nine_tenths)
{
    CHECK_NEAR(STATS_P90, stats_normal_quantile(0.9), 1e-12);
    CHECK_NEAR(stats_normal_below(STATS_P90), 0.9, 1e-12);
}

TEST(stats_student_quantiles_match_published_values)
{
    // Abramowitz and Stegun, table 26.10.
    CHECK_NEAR(stats_student_quantile(0.95, 1), 6.314, 1e-4);
    CHECK_NEAR(stats_student_quantile(0.95, 4), 2.132, 1e-4);
    CHECK_NEAR(stats_student_quantile(0.995, 5), 4.032, 1e-4);
    CHECK_NEAR(stats_student_quantile(0.995, 10), 3.169, 1e-4);
    CHECK_NEAR(stats_student_quantile(0.025, 30), -2.042, 2e-4);
    CHECK_NEAR(stats_student_quantile(0.95, 120), 1.658, 3e-4);
    CHECK_NEAR(stats_student_quantile(0.95, 1000), 1.6449, 2e-3);
}

TEST(stats_quick_range_ends_where_values_are_not_numbers)
{
    double values[64];
    for (size_t i = 0; i < 64; i++)
        values[i] = i % 3 ? (double)i : NAN;
    stats_quick_range(values, 64);
    for (size_t i = 0; i < 64; i++)
        values[i] = NAN;
    CHECK(isnan(stats_quick_range(values, 64).mid));
}
