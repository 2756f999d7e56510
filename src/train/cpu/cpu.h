// cpu: the operations of the CPU backend, one file each; what they mean stands in backend.h.

#pragma once

#include "train/backend.h"

// Operations on fewer elements than this run on one thread: starting others takes longer.
enum { CPU_PARALLEL = 1 << 15 };

// What a product of mixed types converts into: tiles of the three matrices in fp32.
enum { CPU_TILE = 256, CPU_DEPTH = 1024 };

struct cpu {
    float *a, *b, *c; // (TILE, DEPTH), (DEPTH, TILE), (TILE, TILE)
};

void cpu_zero(struct device *, struct tensor out);
void cpu_cast(struct device *, struct tensor out, struct tensor in);
void cpu_embedding_forward(struct device *, struct tensor out, struct tensor table,
                           const int32_t *ids);
void cpu_embedding_backward(struct device *, struct tensor dtable, struct tensor dout,
                            const int32_t *ids);
void cpu_norm_forward(struct device *, struct tensor sum, struct tensor out, struct tensor rms,
                      struct tensor a, struct tensor b, struct tensor weight, double epsilon);
void cpu_norm_backward(struct device *, struct tensor dx, struct tensor dweight,
                       struct tensor residual, struct tensor dout, struct tensor x,
                       struct tensor rms, struct tensor weight);
void cpu_add(struct device *, struct tensor sum, struct tensor a, struct tensor b);
void cpu_rotary(struct device *, struct tensor x, const int32_t *positions,
                const double *frequencies, int64_t head_size, int direction);
int64_t cpu_attention_bytes(struct device *, const struct attention *, enum dtype);
void cpu_attention_forward(struct device *, struct tensor out, struct tensor lse, struct tensor q,
                           struct tensor k, struct tensor v, const struct attention *,
                           void *workspace);
void cpu_attention_backward(struct device *, struct tensor dq, struct tensor dk, struct tensor dv,
                            struct tensor dout, struct tensor out, struct tensor lse,
                            struct tensor q, struct tensor k, struct tensor v,
                            const struct attention *, void *workspace);
void cpu_swiglu_forward(struct device *, struct tensor out, struct tensor gate, struct tensor up);
void cpu_swiglu_backward(struct device *, struct tensor dgate, struct tensor dup,
                         struct tensor dout, struct tensor gate, struct tensor up);
void cpu_matmul_nt(struct device *, struct tensor c, struct tensor a, struct tensor b, double alpha,
                   double beta);
void cpu_matmul_nn(struct device *, struct tensor c, struct tensor a, struct tensor b, double alpha,
                   double beta);
void cpu_matmul_tn(struct device *, struct tensor c, struct tensor a, struct tensor b, double alpha,
                   double beta);
void cpu_bias_forward(struct device *, struct tensor y, struct tensor bias);
void cpu_bias_backward(struct device *, struct tensor dbias, struct tensor dy);
void cpu_gather(struct device *, struct tensor out, struct tensor in, const int32_t *rows);
void cpu_scatter(struct device *, struct tensor out, struct tensor in, const int32_t *rows);
void cpu_cross_entropy(struct device *, double *losses, struct tensor logits,
                       const int32_t *targets, double scale);
void cpu_dropout(struct device *, struct tensor out, struct tensor in, double rate, uint64_t key);
void cpu_dequantize(struct device *, struct tensor out, const struct quantized *in);
void cpu_adamw(struct device *, struct tensor weight, struct tensor m, struct tensor v,
               struct tensor gradient, const struct adamw *, double gradient_scale);
void cpu_sgd(struct device *, struct tensor weight, struct tensor moment, struct tensor gradient,
             double rate, double momentum, double decay, double gradient_scale);
double cpu_squares(struct device *, struct tensor in);
