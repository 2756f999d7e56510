// SPDX-License-Identifier: Apache-2.0
// shard: which share of the work this process does, from an option or from its scheduler.
//
//     struct shard shard;
//     TRY(shard_read(&shard, "3/8"));      // or "auto", "auto/8", "all", or NULL
//     for (size_t i = 0; i < units; i++)
//         if (shard_has(&shard, i)) …
//
// "auto" reads the variables that job arrays (Slurm, AWS Batch, SGE, Kubernetes) and launchers of
// ranks (host/launcher) set. Where each task of an array starts ranks, they divide the task's
// share. Kubernetes does not say how many tasks an array has: "auto/8" does. NULL is "auto" where
// the environment knows of several tasks, else "all".

#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard {
    int64_t index, count; // index: from 0
    bool is_part;         // somebody else puts the parts together
};

enum err shard_read(struct shard *out, const char *word);
bool shard_has(const struct shard *shard, size_t unit);
