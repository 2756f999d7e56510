// SPDX-License-Identifier: Apache-2.0
// Joins reports that came in bursts, cuts off the warm-up, separates slow steps, averages the rest
// and tests it for drift. docs/formulas.md has the sources.

#include "core/trainers/steady.h"

#include "base/arena.h"
#include "base/nnls.h"
#include "base/text.h"
#include "core/trainers/transient.h"

#include <math.h>
#include <string.h>

enum {
    COSINES_LEAST = 4, // of the variance estimate
    COSINES_MOST = 64,
};

#define BURST 0.05         // a report that took less than this share of the mean joins the next
#define WARM_ALLOWANCE 1.5 // deviations by which an ordinary step may be slower
#define WARM_LEAST 1.2     // sum of excesses from which there is a warm-up
#define WARM_CLIP 3.0      // most that one step contributes
#define SLOW 5.0           // a slow step: deviations above the median of the logarithm
#define SLOW_BEYOND 2.0    // times the 90th percentile is slow in any case
#define SLOW_LEAST 1.3     // and at least this factor
#define SCALE_LEAST 0.01   // floor of the robust standard deviation
#define MEMORY_MOST 0.9    // cap of the lag-one autocorrelation
#define MEMORY_SURE 0.97   // and of its upper bound, from which an interval is made
#define NARROW_WIDER 1.25  // widens an interval that was looked at until it was narrow
#define DRIFT_LEAST 0.03   // relative change that matters
#define DRIFT_LEVEL 0.99   // confidence level of the drift test
#define FALL_LEVEL 0.995   // and of the one-sided test whether the later half still falls

struct report {
    double seconds, tokens, count, widths;
    double log_time; // of a step, or of a token or both if that varies less
    unsigned flags;
    bool stalled; // by the fit of new widths
    bool slow;
};

enum work { WORK_STEPS, WORK_TOKENS, WORK_BOTH };

struct series {
    struct report *reports;
    size_t count;
    double *scratch;
};

const char *steady_verdict_name(enum steady_verdict verdict)
{
    static const char *const names[] = { "steady", "too_short", "drifts", "jumps" };
    return names[verdict];
}

// --- reading -----------------------------------------------------------------

// Buffered output shows several steps at once: a report that took no time belongs to the next one.
static void join_bursts(struct series *s, const struct steady_step *steps, size_t count)
{
    double seconds = 0, done = 0;
    for (size_t i = 0; i < count; i++) {
        seconds += steps[i].seconds > 0 ? steps[i].seconds : 0;
        done += steps[i].count > 0 ? (double)steps[i].count : 1;
    }
    struct report open = { 0 };
    for (size_t i = 0; i < count; i++) {
        open.seconds += steps[i].seconds > 0 ? steps[i].seconds : 0;
        open.tokens += steps[i].tokens > 0 ? steps[i].tokens : 0;
        open.count += steps[i].count > 0 ? (double)steps[i].count : 1;
        open.widths += steps[i].widths > 0 ? steps[i].widths : 0;
        open.flags |= steps[i].flags;
        if (!(open.seconds > BURST * seconds / done))
            continue;
        s->reports[s->count++] = open;
        open = (struct report){ 0 };
    }
}

// Sorts the logarithms from one report on; those of slow or flagged steps only if slow_too.
static size_t sort_logs(struct series *s, size_t from, bool slow_too)
{
    size_t count = 0;
    for (size_t i = from; i < s->count; i++)
        if (slow_too || !(s->reports[i].slow || s->reports[i].flags))
            s->scratch[count++] = s->reports[i].log_time;
    stats_sort(s->scratch, count);
    return count;
}

// A robust standard deviation: the median distance from the median, scaled for the normal.
static double scale_of(double *sorted, size_t count, double median)
{
    for (size_t i = 0; i < count; i++)
        sorted[i] = fabs(sorted[i] - median);
    return fmax(1.4826 * stats_median(sorted, count), SCALE_LEAST);
}

static double late_median(struct series *s, double *scale)
{
    size_t count = sort_logs(s, s->count / 3, true);
    double median = stats_quantile(s->scratch, count, 0.5);
    double above = (stats_quantile(s->scratch, count, 0.8) - median) / 0.8416; // of a normal
    *scale = fmax(above, scale_of(s->scratch, count, median));
    return median;
}

// Threshold of a slow step: five deviations of the upper half above the median, at most twice the
// 90th percentile, at least a factor of 1.3.
static double slow_limit(struct series *s, size_t from, bool slow_too)
{
    size_t count = sort_logs(s, from, slow_too), half = count / 2;
    double median = stats_quantile(s->scratch, count, 0.5);
    double most = stats_quantile(s->scratch, count, 0.9) - median + log(SLOW_BEYOND);
    double scale = scale_of(s->scratch + half, count - half, median);
    return median + fmax(log(SLOW_LEAST), fmin(SLOW * scale, most));
}

// What the time of a report is measured by: its steps, its tokens, or, where a fit tells what both
// cost, the seconds that it expects.
static double work_of(const struct report *report, enum work work, const struct transient *fit)
{
    if (work == WORK_STEPS)
        return report->count;
    if (work == WORK_TOKENS)
        return report->tokens;
    return fit->seconds_per_step * report->count + fit->seconds_per_token * report->tokens;
}

// Takes the logarithm of seconds per work, in the kind of work by which it varies least.
static void take_logs(struct series *s, const struct transient *fit)
{
    enum work best = WORK_STEPS;
    double least = INFINITY, scale;
    bool known = true;
    for (size_t i = 0; i < s->count; i++)
        known = known && s->reports[i].tokens > 0;
    enum work last = !known ? WORK_STEPS : fit->seconds_per_token > 0 ? WORK_BOTH : WORK_TOKENS;
    for (enum work work = WORK_STEPS; work <= last; work++) {
        for (size_t i = 0; i < s->count; i++)
            s->reports[i].log_time =
                log(s->reports[i].seconds / work_of(&s->reports[i], work, fit));
        late_median(s, &scale);
        if (scale < least)
            least = scale, best = work;
    }
    for (size_t i = 0; i < s->count; i++)
        s->reports[i].log_time = log(s->reports[i].seconds / work_of(&s->reports[i], best, fit));
}

// --- first sights of widths ---------------------------------------------------

// Takes the cost of first sights out of the seconds.
static struct transient take_widths(struct steady *out, struct arena *arena, struct series *s,
                                    const struct steady_rule *rule)
{
    struct transient_item *items = ARENA_NEW(arena, struct transient_item, s->count + 1);
    for (size_t i = 0; i < s->count; i++) {
        const struct report *r = &s->reports[i];
        items[i] = (struct transient_item){ .seconds = r->seconds,
                                            .steps = r->count,
                                            .tokens = r->tokens,
                                            .widths = r->widths,
                                            .left_out = r->flags != 0 };
    }
    struct transient fit;
    struct transient_prior prior = { rule->width_seconds, rule->step_seconds, rule->clock_seconds };
    transient_fit(&fit, arena, items, s->count, &prior);
    out->seconds_per_width = fit.seconds_per_width;
    out->seconds_per_token = fit.seconds_per_token;
    out->widths_seen = fit.widths;
    for (size_t i = 0; fit.seconds_per_width > 0 && i < s->count; i++) {
        struct report *r = &s->reports[i];
        r->seconds = fmax(r->seconds - items[i].width_seconds, 0.1 * r->seconds);
        r->stalled = items[i].stall > 0.5;
    }
    return fit;
}

// --- warm-up and slow steps --------------------------------------------------

// Sums by how much the first steps are slower than later ones, less an allowance (CUSUM); the
// warm-up ends where that sum is largest.
static size_t find_warmup(struct series *s)
{
    double scale, median = late_median(s, &scale), sum = 0, best = WARM_LEAST;
    size_t warmup = 0;
    for (size_t i = 0; i < s->count; i++) {
        double slower = (s->reports[i].log_time - median) / scale;
        if (s->reports[i].flags)
            continue;
        sum += fmin(fmax(slower, -WARM_CLIP), WARM_CLIP) - WARM_ALLOWANCE;
        if (sum > best) {
            best = sum;
            warmup = i + 1;
        }
    }
    return warmup;
}

// What the steps of a report would have taken by themselves.
static double ordinary_seconds(const struct steady *out, const struct report *report)
{
    if (!out->ordinary_steps)
        return 0;
    double seconds = out->ordinary_seconds / (double)out->ordinary_steps * report->count;
    if (!(out->seconds_per_token > 0))
        return seconds;
    double mean = out->ordinary_tokens / (double)out->ordinary_steps * report->count;
    return fmax(seconds + out->seconds_per_token * (report->tokens - mean), 0.2 * seconds);
}

static void note_slow(struct steady *out, const struct report *report, bool late)
{
    struct steady_slow *slow = &out->slow[report->flags & STEADY_EVALUATED ? STEADY_EVALUATION
                                          : report->flags & STEADY_SAVED   ? STEADY_SAVE
                                                                           : STEADY_STALL];
    double extra = fmax(0, report->seconds - ordinary_seconds(out, report));
    bool alone = report->flags != (STEADY_EVALUATED | STEADY_SAVED);
    if (!slow->count++)
        slow->first_seconds = extra;
    else if (alone)
        slow->later_seconds += extra, slow->later++;
    slow->seconds += report->seconds;
    slow->extra_seconds += extra;
    slow->squares += extra * extra;
    if (late)
        slow->late.seconds += extra, slow->late.squares += extra * extra;
    slow->longest_seconds = fmax(slow->longest_seconds, report->seconds);
}

// As many stalls as of a Poisson process: the variance of their sum is the sum of their squares.
struct steady_recurring steady_recurring(const struct steady *steady)
{
    const struct steady_slow *slow = &steady->slow[STEADY_STALL];
    bool widths_vary = steady->seconds_per_width >= 0 && steady->widths_seen > 0;
    double time = steady->ordinary_seconds + slow->seconds - slow->extra_seconds;
    double seconds =
        widths_vary ? fmin(2 * slow->late.seconds, slow->extra_seconds) : slow->extra_seconds;
    double error = widths_vary ? 2 * sqrt(slow->late.squares) : sqrt(slow->squares);
    if (!(time > 0))
        return (struct steady_recurring){ 0 };
    return (struct steady_recurring){ seconds, seconds / time, error / time };
}

const char *steady_too_brief(const struct steady *steady, double at_least, struct arena *arena)
{
    if (steady->verdict != STEADY_YES || steady->ordinary_seconds >= at_least)
        return NULL;
    return text_format(arena,
                       "it ended after only %s of steady steps; clocks and temperatures need %s to "
                       "settle (--at-least)",
                       text_seconds(arena, steady->ordinary_seconds),
                       text_seconds(arena, at_least));
}

// The logarithm of the time without more new widths than were expected, and without what a clock
// rounds: neither is a stall. Two rounded ends may make a step longer by what they are rounded to.
static double least_log_time(const struct report *report, double width_seconds,
                             double clock_seconds)
{
    double more = report->widths > 0 && width_seconds > 0
                      ? width_seconds * (1 + 2 * sqrt(report->widths))
                      : 0;
    more += clock_seconds;
    return report->log_time + log(fmax(1 - more / report->seconds, 1e-3));
}

// Separates the steps in which the log reported an evaluation or a save, unless most have one.
static void find_slow(struct series *s, size_t warmup, double width_seconds, double clock_seconds)
{
    size_t flagged = 0;
    for (size_t i = warmup; i < s->count; i++)
        flagged += s->reports[i].flags != 0;
    bool believed = 2 * flagged <= s->count - warmup;
    for (size_t i = warmup; i < s->count; i++)
        s->reports[i].slow = s->reports[i].flags && believed;
    double limit = slow_limit(s, warmup, !believed);
    for (size_t i = warmup; i < s->count; i++)
        s->reports[i].slow = s->reports[i].slow || s->reports[i].stalled ||
                             least_log_time(&s->reports[i], width_seconds, clock_seconds) > limit;
}

// --- interval ----------------------------------------------------------------

// The long-run variance of a series with mean zero, by its projections on the slowest cosines.
static double long_run_variance(const double *values, size_t count, int first, int last)
{
    double sum = 0;
    for (int j = first; j <= last; j++) {
        double step = 3.141592653589793 * j / (double)count, weight = 0;
        double c = cos(step / 2), s = sin(step / 2), step_c = cos(step), step_s = sin(step);
        for (size_t i = 0; i < count; i++) { // rotates (c, s) by one step
            weight += values[i] * c;
            double next = c * step_c - s * step_s;
            s = s * step_c + c * step_s;
            c = next;
        }
        sum += weight * weight * 2 / (double)count;
    }
    return sum / (last - first + 1);
}

// Lag-one autocorrelation, corrected for short series; 0 if it is not significant.
static double find_memory(const double *values, size_t count)
{
    double product = 0, square = 0;
    for (size_t i = 0; i < count; i++) {
        square += values[i] * values[i];
        product += i ? values[i] * values[i - 1] : 0;
    }
    double memory = square > 0 ? product / square : 0;
    memory += (1 + 3 * memory) / (double)count;
    return memory < 2 / sqrt((double)count) ? 0 : fmin(memory, MEMORY_MOST);
}

// Removes the lag-one autocorrelation; the long-run variance of the rest is (1 − memory)² times
// that of the series.
static void whiten(double *values, size_t count, double memory)
{
    for (size_t i = count; i-- > 1;)
        values[i] -= memory * values[i - 1];
    values[0] *= 1 - memory;
}

// One standard deviation above the estimate: a series that seems to forget sooner than it does
// makes an interval too short, and one that seems to remember longer only costs steps.
static double bound_memory(double memory, size_t count)
{
    double error = sqrt((1 - memory * memory) / (double)count);
    return memory > 0 ? fmin(memory + error, MEMORY_SURE) : 0;
}

static int cosines(size_t count)
{
    int wanted = (int)(0.4 * pow((double)count, 2.0 / 3));
    return wanted < COSINES_LEAST ? COSINES_LEAST : wanted > COSINES_MOST ? COSINES_MOST : wanted;
}

static double level_of(const struct steady_rule *rule)
{
    return rule->level > 0 ? rule->level : 0.9;
}

// The rate of a series: the sum of units over the sum of seconds. The interval is symmetric in the
// logarithm of the rate: a rate is positive, and so are both ends, however few and unequal the
// steps.
static struct range rate_of(const double *units, const double *seconds, size_t count,
                            const struct steady_rule *rule, double *scratch)
{
    double unit_sum = 0, second_sum = 0;
    for (size_t i = 0; i < count; i++)
        unit_sum += units[i], second_sum += seconds[i];
    double rate = unit_sum / second_sum;
    for (size_t i = 0; i < count; i++)
        scratch[i] = units[i] - rate * seconds[i];
    int freedom = cosines(count);
    double memory = find_memory(scratch, count);
    if (rule->until_narrow)
        memory = bound_memory(memory, count);
    whiten(scratch, count, memory);
    double variance = long_run_variance(scratch, count, 1, freedom);
    double error = sqrt(variance * (double)count) / (1 - memory) / second_sum;
    double half = stats_student_quantile(0.5 + level_of(rule) / 2, freedom) * error / rate;
    return (struct range){ rate * exp(-half), rate, rate * exp(half) };
}

// --- drift -------------------------------------------------------------------

static double best_jump(const double *values, size_t count) // sum of squares one jump explains
{
    double sum = 0, total = 0, best = 0;
    for (size_t i = 0; i < count; i++)
        total += values[i];
    for (size_t i = 0; i + 1 < count; i++) {
        sum += values[i];
        double below = (double)(i + 1), above = (double)count - below;
        double square = sum * sum / below + (total - sum) * (total - sum) / above;
        best = fmax(best, square - total * total / (double)count);
    }
    return best;
}

// Tests whether the time beyond what the work explains has a trend.
static enum steady_verdict find_drift(struct steady *out, const double *units,
                                      const double *seconds, size_t count, double rate,
                                      double *excess)
{
    double middle = (double)(count - 1) / 2, product = 0, square = 0, mean = 0;
    for (size_t i = 0; i < count; i++) {
        excess[i] = seconds[i] - units[i] / rate;
        product += excess[i] * ((double)i - middle);
        square += ((double)i - middle) * ((double)i - middle);
        mean += seconds[i] / (double)count;
    }
    double slope = product / square, jump = best_jump(excess, count);
    out->drift = slope * (double)(count - 1) / mean;
    for (size_t i = 0; i < count; i++)
        excess[i] -= slope * ((double)i - middle);
    int freedom = cosines(count) - 1; // without the two slowest cosines: a trend, straight or bent
    double memory = find_memory(excess, count);
    whiten(excess, count, memory);
    double variance = long_run_variance(excess, count, 3, freedom + 2);
    double error = sqrt(variance / square) / (1 - memory);
    bool sure = fabs(slope) > stats_student_quantile(DRIFT_LEVEL, freedom) * error;
    if (!sure || fabs(out->drift) < DRIFT_LEAST)
        return STEADY_YES;
    return jump > 1.1 * slope * product ? STEADY_JUMPS : STEADY_DRIFTS;
}

// Tests whether the time beyond what the work explains still falls in the later half, against the
// logarithm of the report's number; `before` is how many came before these. Returns by how much it
// falls per unit of that, in seconds; 0: it does not.
static double find_fall(const double *units, const double *seconds, size_t count, size_t before,
                        double rate, double *excess)
{
    size_t from = count / 2, n = count - from;
    double mean_x = 0, mean_y = 0, product = 0, square = 0, left = 0;
    for (size_t i = from; i < count; i++) {
        excess[i] = seconds[i] - units[i] / rate;
        mean_x += log((double)(before + i + 1)) / (double)n;
        mean_y += excess[i] / (double)n;
    }
    for (size_t i = from; i < count; i++) {
        double x = log((double)(before + i + 1)) - mean_x;
        product += x * (excess[i] - mean_y);
        square += x * x;
    }
    double slope = product / square;
    for (size_t i = from; i < count; i++)
        excess[i] -= mean_y + slope * (log((double)(before + i + 1)) - mean_x);
    double memory = find_memory(excess + from, n);
    for (size_t i = from; i < count; i++)
        left += excess[i] * excess[i];
    double error = sqrt(left / (double)(n > 2 ? n - 2 : 1) / square * (1 + memory) / (1 - memory));
    bool sure = slope < -stats_student_quantile(FALL_LEVEL, n > 3 ? (int)n - 2 : 1) * error;
    return sure ? -slope : 0;
}

// The interval of a series that still falls reaches to the mean of the run if it goes on so: to its
// end where that is known, else to four times as many steps.
static void reach_extrapolated(struct steady *out, double fall, size_t count, size_t before,
                               double total)
{
    double per_report = (double)out->ordinary_steps / (double)count;
    double done = (double)(before + count), end = total > 0 ? total / per_report : 4 * done;
    double middle = (double)before + 0.5 * (double)count, rest = (done + fmax(end, done)) / 2;
    double step = out->step_seconds.mid - fall * log(rest / middle) / per_report;
    step = fmax(step, 0.5 * out->step_seconds.mid);
    out->tokens_per_s.high =
        fmax(out->tokens_per_s.high, out->tokens_per_s.mid * out->step_seconds.mid / step);
    out->step_seconds.low = fmin(out->step_seconds.low, step);
}

static struct range around(double mid, const struct range *range)
{
    return (struct range){ mid * range->low / range->mid, mid, mid * range->high / range->mid };
}

// Widens an interval by a factor and by another error, in the logarithm.
static struct range widened(struct range range, double factor, double log_half)
{
    double half = hypot(factor * log(range.high / range.mid), log_half);
    return (struct range){ range.mid * exp(-half), range.mid, range.mid * exp(half) };
}

static void widen(struct steady *out, struct range *pace, double factor, double log_half)
{
    struct range *const ranges[] = { &out->step_seconds, &out->tokens_per_s, pace };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        *ranges[i] = widened(*ranges[i], factor, log_half);
}

// The steps and first sights that are forecast from the measured ones; 0: unknown.
struct span {
    double steps, widths;
};

static struct span span_of(const struct series *s, const struct steady_rule *rule)
{
    struct span span = { rule->total_steps, rule->total_widths };
    for (size_t i = 0; rule->rest && span.steps > 0 && i < s->count; i++) {
        span.steps = fmax(span.steps - s->reports[i].count, 1);
        span.widths = fmax(span.widths - s->reports[i].widths, 0);
    }
    return span;
}

// What first sights leave open of a forecast, as a half-width of its steady step: their cost and
// their number. A first sight that is believed too dear makes the steady step too short; in the
// forecast the two errors cancel, as far as it has as many new widths a step.
static double width_half(const struct steady *out, const struct steady_rule *rule,
                         const struct transient *fit, double widths, double level, struct span span)
{
    double z = stats_normal_quantile(0.5 + level / 2), run = 0, number = 0;
    if (span.steps > 0) {
        run = span.widths * (double)out->ordinary_steps / span.steps;
        number = fit->seconds_per_width * rule->widths_error / (span.steps * out->step_seconds.mid);
    }
    double cost = fit->width_error * fabs(widths - run) / out->ordinary_seconds;
    return z * fmin(hypot(cost, number), 1);
}

// --- all ---------------------------------------------------------------------

static const char *reason_of(const struct steady *out, struct arena *arena)
{
    const char *trend = out->drift > 0 ? "slower" : "faster";
    const char *change = text_share(arena, fabs(out->drift));
    if (out->falls)
        return text_format(arena, "steps still get faster; measure longer (--minutes), or pad to "
                                  "rounded widths (--pad-to-multiple-of), which are fewer");
    switch (out->verdict) {
    case STEADY_YES: return NULL;
    case STEADY_TOO_SHORT:
        return text_format(arena,
                           "only %lld ordinary reports after warm-up, at least %d are needed: run "
                           "it longer, or let the trainer report more often",
                           (long long)out->ordinary_reports, STEADY_LEAST);
    case STEADY_DRIFTS:
        return text_format(arena, "steps get %s throughout, by %s over the measurement", trend,
                           change);
    case STEADY_JUMPS:
        return text_format(arena, "steps became %s during the measurement, by about %s", trend,
                           change);
    }
    return NULL;
}

// The seconds that steps and tokens explain. Grouped rows begin with the longest: that the host,
// not the tokens, sets the time of a step must not look like steps that get slower.
static void explain(double *work, struct arena *arena, const double *steps, const double *tokens,
                    const double *seconds, size_t count)
{
    double *rows = ARENA_NEW(arena, double, 2 * count + 2);
    double *values = ARENA_NEW(arena, double, count + 1), x[2];
    for (size_t i = 0; i < count; i++) {
        double root = sqrt(steps[i]);
        rows[2 * i] = steps[i] / root;
        rows[2 * i + 1] = tokens[i] / root;
        values[i] = seconds[i] / root;
    }
    nnls_solve(x, rows, values, count, 2);
    for (size_t i = 0; i < count; i++)
        work[i] = x[0] * steps[i] + x[1] * tokens[i];
}

// The reports after warm-up that are not slow, in columns.
struct ordinary {
    double *seconds, *tokens, *steps;
    double *work; // the seconds that their steps and tokens explain
    double widths;
    size_t count;
    bool known; // all tell their tokens
};

static struct ordinary take_ordinary(struct steady *out, struct arena *arena,
                                     const struct series *s, size_t warmup)
{
    struct ordinary o = { .seconds = ARENA_NEW(arena, double, s->count + 1),
                          .tokens = ARENA_NEW(arena, double, s->count + 1),
                          .steps = ARENA_NEW(arena, double, s->count + 1),
                          .work = ARENA_NEW(arena, double, s->count + 1),
                          .known = true };
    for (size_t i = warmup; i < s->count; i++) {
        const struct report *report = &s->reports[i];
        if (report->slow)
            continue;
        o.seconds[o.count] = report->seconds;
        o.tokens[o.count] = report->tokens;
        o.steps[o.count] = report->count;
        s->scratch[o.count++] = report->seconds / report->count;
        o.known = o.known && report->tokens > 0;
        o.widths += report->widths;
        out->ordinary_steps += (int64_t)report->count;
        out->ordinary_seconds += report->seconds;
        out->ordinary_tokens += report->tokens;
    }
    out->ordinary_reports = (int64_t)o.count;
    out->spread = stats_range(s->scratch, o.count);
    return o;
}

// The rates of steps, *pace, and of tokens, with the intervals that their scatter gives.
static void find_rates(struct steady *out, struct range *pace, const struct ordinary *o,
                       double *scratch, const struct steady_rule *rule)
{
    *pace = rate_of(o->steps, o->seconds, o->count, rule, scratch);
    if (o->known)
        out->tokens_per_s = rate_of(o->tokens, o->seconds, o->count, rule, scratch);
    if (rule->total_steps > 0) { // the run's tokens are known: what they explain is not in doubt
        struct range by_work = rate_of(o->work, o->seconds, o->count, rule, scratch);
        *pace = around(pace->mid, &by_work);
        out->tokens_per_s = around(out->tokens_per_s.mid, &by_work);
    }
    out->step_seconds = (struct range){ 1 / pace->high, 1 / pace->mid, 1 / pace->low };
}

// Widens them by what the scatter does not show: new widths, a clock that rounds, and that a series
// was looked at until it was narrow.
static void add_doubts(struct steady *out, struct range *pace, const struct ordinary *o,
                       const struct series *s, const struct steady_rule *rule,
                       const struct transient *fit)
{
    double level = level_of(rule);
    if (fit->width_error >= 0) {
        struct span span = span_of(s, rule);
        double half = width_half(out, rule, fit, o->widths, level, span), factor = fit->blur;
        if (span.steps > 0) // the forecast's own steps scatter too
            factor *= sqrt(1 + (double)out->ordinary_steps / span.steps);
        widen(out, pace, factor, half);
    }
    if (rule->clock_seconds > 0) { // both ends of the measured time are rounded, each by ± half
        double error = rule->clock_seconds / sqrt(6) / out->ordinary_seconds;
        widen(out, pace, 1, stats_normal_quantile(0.5 + level / 2) * error);
    }
    if (rule->until_narrow)
        widen(out, pace, NARROW_WIDER, 0);
}

static void measure_ordinary(struct steady *out, struct arena *arena, struct series *s,
                             size_t warmup, const struct steady_rule *rule,
                             const struct transient *fit)
{
    struct ordinary o = take_ordinary(out, arena, s, warmup);
    struct range pace;
    if (o.count < STEADY_LEAST) {
        out->verdict = STEADY_TOO_SHORT;
        return;
    }
    explain(o.work, arena, o.steps, o.known ? o.tokens : o.steps, o.seconds, o.count);
    find_rates(out, &pace, &o, s->scratch, rule);
    add_doubts(out, &pace, &o, s, rule, fit);
    struct range rate = o.known ? out->tokens_per_s : pace;
    out->half_width = (rate.high - rate.mid) / rate.mid;
    double factor = out->half_width / (rule->wanted > 0 ? rule->wanted : 0.02);
    out->more_steps = factor > 1 ? ceil((double)out->ordinary_steps * (factor * factor - 1)) : 0;
    out->verdict = find_drift(out, o.work, o.seconds, o.count, 1, s->scratch);
    double fall = find_fall(o.work, o.seconds, o.count, warmup, 1, s->scratch);
    out->falls = fall * log(2) * (double)o.count / out->ordinary_seconds > DRIFT_LEAST;
    if (out->falls) {
        out->verdict = out->verdict == STEADY_YES ? STEADY_DRIFTS : out->verdict;
        reach_extrapolated(out, fall, o.count, warmup, rule->total_steps);
    }
}

void steady_measure(struct steady *out, struct arena *arena, const struct steady_step *steps,
                    size_t count, const struct steady_rule *rule)
{
    struct series s = { .reports = ARENA_NEW(arena, struct report, count + 1),
                        .scratch = ARENA_NEW(arena, double, count + 1) };
    *out = (struct steady){ .tokens_per_s = { NAN, NAN, NAN },
                            .step_seconds = { NAN, NAN, NAN },
                            .half_width = NAN,
                            .more_steps = NAN,
                            .drift = NAN,
                            .first_seconds = NAN };
    join_bursts(&s, steps, count);
    struct transient fit = take_widths(out, arena, &s, rule);
    take_logs(&s, &fit);
    size_t warmup = find_warmup(&s);
    for (size_t i = 0; i < warmup; i++) {
        out->warmup_steps += (int64_t)s.reports[i].count;
        out->warmup_seconds += s.reports[i].seconds;
    }
    find_slow(&s, warmup, out->seconds_per_width, rule->clock_seconds);
    measure_ordinary(out, arena, &s, warmup, rule, &fit);
    if (out->ordinary_steps > 0)
        out->first_seconds =
            fmax(0, out->warmup_seconds - (double)out->warmup_steps * out->ordinary_seconds /
                                              (double)out->ordinary_steps);
    for (size_t i = warmup; i < s.count; i++)
        if (s.reports[i].slow)
            note_slow(out, &s.reports[i], 2 * (i - warmup) >= s.count - warmup);
    out->reason = reason_of(out, arena);
}
