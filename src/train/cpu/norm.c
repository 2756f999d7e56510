// RMSNorm with the addition before it.
//
//     s = a + b,  r = 1 / √(mean s² + ε),  out = s · r · w
//     ds = r · (w · dout − s · r² · mean(s · w · dout)),  dw = Σₜ dout · s · r

#include "train/cpu/cpu.h"

#include <math.h>

// Adds b to a row of a, leaves the sum in sum where there is one, and returns the sum's squares.
static double add_row(struct tensor sum, struct tensor a, struct tensor b, int64_t t)
{
    double squares = 0, x[TENSOR_CHUNK], y[TENSOR_CHUNK];
    for (int64_t c = 0; c < a.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(a.columns, c);
        tensor_load(x, a, t, c, n);
        if (b.at) {
            tensor_load(y, b, t, c, n);
            for (int64_t i = 0; i < n; i++)
                x[i] += y[i];
            tensor_store(sum, t, c, x, n);
            tensor_load(x, sum, t, c, n); // as later passes will read it
        }
        for (int64_t i = 0; i < n; i++)
            squares += x[i] * x[i];
    }
    return squares;
}

void cpu_norm_forward(struct device *device, struct tensor sum, struct tensor out,
                      struct tensor rms, struct tensor a, struct tensor b, struct tensor weight,
                      double epsilon)
{
    (void)device;
#pragma omp parallel for if (tensor_count(a) > CPU_PARALLEL)
    for (int64_t t = 0; t < a.rows; t++) {
        double r = 1 / sqrt(add_row(sum, a, b, t) / (double)a.columns + epsilon);
        tensor_store(rms, t, 0, &r, 1);
        tensor_load(&r, rms, t, 0, 1); // a norm made again from rms must equal this one
        for (int64_t c = 0; c < a.columns; c += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(a.columns, c);
            double x[TENSOR_CHUNK], w[TENSOR_CHUNK];
            tensor_load(x, b.at ? sum : a, t, c, n);
            tensor_load(w, weight, 0, c, n);
            for (int64_t i = 0; i < n; i++)
                x[i] *= r * w[i];
            tensor_store(out, t, c, x, n);
        }
    }
}

// mean(s · w · dout) of a row.
static double row_mean(struct tensor dout, struct tensor x, struct tensor weight, int64_t t)
{
    double sum = 0, s[TENSOR_CHUNK], w[TENSOR_CHUNK], d[TENSOR_CHUNK];
    for (int64_t c = 0; c < x.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(x.columns, c);
        tensor_load(s, x, t, c, n);
        tensor_load(w, weight, 0, c, n);
        tensor_load(d, dout, t, c, n);
        for (int64_t i = 0; i < n; i++)
            sum += s[i] * w[i] * d[i];
    }
    return sum / (double)x.columns;
}

static void add_weight_gradient(struct tensor dweight, struct tensor dout, struct tensor x,
                                struct tensor rms)
{
#pragma omp parallel for if (tensor_count(x) > CPU_PARALLEL)
    for (int64_t c = 0; c < x.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(x.columns, c);
        double sum[TENSOR_CHUNK], s[TENSOR_CHUNK], d[TENSOR_CHUNK], r;
        tensor_load(sum, dweight, 0, c, n);
        for (int64_t t = 0; t < x.rows; t++) {
            tensor_load(s, x, t, c, n);
            tensor_load(d, dout, t, c, n);
            tensor_load(&r, rms, t, 0, 1);
            for (int64_t i = 0; i < n; i++)
                sum[i] += d[i] * s[i] * r;
        }
        tensor_store(dweight, 0, c, sum, n);
    }
}

void cpu_norm_backward(struct device *device, struct tensor dx, struct tensor dweight,
                       struct tensor residual, struct tensor dout, struct tensor x,
                       struct tensor rms, struct tensor weight)
{
    (void)device;
    if (dweight.at)
        add_weight_gradient(dweight, dout, x, rms);
#pragma omp parallel for if (tensor_count(x) > CPU_PARALLEL)
    for (int64_t t = 0; t < x.rows; t++) {
        double mean = row_mean(dout, x, weight, t), r;
        tensor_load(&r, rms, t, 0, 1);
        for (int64_t c = 0; c < x.columns; c += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(x.columns, c);
            double s[TENSOR_CHUNK], w[TENSOR_CHUNK], d[TENSOR_CHUNK], before[TENSOR_CHUNK] = { 0 };
            tensor_load(s, x, t, c, n);
            tensor_load(w, weight, 0, c, n);
            tensor_load(d, dout, t, c, n);
            if (residual.at)
                tensor_load(before, residual, t, c, n);
            for (int64_t i = 0; i < n; i++)
                d[i] = before[i] + r * (w[i] * d[i] - s[i] * r * r * mean);
            tensor_store(dx, t, c, d, n);
        }
    }
}
