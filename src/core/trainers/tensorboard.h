// tensorboard: the scalars in a TensorBoard event file, which may still be growing.
//
// Reads whole records and says how many bytes they took, so that a follower comes back with the
// rest later:
//
//     size_t used;
//     TRY(tensorboard_read(&used, (struct text){ bytes, size }, name, on_scalar, context));
//
// Records are checked against their CRC-32C. Of the protocol buffers inside only time, step, tag
// and value are looked at; histograms, images and graphs are passed over. Tags are views.

#pragma once

#include "base/text.h"

struct tensorboard_scalar {
    double wall_seconds; // Unix time
    int64_t step;
    struct text tag; // "train/loss"
    double value;
};

typedef void tensorboard_callback(void *context, const struct tensorboard_scalar *scalar);

// ERR_INPUT if a record is damaged; what came before it has been told.
enum err tensorboard_read(size_t *used, struct text bytes, const char *name,
                          tensorboard_callback *call, void *context);

uint32_t tensorboard_checksum(const void *bytes, size_t size); // CRC-32C, masked as records have it
