// The documents for spreadsheets, and the described page as JSON.

#include "core/report/report_internal.h"

#include "base/markup.h"

#include <string.h>

// --- CSV: a row a key, a column a document -----------------------------------

enum { DEPTH = 8, MOST_ROWS = 20000 };

struct table {
    struct out *out;
    struct arena *arena;
    const struct report_input *input;
    size_t rows;
    struct text *seen; // paths that stand already, by their hash
    size_t room;
};

// The member of a list that a path's word means: by its name, else by its place.
static const char *item_word(struct arena *arena, const struct json *item, size_t index)
{
    struct text name = json_get_text(item, "name");
    if (!name.at)
        name = json_get_text(item, "code");
    return name.at && name.size && name.size < 80 ? markup_plain(arena, name, 80)
                                                  : text_format(arena, "%zu", index + 1);
}

static bool is_value(const struct json *value)
{
    return value->kind == JSON_NUMBER || value->kind == JSON_STRING || value->kind == JSON_BOOL;
}

static const struct json *step_down(struct arena *arena, const struct json *at, struct text word)
{
    for (size_t i = 0; at->kind == JSON_OBJECT && i < at->count; i++)
        if (text_equal(at->items[2 * i].string, word))
            return &at->items[2 * i + 1];
    for (size_t i = 0; at->kind == JSON_ARRAY && i < at->count; i++)
        if (text_is(word, item_word(arena, &at->items[i], i)))
            return &at->items[i];
    return NULL;
}

static void put_value(struct out *out, const struct json *value)
{
    if (!value)
        return;
    if (value->kind == JSON_NUMBER)
        out_put(out, "%.15g", value->number);
    else if (value->kind == JSON_BOOL)
        out_put(out, value->flag ? "true" : "false");
    else if (value->kind == JSON_STRING)
        markup_put(out, MARKUP_CSV, value->string, MARKUP_SENTENCE);
}

static bool is_new(struct table *t, struct text path)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < path.size; i++)
        hash = (hash ^ (unsigned char)path.at[i]) * 1099511628211u;
    for (size_t at = hash & (t->room - 1);; at = (at + 1) & (t->room - 1)) {
        if (!t->seen[at].at) {
            t->seen[at] = path;
            return true;
        }
        if (text_equal(t->seen[at], path))
            return false;
    }
}

// The words of the way down to a value, in every document that has them.
static void put_row(struct table *t, const struct text *words, int depth)
{
    struct out path = { .arena = t->arena };
    for (int i = 0; i < depth; i++)
        out_put(&path, "%s%.*s", i ? "." : "", TEXT_ARGS(words[i]));
    if (t->rows >= MOST_ROWS || !is_new(t, text_of(out_string(&path))))
        return;
    t->rows++;
    markup_put(t->out, MARKUP_CSV, out_view(&path), 400);
    for (size_t d = 0; d < t->input->count; d++) {
        const struct json *at = &t->input->documents[d].tree;
        for (int i = 0; at && i < depth; i++)
            at = step_down(t->arena, at, words[i]);
        out_char(t->out, ',');
        put_value(t->out, at);
    }
    out_char(t->out, '\n');
}

static void walk(struct table *t, const struct json *at, struct text *words, int depth)
{
    if (is_value(at) && depth) {
        put_row(t, words, depth);
        return;
    }
    if (depth == DEPTH)
        return;
    for (size_t i = 0; at->kind == JSON_OBJECT && i < at->count; i++) {
        words[depth] = at->items[2 * i].string;
        walk(t, &at->items[2 * i + 1], words, depth + 1);
    }
    // Lists of lists are histograms; they have their own tools.
    for (size_t i = 0; at->kind == JSON_ARRAY && i < at->count; i++) {
        if (at->items[i].kind == JSON_ARRAY)
            return;
        words[depth] = text_of(item_word(t->arena, &at->items[i], i));
        walk(t, &at->items[i], words, depth + 1);
    }
}

void report_csv(struct out *out, struct arena *arena, const struct report_input *input)
{
    struct table t = { .out = out, .arena = arena, .input = input, .room = 4 * 16384 };
    t.seen = ARENA_NEW(arena, struct text, t.room);
    struct text words[DEPTH];
    out_put(out, "key");
    for (size_t i = 0; i < input->count; i++) {
        out_char(out, ',');
        markup_put(out, MARKUP_CSV, text_of(input->documents[i].name), MARKUP_NAME);
    }
    out_char(out, '\n');
    for (size_t i = 0; i < input->count; i++)
        walk(&t, &input->documents[i].tree, words, 0);
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
    json_open(w, "tables", '['); // the first row is the head
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
