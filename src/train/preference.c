// SPDX-License-Identifier: Apache-2.0
// The loss of pairs of answers, their rewards, and the weight of each answer's gradient.

#include "train/preference.h"

#include <math.h>

// log(1 + exp x), which stays finite for any x.
static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

void preference_weigh(double *weights, struct preference_sums *sums, double beta, const double *own,
                      const double *reference, int64_t documents)
{
    for (int64_t i = 0; i + 1 < documents; i += 2) {
        double chosen = beta * (reference[i] - own[i]);
        double rejected = beta * (reference[i + 1] - own[i + 1]);
        double margin = chosen - rejected, loss = softplus(-margin);
        weights[i] = beta * exp(-margin - softplus(-margin)); // β σ(−margin)
        weights[i + 1] = -weights[i];
        sums->loss += loss;
        sums->chosen += chosen;
        sums->rejected += rejected;
        sums->right += margin > 0;
        sums->pairs++;
    }
    if (documents % 2)
        weights[documents - 1] = 0;
}
