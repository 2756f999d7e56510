// SPDX-License-Identifier: Apache-2.0
// child_internal: what the files of child share: output relays, the warden, the process tree.

#pragma once

#include "host/child.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CHILD_TAIL = 8192, CHILD_RELAY = 8 << 20 };

// A thread that writes what the main thread reads, so that a slow or stuck reader stops neither.
struct child_relay {
    int fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *ring;
    size_t at, size;
    uint64_t taken; // bytes that the reader has taken
    int64_t dropped_bytes;
    bool started, ending, broken, stuck;
};

void child_relay_start(struct child_relay *relay, int fd);
void child_relay_put(struct child_relay *relay, struct text bytes);

// Waits until the reader has taken all, is gone, has taken nothing for so many seconds, or a
// signal comes through the pipe `wake`; returns how many bytes were not read.
int64_t child_relay_end(struct child_relay *relay, double seconds, int wake);

struct child_tree { // the descendants of a process
    int *pids;
    size_t count, room;
};

void child_tree_scan(struct child_tree *tree,
                     int root); // living descendants; the root is not among them
void child_tree_release(struct child_tree *tree);

struct child_note { // from the warden: first the command's pid, later how it ended
    int pid, status;
};

enum err child_warden_start(struct child *child, const int *slaves);
void child_warden_reap(struct child *child); // sets ended, code and signal once it ended
void child_warden_end(struct child_internal *inside);
void child_restore_signals(void); // as they were before child_start()

struct child_internal {
    struct child_internal *older; // of those whose threads are stuck
    int masters[2];               // -1: closed, or the first serves both
    int wake[2];                  // signal handlers write into it
    int warden, notes; // the warden is 0 after somebody killed it; its processes are then ours
    struct child_relay relays[2];
    struct child_tree tree;
    double deadline;        // of the stage
    double scanned_seconds; // when the tree was last scanned
    char tail[CHILD_TAIL];
    size_t tail_at, tail_size;
};
