// SPDX-License-Identifier: Apache-2.0
// archive: reads a file or a remote object as a stream, unpacking gzip, zstd, bzip2 and xz.
//
//     struct archive in;
//     TRY(archive_open(&in, "train.jsonl.gz", 0));
//     while (!(err = archive_read(&in, buffer, room, &size)) && size) …
//     archive_close(&in);
//
// The format is recognised by the first bytes, not by the name. Several members or frames in a row
// are one stream. Memory is bounded: a buffer, the window of the format (one over 128 MiB is
// refused), and the parts of an object that are read ahead (remote/stream). A file that unpacks to
// more than `ratio_limit` times its size is refused once it is past ARCHIVE_FREE_BYTES: text
// compresses 3 to 20 times, a decompression bomb a thousand times and more.

#pragma once

#include "remote/stream.h"

enum archive_kind { ARCHIVE_PLAIN, ARCHIVE_GZIP, ARCHIVE_ZSTD, ARCHIVE_BZIP2, ARCHIVE_XZ };

enum { ARCHIVE_RATIO_LIMIT = 100 };
#define ARCHIVE_FREE_BYTES ((int64_t)64 << 20)

struct archive {
    const char *name; // for error messages
    int fd;
    const struct object *object; // in place of fd; NULL for a file
    struct stream *parts;        // of the object
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
    void *stream;       // z_stream, ZSTD_DCtx, bz_stream or lzma_stream
};

// "-" is standard input. A ratio_limit of 0 is ARCHIVE_RATIO_LIMIT.
enum err archive_open(struct archive *archive, const char *path, double ratio_limit);

// The same for a remote object, which must outlive the archive.
enum err archive_open_object(struct archive *archive, const struct object *object,
                             double ratio_limit);

// Whether bytes can be read at any place: a regular file, or an object with ranges.
bool archive_has_places(const struct archive *archive);

// Reads the file's own bytes, packed or not, at a place; moves nothing. False past its end.
bool archive_read_at(const struct archive *archive, int64_t first, void *out, size_t size);

// Reads up to `room` bytes; a size of 0 is the end.
enum err archive_read(struct archive *archive, char *out, size_t room, size_t *size);

// Goes on so many bytes later; in a plain file without reading them. Past the end is the end.
enum err archive_skip(struct archive *archive, int64_t bytes);

// Goes on with the lines that begin in the bytes from … to-1 of a plain file. The ranges of a file
// that follow each other give all of its bytes, each once.
enum err archive_rows(struct archive *archive, int64_t from, int64_t to);

void archive_close(struct archive *archive);

// All of a file, unpacked, in the arena.
enum err archive_read_all(struct text *out, struct arena *arena, const char *path);
