// Dropout by a counter-based generator: a mask element is a hash of the key and its place.

#include "train/cpu/cpu.h"

// splitmix64's last steps: each bit of the output depends on each of the input.
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

void cpu_dropout(struct device *device, struct tensor out, struct tensor in, double rate,
                 uint64_t key)
{
    (void)device;
    int64_t count = tensor_count(in);
    out = tensor_shape(out, 1, count);
    in = tensor_shape(in, 1, count);
#pragma omp parallel for if (count > CPU_PARALLEL)
    for (int64_t c = 0; c < count; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(count, c);
        double x[TENSOR_CHUNK];
        tensor_load(x, in, 0, c, n);
        for (int64_t i = 0; i < n; i++) {
            uint64_t draw = mix(mix(key) + (uint64_t)(c + i) * 0x9E3779B97F4A7C15u);
            x[i] = (double)(draw >> 11) * 0x1p-53 < rate ? 0 : x[i] / (1 - rate);
        }
        tensor_store(out, 0, c, x, n);
    }
}
