// SPDX-License-Identifier: Apache-2.0
// Reads plain and packed files and objects as one stream, and refuses what unpacks to too much.

#include "host/archive.h"

#include <bzlib.h>
#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { BUFFER_BYTES = 256 * 1024, MOST_XZ_BYTES = 130 << 20 };

// --- the packed file ---------------------------------------------------------

static enum err read_file(struct archive *a, char *out, size_t room, size_t *size)
{
    if (a->object) {
        TRY(stream_read(a->parts, out, room, size));
        a->at_end = !*size;
        a->in_bytes += (int64_t)*size;
        return OK;
    }
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
        { "\x04\x22\x4D\x18", 4, "packed with lz4", "unpack it with lz4 -d" },
        { "\xFF\xFE\0\0", 4, "UTF-32 text", "convert it with iconv -f utf-32 -t utf-8" },
        { "\xFF\xFE", 2, "UTF-16 text", "convert it with iconv -f utf-16 -t utf-8" },
        { "\xFE\xFF", 2, "UTF-16 text", "convert it with iconv -f utf-16 -t utf-8" },
        { "{\0", 2, "UTF-16 text", "convert it with iconv -f utf-16le -t utf-8" },
        { "\0{", 2, "UTF-16 text", "convert it with iconv -f utf-16be -t utf-8" },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (begins(a, others[i].magic, others[i].size))
            return fail(ERR_INPUT,
                        "%s: is %s; only plain, gzip, zstd, bzip2 and xz files are read: %s first",
                        a->name, others[i].what, others[i].fix);
    return OK;
}

// --- the formats: what one step of unpacking is ------------------------------

struct step {
    const char *from; // packed bytes, and where they were read to
    size_t from_size;
    char *to;
    size_t to_size, made;
    bool ended;          // of a member
    const char *problem; // NULL, or what is wrong with the data
};

static bool start_gzip(struct archive *a)
{
    z_stream *z = a->stream = calloc(1, sizeof *z);
    return z && inflateInit2(z, 15 + 16) == Z_OK; // 16: with a gzip header
}

static void step_gzip(struct archive *a, struct step *s)
{
    z_stream *z = a->stream;
    z->next_in = (Bytef *)s->from;
    z->avail_in = (uInt)s->from_size;
    z->next_out = (Bytef *)s->to;
    z->avail_out = (uInt)s->to_size;
    int state = inflate(z, Z_NO_FLUSH);
    s->from_size -= z->avail_in;
    s->made = s->to_size - z->avail_out;
    s->ended = state == Z_STREAM_END;
    if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
        s->problem = z->msg ? z->msg : "unknown reason";
}

static bool again_gzip(struct archive *a)
{
    return inflateReset(a->stream) == Z_OK;
}

static void stop_gzip(struct archive *a)
{
    inflateEnd(a->stream);
    free(a->stream);
}

static bool start_zstd(struct archive *a)
{
    a->stream = ZSTD_createDCtx();
    return a->stream;
}

static void step_zstd(struct archive *a, struct step *s)
{
    ZSTD_inBuffer from = { s->from, s->from_size, 0 };
    ZSTD_outBuffer to = { s->to, s->to_size, 0 };
    size_t state = ZSTD_decompressStream(a->stream, &to, &from);
    s->from_size = from.pos;
    s->made = to.pos;
    s->ended = state == 0;
    if (ZSTD_isError(state))
        s->problem = ZSTD_getErrorName(state);
}

static bool again_zstd(struct archive *a) // the next frame begins by itself
{
    return a->stream;
}

static void stop_zstd(struct archive *a)
{
    ZSTD_freeDCtx(a->stream);
}

static bool start_bzip2(struct archive *a)
{
    bz_stream *b = a->stream = calloc(1, sizeof *b);
    return b && BZ2_bzDecompressInit(b, 0, 0) == BZ_OK;
}

static void step_bzip2(struct archive *a, struct step *s)
{
    bz_stream *b = a->stream;
    b->next_in = (char *)s->from;
    b->avail_in = (unsigned)s->from_size;
    b->next_out = s->to;
    b->avail_out = (unsigned)s->to_size;
    int state = BZ2_bzDecompress(b);
    s->from_size -= b->avail_in;
    s->made = s->to_size - b->avail_out;
    s->ended = state == BZ_STREAM_END;
    if (state == BZ_DATA_ERROR || state == BZ_DATA_ERROR_MAGIC)
        s->problem = "a block does not match its checksum";
    else if (state != BZ_OK && state != BZ_STREAM_END)
        s->problem = "out of memory";
}

static bool again_bzip2(struct archive *a)
{
    BZ2_bzDecompressEnd(a->stream);
    memset(a->stream, 0, sizeof(bz_stream));
    return BZ2_bzDecompressInit(a->stream, 0, 0) == BZ_OK;
}

static void stop_bzip2(struct archive *a)
{
    BZ2_bzDecompressEnd(a->stream);
    free(a->stream);
}

static bool again_xz(struct archive *a)
{
    return lzma_stream_decoder(a->stream, (uint64_t)MOST_XZ_BYTES, 0) == LZMA_OK;
}

static bool start_xz(struct archive *a)
{
    lzma_stream *x = a->stream = calloc(1, sizeof *x); // all zero is LZMA_STREAM_INIT
    return x && again_xz(a);
}

static void step_xz(struct archive *a, struct step *s)
{
    lzma_stream *x = a->stream;
    x->next_in = (const uint8_t *)s->from;
    x->avail_in = s->from_size;
    x->next_out = (uint8_t *)s->to;
    x->avail_out = s->to_size;
    lzma_ret state = lzma_code(x, LZMA_RUN);
    s->from_size -= x->avail_in;
    s->made = s->to_size - x->avail_out;
    s->ended = state == LZMA_STREAM_END;
    if (state == LZMA_MEMLIMIT_ERROR)
        s->problem = "its window is over 128 MiB";
    else if (state == LZMA_MEM_ERROR)
        s->problem = "out of memory";
    else if (state != LZMA_OK && state != LZMA_STREAM_END && state != LZMA_BUF_ERROR)
        s->problem = "it does not match its checksums, or is no xz data";
}

static void stop_xz(struct archive *a)
{
    lzma_end(a->stream);
    free(a->stream);
}

static const struct format {
    const char *name, *magic;
    size_t magic_size;
    bool (*start)(struct archive *a); // sets a->stream
    bool (*again)(struct archive *a); // before a further member
    void (*step)(struct archive *a, struct step *s);
    void (*stop)(struct archive *a);
} formats[] = {
    [ARCHIVE_GZIP] = { "gzip", "\x1F\x8B", 2, start_gzip, again_gzip, step_gzip, stop_gzip },
    [ARCHIVE_ZSTD] = { "zstd", "\x28\xB5\x2F\xFD", 4, start_zstd, again_zstd, step_zstd,
                       stop_zstd },
    [ARCHIVE_BZIP2] = { "bzip2", "BZh", 3, start_bzip2, again_bzip2, step_bzip2, stop_bzip2 },
    [ARCHIVE_XZ] = { "xz", "\xFD\x37\x7A\x58\x5A", 5, start_xz, again_xz, step_xz, stop_xz },
};

// --- opening -----------------------------------------------------------------

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
    for (size_t i = ARCHIVE_PLAIN + 1; i < sizeof formats / sizeof *formats; i++)
        if (begins(a, formats[i].magic, formats[i].magic_size))
            a->kind = (enum archive_kind)i;
    if (skippable)
        a->kind = ARCHIVE_ZSTD;
    return a->kind == ARCHIVE_PLAIN ? refuse_other_formats(a) : OK;
}

static enum err start_unpacking(struct archive *a)
{
    const struct format *format = &formats[a->kind];
    if (a->kind == ARCHIVE_PLAIN || format->start(a))
        return OK;
    free(a->kind == ARCHIVE_ZSTD ? NULL : a->stream);
    a->stream = NULL;
    return fail(ERR_MEMORY, "%s: out of memory: %s could not be started", a->name, format->name);
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

static enum err open_either(struct archive *a, const char *path, const struct object *object,
                            double ratio_limit)
{
    *a = (struct archive){ .name = path, .fd = -1, .object = object, .left_bytes = -1 };
    a->ratio_limit = ratio_limit > 0 ? ratio_limit : ARCHIVE_RATIO_LIMIT;
    a->buffer = malloc(BUFFER_BYTES);
    enum err err = a->buffer ? OK : fail(ERR_MEMORY, "%s: out of memory", path);
    if (!err && object) {
        a->size_bytes = object->size_bytes > 0 ? object->size_bytes : 0;
        err = stream_open(&a->parts, object, 0, object->size_bytes, &(struct stream_options){ 0 });
    } else if (!err) {
        err = open_file(a, path);
    }
    if (!err)
        err = detect_kind(a);
    if (!err)
        err = start_unpacking(a);
    if (err)
        archive_close(a);
    return err;
}

enum err archive_open(struct archive *a, const char *path, double ratio_limit)
{
    return open_either(a, path, NULL, ratio_limit);
}

enum err archive_open_object(struct archive *a, const struct object *object, double ratio_limit)
{
    return open_either(a, object->name, object, ratio_limit);
}

bool archive_has_places(const struct archive *a)
{
    return a->object ? a->object->has_ranges : a->size_bytes > 0 && a->fd > STDIN_FILENO;
}

bool archive_read_at(const struct archive *a, int64_t first, void *out, size_t size)
{
    if (first < 0 || (int64_t)size > a->size_bytes - first)
        return false;
    if (a->object)
        return !object_read(a->object, first, size, out);
    for (ssize_t got = 1; size; first += got, out = (char *)out + got, size -= (size_t)got) {
        got = pread(a->fd, out, size, first);
        if (got < 0 && errno == EINTR)
            got = 0;
        else if (got <= 0)
            return false;
    }
    return true;
}

// Moves a place in the file to the first line that begins there or later.
static enum err find_line(struct archive *a, int64_t *at)
{
    if (!*at)
        return OK;
    for (int64_t from = *at - 1; from < a->size_bytes;) { // a line end right before it counts
        int64_t left = a->size_bytes - from;
        size_t size = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
        if (!archive_read_at(a, from, a->buffer, size))
            return a->object ? ERR_INPUT // reading the object called fail()
                             : fail(ERR_INPUT, "%s: cannot be read at byte %lld", a->name,
                                    (long long)from);
        const char *end = memchr(a->buffer, '\n', size);
        *at = from + (end ? end + 1 - a->buffer : (int64_t)size);
        if (end)
            return OK;
        from += (int64_t)size;
    }
    return OK;
}

enum err archive_rows(struct archive *a, int64_t from, int64_t to)
{
    if (a->kind != ARCHIVE_PLAIN || !archive_has_places(a))
        return fail(ERR_INPUT, "%s: is no longer a plain file; start again", a->name);
    TRY(find_line(a, &from));
    TRY(find_line(a, &to));
    if (a->object) {
        stream_close(a->parts);
        TRY(stream_open(&a->parts, a->object, from, to - from, &(struct stream_options){ 0 }));
    } else if (lseek(a->fd, from, SEEK_SET) < 0)
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
    if (a->stream)
        formats[a->kind].stop(a);
    stream_close(a->parts);
    if (a->buffer && a->fd > STDIN_FILENO)
        close(a->fd);
    free(a->buffer);
    *a = (struct archive){ .fd = -1 };
}

// --- unpacking ---------------------------------------------------------------

// After a member comes another one, or zero padding. Sets *follows if another one comes.
static enum err another_member(struct archive *a, bool *follows)
{
    *follows = false;
    const struct format *format = &formats[a->kind];
    for (;;) {
        TRY(refill(a));
        if (a->at == a->filled)
            return OK;
        if (a->buffer[a->at] || a->kind == ARCHIVE_ZSTD)
            break;
        a->at++;
    }
    *follows = true;
    if (a->buffer[a->at] != format->magic[0] && a->kind != ARCHIVE_ZSTD)
        return fail(ERR_INPUT, "%s: has bytes that are not %s after its %s data", a->name,
                    format->name, format->name);
    if (!format->again(a))
        return fail(ERR_MEMORY, "%s: out of memory: %s could not be started", a->name,
                    format->name);
    return OK;
}

static enum err read_packed(struct archive *a, char *out, size_t room, size_t *size)
{
    const struct format *format = &formats[a->kind];
    while (!*size) {
        if (a->between) {
            bool follows;
            TRY(another_member(a, &follows));
            if (!follows)
                return OK;
        }
        a->between = false;
        TRY(refill(a));
        struct step step = { .from = a->buffer + a->at,
                             .from_size = a->filled - a->at,
                             .to = out,
                             .to_size = room < 1 << 30 ? room : 1 << 30 };
        format->step(a, &step);
        if (step.problem)
            return fail(ERR_INPUT, "%s: the %s data is damaged after %lld unpacked bytes: %s",
                        a->name, format->name, (long long)(a->out_bytes + (int64_t)step.made),
                        step.problem);
        a->at += step.from_size;
        *size = step.made;
        a->between = step.ended;
        if (!step.made && !step.from_size && !step.ended)
            return fail(ERR_INPUT,
                        "%s: ends in the middle of its packed data; was it copied whole?", a->name);
    }
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

enum err archive_skip(struct archive *a, int64_t bytes)
{
    char thrown_away[16 * 1024];
    int64_t buffered = (int64_t)(a->filled - a->at);
    bool seeks = a->kind == ARCHIVE_PLAIN && !a->object && archive_has_places(a) &&
                 a->left_bytes < 0 && bytes > buffered;
    if (seeks && lseek(a->fd, bytes - buffered, SEEK_CUR) >= 0) {
        a->at = a->filled;
        a->in_bytes += bytes - buffered;
        return OK;
    }
    for (size_t got = 1; bytes && got; bytes -= (int64_t)got)
        TRY(archive_read(a, thrown_away,
                         bytes < (int64_t)sizeof thrown_away ? (size_t)bytes : sizeof thrown_away,
                         &got));
    return OK;
}

enum err archive_read(struct archive *a, char *out, size_t room, size_t *size)
{
    *size = 0;
    if (a->kind == ARCHIVE_PLAIN)
        TRY(read_plain(a, out, room, size));
    else
        TRY(read_packed(a, out, room, size));
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

enum err archive_read_all(struct text *out, struct arena *arena, const char *path)
{
    struct archive in;
    TRY(archive_open(&in, path, 0));
    size_t least = 1 << 20, size = 0, got = 0; // one byte more than a file has, to see its end
    size_t room = (size_t)in.size_bytes < least ? least : (size_t)in.size_bytes + 1;
    char *bytes = arena_alloc(arena, room);
    enum err err;
    while (!(err = archive_read(&in, bytes + size, room - size, &got)) && got) {
        size += got;
        if (size == room) {
            bytes = arena_grow(arena, bytes, room, 2 * room);
            room *= 2;
        }
    }
    archive_close(&in);
    *out = (struct text){ bytes, size };
    return err;
}
