// SPDX-License-Identifier: Apache-2.0
// stream: reads a range of an object in order, with several requests under way at once.
//
//     struct stream *stream;
//     TRY(stream_open(&stream, &object, 0, object.size_bytes, &(struct stream_options){ 0 }));
//     while (!(err = stream_read(stream, buffer, room, &size)) && size) …
//     stream_close(stream);
//
// Memory is part_bytes × depth, whatever the object's size: parts are read ahead until all buffers
// are full. A server that knows no ranges is read over one connection, with the same buffers. The
// object must outlive the stream.

#pragma once

#include "remote/object.h"

struct stream_options {
    size_t part_bytes; // 0: STREAM_PART_BYTES
    int depth;         // requests at once; 0: STREAM_DEPTH
};

enum { STREAM_PART_BYTES = 8 << 20, STREAM_DEPTH = 8, STREAM_MOST_DEPTH = 32 };

struct stream;

// A size of -1 is all there is, of an object whose size the server does not say.
enum err stream_open(struct stream **out, const struct object *object, int64_t first, int64_t size,
                     const struct stream_options *options);
enum err stream_read(struct stream *stream, char *out, size_t room, size_t *size); // 0: the end
void stream_close(struct stream *stream); // accepts NULL; ends requests that are under way
