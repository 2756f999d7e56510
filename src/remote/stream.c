// SPDX-License-Identifier: Apache-2.0
// A ring of parts: threads fill them with ranges of the object, the reader empties them in order.

#include "remote/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct part {
    char *at;
    size_t size;
    bool is_full, is_last; // is_last: the object ends in it (sizes that nobody knew before)
    enum err err;
    char problem[512]; // the failing thread's error_text()
};

struct stream {
    const struct object *object;
    int64_t first, size;
    size_t part_bytes;
    int depth, thread_count;
    bool in_one_request; // no ranges: one thread fills all parts
    pthread_t threads[STREAM_MOST_DEPTH];
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    atomic_bool cancelled;
    int64_t next_part;   // to be asked for
    int64_t reading;     // the part that the reader is in
    size_t read_of_part; // bytes of it
    struct part parts[STREAM_MOST_DEPTH];
};

static int64_t part_count(const struct stream *s)
{
    return (s->size + (int64_t)s->part_bytes - 1) / (int64_t)s->part_bytes;
}

static struct part *part_of(struct stream *s, int64_t number)
{
    return &s->parts[number % s->depth];
}

// Waits until the ring has room for a part; false when the stream is closed.
static bool wait_for_room(struct stream *s, int64_t number)
{
    while (!atomic_load(&s->cancelled) && number >= s->reading + s->depth)
        pthread_cond_wait(&s->emptied, &s->lock);
    return !atomic_load(&s->cancelled);
}

static void hand_over(struct stream *s, struct part *part, enum err err)
{
    part->err = err;
    if (err) {
        strncpy(part->problem, error_text(), sizeof part->problem - 1);
        part->problem[sizeof part->problem - 1] = 0;
    }
    part->is_full = true;
    pthread_cond_broadcast(&s->filled);
}

static bool take_into_part(void *context, const char *at, size_t size)
{
    struct part *part = context;
    memcpy(part->at + part->size, at, size);
    part->size += size;
    return true;
}

static enum err fill_part(struct stream *s, int64_t number, struct part *part)
{
    int64_t offset = number * (int64_t)s->part_bytes, left = s->size - offset;
    part->size = 0;
    return object_get(s->object, &(struct object_range){ .first = s->first + offset,
                                                         .size = left < (int64_t)s->part_bytes
                                                                     ? left
                                                                     : (int64_t)s->part_bytes,
                                                         .take = take_into_part,
                                                         .context = part,
                                                         .cancel = &s->cancelled });
}

static void *fill_parts(void *context)
{
    struct stream *s = context;
    int64_t count = part_count(s);
    pthread_mutex_lock(&s->lock);
    while (s->next_part < count) {
        int64_t number = s->next_part++;
        if (!wait_for_room(s, number))
            break;
        pthread_mutex_unlock(&s->lock);
        enum err err = fill_part(s, number, part_of(s, number));
        pthread_mutex_lock(&s->lock);
        hand_over(s, part_of(s, number), err);
        if (err)
            break;
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

// --- without ranges ----------------------------------------------------------

// Puts what arrives into part after part, and waits when all are full.
static bool take_into_ring(void *context, const char *at, size_t size)
{
    struct stream *s = context;
    while (size) {
        struct part *part = part_of(s, s->next_part);
        size_t room = s->part_bytes - part->size, piece = size < room ? size : room;
        memcpy(part->at + part->size, at, piece);
        part->size += piece;
        at += piece;
        size -= piece;
        if (part->size < s->part_bytes)
            continue;
        pthread_mutex_lock(&s->lock);
        hand_over(s, part, OK);
        bool open = wait_for_room(s, ++s->next_part);
        part_of(s, s->next_part)->size = 0;
        pthread_mutex_unlock(&s->lock);
        if (!open)
            return false;
    }
    return true;
}

static void *fill_in_one_request(void *context)
{
    struct stream *s = context;
    enum err err = object_get(s->object, &(struct object_range){ .first = s->first,
                                                                 .size = s->size,
                                                                 .take = take_into_ring,
                                                                 .context = s,
                                                                 .cancel = &s->cancelled });
    pthread_mutex_lock(&s->lock);
    struct part *part = part_of(s, s->next_part);
    part->is_last = true;
    hand_over(s, part, err);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

// --- the reader --------------------------------------------------------------

static enum err start(struct stream *s)
{
    int64_t count = s->in_one_request ? 1 : part_count(s);
    int wanted = count < s->depth ? (int)count : s->depth;
    for (int i = 0; i < s->depth; i++) {
        s->parts[i].at = malloc(s->part_bytes);
        if (!s->parts[i].at)
            return fail(ERR_MEMORY, "%s: out of memory", s->object->name);
    }
    for (; s->thread_count < wanted; s->thread_count++)
        if (pthread_create(&s->threads[s->thread_count], NULL,
                           s->in_one_request ? fill_in_one_request : fill_parts, s))
            break;
    return s->thread_count || !wanted
               ? OK
               : fail(ERR_UNAVAILABLE, "%s: no thread could be started", s->object->name);
}

enum err stream_open(struct stream **out, const struct object *object, int64_t first, int64_t size,
                     const struct stream_options *options)
{
    *out = NULL;
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return fail(ERR_MEMORY, "%s: out of memory", object->name);
    s->object = object;
    s->first = first;
    s->size = size;
    s->part_bytes = options->part_bytes ? options->part_bytes : STREAM_PART_BYTES;
    s->depth = options->depth ? options->depth : STREAM_DEPTH;
    if (s->depth > STREAM_MOST_DEPTH)
        s->depth = STREAM_MOST_DEPTH;
    s->in_one_request = !object->has_ranges || size < 0;
    if (!s->in_one_request && part_count(s) < s->depth) // a short one needs fewer buffers
        s->depth = part_count(s) > 1 ? (int)part_count(s) : 1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->filled, NULL);
    pthread_cond_init(&s->emptied, NULL);
    enum err err = start(s);
    if (err)
        stream_close(s);
    else
        *out = s;
    return err;
}

// The part that the reader is in, full; NULL at the end.
static struct part *current_part(struct stream *s)
{
    if (!s->in_one_request && s->reading >= part_count(s))
        return NULL;
    struct part *part = part_of(s, s->reading);
    pthread_mutex_lock(&s->lock);
    while (!part->is_full)
        pthread_cond_wait(&s->filled, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return part;
}

static void leave_part(struct stream *s, struct part *part)
{
    pthread_mutex_lock(&s->lock);
    part->is_full = false;
    s->reading++;
    s->read_of_part = 0;
    pthread_cond_broadcast(&s->emptied);
    pthread_mutex_unlock(&s->lock);
}

enum err stream_read(struct stream *s, char *out, size_t room, size_t *size)
{
    *size = 0;
    while (!*size) {
        struct part *part = current_part(s);
        if (!part)
            return OK;
        if (part->err)
            return fail(part->err, "%s", part->problem);
        size_t left = part->size - s->read_of_part;
        if (!left && part->is_last)
            return OK;
        *size = left < room ? left : room;
        memcpy(out, part->at + s->read_of_part, *size);
        s->read_of_part += *size;
        if (s->read_of_part == part->size && !part->is_last)
            leave_part(s, part);
    }
    return OK;
}

void stream_close(struct stream *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->cancelled, true);
    pthread_cond_broadcast(&s->emptied);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->thread_count; i++)
        pthread_join(s->threads[i], NULL);
    for (int i = 0; i < s->depth; i++)
        free(s->parts[i].at);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->filled);
    pthread_cond_destroy(&s->emptied);
    free(s);
}
