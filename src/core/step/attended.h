// SPDX-License-Identifier: Apache-2.0
// attended: which kernel runs attention, and how many scores it computes, where layers have sliding
// windows and masks.

#pragma once

#include "core/step/step.h"

enum stack_attention attended_kernel(const struct step_request *request);

// Σ l² of a layer's documents, the mean over layers with and without a window; kernels that know
// windows compute nothing outside of them.
double attended_squares(const struct step_request *request);

// Of the layers, those whose attention has a mask: all where a batch is padded; without padding
// those with a window no longer than the rows, which sdpa's kernels do not know by themselves.
double attended_masked_share(const struct step_request *request);

// Whether the encoder's attention runs image by image and window by window, because its kernel
// takes no lengths (transformers' sdpa and eager attention; FlashAttention takes them all at once).
bool attended_by_piece(const struct step_request *request);
