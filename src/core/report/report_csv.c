// SPDX-License-Identifier: Apache-2.0
// The documents as CSV, and the page as JSON.

#include "core/report/report_internal.h"

#include "base/markup.h"

#include <assert.h>
#include <string.h>

// --- CSV ---------------------------------------------------------------------
//
// A table of values by path ("gpu_hours.p50") and tree. Documents are trees whose paths are lines
// and which are columns; offers of hosts documents are trees the other way round, one to a line.

enum { DEPTH = 8, MOST_PATHS = 20000, SLOTS = 65536 };
static_assert(MOST_PATHS < SLOTS, "the hash table always has an empty slot");

struct path {
    const struct text *words;
    int depth;
    const char *name; // the words, joined by dots
};

struct table {
    struct out *out;
    struct arena *arena;
    const struct json **trees;
    size_t tree_count;
    bool named_only; // leaves out items of lists that have no name
    struct path *paths;
    size_t count;
    const char **seen; // names of paths, by their hash
};

// The word of a path for an item of a list: its name or code, else its place; "" where only names
// count.
static const char *item_word(const struct table *t, const struct json *item, size_t index)
{
    struct text name = json_get_text(item, "name");
    if (!name.at)
        name = json_get_text(item, "code");
    if (name.at && name.size && name.size < 80)
        return markup_plain(t->arena, name, 80);
    return t->named_only ? "" : text_format(t->arena, "%zu", index + 1);
}

static bool is_value(const struct json *value)
{
    return value->kind == JSON_NUMBER || value->kind == JSON_STRING || value->kind == JSON_BOOL;
}

static const struct json *step_down(const struct table *t, const struct json *at, struct text word)
{
    for (size_t i = 0; at->kind == JSON_OBJECT && i < at->count; i++)
        if (text_equal(at->items[2 * i].string, word))
            return &at->items[2 * i + 1];
    for (size_t i = 0; at->kind == JSON_ARRAY && i < at->count; i++)
        if (text_is(word, item_word(t, &at->items[i], i)))
            return &at->items[i];
    return NULL;
}

static void put_value(const struct table *t, const struct json *tree, const struct path *path)
{
    for (int i = 0; tree && i < path->depth; i++)
        tree = step_down(t, tree, path->words[i]);
    if (!tree)
        return;
    if (tree->kind == JSON_NUMBER)
        out_put(t->out, "%.15g", tree->number);
    else if (tree->kind == JSON_BOOL)
        out_put(t->out, tree->flag ? "true" : "false");
    else if (tree->kind == JSON_STRING)
        markup_put(t->out, MARKUP_CSV, tree->string, MARKUP_SENTENCE);
}

static bool is_new(struct table *t, const char *name)
{
    uint64_t hash = 14695981039346656037u;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    for (size_t at = hash & (SLOTS - 1);; at = (at + 1) & (SLOTS - 1)) {
        if (!t->seen[at]) {
            t->seen[at] = name;
            return true;
        }
        if (!strcmp(t->seen[at], name))
            return false;
    }
}

static void add_path(struct table *t, const struct text *words, int depth)
{
    struct out name = { .arena = t->arena };
    for (int i = 0; i < depth; i++)
        out_put(&name, "%s%.*s", i ? "." : "", TEXT_ARGS(words[i]));
    if (t->count >= MOST_PATHS || !is_new(t, out_string(&name)))
        return;
    struct text *copy = ARENA_NEW(t->arena, struct text, (size_t)depth);
    memcpy(copy, words, (size_t)depth * sizeof *words);
    t->paths[t->count++] = (struct path){ copy, depth, out_string(&name) };
}

// Adds the paths of all values below a node, in the order of the document.
static void collect(struct table *t, const struct json *at, struct text *words, int depth)
{
    if (is_value(at) && depth) {
        add_path(t, words, depth);
        return;
    }
    if (depth == DEPTH)
        return;
    for (size_t i = 0; at->kind == JSON_OBJECT && i < at->count; i++) {
        words[depth] = at->items[2 * i].string;
        if (!t->named_only || !text_is(words[depth], "name")) // the path already has it
            collect(t, &at->items[2 * i + 1], words, depth + 1);
    }
    for (size_t i = 0; at->kind == JSON_ARRAY && i < at->count; i++) {
        if (at->items[i].kind == JSON_ARRAY) // a histogram
            return;
        words[depth] = text_of(item_word(t, &at->items[i], i));
        if (words[depth].size)
            collect(t, &at->items[i], words, depth + 1);
    }
}

static void collect_all(struct table *t)
{
    struct text words[DEPTH];
    t->paths = ARENA_NEW(t->arena, struct path, MOST_PATHS);
    t->seen = ARENA_NEW(t->arena, const char *, SLOTS);
    for (size_t i = 0; i < t->tree_count; i++)
        collect(t, t->trees[i], words, 0);
}

static void put_name(const struct table *t, const char *name)
{
    markup_put(t->out, MARKUP_CSV, text_of(name), 400);
}

// A line per path, a column per document.
static void put_documents(struct table *t, const struct report_input *input)
{
    t->trees = ARENA_NEW(t->arena, const struct json *, input->count);
    for (size_t i = 0; i < input->count; i++)
        t->trees[t->tree_count++] = &input->documents[i].tree;
    collect_all(t);
    out_put(t->out, "key");
    for (size_t i = 0; i < input->count; i++) {
        out_char(t->out, ',');
        put_name(t, input->documents[i].name);
    }
    out_char(t->out, '\n');
    for (size_t p = 0; p < t->count; p++) {
        put_name(t, t->paths[p].name);
        for (size_t i = 0; i < t->tree_count; i++) {
            out_char(t->out, ',');
            put_value(t, t->trees[i], &t->paths[p]);
        }
        out_char(t->out, '\n');
    }
}

// A line per offer, a column per path.
static void put_offers(struct table *t, const struct report_input *input)
{
    size_t offers = 0;
    for (size_t d = 0; d < input->count; d++)
        offers += report_items(report_at(&input->documents[d].tree, "rows"));
    t->named_only = true;
    t->trees = ARENA_NEW(t->arena, const struct json *, offers + 1);
    for (size_t d = 0; d < input->count; d++) {
        const struct json *rows = report_at(&input->documents[d].tree, "rows");
        for (size_t i = 0; i < report_items(rows); i++)
            t->trees[t->tree_count++] = &rows->items[i];
    }
    collect_all(t);
    for (size_t p = 0; p < t->count; p++) {
        out_put(t->out, p ? "," : "");
        put_name(t, t->paths[p].name);
    }
    out_char(t->out, '\n');
    for (size_t i = 0; i < t->tree_count; i++) {
        for (size_t p = 0; p < t->count; p++) {
            out_put(t->out, p ? "," : "");
            put_value(t, t->trees[i], &t->paths[p]);
        }
        out_char(t->out, '\n');
    }
}

void report_csv(struct out *out, struct arena *arena, const struct report_input *input)
{
    struct table t = { .out = out, .arena = arena };
    bool only_hosts = input->count > 0;
    for (size_t i = 0; i < input->count; i++)
        only_hosts &= input->documents[i].kind == REPORT_HOSTS;
    if (only_hosts)
        put_offers(&t, input);
    else
        put_documents(&t, input);
}

// --- JSON --------------------------------------------------------------------

static void write_chart(struct json_writer *w, const struct chart *chart, struct arena *arena)
{
    static const char *const kinds[] = { "bars",      "stacked", "tornado", "fan",
                                         "histogram", "line",    "scatter", "roofline" };
    json_open(w, NULL, '{');
    json_put_string(w, "title", chart->title);
    json_put_string(w, "kind", kinds[chart->kind]);
    json_put_string(w, "text", chart_alt(chart, arena));
    json_put_string(w, "x", chart->x.title);
    json_put_string(w, "y", chart->y.title);
    json_open(w, "series", '[');
    for (size_t s = 0; s < chart->series_count; s++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", chart->series[s].name);
        json_open(w, "points", '[');
        for (size_t i = 0; i < chart->series[s].count; i++) {
            const struct chart_point *point = &chart->series[s].points[i];
            json_open(w, NULL, '{');
            json_put_string(w, "label", point->label);
            json_put_number(w, "x", point->x);
            json_put_number(w, "y", point->y);
            json_put_number(w, "low", point->low);
            json_put_number(w, "high", point->high);
            json_close(w, '}');
        }
        json_close(w, ']');
        json_close(w, '}');
    }
    json_close(w, ']');
    json_close(w, '}');
}

static void write_table(struct json_writer *w, const struct report_table *table)
{
    json_open(w, NULL, '[');
    for (size_t r = 0; r <= table->rows; r++) {
        json_open(w, NULL, '[');
        for (size_t c = 0; c < table->columns; c++)
            json_put_string(w, NULL,
                            r ? table->cells[(r - 1) * table->columns + c] : table->heads[c]);
        json_close(w, ']');
    }
    json_close(w, ']');
}

static void write_section(struct json_writer *w, const struct report_section *s,
                          struct arena *arena)
{
    json_open(w, NULL, '{');
    json_put_string(w, "id", s->id);
    json_put_string(w, "part", s->part);
    json_put_string(w, "title", s->title);
    json_put_string(w, "text", s->lead);
    json_open(w, "charts", '[');
    for (size_t i = 0; i < s->count; i++)
        if (s->blocks[i].kind == REPORT_FIGURE)
            write_chart(w, s->blocks[i].chart, arena);
    json_close(w, ']');
    json_open(w, "tables", '['); // the first row is the header
    for (size_t i = 0; i < s->count; i++)
        if (s->blocks[i].table)
            write_table(w, s->blocks[i].table);
    json_close(w, ']');
    json_close(w, '}');
}

void report_json(struct out *out, struct arena *arena, const struct report_input *input)
{
    struct report_page page;
    struct json_writer w = { .out = out };
    report_make(&page, arena, input);
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "report");
    json_put_count(&w, "version", 1);
    json_put_string(&w, "title", page.title);
    json_open(&w, "documents", '[');
    for (size_t i = 0; i < input->count; i++)
        json_put_string(&w, NULL, input->documents[i].name);
    json_close(&w, ']');
    json_open(&w, "sections", '[');
    for (size_t i = 0; i < page.count; i++)
        write_section(&w, &page.sections[i], arena);
    json_close(&w, ']');
    json_close(&w, '}');
    out_char(out, '\n');
}
