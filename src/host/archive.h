// SPDX-License-Identifier: Apache-2.0
// archive: reads a file as a stream, unpacking gzip and zstd on the way.
//
//     struct archive in;
//     TRY(archive_open(&in, "train.jsonl.gz", 0));
//     while (!(err = archive_read(&in, buffer, room, &size)) && size) …
//     archive_close(&in);
//
// The format is recognised by the first bytes, not by the name. Several gzip members or zstd
// frames in a row are one stream. Memory is bounded: a buffer, and the window of the format (a zstd
// window over 128 MiB is refused). A file that unpacks to more than `ratio_limit` times its size is
// refused once it is past ARCHIVE_FREE_BYTES: text compresses 3 to 20 times, a decompression bomb
// a thousand times and more.

#pragma once

#include "base/text.h"

enum archive_kind { ARCHIVE_PLAIN, ARCHIVE_GZIP, ARCHIVE_ZSTD };

enum { ARCHIVE_RATIO_LIMIT = 100 };
#define ARCHIVE_FREE_BYTES ((int64_t)64 << 20)

struct archive {
    const char *name; // for error messages
    int fd;
    enum archive_kind kind;
    double ratio_limit;
    int64_t size_bytes; // of the file; 0: unknown (a pipe)
    int64_t in_bytes;   // read from the file so far; for progress bars
    int64_t left_bytes; // of archive_rows(), not read yet; -1: to the end of the file
    int64_t out_bytes;  // handed to the reader so far
    char *buffer;       // packed bytes
    size_t at, filled;  // of the buffer
    bool at_end;        // of the file
    bool between;       // two members or frames: the stream may end here
    void *stream;       // z_stream or ZSTD_DCtx
};

// "-" is standard input. A ratio_limit of 0 is ARCHIVE_RATIO_LIMIT.
enum err archive_open(struct archive *archive, const char *path, double ratio_limit);

// Reads up to `room` bytes; a size of 0 is the end.
enum err archive_read(struct archive *archive, char *out, size_t room, size_t *size);

// Goes on with the lines that begin in the bytes from … to-1 of a plain file. The ranges of a file
// that follow each other give all of its bytes, each once.
enum err archive_rows(struct archive *archive, int64_t from, int64_t to);

void archive_close(struct archive *archive);
