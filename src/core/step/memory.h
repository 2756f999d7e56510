// memory: the byte plan of a step on the fullest GPU, by part, and what the tools would show.
//
// The peak is a maximum over the moments of a step (the loss, the end of backward, the update), not
// a sum of maxima. Three readings of it are reported, because sources quote all three: what torch
// calls allocated and reserved, and what nvidia-smi shows for the device. Formulas:
// docs/formulas.md.
//
//     struct memory memory;
//     memory_plan(&memory, &step, &request, &(struct memory_device){ .bytes = gpu->memory_bytes });
//     if (!memory.fits) …

#pragma once

#include "core/step/catalog.h"
#include "core/step/step.h"

enum memory_part {
    MEMORY_WEIGHTS,   // trained and frozen, 16 or 32 bits
    MEMORY_QUANTIZED, // 4- or 8-bit base with its statistics
    MEMORY_ADAPTERS,  // adapter weights
    MEMORY_GRADIENTS,
    MEMORY_OPTIMIZER,   // states, and master weights kept by the optimizer
    MEMORY_ACTIVATIONS, // kept for backward
    MEMORY_LOGITS,      // and what the loss holds beside them
    MEMORY_TEMPORARIES, // gradients in flight, a dequantised weight, a recomputed layer
    MEMORY_GATHERED,    // weights gathered from other ranks
    MEMORY_BUFFERS,     // of communication
    MEMORY_SLACK,       // reserved by the allocator and not in use
    MEMORY_CONTEXT,     // CUDA context and libraries
    MEMORY_PARTS,
};
extern const char *const memory_part_names[]; // "weights", "quantized weights", …

struct memory_device {
    double bytes;       // of the card, as the driver reports it; NAN: unknown
    bool varied_widths; // batches are padded to ever other widths, in random order
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

// Around total_bytes: the measured peak lies inside in eight runs of ten (gpuhours validate).
struct range memory_range(const struct memory *memory);
