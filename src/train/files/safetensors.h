// SPDX-License-Identifier: Apache-2.0
// safetensors: weight files, memory-mapped for reading and written as a stream.
//
//     struct safetensors in;
//     TRY(safetensors_open(&in, arena, "models/llama"));
//     const struct safetensors_tensor *t = safetensors_find(&in, "model.norm.weight");
//     safetensors_release(&in);
//
// A file is 8 bytes of header length, a JSON header with the type, shape and offsets of each
// tensor, and the data. Nothing in the header is trusted: lengths, types, shapes, gaps, overlaps,
// duplicate names and trailing bytes are checked before any tensor is handed out. A model in
// several files has an index that says which tensor is in which file.
//
// Writing: declare all tensors, begin, write their bytes in any order and in any pieces, finish.
//
//     struct safetensors_writer out;
//     safetensors_init(&out, arena, "out", "model");
//     size_t slot = safetensors_declare(&out, "model.norm.weight", STORAGE_BF16, 1, &width);
//     err = safetensors_begin(&out);
//     err = err ? err : safetensors_write(&out, slot, 0, bytes, size);
//     err = err ? err : safetensors_finish(&out);
//     safetensors_release_writer(&out);
//
// Files are written under temporary names and renamed by finish when they are on disk; release
// removes what was not finished. The writer does not buffer data.

#pragma once

#include "base/json.h"
#include "host/file.h"
#include "train/storage.h"

enum { SAFETENSORS_RANK = 8 };

struct safetensors_tensor {
    const char *name;
    enum storage type;
    int rank;
    int64_t shape[SAFETENSORS_RANK];
    const char *at; // in the mapped file; may be unaligned
    size_t bytes;
};

// --- reading -----------------------------------------------------------------

struct safetensors {
    struct safetensors_tensor *tensors; // sorted by name
    size_t count;
    struct json metadata; // an object of strings, of the first file; JSON_NONE if there is none
    struct file *files;
    const char **paths; // of the files
    size_t file_count;
};

// A .safetensors file, an index (.json), or a folder with model.safetensors or its index.
enum err safetensors_open(struct safetensors *in, struct arena *arena, const char *path);
void safetensors_release(struct safetensors *in);

// The same for the bytes of one file, which must stay where they are; name is for error messages.
enum err safetensors_read(struct safetensors *in, struct arena *arena, struct text content,
                          const char *name);

const struct safetensors_tensor *safetensors_find(const struct safetensors *in, const char *name);
// Where the bytes of a tensor lie: NULL, or the path of the file and the offset in it.
const char *safetensors_place(const struct safetensors *in, const struct safetensors_tensor *tensor,
                              size_t *offset);
int64_t safetensors_elements(const struct safetensors_tensor *tensor);
const char *safetensors_shape(struct arena *arena, int rank, const int64_t *shape); // "[2, 3]"

// --- writing -----------------------------------------------------------------

struct safetensors_writer {
    struct arena *arena;
    const char *folder, *stem;
    size_t shard_bytes; // more data than this is split into several files; set before begin
    struct safetensors_slot *slots;
    size_t count, room;
    struct safetensors_shard *shards;
    size_t shard_count;
    struct out metadata; // members beside "format", as JSON text
};

// Into an existing folder, as stem.safetensors, or as stem-00001-of-00003.safetensors and
// so on with stem.safetensors.index.json.
void safetensors_init(struct safetensors_writer *out, struct arena *arena, const char *folder,
                      const char *stem);
void safetensors_note(struct safetensors_writer *out, const char *key, const char *value);
size_t safetensors_declare(struct safetensors_writer *out, const char *name, enum storage type,
                           int rank, const int64_t *shape); // a slot to write to
enum err safetensors_begin(struct safetensors_writer *out);
enum err safetensors_write(struct safetensors_writer *out, size_t slot, size_t from_byte,
                           const void *bytes, size_t size);
enum err safetensors_write_floats(struct safetensors_writer *out, size_t slot, int64_t first,
                                  const float *values, int64_t count); // as the slot's type
enum err safetensors_finish(struct safetensors_writer *out);           // every byte must be written
void safetensors_release_writer(struct safetensors_writer *out);
