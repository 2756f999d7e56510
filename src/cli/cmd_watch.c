// SPDX-License-Identifier: Apache-2.0
// gpuhours watch: runs a trainer to its end, with a live forecast of the whole run.

#include "cli/command.h"
#include "cli/ledger_entry.h"
#include "cli/terminal/print.h"
#include "cli/data.h"
#include "cli/wrapped/wrapped_pilot.h"
#include "core/measured/plausible.h"
#include "host/clock.h"
#include "host/file.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>

static struct asked {
    const char *plan, *pilot, *gpu, *pattern, *log, *out;
    int64_t gpus;
    double tokens_per_step, price, grace, silent_minutes;
} asked;

static const struct field asked_fields[] = {
    FIELD(asked, plan, TEXT, "plan of this run, from gpuhours plan --json", .value = "FILE",
          .fallback = "required"),
    FIELD(asked, pilot, TEXT, "pilot.json: the speed until the run's own is known", .value = "FILE",
          .fallback = ""),
    FIELD(asked, gpu, TEXT, "GPU that the trainer runs on", .value = "NAME",
          .fallback = "that of the plan"),
    FIELD(asked, gpus, COUNT, "number of GPUs that it uses, over all nodes",
          .fallback = "that of the plan"),
    FIELD(asked, price, PRICE, "price per GPU hour, e.g. 2.49 or 2.49/gpu-h",
          .fallback = "that of the plan"),
    FIELD(asked, tokens_per_step, NUMBER, "tokens per step, over all GPUs", .value = "TOKENS",
          .fallback = "from the trainer, else the plan"),
    FIELD(asked, pattern, TEXT, "regular expression whose first group is the step number",
          .value = "REGEX", .fallback = "detected"),
    FIELD(asked, log, TEXT, "log file or folder of the trainer to follow", .value = "FILE",
          .fallback = "its output"),
    FIELD(asked, silent_minutes, NUMBER, "minutes without output or steps before a warning",
          .value = "MINUTES"),
    FIELD(asked, grace, SECONDS, "after a third interrupt: wait before SIGTERM, then SIGKILL"),
    FIELD(asked, out, TEXT, "file for the record of the run", .value = "FILE", .fallback = ""),
    { 0 },
};

static const struct options *list_options(struct arena *arena)
{
    static const struct options groups[] = { OPTIONS("the run", asked_fields, &asked), { 0 } };
    (void)arena;
    asked =
        (struct asked){ .tokens_per_step = NAN, .price = NAN, .grace = 10, .silent_minutes = 30 };
    return groups;
}

struct watch {
    struct command_line *line;
    struct wrapped run;
    struct outlook_plan plan;
    struct pilot_configuration ran; // the plan's, on the GPUs that it runs on
    bool elsewhere;                 // those are others than the plan's
    struct steady prior;            // of the pilot
    bool has_prior;
    enum outlook_place warned;
    bool warned_of_silence;
};

// --- options -----------------------------------------------------------------

static enum err read_pilot(struct watch *watch)
{
    struct text text;
    struct pilot pilot;
    TRY(file_read(&text, watch->line->arena, asked.pilot));
    TRY(pilot_read(&pilot, watch->line->arena, text, asked.pilot));
    double tokens = outlook_step_tokens(&watch->plan);
    watch->prior.step_seconds =
        (struct range){ tokens / pilot.tokens_per_s.high, tokens / pilot.tokens_per_s.mean,
                        tokens / pilot.tokens_per_s.low };
    watch->prior.seconds_per_width = pilot.transient.seconds_per_width;
    watch->has_prior = true;
    return OK;
}

// A card that the catalog does not know stops no trainer.
static void read_place(struct watch *watch)
{
    struct catalog catalog;
    const struct gpu *gpu;
    bool known =
        asked.gpu && !data_open(&catalog, watch->line) && !catalog_gpu(&gpu, &catalog, asked.gpu);
    watch->elsewhere =
        outlook_elsewhere(&watch->ran, &watch->plan, known ? gpu->name : asked.gpu, asked.gpus);
    fail(OK, "%s", "");
}

static enum err read_options(struct watch *watch)
{
    struct command_line *line = watch->line;
    struct text text;
    TRY(command_read(line, list_options(line->arena)));
    if (!line->rest || !line->rest[0])
        return fail(ERR_USAGE, "watch needs a trainer's command line after --: gpuhours watch "
                               "--plan plan.json -- python train.py");
    if (!asked.plan)
        return fail(ERR_USAGE, "watch needs --plan plan.json, which gpuhours plan --json writes");
    if (line->positional_count)
        return fail(ERR_USAGE, "%s: is not an option; the trainer's command line goes after --",
                    line->positional[0]);
    TRY(file_try(asked.out)); // not at the end of a run of days
    TRY(file_read(&text, line->arena, asked.plan));
    TRY(outlook_plan_read(&watch->plan, line->arena, text, asked.plan));
    read_place(watch);
    return asked.pilot ? read_pilot(watch) : OK;
}

// --- while it runs -----------------------------------------------------------

static struct outlook look(const struct watch *watch)
{
    const struct wrapped *run = &watch->run;
    bool known = run->steady.verdict != STEADY_TOO_SHORT && run->steady.step_seconds.mid > 0;
    return outlook_make(&watch->plan, &(struct outlook_progress){
                                          .elapsed_seconds = wrapped_elapsed(run),
                                          .steps = wrapped_steps(run),
                                          .begun = wrapped_begun(run),
                                          .total = run->source->series.total,
                                          .steady = known              ? &run->steady
                                                    : watch->has_prior ? &watch->prior
                                                                       : NULL,
                                          .gpus = (double)watch->ran.gpus,
                                          .usd_per_gpu_hour = asked.price,
                                      });
}

static const char *spell_hours(struct arena *arena, struct range hours)
{
    return text_format(arena, "%s (80 %% range %s – %s)", text_hours(arena, hours.mid),
                       text_hours(arena, hours.low), text_hours(arena, hours.high));
}

static const char *status(const struct watch *watch, const struct outlook *now, struct arena *arena)
{
    struct out out = { .arena = arena };
    out_put(&out, "step %.0f of %.0f  %s GPU hours of %s", wrapped_steps(&watch->run), now->total,
            text_hours(arena, now->used_gpu_hours), spell_hours(arena, now->gpu_hours));
    if (!isnan(now->used_usd))
        out_put(&out, "  %s of %s", text_usd(arena, now->used_usd),
                text_usd(arena, now->cost_usd.mid));
    out_put(&out, "  %s left%s", text_seconds(arena, now->remaining_seconds),
            now->place == OUTLOOK_ABOVE   ? "  ABOVE THE PLAN"
            : now->place == OUTLOOK_BELOW ? "  below the plan"
                                          : "");
    return out_string(&out);
}

// Warns once when the expected hours leave the plan's range, and tells when they are back inside.
static void warn(struct watch *watch, const struct outlook *now, struct arena *arena)
{
    if (now->place == OUTLOOK_UNKNOWN || now->place == watch->warned)
        return;
    bool inside = now->place == OUTLOOK_INSIDE;
    if (!inside || watch->warned != OUTLOOK_UNKNOWN)
        status_line_say(&watch->run.status,
                        text_format(arena,
                                    "at this rate the %s takes %s GPU hours: %s the plan's %s – %s",
                                    wrapped_begun(&watch->run) > 0 ? "rest of the run" : "run",
                                    spell_hours(arena, now->gpu_hours),
                                    inside                        ? "back within"
                                    : now->place == OUTLOOK_ABOVE ? "more than"
                                                                  : "less than",
                                    text_hours(arena, now->planned.gpu_hours.low),
                                    text_hours(arena, now->planned.gpu_hours.high)));
    watch->warned = now->place;
}

static void warn_of_silence(struct watch *watch, struct arena *arena)
{
    const struct wrapped *run = &watch->run;
    double last = fmax(run->child.output_seconds, run->step_seconds);
    bool silent = clock_seconds() - last > 60 * asked.silent_minutes;
    if (silent && !watch->warned_of_silence)
        status_line_say(&watch->run.status,
                        text_format(arena, "no output and no step for %s; the run goes on",
                                    text_seconds(arena, 60 * asked.silent_minutes)));
    watch->warned_of_silence = silent;
}

static void loop(struct watch *watch)
{
    while (wrapped_poll(&watch->run)) {
        struct arena scratch = { 0 };
        wrapped_steady(&watch->run);
        struct outlook now = look(watch);
        warn(watch, &now, &scratch);
        warn_of_silence(watch, &scratch);
        if (status_line_due(&watch->run.status))
            status_line_show(&watch->run.status, status(watch, &now, &scratch));
        arena_release(&scratch);
    }
    wrapped_finish(&watch->run);
}

// --- the record --------------------------------------------------------------

// A trainer that says that it is done may count a few steps fewer than the plan. One that was told
// to stop says the same when it has saved.
static bool is_complete(const struct watch *watch, const struct outlook *end)
{
    const struct wrapped *run = &watch->run;
    double share = run->source->series.ended && !run->child.interrupted ? 0.95 : 1;
    return !run->child.code && wrapped_steps(run) >= share * end->total;
}

// The signal that was passed on to a trainer that then ended with code 0, before its last step.
static int stopping_signal(const struct watch *watch, const struct outlook *end)
{
    const struct child *child = &watch->run.child;
    return child->code || is_complete(watch, end) ? 0 : child->interrupted;
}

static const char *place_name(enum outlook_place place)
{
    static const char *const names[] = { NULL, "below", "inside", "above" };
    return names[place];
}

static void write_record(const struct watch *watch, const struct pilot *pilot,
                         const struct outlook *end, struct out *out)
{
    const struct child *child = &watch->run.child;
    double steps = wrapped_steps(&watch->run), begun = wrapped_begun(&watch->run);
    struct json_writer w = { .out = out };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "run");
    json_put_count(&w, "version", 1);
    json_put_string(&w, "as_of", pilot->as_of);
    json_put_bool(&w, "complete", is_complete(watch, end));
    json_put_count(&w, "exit_code", child->code);
    if (stopping_signal(watch, end))
        json_put_count(&w, "stopped_by_signal", stopping_signal(watch, end));
    json_put_number(&w, "steps", steps);
    if (begun > 0)
        json_put_number(&w, "resumed_from_step", begun);
    json_put_number(&w, "planned_steps", watch->plan.steps);
    json_put_number(&w, "processed_tokens", (steps - begun) * pilot->composition.tokens);
    json_put_number(&w, "wall_hours", pilot->elapsed_seconds / 3600);
    json_put_number(&w, "gpu_hours", end->used_gpu_hours);
    json_put_number(&w, "cost_usd", end->used_usd);
    json_put_string(&w, "place_in_plan", is_complete(watch, end) ? place_name(end->place) : NULL);
    json_open(&w, "tokens_per_second", '{');
    json_put_number(&w, "mean", pilot->tokens_per_s.mean);
    json_put_number(&w, "low", pilot->tokens_per_s.low);
    json_put_number(&w, "high", pilot->tokens_per_s.high);
    json_close(&w, '}');
    json_open(&w, "planned", '{');
    json_put_range(&w, "tokens_per_second", &watch->plan.tokens_per_s);
    json_put_range(&w, "wall_hours", &end->planned.wall_hours);
    json_put_range(&w, "gpu_hours", &end->planned.gpu_hours);
    json_put_range(&w, "cost_usd", &end->planned.cost_usd);
    json_close(&w, '}');
    json_put_number(&w, "peak_bytes", pilot->peak_bytes);
    json_put_number(&w, "loss", watch->run.source->series.loss);
    pilot_configuration_write(&pilot->configuration, &w);
    json_close(&w, '}');
    out_char(out, '\n');
}

static void write_summary(const struct watch *watch, const struct pilot *pilot,
                          const struct outlook *end, struct out *out)
{
    struct arena *arena = watch->line->arena;
    double begun = wrapped_begun(&watch->run);
    const char *resumed = begun > 0 ? text_format(arena, ", from step %.0f on,", begun) : "";
    out_put(out, "\n  run          %s of %s step%s%s in %s\n  trainer      %s\n",
            text_commas(arena, (int64_t)wrapped_steps(&watch->run)),
            end->total > 0 ? text_commas(arena, (int64_t)end->total) : "?", text_plural(end->total),
            resumed, text_seconds(arena, pilot->elapsed_seconds),
            child_ending(&watch->run.child, arena));
    out_put(out, "  GPU hours    %s; planned%s: %s%s\n", text_hours(arena, end->used_gpu_hours),
            begun > 0 ? " for the rest" : "", spell_hours(arena, end->planned.gpu_hours),
            !is_complete(watch, end)       ? ""
            : end->place == OUTLOOK_INSIDE ? ": within the range"
            : end->place == OUTLOOK_ABOVE  ? ": more than planned"
                                           : ": less than planned");
    if (!isnan(end->used_usd))
        out_put(out, "  cost         %s; planned: %s\n", text_usd(arena, end->used_usd),
                text_usd(arena, end->planned.cost_usd.mid));
    if (!isnan(watch->run.source->series.loss))
        out_put(out, "  loss         %.4g at the last step\n", watch->run.source->series.loss);
    pilot_text(pilot, arena, out);
}

// Adds to what is doubtful about the measurement that the GPUs cannot be so fast.
static void doubt_peak(struct pilot *pilot, const struct command_line *line)
{
    struct catalog catalog;
    const char *doubts = pilot->doubts;
    if (!data_open(&catalog, line) && plausible_pilot(&catalog, pilot, "its speed"))
        pilot->doubts = text_format(line->arena, "%s%s%s", doubts ? doubts : "", doubts ? "; " : "",
                                    error_text());
    fail(OK, "%s", "");
}

// Why later plans do not learn from a run that ended well; NULL: they do.
static const char *not_learned(const struct watch *watch, const struct pilot *pilot,
                               const struct outlook *end)
{
    const struct pilot_configuration *ran = &watch->ran, *planned = &watch->plan.configuration;
    if (!is_complete(watch, end))
        return text_format(watch->line->arena, "%.0f of %.0f steps are not the whole run",
                           wrapped_steps(&watch->run), end->total);
    if (watch->elsewhere)
        return text_format(watch->line->arena, "it ran on %lld × %s, and the plan is for %lld × %s",
                           (long long)ran->gpus, ran->gpu ? ran->gpu : "?",
                           (long long)planned->gpus, planned->gpu ? planned->gpu : "?");
    return pilot->doubts;
}

static enum err record(struct watch *watch, const struct outlook *end)
{
    struct arena *arena = watch->line->arena;
    struct pilot pilot;
    struct out text = print_out(arena), document = { .arena = arena }, remarks = document;
    wrapped_pilot_fill(&pilot, arena, &watch->run, &watch->plan);
    pilot.as_of = data_today(arena);
    pilot.configuration = watch->ran;
    doubt_peak(&pilot, watch->line);
    wrapped_remarks(&watch->run, arena, &remarks);
    write_summary(watch, &pilot, end, &text);
    write_record(watch, &pilot, end, &document);
    wrapped_end(&watch->run);
    print_error(out_string(&remarks));
    enum err err = asked.out ? file_write(asked.out, out_view(&document)) : OK;
    const char *why = not_learned(watch, &pilot, end);
    if (why && !watch->run.child.code)
        ledger_entry_refuse(watch->line, why);
    else if (!why)
        ledger_entry_answer(watch->line, out_view(&document), watch->plan.document);
    if (!watch->line->common.json)
        print_text(&text);
    if (watch->line->common.json || err) // a full disk does not lose the record
        print_data(out_view(&document));
    return err ? error_prefix(err, "the record is printed above, because ") : OK;
}

static enum err run(struct command_line *line)
{
    struct watch *watch = ARENA_NEW(line->arena, struct watch, 1);
    watch->line = line;
    TRY(read_options(watch));
    struct wrapped_settings settings = {
        .command = line->rest,
        .pattern = asked.pattern,
        .log = asked.log,
        .manner = CHILD_FORWARDS,
        .grace_seconds = asked.grace,
        .silent_seconds = INFINITY,
        .sample_seconds = 1,
        .step_tokens = asked.tokens_per_step,
        .gpus = (int)watch->ran.gpus,
        .planned_tokens = outlook_step_tokens(&watch->plan),
        .planned_rows = watch->plan.configuration.global_batch,
        .sights = outlook_sights(&watch->plan),
        .steps_per_epoch = watch->plan.steps_per_epoch,
        .accumulation = watch->plan.configuration.accumulation,
        .rule = outlook_rule(&watch->plan),
        .json = line->common.json,
        .quiet = line->common.quiet,
    };
    settings.rule.rest = true;
    TRY(wrapped_start(&watch->run, line->arena, &settings));
    loop(watch);
    struct outlook end = look(watch);
    int code = watch->run.child.code, number = stopping_signal(watch, &end);
    enum err err = record(watch, &end);
    if (!code && !number)
        return err;
    if (err)
        print_note("%s", error_text());
    if (number) // a job that was preempted is not finished, whatever its trainer says
        return fail((enum err)(128 + number),
                    "stopped by signal %d after %.0f of %.0f steps: the trainer's exit code is 0, "
                    "but the run is not finished",
                    number, wrapped_steps(&watch->run), end.total);
    return fail((enum err)code, "the trainer's exit code is %d", code);
}

static const char *const first[] = { "plan",           "pilot",           "gpu", "gpus",
                                     "price",          "tokens_per_step", "log", "pattern",
                                     "silent_minutes", "grace",           "out", NULL };

static const struct command_example examples[] = {
    { "a run with its forecast GPU hours and cost, kept as a record",
      "gpuhours watch --plan plan.json --out run.json -- torchrun --nproc-per-node 8 train.py" },
    { 0 },
};

const struct command command_watch = {
    .name = "watch",
    .summary = "run a trainer and forecast its end: GPU hours and cost",
    .usage = "--plan FILE [OPTION...] -- COMMAND...",
    .about = "Runs the command to its end as it is, reads its progress from its output or log, and "
             "shows the expected GPU hours and cost next to the plan's range. Ends with the exit "
             "code of the command; with 128 + N where signal N stopped it before its last step, "
             "also if it saved and ended with 0.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
