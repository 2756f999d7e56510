// SPDX-License-Identifier: Apache-2.0
#include "base/embedded.h"
#include "test/core/knowledge.h"
#include "test/core/measured/shipped.h"

TEST(memory_verdicts_of_shipped_runs_are_mostly_right)
{
    size_t count;
    const struct validate_row *rows = shipped_rows(&count);
    struct validate_verdicts fits = validate_verdicts(rows, count);
    CHECK(fits.n >= 40 && (double)fits.right >= 0.9 * (double)fits.n);
    CHECK(fits.surely_wrong <= 1); // HFB-010, which names neither rank nor targets
}

// As many fit as should, within what chance leaves: a sum of runs with probabilities p has the
// variance Σ p(1 − p).
TEST(memory_probabilities_of_shipped_runs_are_those_with_which_they_fitted)
{
    size_t count;
    const struct validate_row *rows = shipped_rows(&count);
    struct validate_likely groups[VALIDATE_LIKELIES];
    validate_likely(groups, rows, count);
    for (int i = 0; i < VALIDATE_LIKELIES; i++) {
        double variance = 0;
        for (size_t r = 0; r < count; r++)
            if (rows[r].judged && rows[r].fit_probability >= groups[i].from &&
                rows[r].fit_probability < groups[i].to)
                variance += rows[r].fit_probability * (1 - rows[r].fit_probability);
        CHECK(fabs((double)groups[i].fitted - groups[i].expected) <= 2.5 * sqrt(variance) + 0.5);
    }
}

// ln(measured/planned) of the runs of a stack; one that ran out of memory counts with what it
// needed at least. All stacks where name is NULL. Mixtures of experts have a spread of their own
// (below); our engine plans its memory itself.
static size_t log_ratios(double *out, const struct validate_row *rows, size_t count,
                         const char *name, bool quantized)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const struct setup *setup = rows[i].setup;
        if (!setup || setup->model->experts ||
            (name && (strcmp(setup->stack->name, name) ||
                      (setup->recipe.method == RECIPE_QLORA) != quantized)))
            continue;
        struct memory memory;
        CHECK(!estimate_memory(&memory, &test_arena, setup));
        double least =
            log((memory.device_bytes - memory.parts[MEMORY_CONTEXT]) / memory.allocated_bytes);
        if (rows[i].run->outcome == RUN_OUT_OF_MEMORY && least > 0)
            out[n++] = least;
        else if (rows[i].memory_bytes.error > 0)
            out[n++] = log(rows[i].memory_bytes.measured / rows[i].memory_bytes.predicted.mid);
    }
    stats_sort(out, n);
    return n;
}

TEST(memory_spread_of_a_stack_is_that_of_its_measured_runs)
{
    struct knowledge k = knowledge_open();
    size_t count;
    const struct validate_row *rows = shipped_rows(&count);
    double *ratios = ARENA_NEW(&test_arena, double, count);
    size_t n = log_ratios(ratios, rows, count, NULL, false);
    double all = stats_quantile(ratios, n, 0.9);
    CHECK(all > 0.10 && all < 0.22);
    for (size_t s = 0; s < k.stack_count; s++)
        for (int quantized = 0; quantized < 2; quantized++) {
            const struct stack *stack = &k.stacks[s];
            double spread = quantized ? stack->quantized_spread : stack->memory_spread;
            n = log_ratios(ratios, rows, count, stack->name, quantized);
            bool plans_itself = !strcmp(stack->name, "native");
            test_check(plans_itself || spread >= 0.16, stack->name, __FILE__, __LINE__);
            if (n < 8 || plans_itself)
                continue;
            // Of an 80 % range: too little is as wrong as too much, but costs the run.
            double high = stats_quantile(ratios, n, 0.9), low = stats_quantile(ratios, n, 0.1);
            double own = fmax(high, (high - low) / 2);
            double wanted = fmax(all, ((double)n * own + 12 * all) / ((double)n + 12));
            test_check(fabs(spread - wanted) < 0.12,
                       text_format(&test_arena, "%s %s: %.2f, measured %.2f", stack->name,
                                   quantized ? "quantized" : "", spread, wanted),
                       __FILE__, __LINE__);
        }
}

TEST(memory_spread_of_mixtures_is_that_of_their_measured_runs)
{
    size_t count, n = 0;
    const struct validate_row *rows = shipped_rows(&count);
    double *sizes = ARENA_NEW(&test_arena, double, count), spread = 0;
    for (size_t i = 0; i < count; i++) {
        const struct setup *setup = rows[i].setup;
        if (!setup || !setup->model->experts || !(rows[i].memory_bytes.error > 0) ||
            text_is(run_source(rows[i].run), "gpuhours")) // the plan was counted on our own
            continue;
        struct memory memory;
        CHECK(!estimate_memory(&memory, &test_arena, setup));
        spread = spread > 0 ? fmin(spread, memory.spread) : memory.spread;
        sizes[n++] = log(rows[i].memory_bytes.error);
    }
    stats_sort(sizes, n);
    double measured = stats_quantile(sizes, n, 0.9);
    CHECK(n >= 50 && spread >= measured && spread < measured + 0.1);
}
