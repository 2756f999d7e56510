// SPDX-License-Identifier: Apache-2.0
// encoder: what the images of a micro-batch add to a step: their encoder, projector, and attention
// to them.
//
// The encoder is a transformer over patches of pixels, each of which sees all others of its tile
// (or window); the projector makes tokens of the decoder's width of its output. Frozen, both run
// forward once and keep nothing, because no gradient reaches an image: what is trained comes
// after it. (Where transformers recomputes, it asks for gradients of patches, and a frozen encoder
// runs backward all the same.) Trained, they run backward too; under LoRA with adapters on all
// their linears. Recomputation of layers holds for the encoder as well. Formulas: docs/formulas.md,
// section vision.
//
//     pixels ─▶ patches ─▶ L × (norm, q k v, attention, o, norm, up, down) ─▶ projector ─▶ tokens
//
// A model's own parallelism does not split the encoder: every data-parallel rank's GPUs compute the
// images of their micro-batch, as in transformers.

#pragma once

#include "core/step/step.h"

enum { ENCODER_OPS = 256 };

struct encoder {
    struct step_op *ops; // room for ENCODER_OPS; each with its number of repeats
    size_t count;
    double frozen_weights, trained_weights;
    double kept_bytes;
};

// Fills in what ops points to. Nothing where the model has no encoder, or is trained on text
// without it.
void encoder_list(struct encoder *out, const struct step_request *request);
