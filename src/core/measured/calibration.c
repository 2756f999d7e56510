// SPDX-License-Identifier: Apache-2.0
// Fits each stack's efficiency by hierarchical shrinkage of medians, and its spread by leaving out
// each source in turn.

#include "core/measured/calibration.h"

#include <math.h>
#include <string.h>

const struct field efficiency_fields[] = {
    FIELD_NEEDED(efficiency, stack, TEXT, "as in stacks.json"),
    FIELD_NEEDED(efficiency, family, TEXT, "as in stacks.json"),
    FIELD_NEEDED(efficiency, log_mid, NUMBER, "logarithm of measured over roofline tokens/s"),
    FIELD_NEEDED(efficiency, log_spread, NUMBER, "standard deviation for a source not seen yet"),
    FIELD(efficiency, runs, COUNT, "measured runs it is fitted on"),
    FIELD(efficiency, sources, COUNT, "independent sources it is fitted on"),
    { 0 },
};

// The rows that one source published on one stack.
struct cell {
    const struct stack *stack;
    struct text source;
    double mid;
    size_t count;
};

// Weight of the level above in a shrunken mean, in sources.
static const double prior_sources = 1;
// Weight of the pooled spread in a stack's own, in runs.
static const double prior_runs = 12;

static size_t make_cells(struct cell *cells, struct arena *arena, const struct residual *residuals,
                         size_t count)
{
    size_t cell_count = 0;
    double *values = ARENA_NEW(arena, double, count + 1);
    bool *done = ARENA_NEW(arena, bool, count + 1);
    for (size_t i = 0; i < count; i++) {
        if (done[i] || residuals[i].left_out)
            continue;
        size_t n = 0;
        for (size_t j = i; j < count; j++)
            if (!residuals[j].left_out && residuals[j].stack == residuals[i].stack &&
                text_equal(residuals[j].source, residuals[i].source)) {
                values[n++] = residuals[j].log_ratio;
                done[j] = true;
            }
        cells[cell_count++] =
            (struct cell){ residuals[i].stack, residuals[i].source, stats_median(values, n), n };
    }
    return cell_count;
}

// The mean of the matching cells, shrunk towards the level above.
static double shrunken(const struct cell *cells, size_t count, const struct stack *stack,
                       bool whole_family, double above)
{
    double sum = prior_sources * above, weight = prior_sources;
    for (size_t i = 0; i < count; i++)
        if (cells[i].stack == stack ||
            (whole_family && !strcmp(cells[i].stack->family, stack->family))) {
            double most = 0.5; // a source that is further off is an outlier
            double trust =
                (double)cells[i].count / ((double)cells[i].count + 2); // less for few rows
            sum += trust * fmin(fmax(cells[i].mid, above - most), above + most);
            weight += trust;
        }
    return sum / weight;
}

static double middle(const struct cell *cells, size_t count, struct arena *arena)
{
    double *mids = ARENA_NEW(arena, double, count + 1);
    for (size_t i = 0; i < count; i++)
        mids[i] = cells[i].mid;
    return count ? stats_median(mids, count) : 0;
}

// The prediction for a stack from the cells of all sources but one, as for a new source.
static double prediction(const struct cell *cells, size_t count, const struct stack *stack,
                         struct text without, struct arena *arena)
{
    struct cell *rest = ARENA_NEW(arena, struct cell, count + 1);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!text_equal(cells[i].source, without))
            rest[kept++] = cells[i];
    double all = middle(rest, kept, arena);
    double family = shrunken(rest, kept, stack, true, all);
    return shrunken(rest, kept, stack, false, family);
}

struct efficiency *calibration_fit(struct arena *arena, const struct stack *stacks,
                                   size_t stack_count, const struct residual *residuals,
                                   size_t count)
{
    struct efficiency *rows = ARENA_NEW(arena, struct efficiency, stack_count);
    struct arena_mark mark = arena_mark(arena);
    struct cell *cells = ARENA_NEW(arena, struct cell, count + 1);
    size_t cell_count = make_cells(cells, arena, residuals, count);
    // The error of each row when its own source is left out.
    double *errors = ARENA_NEW(arena, double, count + 1);
    double *sizes = ARENA_NEW(arena, double, count + 1);
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (!residuals[i].left_out) {
            struct arena_mark inner = arena_mark(arena);
            errors[i] = residuals[i].log_ratio - prediction(cells, cell_count, residuals[i].stack,
                                                            residuals[i].source, arena);
            arena_rewind(arena, inner);
            sizes[used++] = fabs(errors[i]);
        }
    stats_sort(sizes, used);
    // 80 % of the errors are below this quantile; in a normal distribution it lies at STATS_P90.
    double pooled = used ? stats_quantile(sizes, used, 0.8) / STATS_P90 : 0.3;
    double all = middle(cells, cell_count, arena);
    for (size_t s = 0; s < stack_count; s++) {
        double squares = prior_runs * pooled * pooled, weight = prior_runs, top = 3 * pooled;
        struct efficiency *row = &rows[s];
        *row = (struct efficiency){ .stack = stacks[s].name, .family = stacks[s].family };
        for (size_t i = 0; i < count; i++)
            if (!residuals[i].left_out && residuals[i].stack == &stacks[s]) {
                double error = fmin(fabs(errors[i]), top); // an outlier does not set the spread
                squares += error * error;
                weight += 1;
                row->runs++;
            }
        for (size_t i = 0; i < cell_count; i++)
            row->sources += cells[i].stack == &stacks[s];
        row->log_mid = shrunken(cells, cell_count, &stacks[s], false,
                                shrunken(cells, cell_count, &stacks[s], true, all));
        row->log_spread = sqrt(squares / weight);
    }
    arena_rewind(arena, mark);
    return rows;
}

enum err calibration_read(struct efficiency **out, size_t *count, struct arena *arena,
                          struct text csv, const char *name)
{
    void *rows;
    TRY(field_read_csv(efficiency_fields, sizeof(struct efficiency), &rows, count, arena, csv,
                       name));
    *out = rows;
    if (!*count)
        return fail(ERR_INPUT, "%s: has no rows", name);
    return OK;
}

struct efficiency calibration_of(const struct efficiency *rows, size_t count,
                                 const struct stack *stack)
{
    // A stack that has changed its family is measured by the new one, not by what it is like.
    for (const struct stack *s = stack; s && !strcmp(s->family, stack->family); s = s->base)
        for (size_t i = 0; i < count; i++)
            if (!strcmp(rows[i].stack, s->name))
                return rows[i];
    for (size_t i = 0; i < count; i++)
        if (!strcmp(rows[i].family, stack->family))
            return rows[i];
    return rows[0];
}
