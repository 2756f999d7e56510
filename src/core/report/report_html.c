// SPDX-License-Identifier: Apache-2.0
// The page as HTML that is also well-formed XML, except for its first line.

#include "core/report/report_internal.h"

#include "base/sha256.h"
#include "core/forecast/assumption.h"
#include "base/markup.h"
#include "base/embedded.h"

#include <string.h>

enum { LEAD = 1200 };

// Keeps "%" and "×" on the line of their number.
static void put(struct out *out, const char *text, size_t most)
{
    struct out bound = { .arena = out->arena };
    for (const char *at = text; *at; at++) {
        bool binds = *at == ' ' && (at[1] == '%' || !strncmp(at + 1, "×", 2));
        out_put(&bound, binds ? "\u00a0" : "%c", *at);
    }
    markup_put(out, MARKUP_HTML, out_view(&bound), most);
}

// In <bdi>, so that right-to-left text does not reorder what is around it.
static void put_outside(struct out *out, const char *text, size_t most)
{
    out_put(out, "<bdi>");
    put(out, text, most);
    out_put(out, "</bdi>");
}

// --- blocks ------------------------------------------------------------------

static void put_figure(struct out *out, struct arena *arena, const struct chart *chart)
{
    out_put(out, "<figure><div class=\"wide\">");
    chart_svg(out, arena, chart, CHART_WIDE);
    out_put(out, "</div><div class=\"narrow\">");
    chart_svg(out, arena, chart, CHART_NARROW);
    out_put(out, "</div></figure>\n");
}

static const char *origin_named(const char *text)
{
    for (int i = 0; i < ASSUMPTION_ORIGINS; i++)
        if (!strcmp(text, assumption_origins[i]))
            return assumption_origins[i];
    return NULL;
}

static void put_cell(struct out *out, const struct report_table *table, size_t row, size_t column)
{
    const char *text = table->cells[row * table->columns + column];
    bool numeric = column < 32 && table->numeric >> column & 1;
    const char *tag = column ? "td" : "th";
    out_put(out, "<%s%s%s>", tag, column ? "" : " scope=\"row\"",
            numeric ? " class=\"number\"" : "");
    const char *origin = strcmp(table->heads[column], "origin") ? NULL : origin_named(text);
    if (origin)
        out_put(out, "<span class=\"origin %s\">%s</span>", origin, origin);
    else
        put_outside(out, text, MARKUP_SENTENCE);
    out_put(out, "</%s>", tag);
}

static void put_table(struct out *out, const struct report_table *table)
{
    out_put(out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\">"
            "<table%s><thead><tr>",
            table->columns > 5 ? " class=\"many\"" : "");
    for (size_t i = 0; i < table->columns; i++) {
        bool empty = !*table->heads[i];
        out_put(out, "<%s%s%s>", empty ? "td" : "th", empty ? "" : " scope=\"col\"",
                i < 32 && table->numeric >> i & 1 ? " class=\"number\"" : "");
        put_outside(out, table->heads[i], MARKUP_NAME);
        out_put(out, "</%s>", empty ? "td" : "th");
    }
    out_put(out, "</tr></thead>\n<tbody>\n");
    for (size_t r = 0; r < table->rows; r++) {
        out_put(out, r + 1 == table->marked ? "<tr class=\"marked\">" : "<tr>");
        for (size_t c = 0; c < table->columns; c++)
            put_cell(out, table, r, c);
        out_put(out, "</tr>\n");
    }
    out_put(out, "</tbody></table></div>\n");
}

static void put_warnings(struct out *out, const struct report_table *table)
{
    out_put(out, "<ul class=\"mistakes\">\n");
    for (size_t i = 0; i < table->rows; i++) {
        out_put(out, "<li><b>");
        put_outside(out, table->cells[2 * i], MARKUP_NAME);
        out_put(out, "</b>");
        put_outside(out, table->cells[2 * i + 1], MARKUP_SENTENCE);
        out_put(out, "</li>\n");
    }
    out_put(out, "</ul>\n");
}

static void put_block(struct out *out, struct arena *arena, const struct report_block *block)
{
    if (block->folded) {
        out_put(out, "<details><summary>");
        put(out, block->folded, MARKUP_NAME);
        out_put(out, "</summary>\n");
    }
    switch (block->kind) {
    case REPORT_PARAGRAPH:
        out_put(out, "<p class=\"note\">");
        put_outside(out, block->text, LEAD);
        out_put(out, "</p>\n");
        break;
    case REPORT_FIGURE: put_figure(out, arena, block->chart); break;
    case REPORT_TABLE: put_table(out, block->table); break;
    case REPORT_WARNINGS: put_warnings(out, block->table); break;
    }
    if (block->folded)
        out_put(out, "</details>\n");
}

// --- sections ----------------------------------------------------------------

static void put_answer(struct out *out, const struct report_section *s)
{
    static const char *const moods[] = { "bad", "", "good" };
    if (!s->big)
        return;
    out_put(out, "<p class=\"answer\"><span class=\"big\">");
    put(out, s->big, MARKUP_NAME);
    out_put(out, "</span><span class=\"of\">");
    put(out, s->unit, MARKUP_NAME);
    out_put(out, " on ");
    put_outside(out, s->device, MARKUP_NAME);
    out_put(out, "<span>");
    put(out, s->range, MARKUP_NAME);
    out_put(out, "</span></span></p>\n<dl class=\"facts\">\n");
    for (size_t i = 0; i < s->fact_count; i++) {
        const struct report_fact *fact = &s->facts[i];
        out_put(out, "<div><dt>");
        put(out, fact->name, MARKUP_NAME);
        out_put(out, "</dt><dd>");
        put(out, fact->value, MARKUP_NAME);
        out_put(out, "<small%s%s%s>", fact->mood ? " class=\"" : "", moods[fact->mood + 1],
                fact->mood ? "\"" : "");
        put(out, fact->range, MARKUP_NAME);
        out_put(out, "</small></dd></div>\n");
    }
    out_put(out, "</dl>\n");
}

static void put_section(struct out *out, struct arena *arena, const struct report_section *s)
{
    out_put(out, "<section id=\"%s\" aria-labelledby=\"%s-title\"%s>\n<p class=\"part\">", s->id,
            s->id, s->heads ? " class=\"of\"" : "");
    put_outside(out, s->part, MARKUP_SENTENCE);
    out_put(out, "</p>\n<h2 id=\"%s-title\">", s->id);
    put_outside(out, s->title, MARKUP_SENTENCE);
    out_put(out, "</h2>\n");
    put_answer(out, s);
    if (s->lead) {
        out_put(out, "<p class=\"lead\">");
        put_outside(out, s->lead, LEAD);
        out_put(out, "</p>\n");
    }
    for (size_t i = 0; i < s->count; i++)
        put_block(out, arena, &s->blocks[i]);
    out_put(out, "</section>\n");
}

void report_sections(struct out *out, struct arena *arena, const struct report_input *input,
                     const char *only)
{
    struct report_page page;
    report_make(&page, arena, input);
    for (size_t i = 0; i < page.count; i++)
        if (!only || !strcmp(page.sections[i].id, only))
            put_section(out, arena, &page.sections[i]);
}

// --- the document ------------------------------------------------------------

void report_policy(struct out *out, struct text style, struct text script)
{
    out_put(out,
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;;"
            " base-uri &#39;none&#39;; form-action &#39;none&#39;");
    if (style.size) {
        out_put(out, "; style-src &#39;sha256-");
        sha256_put_base64(out, style);
        out_put(out, "&#39;");
    }
    if (script.size) { // a worker made by the page compiles the module from bytes in the page
        out_put(out, "; worker-src blob:; script-src &#39;wasm-unsafe-eval&#39; &#39;sha256-");
        sha256_put_base64(out, script);
        out_put(out, "&#39;");
    }
    out_put(out, "\"/>\n");
}

static void put_head(struct out *out, struct arena *arena, const struct report_page *page,
                     const struct report_live *live)
{
    struct out style = { .arena = arena };
    struct text shared = embedded_file("page.css");
    out_bytes(&style, shared.at, shared.size);
    if (live)
        out_bytes(&style, live->style.at, live->style.size);
    out_put(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
    report_policy(out, out_view(&style), live ? live->script : (struct text){ 0 });
    out_put(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                 "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
                 "<meta name=\"referrer\" content=\"no-referrer\"/>\n<title>");
    put(out, page->title, MARKUP_NAME);
    out_put(out, " – gpuhours</title>\n<style>");
    out_bytes(out, style.at, style.size);
    out_put(out, "</style>\n</head>\n<body>\n");
}

static void put_top(struct out *out, const struct report_page *page, bool live)
{
    out_put(out, "<header class=\"page-head\">\n<p class=\"kicker\">");
    put(out, page->kicker, MARKUP_NAME);
    out_put(out, "</p>\n<h1>");
    put_outside(out, page->title, 120);
    out_put(out, "</h1>\n<nav aria-label=\"Sections\">");
    bool several = false; // documents: only the first section of each is linked
    for (size_t i = 0; i < page->count; i++)
        several |= page->sections[i].heads;
    for (size_t i = 0; i < page->count; i++) {
        if (several && i && !page->sections[i].heads)
            continue;
        out_put(out, "<a href=\"#%s\">", page->sections[i].id);
        put_outside(out, page->sections[i].part, 40);
        out_put(out, "</a>\n");
        if (live && !i)
            out_put(out, "<a href=\"#what-if\">What if</a>\n");
    }
    out_put(out, "</nav>\n</header>\n");
}

// JSON in a data block: "<" occurs only in strings, where it can be written as an escape.
static void put_data(struct out *out, const char *id, const struct report_input *input,
                     enum report_kind kind)
{
    out_put(out, "<script type=\"application/json\" id=\"%s\">", id);
    const struct report_document *document = NULL;
    for (size_t i = 0; i < input->count && !document; i++)
        if (input->documents[i].kind == kind && input->documents[i].text.size < 400000)
            document = &input->documents[i];
    if (!document)
        out_put(out, "null");
    for (size_t i = 0; document && i < document->text.size; i++) {
        char c = document->text.at[i];
        if (c == '<')
            out_put(out, "\\u003c");
        else
            out_char(out, c);
    }
    out_put(out, "</script>\n");
}

static void put_what_if(struct out *out, const struct report_live *live)
{
    out_put(out, "<section id=\"what-if\" aria-labelledby=\"what-if-title\">\n");
    out_bytes(out, live->markup.at, live->markup.size);
    out_put(out, "</section>\n");
}

static void put_live(struct out *out, const struct report_input *input,
                     const struct report_live *live)
{
    out_put(out, "<script type=\"text/plain\" id=\"core-module\">");
    out_bytes(out, live->module.at, live->module.size);
    out_put(out, "</script>\n");
    put_data(out, "report-plan", input, REPORT_PLAN);
    put_data(out, "report-profile", input, REPORT_PROFILE);
    out_put(out, "<script>");
    out_bytes(out, live->script.at, live->script.size);
    out_put(out, "</script>\n");
}

void report_html(struct out *out, struct arena *arena, const struct report_input *input,
                 const struct report_live *live)
{
    struct report_page page;
    report_make(&page, arena, input);
    put_head(out, arena, &page, live);
    put_top(out, &page, live != NULL);
    out_put(out, "<main id=\"report\">\n");
    for (size_t i = 0; i < page.count; i++) {
        put_section(out, arena, &page.sections[i]);
        if (live && !i)
            put_what_if(out, live);
    }
    out_put(out, "</main>\n");
    if (live)
        put_live(out, input, live);
    out_put(out, "<footer class=\"page-foot\"><p>Made by gpuhours from");
    for (size_t i = 0; i < input->count; i++) {
        out_put(out, i ? ", " : " ");
        put_outside(out, input->documents[i].name, MARKUP_NAME);
    }
    out_put(out, ". This file loads nothing and sends nothing.%s</p></footer>\n</body>\n</html>\n",
            live ? ""
                 : " It has no what-if: the gpuhours that made it was built without WebAssembly.");
}
