// loader: examples as micro-batches: packed as the forecast packs them, shuffled by seed and epoch.
//
//     struct loader loader;
//     loader_init(&loader, arena, &settings);
//     loader_add(&loader, ids, learned, count);        // for each example of the dataset
//     TRY(loader_start(&loader));                      // refuses data without a label
//     TRY(loader_epoch(&loader, 0));
//     loader_batch(&loader, &batch, 17);               // micro-batch 17 of the epoch
//
// A row holds whole documents up to the window (packing_plan with the native rule); a micro-batch
// is some rows, end to end and without padding. The row that takes most memory comes first in the
// first epoch, so that trouble shows at once. Everything follows from the seed and the epoch: a
// cursor is the epoch and the number of the micro-batch. A share of the examples, drawn by the
// seed, is held out for evaluation.

#pragma once

#include "core/data/packing.h"
#include "train/transformer.h"

struct loader_settings {
    int64_t window, micro_batch; // tokens of a row; rows of a micro-batch
    uint64_t seed;
    double held_out; // share of the examples
};

struct loader_set { // examples for training, or those held out
    struct lengths lengths;
    uint32_t *examples; // of the loader
    struct packing packing;
    int64_t micro_batches;
};

struct loader {
    struct loader_settings settings;
    struct arena *arena;
    struct arena epoch_arena;
    int32_t *ids; // of all examples, end to end
    uint8_t *learned;
    int64_t *starts; // count + 1
    size_t count, room, token_room;
    struct loader_set train, held_out;
    uint64_t fingerprint; // of the examples
    // of the micro-batch that was asked for last
    int32_t *batch_ids, *positions, *rows, *targets;
    struct span *spans;
};

void loader_init(struct loader *loader, struct arena *arena,
                 const struct loader_settings *settings);
void loader_release(struct loader *loader);
void loader_add(struct loader *loader, const int32_t *ids, const uint8_t *learned, int64_t count);
enum err loader_start(struct loader *loader); // when all were added; also plans what is held out
enum err loader_epoch(struct loader *loader, int64_t epoch);

// Views that are good until the next call.
void loader_batch(struct loader *loader, struct micro_batch *out, int64_t index);
void loader_held_out(struct loader *loader, struct micro_batch *out, int64_t index);

int64_t loader_labelled(const struct loader *loader, int64_t first,
                        int64_t count); // in micro-batches first … of this epoch
