// SPDX-License-Identifier: Apache-2.0
// gpuhours plan: the whole chain, from data or a token count to hours, cost and warnings.

#include "cli/data.h"
#include "cli/dataset/dataset.h"
#include "cli/from.h"
#include "cli/ledger_entry.h"
#include "cli/prices.h"
#include "cli/terminal/print.h"
#include "host/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct source {
    const char *profile, *pilot, *plan, *offers;
};

static const struct field source_fields[] = {
    FIELD(source, profile, TEXT, "profile.json to use instead of DATA", .value = "FILE",
          .fallback = ""),
    FIELD(source, pilot, TEXT, "pilot.json whose measured speed replaces the stack's",
          .value = "FILE", .fallback = ""),
    FIELD(source, plan, TEXT, "plan.json to start from; options given here override its own",
          .value = "FILE", .fallback = ""),
    FIELD(source, offers, TEXT, "your own prices or a cloud's price list; may repeat",
          .value = "FILE", .fallback = "offers in the catalog"),
    { 0 },
};

static const struct options *list_options(struct arena *arena)
{
    static struct options groups[7];
    static struct offers_machine machine;
    static struct dataset_options data;
    static struct source source;
    static struct from from;
    const struct plan_request *defaults = data_defaults(arena);
    machine = offers_machine_default();
    const struct options all[] = {
        OPTIONS("job and hardware", plan_fields, NULL, .defaults = defaults),
        OPTIONS("training recipe", recipe_fields, NULL, .defaults = &defaults->recipe),
        OPTIONS("reading the data", dataset_fields, NULL, .defaults = &data),
        OPTIONS("measured input", source_fields, NULL, .defaults = &source),
        OPTIONS("your own machine", offers_machine_fields, NULL, .defaults = &machine),
        OPTIONS("trainer configuration", from_fields, NULL, .defaults = &from),
        { 0 },
    };
    memcpy(groups, all, sizeof groups);
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

// The plan in words ends with the warnings of its data: they are not said before.
static bool ends_with_warnings(const struct command_line *line)
{
    return !line->common.json && !line->common.explain;
}

// Counts the data, or reads a profile of it, and takes tokens and lengths from there.
static enum err measure(struct plan_request *request, struct profile *profile,
                        struct dataset_options *options, const char *profile_path,
                        const struct command_line *line)
{
    struct arena *arena = line->arena;
    struct lengths *lengths = ARENA_NEW(arena, struct lengths, 1);
    lengths->arena = arena;
    TRY(data_vision(&options->vision, &request->positions, line, request->model));
    if (profile_path) {
        TRY(read_profile(profile, arena, profile_path));
    } else {
        struct dataset dataset;
        options->model = request->model;
        options->image_size = request->image_size;
        options->image_max_pixels = request->image_max_pixels;
        if (request->stack)
            TRY(data_trainer(&options->trainer, line, request->stack));
        if (request->objective != OBJECTIVE_AUTO &&
            objective_is_paired((enum objective_kind)request->objective))
            dataset_label_answers(options);
        TRY(dataset_open(&dataset, arena, options));
        dataset.warns_later = ends_with_warnings(line);
        TRY(dataset_profile(profile, lengths, &dataset, line->positional,
                            (size_t)line->positional_count, NULL, line->common.quiet));
    }
    if (!line->common.quiet && !ends_with_warnings(line))
        dataset_print_warnings(profile, arena, !profile_path);
    enum err err = plan_request_measure(request, arena, profile, lengths);
    return err ? error_prefix(err, "%s: ", profile_path ? profile_path : line->positional[0]) : OK;
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

// The plan of a job on one's own machine is made for its GPUs, unless others were asked for.
static void run_on(struct plan_request *request, const struct offer *machine,
                   const struct command_line *line)
{
    if (command_gives(line, "--gpu"))
        return;
    request->gpu = machine->gpu;
    if (!command_gives(line, "--gpus"))
        request->gpus = machine->gpus;
}

// Sets is_told once the plan is printed.
static enum err make_plan(struct command_line *line, struct profile *profile, bool *is_told)
{
    struct plan_request request = plan_request_default();
    struct dataset_options data_options = { 0 };
    struct source source = { 0 };
    struct from from = { 0 };
    struct offers_machine machine = offers_machine_default();
    struct pilot pilot;
    const struct options groups[] = { OPTIONS("Job and hardware", plan_fields, &request),
                                      OPTIONS("Recipe", recipe_fields, &request.recipe),
                                      OPTIONS("Data", dataset_fields, &data_options),
                                      OPTIONS("Measured", source_fields, &source),
                                      OPTIONS("Own machine", offers_machine_fields, &machine),
                                      OPTIONS("Trainer", from_fields, &from),
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
        TRY(measure(&request, profile, &data_options, source.profile, line));
    if (request.pilot && !source.plan)
        plan_request_differ(&request, &without_pilot, &pilot);
    plan_request_renew(&request);
    struct plan_data data;
    TRY(data_plan(&data, line));
    TRY(prices_of_catalog(&data.catalog, line, source.offers, &machine));
    if (machine.machine)
        run_on(&request, &data.catalog.offers[data.catalog.offer_count - 1], line);
    data_take_quantized(&request, line);
    TRY(data_request(&request, &data));
    data_note_unused(&request.recipe, line);
    ledger_entry_learn(&data, line);
    struct plan *plan = ARENA_NEW(line->arena, struct plan, 1);
    TRY(plan_make(plan, line->arena, &data, &request));
    struct out out = print_out(line->arena), document = { .arena = line->arena };
    plan_write(plan, line->arena, &document);
    if (line->common.json)
        print_data(out_view(&document));
    else if (line->common.explain)
        plan_explain(plan, line->arena, &out);
    else
        plan_text(plan, line->arena, &out);
    print_text(&out);
    *is_told = true;
    ledger_entry_document(line, out_view(&document));
    return plan_verdict(plan);
}

static enum err run(struct command_line *line)
{
    struct profile profile = { 0 };
    bool is_told = false;
    enum err err = make_plan(line, &profile, &is_told);
    if (!is_told && ends_with_warnings(line) && !line->common.quiet)
        dataset_print_warnings(&profile, line->arena, false);
    return err;
}

static const char *const first[] = { "model", "tokens", "epochs",  "method",       "gpu",
                                     "gpus",  "stack",  "context", "global_batch", "deadline",
                                     "pilot", "from",   NULL };

static const struct command_example examples[] = {
    { "the built-in example data on one H100",
      "gpuhours plan example --model llama-3.1-8b --gpu h100" },
    { "your data, three epochs, on eight GPUs; the plan as a document",
      "gpuhours plan train.jsonl --model llama-3.1-8b --epochs 3 --gpu h100 --gpus 8 --json "
      ">plan.json" },
    { "only a token count, full fine-tuning, where each number comes from",
      "gpuhours plan --tokens 21.4M --model qwen3-8b --method full --gpu h100 --explain" },
    { "the settings of an axolotl, LLaMA-Factory, torchtune or Hugging Face run",
      "gpuhours plan train.jsonl --from axolotl.yml --gpu a100" },
    { 0 },
};

const struct command command_plan = {
    .name = "plan",
    .summary = "forecast GPU hours, cost and memory; find mistakes and alternatives",
    .usage = "[DATA...] --model MODEL [OPTION...]",
    .about =
        "Forecasts a fine-tuning run: whether it fits into GPU memory, its throughput, wall "
        "time, GPU hours and cost as a median and an 80 % range, and which configuration would "
        "be cheaper or faster. DATA are files or folders of training data (JSON, JSON Lines, "
        "CSV, text, Parquet), or the word example; without it, give --profile or --tokens.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
