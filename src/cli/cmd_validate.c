// SPDX-License-Identifier: Apache-2.0
// gpuhours validate: how far the forecast is from measured runs, each without its own source.

#include "base/columns.h"
#include "base/embedded.h"
#include "cli/data.h"
#include "cli/terminal/print.h"
#include "core/measured/validate_outcomes.h"
#include "core/measured/rl_run.h"
#include "host/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double GIB = 1073741824.0;

struct options_validate {
    bool fit, evidence; // print what is fitted on all reference runs
    bool rows;          // a line per run
    bool objectives;    // steps of reinforcement learning instead
};

static const struct field validate_fields[] = {
    FIELD(options_validate, rows, FLAG, "print a line per run"),
    FIELD(options_validate, fit, FLAG, "print data/efficiency.csv, fitted on all reference runs"),
    FIELD(options_validate, evidence, FLAG,
          "print data/evidence.csv, fitted on all reference runs"),
    FIELD(options_validate, objectives, FLAG,
          "compare published steps of preference tuning and RL instead"),
    { 0 },
};

static struct options_validate options;

static const struct options *list_options(struct arena *arena)
{
    static const struct options all[] = { OPTIONS("output", validate_fields, &options), { 0 } };
    (void)arena;
    options = (struct options_validate){ 0 };
    return all;
}

struct job {
    struct arena *arena;
    struct catalog catalog;
    struct stack *stacks;
    struct run *reference, *runs;
    size_t stack_count, reference_count, run_count;
    struct validate_row *rows;
};

static const char *const quantity_keys[] = { "tokens_per_second", "memory", "wall_hours" };

static struct validate_summary summary(const struct job *job, enum validate_quantity quantity,
                                       bool (*keep)(const struct validate_row *, const char *),
                                       const char *key)
{
    return validate_summarize(job->rows, job->run_count, quantity, job->arena, keep, key);
}

// --- groups ------------------------------------------------------------------

static bool of_method(const struct validate_row *row, const char *key)
{
    return !strcmp(row->run->method, key);
}

static bool of_gpu(const struct validate_row *row, const char *key)
{
    return row->setup->gpu && !strcmp(row->setup->gpu->name, key);
}

static bool of_stack(const struct validate_row *row, const char *key)
{
    return !strcmp(row->setup->stack->name, key);
}

static bool of_source(const struct validate_row *row, const char *key)
{
    return text_is(run_source(row->run), key);
}

// Mixtures of experts have causes of error of their own.
static const char *experts_of(const struct validate_row *row)
{
    return row->setup->batch.images.images > 0 ? "with images"
           : row->setup->model->experts        ? "MoE"
                                               : "dense";
}

static bool of_experts(const struct validate_row *row, const char *key)
{
    return !strcmp(experts_of(row), key);
}

// 1, 2-9, 10-99 ...: what limits a step changes with the number of GPUs.
static const char *gpus_of(const struct validate_row *row)
{
    int64_t gpus = row->run->n_gpus;
    return gpus < 2      ? "1"
           : gpus < 10   ? "2 to 9"
           : gpus < 100  ? "10 to 99"
           : gpus < 1000 ? "100 to 999"
                         : "1000 and more";
}

static bool of_gpus(const struct validate_row *row, const char *key)
{
    return !strcmp(gpus_of(row), key);
}

static const char *method_key(const struct job *job, const struct validate_row *row)
{
    (void)job;
    return row->run->method;
}

static const char *gpu_key(const struct job *job, const struct validate_row *row)
{
    (void)job;
    return row->setup->gpu ? row->setup->gpu->name : NULL;
}

static const char *stack_key(const struct job *job, const struct validate_row *row)
{
    (void)job;
    return row->setup->stack->name;
}

static const char *experts_key(const struct job *job, const struct validate_row *row)
{
    (void)job;
    return experts_of(row);
}

static const char *gpus_key(const struct job *job, const struct validate_row *row)
{
    (void)job;
    return gpus_of(row);
}

static const char *source_key(const struct job *job, const struct validate_row *row)
{
    return text_copy(job->arena, run_source(row->run));
}

static const struct group {
    const char *title, *json;
    const char *(*key)(const struct job *, const struct validate_row *);
    bool (*keep)(const struct validate_row *, const char *);
} groups[] = {
    { "method", "by_method", method_key, of_method },
    { "GPU", "by_gpu", gpu_key, of_gpu },
    { "stack", "by_stack", stack_key, of_stack },
    { "model", "by_experts", experts_key, of_experts },
    { "number of GPUs", "by_gpus", gpus_key, of_gpus },
    { "source left out", "by_source", source_key, of_source },
};

static int by_number(const void *a, const void *b)
{
    long long left = atoll(*(const char *const *)a), right = atoll(*(const char *const *)b);
    return (left > right) - (left < right);
}

// The distinct keys of a group: numbers by size, others in the order of the rows.
static size_t distinct(const char **out, size_t room, const struct job *job,
                       const struct group *group)
{
    size_t count = 0;
    for (size_t i = 0; i < job->run_count && count < room; i++) {
        const char *key = job->rows[i].setup ? group->key(job, &job->rows[i]) : NULL;
        bool seen = !key;
        for (size_t k = 0; k < count && !seen; k++)
            seen = !strcmp(out[k], key);
        if (!seen)
            out[count++] = key;
    }
    if (group->key == gpus_key)
        qsort(out, count, sizeof *out, by_number);
    return count;
}

// --- text --------------------------------------------------------------------

static const char *count(struct arena *arena, int64_t value)
{
    return text_format(arena, "%lld", (long long)value);
}

static const char *factor(struct arena *arena, double value)
{
    return text_format(arena, "%.2f", value);
}

static const char *percent(struct arena *arena, double share)
{
    return text_format(arena, "%.0f %%", 100 * share);
}

// Which forecasts of a group are off: "speed", "memory", both or none.
static const char *what_is_off(const struct validate_summary *t, const struct validate_summary *m)
{
    bool speed = validate_is_off(t), memory = validate_is_off(m);
    return speed && memory ? "both" : speed ? "speed" : memory ? "memory" : "";
}

static void add_summary(struct columns *columns, const struct job *job, const char *name,
                        bool (*keep)(const struct validate_row *, const char *), const char *key)
{
    struct arena *arena = job->arena;
    struct validate_summary t = summary(job, VALIDATE_TOKENS, keep, key);
    struct validate_summary m = summary(job, VALIDATE_MEMORY, keep, key);
    if (!t.n && !m.n)
        return;
    columns_add(columns, name);
    columns_add(columns, t.n ? count(arena, t.n) : "-");
    columns_add(columns, t.n ? factor(arena, t.median_error) : "-");
    columns_add(columns, t.n ? factor(arena, t.p90_error) : "-");
    columns_add(columns, t.n ? percent(arena, t.coverage) : "-");
    columns_add(columns, t.n ? factor(arena, t.bias) : "-");
    columns_add(columns, m.n ? count(arena, m.n) : "");
    columns_add(columns, m.n ? factor(arena, m.median_error) : "");
    columns_add(columns, m.n ? percent(arena, m.coverage) : "");
    columns_add(columns, what_is_off(&t, &m));
}

static void put_summary(const struct job *job, struct out *out)
{
    static const char *const titles[] = { "",       "speed",  "median",
                                          "P90",    "inside", "bias",
                                          "memory", "median", "inside (memory)",
                                          "off",    NULL };
    static const char *const blank[] = { "", "", "", "", "", "", "", "", "", "", NULL };
    struct columns columns = {
        .arena = job->arena, .align = "Lrrrrrrrrl", .spare = "0002000314", .indent = 2
    };
    const char *keys[256];
    columns_add_row(&columns, titles);
    add_summary(&columns, job, "all", NULL, NULL);
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        columns_add_row(&columns, blank);
        columns_add(&columns, out_styled(out, OUT_HEADING,
                                         text_format(job->arena, "by %s", groups[g].title)));
        columns_add_row(&columns, blank + 1);
        size_t found = distinct(keys, 256, job, &groups[g]);
        for (size_t k = 0; k < found; k++)
            add_summary(&columns, job, keys[k], groups[g].keep, keys[k]);
    }
    columns_write(&columns, out);
}

static void put_rows(const struct job *job, struct out *out)
{
    static const char *const titles[] = { "run",      "stack", "GPU",    "tokens/s",
                                          "measured", "error", "inside", "GiB",
                                          "measured", "error", NULL };
    struct arena *arena = job->arena;
    struct columns columns = { .arena = arena, .align = "LLLrrrlrrr", .spare = "0100002345" };
    columns_add_row(&columns, titles);
    for (size_t i = 0; i < job->run_count; i++) {
        const struct validate_row *row = &job->rows[i];
        if (!row->setup)
            continue;
        const struct validate_value *t = &row->tokens_per_s, *m = &row->memory_bytes;
        bool timed = t->error > 0, sized = m->error > 0;
        columns_add(&columns, row->run->id);
        columns_add(&columns, row->setup->stack->name);
        columns_add(&columns, row->setup->gpu ? row->setup->gpu->name : "-");
        columns_add(&columns, timed ? text_format(arena, "%.0f", t->predicted.mid) : "-");
        columns_add(&columns, timed ? text_format(arena, "%.0f", t->measured) : "-");
        columns_add(&columns, timed ? factor(arena, t->error) : "-");
        columns_add(&columns, !timed ? "-" : t->inside ? "yes" : "no");
        columns_add(&columns, sized ? text_format(arena, "%.1f", m->predicted.mid / GIB) : "");
        columns_add(&columns, sized ? text_format(arena, "%.1f", m->measured / GIB) : "");
        columns_add(&columns, sized ? factor(arena, m->error) : "");
    }
    columns_write(&columns, out);
    out_char(out, '\n');
}

// The rows that were not compared, a line per reason.
static void put_reasons(const struct job *job, struct out *out)
{
    for (size_t i = 0; i < job->run_count; i++) {
        const char *reason = job->rows[i].reason;
        bool told = !reason;
        for (size_t before = 0; before < i && !told; before++)
            told = job->rows[before].reason && !strcmp(job->rows[before].reason, reason);
        if (told)
            continue;
        size_t more = 0;
        for (size_t later = i + 1; later < job->run_count; later++)
            more += job->rows[later].reason && !strcmp(job->rows[later].reason, reason);
        const char *others = more ? text_format(job->arena, " and %zu more", more) : "";
        out_put(out, "  ");
        out_wrapped(
            out, 4, 2,
            text_format(job->arena, "not used: %s%s (%s)", job->rows[i].run->id, others, reason));
    }
}

static void put_text(const struct job *job, bool rows, struct out *out)
{
    if (rows)
        put_rows(job, out);
    size_t usable = 0;
    for (size_t i = 0; i < job->run_count; i++)
        usable += job->rows[i].setup != NULL;
    out_wrapped(out, 0, 0,
                text_format(job->arena,
                            "%zu run%s, %zu usable (%.1f %%); each is forecast without the runs of "
                            "its own source",
                            job->run_count, text_plural((double)job->run_count), usable,
                            100.0 * (double)usable / (double)job->run_count));
    put_reasons(job, out);
    out_char(out, '\n');
    put_summary(job, out);
    out_char(out, '\n');
    out_wrapped(
        out, 0, 0,
        "Errors are factors: 1.08 is 8 % off. speed, memory: number of runs compared. "
        "median, P90: error. inside: share of runs within the forecast's 80 % range. bias: "
        "median of measured over forecast. off: marks groups of at least 15 runs with fewer "
        "than 65 % inside or a bias beyond 1.15.");
    validate_put_fit(job->rows, job->run_count, out);
    validate_put_series(job->rows, job->run_count, rows, out);
}

// --- JSON --------------------------------------------------------------------

static void write_summary(struct json_writer *w, const char *key, struct validate_summary s)
{
    json_open(w, key, '{');
    json_put_number(w, "median_error", s.median_error);
    json_put_number(w, "p90_error", s.p90_error);
    json_put_number(w, "coverage", s.coverage);
    json_put_number(w, "bias", s.bias);
    json_put_count(w, "unsafe", s.unsafe);
    json_put_count(w, "n", s.n);
    json_close(w, '}');
}

static const struct validate_value *value_at(const struct validate_row *row, int quantity)
{
    return quantity == VALIDATE_TOKENS   ? &row->tokens_per_s
           : quantity == VALIDATE_MEMORY ? &row->memory_bytes
                                         : &row->wall_hours;
}

static void write_row(struct json_writer *w, const struct validate_row *row)
{
    static const char *const keys[] = { "tokens_per_second", "memory_bytes", "wall_hours" };
    json_open(w, NULL, '{');
    json_put_string(w, "id", row->run->id);
    json_put_string(w, "source", row->run->source);
    json_put_bool(w, "understood", row->setup != NULL);
    if (!row->setup) {
        json_put_string(w, "reason", row->reason);
        json_close(w, '}');
        return;
    }
    json_put_string(w, "stack", row->setup->stack->name);
    json_put_string(w, "gpu", row->setup->gpu ? row->setup->gpu->name : NULL);
    json_open(w, "predicted", '{');
    for (int q = 0; q < 3; q++) {
        struct range range = value_at(row, q)->predicted;
        json_open(w, keys[q], '{');
        json_put_number(w, "p10", range.low);
        json_put_number(w, "p50", range.mid);
        json_put_number(w, "p90", range.high);
        json_close(w, '}');
    }
    json_close(w, '}');
    json_open(w, "measured", '{');
    for (int q = 0; q < 3; q++)
        json_put_number(w, keys[q], value_at(row, q)->measured);
    json_close(w, '}');
    json_open(w, "error", '{');
    for (int q = 0; q < 3; q++)
        json_put_number(w, keys[q], value_at(row, q)->error);
    json_close(w, '}');
    json_open(w, "inside", '{');
    for (int q = 0; q < 3; q++)
        if (value_at(row, q)->error > 0)
            json_put_bool(w, keys[q], value_at(row, q)->inside);
    json_close(w, '}');
    if (row->judged) {
        json_put_string(w, "outcome", row->run->outcome == RUN_FITS ? "fits" : "out-of-memory");
        json_put_bool(w, "fits", row->fits);
        json_put_number(w, "fit_probability", row->fit_probability);
    }
    json_close(w, '}');
}

// Groups whose coverage or bias is off.
static void write_off(struct json_writer *w, const struct job *job)
{
    const char *keys[256];
    json_open(w, "off", '[');
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        size_t count = distinct(keys, 256, job, &groups[g]);
        for (size_t k = 0; k < count; k++)
            for (int q = VALIDATE_TOKENS; q <= VALIDATE_MEMORY; q++) {
                struct validate_summary s =
                    summary(job, (enum validate_quantity)q, groups[g].keep, keys[k]);
                if (!validate_is_off(&s))
                    continue;
                json_open(w, NULL, '{');
                json_put_string(w, "by", groups[g].json);
                json_put_string(w, "group", keys[k]);
                json_put_string(w, "quantity", quantity_keys[q]);
                json_close(w, '}');
            }
    }
    json_close(w, ']');
}

static void write_json(const struct job *job)
{
    struct out out = { .arena = job->arena };
    struct json_writer w = { .out = &out };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "validation");
    json_put_count(&w, "version", 1);
    json_open(&w, "summary", '{');
    for (int q = 0; q < 3; q++)
        write_summary(&w, quantity_keys[q], summary(job, (enum validate_quantity)q, NULL, NULL));
    json_close(&w, '}');
    const char *keys[256];
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        json_open(&w, groups[g].json, '{');
        size_t count = distinct(keys, 256, job, &groups[g]);
        for (size_t k = 0; k < count; k++) {
            json_open(&w, keys[k], '{');
            for (int q = 0; q < 3; q++)
                write_summary(&w, quantity_keys[q],
                              summary(job, (enum validate_quantity)q, groups[g].keep, keys[k]));
            json_close(&w, '}');
        }
        json_close(&w, '}');
    }
    write_off(&w, job);
    validate_write_fit(&w, job->rows, job->run_count);
    validate_write_series(&w, job->arena, job->rows, job->run_count);
    json_open(&w, "rows", '[');
    for (size_t i = 0; i < job->run_count; i++)
        write_row(&w, &job->rows[i]);
    json_close(&w, ']');
    json_close(&w, '}');
    out_char(&out, '\n');
    print_data(out_view(&out));
}

static void print_fit(const struct job *job, const struct validate_model *model)
{
    struct residual *residuals;
    size_t count =
        validate_residuals(&residuals, job->arena, job->reference, job->reference_count, model);
    struct calibration fit;
    calibration_fit(&fit, job->arena, job->stacks, job->stack_count, residuals, count, NULL);
    struct out out = { .arena = job->arena };
    if (options.evidence)
        evidence_write(&fit.evidence, &out);
    else
        out_put(&out, "stack,family,log_mid,runs,sources\n");
    for (size_t i = 0; !options.evidence && i < fit.stack_count; i++) {
        const struct efficiency *row = &fit.stacks[i];
        out_put(&out, "%s,%s,%.6f,%lld,%lld\n", row->stack, row->family, row->log_mid,
                (long long)row->runs, (long long)row->sources);
    }
    print_data(out_view(&out));
}

// --- the command -------------------------------------------------------------

static enum err read_inputs(struct job *job, const struct command_line *line)
{
    TRY(data_open(&job->catalog, line));
    TRY(stack_read(&job->stacks, &job->stack_count, job->arena, NULL, 0,
                   embedded_file("stacks.json"), "stacks.json"));
    TRY(run_read(&job->reference, &job->reference_count, job->arena, embedded_file("runs.csv"),
                 "runs.csv"));
    job->runs = job->reference;
    job->run_count = job->reference_count;
    if (!line->positional_count)
        return OK;
    struct text text;
    TRY(file_read(&text, job->arena, line->positional[0]));
    return run_read(&job->runs, &job->run_count, job->arena, text, line->positional[0]);
}

static bool is_trainer_alone(const struct validate_row *row, const char *stack)
{
    return row->setup && !strcmp(row->setup->stack->name, stack);
}

static enum err print_objectives(const struct job *job, const struct validate_model *model)
{
    struct validate_summary alone = validate_summarize(job->rows, job->run_count, VALIDATE_TOKENS,
                                                       job->arena, is_trainer_alone, "prime-rl-rl");
    struct out out = print_out(job->arena);
    TRY(rl_run_text(job->arena, model, &alone, options.rows, &out));
    print_text(&out);
    return OK;
}

static enum err run(struct command_line *line)
{
    TRY(command_read(line, list_options(line->arena)));
    if (line->positional_count > 1)
        return fail(ERR_USAGE, "validate takes one file of runs, %d are given",
                    line->positional_count);
    struct job job = { .arena = line->arena };
    TRY(read_inputs(&job, line));
    struct validate_model model = { &job.catalog, job.stacks, job.stack_count };
    if (options.fit || options.evidence) {
        print_fit(&job, &model);
        return OK;
    }
    if (options.objectives && line->common.json)
        return fail(ERR_USAGE, "--objectives prints text only; leave --json out");
    TRY(validate_runs(&job.rows, job.arena, job.runs, job.run_count, job.reference,
                      job.reference_count, &model));
    if (options.objectives)
        return print_objectives(&job, &model);
    if (line->common.json) {
        write_json(&job);
        return OK;
    }
    struct out out = print_out(line->arena);
    put_text(&job, options.rows, &out);
    print_text(&out);
    return OK;
}

static const char *const first[] = { "rows", "json", "objectives", "fit", "evidence", NULL };

static const struct command_example examples[] = {
    { "the forecast's error on all published runs of the catalog", "gpuhours validate" },
    { "on your own runs, a line for each", "gpuhours validate measured.csv --rows" },
    { 0 },
};

const struct command command_validate = {
    .name = "validate",
    .summary = "compare the forecast with measured runs",
    .usage = "[RUNS.csv] [OPTION...]",
    .about =
        "Predicts each measured run without what was learned from its own source, and prints how "
        "far off the predictions are and how often the 80 % range contains the measurement. "
        "docs/reference.md lists the columns of RUNS.csv.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
