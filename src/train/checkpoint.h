// SPDX-License-Identifier: Apache-2.0
// checkpoint: the state of a run between two steps, in a folder that is complete or absent.
//
//     TRY(checkpoint_write("out", &t, &state, 2, &group));           // keeps the newest two
//     TRY(checkpoint_find(&path, &note, arena, "out"));       // the newest good one, or NULL
//     TRY(checkpoint_read_state(&state, arena, path));        // is it of this run?
//     TRY(checkpoint_read_tensors(&t, arena, path));
//
// out/checkpoints/step-00000120 holds state.safetensors (masters and moments, bit for bit),
// state.json (step, cursor, sums, the options of the run) and DONE. Each carries the checksum of
// the one before it. The folder is created under another name and renamed when everything is on
// disk; older checkpoints are removed only then. A kill or a full disk leaves the last good one.

#pragma once

#include "train/transformer.h"

struct checkpoint_state {
    int64_t step;               // done
    int64_t epoch, micro_batch; // cursor: the next one
    int64_t trained_tokens, processed_tokens;
    double seconds;
    double best_loss;        // on the held-out examples; NAN: none yet
    const char *fingerprint; // data, model and options of the run
    const char *checksum;    // of the tensors; set when it is written
};

// All ranks call it; the first one writes, also the states that the others keep.
enum err checkpoint_write(const char *out, struct transformer *t,
                          const struct checkpoint_state *state, int64_t keep, struct group *group);

// Verifies checksums, newest first. A damaged checkpoint is renamed (step-00000120.damaged) and
// *note says so, otherwise it is NULL; ERR_INPUT if only damaged ones exist. Also removes what a
// killed run left incomplete: only the process that writes there calls it.
enum err checkpoint_find(const char **path, const char **note, struct arena *arena,
                         const char *out);
bool checkpoint_any(const char *out); // good, damaged or incomplete
enum err checkpoint_read_state(struct checkpoint_state *state, struct arena *arena,
                               const char *path);
enum err checkpoint_read_tensors(struct transformer *t, struct arena *arena, const char *path);
