// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "host/pool.h"
#include "test/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct item {
    int number;
    unsigned long result;
    int uses;
};

struct run {
    int count;                           // of items
    int fail_take, fail_work, fail_give; // numbers; -1 is none
    int taken, given;
    bool in_order;
    int items_in_flight, most_in_flight;
    int dropped;
    int64_t most_weight, weight, heaviest; // most_weight 0: items have none
    pthread_mutex_t lock;
};

static enum err take(void *context, void *item_, bool *more)
{
    struct run *run = context;
    struct item *item = item_;
    if (run->taken == run->count) {
        *more = false;
        return OK;
    }
    item->number = run->taken++;
    item->uses++;
    pthread_mutex_lock(&run->lock);
    if (++run->items_in_flight > run->most_in_flight)
        run->most_in_flight = run->items_in_flight;
    pthread_mutex_unlock(&run->lock);
    return item->number == run->fail_take ? fail(ERR_INPUT, "take %d", item->number) : OK;
}

// Item 10, 20, … weigh more than all may together.
static int64_t weigh(void *context, const void *item_)
{
    struct run *run = context;
    int number = ((const struct item *)item_)->number;
    return number % 10 ? 1 + number % 3 : 2 * run->most_weight;
}

// The weight of the items that are worked on; an item that is too heavy has to be alone.
static void note_weight(struct run *run, const struct item *item, int sign)
{
    pthread_mutex_lock(&run->lock);
    int64_t own = weigh(run, item);
    run->weight += sign * own;
    int64_t counted = run->weight == own ? 0 : run->weight;
    run->heaviest = counted > run->heaviest ? counted : run->heaviest;
    pthread_mutex_unlock(&run->lock);
}

static enum err work(void *context, void *item_, int worker)
{
    struct run *run = context;
    struct item *item = item_;
    struct rng rng = rng_seeded((unsigned long)item->number);
    item->result = 0;
    note_weight(run, item, 1);
    for (int i = 0, n = item->number % 7 * 1000; i < n; i++) // some take longer than others
        item->result += rng_next(&rng);
    note_weight(run, item, -1);
    (void)worker;
    return item->number >= run->fail_work && run->fail_work >= 0
               ? fail(ERR_INPUT, "work %d", item->number)
               : OK;
}

static enum err give(void *context, void *item_)
{
    struct run *run = context;
    struct item *item = item_;
    run->in_order = run->in_order && item->number == run->given;
    run->given++;
    pthread_mutex_lock(&run->lock);
    run->items_in_flight--;
    pthread_mutex_unlock(&run->lock);
    return item->number == run->fail_give ? fail(ERR_ANSWER, "give %d", item->number) : OK;
}

static void drop(void *context, void *item)
{
    (void)item;
    ((struct run *)context)->dropped++;
}

static enum err run_with(struct run *run, int workers)
{
    run->in_order = true;
    pthread_mutex_init(&run->lock, NULL);
    struct pool_job job = { .context = run,
                            .item_size = sizeof(struct item),
                            .take = take,
                            .work = work,
                            .give = give,
                            .drop = drop,
                            .weigh = run->most_weight ? weigh : NULL,
                            .most_weight = run->most_weight };
    return pool_run(&job, workers);
}

TEST(pool_gives_items_in_order_and_bounds_what_is_in_flight)
{
    for (int workers = 1; workers <= 5; workers++) {
        struct run run = { .count = 500, .fail_take = -1, .fail_work = -1, .fail_give = -1 };
        CHECK(!run_with(&run, workers));
        CHECK(run.in_order && run.given == 500 && run.taken == 500);
        CHECK(run.most_in_flight <= POOL_AHEAD * workers && run.dropped > 0);
    }
}

TEST(pool_holds_no_more_weight_at_once_than_told)
{
    for (int workers = 1; workers <= 8; workers++) {
        struct run run = {
            .count = 300, .fail_take = -1, .fail_work = -1, .fail_give = -1, .most_weight = 6
        };
        CHECK(!run_with(&run, workers) && run.in_order && run.given == 300);
        CHECK(run.heaviest <= 6);
    }
    struct run failing = {
        .count = 300, .fail_take = -1, .fail_work = 50, .fail_give = -1, .most_weight = 6
    };
    CHECK(run_with(&failing, 8) == ERR_INPUT && failing.given == 50);
}

TEST(pool_runs_without_items_and_with_fewer_items_than_workers)
{
    struct run none = { .fail_take = -1, .fail_work = -1, .fail_give = -1 };
    CHECK(!run_with(&none, 4) && none.given == 0);
    struct run one = { .count = 1, .fail_take = -1, .fail_work = -1, .fail_give = -1 };
    CHECK(!run_with(&one, 8) && one.given == 1);
}

TEST(pool_reports_the_first_failure_in_order_whatever_the_threads_do)
{
    for (int workers = 1; workers <= 4; workers++)
        for (int repeat = 0; repeat < 20; repeat++) {
            struct run run = { .count = 200, .fail_take = 90, .fail_work = 41, .fail_give = -1 };
            CHECK(run_with(&run, workers) == ERR_INPUT);
            CHECK(!strcmp(error_text(), "work 41") && run.given == 41 && run.in_order);
        }
}

TEST(pool_carries_failures_of_taking_and_giving)
{
    struct run taking = { .count = 50, .fail_take = 20, .fail_work = -1, .fail_give = -1 };
    CHECK(run_with(&taking, 3) == ERR_INPUT);
    CHECK(!strcmp(error_text(), "take 20") && taking.given == 20);
    struct run giving = { .count = 50, .fail_take = -1, .fail_work = -1, .fail_give = 10 };
    CHECK(run_with(&giving, 3) == ERR_ANSWER);
    CHECK(!strcmp(error_text(), "give 10") && giving.given == 11);
}

TEST(pool_has_at_least_one_worker)
{
    CHECK(pool_workers(0) >= 1 && pool_workers(3) == 3);
    CHECK(pool_workers(100000) == POOL_MOST_WORKERS);
}
