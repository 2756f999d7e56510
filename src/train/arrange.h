// SPDX-License-Identifier: Apache-2.0
// arrange: makes a run fit into memory: micro-batch, recomputation, place and precision of the
// base.
//
//     struct arrangement best = { .setup = setup, .context = 4096, .micro_batch = 0 }; // 0: choose
//     TRY(arrange(&best, &device, limit_bytes));
//     TRY(transformer_init(&t, arena, &device, &best.setup));
//
// The limit is for all memory of the device, including what driver and libraries use. The least
// recomputation is preferred, then the largest micro-batch; if nothing fits, several ranks may
// share the base, which changes no bits, or the base of a LoRA may be stored in NF4. If even that
// does not fit, the error names the cheapest change that would.

#pragma once

#include "train/transformer.h"

struct arrangement {
    struct transformer_setup setup; // tokens, labelled, longest, level and budget are filled in
    struct recipe recipe;           // the setup's, possibly with another method
    int64_t context;
    int64_t micro_batch;   // rows; 0: choose
    bool may_shard;        // the base, over the ranks of the setup
    bool may_quantize;     // the base of a LoRA, to NF4
    bool was_quantized;    // it was
    int64_t planned_bytes; // with the overhead of driver and libraries
};

enum err arrange(struct arrangement *a, struct device *device,
                 double limit_bytes); // 0: all that the device has
