// SPDX-License-Identifier: Apache-2.0
// Names work units by what decides their results, counts those that are missing, reads all results.

#include "cli/dataset/units.h"

#include "base/checksum.h"
#include "base/sha256.h"
#include "cli/terminal/print.h"
#include "core/data/packing.h"
#include "host/clock.h"
#include "host/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct field units_fields[] = {
    FIELD(units_options, units, TEXT,
          "folder for the results of work units; a command that is repeated does what is missing",
          .value = "DIR", .fallback = "none"),
    FIELD(
        units_options, shard, TEXT,
        "share of the units to count: K/N, auto (Slurm, AWS Batch, SGE, MPI), auto/N (Kubernetes)",
        .value = "K/N", .fallback = "all of them, then the profile"),
    FIELD(units_options, unit_size, BYTES, "size of a unit"),
    { 0 },
};

// --- names -------------------------------------------------------------------

static const char *digest(struct arena *arena, struct text text)
{
    uint8_t bytes[32];
    struct out out = { .arena = arena };
    sha256(bytes, text);
    for (int i = 0; i < 16; i++)
        out_put(&out, "%02x", bytes[i]);
    return out_string(&out);
}

static void name_units(struct units *units, struct text what)
{
    const struct manifest *manifest = &units->manifest;
    struct out all = { .arena = units->arena };
    units->keys = ARENA_NEW(units->arena, const char *, manifest->count);
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_unit *unit = &manifest->units[i];
        struct arena scratch = { 0 };
        struct out out = { .arena = &scratch };
        out_bytes(&out, what.at, what.size);
        for (size_t k = unit->file; k < unit->file + unit->files; k++)
            out_put(&out, "%s\n%lld %lld\n", manifest->inputs.paths[k],
                    (long long)manifest->files[k].bytes, (long long)manifest->files[k].changed_ns);
        out_put(&out, "%lld %lld\n", (long long)unit->from, (long long)unit->to);
        units->keys[i] = digest(units->arena, out_view(&out));
        out_put(&all, "%s\n", units->keys[i]);
        arena_release(&scratch);
    }
    units->key = digest(units->arena, out_view(&all));
}

static const char *result_path(struct arena *arena, const struct units *units, size_t unit)
{
    return text_format(arena, "%s/%s.unit", units->folder, units->keys[unit]);
}

static bool is_done(const struct units *units, size_t unit)
{
    struct arena scratch = { 0 };
    bool done = !access(result_path(&scratch, units, unit), F_OK);
    arena_release(&scratch);
    return done;
}

size_t units_present(const struct units *units)
{
    size_t present = 0;
    for (size_t i = 0; i < units->manifest.count; i++)
        present += is_done(units, i);
    return present;
}

enum err units_check(const struct units *units)
{
    const struct manifest *manifest = &units->manifest;
    size_t missing = manifest->count - units_present(units), first = 0;
    if (!missing)
        return OK;
    while (is_done(units, first) && first + 1 < manifest->count)
        first++;
    struct arena scratch = { 0 };
    enum err err =
        fail(ERR_ANSWER,
             "%s: %zu of %zu units are missing, the first one being %zu (%s); start their "
             "workers again",
             units->folder, missing, manifest->count, first + 1,
             manifest_name(&scratch, manifest, &manifest->units[first]));
    arena_release(&scratch);
    return err;
}

// --- opening -----------------------------------------------------------------

static void list_files(struct units *units)
{
    const struct manifest *manifest = &units->manifest;
    struct profile *head = &units->head;
    head->file_count = manifest->inputs.count;
    head->files = ARENA_NEW(units->arena, struct profile_file, head->file_count);
    for (size_t i = 0; i < head->file_count; i++) {
        int64_t bytes = manifest->files[i].bytes;
        head->files[i] = (struct profile_file){ manifest->inputs.paths[i], bytes < 0 ? 0 : bytes };
    }
}

enum err units_open(struct units *out, struct dataset *dataset, const char *const *words,
                    size_t count, const struct units_options *options,
                    const struct profile_settings *settings, const char *program)
{
    *out = (struct units){ .arena = dataset->arena,
                           .folder = options->units,
                           .head = dataset_head(dataset),
                           .settings = *settings,
                           .raw_pairs = dataset->rule.chat.raw_pairs };
    if (dataset->needs_date)
        return fail(ERR_USAGE, "the chat template shows today's date: give --date, so that all "
                               "units see the same one");
    if (!(options->unit_size >= 1 && options->unit_size <= 1e15))
        return fail(ERR_USAGE, "--unit-size must be at least one byte");
    TRY(manifest_make(&out->manifest, out->arena, words, count, (int64_t)options->unit_size));
    list_files(out);
    struct text identity = out_view(&dataset->identity);
    name_units(out,
               text_of(text_format(out->arena, "unit 1\n%s\n%.*s", program, TEXT_ARGS(identity))));
    if (mkdir(out->folder, 0777) && errno != EEXIST)
        return fail(ERR_INPUT, "%s: cannot be created: %s", out->folder, strerror(errno));
    return units_write_document(out);
}

// --- one unit ----------------------------------------------------------------

// Results are summed in slices, as they are written.
enum { SLICE_BYTES = 1 << 16 };

struct result {
    const struct units *units;
    struct counted_writer writer;
    struct arena arena;
    struct out out;
    struct file_new file;
    uint64_t sum;
};

static enum err flush(struct result *result, size_t slice)
{
    struct out *out = &result->out;
    size_t done = 0;
    for (; out->size - done >= slice && done < out->size; done += slice) {
        struct text piece = { out->at + done, slice };
        result->sum = checksum(piece, result->sum);
        TRY(file_append(&result->file, piece));
    }
    memmove(out->at, out->at + done, out->size - done);
    out->size -= done;
    return OK;
}

static enum err add(void *context, const struct example *example)
{
    struct result *result = context;
    const struct inputs *inputs = &result->units->manifest.inputs;
    size_t file = result->writer.file;
    while (file + 1 < inputs->count && strcmp(inputs->paths[file], example->file))
        file++;
    counted_put(&result->writer, file, example);
    return result->out.size < SLICE_BYTES ? OK : flush(result, SLICE_BYTES);
}

// The rest, and the sum of all.
static enum err finish(struct result *result, const struct dataset_reading *reading)
{
    counted_put_end(&result->writer, reading->shapes, reading->shape_count, reading->lines);
    TRY(flush(result, SLICE_BYTES));
    if (result->out.size)
        TRY(flush(result, result->out.size));
    TRY(file_append(&result->file,
                    (struct text){ (const char *)&result->sum, sizeof result->sum }));
    TRY(file_commit(&result->file));
    return file_sync_folder(result->units->folder);
}

static enum err count_unit(struct units *units, struct dataset *dataset, size_t index,
                           struct progress *bar, int64_t before_bytes)
{
    const struct manifest_unit *unit = &units->manifest.units[index];
    struct result result = { .units = units, .file = { .fd = -1 } };
    result.out = (struct out){ .arena = &result.arena };
    result.writer = (struct counted_writer){ .out = &result.out, .file = unit->file };
    struct dataset_reading reading = { .context = &result,
                                       .give = add,
                                       .quiet = true,
                                       .from = unit->from,
                                       .to = unit->to,
                                       .progress = bar,
                                       .before_bytes = before_bytes };
    enum err err = file_create(&result.file, result_path(&result.arena, units, index));
    if (!err)
        err =
            dataset_read(dataset, units->manifest.inputs.paths + unit->file, unit->files, &reading);
    for (size_t i = 0; i < reading.shape_count; i++)
        reading.shapes[i].file += unit->file;
    if (!err)
        err = manifest_check(&units->manifest, unit);
    if (!err)
        err = finish(&result, &reading);
    file_abandon(&result.file);
    arena_release(&result.arena);
    return err;
}

// --- the units of a worker ---------------------------------------------------

static int64_t bytes_of(const struct units *units, size_t unit)
{
    int64_t bytes = units->manifest.units[unit].bytes;
    return bytes > 0 ? bytes : 0;
}

static void put_line(struct arena *arena, size_t unit, const struct units *units,
                     const struct units_work *work, int64_t bytes, int64_t done_bytes,
                     double seconds)
{
    double rate = seconds > 0 ? (double)done_bytes / seconds : 0;
    struct out out = { .arena = arena };
    struct json_writer w = { .out = &out, .compact = true };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "unit");
    json_put_count(&w, "version", 1);
    json_put_count(&w, "unit", (int64_t)unit + 1);
    json_put_count(&w, "units", (int64_t)units->manifest.count);
    json_put_count(&w, "mine", (int64_t)work->mine);
    json_put_count(&w, "done", (int64_t)work->done);
    json_put_count(&w, "bytes", bytes);
    json_put_count(&w, "done_bytes", done_bytes);
    json_put_number(&w, "bytes_per_second", rate);
    json_put_number(&w, "seconds_left", rate > 0 ? (double)(bytes - done_bytes) / rate : 0);
    json_close(&w, '}');
    out_char(&out, '\n');
    print_data(out_view(&out));
    print_flush();
}

enum err units_work(struct units *units, struct dataset *dataset, const struct shard *shard,
                    struct units_work *work)
{
    int64_t bytes = 0, done_bytes = 0;
    size_t count = units->manifest.count;
    bool *todo = ARENA_NEW(units->arena, bool, count);
    for (size_t i = 0; i < count; i++) {
        bool mine = shard_has(shard, i);
        todo[i] = mine && !is_done(units, i);
        work->mine += mine;
        work->done += mine && !todo[i];
        bytes += todo[i] ? bytes_of(units, i) : 0;
    }
    double began = clock_seconds();
    struct progress bar = progress_start("reading", bytes, work->quiet);
    enum err err = OK;
    for (size_t i = 0; i < count && !err; i++) {
        if (!todo[i])
            continue;
        struct arena scratch = { 0 }, *arena = dataset->arena;
        bar.what = text_format(&scratch, "unit %zu of %zu", work->done + 1, work->mine);
        dataset->arena = &scratch;
        err = is_done(units, i) ? OK : count_unit(units, dataset, i, &bar, done_bytes);
        dataset->arena = arena;
        done_bytes += bytes_of(units, i);
        work->done += !err;
        work->counted += !err;
        if (!err && work->lines)
            put_line(&scratch, i, units, work, bytes, done_bytes, clock_seconds() - began);
        arena_release(&scratch);
    }
    progress_end(&bar);
    return err;
}

// --- all results -------------------------------------------------------------

static enum err damaged(const char *path)
{
    return fail(ERR_INPUT,
                "%s: the result of this unit is damaged; remove it and start its worker "
                "again",
                path);
}

static enum err check_sum(struct text text, const char *path)
{
    uint64_t sum = 0, wanted;
    if (text.size < sizeof wanted)
        return damaged(path);
    text.size -= sizeof wanted;
    memcpy(&wanted, text.at + text.size, sizeof wanted);
    for (size_t at = 0; at < text.size; at += SLICE_BYTES) {
        size_t size = text.size - at < SLICE_BYTES ? text.size - at : SLICE_BYTES;
        sum = checksum((struct text){ text.at + at, size }, sum);
    }
    return sum == wanted ? OK : damaged(path);
}

// Where the lines of a unit begin: those of the units before it in the same file are counted on.
struct place {
    size_t file; // plus one
    int64_t lines;
    size_t shapes, room; // shapes of the reading, and room for them
};

static void add_shapes(struct dataset_reading *reading, struct units *units, struct place *place,
                       const struct counted_reader *from)
{
    for (size_t i = 0; i < from->shape_count; i++) {
        const struct counted_shape *last =
            reading->shape_count ? &reading->shapes[reading->shape_count - 1] : NULL;
        if (last && last->file == from->shapes[i].file)
            continue; // a later part of the same file
        if (reading->shape_count == place->room) {
            size_t room = place->room ? place->room * 2 : 16;
            reading->shapes =
                arena_grow(units->arena, reading->shapes, place->room * sizeof *reading->shapes,
                           room * sizeof *reading->shapes);
            place->room = room;
        }
        reading->shapes[reading->shape_count++] = from->shapes[i];
    }
}

static enum err read_result(struct units *units, size_t index, struct dataset_reading *reading,
                            struct place *place)
{
    const struct manifest_unit *unit = &units->manifest.units[index];
    const char *path = result_path(units->arena, units, index);
    struct file file;
    TRY(file_open(&file, path));
    enum err err = check_sum(file.text, path);
    struct counted_reader reader = { .arena = units->arena,
                                     .at = file.text.at,
                                     .end = file.text.at + file.text.size - sizeof(uint64_t),
                                     .file = unit->file };
    if (place->file != unit->file + 1)
        place->lines = 0;
    for (struct example example; !err && counted_next(&reader, &example);) {
        if (reader.file < unit->file || reader.file >= unit->file + unit->files) {
            reader.failed = true;
            break;
        }
        example.file = units->manifest.inputs.paths[reader.file];
        example.line += place->lines;
        err = reading->give(reading->context, &example);
    }
    if (!err && reader.failed)
        err = damaged(path);
    place->file = unit->file + unit->files;
    place->lines += reader.lines;
    if (!err)
        add_shapes(reading, units, place, &reader);
    file_close(&file);
    return err;
}

enum err units_read(struct units *units, struct dataset_reading *reading)
{
    struct place place = { 0 };
    TRY(units_check(units));
    for (size_t i = 0; i < units->manifest.count; i++)
        TRY(read_result(units, i, reading, &place));
    reading->files = units->head.files;
    reading->file_count = units->head.file_count;
    return OK;
}
