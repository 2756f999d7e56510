// SPDX-License-Identifier: Apache-2.0
// ranks: runs a test's body once per rank, each on a thread of its own.
//
//     ranks_run(4, body, &context);          // body(group, context); of one process
//
// CHECK is not for threads: a body returns whether what it saw is right.

#pragma once

#include "test/test.h"
#include "train/group/group.h"

#include <pthread.h>

enum { RANKS_MOST = 8 };

typedef bool (*ranks_body)(struct group *group, void *context);

struct ranks_one {
    struct group *group;
    ranks_body body;
    void *context;
    bool is_good;
};

static void *ranks_thread(void *context)
{
    struct ranks_one *one = context;
    one->is_good = one->body(one->group, one->context);
    if (!one->is_good)
        group_abort(one->group, ERR_BUG); // the others do not wait
    return NULL;
}

static inline bool ranks_run_groups(struct group *groups, int size, ranks_body body, void *context)
{
    pthread_t threads[RANKS_MOST];
    struct ranks_one ones[RANKS_MOST];
    bool good = true;
    for (int i = 0; i < size; i++) {
        ones[i] = (struct ranks_one){ &groups[i], body, context, false };
        if (pthread_create(&threads[i], NULL, ranks_thread, &ones[i]))
            return false;
    }
    for (int i = 0; i < size; i++) {
        pthread_join(threads[i], NULL);
        good = good && ones[i].is_good;
    }
    return good;
}

static inline bool ranks_run(int size, ranks_body body, void *context)
{
    struct group groups[RANKS_MOST];
    struct group_threads *shared;
    if (group_threads_open(&shared, groups, size))
        return false;
    bool good = ranks_run_groups(groups, size, body, context);
    group_threads_close(shared);
    return good;
}
