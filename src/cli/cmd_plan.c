// gpuhours plan: the whole chain, from data or a token count to hours, cost and warnings.

#include "cli/data.h"
#include "cli/dataset.h"
#include "cli/from.h"
#include "cli/ledger_entry.h"
#include "host/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct source {
    const char *profile, *pilot, *plan;
};

static const struct field source_fields[] = {
    FIELD(source, profile, TEXT, "profile.json in the place of the data"),
    FIELD(source, pilot, TEXT, "pilot.json: what was measured in the place of the stack's speed"),
    FIELD(source, plan, TEXT, "plan.json to start from; options given here override its own"),
    { 0 },
};

static const struct options *list_options(void)
{
    static const struct options groups[] = {
        { "Job and hardware", plan_fields, NULL }, { "Recipe", recipe_fields, NULL },
        { "Data", dataset_fields, NULL },          { "Measured", source_fields, NULL },
        { "Trainer", from_fields, NULL },          { 0 }
    };
    return groups;
}

static enum err read_profile(struct profile *out, struct arena *arena, const char *path)
{
    struct text text;
    TRY(file_read(&text, arena, path));
    return profile_read(out, arena, text, path);
}

static enum err read_pilot(struct pilot *out, struct arena *arena, const char *path)
{
    struct text text;
    TRY(file_read(&text, arena, path));
    return pilot_read(out, arena, text, path);
}

static enum err read_former(struct plan_request *out, struct arena *arena, const char *path)
{
    struct text text;
    TRY(file_read(&text, arena, path));
    return plan_request_former(out, arena, text, path);
}

// Counts the data, or reads a profile of it, and takes tokens and lengths from there.
static enum err measure(struct plan_request *request, struct dataset_options *options,
                        const char *profile_path, const struct command_line *line)
{
    struct arena *arena = line->arena;
    struct lengths *lengths = ARENA_NEW(arena, struct lengths, 1);
    lengths->arena = arena;
    struct profile profile = { 0 };
    if (profile_path) {
        TRY(read_profile(&profile, arena, profile_path));
    } else {
        struct dataset dataset;
        options->model = request->model;
        TRY(dataset_open(&dataset, arena, options));
        TRY(dataset_profile(&profile, lengths, &dataset, line->positional,
                            (size_t)line->positional_count, line->common.quiet));
    }
    return error_prefix(plan_request_measure(request, arena, &profile, lengths),
                        "%s: ", profile_path ? profile_path : line->positional[0]);
}

// What options are read over, the weakest first: defaults, a pilot's or a former plan's
// configuration, a trainer's configuration. Then the command line once more.
static enum err read_layers(struct plan_request *request, const struct pilot *pilot,
                            const char *former, struct from *from, int64_t gpus,
                            struct command_line *line, const struct options *groups)
{
    *request = plan_request_default();
    if (former)
        TRY(read_former(request, line->arena, former));
    else if (pilot)
        plan_request_like(request, pilot, line->arena);
    if (from->config)
        TRY(from_fill(from, request, gpus));
    return command_again(line, groups);
}

static enum err run(struct command_line *line)
{
    struct plan_request request = plan_request_default();
    struct dataset_options data_options = { 0 };
    struct source source = { 0 };
    struct from from = { 0 };
    struct pilot pilot;
    const struct options groups[] = { { "Job and hardware", plan_fields, &request },
                                      { "Recipe", recipe_fields, &request.recipe },
                                      { "Data", dataset_fields, &data_options },
                                      { "Measured", source_fields, &source },
                                      { "Trainer", from_fields, &from },
                                      { 0 } };
    TRY(command_read(line, groups));
    const struct plan_request given = request;
    if (from_given(&from, line))
        TRY(from_read(&from, line));
    if (from.config || source.plan)
        TRY(read_layers(&request, NULL, source.plan, &from, given.gpus, line, groups));
    if (from.config)
        from_warn(&from, line);
    const struct plan_request without_pilot = request;
    if (source.pilot) {
        TRY(read_pilot(&pilot, line->arena, source.pilot));
        TRY(read_layers(&request, &pilot, source.plan, &from, given.gpus, line, groups));
        request.pilot = &pilot;
        request.pilot_name = source.pilot;
    }
    request.given = &given;
    if (line->positional_count && source.profile)
        return fail(ERR_USAGE, "%s and --profile %s: give one of them", line->positional[0],
                    source.profile);
    if (line->positional_count || source.profile)
        TRY(measure(&request, &data_options, source.profile, line));
    if (request.pilot && !source.plan)
        plan_request_differ(&request, &without_pilot, &pilot);
    plan_request_renew(&request);
    struct plan_data data;
    TRY(data_plan(&data, line));
    TRY(data_request(&request, &data));
    ledger_entry_learn(&data, line);
    struct plan *plan = ARENA_NEW(line->arena, struct plan, 1);
    TRY(plan_make(plan, line->arena, &data, &request));
    struct out out = { .arena = line->arena }, document = { .arena = line->arena };
    plan_write(plan, line->arena, &document);
    if (line->common.json)
        out = document;
    else if (line->common.explain)
        plan_explain(plan, line->arena, &out);
    else
        plan_text(plan, line->arena, &out);
    fwrite(out.at, 1, out.size, stdout);
    ledger_entry_document(line, out_view(&document));
    return plan->fits ? OK : ERR_ANSWER;
}

const struct command command_plan = {
    "plan",
    "GPU hours, cost, what fits, alternatives and mistakes",
    "gpuhours plan train.jsonl --model llama-3.1-8b --epochs 3 --gpu h100 --gpus 8",
    run,
    list_options,
};
