// SPDX-License-Identifier: Apache-2.0
// Prints errors of forecast steps of preference tuning and reinforcement learning, by what was
// measured, by source and by how answers were sampled.

#include "core/measured/rl_run.h"

#include "base/columns.h"
#include "base/embedded.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct compared {
    const struct rl_run *run;
    struct range forecast;
    double log_error; // of forecast over measured
};

struct comparison {
    struct arena *arena;
    struct compared *rows;
    size_t count;
};

static bool is_step(const struct rl_run *run, const char *key)
{
    (void)key;
    return rl_run_group(run) == RL_RUN_STEP;
}

static bool is_training(const struct rl_run *run, const char *key)
{
    (void)key;
    return rl_run_group(run) == RL_RUN_TRAINING;
}

static bool is_preference(const struct rl_run *run, const char *key)
{
    (void)key;
    return rl_run_group(run) == RL_RUN_PREFERENCE;
}

static bool in_turns(const struct rl_run *run, const char *key)
{
    return is_step(run, key) && !run->async_steps;
}

static bool beside(const struct rl_run *run, const char *key)
{
    return is_step(run, key) && run->async_steps;
}

static bool of_source(const struct rl_run *run, const char *key)
{
    return is_step(run, key) && !strcmp(run->source, key);
}

static bool not_of_source(const struct rl_run *run, const char *key)
{
    return is_step(run, key) && strcmp(run->source, key) != 0;
}

// The median of what others are off by, which a row of this source is corrected by.
static double bias_of(const struct comparison *c, bool (*keep)(const struct rl_run *, const char *),
                      const char *key)
{
    double *errors = ARENA_NEW(c->arena, double, c->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < c->count; i++)
        if (keep(c->rows[i].run, key))
            errors[count++] = c->rows[i].log_error;
    stats_sort(errors, count);
    return count ? stats_quantile(errors, count, 0.5) : 0;
}

static void add_line(struct columns *columns, const char *name, const struct validate_summary *s)
{
    if (!s->n)
        return;
    columns_add(columns, name);
    columns_add(columns, text_format(columns->arena, "%lld", (long long)s->n));
    columns_add(columns, text_format(columns->arena, "%.2f", s->median_error));
    columns_add(columns, text_format(columns->arena, "%.2f", s->p90_error));
    columns_add(columns, text_format(columns->arena, "%.0f %%", 100 * s->coverage));
    columns_add(columns, text_format(columns->arena, "%.2f", s->bias));
}

static void add_summary(struct columns *columns, const struct comparison *c, const char *name,
                        bool (*keep)(const struct rl_run *, const char *), const char *key,
                        double correction)
{
    double *errors = ARENA_NEW(c->arena, double, c->count + 1);
    size_t count = 0, inside = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct compared *row = &c->rows[i];
        if (!keep(row->run, key))
            continue;
        double off = row->log_error - correction;
        errors[count++] = fabs(off);
        inside += fabs(off) <= log(row->forecast.high / row->forecast.mid);
    }
    stats_sort(errors, count);
    double share = count ? (double)inside / (double)count : 0;
    add_line(columns, name,
             &(struct validate_summary){ .n = (int64_t)count,
                                         .median_error = exp(stats_quantile(errors, count, 0.5)),
                                         .p90_error = exp(stats_quantile(errors, count, 0.9)),
                                         .coverage = share,
                                         .bias = exp(-bias_of(c, keep, key)) });
}

// Sources of steps, each with the bias of the others taken off.
static void add_sources(struct columns *columns, const struct comparison *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const char *source = c->rows[i].run->source;
        bool seen = !is_step(c->rows[i].run, NULL);
        for (size_t k = 0; k < i && !seen; k++)
            seen = !strcmp(c->rows[k].run->source, source);
        if (seen)
            continue;
        const char *name = text_format(c->arena, "  %.*s", (int)strcspn(source, ":"), source);
        add_summary(columns, c, name, of_source, source, bias_of(c, not_of_source, source));
    }
}

static void put_summary(const struct comparison *c, const struct validate_summary *alone,
                        struct out *out)
{
    static const char *const titles[] = { "", "rows", "median", "P90", "inside", "bias", NULL };
    struct columns columns = { .arena = c->arena, .align = "Lrrrrr", .indent = 2 };
    columns_add_row(&columns, titles);
    add_summary(&columns, c, "steps of reinforcement learning", is_step, NULL, 0);
    add_summary(&columns, c, "  synchronous", in_turns, NULL, 0);
    add_summary(&columns, c, "  asynchronous", beside, NULL, 0);
    add_sources(&columns, c);
    add_summary(&columns, c, "training phase of PPO", is_training, NULL, 0);
    add_line(&columns, "trainer without its sampler", alone);
    add_summary(&columns, c, "preference tuning", is_preference, NULL, 0);
    columns_write(&columns, out);
}

static void put_rows(const struct comparison *c, struct out *out)
{
    static const char *const titles[] = { "run",      "model",    "GPU",   "GPUs",   "of",
                                          "forecast", "measured", "error", "inside", NULL };
    struct columns columns = { .arena = c->arena, .align = "LLLrLrrrl" };
    columns_add_row(&columns, titles);
    for (size_t i = 0; i < c->count; i++) {
        const struct compared *row = &c->rows[i];
        columns_add(&columns, row->run->id);
        columns_add(&columns, row->run->model);
        columns_add(&columns, row->run->gpu);
        columns_add(&columns, text_format(c->arena, "%lld", (long long)row->run->gpus));
        columns_add(&columns, text_format(c->arena, "%.*s", (int)strcspn(row->run->metric, "_"),
                                          row->run->metric));
        columns_add(&columns, text_format(c->arena, "%.4g", row->forecast.mid));
        columns_add(&columns, text_format(c->arena, "%.4g", row->run->measured));
        columns_add(&columns, text_format(c->arena, "%.2f", exp(fabs(row->log_error))));
        columns_add(&columns, row->run->measured >= row->forecast.low &&
                                      row->run->measured <= row->forecast.high
                                  ? "yes"
                                  : "no");
    }
    columns_write(&columns, out);
    out_char(out, '\n');
}

static void put_reasons(const struct rl_run *runs, size_t count, struct arena *arena,
                        struct out *out)
{
    for (size_t i = 0; i < count; i++) {
        bool told = !runs[i].excluded;
        for (size_t before = 0; before < i && !told; before++)
            told = runs[before].excluded && !strcmp(runs[before].excluded, runs[i].excluded);
        if (told)
            continue;
        size_t more = 0;
        for (size_t later = i + 1; later < count; later++)
            more += runs[later].excluded && !strcmp(runs[later].excluded, runs[i].excluded);
        const char *others = more ? text_format(arena, " and %zu more", more) : "";
        out_put(out, "  ");
        out_wrapped(
            out, 4, 2,
            text_format(arena, "not usable: %s%s: %s", runs[i].id, others, runs[i].excluded));
    }
}

enum err rl_run_text(struct arena *arena, const struct validate_model *model,
                     const struct validate_summary *alone, bool rows, struct out *out)
{
    struct rl_run *runs;
    size_t count;
    struct calibration calibration;
    TRY(rl_run_read(&runs, &count, arena, embedded_file("objectives.csv"), "objectives.csv"));
    TRY(calibration_read(&calibration, arena, embedded_file("efficiency.csv"), "efficiency.csv",
                         embedded_file("evidence.csv"), "evidence.csv"));
    struct comparison c = { .arena = arena, .rows = ARENA_NEW(arena, struct compared, count) };
    for (size_t i = 0; i < count; i++) {
        struct compared *row = &c.rows[c.count];
        if (runs[i].excluded)
            continue;
        TRY(rl_run_forecast(&row->forecast, arena, &runs[i], model, &calibration));
        row->run = &runs[i];
        row->log_error = log(row->forecast.mid / runs[i].measured);
        c.count++;
    }
    if (rows)
        put_rows(&c, out);
    out_put(out, "%zu published rows of preference tuning and reinforcement learning, %zu usable\n",
            count, c.count);
    put_reasons(runs, count, arena, out);
    out_char(out, '\n');
    put_summary(&c, alone, out);
    out_char(out, '\n');
    out_wrapped(
        out, 0, 0,
        "Errors are factors: 1.08 is 8 % off. A source of steps is forecast with the bias of the "
        "others taken off, so that none helps to forecast itself. bias: measured over forecast, "
        "the median; of the trainer without its sampler, of its tokens/s.");
    return OK;
}
