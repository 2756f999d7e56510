// SPDX-License-Identifier: Apache-2.0
// plausible: refuses a measured rate that its GPUs cannot reach.
//
// A token costs at least the forward and backward products of the layers; tokens/s times that may
// not exceed the dense peak of the GPUs. A rate above it is a wrong number of tokens per step or of
// GPUs, and the error shows the arithmetic.
//
//     TRY(plausible_rate(&(struct plausible){ 9120, model, &recipe, gpu, 8 }, "pilot.json"));

#pragma once

#include "core/measured/history.h"
#include "core/measured/pilot.h"
#include "core/step/catalog.h"

struct plausible {
    double tokens_per_s; // over all GPUs
    const struct model *model;
    const struct recipe *recipe; // method and precision count
    const struct gpu *gpu;
    double gpus;
};

// FLOPs that a processed token needs at least: no attention scores, no head, no recomputation, and
// no gradients below the first trained weight.
double plausible_flops_per_token(const struct model *model, int method);

// ERR_INPUT with the arithmetic where the rate is above the peak.
enum err plausible_rate(const struct plausible *rate, const char *name);

// The same for a pilot and for an entry of the ledger. OK where the model or the GPU is not in the
// catalog: nothing can be computed then.
enum err plausible_pilot(const struct catalog *catalog, const struct pilot *pilot,
                         const char *name);
enum err plausible_entry(const struct catalog *catalog, struct arena *arena,
                         const struct history_entry *entry, const char *name);
