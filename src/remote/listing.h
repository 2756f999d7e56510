// SPDX-License-Identifier: Apache-2.0
// listing: reads one page of a bucket's contents, as ListObjectsV2 answers, and error documents.
//
// Reads just the elements that are asked for, wherever they stand; nothing is trusted. Keys are in
// the arena, their entities ("&amp;", "&#x20;") resolved.

#pragma once

#include "base/text.h"

struct listing_object {
    const char *key, *etag; // etag without quotes; "" if absent
    int64_t size_bytes;
};

struct listing {
    struct listing_object *objects;
    size_t count;
    bool is_truncated;
    const char *next; // the token of the next page; "" if there is none
};

enum err listing_read(struct listing *out, struct arena *arena, struct text xml);

// The word in <Code> of an error document, if it is one word of letters; else "".
void listing_error_code(char *out, size_t room, struct text xml);
