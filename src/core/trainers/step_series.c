// SPDX-License-Identifier: Apache-2.0
// Collects steps from events, and assigns tokens to them by counters, rates or a given number.

#include "core/trainers/step_series.h"

#include <math.h>
#include <string.h>

#define BURST 0.05 // of a step: what comes nearer came together

struct step_series_note {
    double counter; // tokens so far, counted by the trainer; NAN
    double tokens;  // of one step, reported by the trainer; NAN
    double rate;    // tokens/s, reported by the trainer; NAN
    double before;  // counter of a step that was left out just before; NAN
    double phases[TRAINER_PHASES], answer_tokens; // NAN: not reported
};

const char *step_series_origin_name(enum step_series_origin origin)
{
    static const char *const names[] = { "none", "counter", "rate", "given" };
    return names[origin];
}

static struct step_series_note unknown_note(void)
{
    struct step_series_note note = {
        .counter = NAN, .tokens = NAN, .rate = NAN, .before = NAN, .answer_tokens = NAN
    };
    for (int i = 0; i < TRAINER_PHASES; i++)
        note.phases[i] = NAN;
    return note;
}

void step_series_init(struct step_series *series, struct arena *arena)
{
    *series = (struct step_series){ .arena = arena,
                                    .first = ARENA_NEW(arena, struct step_series_note, 1),
                                    .report = ARENA_NEW(arena, struct step_series_note, 2),
                                    .report_seconds = NAN,
                                    .first_step = NAN,
                                    .last_step = NAN,
                                    .begun = NAN,
                                    .total = NAN,
                                    .last_seconds = NAN,
                                    .loss = NAN,
                                    .rate = NAN,
                                    .epoch = NAN,
                                    .evaluation_loss = NAN,
                                    .tokens = NAN,
                                    .global_batch = NAN,
                                    .micro_batch = NAN,
                                    .peak_bytes = NAN,
                                    .run_seconds = NAN,
                                    .left_out = NAN,
                                    .counts = { NAN, NAN } };
    *series->first = unknown_note();
}

static void keep(double *slot, double value)
{
    if (!isnan(value))
        *slot = value;
}

static void keep_last(struct step_series *s, const struct trainer_log_event *event)
{
    if (!s->ended) // then it is a mean over the run
        keep(&s->loss, event->loss);
    keep(&s->rate, event->rate);
    keep(&s->epoch, event->epoch);
    keep(&s->evaluation_loss, event->evaluation_loss);
    keep(&s->tokens, event->tokens);
    keep(&s->global_batch, event->global_batch);
    keep(&s->micro_batch, event->micro_batch);
    keep(&s->run_seconds, event->run_seconds);
    keep(&s->peak_bytes, fmax(s->peak_bytes, event->peak_bytes)); // fmax ignores NAN
    s->total = event->total;
    double rate = event->tokens_per_s_gpu * (s->gpus > 0 ? s->gpus : 1);
    keep(&rate, event->tokens_per_s);
    s->rate_sum += rate > 0 ? rate : 0;
    s->rate_count += rate > 0;
    s->rate_most = fmax(s->rate_most, rate);
    s->negatives += rate < 0 || event->tokens < 0 || event->step_tokens < 0;
}

// One evaluation or save may be reported by several lines.
static void flag(struct step_series *s, unsigned flag, int64_t *count)
{
    *count += !(s->flags & flag);
    s->flags |= flag;
}

static double clock_of(const struct step_series *s, const struct trainer_log_event *event)
{
    if (!s->reads_back)
        return event->seconds;
    if (!isnan(event->clock_seconds))
        return event->clock_seconds;
    if (!isnan(event->step_seconds) && isnan(event->elapsed_seconds)) {
        double last = isnan(s->last_seconds) ? 0 : s->last_seconds;
        return event->kind == TRAINER_LOG_BEGIN
                   ? 0
                   : last + event->step_seconds * (event->step - s->last_step);
    }
    return event->elapsed_seconds;
}

static struct step_series_note note_of(const struct step_series *s,
                                       const struct trainer_log_event *event)
{
    double gpus = s->gpus > 0 ? s->gpus : 1;
    struct step_series_note note = { .counter = event->tokens,
                                     .tokens = event->step_tokens,
                                     .before = NAN,
                                     .rate = event->tokens_per_s_gpu * gpus,
                                     .answer_tokens = event->answer_tokens };
    keep(&note.rate, event->tokens_per_s);
    double *const figures[] = { &note.counter, &note.tokens, &note.rate };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        *figures[i] = *figures[i] >= 0 ? *figures[i] : NAN;
    memcpy(note.phases, event->phases, sizeof note.phases);
    return note;
}

static void add_note(struct step_series_note *to, const struct step_series_note *from)
{
    keep(&to->counter, from->counter);
    keep(&to->tokens, from->tokens);
    keep(&to->rate, from->rate);
    keep(&to->answer_tokens, from->answer_tokens);
    for (int i = 0; i < TRAINER_PHASES; i++)
        keep(&to->phases[i], from->phases[i]);
}

struct step_series_phases step_series_phases(const struct step_series *s, int64_t warmup)
{
    double sums[TRAINER_PHASES + 1] = { 0 };
    int64_t counts[TRAINER_PHASES + 1] = { 0 };
    for (size_t i = 0; i < s->count; i++) {
        warmup -= s->steps[i].count > 0 ? s->steps[i].count : 1;
        for (int p = 0; p <= TRAINER_PHASES && warmup < 0 && !s->steps[i].flags; p++) {
            const struct step_series_note *note = &s->notes[i];
            double value = p < TRAINER_PHASES ? note->phases[p] : note->answer_tokens;
            sums[p] += isnan(value) ? 0 : value;
            counts[p] += !isnan(value);
        }
    }
    struct step_series_phases out;
    for (int p = 0; p < TRAINER_PHASES; p++)
        out.seconds[p] = counts[p] ? sums[p] / (double)counts[p] : NAN;
    out.answer_tokens =
        counts[TRAINER_PHASES] ? sums[TRAINER_PHASES] / (double)counts[TRAINER_PHASES] : NAN;
    return out;
}

static void grow(struct step_series *s)
{
    size_t room = s->room ? s->room * 2 : 256;
    s->steps = arena_grow(s->arena, s->steps, s->room * sizeof *s->steps, room * sizeof *s->steps);
    s->notes = arena_grow(s->arena, s->notes, s->room * sizeof *s->notes, room * sizeof *s->notes);
    s->room = room;
}

static struct step_series_note *last_note(struct step_series *s)
{
    return s->count ? &s->notes[s->count - 1] : s->first;
}

// A report without a number belongs to the last step; to the next one if that comes with it: where
// reports and the bar go to two streams, either may be read first.
static void report(struct step_series *s, const struct trainer_log_event *event)
{
    struct step_series_note note = note_of(s, event);
    double known = last_note(s)->counter;
    if (event->repeated && fabs(note.counter - known) > 0.01 * known) { // of another rank
        s->counts[0] = known, s->counts[1] = note.counter;
        note.counter = known;
    }
    if (isnan(s->report_seconds)) {
        s->report_seconds = event->seconds;
        s->report[0] = *last_note(s);
        s->report[1] = unknown_note();
    }
    add_note(&s->report[1], &note);
    add_note(last_note(s), &note);
}

static bool came_with(const struct step_series *s, double now) // false where either is NAN
{
    return now - s->report_seconds < BURST * (s->report_seconds - s->last_seconds);
}

// The first report is of steps, too: as many as the next one has. Of short steps a bar shows few.
static double begun_at(const struct step_series *s, double step)
{
    const double few = 3;
    double each = step - s->last_step;
    return s->first_step > few * each ? s->first_step - each : 0;
}

static void append(struct step_series *s, const struct trainer_log_event *event)
{
    const double most = 1e15; // a number beyond is none of a step
    if (!(fabs(event->step) < most))
        return;
    s->out_of_memory = s->failed = false; // it went on
    if (isnan(s->begun) && event->step > s->last_step)
        s->begun = begun_at(s, event->step);
    double now = clock_of(s, event);
    if (now >= s->last_seconds) { // known, and not restarted
        struct step_series_note note = unknown_note(), own = note_of(s, event);
        if (!s->reads_back && came_with(s, now)) {
            *last_note(s) = s->report[0];
            note = s->report[1];
        }
        add_note(&note, &own);
        note.before = s->left_out;
        s->left_out = NAN;
        if (s->count == s->room)
            grow(s);
        s->notes[s->count] = note;
        s->steps[s->count++] = (struct steady_step){ .number = (int64_t)event->step,
                                                     .count = (int64_t)(event->step - s->last_step),
                                                     .end_seconds = now,
                                                     .seconds = now - s->last_seconds,
                                                     .flags = s->flags };
    } else if (now < s->last_seconds) { // the bar of a new epoch counts from 0 again
        s->times_back += isnan(event->elapsed_seconds);
        s->left_out = event->tokens;
    }
    s->flags = 0;
    s->report_seconds = NAN;
    s->last_step = event->step;
    s->last_seconds = now;
}

static void begin(struct step_series *s, const struct trainer_log_event *event)
{
    s->begins++;
    s->count = 0;
    s->flags = 0;
    s->evaluations = s->saves = 0;
    s->report_seconds = NAN;
    s->ended = false;
    *s->first = unknown_note();
    s->first->counter = event->tokens;
    s->first_step = s->last_step = event->step;
    s->last_seconds = clock_of(s, event);
}

// Where no line had the number of its step, the mean rate and the duration of the run give how many
// there were. Trainers print the rate with three decimals: of longer steps it says too little.
static void end(struct step_series *s, const struct trainer_log_event *event)
{
    const double longest_seconds = 10; // 0.100 steps/s, known to half a percent
    s->ended = true;
    if (isnan(s->last_step) && event->step_seconds <= longest_seconds)
        s->last_step = rint(event->run_seconds / event->step_seconds);
}

void step_series_add(void *series, const struct trainer_log_event *event)
{
    struct step_series *s = series;
    switch (event->kind) {
    case TRAINER_LOG_BEGIN: begin(s, event); break;
    case TRAINER_LOG_STEP: append(s, event); break;
    case TRAINER_LOG_REPORT: report(s, event); break;
    case TRAINER_LOG_EVALUATION_BEGIN:
    case TRAINER_LOG_EVALUATION_END: flag(s, STEADY_EVALUATED, &s->evaluations); break;
    case TRAINER_LOG_SAVE: flag(s, STEADY_SAVED, &s->saves); break;
    case TRAINER_LOG_OUT_OF_MEMORY: s->out_of_memory = true; break;
    case TRAINER_LOG_ERROR: s->failed = true; break;
    case TRAINER_LOG_END: end(s, event); break;
    }
    keep_last(s, event);
}

// --- tokens ------------------------------------------------------------------

// Rows that are grouped by length begin with the longest: the caller may know which steps have
// more.
static double share_of(const struct steady_step *step)
{
    return step->share > 0 ? step->share : (double)step->count;
}

static double shares_between(const struct step_series *s, size_t from, size_t end)
{
    double sum = 0;
    for (size_t i = from; i < end; i++)
        sum += share_of(&s->steps[i]);
    return sum;
}

static void spread(struct step_series *s, size_t from, size_t end, double tokens_per_step)
{
    for (size_t i = from; i < end; i++)
        s->steps[i].tokens = tokens_per_step * share_of(&s->steps[i]);
}

// A counter may be reported at every tenth step only: its growth is spread over them.
static bool use_counters(struct step_series *s)
{
    double base = s->first->counter;
    size_t from = 0, first = 0;
    if (isnan(base) && s->first_step == 0)
        base = 0;
    double start = base, done = 0;
    for (size_t i = 0; i < s->count; i++) {
        double counter = s->notes[i].counter;
        if (!isnan(s->notes[i].before) && from == i)
            base = s->notes[i].before;
        if (isnan(counter))
            continue;
        if (isnan(base)) { // the first: known from here on
            first = i + 1;
            start = counter;
        } else if (counter >= base) {
            spread(s, from, i + 1, (counter - base) / shares_between(s, from, i + 1));
            done = counter - start;
        }
        base = counter;
        from = i + 1;
    }
    double steps = shares_between(s, first, from);
    if (!(done > 0))
        return false;
    spread(s, 0, first, done / steps);
    spread(s, from, s->count, done / steps);
    return true;
}

static bool use_step_tokens(struct step_series *s)
{
    bool any = false;
    double tokens = NAN;
    for (size_t i = 0; i < s->count; i++) {
        keep(&tokens, s->notes[i].tokens);
        any = any || tokens > 0;
        s->steps[i].tokens = isnan(tokens) ? 0 : tokens * (double)s->steps[i].count;
    }
    return any;
}

// A rate times the seconds of its own step has no spread: what it tells is the mean tokens of a
// step, and how sure that is follows from the seconds. A trainer may leave an evaluation out of it.
static bool use_rates(struct step_series *s)
{
    double sum = 0, shares = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (isnan(s->notes[i].rate) || s->steps[i].flags)
            continue;
        sum += s->notes[i].rate * s->steps[i].seconds;
        shares += share_of(&s->steps[i]);
    }
    if (sum > 0)
        spread(s, 0, s->count, sum / shares);
    return sum > 0;
}

void step_series_finish(struct step_series *s)
{
    spread(s, 0, s->count, 0);
    if (use_step_tokens(s) || use_counters(s)) {
        s->origin = STEP_SERIES_COUNTER;
    } else if (s->step_tokens > 0) {
        s->origin = STEP_SERIES_GIVEN;
        spread(s, 0, s->count, s->step_tokens);
    } else {
        s->origin = use_rates(s) ? STEP_SERIES_RATE : STEP_SERIES_NONE;
    }
}

double step_series_mean_rate(const struct step_series *s)
{
    double tokens = 0, seconds = 0;
    for (size_t i = 0; i < s->count; i++)
        tokens += s->steps[i].tokens, seconds += s->steps[i].seconds;
    if (!s->count) {
        tokens = isnan(s->tokens) ? s->step_tokens * s->last_step : s->tokens;
        seconds = s->run_seconds;
    }
    if (!(seconds > 0) && s->rate_count)
        return s->rate_sum / (double)s->rate_count;
    return tokens > 0 && seconds > 0 ? tokens / seconds : NAN;
}

// Whether the reported tokens/s are others than the measured. A rate since the start has the
// warm-up in it: even the highest one must be below what all steps had, with their warm-up.
static bool reports_another_rate(const struct step_series *s, double tokens_per_s,
                                 double counted_share)
{
    const double most = 1.5; // of the measured rate: trainers count in ways of their own
    if (!s->rate_count)
        return false;
    double least = fmin(tokens_per_s, step_series_mean_rate(s)) * counted_share;
    return s->rate_sum / (double)s->rate_count > most * tokens_per_s || most * s->rate_most < least;
}

const char *step_series_doubts(const struct step_series *s, struct arena *arena,
                               double tokens_per_s, double counted_share)
{
    const int64_t few = 4; // begins: a test run, a restart, a bar in the place of lines
    struct out out = { .arena = arena };
    double reported = s->rate_count ? s->rate_sum / (double)s->rate_count : NAN;
    if (s->begins > few)
        out_put(&out, "; training begins %lld times, as if several runs printed",
                (long long)s->begins);
    if (s->times_back)
        out_put(&out, "; the clock goes back at %lld of its steps", (long long)s->times_back);
    if (s->negatives)
        out_put(&out, "; %lld of its lines have negative tokens", (long long)s->negatives);
    if (!isnan(s->counts[0]))
        out_put(&out, "; of one step, one line counts %s tokens and another %s",
                text_commas(arena, llround(s->counts[0])),
                text_commas(arena, llround(s->counts[1])));
    if (reports_another_rate(s, tokens_per_s, counted_share))
        out_put(&out, "; the trainer reports %s tokens/s, and its steps have %s",
                text_commas(arena, llround(reported)), text_commas(arena, llround(tokens_per_s)));
    return out.size ? out_string(&out) + 2 : NULL; // without the first "; "
}

double step_series_clock(const struct step_series *s)
{
    bool whole = s->reads_back && s->count;
    for (size_t i = 0; whole && i < s->count; i++)
        whole = s->steps[i].seconds == floor(s->steps[i].seconds);
    return whole ? 1 : 0;
}
