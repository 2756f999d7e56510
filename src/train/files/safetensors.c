// SPDX-License-Identifier: Apache-2.0
// Reads .safetensors files and their index, checking everything before it is used.

#include "train/files/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// The format allows headers of up to 100 million bytes. Names and files of models stay far below.
enum { HEADER_MOST = 100000000, NAME_MOST = 1024, FILES_MOST = 4096 };

int64_t safetensors_elements(const struct safetensors_tensor *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    return count;
}

const char *safetensors_shape(struct arena *arena, int rank, const int64_t *shape)
{
    struct out out = { .arena = arena };
    out_char(&out, '[');
    for (int i = 0; i < rank; i++)
        out_put(&out, "%s%lld", i ? ", " : "", (long long)shape[i]);
    out_char(&out, ']');
    return out_string(&out);
}

// --- one tensor of a header --------------------------------------------------

struct entry {
    struct safetensors_tensor tensor;
    size_t begin, end; // in the data
};

// A header in reading. Entries grow in the arena.
struct header {
    struct arena *arena;
    struct json_reader in;
    const char *file;
    size_t data_bytes;
    struct entry *entries;
    size_t count, room;
};

static enum err read_whole(struct header *h, const char *tensor, const char *what, int64_t *out)
{
    if (json_peek(&h->in) != JSON_NUMBER)
        return fail(ERR_INPUT, "%s: tensor %.90s: %s holds something that is no number", h->file,
                    tensor, what);
    double number = json_number(&h->in);
    if (!(number >= 0 && number <= 9007199254740992.0) || number != (double)(int64_t)number)
        return fail(ERR_INPUT, "%s: tensor %.90s: %s holds %g, must be whole and not negative",
                    h->file, tensor, what, number);
    *out = (int64_t)number;
    return OK;
}

static enum err read_list(struct header *h, const char *tensor, const char *what, int64_t *out,
                          int most, int *count)
{
    if (json_peek(&h->in) != JSON_ARRAY)
        return fail(ERR_INPUT, "%s: tensor %.90s: %s is no list", h->file, tensor, what);
    json_array(&h->in);
    for (*count = 0; json_item(&h->in); ++*count) {
        if (*count == most)
            return fail(ERR_INPUT, "%s: tensor %.90s: %s has more than %d numbers", h->file, tensor,
                        what, most);
        TRY(read_whole(h, tensor, what, &out[*count]));
    }
    return OK;
}

static enum err read_type(struct header *h, struct safetensors_tensor *tensor)
{
    if (json_peek(&h->in) != JSON_STRING)
        return fail(ERR_INPUT, "%s: tensor %.90s: dtype is no string", h->file, tensor->name);
    struct text name = json_string(&h->in, h->arena);
    if (!storage_find(&tensor->type, name))
        return fail(ERR_INPUT, "%s: tensor %.90s: dtype \"%.*s\" is not known", h->file,
                    tensor->name, TEXT_BRIEF(name));
    return OK;
}

// How many bytes type and shape ask for; false if no file could hold them.
static bool count_bytes(const struct safetensors_tensor *tensor, size_t *bytes)
{
    *bytes = storage_bytes(tensor->type);
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] && *bytes > (size_t)INT64_MAX / (size_t)tensor->shape[i])
            return false;
        *bytes *= (size_t)tensor->shape[i];
    }
    return true;
}

static enum err check_entry(const struct header *h, struct entry *entry)
{
    struct safetensors_tensor *t = &entry->tensor;
    if (entry->begin > entry->end || entry->end > h->data_bytes)
        return fail(ERR_INPUT,
                    "%s: tensor %.90s: lies at bytes %zu to %zu of %zu; the file is cut off or its "
                    "header is wrong",
                    h->file, t->name, entry->begin, entry->end, h->data_bytes);
    t->bytes = entry->end - entry->begin;
    size_t expected;
    if (!count_bytes(t, &expected) || expected != t->bytes)
        return fail(ERR_INPUT, "%s: tensor %.90s: %s of shape %s does not take %zu bytes", h->file,
                    t->name, storage_name(t->type), safetensors_shape(h->arena, t->rank, t->shape),
                    t->bytes);
    return OK;
}

static enum err read_place(struct header *h, struct entry *entry)
{
    int64_t place[2] = { 0 };
    int count;
    TRY(read_list(h, entry->tensor.name, "data_offsets", place, 2, &count));
    if (count != 2)
        return fail(ERR_INPUT, "%s: tensor %.90s: data_offsets has %d numbers, must be 2", h->file,
                    entry->tensor.name, count);
    entry->begin = (size_t)place[0];
    entry->end = (size_t)place[1];
    return OK;
}

static void add_entry(struct header *h, struct entry entry)
{
    h->entries = arena_room(h->arena, h->entries, sizeof *h->entries, h->count, &h->room);
    h->entries[h->count++] = entry;
}

static enum err read_entry(struct header *h, struct text name)
{
    struct entry entry = { 0 };
    struct safetensors_tensor *t = &entry.tensor;
    enum { TYPE = 1, SHAPE = 2, PLACE = 4 };
    int seen = 0, part;
    if (!name.size || name.size > NAME_MOST || memchr(name.at, 0, name.size))
        return fail(ERR_INPUT, "%s: a tensor's name is empty, too long or has a zero byte",
                    h->file);
    t->name = text_copy(h->arena, name);
    if (json_peek(&h->in) != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: tensor %.90s: is not described by an object", h->file, t->name);
    json_object(&h->in);
    for (struct text key; json_key(&h->in, h->arena, &key); seen |= part) {
        if (text_is(key, "dtype")) {
            part = TYPE;
            TRY(read_type(h, t));
        } else if (text_is(key, "shape")) {
            part = SHAPE;
            TRY(read_list(h, t->name, "shape", t->shape, SAFETENSORS_RANK, &t->rank));
        } else if (text_is(key, "data_offsets")) {
            part = PLACE;
            TRY(read_place(h, &entry));
        } else {
            return fail(ERR_INPUT, "%s: tensor %.90s: has a key \"%.*s\" that is not known",
                        h->file, t->name, TEXT_BRIEF(key));
        }
        if (seen & part)
            return fail(ERR_INPUT, "%s: tensor %.90s: has %.*s twice", h->file, t->name,
                        TEXT_BRIEF(key));
    }
    if (h->in.problem)
        return json_end(&h->in, h->file);
    if (seen != (TYPE | SHAPE | PLACE))
        return fail(ERR_INPUT, "%s: tensor %.90s: lacks its dtype, shape or data_offsets", h->file,
                    t->name);
    TRY(check_entry(h, &entry));
    add_entry(h, entry);
    return OK;
}

// --- a header ----------------------------------------------------------------

static enum err read_metadata(struct header *h, struct json *out)
{
    *out = json_tree(&h->in, h->arena);
    if (h->in.problem)
        return json_end(&h->in, h->file);
    bool strings = out->kind == JSON_OBJECT;
    for (size_t i = 0; strings && i < out->count; i++)
        strings = out->items[2 * i + 1].kind == JSON_STRING;
    if (!strings)
        return fail(ERR_INPUT, "%s: __metadata__ must be an object of strings", h->file);
    return OK;
}

static int by_place(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensors_tensor *)a)->name,
                  ((const struct safetensors_tensor *)b)->name);
}

// Tensors must cover the data from the first byte to the last, without gaps and overlaps.
static enum err check_places(struct header *h)
{
    size_t end = 0;
    const char *before = "the header";
    if (h->count)
        qsort(h->entries, h->count, sizeof *h->entries, by_place);
    for (size_t i = 0; i < h->count; i++) {
        const struct entry *e = &h->entries[i];
        if (e->begin < end)
            return fail(ERR_INPUT, "%s: tensors %.90s and %.90s overlap", h->file, before,
                        e->tensor.name);
        if (e->begin > end)
            return fail(ERR_INPUT, "%s: there are %zu unused bytes between %.90s and tensor %.90s",
                        h->file, e->begin - end, before, e->tensor.name);
        end = e->end;
        before = e->tensor.name;
    }
    if (end != h->data_bytes)
        return fail(ERR_INPUT, "%s: %zu bytes after %.90s belong to no tensor", h->file,
                    h->data_bytes - end, before);
    return OK;
}

static enum err check_names(const struct safetensors *in, const char *name)
{
    for (size_t i = 1; i < in->count; i++)
        if (!strcmp(in->tensors[i - 1].name, in->tensors[i].name))
            return fail(ERR_INPUT, "%s: tensor %.90s: is there twice", name, in->tensors[i].name);
    return OK;
}

static enum err read_header(struct safetensors *in, struct header *h)
{
    if (json_peek(&h->in) != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: its header is not a JSON object; is it a safetensors file?",
                    h->file);
    json_object(&h->in);
    for (struct text key; json_key(&h->in, h->arena, &key);)
        if (!text_is(key, "__metadata__"))
            TRY(read_entry(h, key));
        else if (in->metadata.kind)
            return fail(ERR_INPUT, "%s: has __metadata__ twice", h->file);
        else
            TRY(read_metadata(h, &in->metadata));
    TRY(json_end(&h->in, h->file));
    return check_places(h);
}

enum err safetensors_read(struct safetensors *in, struct arena *arena, struct text content,
                          const char *name)
{
    *in = (struct safetensors){ 0 };
    if (content.size < 8)
        return fail(ERR_INPUT, "%s: has %zu bytes; a safetensors file begins with 8", name,
                    content.size);
    uint64_t size = 0;
    for (int i = 7; i >= 0; i--)
        size = size << 8 | (unsigned char)content.at[i];
    if (size > HEADER_MOST || size > content.size - 8)
        return fail(
            ERR_INPUT,
            "%s: claims a header of %llu bytes, but only %zu follow; the file is cut off or not "
            "a safetensors file",
            name, (unsigned long long)size, content.size - 8);
    struct header h = {
        .arena = arena,
        .in = json_reader((struct text){ content.at + 8, (size_t)size }),
        .file = name,
        .data_bytes = content.size - 8 - (size_t)size,
    };
    TRY(read_header(in, &h));
    const char *data = content.at + 8 + size;
    in->tensors = ARENA_NEW(arena, struct safetensors_tensor, h.count + 1);
    in->count = h.count;
    for (size_t i = 0; i < h.count; i++) {
        in->tensors[i] = h.entries[i].tensor;
        in->tensors[i].at = data + h.entries[i].begin;
    }
    qsort(in->tensors, in->count, sizeof *in->tensors, by_name);
    return check_names(in, name);
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *in, const char *name)
{
    struct safetensors_tensor key = { .name = name };
    return in->count ? bsearch(&key, in->tensors, in->count, sizeof key, by_name) : NULL;
}

// --- several files -----------------------------------------------------------

struct shard {
    const char *name, *path;
    struct safetensors in;
};

// The index: which tensor lies in which file.
struct index {
    struct arena *arena;
    const char *folder, *path;
    struct json_reader in;
    struct shard *shards;
    size_t shard_count;
    struct place {
        const char *tensor;
        size_t shard;
    } * places;
    size_t count, room;
};

// Files of an index are in its folder: a name with a slash could point elsewhere.
static enum err find_shard(struct index *index, struct text name, size_t *out)
{
    for (size_t i = index->shard_count; i-- > 0;)
        if (text_is(name, index->shards[i].name)) {
            *out = i;
            return OK;
        }
    if (!name.size || name.size > 255 || memchr(name.at, '/', name.size) ||
        memchr(name.at, 0, name.size) || name.at[0] == '.')
        return fail(ERR_INPUT, "%s: \"%.*s\" is not the name of a file in the same folder",
                    index->path, TEXT_BRIEF(name));
    if (index->shard_count == FILES_MOST)
        return fail(ERR_INPUT, "%s: names more than %d files", index->path, FILES_MOST);
    const char *copy = text_copy(index->arena, name);
    index->shards[index->shard_count] = (struct shard){
        .name = copy,
        .path = text_format(index->arena, "%s/%s", index->folder, copy),
    };
    *out = index->shard_count++;
    return OK;
}

static enum err read_places(struct index *index)
{
    if (json_peek(&index->in) != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: weight_map must be an object", index->path);
    json_object(&index->in);
    for (struct text key; json_key(&index->in, index->arena, &key);) {
        if (json_peek(&index->in) != JSON_STRING)
            return fail(ERR_INPUT, "%s: the file of tensor %.*s is not a string", index->path,
                        TEXT_BRIEF(key));
        struct text file = json_string(&index->in, index->arena);
        if (index->in.problem)
            break;
        index->places = arena_room(index->arena, index->places, sizeof *index->places, index->count,
                                   &index->room);
        struct place *place = &index->places[index->count++];
        place->tensor = text_copy(index->arena, key);
        TRY(find_shard(index, file, &place->shard));
    }
    return OK;
}

static enum err read_index(struct index *index, struct text content)
{
    index->in = json_reader(content);
    index->shards = ARENA_NEW(index->arena, struct shard, FILES_MOST);
    json_object(&index->in);
    for (struct text key; json_key(&index->in, index->arena, &key);)
        if (text_is(key, "weight_map"))
            TRY(read_places(index));
        else
            json_skip(&index->in);
    TRY(json_end(&index->in, index->path));
    if (!index->count)
        return fail(ERR_INPUT, "%s: has no weight_map, or an empty one", index->path);
    return OK;
}

static enum err open_shards(struct safetensors *out, struct index *index)
{
    out->files = ARENA_NEW(index->arena, struct file, index->shard_count);
    out->paths = ARENA_NEW(index->arena, const char *, index->shard_count);
    for (size_t i = 0; i < index->shard_count; i++) {
        struct shard *shard = &index->shards[i];
        TRY(file_open(&out->files[i], shard->path));
        out->paths[i] = shard->path;
        out->file_count++;
        TRY(safetensors_read(&shard->in, index->arena, out->files[i].text, shard->path));
    }
    out->metadata = index->shards[0].in.metadata;
    out->tensors = ARENA_NEW(index->arena, struct safetensors_tensor, index->count);
    for (size_t i = 0; i < index->count; i++) {
        const struct place *place = &index->places[i];
        const struct shard *shard = &index->shards[place->shard];
        const struct safetensors_tensor *found = safetensors_find(&shard->in, place->tensor);
        if (!found)
            return fail(ERR_INPUT, "%s: tensor %.90s: is not in %s, where the index places it",
                        index->path, place->tensor, shard->name);
        out->tensors[out->count++] = *found;
    }
    qsort(out->tensors, out->count, sizeof *out->tensors, by_name);
    return check_names(out, index->path);
}

static enum err open_index(struct safetensors *out, struct arena *arena, const char *path)
{
    struct file file;
    TRY(file_open(&file, path));
    const char *slash = strrchr(path, '/');
    struct index index = {
        .arena = arena,
        .folder = slash ? arena_copy(arena, path, (size_t)(slash - path)) : ".",
        .path = path,
    };
    enum err err = read_index(&index, file.text);
    err = err ? err : open_shards(out, &index);
    file_close(&file);
    return err;
}

// --- opening -----------------------------------------------------------------

static bool is_folder(const char *path)
{
    struct stat about;
    return !stat(path, &about) && S_ISDIR(about.st_mode);
}

static bool is_file(const char *path)
{
    struct stat about;
    return !stat(path, &about) && !S_ISDIR(about.st_mode);
}

// A single file takes precedence over an index, as in transformers.
static enum err find_in_folder(const char **path, struct arena *arena)
{
    const char *single = text_format(arena, "%s/model.safetensors", *path);
    const char *index = text_format(arena, "%s/model.safetensors.index.json", *path);
    if (!is_file(single) && !is_file(index))
        return fail(ERR_INPUT, "%s: has neither model.safetensors nor model.safetensors.index.json",
                    *path);
    *path = is_file(single) ? single : index;
    return OK;
}

static enum err open_file(struct safetensors *in, struct arena *arena, const char *path)
{
    struct file *file = ARENA_NEW(arena, struct file, 1);
    TRY(file_open(file, path));
    enum err err = safetensors_read(in, arena, file->text, path);
    in->files = file; // after reading, which clears the struct
    in->paths = ARENA_NEW(arena, const char *, 1);
    in->paths[0] = arena_copy(arena, path, strlen(path));
    in->file_count = 1;
    return err;
}

enum err safetensors_open(struct safetensors *in, struct arena *arena, const char *path)
{
    *in = (struct safetensors){ 0 };
    if (is_folder(path))
        TRY(find_in_folder(&path, arena));
    size_t size = strlen(path);
    bool index = size > 5 && !strcmp(path + size - 5, ".json");
    enum err err = index ? open_index(in, arena, path) : open_file(in, arena, path);
    if (err)
        safetensors_release(in);
    return err;
}

const char *safetensors_place(const struct safetensors *in, const struct safetensors_tensor *tensor,
                              size_t *offset)
{
    for (size_t i = 0; i < in->file_count; i++) {
        struct text all = in->files[i].text;
        *offset = (size_t)((uintptr_t)tensor->at - (uintptr_t)all.at);
        if (*offset < all.size)
            return in->paths[i];
    }
    return NULL;
}

void safetensors_release(struct safetensors *in)
{
    for (size_t i = 0; i < in->file_count; i++)
        file_close(&in->files[i]);
    *in = (struct safetensors){ 0 };
}
