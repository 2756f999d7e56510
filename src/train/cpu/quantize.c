// SPDX-License-Identifier: Apache-2.0
// Quantization and dequantization: NF4 with nested scales, MXFP4, fp8 with a scale per row.

#include "train/cpu/cpu.h"

#include "train/mxfp4.h"
#include "train/nf4.h"

#include <assert.h>
#include <math.h>

static const float mxfp4_levels[] = { MXFP4_LEVEL_TABLE };

static void to_mxfp4(const struct quantized *out, const float *values, int64_t count)
{
    for (int64_t first = 0; first < count; first += out->block) {
        int64_t end = first + out->block < count ? first + out->block : count;
        float largest = 0;
        for (int64_t i = first; i < end; i++)
            largest = fmaxf(largest, fabsf(values[i]));
        unsigned scale = mxfp4_scale(largest);
        out->nested_codes[first / out->block] = (uint8_t)scale;
        for (int64_t i = first; i < end; i++) {
            unsigned code = mxfp4_code(values[i] * mxfp4_inverse(scale));
            uint8_t *pair = &out->codes[i / 2];
            *pair = (uint8_t)(i % 2 ? *pair | code : code << 4);
        }
    }
}

void cpu_quantize(struct device *device, const struct quantized *out, struct tensor in,
                  void *workspace)
{
    (void)device, (void)workspace;
    struct arena scratch = { 0 };
    struct nf4 nf4;
    float *values = ARENA_NEW(&scratch, float, tensor_count(in));
    struct tensor dense = tensor_of(values, DTYPE_F32, in.rows, in.columns);
    cpu_cast(device, dense, in);
    if (out->is_mxfp4) {
        to_mxfp4(out, values, tensor_count(in));
        arena_release(&scratch);
        return;
    }
    nf4_quantize(&nf4, &scratch, values, in.rows, in.columns, STORAGE_BF16);
    assert(nf4.nested && nf4.block == out->block && nf4.nested_block == out->nested_block);
    int64_t blocks = nf4_blocks(&nf4), nested = (blocks + nf4.nested_block - 1) / nf4.nested_block;
    memcpy(out->codes, nf4.codes, (size_t)(tensor_count(in) + 1) / 2);
    memcpy(out->nested_codes, nf4.scales, (size_t)blocks);
    memcpy(out->nested, nf4.nested_scales, 4 * (size_t)nested);
    memcpy(out->levels, nf4.nested_levels, sizeof nf4.nested_levels);
    *out->offset = nf4.offset;
    arena_release(&scratch);
}

static float scale_of(const struct quantized *in, int64_t block)
{
    if (in->is_mxfp4)
        return mxfp4_power(in->nested_codes[block]);
    if (in->scales)
        return in->scales[block];
    return in->levels[in->nested_codes[block]] * in->nested[block / in->nested_block] + *in->offset;
}

void cpu_dequantize(struct device *device, struct tensor out, const struct quantized *in)
{
    (void)device;
    const float *levels = in->is_mxfp4 ? mxfp4_levels : nf4_levels;
#pragma omp parallel for if (tensor_count(out) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(out); i++) {
        struct cpu_piece piece = cpu_piece(out, i);
        double x[TENSOR_CHUNK];
        int64_t first = piece.row * out.columns + piece.column, block = first / in->block;
        for (int64_t at = first; at < first + piece.count; block++) {
            float scale = scale_of(in, block);
            for (; at < first + piece.count && at < (block + 1) * in->block; at++) {
                uint8_t pair = in->codes[at / 2];
                x[at - first] = levels[at % 2 ? pair & 15 : pair >> 4] * scale;
            }
        }
        tensor_store(out, piece.row, piece.column, x, piece.count);
    }
}

// --- fp8 ---------------------------------------------------------------------

static double element(struct tensor in, int64_t row, int64_t column, bool transposed)
{
    return transposed ? tensor_get(in, column, row) : tensor_get(in, row, column);
}

static float scale_of_row(double largest, struct tensor scales, int64_t row)
{
    float scale = largest > 0 ? (float)(largest / 448) : 1;
    ((float *)scales.at)[row * scales.stride] = scale;
    return scale;
}

void cpu_quantize_rows(struct device *device, struct tensor codes, struct tensor scales,
                       struct tensor in, bool transposed)
{
    (void)device;
#pragma omp parallel for if (tensor_count(in) > CPU_PARALLEL)
    for (int64_t r = 0; r < codes.rows; r++) {
        double largest = 0;
        for (int64_t c = 0; c < codes.columns; c++)
            largest = fmax(largest, fabs(element(in, r, c, transposed)));
        float scale = scale_of_row(largest > 0 ? fmax(largest, 0x1p-10) : 0, scales, r);
        float inverse = 1 / scale;
        for (int64_t c = 0; c < codes.columns; c++) {
            double x = (float)element(in, r, c, transposed) * inverse;
            tensor_store(codes, r, c, &x, 1);
        }
    }
}

// The columns of a number in the codes: high, low and high again, or high, high and low.
static void store_twice(struct tensor codes, int64_t row, int64_t column, int64_t apart, int low_at,
                        float number)
{
    double high = number, low;
    tensor_store(codes, row, column, &high, 1);
    tensor_load(&high, codes, row, column, 1);
    low = number - (float)high;
    for (int i = 1; i <= 2; i++)
        tensor_store(codes, row, column + i * apart, i == low_at ? &low : &high, 1);
}

static void store_zeros(struct tensor codes, int64_t row, int64_t first)
{
    double zero = 0;
    for (int64_t c = first; c < codes.columns; c++)
        tensor_store(codes, row, c, &zero, 1);
}

void cpu_quantize_adapters(struct device *device, struct tensor codes, struct tensor shifts,
                           struct tensor b, bool transposed, struct tensor scales)
{
    (void)device;
    const float *scale = scales.at;
    for (int64_t r = 0; r < shifts.columns; r++) {
        float largest = 0, *shift = (float *)shifts.at + r;
        for (int64_t n = 0; n < codes.rows; n++)
            largest = fmaxf(largest,
                            fabsf((float)element(b, n, r, transposed)) / scale[n * scales.stride]);
        *shift = largest >= 0x1p-119f ? ldexpf(1, ilogbf(largest) - 7) : 1;
        for (int64_t n = 0; n < codes.rows; n++)
            store_twice(codes, n, r, shifts.columns, 2,
                        (float)element(b, n, r, transposed) / scale[n * scales.stride] / *shift);
    }
}

void cpu_quantize_inputs(struct device *device, struct tensor codes, struct tensor scales,
                         struct tensor x, struct tensor z, struct tensor shifts)
{
    (void)device;
    const float *shift = shifts.at;
#pragma omp parallel for if (tensor_count(x) > CPU_PARALLEL)
    for (int64_t i = 0; i < x.rows; i++) {
        double largest = 0;
        for (int64_t c = 0; c < x.columns; c++)
            largest = fmax(largest, fabs(element(x, i, c, false)));
        for (int64_t r = 0; r < z.columns; r++)
            largest = fmax(largest, fabsf((float)element(z, i, r, false) * shift[r]));
        float inverse = 1 / scale_of_row(largest, scales, i);
        for (int64_t c = 0; c < x.columns; c++) {
            double code = (float)element(x, i, c, false) * inverse;
            tensor_store(codes, i, c, &code, 1);
        }
        for (int64_t r = 0; r < z.columns; r++)
            store_twice(codes, i, x.columns + r, z.columns, 1,
                        (float)element(z, i, r, false) * shift[r] * inverse);
        store_zeros(codes, i, x.columns + 3 * z.columns);
    }
}

void cpu_matmul_scaled(struct device *device, struct tensor c, struct tensor a,
                       struct tensor a_scales, struct tensor b, struct tensor b_scales, double beta)
{
    (void)device;
#pragma omp parallel for if (tensor_count(c) > CPU_PARALLEL)
    for (int64_t i = 0; i < c.rows; i++)
        for (int64_t j = 0; j < c.columns; j++) {
            double sum = 0, before = 0, x[TENSOR_CHUNK], y[TENSOR_CHUNK];
            for (int64_t l = 0; l < a.columns; l += TENSOR_CHUNK) {
                int64_t n = tensor_chunk(a.columns, l);
                tensor_load(x, a, i, l, n);
                tensor_load(y, b, j, l, n);
                for (int64_t m = 0; m < n; m++)
                    sum += x[m] * y[m];
            }
            if (beta != 0)
                tensor_load(&before, c, i, j, 1);
            sum = sum * ((float *)a_scales.at)[i * a_scales.stride] *
                      ((float *)b_scales.at)[j * b_scales.stride] +
                  beta * before;
            tensor_store(c, i, j, &sum, 1);
        }
}
