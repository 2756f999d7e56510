// SPDX-License-Identifier: Apache-2.0
// Matrix products of any element types: workers share the tiles of the result. A tile is one
// product if all three matrices have the same type, otherwise it is computed in fp32.

#include "train/cpu/cpu.h"

#include "base/half.h"
#include "train/cpu/product.h"

#include <assert.h>

// Copies a piece of a matrix to fp32.
static void widen(float *out, struct tensor in, int64_t row, int64_t column, int64_t rows,
                  int64_t columns)
{
    for (int64_t r = 0; r < rows; r++) {
        int64_t first = (row + r) * in.stride + column;
        for (int64_t c = 0; c < columns; c++)
            out[r * columns + c] =
                in.dtype == DTYPE_BF16  ? half_from_bf16(((const uint16_t *)in.at)[first + c])
                : in.dtype == DTYPE_F32 ? ((const float *)in.at)[first + c]
                : in.dtype == DTYPE_F8  ? half_from_f8(((const uint8_t *)in.at)[first + c])
                                        : (float)((const double *)in.at)[first + c];
    }
}

static void narrow(struct tensor out, int64_t row, int64_t column, int64_t rows, int64_t columns,
                   const float *in)
{
    for (int64_t r = 0; r < rows; r++) {
        int64_t first = (row + r) * out.stride + column;
        for (int64_t c = 0; c < columns; c++)
            if (out.dtype == DTYPE_BF16)
                ((uint16_t *)out.at)[first + c] = half_to_bf16(in[r * columns + c]);
            else
                ((float *)out.at)[first + c] = in[r * columns + c];
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// --- tiles -------------------------------------------------------------------

// OpenBLAS copies the operands of each call: a tenth of the time of a 256 × 256 tile, a fortieth of
// a 1024 × 1024 tile. So tiles are large, and only as many as are needed to balance the workers.
enum {
    LARGEST = 1024,  // rows and columns of a tile
    SMALLEST = 128,  // sizes up to this are not halved
    ENOUGH = 8,      // tiles
    LEAST = 1 << 21, // multiplications of a tile that may be halved
    ALIGNED = 16,    // kernels work on multiples of this
};

// How c is cut depends only on its shape, so that any number of threads gives the same bits.
struct tiles {
    int64_t rows, columns; // of one
    int64_t down, count;
};

static int64_t halved(int64_t size)
{
    return (size / 2 + ALIGNED - 1) / ALIGNED * ALIGNED;
}

static struct tiles tiles_of(const struct product *p, int64_t largest)
{
    struct tiles t = { least(largest, p->m), least(largest, p->n), 0, 0 };
    for (;;) {
        int64_t *longer = t.rows > t.columns ? &t.rows : &t.columns;
        t.down = (p->m + t.rows - 1) / t.rows;
        t.count = t.down * ((p->n + t.columns - 1) / t.columns);
        if (t.count >= ENOUGH || *longer <= SMALLEST || t.rows * t.columns * p->k < LEAST)
            return t;
        *longer = halved(*longer);
    }
}

// Mixed types: summed over the whole depth in fp32 and rounded once.
static void multiply_mixed(struct cpu_tile *own, struct tensor c, struct tensor a, struct tensor b,
                           struct product part, int64_t i, int64_t j)
{
    int64_t depth = part.k;
    double beta = part.beta;
    part.c_stride = part.n;
    if (beta != 0)
        widen(own->c, c, i, j, part.m, part.n);
    for (int64_t l = 0; l < depth; l += CPU_DEPTH) {
        part.k = least(CPU_DEPTH, depth - l);
        if (part.a_transposed)
            widen(own->a, a, l, i, part.k, part.m);
        else
            widen(own->a, a, i, l, part.m, part.k);
        if (part.b_transposed)
            widen(own->b, b, j, l, part.n, part.k);
        else
            widen(own->b, b, l, j, part.k, part.n);
        part.a_stride = part.a_transposed ? part.m : part.k;
        part.b_stride = part.b_transposed ? part.k : part.n;
        part.beta = l ? 1 : beta;
        product_f32(own->c, own->a, own->b, &part);
    }
    narrow(c, i, j, part.m, part.n, own->c);
}

// All fp64 or all fp32: nothing to convert.
static bool is_direct(struct tensor c, struct tensor a, struct tensor b)
{
    return c.dtype == DTYPE_F64 ||
           (c.dtype == DTYPE_F32 && a.dtype == DTYPE_F32 && b.dtype == DTYPE_F32);
}

// The tile of c that begins at row i and column j.
static void multiply_tile(struct cpu_tile *own, struct tensor c, struct tensor a, struct tensor b,
                          const struct product *p, const struct tiles *tiles, int64_t i, int64_t j)
{
    struct product part = *p;
    part.m = least(tiles->rows, p->m - i);
    part.n = least(tiles->columns, p->n - j);
    int64_t at_a = p->a_transposed ? i : i * p->a_stride;
    int64_t at_b = p->b_transposed ? j * p->b_stride : j;
    int64_t at_c = i * p->c_stride + j;
    if (!is_direct(c, a, b))
        multiply_mixed(own, c, a, b, part, i, j);
    else if (c.dtype == DTYPE_F64)
        product_f64((double *)c.at + at_c, (double *)a.at + at_a, (double *)b.at + at_b, &part);
    else
        product_f32((float *)c.at + at_c, (float *)a.at + at_a, (float *)b.at + at_b, &part);
}

static void multiply(struct device *device, struct tensor c, struct tensor a, struct tensor b,
                     const struct product *p)
{
    assert(c.rows == p->m && c.columns == p->n);
    assert(c.dtype != DTYPE_F64 || (a.dtype == DTYPE_F64 && b.dtype == DTYPE_F64));
    if (!p->m || !p->n)
        return;
    struct tiles tiles = tiles_of(p, is_direct(c, a, b) ? LARGEST : CPU_TILE);
    struct cpu_tile *own = device->own;
    int64_t next = 0;
#pragma omp parallel for schedule(static, 1) if (p->m * p->n * p->k > PRODUCT_ALONE)
    for (int worker = 0; worker < device->workers; worker++)
        for (;;) {
            int64_t tile;
#pragma omp atomic capture
            tile = next++;
            if (tile >= tiles.count)
                break;
            multiply_tile(&own[worker], c, a, b, p, &tiles, tile % tiles.down * tiles.rows,
                          tile / tiles.down * tiles.columns);
        }
}

void cpu_matmul_nt(struct device *device, struct tensor c, struct tensor a, struct tensor b,
                   double alpha, double beta)
{
    assert(a.columns == b.columns);
    multiply(device, c, a, b,
             &(struct product){ false, true, a.rows, b.rows, a.columns, a.stride, b.stride,
                                c.stride, alpha, beta });
}

void cpu_matmul_nn(struct device *device, struct tensor c, struct tensor a, struct tensor b,
                   double alpha, double beta)
{
    assert(a.columns == b.rows);
    multiply(device, c, a, b,
             &(struct product){ false, false, a.rows, b.columns, a.columns, a.stride, b.stride,
                                c.stride, alpha, beta });
}

void cpu_matmul_tn(struct device *device, struct tensor c, struct tensor a, struct tensor b,
                   double alpha, double beta)
{
    assert(a.rows == b.rows);
    multiply(device, c, a, b,
             &(struct product){ true, false, a.columns, b.columns, a.rows, a.stride, b.stride,
                                c.stride, alpha, beta });
}

void cpu_adapters_backward(struct device *device, struct tensor dz,
                           const struct adapter_part *parts, int count, struct tensor dy,
                           struct tensor b, struct tensor z, double scale)
{
    cpu_matmul_nn(device, dz, dy, b, scale, 0);
    for (int i = 0; i < count; i++) {
        struct tensor db = parts[i].db;
        cpu_matmul_tn(device, db, tensor_columns(dy, parts[i].first, db.rows),
                      tensor_columns(z, parts[i].first_z, db.columns), 1, 1);
    }
}
