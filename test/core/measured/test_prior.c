#include "base/embedded.h"
#include "core/measured/prior.h"
#include "core/measured/validate.h"
#include "test/core/knowledge.h"

#include <math.h>

static const struct efficiency catalogs = { .log_mid = -0.1, .log_spread = 0.2 };

TEST(prior_without_ratios_is_the_catalogs)
{
    struct efficiency e = prior_update(&catalogs, NULL, 0, 0.02);
    CHECK(e.log_mid == catalogs.log_mid && e.log_spread == catalogs.log_spread);
}

// By hand. One ratio 0.2 above the middle: scatter 0.1 × t90 of 2 degrees over 1.28155 by the
// series, 0.1 × 1.466879 = 0.146688, squared 0.021517; sites 0.04 - 0.01 = 0.03; weight
// 1/(1 + 0.021517/0.03) = 0.582328; spread √(0.021517 + 0.03 × 0.417672) = 0.184520.
TEST(prior_moves_by_one_ratio_as_computed_by_hand)
{
    double ratio = 0.1;
    struct efficiency e = prior_update(&catalogs, &ratio, 1, 0.02);
    CHECK_NEAR(e.log_mid, -0.1 + 0.582328 * 0.2, 1e-5);
    CHECK_NEAR(e.log_spread, 0.184520, 1e-5);
}

// Three ratios -0.25, -0.30, -0.35: mean -0.30, squares 0.005, freedom 4. Scatter² =
// (2 × 0.01 + 0.005)/4 × 1.196142² = 0.00894222; weight 3/(3 + 0.00894222/0.03) = 0.909622; spread
// √(0.00894222 + 0.03 × 0.090378) = 0.107952.
TEST(prior_of_three_ratios_is_as_computed_by_hand)
{
    double ratios[] = { -0.25, -0.30, -0.35 };
    struct efficiency e = prior_update(&catalogs, ratios, 3, 0.02);
    CHECK_NEAR(e.log_mid, -0.1 - 0.2 * 0.909622, 1e-5);
    CHECK_NEAR(e.log_spread, 0.107952, 1e-5);
}

TEST(prior_comes_to_the_own_mean_with_many_ratios_and_stays_above_the_least)
{
    double ratios[60], last = catalogs.log_spread;
    for (int i = 0; i < 60; i++)
        ratios[i] = 0.05;
    for (size_t n = 1; n <= 60; n++) {
        struct efficiency e = prior_update(&catalogs, ratios, n, 0.02);
        CHECK(e.log_spread <= last && e.log_spread >= 0.02);
        CHECK(e.log_mid > catalogs.log_mid && e.log_mid <= 0.05);
        last = e.log_spread;
    }
    CHECK_NEAR(prior_update(&catalogs, ratios, 60, 0.02).log_mid, 0.05, 0.01);
    CHECK(last < 0.04);
}

TEST(prior_widens_only_when_the_own_ratios_lie_far_apart)
{
    double far[] = { -0.6, 0.4, -0.5, 0.5 }, one = -0.1;
    CHECK(prior_update(&catalogs, far, 4, 0.02).log_spread > catalogs.log_spread);
    struct efficiency narrow = { .log_spread = 0.1 };
    CHECK(prior_update(&narrow, &one, 1, 0.02).log_spread <= 0.1);
}

TEST(prior_believes_a_mistyped_number_only_so_far)
{
    double thousandfold = log(1000);
    struct efficiency e = prior_update(&catalogs, &thousandfold, 1, 0.02);
    CHECK(e.log_mid < catalogs.log_mid + 3 * catalogs.log_spread);
}

TEST(prior_learns_from_like_configurations_only)
{
    struct efficiency rows[2] = { { .stack = "hf-peft", .log_spread = 0.2 },
                                  { .stack = "unsloth", .log_spread = 0.2 } };
    struct history_entry entries[4];
    for (int i = 0; i < 4; i++) {
        history_clear(&entries[i]);
        entries[i].kind = HISTORY_RUN;
        entries[i].stack = "hf-peft", entries[i].gpu = "h100-sxm", entries[i].method = "lora";
        entries[i].roofline_tokens_per_second = 1000;
        entries[i].actual_tokens_per_second = 900;
    }
    entries[1].gpu = "a100", entries[2].method = "full", entries[3].kind = HISTORY_PLAN;
    prior_learn(rows, 2, entries, 4, "h100-sxm", "lora");
    CHECK(rows[0].own == 1 && rows[0].log_mid < 0 && rows[0].log_spread < 0.2);
    CHECK(rows[1].own == 0 && rows[1].log_mid == 0 && rows[1].log_spread == 0.2);
}

// --- against published runs --------------------------------------------------

static bool is_like(const struct validate_row *a, const struct validate_row *b)
{
    return b->setup && !isnan(b->tokens_per_s.measured) &&
           !strcmp(a->setup->stack->name, b->setup->stack->name) &&
           !strcmp(a->setup->gpu->name, b->setup->gpu->name) &&
           a->setup->recipe.method == b->setup->recipe.method &&
           text_equal(run_source(a->run), run_source(b->run));
}

struct outcome {
    double median_error, coverage; // every source, stack, GPU and method counts the same
};

// Each run by so many runs of its own source just before it, as a ledger would have them. The
// efficiency without those is what the other sources say.
static struct outcome predict(const struct validate_row *rows, size_t count, size_t known)
{
    double *errors = ARENA_NEW(&test_arena, double, count + 1), covered = 0, weight = 0;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].setup || isnan(rows[i].tokens_per_s.measured))
            continue;
        double ratios[8];
        size_t found = 0, like = 0;
        const struct range *range = &rows[i].tokens_per_s.predicted;
        for (size_t j = 0; j < count; j++)
            like += is_like(&rows[i], &rows[j]);
        for (size_t j = i; j-- > 0 && found < known;)
            if (is_like(&rows[i], &rows[j]))
                ratios[found++] =
                    log(rows[j].tokens_per_s.measured / rows[j].tokens_per_s.predicted.mid);
        if (like < 4 || found < known)
            continue;
        struct efficiency others = { .log_spread = log(range->high / range->mid) / STATS_P90 };
        struct efficiency e = prior_update(&others, ratios, found, PRIOR_LEAST);
        double error = log(rows[i].tokens_per_s.measured / range->mid) - e.log_mid;
        errors[n++] = fabs(error);
        covered += (fabs(error) <= STATS_P90 * e.log_spread) / (double)like;
        weight += 1 / (double)like;
    }
    return (struct outcome){ stats_median(errors, n), covered / weight };
}

TEST(prior_learned_from_earlier_runs_foretells_the_next_one_better_and_about_as_surely)
{
    struct knowledge k = knowledge_open();
    struct run *runs;
    size_t count;
    CHECK(!run_read(&runs, &count, &test_arena, embedded_file("runs.csv"), "runs.csv"));
    struct validate_model model = { &k.catalog, k.stacks, k.stack_count };
    struct validate_row *rows;
    CHECK(!validate_runs(&rows, &test_arena, runs, count, runs, count, &model));
    struct outcome before = predict(rows, count, 0);
    for (size_t known = 1; known <= 3; known++) {
        struct outcome after = predict(rows, count, known);
        CHECK(after.median_error < before.median_error);
        CHECK(after.coverage >= 0.75 && after.coverage <= 0.90);
    }
}
