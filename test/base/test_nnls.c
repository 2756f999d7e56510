// SPDX-License-Identifier: Apache-2.0
// Non-negative least squares against known solutions and the optimality conditions.

#include "base/nnls.h"

#include "base/rng.h"
#include "test/test.h"

#include <math.h>

TEST(nnls_recovers_the_coefficients_of_exact_values)
{
    const double rows[] = { 1, 2, 1, 3, 1, 5 }, values[] = { 5, 7, 11 };
    double x[2];
    CHECK(nnls_solve(x, rows, values, 3, 2) < 1e-12);
    CHECK_NEAR(x[0], 1, 1e-12);
    CHECK_NEAR(x[1], 2, 1e-12);
}

// Least squares of (1, 1), (2, 0) with a constant and a slope has the slope −1; without the slope
// the constant is the mean.
TEST(nnls_sets_coefficients_to_zero_that_would_be_negative)
{
    const double rows[] = { 1, 1, 1, 2 }, values[] = { 1, 0 };
    double x[2];
    CHECK_NEAR(nnls_solve(x, rows, values, 2, 2), 0.5, 1e-12);
    CHECK_NEAR(x[0], 0.5, 1e-12);
    CHECK(x[1] == 0);
}

TEST(nnls_of_values_below_zero_is_zero)
{
    const double rows[] = { 1, 2, 3 }, values[] = { -1, -2, -3 };
    double x[1];
    CHECK_NEAR(nnls_solve(x, rows, values, 3, 1), sqrt(14.0 / 3), 1e-12);
    CHECK(x[0] == 0);
    CHECK(nnls_solve(x, rows, values, 0, 1) == 0 && x[0] == 0);
}

TEST(nnls_uses_one_of_two_equal_columns)
{
    const double rows[] = { 1, 1, 2, 2, 3, 3 }, values[] = { 2, 4, 6 };
    double x[2];
    CHECK(nnls_solve(x, rows, values, 3, 2) < 1e-12);
    CHECK_NEAR(x[0] + x[1], 2, 1e-12);
    CHECK(x[0] >= 0 && x[1] >= 0);
}

// The Karush-Kuhn-Tucker conditions: the gradient is zero for positive coefficients and not
// negative for zero ones. For a convex problem they are sufficient.
TEST(nnls_meets_the_optimality_conditions_on_random_problems)
{
    enum { ROWS = 40, COLUMNS = 5 };
    struct rng rng = rng_seeded(11);
    int at_zero = 0;
    for (int problem = 0; problem < 300; problem++) {
        double rows[ROWS * COLUMNS], values[ROWS], x[COLUMNS], size[COLUMNS];
        int columns = 1 + problem % COLUMNS;
        for (int a = 0; a < columns; a++)
            size[a] = pow(10, 6 * rng_uniform(&rng) - 3);
        for (int i = 0; i < ROWS; i++) {
            values[i] = rng_normal(&rng);
            for (int a = 0; a < columns; a++) {
                double v = problem % 2 ? rng_normal(&rng) : 1 + rng_uniform(&rng);
                rows[i * columns + a] = v * size[a];
                values[i] += (a % 2 ? -0.2 : 0.4) * v;
            }
        }
        nnls_solve(x, rows, values, ROWS, columns);
        for (int a = 0; a < columns; a++) {
            double gradient = 0, scale = 0;
            for (int i = 0; i < ROWS; i++) {
                double off = -values[i];
                for (int b = 0; b < columns; b++)
                    off += rows[i * columns + b] * x[b];
                gradient += rows[i * columns + a] * off;
                scale += fabs(rows[i * columns + a]) * (fabs(off) + fabs(values[i]));
            }
            CHECK(x[a] >= 0);
            CHECK(x[a] > 0 ? fabs(gradient) < 1e-8 * scale : gradient > -1e-8 * scale);
            at_zero += x[a] == 0;
        }
    }
    CHECK(at_zero > 100 && at_zero < 800);
}
