// SPDX-License-Identifier: Apache-2.0
// preference: what DPO makes of the log-probabilities of chosen and rejected answers.
//
//     gain(answer) = β · (log π(answer) − log π_reference(answer))       its reward
//     loss         = −log σ(gain(chosen) − gain(rejected))               of a pair
//
// A pair's loss depends on its tokens through two sums alone, so that its gradient is that of
// cross-entropy with a weight for each answer: ∂loss / ∂Σ losses(chosen) = β σ(−margin), and the
// negative of it for the rejected answer. The transformer computes the sums on its device; what
// follows from them is this handful of numbers on the host.
//
//     preference_weigh(weights, &sums, 0.1, own, reference, documents);

#pragma once

#include <stdint.h>

// Of pairs; divided by their number they are what TRL reports under these names.
struct preference_sums {
    double loss;
    double chosen, rejected; // rewards
    double right;            // pairs whose chosen answer has the larger reward
    double pairs;
};

// Documents 2i and 2i + 1 are a pair, chosen first; a last one without a partner has no weight. own
// and reference are the losses of documents, summed over their labelled tokens: −log-probabilities.
// weights are ∂loss / ∂own; adds to the sums.
void preference_weigh(double *weights, struct preference_sums *sums, double beta, const double *own,
                      const double *reference, int64_t documents);
