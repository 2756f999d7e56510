// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "base/stats.h"
#include "core/measured/evidence.h"
#include "test/test.h"

#include <math.h>
#include <string.h>

static const char *const kinds[] = { "dense", "moe" };
static const char *const stacks[] = { "hf", "nemo", "torchtune", "unsloth" };
static const char *const gpus[] = { "h100-sxm", "h200-sxm", "a100-sxm-80gb", "mi300x" };
static const char *const methods[] = { "full", "lora", "qlora" };

static struct place place_of(int kind, int stack, int gpu, int method)
{
    return (struct place){
        .names = { [EVIDENCE_KIND] = kinds[kind],
                   [EVIDENCE_FAMILY] = stack % 2 ? "megatron" : "eager",
                   [EVIDENCE_STACK] = stacks[stack],
                   [EVIDENCE_VENDOR] = gpu == 3 ? "amd" : "nvidia",
                   [EVIDENCE_GENERATION] = gpu < 2 ? "Hopper" : gpus[gpu],
                   [EVIDENCE_GPU] = gpus[gpu],
                   [EVIDENCE_METHOD] = methods[method],
                   [EVIDENCE_PRECISION] = "bf16" },
        .gpus = 8,
        .context = 4096,
        .batch_tokens = 16384,
    };
}

static struct place random_place(struct rng *rng)
{
    struct place place = place_of(rng_uniform(rng) < 0.2, (int)(4 * rng_uniform(rng)),
                                  (int)(4 * rng_uniform(rng)), (int)(3 * rng_uniform(rng)));
    place.gpus = floor(exp(6 * rng_uniform(rng)));
    place.context = floor(exp(5 + 6 * rng_uniform(rng)));
    place.batch_tokens = 4 * place.context;
    return place;
}

enum { MOST = 2000 };

static struct evidence_row rows[MOST];

static struct text source_name(int number)
{
    return text_of(text_format(&test_arena, "source %d", number));
}

// Runs of so many sources at random places, wrong by the spread of their kind.
static struct evidence fit_random(struct rng *rng, int sources, int runs)
{
    struct evidence evidence;
    for (int i = 0; i < sources * runs; i++) {
        struct place place = random_place(rng);
        double spread = strcmp(place.names[EVIDENCE_KIND], "moe") ? 0.15 : 0.6;
        rows[i] = (struct evidence_row){ .place = place,
                                         .source = source_name(i / runs),
                                         .error = spread * rng_normal(rng) };
    }
    evidence_fit(&evidence, &test_arena, rows, (size_t)(sources * runs), NULL);
    return evidence;
}

TEST(evidence_of_the_unmeasured_is_never_narrower)
{
    struct rng rng = rng_seeded(1);
    for (int fit = 0; fit < 10; fit++) {
        struct evidence evidence = fit_random(&rng, 20, 10);
        for (int i = 0; i < 200; i++) {
            struct place place = random_place(&rng), unknown = place;
            double spread = evidence_spread(&evidence, &place);
            CHECK(spread <= exp(evidence.log_widest) * (1 + 1e-12));
            unknown.names[(size_t)(EVIDENCE_NAMES * rng_uniform(&rng))] = "nobody measured this";
            CHECK(evidence_spread(&evidence, &unknown) >= spread * (1 - 1e-12));
        }
    }
}

TEST(evidence_widens_with_each_thing_that_differs)
{
    struct rng rng = rng_seeded(2);
    struct evidence evidence = fit_random(&rng, 30, 10);
    struct place place = place_of(0, 0, 0, 1);
    double before = evidence_spread(&evidence, &place), first = before;
    for (int f = EVIDENCE_NAMES - 1; f >= 0; f--) {
        place.names[f] = "new";
        double now = evidence_spread(&evidence, &place);
        CHECK(now >= before * (1 - 1e-12));
        before = now;
    }
    CHECK(before > 2 * first);
    place.gpus = place.context = place.batch_tokens = 1e9;
    CHECK_NEAR(evidence_spread(&evidence, &place), exp(evidence.log_widest), 1e-12);
}

TEST(evidence_follows_the_errors_of_its_kind)
{
    struct rng rng = rng_seeded(3);
    struct evidence evidence = fit_random(&rng, 60, 20);
    struct place dense = place_of(0, 0, 0, 1), moe = place_of(1, 0, 0, 1);
    double narrow = evidence_spread(&evidence, &dense), wide = evidence_spread(&evidence, &moe);
    CHECK(narrow > 0.13 && narrow < 0.2);
    CHECK(wide > 0.45 && wide < 0.75);
}

// Errors are more often small than Student's t has them, and more often large.
TEST(evidence_ranges_hold_four_fifths_of_the_runs)
{
    enum { RUNS = 600 };
    struct rng rng = rng_seeded(5);
    struct evidence evidence;
    for (int i = 0; i < RUNS; i++)
        rows[i] = (struct evidence_row){ .place = place_of(0, 0, 0, 1),
                                         .source = source_name(i),
                                         .error = (i % 5 ? 0.05 : 0.3) * rng_normal(&rng) };
    evidence_fit(&evidence, &test_arena, rows, RUNS, NULL);
    struct place place = place_of(0, 0, 0, 1);
    double most = STATS_P90 * evidence_spread(&evidence, &place), inside = 0;
    for (int i = 0; i < RUNS; i++)
        inside += fabs(rows[i].error) <= most ? 1.0 / RUNS : 0;
    CHECK_NEAR(inside, 0.8, 0.01);
}

// Runs of one place, all of them one source's or each its own.
static double spread_of_runs(int count, int sources, double bias, double scatter)
{
    struct rng rng = rng_seeded(4);
    struct evidence evidence;
    for (int i = 0; i < count; i++)
        rows[i] = (struct evidence_row){ .place = place_of(0, 0, 0, 1),
                                         .source = source_name(i % sources),
                                         .error = (i % sources % 2 ? bias : -bias) +
                                                  scatter * rng_normal(&rng) };
    evidence_fit(&evidence, &test_arena, rows, (size_t)count, NULL);
    struct place place = place_of(0, 0, 0, 1);
    return evidence_spread(&evidence, &place);
}

TEST(evidence_of_one_source_counts_about_once)
{
    double few = spread_of_runs(10, 2, 0.1, 0.02), many = spread_of_runs(1000, 2, 0.1, 0.02);
    double sources = spread_of_runs(1000, 500, 0.1, 0.02);
    CHECK(many > 0.9 * few); // a hundred times the runs
    CHECK(sources < 0.9 * many);
    CHECK(sources > 0.07);
}

TEST(evidence_does_not_count_twice_what_the_step_list_is_unsure_of)
{
    struct rng rng = rng_seeded(8);
    struct evidence evidence;
    double of_place = 0.15, of_step = 0.4;
    for (int i = 0; i < 1000; i++)
        rows[i] = (struct evidence_row){ .place = place_of(0, 0, 0, 1),
                                         .source = source_name(i),
                                         .step_spread = i % 2 ? of_step : 0,
                                         .error = hypot(of_place, i % 2 ? of_step : 0) *
                                                  evidence_tail(rng_normal(&rng)) };
    evidence_fit(&evidence, &test_arena, rows, 1000, NULL);
    struct place place = place_of(0, 0, 0, 1);
    CHECK_NEAR(evidence_spread(&evidence, &place), of_place, 0.1);
}

TEST(evidence_is_not_decided_by_an_outlier)
{
    struct rng rng = rng_seeded(5);
    fit_random(&rng, 30, 10);
    struct evidence without, with;
    evidence_fit(&without, &test_arena, rows, 300, NULL);
    rows[7].error = 9;
    evidence_fit(&with, &test_arena, rows, 300, NULL);
    for (int i = 0; i < 50; i++) {
        struct place place = random_place(&rng);
        double ratio = evidence_spread(&with, &place) / evidence_spread(&without, &place);
        CHECK(ratio > 0.85 && ratio < 1.35);
    }
}

TEST(evidence_is_the_same_from_wherever_the_fit_begins)
{
    struct rng rng = rng_seeded(6);
    struct evidence other = fit_random(&rng, 5, 50), begun;
    struct evidence fresh = fit_random(&rng, 20, 10);
    for (int spread = 0; spread < 2; spread++) { // the density is concave without one
        for (int i = 0; i < 200; i++)
            rows[i].step_spread = spread ? 0.08 : 0;
        evidence_fit(&fresh, &test_arena, rows, 200, NULL);
        evidence_fit(&begun, &test_arena, rows, 200, &other);
        for (int i = 0; i < 50; i++) {
            struct place place = random_place(&rng);
            CHECK_NEAR(evidence_spread(&fresh, &place), evidence_spread(&begun, &place), 1e-3);
        }
    }
}

TEST(evidence_that_is_left_out_says_nothing)
{
    struct rng rng = rng_seeded(7);
    fit_random(&rng, 20, 10);
    struct evidence less, marked;
    evidence_fit(&less, &test_arena, rows, 100, NULL);
    for (int i = 100; i < 200; i++)
        rows[i].left_out = true;
    evidence_fit(&marked, &test_arena, rows, 200, NULL);
    struct place place = random_place(&rng);
    CHECK_NEAR(evidence_spread(&less, &place), evidence_spread(&marked, &place), 1e-12);
    evidence_fit(&marked, &test_arena, rows + 100, 100, NULL); // nothing at all
    CHECK_NEAR(evidence_spread(&marked, &place), exp(marked.log_widest), 1e-12);
}

TEST(evidence_tails_are_students_with_the_same_p10_and_p90)
{
    CHECK_NEAR(evidence_tail(STATS_P90), STATS_P90, 1e-9);
    CHECK_NEAR(evidence_tail(-STATS_P90), -STATS_P90, 1e-9);
    CHECK(fabs(evidence_tail(0)) < 1e-6);
    double p99 = evidence_tail(stats_normal_quantile(0.99));
    CHECK_NEAR(p99, 3.746947 * STATS_P90 / 1.533206, 1e-5); // printed tables of t
    for (double z = -8; z < 8; z += 0.01)
        CHECK(evidence_tail(z + 0.01) >= evidence_tail(z));
    CHECK(isfinite(evidence_tail(50)) && isfinite(evidence_tail(-50)));
}

TEST(evidence_is_written_as_it_is_read)
{
    struct rng rng = rng_seeded(8);
    struct evidence evidence = fit_random(&rng, 20, 10), read;
    struct out out = { .arena = &test_arena };
    evidence_write(&evidence, &out);
    CHECK(!evidence_read(&read, &test_arena, out_view(&out), "evidence.csv"));
    for (int i = 0; i < 50; i++) {
        struct place place = random_place(&rng);
        CHECK_NEAR(evidence_spread(&evidence, &place), evidence_spread(&read, &place), 1e-4);
    }
}

TEST(evidence_that_widens_or_has_no_widest_is_refused)
{
    struct evidence read;
    CHECK(evidence_read(&read, &test_arena,
                        TEXT("kind,factor,level,with,narrowing,runs,sources\n"
                             ",widest,,,0.5,,\ndense,stack,hf,,-0.1,3,1\n"),
                        "evidence.csv") == ERR_INPUT);
    CHECK(evidence_read(&read, &test_arena,
                        TEXT("kind,factor,level,with,narrowing,runs,sources\n"
                             "dense,stack,hf,,0.1,3,1\n"),
                        "evidence.csv") == ERR_INPUT);
}
