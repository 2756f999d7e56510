// SPDX-License-Identifier: Apache-2.0
// train_out: the folder that a run writes to, and that it shares with no other run or model.
//
//     TRY(train_out_check("tuned", "./model", NULL)); // before anything takes time
//     TRY(train_out_lock(arena, "tuned", true));      // before anything is written

#pragma once

#include "base/text.h"

// ERR_INPUT where nothing can be written, or the result would replace something: `out` is the
// folder that the run reads its weights from (replaced, adapter; NULL: none), or holds a model or
// an adapter and no checkpoints. With checkpoints, training_resume() tells whether they are of this
// run.
enum err train_out_check(const char *out, const char *replaced, const char *adapter);

// Creates the folder. The process that `writes` there locks it against other runs, until it ends.
enum err train_out_lock(struct arena *arena, const char *out, bool writes);
