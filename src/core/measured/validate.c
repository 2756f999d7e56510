// SPDX-License-Identifier: Apache-2.0
// Predicts every measured run with efficiencies fitted on other sources, and counts the errors.

#include "core/measured/validate.h"

#include <math.h>
#include <string.h>

static const double GIB = 1073741824.0;

// The catalog's stack, not the copy that a run's columns may have changed.
static const struct stack *stack_of(const struct validate_model *model, const struct stack *stack)
{
    for (size_t i = 0; i < model->stack_count; i++)
        if (!strcmp(model->stacks[i].name, stack->name))
            return &model->stacks[i];
    return NULL;
}

size_t validate_residuals(struct residual **out, struct arena *arena, const struct run *runs,
                          size_t count, const struct validate_model *model)
{
    *out = ARENA_NEW(arena, struct residual, count + 1);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        double measured = run_tokens_per_s(&runs[i]);
        if (!(measured > 0))
            continue;
        struct arena_mark mark = arena_mark(arena);
        struct setup setup;
        struct estimate estimate;
        bool understood = !run_setup(&setup, arena, &runs[i], model->catalog, model->stacks,
                                     model->stack_count) &&
                          !estimate_make(&estimate, arena, &setup) && estimate.tokens_per_s > 0;
        struct residual residual = { .source = run_source(&runs[i]) };
        if (understood) {
            residual.stack = stack_of(model, setup.stack);
            residual.log_ratio =
                log(run_steady_rate(&runs[i], &setup, measured) / estimate.tokens_per_s);
            residual.place = calibration_place(NULL, &setup);
            residual.step_spread = calibration_step_spread(&setup);
        }
        arena_rewind(arena, mark);
        if (understood && !isnan(residual.log_ratio))
            (*out)[used++] = residual;
    }
    return used;
}

static void judge(struct validate_value *value)
{
    double p = value->predicted.mid, m = value->measured;
    value->error = p > 0 && m > 0 ? fmax(p / m, m / p) : NAN;
    value->inside = m >= value->predicted.low && m <= value->predicted.high;
}

// The byte plans of the runs that a row may mean, by how often they are meant; of a row that ran,
// also by how likely each fits its card.
struct plans {
    struct memory *items;
    double *weights; // they sum to 1
    size_t count;
};

static double card_bytes(const struct run *run, const struct setup *setup)
{
    return setup->gpu ? setup->gpu->memory_bytes : run->card_gib * GIB;
}

static void plan_unsaid(struct plans *out, struct arena *arena, const struct validate_model *model,
                        const struct run *run, const struct memory *as_read)
{
    struct run *runs;
    double *likely;
    size_t count = run_unsaid(&runs, &likely, arena, run);
    *out = (struct plans){ .items = ARENA_NEW(arena, struct memory, count),
                           .weights = ARENA_NEW(arena, double, count) };
    double sum = 0;
    for (size_t i = 0; count > 1 && i < count; i++) {
        struct setup setup;
        struct memory *memory = &out->items[out->count];
        if (run_setup(&setup, arena, &runs[i], model->catalog, model->stacks, model->stack_count) ||
            estimate_memory(memory, arena, &setup))
            continue;
        double fits = memory_fit_probability(memory, card_bytes(run, &setup));
        double weight = run->peak_mem_gib_per_gpu > 0 && fits >= 0 ? fits : 1;
        sum += out->weights[out->count++] = likely[i] * weight;
    }
    if (!(sum > 0)) {
        *out->items = *as_read;
        sum = *out->weights = out->count = 1;
    }
    for (size_t i = 0; i < out->count; i++)
        out->weights[i] /= sum;
}

// Bytes below which that share of the runs is that a row may mean.
static double bytes_at(const struct plans *plans, const struct run *run, double share)
{
    double low = 1, high = 1e15;
    for (int step = 0; step < 60; step++) {
        double bytes = sqrt(low * high), below = 0;
        for (size_t i = 0; i < plans->count; i++)
            below +=
                plans->weights[i] *
                memory_share_within(&plans->items[i], bytes / run_memory(run, &plans->items[i]));
        *(below < share ? &low : &high) = bytes;
    }
    return low;
}

static void judge_fit(struct validate_row *row, const struct plans *plans)
{
    double card = card_bytes(row->run, row->setup);
    row->judged = row->run->outcome && card > 0;
    row->fit_probability = 0;
    for (size_t i = 0; i < plans->count; i++)
        row->fit_probability += plans->weights[i] * memory_fit_probability(&plans->items[i], card);
    row->fits = row->fit_probability >= 0.5;
}

static void predict_memory(struct validate_row *row, const struct plans *plans)
{
    double bytes =
        plans->count == 1 ? run_memory(row->run, plans->items) : bytes_at(plans, row->run, 0.5);
    row->memory_bytes.predicted =
        (struct range){ bytes_at(plans, row->run, 0.1), bytes, bytes_at(plans, row->run, 0.9) };
    row->memory_bytes.measured = row->run->peak_mem_gib_per_gpu * GIB;
    judge(&row->memory_bytes);
    judge_fit(row, plans);
}

static void predict(struct validate_row *row, const struct estimate *estimate,
                    const struct efficiency *efficiency)
{
    const struct run *run = row->run;
    double mid =
        run_reported_rate(run, row->setup, estimate->tokens_per_s * exp(efficiency->log_mid));
    double faster = exp(STATS_P90 * efficiency->log_spread),
           slower = efficiency_slowdown(efficiency);
    row->tokens_per_s.predicted = (struct range){ mid / slower, mid, mid * faster };
    row->tokens_per_s.measured = mid > 0 ? run_tokens_per_s(run) : NAN;
    judge(&row->tokens_per_s);

    double hours = run->total_tokens / mid / 3600, other = run_other_hours(run);
    row->wall_hours.predicted =
        (struct range){ hours / faster + other, hours + other, hours * slower + other };
    row->wall_hours.measured = hours + other > 0 ? run->wall_hours : NAN;
    judge(&row->wall_hours);
}

// A calibration that knows nothing from one source.
struct without {
    struct text source;
    struct calibration calibration;
};

struct refits {
    const struct validate_model *model;
    struct residual *residuals;
    size_t residual_count;
    struct without *items;
    size_t count;
    struct calibration all;
    struct arena *arena;
};

static void refit(struct refits *r, struct calibration *out, struct text source,
                  const struct calibration *similar)
{
    for (size_t i = 0; i < r->residual_count; i++)
        r->residuals[i].left_out = text_equal(r->residuals[i].source, source);
    calibration_fit(out, r->arena, r->model->stacks, r->model->stack_count, r->residuals,
                    r->residual_count, similar);
}

static const struct calibration *fitted_without(struct refits *r, struct text source)
{
    for (size_t i = 0; i < r->count; i++)
        if (text_equal(r->items[i].source, source))
            return &r->items[i].calibration;
    struct without *item = &r->items[r->count++];
    item->source = source;
    refit(r, &item->calibration, source, &r->all);
    return &item->calibration;
}

enum err validate_runs(struct validate_row **out, struct arena *arena, const struct run *runs,
                       size_t count, const struct run *reference, size_t reference_count,
                       const struct validate_model *model)
{
    *out = ARENA_NEW(arena, struct validate_row, count);
    struct refits refits = { .model = model,
                             .items = ARENA_NEW(arena, struct without, count + 1),
                             .arena = arena };
    refits.residual_count =
        validate_residuals(&refits.residuals, arena, reference, reference_count, model);
    refit(&refits, &refits.all, (struct text){ 0 }, NULL);
    for (size_t i = 0; i < count; i++) {
        struct validate_row *row = &(*out)[i];
        row->run = &runs[i];
        row->tokens_per_s.measured = row->memory_bytes.measured = row->wall_hours.measured = NAN;
        struct setup *setup = ARENA_NEW(arena, struct setup, 1);
        struct estimate estimate;
        if (run_setup(setup, arena, &runs[i], model->catalog, model->stacks, model->stack_count) ||
            estimate_make(&estimate, arena, setup)) {
            row->reason = text_copy(arena, text_of(error_text()));
            continue;
        }
        row->setup = setup;
        struct efficiency efficiency =
            calibration_at(fitted_without(&refits, run_source(&runs[i])), setup);
        predict(row, &estimate, &efficiency);
        struct plans plans;
        plan_unsaid(&plans, arena, model, &runs[i], &estimate.memory);
        predict_memory(row, &plans);
    }
    return OK;
}

static const struct validate_value *value_of(const struct validate_row *row,
                                             enum validate_quantity quantity)
{
    return quantity == VALIDATE_TOKENS   ? &row->tokens_per_s
           : quantity == VALIDATE_MEMORY ? &row->memory_bytes
                                         : &row->wall_hours;
}

struct validate_summary validate_summarize(const struct validate_row *rows, size_t count,
                                           enum validate_quantity quantity, struct arena *arena,
                                           bool (*keep)(const struct validate_row *, const char *),
                                           const char *key)
{
    struct validate_summary out = { NAN, NAN, NAN, NAN, 0, 0 };
    double *errors = ARENA_NEW(arena, double, count + 1);
    double *ratios = ARENA_NEW(arena, double, count + 1);
    int64_t inside = 0;
    for (size_t i = 0; i < count; i++) {
        const struct validate_value *value = value_of(&rows[i], quantity);
        if (!rows[i].setup || !(value->error > 0) || (keep && !keep(&rows[i], key)))
            continue;
        ratios[out.n] = value->measured / value->predicted.mid;
        errors[out.n++] = value->error;
        inside += value->inside;
        out.unsafe += value->measured > value->predicted.high;
    }
    if (!out.n)
        return out;
    stats_sort(errors, (size_t)out.n);
    out.median_error = stats_quantile(errors, (size_t)out.n, 0.5);
    out.p90_error = stats_quantile(errors, (size_t)out.n, 0.9);
    out.bias = stats_median(ratios, (size_t)out.n);
    out.coverage = (double)inside / (double)out.n;
    return out;
}

bool validate_is_off(const struct validate_summary *summary)
{
    static const double least_coverage = 0.65, most_bias = 1.15;
    return summary->n >= VALIDATE_GROUP_ROWS &&
           (summary->coverage < least_coverage ||
            fmax(summary->bias, 1 / summary->bias) > most_bias);
}

struct validate_verdicts validate_verdicts(const struct validate_row *rows, size_t count)
{
    struct validate_verdicts out = { 0 };
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].judged)
            continue;
        bool fitted = rows[i].run->outcome == RUN_FITS;
        out.n++;
        out.right += rows[i].fits == fitted;
        out.unsafe += rows[i].fits && !fitted;
        out.surely_wrong += !fitted && rows[i].fit_probability > VALIDATE_FIT_MOST;
        out.tight += !rows[i].fits && fitted;
    }
    return out;
}

void validate_likely(struct validate_likely out[VALIDATE_LIKELIES], const struct validate_row *rows,
                     size_t count)
{
    static const double ends[VALIDATE_LIKELIES + 1] = { 0, 0.2, 0.5, 0.8, 0.95, 1 };
    for (int g = 0; g < VALIDATE_LIKELIES; g++)
        out[g] = (struct validate_likely){ .from = ends[g], .to = ends[g + 1] };
    for (size_t i = 0; i < count; i++) {
        int g = 0;
        if (!rows[i].judged)
            continue;
        while (g + 1 < VALIDATE_LIKELIES && rows[i].fit_probability >= out[g].to)
            g++;
        out[g].n++;
        out[g].fitted += rows[i].run->outcome == RUN_FITS;
        out[g].expected += rows[i].fit_probability;
    }
}
