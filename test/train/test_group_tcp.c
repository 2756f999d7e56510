// SPDX-License-Identifier: Apache-2.0
// Ranks over sockets: they meet, exchange, keep strangers out, and notice who is gone.

#include "host/clock.h"
#include "test/train/gradient.h"
#include "test/train/ranks.h"
#include "train/group/group_link.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct meeting {
    int size, port, listener;
    double patience;
    const char *secret[RANKS_MOST];
    int claimed_size[RANKS_MOST]; // 0: size
    int claimed_rank[RANKS_MOST]; // 0: its own
    enum err errs[RANKS_MOST];
    char texts[RANKS_MOST][300];
    bool (*body)(struct group *group);
    int lost; // calls of group_place.lost
    pthread_mutex_t lock;
};

static void on_loss(void *context, enum err err, const char *text)
{
    struct meeting *meeting = context;
    pthread_mutex_lock(&meeting->lock);
    meeting->lost += err == ERR_UNAVAILABLE || !text;
    pthread_mutex_unlock(&meeting->lock);
}

static bool take_part(struct group *group, void *context)
{
    struct meeting *meeting = context;
    int i = group->rank;
    struct group_place place = { .rank = i,
                                 .size = meeting->size,
                                 .local_rank = i,
                                 .local_size = meeting->size,
                                 .address = "127.0.0.1",
                                 .port = meeting->port,
                                 .listener = i ? -1 : dup(meeting->listener),
                                 .job = "test",
                                 .secret = meeting->secret[i] ? meeting->secret[i] : "secret",
                                 .patience_seconds = meeting->patience,
                                 .context = meeting,
                                 .lost = on_loss };
    if (meeting->claimed_size[i])
        place.size = meeting->claimed_size[i];
    if (meeting->claimed_rank[i])
        place.rank = meeting->claimed_rank[i];
    struct group tcp;
    meeting->errs[i] = group_open(&tcp, &place);
    if (meeting->errs[i]) {
        snprintf(meeting->texts[i], sizeof meeting->texts[i], "%s", error_text());
        return true;
    }
    bool good = !meeting->body || meeting->body(&tcp);
    group_close(&tcp);
    return good;
}

static bool hold(struct meeting *meeting, int size)
{
    struct group ranks[RANKS_MOST];
    struct group_link_address here;
    meeting->size = size;
    meeting->patience = meeting->patience ? meeting->patience : 30;
    pthread_mutex_init(&meeting->lock, NULL);
    for (int i = 0; i < size; i++)
        ranks[i] = (struct group){ .rank = i, .size = size };
    if (group_link_find(&here, "127.0.0.1", 0) ||
        group_link_listen(&meeting->listener, &here, &meeting->port))
        return false;
    bool good = ranks_run_groups(ranks, size, take_part, meeting);
    close(meeting->listener);
    return good;
}

// --- exchanges ---------------------------------------------------------------

static bool sums(struct group *group)
{
    enum { COUNT = 300007 }; // more than a socket holds
    static float values[RANKS_MOST][COUNT];
    float *mine = values[group->rank];
    double number = group->rank;
    for (int i = 0; i < COUNT; i++)
        mine[i] = (float)(i % 9 + group->rank);
    struct tensor tensor = tensor_of(mine, DTYPE_F32, 1, COUNT);
    group_all_reduce(group, tensor);
    bool good = !group_wait(group) && !group_sum(group, &number, 1);
    int ranks = group->size, all = ranks * (ranks - 1) / 2;
    for (int i = 0; i < COUNT && good; i++)
        good = mine[i] == (float)(i % 9 * ranks + all);
    group_broadcast(group, tensor, ranks - 1);
    return good && number == all && !group_wait(group);
}

TEST(group_over_sockets_sums_as_over_threads)
{
    static const int sizes[] = { 2, 3, 4, 8 };
    for (int i = 0; i < 4; i++) {
        struct meeting meeting = { .body = sums };
        CHECK(hold(&meeting, sizes[i]));
        for (int rank = 0; rank < sizes[i]; rank++)
            CHECK(!meeting.errs[rank]);
        CHECK(!meeting.lost);
    }
}

// --- strangers ---------------------------------------------------------------

TEST(group_lets_nobody_in_who_does_not_know_the_secret)
{
    struct meeting meeting = { .secret = { [1] = "guess" }, .patience = 1 };
    CHECK(hold(&meeting, 2));
    CHECK(meeting.errs[0] == ERR_UNAVAILABLE && meeting.errs[1] == ERR_USAGE);
    CHECK(strstr(meeting.texts[0], "did not come within 1 s: 1; somebody came with another"));
    CHECK(strstr(meeting.texts[1], "has another secret"));
}

TEST(group_names_the_ranks_that_do_not_come)
{
    struct meeting meeting = { .patience = 1, .claimed_size = { 4, 4 } };
    CHECK(hold(&meeting, 2));
    CHECK(strstr(meeting.texts[0], "of 4 ranks these did not come within 1 s: 2, 3"));
    CHECK(meeting.errs[1] == ERR_UNAVAILABLE);
}

TEST(group_refuses_ranks_of_another_count_and_ranks_that_come_twice)
{
    struct meeting other = { .patience = 1, .claimed_size = { [1] = 3 } };
    CHECK(hold(&other, 2));
    CHECK(strstr(other.texts[1], "is of another number of ranks than 3"));
    struct meeting twice = { .patience = 2, .claimed_rank = { [2] = 1 } };
    CHECK(hold(&twice, 3));
    CHECK(strstr(twice.texts[0], "two processes say that they are rank 1 of 3"));
}

TEST(group_waits_no_longer_than_it_was_told_for_rank_0)
{
    struct group group;
    struct group_place place = { .rank = 1,
                                 .size = 2,
                                 .address = "127.0.0.1",
                                 .port = 1,
                                 .listener = -1,
                                 .job = "",
                                 .secret = "s",
                                 .patience_seconds = 0.3 };
    double began = clock_seconds();
    CHECK(group_open(&group, &place) == ERR_UNAVAILABLE && clock_seconds() - began < 30);
    CHECK(strstr(error_text(), "rank 1 gets no answer from 127.0.0.1:1"));
}

// --- losses ------------------------------------------------------------------

// One rank fails while the others are in a sum.
static bool lose_one(struct group *group)
{
    double value = 1;
    if (group->rank == 2) {
        group_abort(group, ERR_INPUT);
        return true;
    }
    double began = clock_seconds();
    enum err err = group_sum(group, &value, 1);
    return err == ERR_INPUT && clock_seconds() - began < 30;
}

TEST(group_over_sockets_ends_everybody_when_a_rank_fails)
{
    struct meeting meeting = { .body = lose_one };
    CHECK(hold(&meeting, 4));
    CHECK(meeting.lost == 3); // each of the others heard of it
}
