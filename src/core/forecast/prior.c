// SPDX-License-Identifier: Apache-2.0
// Kriging over the runs of a ledger: which are near, how they correlate, what they predict.

#include "core/forecast/prior.h"

#include "core/measured/plausible.h"

#include <math.h>
#include <string.h>

// --- the runs ----------------------------------------------------------------

static int find_method(const char *name)
{
    for (int i = 0; name && recipe_methods[i]; i++)
        if (!strcmp(name, recipe_methods[i]))
            return i;
    return -1;
}

// Where a run was measured, as far as its entry tells.
static struct transfer_place place_of(const struct history_entry *entry, struct arena *arena,
                                      const struct model *model, const struct gpu *gpu)
{
    struct json tree;
    struct pilot_configuration c;
    int64_t gpus = entry->gpus > 0 ? entry->gpus : 1;
    struct transfer_place place = { .model = model ? model->name : entry->model,
                                    .gpu = gpu ? gpu->name : entry->gpu,
                                    .recipe = recipe_default(),
                                    .layout = layout_single(),
                                    .tokens = NAN,
                                    .attended = NAN };
    place.layout.data = gpus;
    if (entry->configuration &&
        !json_read(&tree, arena, text_of(entry->configuration), "configuration") &&
        !pilot_configuration_read_member(&c, arena, &tree, "configuration")) {
        place.recipe = c.recipe;
        place.tokens = c.micro_batch_tokens;
        place.attended = c.attended_tokens;
        struct layout layout;
        if (!transfer_layout(&layout, &c, gpus))
            place.layout = layout;
    }
    place.recipe.method = find_method(entry->method);
    return place;
}

static struct prior_run describe(const struct catalog *catalog, struct arena *arena,
                                 const struct history_entry *entry)
{
    const struct model *model = NULL;
    const struct gpu *gpu = NULL;
    if (entry->model && catalog_model(&model, catalog, entry->model))
        model = NULL;
    if (entry->gpu && catalog_gpu(&gpu, catalog, entry->gpu))
        gpu = NULL;
    return (struct prior_run){
        .id = entry->id,
        .stack = entry->stack,
        .place = place_of(entry, arena, model, gpu),
        .parameters = model ? (double)model_parameters(model) : NAN,
        .log_ratio = log(entry->actual_tokens_per_second / entry->roofline_tokens_per_second),
    };
}

// --- how near ----------------------------------------------------------------

static bool same_text(const char *a, const char *b)
{
    return a && b && !strcmp(a, b);
}

// A model that is not in the catalog is taken as eight times as large or small.
static double size_doublings(double a, double b)
{
    return a > 0 && b > 0 ? fabs(log2(a / b)) : 3;
}

double prior_correlation(const struct prior_run *a, const struct prior_run *b, double variance)
{
    double parts[TRANSFER_CAUSES];
    transfer_differences(parts, &a->place, &b->place);
    double size =
        parts[TRANSFER_MODEL] > 0 ? PRIOR_SIZE * size_doublings(a->parameters, b->parameters) : 0;
    double square = size * size;
    for (int cause = 0; cause < TRANSFER_CAUSES; cause++)
        square += parts[cause] * parts[cause];
    return exp(-square / (2 * variance));
}

// Whether a newer run of the same configuration is already there.
static bool is_repeated(const struct prior *prior, const struct prior_run *run)
{
    const double same = 0.99; // rows a fifth longer are another configuration
    for (size_t i = 0; i < prior->count; i++)
        if (same_text(prior->runs[i].stack, run->stack) &&
            prior_correlation(&prior->runs[i], run, PRIOR_BETWEEN * PRIOR_BETWEEN) > same)
            return true;
    return false;
}

void prior_open(struct prior *out, struct arena *arena, const struct catalog *catalog,
                const struct history_entry *entries, size_t count)
{
    *out = (struct prior){ .runs = ARENA_NEW(arena, struct prior_run, count + 1) };
    for (size_t i = 0; i < count; i++) {
        const struct history_entry *entry = &entries[i];
        if (history_lacks(entry) ||
            plausible_entry(catalog, arena, entry, history_kinds[entry->kind]))
            continue;
        struct prior_run run = describe(catalog, arena, entry);
        if (!is_repeated(out, &run))
            out->runs[out->count++] = run;
    }
    fail(OK, "%s", ""); // names that no catalog has are no failure
}

// The runs nearest to the target, with their correlations; of equally near ones the newest.
struct near {
    struct prior_run runs[PRIOR_RUNS];
    double correlations[PRIOR_RUNS];
    size_t count;
};

static void keep_nearest(struct near *near, const struct prior_run *run, double correlation)
{
    size_t at = near->count;
    if (correlation < PRIOR_FAR)
        return;
    if (at < PRIOR_RUNS)
        near->count++;
    else if (correlation <= near->correlations[--at])
        return;
    for (; at && near->correlations[at - 1] < correlation; at--) {
        near->runs[at] = near->runs[at - 1];
        near->correlations[at] = near->correlations[at - 1];
    }
    near->runs[at] = *run;
    near->correlations[at] = correlation;
}

// --- what they predict -------------------------------------------------------

// P90 of Student's t over that of the normal: a scatter known from few runs counts for more. The
// series of Cornish and Fisher, within 0.4 % of the truth for one run.
static double widening(double freedom)
{
    double v = freedom, z = STATS_P90, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
    return 1 + ((z3 + z) / (4 * v) + (5 * z5 + 16 * z3 + 3 * z) / (96 * v * v) +
                (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * v * v * v)) /
                   z;
}

// How runs of one site scatter: the usual figure, moderated by what the near runs show.
struct scatter {
    double variance;
    double wider; // Student's widening of its deviation
    double own;   // variance of the runs alone
};

static struct scatter find_scatter(const struct near *near, const double *off)
{
    double weight = 0, mean = 0, squares = 0;
    for (size_t i = 0; i < near->count; i++) {
        weight += near->correlations[i];
        mean += near->correlations[i] * off[i];
    }
    for (size_t i = 0; i < near->count; i++)
        squares += near->correlations[i] * (off[i] - mean / weight) * (off[i] - mean / weight);
    double freedom = PRIOR_WORTH + fmax(weight - 1, 0);
    double usual = PRIOR_SCATTER * PRIOR_SCATTER;
    return (struct scatter){ .variance = (PRIOR_WORTH * usual + squares) / freedom,
                             .wider = widening(freedom),
                             .own = weight > 1 ? squares / (weight - 1) : 0 };
}

// Solves K w = c by Cholesky's decomposition; K is symmetric and positive definite, and is lost.
static void solve(double *w, double (*k)[PRIOR_RUNS], const double *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = k[i][j];
            for (size_t m = 0; m < j; m++)
                sum -= k[i][m] * k[j][m];
            k[i][j] = i == j ? sqrt(sum) : sum / k[j][j];
        }
    for (size_t i = 0; i < n; i++) {
        double sum = c[i];
        for (size_t m = 0; m < i; m++)
            sum -= k[i][m] * w[m];
        w[i] = sum / k[i][i];
    }
    for (size_t i = n; i-- > 0;) {
        double sum = w[i];
        for (size_t m = i + 1; m < n; m++)
            sum -= k[m][i] * w[m];
        w[i] = sum / k[i][i];
    }
}

struct efficiency prior_update(const struct efficiency *catalogs, const struct prior_run *target,
                               const struct prior_run *runs, size_t count)
{
    struct efficiency out = *catalogs;
    double wide = catalogs->log_spread;
    if (!(wide > 0))
        return out;
    double sites = fmax(wide * wide - PRIOR_SCATTER * PRIOR_SCATTER, wide * wide / 4);
    double usual =
        fmin(sites, PRIOR_BETWEEN * PRIOR_BETWEEN); // a vague catalog brings nothing near
    struct near near = { .count = 0 };
    for (size_t i = 0; i < count; i++)
        if (same_text(runs[i].stack, target->stack))
            keep_nearest(&near, &runs[i], prior_correlation(target, &runs[i], usual));
    if (!near.count)
        return out;
    double off[PRIOR_RUNS], covariances[PRIOR_RUNS], weights[PRIOR_RUNS];
    double between[PRIOR_RUNS][PRIOR_RUNS];
    const double most = 3 * wide; // beyond it a number was mistyped
    for (size_t i = 0; i < near.count; i++)
        off[i] = fmin(fmax(near.runs[i].log_ratio - out.log_mid, -most), most);
    struct scatter scatter = find_scatter(&near, off);
    for (size_t i = 0; i < near.count; i++) {
        covariances[i] = sites * near.correlations[i];
        for (size_t j = 0; j < i; j++)
            between[i][j] = sites * prior_correlation(&near.runs[i], &near.runs[j], usual);
        between[i][i] = sites + scatter.variance;
    }
    solve(weights, between, covariances, near.count);
    double explained = 0;
    for (size_t i = 0; i < near.count; i++) {
        out.log_mid += weights[i] * off[i];
        explained += weights[i] * covariances[i];
    }
    double spread = sqrt(scatter.variance * scatter.wider * scatter.wider + sites - explained);
    // Knowing more never widens the range, unless the user's runs lie further apart than sites do.
    out.log_spread = fmax(fmin(spread, fmax(wide, sqrt(scatter.own))), PRIOR_LEAST);
    // One run alone, further away than sites are: the range spans what it says and the catalog's.
    double moved = fabs(out.log_mid - catalogs->log_mid);
    if (near.count == 1 && fabs(off[0]) >= most)
        out.log_spread = fmax(out.log_spread, moved / STATS_P90);
    out.own = (int64_t)near.count;
    return out;
}

const struct prior_run *prior_nearest(const struct prior *prior, const struct prior_run *target)
{
    const struct prior_run *nearest = NULL;
    double best = 0;
    for (size_t i = 0; i < prior->count; i++) {
        const struct prior_run *run = &prior->runs[i];
        double correlation = prior_correlation(target, run, PRIOR_BETWEEN * PRIOR_BETWEEN);
        if (same_text(run->stack, target->stack) && correlation > best)
            best = correlation, nearest = run;
    }
    return nearest;
}

struct prior_run prior_target(const struct setup *setup)
{
    return (struct prior_run){ .stack = setup->stack->name,
                               .place = transfer_place(setup),
                               .parameters = (double)model_parameters(setup->model),
                               .log_ratio = NAN };
}

struct efficiency prior_at(const struct prior *prior, const struct efficiency *catalogs,
                           const struct setup *setup)
{
    if (!prior || !prior->count)
        return *catalogs;
    struct prior_run target = prior_target(setup);
    return prior_update(catalogs, &target, prior->runs, prior->count);
}
