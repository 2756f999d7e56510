// SPDX-License-Identifier: Apache-2.0
// Attention: chooses between cuDNN and our own kernels, and lays out their workspace.
//
// On compute capability 9.0 a kernel of our own does the backward pass of heads of 128 in bf16
// (attention_hopper.h): it takes all documents at once, whatever their lengths, from two lists that
// are made and uploaded as a micro-batch begins. What follows is for everything else.
//
// A cuDNN plan is compiled for a number of documents of a maximal length. The forward pass takes
// the whole micro-batch as one group if it can. The backward pass needs a workspace of length²
// elements per document and head (base/attention_workspace.h), so documents are grouped by length
// class, a power of two:
//
//     documents of the micro-batch    │ 900 │ 70 │ 3000 │ 110 │ 1000 │
//     group 0, forward pass           │ 900 │ 70 │ 3000 │ 110 │ 1000 │ ∅ │ ∅ │ ∅ │   length 4096
//     group 1, backward pass          │ 70 │ 110 │                                length  128
//     group 2                         │ 900 │ 1000 │                              length 1024
//     group 3                         │ 3000 │                                    length 4096
//
// A group has as many documents as the workspace has room for, or some heads of one document, or
// the parts of one that is cut. ∅ is an empty document that fills a plan up. An even group has
// documents of exactly its length, side by side, as rows that are full have: cuDNN is faster then.
// A micro-batch without a plan, or without room for one, is left to the built-in kernels, which
// write the same lse; and so is a layer that has a window shorter than the longest document, or
// soft caps.

#include "train/cuda/cuda.h"

#include "base/attention_workspace.h"
#include "train/cuda/attention/attention_cudnn.h"
#include "train/cuda/attention/attention_hopper.h"
#include "train/cuda/attention/attention_kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_PLANS = 128,
    MOST_GROUPS = 1024, // of documents, in a micro-batch
    MOST_STRIDES = 6,   // different strides of rows
    SPARSE = 64,        // up to so many tokens per document the built-in kernels are as fast
    WASTE = 16,         // padded places per token that a plan may have
    ALIGNMENT = 256
};

// Documents that one plan computes: entries first … first + documents − 1. The entry after them is
// only there for its offset.
struct group {
    int64_t first, documents, length;
    int64_t kv_heads;                  // at once
    enum { EITHER, WHOLE, PARTS } use; // a document that is cut: forward whole, backward in parts
    bool even;                         // set as it is closed
};

struct plan {
    struct cudnn_shape shape;
    struct cudnn_plan *made; // NULL: cuDNN cannot
};

struct offsets {
    int64_t stride, *at; // of each entry, in elements
};

struct cuda_attention {
    struct cudnn *cudnn; // NULL: built-in kernels only
    char name[32], note[CUDNN_NOTE];
    struct plan plans[MOST_PLANS];
    int plan_count;
    int64_t room; // workspace bytes for cuDNN or our own kernel, from attention_bytes()

    struct hopper_block *blocks; // of both lists of a micro-batch, on the host
    int64_t block_room;          // of either list
    struct hopper_lists lists;   // on the device; no keys: our own kernel is not used
    int list_heads;              // key/value heads at once
    int32_t *late;               // on the host; NULL: there is no such kernel

    // Of the current micro-batch. Group 0 is all of it, for the forward pass.
    struct group groups[MOST_GROUPS];
    int group_count; // 0: cuDNN is not used
    struct span *entries;
    int64_t entry_count, entry_most, entry_room; // most: capacity of the workspace
    struct offsets offsets[MOST_STRIDES];
    int stride_count;
};

// --- workspace -----------------------------------------------------------------

struct layout {
    int32_t *low, *high;
    float *delta;
    struct span *entries;
    int32_t *sizes;
    int64_t *offsets;
    struct hopper_block *keys, *queries;
    char *room;
    int64_t bytes;
};

// Entries for group 0 and for the groups by class; one group per class may be nearly empty.
static int64_t entries_most(const struct attention *a)
{
    return 3 * a->span_count + a->tokens / 8 + 2 * MOST_GROUPS;
}

// Of either list, for micro-batches that are not sparse.
static int64_t blocks_most(const struct attention *a)
{
    return hopper_most(a->tokens, a->tokens / SPARSE + 1);
}

static char *take(char **next, int64_t bytes)
{
    char *at = *next;
    *next += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static struct layout layout_of(const struct attention *a, int64_t entries, int64_t room,
                               void *workspace)
{
    struct layout at;
    char *next = (char *)workspace;
    at.low = (int32_t *)take(&next, a->tokens * 4);
    at.high = (int32_t *)take(&next, a->tokens * 4);
    at.delta = (float *)take(&next, a->tokens * a->heads * 4);
    at.entries = (struct span *)take(&next, entries * (int64_t)sizeof(struct span));
    at.sizes = (int32_t *)take(&next, entries * 4);
    at.offsets = (int64_t *)take(&next, entries * 8 * MOST_STRIDES);
    at.keys = (struct hopper_block *)take(&next, blocks_most(a) * (int64_t)sizeof *at.keys);
    at.queries = (struct hopper_block *)take(&next, blocks_most(a) * (int64_t)sizeof *at.keys);
    at.room = take(&next, room);
    at.bytes = next - (char *)workspace;
    return at;
}

static bool cudnn_supports(const struct cuda_attention *own, const struct attention *a)
{
    return own->cudnn && !(a->cap > 0) && attention_has_plan(a->window, a->longest, a->head_size);
}

static struct attention_shape shape_of(const struct attention *a)
{
    struct attention_shape shape = { a->tokens,    a->longest,   a->heads, a->kv_heads,
                                     a->head_size, a->any_order, false };
    return shape;
}

// The workspace of cuDNN or our own kernel; 0: neither.
static int64_t room_for(struct device *device, const struct attention *a, enum dtype dtype)
{
    struct cuda *cuda = cuda_of(device);
    int64_t total = device->total_bytes ? device->total_bytes : (int64_t)80 << 30;
    struct attention_shape shape = shape_of(a);
    shape.own_kernel = hopper_runs(cuda);
    if (dtype != DTYPE_BF16 || a->cap > 0 ||
        !attention_has_plan(a->window, a->longest, a->head_size) ||
        !(cuda->attention->cudnn || attention_is_own(&shape)))
        return 0;
    return attention_room(&shape, attention_room_most(total, cuda->capability == 90));
}

// Room for the lists on the host, so that no step allocates; without it they are not made.
static void reserve_blocks(struct cuda_attention *own, int64_t most)
{
    if (most <= own->block_room)
        return;
    struct hopper_block *more =
        (struct hopper_block *)realloc(own->blocks, 2 * (size_t)most * sizeof *more);
    if (more)
        own->blocks = more, own->block_room = most;
}

int64_t cuda_attention_bytes(struct device *device, const struct attention *a, enum dtype dtype)
{
    struct cuda_attention *own = cuda_of(device)->attention;
    own->room = room_for(device, a, dtype);
    if (own->late)
        reserve_blocks(own, blocks_most(a));
    return layout_of(a, entries_most(a), own->room, NULL).bytes;
}

// --- a micro-batch -------------------------------------------------------------

static bool add_entry(struct cuda_attention *own, struct span span)
{
    if (own->entry_count == own->entry_most)
        return false;
    own->entries[own->entry_count++] = span;
    return true;
}

static bool is_even(const struct cuda_attention *own, const struct group *group)
{
    int64_t start = own->entries[group->first].start;
    for (int64_t i = group->first; i < own->entry_count; i++, start += group->length)
        if (own->entries[i].size != group->length || own->entries[i].start != start)
            return false;
    return true;
}

// Closes a group: fills it up with empty documents unless it is even, and adds the entry after
// them.
static bool close_group(struct cuda_attention *own, const struct attention *a, struct group group)
{
    struct span none = { (int32_t)a->tokens, 0 };
    group.even = is_even(own, &group);
    if (group.even)
        group.documents = own->entry_count - group.first;
    while (own->entry_count <= group.first + group.documents)
        if (!add_entry(own, none))
            return false;
    if (own->group_count == MOST_GROUPS)
        return false;
    own->groups[own->group_count++] = group;
    return true;
}

// A document that is too long for the workspace has groups of its own.
static bool cut_document(struct cuda_attention *own, const struct attention *a, struct span span,
                         int64_t part, int64_t heads)
{
    int64_t parts = (span.size + part - 1) / part;
    struct group whole = { own->entry_count, 1,    attention_length(span.size), a->kv_heads,
                           group::WHOLE,     false };
    if (!add_entry(own, span) || !close_group(own, a, whole))
        return false;
    struct group group = { own->entry_count, parts, part, heads, group::PARTS, false };
    for (int64_t at = 0; at < span.size; at += part) {
        int64_t left = span.size - at;
        struct span each = { (int32_t)(span.start + at), (int32_t)(left < part ? left : part) };
        if (!add_entry(own, each))
            return false;
    }
    return close_group(own, a, group);
}

// The documents of one class in groups of equal size, so that a class needs one plan.
static bool group_class(struct cuda_attention *own, const struct attention *a, int64_t length)
{
    struct attention_shape shape = shape_of(a);
    int64_t part = attention_part(&shape, length, own->room);
    int64_t heads = part ? attention_heads(&shape, length, part, own->room) : 0;
    int64_t each = attention_document_bytes(&shape, heads, length);
    struct group group = { own->entry_count, attention_power_of_two(2 * a->tokens / length),
                           length,           heads,
                           group::EITHER,    false };
    if (!heads)
        return false;
    for (int64_t i = 0; i < a->span_count && part < length; i++)
        if (attention_length(a->host_spans[i].size) == length &&
            !cut_document(own, a, a->host_spans[i], part, heads))
            return false;
    if (part < length)
        return true;
    while (group.documents > 1 && group.documents * each > own->room - ATTENTION_SLACK)
        group.documents /= 2;
    for (int64_t i = 0; i < a->span_count; i++) {
        if (attention_length(a->host_spans[i].size) != length)
            continue;
        if (own->entry_count == group.first + group.documents) {
            if (!close_group(own, a, group))
                return false;
            group.first = own->entry_count;
        }
        if (!add_entry(own, a->host_spans[i]))
            return false;
    }
    return own->entry_count == group.first || close_group(own, a, group);
}

// Group 0, then the groups of the backward pass; if one of these fails, none of them.
static void group_documents(struct cuda_attention *own, const struct attention *a)
{
    struct group everything = { 0,
                                attention_power_of_two(a->span_count),
                                attention_length(a->longest),
                                a->kv_heads,
                                group::EITHER,
                                false };
    own->group_count = 0, own->entry_count = 0;
    for (int64_t i = 0; i < a->span_count; i++)
        if (!add_entry(own, a->host_spans[i]))
            return;
    if (!close_group(own, a, everything))
        return;
    for (int64_t length = ATTENTION_SHORTEST; length <= everything.length; length *= 2)
        if (!group_class(own, a, length)) {
            own->group_count = 1;
            return;
        }
}

// The lists of our own kernel.
static void list_blocks(struct device *device, const struct attention *a, const struct layout *at)
{
    struct cuda_attention *own = cuda_of(device)->attention;
    int64_t most = blocks_most(a), blocks = 0;
    struct hopper_lists lists = { own->blocks, own->blocks + most, 0, 0 };
    struct attention_shape shape = shape_of(a);
    shape.own_kernel = own->late != NULL;
    if (!attention_is_own(&shape) || most > own->block_room)
        return;
    for (int64_t i = 0; i < a->span_count; i++)
        blocks += (a->host_spans[i].size + HOPPER_QUERIES - 1) / HOPPER_QUERIES;
    own->list_heads = (int)attention_own_heads(&shape, blocks, own->room);
    if (!own->list_heads)
        return;
    hopper_list(&lists, a->host_spans, a->span_count, own->list_heads,
                cuda_of(device)->multiprocessors);
    device->backend->upload(device, at->keys, lists.keys,
                            lists.key_count * (int64_t)sizeof *lists.keys);
    device->backend->upload(device, at->queries, lists.queries,
                            lists.query_count * (int64_t)sizeof *lists.queries);
    own->lists = lists, own->lists.keys = at->keys, own->lists.queries = at->queries;
}

void cuda_attention_begin(struct device *device, const struct attention *a, void *workspace)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_attention *own = cuda->attention;
    int64_t entries = entries_most(a);
    struct layout at = layout_of(a, entries, own->room, workspace);
    if (cuda->err)
        return;
    own->stride_count = 0, own->group_count = 0, own->lists.key_count = 0;
    if (!own->room || a->tokens <= SPARSE * a->span_count)
        return;
    list_blocks(device, a, &at);
    if (!cudnn_supports(own, a))
        return;
    if (entries > own->entry_room) {
        struct span *more = (struct span *)realloc(own->entries, (size_t)entries * sizeof *more);
        if (!more)
            return;
        own->entries = more, own->entry_room = entries;
    }
    own->entry_most = entries;
    group_documents(own, a);
    if (own->group_count)
        device->backend->upload(device, at.entries, own->entries,
                                own->entry_count * (int64_t)sizeof(struct span));
}

// --- cuDNN ---------------------------------------------------------------------

static __global__ void compute_offsets(int64_t *offsets, int32_t *sizes, const struct span *entries,
                                       int64_t count, int64_t stride)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    offsets[i] = entries[i].start * stride;
    sizes[i] = entries[i].size;
}

// Offsets for rows with that stride, computed on first use in a micro-batch. NULL: too many
// strides.
static const int64_t *offsets_for(struct cuda *cuda, const struct layout *at, int64_t stride)
{
    struct cuda_attention *own = cuda->attention;
    for (int i = 0; i < own->stride_count; i++)
        if (own->offsets[i].stride == stride)
            return own->offsets[i].at;
    if (own->stride_count == MOST_STRIDES)
        return NULL;
    struct offsets *made = &own->offsets[own->stride_count];
    made->stride = stride, made->at = at->offsets + own->stride_count * own->entry_count;
    own->stride_count++;
    compute_offsets<<<(unsigned)((own->entry_count + 255) / 256), 256, 0, cuda->stream>>>(
        made->at, at->sizes, at->entries, own->entry_count, stride);
    cuda_launched(cuda, "attention: offsets");
    return made->at;
}

// The plan of a shape, compiled on first use. NULL: there is none, or no room for it.
static struct cudnn_plan *plan_for(struct cuda_attention *own, const struct cudnn_shape *shape)
{
    struct plan *plan = own->plans;
    for (; plan < own->plans + own->plan_count; plan++)
        if (memcmp(&plan->shape, shape, sizeof *shape) == 0)
            return plan->made;
    if (own->plan_count == MOST_PLANS)
        return NULL;
    own->plan_count++;
    plan->shape = *shape;
    plan->made = cudnn_plan_make(own->cudnn, shape, own->note);
    if (plan->made && cudnn_plan_bytes(plan->made) > own->room) {
        snprintf(own->note, sizeof own->note,
                 "a plan needs %lld bytes of workspace, there are %lld",
                 (long long)cudnn_plan_bytes(plan->made), (long long)own->room);
        cudnn_plan_free(own->cudnn, plan->made);
        plan->made = NULL;
    }
    return plan->made;
}

static void forget(struct cuda_attention *own, struct cudnn_plan *plan)
{
    for (int i = 0; i < own->plan_count; i++)
        if (own->plans[i].made == plan)
            own->plans[i].made = NULL;
    cudnn_plan_free(own->cudnn, plan);
}

// All tensors of a forward or backward pass; forward has no gradients.
struct pass {
    struct tensor dq, dk, dv, dout, out, lse, q, k, v;
};

// Of a document that is cut, a pair of parts.
static struct cudnn_shape shape_of(const struct attention *a, const struct pass *t,
                                   const struct group *group)
{
    int64_t heads = a->heads / a->kv_heads * group->kv_heads;
    int64_t documents = group->use == group::PARTS ? 1 : group->documents;
    struct cudnn_shape s = { documents,       group->length,  heads,
                             group->kv_heads, a->head_size,   t->q.stride,
                             t->k.stride,     t->v.stride,    t->out.stride,
                             t->lse.stride,   t->dout.stride, t->dq.stride,
                             t->dk.stride,    t->dv.stride,   t->dq.at && a->any_order,
                             false,           group->even };
    return s;
}

// A tensor from so many elements on; none stays none.
static struct tensor from(struct tensor t, int64_t elements)
{
    if (t.at)
        t.at = (char *)t.at + elements * (t.dtype == DTYPE_BF16 ? 2 : 4);
    return t;
}

static struct tensor from_row(struct tensor t, int64_t row)
{
    return from(t, row * t.stride);
}

// The pass of the key/value heads from `head` on.
static struct pass heads_from(const struct attention *a, const struct pass *t, int64_t head)
{
    int64_t shared = head * a->head_size, query = head * (a->heads / a->kv_heads);
    int64_t column = query * a->head_size;
    struct pass part = { from(t->dq, column),   from(t->dk, shared),  from(t->dv, shared),
                         from(t->dout, column), from(t->out, column), from(t->lse, query),
                         from(t->q, column),    from(t->k, shared),   from(t->v, shared) };
    return part;
}

// The pass of the queries from the row `q` on and the keys from `k` on.
static struct pass rows_from(const struct pass *t, int64_t q, int64_t k)
{
    struct pass part = { from_row(t->dq, q),   from_row(t->dk, k),  from_row(t->dv, k),
                         from_row(t->dout, q), from_row(t->out, q), from_row(t->lse, q),
                         from_row(t->q, q),    from_row(t->k, k),   from_row(t->v, k) };
    return part;
}

static float scale_of(const struct attention *a)
{
    return (float)(a->scale > 0 ? a->scale : 1 / sqrt((double)a->head_size));
}

// Finds the offsets of a tensor's rows for a group; false: there are none.
static bool locate(struct cuda *cuda, const struct layout *at, const int64_t **out,
                   struct tensor tensor, int64_t first)
{
    if (!tensor.at)
        return true;
    const int64_t *offsets = offsets_for(cuda, at, tensor.stride);
    *out = offsets ? offsets + first : NULL;
    return offsets != NULL;
}

static void pointers_of(const struct pass *t, float scale, struct cudnn_pointers *p)
{
    memset(p, 0, sizeof *p);
    p->q = t->q.at, p->k = t->k.at, p->v = t->v.at, p->out = t->out.at, p->lse = (float *)t->lse.at;
    p->dout = t->dout.at, p->dq = t->dq.at, p->dk = t->dk.at, p->dv = t->dv.at;
    p->scale = scale;
}

// Queries from the entry `first` on, keys from the entry `key` on.
static bool locate_all(struct cuda *cuda, const struct layout *at, const struct pass *t,
                       int64_t first, int64_t key, struct cudnn_pointers *p)
{
    p->sizes = at->sizes + first, p->key_sizes = at->sizes + key;
    return locate(cuda, at, &p->q_offsets, t->q, first) &&
           locate(cuda, at, &p->k_offsets, t->k, key) &&
           locate(cuda, at, &p->v_offsets, t->v, key) &&
           locate(cuda, at, &p->out_offsets, t->out, first) &&
           locate(cuda, at, &p->lse_offsets, t->lse, first) &&
           locate(cuda, at, &p->dout_offsets, t->dout, first) &&
           locate(cuda, at, &p->dq_offsets, t->dq, first) &&
           locate(cuda, at, &p->dk_offsets, t->dk, key) &&
           locate(cuda, at, &p->dv_offsets, t->dv, key);
}

// One run of a plan: of the queries from the entry `first` on with the keys from `key` on.
static bool run_plan(struct cuda *cuda, const struct attention *a, const struct layout *at,
                     const struct pass *t, const struct group *group, int64_t first, int64_t key,
                     struct cudnn_plan *plan)
{
    struct cuda_attention *own = cuda->attention;
    struct cudnn_pointers pointers;
    struct pass here =
        group->even ? rows_from(t, own->entries[first].start, own->entries[key].start) : *t;
    pointers_of(&here, scale_of(a), &pointers);
    if (!group->even && !locate_all(cuda, at, t, first, key, &pointers))
        return false;
    if (cudnn_run(own->cudnn, plan, cuda->stream, &pointers, at->room, own->note))
        return true;
    forget(own, plan);
    return false;
}

// --- documents that are cut ----------------------------------------------------

enum { VECTOR = 8, ADD_THREADS = 256 };

// sums += values; the last of them is replaced by the sum.
static __global__ void add_values(__nv_bfloat16 *values, int64_t stride, float *sums, int64_t rows,
                                  int64_t columns, bool is_first, bool is_last)
{
    int64_t across = columns / VECTOR, i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * across)
        return;
    uint4 *at = (uint4 *)(values + i / across * stride + i % across * VECTOR), pack = *at;
    float4 *sum = (float4 *)(sums + i * VECTOR), x[2] = {};
    for (int j = 0; j < 2 && !is_first; j++)
        x[j] = sum[j];
    __nv_bfloat16 *each = (__nv_bfloat16 *)&pack;
    float *total = (float *)x;
    for (int j = 0; j < VECTOR; j++)
        total[j] += __bfloat162float(each[j]);
    for (int j = 0; j < 2 && !is_last; j++)
        sum[j] = x[j];
    for (int j = 0; j < VECTOR && is_last; j++)
        each[j] = __float2bfloat16_rn(total[j]);
    if (is_last)
        *at = pack;
}

// What a pair of parts gave for the rows of `entry`, of so many heads. The sums of the document are
// dense.
static void add_part(struct cuda *cuda, const struct attention *a, struct tensor gradient,
                     float *sums, const struct group *group, int64_t entry, int64_t heads,
                     bool is_first, bool is_last)
{
    const struct span *part = &cuda->attention->entries[group->first + entry];
    int64_t columns = heads * a->head_size, count = part->size * columns / VECTOR;
    add_values<<<(unsigned)((count + ADD_THREADS - 1) / ADD_THREADS), ADD_THREADS, 0,
                 cuda->stream>>>((__nv_bfloat16 *)gradient.at + part->start * gradient.stride,
                                 gradient.stride, sums + entry * group->length * columns,
                                 part->size, columns, is_first, is_last);
    cuda_launched(cuda, "attention: sums of a long document");
}

// Each part of the queries with each part of the keys that is not after it, in a fixed order. The
// sums lie after what both plans need.
static bool run_cut(struct cuda *cuda, const struct attention *a, const struct layout *at,
                    const struct pass *t, const struct group *group, struct cudnn_plan *plan)
{
    struct cuda_attention *own = cuda->attention;
    struct cudnn_shape unmasked = shape_of(a, t, group);
    struct attention_shape shape = shape_of(a);
    int64_t parts = group->documents, length = parts * group->length;
    int64_t shared = group->kv_heads, heads = a->heads / a->kv_heads * shared;
    unmasked.sees_all = true;
    struct cudnn_plan *pairs = plan_for(own, &unmasked);
    int64_t one = cudnn_plan_bytes(plan), other = pairs ? cudnn_plan_bytes(pairs) : 0;
    int64_t used = one > other ? one : other;
    if (!pairs || used + attention_sums_bytes(&shape, shared, length) > own->room)
        return false;
    float *dq = (float *)(at->room + used), *dk = dq + length * heads * a->head_size;
    float *dv = dk + length * shared * a->head_size;
    for (int64_t head = 0; head < a->kv_heads; head += shared) {
        struct pass some = heads_from(a, t, head);
        for (int64_t i = 0; i < parts * parts; i++) {
            int64_t q = i / parts, k = i % parts, first = group->first;
            if (k > q)
                continue;
            if (!run_plan(cuda, a, at, &some, group, first + q, first + k, q == k ? plan : pairs))
                return false;
            add_part(cuda, a, some.dq, dq, group, q, heads, k == 0, k == q);
            add_part(cuda, a, some.dk, dk, group, k, shared, k == q, q == parts - 1);
            add_part(cuda, a, some.dv, dv, group, k, shared, k == q, q == parts - 1);
        }
    }
    return true;
}

// --- a pass by cuDNN -----------------------------------------------------------

static bool run_group(struct cuda *cuda, const struct attention *a, const struct layout *at,
                      const struct pass *t, const struct group *group, struct cudnn_plan *plan)
{
    if (group->use == group::PARTS)
        return run_cut(cuda, a, at, t, group, plan);
    for (int64_t head = 0; head < a->kv_heads; head += group->kv_heads) {
        struct pass some = heads_from(a, t, head);
        if (!run_plan(cuda, a, at, &some, group, group->first, group->first, plan))
            return false;
    }
    return true;
}

// The plan of a group; where cuDNN has none for an even one, of one that is not.
static struct cudnn_plan *plan_of(struct cuda_attention *own, const struct attention *a,
                                  const struct pass *t, struct group *group)
{
    struct cudnn_shape shape = shape_of(a, t, group);
    struct cudnn_plan *plan = plan_for(own, &shape);
    if (plan || !group->even)
        return plan;
    group->even = false;
    shape = shape_of(a, t, group);
    return plan_for(own, &shape);
}

// Runs the groups first … last − 1 with cuDNN. False: it failed, and all of it must be redone.
static bool run_with_cudnn(struct cuda *cuda, const struct attention *a, const struct layout *at,
                           const struct pass *t, int first, int last)
{
    struct cuda_attention *own = cuda->attention;
    struct cudnn_plan *plans[MOST_GROUPS];
    int others = t->dq.at ? group::WHOLE : group::PARTS; // of the other pass
    for (int i = first; i < last; i++)
        if (own->groups[i].use != others && !(plans[i] = plan_of(own, a, t, &own->groups[i])))
            return false;
    for (int i = first; i < last; i++)
        if (own->groups[i].use != others && !run_group(cuda, a, at, t, &own->groups[i], plans[i]))
            return false;
    return first < last;
}

// --- operations ----------------------------------------------------------------

static struct kernel_attention kernel_of(const struct attention *a, const struct layout *at,
                                         const struct pass *t)
{
    struct kernel_attention k;
    k.q = t->q.at, k.k = t->k.at, k.v = t->v.at, k.dout = t->dout.at;
    k.out = t->out.at, k.dq = t->dq.at, k.dk = t->dk.at, k.dv = t->dv.at;
    k.lse = (float *)t->lse.at, k.delta = at->delta;
    k.q_stride = t->q.stride, k.k_stride = t->k.stride, k.v_stride = t->v.stride;
    k.out_stride = t->out.stride, k.dout_stride = t->dout.stride;
    k.dq_stride = t->dq.stride, k.dk_stride = t->dk.stride, k.dv_stride = t->dv.stride;
    k.low = at->low, k.high = at->high;
    k.tokens = (int)a->tokens, k.heads = (int)a->heads, k.kv_heads = (int)a->kv_heads;
    k.head_size = (int)a->head_size, k.scale = scale_of(a), k.cap = (float)a->cap;
    k.dtype = t->q.dtype;
    return k;
}

// Whether cuDNN or the built-in kernels support these tensors.
static bool accepts(struct cuda *cuda, const struct attention *a, const struct pass *t)
{
    if (cuda->err)
        return false;
    if ((t->q.dtype == DTYPE_BF16 || t->q.dtype == DTYPE_F32) && t->lse.dtype == DTYPE_F32 &&
        t->k.dtype == t->q.dtype && t->v.dtype == t->q.dtype && t->out.dtype == t->q.dtype &&
        a->head_size <= 256)
        return true;
    cuda_fail(cuda, ERR_UNAVAILABLE,
              "attention on a GPU supports bf16 and fp32 and head sizes up to 256, this has %lld",
              (long long)a->head_size);
    return false;
}

// The backward pass by our own kernel. False: it is not for this layer, or not for these tensors.
static bool run_own(struct cuda *cuda, const struct attention *a,
                    const struct kernel_attention *kernel, void *room)
{
    struct cuda_attention *own = cuda->attention;
    if (!own->lists.key_count || !attention_has_plan(a->window, a->longest, a->head_size) ||
        !hopper_supports(kernel))
        return false;
    cuda_check(cuda,
               hopper_backward(cuda->stream, kernel, &own->lists, own->list_heads,
                               cuda->multiprocessors, room, own->late),
               "attention: backward");
    return true;
}

void cuda_attention_check(struct cuda *cuda)
{
    struct cuda_attention *own = cuda->attention;
    if (!own || !own->late || !*(volatile int32_t *)own->late)
        return;
    *own->late = 0;
    cuda_fail(cuda, ERR_UNAVAILABLE,
              "attention: a part of the backward pass waited half a minute for another one");
}

// Whether a plan is mostly tokens: many documents with one long one would be mostly padding.
static bool is_dense(const struct attention *a, const struct group *group)
{
    return group->documents * group->length <= WASTE * a->tokens;
}

static void run(struct device *device, const struct attention *a, const struct pass *t,
                void *workspace)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_attention *own = cuda->attention;
    bool backward = t->dq.at != NULL;
    if (!accepts(cuda, a, t))
        return;
    struct layout at = layout_of(a, entries_most(a), own->room, workspace);
    struct kernel_attention kernel = kernel_of(a, &at, t);
    if (backward && run_own(cuda, a, &kernel, at.room))
        return;
    bool together = !backward && is_dense(a, &own->groups[0]);
    int first = together ? 0 : 1, last = together && own->group_count ? 1 : own->group_count;
    if (t->q.dtype == DTYPE_BF16 && cudnn_supports(own, a) &&
        run_with_cudnn(cuda, a, &at, t, first, last))
        return;
    kernel_ranges(cuda->stream, at.low, at.high, a->spans, a->span_count, a->window);
    cuda_launched(cuda, "attention: ranges");
    if (backward)
        kernel_backward(cuda->stream, &kernel);
    else
        kernel_forward(cuda->stream, &kernel);
    cuda_launched(cuda, backward ? "attention: backward" : "attention: forward");
}

void cuda_attention_forward(struct device *device, struct tensor out, struct tensor lse,
                            struct tensor q, struct tensor k, struct tensor v,
                            const struct attention *a, void *workspace)
{
    struct tensor none = {};
    struct pass pass = { none, none, none, none, out, lse, q, k, v };
    run(device, a, &pass, workspace);
}

void cuda_attention_backward(struct device *device, struct tensor dq, struct tensor dk,
                             struct tensor dv, struct tensor dout, struct tensor out,
                             struct tensor lse, struct tensor q, struct tensor k, struct tensor v,
                             const struct attention *a, void *workspace)
{
    struct pass pass = { dq, dk, dv, dout, out, lse, q, k, v };
    run(device, a, &pass, workspace);
}

// --- open and close ------------------------------------------------------------

enum err cuda_attention_open(struct cuda *cuda)
{
    struct cuda_attention *own = (struct cuda_attention *)calloc(1, sizeof *own);
    if (!own)
        return fail(ERR_MEMORY, "attention: out of memory");
    if (hopper_runs(cuda) && cudaHostAlloc(&own->late, 4, cudaHostAllocDefault) != cudaSuccess) {
        cudaGetLastError();
        free(own);
        return fail(ERR_MEMORY, "attention: out of pinned memory");
    }
    if (own->late)
        *own->late = 0;
    own->cudnn = cudnn_open(own->note);
    if (own->cudnn) {
        int64_t version = cudnn_version(own->cudnn);
        snprintf(own->name, sizeof own->name, "cuDNN %d.%d", (int)(version / 10000),
                 (int)(version / 100 % 100));
    } else
        snprintf(own->name, sizeof own->name, "built-in kernels");
    cuda->attention = own;
    return OK;
}

void cuda_attention_close(struct cuda *cuda)
{
    struct cuda_attention *own = cuda->attention;
    if (!own)
        return;
    for (int i = 0; i < own->plan_count; i++)
        cudnn_plan_free(own->cudnn, own->plans[i].made);
    cudnn_close(own->cudnn);
    cudaFreeHost(own->late);
    free(own->blocks);
    free(own->entries);
    free(own);
    cuda->attention = NULL;
}

const char *cuda_attention_name(const struct cuda *cuda)
{
    return cuda->attention->name;
}

const char *cuda_attention_note(const struct cuda *cuda)
{
    return cuda->attention->note;
}
