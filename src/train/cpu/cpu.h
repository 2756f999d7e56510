// SPDX-License-Identifier: Apache-2.0
// cpu: the operations of the CPU backend, one file each; backend.h defines them.

#pragma once

#include "train/backend.h"

// Operations on fewer elements than this run on one thread: starting threads would take longer.
enum { CPU_PARALLEL = 1 << 15 };

// Products of mixed types convert tiles of the three matrices to fp32.
enum { CPU_TILE = 256, CPU_DEPTH = 1024 };

struct cpu_tile { // of one worker
    float a[CPU_TILE * CPU_DEPTH], b[CPU_DEPTH * CPU_TILE], c[CPU_TILE * CPU_TILE];
};

// Tensors are processed in pieces of rows.
struct cpu_piece {
    int64_t row, column, count;
};

static inline int64_t cpu_pieces(struct tensor tensor)
{
    return tensor.rows * ((tensor.columns + TENSOR_CHUNK - 1) / TENSOR_CHUNK);
}

static inline struct cpu_piece cpu_piece(struct tensor tensor, int64_t index)
{
    int64_t in_row = (tensor.columns + TENSOR_CHUNK - 1) / TENSOR_CHUNK;
    int64_t column = index % in_row * TENSOR_CHUNK;
    return (struct cpu_piece){ index / in_row, column, tensor_chunk(tensor.columns, column) };
}

void cpu_zero(struct device *, struct tensor out);
void cpu_cast(struct device *, struct tensor out, struct tensor in);
void cpu_fill(struct device *, struct tensor out, enum fill, double scale, uint64_t key);
void cpu_embedding_forward(struct device *, struct tensor out, struct tensor table,
                           const int32_t *ids);
void cpu_embedding_backward(struct device *, struct tensor dtable, struct tensor dout,
                            const int32_t *ids);
void cpu_norm_forward(struct device *, struct tensor sum, struct tensor out, struct tensor rms,
                      struct tensor a, struct tensor b, struct tensor weight, double offset,
                      double epsilon);
void cpu_norm_backward(struct device *, struct tensor dx, struct tensor dweight,
                       struct tensor residual, struct tensor dout, struct tensor x,
                       struct tensor rms, struct tensor weight, double offset);
void cpu_add(struct device *, struct tensor sum, struct tensor a, struct tensor b);
void cpu_rotary(struct device *, struct tensor x, const int32_t *positions,
                struct tensor frequencies, int64_t head_size, int direction, double scale);
int64_t cpu_attention_bytes(struct device *, const struct attention *, enum dtype);
void cpu_attention_begin(struct device *, const struct attention *, void *workspace);
void cpu_attention_forward(struct device *, struct tensor out, struct tensor lse, struct tensor q,
                           struct tensor k, struct tensor v, const struct attention *,
                           void *workspace);
void cpu_attention_backward(struct device *, struct tensor dq, struct tensor dk, struct tensor dv,
                            struct tensor dout, struct tensor out, struct tensor lse,
                            struct tensor q, struct tensor k, struct tensor v,
                            const struct attention *, void *workspace);
void cpu_sink_forward(struct device *, struct tensor out, struct tensor lse, struct tensor sinks);
void cpu_sink_backward(struct device *, struct tensor dsinks, struct tensor dout, struct tensor out,
                       struct tensor lse, struct tensor sinks);
void cpu_swiglu_forward(struct device *, struct tensor out, struct tensor gate, struct tensor up,
                        struct tensor weight, struct swiglu);
void cpu_swiglu_backward(struct device *, struct tensor dgate, struct tensor dup,
                         struct tensor dweight, struct tensor dout, struct tensor gate,
                         struct tensor up, struct tensor weight, struct swiglu);
void cpu_geglu_forward(struct device *, struct tensor out, struct tensor gate, struct tensor up);
void cpu_geglu_backward(struct device *, struct tensor dgate, struct tensor dup, struct tensor dout,
                        struct tensor gate, struct tensor up);
void cpu_scale(struct device *, struct tensor x, double factor);
void cpu_capped_cross_entropy(struct device *, struct tensor losses, struct tensor logits,
                              const int32_t *targets, double scale, double cap);
void cpu_weigh_rows(struct device *, struct tensor x, struct tensor weights);
void cpu_route_forward(struct device *, struct tensor probabilities, struct tensor weights,
                       const struct routing *, struct tensor load, struct tensor logits);
void cpu_route_backward(struct device *, struct tensor dlogits, struct tensor dweights,
                        struct tensor probabilities, struct tensor weights, const struct routing *,
                        struct tensor dprobabilities);
void cpu_combine(struct device *, struct tensor out, struct tensor in, const struct routing *);
void cpu_balance(struct device *, struct tensor loss, struct tensor dprobabilities,
                 struct tensor load, double decisions, double scale, double gradient_scale);
void cpu_matmul_nt(struct device *, struct tensor c, struct tensor a, struct tensor b, double alpha,
                   double beta);
void cpu_matmul_nn(struct device *, struct tensor c, struct tensor a, struct tensor b, double alpha,
                   double beta);
void cpu_matmul_tn(struct device *, struct tensor c, struct tensor a, struct tensor b, double alpha,
                   double beta);
void cpu_experts_nt(struct device *, struct tensor c, struct tensor a, struct expert_matrices b,
                    const struct routing *, double alpha, double beta);
void cpu_experts_nn(struct device *, struct tensor c, struct tensor a, struct expert_matrices b,
                    const struct routing *, double alpha, double beta);
void cpu_experts_tn(struct device *, struct expert_matrices c, struct tensor a, struct tensor b,
                    const struct routing *, double alpha, double beta);
void cpu_experts_bias_forward(struct device *, struct tensor y, struct expert_matrices bias,
                              struct tensor weight, const struct routing *);
void cpu_experts_bias_backward(struct device *, struct expert_matrices dbias, struct tensor dweight,
                               struct tensor dy, struct expert_matrices bias, struct tensor weight,
                               const struct routing *);
void cpu_experts_cast(struct device *, struct expert_matrices out, struct expert_matrices in);
void cpu_experts_dequantize(struct device *, struct expert_matrices out, const struct quantized *in,
                            int64_t step);
void cpu_adapters_backward(struct device *, struct tensor dz, const struct adapter_part *,
                           int count, struct tensor dy, struct tensor b, struct tensor z,
                           double scale);
void cpu_row_norms(struct device *, struct tensor norms, struct tensor w, struct tensor b,
                   struct tensor a, double scale);
void cpu_magnify(struct device *, struct tensor y, struct tensor m, struct tensor norms);
void cpu_magnify_backward(struct device *, struct tensor dm, struct tensor dy, struct tensor y,
                          struct tensor m, struct tensor norms);
void cpu_quantize_rows(struct device *, struct tensor codes, struct tensor scales, struct tensor in,
                       bool transposed);
void cpu_quantize_adapters(struct device *, struct tensor codes, struct tensor shifts,
                           struct tensor b, bool transposed, struct tensor scales);
void cpu_quantize_inputs(struct device *, struct tensor codes, struct tensor scales,
                         struct tensor x, struct tensor z, struct tensor shifts);
void cpu_matmul_scaled(struct device *, struct tensor c, struct tensor a, struct tensor a_scales,
                       struct tensor b, struct tensor b_scales, double beta);
void cpu_bias_forward(struct device *, struct tensor y, struct tensor bias);
void cpu_bias_backward(struct device *, struct tensor dbias, struct tensor dy);
void cpu_gather(struct device *, struct tensor out, struct tensor in, const int32_t *rows);
void cpu_scatter(struct device *, struct tensor out, struct tensor in, const int32_t *rows);
void cpu_cross_entropy(struct device *, struct tensor losses, struct tensor logits,
                       const int32_t *targets, double scale);
void cpu_dropout(struct device *, struct tensor out, struct tensor in, double rate, uint64_t key);
void cpu_quantize(struct device *, const struct quantized *out, struct tensor in, void *workspace);
void cpu_dequantize(struct device *, struct tensor out, const struct quantized *in);
void cpu_adamw(struct device *, struct tensor weight, struct tensor m, struct tensor v,
               struct tensor gradient, const struct adamw *, struct tensor scale);
void cpu_sgd(struct device *, struct tensor weight, struct tensor moment, struct tensor gradient,
             double rate, double momentum, double decay, struct tensor scale);
void cpu_sum(struct device *, struct tensor sum, struct tensor in);
void cpu_sum_squares(struct device *, struct tensor sum, struct tensor in);
void cpu_clip(struct device *, struct tensor scale, struct tensor squared_norm, double limit);
