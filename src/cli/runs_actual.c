// SPDX-License-Identifier: Apache-2.0
// gpuhours runs actual: the document of a finished run, from numbers or a trainer's log.

#include "cli/terminal/print.h"
#include "cli/runs.h"

#include "core/trainers/step_series.h"
#include "core/trainers/trainer_files.h"
#include "host/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct field runs_actual_fields[] = {
    FIELD(runs_actual, plan, TEXT, "plan document, instead of the id of a plan", .value = "FILE",
          .fallback = ""),
    FIELD(runs_actual, gpu_hours, NUMBER, "measured GPU hours", .value = "HOURS",
          .fallback = "wall hours times GPUs"),
    FIELD(runs_actual, wall_hours, NUMBER, "measured hours from start to end", .value = "HOURS",
          .fallback = "those of the log"),
    FIELD(runs_actual, tokens_per_second, NUMBER, "measured tokens per second, over all GPUs",
          .fallback = "those of the log"),
    FIELD(runs_actual, log, TEXT, "trainer's output, trainer_state.json, CSV or TensorBoard file",
          .value = "FILE", .fallback = ""),
    FIELD(runs_actual, pattern, TEXT, "regular expression whose first group is the step number",
          .value = "REGEX", .fallback = "detected"),
    FIELD(runs_actual, tokens_per_step, COUNT, "tokens per step over all GPUs, if the log has none",
          .fallback = "those of the plan"),
    { 0 },
};

// The result of a run, read from its log.
struct told {
    bool is_log, finished; // finished: the last step was reached
    struct step_series series;
    struct steady steady;
};

// --- a log -------------------------------------------------------------------

// Tokens per step of the plan, for trainers that report none; of so many rows, where they are
// known.
static double planned_step_tokens(const struct history_entry *plan, struct arena *arena,
                                  double rows)
{
    struct json tree;
    if (!plan->document || json_read(&tree, arena, text_of(plan->document), "plan"))
        return 0;
    const struct json *workload = json_get(&tree, "workload");
    double tokens = json_get_number(workload ? workload : &tree, "processed_tokens", NAN);
    double steps = json_get_number(workload ? workload : &tree, "steps", NAN);
    double share = rows / json_get_number(json_get(&tree, "configuration"), "global_batch", NAN);
    return tokens > 0 && steps > 0 ? tokens / steps * (share > 0 ? share : 1) : 0;
}

static enum err read_log(struct told *out, struct arena *arena, const struct runs_actual *actual,
                         const struct history_entry *plan)
{
    struct file file;
    struct trainer_log *log = ARENA_NEW(arena, struct trainer_log, 1);
    struct step_series *series = &out->series;
    step_series_init(series, arena);
    series->reads_back = !trainer_files_has_clock(actual->log);
    series->gpus = (int)plan->gpus;
    TRY(trainer_log_init(log, arena, actual->pattern, step_series_add, series));
    TRY(file_open(&file, actual->log));
    enum err err = trainer_files_read(log, file.text, actual->log);
    file_close(&file);
    TRY(err);
    series->step_tokens = actual->tokens_per_step > 0
                              ? (double)actual->tokens_per_step
                              : planned_step_tokens(plan, arena, series->global_batch);
    step_series_finish(series);
    if (!series->count && !(series->run_seconds > 0) && !series->rate_count)
        return fail(ERR_INPUT,
                    "%s: has no steps with times; give --pattern to match its lines, or the result "
                    "with --wall-hours and --tokens-per-second",
                    actual->log);
    steady_measure(&out->steady, arena, series->steps, series->count,
                   &(struct steady_rule){ .clock_seconds = step_series_clock(series) });
    out->is_log = true;
    bool at_end = series->ended || series->last_step >= series->total;
    out->finished = !isnan(series->run_seconds) || (series->count && at_end);
    return OK;
}

// The sustained rate; the mean if the run is too short for one, or has no times.
static double rate_of(const struct told *told)
{
    double sustained = told->steady.tokens_per_s.mid;
    return sustained > 0 ? sustained : step_series_mean_rate(&told->series);
}

static double steps_seconds(const struct step_series *s)
{
    double seconds = 0;
    for (size_t i = 0; i < s->count; i++)
        seconds += s->steps[i].seconds;
    return seconds;
}

static double hours_of(const struct told *told)
{
    const struct step_series *s = &told->series;
    return (isnan(s->run_seconds) ? steps_seconds(s) : s->run_seconds) / 3600;
}

// A log that begins at a later step is of a run that resumed there; or, where the run took far
// longer than these steps, the end of its log.
static bool is_resumed(const struct told *told)
{
    const struct step_series *s = &told->series;
    return told->finished && s->begun > 0 && !(s->run_seconds > 1.5 * steps_seconds(s));
}

// --- numbers -----------------------------------------------------------------

// Fills in what was not given from the log, and GPU hours and wall hours from each other.
static void complete(struct runs_actual *a, const struct told *told,
                     const struct history_entry *plan)
{
    double gpus = plan->gpus > 0 ? (double)plan->gpus : NAN;
    if (told->is_log && isnan(a->tokens_per_second))
        a->tokens_per_second = rate_of(told);
    if (told->finished && isnan(a->wall_hours) && isnan(a->gpu_hours))
        a->wall_hours = hours_of(told);
    if (isnan(a->gpu_hours))
        a->gpu_hours = a->wall_hours * gpus;
    if (isnan(a->wall_hours))
        a->wall_hours = a->gpu_hours / gpus;
}

static enum err check(const struct runs_actual *a)
{
    const struct {
        const char *option;
        double value;
    } rows[] = { { "gpu-hours", a->gpu_hours },
                 { "wall-hours", a->wall_hours },
                 { "tokens-per-second", a->tokens_per_second } };
    bool any = a->log;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        any = any || !isnan(rows[i].value);
        if (rows[i].value <= 0 || rows[i].value > 1e15)
            return fail(ERR_USAGE, "--%s is %g, must be above 0 and at most 1e15", rows[i].option,
                        rows[i].value);
    }
    return any ? OK
               : fail(ERR_USAGE, "actual needs a result: --gpu-hours, --wall-hours, "
                                 "--tokens-per-second or --log");
}

// Rounded numbers may differ by a quarter; a run of another number of GPUs is not of this plan.
static enum err check_gpus(const struct runs_actual *a, const struct history_entry *plan)
{
    double gpus = a->gpu_hours / a->wall_hours;
    if (!(plan->gpus > 0) || !(gpus > 1.25 * (double)plan->gpus))
        return OK;
    return fail(ERR_USAGE,
                "--gpu-hours %g in --wall-hours %g would take %.3g GPUs, but the plan has %lld; "
                "give only one of the two, or the plan of that run",
                a->gpu_hours, a->wall_hours, gpus, (long long)plan->gpus);
}

static void write_told(struct json_writer *w, const struct told *told, bool resumed)
{
    const struct step_series *s = &told->series;
    json_put_bool(w, "finished", told->finished);
    json_put_number(w, "steps", s->last_step);
    if (resumed)
        json_put_number(w, "resumed_from_step", s->begun);
    json_put_count(w, "warmup_steps", told->steady.warmup_steps);
    json_put_string(w, "steadiness", steady_verdict_name(told->steady.verdict));
    json_put_string(w, "tokens_from", step_series_origin_name(s->origin));
    json_put_number(w, "loss", s->loss);
    json_put_number(w, "peak_bytes", s->peak_bytes);
}

enum err runs_actual_document(struct out *out, struct arena *arena,
                              const struct runs_actual *actual, const struct history_entry *plan)
{
    struct runs_actual a = *actual;
    struct told *told = ARENA_NEW(arena, struct told, 1);
    TRY(check(&a));
    TRY(check_gpus(&a, plan));
    if (a.log)
        TRY(read_log(told, arena, &a, plan));
    complete(&a, told, plan);
    bool given = !isnan(actual->wall_hours) || !isnan(actual->gpu_hours);
    bool resumed = told->is_log && is_resumed(told) && !given;
    if (resumed)
        print_note("%s goes on from step %.0f: its rate is recorded, its hours are not", a.log,
                   told->series.begun);
    if (told->is_log && !told->finished && !given)
        print_note("%s ends at step %.0f, before its last: its rate is recorded, its hours are "
                   "not",
                   a.log, told->series.last_step);
    struct json_writer w = { .out = out };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "run");
    json_put_count(&w, "version", 1);
    json_put_number(&w, "tokens_per_second", a.tokens_per_second);
    json_put_number(&w, "wall_hours", a.wall_hours);
    json_put_number(&w, "gpu_hours", a.gpu_hours);
    if (told->is_log)
        write_told(&w, told, resumed);
    json_close(&w, '}');
    return OK;
}
