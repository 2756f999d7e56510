// SPDX-License-Identifier: Apache-2.0
// moe: a layer's mixture of experts: router, dispatch, expert products, combine, by kernel.
//
// A router sends each token to k of E experts. What that costs is decided less by the products than
// by the kernel that runs them:
//
//     dense     every expert computes every token, and those not chosen count zero
//     eager     a loop over experts: gather its rows, three small products, scatter them back; the
//               host starts some twenty operations and waits for the device in each turn
//     grouped   rows are sorted by expert, one launch runs the products of all of them
//     fused     the same, with permutation, gate and weighted sum in kernels of their own
//
//     tokens ─▶ router ─▶ top-k ─▶ dispatch ─▶ gate·up ─▶ activation ─▶ down ─▶ combine ─▶ tokens
//      t·h       t·E               t·k rows    E products of t·k/E rows each     t·k → t rows
//
// Under expert parallelism the rows travel to the GPU that holds their expert, and the busiest GPU
// sets the time. Formulas and where the constants come from: docs/formulas.md, section experts.

#pragma once

#include "core/step/step.h"

// The experts of one layer as one GPU runs them.
struct moe {
    int kernel;       // enum recipe_experts, nothing left on auto
    double tensor;    // GPUs that share the columns of each expert
    double experts;   // held here
    double tokens;    // routed from here: this GPU's part of the sequence
    double chosen;    // experts that compute a token: k, or all
    double copies;    // rows that the experts here compute, on the busiest GPU
    double imbalance; // copies over their mean
};

// tokens: of the micro-batch, after context parallelism has split it.
struct moe moe_of(const struct step_request *request, double tokens);

// Softmax and top-k of the router, dispatch and combine, forward and backward, once each.
enum { MOE_OPS = 6 };
size_t moe_ops(struct step_op out[MOE_OPS], const struct moe *moe,
               const struct step_request *request);

// Makes an operation on the rows of one expert the one that all experts here need.
void moe_repeat(struct step_op *op, const struct moe *moe, const struct step_request *request);

// What the gradient of one expert after another moves where the weights of all are one tensor, as
// they are in models that store gate and up together: each is added into a gradient of all.
double moe_gradient_bytes(const struct moe *moe, const struct model *model, double weights);

// Tensors that hold a linear of the experts: one each under the loop, else one for all.
double moe_tensors(const struct moe *moe, const struct model *model);

// How often the host starts an operation on the rows of experts: for each in turn, or for all at
// once.
double moe_turns(const struct moe *moe);

// Bytes that the activation moves per value, where experts' kernels differ from other layers'.
void moe_gate_bytes(double *forward, double *backward, const struct moe *moe,
                    const struct step_request *request);

// Bytes of a row between the products, in values of the expert's width, that backward needs.
double moe_kept_widths(const struct moe *moe, const struct model *model);

// Over how many GPUs ZeRO can shard an expert: those that hold the same ones.
double moe_shards(const struct layout *layout);

// What one GPU holds of weights that so many share, of which experts are shared by moe_shards.
double moe_held(double weights, double experts, double shards, const struct layout *layout);

// How much more than the mean the busiest of so many GPUs gets: the mean over random popularities,
// and what a spread of popularity from none to wide gives.
struct range moe_imbalance(const struct model *model, double gpus);

// The mean, for the layout, stack and kernel of a request.
double moe_load(const struct step_request *request);

// Whether PyTorch's grouped products run one by one, because it has no kernel for that card.
bool moe_is_serial(const struct step_request *request, const struct gpu *gpu);

// How uncertain experts make the seconds of a step, beyond what measured runs say: the standard
// deviation of their logarithm. How evenly GPUs that share experts are loaded, and what a turn of
// a loop costs the host, which products at flops_per_s stand beside.
double moe_spread(const struct step_request *request, double flops_per_s, bool serial);

// Per token and exchange, how many copies of a hidden state leave the GPU for others of its node,
// and for other nodes, to each of which a token is sent once.
struct moe_exchange {
    double inside, outside;
};
struct moe_exchange moe_exchange(const struct model *model, double gpus, double node_gpus);
