// SPDX-License-Identifier: Apache-2.0
// merge: merges an adapter into the weights it was trained on.
//
//     struct merge_report report;
//     TRY(merge_fold(&report, arena, "base", "adapters", "merged"));
//
// Each adapted linear becomes W + scale · B A, computed in fp32 and rounded once; quantized weights
// are dequantized first. Weights that the adapter saved in full replace those of the base. The
// result is a model folder with the config and the tokenizer of the base. Weights are processed row
// by row, and the folder is renamed into place when it is complete: a failure leaves nothing.

#pragma once

#include "base/text.h"

struct merge_report {
    int64_t folded, replaced, copied; // weights
    bool dequantized;
    double bytes; // of weights written
};

enum err merge_fold(struct merge_report *report, struct arena *arena, const char *model_folder,
                    const char *adapter_folder, const char *out_folder);
