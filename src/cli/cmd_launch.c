// SPDX-License-Identifier: Apache-2.0
// gpuhours launch: writes the job file that starts a planned run at a chosen place.

#include "cli/from.h"
#include "cli/hosts.h"
#include "cli/terminal/print.h"
#include "core/launch/launch.h"
#include "host/file.h"

#include <string.h>

static struct launch_request request;
static struct from from;

static struct options groups[6];

static struct field job_fields[4], place_fields[64];

static const struct options *list_options(struct arena *arena)
{
    const struct options *hosts = hosts_options(arena);
    request = launch_request_default();
    from = (struct from){ 0 };
    groups[0] = (struct options)OPTIONS("the job file", launch_fields, &request);
    // Here the plan has to be given: its options are not among these.
    for (size_t i = 0; i + 1 < sizeof job_fields / sizeof *job_fields && hosts[0].fields[i].name;
         i++) {
        job_fields[i] = hosts[0].fields[i];
        if (!strcmp(job_fields[i].name, "plan"))
            job_fields[i].fallback = "required";
    }
    groups[1] = hosts[0];
    groups[1].fields = job_fields;
    groups[2] = (struct options)OPTIONS("the trainer", from_fields, &from);
    // A job file has no table: how many rows it shows is no option here.
    size_t count = 0;
    for (const struct field *f = hosts[1].fields; f->name; f++)
        if (strcmp(f->name, "rows"))
            place_fields[count++] = *f;
    place_fields[count] = (struct field){ 0 };
    groups[3] = hosts[1];
    groups[3].fields = place_fields;
    groups[4] = hosts[2];
    return groups;
}

static const char *plan_path(void)
{
    const struct field *field = field_find(groups[1].fields, TEXT("plan"));
    return *(const char *const *)((const char *)groups[1].object + field->offset);
}

// --- the place ---------------------------------------------------------------

static bool serves(const struct hosting_row *row)
{
    return launch_serves((enum launch_to)request.to, row);
}

// Other rows that this target can start, the best first, for a sentence.
static enum err not_served(const struct hosting *hosting, const struct hosting_row *row)
{
    for (size_t i = 0; i < hosting->count; i++)
        if (serves(&hosting->rows[i]) && !hosting->rows[i].doubt)
            return fail(ERR_USAGE,
                        "%s does not rent %s/%s/%s; the best place that it does rent is --offer "
                        "%s/%s/%s",
                        launch_targets[request.to], row->provider, row->instance,
                        offers_kind_names[row->kind], hosting->rows[i].provider,
                        hosting->rows[i].instance, offers_kind_names[hosting->rows[i].kind]);
    return fail(ERR_USAGE, "%s rents neither %s/%s/%s nor any other of these offers",
                launch_targets[request.to], row->provider, row->instance,
                offers_kind_names[row->kind]);
}

static enum err choose(const struct hosting_row **out, const struct hosting *hosting)
{
    *out = request.offer ? hosting_find(hosting, request.offer) : hosting->recommended;
    if (!*out && request.offer)
        return fail(ERR_USAGE,
                    "no row is named \"%s\"; use PROVIDER/INSTANCE as gpuhours hosts prints it, "
                    "such as %s/%s",
                    request.offer, hosting->rows[0].provider, hosting->rows[0].instance);
    if (!*out)
        return fail(ERR_USAGE, "no place can be recommended for this plan; name one with --offer");
    return serves(*out) || (*out)->kind == OFFERS_MANAGED ? OK : not_served(hosting, *out);
}

// Of a cluster or machine of one's own only the plan knows; what is rented, hosts compares.
static bool is_own(void)
{
    bool rents = request.to == LAUNCH_SKY || request.to == LAUNCH_DSTACK;
    return request.offer ? !strcmp(request.offer, "plan") : !rents;
}

static enum err find_place(struct launch_place *out, const struct launch_plan *plan,
                           struct command_line *line)
{
    if (is_own()) {
        *out = launch_place_of_plan(plan);
        return OK;
    }
    struct hosting hosting;
    const struct hosting_row *row;
    line->positional_count = 0;
    TRY(hosts_make(&hosting, line, groups));
    TRY(choose(&row, &hosting));
    if (row->doubt)
        print_note("%s/%s: %s", row->provider, row->instance, row->doubt);
    return launch_place_of_row(out, row, line->arena);
}

// --- the command -------------------------------------------------------------

// Files of --from replace those that the plan was made from.
static enum err read_from(struct launch_plan *plan, struct command_line *line)
{
    if (!from.from)
        return OK;
    struct command_line files = *line;
    files.rest = NULL;
    TRY(from_read(&from, &files));
    plan->file_count = 0;
    for (size_t i = 0; i < from.config->file_count && i < LAUNCH_FILES; i++) {
        plan->files[i].name = from.config->files[i].name;
        plan->files[i].trainer = from.config->files[i].trainer;
        plan->file_count++;
    }
    return OK;
}

static enum err read_options(struct command_line *line, struct launch_plan *plan)
{
    TRY(command_read(line, list_options(line->arena)));
    if (line->positional_count)
        return fail(ERR_USAGE, "unexpected argument \"%s\"; the trainer's command goes after --",
                    line->positional[0]);
    if (line->common.explain)
        return fail(ERR_USAGE,
                    "launch has no --explain; gpuhours hosts --explain shows the numbers "
                    "of a place");
    if (!plan_path())
        return fail(ERR_USAGE, "launch needs --plan plan.json, which gpuhours plan --json writes");
    struct text document;
    if (!strcmp(plan_path(), "-"))
        return fail(ERR_USAGE,
                    "the job reads the plan's file when it starts, so standard input "
                    "will not do: gpuhours plan … --json >plan.json, and --plan plan.json");
    TRY(file_read(&document, line->arena, plan_path()));
    TRY(launch_plan_read(plan, line->arena, document, plan_path()));
    return read_from(plan, line);
}

// What dstack uploads. NAN for a folder, and for what is not here.
static double data_bytes(void)
{
    struct file file;
    if (request.to != LAUNCH_DSTACK || !request.data || file_open(&file, request.data))
        return NAN;
    double bytes = (double)file.text.size;
    file_close(&file);
    return bytes;
}

static enum err run(struct command_line *line)
{
    struct launch_plan plan;
    struct launch_place place;
    struct launch job;
    struct out out = { .arena = line->arena };
    TRY(read_options(line, &plan));
    TRY(find_place(&place, &plan, line));
    struct launch_input input = { &request, &plan, &place, line->rest, data_bytes() };
    TRY(launch_make(&job, line->arena, &input));
    if (line->common.json)
        launch_write(&job, &out);
    else
        launch_file(&job, &out);
    print_data(out_view(&out));
    if (line->common.quiet || line->common.json) // the document has them
        return OK;
    for (size_t i = 0; i < job.note_count; i++)
        print_note("%s", job.notes[i]);
    print_note("start it with: %s", job.next);
    return OK;
}

static const char *const first[] = { "plan",  "to",   "offer", "data", "output",
                                     "image", "from", "setup", "env",  NULL };

static const struct command_example examples[] = {
    { "a script for Slurm, on the GPUs of the plan",
      "gpuhours launch --plan plan.json --to slurm -- torchrun train.py >job.sh" },
    { "a SkyPilot task for an offer, its data and results in buckets",
      "gpuhours launch --plan plan.json --to sky --offer azure/Standard_ND96isr_H100_v5 --data "
      "s3://mine/data --output s3://mine/run -- torchrun train.py >job.yaml" },
    { 0 },
};

const struct command command_launch = {
    .name = "launch",
    .summary = "write the job file for Slurm, SkyPilot, dstack or Kubernetes",
    .usage = "--plan FILE --to SYSTEM [OPTION...] [-- COMMAND...]",
    .about =
        "Writes the file that starts the planned run where it was decided to run: GPUs, nodes, "
        "data "
        "and output, the trainer's command under gpuhours watch, a time limit from the 95th "
        "percentile of the forecast, a price cap, signals and restarts that save the run. Without "
        "a "
        "command the trainer of --from runs, else the built-in engine. What it assumes goes to "
        "standard error. It starts nothing and asks nothing on the network.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
