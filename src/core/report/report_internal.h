// SPDX-License-Identifier: Apache-2.0
// report_internal: declarations shared by the files of report: a page as a list of sections.
//
// Texts in it are unescaped and may be hostile: each output format escapes what it writes.

#pragma once

#include "core/chart/chart.h"
#include "core/report/report.h"

struct report_table {
    size_t columns, rows, room;
    const char **heads; // columns
    uint32_t numeric;   // bit i: column i contains numbers
    const char **cells; // rows × columns
    size_t marked;      // the highlighted row, from 1; 0: none
};

enum report_block_kind { REPORT_PARAGRAPH, REPORT_FIGURE, REPORT_TABLE, REPORT_WARNINGS };

struct report_block {
    enum report_block_kind kind;
    const char *text;           // of a paragraph
    struct chart *chart;        // of a figure
    struct report_table *table; // of a table; of warnings: code, text
    const char *folded;         // summary of a collapsed table; NULL: not collapsed
};

struct report_fact { // a number with its name, under the headline
    const char *name, *value, *range;
    int mood; // 1 good, -1 bad
};

enum { REPORT_BLOCKS = 16, REPORT_FACTS = 8, REPORT_SECTIONS = 400 };

struct report_section {
    const char *id, *part, *title, *lead;
    bool heads; // the first section of one of several documents
    // Of the answer only: the headline.
    const char *big, *unit, *device, *range;
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

// Other documents that belong to a plan; NULL where there are none.
struct report_companions {
    const struct json *profile, *pilot;
    const char *plan_name, *pilot_name;
};

// The sections of each kind of document.
void report_plan(struct report_page *page, const struct json *plan,
                 const struct report_companions *with);
void report_memory(struct report_page *page, const struct json *plan);
struct report_fact report_memory_fact(struct arena *arena, const struct json *plan);
void report_profile(struct report_page *page, const struct json *profile, double window);
void report_pilot(struct report_page *page, const struct json *pilot, const struct json *plan);
void report_hosts(struct report_page *page, const struct json *hosts);
void report_run(struct report_page *page, const struct json *run);
void report_step(struct report_page *page, const struct json *plan);
void report_compare(struct report_page *page, const struct report_input *input);

// --- building ----------------------------------------------------------------

struct report_section *report_open(struct report_page *page, const char *id, const char *part,
                                   const char *title);
void report_add_text(struct report_section *section, const char *text);
// Copies the chart, but not its points and names: they must live in the page's arena.
void report_add_chart(struct report_page *page, struct report_section *section, struct chart chart);
struct report_table *report_tabulate(struct report_page *page, struct report_section *section,
                                     const char *const *heads, size_t columns, uint32_t numeric);
void report_row(struct report_page *page, struct report_table *table, const char *const *cells);

// --- reading -----------------------------------------------------------------

// The member at a path such as "memory.total_bytes"; NAN, "" or NULL if there is none.
double report_number(const struct json *tree, const char *path);
const char *report_word(struct arena *arena, const struct json *tree, const char *path);
const struct json *report_at(const struct json *tree, const char *path);
size_t report_items(const struct json *list); // 0 if it is not a list
// "2.1 – 3.4"; "" if an end is unknown.
const char *report_between(struct arena *arena, const struct json *range, enum chart_unit unit);
