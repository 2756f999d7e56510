// SPDX-License-Identifier: Apache-2.0
// Reads data files as blocks of whole rows: opens, cuts, skips rows that are too long.

#include "host/source.h"

#include "base/csv.h"
#include "host/tables/table.h"
#include "remote/address.h"
#include "remote/listing.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 64 * 1024, MOST_COLUMNS = 4096 };

enum err source_open(struct source *s, struct arena *arena, const char *const *words, size_t count,
                     const struct source_options *options)
{
    *s = (struct source){ .arena = arena, .options = *options };
    if (!s->options.row_limit_bytes)
        s->options.row_limit_bytes = SOURCE_ROW_LIMIT_BYTES;
    if (s->options.row_limit_bytes < HEAD_BYTES)
        s->options.row_limit_bytes = HEAD_BYTES;
    if (!s->options.block_bytes)
        s->options.block_bytes = SOURCE_BLOCK_BYTES;
    if (s->options.block_bytes > s->options.row_limit_bytes)
        s->options.block_bytes = s->options.row_limit_bytes;
    s->too_long = text_format(arena,
                              "the row is longer than the limit of %s; if it is a table in one "
                              "object, write each row on a line of its own",
                              text_bytes(arena, (double)s->options.row_limit_bytes));
    return inputs_find(&s->inputs, arena, words, count);
}

static void close_file(struct source *s)
{
    if (!s->reading)
        return;
    s->before_bytes += s->archive.size_bytes;
    if (s->table) {
        s->read_bytes += s->options.to ? s->options.to - s->options.from : s->archive.size_bytes;
        table_close(s->table);
    } else {
        s->read_bytes += s->archive.in_bytes;
        archive_close(&s->archive);
    }
    s->table = NULL;
    s->archive = (struct archive){ 0 };
    s->reading = false;
}

void source_close(struct source *s)
{
    close_file(s);
    free(s->pending);
    *s = (struct source){ 0 };
}

void source_block_release(struct block *block)
{
    free(block->buffer);
    *block = (struct block){ 0 };
}

static enum err make_room(char **buffer, size_t *room, size_t bytes)
{
    if (*room >= bytes)
        return OK;
    char *grown = realloc(*buffer, bytes);
    if (!grown)
        return fail(ERR_MEMORY, "out of memory: cannot allocate %zu bytes", bytes);
    *buffer = grown;
    *room = bytes;
    return OK;
}

// --- opening -----------------------------------------------------------------

static enum err open_table(struct source *s, const char *path, const struct object *object,
                           struct text head)
{
    int64_t size_bytes = object ? object->size_bytes : s->archive.size_bytes;
    archive_close(&s->archive);
    s->reading = false;
    TRY(table_open(&s->table, path, object, head));
    s->archive.size_bytes = size_bytes;
    s->reading = true;
    s->cutter = (struct lines_cutter){ .format = LINES_JSON };
    if (s->options.to)
        table_rows(s->table, s->options.from, s->options.to);
    return OK;
}

static void drop_byte_order_mark(struct source *s)
{
    struct text rest = text_after_mark((struct text){ s->pending, s->pending_size });
    memmove(s->pending, rest.at, rest.size);
    s->pending_size = rest.size;
}

static enum err refuse_page(const char *path)
{
    if (address_kind(path) == ADDRESS_WEB)
        return fail(ERR_INPUT,
                    "%s: is a web page, not data; give the address of the file itself (of GitHub "
                    "and Hugging Face it has raw or resolve in place of blob), or download it and "
                    "name the file",
                    path);
    return fail(
        ERR_INPUT,
        "%s: is a web page, not the data that its name says; fetch the file again, or name it "
        ".txt if its lines are the text to count",
        path);
}

// What S3 and its like send in place of a file that is not there, or not for everybody.
static enum err refuse_store_error(const char *path, struct text head)
{
    char code[64];
    listing_error_code(code, sizeof code, head);
    return fail(
        ERR_INPUT,
        "%s: is an error message of an object store (%s), not data; see that the address is "
        "right, may be read and has not expired, then fetch the file again",
        path, *code ? code : "without a code");
}

// Servers send a page where they have no file, or want a login. A page that its name calls text, or
// nothing, is text.
static enum err check_page(const char *path, struct text head)
{
    bool says_data = table_is_for(path, TEXT("")) || lines_guess(path, TEXT("")) != LINES_TEXT;
    if (!says_data && address_kind(path) != ADDRESS_WEB)
        return OK;
    if (lines_is_store_error(head))
        return refuse_store_error(path, head);
    return lines_is_page(head) ? refuse_page(path) : OK;
}

// A clone without Git LFS has three lines in place of each large file.
static enum err check_pointer(const char *path, struct text head)
{
    static const char start[] = "version https://git-lfs.github.com/spec/";
    if (head.size < sizeof start - 1 || memcmp(head.at, start, sizeof start - 1))
        return OK;
    return fail(ERR_INPUT,
                "%s: is a pointer of Git LFS, not the data; fetch the data with git lfs pull, or "
                "download the file",
                path);
}

// A remote table is read from its end on: only one that cannot be read may be a page.
static enum err open_remote_table(struct source *s, const struct object *object)
{
    char start[512];
    size_t size =
        sizeof start < (size_t)object->size_bytes ? sizeof start : (size_t)object->size_bytes;
    enum err err = open_table(s, object->name, object, TEXT(""));
    if (err != ERR_INPUT)
        return err;
    const char *problem = text_copy(s->arena, text_of(error_text()));
    if (!object_read(object, 0, size, start))
        TRY(check_page(object->name, (struct text){ start, size }));
    return fail(err, "%s", problem);
}

// Goes from the first bytes, which said what the file is, to the rows of the range.
static enum err start_range(struct source *s)
{
    TRY(archive_rows(&s->archive, s->options.from, s->options.to));
    s->pending_size = 0;
    for (size_t got = 1; !s->options.from && got && s->pending_size < 3; s->pending_size += got)
        TRY(archive_read(&s->archive, s->pending + s->pending_size, 3 - s->pending_size, &got));
    drop_byte_order_mark(s);
    return OK;
}

// Excel's "CSV (Macintosh)" ends lines with carriage returns alone: all rows would be one.
static enum err check_line_ends(const struct source *s, struct text head)
{
    bool by_line = s->cutter.format == LINES_CSV || s->cutter.format == LINES_TEXT;
    const char *end = head.size ? memchr(head.at, '\r', head.size) : NULL;
    if (!by_line || !end || end + 1 == head.at + head.size || memchr(head.at, '\n', head.size))
        return OK;
    return fail(
        ERR_INPUT,
        "%s: ends its lines with carriage returns alone, as old Macintosh files do; convert "
        "it with tr '\\r' '\\n'",
        s->archive.name);
}

// Opens the next file and reads its first bytes, which stay in pending.
static enum err open_file(struct source *s)
{
    const struct object *object = s->inputs.objects[s->next_file];
    const char *path = s->inputs.paths[s->next_file++];
    double limit = s->options.unpack_ratio_limit;
    s->line = 1;
    s->pending_size = s->scanned = 0;
    s->skipping = s->header_taken = s->ended = false;
    s->names = NULL;
    s->name_count = 0;
    if (object && object->has_ranges && table_is_for(path, TEXT(""))) // the rest is not fetched
        return open_remote_table(s, object);
    TRY(object ? archive_open_object(&s->archive, object, limit)
               : archive_open(&s->archive, path, limit));
    s->reading = true;
    TRY(make_room(&s->pending, &s->pending_room, HEAD_BYTES));
    for (size_t got = 1; got && s->pending_size < HEAD_BYTES; s->pending_size += got)
        TRY(archive_read(&s->archive, s->pending + s->pending_size, HEAD_BYTES - s->pending_size,
                         &got));
    struct text head = { s->pending, s->pending_size };
    TRY(check_page(path, head));
    TRY(check_pointer(path, head));
    if (table_is_for(path, head)) {
        if (s->archive.kind != ARCHIVE_PLAIN || !archive_has_places(&s->archive))
            return fail(ERR_INPUT,
                        "%s: Parquet and Arrow files must be uncompressed regular files, or lie on "
                        "a server that gives ranges of bytes",
                        s->archive.name);
        return open_table(s, path, object, head);
    }
    drop_byte_order_mark(s);
    head.size = s->pending_size;
    enum lines_format format = s->options.format;
    if (format == LINES_CSV && s->options.to) // cut as text: its name does not say what it is
        return fail(ERR_USAGE, "%s: is read in parts, which --format csv cannot; name it %s.csv",
                    s->archive.name, s->archive.name);
    s->cutter = (struct lines_cutter){ .format = format ? format : lines_guess(path, head) };
    if (head.size > 262 && !memcmp(head.at + 257, "ustar", 5))
        return fail(ERR_INPUT, "%s: is a tar archive; unpack it with tar -xf first",
                    s->archive.name);
    if (!s->cutter.format)
        return fail(
            ERR_INPUT,
            "%s: contains NUL bytes and does not look like text; give JSON Lines, JSON, CSV, "
            "TSV, plain text, Parquet or Arrow, and text in UTF-8",
            s->archive.name);
    TRY(check_line_ends(s, head));
    if (s->cutter.format == LINES_CSV) {
        size_t skipped;
        s->cutter.separator = lines_separator(head, &skipped);
        s->line += skipped != 0;
        s->pending_size -= skipped;
        memmove(s->pending, s->pending + skipped, s->pending_size);
    }
    return s->options.to ? start_range(s) : OK;
}

// --- filling a block ---------------------------------------------------------

static void begin_block(struct source *s, struct block *b, struct text rows)
{
    b->file = s->next_file - 1;
    b->name = strcmp(s->inputs.paths[b->file], "-") ? s->inputs.paths[b->file] : "standard input";
    b->rows = (struct lines){ .cutter = { .format = s->cutter.format,
                                          .separator = s->cutter.separator,
                                          .open = s->cutter.open },
                              .at = rows.at,
                              .end = rows.at + rows.size,
                              .next_line = s->line };
    b->lines = 0;
    b->is_table = s->table;
    b->names = s->names;
    b->name_count = s->name_count;
    b->problem = NULL;
    b->done_bytes = s->before_bytes + (s->table ? 0 : s->archive.in_bytes);
}

// Takes the header off the first block of a CSV file.
static enum err take_header(struct source *s, struct block *b)
{
    struct text row, cells[MOST_COLUMNS];
    size_t count;
    if (!lines_next(&b->rows, &row))
        return OK;
    s->header_taken = true;
    row.at = text_copy(s->arena, row); // the names outlive the block
    struct csv_reader in = { row.at, row.at + row.size, s->cutter.separator, 1, NULL };
    if (!csv_record(&in, s->arena, cells, MOST_COLUMNS, &count) || count > MOST_COLUMNS)
        return fail(ERR_INPUT, "%s:%lld: the header %s", b->name, (long long)b->rows.line,
                    in.problem ? in.problem : "has over 4096 columns");
    s->names = ARENA_NEW(s->arena, struct text, count);
    memcpy(s->names, cells, count * sizeof *cells);
    s->name_count = count;
    b->names = s->names;
    b->name_count = count;
    return OK;
}

// Reads until the buffer holds `target` bytes or the file ends.
static enum err read_to(struct source *s, struct block *b, size_t *size, size_t target, bool *ended)
{
    TRY(make_room(&b->buffer, &b->room, target));
    while (*size < target) {
        size_t got;
        TRY(archive_read(&s->archive, b->buffer + *size, target - *size, &got));
        if (!got) {
            *ended = true;
            break;
        }
        *size += got;
    }
    return OK;
}

static enum err keep(struct source *s, const char *at, size_t size)
{
    TRY(make_room(&s->pending, &s->pending_room, size));
    if (size)
        memcpy(s->pending, at, size);
    s->pending_size = size;
    return OK;
}

static void report_row(struct source *s, const char *problem, int64_t line)
{
    s->late_problem = problem;
    s->late_line = line;
}

// Skips the rest of a row that was too long.
static enum err skip_long_row(struct source *s, struct block *b, size_t *size, bool *ended)
{
    while (s->skipping && !*ended) {
        TRY(read_to(s, b, size, s->options.block_bytes, ended));
        size_t row = lines_skip(&s->cutter, (struct text){ b->buffer, *size });
        s->skipping = row == SIZE_MAX;
        if (s->skipping)
            row = *size;
        s->line += lines_count((struct text){ b->buffer, row });
        *size -= row;
        memmove(b->buffer, b->buffer + row, *size);
    }
    return OK;
}

// Fills the block's buffer with whole rows and keeps the begun one for the next block.
static enum err fill(struct source *s, struct block *b)
{
    size_t size = s->pending_size, scanned = s->scanned, whole = 0,
           limit = s->options.row_limit_bytes;
    size_t target = size > s->options.block_bytes ? size : s->options.block_bytes;
    TRY(make_room(&b->buffer, &b->room, target));
    if (size)
        memcpy(b->buffer, s->pending, size);
    TRY(skip_long_row(s, b, &size, &s->ended));
    bool open = s->cutter.open;
    for (;;) {
        TRY(read_to(s, b, &size, target, &s->ended));
        whole = lines_cut(&s->cutter, (struct text){ b->buffer, size }, scanned);
        scanned = size;
        if (whole || s->ended || size > limit)
            break;
        target = size * 2 > limit ? limit + 1 : size * 2;
    }
    if (s->ended) {
        whole = size;
        if (s->cutter.open && !s->cutter.inside)
            report_row(s, "the list has no closing bracket; the file seems to be cut off",
                       s->line + lines_count((struct text){ b->buffer, size }));
    } else if (!whole) {
        report_row(s, s->too_long, s->line);
        s->skipping = true;
        s->line += lines_count((struct text){ b->buffer, size });
        size = 0;
    }
    begin_block(s, b, (struct text){ b->buffer, whole });
    b->rows.cutter.open = open;
    b->lines = lines_count((struct text){ b->buffer, whole });
    s->line += b->lines;
    s->scanned = size - whole;
    return keep(s, b->buffer + whole, size - whole);
}

// The same for a table, whose rows come one by one.
static enum err fill_from_table(struct source *s, struct block *b)
{
    size_t size = 0;
    int64_t rows = 0;
    TRY(make_room(&b->buffer, &b->room, s->options.block_bytes));
    while (size < s->options.block_bytes && !s->late_problem) {
        struct text row;
        TRY(table_next(s->table, &row));
        s->ended = !row.at;
        if (s->ended)
            break;
        rows++;
        if (row.size > s->options.row_limit_bytes) {
            report_row(s, s->too_long, s->line + rows - 1);
            break;
        }
        if (size + row.size + 1 > b->room)
            TRY(make_room(&b->buffer, &b->room, 2 * (size + row.size + 1)));
        memcpy(b->buffer + size, row.at, row.size);
        size += row.size;
        b->buffer[size++] = '\n';
    }
    begin_block(s, b, (struct text){ b->buffer, size });
    b->lines = rows;
    s->line += rows;
    return OK;
}

static enum err fill_any(struct source *s, struct block *b)
{
    if (b->room > 8 * s->options.block_bytes) { // do not keep the memory of a long row
        free(b->buffer);
        b->buffer = NULL;
        b->room = 0;
    }
    if (s->table)
        return fill_from_table(s, b);
    TRY(fill(s, b));
    return s->cutter.format == LINES_CSV && !s->header_taken ? take_header(s, b) : OK;
}

enum err source_next(struct source *s, struct block *b, bool *more)
{
    *more = true;
    for (;;) {
        if (s->late_problem) {
            begin_block(s, b, (struct text){ b->buffer, 0 });
            b->problem = s->late_problem;
            b->rows.next_line = s->late_line;
            s->late_problem = NULL;
            return OK;
        }
        if (s->reading && s->ended)
            close_file(s);
        if (!s->reading && s->next_file == s->inputs.count) {
            *more = false;
            return OK;
        }
        if (!s->reading)
            TRY(open_file(s));
        TRY(fill_any(s, b));
        if (b->rows.at < b->rows.end)
            return OK;
    }
}

enum err source_keep(struct source *s, const struct text *names, size_t count)
{
    return s->table ? table_keep(s->table, names, count) : OK;
}

// --- ranges of a file --------------------------------------------------------

bool source_has_ranges(const char *path)
{
    struct arena arena = { 0 };
    struct source s;
    enum err err = source_open(&s, &arena, &path, 1, &(struct source_options){ 0 });
    if (!err && s.inputs.count)
        err = open_file(&s);
    bool lines = s.archive.kind == ARCHIVE_PLAIN && s.archive.size_bytes &&
                 (s.cutter.format == LINES_JSON || s.cutter.format == LINES_TEXT);
    bool ranges = !err && s.reading && (s.table ? table_has_ranges(s.table) : lines);
    source_close(&s);
    arena_release(&arena);
    return ranges;
}

int64_t source_lines_before(const char *path, int64_t from)
{
    struct arena arena = { 0 };
    struct source s;
    struct block block = { 0 };
    int64_t lines = 0;
    bool more = true;
    enum err err = source_open(&s, &arena, &path, 1, &(struct source_options){ .to = from });
    while (!err && more && !(err = source_next(&s, &block, &more)))
        lines = s.line - 1;
    source_block_release(&block);
    source_close(&s);
    arena_release(&arena);
    return lines;
}
