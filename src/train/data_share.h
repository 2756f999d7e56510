// SPDX-License-Identifier: Apache-2.0
// data_share: the part of the data files that one of several ranks reads.
//
//     struct manifest_unit *units;
//     size_t count = data_share(&units, arena, &inputs, group.rank, group.size);
//
// The files lie end to end, and each rank takes an equal stretch of their bytes. A file that cannot
// be cut belongs to the rank that has its first byte; files of unknown size belong to rank 0. The
// parts of rank 0, 1, 2 … one after another are all rows in the order of the files.

#pragma once

#include "host/manifest.h"

size_t data_share(struct manifest_unit **out, struct arena *arena, const struct inputs *inputs,
                  int rank, int ranks); // returns the number of units
