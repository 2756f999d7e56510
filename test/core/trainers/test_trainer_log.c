// SPDX-License-Identifier: Apache-2.0
// What real trainers print, recorded or written to their formats (test/data/logs/SOURCES.md says
// which).
// Long because every trainer writes steps in lines of its own.

#include "core/trainers/step_series.h"
#include "core/trainers/trainer_files.h"
#include "core/trainers/trainer_log.h"

#include "host/file.h"
#include "test/test.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

#define GIB 1073741824.0
#define MIB 1048576.0

// --- reading a log in pieces -------------------------------------------------

struct seen {
    struct step_series series;
    struct out text; // every event, a line each
    int steps;
    double every, last; // between steps; NAN if they differ
};

static void on_event(void *context, const struct trainer_log_event *event)
{
    struct seen *seen = context;
    step_series_add(&seen->series, event);
    if (event->kind == TRAINER_LOG_STEP) {
        double every = event->step - seen->last;
        seen->every = seen->steps && every != seen->every ? NAN : every;
        seen->steps++;
    }
    if (event->kind == TRAINER_LOG_BEGIN)
        seen->steps = 0;
    if (event->kind <= TRAINER_LOG_STEP)
        seen->last = event->step;
    out_put(&seen->text, "%s %d", trainer_log_kind_name(event->kind), event->rank);
    for (const double *value = &event->step; value <= &event->clock_seconds; value++)
        out_put(&seen->text, " %.9g", *value);
    out_put(&seen->text, " <%.*s>\n", TEXT_ARGS(event->line));
}

static struct text content_of(const char *name)
{
    struct file file;
    struct text text = { 0 };
    bool open = !file_open(&file, text_format(&test_arena, "test/data/logs/%s", name));
    CHECK(open);
    if (open) {
        text =
            (struct text){ arena_copy(&test_arena, file.text.at, file.text.size), file.text.size };
        file_close(&file);
    }
    return text;
}

static struct seen *start(struct trainer_log *log, const char *pattern)
{
    struct seen *seen = ARENA_NEW(&test_arena, struct seen, 1);
    seen->text.arena = &test_arena;
    step_series_init(&seen->series, &test_arena);
    CHECK(!trainer_log_init(log, &test_arena, pattern, on_event, seen));
    return seen;
}

static struct seen *read_in_pieces(const char *name, const char *pattern, size_t piece)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, pattern);
    struct text text = content_of(name);
    size_t used;
    if (text_ends(text_of(name), "trainer_state.json"))
        CHECK(!trainer_files_state(log, text, name));
    else if (text_ends(text_of(name), ".csv"))
        CHECK(!trainer_files_csv(log, text, name, 0));
    else if (!strncmp(name, "events.out", 10))
        CHECK(!trainer_files_tensorboard(log, &used, text, name) && used < text.size);
    else
        for (size_t at = 0; at < text.size; at += piece)
            trainer_log_feed(log, text.at + at, text.size - at < piece ? text.size - at : piece,
                             (double)at);
    trainer_log_end(log);
    return seen;
}

TEST(step_series_loss_is_that_of_the_last_step_not_a_mean_over_the_run)
{
    static const char *const ends[] = {
        "{'train_runtime': 30.0, 'train_steps_per_second': 0.1, 'train_loss': 2.5, 'epoch': 1.0}\n",
        "***** train metrics *****\n  epoch      =  1.0\n  train_loss =  2.5\n",
        "{\"step\": 3, \"train/train_runtime\": 30.0}\n{\"step\": 3, \"train/train_loss\": 2.5}\n",
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct step_series series;
        struct trainer_log log;
        step_series_init(&series, &test_arena);
        CHECK(!trainer_log_init(&log, &test_arena, NULL, step_series_add, &series));
        for (int step = 1; step <= 3; step++) {
            const char *line =
                text_format(&test_arena, "{\"step\": %d, \"loss\": %d.25}\n", step, 4 - step);
            trainer_log_feed(&log, line, strlen(line), step);
        }
        trainer_log_feed(&log, ends[i], strlen(ends[i]), 4);
        trainer_log_end(&log);
        CHECK(series.last_step == 3 && series.loss == 1.25);
    }
}

// --- what is in each ---------------------------------------------------------

struct expectation {
    const char *file, *pattern;
    double first, last, total;
    int steps;
    double every;
    double loss;   // of the last step
    double tokens; // the last count
    double peak_bytes;
    int evaluations, saves;
    bool ended, out_of_memory, failed;
};

#define MINE "update#(\\d+) of (?<total>\\d+) done; ce (?<loss>[\\d.]+); (?<tokens>\\d+) tok"

static const struct expectation expectations[] = {
    { "transformers.log", 0, 0, 60, 60, 60, 1, 1.5, NAN, NAN, 3, 0, true, 0, 0 },
    { "transformers_resumed.log", 0, 201, 212, 300, 11, 1, 0.988, NAN, NAN, 0, 1, 0, 0, 0 },
    { "transformers_strings.log", 0, 5, 80, 80, 15, 5, 1.2, NAN, NAN, 1, 1, true, 0, 0 },
    { "transformers_5.log", 0, 0, 150, 1989, 150, 1, 2.579, 1336224, NAN, 0, 0, 0, 0, 0 },
    { "transformers_5_end.log", 0, 1953, 1989, 1989, 36, 1, 2.011, 18807264, NAN, 0, 0, true, 0,
      0 },
    { "nested_bars.log", 0, 0, 60, NAN, 60, 1, 1.0333, NAN, NAN, 3, 0, 0, 0, 0 },
    { "trl_truncated.log", 0, 0, 22, 123, 22, 1, 1.46, 1310320, NAN, 0, 0, 0, 0, 0 },
    { "axolotl.log", 0, 0, 12, 950, 12, 1, 1.28, 98304, 10.97 * GIB, 1, 0, 0, 0, 0 },
    { "llama_factory.log", 0, 5, 30, 183, 5, 5, 1.3, NAN, NAN, 0, 1, true, 0, 0 },
    { "llama_factory_trainer_log.jsonl", 0, 5, 45, 183, 8, 5, 1.15, 506025, NAN, 1, 0, 0, 0, 0 },
    { "unsloth.log", 0, 0, 30, 30, 30, 1, 12, 477000, NAN, 0, 0, true, 0, 0 },
    { "torchtune.log", 0, 0, 20, NAN, 20, 1, 1, NAN, NAN, 0, 2, 0, 0, 0 },
    { "torchtune_disk.txt", 0, 1, 25, NAN, 24, 1, 1, NAN, 15.07 * GIB, 0, 0, 0, 0, 0 },
    { "litgpt.log", 0, 0, 10, NAN, 10, 1, 1.3, NAN, 14.49e9, 1, 2, true, 0, 0 },
    { "litgpt_metrics.csv", 0, 1, 10, NAN, 9, 1, 1.3, 81920, NAN, 1, 0, 0, 0, 0 },
    { "composer.log", 0, 1, 12, 40, 11, 1, 9.175, 5767168, 44.642e9, 1, 0, 0, 0, 0 },
    { "nemo.log", 0, 1, 24, 100, 23, 1, 8.72, NAN, NAN, 1, 1, 0, 0, 0 },
    { "lightning.log", 0, 0, 40, NAN, 40, 1, 1.2, NAN, NAN, 2, 0, true, 0, 0 },
    { "lightning_rich.log", 0, 0, 30, NAN, 30, 1, 2, NAN, NAN, 0, 0, 0, 0, 0 },
    { "megatron.log", 0, 1, 12, 100, 11, 1, 2.12, NAN, 54250.98583984375 * MIB, 1, 1, true, 0, 0 },
    { "torchtitan_ranks.log", 0, 1, 15, NAN, 14, 1, 6.15, NAN, 9.76 * GIB, 0, 0, 0, 0, 0 },
    { "llama_recipes.log", 0, 1, 24, NAN, 23, 1, 0.86, NAN, NAN, 2, 0, 0, 0, 0 },
    { "engine_metrics.jsonl", 0, 1, 10, NAN, 9, 1, 2.5, NAN, NAN, 2, 0, 0, 0, 0 },
    { "nanogpt.log", 0, 0, 11, NAN, 11, 1, 9.8, NAN, NAN, 1, 0, 0, 0, 0 },
    { "mlx.log", 0, 10, 50, NAN, 4, 10, 2.7, 9550, 5.404e9, 0, 1, 0, 0, 0 },
    { "maxtext.log", 0, 0, 8, NAN, 8, 1, 10, NAN, NAN, 0, 0, 0, 0, 0 },
    { "pattern.log", MINE, 1, 8, 64, 7, 1, 3, 131072, NAN, 0, 0, 0, 0, 0 },
    { "trainer_state.json", 0, 10, 50, 50, 4, 10, 1, 204800, NAN, 1, 0, true, 0, 0 },
    { "events.out.tfevents.1741684442.host.1.0", 0, 5, 60, NAN, 11, 5, 1.4, 1800000, NAN, 1, 0, 0,
      0, 0 },
    { "verl.log", 0, 0, 6, 20, 6, 1, NAN, NAN, NAN, 0, 0, 0, 0, 0 },
    { "nemo_rl.log", 0, 1, 6, 40, 5, 1, 0.0123, NAN, NAN, 0, 0, 0, 0, 0 },
    { "openrlhf.log", 0, 2, 6, NAN, 4, 1, NAN, NAN, NAN, 0, 0, 0, 0, 0 },
    { "out_of_memory.log", 0, 0, 2, 500, 2, 1, NAN, NAN, NAN, 0, 0, 0, true, 0 },
    { "crash.log", 0, NAN, NAN, NAN, 0, NAN, NAN, NAN, NAN, 0, 0, 0, 0, true },
};

static bool same(const char *file, const char *what, double got, double wanted)
{
    bool is = (isnan(got) && isnan(wanted)) || fabs(got - wanted) <= 1e-6 * fabs(wanted);
    if (!is)
        printf("%s: %s is %.9g, not %.9g\n", file, what, got, wanted);
    return is;
}

TEST(trainer_log_reads_what_trainers_print_and_write)
{
    for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++) {
        const struct expectation *e = &expectations[i];
        const struct seen *seen = read_in_pieces(e->file, e->pattern, SIZE_MAX / 2);
        const struct step_series *series = &seen->series;
        CHECK(same(e->file, "the first step", series->first_step, e->first));
        CHECK(same(e->file, "the last step", series->last_step, e->last));
        CHECK(same(e->file, "the total", series->total, e->total));
        CHECK(same(e->file, "the count of steps", seen->steps, e->steps));
        CHECK(same(e->file, "the interval", seen->steps ? seen->every : NAN, e->every));
        CHECK(same(e->file, "the loss", series->loss, e->loss));
        CHECK(same(e->file, "the count of tokens", series->tokens, e->tokens));
        CHECK(same(e->file, "the peak", series->peak_bytes, e->peak_bytes));
        CHECK(same(e->file, "evaluations", (double)series->evaluations, e->evaluations));
        CHECK(same(e->file, "saves", (double)series->saves, e->saves));
        CHECK(same(e->file, "the end", series->ended, e->ended));
        CHECK(same(e->file, "memory running out", series->out_of_memory, e->out_of_memory));
        CHECK(same(e->file, "the failure", series->failed, e->failed));
    }
}

TEST(trainer_log_does_not_care_how_bytes_are_cut)
{
    for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++) {
        const struct expectation *e = &expectations[i];
        struct text whole = out_view(&read_in_pieces(e->file, e->pattern, SIZE_MAX / 2)->text);
        const size_t pieces[] = { 1, 7, 1000 };
        for (int k = 0; k < 3; k++) {
            struct text cut = out_view(&read_in_pieces(e->file, e->pattern, pieces[k])->text);
            CHECK(text_equal(whole, cut));
        }
    }
}

// Seconds in the order of enum trainer_log_phase, then the mean answer.
TEST(trainer_log_tells_the_phases_of_a_step_of_reinforcement_learning_apart)
{
    static const struct {
        const char *file;
        int64_t warmup; // the first step is slower; verl's line comes before its bar moves
        double phases[TRAINER_PHASES], answer;
    } logs[] = {
        { "verl.log", 1, { 30.5, 0.25, 4, 5, NAN, 4.5, 15, 16, 1.5 }, 702.25 },
        { "nemo_rl.log", 1, { 51, 0.01, NAN, NAN, 12, NAN, NAN, 20, 2.2 }, 884.5 },
        { "openrlhf.log", 0, { 40.5, NAN, NAN, NAN, 14.5, NAN, NAN, 31, 2.5 }, 655.5 },
    };
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        const struct seen *seen = read_in_pieces(logs[i].file, NULL, SIZE_MAX / 2);
        struct step_series_phases found = step_series_phases(&seen->series, logs[i].warmup);
        for (int p = 0; p < TRAINER_PHASES; p++)
            CHECK(same(logs[i].file, "a phase", found.seconds[p], logs[i].phases[p]));
        CHECK(same(logs[i].file, "the mean answer", found.answer_tokens, logs[i].answer));
    }
}

// --- time --------------------------------------------------------------------

// Plays a recording of script(1) with its times.
TEST(trainer_log_times_a_recorded_run)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, NULL);
    struct text text = content_of("transformers.log"), times = content_of("transformers.times");
    struct text line, word;
    double now = 0;
    size_t at = 0;
    while (text_next(&times, '\n', &line) && line.size) {
        double delay = 0, size = 0;
        text_next(&line, ' ', &word);
        CHECK(!text_read_number(&delay, word) && !text_read_number(&size, line));
        now += delay;
        trainer_log_feed(log, text.at + at, (size_t)size, now);
        at += (size_t)size;
    }
    CHECK(at == text.size);
    seen->series.step_tokens = 1000;
    step_series_finish(&seen->series);
    struct steady steady;
    steady_measure(&steady, &test_arena, seen->series.steps, seen->series.count,
                   &(struct steady_rule){ 0 });
    CHECK(steady.verdict == STEADY_YES && steady.warmup_steps == 3);
    CHECK_NEAR(steady.warmup_seconds, 0.9 + 0.35 + 0.35, 0.05);
    CHECK_NEAR(steady.step_seconds.mid, 0.12, 0.03); // the sleep, and what the bar takes
    CHECK_NEAR(steady.tokens_per_s.mid, 1000 / 0.12, 0.03);
    CHECK(steady.slow[STEADY_EVALUATION].count == 2 && steady.slow[STEADY_STALL].count == 2);
    CHECK_NEAR(steady.slow[STEADY_EVALUATION].extra_seconds, 2 * 8 * 0.11, 0.05);
    CHECK_NEAR(steady.slow[STEADY_STALL].extra_seconds, 2 * 0.5, 0.05);
}

static void feed(struct trainer_log *log, const char *text)
{
    trainer_log_feed(log, text, strlen(text), 0);
}

static const struct seen *read_text(const char *text, bool reads_back)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, NULL);
    seen->series.reads_back = reads_back;
    feed(log, text);
    trainer_log_end(log);
    step_series_finish(&seen->series);
    return seen;
}

static struct trainer_log_event unknown_event(enum trainer_log_kind kind, int step)
{
    struct trainer_log_event event = { .kind = kind };
    for (double *value = &event.step; value <= &event.clock_seconds; value++)
        *value = NAN;
    event.step = step;
    event.seconds = step;
    return event;
}

TEST(step_series_passes_over_numbers_that_are_no_step)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, NULL);
    static const double steps[] = { 1, 1e20, -1e300, NAN, 2 };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        step_series_add(&seen->series, &(struct trainer_log_event){ .kind = TRAINER_LOG_STEP,
                                                                    .step = steps[i],
                                                                    .seconds = (double)i });
    CHECK(seen->series.last_step == 2);
}

TEST(step_series_takes_time_and_tokens_from_the_trainer_when_read_back)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, NULL);
    seen->series.reads_back = true;
    struct text text = content_of("engine_metrics.jsonl");
    trainer_log_feed(log, text.at, text.size, 0);
    step_series_finish(&seen->series);
    CHECK(seen->series.origin == STEP_SERIES_COUNTER && seen->series.count == 9);
    CHECK(seen->series.steps[0].seconds == 1.25 && seen->series.steps[8].tokens == 4096);
    CHECK(seen->series.steps[3].flags == STEADY_EVALUATED && seen->series.steps[4].flags == 0);

    seen = start(log, NULL); // "elapsed_time": "0:00:45", a second a step
    seen->series.reads_back = true;
    text = content_of("llama_factory_trainer_log.jsonl");
    trainer_log_feed(log, text.at, text.size, 0);
    step_series_finish(&seen->series);
    CHECK(seen->series.count == 8 && seen->series.steps[7].seconds == 5);
    CHECK(seen->series.steps[7].tokens == 5 * 11245);

    seen = start(log, NULL);
    seen->series.reads_back = true;
    size_t used;
    text = content_of("events.out.tfevents.1741684442.host.1.0");
    CHECK(!trainer_files_tensorboard(log, &used, text, "events"));
    step_series_finish(&seen->series);
    CHECK(seen->series.count == 11 && seen->series.steps[0].count == 5);
    CHECK_NEAR(seen->series.steps[0].seconds, 7.5, 1e-6);
    CHECK_NEAR(seen->series.steps[5].seconds, 11.5, 1e-6); // an evaluation in it
    CHECK(seen->series.steps[5].flags == STEADY_EVALUATED);
    CHECK_NEAR(seen->series.steps[10].tokens, 150000, 1e-6);
}

TEST(step_series_spreads_a_counter_over_the_steps_between)
{
    const struct seen *seen = read_text("{'step': 0, 'loss': 1, 'num_tokens': 0}\n"
                                        "{'step': 1, 'loss': 1}\n{'step': 2, 'loss': 1}\n"
                                        "{'step': 4, 'loss': 1, 'num_tokens': 4000}\n"
                                        "{'step': 5, 'loss': 1}\n",
                                        false);
    const struct steady_step *steps = seen->series.steps;
    CHECK(seen->series.origin == STEP_SERIES_COUNTER && seen->series.count == 4);
    CHECK(steps[0].tokens == 1000 && steps[2].tokens == 2000 && steps[2].count == 2 &&
          steps[3].tokens == 1000);
}

TEST(step_series_spreads_a_counter_by_the_order_of_the_rows)
{
    const struct seen *seen = read_text("{'step': 0, 'loss': 1, 'num_tokens': 0}\n"
                                        "{'step': 1, 'loss': 1}\n{'step': 2, 'loss': 1}\n"
                                        "{'step': 4, 'loss': 1, 'num_tokens': 4000}\n"
                                        "{'step': 5, 'loss': 1}\n",
                                        false);
    struct step_series series = seen->series;
    const double shares[] = { 2, 1.5, 1.5, 0.5 }, tokens[] = { 1600, 1200, 1200, 400 };
    for (int i = 0; i < 4; i++)
        series.steps[i].share = shares[i];
    step_series_finish(&series);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(series.steps[i].tokens, tokens[i], 1e-9);
}

// A rate times the seconds of its own step would make every step as fast as the next.
TEST(step_series_gives_a_printed_rate_no_more_certainty_than_its_steps_have)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct step_series *series = &start(log, NULL)->series;
    double clock = 0;
    for (int i = 0; i <= 40; i++) {
        const char *line =
            text_format(&test_arena, "{'step': %d, 'loss': 1, 'tokens_per_second': 4096}\n", i);
        trainer_log_feed(log, line, strlen(line), clock += i % 3 ? 0.9 : 1.2);
    }
    step_series_finish(series);
    struct steady steady;
    steady_measure(&steady, &test_arena, series->steps, series->count, &(struct steady_rule){ 0 });
    CHECK(series->origin == STEP_SERIES_RATE);
    CHECK_NEAR(steady.tokens_per_s.mid, 4096, 1);
    CHECK(steady.half_width > 0.005);
    // What the given tokens make of the steps must be what is printed, either way.
    CHECK(!step_series_doubts(series, &test_arena, 4096, 1));
    CHECK(!step_series_doubts(series, &test_arena, 4096 * 1.4, 1));
    CHECK(!!step_series_doubts(series, &test_arena, 4096 / 1.6, 1));
    series->step_tokens = 40960;
    step_series_finish(series);
    CHECK(!!step_series_doubts(series, &test_arena, 40960, 1));
    CHECK(!step_series_doubts(series, &test_arena, 40960, 0.1)); // those with a loss
}

// A bar on standard error and its report on standard output: read in either order, within a poll.
TEST(step_series_gives_a_report_to_the_step_that_it_came_with)
{
    for (int bar_first = 0; bar_first < 2; bar_first++) {
        struct step_series series;
        step_series_init(&series, &test_arena);
        step_series_add(&series,
                        &(struct trainer_log_event){ .kind = TRAINER_LOG_BEGIN, .tokens = NAN });
        for (int step = 1; step <= 40; step++) {
            struct trainer_log_event report = unknown_event(TRAINER_LOG_REPORT, step),
                                     bar = unknown_event(TRAINER_LOG_STEP, step);
            report.tokens = step % 10 ? NAN : 100 * step * (80 - step); // ever fewer a step
            step_series_add(&series, bar_first ? &bar : &report);
            step_series_add(&series, bar_first ? &report : &bar);
        }
        step_series_finish(&series);
        CHECK(series.origin == STEP_SERIES_COUNTER && series.count == 40);
        for (int i = 0; i < 40; i++)
            CHECK(series.steps[i].tokens == 7000 - 2000 * (i / 10));
    }
}

#define LOSSES                                             \
    "{'loss': 2.1, 'learning_rate': 1e-4, 'epoch': 0.5}\n" \
    "{'loss': 2.0, 'learning_rate': 1e-4, 'epoch': 1.0}\n"
#define LAST(rate) "{'train_runtime': 12.0, 'train_steps_per_second': " rate ", 'epoch': 1.0}\n"

TEST(step_series_counts_the_steps_of_a_log_without_a_bar_by_its_last_line)
{
    const struct seen *seen = read_text(LOSSES LAST("2.5"), true);
    CHECK(seen->series.ended && seen->series.run_seconds == 12 && seen->series.last_step == 30);
    seen = read_text(LOSSES LAST("0.013"), true); // 77 s, known to 4 % only
    CHECK(isnan(seen->series.last_step));
    seen = read_text(" 50%|#####     | 20/40 [00:10<00:10,  2.00it/s]\n" LAST("2.5"), true);
    CHECK(seen->series.last_step == 20);
}

// A live log of a trainer with its bar switched off: the plan knows how many steps an epoch has.
TEST(trainer_log_counts_the_steps_of_loss_lines_by_the_plans_epoch)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, NULL);
    log->steps_per_epoch = 200;
    for (int i = 1; i <= 4; i++) {
        const char *line = text_format(&test_arena, "{'loss': '2.1', 'epoch': '%.2f'}\n", 0.05 * i);
        trainer_log_feed(log, line, strlen(line), 3.0 * i);
    }
    step_series_finish(&seen->series);
    CHECK(seen->series.last_step == 40);
    CHECK(seen->series.steps[1].count == 10 && seen->series.steps[1].seconds == 3);
}

TEST(a_bar_counts_the_steps_though_a_dict_with_an_epoch_came_before_it)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, NULL);
    log->steps_per_epoch = 5; // the plan's, of another run than this one
    for (int i = 1; i <= 40; i++) {
        const char *line = text_format(&test_arena,
                                       "{'loss': 2.1, 'grad_norm': 1.0, 'epoch': %.2f}\n"
                                       "\r %d%%|###  | %d/40 [00:%02d<00:10, 1.00it/s]",
                                       i / 40.0, i * 100 / 40, i, i);
        trainer_log_feed(log, line, strlen(line), i);
    }
    step_series_finish(&seen->series);
    CHECK(seen->series.last_step == 40);
    CHECK(seen->series.count >= 38 && seen->series.steps[5].count == 1);
}

// --- odd lines ---------------------------------------------------------------

// Lines of ranks that are so many steps behind the first one, all of which print at once.
static struct seen *read_ranks(int steps, const int *behind, int ranks)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, NULL);
    for (int step = 1; step <= steps; step++)
        for (int rank = -1; rank < ranks; rank++) {
            int own = rank < 0 ? step : step - behind[rank];
            const char *line = text_format(&test_arena, "{\"step\": %d, \"loss\": 1.5}\n", own);
            if (own > 0)
                trainer_log_feed(log, line, strlen(line), step);
        }
    trainer_log_end(log);
    step_series_finish(&seen->series);
    return seen;
}

TEST(trainer_log_measures_the_first_rank_where_others_are_far_behind)
{
    const int behind[][3] = { { 20 }, { 3, 20, 33 }, { 33, 20, 3 }, { 40, 40, 40 } };
    for (int i = 0; i < 4; i++) {
        const struct seen *seen = read_ranks(100, behind[i], i ? 3 : 1);
        const struct step_series *series = &seen->series;
        CHECK(series->last_step == 100 && series->count >= 50 && series->begins <= 4);
        for (size_t j = 0; j < series->count; j++)
            CHECK(series->steps[j].count == 1 && series->steps[j].seconds == 1);
    }
}

TEST(trainer_log_follows_a_run_that_began_again)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, NULL);
    for (int line = 1; line <= 150; line++) { // a hundred steps, then from step 20 on
        const char *text = text_format(&test_arena, "{\"step\": %d, \"loss\": 1.5}\n",
                                       line <= 100 ? line : line - 80);
        trainer_log_feed(log, text, strlen(text), line);
    }
    trainer_log_end(log);
    CHECK(seen->series.first_step == 21 && seen->series.last_step == 70);
    CHECK(seen->series.count == 49 && seen->series.begins == 2);
}

TEST(step_series_knows_memory_that_ran_out_from_a_word_about_it)
{
    static const char *const errors[] = {
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total",
        "RuntimeError: HIP error: out of memory",
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total",
        "RuntimeError: NPU out of memory. Tried to allocate 20.00 MiB (NPU 0; 60.97 GiB total)",
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        const char *end = text_format(&test_arena, "step 1 loss 1\nstep 2 loss 1\n%s\n", errors[i]);
        CHECK(read_text(end, false)->series.out_of_memory);
        const char *passed = text_format(&test_arena, "%sstep 3 loss 1\n", end);
        CHECK(!read_text(passed, false)->series.out_of_memory); // the trainer went on
    }
    CHECK(!read_text("step 1 loss 1\nTip: on torch.OutOfMemoryError lower the batch\n", false)
               ->series.out_of_memory);
}

TEST(trainer_log_reads_time_stamps_as_iso_and_python_write_them)
{
    static const struct {
        const char *line;
        double seconds;
    } stamps[] = {
        { "2024-06-01 12:00:00,250 - INFO - step 5 loss 1.5\n", 1717243200.25 },
        { "[2024-06-01 12:00:00] step 5 loss 1.5\n", 1717243200 },
        { "2024-06-01T14:00:00.250+02:00 step 5 loss 1.5\n", 1717243200.25 },
        { "{\"step\": 5, \"loss\": 1.5, \"timestamp\": \"2024-06-01T12:00:00Z\"}\n", 1717243200 },
        { "{\"step\": 5, \"loss\": 1.5, \"timestamp\": \"2024-02-29T23:59:59.5Z\"}\n",
          1709251199.5 },
    };
    for (size_t i = 0; i < sizeof stamps / sizeof *stamps; i++) {
        const struct step_series *series = &read_text(stamps[i].line, true)->series;
        CHECK_NEAR(series->last_seconds, stamps[i].seconds, 1e-12);
        CHECK(series->last_step == 5);
    }
    // The seconds that a line tells of its step are better than a stamp in whole seconds.
    const char *told = "2024-06-01 12:00:00 step 1 loss 1 step_time 1.25\n"
                       "2024-06-01 12:00:01 step 2 loss 1 step_time 1.25\n";
    CHECK_NEAR(read_text(told, true)->series.steps[0].seconds, 1.25, 1e-12);
}

// Lines as users quote them: deepspeedai/DeepSpeed#1825 and #3742, modelscope/ms-swift#4146,
// InternLM/xtuner#658, facebookresearch/fairseq#940.
TEST(trainer_log_reads_lines_of_deepspeed_swift_xtuner_and_fairseq)
{
    static const struct {
        const char *lines;
        double first, last, total, loss, seconds;
    } logs[] = {
        { "[2022-03-11 02:06:58,985] [INFO] [logging.py:69:log_dist] [Rank 0] step=40, skipped=2, "
          "lr=[5e-05], mom=[[0.9, 0.999]]\n"
          "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, "
          "SamplesPerSec=83.48609168106144, "
          "MemAllocated=0.26GB, MaxMemAllocated=9.02GB\n"
          "[2022-03-11 02:07:14,130] [INFO] [logging.py:69:log_dist] [Rank 0] step=50, skipped=2, "
          "lr=[5e-05], mom=[[0.9, 0.999]]\n",
          40, 50, NAN, NAN, 15.145 },
        { "{'loss': 0.4850769, 'grad_norm': 25.86640167, 'learning_rate': 1e-06, 'memory(GiB)': "
          "69.19, "
          "'train_speed(iter/s)': 0.010367, 'epoch': 0.26, 'global_step/max_steps': '12/94', "
          "'percentage': '12.77%', 'elapsed_time': '18m 26s', 'remaining_time': '2h 5m 59s'}\n"
          "{'loss': 0.42675275, 'grad_norm': 18.54290199, 'learning_rate': 1e-06, 'memory(GiB)': "
          "69.19, 'train_speed(iter/s)': 0.010402, 'epoch': 0.28, 'global_step/max_steps': "
          "'13/94', "
          "'percentage': '13.83%', 'elapsed_time': '19m 58s', 'remaining_time': '2h 4m 27s'}\n",
          12, 13, 94, 0.42675275, 92 },
        { "2024/05/07 12:12:48 - mmengine - INFO - Iter(train) [1020/2046]  lr: 1.0546e-04  eta: "
          "0:56:17  time: 2.8955  data_time: 0.0172  memory: 15266  loss: 0.8473  grad_norm: "
          "0.0009\n"
          "2024/05/07 12:13:17 - mmengine - INFO - Iter(train) [1030/2046]  lr: 1.0388e-04  eta: "
          "0:55:40  time: 2.9153  data_time: 0.0185  memory: 15266  loss: 0.7659  grad_norm: "
          "0.0008\n",
          1020, 1030, 2046, 0.7659, 29 },
        { "| epoch 001:    450 / 1891 loss=11.521, nll_loss=10.881, ppl=1886.05, wps=52922, "
          "ups=0.5, "
          "wpb=104928, bsz=5325, num_updates=445, lr=8.90889e-05, gnorm=1.543, clip=0%, oom=0\n"
          "| epoch 001:    500 / 1891 loss=11.346, nll_loss=10.678, ppl=1637.83, wps=53351, "
          "ups=0.5, "
          "wpb=104872, bsz=5322, num_updates=495, lr=9.90876e-05, gnorm=1.507, clip=0%, oom=0\n",
          445, 495, NAN, 11.346, NAN },
    };
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        const struct step_series *series = &read_text(logs[i].lines, true)->series;
        CHECK(series->first_step == logs[i].first && series->last_step == logs[i].last);
        CHECK(isnan(logs[i].total) ? isnan(series->total) : series->total == logs[i].total);
        CHECK(isnan(logs[i].loss) || series->loss == logs[i].loss);
        if (!isnan(logs[i].seconds))
            CHECK(series->count == 1 && fabs(series->steps[0].seconds - logs[i].seconds) < 1e-5);
    }
}

// Two epochs of 20 micro-batches, four a step.
TEST(trainer_log_counts_lightnings_micro_batches_as_steps_where_it_knows_how_many)
{
    for (int known = 0; known < 2; known++) {
        struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
        struct seen *seen = start(log, NULL);
        log->accumulation = known ? 4 : NAN;
        struct text text = content_of("lightning.log");
        trainer_log_feed(log, text.at, text.size, 0);
        trainer_log_end(log);
        CHECK(log->in_batches);
        CHECK(seen->series.last_step == (known ? 10 : 40));
        CHECK(seen->series.begins == 1);
    }
}

static const struct seen *read_steps(const double *steps, int count)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, NULL);
    for (int i = 0; i < count; i++) {
        const char *line = text_format(&test_arena, "step %.0f loss 1.5\n", steps[i]);
        trainer_log_feed(log, line, strlen(line), i);
    }
    trainer_log_end(log);
    return seen;
}

TEST(trainer_log_counts_no_jump_that_the_next_number_does_not_confirm)
{
    const double torn[] = { 1, 2, 3, 4, 100100, 5, 6, 100100 }; // once amid them, once at the end
    const struct step_series *series = &read_steps(torn, 8)->series;
    CHECK(series->last_step == 6 && series->count == 5 && series->begins == 1);
    CHECK(series->steps[3].count == 1 && series->steps[3].seconds == 2);
    const double sparser[] = { 1, 2, 100, 200, 300 }; // a trainer that reports its first steps
    series = &read_steps(sparser, 5)->series;
    CHECK(series->last_step == 300 && series->steps[1].count == 198 && series->count == 3);
}

static void feed_bar(struct trainer_log *log, int at, int elapsed, double seconds)
{
    const char *bar = text_format(&test_arena, "\r%3d%%|###| %d/100 [%02d:%02d<00:00, 1.00s/it]",
                                  at, at, elapsed / 60, elapsed % 60);
    trainer_log_feed(log, bar, strlen(bar), seconds);
}

static void feed_text(struct trainer_log *log, const char *text, double seconds)
{
    trainer_log_feed(log, text, strlen(text), seconds);
}

// 100 steps of 4 s, and in the midst of them an evaluation of 100 batches of 1 s.
TEST(trainer_log_does_not_take_an_evaluation_of_as_many_steps_for_training)
{
    for (int first = 10; first <= 50; first += 40) {
        struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
        struct seen *seen = start(log, NULL);
        int clock = 0;
        feed_bar(log, 0, 0, 0);
        for (int i = 1; i <= 100; i++) {
            clock += 4;
            feed_bar(log, i, clock, clock);
            if (i % 10 == 0)
                feed_text(log, "\n{'loss': 1.2, 'learning_rate': 1e-4, 'epoch': 0.1}\n", clock);
            for (int k = 0; i == first && k <= 100; k++)
                feed_bar(log, k, k, clock + k);
            if (i == first)
                feed_text(log, "\n{'eval_loss': 1.2, 'epoch': 0.5}\n", clock += 100);
        }
        trainer_log_end(log);
        CHECK(seen->steps == 100 && seen->every == 1 && seen->series.begins == 1);
        CHECK(seen->series.evaluations == 1);
        CHECK(seen->series.steps[first].flags == STEADY_EVALUATED);
    }
}

// The trainer died at step 50, and a script started it again.
TEST(trainer_log_follows_a_bar_that_began_again)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, NULL);
    for (int run = 0, clock = 0; run < 2; run++)
        for (int i = 0; i <= (run ? 100 : 50); i++, clock += 4) {
            feed_bar(log, i, 4 * i, clock);
            if (i % 10 == 5)
                feed_text(log, "\n{'loss': 1.2, 'learning_rate': 1e-4, 'epoch': 0.1}\n", clock);
        }
    trainer_log_end(log);
    CHECK(seen->series.begins == 2 && seen->series.last_step == 100 && seen->series.count == 95);
}

// Keras 3 goes back by "\b" and "\r" on a terminal, and writes a line each time to a file.
TEST(trainer_log_reads_the_bars_of_keras)
{
#define BAR "\x1b[32m━━━━━━━━━━\x1b[0m\x1b[37m━━━━━━━━━━\x1b[0m "
    const struct step_series *series =
        &read_text(
             "Epoch 1/2\n\r\x1b[1m  1/100\x1b[0m " BAR
             "\x1b[1m1:23\x1b[0m 840ms/step - loss: 2.5000"
             "\b\b\b\b\b\r\x1b[1m  2/100\x1b[0m " BAR "\x1b[1m24s\x1b[0m 250ms/step - loss: 2.4000"
             "\b\b\b\b\b\r\x1b[1m  3/100\x1b[0m " BAR "\x1b[1m24s\x1b[0m 252ms/step - loss: 2.3000"
             "\b\b\b\b\b\r\x1b[1m 10/100\x1b[0m " BAR "\x1b[1m22s\x1b[0m 250ms/step - loss: 1.9000"
             "\b\b\b\b\b\r\x1b[1m100/100\x1b[0m " BAR "\x1b[1m0s\x1b[0m 250ms/step - loss: 1.2500"
             "\b\b\b\b\b\r\x1b[1m100/100\x1b[0m " BAR
             "\x1b[1m28s\x1b[0m 275ms/step - accuracy: 0.51 - "
             "loss: 1.2500 - val_accuracy: 0.5000 - val_loss: 1.4000\n"
             "Epoch 2/2\n\n\x1b[1m  1/100\x1b[0m " BAR "\x1b[1m24s\x1b[0m 250ms/step - loss: 1.1000"
             "\n\x1b[1m  2/100\x1b[0m " BAR "\x1b[1m24s\x1b[0m 2s/step - loss: 1.0900\n",
             false)
             ->series;
#undef BAR
    CHECK(series->first_step == 1 && series->last_step == 102 && series->begins == 1);
    CHECK(isnan(series->total)); // the bar's is an epoch's
    CHECK(series->evaluations == 1 && series->loss == 1.09);
}

TEST(trainer_log_reads_bars_without_a_total)
{
    const struct step_series *series = &read_text("0it [00:00, ?it/s]\r1it [00:02,  2.05s/it]\r"
                                                  "2it [00:03,  1.62s/it, loss=2.1]\r"
                                                  "5it [00:06,  1.00it/s, loss=1.9]\r"
                                                  "6it [00:07,  1.00it/s, loss=1.8]\n",
                                                  true)
                                            ->series;
    CHECK(series->first_step == 1 && series->last_step == 6 && series->begins == 1);
    CHECK(isnan(series->total) && series->loss == 1.8);
    CHECK(series->count == 3 && series->steps[1].count == 3 && series->steps[1].seconds == 3);
    // The next epoch counts on; Lightning's bar counts micro-batches.
    series = &read_text("Training: 0it [00:00, ?it/s]\rTraining: 1it [00:01,  1.00it/s]\r"
                        "Training: 2it [00:02,  1.00it/s]\rTraining: 3it [00:03,  1.00it/s]\n"
                        "Training: 0it [00:00, ?it/s]\rTraining: 1it [00:01,  1.00it/s]\r"
                        "Training: 2it [00:02,  1.00it/s]\n",
                        false)
                  ->series;
    CHECK(series->last_step == 5 && series->begins == 1);
    series = &read_text("Epoch 0: |          | 0/? [00:00<?, ?it/s]\r"
                        "Epoch 0: |          | 1/? [00:01<00:00,  1.00it/s, v_num=3]\r"
                        "Epoch 0: |          | 2/? [00:02<00:00,  1.00it/s, v_num=3]\n",
                        false)
                  ->series;
    CHECK(series->last_step == 2 && series->begins == 1);
    // Rows and bytes are no steps, and an iteration before the bar with a total is not training.
    series = &read_text("Generating train split: 512 examples [00:00, 5120.33 examples/s]\n"
                        "Reading: 3it [00:00, 50.00it/s]\n12MB [00:01, 12.0MB/s]\n"
                        "4it [00:00, 80.00it/s]\r5it [00:00, 80.00it/s]\n"
                        "  0%|          | 0/30 [00:00<?, ?it/s]\r"
                        "  3%|▎         | 1/30 [00:01<00:29,  1.00it/s]\r"
                        "  7%|▋         | 2/30 [00:02<00:28,  1.00it/s]\n",
                        false)
                  ->series;
    CHECK(series->last_step == 2 && series->total == 30);
    // An evaluation beside it, named or not, is none of its steps.
    series =
        &read_text("1it [00:01,  1.00it/s, loss=2]\r2it [00:02,  1.00it/s, loss=2]\n"
                   "  0%|          | 0/9 [00:00<?, ?it/s]\r 11%|#  | 1/9 [00:01<00:08,  1.00it/s]\n"
                   "Evaluating: 7it [00:02,  3.00it/s]\n3it [00:06,  0.50it/s, loss=2]\n",
                   false)
             ->series;
    CHECK(series->last_step == 3 && series->begins == 1 && series->evaluations > 0);
}

TEST(trainer_log_bounds_lines_without_an_end)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    struct seen *seen = start(log, NULL);
    char block[4096];
    memset(block, 'x', sizeof block);
    block[7] = '{', block[8] = '\'', block[100] = ']';
    for (int i = 0; i < 4096; i++)
        trainer_log_feed(log, block, sizeof block, i);
    feed(log, "\nstep 4 loss 0.5\n\x1b[2Kstep 5 loss 0.25\r\n");
    CHECK(seen->series.first_step == 4 && seen->series.last_step == 5 && seen->series.loss == 0.25);
}

TEST(trainer_log_does_not_take_other_bars_and_lines_for_training)
{
    const struct seen *seen =
        read_text("Map (num_proc=8):  50%|#####     | 500/1000 [00:01<00:01, 512.20 examples/s]\r"
                  "Downloading shards: 100%|##########| 4/4 [00:09<00:00,  2.4s/it]\n"
                  "model.safetensors:  12%|#2        | 1.2G/9.9G [00:11<01:20, 108MB/s]\r"
                  "Loading checkpoint shards: 100%|##########| 4/4 [00:02<00:00,  1.68it/s]\n"
                  "Step 3 of the installation took 12 minutes\n"
                  "{'input_ids': [1, 2], 'step': 3}\n"
                  "{\"step\": 3, \"text\": \"loss: 3\"}\n"
                  "see iteration 9 of https://example.org/step/4\n"
                  "step\n{'}\n{\n'loss': 3\n%|\n%|| 1/ [\n100%|| 1/0 [00:00<?]\n",
                  false);
    CHECK(seen->text.size == 0);
    // A loop of the user's own before training, left early: the loss tells which bar trains.
    seen =
        read_text("\r  1%|  | 1/99 [00:01<01:00,  1.0it/s]\r  0%|  | 0/50 [00:00<?, ?it/s]"
                  "\r  2%|  | 1/50 [00:01<00:49,  1.0it/s]{'loss': 2.5, 'epoch': 0.1}\n"
                  "\r  4%|  | 2/50 [00:02<00:48,  1.0it/s]\r  6%|  | 3/50 [00:03<00:47,  1.0it/s]",
                  false);
    CHECK(seen->series.first_step == 1 && seen->series.last_step == 3 && seen->series.total == 50);
    CHECK(seen->series.evaluations == 0 && seen->series.loss == 2.5);
}

TEST(trainer_log_refuses_patterns_that_name_no_step)
{
    struct trainer_log *log = ARENA_NEW(&test_arena, struct trainer_log, 1);
    static const char *const bad[] = { "step \\d+",          "(?<loss>\\d+)", "(?<stepp>\\d+)",
                                       "(\\d+)|x",           "(\\d+",         "(\\d)+",
                                       "(?:a(?<step>\\d+))", "(\\d+)[" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(trainer_log_init(log, &test_arena, bad[i], on_event, NULL));
        CHECK(strstr(error_text(), "--pattern"));
    }
    CHECK(!trainer_log_init(log, &test_arena, "(?:x|y)[(|](?<step>\\d+(?:,\\d+)*)\\)", on_event,
                            NULL));
    struct seen *seen = start(log, "(?:x|y)[(|](?<step>\\d+(?:,\\d+)*)\\) (?<seconds>[\\d.]+)s");
    feed(log, "x(1,000) 2.5s\ny|1,001) 2.0s\n{'step': 7, 'loss': 1}\n");
    CHECK(seen->series.first_step == 1000 && seen->series.last_step == 1001);
}
