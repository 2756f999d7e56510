// SPDX-License-Identifier: Apache-2.0
// Quantiles and summaries of samples; the normal and Student's t distribution.

#include "base/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    if (isnan(x) || isnan(y)) // NAN sorts last, so that there is one order
        return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

void stats_sort(double *values, size_t count)
{
    bool sorted = true; // as equal widths are
    for (size_t i = 1; i < count && sorted; i++)
        sorted = values[i - 1] <= values[i];
    if (sorted)
        return;
    qsort(values, count, sizeof *values, by_value);
}

double stats_quantile(const double *sorted, size_t count, double share)
{
    if (!count)
        return NAN;
    if (!(share > 0))
        return isnan(share) ? NAN : sorted[0];
    double at = share * (double)(count - 1);
    if (at >= (double)(count - 1))
        return sorted[count - 1];
    size_t below = (size_t)at;
    if (sorted[below] == sorted[below + 1]) // also if both are infinite
        return sorted[below];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

double stats_median(double *values, size_t count)
{
    stats_sort(values, count);
    return stats_quantile(values, count, 0.5);
}

double stats_mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count ? sum / (double)count : NAN;
}

double stats_deviation(const double *values, size_t count)
{
    if (count < 2)
        return 0;
    double mean = stats_mean(values, count), sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return sqrt(sum / (double)(count - 1));
}

struct range stats_range(double *values, size_t count)
{
    stats_sort(values, count);
    return (struct range){
        stats_quantile(values, count, 0.1),
        stats_quantile(values, count, 0.5),
        stats_quantile(values, count, 0.9),
    };
}

// Moves the values from first to last that are below the pivot, or with_equal that are not above
// it, to the front; returns the place behind them. No branch depends on a value: it could not be
// foreseen.
static size_t part(double *values, size_t first, size_t last, double pivot, bool with_equal)
{
    size_t front = first;
    for (size_t i = first; i <= last; i++) {
        double value = values[i];
        values[i] = values[front];
        values[front] = value;
        front += with_equal ? value <= pivot : value < pivot;
    }
    return front;
}

// Quickselect among the values from first to last: puts the one of that rank where sorting would,
// smaller ones before, larger after. What is not a number has no place, and ends it.
static void place(double *values, size_t first, size_t last, size_t rank)
{
    while (first < last && !isnan(values[first + (last - first) / 2])) {
        double pivot = values[first + (last - first) / 2];
        size_t equal = part(values, first, last, pivot, false);
        if (rank < equal) {
            last = equal - 1;
            continue;
        }
        first = part(values, equal, last, pivot, true);
        if (rank < first)
            return;
    }
}

// Leaves the two values that the quantile lies between where sorting would put them.
static double quick_quantile(double *values, size_t count, double share, size_t first, size_t last)
{
    double at = share * (double)(count - 1);
    size_t below = (size_t)at;
    place(values, first, last, below);
    if (below == last)
        return stats_quantile(values, count, share);
    size_t next = below + 1;
    for (size_t i = next + 1; i <= last; i++)
        next = values[i] < values[next] ? i : next;
    double moved = values[below + 1];
    values[below + 1] = values[next];
    values[next] = moved;
    return stats_quantile(values, count, share);
}

struct range stats_quick_range(double *values, size_t count)
{
    if (!count)
        return (struct range){ NAN, NAN, NAN };
    size_t middle = (size_t)(0.5 * (double)(count - 1)); // the others are on either side of it
    struct range range;
    range.mid = quick_quantile(values, count, 0.5, 0, count - 1);
    range.low = quick_quantile(values, count, 0.1, 0, middle);
    range.high = quick_quantile(values, count, 0.9, middle, count - 1);
    return range;
}

double stats_normal_below(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

double stats_normal_quantile(double share)
{
    // A rational start for the tails and the middle (Abramowitz and Stegun 26.2.23), then Newton
    // on the exact distribution.
    if (share <= 0)
        return -INFINITY;
    if (share >= 1)
        return INFINITY;
    double tail = share < 0.5 ? share : 1 - share, t = sqrt(-2 * log(tail));
    double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    z = share < 0.5 ? -z : z;
    for (int i = 0; i < 4; i++)
        z -= (stats_normal_below(z) - share) / (exp(-z * z / 2) / sqrt(6.283185307179586));
    return z;
}

// Student's t distribution for integer degrees of freedom: the finite sums of Abramowitz and Stegun
// 26.7.3 and 26.7.4.
static double student_below(double t, int freedom)
{
    double angle = atan(t / sqrt(freedom)), c = cos(angle), term = freedom % 2 ? c : 1, sum = term;
    for (int i = freedom % 2 ? 3 : 2; i < freedom; i += 2)
        sum += term *= c * c * (i - 1) / i;
    double inside = freedom % 2
                        ? (angle + (freedom > 1 ? sin(angle) * sum : 0)) * 2 / 3.141592653589793
                        : sin(angle) * sum;
    return 0.5 + inside / 2;
}

double stats_student_quantile(double share, int freedom)
{
    if (freedom > 400 || share <= 0 || share >= 1)
        return stats_normal_quantile(share);
    double low = -1e4, high = 1e4;
    for (int i = 0; i < 80; i++) {
        double mid = (low + high) / 2;
        if (student_below(mid, freedom) < share)
            low = mid;
        else
            high = mid;
    }
    return (low + high) / 2;
}

double stats_lognormal_longest(double spread, double count)
{
    if (count <= 1 || spread == 0)
        return 1;
    // E[max] / E[x] of n is n ∫ φ(z) Φ(z + σ)ⁿ⁻¹ dz, here by the trapezoidal rule.
    enum { POINTS = 48 };
    const double end = 6, step = 2 * end / POINTS;
    double sum = 0;
    for (int i = 0; i <= POINTS; i++) {
        double z = i * step - end;
        sum += exp(-z * z / 2) * pow(stats_normal_below(z + spread), count - 1);
    }
    return count * sum * step / sqrt(2 * acos(-1));
}
