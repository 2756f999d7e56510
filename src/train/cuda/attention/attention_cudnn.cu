// SPDX-License-Identifier: Apache-2.0
// Attention as a cuDNN graph; see attention_cudnn.h. The pattern of nodes is the one that NVIDIA's
// cudnn-frontend emits for flash attention with a padding mask, a causal mask and ragged rows:
// other patterns compute the same and are not recognised.

#include "train/cuda/attention/attention_cudnn.h"

#include <cudnn.h>
#include <dlfcn.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X)                 \
    X(cudnnGetVersion)               \
    X(cudnnGetErrorString)           \
    X(cudnnGetLastErrorString)       \
    X(cudnnCreate)                   \
    X(cudnnDestroy)                  \
    X(cudnnSetStream)                \
    X(cudnnBackendCreateDescriptor)  \
    X(cudnnBackendDestroyDescriptor) \
    X(cudnnBackendFinalize)          \
    X(cudnnBackendSetAttribute)      \
    X(cudnnBackendGetAttribute)      \
    X(cudnnBackendExecute)

struct cudnn {
    void *library;
    cudnnHandle_t handle;
#define X(name) decltype(&::name) name;
    FUNCTIONS(X)
#undef X
};

enum { MOST_NODES = 64, MOST_DESCRIPTORS = 4 * MOST_NODES, MOST_CONFIGS = 16 };

// The tensors outside of the graph, by their cuDNN ids.
enum tensor_id {
    Q = 1,
    K,
    V,
    OUT,
    LSE,
    DOUT,
    DQ,
    DK,
    DV,
    RAGGED, // tensors before this have offsets, with the id OFFSETS + their own id
    SUMS = RAGGED,
    DQ_SUMS,
    QUERIES, // sizes of documents
    KEYS,
    SCALE,
    LOWEST,
    ONE,
    OFFSETS,
    INNER = OFFSETS + RAGGED, // ids from here on are inside the graph
};

struct cudnn_plan {
    cudnnBackendDescriptor_t plan;
    int64_t workspace, sums; // bytes: cuDNN's, and Σ dout · out after them …
    int64_t dq_sums;         // … and the queries' gradients, zeroed; 0: order of sums is fixed
    bool backward, masked;
    float lowest, unity;
};

// --- descriptors ---------------------------------------------------------------

// A graph under construction. After the first failure nothing more is done.
struct graph {
    struct cudnn *cudnn;
    char *note;
    bool failed;
    int64_t next; // id of the next tensor inside the graph
    cudnnBackendDescriptor_t made[MOST_DESCRIPTORS], nodes[MOST_NODES];
    int made_count, node_count;
    struct cudnn_shape shape;
};

typedef cudnnBackendDescriptor_t descriptor;

static bool check(struct graph *g, cudnnStatus_t status, const char *what)
{
    char last[CUDNN_NOTE / 2] = "";
    if (status == CUDNN_STATUS_SUCCESS || g->failed)
        return !g->failed;
    g->cudnn->cudnnGetLastErrorString(last, sizeof last);
    snprintf(g->note, CUDNN_NOTE, "%s: %s (%s)", what, g->cudnn->cudnnGetErrorString(status), last);
    g->failed = true;
    return false;
}

static descriptor create(struct graph *g, cudnnBackendDescriptorType_t type, const char *what)
{
    descriptor made = NULL;
    if (g->failed)
        return NULL;
    if (g->made_count == MOST_DESCRIPTORS) {
        snprintf(g->note, CUDNN_NOTE, "%s: the graph has too many descriptors", what);
        g->failed = true;
        return NULL;
    }
    if (check(g, g->cudnn->cudnnBackendCreateDescriptor(type, &made), what))
        g->made[g->made_count++] = made;
    return made;
}

static void set(struct graph *g, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values,
                const char *what)
{
    if (!g->failed)
        check(g, g->cudnn->cudnnBackendSetAttribute(d, name, type, count, values), what);
}

static void link(struct graph *g, descriptor d, cudnnBackendAttributeName_t name, descriptor other,
                 const char *what)
{
    set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other, what);
}

static void finish(struct graph *g, descriptor d, const char *what)
{
    if (!g->failed)
        check(g, g->cudnn->cudnnBackendFinalize(d), what);
}

static void graph_free(struct graph *g, descriptor keep)
{
    for (int i = g->made_count - 1; i >= 0; i--)
        if (g->made[i] != keep)
            g->cudnn->cudnnBackendDestroyDescriptor(g->made[i]);
}

// --- tensors -------------------------------------------------------------------

struct extent {
    int64_t dims[4], strides[4];
};

static struct extent extent_of(int64_t a, int64_t b, int64_t c, int64_t d)
{
    struct extent dense = { { a, b, c, d }, { b * c * d, c * d, d, 1 } };
    return dense;
}

static struct extent transposed(struct extent e)
{
    struct extent t = { { e.dims[0], e.dims[1], e.dims[3], e.dims[2] },
                        { e.strides[0], e.strides[1], e.strides[3], e.strides[2] } };
    return t;
}

enum kind { OUTSIDE, INSIDE, BY_VALUE };

static descriptor tensor(struct graph *g, int64_t id, struct extent e, cudnnDataType_t type,
                         enum kind kind, descriptor offsets, const char *what)
{
    descriptor t = create(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what);
    cudnnBackendTensorReordering_t tiles = CUDNN_TENSOR_REORDERING_F16x16;
    int64_t alignment = 16;
    bool inside = kind == INSIDE, by_value = kind == BY_VALUE;
    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, what);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, e.dims, what);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, e.strides, what);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, what);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, what);
    set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inside, what);
    set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value, what);
    if (offsets)
        link(g, t, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, offsets, what);
    if (id == DQ_SUMS)
        set(g, t, CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, &tiles,
            what);
    finish(g, t, what);
    return t;
}

static descriptor inner(struct graph *g, struct extent e, cudnnDataType_t type, const char *what)
{
    return tensor(g, g->next++, e, type, INSIDE, NULL, what);
}

static descriptor value(struct graph *g, enum tensor_id id, const char *what)
{
    return tensor(g, id, extent_of(1, 1, 1, 1), CUDNN_DATA_FLOAT, BY_VALUE, NULL, what);
}

static descriptor offsets_of(struct graph *g, enum tensor_id id, const char *what)
{
    if (g->shape.even)
        return NULL;
    return tensor(g, OFFSETS + id, extent_of(g->shape.documents + 1, 1, 1, 1), CUDNN_DATA_INT64,
                  OUTSIDE, NULL, what);
}

// Heads of rows with that stride, one document after the other: (document, head, token, D).
static struct extent rows_of(const struct cudnn_shape *s, int64_t heads, int64_t stride)
{
    struct extent e = { { s->documents, heads, s->length, s->head_size },
                        { s->length * stride, s->head_size, stride, 1 } };
    return e;
}

static descriptor rows(struct graph *g, enum tensor_id id, struct extent e, const char *what)
{
    return tensor(g, id, e, CUDNN_DATA_BFLOAT16, OUTSIDE, offsets_of(g, id, what), what);
}

static descriptor lse_of(struct graph *g)
{
    const struct cudnn_shape *s = &g->shape;
    struct extent e = { { s->documents, s->heads, s->length, 1 },
                        { s->length * s->lse_stride, 1, s->lse_stride, 1 } };
    return tensor(g, LSE, e, CUDNN_DATA_FLOAT, OUTSIDE, offsets_of(g, LSE, "lse"), "lse");
}

static struct extent square(const struct cudnn_shape *s)
{
    return extent_of(s->documents, s->heads, s->length, s->length);
}

static struct extent column(const struct cudnn_shape *s)
{
    return extent_of(s->documents, s->heads, s->length, 1);
}

// --- nodes ---------------------------------------------------------------------

static void node(struct graph *g, descriptor operation, const char *what)
{
    finish(g, operation, what);
    if (!g->failed)
        g->nodes[g->node_count++] = operation;
}

// y = mode(x, b), or with t a selection between x and b. b and t may be NULL; axis −1: none.
static void pointwise(struct graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t type,
                      int64_t axis, descriptor y, descriptor x, descriptor b, descriptor t,
                      const char *what)
{
    descriptor p = create(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
    set(g, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode, what);
    set(g, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type, what);
    if (axis >= 0)
        set(g, p, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis, what);
    finish(g, p, what);
    descriptor o = create(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what);
    link(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p, what);
    link(g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x, what);
    if (b)
        link(g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b, what);
    if (t)
        link(g, o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t, what);
    link(g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y, what);
    node(g, o, what);
}

// A new tensor of that extent in fp32: mode(x, b).
static descriptor apply(struct graph *g, cudnnPointwiseMode_t mode, struct extent e, descriptor x,
                        descriptor b, const char *what)
{
    descriptor y = inner(g, e, CUDNN_DATA_FLOAT, what);
    pointwise(g, mode, CUDNN_DATA_FLOAT, -1, y, x, b, NULL, what);
    return y;
}

// c = a × b, limited to the rows, columns and inner length of each document; NULL: no limit.
static void product(struct graph *g, descriptor c, descriptor a, descriptor b, descriptor m,
                    descriptor n, descriptor k, const char *what)
{
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    double padding = 0;
    descriptor p = create(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR, what);
    set(g, p, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, what);
    set(g, p, CUDNN_ATTR_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 1, &padding, what);
    finish(g, p, what);
    descriptor o = create(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, what);
    link(g, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a, what);
    link(g, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b, what);
    link(g, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c, what);
    link(g, o, CUDNN_ATTR_OPERATION_MATMUL_DESC, p, what);
    if (m)
        link(g, o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, m, what);
    if (n)
        link(g, o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, n, what);
    if (k)
        link(g, o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, k, what);
    node(g, o, what);
}

static void reduce(struct graph *g, cudnnReduceTensorOp_t op, descriptor y, descriptor x,
                   const char *what)
{
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    descriptor r = create(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, what);
    set(g, r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, what);
    set(g, r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op, what);
    finish(g, r, what);
    descriptor o = create(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, what);
    link(g, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, r, what);
    link(g, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x, what);
    link(g, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y, what);
    node(g, o, what);
}

static void reshape(struct graph *g, descriptor y, descriptor x, const char *what)
{
    descriptor o = create(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, what);
    link(g, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x, what);
    link(g, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y, what);
    node(g, o, what);
}

static descriptor index_of(struct graph *g, descriptor scores, int64_t axis, cudnnDataType_t type,
                           const char *what)
{
    descriptor y = inner(g, square(&g->shape), CUDNN_DATA_INT32, what);
    pointwise(g, CUDNN_POINTWISE_GEN_INDEX, type, axis, y, scores, NULL, NULL, what);
    return y;
}

static descriptor compare(struct graph *g, cudnnPointwiseMode_t mode, descriptor x, descriptor b,
                          const char *what)
{
    descriptor y = inner(g, square(&g->shape), CUDNN_DATA_BOOLEAN, what);
    pointwise(g, mode, CUDNN_DATA_BOOLEAN, -1, y, x, b, NULL, what);
    return y;
}

static descriptor choose(struct graph *g, descriptor scores, descriptor lowest, descriptor mask,
                         const char *what)
{
    descriptor y = inner(g, square(&g->shape), CUDNN_DATA_FLOAT, what);
    pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, y, scores, lowest, mask,
              what);
    return y;
}

// Scores outside of a document become the lowest number.
static descriptor mask_ends(struct graph *g, descriptor scores, descriptor queries, descriptor keys)
{
    descriptor row = index_of(g, scores, 2, CUDNN_DATA_INT32, "row index");
    descriptor col = index_of(g, scores, 3, CUDNN_DATA_INT32, "column index");
    descriptor in_row = compare(g, CUDNN_POINTWISE_CMP_LT, row, queries, "row < queries");
    descriptor in_col = compare(g, CUDNN_POINTWISE_CMP_LT, col, keys, "column < keys");
    descriptor in = compare(g, CUDNN_POINTWISE_LOGICAL_AND, in_row, in_col, "inside");
    return choose(g, scores, value(g, LOWEST, "lowest"), in, "padding mask");
}

// Scores of keys after the query become the lowest number.
static descriptor mask_later(struct graph *g, descriptor scores)
{
    descriptor row = index_of(g, scores, 2, CUDNN_DATA_FLOAT, "row index of the causal mask");
    descriptor col = index_of(g, scores, 3, CUDNN_DATA_FLOAT, "column index of the causal mask");
    descriptor in = compare(g, CUDNN_POINTWISE_CMP_GE, row, col, "row >= column");
    return choose(g, scores, value(g, LOWEST, "lowest"), in, "causal mask");
}

static descriptor masked(struct graph *g, descriptor scores, descriptor queries, descriptor keys)
{
    if (!g->shape.even)
        scores = mask_ends(g, scores, queries, keys);
    return g->shape.sees_all ? scores : mask_later(g, scores);
}

// --- the two graphs ------------------------------------------------------------

static descriptor sizes(struct graph *g, enum tensor_id id, const char *what)
{
    if (g->shape.even)
        return NULL;
    return tensor(g, id, extent_of(g->shape.documents, 1, 1, 1), CUDNN_DATA_INT32, OUTSIDE, NULL,
                  what);
}

static void forward_graph(struct graph *g)
{
    const struct cudnn_shape *s = &g->shape;
    struct extent sq = square(s), col = column(s);
    descriptor q = rows(g, Q, rows_of(s, s->heads, s->q_stride), "q");
    descriptor k = rows(g, K, transposed(rows_of(s, s->kv_heads, s->k_stride)), "k");
    descriptor v = rows(g, V, rows_of(s, s->kv_heads, s->v_stride), "v");
    descriptor out = rows(g, OUT, rows_of(s, s->heads, s->out_stride), "out");
    descriptor lse = lse_of(g);
    descriptor queries = sizes(g, QUERIES, "queries"), keys = sizes(g, KEYS, "keys");
    descriptor scores = inner(g, sq, CUDNN_DATA_FLOAT, "q k");
    product(g, scores, q, k, queries, keys, NULL, "q k");
    scores = apply(g, CUDNN_POINTWISE_MUL, sq, scores, value(g, SCALE, "scale"), "scaled");
    scores = masked(g, scores, queries, keys);

    descriptor largest = inner(g, col, CUDNN_DATA_FLOAT, "largest");
    reduce(g, CUDNN_REDUCE_TENSOR_MAX, largest, scores, "largest");
    descriptor less = apply(g, CUDNN_POINTWISE_SUB, sq, scores, largest, "scores - largest");
    descriptor e = apply(g, CUDNN_POINTWISE_EXP, sq, less, NULL, "exp");
    descriptor sum = inner(g, col, CUDNN_DATA_FLOAT, "sum");
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, sum, e, "sum");
    descriptor log = apply(g, CUDNN_POINTWISE_LOG, col, sum, NULL, "log");
    pointwise(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, -1, lse, largest, log, NULL, "lse");
    descriptor p = inner(g, sq, CUDNN_DATA_BFLOAT16, "p");
    pointwise(g, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, -1, p, e, sum, NULL, "p");
    product(g, out, p, v, queries, NULL, keys, "p v");
}

// A gradient of keys or values: per query head, then summed over the heads that share it.
static void shared_gradient(struct graph *g, enum tensor_id id, int64_t stride, descriptor square_t,
                            descriptor other, descriptor keys, descriptor queries, const char *what)
{
    const struct cudnn_shape *s = &g->shape;
    descriptor out = rows(g, id, rows_of(s, s->kv_heads, stride), what);
    if (s->heads == s->kv_heads) {
        product(g, out, square_t, other, keys, NULL, queries, what);
        return;
    }
    descriptor each = inner(g, extent_of(s->documents, s->heads, s->length, s->head_size),
                            CUDNN_DATA_BFLOAT16, what);
    product(g, each, square_t, other, keys, NULL, queries, what);
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, out, each, what);
}

static descriptor transpose(struct graph *g, descriptor x, const char *what)
{
    descriptor y = inner(g, transposed(square(&g->shape)), CUDNN_DATA_BFLOAT16, what);
    reshape(g, y, x, what);
    return y;
}

// Σ dout · out of each row, a tensor that cuDNN needs outside of the graph.
static descriptor row_sums(struct graph *g, descriptor dout, descriptor out)
{
    const struct cudnn_shape *s = &g->shape;
    int64_t n = s->length, h = s->heads, d = s->head_size;
    struct extent e = { { s->documents, h, n, d }, { h * n * d, n * d, h * d, 1 } };
    descriptor both = apply(g, CUDNN_POINTWISE_MUL, e, dout, out, "dout out");
    descriptor sum = inner(g, column(s), CUDNN_DATA_FLOAT, "sum of dout out");
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, sum, both, "sum of dout out");
    descriptor sums = tensor(g, SUMS, column(s), CUDNN_DATA_FLOAT, OUTSIDE, NULL, "sums");
    pointwise(g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, -1, sums, sum, value(g, ONE, "one"), NULL,
              "sums");
    return sums;
}

static void backward_graph(struct graph *g)
{
    const struct cudnn_shape *s = &g->shape;
    struct extent sq = square(s), kt = transposed(rows_of(s, s->kv_heads, s->k_stride));
    descriptor q = rows(g, Q, rows_of(s, s->heads, s->q_stride), "q");
    descriptor k_offsets = offsets_of(g, K, "k");
    descriptor k = tensor(g, K, kt, CUDNN_DATA_BFLOAT16, OUTSIDE, k_offsets, "k");
    descriptor v = rows(g, V, transposed(rows_of(s, s->kv_heads, s->v_stride)), "v");
    descriptor out = rows(g, OUT, rows_of(s, s->heads, s->out_stride), "out");
    descriptor dout = rows(g, DOUT, rows_of(s, s->heads, s->dout_stride), "dout");
    descriptor queries = sizes(g, QUERIES, "queries"), keys = sizes(g, KEYS, "keys");
    descriptor scale = value(g, SCALE, "scale"), sums = row_sums(g, dout, out);

    descriptor scores = inner(g, sq, CUDNN_DATA_FLOAT, "q k");
    product(g, scores, q, k, queries, keys, NULL, "q k");
    scores = apply(g, CUDNN_POINTWISE_MUL, sq, scores, scale, "scaled");
    scores = apply(g, CUDNN_POINTWISE_SUB, sq, scores, lse_of(g), "scores - lse");
    scores = masked(g, scores, queries, keys);
    descriptor p = apply(g, CUDNN_POINTWISE_EXP, sq, scores, NULL, "p");
    shared_gradient(g, DV, s->dv_stride, transpose(g, p, "p transposed"), dout, keys, queries,
                    "dv");

    descriptor ds = inner(g, sq, CUDNN_DATA_FLOAT, "dout v");
    product(g, ds, dout, v, queries, keys, NULL, "dout v");
    ds = apply(g, CUDNN_POINTWISE_SUB, sq, ds, sums, "dp - sums");
    ds = apply(g, CUDNN_POINTWISE_MUL, sq, ds, p, "times p");
    ds = apply(g, CUDNN_POINTWISE_MUL, sq, ds, scale, "ds");
    shared_gradient(g, DK, s->dk_stride, transpose(g, ds, "ds transposed"), q, keys, queries, "dk");

    descriptor k_rows = tensor(g, g->next++, transposed(kt), CUDNN_DATA_FLOAT, INSIDE, k_offsets,
                               "k transposed back");
    reshape(g, k_rows, k, "k transposed back");
    descriptor dq = rows(g, DQ, rows_of(s, s->heads, s->dq_stride), "dq");
    if (!s->any_order) {
        product(g, dq, ds, k_rows, queries, NULL, keys, "dq");
        return;
    }
    struct extent all = extent_of(s->documents, s->heads, s->length, s->head_size);
    descriptor sum = tensor(g, DQ_SUMS, all, CUDNN_DATA_FLOAT, OUTSIDE, NULL, "sums of dq");
    product(g, sum, ds, k_rows, queries, NULL, keys, "sums of dq");
    pointwise(g, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, -1, dq, sum, NULL, NULL, "dq");
}

// --- plans ---------------------------------------------------------------------

// Compiles one configuration. After a failure the next one can be tried.
static descriptor plan_of(struct graph *g, descriptor config, int64_t *workspace)
{
    descriptor plan = create(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "plan");
    set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->cudnn->handle, "plan");
    link(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config, "plan");
    finish(g, plan, "plan");
    if (!g->failed)
        check(g,
              g->cudnn->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                 CUDNN_TYPE_INT64, 1, NULL, workspace),
              "workspace of the plan");
    return g->failed ? NULL : plan;
}

// The first configuration that compiles, in the order of the heuristic.
static descriptor plan_by(struct graph *g, descriptor operations, cudnnBackendHeurMode_t mode,
                          int64_t *workspace)
{
    descriptor configs[MOST_CONFIGS], plan = NULL;
    int64_t count = 0;
    descriptor heuristic = create(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristic");
    link(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations, "heuristic");
    set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, "heuristic");
    finish(g, heuristic, "heuristic");
    for (int i = 0; i < MOST_CONFIGS; i++)
        configs[i] = create(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "configuration");
    if (!g->failed)
        check(g,
              g->cudnn->cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_CONFIGS,
                                                 &count, configs),
              "configurations");
    if (!g->failed && count == 0) {
        snprintf(g->note, CUDNN_NOTE, "the heuristic finds no engine for the graph");
        g->failed = true;
    }
    for (int64_t i = 0; i < count && !plan; i++) {
        g->failed = false;
        plan = plan_of(g, configs[i], workspace);
    }
    return plan;
}

static descriptor plan_graph(struct graph *g, int64_t *workspace)
{
    cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK };
    descriptor plan = NULL;
    descriptor operations = create(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "graph");
    set(g, operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->cudnn->handle,
        "graph");
    set(g, operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->node_count,
        g->nodes, "graph");
    finish(g, operations, "graph");
    if (g->failed)
        return NULL;
    for (int i = 0; i < 2 && !plan; i++) {
        char first[CUDNN_NOTE];
        memcpy(first, g->note, sizeof first);
        g->failed = false;
        plan = plan_by(g, operations, modes[i], workspace);
        if (i && !plan) // keep the error of the heuristic, not that of the fallback
            memcpy(g->note, first, sizeof first);
    }
    return plan;
}

struct cudnn_plan *cudnn_plan_make(struct cudnn *cudnn, const struct cudnn_shape *shape,
                                   char note[CUDNN_NOTE])
{
    struct graph *g = (struct graph *)calloc(1, sizeof *g);
    struct cudnn_plan *made = (struct cudnn_plan *)calloc(1, sizeof *made);
    int64_t workspace = 0;
    if (!g || !made) {
        snprintf(note, CUDNN_NOTE, "out of memory");
        free(g), free(made);
        return NULL;
    }
    g->cudnn = cudnn, g->note = note, g->next = INNER, g->shape = *shape;
    made->backward = shape->dq_stride != 0;
    if (made->backward)
        backward_graph(g);
    else
        forward_graph(g);
    if (!g->failed)
        made->plan = plan_graph(g, &workspace);
    graph_free(g, made->plan);
    free(g);
    if (!made->plan) {
        free(made);
        return NULL;
    }
    int64_t rows = made->backward ? shape->documents * shape->heads * shape->length : 0;
    made->workspace = (workspace + 255) / 256 * 256;
    made->sums = (rows * 4 + 255) / 256 * 256;
    made->dq_sums = shape->any_order ? (rows * shape->head_size * 4 + 255) / 256 * 256 : 0;
    made->masked = !shape->even || !shape->sees_all;
    made->lowest = -FLT_MAX, made->unity = 1;
    return made;
}

void cudnn_plan_free(struct cudnn *cudnn, struct cudnn_plan *plan)
{
    if (plan)
        cudnn->cudnnBackendDestroyDescriptor(plan->plan);
    free(plan);
}

int64_t cudnn_plan_bytes(const struct cudnn_plan *plan)
{
    return plan->workspace + plan->sums + plan->dq_sums;
}

struct pack {
    int64_t ids[INNER];
    const void *at[INNER];
    int64_t count;
};

static void put(struct pack *pack, int64_t id, const void *at)
{
    pack->ids[pack->count] = id, pack->at[pack->count++] = at;
}

static void put_rows(struct pack *pack, int64_t id, const void *at, const int64_t *offsets)
{
    put(pack, id, at);
    if (offsets)
        put(pack, OFFSETS + id, offsets);
}

static void fill(struct pack *pack, const struct cudnn_plan *plan, const struct cudnn_pointers *p,
                 char *workspace)
{
    put_rows(pack, Q, p->q, p->q_offsets);
    put_rows(pack, K, p->k, p->k_offsets);
    put_rows(pack, V, p->v, p->v_offsets);
    put_rows(pack, OUT, p->out, p->out_offsets);
    put_rows(pack, LSE, p->lse, p->lse_offsets);
    if (p->sizes)
        put(pack, QUERIES, p->sizes), put(pack, KEYS, p->key_sizes);
    put(pack, SCALE, &p->scale);
    if (plan->masked)
        put(pack, LOWEST, &plan->lowest);
    if (!plan->backward)
        return;
    put_rows(pack, DOUT, p->dout, p->dout_offsets);
    put_rows(pack, DQ, p->dq, p->dq_offsets);
    put_rows(pack, DK, p->dk, p->dk_offsets);
    put_rows(pack, DV, p->dv, p->dv_offsets);
    put(pack, SUMS, workspace + plan->workspace), put(pack, ONE, &plan->unity);
    if (plan->dq_sums)
        put(pack, DQ_SUMS, workspace + plan->workspace + plan->sums);
}

bool cudnn_run(struct cudnn *cudnn, struct cudnn_plan *plan, cudaStream_t stream,
               const struct cudnn_pointers *pointers, void *workspace, char note[CUDNN_NOTE])
{
    struct graph g = {};
    struct pack pack = {};
    g.cudnn = cudnn, g.note = note;
    fill(&pack, plan, pointers, (char *)workspace);
    descriptor d = create(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "variant pack");
    set(&g, d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pack.count, pack.at,
        "pointers");
    set(&g, d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, pack.count, pack.ids, "ids");
    set(&g, d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace, "workspace");
    finish(&g, d, "variant pack");
    if (!g.failed)
        check(&g, cudnn->cudnnSetStream(cudnn->handle, stream), "stream");
    if (!g.failed && plan->dq_sums &&
        cudaMemsetAsync((char *)workspace + plan->workspace + plan->sums, 0, (size_t)plan->dq_sums,
                        stream) != cudaSuccess) {
        snprintf(note, CUDNN_NOTE, "the sums of dq cannot be zeroed");
        g.failed = true;
    }
    if (!g.failed)
        check(&g, cudnn->cudnnBackendExecute(cudnn->handle, plan->plan, d), "run");
    graph_free(&g, NULL);
    return !g.failed;
}

// --- the library ---------------------------------------------------------------

static bool find_functions(struct cudnn *cudnn, char *note)
{
#define X(name)                                                             \
    if (!(cudnn->name = (decltype(&::name))dlsym(cudnn->library, #name))) { \
        snprintf(note, CUDNN_NOTE, "libcudnn.so.9 has no %s", #name);       \
        return false;                                                       \
    }
    FUNCTIONS(X)
#undef X
    return true;
}

// Grouped-query attention of ragged rows needs 9.6; NVIDIA's frontend refuses the backward pass of
// 9.10.0 and 9.10.1.
static bool is_usable(struct cudnn *cudnn, char *note)
{
    int64_t version = cudnn_version(cudnn);
    if (version >= 90600 && version != 91000 && version != 91001)
        return true;
    snprintf(note, CUDNN_NOTE, "cuDNN %d.%d.%d is too old or has known errors",
             (int)(version / 10000), (int)(version / 100 % 100), (int)(version % 100));
    return false;
}

struct cudnn *cudnn_open(char note[CUDNN_NOTE])
{
    struct cudnn *cudnn = (struct cudnn *)calloc(1, sizeof *cudnn);
    if (!cudnn)
        return NULL;
    cudnn->library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!cudnn->library)
        snprintf(note, CUDNN_NOTE, "%s", dlerror());
    if (!cudnn->library || !find_functions(cudnn, note) || !is_usable(cudnn, note))
        return cudnn_close(cudnn), (struct cudnn *)NULL;
    cudnnStatus_t status = cudnn->cudnnCreate(&cudnn->handle);
    if (status == CUDNN_STATUS_SUCCESS)
        return cudnn;
    snprintf(note, CUDNN_NOTE, "cudnnCreate: %s", cudnn->cudnnGetErrorString(status));
    cudnn_close(cudnn);
    return NULL;
}

void cudnn_close(struct cudnn *cudnn)
{
    if (!cudnn)
        return;
    if (cudnn->handle)
        cudnn->cudnnDestroy(cudnn->handle);
    if (cudnn->library)
        dlclose(cudnn->library);
    free(cudnn);
}

int64_t cudnn_version(const struct cudnn *cudnn)
{
    return (int64_t)cudnn->cudnnGetVersion();
}
