// SPDX-License-Identifier: Apache-2.0
// stats: quantiles, normal probabilities and robust summaries of samples.

#pragma once

#include <stddef.h>

// The P90 of the standard normal: P10 and P90 lie this many standard deviations from the median.
#define STATS_P90 1.2815515655446004

// The same over the P90 of Student's t with four degrees of freedom, 1.5332: a t times this has the
// P10 and P90 of the normal.
#define STATS_T4_SCALE (STATS_P90 / 1.5332062740589432)

// An uncertain quantity: P10, P50, P90. A forecast has no bare number.
struct range {
    double low, mid, high;
};

void stats_sort(double *values, size_t count);
double stats_quantile(const double *sorted, size_t count, double share); // interpolates linearly
double stats_median(double *values, size_t count);                       // sorts
double stats_mean(const double *values, size_t count);
double stats_deviation(const double *values,
                       size_t count); // of the sample; 0 for fewer than two values
struct range stats_range(double *values, size_t count); // P10, P50, P90; sorts

// The same by selection instead of sorting: faster for many values, none of them NAN. Reorders
// them.
struct range stats_quick_range(double *values, size_t count);

double stats_normal_quantile(double share); // of the standard normal; relative error under 1e-9
double stats_normal_below(double z);        // probability below z
double stats_student_quantile(double share, int freedom); // of Student's t distribution

// The mean of the longest of that many lognormal values over the mean of one; spread: of the
// logarithm.
double stats_lognormal_longest(double spread, double count);
