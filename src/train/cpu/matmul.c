// Matrix products of any element types: directly where all three are alike, else in fp32 tiles.

#include "train/cpu/cpu.h"

#include "base/half.h"
#include "train/cpu/product.h"

#include <assert.h>

// Copies a piece of a matrix, as it is stored, to fp32.
static void widen(float *out, struct tensor in, int64_t row, int64_t column, int64_t rows,
                  int64_t columns)
{
#pragma omp parallel for if (rows * columns > CPU_PARALLEL)
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
#pragma omp parallel for if (rows * columns > CPU_PARALLEL)
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

// One tile of c, summed over the whole depth in fp32 and rounded once.
static void multiply_tile(struct cpu *cpu, struct tensor c, struct tensor a, struct tensor b,
                          const struct product *p, int64_t i, int64_t j)
{
    struct product part = *p;
    part.m = least(CPU_TILE, p->m - i);
    part.n = least(CPU_TILE, p->n - j);
    part.c_stride = part.n;
    if (p->beta != 0)
        widen(cpu->c, c, i, j, part.m, part.n);
    for (int64_t l = 0; l < p->k; l += CPU_DEPTH) {
        part.k = least(CPU_DEPTH, p->k - l);
        if (p->a_transposed)
            widen(cpu->a, a, l, i, part.k, part.m);
        else
            widen(cpu->a, a, i, l, part.m, part.k);
        if (p->b_transposed)
            widen(cpu->b, b, j, l, part.n, part.k);
        else
            widen(cpu->b, b, l, j, part.k, part.n);
        part.a_stride = p->a_transposed ? part.m : part.k;
        part.b_stride = p->b_transposed ? part.k : part.n;
        part.beta = l ? 1 : p->beta;
        product_f32(cpu->c, cpu->a, cpu->b, &part);
    }
    narrow(c, i, j, part.m, part.n, cpu->c);
}

static void multiply(struct device *device, struct tensor c, struct tensor a, struct tensor b,
                     const struct product *p)
{
    assert(c.rows == p->m && c.columns == p->n);
    if (!p->m || !p->n)
        return;
    if (c.dtype == DTYPE_F64) {
        assert(a.dtype == DTYPE_F64 && b.dtype == DTYPE_F64);
        product_f64(c.at, a.at, b.at, p);
    } else if (c.dtype == DTYPE_F32 && a.dtype == DTYPE_F32 && b.dtype == DTYPE_F32) {
        product_f32(c.at, a.at, b.at, p);
    } else {
        for (int64_t j = 0; j < p->n; j += CPU_TILE)
            for (int64_t i = 0; i < p->m; i += CPU_TILE)
                multiply_tile(device->own, c, a, b, p, i, j);
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
