// SPDX-License-Identifier: Apache-2.0
// Reads plain, gzip and zstd files as one stream, and refuses archives that unpack to too much.

#include "host/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { BUFFER_BYTES = 256 * 1024 };

// --- the packed file ---------------------------------------------------------

static enum err read_file(struct archive *a, char *out, size_t room, size_t *size)
{
    if (a->left_bytes >= 0 && room > (size_t)a->left_bytes)
        room = (size_t)a->left_bytes;
    for (;;) {
        ssize_t got = read(a->fd, out, room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(ERR_INPUT, "%s: cannot be read: %s", a->name, strerror(errno));
        a->at_end = !got;
        a->in_bytes += got;
        a->left_bytes -= a->left_bytes >= 0 ? got : 0;
        *size = (size_t)got;
        return OK;
    }
}

// Makes sure that the buffer has bytes, unless the file is at its end.
static enum err refill(struct archive *a)
{
    if (a->at < a->filled || a->at_end)
        return OK;
    a->at = 0;
    return read_file(a, a->buffer, BUFFER_BYTES, &a->filled);
}

static bool begins(const struct archive *a, const char *magic, size_t size)
{
    return a->filled - a->at >= size && !memcmp(a->buffer + a->at, magic, size);
}

static enum err refuse_other_formats(const struct archive *a)
{
    static const struct {
        const char *magic;
        size_t size;
        const char *what, *fix;
    } others[] = {
        { "PK\3\4", 4, "a zip archive", "unpack it with unzip" },
        { "BZh", 3, "packed with bzip2", "unpack it with bunzip2" },
        { "\xFD"
          "7zXZ",
          5, "packed with xz", "unpack it with unxz" },
        { "\x04\x22\x4D\x18", 4, "packed with lz4", "unpack it with lz4 -d" },
        { "\xFF\xFE", 2, "UTF-16 text", "convert it with iconv -f utf-16 -t utf-8" },
        { "\xFE\xFF", 2, "UTF-16 text", "convert it with iconv -f utf-16 -t utf-8" },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (begins(a, others[i].magic, others[i].size))
            return fail(ERR_INPUT, "%s: is %s; only plain, gzip and zstd files are read: %s first",
                        a->name, others[i].what, others[i].fix);
    return OK;
}

// Standard input may give its first bytes one at a time: a magic number needs six.
static enum err detect_kind(struct archive *a)
{
    while (a->filled < 6 && !a->at_end) {
        size_t got = 0;
        TRY(read_file(a, a->buffer + a->filled, BUFFER_BYTES - a->filled, &got));
        a->filled += got;
    }
    bool skippable = a->filled >= 4 && (a->buffer[0] & 0xF0) == 0x50 &&
                     !memcmp(a->buffer + 1, "\x2A\x4D\x18", 3);
    if (begins(a, "\x1F\x8B", 2))
        a->kind = ARCHIVE_GZIP;
    else if (begins(a, "\x28\xB5\x2F\xFD", 4) || skippable)
        a->kind = ARCHIVE_ZSTD;
    else
        return refuse_other_formats(a);
    return OK;
}

static enum err start_unpacking(struct archive *a)
{
    if (a->kind == ARCHIVE_GZIP) {
        z_stream *z = calloc(1, sizeof *z);
        a->stream = z;
        if (!z || inflateInit2(z, 15 + 16) != Z_OK) { // 16: with a gzip header
            free(z);
            a->stream = NULL;
            return fail(ERR_UNAVAILABLE, "%s: zlib could not be started", a->name);
        }
    } else if (a->kind == ARCHIVE_ZSTD) {
        a->stream = ZSTD_createDCtx();
        if (!a->stream)
            return fail(ERR_UNAVAILABLE, "%s: zstd could not be started", a->name);
    }
    return OK;
}

static enum err open_file(struct archive *a, const char *path)
{
    if (!strcmp(path, "-")) {
        a->name = "standard input";
        a->fd = STDIN_FILENO;
        return OK;
    }
    a->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (a->fd < 0)
        return fail(ERR_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    struct stat about;
    if (fstat(a->fd, &about))
        return fail(ERR_INPUT, "%s: its status cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode))
        return fail(ERR_INPUT, "%s: is a folder; give a file", path);
    a->size_bytes = S_ISREG(about.st_mode) ? about.st_size : 0;
    return OK;
}

enum err archive_open(struct archive *a, const char *path, double ratio_limit)
{
    *a = (struct archive){ .name = path, .fd = -1, .left_bytes = -1 };
    a->ratio_limit = ratio_limit > 0 ? ratio_limit : ARCHIVE_RATIO_LIMIT;
    a->buffer = malloc(BUFFER_BYTES);
    enum err err = a->buffer ? open_file(a, path) : fail(ERR_INPUT, "%s: out of memory", path);
    if (!err)
        err = detect_kind(a);
    if (!err)
        err = start_unpacking(a);
    if (err)
        archive_close(a);
    return err;
}

// Moves a place in the file to the first line that begins there or later.
static enum err find_line(struct archive *a, int64_t *at)
{
    if (!*at)
        return OK;
    for (int64_t from = *at - 1;;) { // a line end right before it: a line begins there
        ssize_t got = pread(a->fd, a->buffer, BUFFER_BYTES, from);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(ERR_INPUT, "%s: cannot be read: %s", a->name, strerror(errno));
        const char *end = got ? memchr(a->buffer, '\n', (size_t)got) : NULL;
        *at = from + (end ? end + 1 - a->buffer : got);
        if (end || !got)
            return OK;
        from += got;
    }
}

enum err archive_rows(struct archive *a, int64_t from, int64_t to)
{
    if (a->kind != ARCHIVE_PLAIN || !a->size_bytes)
        return fail(ERR_INPUT, "%s: is no longer a plain file; start again", a->name);
    TRY(find_line(a, &from));
    TRY(find_line(a, &to));
    if (lseek(a->fd, from, SEEK_SET) < 0)
        return fail(ERR_INPUT, "%s: cannot be read from byte %lld on: %s", a->name, (long long)from,
                    strerror(errno));
    a->at = a->filled = 0;
    a->in_bytes = a->out_bytes = 0;
    a->left_bytes = to - from;
    a->at_end = false;
    return OK;
}

void archive_close(struct archive *a)
{
    if (a->stream && a->kind == ARCHIVE_GZIP) {
        inflateEnd(a->stream);
        free(a->stream);
    }
    if (a->kind == ARCHIVE_ZSTD)
        ZSTD_freeDCtx(a->stream);
    if (a->buffer && a->fd > STDIN_FILENO)
        close(a->fd);
    free(a->buffer);
    *a = (struct archive){ .fd = -1 };
}

// --- unpacking ---------------------------------------------------------------

// After a gzip member comes another one, or zero padding. Sets *follows if another one comes.
static enum err another_member(struct archive *a, bool *follows)
{
    *follows = false;
    for (;;) {
        TRY(refill(a));
        if (a->at == a->filled)
            return OK;
        if (a->buffer[a->at])
            break;
        a->at++;
    }
    *follows = true;
    if (a->buffer[a->at] != '\x1F')
        return fail(ERR_INPUT, "%s: has bytes that are not gzip after its gzip data", a->name);
    if (inflateReset(a->stream) != Z_OK)
        return fail(ERR_BUG, "%s: zlib could not be reset", a->name);
    return OK;
}

static enum err cut_short(const struct archive *a)
{
    return fail(ERR_INPUT, "%s: ends in the middle of its packed data; was it copied whole?",
                a->name);
}

static enum err read_gzip(struct archive *a, char *out, size_t room, size_t *size)
{
    z_stream *z = a->stream;
    z->next_out = (Bytef *)out;
    z->avail_out = room > 1 << 30 ? 1 << 30 : (uInt)room;
    uInt room_bytes = z->avail_out;
    while (z->avail_out == room_bytes) {
        if (a->between) {
            bool follows;
            TRY(another_member(a, &follows));
            if (!follows)
                break;
        }
        a->between = false;
        TRY(refill(a));
        if (a->at == a->filled)
            return cut_short(a);
        z->next_in = (Bytef *)a->buffer + a->at;
        z->avail_in = (uInt)(a->filled - a->at);
        int state = inflate(z, Z_NO_FLUSH);
        a->at = a->filled - z->avail_in;
        if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
            return fail(ERR_INPUT, "%s: the gzip data is damaged after %lld unpacked bytes: %s",
                        a->name, (long long)a->out_bytes + (room_bytes - z->avail_out),
                        z->msg ? z->msg : "unknown reason");
        a->between = state == Z_STREAM_END;
    }
    *size = room_bytes - z->avail_out;
    return OK;
}

static enum err read_zstd(struct archive *a, char *out, size_t room, size_t *size)
{
    ZSTD_outBuffer to = { out, room, 0 };
    while (!to.pos) {
        TRY(refill(a));
        if (a->at == a->filled && a->between)
            break;
        ZSTD_inBuffer from = { a->buffer, a->filled, a->at };
        size_t state = ZSTD_decompressStream(a->stream, &to, &from);
        bool stuck = from.pos == a->at && !to.pos;
        a->at = from.pos;
        if (ZSTD_isError(state))
            return fail(ERR_INPUT, "%s: the zstd data cannot be unpacked after %lld bytes: %s",
                        a->name, (long long)a->out_bytes, ZSTD_getErrorName(state));
        a->between = state == 0;
        if (stuck && !a->between)
            return cut_short(a);
    }
    *size = to.pos;
    return OK;
}

static enum err read_plain(struct archive *a, char *out, size_t room, size_t *size)
{
    size_t left = a->filled - a->at;
    if (!left)
        return a->at_end ? OK : read_file(a, out, room, size);
    *size = left < room ? left : room;
    memcpy(out, a->buffer + a->at, *size);
    a->at += *size;
    return OK;
}

enum err archive_read(struct archive *a, char *out, size_t room, size_t *size)
{
    *size = 0;
    if (a->kind == ARCHIVE_PLAIN)
        TRY(read_plain(a, out, room, size));
    else
        TRY((a->kind == ARCHIVE_GZIP ? read_gzip : read_zstd)(a, out, room, size));
    a->out_bytes += (int64_t)*size;
    int64_t used = a->in_bytes - (int64_t)(a->filled - a->at);
    if (a->out_bytes > ARCHIVE_FREE_BYTES && a->kind != ARCHIVE_PLAIN &&
        (double)a->out_bytes > a->ratio_limit * (double)used)
        return fail(ERR_INPUT,
                    "%s: unpacks to over %.0f times its size (%lld bytes from %lld so far), which "
                    "text never does; if you trust the file, unpack it first",
                    a->name, a->ratio_limit, (long long)a->out_bytes, (long long)used);
    return OK;
}
