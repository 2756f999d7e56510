// SPDX-License-Identifier: Apache-2.0
// network: seconds of communication of a layout over the links of a node and between nodes.
//
// Collectives follow the ring: an all-reduce moves 2·(n−1)/n of the bytes through each GPU's link,
// a gather or scatter (n−1)/n. A group inside one node uses the node's links; a wider one is
// limited by the network (network.c draws both). Formulas: docs/formulas.md, section network.

#pragma once

#include "core/step/engine.h"
#include "core/step/step.h"

// What connects the GPUs, per GPU and direction.
struct links {
    double node_gpus;           // that share the fast link
    double host_gpus;           // that share a host; a rack has many of them behind one link
    double node_bytes_per_s;    // between them
    double network_bytes_per_s; // to other nodes
    double node_latency_seconds, network_latency_seconds;
    double pcie_bytes_per_s;   // to the host
    double pair_bytes_per_s;   // of node_bytes_per_s, what reaches one other GPU; 0: all of it
    double staged_bytes_per_s; // of all GPUs of a host together, through its memory; 0: past it
};

struct links network_links(const struct gpu *gpu, const struct node *node); // node may be NULL

// Bytes/s of the link between these GPUs in a node of which nothing is known; 0: PCIe alone.
double network_usual_link(const struct gpu *gpu);

// A node of so many of these GPUs, joined by the link that they have.
struct node network_plain_node(const struct gpu *gpu, int64_t gpus);

struct network_seconds {
    double per_layer;  // tensor, context and expert exchanges and gathers of weights, in all layers
    double hideable;   // of per_layer, the collectives that may overlap with compute
    double copied;     // of per_layer, to and from the host: copies need no processors
    double forward;    // of per_layer, of passes without backward: what an evaluation has
    double gathers;    // of each weight in a micro-batch, where GPUs share all of them
    double per_step;   // reduction of gradients, gather of updated weights
    double late;       // of per_step, what runs after the backward pass, beside nothing
    double reductions; // of gradients in a step: one, or one for each micro-batch
    double doublings;  // of the GPUs beyond one node, which all end a step together
    double host_doublings; // of the GPUs beyond one host
    double offload;        // over PCIe and in the host's optimizer, per step
};

// The bytes of gradients and weights that data parallelism moves in one optimizer step, as the
// sizes of what is summed or gathered. Around a ring of n GPUs each sends (n − 1)/n of them, and of
// what is all-reduced twice that. ZeRO-3 gathers weights in every pass besides, which is counted
// here only where GPUs share a frozen base (shared_base.h).
struct network_payload {
    double all_reduced, scattered, gathered;
    double fetched; // of a shared base, in all passes of the step
};
// Of our own engine to the byte, as the device has it pad.
struct network_payload network_payload(const struct step *step, const struct step_request *request,
                                       const struct engine_device *device);

// Per micro-batch (per_layer, hideable, copied) and per optimizer step on one GPU.
struct network_seconds network_time(const struct step *step, const struct step_request *request,
                                    const struct links *links);
