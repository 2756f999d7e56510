// SPDX-License-Identifier: Apache-2.0
// memory: how many bytes a step takes on the GPU that needs most, by part and as the usual tools
// show it.
//
// The peak is the largest of the moments of a step (the loss, backward, the update, the save of a
// checkpoint), not a sum of maxima; memory.c draws them. Three readings of it are reported, because
// sources quote all three: what PyTorch calls allocated and reserved, and what nvidia-smi shows for
// the device. Formulas: docs/formulas.md, section memory.
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
    const char *moment; // of the peak: "loss", "backward", "update", "checkpoint"; "start": always
    double lost_share;  // allocated bytes are needed this many times: fragmentation
    double spread;      // half of the 80 % range of measured over planned bytes, as a logarithm
    double
        fit_probability; // that the card has enough, by that spread; NAN: device_bytes is unknown
    bool fits;           // at least as likely as not
    // What our engine takes of the card if it chooses itself what to recompute: it keeps more where
    // there is room.
    struct {
        double total_bytes; // 0: of other stacks, and where the card is not known
        int level;          // of recipe_checkpointings, in most layers
        int64_t lighter;    // layers that recompute one level less
    } filled;
};

void memory_plan(struct memory *out, const struct step *step, const struct step_request *request,
                 const struct memory_device *device);

// Sets `filled`, which costs more than the rest.
void memory_fill(struct memory *memory, const struct step_request *request,
                 const struct memory_device *device);

// The least that a card must have: the allocator's slack can be given back under pressure, all but
// what is lost between blocks in use. The step fits where this is at most device_bytes.
double memory_needed_bytes(const struct memory *memory);

// The share of runs that need at most so many times what is planned.
double memory_share_within(const struct memory *memory, double times);

// That a card of that many bytes has enough; NAN where they are.
double memory_fit_probability(const struct memory *memory, double device_bytes);

// "97 %". What is below memory_sure is printed below it.
const char *memory_chance(const struct memory *memory, struct arena *arena);

// "fits", "fits (97 %)" from 95 %, "may not fit (62 % that it does)" below, "does not fit" below a
// half. Every command, the report and the page say it in these words.
const char *memory_verdict(const struct memory *memory, struct arena *arena);
extern const double memory_sure; // the probability from which a step fits without a "may"

// The 80 % range around total_bytes: gpuhours validate says how often it holds.
struct range memory_range(const struct memory *memory);
