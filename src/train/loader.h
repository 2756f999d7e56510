// SPDX-License-Identifier: Apache-2.0
// loader: micro-batches from examples, packed as the forecast packs them, shuffled by seed and
// epoch.
//
//     struct loader loader;
//     loader_init(&loader, arena, &settings);
//     loader_add(&loader, ids, learned, count);        // for each example of this rank's share
//     TRY(loader_gather(&loader, &group));             // now of all ranks
//     TRY(loader_start(&loader));                      // refuses data without labelled tokens
//     TRY(loader_epoch(&loader, 0));
//     loader_batch(&loader, &batch, 17);               // micro-batch 17 of the epoch
//
// A row holds whole documents up to the window (packing_plan with the native rule); a micro-batch
// is a number of rows, end to end and without padding. In the first epoch the row that needs most
// memory comes first, so that a lack of memory shows at once. Everything depends only on the seed
// and the epoch: a cursor is the epoch and the index of the micro-batch. A share of the examples,
// sampled with the seed, is held out for evaluation.
//
// Of preference data, documents 2i and 2i + 1 are a pair of answers, and one example: a row has the
// tokens of two windows, and holds whole pairs, each answer cut at the window.

#pragma once

#include "core/data/packing.h"
#include "train/transformer.h"

struct loader_settings {
    int64_t window, micro_batch; // tokens of a row; rows of a micro-batch
    uint64_t seed;
    double held_out; // share of the examples
    bool pairs;      // an example is a chosen and a rejected answer
};

struct loader_set { // the examples for training, or the held-out ones
    struct lengths lengths;
    uint32_t *examples; // the first document of each
    struct packing packing;
    int64_t micro_batches;
};

struct loader {
    struct loader_settings settings;
    struct arena *arena;
    struct arena epoch_arena;
    int32_t *ids; // of all documents, end to end
    uint8_t *learned;
    int64_t *starts; // count + 1
    size_t count, room, token_room;
    struct loader_set train, held_out;
    uint64_t fingerprint;     // of the documents, once started
    struct packing_loss loss; // of the documents, each cut at the window; likewise
    // of the micro-batch that was requested last
    int32_t *batch_ids, *positions, *rows, *targets;
    struct span *spans;
};

void loader_init(struct loader *loader, struct arena *arena,
                 const struct loader_settings *settings);
void loader_release(struct loader *loader);
void loader_add(struct loader *loader, const int32_t *ids, const uint8_t *learned, int64_t count);

// Of pairs: takes back a chosen answer whose rejected one did not follow, because it cannot be
// used.
void loader_drop_half(struct loader *loader);

// After the last loader_add() of every rank: all examples on each of them, in the order of ranks.
enum err loader_gather(struct loader *loader, struct group *group);
enum err loader_start(
    struct loader *loader); // after the last loader_add(); also packs the held-out examples
enum err loader_epoch(struct loader *loader, int64_t epoch);

// Views that are valid until the next call.
void loader_batch(struct loader *loader, struct micro_batch *out, int64_t index);
void loader_held_out(struct loader *loader, struct micro_batch *out, int64_t index);

// Of `count` micro-batches of this epoch: labelled tokens, and what losses are averaged over: these
// tokens, or pairs.
int64_t loader_labelled(const struct loader *loader, int64_t first, int64_t count);
int64_t loader_losses(const struct loader *loader, int64_t first, int64_t count);
int64_t loader_losses_of(const struct loader *loader, const struct micro_batch *batch);

int64_t loader_row_tokens(const struct loader_settings *settings); // of a full row
