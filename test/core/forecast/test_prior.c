// SPDX-License-Identifier: Apache-2.0
// The user's own runs as evidence: closed forms, distances, and published runs as a ledger.

#include "base/embedded.h"
#include "base/rng.h"
#include "core/forecast/prior.h"
#include "core/measured/validate.h"
#include "test/core/knowledge.h"

#include <math.h>

static const struct efficiency catalogs = { .log_mid = -0.1, .log_spread = 0.2 };
static const double usual = PRIOR_BETWEEN * PRIOR_BETWEEN;

static struct prior_run run_at(double log_ratio)
{
    struct prior_run run = { .stack = "hf-peft", .parameters = 8e9, .log_ratio = log_ratio };
    run.place = (struct transfer_place){ .model = "llama-3.1-8b",
                                         .gpu = "h100-sxm",
                                         .recipe = recipe_default(),
                                         .layout = layout_single(),
                                         .tokens = 4096,
                                         .attended = 512 };
    run.place.recipe.checkpointing = RECIPE_KEEP_ALL;
    run.place.layout.data = 8;
    return run;
}

// Updates by runs of the target's own configuration.
static struct efficiency update(const struct efficiency *from, const double *ratios, size_t count)
{
    struct prior_run runs[64], target = run_at(NAN);
    for (size_t i = 0; i < count; i++)
        runs[i] = run_at(ratios[i]);
    return prior_update(from, &target, runs, count);
}

TEST(prior_without_runs_is_the_catalogs)
{
    struct efficiency e = update(&catalogs, NULL, 0);
    CHECK(e.log_mid == catalogs.log_mid && e.log_spread == catalogs.log_spread && !e.own);
}

// By hand. One ratio 0.2 above the middle: sites 0.2² - 0.07² = 0.0351, so the run's weight is
// 0.0351/(0.0351 + 0.0049) = 0.8775. What is left is 0.0351 × 0.1225, and the scatter of the next
// run with t90 of 4 degrees over 1.28155 by the series, 1.196142: √(0.0049 × 1.196142² + 0.0043) =
// 0.106351.
TEST(prior_moves_most_of_the_way_to_one_run_of_the_very_configuration)
{
    double ratio = 0.1;
    struct efficiency e = update(&catalogs, &ratio, 1);
    CHECK_NEAR(e.log_mid, -0.1 + 0.8775 * 0.2, 1e-9);
    CHECK_NEAR(e.log_spread, 0.106351, 1e-5);
    CHECK(e.own == 1);
}

// The same ratio from another GPU: correlation exp(-0.18²/(2 × 0.18²)) = 0.606531; weight 0.606531
// × 0.8775 = 0.532231; spread √(0.0049 × 1.196142² + 0.0351 × (1 - 0.606531 × 0.532231)) =
// 0.175442.
TEST(prior_of_another_gpu_moves_less_as_computed_by_hand)
{
    struct prior_run target = run_at(NAN), run = run_at(0.1);
    run.place.gpu = "a100-sxm-80gb";
    CHECK_NEAR(prior_correlation(&target, &run, usual), 0.606531, 1e-6);
    struct efficiency e = prior_update(&catalogs, &target, &run, 1);
    CHECK_NEAR(e.log_mid - catalogs.log_mid, 0.532231 * 0.2, 1e-5);
    CHECK_NEAR(e.log_spread, 0.175442, 1e-5);
}

// Three ratios -0.25, -0.30, -0.35: mean -0.30, squares 0.005, freedom 6. Scatter² = (4 × 0.0049 +
// 0.005)/6 = 0.0041, widened by 1.123407² 0.00517438; weight 3/(3 + 0.0041/0.0351) = 0.962523;
// spread √(0.00517438 + 0.0351 × 0.037477) = 0.080559.
TEST(prior_of_three_ratios_is_as_computed_by_hand)
{
    double ratios[] = { -0.25, -0.30, -0.35 };
    struct efficiency e = update(&catalogs, ratios, 3);
    CHECK_NEAR(e.log_mid, -0.1 - 0.2 * 0.962523, 1e-5);
    CHECK_NEAR(e.log_spread, 0.080559, 1e-5);
}

TEST(prior_approaches_the_mean_of_many_own_runs_and_keeps_a_least_spread)
{
    double ratios[60], last = catalogs.log_spread;
    for (int i = 0; i < 60; i++)
        ratios[i] = 0.05;
    for (size_t n = 1; n <= 60; n++) {
        struct efficiency e = update(&catalogs, ratios, n);
        CHECK(e.log_spread <= last + 1e-12 && e.log_spread >= PRIOR_LEAST);
        CHECK(e.log_mid > catalogs.log_mid && e.log_mid <= 0.05);
        last = e.log_spread;
    }
    CHECK_NEAR(update(&catalogs, ratios, 60).log_mid, 0.05, 0.01);
    CHECK(last < 0.04);
}

TEST(prior_widens_only_when_the_own_runs_lie_far_apart)
{
    double far[] = { -0.6, 0.4, -0.5, 0.5 }, one = -0.1;
    CHECK(update(&catalogs, far, 4).log_spread > catalogs.log_spread);
    struct efficiency narrow = { .log_spread = 0.1 };
    CHECK(update(&narrow, &one, 1).log_spread <= 0.1);
}

TEST(prior_believes_a_mistyped_number_only_so_far_and_its_range_spans_the_catalogs)
{
    double thousandfold[] = { log(1000), log(1000) };
    struct efficiency e = update(&catalogs, thousandfold, 1);
    CHECK(e.log_mid < catalogs.log_mid + 3 * catalogs.log_spread);
    CHECK_NEAR(e.log_mid - STATS_P90 * e.log_spread, catalogs.log_mid, 1e-9);
    CHECK(update(&catalogs, thousandfold, 2).log_spread < e.log_spread); // two agree
}

// --- distance ----------------------------------------------------------------

// How far a run that is 0.3 above the middle moves the target, in the logarithm.
static double moved(struct prior_run run)
{
    struct prior_run target = run_at(NAN);
    run.log_ratio = catalogs.log_mid + 0.3;
    return prior_update(&catalogs, &target, &run, 1).log_mid - catalogs.log_mid;
}

TEST(prior_falls_with_the_distance_of_model_method_gpu_and_number_of_gpus)
{
    struct prior_run same = run_at(0), fewer = same, card = same, method = same, model = same;
    double near = moved(same), last = near;
    for (fewer.place.layout.data = 4; fewer.place.layout.data >= 2; fewer.place.layout.data /= 2) {
        CHECK(moved(fewer) < last && moved(fewer) > 0);
        last = moved(fewer);
    }
    card.place.gpu = "a100-sxm-80gb", method.place.recipe.method = RECIPE_FULL;
    CHECK(moved(card) < near && moved(method) < moved(card) && moved(method) > 0);
    model.place.model = "another-8b";
    last = near;
    for (model.parameters = 8e9; model.parameters < 33e9; model.parameters *= 2) {
        CHECK(moved(model) < last);
        last = moved(model);
    }
    struct prior_run other = same;
    other.stack = "unsloth";
    CHECK(moved(other) == 0);
}

// Lengths that an entry does not tell count as twice or half the target's.
TEST(prior_falls_with_the_distance_of_lengths_recomputation_and_precision)
{
    struct prior_run same = run_at(0), longer = same, unknown = same, wider = same;
    double near = moved(same), last = near;
    for (int i = 0; i < 2; i++) {
        longer.place.attended *= 2;
        CHECK(moved(longer) < last && moved(longer) > 0.3 * near);
        last = moved(longer);
        if (!i) {
            unknown.place.tokens = NAN;
            CHECK_NEAR(moved(unknown), last, 1e-12);
        }
    }
    wider.place.tokens *= 4;
    CHECK_NEAR(moved(wider), last, 1e-12);
    same.place.recipe.checkpointing = RECIPE_RECOMPUTE;
    CHECK(moved(same) < near && moved(same) > 0.8 * near);
    same.place.recipe.checkpointing = RECIPE_AUTO; // not told
    CHECK(moved(same) == near);
    same.place.recipe.precision = RECIPE_FP8;
    CHECK(moved(same) < 0.9 * near);
}

TEST(prior_nearest_is_the_run_of_that_stack_with_the_nearest_configuration)
{
    struct prior_run target = run_at(NAN), runs[3] = { run_at(0), run_at(0), run_at(0) };
    runs[0].stack = "unsloth";
    runs[1].place.gpu = "a100-sxm-80gb", runs[1].id = 1;
    runs[2].place.layout.data = 4, runs[2].id = 2;
    CHECK(prior_nearest(&(struct prior){ runs, 3 }, &target)->id == 2);
    CHECK(prior_nearest(&(struct prior){ runs, 2 }, &target)->id == 1);
    CHECK(!prior_nearest(&(struct prior){ runs, 1 }, &target));
}

// A run of an 8B model on one GPU moved the hours of a 70B model on eight from 197 to 150.
TEST(prior_of_one_small_run_does_not_move_a_large_one)
{
    struct prior_run target = run_at(NAN), small = run_at(0.6);
    target.place.model = "llama-3.1-70b", target.parameters = 70e9;
    small.place.layout.data = 1;
    struct efficiency e = prior_update(&catalogs, &target, &small, 1);
    CHECK(e.log_mid == catalogs.log_mid && e.log_spread == catalogs.log_spread && !e.own);
}

// Ten runs of a far configuration share what makes them far: they say little more than one does.
TEST(prior_of_many_far_runs_stays_below_their_correlation)
{
    struct prior_run target = run_at(NAN), runs[10];
    for (int i = 0; i < 10; i++) {
        runs[i] = run_at(catalogs.log_mid + 0.3);
        runs[i].place.recipe.method = RECIPE_FULL;
    }
    double correlation = prior_correlation(&target, &runs[0], usual);
    double shift = prior_update(&catalogs, &target, runs, 10).log_mid - catalogs.log_mid;
    CHECK(shift > 0 && shift <= correlation * 0.3);
}

// --- from a ledger -----------------------------------------------------------

TEST(prior_opens_measured_runs_of_a_ledger_that_are_possible)
{
    struct knowledge k = knowledge_open();
    struct history_entry entries[4];
    for (int i = 0; i < 4; i++) {
        history_clear(&entries[i]);
        entries[i].kind = HISTORY_RUN;
        entries[i].stack = "hf-peft", entries[i].gpu = "H100", entries[i].method = "lora";
        entries[i].model = "llama-3.1-8b", entries[i].gpus = 1;
        entries[i].roofline_tokens_per_second = 10000;
        entries[i].actual_tokens_per_second = 9000;
    }
    entries[1].kind = HISTORY_PLAN;
    entries[2].actual_tokens_per_second = 9e6;
    entries[3].model = "nobody-knows-me";
    struct prior prior;
    prior_open(&prior, &test_arena, &k.catalog, entries, 4);
    CHECK(prior.count == 2);
    CHECK(!strcmp(prior.runs[0].place.gpu, "h100-sxm") &&
          prior.runs[0].place.recipe.method == RECIPE_LORA);
    CHECK_NEAR(prior.runs[0].log_ratio, log(0.9), 1e-12);
    CHECK(prior.runs[0].parameters > 8e9 && isnan(prior.runs[1].parameters));
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-peft", 1, 1024);
    CHECK(!catalog_gpu(&setup.gpu, &k.catalog, "h100"));
    struct efficiency e = prior_at(&prior, &catalogs, &setup);
    CHECK(e.own >= 1 && e.log_spread < catalogs.log_spread);
    CHECK(!prior_at(NULL, &catalogs, &setup).own);
}

static const char *lengths_of(double tokens, double attended)
{
    return text_format(&test_arena,
                       "{\"model\":\"llama-3.1-8b\",\"checkpointing\":\"none\",\"gpus\":1,"
                       "\"parallel\":\"single\",\"micro_batch_tokens\":%g,"
                       "\"attended_tokens\":%g}",
                       tokens, attended);
}

TEST(prior_takes_the_newest_run_of_each_configuration_and_lengths_make_it_another)
{
    struct knowledge k = knowledge_open();
    struct history_entry entries[4];
    for (int i = 0; i < 4; i++) {
        history_clear(&entries[i]);
        entries[i].id = i;
        entries[i].kind = HISTORY_RUN;
        entries[i].stack = "hf-peft", entries[i].gpu = "h100", entries[i].method = "lora";
        entries[i].model = "llama-3.1-8b", entries[i].gpus = 1;
        entries[i].roofline_tokens_per_second = 10000;
        entries[i].actual_tokens_per_second = 9000 - 100 * i;
        entries[i].configuration = lengths_of(2048, 512);
    }
    entries[1].configuration = lengths_of(2100, 530); // other rows of the same data
    entries[2].configuration = lengths_of(2048, 1024);
    entries[3].configuration = "{\"gpus\":[1]}"; // tells nothing: its lengths are not known
    struct prior prior;
    prior_open(&prior, &test_arena, &k.catalog, entries, 4);
    CHECK(prior.count == 3 && prior.runs[0].id == 0 && prior.runs[1].id == 2);
    CHECK(prior.runs[1].place.attended == 1024 && isnan(prior.runs[2].place.tokens));
}

// --- against simulated ledgers -----------------------------------------------

// The logarithm of 21 runs' speed over the mean of their configuration, six in all, on four
// machines with the same GPU (bench/results/h200.md): root mean square 0.07.
static const double between_machines[] = { 0.109,  -0.109, 0.001, 0.098,  -0.125, 0.027,  -0.051,
                                           -0.027, 0.079,  0,     -0.014, -0.025, 0.126,  -0.087,
                                           -0.058, -0.059, 0.086, 0.03,   -0.073, -0.001, 0.074 };

struct outcome {
    double median_error, coverage; // of published runs, each source, stack, GPU and method alike
};

// One user's site: by how much the catalog is wrong of all its runs, of each model, and per
// doubling of lengths. With the machines together a deviation of 0.15, as the catalog says.
struct site {
    double all, models[3], per_doubling;
};

static struct site draw_site(struct rng *rng)
{
    struct site site = { .all = 0.10 * rng_normal(rng), .per_doubling = 0.06 * rng_normal(rng) };
    for (int i = 0; i < 3; i++)
        site.models[i] = 0.07 * rng_normal(rng);
    return site;
}

static struct prior_run draw_run(struct rng *rng, const struct site *site, int model,
                                 double doublings)
{
    static const char *const names[] = { "llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b" };
    static const double parameters[] = { 1.2e9, 3.2e9, 8e9 };
    struct prior_run run = run_at(0);
    run.place.model = names[model], run.parameters = parameters[model];
    run.place.attended *= exp2(doublings);
    size_t machines = sizeof between_machines / sizeof *between_machines;
    run.log_ratio = site->all + site->models[model] + site->per_doubling * (doublings - 1) +
                    between_machines[rng_below(rng, machines)];
    return run;
}

// So many ledgers of one to four runs of any of nine configurations; the run to forecast is of the
// newest one's configuration, or of any.
static struct outcome simulate(struct outcome *without, size_t count, bool same)
{
    const struct efficiency others = { .log_spread = 0.15 };
    struct rng rng = rng_seeded(20261116);
    double *with = ARENA_NEW(&test_arena, double, count), covered = 0;
    double *alone = ARENA_NEW(&test_arena, double, count);
    for (size_t i = 0; i < count; i++) {
        struct site site = draw_site(&rng);
        struct prior_run runs[4];
        size_t known = 1 + (size_t)rng_below(&rng, 4);
        int model = 0;
        double doublings = 0;
        for (size_t j = known; j-- > 0;) {
            model = (int)rng_below(&rng, 3), doublings = (double)rng_below(&rng, 3);
            runs[j] = draw_run(&rng, &site, model, doublings);
        }
        if (!same)
            model = (int)rng_below(&rng, 3), doublings = (double)rng_below(&rng, 3);
        struct prior_run next = draw_run(&rng, &site, model, doublings);
        struct efficiency e = prior_update(&others, &next, runs, known);
        with[i] = fabs(next.log_ratio - e.log_mid);
        alone[i] = fabs(next.log_ratio);
        covered += with[i] <= STATS_P90 * e.log_spread;
    }
    without->median_error = stats_median(alone, count);
    return (struct outcome){ stats_median(with, count), covered / (double)count };
}

TEST(prior_of_a_simulated_ledger_predicts_better_and_its_range_holds)
{
    struct outcome without, same = simulate(&without, 1000, true);
    CHECK(same.median_error < 0.8 * without.median_error);
    CHECK(same.coverage >= 0.75 && same.coverage <= 0.88);
    struct outcome any = simulate(&without, 1000, false);
    CHECK(any.median_error < 0.95 * without.median_error);
    CHECK(any.coverage >= 0.75 && any.coverage <= 0.88);
}

// --- against published runs --------------------------------------------------

static struct prior_run run_of(const struct validate_row *row)
{
    struct prior_run run = prior_target(row->setup);
    run.log_ratio = log(row->tokens_per_s.measured / row->tokens_per_s.predicted.mid);
    return run;
}

// Whether b may be in the ledger of a's source; far: of another GPU or method.
static bool is_known(const struct validate_row *a, const struct validate_row *b, bool far)
{
    return b->setup && !isnan(b->tokens_per_s.measured) &&
           !strcmp(a->setup->stack->name, b->setup->stack->name) &&
           (strcmp(a->setup->gpu->name, b->setup->gpu->name) ||
            a->setup->recipe.method != b->setup->recipe.method) == far &&
           text_equal(run_source(a->run), run_source(b->run));
}

// Each run by so many runs of its own source just before it, as a ledger would have them, or,
// unused, the same runs without them: the efficiency is then what the other sources say.
static struct outcome predict(const struct validate_row *rows, size_t count, size_t known, bool far,
                              bool used)
{
    double *errors = ARENA_NEW(&test_arena, double, count + 1), covered = 0, weight = 0;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].setup || isnan(rows[i].tokens_per_s.measured))
            continue;
        struct prior_run runs[8], target = run_of(&rows[i]);
        size_t found = 0, like = 0;
        const struct range *range = &rows[i].tokens_per_s.predicted;
        for (size_t j = 0; j < count; j++)
            like += is_known(&rows[i], &rows[j], far);
        for (size_t j = i; j-- > 0 && found < known;)
            if (is_known(&rows[i], &rows[j], far))
                runs[found++] = run_of(&rows[j]);
        if (like < 4 || found < known)
            continue;
        struct efficiency others = { .log_spread = log(range->high / range->mid) / 1.28155 };
        struct efficiency e = prior_update(&others, &target, runs, used ? found : 0);
        double error = log(rows[i].tokens_per_s.measured / range->mid) - e.log_mid;
        errors[n++] = fabs(error);
        covered += (fabs(error) <= 1.28155 * e.log_spread) / (double)like;
        weight += 1 / (double)like;
    }
    return (struct outcome){ stats_median(errors, n), covered / weight };
}

TEST(prior_learned_from_earlier_runs_predicts_the_next_one_better_and_within_its_range)
{
    SKIP_BELOW_SANITIZERS("a statistic");
    struct knowledge k = knowledge_open();
    struct run *runs;
    size_t count;
    CHECK(!run_read(&runs, &count, &test_arena, embedded_file("runs.csv"), "runs.csv"));
    struct validate_model model = { &k.catalog, k.stacks, k.stack_count };
    struct validate_row *rows;
    CHECK(!validate_runs(&rows, &test_arena, runs, count, runs, count, &model));
    for (size_t known = 1; known <= 3; known++) {
        struct outcome before = predict(rows, count, known, false, false);
        struct outcome after = predict(rows, count, known, false, true);
        CHECK(after.median_error < before.median_error);
        CHECK(after.coverage >= 0.75 && after.coverage <= 0.92);
        // Runs of other GPUs and methods do no harm.
        struct outcome far_before = predict(rows, count, known, true, false);
        struct outcome far = predict(rows, count, known, true, true);
        CHECK(far.median_error < 1.02 * far_before.median_error && far.coverage >= 0.75);
    }
}
