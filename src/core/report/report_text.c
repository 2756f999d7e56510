// The page as terminal text and as Markdown.

#include "core/report/report_internal.h"

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

// Words in lines that start at `indent`; the first starts at `column`, after what is printed.
static void put_from(const struct sheet *p, const char *text, int indent, int column)
{
    struct text rest = text_of(markup_plain(p->arena, text_of(text), 1600)), word;
    bool begins = column > 0;
    while (text_next(&rest, ' ', &word)) {
        int width = markup_columns(word);
        if (column && !begins && column + 1 + width > p->columns - 1) {
            out_char(p->out, '\n');
            column = 0;
        }
        if (begins) {
            begins = false;
        } else if (!column) {
            out_repeat(p->out, ' ', indent);
            column = indent;
        } else {
            out_char(p->out, ' ');
            column++;
        }
        if (width > p->columns - 1 - indent)
            word = text_of(markup_plain(p->arena, word, (size_t)(p->columns - 1 - indent) / 2));
        out_put(p->out, "%.*s", TEXT_ARGS(word));
        column += markup_columns(word);
    }
    out_char(p->out, '\n');
}

static const char *cell_of(const struct sheet *p, const struct report_table *table, size_t row,
                           size_t column) // row 0 is the head
{
    const char *text =
        row ? table->cells[(row - 1) * table->columns + column] : table->heads[column];
    return markup_plain(p->arena, text_of(text), 60);
}

static void put_wrapped(const struct sheet *p, const char *text, int indent)
{
    put_from(p, text, indent, 0);
}

// Narrows the widest columns until the table fits.
static void set_widths(const struct sheet *p, const struct report_table *table, int *widths)
{
    for (size_t c = 0; c < table->columns; c++) {
        widths[c] = 0;
        for (size_t r = 0; r <= table->rows; r++) {
            int width = markup_columns(text_of(cell_of(p, table, r, c)));
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    for (;;) {
        size_t widest = 0;
        int sum = 2;
        for (size_t c = 0; c < table->columns; c++) {
            sum += widths[c] + (c ? 2 : 0);
            widest = widths[c] > widths[widest] ? c : widest;
        }
        if (sum <= p->columns || widths[widest] <= 1)
            return;
        widths[widest]--;
    }
}

static void put_table(const struct sheet *p, const struct report_table *table)
{
    int widths[REPORT_DOCUMENTS + 1];
    set_widths(p, table, widths);
    for (size_t r = 0; r <= table->rows; r++) {
        struct out line = { .arena = p->arena };
        out_put(&line, "%s", r && r == table->marked ? "> " : "  ");
        for (size_t c = 0; c < table->columns; c++) {
            const char *text = cell_of(p, table, r, c);
            size_t most = (size_t)widths[c];
            while (markup_columns(text_of(text)) > widths[c] && most)
                text = markup_plain(p->arena, text_of(text), most--);
            int space = widths[c] - markup_columns(text_of(text));
            bool right = c < 32 && table->numeric >> c & 1;
            out_put(&line, "%s", c ? "  " : "");
            out_repeat(&line, ' ', right ? space : 0);
            out_put(&line, "%s", text);
            out_repeat(&line, ' ', right ? 0 : space);
        }
        while (line.size && line.at[line.size - 1] == ' ')
            line.size--;
        out_put(p->out, "%s\n", out_string(&line));
    }
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
    if (p->colour)
        out_put(p->out, "\x1b[1m%s\x1b[0m\n", plain);
    else
        out_put(p->out, "%s\n", plain);
    int width = markup_columns(text_of(plain));
    for (int i = 0; i < width && i < p->columns; i++)
        out_put(p->out, "─");
    out_char(p->out, '\n');
}

static void put_fact(const struct sheet *p, const char *name, const char *value, const char *range)
{
    enum { NAMES = 22 };
    out_put(p->out, "  %-*s ", NAMES - 2, name);
    int column = markup_columns(text_of(name)) + 3;
    put_from(p, text_format(p->arena, "%s (%s)", value, range), NAMES + 1,
             column > NAMES + 1 ? column : NAMES + 1);
}

static void put_answer(const struct sheet *p, const struct report_section *s)
{
    if (!s->big)
        return;
    out_char(p->out, '\n');
    put_fact(p, s->unit, s->big, s->range);
    for (size_t i = 0; i < s->fact_count; i++)
        put_fact(p, s->facts[i].name, s->facts[i].value, s->facts[i].range);
}

void report_text(struct out *out, struct arena *arena, const struct report_input *input,
                 int columns, bool colour)
{
    struct report_page page;
    struct sheet p = { out, arena, columns < 60 ? 60 : columns, colour };
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
