// SPDX-License-Identifier: Apache-2.0
// Sockets between ranks: addresses, deadlines, and the handshake.

#define _GNU_SOURCE // getrandom
#include "train/group/group_link.h"

#include "base/sha256.h"
#include "host/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { NONCE = 16, DIGEST = 32, HANDSHAKE_SECONDS = 5 };
static const char magic[16] = "gpuhours group 1";

// --- bytes before a deadline -------------------------------------------------

static bool wait_for(int fd, short events, double deadline)
{
    struct pollfd one = { .fd = fd, .events = events };
    for (;;) {
        double left = deadline - clock_seconds();
        int ready = left > 0 ? poll(&one, 1, (int)(left * 1000) + 1) : 0;
        if (ready > 0)
            return true;
        if (!ready || errno != EINTR)
            return false;
    }
}

bool group_link_send(int fd, const void *data, size_t size, double deadline)
{
    for (size_t done = 0; done < size;) {
        ssize_t sent = send(fd, (const char *)data + done, size - done, MSG_NOSIGNAL);
        if (sent > 0)
            done += (size_t)sent;
        else if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        else if (!wait_for(fd, POLLOUT, deadline))
            return false;
    }
    return true;
}

bool group_link_receive(int fd, void *data, size_t size, double deadline)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = recv(fd, (char *)data + done, size - done, 0);
        if (got > 0)
            done += (size_t)got;
        else if (!got || (errno != EAGAIN && errno != EINTR))
            return false;
        else if (!wait_for(fd, POLLIN, deadline))
            return false;
    }
    return true;
}

// --- addresses ---------------------------------------------------------------

enum err group_link_find(struct group_link_address *out, const char *host, int port)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    int status = getaddrinfo(host, service, &hints, &found);
    if (status || !found)
        return fail(ERR_UNAVAILABLE,
                    "the host of rank 0, \"%.80s\", is unknown here (%s); set "
                    "MASTER_ADDR to a name or number that every host can reach",
                    host, status ? gai_strerror(status) : "no address");
    memcpy(&out->at, found->ai_addr, found->ai_addrlen);
    out->size = found->ai_addrlen;
    freeaddrinfo(found);
    return OK;
}

const char *group_link_name(struct arena *arena, const struct group_link_address *address)
{
    char host[64], port[16];
    if (getnameinfo((const struct sockaddr *)&address->at, address->size, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV))
        return "an unknown address";
    return text_format(arena, "%s:%s", host, port);
}

void group_link_set_port(struct group_link_address *address, int port)
{
    if (address->at.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&address->at)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)&address->at)->sin_port = htons((uint16_t)port);
}

static int port_of(const struct group_link_address *address)
{
    return ntohs(address->at.ss_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)&address->at)->sin6_port
                     : ((const struct sockaddr_in *)&address->at)->sin_port);
}

struct group_link_address group_link_reachable(const struct group_link_address *known, int port)
{
    struct group_link_address out = *known;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&known->at;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&known->at;
    bool is_local = known->at.ss_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&six->sin6_addr)
                                                    : ntohl(four->sin_addr.s_addr) >> 24 == 127;
    if (!is_local) {
        memset(&out.at, 0, sizeof out.at);
        out.at.ss_family = known->at.ss_family;
    }
    group_link_set_port(&out, port);
    return out;
}

// --- sockets -----------------------------------------------------------------

// Small messages go at once, and a host that vanished without a word is noticed within 9 s.
static void prepare(int fd)
{
    static const struct {
        int level, name, value;
    } settings[] = {
        { IPPROTO_TCP, TCP_NODELAY, 1 },  { SOL_SOCKET, SO_KEEPALIVE, 1 },
        { IPPROTO_TCP, TCP_KEEPIDLE, 3 }, { IPPROTO_TCP, TCP_KEEPINTVL, 2 },
        { IPPROTO_TCP, TCP_KEEPCNT, 3 },  { IPPROTO_TCP, TCP_USER_TIMEOUT, 9000 },
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        setsockopt(fd, settings[i].level, settings[i].name, &settings[i].value,
                   sizeof settings[i].value);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

enum err group_link_listen(int *out, const struct group_link_address *address, int *port)
{
    int fd = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;
    struct group_link_address bound = { .size = sizeof bound.at };
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address->at, address->size) ||
        listen(fd, 128) || getsockname(fd, (struct sockaddr *)&bound.at, &bound.size)) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return fail(ERR_UNAVAILABLE,
                    "cannot listen on port %d for the other ranks: %s; set " GROUP_PLACE_PORT
                    " to a free port, the same for every rank",
                    port_of(address), strerror(why));
    }
    *out = fd;
    *port = port_of(&bound);
    return OK;
}

static int connect_once(const struct group_link_address *address, double deadline)
{
    int fd = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int problem = 0;
    socklen_t size = sizeof problem;
    if (fd < 0)
        return -1;
    prepare(fd);
    if (!connect(fd, (const struct sockaddr *)&address->at, address->size))
        return fd;
    if (errno == EINPROGRESS && wait_for(fd, POLLOUT, deadline) &&
        !getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) && !problem)
        return fd;
    close(fd);
    return -1;
}

// --- the key -----------------------------------------------------------------

// HMAC of RFC 2104 over SHA-256; the key is one digest long.
static void authenticate(uint8_t out[DIGEST], const struct group_link_key *key, const void *data,
                         size_t size)
{
    enum { BLOCK = 64, MOST = 128 };
    char inner[BLOCK + MOST], outer[BLOCK + DIGEST];
    for (int i = 0; i < BLOCK; i++) {
        uint8_t byte = i < DIGEST ? key->bytes[i] : 0;
        inner[i] = (char)(byte ^ 0x36);
        outer[i] = (char)(byte ^ 0x5c);
    }
    memcpy(inner + BLOCK, data, size);
    sha256(out, (struct text){ inner, BLOCK + size });
    memcpy(outer + BLOCK, out, DIGEST);
    sha256(out, (struct text){ outer, sizeof outer });
}

static bool is_equal(const uint8_t *a, const uint8_t *b) // in the same time for all
{
    uint8_t differs = 0;
    for (int i = 0; i < DIGEST; i++)
        differs |= a[i] ^ b[i];
    return !differs;
}

static bool draw(void *out, size_t size)
{
    return getrandom(out, size, 0) == (ssize_t)size;
}

// --- the handshake -----------------------------------------------------------

struct challenge {
    char magic[sizeof magic];
    uint8_t nonce[NONCE];
};

struct proof {
    uint8_t nonce[NONCE];
    struct group_link_hello hello;
    uint8_t digest[DIGEST];
};

enum verdict { VERDICT_WELCOME, VERDICT_STRANGER, VERDICT_OTHER_SIZE };

struct answer {
    int32_t verdict;
    uint8_t digest[DIGEST];
};

struct signed_part { // what both sides prove
    char side[16];
    uint8_t accepting[NONCE], connecting[NONCE];
    struct group_link_hello hello;
};

static void prove(uint8_t out[DIGEST], const struct group_link_key *key, const char *side,
                  const struct challenge *challenge, const struct proof *proof)
{
    struct signed_part part = { .hello = proof->hello };
    snprintf(part.side, sizeof part.side, "%s", side);
    memcpy(part.accepting, challenge->nonce, NONCE);
    memcpy(part.connecting, proof->nonce, NONCE);
    authenticate(out, key, &part, sizeof part);
}

static enum err refused(const char *where, int verdict, int size)
{
    if (verdict == VERDICT_OTHER_SIZE)
        return fail(ERR_USAGE, "rank 0 at %s is of another number of ranks than %d", where, size);
    return fail(ERR_USAGE,
                "rank 0 at %s has another secret; set " GROUP_PLACE_SECRET
                " to the same word on every host",
                where);
}

// *silent: the other side did not answer, which may be a matter of time.
static enum err introduce(struct group_link *link, const struct group_link_key *key,
                          const char *where, bool *silent)
{
    struct challenge challenge;
    struct proof proof = { .hello = link->hello };
    struct answer answer;
    uint8_t expected[DIGEST];
    double deadline = clock_seconds() + HANDSHAKE_SECONDS;
    *silent = true;
    if (!group_link_receive(link->fd, &challenge, sizeof challenge, deadline) ||
        memcmp(challenge.magic, magic, sizeof magic) || !draw(proof.nonce, NONCE))
        return OK;
    prove(proof.digest, key, "connecting", &challenge, &proof);
    if (!group_link_send(link->fd, &proof, sizeof proof, deadline) ||
        !group_link_receive(link->fd, &answer, sizeof answer, deadline))
        return OK;
    *silent = false;
    prove(expected, key, "accepting", &challenge, &proof);
    if (answer.verdict || !is_equal(expected, answer.digest))
        return refused(where, answer.verdict, link->hello.size);
    return OK;
}

enum err group_link_connect(struct group_link *out, const struct group_link_address *address,
                            const struct group_link_key *key, const struct group_link_hello *hello,
                            double deadline)
{
    struct arena scratch = { 0 };
    const char *where = group_link_name(&scratch, address);
    enum err err = OK;
    double pause = 0.01;
    bool silent = true;
    *out = (struct group_link){ .fd = -1, .hello = *hello, .peer = *address };
    while (silent && clock_seconds() < deadline) {
        out->fd = connect_once(address, deadline);
        if (out->fd >= 0)
            err = introduce(out, key, where, &silent);
        if (!err && !silent)
            break;
        if (out->fd >= 0)
            close(out->fd);
        out->fd = -1;
        if (silent)
            poll(NULL, 0, (int)(1000 * pause));
        pause = pause < 0.5 ? 2 * pause : pause;
    }
    if (silent)
        err = fail(ERR_UNAVAILABLE, "rank %d gets no answer from %s", hello->rank, where);
    arena_release(&scratch);
    return err;
}

static bool welcome(struct group_link *link, const struct group_link_key *key, int size)
{
    struct challenge challenge;
    struct proof proof;
    struct answer answer = { 0 };
    uint8_t expected[DIGEST];
    double deadline = clock_seconds() + HANDSHAKE_SECONDS;
    memcpy(challenge.magic, magic, sizeof magic);
    if (!draw(challenge.nonce, NONCE) ||
        !group_link_send(link->fd, &challenge, sizeof challenge, deadline) ||
        !group_link_receive(link->fd, &proof, sizeof proof, deadline))
        return false;
    prove(expected, key, "connecting", &challenge, &proof);
    bool is_known = is_equal(expected, proof.digest);
    link->hello = proof.hello;
    answer.verdict = !is_known                  ? VERDICT_STRANGER
                     : proof.hello.size != size ? VERDICT_OTHER_SIZE
                                                : VERDICT_WELCOME;
    if (is_known)
        prove(answer.digest, key, "accepting", &challenge, &proof);
    return group_link_send(link->fd, &answer, sizeof answer, deadline) && !answer.verdict;
}

enum err group_link_accept(struct group_link *out, int listener, const struct group_link_key *key,
                           int size, double deadline, int *strangers)
{
    while (wait_for(listener, POLLIN, deadline)) {
        *out = (struct group_link){ .peer.size = sizeof out->peer.at };
        out->fd = accept(listener, (struct sockaddr *)&out->peer.at, &out->peer.size);
        if (out->fd < 0 && errno == EINVAL)
            return OK; // the listener was shut
        if (out->fd < 0)
            continue;
        fcntl(out->fd, F_SETFD, FD_CLOEXEC);
        prepare(out->fd);
        if (welcome(out, key, size))
            return OK;
        close(out->fd);
        ++*strangers;
    }
    out->fd = -1;
    return OK;
}
