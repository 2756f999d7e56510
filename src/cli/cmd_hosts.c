// SPDX-License-Identifier: Apache-2.0
// gpuhours hosts: where a planned job could run, and what it costs there.

#include "base/embedded.h"
#include "cli/data.h"
#include "cli/hosts.h"
#include "cli/prices.h"
#include "cli/terminal/print.h"
#include "core/launch/launch.h"
#include "host/folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct own {
    const char *plan, *offers, *explain;
    bool csv;
};

static const struct field own_fields[] = {
    FIELD(own, plan, TEXT, "plan from gpuhours plan --json", .value = "FILE",
          .fallback = "the options of a plan below"),
    FIELD(own, offers, TEXT, "your own offers or a cloud's price list; may repeat", .value = "FILE",
          .fallback = "offers in the catalog"),
    { 0 },
};
static const struct field output_fields[] = {
    FIELD(own, csv, FLAG, "print a sheet: a line per offer, a column per term of its cost"),
    { 0 },
};

static struct own own;
static struct offers_machine machine;
static struct hosting_request hosting_request;
static struct plan_request plan_request;

enum { JOB_FIELDS = 64 };
static struct field job_fields[JOB_FIELDS];

static struct options groups[] = {
    OPTIONS("the job", own_fields, &own),
    OPTIONS("places and prices", hosting_fields, &hosting_request),
    OPTIONS("your own machine", offers_machine_fields, &machine),
    OPTIONS("the job, if it is not that of --plan", job_fields, &plan_request),
    OPTIONS("training recipe", recipe_fields, &plan_request.recipe),
    OPTIONS("output", output_fields, &own),
    { 0 },
};

// Options of a plan that do not mean something else here.
const struct options *hosts_options(struct arena *arena)
{
    size_t count = 0;
    own = (struct own){ 0 };
    machine = offers_machine_default();
    hosting_request = hosting_request_default();
    plan_request = plan_request_default();
    groups[3].defaults = data_defaults(arena);
    for (const struct field *f = plan_fields; f->name && count < JOB_FIELDS - 1; f++)
        if (!field_find(hosting_fields, text_of(f->name)) && strcmp(f->name, "search")) {
            job_fields[count] = *f;
            if (f->fallback && (!strcmp(f->fallback, "required") || strstr(f->fallback, "DATA")))
                job_fields[count].fallback = "that of the plan";
            count++;
        }
    job_fields[count] = (struct field){ 0 };
    return groups;
}

// Reads the options twice: first to find --plan, then to override what the plan contains.
static enum err read_options(struct command_line *line, const struct options *all,
                             struct hosting_document *document)
{
    *document = (struct hosting_document){ .efficiency = { .log_mid = NAN } };
    TRY(command_read(line, all));
    if (own.plan) {
        struct file file;
        TRY(file_open(&file, own.plan));
        struct text json = { text_copy(line->arena, file.text), file.text.size };
        file_close(&file);
        TRY(hosting_read_plan(&plan_request, document, line->arena, json, own.plan));
        TRY(command_again(line, all));
        hosting_keep_run(&plan_request, document, line->arena);
    }
    // --explain is a flag of every command; here the word after it names the row.
    if (line->common.explain && line->positional_count == 1)
        own.explain = line->positional[0];
    else if (line->common.explain)
        return fail(ERR_USAGE,
                    "--explain needs one PROVIDER/INSTANCE of the table, such as aws/p5.48xlarge");
    else if (line->positional_count)
        return fail(ERR_USAGE, "unexpected argument \"%s\"; a plan is given as --plan %s",
                    line->positional[0], line->positional[0]);
    if (own.csv && line->common.json)
        return fail(ERR_USAGE, "use only one of --csv and --json");
    if (!own.plan && hosting_request.gpu)
        plan_request.gpu = hosting_request.gpu;
    if (!own.plan && hosting_request.gpus)
        plan_request.gpus = hosting_request.gpus;
    plan_request.search = false;
    if (!hosting_request.today)
        hosting_request.today = data_today(line->arena);
    if (!own.plan && !plan_request.model)
        return fail(ERR_USAGE, "no job given; use --plan plan.json (written by gpuhours plan "
                               "--json), or describe it with --model and --tokens");
    return OK;
}

// A table of --catalog DIR, else the built-in one.
static enum err read_table(struct text *out, const char **path, const struct command_line *line,
                           const char *name)
{
    *path = name;
    *out = embedded_file(name);
    if (!line->common.catalog || !folder_has(line->common.catalog, name))
        return OK;
    *path = text_format(line->arena, "%s/%s", line->common.catalog, name);
    return file_read(out, line->arena, *path);
}

static enum err read_terms(struct hosting_input *input, const struct command_line *line)
{
    struct text csv;
    const char *path;
    struct billing *billing;
    struct managed *managed;
    TRY(read_table(&csv, &path, line, "billing.csv"));
    TRY(offers_billing(&billing, &input->billing_count, line->arena, csv, path));
    TRY(read_table(&csv, &path, line, "managed.csv"));
    TRY(hosting_read_managed(&managed, &input->managed_count, line->arena, csv, path));
    input->billing = billing;
    input->managed = managed;
    return OK;
}

// --- the command that starts it ----------------------------------------------

// The table that has the option; GROUPS: an option of every command.
enum { GROUP_JOB = 3, GROUP_RECIPE, GROUP_OUTPUT, GROUPS };

static size_t group_of(struct text name, const struct field **field)
{
    for (size_t i = 0; i < GROUPS; i++)
        if ((*field = field_find(groups[i].fields, name)))
            return i;
    *field = field_find(common_fields, name);
    return GROUPS;
}

// Writes the options that launch has too, as they were given; false: the job is not that of --plan.
static bool put_options(struct out *out, const struct command_line *line)
{
    for (int i = 0; i < line->count; i++) {
        const char *word = line->words[i];
        const struct field *field;
        if (strncmp(word, "--", 2) || !word[2])
            continue;
        struct text name = { word + 2, strcspn(word + 2, "=") };
        size_t group = group_of(name, &field);
        if (!field || group == GROUP_JOB || group == GROUP_RECIPE)
            return false;
        bool has_value = word[2 + name.size] == 0 && field->kind != FIELD_FLAG;
        bool wanted =
            group < GROUP_JOB ? strcmp(field->name, "rows") != 0 : !strcmp(field->name, "catalog");
        if (wanted) {
            out_char(out, ' ');
            launch_shell_word(out, word);
        }
        if (wanted && has_value && i + 1 < line->count) {
            out_char(out, ' ');
            launch_shell_word(out, line->words[i + 1]);
        }
        i += has_value;
    }
    return true;
}

// What can start a machine of this offer: a tool that rents it, else a script to run there.
static enum launch_to target_of(const struct hosting_row *row)
{
    return launch_serves(LAUNCH_SKY, row)      ? LAUNCH_SKY
           : launch_serves(LAUNCH_DSTACK, row) ? LAUNCH_DSTACK
                                               : LAUNCH_SCRIPT;
}

static void put_launch(const struct hosting *hosting, const struct command_line *line,
                       struct out *out)
{
    const struct hosting_row *row = hosting->recommended;
    struct out command = { .arena = line->arena }, offer = { .arena = line->arena };
    out_put(&command, "gpuhours launch");
    if (!own.plan || !row || row->kind == OFFERS_MANAGED || !put_options(&command, line))
        return;
    out_put(&offer, "%s/%s/%s", row->provider, row->instance, offers_kind_names[row->kind]);
    out_put(&command, " --to %s --offer ", launch_targets[target_of(row)]);
    launch_shell_word(&command, out_string(&offer));
    out_char(out, '\n');
    out_heading(out, "The job file for the best choice");
    out_put(out, "  %s -- COMMAND\n", out_string(&command));
}

static enum err print(const struct hosting *hosting, struct command_line *line)
{
    struct out out = print_out(line->arena);
    if (own.explain) {
        const struct hosting_row *row = hosting_find(hosting, own.explain);
        if (!row)
            return fail(ERR_USAGE,
                        "no row is named \"%s\"; use PROVIDER/INSTANCE of the table, such "
                        "as %s/%s",
                        own.explain, hosting->rows[0].provider, hosting->rows[0].instance);
        hosting_explain(hosting, row, line->arena, &out);
    } else if (own.csv) {
        hosting_sheet(hosting, &out);
    } else if (line->common.json) {
        hosting_write(hosting, line->arena, &out);
    } else {
        hosting_text(hosting, line->arena, &out);
        put_launch(hosting, line, &out);
    }
    if ((line->common.json || own.csv) && !own.explain)
        print_data(out_view(&out));
    else
        print_text(&out);
    return OK;
}

enum err hosts_make(struct hosting *out, struct command_line *line, const struct options *all)
{
    struct plan_data *data = ARENA_NEW(line->arena, struct plan_data, 1);
    struct plan *plan = ARENA_NEW(line->arena, struct plan, 1);
    struct offers *offers = ARENA_NEW(line->arena, struct offers, 1);
    struct hosting_input *input = ARENA_NEW(line->arena, struct hosting_input, 1);
    struct hosting_document *document = ARENA_NEW(line->arena, struct hosting_document, 1);
    TRY(read_options(line, all, document));
    TRY(data_plan(data, line));
    TRY(data_request(&plan_request, data));
    TRY(plan_make(plan, line->arena, data, &plan_request));
    offers_of_catalog(offers, line->arena, &data->catalog);
    TRY(prices_override(offers, line, &data->catalog, own.offers, &machine));
    *input = (struct hosting_input){ .plan = plan, .offers = offers, .request = &hosting_request };
    TRY(read_terms(input, line));
    hosting_adopt(input, plan, document);
    TRY(hosting_make(out, line->arena, input));
    return out->count ? OK : fail(ERR_ANSWER, "%s", hosting_explain_none(out, line->arena));
}

static enum err run(struct command_line *line)
{
    struct hosting hosting;
    TRY(hosts_make(&hosting, line, hosts_options(line->arena)));
    TRY(print(&hosting, line));
    return hosting.recommended || own.explain
               ? OK
               : fail(ERR_ANSWER, "%s", hosting_explain_none(&hosting, line->arena));
}

static const char *const first[] = { "plan",   "deadline", "budget", "gpu",    "gpus",
                                     "region", "provider", "kind",   "offers", "price",
                                     "rows",   "csv",      NULL };

static const struct command_example examples[] = {
    { "where the planned job could run within two days",
      "gpuhours hosts --plan plan.json --deadline 48h" },
    { "only on-demand H100s, with a price that you were offered",
      "gpuhours hosts --plan plan.json --gpu h100 --kind on-demand --price 2.10/gpu-h" },
    { "without a plan, as a document",
      "gpuhours hosts --model llama-3.1-8b --tokens 21.4M --region us-east --json >hosts.json" },
    { "every term of every offer, for a spreadsheet",
      "gpuhours hosts --plan plan.json --csv >offers.csv" },
    { 0 },
};

const struct command command_hosts = {
    .name = "hosts",
    .summary = "compare places to run it: on demand, spot, reserved, your own machine",
    .usage = "--plan FILE [OPTION...] [--explain PROVIDER/INSTANCE]",
    .about = "Estimates the planned job on every offer of the catalog: whole instances, the "
             "provider's billing, preemptions of spot instances, commitments, owned servers, and "
             "data that has to move. Recommends one, and names the break-even of reservations.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = hosts_options,
};
