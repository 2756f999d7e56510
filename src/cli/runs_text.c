// SPDX-License-Identifier: Apache-2.0
// What `gpuhours runs` prints: the list, one entry in full, several side by side, and coverage.

#include "base/columns.h"
#include "cli/runs.h"

#include <math.h>
#include <string.h>

// --- cells -------------------------------------------------------------------

// The end of a path says more than its beginning.
static const char *last_part(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash && slash[1] ? slash + 1 : path;
}

static bool is_cpu(const struct history_entry *e)
{
    return e->gpu && !strcmp(e->gpu, "cpu");
}

static const char *gpus_of(struct arena *arena, const struct history_entry *e)
{
    if (!e->gpu)
        return "";
    return text_format(arena, "%lld×%s", (long long)(e->gpus ? e->gpus : 1), e->gpu);
}

static const char *rate(struct arena *arena, double value)
{
    return isnan(value)   ? ""
           : value >= 100 ? text_commas(arena, llround(value))
                          : text_format(arena, "%.3g", value);
}

static const char *hours(struct arena *arena, double value)
{
    return isnan(value) ? "" : text_hours(arena, value);
}

static const char *between(struct arena *arena, const struct range *range,
                           const char *(*spell)(struct arena *, double))
{
    if (isnan(range->mid))
        return "";
    return text_format(arena, "%s–%s", spell(arena, range->low), spell(arena, range->high));
}

// --- the list ----------------------------------------------------------------

void runs_list(const struct history_entry *entries, size_t count, struct arena *arena,
               struct out *out)
{
    static const char *const titles[] = { "id",   "date",  "kind",      "model",  "stack", "method",
                                          "GPUs", "tok/s", "GPU hours", "actual", "name",  NULL };
    struct columns columns = { .arena = arena, .align = "rllLLlLrrrL", .spare = "05402103000" };
    columns_add_row(&columns, titles);
    for (size_t i = 0; i < count; i++) {
        const struct history_entry *e = &entries[i];
        double speed = isnan(e->actual_tokens_per_second) ? e->tokens_per_second.mid
                                                          : e->actual_tokens_per_second;
        columns_add(&columns, text_format(arena, "%lld", (long long)e->id));
        columns_add(&columns, text_format(arena, "%.10s", e->at));
        columns_add(&columns, history_kinds[e->kind]);
        columns_add(&columns, last_part(e->model));
        columns_add(&columns, e->stack);
        columns_add(&columns, e->method);
        columns_add(&columns, gpus_of(arena, e));
        columns_add(&columns, rate(arena, speed));
        columns_add(&columns, between(arena, &e->gpu_hours, hours));
        columns_add(&columns, is_cpu(e) ? "" : hours(arena, e->actual_gpu_hours));
        columns_add(&columns, e->name);
    }
    columns_write(&columns, out);
}

// --- one in full -------------------------------------------------------------

static void put_forecast(struct columns *columns, const char *what, const struct range *forecast,
                         double actual, const char *(*spell)(struct arena *, double))
{
    struct arena *arena = columns->arena;
    bool both = !isnan(forecast->mid) && !isnan(actual);
    if (isnan(forecast->mid) && isnan(actual))
        return;
    columns_add(columns, what);
    columns_add(columns, isnan(forecast->mid) ? "" : spell(arena, forecast->mid));
    columns_add(columns, between(arena, forecast, spell));
    columns_add(columns, isnan(actual) ? "" : spell(arena, actual));
    columns_add(columns, !both                                                 ? ""
                         : actual >= forecast->low && actual <= forecast->high ? "inside"
                         : actual < forecast->low                              ? "below"
                                                                               : "above");
}

static void put_numbers(const struct history_entry *e, struct arena *arena, struct out *out)
{
    static const char *const titles[] = { "", "P50", "P10–P90", "actual", "", NULL };
    struct columns columns = { .arena = arena, .align = "lrrrl" };
    columns_add_row(&columns, titles);
    put_forecast(&columns, "tokens/s", &e->tokens_per_second, e->actual_tokens_per_second, rate);
    put_forecast(&columns, "wall hours", &e->wall_hours, e->actual_wall_hours, hours);
    if (!is_cpu(e)) // of a run on a CPU the wall hours say all
        put_forecast(&columns, "GPU hours", &e->gpu_hours, e->actual_gpu_hours, hours);
    if (columns.count > 5) {
        out_char(out, '\n');
        columns_write(&columns, out);
    }
}

// The members of a configuration as text; nested ones as JSON.
static size_t members(const char *configuration, struct arena *arena, const char ***names,
                      const char ***values)
{
    struct json_reader in = json_reader(text_of(configuration ? configuration : "{}"));
    struct text key;
    size_t count = 0, room = 64;
    *names = ARENA_NEW(arena, const char *, room);
    *values = ARENA_NEW(arena, const char *, room);
    json_object(&in);
    while (count < room && json_key(&in, arena, &key)) {
        bool is_string = json_peek(&in) == JSON_STRING;
        struct text value = is_string ? json_string(&in, arena) : text_trim(json_skip(&in));
        if (in.problem || (!is_string && text_is(value, "null")))
            continue;
        (*names)[count] = text_one_line(arena, key);
        (*values)[count++] = text_one_line(arena, value);
    }
    return count;
}

static void put_related(const struct history_entry *entry, const struct history_entry *others,
                        size_t count, struct out *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct history_entry *o = &others[i];
        bool answers = o->plan && !strcmp(o->plan, entry->uid);
        bool answered = entry->plan && !strcmp(entry->plan, o->uid);
        if (answers || answered)
            out_put(out, "%-20s  %lld, a %s of %.10s\n", answers ? "measured by" : "measures",
                    (long long)o->id, history_kinds[o->kind], o->at);
    }
}

// The last loss that a run's document has; NULL: none.
static const char *loss_of(const struct history_entry *entry, struct arena *arena)
{
    struct json tree;
    if (!entry->document || json_read(&tree, arena, text_of(entry->document), "document"))
        return NULL;
    double loss = json_get_number(&tree, "loss", json_get_number(&tree, "held_out_loss", NAN));
    return isnan(loss) ? NULL : text_format(arena, "%.4g", loss);
}

// What later plans learn from an entry; NULL: nothing was measured.
static const char *lesson_of(const struct history_entry *entry, struct arena *arena)
{
    const char *lacks = history_lacks(entry);
    if (entry->kind != HISTORY_PILOT && entry->kind != HISTORY_RUN)
        return NULL;
    if (lacks)
        return text_format(arena, "learn nothing: %s", lacks);
    return text_format(arena, "learn from its speed; gpuhours runs delete %lld forgets it",
                       (long long)entry->id);
}

void runs_show(const struct history_entry *entry, const struct history_entry *others, size_t count,
               struct arena *arena, struct out *out)
{
    const char *const lines[][2] = {
        { "id", text_format(arena, "%lld", (long long)entry->id) },
        { "kind", history_kinds[entry->kind] },
        { "at", entry->at },
        { "name", entry->name },
        { "program", entry->program },
        { "key", entry->key },
        { "tokens", isnan(entry->tokens) ? NULL : text_count(arena, entry->tokens) },
        { "final loss", loss_of(entry, arena) },
        { "later plans", lesson_of(entry, arena) },
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (lines[i][1])
            out_put(out, "%-20s  %s\n", lines[i][0], text_one_line(arena, text_of(lines[i][1])));
    put_related(entry, others, count, out);
    put_numbers(entry, arena, out);
    const char **names, **values;
    size_t found = members(entry->configuration, arena, &names, &values);
    for (size_t i = 0; i < found; i++)
        out_put(out, "%s%-20s  %s\n", i ? "" : "\n", names[i], values[i]);
}

// --- side by side ------------------------------------------------------------

enum { MOST_ROWS = 128 };

struct comparison {
    const char *names[MOST_ROWS];
    const char **cells[MOST_ROWS]; // of each entry; NULL: it has none
    size_t rows, entries;
    struct arena *arena;
};

static const char **row_of(struct comparison *c, const char *name)
{
    for (size_t i = 0; i < c->rows; i++)
        if (!strcmp(c->names[i], name))
            return c->cells[i];
    if (c->rows == MOST_ROWS)
        return NULL;
    c->names[c->rows] = name;
    return c->cells[c->rows++] = ARENA_NEW(c->arena, const char *, c->entries);
}

static void add_fields(struct comparison *c, const struct history_entry *e, size_t at)
{
    for (const struct field *f = history_fields; f->name; f++) {
        bool is_plain = strcmp(f->name, "id") && strcmp(f->name, "uid") && strcmp(f->name, "key") &&
                        strcmp(f->name, "configuration") && strcmp(f->name, "document") &&
                        strcmp(f->name, "plan");
        bool is_zero = f->kind == FIELD_COUNT && !field_number(f, e);
        const char **cells = is_plain ? row_of(c, f->name) : NULL;
        if (cells && field_known(f, e) && !is_zero)
            cells[at] = field_spell(f, e, c->arena);
    }
    const char **names, **values;
    size_t found = members(e->configuration, c->arena, &names, &values);
    for (size_t i = 0; i < found; i++) {
        const char **cells = row_of(c, names[i]);
        if (cells && !cells[at])
            cells[at] = values[i];
    }
}

static bool is_equal(const struct comparison *c, size_t row)
{
    for (size_t i = 1; i < c->entries; i++) {
        const char *a = c->cells[row][0], *b = c->cells[row][i];
        if (a != b && (!a || !b || strcmp(a, b)))
            return false;
    }
    return true;
}

void runs_compare(const struct history_entry *const *entries, size_t count, struct arena *arena,
                  struct out *out)
{
    struct comparison c = { .entries = count, .arena = arena };
    for (size_t i = 0; i < count; i++)
        add_fields(&c, entries[i], i);
    char *align = arena_alloc(arena, count + 2);
    memset(align, 'L', count + 1);
    struct columns columns = { .arena = arena, .align = align };
    columns_add(&columns, "id");
    for (size_t i = 0; i < count; i++)
        columns_add(&columns, text_format(arena, "%lld", (long long)entries[i]->id));
    for (size_t row = 0; row < c.rows; row++) {
        if (is_equal(&c, row))
            continue;
        columns_add(&columns, c.names[row]);
        for (size_t i = 0; i < count; i++)
            columns_add(&columns, c.cells[row][i] ? c.cells[row][i] : "–");
    }
    columns_write(&columns, out);
    out_put(out, "\nidentical in all\n");
    for (size_t row = 0; row < c.rows; row++)
        if (is_equal(&c, row) && c.cells[row][0])
            out_put(out, "  %-30s  %s\n", c.names[row], c.cells[row][0]);
}

// --- coverage ----------------------------------------------------------------

static void put_held(struct columns *columns, const struct history_held *held)
{
    struct arena *arena = columns->arena;
    columns_add(columns, held->n ? text_format(arena, "%lld of %lld", (long long)held->inside,
                                               (long long)held->n)
                                 : "");
    columns_add(columns, held->n ? text_format(arena, "%.3f", held->median_error) : "");
}

static void put_coverage(struct columns *columns, const char *stack, const char *gpu,
                         const struct history_coverage *coverage)
{
    columns_add(columns, stack);
    columns_add(columns, gpu);
    put_held(columns, &coverage->tokens_per_second);
    put_held(columns, &coverage->wall_hours);
    put_held(columns, &coverage->gpu_hours);
}

static void write_held(struct json_writer *w, const char *key, const struct history_held *held)
{
    json_open(w, key, '{');
    json_put_count(w, "n", held->n);
    json_put_count(w, "inside", held->inside);
    json_put_number(w, "coverage", held->n ? (double)held->inside / (double)held->n : NAN);
    json_put_number(w, "median_error", held->n ? held->median_error : NAN);
    json_close(w, '}');
}

static void write_coverage(struct json_writer *w, const char *key, const char *stack,
                           const char *gpu, const struct history_coverage *coverage)
{
    json_open(w, key, '{');
    if (!key) {
        json_put_string(w, "stack", stack);
        json_put_string(w, "gpu", gpu);
    }
    write_held(w, "tokens_per_second", &coverage->tokens_per_second);
    write_held(w, "wall_hours", &coverage->wall_hours);
    write_held(w, "gpu_hours", &coverage->gpu_hours);
    json_close(w, '}');
}

static bool is_counted(const struct history_coverage *c)
{
    return c->tokens_per_second.n || c->wall_hours.n || c->gpu_hours.n;
}

static bool is_first(const struct history_entry *entries, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (entries[i].stack && entries[i].gpu && !strcmp(entries[i].stack, entries[at].stack) &&
            !strcmp(entries[i].gpu, entries[at].gpu))
            return false;
    return true;
}

void runs_coverage(const struct history_entry *entries, size_t count, struct arena *arena,
                   struct out *out, bool is_json)
{
    static const char *const titles[] = { "stack", "GPU",       "tokens/s", "error", "wall hours",
                                          "error", "GPU hours", "error",    NULL };
    struct columns columns = { .arena = arena, .align = "LLrrrrrr", .spare = "00023010" };
    struct json_writer w = { .out = out };
    struct history_coverage all = history_coverage(arena, entries, count, NULL, NULL);
    columns_add_row(&columns, titles);
    if (is_json) {
        json_open(&w, NULL, '{');
        json_put_string(&w, "kind", "coverage");
        json_put_count(&w, "version", 1);
        write_coverage(&w, "summary", NULL, NULL, &all);
        json_open(&w, "rows", '[');
    }
    for (size_t i = 0; i < count; i++) {
        const char *stack = entries[i].stack, *gpu = entries[i].gpu;
        if (!stack || !gpu || !is_first(entries, i))
            continue;
        struct history_coverage one = history_coverage(arena, entries, count, stack, gpu);
        if (is_counted(&one) && is_json)
            write_coverage(&w, NULL, stack, gpu, &one);
        else if (is_counted(&one))
            put_coverage(&columns, stack, gpu, &one);
    }
    if (is_json) {
        json_close(&w, ']');
        json_close(&w, '}');
        out_char(out, '\n');
        return;
    }
    put_coverage(&columns, "all", "", &all);
    columns_write(&columns, out);
    out_put(out,
            "\nHow many measured values lay inside the 80 %% range (P10 to P90); 8 of 10 if the "
            "ranges are\nright. error: median factor between measured value and P50; 1.08 is 8 %% "
            "off.\n");
}
