// SPDX-License-Identifier: Apache-2.0
// Attention sinks: a score of each head that takes part in the softmax of every row.
//
// Without the sink, attention gave out = Σ p v and lse = log Σ eˢ. With a sink x the sum of
// exponentials grows by eˣ: all probabilities shrink by σ(lse − x), and the rest is the sink's own.
//
//     out = out · σ(lse − x),  lse = log(eˡˢᵉ + eˣ)
//     dx = − Σ eˣ⁻ˡˢᵉ · (dout · out), with the new lse and out, over tokens
//
// The gradient of the other scores is that of attention, p · (dout · v − dout · out), with the new
// lse and out: attention_backward() needs no word of sinks.

#include "train/cpu/cpu.h"

#include <math.h>

static void scale_head(struct tensor out, int64_t row, int64_t head, int64_t size, double factor)
{
    for (int64_t i = head * size; i < (head + 1) * size; i++)
        tensor_set(out, row, i, factor * tensor_get(out, row, i));
}

void cpu_sink_forward(struct device *device, struct tensor out, struct tensor lse,
                      struct tensor sinks)
{
    (void)device;
    int64_t size = out.columns / sinks.columns;
#pragma omp parallel for if (tensor_count(out) > CPU_PARALLEL)
    for (int64_t t = 0; t < out.rows; t++)
        for (int64_t h = 0; h < sinks.columns; h++) {
            double before = tensor_get(lse, t, h), sink = tensor_get(sinks, 0, h);
            double larger = fmax(before, sink), smaller = fmin(before, sink);
            scale_head(out, t, h, size, 1 / (1 + exp(sink - before)));
            tensor_set(lse, t, h, larger + log1p(exp(smaller - larger)));
        }
}

static double dot_head(struct tensor a, struct tensor b, int64_t row, int64_t head, int64_t size)
{
    double sum = 0;
    for (int64_t i = head * size; i < (head + 1) * size; i++)
        sum += tensor_get(a, row, i) * tensor_get(b, row, i);
    return sum;
}

void cpu_sink_backward(struct device *device, struct tensor dsinks, struct tensor dout,
                       struct tensor out, struct tensor lse, struct tensor sinks)
{
    (void)device;
    int64_t size = out.columns / sinks.columns;
#pragma omp parallel for if (tensor_count(out) > CPU_PARALLEL)
    for (int64_t h = 0; h < sinks.columns; h++) {
        double sum = tensor_get(dsinks, 0, h), sink = tensor_get(sinks, 0, h);
        for (int64_t t = 0; t < out.rows; t++)
            sum -= exp(sink - tensor_get(lse, t, h)) * dot_head(dout, out, t, h, size);
        tensor_set(dsinks, 0, h, sum);
    }
}
