// SPDX-License-Identifier: Apache-2.0
// step_internal: the list in the making, which the files of step share.

#pragma once

#include "core/step/moe.h"

// The list in the making. Tokens and shapes are those of one GPU.
struct step_build {
    struct step *step;
    struct arena *arena; // nothing else is taken from it meanwhile, so that the list grows in place
    size_t room;         // operations that step->ops can hold
    const struct step_request *request;
    double tokens; // after context parallelism has split the sequence
    double
        own_tokens; // of norms and residuals, which sequence parallelism splits over tensor ranks
    double input_tokens; // of the inputs of linears, as they are kept
    double tensor;
    struct moe moe; // of a sparse layer
    double repeats; // layers of the kind being listed, on this GPU
    bool in_layer;
    bool is_last; // the last product of the layer: only the next layer needs its output
    int products; // of the layer so far, those of experts left out
    const struct model_linear *linear; // whose products, adapter and casts are being listed
    double kept, lean;                 // bytes of the layer being listed
};

// Bytes per element and kernels of the operations that only move data, forward and backward, as
// eager PyTorch modules, a compiler or hand-written kernels run them (docs/formulas.md, traffic).
struct traffic {
    double forward_bytes, backward_bytes, forward_launches, backward_launches;
    double share; // of a copy's rate; 0: the stack's
};

double step_element_bytes(const struct step_build *build); // of activations and products

// Appends an operation; a forward one a second time where it is recomputed.
void step_add(struct step_build *build, const struct step_op *op);
void step_add_elementwise(struct step_build *build, const char *name, struct traffic traffic,
                          double elements, double kept_bytes);

// Products over elements of that many bytes: one, those of a linear (forward, to its input, to its
// weight) and those of its adapter, named by its factors. The encoder of images has the same.
enum { STEP_LINEAR_PRODUCTS = 3, STEP_ADAPTER_PRODUCTS = 6 };
struct step_op step_product(double element_bytes, const char *name, enum step_phase phase,
                            double rows, double columns, double depth);
void step_linear_products(struct step_op *products, double element_bytes, const char *name,
                          double rows, double in, double out);
void step_adapter_products(struct step_op *products, double element_bytes, const char *const *names,
                           double rows, double in, double out, double rank);

// Whether the weights of a linear are trained themselves.
bool step_trains_linear(const struct step_build *build, const struct model_linear *linear);

// One linear with its adapter. saves_input: it is the first linear to need this input for backward,
// so the input's bytes are counted here.
void step_add_linear(struct step_build *build, const struct model_linear *linear, bool row_split,
                     bool saves_input, double input_bytes);
