// report_internal: what the files of report share: a page of sections, described once.
//
// Texts in it are as they came, also hostile ones: each form escapes what it writes.

#pragma once

#include "core/chart/chart.h"
#include "core/report/report.h"

struct report_table {
    const char *caption;
    size_t columns, rows, room;
    const char **heads; // columns
    uint32_t numeric;   // bit i: column i holds numbers
    const char **cells; // rows × columns
    size_t marked;      // the row to look at, from 1; 0: none
};

enum report_block_kind { REPORT_PARAGRAPH, REPORT_FIGURE, REPORT_TABLE, REPORT_MISTAKES };

struct report_block {
    enum report_block_kind kind;
    const char *text;           // of a paragraph
    struct chart *chart;        // of a figure
    struct report_table *table; // of a table; of mistakes: what, remedy
    const char *folded;         // a table behind these words; NULL: open
};

struct report_fact { // a number with its name, on top
    const char *name, *value, *range;
    int mood; // 1 good, -1 bad
};

enum { REPORT_BLOCKS = 16, REPORT_FACTS = 8, REPORT_SECTIONS = 400 };

struct report_section {
    const char *id, *part, *title, *lead;
    bool heads; // begins what belongs to one document among several
    // The answer alone has these.
    const char *big, *unit, *range;
    struct report_fact facts[REPORT_FACTS];
    size_t fact_count;
    struct report_block blocks[REPORT_BLOCKS];
    size_t count;
};

struct report_page {
    struct arena *arena;
    const char *title, *kicker;
    struct report_section *sections;
    size_t count;
};

void report_make(struct report_page *page, struct arena *arena, const struct report_input *input);

// What each kind of document adds.
void report_plan(struct report_page *page, const struct json *plan, const struct json *profile);
void report_profile(struct report_page *page, const struct json *profile, double window);
void report_pilot(struct report_page *page, const struct json *pilot, const struct json *plan);
void report_hosts(struct report_page *page, const struct json *hosts);
void report_run(struct report_page *page, const struct json *run);
void report_step(struct report_page *page, const struct json *plan);
void report_compare(struct report_page *page, const struct report_input *input);

// --- building ----------------------------------------------------------------

struct report_section *report_open(struct report_page *page, const char *id, const char *part,
                                   const char *title);
void report_say(struct report_section *section, const char *text);
// Copies the chart; its points and names stay the caller's, in the page's arena.
void report_draw(struct report_page *page, struct report_section *section, struct chart chart);
struct report_table *report_tabulate(struct report_page *page, struct report_section *section,
                                     const char *const *heads, size_t columns, uint32_t numeric);
void report_row(struct report_page *page, struct report_table *table, const char *const *cells);

// --- reading -----------------------------------------------------------------

// Of "memory.total_bytes"; NAN, "" and NULL where the document has none.
double report_number(const struct json *tree, const char *path);
const char *report_word(struct arena *arena, const struct json *tree, const char *path);
const struct json *report_at(const struct json *tree, const char *path);
size_t report_items(const struct json *list); // 0 of what is no list
// "2.1 to 3.4"; "" where an end is not known.
const char *report_between(struct arena *arena, const struct json *range, enum chart_unit unit);
