// SPDX-License-Identifier: Apache-2.0
// RoPE, in place: (x, y) → (x cos − y sin, y cos + x sin) for pairs half of what is rotated apart.

#include "train/cpu/cpu.h"

#include <math.h>

void cpu_rotary(struct device *device, struct tensor x, const int32_t *positions,
                struct tensor frequencies, int64_t head_size, int direction, double scale)
{
    (void)device;
    int64_t half = frequencies.columns;
#pragma omp parallel for if (tensor_count(x) > CPU_PARALLEL)
    for (int64_t t = 0; t < x.rows; t++)
        for (int64_t p = 0; p < half; p += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(half, p);
            double cosine[TENSOR_CHUNK], sine[TENSOR_CHUNK], a[TENSOR_CHUNK], b[TENSOR_CHUNK];
            tensor_load(a, frequencies, 0, p, n);
            for (int64_t i = 0; i < n; i++) {
                cosine[i] = scale * cos(positions[t] * a[i]);
                sine[i] = scale * direction * sin(positions[t] * a[i]);
            }
            for (int64_t h = 0; h < x.columns; h += head_size) {
                tensor_load(a, x, t, h + p, n);
                tensor_load(b, x, t, h + p + half, n);
                for (int64_t i = 0; i < n; i++) {
                    double first = a[i] * cosine[i] - b[i] * sine[i];
                    b[i] = b[i] * cosine[i] + a[i] * sine[i];
                    a[i] = first;
                }
                tensor_store(x, t, h + p, a, n);
                tensor_store(x, t, h + p + half, b, n);
            }
        }
}
