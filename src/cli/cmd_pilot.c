// SPDX-License-Identifier: Apache-2.0
// gpuhours pilot: measures the throughput of a training run in a few minutes.
//
// After -- comes the command line of any trainer: it runs as on a terminal until its throughput is
// known well enough, and is then stopped. Without one, the built-in engine runs the plan.

#include "cli/data.h"
#include "cli/pilot_engine.h"
#include "cli/pilot_forecast.h"
#include "cli/pilot_from.h"
#include "cli/ledger_entry.h"
#include "cli/terminal/print.h"
#include "cli/wrapped/wrapped_pilot.h"
#include "core/measured/plausible.h"
#include "host/file.h"
#include "host/folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MINUTES 20 // of a wrapped trainer, at most

static struct asked {
    const char *plan, *pattern, *log, *out;
    int64_t steps, gpus;
    double tokens_per_step, minutes, until_width, at_least, grace, silent_minutes;
} asked;

static const struct field asked_fields[] = {
    FIELD(asked, plan, TEXT, "plan to measure, from gpuhours plan --json", .value = "FILE",
          .fallback = ""),
    FIELD(asked, tokens_per_step, NUMBER,
          "tokens per step over all GPUs, if the trainer prints none", .value = "TOKENS",
          .fallback = "from the trainer or the plan"),
    FIELD(asked, steps, COUNT, "steps to measure after the warm-up",
          .fallback = "until the speed is known"),
    FIELD(asked, minutes, NUMBER, "longest duration in minutes", .value = "MINUTES",
          .fallback = FIELD_WORDS(MINUTES) ", or " FIELD_WORDS(
              PILOT_ENGINE_MINUTES) " with the built-in engine"),
    FIELD(asked, until_width, SHARE, "stop when the speed is known to ± this share"),
    FIELD(asked, at_least, SECONDS, "shortest steady phase, so that clocks settle"),
    FIELD(asked, out, TEXT, "file to write", .value = "FILE",
          .fallback = "pilot.json, or none with --json"),
    { 0 },
};

static const struct field wrapped_fields[] = {
    FIELD(asked, pattern, TEXT, "regular expression whose first group is the step number",
          .value = "REGEX", .fallback = "detected"),
    FIELD(asked, log, TEXT, "log file or folder to follow; without a command, of a finished run",
          .value = "FILE", .fallback = "the trainer's output"),
    FIELD(asked, gpus, COUNT, "number of GPUs that the trainer uses",
          .fallback = "from --from, else as observed"),
    FIELD(asked, grace, SECONDS, "wait after SIGINT before SIGTERM, and again before SIGKILL"),
    FIELD(asked, silent_minutes, NUMBER, "minutes without output or steps before it is stopped",
          .value = "MINUTES"),
    { 0 },
};

static struct pilot_engine_request engine;
static struct from from;

static const struct options *list_options(struct arena *arena)
{
    static const struct options groups[] = {
        OPTIONS("measurement", asked_fields, &asked),
        OPTIONS("another trainer, after --", wrapped_fields, &asked),
        OPTIONS("its configuration", from_fields, &from),
        OPTIONS("built-in engine", pilot_engine_fields, &engine),
        OPTIONS("reading the data, for the engine", dataset_fields, &engine.data),
        { 0 },
    };
    (void)arena;
    asked = (struct asked){ .tokens_per_step = NAN,
                            .minutes = NAN,
                            .until_width = 0.02,
                            .at_least = 20,
                            .grace = 10,
                            .silent_minutes = 30 };
    engine = pilot_engine_default();
    from = (struct from){ 0 };
    return groups;
}

static enum err read_options(struct command_line *line)
{
    TRY(command_read(line, list_options(line->arena)));
    if (!(asked.tokens_per_step > 0) && !isnan(asked.tokens_per_step))
        return fail(ERR_USAGE, "--tokens-per-step is %g, must be above 0", asked.tokens_per_step);
    if (asked.minutes <= 0 || asked.silent_minutes <= 0)
        return fail(ERR_USAGE, "--minutes and --silent-minutes must be above 0");
    if (asked.until_width <= 0)
        return fail(ERR_USAGE, "--until-width is 0, which no measurement reaches; 0.02 is usual");
    if (line->rest && !line->rest[0])
        return fail(ERR_USAGE, "-- must be followed by a trainer's command line");
    if ((line->rest || asked.log) && line->positional_count)
        return fail(ERR_USAGE, "%s: %s; only the built-in engine takes data here",
                    line->positional[0],
                    line->rest ? "a trainer after -- reads its own data"
                               : "--log without a command reads a run that is over");
    if (asked.log && !line->rest && folder_is(asked.log))
        return fail(ERR_USAGE,
                    "--log %s: a folder can only be followed while the trainer runs; give the "
                    "trainer's command line after --, or the log file of a run that is over",
                    asked.log);
    if (from.from && asked.plan)
        return fail(ERR_USAGE, "--from %s and --plan %s: give only one of them", from.from,
                    asked.plan);
    if (from.from && !line->rest && !asked.log)
        return fail(ERR_USAGE,
                    "--from %s needs the trainer's command line after --, or the log of a run that "
                    "is over, with --log; the built-in engine "
                    "takes --plan, which gpuhours plan --from %s --json writes",
                    from.from, from.from);
    if (!asked.out && !line->common.json)
        asked.out = "pilot.json";
    return file_try(asked.out);
}

static enum err read_plan(struct outlook_plan *plan, struct arena *arena)
{
    struct text text;
    TRY(file_read(&text, arena, asked.plan));
    return outlook_plan_read(plan, arena, text, asked.plan);
}

// The built-in engine trains on given rows only, supervised or in pairs.
static enum err check_objective(struct arena *arena)
{
    struct outlook_plan plan;
    if (!asked.plan)
        return OK;
    TRY(read_plan(&plan, arena));
    if (!plan.objective || !strcmp(plan.objective, objective_names[OBJECTIVE_DPO]))
        return OK;
    return fail(ERR_UNAVAILABLE,
                "%s: is of %s, which the built-in engine does not train; give the "
                "trainer's command line after --",
                asked.plan, plan.objective);
}

// --- the result --------------------------------------------------------------

static void put_written(const struct pilot *pilot, struct arena *arena)
{
    const char *lacks = pilot_lacks(pilot);
    struct out out = print_out(arena);
    out_labelled(&out, "written",
                 lacks ? text_format(arena, "%s; gpuhours plan --pilot cannot use it yet: it %s",
                                     asked.out, lacks)
                       : text_format(arena, "%s, for gpuhours plan --pilot", asked.out));
    print_text(&out);
}

// Prints the document if it cannot be written: a full disk does not lose a measurement.
static enum err write_result(const struct pilot *pilot, const struct outlook_plan *plan,
                             struct command_line *line)
{
    struct out document = { .arena = line->arena };
    pilot_write(pilot, &document);
    enum err err = asked.out ? file_write(asked.out, out_view(&document)) : OK;
    if (pilot->doubts)
        ledger_entry_refuse(line, pilot->doubts);
    else if (pilot->tokens_per_s.mean > 0)
        ledger_entry_answer(line, out_view(&document), plan ? plan->document : (struct text){ 0 });
    if (line->common.json || err)
        print_data(out_view(&document));
    else
        put_written(pilot, line->arena);
    return err ? error_prefix(err, "the result is printed above, because ") : OK;
}

static enum err show(const struct pilot *pilot, const struct outlook_plan *plan,
                     struct command_line *line)
{
    struct out out = print_out(line->arena);
    if (!line->common.json) {
        out_put(&out, "\n");
        pilot_text(pilot, line->arena, &out);
        if (asked.plan && pilot->tokens_per_s.mean > 0)
            pilot_forecast_put(&out, line, asked.plan, pilot, "this pilot");
        if (pilot->from && line->common.explain) {
            out_put(&out, "\n");
            trainer_config_text(pilot->from, &out);
        }
        print_text(&out);
    }
    struct catalog catalog;
    TRY(data_open(&catalog, line));
    TRY(plausible_pilot(&catalog, pilot, "not written"));
    return write_result(pilot, plan, line);
}

// Shows what was measured. Of two failures the graver is the command's, and the other a note: a
// trainer that failed comes before a result that was not written, and that before a rate that is
// not steady.
static enum err conclude(const struct pilot *pilot, const struct outlook_plan *plan,
                         struct command_line *line, enum err verdict, const char *why)
{
    enum err shown = show(pilot, asked.plan ? plan : NULL, line);
    if (!verdict)
        return shown;
    if (shown && verdict == ERR_ANSWER) {
        print_note("%s", why);
        return shown;
    }
    if (shown)
        print_note("%s", error_text());
    return fail(verdict, "%s", why);
}

// --- a trainer after -- ------------------------------------------------------

static bool is_enough(struct wrapped *run)
{
    const struct steady *steady = wrapped_steady(run);
    if (wrapped_elapsed(run) >= 60 * (isnan(asked.minutes) ? MINUTES : asked.minutes))
        return true;
    if (asked.steps) // a trainer may report every tenth
        return steady->ordinary_steps >= asked.steps && steady->verdict != STEADY_TOO_SHORT;
    return steady->verdict == STEADY_YES && steady->half_width <= asked.until_width &&
           steady->ordinary_seconds >= asked.at_least;
}

static const char *status(const struct wrapped *run, struct arena *arena)
{
    struct out out = { .arena = arena };
    const struct steady *steady = &run->steady;
    const struct step_series *series = &run->source->series;
    if (!series->count) {
        out_put(&out, "no step yet, %s", text_seconds(arena, wrapped_elapsed(run)));
        return out_string(&out);
    }
    out_put(&out, "step %.0f", wrapped_steps(run));
    if (steady->tokens_per_s.mid > 0)
        out_put(&out, "  %s tokens/s", text_commas(arena, llround(steady->tokens_per_s.mid)));
    else if (steady->step_seconds.mid > 0)
        out_put(&out, "  %s a step", text_seconds(arena, steady->step_seconds.mid));
    if (steady->half_width > 0)
        out_put(&out, " ± %.1f %%, target ± %.1f %%", 100 * steady->half_width,
                100 * asked.until_width);
    if (steady->verdict == STEADY_TOO_SHORT)
        out_put(&out, "  warming up");
    else if (steady->more_steps > 0 && !asked.steps)
        out_put(&out, "  %s to go",
                text_seconds(arena, steady->more_steps * steady->step_seconds.mid));
    if (run->gpu) {
        struct gpu_sample sample = gpu_monitor_last(run->gpu, 0);
        out_put(&out, "  %s, %.0f %% busy", text_bytes(arena, sample.memory_bytes),
                100 * sample.utilisation);
    }
    return out_string(&out);
}

static void loop(struct wrapped *run)
{
    while (wrapped_poll(run)) {
        if (is_enough(run))
            wrapped_stop(run);
        if (!status_line_due(&run->status))
            continue;
        struct arena scratch = { 0 };
        status_line_show(&run->status, status(run, &scratch));
        arena_release(&scratch);
    }
    wrapped_finish(run);
}

// The last line that it printed by itself, as the end of a sentence.
static const char *last_words(const struct wrapped *run, struct arena *arena)
{
    const char *line = child_last_lines(&run->child, arena, 1);
    return *line ? text_format(arena, "; its last line: %.200s", line) : "";
}

// A number of steps that was asked for is measured, however short they are.
static const char *too_brief(const struct wrapped *run, struct arena *arena)
{
    return asked.steps ? NULL : steady_too_brief(&run->steady, asked.at_least, arena);
}

// Why there is no result, or not the whole of it; OK if nothing is wrong.
static enum err judge(const struct wrapped *run, struct arena *arena)
{
    const struct child *child = &run->child;
    const struct step_series *series = &run->source->series;
    const char *steps =
        text_format(arena, "%.0f step%s", wrapped_steps(run), text_plural(wrapped_steps(run)));
    if (run->how == WRAPPED_INTERRUPTED)
        return fail((enum err)(128 + child->interrupted), "stopped by signal %d after %s",
                    child->interrupted, steps);
    if (run->how == WRAPPED_SILENT)
        return fail(ERR_ANSWER,
                    "no output and no step for %s, after %s: the trainer seems to hang and was "
                    "stopped (--silent-minutes sets how long to wait)%s",
                    text_seconds(arena, run->settings.silent_seconds), steps,
                    last_words(run, arena));
    if (run->how == WRAPPED_ENDED && child->code && series->out_of_memory)
        return fail(ERR_MEMORY, "the trainer ran out of GPU memory after %s and %s%s", steps,
                    child_ending(child, arena), last_words(run, arena));
    if (run->how == WRAPPED_ENDED && child->code)
        return fail((enum err)child->code, "the trainer %s after %s%s", child_ending(child, arena),
                    steps, last_words(run, arena));
    if (!series->count && !isnan(series->loss))
        return fail(ERR_ANSWER,
                    "the trainer printed losses but no step numbers; enable its progress bar "
                    "(transformers: disable_tqdm=False, or log_level=info), or give --log DIR if "
                    "it writes TensorBoard events");
    if (!series->count)
        return fail(ERR_ANSWER,
                    "no training step was recognised in the trainer's output in %s; give "
                    "--pattern 'step (\\d+)' to match its lines, or --log FILE if it logs to a "
                    "file%s",
                    text_seconds(arena, wrapped_elapsed(run)), last_words(run, arena));
    if (run->steady.verdict != STEADY_YES)
        return fail(ERR_ANSWER, "not steady after %s: %s", steps, run->steady.reason);
    const char *brief = too_brief(run, arena);
    if (brief)
        return fail(ERR_ANSWER, "not steady after %s: %s", steps, brief);
    if (series->origin == STEP_SERIES_NONE)
        return fail(ERR_USAGE,
                    "%.3g steps/s, but the trainer does not print its tokens per step; give "
                    "--tokens-per-step N (rows × tokens per row × GPUs × accumulation), "
                    "--from CONFIG or --plan plan.json",
                    1 / run->steady.step_seconds.mid);
    return OK;
}

static struct wrapped_settings settings_of(const struct command_line *line,
                                           const struct outlook_plan *plan)
{
    struct wrapped_settings settings = {
        .command = line->rest,
        .pattern = asked.pattern,
        .log = asked.log,
        .manner = CHILD_STOPS,
        .grace_seconds = asked.grace,
        .silent_seconds = 60 * asked.silent_minutes,
        .sample_seconds = 0.1,
        .step_tokens = asked.tokens_per_step,
        .gpus = (int)asked.gpus,
        .json = line->common.json,
        .quiet = line->common.quiet,
    };
    if (plan) {
        settings.gpus = (int)plan->gpus;
        settings.planned_tokens = outlook_step_tokens(plan);
        settings.planned_rows = plan->configuration.global_batch;
        settings.sights = outlook_sights(plan);
        settings.steps_per_epoch = plan->steps_per_epoch;
        settings.accumulation = plan->configuration.accumulation;
        settings.rule = outlook_rule(plan);
    }
    settings.rule.wanted = asked.until_width;
    settings.rule.until_narrow = true; // of a log too: what a pilot printed tells the same again
    return settings;
}

static enum err measure(struct command_line *line, struct wrapped *run,
                        const struct outlook_plan *plan)
{
    struct wrapped_settings settings = settings_of(line, plan);
    TRY(wrapped_start(run, line->arena, &settings));
    if (!(settings.step_tokens > 0) && !(settings.planned_tokens > 0) && !line->common.quiet)
        status_line_say(&run->status,
                        "tokens per step are not known. Unless the trainer prints them, the result "
                        "has steps/s only and plan --pilot cannot use it; give --tokens-per-step "
                        "N, --from CONFIG or --plan plan.json");
    loop(run);
    return judge(run, line->arena);
}

// What was measured is a rate of the GPU that the driver names, whatever the plan is for. A
// trainer's configuration names none.
static enum err name_gpus(struct pilot *pilot, const struct command_line *line, struct out *remarks)
{
    struct pilot_configuration *c = &pilot->configuration;
    const char *planned = c->gpu, *seen = pilot->gpu.name;
    struct catalog catalog;
    const struct gpu *gpu;
    TRY(data_open(&catalog, line));
    if (seen && !catalog_gpu(&gpu, &catalog, seen))
        c->gpu = gpu->name;
    else if (!planned)
        c->gpu = seen;
    if (planned && strcmp(planned, c->gpu))
        out_put(remarks,
                "gpuhours: the plan is for %s, this was measured on %s and counts for that GPU\n",
                planned, c->gpu);
    if (!c->gpus)
        c->gpus = pilot->gpu.count;
    return OK;
}

// The plan that is measured, or what the trainer's configuration tells of it; out is NULL without.
static enum err read_planned(const struct outlook_plan **out, struct command_line *line)
{
    struct outlook_plan *plan = ARENA_NEW(line->arena, struct outlook_plan, 1);
    *out = asked.plan || from.from ? plan : NULL;
    if (asked.plan) {
        TRY(read_plan(plan, line->arena));
        if (asked.gpus > 0 && asked.gpus != plan->gpus)
            return fail(ERR_USAGE,
                        "--gpus is %lld, and %s is for %lld; plan for as many as the trainer uses "
                        "with gpuhours plan --plan %s --gpus %lld",
                        (long long)asked.gpus, asked.plan, (long long)plan->gpus, asked.plan,
                        (long long)asked.gpus);
        return OK;
    }
    if (!from.from)
        return OK;
    return pilot_from_read(plan, line,
                           &(struct pilot_from){ &from, engine.profile,
                                                 asked.gpus > 0 ? asked.gpus : PLAN_NOT_GIVEN });
}

static enum err run_wrapped(struct command_line *line)
{
    struct wrapped *run = ARENA_NEW(line->arena, struct wrapped, 1);
    const struct outlook_plan *plan;
    struct pilot pilot;
    TRY(read_planned(&plan, line));
    enum err verdict = measure(line, run, plan);
    if (!run->child.inside) // never started
        return verdict;
    const char *why = text_copy(line->arena, text_of(verdict ? error_text() : ""));
    struct out remarks = { .arena = line->arena };
    wrapped_remarks(run, line->arena, &remarks);
    if (run->no_gpu && !line->common.quiet)
        out_put(&remarks, "gpuhours: %s\n", run->no_gpu);
    wrapped_pilot_fill(&pilot, line->arena, run, plan);
    pilot.as_of = data_today(line->arena);
    pilot.from = from.config;
    const char *brief = too_brief(run, line->arena);
    if (brief)
        pilot.steady = false, pilot.verdict = brief;
    wrapped_end(run);
    if (plan)
        TRY(name_gpus(&pilot, line, &remarks));
    print_error(out_string(&remarks));
    if (pilot.steps > 0 && run->steady.verdict != STEADY_TOO_SHORT)
        return conclude(&pilot, plan, line, verdict, why);
    return verdict ? fail(verdict, "%s", why) : OK;
}

// --- the log of a run that is over -------------------------------------------

// Where the log has no times of steps, the mean of the run is all that is known.
static void take_mean(struct pilot *pilot, const struct step_series *series)
{
    pilot->tokens_per_s = (struct pilot_rate){ step_series_mean_rate(series), NAN, NAN };
    pilot->steps = series->last_step > 0 ? (int64_t)series->last_step : 0;
    pilot->steady = false;
    pilot->verdict = "the log has step times for too few steps, so this is the mean of the whole "
                     "run, including warm-up, evaluations and saves";
}

static enum err judge_log(const struct pilot *pilot, const struct step_series *series)
{
    if (series->out_of_memory)
        return fail(ERR_MEMORY, "%s: the trainer ran out of GPU memory after step %.0f", asked.log,
                    series->last_step);
    if (pilot->tokens_per_s.mean > 0)
        return pilot->steady ? OK : fail(ERR_ANSWER, "%s: %s", asked.log, pilot->verdict);
    if (!series->count && !(series->run_seconds > 0) && !series->rate_count)
        return fail(
            ERR_INPUT,
            "%s: has no steps with times: no time stamps, elapsed times, seconds of a step, "
            "run time or tokens/s; give --pattern to match its lines",
            asked.log);
    return fail(
        ERR_USAGE,
        "%s: does not say how many tokens a step has; give --tokens-per-step N (rows × tokens "
        "per row × GPUs × accumulation), --from CONFIG or --plan plan.json",
        asked.log);
}

static enum err run_log(struct command_line *line)
{
    struct wrapped *run = ARENA_NEW(line->arena, struct wrapped, 1);
    const struct outlook_plan *plan;
    struct pilot pilot;
    TRY(read_planned(&plan, line));
    struct wrapped_settings settings = settings_of(line, plan);
    TRY(wrapped_read(run, line->arena, &settings));
    const struct step_series *series = &run->source->series;
    wrapped_pilot_fill(&pilot, line->arena, run, plan);
    if (run->steady.verdict == STEADY_TOO_SHORT)
        take_mean(&pilot, series);
    pilot.elapsed_seconds = series->run_seconds;
    pilot.as_of = data_today(line->arena);
    pilot.from = from.config;
    struct out remarks = { .arena = line->arena };
    wrapped_remark_batches(run, &remarks);
    print_error(out_string(&remarks));
    enum err verdict = judge_log(&pilot, series);
    const char *why = text_copy(line->arena, text_of(verdict ? error_text() : ""));
    if (!line->common.quiet)
        print_note(
            "%s does not say how long start-up took, what else ran, or on which GPU; %s", asked.log,
            plan && plan->configuration.gpu
                ? text_format(line->arena, "the plan's %s is assumed", plan->configuration.gpu)
                : "--plan names the GPU, or set configuration.gpu in the result");
    if (pilot.tokens_per_s.mean > 0)
        return conclude(&pilot, plan, line, verdict, why);
    return verdict ? fail(verdict, "%s", why) : OK;
}

static enum err run(struct command_line *line)
{
    TRY(read_options(line));
    if (line->rest)
        return run_wrapped(line);
    if (asked.log)
        return run_log(line);
    TRY(check_objective(line->arena));
    struct pilot pilot;
    engine.plan = asked.plan;
    engine.steps = asked.steps;
    engine.minutes = asked.minutes;
    engine.wanted = asked.until_width;
    engine.at_least = asked.at_least;
    bool is_told;
    TRY(pilot_engine_run(&pilot, line, &engine, &is_told));
    if (is_told)
        return OK;
    enum err verdict = OK;
    if (!pilot.steady)
        verdict = fail(ERR_ANSWER, "not steady after %lld steps: %s",
                       (long long)(pilot.warmup_steps + pilot.steps), pilot.verdict);
    const char *why = text_copy(line->arena, text_of(verdict ? error_text() : ""));
    return conclude(&pilot, NULL, line, verdict, why);
}

static const char *const first[] = {
    "plan", "tokens_per_step", "steps", "minutes", "until_width", "log", "pattern", "from",
    "data", "device",          "out",   NULL
};

static const struct command_example examples[] = {
    { "any trainer, until its speed is known to 2 %",
      "gpuhours pilot --tokens-per-step 65536 -- torchrun --nproc-per-node 8 train.py" },
    { "a finished run, from what its trainer printed",
      "gpuhours pilot --plan plan.json --log train.log" },
    { "a small model on the built-in engine; first its plan",
      "gpuhours plan train.jsonl --model ./model --stack native --gpu h100 --json >small.json" },
    { "then the measurement, on this machine's processor",
      "gpuhours pilot --plan small.json --model ./model --data train.jsonl --device cpu --steps "
      "20" },
    { 0 },
};

const struct command command_pilot = {
    .name = "pilot",
    .summary = "measure the speed of a trainer or of the built-in engine",
    .usage =
        "[OPTION...] -- COMMAND... | --log FILE [OPTION...] | --plan FILE [OPTION...] [DATA...]",
    .about =
        "Runs a trainer until its sustained throughput is known well enough, then stops it; "
        "warm-up and stalls are left out. Without a command after --, --log reads what the trainer "
        "of a finished run printed or wrote; without either, the built-in engine runs the "
        "configuration of a plan. gpuhours plan --pilot replaces its assumed speed by the result.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
