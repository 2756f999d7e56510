// SPDX-License-Identifier: Apache-2.0
// Runs a stream of items over threads and returns the results in order.

#include "host/pool.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct slot {
    void *item;
    bool ready; // done or failed; waits until the items before it are given
    int64_t weight;
    enum err err;
    char message[1024]; // of err: error_text() belongs to a thread, so it is copied
};

struct pool {
    const struct pool_job *job;
    pthread_mutex_t taking; // one take() at a time
    pthread_mutex_t lock;   // all below
    pthread_cond_t changed;
    struct slot *slots;
    int64_t slot_count;
    int64_t taken, given; // items so far
    int64_t weight;       // of those in flight
    bool no_more;         // no item is left to take
    bool giving;          // a thread is in give()
    enum err err;
    char message[1024];
};

struct worker {
    struct pool *pool;
    int number;
};

int pool_workers(int requested)
{
    long cores = requested > 0 ? requested : sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > POOL_MOST_WORKERS ? POOL_MOST_WORKERS : (int)cores;
}

static void set_error(struct slot *slot, enum err err)
{
    slot->err = err;
    if (err)
        snprintf(slot->message, sizeof slot->message, "%s", error_text());
}

// Waits until an item may join those in flight.
static void wait_for_weight(struct pool *pool, const struct slot *slot, int64_t number)
{
    while (slot->weight && pool->given < number && !pool->err &&
           pool->weight + slot->weight > pool->job->most_weight)
        pthread_cond_wait(&pool->changed, &pool->lock);
    pool->weight += slot->weight;
}

// Takes the next item, once its slot in the ring is free; NULL when there are no more.
static struct slot *take(struct pool *pool)
{
    struct slot *slot = NULL;
    pthread_mutex_lock(&pool->taking);
    pthread_mutex_lock(&pool->lock);
    while (!pool->no_more && !pool->err && pool->taken - pool->given >= pool->slot_count)
        pthread_cond_wait(&pool->changed, &pool->lock);
    bool over = pool->no_more || pool->err;
    int64_t number = pool->taken;
    pthread_mutex_unlock(&pool->lock);
    if (!over) {
        slot = &pool->slots[number % pool->slot_count];
        bool more = true;
        const struct pool_job *job = pool->job;
        set_error(slot, job->take(job->context, slot->item, &more));
        slot->weight = job->weigh && more && !slot->err ? job->weigh(job->context, slot->item) : 0;
        pthread_mutex_lock(&pool->lock);
        pool->no_more = pool->no_more || !more || slot->err;
        wait_for_weight(pool, slot, number);
        if (more || slot->err)
            pool->taken++;
        else
            slot = NULL;
        pthread_mutex_unlock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->taking);
    return slot;
}

// Gives all items that are next in order, unless another thread is doing so.
static void give(struct pool *pool, struct slot *done)
{
    pthread_mutex_lock(&pool->lock);
    done->ready = true;
    while (!pool->giving && !pool->err && pool->slots[pool->given % pool->slot_count].ready) {
        struct slot *slot = &pool->slots[pool->given % pool->slot_count];
        pool->giving = true;
        pthread_mutex_unlock(&pool->lock);
        if (!slot->err && pool->job->give)
            set_error(slot, pool->job->give(pool->job->context, slot->item));
        pthread_mutex_lock(&pool->lock);
        pool->giving = false;
        slot->ready = false;
        pool->weight -= slot->weight;
        pool->given++;
        if (slot->err) {
            pool->err = slot->err;
            snprintf(pool->message, sizeof pool->message, "%s", slot->message);
        }
        pthread_cond_broadcast(&pool->changed);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    for (struct slot *slot; (slot = take(pool));) {
        if (!slot->err)
            set_error(slot, pool->job->work(pool->job->context, slot->item, worker->number));
        if (slot->err) { // no later item will be given
            pthread_mutex_lock(&pool->lock);
            pool->no_more = true;
            pthread_mutex_unlock(&pool->lock);
        }
        give(pool, slot);
    }
    return NULL;
}

static enum err run_threads(struct pool *pool, int count)
{
    struct worker workers[POOL_MOST_WORKERS];
    pthread_t threads[POOL_MOST_WORKERS];
    int started = 1;
    for (int i = 0; i < count; i++)
        workers[i] = (struct worker){ pool, i };
    for (; started < count; started++) // with fewer threads it is only slower
        if (pthread_create(&threads[started], NULL, run_worker, &workers[started]))
            break;
    run_worker(&workers[0]);
    for (int i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
    return pool->err ? fail(pool->err, "%s", pool->message) : OK;
}

enum err pool_run(const struct pool_job *job, int workers)
{
    workers = pool_workers(workers);
    struct pool pool = { .job = job, .slot_count = workers == 1 ? 1 : POOL_AHEAD * workers };
    size_t size = (job->item_size + 15) & ~(size_t)15;
    pool.slots = calloc((size_t)pool.slot_count, sizeof *pool.slots);
    char *items = calloc((size_t)pool.slot_count, size ? size : 16);
    enum err err = OK;
    if (!pool.slots || !items) {
        err = fail(ERR_MEMORY, "out of memory; cannot start %d threads", workers);
    } else {
        for (int64_t i = 0; i < pool.slot_count; i++)
            pool.slots[i].item = items + (size_t)i * size;
        pthread_mutex_init(&pool.taking, NULL);
        pthread_mutex_init(&pool.lock, NULL);
        pthread_cond_init(&pool.changed, NULL);
        err = run_threads(&pool, workers);
        for (int64_t i = 0; job->drop && i < pool.slot_count; i++)
            job->drop(job->context, pool.slots[i].item);
        pthread_cond_destroy(&pool.changed);
        pthread_mutex_destroy(&pool.lock);
        pthread_mutex_destroy(&pool.taking);
    }
    free(pool.slots);
    free(items);
    return err;
}
