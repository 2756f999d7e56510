// SPDX-License-Identifier: Apache-2.0
// pool: threads that work on a stream of items and return the results in order.
//
//     struct pool_job job = { .context = &run, .item_size = sizeof(struct item),
//                             .take = take, .work = work, .give = give, .drop = drop };
//     TRY(pool_run(&job, 0));
//
// take() fills the next item, one call at a time, in order. work() runs on many items at once.
// give() gets the items in the order they were taken, one call at a time. None of the three runs
// on a fixed thread; the calling thread takes part, and with one worker there is no other.
//
// An item's memory is zeroed once and then reused for later items, so that its buffers can be kept;
// drop() is called for each at the end and accepts a zeroed one. To bound memory, at most
// POOL_AHEAD items per worker are in flight, and if weigh() is given, their weights add up to at
// most most_weight. An item that is heavier than that is in flight alone.
//
// An error stops the run. All items before the one that failed are given first, so that the same
// input gives the same error message with any number of threads.

#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POOL_AHEAD = 4, POOL_MOST_WORKERS = 256 };

struct pool_job {
    void *context;
    size_t item_size;
    enum err (*take)(void *context, void *item, bool *more); // more = false: no item is left
    enum err (*work)(void *context, void *item, int worker); // worker: 0 … workers-1
    enum err (*give)(void *context, void *item);             // may be NULL
    void (*drop)(void *context, void *item);                 // may be NULL; accepts zeros
    int64_t (*weigh)(void *context, const void *item);       // after take(); may be NULL
    int64_t most_weight;
};

int pool_workers(int requested); // 0: as many as there are cores online
enum err pool_run(const struct pool_job *job, int workers);
