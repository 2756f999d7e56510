// NF4 to numbers: sixteen levels, the quantiles of a normal distribution, times the block's scale.

#include "train/cpu/cpu.h"

// The levels as QLoRA's paper and bitsandbytes define them.
static const float levels[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

void cpu_dequantize(struct device *device, struct tensor out, const struct quantized *in)
{
    (void)device;
    int64_t count = tensor_count(out);
    out = tensor_shape(out, 1, count);
#pragma omp parallel for
    for (int64_t c = 0; c < count; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(count, c);
        double x[TENSOR_CHUNK];
        for (int64_t i = 0; i < n; i++) {
            int64_t at = c + i;
            uint8_t pair = in->codes[at / 2];
            x[i] = levels[at % 2 ? pair & 15 : pair >> 4] * in->scales[at / in->block];
        }
        tensor_store(out, 0, c, x, n);
    }
}
