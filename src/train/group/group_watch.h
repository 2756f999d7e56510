// SPDX-License-Identifier: Apache-2.0
// group_watch: notices when another rank ends too early, even while this one computes.
//
//     TRY(group_watch_start(&watch, &place, lines, count));
//     group_watch_guard(&watch, socket);   // a wait on it ends when a rank is lost
//     …                            // place->lost() is called when a rank is lost
//     group_watch_end(&watch, OK); // this rank is done; or failed, with its code
//
// Every rank keeps a line open to rank 0, which a thread of each side listens to:
//
//     rank 0 ── 1          D  I am done: that I close the line now means nothing
//        ├───── 2          F  I failed (and a byte, my exit code): end too, I have said why
//        └───── 3          a line that closes without a D: that rank was killed, or its host died
//
// Rank 0 passes an F on to all others, and sends them an F when a rank is lost.

#pragma once

#include "train/group/group_link.h"

#include <pthread.h>

struct group_watch {
    const struct group_place *place;
    struct group_link *lines; // of rank 0: to each rank; of the others: lines[0] to rank 0
    int count;
    bool *is_done;  // by line; only the thread uses it
    int wake[2];    // a pipe that ends the thread's wait
    int guarded[3]; // sockets to shut when a rank is lost, so that waits on them end
    int guarded_count;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_lost, is_closing;
    enum err err, farewell; // of the rank that was lost; of this one, when it ends
    char text[256];         // what happened
};

enum err group_watch_start(struct group_watch *watch, const struct group_place *place,
                           struct group_link *lines, int count);
void group_watch_guard(struct group_watch *watch, int socket);
void group_watch_end(struct group_watch *watch, enum err err);

// After an exchange failed: waits a moment for the reason, and fails with it.
enum err group_watch_reason(struct group_watch *watch, int rank);
