// SPDX-License-Identifier: Apache-2.0
// The gated activation: out = w · g · σ(a g) · (u + b), with σ the logistic function, w a row's
// weight, a the slope and b the offset; a = 1 and b = 0 of most models.
//
//     dg = w · dout · (u + b) · σ(a g) · (1 + a g · (1 − σ(a g))),  du = w · dout · g · σ(a g)
//     dw = Σ dout · g · σ(a g) · (u + b)
//
// Where g or u was cut off at the limit, its gradient is 0.

#include "train/cpu/cpu.h"

#include <math.h>

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double weight_of(struct tensor weight, int64_t row)
{
    double w = 1;
    if (weight.at)
        tensor_load(&w, weight, row, 0, 1);
    return w;
}

// What of a gate, or of what it multiplies, is within the limit.
static double cut(double x, double least, double most, bool *is_cut)
{
    *is_cut = x < least || x > most;
    return x < least ? least : x > most ? most : x;
}

// g and u of one element within their limits, u with its offset; and the logistic function of g.
struct gated {
    double g, u, s;
    bool g_is_cut, u_is_cut;
};

static struct gated gated_of(double g, double u, struct swiglu form)
{
    double limit = form.limit > 0 ? form.limit : INFINITY;
    struct gated out;
    out.g = cut(g, -INFINITY, limit, &out.g_is_cut);
    out.u = cut(u, -limit, limit, &out.u_is_cut) + form.offset;
    out.s = logistic(form.slope * out.g);
    return out;
}

void cpu_swiglu_forward(struct device *device, struct tensor out, struct tensor gate,
                        struct tensor up, struct tensor weight, struct swiglu form)
{
    (void)device;
#pragma omp parallel for if (tensor_count(out) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(out); i++) {
        struct cpu_piece at = cpu_piece(out, i);
        double g[TENSOR_CHUNK], u[TENSOR_CHUNK], w = weight_of(weight, at.row);
        tensor_load(g, gate, at.row, at.column, at.count);
        tensor_load(u, up, at.row, at.column, at.count);
        for (int64_t j = 0; j < at.count; j++) {
            struct gated x = gated_of(g[j], u[j], form);
            u[j] = x.u * (w * x.g * x.s);
        }
        tensor_store(out, at.row, at.column, u, at.count);
    }
}

struct rows {
    struct tensor dgate, dup, dout, gate, up;
    struct swiglu form;
};

// The gradients of one row; returns that of its weight.
static double row_backward(const struct rows *t, int64_t row, double w)
{
    double dw = 0;
    for (int64_t c = 0; c < t->dout.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(t->dout.columns, c);
        double g[TENSOR_CHUNK], u[TENSOR_CHUNK], d[TENSOR_CHUNK];
        tensor_load(g, t->gate, row, c, n);
        tensor_load(u, t->up, row, c, n);
        tensor_load(d, t->dout, row, c, n);
        for (int64_t j = 0; j < n; j++) {
            struct gated x = gated_of(g[j], u[j], t->form);
            double slope = x.s * (1 + t->form.slope * x.g * (1 - x.s));
            dw += d[j] * x.g * x.s * x.u;
            g[j] = x.g_is_cut ? 0 : w * d[j] * x.u * slope;
            u[j] = x.u_is_cut ? 0 : w * d[j] * x.g * x.s;
        }
        tensor_store(t->dgate, row, c, g, n);
        tensor_store(t->dup, row, c, u, n);
    }
    return dw;
}

void cpu_swiglu_backward(struct device *device, struct tensor dgate, struct tensor dup,
                         struct tensor dweight, struct tensor dout, struct tensor gate,
                         struct tensor up, struct tensor weight, struct swiglu form)
{
    (void)device;
    struct rows tensors = { dgate, dup, dout, gate, up, form };
#pragma omp parallel for if (tensor_count(dout) > CPU_PARALLEL)
    for (int64_t t = 0; t < dout.rows; t++) {
        double dw = row_backward(&tensors, t, weight_of(weight, t));
        if (dweight.at)
            tensor_store(dweight, t, 0, &dw, 1);
    }
}
