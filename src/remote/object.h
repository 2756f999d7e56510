// SPDX-License-Identifier: Apache-2.0
// object: a file in an object store or on the web: finds it, lists many, reads ranges of it.
//
//     struct object object;
//     TRY(object_find(&object, arena, "s3://bucket/train.jsonl.zst"));
//     TRY(object_read(&object, 0, size, buffer));
//
// Requests that fail for a cause that may pass (no connection, 429, 5xx, a body cut short) are made
// again from the byte where they broke off, up to AWS_MAX_ATTEMPTS times without progress (8), with
// pauses that double from 0.1 s. An object that changes while it is read is an error. Any thread
// may call; the arena is only used to find and list.

#pragma once

#include "base/text.h"

#include <stdatomic.h>

struct object {
    const char *name; // as people read it: without the query of a web address
    const char *path; // escaped, as it is sent; of a web address the whole
    const struct object_store *store;
    int64_t size_bytes; // -1: the server does not say
    const char *etag;   // "" if unknown
    bool has_ranges;    // parts of it can be asked for
    bool is_absent;     // the server says that there is none of that name
};

struct object_list {
    struct object *objects; // by their keys
    size_t count;
};

// One object. ERR_INPUT and is_absent if there is none of that name.
enum err object_find(struct object *out, struct arena *arena, const char *word);

// All objects of a bucket whose keys begin with the address's; name: what a failure calls them.
enum err object_list(struct object_list *out, struct arena *arena, const char *word,
                     const char *name);

// Gives `size` bytes from `first` on to take(), in order; -1: all there are. take() returns false
// to have no more, and *cancel (if not NULL) ends the pauses between attempts.
struct object_range {
    int64_t first, size;
    bool (*take)(void *context, const char *at, size_t size);
    void *context;
    const atomic_bool *cancel;
};
enum err object_get(const struct object *object, const struct object_range *range);

enum err object_read(const struct object *object, int64_t first, size_t size, char *out);
