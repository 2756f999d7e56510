// SPDX-License-Identifier: Apache-2.0
// docs/json.md and docs/reference.md, and the comparison of documents with their tables.

#include "tools/manual/manual.h"
#include "cli/terminal/reference.h"
#include "core/hosting/hosting.h"
#include "core/measured/pilot.h"
#include "core/measured/run.h"
#include "host/file.h"
#include "tools/manual/documents.h"

#include <stdio.h>
#include <string.h>

// --- a table with one row per key --------------------------------------------

struct row {
    const char *path, *type, *help, *when, *since;
    bool is_seen;
};

struct rows {
    struct row *at;
    size_t count, room;
    struct arena *arena;
};

static void add(struct rows *rows, struct row row)
{
    if (rows->count == rows->room) {
        size_t room = rows->room ? 2 * rows->room : 64;
        rows->at = arena_grow(rows->arena, rows->at, rows->room * sizeof row, room * sizeof row);
        rows->room = room;
    }
    rows->at[rows->count++] = row;
}

static const char *join(struct arena *arena, const char *path, const char *key)
{
    return text_format(arena, "%s%s%s", path, *path && *key ? "." : "", key);
}

static void add_fields(struct rows *rows, const char *path, const struct field *fields,
                       const struct row *like)
{
    for (const struct field *f = fields; f->name; f++) {
        struct row row = *like;
        struct out help = { .arena = rows->arena };
        out_put(&help, "%s", f->help);
        field_put_choices(f, &help, " or ");
        row.path = join(rows->arena, path, f->name);
        row.type = !strcmp(f->name, "configuration") || !strcmp(f->name, "document")
                       ? "object or string"
                       : field_kinds[f->kind].json;
        row.help = out_string(&help);
        row.since = f->since ? f->since : like->since;
        add(rows, row);
    }
}

static void add_keys(struct rows *rows, const char *under, const struct documents_key *keys,
                     const struct row *like)
{
    for (const struct documents_key *k = keys; k->path; k++) {
        struct row row = { .path = join(rows->arena, under, k->path),
                           .type = k->type,
                           .help = k->help,
                           .when = k->when ? k->when : like->when,
                           .since = k->since ? k->since : like->since };
        if (k->fields)
            add_fields(rows, row.path, k->fields, &row);
        else if (k->keys)
            add_keys(rows, row.path, k->keys, &row);
        for (int i = 0; k->names && k->names[i]; i++) {
            struct row named = row;
            named.path = join(rows->arena, row.path, k->names[i]);
            named.type = "number";
            named.help = text_format(rows->arena, i ? "" : "%s", k->help);
            add(rows, named);
        }
        if (!k->fields && !k->keys && !k->names)
            add(rows, row);
    }
}

static struct rows list(const struct documents_document *document, struct arena *arena)
{
    struct rows rows = { .arena = arena };
    struct row first = { .since = "0.1.0" };
    add_keys(&rows, "", document->keys, &first);
    const struct field *fields;
    const char *key;
    for (int i = 0; !strcmp(document->kind, "pilot") && (fields = pilot_table(i, &key)); i++)
        add_fields(&rows, key ? key : "", fields, &first);
    return rows;
}

// --- comparing ---------------------------------------------------------------

// Whether a path of a document is one of a table: "*" of the table is any key.
static bool matches(const char *pattern, const char *path)
{
    while (*pattern && *path) {
        if (*pattern == '*') {
            const char *end = strchr(pattern, '.');
            const char *rest = pattern + 1;
            for (const char *at = path; *at; at++) // a key may hold dots itself
                if (end && *at == '.' && matches(rest, at))
                    return true;
            return !end;
        }
        if (*pattern++ != *path++)
            return false;
    }
    return !*pattern && !*path;
}

static struct row *find(struct rows *rows, const char *path)
{
    for (size_t i = 0; i < rows->count; i++)
        if (matches(rows->at[i].path, path))
            return &rows->at[i];
    return NULL;
}

static bool is_of_type(const struct json *value, const char *type)
{
    static const char *const names[] = { [JSON_STRING] = "string",
                                         [JSON_NUMBER] = "number",
                                         [JSON_BOOL] = "boolean",
                                         [JSON_ARRAY] = "array",
                                         [JSON_OBJECT] = "object" };
    return value->kind == JSON_NULL || strstr(type, names[value->kind]) ||
           (value->kind == JSON_NUMBER && !strcmp(type, "integer"));
}

static int complaints;

static void complain(const char *file, const char *path, const char *what)
{
    complaints++;
    if (complaints <= 40)
        printf("%s: %s: %s\n", file, path, what);
}

static void walk(struct rows *rows, const char *path, const struct json *value, const char *file)
{
    struct row *row = *path ? find(rows, path) : NULL;
    if (row) {
        row->is_seen = true;
        if (!is_of_type(value, row->type))
            complain(file, path, "has another type than in the table");
    }
    bool is_whole = row && strstr(row->type, "object"); // any object: not looked into
    if (value->kind == JSON_OBJECT && !is_whole) {
        for (size_t i = 0; i < value->count; i++)
            walk(rows, join(rows->arena, path, text_copy(rows->arena, value->items[2 * i].string)),
                 &value->items[2 * i + 1], file);
    } else if (value->kind == JSON_ARRAY) {
        if (!row)
            complain(file, path, "is not in the table: KEY(…, \"array\", …)");
        for (size_t i = 0; i < value->count; i++) {
            bool plain = value->items[i].kind != JSON_OBJECT && value->items[i].kind != JSON_ARRAY;
            if (!plain)
                walk(rows, text_format(rows->arena, "%s[]", path), &value->items[i], file);
        }
    } else if (!row) {
        complain(file, path, "is not in the table");
    }
}

// A document, or lines of them.
static enum err walk_file(struct rows *rows, const char *path)
{
    struct text text, line;
    struct json tree;
    TRY(file_read(&text, rows->arena, path));
    if (!json_read(&tree, rows->arena, text, path)) {
        walk(rows, "", &tree, path);
        return OK;
    }
    while (text_next(&text, '\n', &line)) {
        if (!line.size)
            continue;
        TRY(json_read(&tree, rows->arena, line, path));
        walk(rows, "", &tree, path);
    }
    return OK;
}

int manual_keys(const char *kind, char **paths, int count, struct arena *arena)
{
    const struct documents_document *document = documents;
    while (document->kind && strcmp(document->kind, kind))
        document++;
    if (!document->kind) {
        printf("manual: there is no table of \"%s\"\n", kind);
        return 2;
    }
    struct rows rows = list(document, arena);
    for (int i = 0; i < count; i++)
        if (walk_file(&rows, paths[i])) {
            printf("manual: %s\n", error_text());
            return 3;
        }
    for (size_t i = 0; i < rows.count; i++)
        if (!rows.at[i].is_seen && !rows.at[i].when)
            complain(kind, rows.at[i].path, "is in the table, but in none of the documents");
    return complaints > 0;
}

// --- Markdown ----------------------------------------------------------------

static void put_cell(struct out *out, const char *text)
{
    for (; *text; text++)
        out_put(out, *text == '|' ? "\\|" : "%c", *text);
}

void manual_json(struct out *out)
{
    out_put(
        out,
        "# JSON documents\n\n"
        "Made by `make docs` from the tables in `tools/manual/documents.c` and from the field "
        "tables of the source; a test\ncompares them with what the program prints.\n\n"
        "- Every document but metrics has `kind` and `version`. Keys are added, never "
        "renamed; `version` "
        "changes if one changes its meaning.\n"
        "- Base units: bytes, seconds or hours, US dollars, tokens, shares from 0 to 1. The unit "
        "is part of the key.\n"
        "- `p10`, `p50` and `p90` are the 10th percentile, the median and the 90th percentile: "
        "an 80 %% range.\n"
        "- A number that is not known is `null`. `x[].y` is the key `y` of each object in the "
        "array `x`; `*` is any key.\n\n");
    for (const struct documents_document *d = documents; d->kind; d++)
        out_put(out, "%s[%s](#%s)", d == documents ? "" : " · ", d->kind, d->kind);
    out_char(out, '\n');
    for (const struct documents_document *d = documents; d->kind; d++) {
        struct rows rows = list(d, out->arena);
        out_put(out, "\n## %s\n\n`%s`\n\n| key | type | meaning | since |\n|---|---|---|---|\n",
                d->kind, d->made_by);
        for (size_t i = 0; i < rows.count; i++) {
            const struct row *row = &rows.at[i];
            out_put(out, "| `%s` | %s | ", row->path, row->type);
            put_cell(out, row->help);
            out_put(out, "%s%s%s | %s |\n", row->when ? *row->help ? " (" : "(" : "",
                    row->when ? row->when : "", row->when ? ")" : "", row->since);
        }
    }
}

static void put_columns(struct out *out, const char *title, const char *about,
                        const struct field *fields)
{
    out_put(out, "\n### %s\n\n%s\n\n| column | type | needed | meaning |\n|---|---|---|---|\n",
            title, about);
    for (const struct field *f = fields; f->name; f++) {
        out_put(out, "| `%s` | %s | %s | ", f->name,
                f->kind == FIELD_DATE ? "date" : field_kinds[f->kind].json,
                f->required ? "yes" : "");
        put_cell(out, f->help);
        field_put_choices(f, out, ", ");
        out_put(out, " |\n");
    }
}

static void put_items(struct out *out, const struct reference_item *items)
{
    for (; items->name; items++)
        out_put(out, "| `%s` | %s |\n", items->name, items->meaning);
}

void manual_reference(struct out *out)
{
    struct field offers[OFFERS_COLUMNS];
    offers_columns(offers);
    out_put(out, "# Reference\n\nMade by `make docs` from the tables of the source. Options: "
                 "`gpuhours help COMMAND` or the manual pages. Documents: [json.md](json.md).\n\n"
                 "## Exit codes\n\n| code | meaning |\n|---:|---|\n");
    for (const struct error_code *c = error_codes; c->name; c++)
        out_put(out, "| %d | %s |\n", c->number, c->meaning);
    out_put(out, "\n`pilot` and `watch` end with the trainer's own exit code if it fails, and with "
                 "128 + N after signal N.\n\n## Environment variables\n\n| variable | meaning "
                 "|\n|---|---|\n");
    put_items(out, reference_variables);
    out_put(out, "\n## Files\n\n| file | meaning |\n|---|---|\n");
    put_items(out, reference_files);
    out_put(out,
            "\n## CSV files\n\nNumbers may have a unit (`80GiB`, `3.35 TB/s`, `10min`); without "
            "one they are in base units. The first line names the\ncolumns, in any order; an "
            "unknown column is refused. `--catalog DIR` reads files of these names from a "
            "folder, over the built-in ones.\n");
    put_columns(out, "models.csv", "Models that `--model` knows.", model_fields);
    put_columns(out, "gpus.csv", "GPUs that `--gpu` knows.", gpu_fields);
    put_columns(out, "nodes.csv", "Machines, for links and networks.", node_fields);
    put_columns(out, "offers.csv", "Prices.", offer_fields);
    put_columns(out, "operations.csv, colocation.csv", "Facts about operations and owned servers.",
                fact_fields);
    put_columns(out, "billing.csv", "How providers bill, and what they state.", billing_fields);
    put_columns(out, "managed.csv", "Tuning services that are paid by the token.", managed_fields);
    put_columns(out, "efficiency.csv", "What `validate --fit` prints.", efficiency_fields);
    put_columns(out, "evidence.csv", "What `validate --evidence` prints.", evidence_fields);
    put_columns(out, "hosts --offers", "Your own offers.", offers);
    put_columns(out, "validate", "Measured runs, for `gpuhours validate RUNS.csv`.", run_fields);
}
