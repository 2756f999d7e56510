#include "core/prior.h"
#include "test/test.h"

#include <math.h>

static const struct efficiency catalogs = { .log_mid = -0.1, .log_spread = 0.2 };

TEST(prior_without_ratios_is_the_catalogs)
{
    struct efficiency e = prior_update(&catalogs, NULL, 0, 0.02);
    CHECK(e.log_mid == catalogs.log_mid && e.log_spread == catalogs.log_spread);
}

// By hand. One ratio of +0.2 above the middle: scatter 0.068 × t90(1.25 degrees)/1.28155 by the
// series, 0.068 × 1.916856 = 0.130346, squared 0.016990; sites 0.04 - 0.004624 = 0.035376; weight
// 1/(1 + 0.016990/0.035376) = 0.675551; spread √(0.016990 + 0.035376 × 0.324449) = 0.168724.
TEST(prior_moves_by_one_ratio_as_computed_by_hand)
{
    double ratio = 0.1;
    struct efficiency e = prior_update(&catalogs, &ratio, 1, 0.02);
    CHECK_NEAR(e.log_mid, -0.1 + 0.675551 * 0.2, 1e-5);
    CHECK_NEAR(e.log_spread, 0.168724, 1e-5);
}

// Three ratios -0.25, -0.30, -0.35: mean -0.30, squares 0.005, freedom 3.25. Scatter² =
// (1.25 × 0.004624 + 0.005)/3.25 × 1.251310² = 0.00331692 × 1.565778 = 0.00519356; weight
// 3/(3 + 0.00519356/0.035376) = 0.953347; spread √(0.00519356 + 0.035376 × 0.046653) = 0.0827257.
TEST(prior_of_three_ratios_is_as_computed_by_hand)
{
    double ratios[] = { -0.25, -0.30, -0.35 };
    struct efficiency e = prior_update(&catalogs, ratios, 3, 0.02);
    CHECK_NEAR(e.log_mid, -0.1 - 0.2 * 0.953347, 1e-5);
    CHECK_NEAR(e.log_spread, 0.0827257, 1e-4);
}

TEST(prior_comes_to_the_own_mean_with_many_ratios_and_stays_above_the_least)
{
    double ratios[60], last = catalogs.log_spread;
    for (int i = 0; i < 60; i++)
        ratios[i] = 0.05;
    for (size_t n = 1; n <= 60; n++) {
        struct efficiency e = prior_update(&catalogs, ratios, n, 0.02);
        CHECK(e.log_spread <= last && e.log_spread >= 0.02);
        CHECK(e.log_mid > catalogs.log_mid && e.log_mid <= 0.05);
        last = e.log_spread;
    }
    CHECK_NEAR(prior_update(&catalogs, ratios, 60, 0.02).log_mid, 0.05, 0.01);
    CHECK(last == 0.02);
}

TEST(prior_widens_only_when_the_own_ratios_lie_far_apart)
{
    double far[] = { -0.6, 0.4, -0.5, 0.5 }, one = -0.1;
    CHECK(prior_update(&catalogs, far, 4, 0.02).log_spread > catalogs.log_spread);
    struct efficiency narrow = { .log_spread = 0.1 };
    CHECK(prior_update(&narrow, &one, 1, 0.02).log_spread <= 0.1);
}

TEST(prior_believes_a_mistyped_number_only_so_far)
{
    double thousandfold = log(1000);
    struct efficiency e = prior_update(&catalogs, &thousandfold, 1, 0.02);
    CHECK(e.log_mid < catalogs.log_mid + 3 * catalogs.log_spread);
}

TEST(prior_learns_from_like_configurations_only)
{
    struct efficiency rows[2] = { { .stack = "hf-peft", .log_spread = 0.2 },
                                  { .stack = "unsloth", .log_spread = 0.2 } };
    struct history_entry entries[4];
    for (int i = 0; i < 4; i++) {
        history_clear(&entries[i]);
        entries[i].kind = HISTORY_RUN;
        entries[i].stack = "hf-peft", entries[i].gpu = "h100-sxm", entries[i].method = "lora";
        entries[i].roofline_tokens_per_second = 1000;
        entries[i].actual_tokens_per_second = 900;
    }
    entries[1].gpu = "a100", entries[2].method = "full", entries[3].kind = HISTORY_PLAN;
    prior_learn(rows, 2, entries, 4, "h100-sxm", "lora");
    CHECK(rows[0].own == 1 && rows[0].log_mid < 0 && rows[0].log_spread < 0.2);
    CHECK(rows[1].own == 0 && rows[1].log_mid == 0 && rows[1].log_spread == 0.2);
}
