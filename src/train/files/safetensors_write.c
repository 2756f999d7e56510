// SPDX-License-Identifier: Apache-2.0
// Writes .safetensors files, split into shards, with an index.

#include "train/files/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const size_t SHARD_BYTES = 5000000000; // as transformers splits them

struct safetensors_slot {
    struct safetensors_tensor tensor;
    size_t shard, begin; // the file it lies in, and its first byte in that file's data
    size_t written;
};

struct safetensors_shard {
    const char *name, *path, *temporary;
    int fd;       // -1 when closed
    bool made;    // the temporary file exists
    bool renamed; // it has its final name
    size_t data_bytes, data_at;
};

void safetensors_init(struct safetensors_writer *out, struct arena *arena, const char *folder,
                      const char *stem)
{
    *out = (struct safetensors_writer){
        .arena = arena,
        .folder = folder,
        .stem = stem,
        .shard_bytes = SHARD_BYTES,
        .metadata = { .arena = arena },
    };
}

void safetensors_note(struct safetensors_writer *out, const char *key, const char *value)
{
    out_char(&out->metadata, ',');
    json_quote(&out->metadata, text_of(key));
    out_char(&out->metadata, ':');
    json_quote(&out->metadata, text_of(value));
}

size_t safetensors_declare(struct safetensors_writer *out, const char *name, enum storage type,
                           int rank, const int64_t *shape)
{
    assert(!out->shards && rank <= SAFETENSORS_RANK);
    out->slots = arena_room(out->arena, out->slots, sizeof *out->slots, out->count, &out->room);
    struct safetensors_slot *slot = &out->slots[out->count];
    *slot = (struct safetensors_slot){ 0 };
    slot->tensor.name = text_copy(out->arena, text_of(name));
    slot->tensor.type = type;
    slot->tensor.rank = rank;
    memcpy(slot->tensor.shape, shape, (size_t)rank * sizeof *shape);
    slot->tensor.bytes = storage_bytes(type) * (size_t)safetensors_elements(&slot->tensor);
    return out->count++;
}

// --- layout ------------------------------------------------------------------

// Assigns tensors to files in order of declaration; a new file begins when the next does not fit.
static void assign_shards(struct safetensors_writer *out)
{
    size_t used = 0, shard = 0;
    for (size_t i = 0; i < out->count; i++) {
        size_t bytes = out->slots[i].tensor.bytes;
        if (used &&
            bytes > out->shard_bytes - (used < out->shard_bytes ? used : out->shard_bytes)) {
            shard++;
            used = 0;
        }
        out->slots[i].shard = shard;
        used += bytes;
    }
    out->shard_count = shard + 1;
}

static void name_shards(struct safetensors_writer *out)
{
    out->shards = ARENA_NEW(out->arena, struct safetensors_shard, out->shard_count);
    for (size_t i = 0; i < out->shard_count; i++) {
        struct safetensors_shard *shard = &out->shards[i];
        shard->name = out->shard_count == 1
                          ? text_format(out->arena, "%s.safetensors", out->stem)
                          : text_format(out->arena, "%s-%05zu-of-%05zu.safetensors", out->stem,
                                        i + 1, out->shard_count);
        shard->path = text_format(out->arena, "%s/%s", out->folder, shard->name);
        shard->temporary = text_format(out->arena, "%s.%d.tmp", shard->path, (int)getpid());
        shard->fd = -1;
    }
}

// Wide types before narrow ones: each tensor is then aligned without gaps.
static void place_shard(struct safetensors_writer *out, size_t shard)
{
    size_t end = 0;
    for (size_t width = 8; width; width /= 2)
        for (size_t i = 0; i < out->count; i++) {
            struct safetensors_slot *slot = &out->slots[i];
            if (slot->shard != shard || storage_bytes(slot->tensor.type) != width)
                continue;
            slot->begin = end;
            end += slot->tensor.bytes;
        }
    out->shards[shard].data_bytes = end;
}

static struct text shard_header(const struct safetensors_writer *out, size_t shard)
{
    struct out header = { .arena = out->arena };
    out_put(&header, "{\"__metadata__\":{\"format\":\"pt\"");
    out_bytes(&header, out->metadata.at, out->metadata.size);
    out_char(&header, '}');
    for (size_t i = 0; i < out->count; i++) {
        const struct safetensors_slot *slot = &out->slots[i];
        if (slot->shard != shard)
            continue;
        out_char(&header, ',');
        json_quote(&header, text_of(slot->tensor.name));
        out_put(&header, ":{\"dtype\":\"%s\",\"shape\":[", storage_name(slot->tensor.type));
        for (int d = 0; d < slot->tensor.rank; d++)
            out_put(&header, "%s%lld", d ? "," : "", (long long)slot->tensor.shape[d]);
        out_put(&header, "],\"data_offsets\":[%zu,%zu]}", slot->begin,
                slot->begin + slot->tensor.bytes);
    }
    out_char(&header, '}');
    out_repeat(&header, ' ', (int)((8 - header.size % 8) % 8));
    return out_view(&header);
}

// --- files -------------------------------------------------------------------

static enum err failed(const struct safetensors_shard *shard)
{
    return fail(ERR_INPUT, "%s: cannot be written: %s", shard->path, strerror(errno));
}

static enum err put(struct safetensors_shard *shard, size_t at, const char *bytes, size_t size)
{
    while (size) {
        ssize_t done = pwrite(shard->fd, bytes, size, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return failed(shard);
        at += (size_t)done;
        bytes += done;
        size -= (size_t)done;
    }
    return OK;
}

static enum err begin_shard(struct safetensors_writer *out, size_t index)
{
    struct safetensors_shard *shard = &out->shards[index];
    place_shard(out, index);
    struct text header = shard_header(out, index);
    shard->data_at = 8 + header.size;
    shard->fd = open(shard->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (shard->fd < 0)
        return failed(shard);
    shard->made = true;
    char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (char)((uint64_t)header.size >> 8 * i & 255);
    TRY(put(shard, 0, size, sizeof size));
    return put(shard, sizeof size, header.at, header.size);
}

enum err safetensors_begin(struct safetensors_writer *out)
{
    assert(!out->shards);
    assign_shards(out);
    name_shards(out);
    for (size_t i = 0; i < out->shard_count; i++)
        TRY(begin_shard(out, i));
    return OK;
}

enum err safetensors_write(struct safetensors_writer *out, size_t slot, size_t from_byte,
                           const void *bytes, size_t size)
{
    assert(out->shards && slot < out->count);
    struct safetensors_slot *s = &out->slots[slot];
    assert(from_byte <= s->tensor.bytes && size <= s->tensor.bytes - from_byte);
    struct safetensors_shard *shard = &out->shards[s->shard];
    s->written += size;
    return put(shard, shard->data_at + s->begin + from_byte, bytes, size);
}

enum err safetensors_write_floats(struct safetensors_writer *out, size_t slot, int64_t first,
                                  const float *values, int64_t count)
{
    enum { PIECE = 1 << 12 };
    char stored[PIECE * sizeof(double)];
    enum storage type = out->slots[slot].tensor.type;
    size_t bytes = storage_bytes(type);
    for (int64_t done = 0; done < count; done += PIECE) {
        size_t here = count - done < PIECE ? (size_t)(count - done) : PIECE;
        storage_write(stored, type, values + done, here);
        TRY(safetensors_write(out, slot, (size_t)(first + done) * bytes, stored, here * bytes));
    }
    return OK;
}

// --- the end -----------------------------------------------------------------

static enum err close_shard(struct safetensors_shard *shard)
{
    bool good = !fsync(shard->fd);
    good = !close(shard->fd) && good;
    shard->fd = -1;
    return good ? OK : failed(shard);
}

static enum err write_index(const struct safetensors_writer *out)
{
    struct out text = { .arena = out->arena };
    struct json_writer w = { .out = &text };
    size_t total = 0;
    for (size_t i = 0; i < out->count; i++)
        total += out->slots[i].tensor.bytes;
    json_open(&w, NULL, '{');
    json_open(&w, "metadata", '{');
    json_put_count(&w, "total_size", (int64_t)total);
    json_close(&w, '}');
    json_open(&w, "weight_map", '{');
    for (size_t i = 0; i < out->count; i++)
        json_put_string(&w, out->slots[i].tensor.name, out->shards[out->slots[i].shard].name);
    json_close(&w, '}');
    json_close(&w, '}');
    out_char(&text, '\n');
    return file_write(
        text_format(out->arena, "%s/%s.safetensors.index.json", out->folder, out->stem),
        out_view(&text));
}

// All files are on disk before the first is renamed; the index, which makes them a model, is
// written last. A single file of an older model would take precedence over it and is removed.
enum err safetensors_finish(struct safetensors_writer *out)
{
    for (size_t i = 0; i < out->count; i++)
        if (out->slots[i].written != out->slots[i].tensor.bytes)
            return fail(ERR_BUG, "%s/%s.safetensors: %zu of %zu bytes of %.90s were written",
                        out->folder, out->stem, out->slots[i].written, out->slots[i].tensor.bytes,
                        out->slots[i].tensor.name);
    for (size_t i = 0; i < out->shard_count; i++)
        TRY(close_shard(&out->shards[i]));
    for (size_t i = 0; i < out->shard_count; i++) {
        struct safetensors_shard *shard = &out->shards[i];
        if (rename(shard->temporary, shard->path))
            return failed(shard);
        shard->renamed = true;
    }
    if (out->shard_count > 1) {
        TRY(write_index(out));
        unlink(text_format(out->arena, "%s/%s.safetensors", out->folder, out->stem));
    }
    return file_sync_folder(out->folder);
}

void safetensors_release_writer(struct safetensors_writer *out)
{
    for (size_t i = 0; out->shards && i < out->shard_count; i++) {
        struct safetensors_shard *shard = &out->shards[i];
        if (shard->fd >= 0)
            close(shard->fd);
        if (shard->made && !shard->renamed)
            unlink(shard->temporary);
    }
    *out = (struct safetensors_writer){ 0 };
}
