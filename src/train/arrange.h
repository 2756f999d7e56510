// arrange: makes a run fit: the micro-batch, what is computed again, the base's precision.
//
//     struct arrangement best = { .setup = setup, .context = 4096, .micro_batch = 0 }; // 0: choose
//     TRY(arrange(&best, &device, limit_bytes));
//     TRY(transformer_init(&t, arena, &device, &best.setup));
//
// The limit is of the device's whole use, so what driver and libraries take is part of it. Least
// recomputation comes first, then the largest micro-batch; where nothing fits, a LoRA's base may be
// held in NF4. If even that does not do, the sentence names the cheapest change that would.

#pragma once

#include "train/transformer.h"

struct arrangement {
    struct transformer_setup setup; // tokens, labelled, longest, level and budget are filled in
    struct recipe recipe;           // the setup's, perhaps with another method
    int64_t context;
    int64_t micro_batch;   // rows; 0: to be chosen
    bool may_quantize;     // a LoRA's base
    bool was_quantized;    // what was chosen
    int64_t planned_bytes; // with what the device takes for itself
};

enum err arrange(struct arrangement *a, struct device *device,
                 double limit_bytes); // 0: as much as the device has
