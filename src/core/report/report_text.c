// SPDX-License-Identifier: Apache-2.0
// The page as terminal text and as Markdown.

#include "core/report/report_internal.h"

#include "base/columns.h"
#include "base/markup.h"

#include <stdlib.h>
#include <string.h>

struct sheet {
    struct out *out;
    struct arena *arena;
    int columns;
    bool colour;
};

// --- terminals ---------------------------------------------------------------

static void put_wrapped(const struct sheet *p, const char *text, int indent)
{
    out_repeat(p->out, ' ', indent);
    out_wrapped(p->out, indent, indent, markup_plain(p->arena, text_of(text), 1600));
}

static void put_table(const struct sheet *p, const struct report_table *table)
{
    char align[COLUMNS_MOST + 1] = "";
    for (size_t c = 0; c < table->columns && c < COLUMNS_MOST; c++)
        align[c] = c < 32 && table->numeric >> c & 1 ? 'R' : 'L';
    struct columns columns = {
        .arena = p->arena, .align = align, .indent = 2, .marked = table->marked
    };
    for (size_t r = 0; r <= table->rows; r++)
        for (size_t c = 0; c < table->columns; c++)
            columns_add(&columns,
                        markup_plain(p->arena,
                                     text_of(r ? table->cells[(r - 1) * table->columns + c]
                                               : table->heads[c]),
                                     p->columns));
    columns_write(&columns, p->out);
}

static void put_text_block(const struct sheet *p, const struct report_block *block)
{
    if (block->folded) // the chart shows it; --json and --html have the numbers
        return;
    out_char(p->out, '\n');
    switch (block->kind) {
    case REPORT_PARAGRAPH: put_wrapped(p, block->text, 0); break;
    case REPORT_FIGURE: chart_text(p->out, p->arena, block->chart, p->columns, p->colour); break;
    case REPORT_TABLE: put_table(p, block->table); break;
    case REPORT_WARNINGS:
        for (size_t i = 0; i < block->table->rows; i++)
            put_wrapped(p,
                        text_format(p->arena, "%s: %s", block->table->cells[2 * i],
                                    block->table->cells[2 * i + 1]),
                        2);
        break;
    }
}

static void put_heading(const struct sheet *p, const char *text)
{
    const char *plain = markup_plain(p->arena, text_of(text), (size_t)p->columns);
    out_heading(p->out, plain);
    int width = text_columns(text_of(plain));
    for (int i = 0; i < width && i < p->columns; i++)
        out_put(p->out, "─");
    out_char(p->out, '\n');
}

static const char *plain(const struct sheet *p, const char *text)
{
    return markup_plain(p->arena, text_of(text), 1600);
}

// The value as it is: it may be styled.
static void put_fact(const struct sheet *p, const char *name, const char *value, const char *range)
{
    enum { INDENT = 23 };
    int size = text_columns(text_of(name)) + 3;
    out_put(p->out, "  %s", name);
    out_repeat(p->out, ' ', size < INDENT ? INDENT - size + 1 : 1);
    out_wrapped(p->out, INDENT, size < INDENT ? INDENT : size,
                text_format(p->arena, "%s  (%s)", value, plain(p, range)));
}

static void put_answer(const struct sheet *p, const struct report_section *s)
{
    if (!s->big)
        return;
    out_char(p->out, '\n');
    put_fact(p, s->unit, out_styled(p->out, OUT_NUMBER, plain(p, s->big)), s->range);
    for (size_t i = 0; i < s->fact_count; i++)
        put_fact(p, s->facts[i].name, plain(p, s->facts[i].value), s->facts[i].range);
}

void report_text(struct out *out, struct arena *arena, const struct report_input *input,
                 int columns, bool colour)
{
    struct report_page page;
    struct sheet p = { out, arena, columns < 60 ? 60 : columns, colour };
    out->columns = p.columns;
    out->styled = colour;
    report_make(&page, arena, input);
    put_wrapped(&p, page.title, 0);
    for (size_t i = 0; i < page.count; i++) {
        const struct report_section *s = &page.sections[i];
        out_char(out, '\n');
        if (s->heads)
            put_wrapped(&p, s->part, 0);
        put_heading(&p, s->title);
        put_answer(&p, s);
        if (s->lead) {
            out_put(out, s->big ? "\n" : "");
            put_wrapped(&p, s->lead, 0);
        }
        for (size_t k = 0; k < s->count; k++)
            put_text_block(&p, &s->blocks[k]);
    }
}

// --- Markdown ----------------------------------------------------------------

static void put_md(struct out *out, const char *text, size_t most)
{
    markup_put(out, MARKUP_MARKDOWN, text_of(text), most);
}

static void put_md_row(struct out *out, const char *const *cells, size_t columns)
{
    for (size_t c = 0; c < columns; c++) {
        out_put(out, c ? " | " : "| ");
        put_md(out, cells[c], MARKUP_SENTENCE);
    }
    out_put(out, " |\n");
}

static void put_md_table(struct out *out, const struct report_table *table)
{
    put_md_row(out, table->heads, table->columns);
    for (size_t c = 0; c < table->columns; c++)
        out_put(out, "%s", c < 32 && table->numeric >> c & 1 ? "|---:" : "|---");
    out_put(out, "|\n");
    for (size_t r = 0; r < table->rows; r++)
        put_md_row(out, table->cells + r * table->columns, table->columns);
}

static void put_md_block(const struct sheet *p, const struct report_block *block)
{
    struct out *out = p->out;
    out_char(out, '\n');
    if (block->folded)
        out_put(out, "<details><summary>%s</summary>\n\n", block->folded);
    switch (block->kind) {
    case REPORT_PARAGRAPH:
        put_md(out, block->text, 1200);
        out_char(out, '\n');
        break;
    case REPORT_FIGURE: // a fence longer than any run of backticks inside it
        out_put(out, "````````text\n");
        chart_text(out, p->arena, block->chart, 78, false);
        out_put(out, "````````\n");
        break;
    case REPORT_TABLE: put_md_table(out, block->table); break;
    case REPORT_WARNINGS:
        for (size_t i = 0; i < block->table->rows; i++) {
            out_put(out, "- **");
            put_md(out, block->table->cells[2 * i], MARKUP_NAME);
            out_put(out, "**: ");
            put_md(out, block->table->cells[2 * i + 1], MARKUP_SENTENCE);
            out_char(out, '\n');
        }
        break;
    }
    if (block->folded)
        out_put(out, "\n</details>\n");
}

void report_markdown(struct out *out, struct arena *arena, const struct report_input *input)
{
    struct report_page page;
    struct sheet p = { out, arena, 78, false };
    report_make(&page, arena, input);
    out_put(out, "# ");
    put_md(out, page.title, 120);
    out_char(out, '\n');
    for (size_t i = 0; i < page.count; i++) {
        const struct report_section *s = &page.sections[i];
        out_put(out, "\n## ");
        if (s->heads) {
            put_md(out, s->part, MARKUP_SENTENCE);
            out_put(out, ": ");
        }
        put_md(out, s->title, MARKUP_SENTENCE);
        out_put(out, "\n\n");
        if (s->big) {
            out_put(out, "**%s %s** (%s)\n\n", s->big, s->unit, s->range);
            for (size_t k = 0; k < s->fact_count; k++)
                out_put(out, "- %s: **%s** (%s)\n", s->facts[k].name, s->facts[k].value,
                        s->facts[k].range);
            out_char(out, '\n');
        }
        if (s->lead) {
            put_md(out, s->lead, 1200);
            out_char(out, '\n');
        }
        for (size_t k = 0; k < s->count; k++)
            put_md_block(&p, &s->blocks[k]);
    }
}
