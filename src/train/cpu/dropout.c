// SPDX-License-Identifier: Apache-2.0
// Dropout: the mask is a function of key and position.

#include "train/cpu/cpu.h"

#include "train/counter_rng.h"

void cpu_dropout(struct device *device, struct tensor out, struct tensor in, double rate,
                 uint64_t key)
{
    (void)device;
#pragma omp parallel for if (tensor_count(in) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(in); i++) {
        struct cpu_piece at = cpu_piece(in, i);
        double x[TENSOR_CHUNK];
        uint64_t position = (uint64_t)(at.row * in.columns + at.column);
        tensor_load(x, in, at.row, at.column, at.count);
        for (int64_t j = 0; j < at.count; j++)
            x[j] = counter_rng_uniform(key, position + (uint64_t)j) < rate ? 0 : x[j] / (1 - rate);
        tensor_store(out, at.row, at.column, x, at.count);
    }
}
