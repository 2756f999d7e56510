// SPDX-License-Identifier: Apache-2.0
// operations: the operations of the CUDA backend, one file each; backend.h defines them.

#pragma once

#include "train/backend.h"

extern const struct backend backend_cuda; // cuda.cu

// elementwise.cu
void cuda_cast(struct device *, struct tensor out, struct tensor in);
void cuda_experts_cast(struct device *, struct expert_matrices out, struct expert_matrices in);
void cuda_fill(struct device *, struct tensor out, enum fill, double scale, uint64_t key);
void cuda_scale(struct device *, struct tensor x, double factor);
void cuda_add(struct device *, struct tensor sum, struct tensor a, struct tensor b);
void cuda_bias_forward(struct device *, struct tensor y, struct tensor bias);
void cuda_bias_backward(struct device *, struct tensor dbias, struct tensor dy);
void cuda_gather(struct device *, struct tensor out, struct tensor in, const int32_t *rows);
void cuda_scatter(struct device *, struct tensor out, struct tensor in, const int32_t *rows);
void cuda_dropout(struct device *, struct tensor out, struct tensor in, double rate, uint64_t key);

// embedding.cu
void cuda_embedding_forward(struct device *, struct tensor out, struct tensor table,
                            const int32_t *ids);
void cuda_embedding_backward(struct device *, struct tensor dtable, struct tensor dout,
                             const int32_t *ids);

// norm.cu
void cuda_norm_forward(struct device *, struct tensor sum, struct tensor out, struct tensor rms,
                       struct tensor a, struct tensor b, struct tensor weight, double offset,
                       double epsilon);
void cuda_norm_backward(struct device *, struct tensor dx, struct tensor dweight,
                        struct tensor residual, struct tensor dout, struct tensor x,
                        struct tensor rms, struct tensor weight, double offset);

// rotary.cu
void cuda_rotary(struct device *, struct tensor x, const int32_t *positions,
                 struct tensor frequencies, int64_t head_size, int direction, double scale);

// sink.cu
void cuda_sink_forward(struct device *, struct tensor out, struct tensor lse, struct tensor sinks);
void cuda_sink_backward(struct device *, struct tensor dsinks, struct tensor dout,
                        struct tensor out, struct tensor lse, struct tensor sinks);

// swiglu.cu
void cuda_swiglu_forward(struct device *, struct tensor out, struct tensor gate, struct tensor up,
                         struct tensor weight, struct swiglu);
void cuda_swiglu_backward(struct device *, struct tensor dgate, struct tensor dup,
                          struct tensor dweight, struct tensor dout, struct tensor gate,
                          struct tensor up, struct tensor weight, struct swiglu);

// experts_bias.cu
void cuda_experts_bias_forward(struct device *, struct tensor y, struct expert_matrices bias,
                               struct tensor weight, const struct routing *);
void cuda_experts_bias_backward(struct device *, struct expert_matrices dbias,
                                struct tensor dweight, struct tensor dy,
                                struct expert_matrices bias, struct tensor weight,
                                const struct routing *);

// geglu.cu
void cuda_geglu_forward(struct device *, struct tensor out, struct tensor gate, struct tensor up);
void cuda_geglu_backward(struct device *, struct tensor dgate, struct tensor dup,
                         struct tensor dout, struct tensor gate, struct tensor up);

// magnitude.cu
void cuda_row_norms(struct device *, struct tensor norms, struct tensor w, struct tensor b,
                    struct tensor a, double scale);
void cuda_magnify(struct device *, struct tensor y, struct tensor m, struct tensor norms);
void cuda_magnify_backward(struct device *, struct tensor dm, struct tensor dy, struct tensor y,
                           struct tensor m, struct tensor norms);

// route.cu
void cuda_route_forward(struct device *, struct tensor probabilities, struct tensor weights,
                        const struct routing *, struct tensor load, struct tensor logits);
void cuda_route_backward(struct device *, struct tensor dlogits, struct tensor dweights,
                         struct tensor probabilities, struct tensor weights, const struct routing *,
                         struct tensor dprobabilities);
void cuda_combine(struct device *, struct tensor out, struct tensor in, const struct routing *);
void cuda_balance(struct device *, struct tensor loss, struct tensor dprobabilities,
                  struct tensor load, double decisions, double scale, double gradient_scale);

// experts.cu
void cuda_experts_nt(struct device *, struct tensor c, struct tensor a, struct expert_matrices b,
                     const struct routing *, double alpha, double beta);
void cuda_experts_nn(struct device *, struct tensor c, struct tensor a, struct expert_matrices b,
                     const struct routing *, double alpha, double beta);
void cuda_experts_tn(struct device *, struct expert_matrices c, struct tensor a, struct tensor b,
                     const struct routing *, double alpha, double beta);

// offload.cu
enum err cuda_pin(struct device *, void **out, int64_t bytes);
void cuda_unpin(struct device *, void *host, int64_t bytes);
void cuda_copy_out(struct device *, int lane, void *host, const void *at, int64_t bytes);
void cuda_copy_in(struct device *, int lane, void *at, const void *host, int64_t bytes);
void cuda_copied(struct device *, int lane);

// product.cu
void cuda_tune(struct device *, enum tuning);
bool cuda_tune_some(struct device *, void *room, int64_t bytes, double seconds);
void cuda_tuned_about(struct device *, char out[TUNED_ABOUT]);
int64_t cuda_tuned_list(struct device *, struct tuned *out, int64_t most);
void cuda_tuned_take(struct device *, const struct tuned *, int64_t count);
void cuda_matmul_nt(struct device *, struct tensor c, struct tensor a, struct tensor b,
                    double alpha, double beta);
void cuda_matmul_nn(struct device *, struct tensor c, struct tensor a, struct tensor b,
                    double alpha, double beta);
void cuda_matmul_tn(struct device *, struct tensor c, struct tensor a, struct tensor b,
                    double alpha, double beta);
void cuda_matmul_scaled(struct device *, struct tensor c, struct tensor a, struct tensor a_scales,
                        struct tensor b, struct tensor b_scales, double beta);

// adapter.cu
void cuda_adapters_backward(struct device *, struct tensor dz, const struct adapter_part *,
                            int count, struct tensor dy, struct tensor b, struct tensor z,
                            double scale);

// fp8.cu
void cuda_quantize_adapters(struct device *, struct tensor codes, struct tensor shifts,
                            struct tensor b, bool transposed, struct tensor scales);
void cuda_quantize_inputs(struct device *, struct tensor codes, struct tensor scales,
                          struct tensor x, struct tensor z, struct tensor shifts);
void cuda_quantize_rows(struct device *, struct tensor codes, struct tensor scales,
                        struct tensor in, bool transposed);

// loss.cu
void cuda_cross_entropy(struct device *, struct tensor losses, struct tensor logits,
                        const int32_t *targets, double scale);
void cuda_capped_cross_entropy(struct device *, struct tensor losses, struct tensor logits,
                               const int32_t *targets, double scale, double cap);
void cuda_weigh_rows(struct device *, struct tensor x, struct tensor weights);

// nf4.cu
void cuda_quantize(struct device *, const struct quantized *out, struct tensor in, void *workspace);
void cuda_dequantize(struct device *, struct tensor out, const struct quantized *in);
void cuda_experts_dequantize(struct device *, struct expert_matrices out,
                             const struct quantized *in, int64_t step);

// optimizer.cu
void cuda_sum(struct device *, struct tensor sum, struct tensor in);
void cuda_sum_squares(struct device *, struct tensor sum, struct tensor in);
void cuda_clip(struct device *, struct tensor scale, struct tensor squared_norm, double limit);
void cuda_adamw(struct device *, struct tensor weight, struct tensor m, struct tensor v,
                struct tensor gradient, const struct adamw *, struct tensor scale);
void cuda_sgd(struct device *, struct tensor weight, struct tensor moment, struct tensor gradient,
              double rate, double momentum, double decay, struct tensor scale);

// nccl.cu
enum err cuda_group_id(struct device *, struct group_id *out);
enum err cuda_group_open(struct device *, const struct group_id *, int rank, int size);
void cuda_group_close(struct device *);
void cuda_all_reduce(struct device *, struct tensor);
void cuda_reduce_scatter(struct device *, struct tensor, int64_t part);
void cuda_all_gather(struct device *, struct tensor, const void *own, int64_t part);
void cuda_broadcast(struct device *, struct tensor, int root);
void cuda_group_wait(struct device *);
struct group_seconds cuda_group_seconds(struct device *);
