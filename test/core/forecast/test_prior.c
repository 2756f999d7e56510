// SPDX-License-Identifier: Apache-2.0
// The user's own runs as evidence: closed forms, distances, and published runs as a ledger.

#include "base/embedded.h"
#include "core/forecast/prior.h"
#include "core/measured/validate.h"
#include "test/core/knowledge.h"

#include <math.h>

static const struct efficiency catalogs = { .log_mid = -0.1, .log_spread = 0.2 };

static struct prior_run run_at(double log_ratio)
{
    return (struct prior_run){ .stack = "hf-peft",
                               .model = "llama-3.1-8b",
                               .gpu = "h100-sxm",
                               .method = RECIPE_LORA,
                               .parameters = 8e9,
                               .gpus = 8,
                               .log_ratio = log_ratio };
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

// By hand. One ratio 0.2 above the middle: scatter 0.1 × t90 of 2 degrees over 1.28155 by the
// series, 0.1 × 1.466879 = 0.146688, squared 0.021517; sites 0.04 - 0.01 = 0.03; weight
// 1/(1 + 0.021517/0.03) = 0.582328; spread √(0.021517 + 0.03 × 0.417672) = 0.184520.
TEST(prior_moves_by_one_ratio_as_computed_by_hand)
{
    double ratio = 0.1;
    struct efficiency e = update(&catalogs, &ratio, 1);
    CHECK_NEAR(e.log_mid, -0.1 + 0.582328 * 0.2, 1e-5);
    CHECK_NEAR(e.log_spread, 0.184520, 1e-5);
    CHECK(e.own == 1);
}

// The same ratio from another GPU: correlation exp(-0.18²/(2 × 0.03)) = 0.582748. The scatter is
// that of no degree of its own, w = 2: as above. Weight 0.582748 × 0.582328 = 0.339351; spread
// √(0.021517 + 0.03 × (1 - 0.582748 × 0.339351)) = 0.213588, but no more than the catalog's.
TEST(prior_of_another_gpu_moves_less_as_computed_by_hand)
{
    struct prior_run target = run_at(NAN), run = run_at(0.1);
    run.gpu = "a100-sxm-80gb";
    CHECK_NEAR(prior_correlation(&target, &run, 0.03), 0.582748, 1e-6);
    struct efficiency e = prior_update(&catalogs, &target, &run, 1);
    CHECK_NEAR(e.log_mid, -0.1 + 0.339351 * 0.2, 1e-5);
    CHECK(e.log_spread == catalogs.log_spread);
}

// Three ratios -0.25, -0.30, -0.35: mean -0.30, squares 0.005, freedom 4. Scatter² =
// (2 × 0.01 + 0.005)/4 × 1.196142² = 0.00894222; weight 3/(3 + 0.00894222/0.03) = 0.909622; spread
// √(0.00894222 + 0.03 × 0.090378) = 0.107952.
TEST(prior_of_three_ratios_is_as_computed_by_hand)
{
    double ratios[] = { -0.25, -0.30, -0.35 };
    struct efficiency e = update(&catalogs, ratios, 3);
    CHECK_NEAR(e.log_mid, -0.1 - 0.2 * 0.909622, 1e-5);
    CHECK_NEAR(e.log_spread, 0.107952, 1e-5);
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

TEST(prior_believes_a_mistyped_number_only_so_far)
{
    double thousandfold = log(1000);
    struct efficiency e = update(&catalogs, &thousandfold, 1);
    CHECK(e.log_mid < catalogs.log_mid + 3 * catalogs.log_spread);
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
    for (fewer.gpus = 4; fewer.gpus >= 2; fewer.gpus /= 2) {
        CHECK(moved(fewer) < last && moved(fewer) > 0);
        last = moved(fewer);
    }
    card.gpu = "a100-sxm-80gb", method.method = RECIPE_FULL;
    CHECK(moved(card) < near && moved(method) < moved(card) && moved(method) > 0);
    model.model = "another-8b";
    last = near;
    for (model.parameters = 8e9; model.parameters < 33e9; model.parameters *= 2) {
        CHECK(moved(model) < last);
        last = moved(model);
    }
    struct prior_run other = same;
    other.stack = "unsloth";
    CHECK(moved(other) == 0);
}

TEST(prior_nearest_is_the_run_of_that_stack_with_the_nearest_configuration)
{
    struct prior_run target = run_at(NAN), runs[3] = { run_at(0), run_at(0), run_at(0) };
    runs[0].stack = "unsloth";
    runs[1].gpu = "a100-sxm-80gb", runs[1].id = 1;
    runs[2].gpus = 4, runs[2].id = 2;
    CHECK(prior_nearest(&(struct prior){ runs, 3 }, &target)->id == 2);
    CHECK(prior_nearest(&(struct prior){ runs, 2 }, &target)->id == 1);
    CHECK(!prior_nearest(&(struct prior){ runs, 1 }, &target));
}

// A run of an 8B model on one GPU moved the hours of a 70B model on eight from 197 to 150.
TEST(prior_of_one_small_run_does_not_move_a_large_one)
{
    struct prior_run target = run_at(NAN), small = run_at(0.6);
    target.model = "llama-3.1-70b", target.parameters = 70e9;
    small.gpus = 1;
    struct efficiency e = prior_update(&catalogs, &target, &small, 1);
    CHECK(e.log_mid == catalogs.log_mid && e.log_spread == catalogs.log_spread && !e.own);
}

// Ten runs of a far configuration share what makes them far: they say little more than one does.
TEST(prior_of_many_far_runs_stays_below_their_correlation)
{
    struct prior_run target = run_at(NAN), runs[10];
    for (int i = 0; i < 10; i++) {
        runs[i] = run_at(catalogs.log_mid + 0.3);
        runs[i].method = RECIPE_FULL;
    }
    double correlation = prior_correlation(&target, &runs[0], 0.03);
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
    CHECK(!strcmp(prior.runs[0].gpu, "h100-sxm") && prior.runs[0].method == RECIPE_LORA);
    CHECK_NEAR(prior.runs[0].log_ratio, log(0.9), 1e-12);
    CHECK(prior.runs[0].parameters > 8e9 && isnan(prior.runs[1].parameters));
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-peft", 1, 1024);
    CHECK(!catalog_gpu(&setup.gpu, &k.catalog, "h100"));
    struct efficiency e = prior_at(&prior, &catalogs, &setup);
    CHECK(e.own >= 1 && e.log_spread < catalogs.log_spread);
    CHECK(!prior_at(NULL, &catalogs, &setup).own);
}

// --- against published runs --------------------------------------------------

static struct prior_run run_of(const struct validate_row *row)
{
    const struct setup *setup = row->setup;
    return (struct prior_run){
        .stack = setup->stack->name,
        .model = setup->model->name,
        .gpu = setup->gpu->name,
        .method = setup->recipe.method,
        .parameters = (double)model_parameters(setup->model),
        .gpus = (double)layout_gpus(&setup->layout),
        .log_ratio = log(row->tokens_per_s.measured / row->tokens_per_s.predicted.mid),
    };
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

struct outcome {
    double median_error, coverage; // every source, stack, GPU and method counts the same
};

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
