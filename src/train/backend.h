// SPDX-License-Identifier: Apache-2.0
// backend: the operations that a device must offer for training, as a table of functions.
//
// Outputs come first, then inputs, then numbers. Tensors carry their element type, so an operation
// has one signature. Outputs marked "+=" are added to. Every address is on the device unless it is
// marked as the host's. An operation is queued and returns nothing; the first error on a device is
// stored and returned by sync(), once per step.
//
//     struct device device;
//     TRY(backend_cpu.open(&device, 0));
//     device.backend->norm_forward(&device, sum, out, rms, a, b, weight, epsilon);
//     TRY(device.backend->sync(&device));
//     device.backend->close(&device);
//
// The files of the CPU backend are the reference: plain loops in the order of the formula. Letters
// of shapes: T tokens, C width, H heads, K key/value heads, D head size, F feed-forward width, V
// vocabulary. Where a tensor "may be none", pass a zeroed struct.

#pragma once

#include "base/error.h"
#include "train/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { BACKEND_VERSION = 8 }; // of this table, for libraries loaded at run time

struct backend;

struct device {
    const struct backend *backend;
    int index;
    int workers;             // threads that share an operation
    int64_t allocated_bytes; // by allocate(), at present
    int64_t total_bytes;     // of memory; 0: unknown
    int64_t overhead_bytes;  // used by driver and libraries, not by allocate()
    int64_t chunk_bytes;     // of logits that should exist at once
    int64_t padding;         // ranks are rounded up to this many elements, so that rows are aligned
    char name[64];           // "NVIDIA H200"
    void *own;               // state of the backend
};

// A document in a micro-batch: its tokens attend only to each other.
struct span {
    int32_t start, size;
};

struct attention {
    const struct span *spans;      // the documents, in order and without gaps
    const struct span *host_spans; // the same on the host
    int64_t span_count, longest;   // of this micro-batch; in attention_bytes() the maximum
    int64_t tokens;
    int64_t heads, kv_heads, head_size;
    int64_t window; // keys that a token attends to, including itself; 0: all before it
    bool any_order; // backward may add in any order: faster, but not the same bits twice
    double scale;   // of q kᵀ; 0: 1 / √D
    double cap;     // scores x become cap · tanh(x / cap); 0: they stay
};

struct adamw {
    double rate, beta1, beta2, epsilon, decay;
    int64_t step;  // 1 for the first
    uint64_t key;  // of the stochastic rounding of bf16 values …
    int64_t first; // … which depends on a value's position, counted from this one
};

// A matrix in NF4 (train/nf4.h): codes and a scale per block, in fp32 or, if nested, as a byte that
// means levels[byte] · nested[block / nested_block] + offset. In MXFP4 (train/mxfp4.h) the byte
// means a power of two, and there are no other arrays.
struct quantized {
    uint8_t *codes; // two per byte, the even element in the high half; NULL: none
    float *scales;  // NULL: they are nested
    uint8_t *nested_codes;
    float *nested, *levels, *offset;
    int64_t block, nested_block;
    bool is_mxfp4;
};

// One of the adapters of a projection.
struct adapter_part {
    int64_t first, first_z; // its first column in the output and in z
    struct tensor db;       // (its columns of the output, its rank)
};

// The experts that a router chose for each token, and the rows that experts compute: a copy of the
// token for each of its experts, sorted by expert, and by token within an expert.
struct routing {
    int64_t chosen;   // experts of a token, k
    int32_t *experts; // (T · k) of token t: from t · k
    int32_t *slots;   // (T · k) the row of each choice
    int32_t *rows;    // (T · k) the token of each row
    int32_t *counts;  // (E) rows of each expert
    bool normalises;  // the weights of a token's experts add up to 1
};

// A matrix of each of some neighbouring experts, all of one shape and in equal distances.
struct expert_matrices {
    struct tensor each;   // that of expert `first`
    int64_t step;         // elements from an expert's matrix to the next expert's
    int64_t first, count; // which experts
};

enum tuning { TUNE_OFF, TUNE_NOW, TUNE_LATER };

// What tuning chose for one operation: which, and how. Only the backend knows what the bytes mean.
enum { TUNED_KEY = 80, TUNED_CHOICE = 64, TUNED_ABOUT = 256 };
struct tuned {
    unsigned char key[TUNED_KEY], choice[TUNED_CHOICE];
};

// What ranks share to find each other, drawn by one of them.
struct group_id {
    char bytes[128];
};

// What ranks spent with each other: `waited` of it while computation stood still.
struct group_seconds {
    double all, waited;
};

// Of the gate of a feed-forward network: x · sigmoid(x), or x · Φ(x), Φ of the normal distribution.
enum activation { ACTIVATION_SILU, ACTIVATION_GELU };

// Of SwiGLU: out = g · σ(slope · g) · (u + offset), where g is cut off above the limit and u above
// and below it. Most models have a slope of 1 and neither limit nor offset.
struct swiglu {
    double slope, offset;
    double limit; // 0: none
};

enum fill { FILL_CONSTANT, FILL_NORMAL, FILL_UNIFORM };

struct backend {
    const char *name;
    int (*devices)(void);
    enum err (*open)(struct device *, int index);
    void (*close)(struct device *);
    enum err (*sync)(struct device *); // waits; returns the first error since the last call
    enum err (*allocate)(struct device *, void **out, int64_t bytes); // zeroed
    void (*release)(struct device *, void *at, int64_t bytes);
    void (*upload)(struct device *, void *out, const void *host, int64_t bytes);
    void (*download)(struct device *, void *host, const void *in, int64_t bytes); // waits

    // Host memory that copies below need, and copies that run beside the operations: one begins
    // after what was queued before it, and what is queued after copied() waits for the last of that
    // lane. Lanes are 0 and 1.
    enum err (*pin)(struct device *, void **out, int64_t bytes);
    void (*unpin)(struct device *, void *host, int64_t bytes);
    void (*copy_out)(struct device *, int lane, void *host, const void *at, int64_t bytes);
    void (*copy_in)(struct device *, int lane, void *at, const void *host, int64_t bytes);
    void (*copied)(struct device *, int lane);

    void (*zero)(struct device *, struct tensor out);
    void (*cast)(struct device *, struct tensor out, struct tensor in); // to out's element type

    // Fills with the constant scale, or with samples: normal with that standard deviation, uniform
    // in ±scale. A sample depends only on key and position (row · columns + column).
    void (*fill)(struct device *, struct tensor out, enum fill, double scale, uint64_t key);

    int64_t (*used_bytes)(struct device *); // of the device's memory, by all processes; 0: unknown

    // May be NULL. With TUNE_NOW a product times its algorithms and remembers the fastest of those
    // that give the same bits; with TUNE_LATER, or where it is all zeros, it only remembers that
    // this is still to be done. Its output holds the product for beta = 0.
    void (*tune)(struct device *, enum tuning);

    // NULL where tune is. Goes on with what is still to be done, for about so many seconds, in a
    // room whose content is lost; false: nothing is left. What does not fit there stays as it is.
    bool (*tune_some)(struct device *, void *room, int64_t bytes, double seconds);

    // NULL where tune is. What was chosen so far, for other processes (train/files/tuned.h): on a
    // device of the same description they may take it, and need not tune what it covers.
    void (*tuned_about)(struct device *, char out[TUNED_ABOUT]); // card, driver, libraries
    int64_t (*tuned_list)(struct device *, struct tuned *out, int64_t most);
    void (*tuned_take)(struct device *, const struct tuned *, int64_t count);

    // out[t] = table[ids[t]]; backward adds dout[t] to row ids[t], in the order of t.
    void (*embedding_forward)(struct device *, struct tensor out, struct tensor table,
                              const int32_t *ids);
    void (*embedding_backward)(struct device *, struct tensor dtable /* += */, struct tensor dout,
                               const int32_t *ids);

    // sum = a + b (b may be none, then sum too); rms[t] = 1 / √(mean sum² + ε);
    // out = sum · rms · (offset + weight). (T, C); rms (T, 1), weight (1, C). If the weight is
    // narrower, each row is cut into pieces of its width, each with a norm of its own, and rms is
    // (T, pieces).
    void (*norm_forward)(struct device *, struct tensor sum, struct tensor out, struct tensor rms,
                         struct tensor a, struct tensor b, struct tensor weight, double offset,
                         double epsilon);
    // dx = residual + Jᵀ dout. residual and dweight may be none; dx may be residual or dout.
    void (*norm_backward)(struct device *, struct tensor dx, struct tensor dweight /* += */,
                          struct tensor residual, struct tensor dout, struct tensor x,
                          struct tensor rms, struct tensor weight, double offset);
    // sum = a + b.
    void (*add)(struct device *, struct tensor sum, struct tensor a, struct tensor b);

    // RoPE: rotates the pairs (i, i + R/2) of the first R columns of each head by position ·
    // frequency[i], and multiplies them by scale, in place. x is (T, heads · D), frequencies
    // (1, R/2) in fp64; direction −1 rotates back: the backward pass.
    void (*rotary)(struct device *, struct tensor x, const int32_t *positions,
                   struct tensor frequencies, int64_t head_size, int direction, double scale);

    // softmax(scale · q kᵀ) v for each document and head, causal. q, out (T, H · D), k, v (T, K ·
    // D); lse (T, H), dense, is the log-sum-exp of each row. Call attention_begin() once per
    // micro-batch, before the others; what it prepares in the workspace is valid until the next
    // call.
    int64_t (*attention_bytes)(struct device *, const struct attention *, enum dtype);
    void (*attention_begin)(struct device *, const struct attention *, void *workspace);
    void (*attention_forward)(struct device *, struct tensor out, struct tensor lse,
                              struct tensor q, struct tensor k, struct tensor v,
                              const struct attention *, void *workspace);
    void (*attention_backward)(struct device *, struct tensor dq, struct tensor dk,
                               struct tensor dv, struct tensor dout, struct tensor out,
                               struct tensor lse, struct tensor q, struct tensor k, struct tensor v,
                               const struct attention *, void *workspace);

    // A sink of each head takes part in the softmax of attention's rows, and has no value. After
    // attention_forward(): out = out · σ(lse − sink), lse = log(eˡˢᵉ + eˢⁱⁿᵏ), in place, with which
    // attention_backward() is right as it is. sinks and dsinks are (1, H).
    void (*sink_forward)(struct device *, struct tensor out, struct tensor lse,
                         struct tensor sinks);
    void (*sink_backward)(struct device *, struct tensor dsinks /* += */, struct tensor dout,
                          struct tensor out, struct tensor lse, struct tensor sinks);

    // out = weight · SwiGLU(gate, up), (T, F); weight (T, 1) may be none: 1. dgate and dup may be
    // gate and up, or dout; dweight is none where weight is.
    void (*swiglu_forward)(struct device *, struct tensor out, struct tensor gate, struct tensor up,
                           struct tensor weight, struct swiglu);
    void (*swiglu_backward)(struct device *, struct tensor dgate, struct tensor dup,
                            struct tensor dweight, struct tensor dout, struct tensor gate,
                            struct tensor up, struct tensor weight, struct swiglu);

    // What only some models need. out = gelu(gate) · up with GELU in its form with tanh, places as
    // above; x = factor · x; and the loss of soft caps (loss.c).
    void (*geglu_forward)(struct device *, struct tensor out, struct tensor gate, struct tensor up);
    void (*geglu_backward)(struct device *, struct tensor dgate, struct tensor dup,
                           struct tensor dout, struct tensor gate, struct tensor up);
    void (*scale)(struct device *, struct tensor x, double factor);
    void (*capped_cross_entropy)(struct device *, struct tensor losses, struct tensor logits,
                                 const int32_t *targets, double scale, double cap);

    // The router of a mixture of experts. probabilities = softmax(logits), (T, E); the k largest
    // are chosen, of equal ones the first, and are the weights of the rows, (T · k, 1). load (2, E)
    // in fp64, which may be none, adds up rows and probabilities per expert.
    void (*route_forward)(struct device *, struct tensor probabilities, struct tensor weights,
                          const struct routing *, struct tensor load /* += */,
                          struct tensor logits);
    // dprobabilities (1, E) in fp64 is added to the gradient of each token's; it may be none.
    void (*route_backward)(struct device *, struct tensor dlogits, struct tensor dweights,
                           struct tensor probabilities, struct tensor weights,
                           const struct routing *, struct tensor dprobabilities);
    // out[t] = Σ in[row] over the rows of token t, in the order of its experts' choice.
    void (*combine)(struct device *, struct tensor out /* (T, C) */, struct tensor in,
                    const struct routing *);
    // loss += scale · E · Σ share of rows · mean probability, over experts; and its gradient by one
    // token's probability, times gradient_scale. load as above, of so many router decisions.
    void (*balance)(struct device *, struct tensor loss /* += */, struct tensor dprobabilities,
                    struct tensor load, double decisions, double scale, double gradient_scale);

    // c = alpha · a × b + beta · c. Element types may differ; sums are fp32, or fp64 of fp64.
    void (*matmul_nt)(struct device *, struct tensor c /* (M, N) */, struct tensor a /* (M, K) */,
                      struct tensor b /* (N, K) */, double alpha, double beta);
    void (*matmul_nn)(struct device *, struct tensor c /* (M, N) */, struct tensor a /* (M, K) */,
                      struct tensor b /* (K, N) */, double alpha, double beta);
    void (*matmul_tn)(struct device *, struct tensor c /* (M, N) */, struct tensor a /* (K, M) */,
                      struct tensor b /* (K, N) */, double alpha, double beta);

    // The same products of each expert's rows with the expert's own matrix: of c (N, out) and a
    // (N, in), sorted by expert as the routing says, the rows of experts that b leaves out stay
    // untouched. tn sums over the rows of an expert: without any, c becomes beta · c.
    void (*experts_nt)(struct device *, struct tensor c, struct tensor a,
                       struct expert_matrices b /* (out, in) */, const struct routing *,
                       double alpha, double beta);
    void (*experts_nn)(struct device *, struct tensor c, struct tensor a,
                       struct expert_matrices b /* (in, out) */, const struct routing *,
                       double alpha, double beta);
    void (*experts_tn)(struct device *, struct expert_matrices c /* (M, N) */,
                       struct tensor a /* (rows, M) */, struct tensor b /* (rows, N) */,
                       const struct routing *, double alpha, double beta);

    // y = y + weight · bias of the row's expert; y (N, out), weight (N, 1), which may be none: 1,
    // bias of all experts, (1, out) each. Backward: dbias += Σ weight · dy, if it is not none, and
    // dweight += dy · bias, if there is a weight.
    void (*experts_bias_forward)(struct device *, struct tensor y /* += */,
                                 struct expert_matrices bias, struct tensor weight,
                                 const struct routing *);
    void (*experts_bias_backward)(struct device *, struct expert_matrices dbias /* += */,
                                  struct tensor dweight /* += */, struct tensor dy,
                                  struct expert_matrices bias, struct tensor weight,
                                  const struct routing *);

    // out = in, or zeros if in.each is none, for each expert of out.
    void (*experts_cast)(struct device *, struct expert_matrices out, struct expert_matrices in);

    // Backward through the second factors of all adapters of a projection: dz = scale · dy B, and
    // for each adapter dB += dyᵀ z over its own columns. dy (T, out), z and dz (T, ranks); b
    // (out, ranks) must be zero outside of its diagonal blocks.
    void (*adapters_backward)(struct device *, struct tensor dz, const struct adapter_part *,
                              int count, struct tensor dy, struct tensor b, struct tensor z,
                              double scale);

    // Magnitudes of outputs (DoRA). norms_j = ‖w_j + scale · (b a)_j‖ of rows, (1, out). Columns of
    // y become y_j · m_j / norms_j. Backward, dy becomes the gradient of y, which is given as it
    // was before: dm_j += Σ dy_j · y_j / norms_j.
    void (*row_norms)(struct device *, struct tensor norms, struct tensor w /* (out, in) */,
                      struct tensor b /* (out, rank) */, struct tensor a /* (rank, in) */,
                      double scale);
    void (*magnify)(struct device *, struct tensor y, struct tensor m, struct tensor norms);
    void (*magnify_backward)(struct device *, struct tensor dm /* += */, struct tensor dy,
                             struct tensor y, struct tensor m, struct tensor norms);

    // Weights in fp8 with a scale per row: scale = largest magnitude / 448, code = value / scale.
    // scales (rows, 1) in fp32, codes (rows, columns). Transposed: codes are (columns of in, rows
    // of in). Magnitudes count as at least 2^-10, so that adapters never dwarf a row of weights.
    void (*quantize_rows)(struct device *, struct tensor codes, struct tensor scales,
                          struct tensor in, bool transposed);
    // Adapters within a product of fp8: z bᵀ is computed by further columns of the codes of x and
    // of w. A number becomes the sum of two codes, high and low, of which low · low is left out:
    //
    //     x  │ x / scale │ high(z') │ low(z')  │ high(z') │ zeros │   z' = z · shift / scale
    //     w  │ w / scale │ high(b') │ high(b') │ low(b')  │ zeros │   b' = b / shift / scale
    //
    // Scales are those of the rows: with adapters, the largest of x and of z · shift gives that of
    // x. A shift is a power of two for each column of z, which brings the largest b' to 128 … 256.
    //
    // quantize_adapters: the further columns of w, (N, 3 R) without zeros, and the shifts (1, R) in
    // fp32, from b (N, R), or (R, N) if transposed. quantize_inputs: all columns of x; z may have
    // none.
    void (*quantize_adapters)(struct device *, struct tensor codes, struct tensor shifts,
                              struct tensor b, bool transposed, struct tensor scales);
    void (*quantize_inputs)(struct device *, struct tensor codes, struct tensor scales,
                            struct tensor x, struct tensor z, struct tensor shifts);
    // c = (a · a_scales) × (b · b_scales)ᵀ + beta · c, with fp8 codes a (M, K) and b (N, K).
    void (*matmul_scaled)(struct device *, struct tensor c, struct tensor a, struct tensor a_scales,
                          struct tensor b, struct tensor b_scales, double beta);

    void (*bias_forward)(struct device *, struct tensor y /* += */, struct tensor bias);
    void (*bias_backward)(struct device *, struct tensor dbias /* += */, struct tensor dy);

    // gather: out[i] = in[rows[i]]. scatter: out[rows[i]] = in[i], into a zeroed tensor.
    void (*gather)(struct device *, struct tensor out, struct tensor in, const int32_t *rows);
    void (*scatter)(struct device *, struct tensor out, struct tensor in, const int32_t *rows);

    // losses[i] = log Σ exp logits[i] − logits[i][targets[i]]; logits become their gradient times
    // scale. logits (n, V) in any type, losses (n, 1) in fp32 or fp64.
    void (*cross_entropy)(struct device *, struct tensor losses, struct tensor logits,
                          const int32_t *targets, double scale);
    // x[i] = weights[i] · x[i], (n, C); weights (n, 1) in fp32 or fp64.
    void (*weigh_rows)(struct device *, struct tensor x, struct tensor weights);

    // Keeps an element with probability 1 − rate and divides it by that. The mask depends only on
    // key and position, so the backward pass recomputes it.
    void (*dropout)(struct device *, struct tensor out, struct tensor in, double rate,
                    uint64_t key);

    // To and from NF4 or MXFP4. out->codes … out->offset point to allocated memory; workspace has
    // room for a float per block. Rows of in and out may be strided; the codes are of the dense
    // matrix.
    void (*quantize)(struct device *, const struct quantized *out, struct tensor in,
                     void *workspace);
    void (*dequantize)(struct device *, struct tensor out, const struct quantized *in);
    // The same for each expert of out: `in` is that of the first one, and every array of the next
    // expert's lies `step` bytes later.
    void (*experts_dequantize)(struct device *, struct expert_matrices out,
                               const struct quantized *in, int64_t step);

    // Sums are (1, 1) in fp64 and always added in the same order.
    void (*sum)(struct device *, struct tensor sum /* += */, struct tensor in);
    void (*sum_squares)(struct device *, struct tensor sum /* += */,
                        struct tensor in); // Σ x², dense
    // scale = limit / √squared_norm if that is below 1 and limit above 0, otherwise 1; both are
    // (1, 1).
    void (*clip)(struct device *, struct tensor scale, struct tensor squared_norm, double limit);

    // Dense tensors of one size; weights may be fp32, fp64 or bf16. The gradient is multiplied by
    // scale, (1, 1) in fp64.
    void (*adamw)(struct device *, struct tensor weight, struct tensor m, struct tensor v,
                  struct tensor gradient, const struct adamw *, struct tensor scale);
    void (*sgd)(struct device *, struct tensor weight, struct tensor moment /* may be none */,
                struct tensor gradient, double rate, double momentum, double decay,
                struct tensor scale);

    // Between the devices of several ranks; all are NULL where the ranks must go through the host
    // (train/group). One rank draws the id, and every rank opens with it. Collectives run in place,
    // on a stream of their own, after what was queued before them; group_wait() lets operations
    // that are queued later wait for them. All parts but the last ones have `part` elements; own is
    // the rank's part, in the tensor or elsewhere.
    enum err (*group_id)(struct device *, struct group_id *out);
    enum err (*group_open)(struct device *, const struct group_id *, int rank, int size);
    void (*group_close)(struct device *);
    void (*all_reduce)(struct device *, struct tensor);
    void (*reduce_scatter)(struct device *, struct tensor, int64_t part);
    void (*all_gather)(struct device *, struct tensor, const void *own, int64_t part);
    void (*broadcast)(struct device *, struct tensor, int root);
    void (*group_wait)(struct device *);
    struct group_seconds (*group_seconds)(struct device *); // since the last call; waits
};

extern const struct backend backend_cpu;

#ifdef __cplusplus
}
#endif
