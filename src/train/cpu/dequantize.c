// NF4 to numbers: sixteen levels, the quantiles of a normal distribution, times the block's scale.

#include "train/cpu/cpu.h"

#include "train/nf4.h"

static float scale_of(const struct quantized *in, int64_t block)
{
    if (in->scales)
        return in->scales[block];
    return in->levels[in->nested_codes[block]] * in->nested[block / in->nested_block] + in->offset;
}

void cpu_dequantize(struct device *device, struct tensor out, const struct quantized *in)
{
    (void)device;
    int64_t count = tensor_count(out);
    out = tensor_shape(out, 1, count);
#pragma omp parallel for if (count > CPU_PARALLEL)
    for (int64_t c = 0; c < count; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(count, c);
        double x[TENSOR_CHUNK];
        for (int64_t i = 0; i < n; i++) {
            int64_t at = c + i;
            uint8_t pair = in->codes[at / 2];
            x[i] = nf4_levels[at % 2 ? pair & 15 : pair >> 4] * scale_of(in, at / in->block);
        }
        tensor_store(out, 0, c, x, n);
    }
}
