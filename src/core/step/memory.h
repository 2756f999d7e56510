// SPDX-License-Identifier: Apache-2.0
// memory: the byte plan of a step on the GPU that needs most, by part, as the usual tools show it.
//
// The peak is the largest of three moments of a step (the loss, backward, the update), not a sum of
// maxima; memory.c draws them. Three readings of it are reported, because sources quote all three:
// what PyTorch calls allocated and reserved, and what nvidia-smi shows for the device. Formulas:
// docs/formulas.md, section memory.
//
//     struct memory memory;
//     memory_plan(&memory, &step, &request, &(struct memory_device){ .bytes = gpu->memory_bytes });
//     if (!memory.fits) …

#pragma once

#include "core/step/catalog.h"
#include "core/step/step.h"

enum memory_part {
    MEMORY_WEIGHTS,   // trained and frozen, 16 or 32 bits
    MEMORY_QUANTIZED, // 4- or 8-bit base with its scales
    MEMORY_ADAPTERS,  // adapter weights
    MEMORY_GRADIENTS,
    MEMORY_OPTIMIZER,   // states, and an fp32 master of the weights
    MEMORY_ACTIVATIONS, // kept for backward
    MEMORY_LOGITS,      // and what the loss keeps beside them
    MEMORY_TEMPORARIES, // gradients of one layer, a recomputed layer, a dequantised weight
    MEMORY_GATHERED,    // weights gathered from other ranks
    MEMORY_BUFFERS,     // of communication
    MEMORY_SLACK,       // reserved by the allocator and not allocated
    MEMORY_CONTEXT,     // CUDA context and libraries
    MEMORY_PARTS,
};
extern const char *const memory_part_names[]; // "weights", "quantized weights", …

struct memory_device {
    double bytes;       // of the card, as the driver reports it; NAN: unknown
    bool varied_widths; // batches are padded to widths that vary at random
    bool is_hopper;
};
struct memory_device memory_device(const struct gpu *gpu, bool varied_widths); // gpu may be NULL

struct memory {
    double parts[MEMORY_PARTS]; // at the peak; they sum to total_bytes
    double allocated_bytes, reserved_bytes, total_bytes, device_bytes, host_bytes;
    const char *moment; // of the peak: "loss", "backward", "update"
    bool fits;
};

void memory_plan(struct memory *out, const struct step *step, const struct step_request *request,
                 const struct memory_device *device);

// The least that a card must have: the allocator's slack can be given back under pressure, all but
// a hundredth of what is allocated. The step fits where this is at most device_bytes.
double memory_needed_bytes(const struct memory *memory);

// The 80 % range around total_bytes: gpuhours validate says how often it holds.
struct range memory_range(const struct memory *memory);
