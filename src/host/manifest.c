// SPDX-License-Identifier: Apache-2.0
// Lists the files of a dataset with size and date, and cuts them into work units.

#include "host/manifest.h"

#include "base/checksum.h"
#include "host/source.h"

#include <string.h>
#include <sys/stat.h>

// An object's tag stands for its date. It is checked with every range that is read.
static struct manifest_file look_at(const struct inputs *inputs, size_t file)
{
    const struct object *object = inputs->objects[file];
    struct stat about;
    if (object)
        return (struct manifest_file){ .bytes = object->size_bytes,
                                       .changed_ns =
                                           (int64_t)(checksum(text_of(object->etag), 0) >> 1) };
    if (stat(inputs->paths[file], &about) || !S_ISREG(about.st_mode))
        return (struct manifest_file){ .bytes = -1 };
    return (struct manifest_file){ .bytes = about.st_size,
                                   .changed_ns = (int64_t)about.st_mtim.tv_sec * 1000000000 +
                                                 about.st_mtim.tv_nsec };
}

// --- cutting -----------------------------------------------------------------

struct cutting {
    struct manifest *out;
    struct arena *arena;
    size_t room;
    int64_t unit_bytes;
};

static void add(struct cutting *c, struct manifest_unit unit)
{
    struct manifest *out = c->out;
    out->units = arena_room(c->arena, out->units, sizeof *out->units, out->count, &c->room);
    out->units[out->count++] = unit;
}

static void cut_file(struct cutting *c, size_t file)
{
    int64_t bytes = c->out->files[file].bytes;
    int64_t parts = (bytes + c->unit_bytes - 1) / c->unit_bytes, each = bytes / parts;
    for (int64_t i = 0; i < parts; i++) {
        int64_t from = i * each, to = i + 1 < parts ? from + each : bytes;
        add(c, (struct manifest_unit){ file, 1, from, to, to - from });
    }
}

// Small files fill the unit of the files before them, if nothing but small files is in it.
static void add_file(struct cutting *c, size_t file)
{
    struct manifest *out = c->out;
    int64_t bytes = out->files[file].bytes;
    if (bytes > c->unit_bytes && source_has_ranges(out->inputs.paths[file])) {
        cut_file(c, file);
        return;
    }
    struct manifest_unit *last = out->count ? &out->units[out->count - 1] : NULL;
    bool fits =
        last && !last->to && bytes >= 0 && last->bytes >= 0 && last->bytes + bytes <= c->unit_bytes;
    if (fits) {
        last->files++;
        last->bytes += bytes;
        return;
    }
    add(c, (struct manifest_unit){ .file = file, .files = 1, .bytes = bytes });
}

enum err manifest_make(struct manifest *out, struct arena *arena, const char *const *words,
                       size_t count, int64_t unit_bytes)
{
    *out = (struct manifest){ 0 };
    TRY(inputs_find(&out->inputs, arena, words, count));
    struct cutting cutting = { out, arena, 0, unit_bytes > 0 ? unit_bytes : 1 };
    out->files = ARENA_NEW(arena, struct manifest_file, out->inputs.count);
    for (size_t i = 0; i < out->inputs.count; i++) {
        const char *path = out->inputs.paths[i];
        out->files[i] = look_at(&out->inputs, i);
        if (out->files[i].bytes < 0)
            return fail(ERR_INPUT, "%s: work units need files, which can be read again",
                        strcmp(path, "-") ? path : "standard input");
        add_file(&cutting, i);
    }
    return OK;
}

// --- one unit ----------------------------------------------------------------

enum err manifest_check(const struct manifest *manifest, const struct manifest_unit *unit)
{
    for (size_t i = unit->file; i < unit->file + unit->files; i++) {
        const char *path = manifest->inputs.paths[i];
        struct manifest_file now = look_at(&manifest->inputs, i), then = manifest->files[i];
        if (now.bytes != then.bytes || now.changed_ns != then.changed_ns)
            return fail(ERR_INPUT,
                        "%s: was changed while it was read; start the command again when nothing "
                        "writes to it",
                        path);
    }
    return OK;
}

const char *manifest_name(struct arena *arena, const struct manifest *manifest,
                          const struct manifest_unit *unit)
{
    const char *path = manifest->inputs.paths[unit->file];
    if (unit->to)
        return text_format(arena, "%s, bytes %lld to %lld", path, (long long)unit->from,
                           (long long)unit->to);
    if (unit->files == 1)
        return path;
    return text_format(arena, "%s and %zu more file%s", path, unit->files - 1,
                       text_plural(unit->files - 1));
}
