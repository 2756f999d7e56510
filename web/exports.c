// SPDX-License-Identifier: Apache-2.0
// The functions that the page calls: text in, text out, the same documents as the command line.
//
//     at = allocate(size); … write the request there …
//     input(at, size); code = plan(); text = result() … result() + result_size()
//
// The code is the command line's exit code; after a failure the result contains the message. form()
// returns the tables of the form, hosts() the offers for the last plan, sections() both as report
// sections; compare_with() sets the plan to compare with. Dropped files:
//
//     tokenizer(), config(), chat_template() each store the input; data_begin() reads their names
//     data_file(); at = data_room(size); data_push(size, ended) …; data_end()
//
// From then on, until data_forget(), plans use that data. data_profile() does the same with a
// profile document.

#include "base/embedded.h"
#include "core/hosting/hosting.h"
#include "core/report/report.h"
#include "web/dropped.h"

#include <stdio.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(#name)))

static struct arena lasting, passing, kept; // the catalogs; one request; tokenizer and template
static struct plan_data data;
static struct text in;
static struct out out;
static struct dropped dropped;
static bool measured; // dropped.profile has the token count
static struct text tokenizer_file, config_file, template_file;
static int64_t positions; // of the model that the files are counted for; 0: not known
static struct text plan_document, profile_document, hosts_document; // of the last request
static struct text reference; // the plan to compare with; size 0: none
static struct arena documents, references;

EXPORT(allocate) char *allocate(size_t size);
EXPORT(input) void input(const char *at, size_t size);
EXPORT(result) const char *result(void);
EXPORT(result_size) size_t result_size(void);
EXPORT(form) int form(void);
EXPORT(plan) int plan(void);
EXPORT(hosts) int hosts(void);
EXPORT(compare_with) void compare_with(void);
EXPORT(sections) int sections(void);
EXPORT(tokenizer) void tokenizer(void);
EXPORT(config) void config(void);
EXPORT(chat_template) void chat_template(void);
EXPORT(data_begin) int data_begin(void);
EXPORT(data_file) int data_file(void);
EXPORT(data_room) char *data_room(size_t size);
EXPORT(data_push) int data_push(size_t size, bool ended);
EXPORT(data_example) int data_example(void);
EXPORT(data_end) int data_end(void);
EXPORT(data_profile) int data_profile(void);
EXPORT(data_forget) void data_forget(void);

char *allocate(size_t size)
{
    arena_release(&passing);
    out = (struct out){ 0 };
    return arena_alloc(&passing, size + 1);
}

void input(const char *at, size_t size)
{
    in = (struct text){ at, size };
    out = (struct out){ .arena = &passing };
}

const char *result(void)
{
    return out_string(&out);
}

size_t result_size(void)
{
    return out.size;
}

// Replaces the result by the error message, if there was an error.
static int answer(enum err err)
{
    if (!err || err == ERR_ANSWER)
        return (int)err;
    struct json_writer w = { .out = &out };
    out.size = 0;
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "error");
    json_put_count(&w, "version", 1);
    json_put_count(&w, "code", err);
    json_put_string(&w, "text", error_text());
    json_close(&w, '}');
    return (int)err;
}

static enum err open_data(void)
{
    return lasting.block ? OK : plan_open(&data, &lasting, NULL, 0);
}

// --- the form ----------------------------------------------------------------

static void put_fields(struct json_writer *w, const char *title, const struct field *fields,
                       const void *usual)
{
    json_open(w, NULL, '{');
    json_put_string(w, "title", title);
    json_open(w, "fields", '[');
    for (const struct field *field = fields; field->name; field++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", field->name);
        json_put_string(w, "kind", field_kinds[field->kind].name);
        json_put_string(w, "help", field->help);
        if (field->choices) {
            json_open(w, "choices", '[');
            for (const char *const *choice = field->choices; *choice; choice++)
                json_put_string(w, NULL, *choice);
            json_close(w, ']');
        }
        if (field_known(field, usual) && field_number(field, usual) != PLAN_NOT_GIVEN)
            json_put_string(w, "usual", field_spell(field, usual, &passing));
        json_close(w, '}');
    }
    json_close(w, ']');
    json_close(w, '}');
}

static void put_names(struct json_writer *w)
{
    json_open(w, "names", '{');
    json_open(w, "model", '[');
    for (size_t i = 0; i < data.catalog.model_count; i++)
        json_put_string(w, NULL, data.catalog.models[i].name);
    json_close(w, ']');
    json_open(w, "gpu", '[');
    for (size_t i = 0; i < data.catalog.gpu_count; i++)
        json_put_string(w, NULL, data.catalog.gpus[i].name);
    json_close(w, ']');
    json_open(w, "stack", '[');
    for (size_t i = 0; i < data.stack_count; i++)
        json_put_string(w, NULL, data.stacks[i].name);
    json_close(w, ']');
    json_close(w, '}');
}

int form(void)
{
    if (open_data())
        return answer(ERR_BUG);
    const struct plan_request usual = plan_request_default();
    struct json_writer w = { .out = &out };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "form");
    json_put_count(&w, "version", 1);
    json_open(&w, "groups", '[');
    put_fields(&w, "Job and hardware", plan_fields, &usual);
    put_fields(&w, "Recipe", recipe_fields, &usual.recipe);
    json_close(&w, ']');
    put_names(&w);
    json_close(&w, '}');
    return OK;
}

// --- plans -------------------------------------------------------------------

static void keep_document(struct text *document, struct text text)
{
    document->at = arena_copy(&documents, text.at, text.size);
    document->size = text.size;
}

// Of a model of the catalog; 0: it is not there, or the name is of several.
static int64_t positions_of(const char *model)
{
    const struct model *found;
    bool known = model && !catalog_model(&found, &data.catalog, model);
    return known ? found->max_positions : 0;
}

static enum err make(void)
{
    TRY(open_data());
    struct plan_request request;
    TRY(plan_request_read(&request, &passing, in, "request"));
    if (measured) {
        struct profile profile = dropped.profile;
        struct lengths lengths = dropped.lengths;
        lengths.arena = &passing;
        request.positions = positions_of(request.model);
        if (lengths.count && request.context == PLAN_NOT_GIVEN &&
            request.positions == profile.settings.positions) { // finish() has found it already
            request.context = profile.windows.rows[profile.windows.recommended].context;
            request.context_from_data = true;
        }
        TRY(plan_request_measure(&request, &passing, &profile, &lengths));
    }
    struct plan *made = ARENA_NEW(&passing, struct plan, 1);
    TRY(plan_make(made, &passing, &data, &request));
    plan_write(made, &passing, &out);
    return plan_verdict(made);
}

int plan(void)
{
    enum err err = make();
    if (err == OK || err == ERR_ANSWER) {
        arena_release(&documents);
        hosts_document = (struct text){ 0 };
        keep_document(&plan_document, out_view(&out));
        if (measured) {
            struct out text = { .arena = &documents };
            struct json_writer w = { .out = &text };
            profile_write(&dropped.profile, &w);
            profile_document = out_view(&text);
        }
    }
    return answer(err);
}

// Evaluates all offers for the last plan, as `gpuhours hosts --plan` does with its document.
static enum err find_hosts(void)
{
    struct json tree;
    TRY(json_read(&tree, &passing, in, "hosts"));
    struct hosting_request request = hosting_request_default();
    request.today = text_copy(&passing, json_get_text(&tree, "today"));
    struct plan_request job;
    struct hosting_document document;
    TRY(hosting_read_plan(&job, &document, &passing, plan_document, "this plan"));
    hosting_keep_run(&job, &document, &passing);
    job.search = false;
    struct plan *made = ARENA_NEW(&passing, struct plan, 1);
    TRY(plan_make(made, &passing, &data, &job));
    struct offers offers;
    struct hosting_input input = { .plan = made, .offers = &offers, .request = &request };
    struct billing *billing;
    struct managed *managed;
    offers_of_catalog(&offers, &passing, &data.catalog);
    TRY(offers_billing(&billing, &input.billing_count, &passing, embedded_file("billing.csv"),
                       "billing.csv"));
    input.billing = billing;
    TRY(hosting_read_managed(&managed, &input.managed_count, &passing, embedded_file("managed.csv"),
                             "managed.csv"));
    input.managed = managed;
    hosting_adopt(&input, made, &document);
    struct hosting hosting;
    TRY(hosting_make(&hosting, &passing, &input));
    if (!hosting.count)
        return fail(ERR_INPUT, "%s", hosting_explain_none(&hosting, &passing));
    hosting_write(&hosting, &passing, &out);
    keep_document(&hosts_document, out_view(&out));
    return hosting.recommended ? OK : ERR_ANSWER;
}

int hosts(void)
{
    return answer(find_hosts());
}

// The input is a plan's document; later plans are compared with it.
void compare_with(void)
{
    arena_release(&references);
    reference.at = arena_copy(&references, in.at, in.size);
    reference.size = in.size;
}

static enum err write_comparison(void)
{
    struct report_input report = { 0 };
    TRY(report_add(&report, &passing, reference, "Report"));
    TRY(report_add(&report, &passing, plan_document, "What-if"));
    report_sections(&out, &passing, &report, "compare");
    return OK;
}

// The sections with these ids, or all; "compare" is the comparison with the reference plan.
static enum err write_sections(void)
{
    struct json tree;
    TRY(json_read(&tree, &passing, in, "sections"));
    const struct json *only = json_get(&tree, "only");
    struct report_input report = { 0 };
    if (!plan_document.size)
        return fail(ERR_USAGE, "no plan has been made yet");
    TRY(report_add(&report, &passing, plan_document, "this plan"));
    if (measured)
        TRY(report_add(&report, &passing, profile_document, "this data"));
    if (hosts_document.size)
        TRY(report_add(&report, &passing, hosts_document, "places"));
    if (!only)
        report_sections(&out, &passing, &report, NULL);
    for (size_t i = 0; only && only->kind == JSON_ARRAY && i < only->count; i++) {
        const char *id = text_copy(&passing, only->items[i].string);
        if (!strcmp(id, "compare"))
            TRY(write_comparison());
        else
            report_sections(&out, &passing, &report, id);
    }
    return OK;
}

int sections(void)
{
    return answer(write_sections());
}

// --- data --------------------------------------------------------------------

static void keep_file(struct text *file)
{
    file->at = arena_copy(&kept, in.at, in.size);
    file->size = in.size;
}

void tokenizer(void)
{
    keep_file(&tokenizer_file);
}

void config(void)
{
    keep_file(&config_file);
}

void chat_template(void)
{
    keep_file(&template_file);
}

void data_forget(void)
{
    measured = false;
    dropped_release(&dropped);
    arena_release(&kept);
    tokenizer_file = config_file = template_file = (struct text){ 0 };
}

static struct dropped_text named(const struct json *tree, const char *key, struct text file)
{
    struct text name = json_get_text(tree, key);
    return (struct dropped_text){ name.at ? text_copy(&passing, name) : NULL, file };
}

static enum err begin(void)
{
    struct json tree;
    TRY(json_read(&tree, &passing, in, "data"));
    struct dropped_options options = {
        .model = text_copy(&passing, json_get_text(&tree, "model")),
        .tokenizer = named(&tree, "tokenizer", tokenizer_file),
        .config = named(&tree, "config", config_file),
        .template = named(&tree, "template", template_file),
    };
    struct template_date *date = &options.date;
    const char *day = text_copy(&passing, json_get_text(&tree, "date"));
    if (sscanf(day, "%d-%d-%d", &date->year, &date->month, &date->day) != 3)
        return fail(ERR_USAGE, "date is \"%s\", must be a day like 2026-08-22", day);
    TRY(open_data());
    positions = positions_of(options.model);
    return dropped_open(&dropped, &options);
}

int data_begin(void)
{
    measured = false;
    enum err err = begin();
    arena_release(&kept);
    tokenizer_file = config_file = template_file = (struct text){ 0 };
    return answer(err);
}

int data_file(void)
{
    struct json tree;
    enum err err = json_read(&tree, &passing, in, "data");
    if (!err)
        err = dropped_file(&dropped, text_copy(&passing, json_get_text(&tree, "name")),
                           (int64_t)json_get_number(&tree, "bytes", 0));
    return answer(err);
}

char *data_room(size_t size)
{
    return dropped_room(&dropped, size);
}

int data_push(size_t size, bool ended)
{
    return answer(dropped_push(&dropped, size, ended));
}

// Counts the example data that is compiled in.
int data_example(void)
{
    struct text example = embedded_file("example.jsonl");
    enum err err = dropped_file(&dropped, "example.jsonl", (int64_t)example.size);
    if (!err) {
        memcpy(dropped_room(&dropped, example.size), example.at, example.size);
        err = dropped_push(&dropped, example.size, true);
    }
    return answer(err);
}

static enum err finish(void)
{
    const struct profile_settings settings = { .batching = BATCHING_LONGEST,
                                               .positions = positions };
    const struct lengths *list = dropped.lengths.count ? &dropped.lengths : NULL;
    TRY(profile_finish(&dropped.profile, &dropped.arena, list, &settings));
    struct json_writer w = { .out = &out };
    profile_write(&dropped.profile, &w);
    out_char(&out, '\n');
    measured = true;
    return OK;
}

int data_end(void)
{
    enum err err = dropped_close(&dropped);
    return answer(err ? err : finish());
}

static enum err read_profile(void)
{
    dropped_release(&dropped);
    measured = false;
    struct text copy = { arena_copy(&dropped.arena, in.at, in.size), in.size };
    TRY(profile_read(&dropped.profile, &dropped.arena, copy, "profile"));
    measured = true;
    return OK;
}

int data_profile(void)
{
    return answer(read_profile());
}
