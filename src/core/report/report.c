// SPDX-License-Identifier: Apache-2.0
// Reads documents and builds the page of sections from them.

#include "core/report/report_internal.h"

#include "base/markup.h"

#include <math.h>
#include <string.h>

static const char *const kind_names[] = { "plan", "profile", "pilot", "hosts", "run" };

// --- documents ---------------------------------------------------------------

enum err report_add(struct report_input *input, struct arena *arena, struct text json,
                    const char *name)
{
    struct report_document document = {
        .name = markup_plain(arena, text_of(name), MARKUP_NAME),
        .text = json,
    };
    if (input->count == REPORT_DOCUMENTS)
        return fail(ERR_USAGE, "%s: a report has at most %d documents", name, REPORT_DOCUMENTS);
    TRY(json_read(&document.tree, arena, json, name));
    struct text kind = json_get_text(&document.tree, "kind");
    if (document.tree.kind != JSON_OBJECT || !kind.at)
        return fail(ERR_INPUT,
                    "%s: is not a gpuhours document; plan, profile, pilot and hosts write them "
                    "with --json",
                    name);
    int found = -1;
    for (int i = 0; i <= REPORT_RUN; i++)
        if (text_is(kind, kind_names[i]))
            found = i;
    if (found < 0)
        return fail(ERR_INPUT,
                    "%s: has kind \"%s\"; report shows plan, profile, pilot, hosts "
                    "and run",
                    name, markup_plain(arena, kind, 40));
    double version = json_get_number(&document.tree, "version", 1);
    if (version != 1)
        return fail(ERR_INPUT, "%s: is a %s of version %g; this program reads version 1", name,
                    kind_names[found], version);
    document.kind = (enum report_kind)found;
    input->documents[input->count++] = document;
    return OK;
}

const struct json *report_at(const struct json *tree, const char *path)
{
    struct text rest = text_of(path), key;
    while (tree && text_next(&rest, '.', &key)) {
        char name[64] = "";
        if (key.size >= sizeof name || tree->kind != JSON_OBJECT)
            return NULL;
        memcpy(name, key.at, key.size);
        tree = json_get(tree, name);
    }
    return tree;
}

double report_number(const struct json *tree, const char *path)
{
    const struct json *at = report_at(tree, path);
    return at && at->kind == JSON_NUMBER ? at->number : NAN;
}

const char *report_word(struct arena *arena, const struct json *tree, const char *path)
{
    const struct json *at = report_at(tree, path);
    if (!at || at->kind != JSON_STRING)
        return "";
    struct text text = at->string;
    text.size = text.size < 4096 ? text.size : 4096; // no form shows more
    return text_copy(arena, text);
}

size_t report_items(const struct json *list)
{
    return list && list->kind == JSON_ARRAY ? list->count : 0;
}

const char *report_between(struct arena *arena, const struct json *range, enum chart_unit unit)
{
    double low = report_number(range, "p10"), high = report_number(range, "p90");
    return isnan(low) || isnan(high) ? ""
                                     : text_format(arena, "%s – %s", chart_spell(arena, low, unit),
                                                   chart_spell(arena, high, unit));
}

// --- building ----------------------------------------------------------------

struct report_section *report_open(struct report_page *page, const char *id, const char *part,
                                   const char *title)
{
    if (page->count == REPORT_SECTIONS) // more than 32 documents can have: not shown
        return ARENA_NEW(page->arena, struct report_section, 1);
    struct report_section *section = &page->sections[page->count++];
    *section = (struct report_section){ .id = id, .part = part, .title = title };
    for (size_t i = 0, twin = 2; i + 1 < page->count; i++)
        if (!strcmp(page->sections[i].id, section->id)) { // ids are unique
            section->id = text_format(page->arena, "%s-%zu", id, twin++);
            i = (size_t)-1;
        }
    return section;
}

static void add_block(struct report_section *section, struct report_block block)
{
    if (section->count < REPORT_BLOCKS)
        section->blocks[section->count++] = block;
}

void report_add_text(struct report_section *section, const char *text)
{
    add_block(section, (struct report_block){ .kind = REPORT_PARAGRAPH, .text = text });
}

void report_add_chart(struct report_page *page, struct report_section *section, struct chart chart)
{
    struct chart *copy = ARENA_NEW(page->arena, struct chart, 1);
    *copy = chart;
    add_block(section, (struct report_block){ .kind = REPORT_FIGURE, .chart = copy });
}

struct report_table *report_tabulate(struct report_page *page, struct report_section *section,
                                     const char *const *heads, size_t columns, uint32_t numeric)
{
    struct report_table *table = ARENA_NEW(page->arena, struct report_table, 1);
    *table = (struct report_table){ .columns = columns, .numeric = numeric };
    table->heads = ARENA_NEW(page->arena, const char *, columns);
    memcpy(table->heads, heads, columns * sizeof *heads);
    add_block(section, (struct report_block){ .kind = REPORT_TABLE, .table = table });
    return table;
}

void report_row(struct report_page *page, struct report_table *table, const char *const *cells)
{
    size_t width = table->columns * sizeof *cells;
    table->cells = arena_room(page->arena, table->cells, width, table->rows, &table->room);
    memcpy(table->cells + table->rows++ * table->columns, cells, width);
}

// --- the page ----------------------------------------------------------------

static const struct report_document *first(const struct report_input *input, enum report_kind kind)
{
    for (size_t i = 0; i < input->count; i++)
        if (input->documents[i].kind == kind)
            return &input->documents[i];
    return NULL;
}

static size_t count_of(const struct report_input *input, enum report_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < input->count; i++)
        count += input->documents[i].kind == kind;
    return count;
}

static void name_page(struct report_page *page, const struct report_input *input)
{
    size_t plans = count_of(input, REPORT_PLAN);
    const struct report_document *plan = first(input, REPORT_PLAN);
    page->kicker = "gpuhours report";
    if (plans > 1)
        page->title = text_format(page->arena, "%zu plans compared", plans);
    else if (plan)
        page->title = text_format(page->arena, "%s, %s on %.0f × %s",
                                  report_word(page->arena, &plan->tree, "configuration.model"),
                                  report_word(page->arena, &plan->tree, "configuration.method"),
                                  report_number(&plan->tree, "configuration.gpus"),
                                  report_word(page->arena, &plan->tree, "configuration.gpu"));
    else
        page->title = input->count == 1 ? input->documents[0].name : "Measurements";
}

static void add_document(struct report_page *page, const struct report_input *input,
                         const struct report_document *document)
{
    const struct report_document *plan = first(input, REPORT_PLAN);
    const struct report_document *profile = first(input, REPORT_PROFILE);
    const struct report_document *pilot = first(input, REPORT_PILOT);
    bool alone = count_of(input, REPORT_PLAN) < 2;
    const struct json *tree = &document->tree;
    switch (document->kind) {
    case REPORT_PLAN:
        report_plan(
            page, tree,
            &(struct report_companions){ .profile = alone && profile ? &profile->tree : NULL,
                                         .pilot = alone && pilot ? &pilot->tree : NULL,
                                         .plan_name = document->name,
                                         .pilot_name = pilot ? pilot->name : "" });
        break;
    case REPORT_PROFILE:
        if (!alone || profile != document || !plan) // else it is shown with the plan
            report_profile(page, tree,
                           plan ? report_number(&plan->tree, "configuration.context") : NAN);
        break;
    case REPORT_PILOT: report_pilot(page, tree, plan ? &plan->tree : NULL); break;
    case REPORT_HOSTS: report_hosts(page, tree); break;
    case REPORT_RUN: report_run(page, tree); break;
    }
}

void report_make(struct report_page *page, struct arena *arena, const struct report_input *input)
{
    *page = (struct report_page){ .arena = arena };
    page->sections = ARENA_NEW(arena, struct report_section, REPORT_SECTIONS);
    name_page(page, input);
    bool several = count_of(input, REPORT_PLAN) > 1;
    if (several)
        report_compare(page, input);
    for (int kind = 0; kind <= REPORT_RUN; kind++)
        for (size_t i = 0; i < input->count; i++) {
            const struct report_document *document = &input->documents[i];
            if ((int)document->kind != kind)
                continue;
            size_t before = page->count;
            add_document(page, input, document);
            if (before < page->count && (several || count_of(input, document->kind) > 1)) {
                page->sections[before].heads = true;
                page->sections[before].part =
                    text_format(arena, "%s: %s", kind_names[kind], document->name);
            }
        }
}
