// SPDX-License-Identifier: Apache-2.0
// layout: how one model is spread over GPUs.
//
// A layout is read from what people write ("fsdp8", "tp4pp2 dp4", "zero3 + cpu offload") or made by
// the search. data × tensor × pipeline × context is the number of GPUs; expert parallelism runs
// inside the data-parallel ranks.

#pragma once

#include "base/text.h"

struct layout {
    int64_t data, tensor, pipeline, context, expert; // each at least 1
    int64_t interleave;                              // virtual pipeline stages per GPU, 1 is none
    int zero;             // 0 DDP, 1 optimizer, 2 + gradients, 3 + weights (FSDP)
    int64_t shard_group;  // GPUs that share one copy (hybrid sharding); 0: all data-parallel ranks
    bool split;           // layers spread over GPUs that run one after another (device_map)
    bool sync_each_batch; // FSDP reduces gradients after every micro-batch, not after the last
    bool offload_optimizer, offload_weights, offload_activations;
};

struct layout layout_single(void);

// Reads a layout for that many GPUs; what is not named becomes data parallelism. Fails with
// ERR_USAGE where the product does not divide the GPUs. Words that say nothing of the layout are
// skipped, because measured runs have them.
enum err layout_read(struct layout *out, struct text text, int64_t gpus);

// ERR_USAGE for a word that means nothing here: for what a user typed.
enum err layout_check(struct text text);
const char *layout_spell(const struct layout *layout,
                         struct arena *arena); // "fsdp8", "tp4 pp2 dp4"
int64_t layout_gpus(const struct layout *layout);
int64_t layout_shards(const struct layout *layout); // over how many GPUs ZeRO shards
