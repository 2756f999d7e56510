// SPDX-License-Identifier: Apache-2.0
// Runs a trainer, feeds its output and files to the log readers, and measures its steps.

#include "cli/terminal/print.h"
#include "cli/wrapped/wrapped.h"

#include "core/trainers/trainer_files.h"
#include "host/clock.h"
#include "host/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double POLL_SECONDS = 0.1, MEASURE_SECONDS = 0.5;
static const double LOOK_BYTES_PER_SECOND = 4e6;
static const double IDLE_BYTES = 64e6;  // a GPU in use has at least this much more than before
static const double OTHERS_BYTES = 2e9; // more than drivers and displays use

// --- input -------------------------------------------------------------------

static void on_event(void *context, const struct trainer_log_event *event)
{
    struct wrapped_source *source = context;
    struct trainer_log_event ours = *event;
    ours.seconds += source->offset_seconds;
    if (event->kind == TRAINER_LOG_BEGIN)
        source->begin_seconds = ours.seconds;
    step_series_add(&source->series, &ours);
}

// Tokens of a step that the trainer does not count: those given, else the plan's, by their rows.
static double told_tokens(const struct wrapped *run, const struct step_series *series)
{
    const struct wrapped_settings *s = &run->settings;
    double rows = series->global_batch / s->planned_rows;
    double planned = s->planned_tokens * (rows > 0 && isfinite(rows) ? rows : 1);
    return s->step_tokens > 0 ? s->step_tokens : planned > 0 ? planned : 0;
}

static enum err begin_source(struct wrapped_source *source, struct wrapped *run)
{
    source->begin_seconds = NAN;
    step_series_init(&source->series, run->arena);
    source->series.gpus = run->settings.gpus;
    source->series.step_tokens = told_tokens(run, &source->series);
    TRY(trainer_log_init(&source->log, run->arena, run->settings.pattern, on_event, source));
    if (run->settings.accumulation > 0)
        source->log.accumulation = run->settings.accumulation;
    if (run->settings.steps_per_epoch > 0)
        source->log.steps_per_epoch = run->settings.steps_per_epoch;
    return OK;
}

static enum err new_source(struct wrapped_source **out, struct wrapped *run, const char *path)
{
    *out = ARENA_NEW(run->arena, struct wrapped_source, 1);
    (*out)->path = path;
    return begin_source(*out, run);
}

static void feed(struct wrapped *run, struct text bytes, double seconds)
{
    if (!run->child.stopped) // output while it shuts down is no training step
        trainer_log_feed(&run->printed->log, bytes.at, bytes.size, seconds);
}

// Whether there is time to read so much: a trainer that prints gigabytes must not wait for us.
static bool afford(struct wrapped *run, size_t size, double seconds)
{
    double gained = (seconds - run->looked_seconds) * LOOK_BYTES_PER_SECOND;
    run->looked_seconds = seconds;
    run->allowance_bytes = fmin(run->allowance_bytes + gained, LOOK_BYTES_PER_SECOND);
    bool affords = run->allowance_bytes >= (double)size;
    if (affords)
        run->allowance_bytes -= (double)size;
    else
        run->unseen_bytes += (double)size;
    return affords;
}

// Merges two streams: when the other one begins, an open line ends.
static void on_output(void *context, int stream, struct text bytes, double seconds)
{
    struct wrapped *run = context;
    if (!afford(run, bytes.size, seconds)) {
        if (run->line_open)
            feed(run, TEXT("\n"), seconds);
        run->line_open = false;
        return;
    }
    if (stream != run->last_stream && run->line_open)
        feed(run, TEXT("\n"), seconds);
    run->last_stream = stream;
    run->line_open = bytes.at[bytes.size - 1] != '\n';
    feed(run, bytes, seconds);
}

// Records of an event file arrive in pieces; an incomplete one waits for the rest. Their time is
// the time of day.
static void feed_events(struct wrapped_source *source, struct text bytes)
{
    struct timespec day;
    clock_gettime(CLOCK_REALTIME, &day);
    source->offset_seconds = clock_seconds() - ((double)day.tv_sec + 1e-9 * (double)day.tv_nsec);
    size_t used = 0, size = source->pending_size + bytes.size;
    char *all = realloc(source->pending, size);
    if (!all)
        return; // as little memory as there is, the trainer goes on
    memcpy(all + source->pending_size, bytes.at, bytes.size);
    struct text whole = { all, size };
    if (trainer_files_tensorboard(&source->log, &used, whole, source->path))
        used = size; // damaged: record boundaries are lost
    memmove(all, all + used, size - used);
    source->pending = all;
    source->pending_size = size - used;
}

static void on_file(void *context, const struct follow_piece *piece)
{
    struct wrapped *run = context;
    struct wrapped_source **source = &run->files[piece->file];
    if (run->child.stopped || (!*source && new_source(source, run, piece->path)))
        return;
    size_t before = (*source)->series.count;
    if (piece->whole) { // trainer_state.json has no times, but counts tokens
        if (!begin_source(*source, run))
            trainer_files_state(&(*source)->log, piece->bytes, piece->path);
    } else if (strstr(piece->path, "tfevents")) {
        feed_events(*source, piece->bytes);
    } else {
        trainer_log_feed(&(*source)->log, piece->bytes.at, piece->bytes.size, piece->seconds);
    }
    if ((*source)->series.count != before)
        run->step_seconds = piece->seconds;
}

// --- the loop ----------------------------------------------------------------

static bool is_ours(void *context, int pid)
{
    (void)context;
    return child_descends(pid);
}

enum err wrapped_start(struct wrapped *run, struct arena *arena,
                       const struct wrapped_settings *settings)
{
    *run = (struct wrapped){ .settings = *settings, .arena = arena };
    TRY(new_source(&run->printed, run, NULL));
    run->source = run->printed;
    run->steady.verdict = STEADY_TOO_SHORT;
    if (settings->log)
        follow_start(&run->follow, arena, settings->log, on_file, run);
    struct child_settings child = { .command = settings->command,
                                    .out = settings->json ? STDERR_FILENO : STDOUT_FILENO,
                                    .err = STDERR_FILENO,
                                    .manner = settings->manner,
                                    .grace_seconds = settings->grace_seconds,
                                    .rows_kept = status_line_rows(settings->quiet),
                                    .context = run,
                                    .output = on_output };
    TRY(child_start(&run->child, &child));
    run->began_seconds = run->step_seconds = clock_seconds();
    if (gpu_monitor_start(&run->gpu, settings->sample_seconds))
        run->no_gpu = text_copy(arena, text_of(error_text()));
    else
        gpu_monitor_own(run->gpu, is_ours, NULL);
    run->status = status_line_start(&run->child, settings->quiet);
    return OK;
}

static void look_after_silence(struct wrapped *run, double now)
{
    double last = fmax(run->child.output_seconds, run->step_seconds);
    if (run->child.stage == CHILD_RUNS && now - last > run->settings.silent_seconds) {
        run->how = WRAPPED_SILENT;
        child_stop(&run->child);
    }
}

bool wrapped_poll(struct wrapped *run)
{
    bool lives = child_poll(&run->child, POLL_SECONDS);
    double now = clock_seconds();
    if (run->settings.log && (now - run->followed_seconds >= POLL_SECONDS || !lives)) {
        run->followed_seconds = now;
        if (!lives) // a last time, new files too
            run->follow.scanned_seconds = -INFINITY;
        follow_poll(&run->follow, now);
        if (run->follow.full && !run->follow_told)
            print_note("%s: holds more than %d logs; the others are not followed",
                       run->settings.log, FOLLOW_FILES);
        run->follow_told = run->follow.full;
    }
    look_after_silence(run, now);
    if (run->child.interrupted && run->child.stopped && run->how == WRAPPED_ENDED)
        run->how = WRAPPED_INTERRUPTED;
    return lives;
}

void wrapped_stop(struct wrapped *run)
{
    if (run->child.stage != CHILD_RUNS || run->child.ended)
        return;
    run->how = WRAPPED_STOPPED;
    child_stop(&run->child);
}

// --- measuring ---------------------------------------------------------------

static void choose_source(struct wrapped *run)
{
    run->source = run->printed;
    for (int i = 0; i < run->follow.count; i++)
        if (run->files[i] && run->files[i]->series.count > run->source->series.count + 2)
            run->source = run->files[i];
}

// A file may count the tokens of steps that are printed without them.
static void borrow_tokens(struct wrapped *run, struct step_series *series)
{
    for (int i = 0; i < run->follow.count && series->origin == STEP_SERIES_NONE; i++) {
        const struct step_series *other = run->files[i] ? &run->files[i]->series : series;
        if (!(other->tokens > 0 && other->last_step > 0))
            continue;
        series->step_tokens = other->tokens / other->last_step;
        step_series_finish(series);
    }
}

// New widths that each report is expected to bring; sights NULL: none. A resumed run is a new
// process: it meets all of them again.
static void expect_widths(struct step_series *series, const struct packing_sights *sights)
{
    double done = 0, seen = 0;
    for (size_t i = 0; i < series->count; i++) {
        struct steady_step *step = &series->steps[i];
        done += step->count > 0 ? (double)step->count : 1;
        double now = sights ? packing_widths_seen(sights, done) : 0;
        step->widths = now - seen;
        seen = now;
    }
}

// The tokens that each report is expected to have, where the order of rows tells. A resumed run
// goes on in that order.
static void expect_tokens(struct step_series *series, const struct packing_sights *sights,
                          double steps)
{
    double mean = sights && steps > 0 ? packing_tokens_seen(sights, steps) / steps : 0;
    for (size_t i = 0; i < series->count; i++) {
        struct steady_step *step = &series->steps[i];
        double end = (double)step->number,
               begin = end - (double)(step->count > 0 ? step->count : 1);
        step->share =
            mean > 0
                ? (packing_tokens_seen(sights, end) - packing_tokens_seen(sights, begin)) / mean
                : 0;
    }
}

bool wrapped_departs(const struct wrapped *run, double step_tokens)
{
    double planned = run->settings.planned_tokens;
    return planned > 0 &&
           (step_tokens > WRAPPED_DEPARTS * planned || planned > WRAPPED_DEPARTS * step_tokens);
}

// The tokens of a mean step, as far as the steps so far tell them.
static double mean_tokens(const struct step_series *series)
{
    double tokens = 0, steps = 0;
    for (size_t i = 0; i < series->count; i++) {
        const struct steady_step *step = &series->steps[i];
        tokens += step->tokens;
        steps += step->share > 0 ? step->share : step->count > 0 ? (double)step->count : 1;
    }
    return series->origin == STEP_SERIES_NONE ? NAN : tokens / steps;
}

static void measure(struct wrapped *run)
{
    double began = clock_seconds();
    choose_source(run);
    struct step_series *series = (struct step_series *)&run->source->series;
    if (!series->gpus)
        series->gpus = wrapped_gpus(run);
    struct steady_rule rule = run->settings.rule;
    const struct packing_sights *sights = run->settings.sights;
    series->step_tokens = told_tokens(run, series);
    expect_tokens(series, sights, rule.total_steps);
    step_series_finish(series);
    borrow_tokens(run, series);
    if (wrapped_departs(run, mean_tokens(series))) { // the plan tells nothing of these batches
        sights = NULL;
        rule = (struct steady_rule){ .level = rule.level,
                                     .wanted = rule.wanted,
                                     .until_narrow = rule.until_narrow,
                                     .rest = rule.rest };
        expect_tokens(series, NULL, 0);
        step_series_finish(series);
    }
    expect_widths(series, sights);
    rule.clock_seconds = step_series_clock(series);
    arena_rewind(&run->scratch, (struct arena_mark){ 0 });
    steady_measure(&run->steady, &run->scratch, series->steps, series->count, &rule);
    run->measured_seconds = clock_seconds();
    run->measuring_seconds = run->measured_seconds - began;
}

enum err wrapped_read(struct wrapped *run, struct arena *arena,
                      const struct wrapped_settings *settings)
{
    struct file file;
    *run = (struct wrapped){ .settings = *settings, .arena = arena, .began_seconds = NAN };
    TRY(new_source(&run->printed, run, settings->log));
    run->source = run->printed;
    run->printed->series.reads_back = !trainer_files_has_clock(settings->log);
    TRY(file_open(&file, settings->log));
    enum err err = trainer_files_read(&run->printed->log, file.text, settings->log);
    file_close(&file);
    if (!err)
        measure(run);
    return err;
}

const struct steady *wrapped_steady(struct wrapped *run)
{
    double wait = fmax(MEASURE_SECONDS, 20 * run->measuring_seconds);
    if (clock_seconds() - run->measured_seconds >= wait)
        measure(run);
    return &run->steady;
}

void wrapped_finish(struct wrapped *run)
{
    run->ended_seconds = clock_seconds();
    trainer_log_end(&run->printed->log);
    for (int i = 0; i < run->follow.count; i++)
        if (run->files[i])
            trainer_log_end(&run->files[i]->log);
    measure(run);
    status_line_end(&run->status);
    if (run->child.line_open) // our messages start on a new line
        child_print(&run->child, run->last_stream, TEXT("\n"));
}

void wrapped_end(struct wrapped *run)
{
    bool watches = run->child.settings.manner == CHILD_FORWARDS;
    child_end(&run->child);
    if (run->child.unread_bytes)
        print_note("%lld bytes of the trainer's output were lost: nobody read them",
                   (long long)run->child.unread_bytes);
    print_survive_closed_pipe(watches); // its exit status outlives our reader
    gpu_monitor_end(run->gpu);
    for (int i = 0; i < run->follow.count; i++)
        if (run->files[i])
            free(run->files[i]->pending);
    follow_end(&run->follow);
    arena_release(&run->scratch);
    run->gpu = NULL;
}

double wrapped_steps(const struct wrapped *run)
{
    return isnan(run->source->series.last_step) ? 0 : run->source->series.last_step;
}

double wrapped_begun(const struct wrapped *run)
{
    return run->source->series.begun > 0 ? run->source->series.begun : 0;
}

double wrapped_elapsed(const struct wrapped *run)
{
    return (run->ended_seconds > 0 ? run->ended_seconds : clock_seconds()) - run->began_seconds;
}

// By its processes if the driver lists them; otherwise, as in most containers, by memory growth.
bool wrapped_uses(const struct wrapped *run, int device)
{
    bool told = false;
    for (int i = 0; i < gpu_monitor_count(run->gpu); i++)
        told = told || gpu_monitor_summary(run->gpu, i, 0, 0).own_peak_bytes > 0;
    struct gpu_summary s = gpu_monitor_summary(run->gpu, device, 0, 0);
    return told ? s.own_peak_bytes > 0 : s.peak_bytes > s.base_bytes + IDLE_BYTES;
}

int wrapped_gpus(const struct wrapped *run)
{
    int used = 0;
    for (int i = 0; i < gpu_monitor_count(run->gpu); i++)
        used += wrapped_uses(run, i);
    return used;
}

// Memory of other processes on the same GPUs is included in the peak.
static void remark_others(const struct wrapped *run, struct arena *arena, struct out *out)
{
    double before = 0;
    for (int i = 0; i < gpu_monitor_count(run->gpu); i++)
        if (wrapped_uses(run, i))
            before = fmax(before, gpu_monitor_summary(run->gpu, i, 0, 0).base_bytes);
    if (before > OTHERS_BYTES)
        out_put(
            out,
            "gpuhours: %s of GPU memory were in use before the trainer started and are included "
            "in the peak\n",
            text_bytes(arena, before));
}

// Processes that outlived the trainer, and how they were stopped.
static void remark_outlived(const struct child *child, struct out *out)
{
    bool many = child->outlived > 1;
    out_put(out, "gpuhours: %d process%s of the trainer outlived it; %s stopped%s\n",
            child->outlived, many ? "es" : "", many ? "they were" : "it was",
            child->needed == CHILD_KILL ? " by SIGKILL" : "");
}

void wrapped_remark_batches(const struct wrapped *run, struct out *out)
{
    const struct trainer_log *log = &run->source->log;
    if (log->in_batches && isnan(log->accumulation) &&
        run->source->series.origin == STEP_SERIES_GIVEN)
        out_put(out, "gpuhours: the trainer counts micro-batches, not steps: where gradients are "
                     "accumulated, give --tokens-per-step of one micro-batch, or --plan\n");
}

void wrapped_remarks(const struct wrapped *run, struct arena *arena, struct out *out)
{
    const struct child *child = &run->child;
    const char *grace = text_seconds(arena, child->settings.grace_seconds);
    if (child->immortal)
        out_put(
            out,
            "gpuhours: process %d survives SIGKILL: it waits inside the kernel, for a disk or a "
            "driver\n",
            child->immortal);
    remark_others(run, arena, out);
    wrapped_remark_batches(run, out);
    if (run->unseen_bytes > 0)
        out_put(out,
                "gpuhours: the trainer printed faster than can be read: %s of its output were not "
                "searched for steps\n",
                text_bytes(arena, run->unseen_bytes));
    if (child->outlived)
        remark_outlived(child, out);
    else if (child->needed == CHILD_KILL)
        out_put(out,
                "gpuhours: the trainer ignored SIGINT and SIGTERM for %s each and was killed\n",
                grace);
    else if (child->needed == CHILD_TERM)
        out_put(out, "gpuhours: the trainer ignored SIGINT for %s and was stopped by SIGTERM\n",
                grace);
}
