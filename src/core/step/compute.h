// SPDX-License-Identifier: Apache-2.0
// compute: seconds of a step by the roofline: the slower of arithmetic and memory, per operation.
//
// A product runs at the GPU's sustained rate times a share that falls for shapes too small to fill
// it; everything else at memory speed; attention at its kernel's own rate. A stack that starts
// kernels slower than the GPU ends them is bound by its host. Communication that does not
// overlap, waiting for ranks with longer rows, pipeline bubbles and the update are added. Formulas:
// docs/formulas.md, section compute.
//
//     struct timing timing;
//     compute_time(&timing, &step, &request, gpu, &links);
//     double tokens_per_s = compute_tokens_per_s(&timing, &request);

#pragma once

#include "core/step/network.h"

struct timing {
    // Per micro-batch on one GPU.
    double matmul_seconds, attention_seconds, elementwise_seconds, dequantize_seconds;
    double host_seconds;    // that the host needs to launch the kernels, and after the last
    double pause_seconds;   // of host_seconds, after the last kernel: the device has nothing to do
    double waiting_seconds; // of host_seconds, that the device waits for
    double exposed_seconds; // communication that does not overlap with compute
    double forward_exposed_seconds; // of it, what an evaluation has too
    double uneven_seconds;          // that ranks wait for the one with most tokens
    double micro_seconds;           // of one micro-batch, all of the above
    // Per optimizer step.
    double bubble_seconds, reduce_seconds, update_seconds, offload_seconds;
    double sampling_seconds; // of answers, where an objective samples them
    double step_seconds;     // all of it, with the stack's own time between steps
    double flops;            // executed per step on one GPU
    double peak_share;       // of the datasheet's rate, executed
    // Seconds of an evaluated token over those of a trained one: the forward pass alone, which
    // builds no graph, of the same micro-batches.
    double evaluation_share;
};

// Dense peak of the datasheet at a precision.
double compute_peak_flops_per_s(const struct gpu *gpu, int precision);

// Sustained rates of a GPU, from what was measured where there is such a figure.
double compute_matmul_flops_per_s(const struct gpu *gpu, int precision);
double compute_memory_bytes_per_s(const struct gpu *gpu);

// Of each operation of the step, once, by the roofline: as many as the step has.
void compute_op_times(double seconds[], const struct step *step, const struct step_request *request,
                      const struct gpu *gpu);

// Of the host, to start an operation once.
double compute_host_seconds(const struct step_op *op, const struct stack *stack);

// Of the rate of attention with the model's heads, what heads of another size have.
double compute_head_share(const struct step_request *request, int64_t size, bool backward);

void compute_time(struct timing *out, const struct step *step, const struct step_request *request,
                  const struct gpu *gpu, const struct links *links);

// By how many percent a step gets slower if the host does by one.
double compute_host_share(const struct timing *timing);

// The share of a step in which GPUs wait for what others send or have not done yet.
double compute_network_share(const struct timing *timing);

// A micro-batch's time over what it is, if the host takes so many times as long.
double compute_slowed(const struct timing *timing, double host);

// Processed tokens over all GPUs, while steps run.
double compute_tokens_per_s(const struct timing *timing, const struct step_request *request);
