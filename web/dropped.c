// SPDX-License-Identifier: Apache-2.0
// Counts dropped files: tokenizer and template, rows, chunks.

#include "web/dropped.h"

#include "base/csv.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 64 * 1024, ROW_LIMIT_BYTES = 64 << 20, MOST_COLUMNS = 4096 };

// --- tokenizer and template --------------------------------------------------

static enum err read_format(struct chat_format *out, struct arena *arena,
                            const struct dropped_text *from)
{
    struct text copy = { arena_copy(arena, from->text.at, from->text.size), from->text.size };
    return chat_format_read(out, arena, copy, from->name, NULL);
}

// The same rules as cli/dataset for the files that accompany a tokenizer.
static enum err open_rule(struct dropped *d, const struct dropped_options *options)
{
    struct chat_format format = { 0 }, other = { 0 };
    if (!options->tokenizer.name) {
        TRY(example_rule_estimate(&d->rule, &d->arena, &format, options->model));
    } else {
        TRY(tokenizer_read(&d->rule.tokenizer, &d->arena, options->tokenizer.text,
                           options->tokenizer.name));
        d->rule.tokenizer_name = text_copy(&d->arena, text_of(options->tokenizer.name));
        d->rule.exact = true;
        if (options->config.name) {
            TRY(read_format(&format, &d->arena, &options->config));
            d->rule.template_name = text_copy(&d->arena, text_of(options->config.name));
        }
        if (!format.source.at && !options->template.name && options->model) {
            TRY(example_family_template(&d->rule.template_name, &d->arena, options->model));
            chat_format_built_in(&other, d->rule.template_name);
            format.source = other.source;
            format.bos = format.bos.at ? format.bos : other.bos;
            format.eos = format.eos.at ? format.eos : other.eos;
        }
    }
    if (options->template.name) {
        TRY(read_format(&other, &d->arena, &options->template));
        if (!other.source.at)
            return fail(ERR_INPUT, "%s: has no chat template", options->template.name);
        d->rule.template_name = text_copy(&d->arena, text_of(options->template.name));
        format.source = other.source;
        format.bos = other.bos.at ? other.bos : format.bos;
        format.eos = other.eos.at ? other.eos : format.eos;
    }
    d->rule.chat.date = options->date;
    return example_rule_format(&d->rule, &d->arena, &format);
}

enum err dropped_open(struct dropped *d, const struct dropped_options *options)
{
    dropped_release(d);
    TRY(open_rule(d, options));
    d->profile = (struct profile){ .tokenizer = d->rule.tokenizer_name,
                                   .exact = d->rule.exact,
                                   .template = d->rule.template_name,
                                   .labels = chat_label_names[CHAT_ALL],
                                   .files = d->files };
    d->lengths.arena = d->census.arena = &d->arena;
    d->counting = (struct counting){ .profile = &d->profile, .lengths = &d->lengths };
    return example_worker_init(&d->worker, &d->rule);
}

// --- rows --------------------------------------------------------------------

static void add_problem(struct dropped *d, int64_t line, const char *problem)
{
    struct example example = { .file = d->files[d->profile.file_count - 1].name,
                               .line = line,
                               .problem = problem };
    counting_add(&d->counting, &example);
}

static void count_row(struct dropped *d, const struct lines *rows, struct text row)
{
    struct record record;
    enum err err = example_read(&record, &d->rows, &d->table, rows, row);
    for (int i = 0; !err && i < record.count; i++) {
        struct chat_text text;
        struct example example = { .file = d->files[d->profile.file_count - 1].name,
                                   .line = rows->line,
                                   .is_second = i > 0,
                                   .is_empty = example_is_empty(&record.sequences[i]) };
        err = chat_render(&d->worker.chat, &text, &record.sequences[i]);
        if (err)
            break;
        example_count(&d->worker, &example, &text);
        counting_add(&d->counting, &example);
    }
    if (err)
        add_problem(d, rows->line, error_text());
}

static enum err take_header(struct dropped *d, struct lines *rows)
{
    static struct text cells[MOST_COLUMNS];
    struct text row;
    size_t count;
    if (!lines_next(rows, &row))
        return OK;
    row.at = text_copy(&d->arena, row);
    struct csv_reader in = { row.at, row.at + row.size, d->cutter.separator, 1, NULL };
    if (!csv_record(&in, &d->arena, cells, MOST_COLUMNS, &count) || count > MOST_COLUMNS)
        return fail(ERR_INPUT, "the header %s", in.problem ? in.problem : "has over 4096 columns");
    struct text *names = ARENA_NEW(&d->arena, struct text, count);
    memcpy(names, cells, count * sizeof *cells);
    d->table.names = names;
    d->table.name_count = count;
    return OK;
}

static bool has_rows(const struct lines *rows)
{
    struct lines walk = *rows;
    struct text row;
    return lines_next(&walk, &row);
}

static enum err detect(struct dropped *d, const struct lines *rows)
{
    const char *name = record_format_names[RECORD_TEXT];
    if (rows->cutter.format != LINES_TEXT) {
        struct record_schema *schema = ARENA_NEW(&d->arena, struct record_schema, 1);
        TRY(example_detect(schema, &d->arena, rows, &d->table, RECORD_AUTO, (struct text){ 0 }));
        schema->census = &d->census;
        d->table.schema = schema;
        name = record_format_names[schema->format];
        profile_add_columns(&d->profile, &d->arena, schema->all, schema->count);
    }
    d->profile.format = d->profile.format && strcmp(d->profile.format, name) ? "mixed" : name;
    return OK;
}

static enum err count_rows(struct dropped *d, struct lines rows)
{
    if (rows.cutter.format == LINES_CSV && !d->table.names)
        TRY(take_header(d, &rows));
    if (!d->table.schema && has_rows(&rows))
        TRY(detect(d, &rows));
    struct arena_mark mark = arena_mark(&d->rows);
    for (struct text row; lines_next(&rows, &row); arena_rewind(&d->rows, mark))
        count_row(d, &rows, row);
    return OK;
}

// --- a file ------------------------------------------------------------------

enum err dropped_file(struct dropped *d, const char *name, int64_t bytes)
{
    if (d->profile.file_count == DROPPED_FILES)
        return fail(ERR_INPUT, "at most %d files at once", DROPPED_FILES);
    d->files[d->profile.file_count++] =
        (struct profile_file){ text_copy(&d->arena, text_of(name)), bytes };
    d->cutter = (struct lines_cutter){ 0 };
    d->table = (struct example_table){ 0 };
    d->begun = d->skipping = false;
    d->line = 1;
    d->size = d->scanned = 0;
    return OK;
}

char *dropped_room(struct dropped *d, size_t size)
{
    if (d->size + size > d->room) {
        d->room = 2 * (d->size + size);
        d->buffer = realloc(d->buffer, d->room);
        if (!d->buffer)
            abort();
    }
    return d->buffer + d->size;
}

static void drop_bytes(struct dropped *d, size_t count)
{
    if (!count)
        return;
    d->line += lines_count((struct text){ d->buffer, count });
    d->size -= count;
    memmove(d->buffer, d->buffer + count, d->size);
}

static enum err begin(struct dropped *d)
{
    const char *name = d->files[d->profile.file_count - 1].name;
    drop_bytes(d, d->size - text_after_mark((struct text){ d->buffer, d->size }).size);
    struct text head = { d->buffer, d->size < HEAD_BYTES ? d->size : HEAD_BYTES };
    d->cutter.format = lines_guess(name, head);
    if (!d->cutter.format)
        return fail(ERR_INPUT, "has NUL bytes and does not look like text; the page reads JSON "
                               "Lines, JSON, CSV, TSV and plain text, the program also reads "
                               "Parquet, Arrow and zstd");
    size_t skipped = 0;
    if (d->cutter.format == LINES_CSV)
        d->cutter.separator = lines_separator(head, &skipped);
    drop_bytes(d, skipped);
    d->begun = true;
    return OK;
}

// Skips the rest of a row that was too long.
static void skip(struct dropped *d)
{
    size_t row = lines_skip(&d->cutter, (struct text){ d->buffer, d->size });
    d->skipping = row == SIZE_MAX;
    drop_bytes(d, d->skipping ? d->size : row);
}

static enum err take(struct dropped *d, bool ended)
{
    struct lines_cutter start = { .format = d->cutter.format,
                                  .separator = d->cutter.separator,
                                  .open = d->cutter.open };
    size_t whole = lines_cut(&d->cutter, (struct text){ d->buffer, d->size }, d->scanned);
    d->scanned = d->size;
    if (ended)
        whole = d->size;
    struct lines rows = { start, d->buffer, d->buffer + whole, d->line, 0 };
    if (whole)
        TRY(count_rows(d, rows));
    if (whole || d->size <= ROW_LIMIT_BYTES) {
        drop_bytes(d, whole);
    } else {
        add_problem(d, d->line,
                    "the row is longer than the limit of 64 MiB; if it is a table in one object, "
                    "write each row on a line of its own");
        d->skipping = true;
        drop_bytes(d, d->size);
    }
    d->scanned = d->size;
    if (ended && d->cutter.open && !d->cutter.inside)
        add_problem(d, d->line, "the list has no closing bracket; the file seems to be cut off");
    return OK;
}

enum err dropped_push(struct dropped *d, size_t size, bool ended)
{
    const char *name = d->files[d->profile.file_count - 1].name;
    d->size += size;
    if (!d->begun && d->size < HEAD_BYTES && !ended)
        return OK;
    enum err err = d->begun ? OK : begin(d);
    if (!err && d->skipping)
        skip(d);
    if (!err && !d->skipping)
        err = take(d, ended);
    return err ? error_prefix(err, "%s: ", name) : OK;
}

enum err dropped_close(struct dropped *d)
{
    counting_end(&d->counting);
    profile_add_census(&d->profile, &d->arena, &d->census);
    return counting_check(&d->counting, d->files[0].name);
}

void dropped_release(struct dropped *d)
{
    arena_release(&d->counting.seen.arena);
    example_worker_release(&d->worker);
    arena_release(&d->rows);
    arena_release(&d->arena);
    free(d->buffer);
    *d = (struct dropped){ 0 };
}
