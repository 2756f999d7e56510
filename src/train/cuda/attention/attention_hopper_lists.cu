// SPDX-License-Identifier: Apache-2.0
// The blocks of a micro-batch's documents, in the order in which attention_hopper.cu takes them.
//
// Documents are taken in sets that are under way at once, so many that the thread blocks have
// enough to do while each waits for the sums of the one before it. Within a set the key blocks that
// see the most queries come first, and the ends of its documents together:
//
//     document 0  key blocks  0 1 2 3     order of    0, document 0
//     document 1  key blocks  0 1 2       the set     1, document 0    0, document 1
//                                                     2, document 0    1, document 1
//                                                     3, document 0    2, document 1
//
// A block comes after the one before it in its document, as the order of sums wants it.

#include "train/cuda/attention/attention_hopper.h"

enum { KEYS = HOPPER_KEYS, QUERIES = HOPPER_QUERIES };
enum { TOGETHER = 32 }; // documents × kv heads of a set, at least: 8 and 16 are slower on an H200

static int64_t blocks_of(int64_t tokens, int64_t rows)
{
    return (tokens + rows - 1) / rows;
}

int64_t hopper_most(int64_t tokens, int64_t documents)
{
    return tokens / QUERIES + documents;
}

void hopper_list(struct hopper_lists *lists, const struct span *spans, int64_t documents,
                 int64_t kv_heads, int64_t processors)
{
    int32_t first = 0, set_first = 0;
    lists->key_count = lists->query_count = 0;
    for (int64_t begin = 0, end; begin < documents; begin = end) {
        int64_t tasks = 0, longest = 0;
        for (end = begin;
             end < documents && ((end - begin) * kv_heads < TOGETHER || tasks < processors);
             end++) {
            int64_t blocks = blocks_of(spans[end].size, KEYS);
            tasks += blocks * kv_heads, longest = blocks > longest ? blocks : longest;
            for (int32_t i = 0; i < blocks_of(spans[end].size, QUERIES); i++) {
                int32_t left = spans[end].size - i * QUERIES;
                struct hopper_block block = { spans[end].start + i * QUERIES,
                                              left < QUERIES ? left : QUERIES, i, first };
                lists->queries[lists->query_count++] = block;
            }
            first = lists->query_count;
        }
        for (int64_t left = longest; left > 0; left--) {
            first = set_first;
            for (int64_t i = begin; i < end; i++) {
                int64_t blocks = blocks_of(spans[i].size, KEYS);
                struct hopper_block block = { spans[i].start, spans[i].size,
                                              (int32_t)(blocks - left), first };
                if (left <= blocks)
                    lists->keys[lists->key_count++] = block;
                first += (int32_t)blocks_of(spans[i].size, QUERIES);
            }
        }
        set_first = first = lists->query_count;
    }
}
