// SPDX-License-Identifier: Apache-2.0
// tensorboard: reads the scalars of a TensorBoard event file, which may still be growing.
//
// Reads complete records and returns how many bytes they took; the caller passes the rest again
// later, with what has been added:
//
//     size_t used;
//     TRY(tensorboard_read(&used, (struct text){ bytes, size }, name, on_scalar, context));
//
// Checks the CRC-32C of each record. Reads only time, step, tag and value of the protocol buffers;
// skips histograms, images and graphs. Tags are views.

#pragma once

#include "base/text.h"

struct tensorboard_scalar {
    double wall_seconds; // Unix time
    int64_t step;
    struct text tag; // "train/loss"
    double value;
};

typedef void tensorboard_callback(void *context, const struct tensorboard_scalar *scalar);

// ERR_INPUT if a record is damaged; the callback has seen all records before it.
enum err tensorboard_read(size_t *used, struct text bytes, const char *name,
                          tensorboard_callback *call, void *context);

uint32_t tensorboard_checksum(const void *bytes, size_t size); // CRC-32C, masked as in records
