// SPDX-License-Identifier: Apache-2.0
// Opens the ledger for commands, adds their documents, and reads the runs that plans learn from.

#include "cli/ledger_entry.h"
#include "cli/terminal/print.h"

#include "core/measured/plausible.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double wait_seconds = 5;

static const char *now(struct arena *arena)
{
    time_t seconds = time(NULL);
    struct tm t;
    if (!gmtime_r(&seconds, &t))
        return "1970-01-01T00:00:00Z";
    return text_format(arena, "%04d-%02d-%02dT%02d:%02d:%02dZ", t.tm_year + 1900, t.tm_mon + 1,
                       t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
}

static bool is_off(const struct command_line *line)
{
    return line->common.ledger && !strcmp(line->common.ledger, "off");
}

// Whether a file could be created there: the nearest existing folder is writable.
static bool can_be_made(struct arena *arena, const char *path)
{
    char *folder = arena_copy(arena, path, strlen(path));
    struct stat about;
    for (char *slash; (slash = strrchr(folder, '/')) && slash > folder;) {
        *slash = 0;
        if (!stat(folder, &about))
            return S_ISDIR(about.st_mode) && !access(folder, W_OK);
    }
    return !access(*folder == '/' ? "/" : ".", W_OK);
}

enum err ledger_entry_open(struct ledger **out, const struct command_line *line, bool to_write)
{
    *out = NULL;
    const char *path;
    if (is_off(line))
        return fail(ERR_USAGE, "--ledger off: this command needs a ledger");
    ledger_path(&path, line->arena, line->common.ledger);
    if (!path)
        return fail(ERR_USAGE, "there is no home folder for the ledger; give --ledger FILE");
    struct ledger_options options = { .path = path,
                                      .wait_seconds = wait_seconds,
                                      .asked = line->common.ledger };
    if (!to_write && access(path, F_OK))
        return OK;
    options.copied = !to_write && (access(path, W_OK) || !can_be_made(line->arena, path));
    TRY(ledger_open(out, &options));
    if (ledger_notice(*out))
        print_note("%s", ledger_notice(*out));
    return OK;
}

void ledger_entry_warn(const struct ledger *ledger)
{
    size_t damaged = ledger_damaged(ledger);
    if (damaged)
        print_note("%zu %s of the ledger %s damaged and left out", damaged,
                   damaged == 1 ? "entry" : "entries", damaged == 1 ? "is" : "are");
}

// The newest plan with the entry's name, otherwise of its configuration; NULL: none.
static enum err find_plan(const struct history_entry **out, struct ledger *ledger,
                          struct arena *arena, const struct history_entry *entry)
{
    const char *columns[] = { "name", "key" };
    const char *values[] = { entry->name, entry->key };
    *out = NULL;
    for (int i = 0; i < 2 && !*out; i++) {
        if (!values[i])
            continue;
        struct ledger_filter like[] = { { "kind", "=", "plan" },
                                        { columns[i], "=", values[i] },
                                        { 0 } };
        void *rows;
        size_t count;
        TRY(ledger_find(ledger, arena, history_fields, sizeof(struct history_entry), like, 1, &rows,
                        &count));
        if (count)
            *out = rows;
    }
    return OK;
}

// The same plan under two names is two entries: each name goes on to stand for its own.
static enum err keep_names_apart(struct ledger *ledger, struct arena *arena,
                                 struct history_entry *entry)
{
    struct ledger_filter same[] = { { "uid", "=", entry->uid }, { 0 } };
    const struct history_entry *stored;
    void *rows;
    size_t count;
    if (entry->kind != HISTORY_PLAN || !entry->name)
        return OK;
    TRY(ledger_find(ledger, arena, history_fields, sizeof(struct history_entry), same, 1, &rows,
                    &count));
    stored = rows;
    if (count && stored->name && strcmp(stored->name, entry->name))
        history_seal_named(entry, arena);
    return OK;
}

// A plan was made when it was planned, not when its run was over.
static enum err keep_date(struct ledger *ledger, struct arena *arena, struct history_entry *entry)
{
    struct ledger_filter same[] = { { "uid", "=", entry->uid }, { 0 } };
    void *rows;
    size_t count;
    TRY(ledger_find(ledger, arena, history_fields, sizeof(struct history_entry), same, 1, &rows,
                    &count));
    if (count)
        entry->at = ((const struct history_entry *)rows)->at;
    return OK;
}

static void stamp(struct history_entry *entry, const struct command_line *line)
{
    entry->at = now(line->arena);
    entry->program = command_version;
    if (line->common.name)
        entry->name = line->common.name;
}

enum err ledger_entry_add_plan(struct ledger *ledger, const struct command_line *line,
                               struct history_entry *plan)
{
    stamp(plan, line);
    history_seal(plan, line->arena);
    TRY(keep_names_apart(ledger, line->arena, plan));
    TRY(keep_date(ledger, line->arena, plan));
    return ledger_add(ledger, history_fields, plan);
}

enum err ledger_entry_add(struct ledger *ledger, const struct command_line *line,
                          struct history_entry *entry, const struct history_entry *plan)
{
    bool same_job = plan;
    stamp(entry, line);
    bool measured = entry->kind == HISTORY_PILOT || entry->kind == HISTORY_RUN;
    if (measured && !plan) {
        TRY(find_plan(&plan, ledger, line->arena, entry));
        same_job = plan && plan->name && entry->name && !strcmp(plan->name, entry->name);
    }
    if (measured && plan)
        history_answer(entry, plan, same_job);
    struct catalog catalog;
    if (measured) {
        TRY(catalog_open(&catalog, line->arena, NULL, 0));
        TRY(plausible_entry(&catalog, line->arena, entry, history_kinds[entry->kind]));
    }
    history_seal(entry, line->arena);
    TRY(keep_names_apart(ledger, line->arena, entry));
    return ledger_add(ledger, history_fields, entry);
}

static enum err add_documents(const struct command_line *line, struct text document,
                              struct text plan_document)
{
    const char *path;
    ledger_path(&path, line->arena, line->common.ledger);
    if (!path || (!line->common.ledger && !can_be_made(line->arena, path)))
        return OK;
    struct history_entry entry, plan;
    TRY(history_read(&entry, line->arena, document, "the result"));
    if (plan_document.at)
        TRY(history_read(&plan, line->arena, plan_document, "the plan"));
    struct ledger *ledger;
    TRY(ledger_entry_open(&ledger, line, true));
    enum err err = plan_document.at ? ledger_entry_add_plan(ledger, line, &plan) : OK;
    if (!err)
        err = ledger_entry_add(ledger, line, &entry, plan_document.at ? &plan : NULL);
    ledger_close(ledger);
    return err;
}

void ledger_entry_answer(const struct command_line *line, struct text document, struct text plan)
{
    if (is_off(line))
        return;
    const char *before = text_format(line->arena, "%s", error_text());
    print_flush(); // prints the result before anything waits for a lock
    if (add_documents(line, document, plan))
        print_note("not added to the ledger: %s", error_text());
    fail(OK, "%s", before);
}

void ledger_entry_refuse(const struct command_line *line, const char *why)
{
    if (!is_off(line))
        print_note("not added to the ledger: %s", why);
}

void ledger_entry_document(const struct command_line *line, struct text document)
{
    ledger_entry_answer(line, document, (struct text){ 0 });
}

static enum err learn(struct plan_data *data, const struct command_line *line)
{
    enum { NEWEST = 256 };
    size_t all = 0, kept = 0;
    while (history_fields[all].name)
        all++;
    // Documents are left out: about a kilobyte an entry.
    struct field *without_documents = ARENA_NEW(line->arena, struct field, all + 1);
    for (const struct field *f = history_fields; f->name; f++)
        if (strcmp(f->name, "document"))
            without_documents[kept++] = *f;
    struct ledger *ledger;
    TRY(ledger_entry_open(&ledger, line, false));
    if (!ledger)
        return OK;
    struct ledger_filter measured[] = { { "actual_tokens_per_second", ">", "0" }, { 0 } };
    void *rows;
    size_t count;
    enum err err = ledger_find(ledger, line->arena, without_documents, sizeof(struct history_entry),
                               measured, NEWEST, &rows, &count);
    ledger_entry_warn(ledger);
    if (!err)
        prior_open(&data->ledger, line->arena, &data->catalog, rows, count);
    ledger_close(ledger);
    return err;
}

void ledger_entry_learn(struct plan_data *data, const struct command_line *line)
{
    if (is_off(line))
        return;
    const char *before = text_format(line->arena, "%s", error_text());
    learn(data, line); // ledger_entry_document() will meet and report the same failure
    fail(OK, "%s", before);
}
