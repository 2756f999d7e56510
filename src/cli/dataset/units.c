// SPDX-License-Identifier: Apache-2.0
// Names work units by what decides their results, counts those that are missing, reads all results.

#include "cli/dataset/units.h"

#include "base/checksum.h"
#include "base/sha256.h"
#include "cli/terminal/print.h"
#include "core/data/packing.h"
#include "host/clock.h"
#include "host/file.h"
#include "host/launcher.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const struct field units_fields[] = {
    FIELD(units_options, units, TEXT, "folder for the results of work units, reused by later runs",
          .value = "DIR", .fallback = "none"),
    FIELD(units_options, shard, TEXT, "share of the units: K/N, auto, auto/N or all",
          .value = "SHARE", .fallback = "this rank's or array task's, else all"),
    FIELD(units_options, unit_size, BYTES, "size of a unit"),
    { 0 },
};

enum err units_share(struct shard *out, const struct units_options *options)
{
    if (options->units)
        return shard_read(out, options->shard);
    if (options->shard)
        return fail(ERR_USAGE, "--shard needs --units: the folder for the results");
    const struct launcher *launcher = launcher_find(getenv);
    bool is_first_of_many = launcher && !strcmp(getenv(launcher->rank), "0") &&
                            strcmp(getenv(launcher->size), "1") != 0;
    if (is_first_of_many)
        print_note("each of the %s ranks of %s reads all the data; with --units DIR each reads its "
                   "share",
                   getenv(launcher->size), launcher->name);
    return shard_read(out, "all");
}

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

// The files of a result; the last two only where ids are wanted.
enum { COUNTED, IDS, LEARNED, STREAMS };
static const char *const endings[STREAMS] = { "unit", "ids", "learned" };

static const char *result_path(struct arena *arena, const struct units *units, size_t unit,
                               const char *ending)
{
    return text_format(arena, "%s/%s.%s", units->folder, units->keys[unit], ending);
}

// The sum of a result begins with its name: one that was copied to another's name is not taken for
// it.
static uint64_t sum_of_name(const char *path)
{
    return checksum(text_of(strrchr(path, '/') + 1), 0);
}

static int streams_of(const struct units *units)
{
    return units->wants_ids ? STREAMS : COUNTED + 1;
}

static bool is_done(const struct units *units, size_t unit)
{
    struct arena scratch = { 0 };
    bool done = true;
    for (int i = 0; i < streams_of(units) && done; i++)
        done = !access(result_path(&scratch, units, unit, endings[i]), F_OK);
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

// ERR_ANSWER if results are missing: which.
static enum err check_complete(const struct units *units)
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
             "%s: units are missing: %zu of %zu, the first one is number %zu (%s); start their "
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
    head->left_out_files = (int64_t)manifest->inputs.left_out;
    head->left_out_file = manifest->inputs.left_out_name;
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
                           .raw_pairs = dataset->rule.chat.raw_pairs,
                           .wants_ids = options->wants_ids };
    if (dataset->needs_date)
        return fail(ERR_USAGE, "the chat template shows today's date: give --date, so that all "
                               "units see the same one");
    if (!(options->unit_size >= 1 && options->unit_size <= 1e15))
        return fail(ERR_USAGE, "--unit-size must be at least one byte");
    out->unit_bytes = (int64_t)options->unit_size;
    TRY(manifest_make(&out->manifest, out->arena, words, count, out->unit_bytes));
    list_files(out);
    struct text identity = out_view(&dataset->identity);
    name_units(out,
               text_of(text_format(out->arena, "%s 2\n%s\n%.*s", out->wants_ids ? "tokens" : "unit",
                                   program, TEXT_ARGS(identity))));
    if (mkdir(out->folder, 0777) && errno != EEXIST)
        return fail(ERR_INPUT, "%s: cannot be created: %s", out->folder, strerror(errno));
    return units_write_document(out);
}

// --- one unit ----------------------------------------------------------------

// A result is written, and summed, in slices.
enum { SLICE_BYTES = 1 << 16 };

struct stream {
    struct file_new file;
    struct out out;
    uint64_t sum;
};

struct result {
    const struct units *units;
    struct counted_writer writer;
    struct arena arena;
    struct stream streams[STREAMS];
};

static enum err flush(struct stream *stream, size_t slice)
{
    struct out *out = &stream->out;
    size_t done = 0;
    for (; slice && out->size - done >= slice; done += slice) {
        struct text piece = { out->at + done, slice };
        stream->sum = checksum(piece, stream->sum);
        TRY(file_append(&stream->file, piece));
    }
    if (done)
        memmove(out->at, out->at + done, out->size - done);
    out->size -= done;
    return OK;
}

static enum err put(struct stream *stream, const void *at, size_t size)
{
    if (size)
        out_bytes(&stream->out, at, size);
    return flush(stream, SLICE_BYTES);
}

static enum err add(void *context, const struct example *example)
{
    struct result *result = context;
    const struct inputs *inputs = &result->units->manifest.inputs;
    size_t file = result->writer.file, tokens = (size_t)example->tokens;
    while (file + 1 < inputs->count && strcmp(inputs->paths[file], example->file))
        file++;
    counted_put(&result->writer, file, example);
    if (result->units->wants_ids && !example->problem) {
        TRY(put(&result->streams[IDS], example->ids, tokens * sizeof *example->ids));
        TRY(put(&result->streams[LEARNED], example->learned, tokens));
    }
    return flush(&result->streams[COUNTED], SLICE_BYTES);
}

// The rest, and the sum of all.
static enum err close_stream(struct stream *stream)
{
    TRY(flush(stream, SLICE_BYTES));
    TRY(flush(stream, stream->out.size));
    TRY(file_append(&stream->file,
                    (struct text){ (const char *)&stream->sum, sizeof stream->sum }));
    return file_commit(&stream->file);
}

// What counts as done comes last.
static enum err finish(struct result *result, const struct dataset_reading *reading)
{
    counted_put_end(&result->writer, reading->shapes, reading->shape_count, &reading->census,
                    reading->lines);
    for (int i = streams_of(result->units); i > 0; i--)
        TRY(close_stream(&result->streams[i - 1]));
    return file_sync_folder(result->units->folder);
}

static enum err create(struct result *result, size_t unit)
{
    const struct units *units = result->units;
    for (int i = 0; i < streams_of(units); i++) {
        const char *path = result_path(&result->arena, units, unit, endings[i]);
        TRY(file_create(&result->streams[i].file, path));
        result->streams[i].sum = sum_of_name(path);
    }
    return OK;
}

static enum err count_unit(struct units *units, struct dataset *dataset, size_t index,
                           struct progress *bar, int64_t before_bytes)
{
    const struct manifest_unit *unit = &units->manifest.units[index];
    struct result result = { .units = units };
    struct arena arenas[STREAMS] = { 0 };
    for (int i = 0; i < STREAMS; i++)
        result.streams[i] = (struct stream){ .file = { .fd = -1 }, .out = { .arena = &arenas[i] } };
    result.writer =
        (struct counted_writer){ .out = &result.streams[COUNTED].out, .file = unit->file };
    struct dataset_reading reading = { .context = &result,
                                       .give = add,
                                       .wants_ids = units->wants_ids,
                                       .quiet = true,
                                       .from = unit->from,
                                       .to = unit->to,
                                       .progress = bar,
                                       .before_bytes = before_bytes };
    enum err err = create(&result, index);
    if (!err)
        err =
            dataset_read(dataset, units->manifest.inputs.paths + unit->file, unit->files, &reading);
    for (size_t i = 0; i < reading.shape_count; i++)
        reading.shapes[i].file += unit->file;
    if (!err)
        err = manifest_check(&units->manifest, unit);
    if (!err)
        err = finish(&result, &reading);
    for (int i = 0; i < STREAMS; i++) {
        file_abandon(&result.streams[i].file);
        arena_release(&arenas[i]);
    }
    arena_release(&result.arena);
    return err;
}

// --- the units of a worker ---------------------------------------------------

static int64_t bytes_of(const struct units *units, size_t unit)
{
    int64_t bytes = units->manifest.units[unit].bytes;
    return bytes > 0 ? bytes : 0;
}

// Says once that a file far larger than a unit keeps one worker busy while the others have nothing.
static void note_uncut(const struct units *units, const struct shard *shard)
{
    size_t count = units->manifest.count, largest = count;
    for (size_t i = 0; i < count; i++) {
        const struct manifest_unit *unit = &units->manifest.units[i];
        bool is_uncut = unit->files == 1 && !unit->to && bytes_of(units, i) > 2 * units->unit_bytes;
        if (is_uncut && (largest == count || bytes_of(units, i) > bytes_of(units, largest)))
            largest = i;
    }
    if (largest == count || shard->count < 2 || shard->index)
        return;
    struct arena scratch = { 0 };
    print_note("%s (%s) is one unit, which a single worker reads: packed files, CSV and JSON lists "
               "cannot be cut; unpacked, or as several files, it would be shared",
               manifest_name(&scratch, &units->manifest, &units->manifest.units[largest]),
               text_bytes(&scratch, (double)bytes_of(units, largest)));
    arena_release(&scratch);
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
    if (!shard->index && !dataset->warns_later)
        dataset_note_left_out(&units->manifest.inputs);
    if (!work->quiet)
        note_uncut(units, shard);
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
                "%s: the result of this unit is damaged or belongs to another unit; remove it and "
                "start its worker again",
                path);
}

// Compares the sum at the end of a result with its bytes, a slice at a time: `bytes` without it.
static enum err check_sum(int64_t *bytes, const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat about;
    if (!file || fstat(fileno(file), &about)) {
        enum err err = fail(ERR_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
        if (file)
            fclose(file);
        return err;
    }
    char slice[SLICE_BYTES];
    uint64_t sum = sum_of_name(path), wanted = 0;
    *bytes = (int64_t)(about.st_size - (off_t)sizeof wanted);
    bool good = *bytes >= 0;
    for (int64_t at = 0; at < *bytes && good; at += SLICE_BYTES) {
        size_t size = (size_t)(*bytes - at < SLICE_BYTES ? *bytes - at : SLICE_BYTES);
        good = fread(slice, 1, size, file) == size;
        sum = checksum((struct text){ slice, size }, sum);
    }
    good = good && fread(&wanted, sizeof wanted, 1, file) == 1 && sum == wanted;
    fclose(file);
    return good ? OK : damaged(path);
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
        reading->shapes = arena_room(units->arena, reading->shapes, sizeof *reading->shapes,
                                     reading->shape_count, &place->room);
        reading->shapes[reading->shape_count++] = from->shapes[i];
    }
}

static enum err read_result(struct units *units, size_t index, struct dataset_reading *reading,
                            struct place *place)
{
    const struct manifest_unit *unit = &units->manifest.units[index];
    const char *path = result_path(units->arena, units, index, endings[COUNTED]);
    int64_t bytes;
    struct file file;
    TRY(check_sum(&bytes, path));
    TRY(file_open(&file, path));
    enum err err = OK;
    struct counted_reader reader = {
        .arena = units->arena, .at = file.text.at, .end = file.text.at + bytes, .file = unit->file
    };
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
    if (!err) {
        add_shapes(reading, units, place, &reader);
        census_merge(&reading->census, &reader.census);
    }
    file_close(&file);
    return err;
}

// When all results are there, removes what killed workers left. A worker adds to its files all the
// time: one that was not touched for an hour is nobody's.
static void remove_leftovers(const struct units *units)
{
    DIR *folder = opendir(units->folder);
    struct arena scratch = { 0 };
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat about;
        const char *path = text_format(&scratch, "%s/%s", units->folder, entry->d_name);
        if (text_ends(text_of(entry->d_name), ".tmp") && !lstat(path, &about) &&
            S_ISREG(about.st_mode) && about.st_mtime < time(NULL) - 3600)
            unlink(path);
    }
    if (folder)
        closedir(folder);
    arena_release(&scratch);
}

enum err units_read(struct units *units, struct dataset_reading *reading)
{
    struct place place = { 0 };
    reading->census = (struct census){ .arena = units->arena };
    TRY(check_complete(units));
    remove_leftovers(units);
    for (size_t i = 0; i < units->manifest.count; i++)
        TRY(read_result(units, i, reading, &place));
    reading->files = units->head.files;
    reading->file_count = units->head.file_count;
    reading->left_out_files = units->head.left_out_files;
    reading->left_out_file = units->head.left_out_file;
    return OK;
}

// --- tokens ------------------------------------------------------------------

enum err units_check_tokens(int64_t *count, const struct units *units, size_t unit)
{
    struct arena scratch = { 0 };
    int64_t ids;
    enum err err = check_sum(&ids, result_path(&scratch, units, unit, endings[IDS]));
    if (!err)
        err = check_sum(count, result_path(&scratch, units, unit, endings[LEARNED]));
    arena_release(&scratch);
    if (!err && ids != *count * (int64_t)sizeof(int32_t))
        err = fail(ERR_INPUT, "%s/%s.ids: has more or fewer tokens than its marks say",
                   units->folder, units->keys[unit]);
    return err;
}
