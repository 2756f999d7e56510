// SPDX-License-Identifier: Apache-2.0
// group_place: which rank this process is, from the environment that a launcher gives its
// processes.
//
//     struct group_place place;
//     TRY(group_place_find(&place, arena, getenv));
//     TRY(group_open(&group, &place));
//
// The launchers are rows of a table (host/launcher). SkyPilot and dstack start one process per
// host;
// --ranks N then makes N of it.

#pragma once

#include "base/text.h"
#include "base/error.h"

#include <stdbool.h>

struct group_place {
    const char *launcher; // "torchrun"; NULL: none, a single rank
    int rank, size;
    int local_rank, local_size;
    bool is_per_host;        // the launcher starts one process per host: rank counts hosts
    const char *address;     // of rank 0; NULL: unknown
    int port;                // where rank 0 listens
    int listener;            // a socket that listens there already, of rank 0; −1: none
    const char *job;         // what tells this job from others of the same user
    const char *secret;      // the key of the handshake
    double patience_seconds; // for the other ranks to come
    bool has_parent;         // `--ranks` started it, and reports ranks that die
    void *context;
    // Called on a thread of its own when another rank has ended before its time. text: what to tell
    // people, or NULL where another process tells it. May be NULL; usually ends the process.
    void (*lost)(void *context, enum err err, const char *text);
};

// Environment variables of our own, for all launchers.
#define GROUP_PLACE_SECRET "GPUHOURS_GROUP_SECRET"
#define GROUP_PLACE_PORT "GPUHOURS_GROUP_PORT"
#define GROUP_PLACE_PATIENCE "GPUHOURS_GROUP_PATIENCE"
#define GROUP_PLACE_LISTENER "GPUHOURS_GROUP_LISTENER" // set by --ranks: a descriptor

enum { GROUP_PLACE_PATIENCE_SECONDS = 300, GROUP_PLACE_USUAL_PORT = 29500 };

enum err group_place_find(struct group_place *out, struct arena *arena,
                          char *(*variable)(const char *name));

// The first host of a Slurm list such as "node[07-12,20],login": "node07".
const char *group_place_first_host(struct arena *arena, const char *list);
