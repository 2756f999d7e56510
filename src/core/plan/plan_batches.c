// SPDX-License-Identifier: Apache-2.0
// The batches that a plan simulated on its data, in its document: another plan that starts from it
// knows the padding of every micro-batch without the data.

#include "core/plan/plan_internal.h"

#include <math.h>

// --- writing -----------------------------------------------------------------

static void put_numbers(struct json_writer *w, const char *key, const double *values, int count)
{
    json_open(w, key, '[');
    for (int i = 0; i < count; i++)
        json_put_number(w, NULL, values[i]);
    json_close(w, ']');
}

static void put_shape(struct json_writer *w, const struct workload_shape *shape, bool ordered)
{
    const struct packing_sights *sights = &shape->sights;
    json_open(w, NULL, '{');
    json_put_number(w, "micro_batch", shape->micro_batch);
    json_put_number(w, "fill", shape->fill);
    json_put_number(w, "width", shape->width);
    json_put_number(w, "attended", shape->attended);
    json_put_number(w, "worst_width", shape->worst_width);
    json_put_number(w, "rows", shape->rows);
    json_put_number(w, "spread", shape->spread);
    json_put_number(w, "varies", shape->varies);
    json_put_number(w, "epoch", sights->epoch);
    put_numbers(w, "micro_batches", sights->micro_batches, sights->count);
    put_numbers(w, "widths", sights->widths, sights->count);
    if (ordered) // the order of others tells nothing
        put_numbers(w, "tokens", sights->tokens, sights->count);
    json_close(w, '}');
}

bool plan_knows_mean(const struct plan_request *request)
{
    return request->examples > 0 || !isnan(request->mean_length);
}

bool plan_knows_batches(const struct plan *plan)
{
    const struct plan_batches *batches = plan->request->batches;
    return plan->request->lengths || (batches && plan->rule.shapes == batches->shapes);
}

void plan_put_shapes(struct json_writer *w, const struct plan *plan)
{
    const struct workload_rule *rule = &plan->rule;
    if (!rule->shape_count || rule->only_rows > 0)
        return;
    json_open(w, "shapes", '[');
    for (size_t i = 0; i < rule->shape_count; i++)
        put_shape(w, &rule->shapes[i], rule->batching == BATCHING_GROUPED);
    json_close(w, ']');
}

// --- reading -----------------------------------------------------------------

// The batches of the plan's own micro-batch, as its sums.
static struct workload_shape *read_sums(const struct json *workload, double accumulation,
                                        struct arena *arena)
{
    const struct json *batch = json_get(workload, "batch"), *worst = json_get(workload, "worst");
    double tokens = batch ? json_get_number(batch, "tokens", NAN) : NAN;
    double rows = batch ? json_get_number(batch, "rows", NAN) : NAN;
    double filled = 1 - json_get_number(workload, "padding_share", NAN);
    if (!worst || !(tokens > 0) || !(rows > 0) || !(filled > 0))
        return NULL;
    struct workload_shape *shape = ARENA_NEW(arena, struct workload_shape, 1);
    *shape = (struct workload_shape){
        .micro_batch = rows,
        .fill = filled,
        .width = tokens / rows,
        .attended = json_get_number(batch, "squares", NAN) / tokens,
        .worst_width = json_get_number(worst, "width", NAN),
        .spread = fmax(0, json_get_number(batch, "spread", 0)),
        .varies = fmax(0, json_get_number(batch, "varies", 0)),
        .rows = json_get_number(workload, "processed_tokens", NAN) /
                json_get_number(workload, "epochs", NAN) / (tokens / rows),
    };
    workload_read_widths(&shape->sights, workload, accumulation);
    bool whole = shape->attended > 0 && shape->worst_width > 0 && shape->rows > 0;
    return whole ? shape : NULL;
}

// As many as there are, at most PACKING_SIGHTS.
static int read_numbers(double *out, const struct json *shape, const char *key)
{
    const struct json *list = json_get(shape, key);
    int count = 0;
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++)
        if (count < PACKING_SIGHTS && list->items[i].kind == JSON_NUMBER)
            out[count++] = list->items[i].number;
    return count;
}

// Without any sights where they are not what packing_count_sights() makes.
static void read_sights(struct packing_sights *out, const struct json *shape)
{
    *out = (struct packing_sights){ .epoch = json_get_number(shape, "epoch", NAN) };
    int count = read_numbers(out->micro_batches, shape, "micro_batches");
    bool good = read_numbers(out->widths, shape, "widths") == count && out->epoch > 0;
    read_numbers(out->tokens, shape, "tokens");
    for (int i = 0; i < count; i++)
        good = good && out->micro_batches[i] > (i ? out->micro_batches[i - 1] : 0) &&
               out->widths[i] >= (i ? out->widths[i - 1] : 0);
    out->count = good ? count : 0;
}

static bool read_shape(struct workload_shape *out, const struct json *shape)
{
    *out = (struct workload_shape){
        .micro_batch = json_get_number(shape, "micro_batch", NAN),
        .fill = json_get_number(shape, "fill", NAN),
        .width = json_get_number(shape, "width", NAN),
        .attended = json_get_number(shape, "attended", NAN),
        .worst_width = json_get_number(shape, "worst_width", NAN),
        .rows = json_get_number(shape, "rows", NAN),
        .spread = fmax(0, json_get_number(shape, "spread", 0)),
        .varies = fmax(0, json_get_number(shape, "varies", 0)),
    };
    read_sights(&out->sights, shape);
    const double most = 1e9; // of tokens in a row
    return out->micro_batch >= 1 && out->micro_batch <= 1e6 && out->fill > 0 && out->fill <= 1 &&
           out->width > 0 && out->width <= most && out->attended > 0 && out->attended <= most &&
           out->worst_width > 0 && out->worst_width <= most && out->rows > 0 && out->rows <= 1e15;
}

// By ascending micro-batch. NULL where the document has none, as before 0.9.9.
static struct workload_shape *read_shapes(size_t *count, const struct json *workload,
                                          struct arena *arena)
{
    const struct json *list = json_get(workload, "shapes");
    *count = 0;
    if (!list || list->kind != JSON_ARRAY || !list->count)
        return NULL;
    struct workload_shape *shapes = ARENA_NEW(arena, struct workload_shape, list->count);
    for (; *count < list->count; ++*count) {
        struct workload_shape *shape = &shapes[*count];
        if (list->items[*count].kind != JSON_OBJECT || !read_shape(shape, &list->items[*count]) ||
            (*count && shape->micro_batch <= shape[-1].micro_batch))
            return NULL;
    }
    return shapes;
}

static int batching_of(struct text name)
{
    int batching = 0;
    while (batching < BATCHING_AUTO && !text_is(name, batching_names[batching]))
        batching++;
    return batching;
}

const struct plan_batches *plan_read_batches(const struct json *document, struct arena *arena)
{
    const struct json *workload = json_get(document, "workload");
    const struct json *configuration = json_get(document, "configuration");
    struct plan_batches *out = ARENA_NEW(arena, struct plan_batches, 1);
    if (!workload || !configuration)
        return NULL;
    out->batching = batching_of(json_get_text(configuration, "batching"));
    out->labelled_share = json_get_number(workload, "labelled_tokens", NAN) /
                          json_get_number(workload, "tokens", NAN);
    if (!(out->labelled_share >= 0 && out->labelled_share <= 1))
        out->labelled_share = NAN;
    out->shapes = read_shapes(&out->count, workload, arena);
    if (out->shapes)
        return out;
    out->count = 1;
    out->shapes = read_sums(workload, json_get_number(configuration, "accumulation", 1), arena);
    double rows = json_get_number(configuration, "micro_batch", NAN);
    bool depends = out->batching == BATCHING_LONGEST || out->batching == BATCHING_GROUPED;
    out->only_rows = depends && rows >= 1 && rows <= 65536 ? rows : 0;
    return out->shapes ? out : NULL;
}
