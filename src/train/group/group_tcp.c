// SPDX-License-Identifier: Apache-2.0
// Ranks in several processes, over sockets: how they find each other, and the ring.
//
// Rank 0 listens where everybody knows. Every other rank connects to it, which stays open as its
// life line (group_watch.h), and says where it listens itself. When all have come, rank 0 sends
// everybody the list of addresses, and each rank connects to the next:
//
//     life lines   1 ─▶ 0, 2 ─▶ 0, 3 ─▶ 0            ring   3 ─▶ 0, then 2 ─▶ 3, 1 ─▶ 2, 0 ─▶ 1
//
// A rank accepts its neighbour only after its own connection stands, rank 0 first: in this order
// nobody waits in a circle.

#include "train/group/group_watch.h"

#include "host/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { NEXT, BEFORE };

struct tcp {
    struct arena arena;
    struct group_place place;
    struct group_link_key key;
    int listener, port;
    struct group_link *lines;          // rank 0: to all others; others: to rank 0
    struct group_link_address *others; // where each rank listens
    int ring[2];
    struct group_watch watch;
    double deadline; // for all to come
};

// --- finding each other ------------------------------------------------------

static const char *list_absent(struct tcp *tcp)
{
    struct out list = { .arena = &tcp->arena };
    int absent = 0, most = 8;
    for (int i = 1; i < tcp->place.size; i++)
        if (tcp->lines[i - 1].fd < 0 && absent++ < most)
            out_put(&list, "%s%d", list.size ? ", " : "", i);
    if (absent > most)
        out_put(&list, " and %d more", absent - most);
    return out_string(&list);
}

static enum err come_to_nothing(struct tcp *tcp, int strangers)
{
    const char *note = strangers ? "; somebody came with another secret or job" : "";
    return fail(
        ERR_UNAVAILABLE,
        "of %d ranks these did not come within %.0f s: %s%s; see why they did not start, or "
        "wait longer with " GROUP_PLACE_PATIENCE,
        tcp->place.size, tcp->place.patience_seconds, list_absent(tcp), note);
}

static enum err await_others(struct tcp *tcp)
{
    int strangers = 0;
    for (int here = 1; here < tcp->place.size;) {
        struct group_link link;
        TRY(group_link_accept(&link, tcp->listener, &tcp->key, tcp->place.size, tcp->deadline,
                              &strangers));
        if (link.fd < 0)
            return come_to_nothing(tcp, strangers);
        int rank = link.hello.rank;
        if (link.hello.purpose != GROUP_LINK_LIFE || rank < 1 || rank >= tcp->place.size) {
            close(link.fd);
            continue;
        }
        if (tcp->lines[rank - 1].fd >= 0) {
            close(link.fd);
            return fail(ERR_USAGE,
                        "two processes say that they are rank %d of %d; see how the "
                        "launcher numbers them",
                        rank, tcp->place.size);
        }
        tcp->lines[rank - 1] = link;
        tcp->others[rank] = link.peer;
        group_link_set_port(&tcp->others[rank], link.hello.port);
        here++;
    }
    return OK;
}

static enum err open_first(struct tcp *tcp, const struct group_link_address *known)
{
    struct group_link_address here = group_link_reachable(known, tcp->place.port);
    tcp->listener = tcp->place.listener;
    if (tcp->listener < 0)
        TRY(group_link_listen(&tcp->listener, &here, &tcp->port));
    TRY(await_others(tcp));
    size_t bytes = (size_t)tcp->place.size * sizeof *tcp->others;
    for (int i = 1; i < tcp->place.size; i++)
        if (!group_link_send(tcp->lines[i - 1].fd, tcp->others, bytes, tcp->deadline))
            return fail(ERR_UNAVAILABLE, "rank %d ended while the ranks met", i);
    return OK;
}

static enum err open_other(struct tcp *tcp, const struct group_link_address *known)
{
    struct group_link_address here = group_link_reachable(known, 0);
    TRY(group_link_listen(&tcp->listener, &here, &tcp->port));
    struct group_link_hello hello = { GROUP_LINK_LIFE, tcp->place.rank, tcp->place.size,
                                      tcp->port };
    TRY(group_link_connect(&tcp->lines[0], known, &tcp->key, &hello, tcp->deadline));
    size_t bytes = (size_t)tcp->place.size * sizeof *tcp->others;
    if (!group_link_receive(tcp->lines[0].fd, tcp->others, bytes, tcp->deadline))
        return fail(ERR_UNAVAILABLE, "rank 0 ended, or waited in vain, while the ranks met");
    tcp->others[0] = *known;
    return OK;
}

// --- the ring ----------------------------------------------------------------

static enum err connect_next(struct tcp *tcp)
{
    struct group_link link;
    int next = (tcp->place.rank + 1) % tcp->place.size;
    struct group_link_hello hello = { GROUP_LINK_RING, tcp->place.rank, tcp->place.size, 0 };
    TRY(group_link_connect(&link, &tcp->others[next], &tcp->key, &hello, tcp->deadline));
    tcp->ring[NEXT] = link.fd;
    group_watch_guard(&tcp->watch, link.fd);
    return OK;
}

static enum err accept_before(struct tcp *tcp)
{
    int strangers = 0, before = (tcp->place.rank + tcp->place.size - 1) % tcp->place.size;
    struct group_link link;
    for (;;) {
        TRY(group_link_accept(&link, tcp->listener, &tcp->key, tcp->place.size, tcp->deadline,
                              &strangers));
        if (link.fd < 0)
            return fail(ERR_UNAVAILABLE, "rank %d did not connect to rank %d", before,
                        tcp->place.rank);
        if (link.hello.purpose == GROUP_LINK_RING && link.hello.rank == before)
            break;
        close(link.fd);
    }
    tcp->ring[BEFORE] = link.fd;
    group_watch_guard(&tcp->watch, link.fd);
    return OK;
}

static enum err close_ring(struct tcp *tcp)
{
    if (!tcp->place.rank)
        TRY(accept_before(tcp));
    TRY(connect_next(tcp));
    return tcp->place.rank ? accept_before(tcp) : OK;
}

// Moves what the sockets take; false: the connection is gone.
static bool move_some(int fd, char *data, size_t *done, size_t size, bool is_sent)
{
    if (*done == size)
        return true;
    ssize_t moved = is_sent ? send(fd, data + *done, size - *done, MSG_NOSIGNAL)
                            : recv(fd, data + *done, size - *done, 0);
    if (moved < 0)
        return errno == EAGAIN || errno == EINTR;
    *done += (size_t)moved;
    return is_sent || moved;
}

static enum err exchange(struct group *group, const void *send, size_t sent, void *receive,
                         size_t received)
{
    struct tcp *tcp = group->own;
    size_t out = 0, in = 0;
    int before = (group->rank + group->size - 1) % group->size;
    while (out < sent || in < received) {
        if (!move_some(tcp->ring[NEXT], (char *)send, &out, sent, true))
            return group_watch_reason(&tcp->watch, (group->rank + 1) % group->size);
        if (!move_some(tcp->ring[BEFORE], receive, &in, received, false))
            return group_watch_reason(&tcp->watch, before);
        struct pollfd both[] = { { out < sent ? tcp->ring[NEXT] : -1, POLLOUT, 0 },
                                 { in < received ? tcp->ring[BEFORE] : -1, POLLIN, 0 } };
        if (out < sent || in < received)
            poll(both, 2, -1);
    }
    return OK;
}

// --- opening and closing -----------------------------------------------------

static void end(struct group *group, enum err err)
{
    struct tcp *tcp = group->own;
    group_watch_end(&tcp->watch, err);
    for (int i = 0; i < 2; i++)
        if (tcp->ring[i] >= 0)
            close(tcp->ring[i]);
    for (int i = 0; i < tcp->place.size - 1; i++)
        if (tcp->lines[i].fd >= 0)
            close(tcp->lines[i].fd);
    if (tcp->listener >= 0)
        close(tcp->listener);
    struct arena arena = tcp->arena;
    arena_release(&arena);
    group->transport = NULL;
}

static void close_tcp(struct group *group)
{
    end(group, OK);
}

static const struct group_transport transport_tcp = {
    .name = "TCP", .exchange = exchange, .close = close_tcp, .abort = end
};

static enum err meet(struct tcp *tcp)
{
    struct group_link_address known;
    TRY(group_link_key(&tcp->key, &tcp->arena, &tcp->place));
    TRY(group_link_find(&known, tcp->place.address, tcp->place.port));
    TRY(tcp->place.rank ? open_other(tcp, &known) : open_first(tcp, &known));
    TRY(group_watch_start(&tcp->watch, &tcp->place, tcp->lines,
                          tcp->place.rank ? 1 : tcp->place.size - 1));
    group_watch_guard(&tcp->watch, tcp->listener);
    return close_ring(tcp);
}

enum err group_tcp_open(struct group *group, const struct group_place *place)
{
    struct arena arena = { 0 };
    struct tcp *tcp = ARENA_NEW(&arena, struct tcp, 1);
    *tcp = (struct tcp){ .arena = arena,
                         .place = *place,
                         .listener = -1,
                         .ring = { -1, -1 },
                         .deadline = clock_seconds() + place->patience_seconds };
    tcp->lines = ARENA_NEW(&tcp->arena, struct group_link, place->size);
    tcp->others = ARENA_NEW(&tcp->arena, struct group_link_address, place->size);
    tcp->watch.is_done = ARENA_NEW(&tcp->arena, bool, place->size);
    for (int i = 0; i < place->size; i++)
        tcp->lines[i].fd = -1;
    group->own = tcp;
    group->transport = &transport_tcp;
    enum err err = meet(tcp);
    if (err)
        end(group, err);
    return err;
}
