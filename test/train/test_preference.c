// SPDX-License-Identifier: Apache-2.0
// The loss of pairs of answers: at no difference, far from it, and its slope.

#include "test/test.h"
#include "train/preference.h"

#include <math.h>

static double loss_of(const double own[2], const double reference[2], double beta)
{
    double weights[2];
    struct preference_sums sums = { 0 };
    preference_weigh(weights, &sums, beta, own, reference, 2);
    return sums.loss;
}

TEST(preference_without_a_difference_is_the_logarithm_of_two)
{
    const double losses[] = { 12, 30 };
    double weights[2];
    struct preference_sums sums = { 0 };
    preference_weigh(weights, &sums, 0.1, losses, losses, 2);
    CHECK_NEAR(sums.loss, log(2), 1e-15);
    CHECK_NEAR(weights[0], 0.05, 1e-15);
    CHECK(weights[1] == -weights[0] && sums.right == 0 && sums.pairs == 1);
}

TEST(preference_weights_are_the_slope_of_the_loss)
{
    const double reference[] = { 10, 11 }, step = 1e-5;
    double own[] = { 9, 14 }, weights[2];
    struct preference_sums sums = { 0 };
    preference_weigh(weights, &sums, 0.7, own, reference, 2);
    CHECK(sums.right == 1 && sums.chosen > 0 && sums.rejected < 0);
    for (int i = 0; i < 2; i++) {
        double at = own[i];
        own[i] = at + step;
        double above = loss_of(own, reference, 0.7);
        own[i] = at - step;
        CHECK_NEAR(weights[i], (above - loss_of(own, reference, 0.7)) / (2 * step), 1e-9);
        own[i] = at;
    }
}

// A long answer's log-probability is in the thousands.
TEST(preference_stays_finite_however_far_apart_answers_are)
{
    const double reference[] = { 0, 0 };
    const double better[] = { -1e5, 1e5 }, worse[] = { 1e5, -1e5 };
    CHECK(loss_of(better, reference, 1) == 0);
    CHECK_NEAR(loss_of(worse, reference, 1), 2e5, 1e-6);
}

TEST(preference_ignores_a_last_answer_without_a_partner)
{
    const double own[] = { 1, 2, 3 }, reference[] = { 1, 2, 3 };
    double weights[3] = { NAN, NAN, NAN };
    struct preference_sums sums = { 0 };
    preference_weigh(weights, &sums, 0.1, own, reference, 3);
    CHECK(sums.pairs == 1 && weights[2] == 0);
}
