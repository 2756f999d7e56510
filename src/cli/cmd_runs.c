// SPDX-License-Identifier: Apache-2.0
// gpuhours runs: the ledger of past plans, pilots and runs, and how often their ranges held.

#include "cli/terminal/print.h"
#include "cli/data.h"
#include "cli/runs.h"
#include "core/measured/plausible.h"
#include "host/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static struct request {
    const char *model, *stack, *gpu, *kind, *since;
    bool csv, document;
    int64_t most;
} request;

static const struct field request_fields[] = {
    FIELD(request, model, TEXT, "only entries of this model", .value = "MODEL", .fallback = "all"),
    FIELD(request, stack, TEXT, "only entries of this stack", .value = "STACK", .fallback = "all"),
    FIELD(request, gpu, TEXT, "only entries of this GPU", .value = "GPU", .fallback = "all"),
    FIELD(request, kind, TEXT, "only entries of this kind: profile, plan, pilot or run",
          .value = "KIND", .fallback = "all"),
    FIELD(request, since, TEXT, "only entries since a date, or of the last days, e.g. 7d",
          .value = "DATE", .fallback = "all"),
    FIELD(request, most, COUNT, "show at most this many, newest first", .fallback = "all"),
    FIELD(request, csv, FLAG, "export: a CSV table without the documents"),
    FIELD(request, document, FLAG, "show: print the stored document"),
    { 0 },
};

static struct runs_actual actual;

static const struct options *list_options(struct arena *arena)
{
    static const struct options groups[] = { OPTIONS("entries", request_fields, &request),
                                             OPTIONS("runs actual", runs_actual_fields, &actual),
                                             { 0 } };
    (void)arena;
    request = (struct request){ 0 };
    field_clear(runs_actual_fields, &actual);
    return groups;
}

struct entries {
    struct history_entry *at;
    size_t count;
};

// --- finding -----------------------------------------------------------------

static enum err spell_since(const char **out, struct arena *arena, const char *since)
{
    double seconds;
    size_t size = strlen(since);
    if (size >= 10 && since[4] == '-' && since[7] == '-')
        return *out = since, OK;
    if (text_read_seconds(&seconds, text_of(since)) || !(seconds >= 0 && seconds <= 1e11))
        return fail(ERR_USAGE,
                    "--since is \"%s\", must be a date such as 2026-11-01 or a time such "
                    "as 7d",
                    since);
    time_t then = time(NULL) - (time_t)seconds;
    struct tm t;
    if (!gmtime_r(&then, &t))
        return fail(ERR_USAGE, "--since is \"%s\": that is too long ago", since);
    *out = text_format(arena, "%04d-%02d-%02dT%02d:%02d:%02dZ", t.tm_year + 1900, t.tm_mon + 1,
                       t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
    return OK;
}

static enum err find(struct entries *out, struct ledger *ledger, struct arena *arena)
{
    struct ledger_filter filters[8] = { 0 };
    size_t count = 0;
    *out = (struct entries){ 0 };
    if (!ledger)
        return OK;
    if (request.model)
        filters[count++] = (struct ledger_filter){ "model", "=", request.model };
    if (request.stack)
        filters[count++] = (struct ledger_filter){ "stack", "=", request.stack };
    if (request.gpu)
        filters[count++] = (struct ledger_filter){ "gpu", "=", request.gpu };
    if (request.kind)
        filters[count++] = (struct ledger_filter){ "kind", "=", request.kind };
    if (request.since) {
        const char *from = NULL;
        TRY(spell_since(&from, arena, request.since));
        filters[count++] = (struct ledger_filter){ "at", ">=", from };
    }
    void *rows;
    TRY(ledger_find(ledger, arena, history_fields, sizeof *out->at, filters, (size_t)request.most,
                    &rows, &out->count));
    ledger_entry_warn(ledger);
    out->at = rows;
    return OK;
}

// The entry with this id, else the newest of this name; of that kind only, unless kind is NULL.
static enum err find_one(const struct history_entry **out, struct ledger *ledger,
                         struct arena *arena, const char *word, const char *kind)
{
    void *rows = NULL;
    size_t count = 0;
    *out = NULL;
    bool is_id = *word && !word[strspn(word, "0123456789")]; // a name may be "8b"
    struct ledger_filter that[] = { { is_id ? "id" : "name", "=", word },
                                    { is_id || !kind ? NULL : "kind", "=", kind },
                                    { 0 } };
    if (ledger) {
        TRY(ledger_find(ledger, arena, history_fields, sizeof **out, that, 1, &rows, &count));
        ledger_entry_warn(ledger);
    }
    if (!count)
        return fail(ERR_USAGE, "the ledger has no %s %s \"%s\"; gpuhours runs lists all",
                    kind ? kind : "entry", is_id ? "with id" : "named", word);
    *out = rows;
    if (kind && strcmp(history_kinds[(*out)->kind], kind))
        return fail(ERR_USAGE, "entry %s is a %s; give the id or name of a %s", word,
                    history_kinds[(*out)->kind], kind);
    return OK;
}

static enum err print(const struct out *out, const struct command_line *line)
{
    if (line->common.json)
        print_data(out_view(out));
    else
        print_text(out);
    return OK;
}

// --- actions -----------------------------------------------------------------

static enum err list(struct command_line *line, struct ledger *ledger, struct out *out)
{
    struct entries entries;
    TRY(find(&entries, ledger, line->arena));
    if (line->common.json)
        history_write(entries.at, entries.count, out);
    else if (entries.count)
        runs_list(entries.at, entries.count, line->arena, out);
    else
        out_put(out, ledger ? "The ledger has no such entries.\n"
                            : "The ledger is empty; gpuhours plan, profile, pilot and train add to "
                              "it.\n");
    return OK;
}

static enum err show(struct command_line *line, struct ledger *ledger, struct out *out)
{
    if (line->positional_count != 2)
        return fail(ERR_USAGE, "show needs one id or name; gpuhours runs lists them");
    const struct history_entry *entry;
    TRY(find_one(&entry, ledger, line->arena, line->positional[1], NULL));
    if (request.document && !entry->document)
        return fail(ERR_ANSWER, "entry %s has no document", line->positional[1]);
    struct entries all;
    TRY(find(&all, ledger, line->arena));
    if (request.document)
        out_put(out, "%s\n", entry->document);
    else if (line->common.json)
        history_write(entry, 1, out);
    else
        runs_show(entry, all.at, all.count, line->arena, out);
    return OK;
}

static enum err compare(struct command_line *line, struct ledger *ledger, struct out *out)
{
    size_t count = (size_t)line->positional_count - 1;
    if (count < 2 || count > 16)
        return fail(ERR_USAGE, "compare needs 2 to 16 ids or names; gpuhours runs lists them");
    const struct history_entry *entries[16];
    struct history_entry copies[16];
    for (size_t i = 0; i < count; i++) {
        TRY(find_one(&entries[i], ledger, line->arena, line->positional[i + 1], NULL));
        copies[i] = *entries[i];
    }
    if (line->common.json)
        history_write(copies, count, out);
    else
        runs_compare(entries, count, line->arena, out);
    return OK;
}

static enum err write_export(struct command_line *line, struct ledger *ledger, struct out *out)
{
    struct entries entries;
    TRY(find(&entries, ledger, line->arena));
    if (request.csv)
        history_write_csv(entries.at, entries.count, line->arena, out);
    else
        history_write(entries.at, entries.count, out);
    return OK;
}

static enum err coverage(struct command_line *line, struct ledger *ledger, struct out *out)
{
    struct entries entries;
    TRY(find(&entries, ledger, line->arena));
    runs_coverage(entries.at, entries.count, line->arena, out, line->common.json);
    return OK;
}

static enum err remove_entries(struct command_line *line, struct ledger *ledger, struct out *out)
{
    if (line->positional_count < 2)
        return fail(ERR_USAGE, "delete needs ids; gpuhours runs lists them");
    const struct history_entry *entry; // checks all before it deletes the first
    int64_t id;
    for (int i = 1; i < line->positional_count; i++) {
        if (text_read_count(&id, text_of(line->positional[i])))
            return fail(ERR_USAGE, "delete needs ids, not \"%s\"; gpuhours runs lists them",
                        line->positional[i]);
        TRY(find_one(&entry, ledger, line->arena, line->positional[i], NULL));
    }
    for (int i = 1; i < line->positional_count; i++) {
        bool found;
        TRY(find_one(&entry, ledger, line->arena, line->positional[i], NULL));
        TRY(ledger_delete(ledger, entry->id, &found));
        out_put(out, "deleted %lld, a %s of %.10s%s\n", (long long)entry->id,
                history_kinds[entry->kind], entry->at,
                history_lacks(entry) ? "" : "; later plans no longer learn from it");
    }
    return OK;
}

// --- import ------------------------------------------------------------------

static enum err import_ledger(struct entries *out, struct arena *arena, const char *path)
{
    struct ledger *other;
    struct ledger_options options = { .path = path, .wait_seconds = 5, .copied = true };
    TRY(ledger_open(&other, &options));
    size_t lost;
    void *rows;
    enum err err =
        ledger_salvage(other, arena, history_fields, sizeof *out->at, &rows, &out->count, &lost);
    ledger_close(other);
    TRY(err);
    out->at = rows;
    if (lost)
        print_note("%s: %zu %s could not be read", path, lost, lost == 1 ? "entry" : "entries");
    return OK;
}

// Leaves out measurements that no GPU reaches, each with its reason on standard error.
static enum err drop_implausible(struct entries *entries, const struct command_line *line,
                                 const char *path)
{
    struct catalog catalog;
    size_t kept = 0;
    TRY(data_open(&catalog, line));
    for (size_t i = 0; i < entries->count; i++) {
        const struct history_entry *e = &entries->at[i];
        if (!plausible_entry(
                &catalog, line->arena, e,
                text_format(line->arena, "%s: %s of %.10s", path, history_kinds[e->kind], e->at)))
            entries->at[kept++] = *e;
        else
            print_note("not imported: %s", error_text());
    }
    entries->count = kept;
    return OK;
}

static enum err import(struct command_line *line, struct ledger *ledger, struct out *out)
{
    if (line->positional_count != 2)
        return fail(ERR_USAGE,
                    "import needs a file: an export of gpuhours runs, or another ledger");
    const char *path = line->positional[1];
    struct file file;
    struct entries entries = { 0 };
    TRY(file_open(&file, path));
    bool is_ledger = file.text.size >= 16 && !memcmp(file.text.at, "SQLite format 3", 16);
    enum err err = OK;
    if (!is_ledger) {
        struct text copy = { arena_copy(line->arena, file.text.at, file.text.size),
                             file.text.size };
        err = history_read_all(&entries.at, &entries.count, line->arena, copy, path);
    }
    file_close(&file);
    TRY(err);
    for (size_t i = 0; i < entries.count / 2; i++) { // an export has the newest first
        struct history_entry *a = &entries.at[i], *b = &entries.at[entries.count - 1 - i], c = *a;
        *a = *b, *b = c;
    }
    if (is_ledger)
        TRY(import_ledger(&entries, line->arena, path));
    size_t added = 0, read = entries.count;
    TRY(drop_implausible(&entries, line, path));
    if (entries.count)
        TRY(ledger_add_all(ledger, history_fields, entries.at, sizeof *entries.at, entries.count,
                           &added));
    out_put(out, "%zu of %zu %s new\n", added, read, read == 1 ? "entry was" : "entries were");
    return OK;
}

// --- actual ------------------------------------------------------------------

static enum err read_plan(struct history_entry *out, struct arena *arena, const char *path)
{
    struct text copy;
    TRY(file_read(&copy, arena, path));
    TRY(history_read(out, arena, copy, path));
    if (out->kind != HISTORY_PLAN)
        return fail(ERR_INPUT, "%s: is a %s, must be a plan", path, history_kinds[out->kind]);
    return OK;
}

static enum err record_actual(struct command_line *line, struct ledger *ledger, struct out *out)
{
    struct history_entry plan, run;
    const struct history_entry *found = NULL;
    if (line->positional_count != (actual.plan ? 1 : 2))
        return fail(ERR_USAGE, "actual needs the id or name of a plan, or --plan FILE; and "
                               "--gpu-hours, --wall-hours, --tokens-per-second or --log");
    if (actual.plan) {
        TRY(read_plan(&plan, line->arena, actual.plan));
        TRY(ledger_entry_add_plan(ledger, line, &plan));
    } else {
        TRY(find_one(&found, ledger, line->arena, line->positional[1], "plan"));
        plan = *found;
    }
    struct out document = { .arena = line->arena };
    TRY(runs_actual_document(&document, line->arena, &actual, &plan));
    TRY(history_read(&run, line->arena, out_view(&document), "the run"));
    TRY(ledger_entry_add(ledger, line, &run, &plan));
    if (line->common.json)
        history_write(&run, 1, out);
    else
        runs_show(&run, &plan, 1, line->arena, out);
    return OK;
}

// --- the command -------------------------------------------------------------

static const char *const action_names[] = { "list",   "show",   "compare", "export", "coverage",
                                            "import", "delete", "actual",  NULL };
static const struct action {
    enum err (*run)(struct command_line *line, struct ledger *ledger, struct out *out);
    bool writes;
} actions[] = {
    { list, false },     { show, false },  { compare, false },       { write_export, false },
    { coverage, false }, { import, true }, { remove_entries, true }, { record_actual, true },
};
enum { ACTIONS = sizeof actions / sizeof *actions };
_Static_assert(sizeof action_names / sizeof *action_names == ACTIONS + 1, "a name for each action");

static enum err find_action(const struct action **out, const char *name)
{
    for (size_t i = 0; i < ACTIONS; i++) {
        *out = &actions[i];
        if (!strcmp(name, action_names[i]))
            return OK;
    }
    const char *near = text_nearest(text_of(name), action_names, ACTIONS);
    return fail(ERR_USAGE,
                "runs has no action \"%s\"%s%s%s; it has list, show, compare, export, import, "
                "delete, actual and coverage",
                name, near ? ", did you mean \"" : "", near ? near : "", near ? "\"" : "");
}

static enum err run(struct command_line *line)
{
    TRY(command_read(line, list_options(line->arena)));
    bool is_kind = !request.kind;
    for (int i = 0; history_kinds[i] && !is_kind; i++)
        is_kind = !strcmp(history_kinds[i], request.kind);
    if (!is_kind)
        return fail(ERR_USAGE, "--kind is \"%s\", must be profile, plan, pilot or run",
                    request.kind);
    const struct action *action;
    TRY(find_action(&action, line->positional_count ? line->positional[0] : "list"));
    struct ledger *ledger;
    TRY(ledger_entry_open(&ledger, line, action->writes));
    struct out out = { .arena = line->arena };
    enum err err = action->run(line, ledger, &out);
    ledger_close(ledger);
    TRY(err);
    return print(&out, line);
}

static const char *const first[] = { "model", "gpu",        "stack",     "kind", "since", "most",
                                     "plan",  "wall_hours", "gpu_hours", "log",  "csv",   NULL };

static const struct command_example examples[] = {
    { "the plans, pilots and runs of the last week", "gpuhours runs --since 7d" },
    { "how a planned run ended", "gpuhours runs actual --plan plan.json --wall-hours 3.5" },
    { "how often the 80 % ranges contained the result", "gpuhours runs coverage" },
    { "all entries, for a spreadsheet", "gpuhours runs export --csv >runs.csv" },
    { 0 },
};

const struct command command_runs = {
    .name = "runs",
    .summary = "list past plans, pilots and runs; how often ranges were right",
    .usage = "[list | show ID | compare ID... | export | import FILE | delete ID... | actual ID | "
             "coverage] [OPTION...]",
    .about =
        "Works on the ledger, a file in which plan, profile, pilot, watch and train store their "
        "results. runs actual records how a planned run ended; its measured speed narrows the "
        "range of later plans. runs coverage counts how often results were inside the 80 % range. "
        "show, compare, export, import and delete work on single entries. --ledger off neither "
        "stores nor uses entries.",
    .first = first,
    .words = action_names,
    .examples = examples,
    .run = run,
    .options = list_options,
};
