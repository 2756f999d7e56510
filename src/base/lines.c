// SPDX-License-Identifier: Apache-2.0
// Finds the ends of rows in chunks of JSON, CSV or plain text, and guesses the format.

#include "base/lines.h"

#include "base/csv.h"
#include "base/json.h"

#include <ctype.h>
#include <string.h>

int64_t lines_count(struct text text)
{
    int64_t count = 0;
    for (size_t done = 0; done < text.size;) { // byte counters allow fast vector loops
        size_t stop = text.size - done < 255 ? text.size : done + 255;
        uint8_t some = 0;
        for (; done < stop; done++)
            some += text.at[done] == '\n';
        count += some;
    }
    return count;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// --- JSON values -------------------------------------------------------------

// Skips the text between values; returns where a value begins, or end.
static const char *between_values(struct lines_cutter *c, const char *at, const char *end)
{
    for (; at < end; at++) {
        if (is_space(*at) || (*at == ',' && c->open))
            continue;
        if (c->format == LINES_LIST && *at == '[' && !c->open)
            c->open = true;
        else if (c->open && *at == ']')
            c->open = false;
        else
            break;
    }
    return at;
}

// Skips the rest of a string; returns the end of its closing quote, or NULL if the chunk ends
// first.
static const char *through_string(struct lines_cutter *c, const char *at, const char *end)
{
    if (c->escaped && at < end) {
        c->escaped = false;
        at++;
    }
    while ((at = json_string_stop(at, end)) < end) {
        if (*at == '"') {
            c->quoted = false;
            return at + 1;
        }
        if (end - at < 2) {
            c->escaped = true;
            break;
        }
        at += 2;
    }
    return NULL;
}

// Skips the rest of a list or object; returns the end of its closing bracket, or NULL.
static const char *through_brackets(struct lines_cutter *c, const char *at, const char *end)
{
    int64_t depth = c->depth;
    while (at < end) {
        char byte = *at++;
        if (byte == '"') {
            c->quoted = true;
            at = through_string(c, at, end);
            if (!at)
                break;
        } else if (byte == '{' || byte == '[') {
            depth++;
        } else if ((byte == '}' || byte == ']') && !--depth) {
            c->depth = 0;
            return at;
        }
    }
    c->depth = depth;
    return NULL;
}

// Skips a value that begins at `at` or began in an earlier chunk; returns its end, or NULL if the
// chunk ends first. The end of a number is only known from the byte after it.
static const char *through_value(struct lines_cutter *c, const char *at, const char *end)
{
    if (!c->inside && at < end) {
        c->inside = true;
        c->quoted = *at == '"';
        c->depth = *at == '{' || *at == '[';
        at += c->quoted || c->depth;
    }
    bool was_quoted = c->quoted;
    if (was_quoted)
        at = through_string(c, at, end);
    if (at && c->depth) {
        at = through_brackets(c, at, end);
    } else if (at && !was_quoted) {
        while (at < end && !is_space(*at) && !(c->open && (*at == ',' || *at == ']')))
            at++;
        at = at < end ? at : NULL;
    }
    c->inside = !at;
    return at;
}

static size_t cut_values(struct lines_cutter *c, struct text chunk, size_t from)
{
    const char *at = chunk.at + from, *end = chunk.at + chunk.size;
    size_t whole = 0;
    while (at < end) {
        if (!c->inside) {
            at = between_values(c, at, end);
            whole = (size_t)(at - chunk.at);
        }
        const char *stop = at < end ? through_value(c, at, end) : NULL;
        if (!stop)
            break;
        at = stop;
        whole = (size_t)(at - chunk.at);
    }
    return whole;
}

// --- CSV records -------------------------------------------------------------

// Skips a record; returns the end of its line, or NULL if the chunk ends first. As in csv_record(),
// a quote has a meaning only at the start of a cell.
static const char *through_record(struct lines_cutter *c, const char *at, const char *end)
{
    while (at < end) {
        if (c->escaped) { // after a quote: a second one is a quote in the cell
            c->escaped = false;
            c->quoted = *at == '"';
            at += c->quoted;
        } else if (c->quoted) {
            const char *quote = memchr(at, '"', (size_t)(end - at));
            if (!quote)
                return NULL;
            c->escaped = true;
            at = quote + 1;
        } else if (*at == '"' && !c->filled) {
            c->quoted = c->filled = true;
            at++;
        } else {
            while (at < end && *at != c->separator && *at != '\n')
                at++;
            c->filled = true;
            if (at == end)
                return NULL;
            c->filled = false;
            if (*at++ == '\n')
                return at;
        }
    }
    return NULL;
}

static size_t cut_records(struct lines_cutter *c, struct text chunk, size_t from)
{
    const char *at = chunk.at + from, *end = chunk.at + chunk.size;
    size_t whole = 0;
    while (at && at < end) {
        at = through_record(c, at, end);
        if (at)
            whole = (size_t)(at - chunk.at);
    }
    return whole;
}

const char *lines_cells(struct text row, char separator, struct arena *arena, struct text *cells,
                        size_t count)
{
    struct csv_reader in = { row.at, row.at + row.size, separator, 1, NULL };
    size_t found;
    if (!csv_record(&in, arena, cells, count, &found))
        return in.problem ? in.problem : "is empty";
    if (in.at < in.end)
        return "has a carriage return outside quotes";
    return found == count  ? NULL
           : found < count ? "has fewer cells than the header"
                           : "has more cells than the header";
}

char lines_separator(struct text head, size_t *skipped)
{
    static const char others[] = { '\t', ';', '|' }, named[] = "sep=";
    struct text rest = head, header;
    text_next(&rest, '\n', &header);
    size_t size = header.size && header.at[header.size - 1] == '\r' ? header.size - 1 : header.size;
    *skipped = 0;
    if (size == sizeof named && rest.at && !memcmp(header.at, named, sizeof named - 1)) {
        *skipped = header.size + 1;
        return header.at[size - 1];
    }
    if (header.size && memchr(header.at, ',', header.size))
        return ',';
    for (size_t i = 0; i < sizeof others; i++)
        if (header.size && memchr(header.at, others[i], header.size))
            return others[i];
    return ',';
}

// --- any format --------------------------------------------------------------

static size_t cut_lines(struct text chunk, size_t from)
{
    size_t whole = chunk.size;
    while (whole > from && chunk.at[whole - 1] != '\n')
        whole--;
    return whole > from ? whole : 0;
}

size_t lines_cut(struct lines_cutter *cutter, struct text chunk, size_t from)
{
    switch (cutter->format) {
    case LINES_LIST:
    case LINES_VALUES: return cut_values(cutter, chunk, from);
    case LINES_CSV: return cut_records(cutter, chunk, from);
    default: return cut_lines(chunk, from);
    }
}

size_t lines_skip(struct lines_cutter *cutter, struct text chunk)
{
    const char *end = chunk.at + chunk.size, *stop = chunk.at;
    switch (cutter->format) {
    case LINES_LIST:
    case LINES_VALUES:
        if (cutter->inside)
            stop = through_value(cutter, chunk.at, end);
        break;
    case LINES_CSV: stop = through_record(cutter, chunk.at, end); break;
    default:
        stop = chunk.size ? memchr(chunk.at, '\n', chunk.size) : NULL;
        stop = stop ? stop + 1 : NULL;
    }
    return stop ? (size_t)(stop - chunk.at) : SIZE_MAX;
}

static bool next_value(struct lines *in, struct text *row)
{
    const char *start = between_values(&in->cutter, in->at, in->end);
    in->next_line += lines_count((struct text){ in->at, (size_t)(start - in->at) });
    in->line = in->next_line;
    if (start == in->end) {
        in->at = start;
        return false;
    }
    const char *stop = through_value(&in->cutter, start, in->end);
    if (!stop) { // the file ends inside it
        stop = in->end;
        in->cutter.inside = false;
    }
    *row = (struct text){ start, (size_t)(stop - start) };
    in->next_line += lines_count(*row);
    in->at = stop;
    return true;
}

// Removes the line end.
static struct text without_end(const char *start, const char *stop)
{
    if (stop > start && stop[-1] == '\n')
        stop--;
    if (stop > start && stop[-1] == '\r')
        stop--;
    return (struct text){ start, (size_t)(stop - start) };
}

static bool next_record(struct lines *in, struct text *row)
{
    while (in->at < in->end) {
        const char *start = in->at, *stop = through_record(&in->cutter, start, in->end);
        if (!stop) { // the last line has no line end
            stop = in->end;
            in->cutter.quoted = in->cutter.escaped = in->cutter.filled = false;
        }
        *row = without_end(start, stop);
        in->line = in->next_line;
        in->next_line += lines_count((struct text){ start, (size_t)(stop - start) });
        in->at = stop;
        if (row->size)
            return true;
    }
    return false;
}

static bool is_blank(struct text row)
{
    if (row.size && !is_space(row.at[0]))
        return false;
    return text_trim(row).size == 0;
}

static bool next_line(struct lines *in, struct text *row)
{
    while (in->at < in->end) {
        const char *stop = memchr(in->at, '\n', (size_t)(in->end - in->at));
        stop = stop ? stop + 1 : in->end;
        *row = without_end(in->at, stop);
        in->line = in->next_line++;
        in->at = stop;
        if (in->cutter.format == LINES_TEXT)
            return true;
        *row = text_after_mark(*row);
        if (!is_blank(*row))
            return true;
    }
    return false;
}

bool lines_next(struct lines *in, struct text *row)
{
    switch (in->cutter.format) {
    case LINES_LIST:
    case LINES_VALUES: return next_value(in, row);
    case LINES_CSV: return next_record(in, row);
    default: return next_line(in, row);
    }
}

// --- guessing ----------------------------------------------------------------

static bool ends_with(struct text name, const char *ending)
{
    size_t size = strlen(ending);
    if (name.size < size)
        return false;
    for (size_t i = 0; i < size; i++) {
        char c = name.at[name.size - size + i];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != ending[i])
            return false;
    }
    return true;
}

static bool ends_with_any(struct text name, const char *const *endings)
{
    for (; *endings; endings++)
        if (ends_with(name, *endings))
            return true;
    return false;
}

static const char *const packings[] = { // that host/archive opens
    ".gz", ".zst", ".zstd", ".bz2", ".xz", NULL
};

struct text lines_unpacked_name(struct text name)
{
    for (const char *const *ending = packings; *ending; ending++)
        if (ends_with(name, *ending))
            return (struct text){ name.at, name.size - strlen(*ending) };
    return name;
}

// The layout of JSON, decided by the first line.
static enum lines_format guess_json(struct text head, bool named_lines)
{
    struct text rest = head, line;
    do {
        if (!text_next(&rest, '\n', &line))
            return LINES_JSON;
    } while (!text_trim(line).size && rest.at);
    line = text_trim(line);
    if (!rest.at) // no line end found
        return line.size && line.at[0] == '[' ? LINES_LIST : LINES_JSON;
    struct json_reader in = json_reader(line);
    json_skip(&in);
    bool whole = !in.problem && in.at == in.end;
    if (line.size && line.at[0] == '[')
        return whole && text_trim(rest).size ? LINES_JSON : LINES_LIST;
    return whole || named_lines || !line.size || line.at[0] != '{' ? LINES_JSON : LINES_VALUES;
}

// Whether a text without a name is a table: its first line is two or more plain words between
// commas or tabs, its second line has separators too.
static bool is_csv_header(struct text head)
{
    struct text rest = head, line, next;
    size_t cells = 1;
    bool in_word = false;
    if (!text_next(&rest, '\n', &line) || !rest.at || !text_next(&rest, '\n', &next))
        return false;
    line = text_trim(line);
    char separator = memchr(line.at, '\t', line.size) ? '\t' : ',';
    for (size_t i = 0; i < line.size; i++) {
        char c = line.at[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '"' ||
                      (in_word && ((c >= '0' && c <= '9') || c == '-' || c == '.'));
        if (!letter && (c != separator || !in_word))
            return false;
        cells += c == separator;
        in_word = letter;
    }
    return in_word && cells > 1 && memchr(next.at, separator, next.size);
}

// Whether the text is of characters of two or four bytes: every other byte of English is NUL.
static bool is_wide(struct text head)
{
    size_t zeros = 0;
    for (size_t i = 0; i < head.size; i++)
        zeros += !head.at[i];
    return 3 * zeros > head.size;
}

enum lines_format lines_guess(const char *name, struct text head)
{
    static const char *const json_lines[] = { ".jsonl", ".ndjson", ".jsonlines", NULL };
    static const char *const csv[] = { ".csv", ".tsv", NULL };
    static const char *const text[] = { ".txt", ".text", ".md", NULL };
    struct text stem = lines_unpacked_name(text_of(name));
    if (ends_with_any(stem, csv))
        return is_wide(head) ? LINES_UNKNOWN : LINES_CSV;
    if (ends_with_any(stem, text))
        return is_wide(head) ? LINES_UNKNOWN : LINES_TEXT;
    if (ends_with_any(stem, json_lines))
        return guess_json(head, true);
    struct text seen = text_trim(head);
    bool like_json = seen.size && (seen.at[0] == '{' || seen.at[0] == '[');
    if (like_json || ends_with(stem, ".json"))
        return guess_json(head, false);
    if (head.size && memchr(head.at, 0, head.size))
        return LINES_UNKNOWN;
    bool unnamed = !strchr(name, '.');
    return unnamed && is_csv_header(head) ? LINES_CSV : LINES_TEXT;
}

// Whether a text begins with this word of markup, in any case, and the word ends there.
static bool begins_with(struct text text, const char *word)
{
    size_t size = strlen(word), same = 0;
    while (same < size && same < text.size && tolower((unsigned char)text.at[same]) == word[same])
        same++;
    return same == size && same < text.size && !isalnum((unsigned char)text.at[same]);
}

bool lines_is_page(struct text head)
{
    head = text_trim(text_after_mark(head));
    return begins_with(head, "<!doctype html") || begins_with(head, "<html");
}

bool lines_is_store_error(struct text head)
{
    struct text declaration;
    head = text_trim(text_after_mark(head));
    if (begins_with(head, "<?xml") && text_next(&head, '>', &declaration))
        head = text_trim(text_after_mark(head));
    return begins_with(head, "<error");
}
