// SPDX-License-Identifier: Apache-2.0
// group_link: connections between ranks, after a handshake that proves a shared secret.
//
//     TRY(group_link_key(&key, arena, &place));
//     TRY(group_link_connect(&link, &address, &key, &hello, deadline));     // one side
//     TRY(group_link_accept(&link, listener, &key, deadline));              // the other side
//
// Both sides send a random number and prove with HMAC-SHA-256 over both that they know the key:
//
//     accepting  → "gpuhours group 1", its random number
//     connecting → its random number, purpose, rank, size, port, HMAC
//     accepting  → a verdict, HMAC
//
// The key is made of the secret and the job's name. The secret is GPUHOURS_GROUP_SECRET, or else a
// random file in the user's data folder, which the hosts of a cluster share. It keeps strangers
// out of the group; what ranks send each other is not encrypted.

#pragma once

#include "train/group/group_internal.h"
#include "train/group/group_place.h"

#include <sys/socket.h>

struct group_link_key {
    uint8_t bytes[32];
};

struct group_link_address {
    struct sockaddr_storage at;
    socklen_t size;
};

enum group_link_purpose { GROUP_LINK_LIFE, GROUP_LINK_RING };

struct group_link_hello {
    int32_t purpose, rank, size;
    int32_t port; // where the connecting rank listens
};

struct group_link {
    int fd;                        // −1: none
    struct group_link_hello hello; // of the connecting side
    struct group_link_address peer;
};

enum err group_link_key(struct group_link_key *out, struct arena *arena,
                        const struct group_place *place);

enum err group_link_find(struct group_link_address *out, const char *host, int port);
const char *group_link_name(struct arena *arena, const struct group_link_address *address);
void group_link_set_port(struct group_link_address *address, int port);

// Where a rank should listen so that ranks which know rank 0 by this address reach it: on every
// interface, but only on this host where rank 0 is known by a loopback address.
struct group_link_address group_link_reachable(const struct group_link_address *known, int port);

// A socket that listens at the address; its port 0 takes a free one, and *port gets it.
enum err group_link_listen(int *out, const struct group_link_address *address, int *port);

// Tries again until the deadline (of clock_seconds()), since the other side may start later.
enum err group_link_connect(struct group_link *out, const struct group_link_address *address,
                            const struct group_link_key *key, const struct group_link_hello *hello,
                            double deadline);
// The next connection that proves the key; out->fd is −1 if none came until the deadline. Strangers
// are dropped, and *strangers counts them.
enum err group_link_accept(struct group_link *out, int listener, const struct group_link_key *key,
                           int size, double deadline, int *strangers);

// Sends or receives all of it before the deadline; false: it cannot.
bool group_link_send(int fd, const void *data, size_t size, double deadline);
bool group_link_receive(int fd, void *data, size_t size, double deadline);
