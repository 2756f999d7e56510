// SPDX-License-Identifier: Apache-2.0
// shard: which share of the work is this process's, as it is told or as its scheduler says.
//
//     struct shard shard;
//     TRY(shard_read(&shard, "3/8"));      // or "auto", "auto/8", "all", or NULL
//     for (size_t i = 0; i < units; i++)
//         if (shard_has(&shard, i)) …
//
// "auto" reads the variables that job arrays (Slurm, AWS Batch, SGE, Kubernetes) and launchers of
// ranks (host/launcher) set. Ranks within the tasks of an array share the task's part. Kubernetes
// does not tell how many there are: "auto/8" states the number of the array. NULL is "auto" where
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
