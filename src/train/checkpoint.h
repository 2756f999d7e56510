// checkpoint: a run as it stands between two steps, in a folder that is whole or not there.
//
//     TRY(checkpoint_write("out", &t, &state, 2));            // keeps the newest two
//     TRY(checkpoint_find(&path, arena, "out"));              // the newest whole one, or NULL
//     TRY(checkpoint_read(&state, &t, arena, path));
//
// out/checkpoints/step-00000120 holds state.safetensors (masters and moments, bit for bit),
// state.json (step, cursor, sums, a fingerprint of what was asked for) and DONE. The folder is made
// under another name and renamed when everything is on the disk, and older ones are removed only
// then: a kill or a full disk leaves the last good one.

#pragma once

#include "train/transformer.h"

struct checkpoint_state {
    int64_t step;               // done
    int64_t epoch, micro_batch; // cursor: the next one
    int64_t trained_tokens, processed_tokens;
    double seconds;
    double best_loss;        // on what is held out; NAN: none yet
    const char *fingerprint; // of data, model and settings
};

enum err checkpoint_write(const char *out, struct transformer *t,
                          const struct checkpoint_state *state, int64_t keep);

// Also removes what a killed run was still writing: for the one process that writes there.
enum err checkpoint_find(const char **path, struct arena *arena, const char *out);
enum err checkpoint_read(struct checkpoint_state *state, struct transformer *t, struct arena *arena,
                         const char *path);
