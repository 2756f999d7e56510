// SPDX-License-Identifier: Apache-2.0
// Simulated series whose truth is known: the rate of the ordinary steps in the long run.

#include "core/trainers/steady.h"

#include "base/json.h"
#include "base/rng.h"
#include "base/text.h"
#include "host/file.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>

#ifndef SEED
#define SEED 20261115
#endif

enum { SERIES = 1000, LONGEST = 400 };

// What a series is made of; zero leaves a part out. Times are relative to an ordinary step of 1 s.
struct scenario {
    const char *name;
    int least, most; // steps
    double spread;   // deviation of the logarithm of a step's time
    double autocorrelation;
    double tails;        // degrees of freedom of Student's t in place of the normal
    int warmup;          // longest; the first is a compilation, the rest 1.3 to 3 times slower
    bool fades;          // the warm-up goes down in a line to 1.2 times
    int save_every;      // a save of 2 to 8 steps' time
    bool noted;          // the log tells of saves
    double stalls;       // share of steps with a stall of 2 to 20 steps' time
    double token_spread; // of batches: time grows with their tokens
    double drift;        // over the whole series
    double jump;         // from the middle on
    bool blurred; // slow spells at the start look like a warm-up: only the interval is judged
    int every;    // steps a report
};

struct truth {
    double tokens_per_s;
    int warmup;
};

static double noise(struct rng *rng, const struct scenario *s, double *state)
{
    double z = rng_normal(rng);
    if (s->tails > 0) {
        double square = 0;
        for (int i = 0; i < (int)s->tails; i++) {
            double other = rng_normal(rng);
            square += other * other;
        }
        z /= sqrt(square / s->tails);
    }
    *state = s->autocorrelation * *state + sqrt(1 - s->autocorrelation * s->autocorrelation) * z;
    return s->spread * *state;
}

static double warm(struct rng *rng, const struct scenario *s, int i, int warmup)
{
    if (i >= warmup)
        return 1;
    if (i == 0)
        return 5 + 20 * rng_uniform(rng);
    return s->fades ? 1.2 + 1.5 * (warmup - 1 - i) / warmup : 1.3 + 1.7 * rng_uniform(rng);
}

// What is slower than five robust deviations (and than 1.3 times the median) is a stall, by
// definition: the ordinary step of a heavy-tailed scenario is the mean of the rest. By Monte Carlo,
// once a scenario.
static double ordinary_seconds(const struct scenario *s)
{
    if (s->tails <= 0)
        return exp(s->spread * s->spread / 2);
    enum { DRAWS = 200001 };
    struct rng rng = rng_seeded(SEED + 1);
    double *log_times = ARENA_NEW(&test_arena, double, DRAWS), state = 0;
    double *sorted = ARENA_NEW(&test_arena, double, DRAWS);
    for (int i = 0; i < DRAWS; i++)
        sorted[i] = log_times[i] = noise(&rng, s, &state);
    double median = stats_median(sorted, DRAWS), sum = 0, count = 0;
    double upper = stats_quantile(sorted, DRAWS, 0.75) - median; // half of those above are nearer
    double most = stats_quantile(sorted, DRAWS, 0.9) - median + log(2);
    double limit = median + fmax(log(1.3), fmin(5 * 1.4826 * upper, most));
    for (int i = 0; i < DRAWS; i++)
        if (log_times[i] <= limit)
            sum += exp(log_times[i]), count++;
    return sum / count;
}

static size_t simulate(struct steady_step *steps, struct rng *rng, const struct scenario *s,
                       int *warmup)
{
    int count = s->least + (int)rng_below(rng, (uint64_t)(s->most - s->least + 1));
    *warmup = s->warmup ? 1 + (int)rng_below(rng, (uint64_t)s->warmup) : 0;
    double state = rng_normal(rng), clock = 0;
    int phase = s->save_every ? (int)rng_below(rng, (uint64_t)s->save_every) : 0,
        every = s->every ? s->every : 1;
    memset(steps, 0, LONGEST * sizeof *steps);
    for (int i = 0; i < count * every; i++) {
        struct steady_step *step = &steps[i / every];
        double tokens =
            8192 * exp(s->token_spread * rng_normal(rng) - s->token_spread * s->token_spread / 2);
        double seconds = (0.2 + 0.8 * tokens / 8192) * exp(noise(rng, s, &state));
        seconds *= warm(rng, s, i, *warmup * every);
        seconds *= 1 + s->drift * i / (count * every) + (i > count * every / 2 ? s->jump : 0);
        if (s->save_every && i >= *warmup && i % s->save_every == phase) {
            seconds += 2 + 6 * rng_uniform(rng);
            step->flags |= s->noted ? STEADY_SAVED : 0;
        }
        if (s->stalls > 0 && i >= *warmup && rng_uniform(rng) < s->stalls)
            seconds += 2 + 18 * rng_uniform(rng);
        clock += seconds;
        step->number = i + 1;
        step->count++;
        step->seconds += seconds;
        step->tokens += tokens;
        step->end_seconds = clock;
    }
    return (size_t)count;
}

struct score {
    int steady, covered, found, drifts, jumps;
    double half_width;
};

static struct score play(const struct scenario *s, uint64_t seed)
{
    struct rng rng = rng_seeded(seed);
    struct steady_step steps[LONGEST];
    struct score score = { 0 };
    double truth = 8192 / ordinary_seconds(s);
    for (int i = 0; i < SERIES; i++) {
        struct arena_mark mark = arena_mark(&test_arena);
        struct steady steady;
        int warmup, every = s->every ? s->every : 1;
        size_t count = simulate(steps, &rng, s, &warmup);
        steady_measure(&steady, &test_arena, steps, count, &(struct steady_rule){ 0 });
        score.found += fabs((double)steady.warmup_steps / every - warmup) <= 2;
        score.drifts += steady.verdict == STEADY_DRIFTS;
        score.jumps += steady.verdict == STEADY_JUMPS;
        if (steady.verdict == STEADY_YES) {
            score.steady++;
            score.half_width += steady.half_width;
            score.covered += steady.tokens_per_s.low <= truth && truth <= steady.tokens_per_s.high;
        }
        arena_rewind(&test_arena, mark);
    }
    score.half_width /= score.steady;
    return score;
}

static const struct scenario steady_ones[] = {
    { "plain", 20, 120, .spread = 0.05 },
    { "short", 12, 20, .spread = 0.05 },
    { "long and even", 200, 400, .spread = 0.005 },
    { "warm-up", 40, 160, .spread = 0.04, .warmup = 12 },
    { "fading warm-up", 40, 160, .spread = 0.04, .warmup = 12, .fades = true },
    { "long warm-up", 90, 200, .spread = 0.06, .warmup = 30, .autocorrelation = 0.4 },
    { "saves", 60, 200, .spread = 0.05, .save_every = 20 },
    { "noted saves", 60, 200, .spread = 0.05, .save_every = 10, .noted = true },
    { "stalls", 60, 200, .spread = 0.08, .stalls = 0.03 },
    { "heavy tails", 60, 200, .spread = 0.1, .tails = 3 },
    { "autocorrelation", 60, 200, .spread = 0.06, .autocorrelation = 0.6 },
    { "strong autocorrelation", 100, 300, .spread = 0.05, .autocorrelation = 0.8, .blurred = true },
    { "uneven batches", 60, 200, .spread = 0.03, .token_spread = 0.4 },
    { "ten steps a report", 20, 60, .spread = 0.05, .every = 10, .warmup = 2 },
    { "all of it", 80, 250, .spread = 0.05, .autocorrelation = 0.3, .tails = 5, .warmup = 8,
      .save_every = 40, .stalls = 0.01, .token_spread = 0.3 },
};

TEST(steady_intervals_hold_the_truth_and_warmup_is_found)
{
    for (size_t i = 0; i < sizeof steady_ones / sizeof *steady_ones; i++) {
        const struct scenario *s = &steady_ones[i];
        struct score score = play(s, SEED);
        double coverage = (double)score.covered / score.steady;
        bool good = coverage >= 0.85 && coverage <= 0.95 && (score.found >= 950 || s->blurred) &&
                    score.steady >= 950;
        if (!good)
            printf("%-20s steady %d, covered %.3f, warm-up found %d, half width %.4f drifts %d "
                   "jumps %d\n",
                   s->name, score.steady, coverage, score.found, score.half_width, score.drifts,
                   score.jumps);
        CHECK(good);
    }
}

// Steps of half a second until the rate is known to 2 %, as a pilot: at least 20 s, then looked at
// whenever there are 5 % more. Returns the share of the intervals that hold the truth.
static double play_until_narrow(double spread, double autocorrelation)
{
    enum { PILOTS = 300, MOST = 1500 };
    struct scenario s = { .spread = spread, .autocorrelation = autocorrelation };
    struct steady_rule rule = { .until_narrow = true };
    struct rng rng = rng_seeded(SEED);
    struct steady_step *steps = ARENA_NEW(&test_arena, struct steady_step, MOST);
    int covered = 0;
    for (int i = 0; i < PILOTS; i++) {
        double state = rng_normal(&rng), truth = 4096 / (0.5 * ordinary_seconds(&s));
        struct steady steady = { .half_width = INFINITY };
        for (int n = 0, next = 40; n < MOST && !(steady.half_width <= 0.02); n++) {
            steps[n] = (struct steady_step){ .seconds = 0.5 * exp(noise(&rng, &s, &state)),
                                             .tokens = 4096 };
            if (n + 1 < next)
                continue;
            struct arena_mark mark = arena_mark(&test_arena);
            steady_measure(&steady, &test_arena, steps, (size_t)n + 1, &rule);
            arena_rewind(&test_arena, mark);
            next += 1 + next / 20;
        }
        covered += steady.tokens_per_s.low <= truth && truth <= steady.tokens_per_s.high;
    }
    return (double)covered / PILOTS;
}

TEST(steady_intervals_hold_the_truth_where_a_pilot_ends_as_soon_as_they_are_narrow)
{
    SKIP_BELOW_SANITIZERS("a statistic");
    CHECK(play_until_narrow(0.05, 0) > 0.88);
    CHECK(play_until_narrow(0.03, 0.6) > 0.88);
    CHECK(play_until_narrow(0.03, 0.8) > 0.86);
    CHECK(play_until_narrow(0.05, 0.8) > 0.86);
    CHECK(play_until_narrow(0.05, 0.9) > 0.82);
}

static const struct scenario unsteady_ones[] = {
    { "drift", 80, 200, .spread = 0.04, .drift = 0.15, .warmup = 5 },
    { "getting faster", 80, 200, .spread = 0.04, .drift = -0.15 },
    { "jump", 80, 200, .spread = 0.04, .jump = 0.15, .warmup = 5 },
    { "uneven drift", 150, 200, .spread = 0.04, .drift = 0.15, .token_spread = 0.4,
      .autocorrelation = 0.3 },
};

TEST(steady_says_when_steps_drift_or_jump)
{
    for (size_t i = 0; i < sizeof unsteady_ones / sizeof *unsteady_ones; i++) {
        struct score score = play(&unsteady_ones[i], SEED);
        int named = unsteady_ones[i].jump != 0 ? score.jumps : score.drifts;
        bool good = score.steady <= 50 && named >= (unsteady_ones[i].token_spread > 0 ? 500 : 950);
        if (!good)
            printf("%-20s steady %d, drifts %d, jumps %d\n", unsteady_ones[i].name, score.steady,
                   score.drifts, score.jumps);
        CHECK(good);
    }
}

// --- single cases ------------------------------------------------------------

static struct steady measure(const double *seconds, size_t count, double tokens)
{
    static struct steady_step steps[LONGEST * 2];
    struct steady steady;
    for (size_t i = 0; i < count; i++)
        steps[i] = (struct steady_step){ .number = (int64_t)i + 1,
                                         .seconds = seconds[i],
                                         .tokens = tokens };
    steady_measure(&steady, &test_arena, steps, count, &(struct steady_rule){ 0 });
    return steady;
}

// transformers' Trainer on an H200, batches of 16 padded to the longest: the caching allocator asks
// for new blocks of 1.3 s now and then and the steps get faster as its pool fills.
TEST(steady_reads_a_real_run_as_it_was)
{
    struct file file;
    struct json json;
    CHECK(!file_open(&file, "test/data/h200_trainer_steps.json"));
    CHECK(!json_read(&json, &test_arena, file.text, "steps") && json.count == 467);
    double seconds[467];
    for (size_t i = 0; i < 467; i++)
        seconds[i] = json.items[i].number;
    file_close(&file);
    struct steady steady = measure(seconds, 60, 0);
    CHECK(steady.verdict == STEADY_YES && steady.warmup_steps == 1);
    CHECK_NEAR(steady.warmup_seconds, 1.6554, 1e-9);
    CHECK(steady.slow[STEADY_STALL].count == 2 && steady.ordinary_steps == 57);
    CHECK_NEAR(steady.slow[STEADY_STALL].seconds, 1.3231 + 1.3937, 1e-9);
    CHECK(isnan(steady.tokens_per_s.mid) && steady.more_steps > 100);
    steady = measure(seconds, 467, 0);
    CHECK(steady.verdict == STEADY_DRIFTS && strstr(steady.reason, "faster"));
    CHECK(steady.warmup_steps == 1 && steady.slow[STEADY_STALL].count == 4);
}

TEST(steady_joins_steps_that_were_shown_at_once)
{
    double seconds[200]; // every 20 steps a block of output
    for (int i = 0; i < 200; i++)
        seconds[i] = i % 20 == 19 ? 20 + 0.1 * (i % 3) : 1e-5;
    struct steady steady = measure(seconds, 200, 1000);
    CHECK(steady.verdict == STEADY_YES && steady.ordinary_steps == 200 &&
          steady.ordinary_reports == 10);
    CHECK_NEAR(steady.tokens_per_s.mid, 1000 / 1.005, 0.002);
    CHECK(steady.slow[STEADY_STALL].count == 0);
}

// Steps of a busy machine: the rate is hardly known, but it is a rate.
TEST(steady_intervals_of_a_rate_are_positive_however_unequal_the_steps)
{
    struct rng rng = rng_seeded(SEED);
    struct steady_step steps[12];
    double widest = 0;
    for (int series = 0; series < 200; series++) {
        double level = 1;
        for (int i = 0; i < 12; i++) {
            level *= exp(0.9 * rng_normal(&rng)); // a random walk: the next step is like the last
            steps[i] = (struct steady_step){ .number = i, .seconds = level, .tokens = 1000 };
        }
        struct steady steady;
        steady_measure(&steady, &test_arena, steps, 12, &(struct steady_rule){ 0 });
        if (steady.verdict == STEADY_TOO_SHORT)
            continue;
        const struct range *rate = &steady.tokens_per_s, *step = &steady.step_seconds;
        CHECK(rate->low > 0 && rate->low <= rate->mid && rate->mid <= rate->high);
        CHECK(step->low > 0 && step->low <= step->mid && step->mid <= step->high);
        CHECK(isfinite(rate->high) && isfinite(step->high));
        widest = fmax(widest, steady.half_width);
    }
    CHECK(widest > 1); // symmetric about the rate, such an interval would reach below zero
}

TEST(steady_does_not_judge_a_handful_of_steps)
{
    const double seconds[] = { 9, 1, 1, 1.02, 1, 0.99 };
    struct steady steady = measure(seconds, 6, 1000);
    CHECK(steady.verdict == STEADY_TOO_SHORT && strstr(steady.reason, "5 ordinary reports"));
    CHECK(strstr(steady.reason, "run it longer"));
    CHECK(steady.warmup_steps == 1 && isnan(steady.tokens_per_s.mid) && isnan(steady.more_steps));
    CHECK(measure(seconds, 0, 0).verdict == STEADY_TOO_SHORT);
    const double zeros[12] = { 0 };
    CHECK(measure(zeros, 12, 10).verdict == STEADY_TOO_SHORT);
}

TEST(steady_separates_slow_steps_by_what_the_log_said)
{
    struct steady_step steps[100] = { 0 };
    for (int i = 0; i < 100; i++) {
        steps[i] = (struct steady_step){ .seconds = 1 + 0.01 * (i % 7), .tokens = 4096 };
        if (i % 25 == 24)
            steps[i].flags = STEADY_EVALUATED, steps[i].seconds += 12;
        if (i % 50 == 30)
            steps[i].flags = STEADY_SAVED, steps[i].seconds += 3;
        if (i == 77)
            steps[i].seconds += 5;
    }
    struct steady steady;
    steady_measure(&steady, &test_arena, steps, 100, &(struct steady_rule){ .wanted = 0.0001 });
    CHECK(steady.verdict == STEADY_YES && steady.ordinary_steps == 93 && steady.warmup_steps == 0);
    CHECK(steady.slow[STEADY_EVALUATION].count == 4 && steady.slow[STEADY_SAVE].count == 2 &&
          steady.slow[STEADY_STALL].count == 1);
    CHECK_NEAR(steady.slow[STEADY_EVALUATION].extra_seconds, 48, 0.01);
    CHECK_NEAR(steady.slow[STEADY_SAVE].extra_seconds, 6, 0.03);
    CHECK_NEAR(steady.slow[STEADY_STALL].longest_seconds, 6, 0.01);
    CHECK_NEAR(steady.tokens_per_s.mid, 4096 / 1.03, 0.001);
    CHECK(steady.more_steps > 0);
}

// Every tenth step takes three times as long: a fifth of the steps' time.
TEST(steady_gives_stalls_that_recur_their_share_and_its_error)
{
    struct steady_step steps[400] = { 0 };
    for (int i = 0; i < 400; i++)
        steps[i] = (struct steady_step){ .seconds = i % 10 == 9 ? 1.2 : 0.4, .tokens = 4096 };
    struct steady steady;
    steady_measure(&steady, &test_arena, steps, 400, &(struct steady_rule){ 0 });
    struct steady_recurring many = steady_recurring(&steady);
    CHECK(steady.slow[STEADY_STALL].count == 40);
    CHECK_NEAR(many.seconds, 32, 1e-9);
    CHECK_NEAR(many.share, 0.2, 1e-9);
    CHECK_NEAR(many.error, 0.2 / sqrt(40), 1e-9);
    steady_measure(&steady, &test_arena, steps, 40, &(struct steady_rule){ 0 });
    struct steady_recurring few = steady_recurring(&steady);
    CHECK_NEAR(few.share, 0.2, 1e-9);
    CHECK_NEAR(few.error, 0.2 / sqrt(4), 1e-9);
}

// A bar's clock has whole seconds: of steps that take 1.2 s, every fifth seems to take 2.
TEST(steady_takes_what_a_clock_rounds_for_no_stall)
{
    for (double each = 0.3; each < 4; each += 0.05) {
        struct steady_step steps[300];
        for (int i = 0; i < 300; i++)
            steps[i] = (struct steady_step){ .seconds = floor(each * (i + 1)) - floor(each * i),
                                             .tokens = 1000 };
        struct steady steady;
        steady_measure(&steady, &test_arena, steps, 300,
                       &(struct steady_rule){ .clock_seconds = 1 });
        CHECK(steady.slow[STEADY_STALL].count == 0);
        CHECK(fabs(steady.tokens_per_s.mid * each / 1000 - 1) < 0.02);
        CHECK(steady.tokens_per_s.low < 1000 / each && 1000 / each < steady.tokens_per_s.high);
    }
}

// Kernels load at the first width of a kind, in the first steps; long rows come throughout.
TEST(steady_tells_stalls_that_go_on_from_kernels_that_are_loaded)
{
    struct steady steady = { .ordinary_seconds = 90, .seconds_per_width = 0.1, .widths_seen = 30 };
    steady.slow[STEADY_STALL] =
        (struct steady_slow){ .count = 6, .seconds = 36, .extra_seconds = 26, .late = { 4, 8 } };
    struct steady_recurring recurring = steady_recurring(&steady);
    CHECK_NEAR(recurring.seconds, 8, 1e-9);
    CHECK_NEAR(recurring.share, 0.08, 1e-9);
    CHECK_NEAR(recurring.error, 2 * sqrt(8) / 100, 1e-9);
}

// The first evaluation loads kernels; one that is saved after tells of both.
TEST(steady_tells_the_first_evaluation_and_those_with_a_save_from_the_others)
{
    struct steady_step steps[100] = { 0 };
    for (int i = 0; i < 100; i++) {
        steps[i] = (struct steady_step){ .seconds = 1 + 0.01 * (i % 7), .tokens = 4096 };
        if (i % 20 == 19)
            steps[i].flags = STEADY_EVALUATED, steps[i].seconds += i == 19 ? 7 : 4;
        if (i == 59)
            steps[i].flags |= STEADY_SAVED, steps[i].seconds += 2;
    }
    struct steady steady;
    steady_measure(&steady, &test_arena, steps, 100, &(struct steady_rule){ 0 });
    const struct steady_slow *slow = &steady.slow[STEADY_EVALUATION];
    CHECK(slow->count == 5 && slow->later == 3);
    CHECK_NEAR(slow->first_seconds, 7, 0.01);
    CHECK_NEAR(slow->later_seconds, 12, 0.01);
    CHECK_NEAR(slow->extra_seconds, 25, 0.01);
}

// Grouped by length, the longest rows first; the host, not the tokens, sets the time.
TEST(steady_steps_with_ever_fewer_tokens_do_not_get_slower)
{
    struct steady_step steps[60];
    struct steady steady;
    struct rng rng = rng_seeded(8);
    for (int i = 0; i < 60; i++)
        steps[i] = (struct steady_step){ .number = i + 1,
                                         .seconds = 0.8 * exp(0.05 * rng_normal(&rng)),
                                         .tokens = 11000 - 100 * i };
    steady_measure(&steady, &test_arena, steps, 60, &(struct steady_rule){ 0 });
    CHECK(steady.verdict == STEADY_YES);
    for (int i = 0; i < 60; i++)
        steps[i].seconds *= 1 + 0.005 * i; // and these do
    steady_measure(&steady, &test_arena, steps, 60, &(struct steady_rule){ 0 });
    CHECK(steady.verdict == STEADY_DRIFTS && steady.drift > 0.2);
}
