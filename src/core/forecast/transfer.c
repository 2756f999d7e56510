// SPDX-License-Identifier: Apache-2.0
// Finds the pilot's configuration in the catalogs, its efficiency, and what is left of it
// elsewhere.

#include "core/forecast/transfer.h"

#include "core/measured/plausible.h"

#include <math.h>
#include <string.h>

const char *const transfer_names[] = {
    [TRANSFER_INTERVAL] = "the pilot's interval",
    [TRANSFER_RUNS] = "run to run",
    [TRANSFER_LENGTHS] = "other lengths",
    [TRANSFER_RECOMPUTATION] = "other recomputation",
    [TRANSFER_GPUS] = "other number of GPUs",
    [TRANSFER_LAYOUT] = "another layout",
    [TRANSFER_PRECISION] = "other precision or rank",
    [TRANSFER_METHOD] = "another method",
    [TRANSFER_MODEL] = "another model",
    [TRANSFER_GPU] = "another GPU",
};

// Standard deviation of ln(measured/predicted tokens/s) between two runs of one source and stack
// that differ in one thing. Such pairs of data/runs.csv show 0.7 of these at the median over
// sources; with these values the ranges hold for 80 % of all pairs (test_transfer.c).
static const struct {
    double spread;
    double whole; // doublings at which the spread is complete; 0: at any difference
    bool far;     // also pulls the efficiency back towards the stack's own
} differences[] = {
    [TRANSFER_LENGTHS] = { 0.20, 2, false },  [TRANSFER_RECOMPUTATION] = { 0.06, 0, false },
    [TRANSFER_GPUS] = { 0.11, 2, false },     [TRANSFER_LAYOUT] = { 0.20, 0, false },
    [TRANSFER_PRECISION] = { 0.12, 0, true }, [TRANSFER_METHOD] = { 0.24, 0, true },
    [TRANSFER_MODEL] = { 0.14, 0, true },     [TRANSFER_GPU] = { 0.18, 0, true },
};

// GPUs of one type in a cluster differ by 8 % (Sinha et al., SC22, arXiv 2208.11035), taken as four
// standard deviations.
static const double run_spread = 0.02;
// Steps that wait for the host wander with it, by 10 % and more over seconds and minutes, however
// many of them a pilot measured: the speed of 27 pilots on five machines was 5.8 % off that of the
// whole run minutes later (root mean square, what the widths explain taken out; h200.md). That is
// of all their time: of steady steps, three quarters of it, when first sights are taken as certain.
static const double host_spread = 0.077;
// Lengths that are not known are taken as twice or half as long: by so much, 0.10, do runs of one
// source, stack, GPU and method scatter whatever their lengths (data/runs.csv).
static const double unknown_doublings = 1;
// Least standard deviation of a pilot that gives no interval or was not steady.
static const double unsteady_spread = 0.05;
// And of one whose log contradicts itself: that of a stack's own figure, so that both count alike.
static const double doubtful_spread = 0.2;

// --- the pilot's own configuration -------------------------------------------

static enum err find_gpu(struct transfer *transfer, const struct transfer_source *source)
{
    const struct pilot *pilot = transfer->pilot;
    const char *name = pilot->configuration.gpu ? pilot->configuration.gpu : pilot->gpu.name;
    if (!name)
        return fail(ERR_INPUT,
                    "%s: does not name the GPU that it ran on; set configuration.gpu in it",
                    transfer->name);
    if (!strcmp(name, "cpu") || (pilot->gpu.name && !strcmp(pilot->gpu.name, "cpu")))
        return fail(ERR_INPUT,
                    "%s: was measured on a CPU, at %.4g tokens/s, which tells nothing about a "
                    "GPU; run the pilot on the GPU that will train",
                    transfer->name, pilot->tokens_per_s.mean);
    if (catalog_gpu(&transfer->setup.gpu, source->catalog, name))
        return error_prefix(ERR_INPUT, "%s: ", transfer->name);
    const struct node *node = catalog_node_of(source->catalog, transfer->setup.gpu);
    if (node)
        transfer->node = *node;
    transfer->setup.node = node ? &transfer->node : NULL;
    return OK;
}

static enum err find_names(struct transfer *transfer, const struct transfer_source *source)
{
    const struct pilot_configuration *c = &transfer->pilot->configuration;
    const char *stack = c->stack ? c->stack : transfer->pilot->stack;
    if (!c->model || !stack)
        return fail(ERR_INPUT,
                    "%s: does not name the %s that ran; run the pilot again with --plan FILE or "
                    "--from CONFIG, or set configuration.%s in it",
                    transfer->name, c->model ? "stack" : "model", c->model ? "stack" : "model");
    transfer->setup.model =
        source->model && !strcmp(source->model->name, c->model) ? source->model : NULL;
    transfer->setup.stack =
        source->stack && !strcmp(source->stack->name, stack) ? source->stack : NULL;
    if (!transfer->setup.model && catalog_model(&transfer->setup.model, source->catalog, c->model))
        return error_prefix(ERR_INPUT, "%s: ", transfer->name);
    if (!transfer->setup.stack &&
        stack_find(&transfer->setup.stack, source->stacks, source->stack_count, stack))
        return error_prefix(ERR_INPUT, "%s: ", transfer->name);
    return find_gpu(transfer, source);
}

// Squared lengths of a micro-batch whose tokens alone are known. Padded rows attend over their
// width; where widths vary, the mean of their squares is above the square of their mean, as it is
// in the plan's own batches of that kind.
static double unseen_squares(const struct step_batch *planned, const struct step_batch *batch,
                             bool packed, bool same_kind)
{
    double scale = batch->tokens / planned->tokens;
    if (packed)
        return fmin(planned->squares * scale, batch->tokens * batch->width);
    return same_kind ? planned->squares * scale * scale : batch->tokens * batch->width;
}

// The mean micro-batch of one rank. What the pilot did not count is taken from the plan's data.
static void find_batch(struct transfer *transfer, const struct transfer_source *source)
{
    const struct pilot *pilot = transfer->pilot;
    const struct pilot_configuration *c = &pilot->configuration;
    double rows = c->micro_batch >= 1 ? c->micro_batch : 1;
    double ranks = (double)transfer->setup.layout.data;
    double accumulation = c->accumulation >= 1  ? c->accumulation
                          : c->global_batch > 0 ? fmax(1, rint(c->global_batch / (rows * ranks)))
                                                : 1;
    struct workload_rule rule = *source->rule;
    if (c->context >= 1)
        rule.context = c->context;
    bool packed = c->batching ? !strcmp(c->batching, batching_names_auto[BATCHING_PACKED])
                              : rule.batching == BATCHING_PACKED;
    bool same_kind = !c->batching || !strcmp(c->batching, batching_names_auto[rule.batching]);
    struct workload workload;
    workload_make(&workload, &rule, rows, ranks, 0);
    struct step_batch batch = workload.batch;
    double step_tokens = pilot->composition.tokens;
    if (!(step_tokens > 0))
        step_tokens = pilot->tokens_per_s.mean * pilot->step_seconds.mean;
    double tokens = step_tokens > 0 ? step_tokens / (accumulation * ranks) : batch.tokens;
    double scale = tokens / batch.tokens;
    double share = tokens / step_tokens;
    batch.rows = rows;
    batch.width = tokens / rows;
    batch.tokens = tokens;
    batch.squares = pilot->composition.squares > 0
                        ? pilot->composition.squares * share
                        : unseen_squares(&workload.batch, &batch, packed, same_kind);
    batch.labelled = pilot->composition.labelled > 0 ? pilot->composition.labelled * share
                                                     : batch.labelled * scale;
    batch.fullest = fmax(batch.fullest, tokens); // longer rows than the plan has
    batch.padded = !packed && (batch.padded || (rule.batching == BATCHING_PACKED && rows > 1));
    batch.packed = packed;
    transfer->setup.batch = batch;
    transfer->setup.worst = workload.worst;
    transfer->setup.accumulation = accumulation;
    transfer->setup.varied_widths =
        workload.varied_widths &&
        (!c->batching || !strcmp(c->batching, batching_names_auto[BATCHING_LONGEST]));
}

enum err transfer_layout(struct layout *out, const struct pilot_configuration *configuration,
                         int64_t gpus)
{
    int64_t sampling = configuration->sampler_gpus;
    if (sampling > 0 && sampling < gpus)
        gpus -= sampling;
    *out = layout_single();
    if (configuration->parallel && strcmp(configuration->parallel, "auto"))
        return layout_read(out, text_of(configuration->parallel), gpus);
    out->data = gpus;
    return OK;
}

static enum err find_layout(struct transfer *transfer)
{
    const struct pilot_configuration *c = &transfer->pilot->configuration;
    int64_t gpus = c->gpus > 0                      ? c->gpus
                   : transfer->pilot->gpu.count > 0 ? transfer->pilot->gpu.count
                                                    : 1;
    if (transfer_layout(&transfer->setup.layout, c, gpus))
        return error_prefix(ERR_INPUT, "%s: configuration: ", transfer->name);
    return OK;
}

enum err transfer_open(struct transfer *out, struct arena *arena,
                       const struct transfer_source *source)
{
    const struct pilot *pilot = source->pilot;
    *out = (struct transfer){ .pilot = pilot, .name = source->name };
    TRY(find_names(out, source));
    TRY(find_layout(out));
    out->setup.recipe = pilot->configuration.recipe;
    if (pilot->configuration.lighter_share > 0)
        out->setup.lighter_share = pilot->configuration.lighter_share;
    out->recipe = estimate_recipe(&out->setup);
    out->setup.passes = source->passes;
    find_batch(out, source);
    TRY(plausible_rate(&(struct plausible){ pilot->tokens_per_s.mean, out->setup.model,
                                            &out->recipe, out->setup.gpu,
                                            (double)layout_gpus(&out->setup.layout) },
                       out->name));
    struct estimate estimate;
    TRY(estimate_make(&estimate, arena, &out->setup));
    out->roofline_tokens_per_s = estimate.tokens_per_s;
    out->host_share = compute_host_share(&estimate.timing);
    out->predicted_bytes = estimate.memory.total_bytes;
    out->calibration = source->calibration;
    out->prior = calibration_at(out->calibration, &out->setup);
    const struct pilot_rate *rate = &pilot->tokens_per_s;
    out->log_measured = log(rate->mean / out->roofline_tokens_per_s);
    const double half = 1.6448536269514722; // of a 90 % interval, in deviations
    bool known = rate->low > 0 && rate->high >= rate->low;
    out->log_interval = known ? log(rate->high / rate->low) / (2 * half) : unsteady_spread;
    if (!pilot->steady)
        out->log_interval = fmax(out->log_interval, unsteady_spread);
    if (pilot->doubts)
        out->log_interval = fmax(out->log_interval, doubtful_spread);
    return OK;
}

double transfer_memory_ratio(const struct transfer *transfer)
{
    return transfer->pilot->peak_bytes > 0 ? transfer->pilot->peak_bytes / transfer->predicted_bytes
                                           : NAN;
}

// --- distance of another configuration ---------------------------------------

static double doublings(double a, double b)
{
    return a > 0 && b > 0 ? fabs(log2(a / b)) : 0;
}

// Share of the complete difference, 0 to 1.
static double grown(enum transfer_cause cause, double far)
{
    double whole = differences[cause].whole;
    return whole > 0 ? fmin(1, far / whole) : far > 0;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

// Ignores the number of data-parallel ranks, and whether optimizer states are sharded.
static bool same_layout(const struct layout *a, const struct layout *b)
{
    return a->tensor == b->tensor && a->pipeline == b->pipeline && a->context == b->context &&
           a->expert == b->expert && (a->zero == 3) == (b->zero == 3) && a->split == b->split &&
           a->offload_optimizer == b->offload_optimizer && a->offload_weights == b->offload_weights;
}

static double attended(const struct step_batch *batch)
{
    return batch->squares / batch->tokens;
}

struct transfer_place transfer_place(const struct setup *setup)
{
    return (struct transfer_place){ .model = setup->model->name,
                                    .gpu = setup->gpu->name,
                                    .recipe = estimate_recipe(setup),
                                    .layout = setup->layout,
                                    .tokens = setup->batch.tokens,
                                    .attended = attended(&setup->batch) };
}

static double length_doublings(const struct transfer_place *a, const struct transfer_place *b)
{
    bool known = a->tokens > 0 && b->tokens > 0 && a->attended > 0 && b->attended > 0;
    return known ? hypot(doublings(a->attended, b->attended), doublings(a->tokens, b->tokens))
                 : unknown_doublings;
}

static bool same_recomputation(int a, int b)
{
    return a == b || a == RECIPE_AUTO || b == RECIPE_AUTO;
}

// The distance of two configurations by cause: doublings, or 1 if they differ at all.
static void distances(double *out, const struct transfer_place *from,
                      const struct transfer_place *to)
{
    const struct recipe *a = &from->recipe, *b = &to->recipe;
    bool adapters = a->method != RECIPE_FULL && b->method != RECIPE_FULL;
    memset(out, 0, TRANSFER_CAUSES * sizeof *out);
    out[TRANSFER_LENGTHS] = length_doublings(from, to);
    out[TRANSFER_RECOMPUTATION] = !same_recomputation(a->checkpointing, b->checkpointing);
    out[TRANSFER_GPUS] =
        doublings((double)layout_gpus(&from->layout), (double)layout_gpus(&to->layout));
    out[TRANSFER_LAYOUT] = !same_layout(&from->layout, &to->layout);
    out[TRANSFER_PRECISION] =
        a->precision != b->precision || a->optimizer != b->optimizer ||
        (adapters && (a->rank != b->rank || !same_text(a->targets, b->targets)));
    out[TRANSFER_METHOD] = a->method != b->method;
    out[TRANSFER_MODEL] = !same_text(from->model, to->model);
    out[TRANSFER_GPU] = !same_text(from->gpu, to->gpu);
}

static void spread_of(double *out, const double *far)
{
    for (int cause = 0; cause < TRANSFER_CAUSES; cause++)
        out[cause] = differences[cause].spread * grown((enum transfer_cause)cause, far[cause]);
}

void transfer_differences(double out[TRANSFER_CAUSES], const struct transfer_place *a,
                          const struct transfer_place *b)
{
    double far[TRANSFER_CAUSES];
    distances(far, a, b);
    spread_of(out, far);
}

// --- other lengths by the fit ------------------------------------------------

static double fit_tokens_per_s(const struct pilot *pilot, const struct step_batch *batch,
                               double accumulation)
{
    double update = pilot->apart.update_seconds > 0 ? pilot->apart.update_seconds : 0;
    double micro = pilot_fit_seconds(&pilot->fit, batch->tokens, batch->squares, batch->labelled);
    return accumulation * batch->tokens / (accumulation * micro + update);
}

static bool spanned(double value, double low, double high)
{
    return value >= 0.9 * low && value <= 1.1 * high;
}

// Scales the efficiency from the pilot's batches to others: the ratio that the fit predicts over
// the ratio that the step list predicts. False if there is no fit for this method and model.
static bool move_by_fit(double *log_efficiency, double *spread, const struct transfer *transfer,
                        struct arena *arena, const struct setup *setup, const double *far)
{
    const struct pilot *pilot = transfer->pilot;
    const struct pilot_fit *fit = &pilot->fit;
    if (fit->samples < 8 || !(fit->spread >= 0) || far[TRANSFER_METHOD] || far[TRANSFER_MODEL])
        return false;
    struct setup moved = transfer->setup;
    moved.batch = setup->batch;
    moved.accumulation = setup->accumulation;
    struct arena_mark mark = arena_mark(arena);
    struct estimate estimate;
    bool made = !estimate_make(&estimate, arena, &moved);
    arena_rewind(arena, mark);
    double by_fit = fit_tokens_per_s(pilot, &moved.batch, moved.accumulation) /
                    fit_tokens_per_s(pilot, &transfer->setup.batch, transfer->setup.accumulation);
    double by_list = estimate.tokens_per_s / transfer->roofline_tokens_per_s;
    if (!made || !(by_fit > 0) || !(by_list > 0))
        return false;
    double apart = log(by_fit / by_list);
    bool inside = spanned(moved.batch.tokens, fit->tokens_low, fit->tokens_high) &&
                  spanned(attended(&moved.batch), fit->attended_low, fit->attended_high);
    *log_efficiency = transfer->log_measured + apart;
    // Residuals average out over many micro-batches; a misfit of the four terms does not. Outside
    // the timed range, half the disagreement of fit and step list is added.
    *spread = hypot(fit->spread / 2, inside ? 0 : apart / 2) *
              grown(TRANSFER_LENGTHS, far[TRANSFER_LENGTHS]);
    return true;
}

// --- pilot and prior ---------------------------------------------------------

// A steady pilot replaces the prior. One that is not steady, or whose rate depends on what first
// sights of widths are believed to cost, is weighed against it by variances, so
// that it cannot make the forecast worse than both; one that contradicts it by more than three
// deviations gets a range that spans both. The prior is that of the run, own that of the pilot.
static void weigh(struct transferred *out, double measured, double near,
                  const struct efficiency *prior, const struct efficiency *own, bool sure)
{
    struct efficiency *e = &out->efficiency;
    double variance = prior->log_spread * prior->log_spread, apart = measured - prior->log_mid;
    double expected = own->log_spread * own->log_spread + near;
    out->contradiction = expected > 0 ? apart / sqrt(expected) : 0;
    bool contradicts = fabs(out->contradiction) > TRANSFER_CONTRADICTS;
    if (!sure && !contradicts && out->weight == 1 && variance > 0) {
        e->log_mid = prior->log_mid + apart * variance / (variance + near);
        e->log_spread = sqrt(variance * near / (variance + near));
    }
    if (contradicts)
        e->log_spread = fmax(e->log_spread, fabs(e->log_mid - prior->log_mid) / STATS_P90);
}

// The variance of this run's model, method and GPU beyond that of the pilot's, in the pilot's
// batches and layout: how other lengths and numbers of GPUs differ is known from pairs of runs.
static double unknown_alone(const struct transfer *transfer, const struct setup *setup)
{
    struct setup moved = *setup;
    moved.batch = transfer->setup.batch;
    moved.layout = transfer->setup.layout;
    double here = calibration_at(transfer->calibration, &moved).log_spread;
    double there = transfer->prior.log_spread;
    return fmax(0, here * here - there * there);
}

// --- transfer ----------------------------------------------------------------

void transfer_to(struct transferred *out, const struct transfer *transfer, struct arena *arena,
                 const struct setup *setup)
{
    double far[TRANSFER_CAUSES], near = 0, beyond = 0, log_efficiency = transfer->log_measured;
    *out = (struct transferred){ .efficiency = transfer->prior,
                                 .same_stack =
                                     same_text(transfer->setup.stack->name, setup->stack->name) };
    if (!out->same_stack)
        return;
    struct transfer_place own = transfer_place(&transfer->setup), place = transfer_place(setup);
    distances(far, &own, &place);
    spread_of(out->spreads, far);
    out->spreads[TRANSFER_INTERVAL] = transfer->log_interval;
    out->spreads[TRANSFER_RUNS] = hypot(run_spread, host_spread * transfer->host_share);
    out->by_fit =
        move_by_fit(&log_efficiency, &out->spreads[TRANSFER_LENGTHS], transfer, arena, setup, far);
    for (int cause = 0; cause < TRANSFER_CAUSES; cause++)
        *(differences[cause].far ? &beyond : &near) += out->spreads[cause] * out->spreads[cause];

    // Two runs of one stack share what is unknown of both, the lesser variance s² of their places,
    // and differ by the far causes: beyond = 2s²(1 − correlation). What is unknown of this run's
    // model, method and GPU alone, the pilot does not tell.
    struct efficiency *e = &out->efficiency, prior = calibration_at(transfer->calibration, setup);
    double least = fmin(prior.log_spread, transfer->prior.log_spread), variance = least * least;
    double alone = unknown_alone(transfer, setup);
    double weight = variance > 0 ? fmax(0, 1 - beyond / (2 * variance)) : beyond == 0;
    double kept = weight * weight, wide = prior.log_spread * prior.log_spread;
    double left = kept * (near + alone) + (1 - kept) * wide;
    out->weight = weight;
    out->alike = beyond == 0 && !far[TRANSFER_GPUS] && !far[TRANSFER_LAYOUT] &&
                 !far[TRANSFER_RECOMPUTATION] && far[TRANSFER_LENGTHS] < 0.1;
    e->log_mid = prior.log_mid + weight * (log_efficiency - prior.log_mid);
    e->log_spread = fmin(prior.log_spread, sqrt(left));
    e->slow_tail = (1 - kept) * prior.slow_tail; // the pilot met this host
    e->is_piloted = true;
    bool sure = transfer->pilot->steady && !transfer->pilot->doubts &&
                !(transfer->pilot->transient.seconds_per_width >= 0);
    weigh(out, log_efficiency, near + alone, &prior, &transfer->prior, sure);
}
