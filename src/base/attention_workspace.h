// SPDX-License-Identifier: Apache-2.0
// attention_workspace: the bytes that the CUDA engine reserves for the backward pass of attention.
//
// One source for two readers: the engine allocates this many bytes
// (train/cuda/attention/attention.cu) and a memory plan counts them (core/step/memory.c). C and C++
// both read this header.
//
// On Hopper, cuDNN's backward pass that sums in a fixed order keeps, for each document and query
// head of a group, a square of bf16 scores, one fp32 sum per row, and, where query heads share keys
// and values, an fp32 gradient of each head's keys:
//
//     one query head, L = length of the document, rounded up to a power of two from 128 on
//
//            L columns             head_size
//          ┌────────────┐           ┌──────┐   ┌─┐
//        L │ scores     │         L │ keys │   │1│     L · (2·L + 4·head_size + 4) bytes
//          │ 2 bytes    │           │ 4 b. │   │ │ 4 b.
//          └────────────┘           └──────┘   └─┘
//                                 only if heads > kv_heads
//
// Where sums may be added in any order there is no square: an fp32 gradient of each head's queries,
// and of its keys and values if it shares them.
//
// The workspace holds all heads of one to four documents (two at once are 7 % faster), 512 MiB
// where that is more, never more than the micro-batch needs, and at most 1/32 of the card. A
// document that is too long for that is done by some of its heads at a time; its smallest group of
// heads may take 1/16 of the card. What is larger still is cut into parts of equal length, and each
// part of the queries is taken with each part of the keys that is not after it: squares again,
// which take 5 % longer than the document as a whole. Their gradients are added up in fp32, for
// which a group of heads has sums as long as the document:
//
//            keys 0   1   2
//          ┌──────┐
//        0 │╲     │               ╲  masked: no query sees a key after it
//  queries ├──────┼──────┐
//        1 │      │╲     │
//          ├──────┼──────┼──────┐
//        2 │      │      │╲     │
//          └──────┴──────┴──────┘
//
// For heads of 128 there the engine has a kernel of its own, which keeps no square: of each block
// of 64 queries and head an fp32 gradient and two numbers a row, 8 % of cuDNN's bytes for rows of
// 4,096 tokens. Its room is for documents of 128 tokens or more on average; for shorter ones it
// takes fewer heads at a time. cuDNN is faster at long documents whose sums may be added in any
// order.

#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ATTENTION_SHORTEST ((int64_t)128)      // tokens: shorter documents count as this long
#define ATTENTION_SLACK ((int64_t)1 << 20)     // bytes that cuDNN needs beside the squares
#define ATTENTION_GOOD_ROOM ((int64_t)1 << 29) // bytes that are worth having for short documents
#define ATTENTION_MOST_DOCUMENTS 4             // at once
#define ATTENTION_CARD_SHARE 32                // a 32nd of the card at most …
#define ATTENTION_LAST_RESORT 2                // … or twice that for the smallest group of heads
#define ATTENTION_LARGEST_HEAD 256             // elements of a head that cuDNN can do
#define ATTENTION_OWN_HEAD 128                 // and of one that our own kernel can do
#define ATTENTION_OWN_QUERIES 64               // of a block of our own kernel
#define ATTENTION_OWN_LONGEST 16384            // tokens from which on cuDNN's any order is faster

struct attention_shape {
    int64_t tokens, longest; // of a micro-batch; the longest document
    int64_t heads, kv_heads, head_size;
    bool any_order;  // sums need not give the same bits twice
    bool own_kernel; // there is code for it: on Hopper
};

static inline int64_t attention_power_of_two(int64_t n) // the first that is not below n
{
    int64_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

static inline int64_t attention_length(int64_t longest) // as a plan of cuDNN counts it
{
    return longest < ATTENTION_SHORTEST ? ATTENTION_SHORTEST : attention_power_of_two(longest);
}

// Whether cuDNN can do it at all. A window that no document is longer than is none.
static inline bool attention_has_plan(int64_t window, int64_t longest, int64_t head_size)
{
    return (window == 0 || window >= longest) && head_size % 8 == 0 &&
           head_size <= ATTENTION_LARGEST_HEAD;
}

// Of one document, for the query heads of so many key/value heads.
static inline int64_t attention_document_bytes(const struct attention_shape *a, int64_t kv_heads,
                                               int64_t length)
{
    int64_t vector = 4 * a->head_size, shared = a->heads == a->kv_heads ? 0 : vector;
    int64_t row = a->any_order ? vector + 2 * shared : 2 * length + shared;
    return a->heads / a->kv_heads * kv_heads * length * (row + 4);
}

// The fp32 sums of the gradients of queries, keys and values, for a document that is cut.
static inline int64_t attention_sums_bytes(const struct attention_shape *a, int64_t kv_heads,
                                           int64_t length)
{
    return (a->heads / a->kv_heads + 2) * kv_heads * a->head_size * length * 4;
}

// Of a document in parts; in one part it is not cut.
static inline int64_t attention_bytes_in_parts(const struct attention_shape *a, int64_t kv_heads,
                                               int64_t length, int64_t part)
{
    return attention_document_bytes(a, kv_heads, part) +
           (part < length ? attention_sums_bytes(a, kv_heads, length) : 0);
}

// Key/value heads of a document in such parts that fit into so much room; 0: none do. The row sums
// of a group begin at a multiple of 16 bytes, which is why a group has a multiple of four query
// heads.
static inline int64_t attention_heads(const struct attention_shape *a, int64_t length, int64_t part,
                                      int64_t room)
{
    int64_t group = a->heads / a->kv_heads, n = a->kv_heads;
    while (attention_bytes_in_parts(a, n, length, part) > room - ATTENTION_SLACK)
        if (n % 2 == 0 && n / 2 * group % 4 == 0)
            n /= 2;
        else
            return 0;
    return n;
}

// Tokens of a part: the longest that fits; the length, if it need not be cut; 0: nothing fits.
static inline int64_t attention_part(const struct attention_shape *a, int64_t length, int64_t room)
{
    for (int64_t part = length; part >= ATTENTION_SHORTEST; part /= 2)
        if (attention_heads(a, length, part, room))
            return part;
    return 0;
}

// That cuDNN's backward pass sums in one order is known of Hopper only.
static inline int64_t attention_room_most(int64_t device_bytes, bool is_hopper)
{
    return is_hopper ? device_bytes / ATTENTION_CARD_SHARE : 0;
}

// Whether our own kernel does it, where there is code for it.
static inline bool attention_is_own(const struct attention_shape *a)
{
    return a->own_kernel && a->head_size == ATTENTION_OWN_HEAD &&
           (!a->any_order || a->longest < ATTENTION_OWN_LONGEST);
}

// Blocks of queries, of so many documents at most.
static inline int64_t attention_own_blocks(int64_t tokens, int64_t documents)
{
    return tokens / ATTENTION_OWN_QUERIES + documents;
}

// Bytes of our own kernel, for so many query heads at once.
static inline int64_t attention_own_bytes(int64_t blocks, int64_t heads)
{
    int64_t block = ATTENTION_OWN_QUERIES * (ATTENTION_OWN_HEAD + 2) * 4 + 4; // and a counter
    return blocks * heads * block + ATTENTION_SLACK;
}

// Key/value heads that it takes at once in so much room; 0: it does not fit.
static inline int64_t attention_own_heads(const struct attention_shape *a, int64_t blocks,
                                          int64_t room)
{
    int64_t group = a->heads / a->kv_heads, n = a->kv_heads;
    while (n > 0 && attention_own_bytes(blocks, n * group) > room)
        n /= 2;
    return n;
}

// Bytes of cuDNN's workspace, given the most that it may have.
static inline int64_t attention_cudnn_room(const struct attention_shape *a, int64_t most)
{
    int64_t length = attention_length(a->longest), part = attention_part(a, length, most);
    if (attention_heads(a, length, length, ATTENTION_LAST_RESORT * most) && part < length)
        part = length, most *= ATTENTION_LAST_RESORT;
    if (!part)
        return ATTENTION_SLACK; // for the forward pass
    int64_t heads = attention_heads(a, length, part, most);
    int64_t one = attention_bytes_in_parts(a, heads, length, part) + ATTENTION_SLACK, good = one;
    int64_t all = one * ((a->tokens + length - 1) / length);
    while (good < ATTENTION_MOST_DOCUMENTS * one && 2 * good < most)
        good *= 2;
    good = good > ATTENTION_GOOD_ROOM ? good : ATTENTION_GOOD_ROOM;
    return all < good ? all : good;
}

// Bytes of the workspace, given the most that it may have: less than cuDNN's where our own kernel,
// with all heads, needs less. cuDNN then has that for what is left to it.
static inline int64_t attention_room(const struct attention_shape *a, int64_t most)
{
    int64_t room = attention_cudnn_room(a, most);
    int64_t documents = (a->tokens + ATTENTION_SHORTEST - 1) / ATTENTION_SHORTEST;
    int64_t own = attention_own_bytes(attention_own_blocks(a->tokens, documents), a->heads);
    return attention_is_own(a) && own < room ? own : room;
}
