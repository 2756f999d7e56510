// SPDX-License-Identifier: Apache-2.0
// Writes and reads units.json, the list of the work units of a job.

#include "cli/dataset/units.h"
#include "host/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char *document_path(struct arena *arena, const char *folder)
{
    return text_format(arena, "%s/units.json", folder);
}

bool units_is_folder(const char *path)
{
    struct arena arena = { 0 };
    bool there = !access(document_path(&arena, path), R_OK);
    arena_release(&arena);
    return there;
}

// --- writing -----------------------------------------------------------------

static void write_head(const struct units *units, struct json_writer *w)
{
    const struct profile *head = &units->head;
    json_put_string(w, "kind", "units");
    json_put_count(w, "version", 1);
    json_put_string(w, "key", units->key);
    json_open(w, "tokenizer", '{');
    json_put_string(w, "name", head->tokenizer);
    json_put_bool(w, "exact", head->exact);
    json_put_number(w, "spread", head->spread); // in English; a profile has that of its texts
    json_close(w, '}');
    json_put_string(w, "template", head->template);
    json_put_string(w, "labels", head->labels);
    json_put_string(w, "vision", head->vision);
    json_put_bool(w, "raw_pairs", units->raw_pairs);
    json_open(w, "batches", '{');
    field_write(profile_settings_fields, &units->settings, w);
    json_close(w, '}');
    if (units->settings.positions > 0)
        json_put_count(w, "model_positions", units->settings.positions);
}

static void write_lists(const struct units *units, struct json_writer *w)
{
    json_open(w, "files", '[');
    for (size_t i = 0; i < units->head.file_count; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", units->head.files[i].name);
        json_put_count(w, "bytes", units->head.files[i].bytes);
        json_close(w, '}');
    }
    json_close(w, ']');
    if (units->head.left_out_files) {
        json_put_count(w, "left_out_files", units->head.left_out_files);
        json_put_string(w, "left_out_file", units->head.left_out_file);
    }
    json_open(w, "units", '[');
    for (size_t i = 0; i < units->manifest.count; i++) {
        const struct manifest_unit *unit = &units->manifest.units[i];
        json_open(w, NULL, '{');
        json_put_string(w, "key", units->keys[i]);
        json_put_count(w, "file", (int64_t)unit->file);
        json_put_count(w, "files", (int64_t)unit->files);
        json_put_count(w, "from", unit->from);
        json_put_count(w, "to", unit->to);
        json_close(w, '}');
    }
    json_close(w, ']');
}

// The text of the document that is there; empty if none is.
static struct text former(struct arena *arena, const char *path)
{
    struct text text = { 0 };
    return access(path, F_OK) || file_read(&text, arena, path) ? (struct text){ 0 } : text;
}

void units_put_document(struct out *out, const struct units *units)
{
    struct json_writer w = { .out = out };
    json_open(&w, NULL, '{');
    write_head(units, &w);
    write_lists(units, &w);
    json_close(&w, '}');
    out_char(out, '\n');
}

enum err units_write_document(const struct units *units)
{
    struct arena scratch = { 0 };
    const char *path = document_path(&scratch, units->folder);
    struct out document = { .arena = &scratch };
    units_put_document(&document, units);
    struct text old = former(&scratch, path);
    struct json tree;
    enum err err = OK;
    if (old.size && !json_read(&tree, &scratch, old, path) &&
        !text_is(json_get_text(&tree, "key"), units->key))
        err = fail(ERR_INPUT,
                   "%s lists the units of another job: other data, options, unit size or version; "
                   "give another folder, or remove this file (results that fit are used again)",
                   path);
    if (!err && !text_equal(old, out_view(&document)))
        err = file_write(path, out_view(&document));
    arena_release(&scratch);
    return err;
}

// --- reading -----------------------------------------------------------------

static bool is_list(const struct json *list)
{
    return list && list->kind == JSON_ARRAY;
}

static void read_head(struct units *out, const struct json *in)
{
    const struct json *tokenizer = json_get(in, "tokenizer");
    out->key = json_copy_text(out->arena, in, "key");
    out->raw_pairs = json_get_bool(in, "raw_pairs", false);
    out->head.tokenizer = json_copy_text(out->arena, tokenizer, "name");
    out->head.exact = json_get_bool(tokenizer, "exact", false);
    out->head.template = json_copy_text(out->arena, in, "template");
    out->head.labels = json_copy_text(out->arena, in, "labels");
    out->head.vision = json_copy_text(out->arena, in, "vision");
    out->head.left_out_files = json_get_count(in, "left_out_files");
    out->head.left_out_file = json_copy_text(out->arena, in, "left_out_file");
}

static bool read_files(struct units *out, const struct json *list)
{
    size_t count = list->count;
    out->head.files = ARENA_NEW(out->arena, struct profile_file, count);
    out->manifest.inputs.paths = ARENA_NEW(out->arena, const char *, count);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_copy_text(out->arena, &list->items[i], "name");
        if (!name || !*name)
            return false;
        out->head.files[i] =
            (struct profile_file){ name, json_get_count(&list->items[i], "bytes") };
        out->manifest.inputs.paths[i] = name;
    }
    out->head.file_count = out->manifest.inputs.count = count;
    return true;
}

// A key is part of a file name: 32 hexadecimal digits.
static bool is_key(const char *key)
{
    return key && strlen(key) == 32 && strspn(key, "0123456789abcdef") == 32;
}

static bool read_units(struct units *out, const struct json *list)
{
    out->keys = ARENA_NEW(out->arena, const char *, list->count);
    out->manifest.units = ARENA_NEW(out->arena, struct manifest_unit, list->count);
    for (size_t i = 0; i < list->count; i++) {
        const struct json *in = &list->items[i];
        struct manifest_unit unit = { .file = (size_t)json_get_count(in, "file"),
                                      .files = (size_t)json_get_count(in, "files"),
                                      .from = json_get_count(in, "from"),
                                      .to = json_get_count(in, "to") };
        out->keys[i] = json_copy_text(out->arena, in, "key");
        size_t count = out->manifest.inputs.count;
        if (!is_key(out->keys[i]) || unit.file >= count || !unit.files ||
            unit.files > count - unit.file || unit.from < 0 || unit.to < 0)
            return false;
        out->manifest.units[out->manifest.count++] = unit;
    }
    return true;
}

enum err units_read_document(struct units *out, struct arena *arena, struct text text,
                             const char *path)
{
    *out = (struct units){ .arena = arena };
    struct json tree;
    TRY(json_read(&tree, arena, text, path));
    const struct json *files = json_get(&tree, "files"), *units = json_get(&tree, "units");
    bool known = text_is(json_get_text(&tree, "kind"), "units") &&
                 json_get_number(&tree, "version", 0) == 1 && is_list(files) && is_list(units);
    if (known) {
        read_head(out, &tree);
        known = read_files(out, files) && read_units(out, units);
    }
    if (!known)
        return fail(ERR_INPUT, "%s: is no list of work units as gpuhours profile --units writes it",
                    path);
    out->settings.positions = json_get_count(&tree, "model_positions");
    const struct json *batches = json_get(&tree, "batches");
    return batches
               ? field_read(profile_settings_fields, &out->settings, arena, batches, path, false)
               : OK;
}

enum err units_load(struct units *out, struct arena *arena, const char *folder)
{
    const char *path = document_path(arena, folder);
    struct text text;
    TRY(file_read(&text, arena, path));
    TRY(units_read_document(out, arena, text, path));
    out->folder = folder;
    return OK;
}
