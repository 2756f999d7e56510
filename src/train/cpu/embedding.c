// SPDX-License-Identifier: Apache-2.0
// The embedding table: rows by token, and their gradient.

#include "train/cpu/cpu.h"

#include <assert.h>

void cpu_embedding_forward(struct device *device, struct tensor out, struct tensor table,
                           const int32_t *ids)
{
    cpu_gather(device, out, table, ids);
}

// Threads share the columns; tokens are added in order: the sum does not depend on the machine.
void cpu_embedding_backward(struct device *device, struct tensor dtable, struct tensor dout,
                            const int32_t *ids)
{
    (void)device;
    assert(dtable.columns == dout.columns);
#pragma omp parallel for if (tensor_count(dout) > CPU_PARALLEL)
    for (int64_t c = 0; c < dout.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(dout.columns, c);
        double x[TENSOR_CHUNK], sum[TENSOR_CHUNK];
        for (int64_t t = 0; t < dout.rows; t++) {
            tensor_load(x, dout, t, c, n);
            tensor_load(sum, dtable, ids[t], c, n);
            for (int64_t i = 0; i < n; i++)
                sum[i] += x[i];
            tensor_store(dtable, ids[t], c, sum, n);
        }
    }
}
