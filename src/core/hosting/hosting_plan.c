// SPDX-License-Identifier: Apache-2.0
// Reads a plan's JSON document back as a request.

#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

// The name of an assumption in the document, and the option that sets it.
static const struct {
    const char *name, *option;
} given[] = {
    { "start-up", "startup" },
    { "compilation", "compile" },
    { "storage throughput", "storage" },
    { "evaluation share", "eval_share" },
    { "evaluations", "evals_per_epoch" },
    { "failures", "failures_per_gpu_hour" },
    { "retries", "retries" },
    { "failed runs", "failed_runs" },
    { "save interval", "save_interval" },
    { "labelled share", "labelled_share" },
};

// Of the plan's own GPUs: the name of an assumption in the document, and where it belongs.
static const struct {
    const char *name;
    size_t at;
} own[] = {
    { "start-up", offsetof(struct overheads, startup_seconds) },
    { "compilation", offsetof(struct overheads, compile_seconds) },
    { "compilations", offsetof(struct overheads, compilations) },
    { "first sight of a width", offsetof(struct overheads, first_width_seconds) },
    { "first steps", offsetof(struct overheads, first_steps_seconds) },
    { "first evaluation", offsetof(struct overheads, first_evaluation_seconds) },
    { "evaluation", offsetof(struct overheads, evaluation_seconds) },
    { "save", offsetof(struct overheads, save_seconds) },
    { "recurring stalls", offsetof(struct overheads, stall_share) },
};
static const char evaluated_token[] = "evaluated token"; // beside them: overheads.eval_cost

// Keys of the configuration that each offer chooses for itself.
static const char *const free_keys[] = { "parallel",      "micro_batch", "accumulation",
                                         "checkpointing", "nodes",       NULL };

static bool is_free(struct text key)
{
    for (size_t i = 0; free_keys[i]; i++)
        if (text_is(key, free_keys[i]))
            return true;
    return false;
}

static void read_efficiency(struct efficiency *out, const struct json *assumption)
{
    double mid = json_get_number(assumption, "value", NAN);
    double low = json_get_number(assumption, "low", mid);
    double high = json_get_number(assumption, "high", mid);
    const double least = 1e-4, most = 100; // of the roofline: what is beyond was not measured
    if (!(low >= least && high <= most && low <= mid && mid <= high))
        return;
    out->log_mid = log(mid);
    out->log_spread = log(high / mid) / STATS_P90;
    out->slow_tail = high > mid ? fmax(0, log(mid / low) / log(high / mid) - 1) : 0;
}

static int origin_named(struct text name)
{
    for (int i = 0; i < ASSUMPTION_ORIGINS; i++)
        if (text_is(name, assumption_origins[i]))
            return i;
    return ASSUMPTION_ASSUMED;
}

// Keeps an assumption about the plan's own GPUs.
static void keep_overhead(struct hosting_document *document, struct arena *arena,
                          const struct json *item)
{
    const double most = 1e9; // seconds
    struct text name = json_get_text(item, "name");
    double mid = json_get_number(item, "value", NAN);
    struct range value = { json_get_number(item, "low", mid), mid,
                           json_get_number(item, "high", mid) };
    bool is_own = text_is(name, evaluated_token);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        is_own = is_own || text_is(name, own[i].name);
    if (is_own && value.low >= 0 && value.low <= mid && mid <= value.high && value.high <= most)
        document->overheads[document->overhead_count++] = (struct assumption){
            .name = text_copy(arena, name),
            .unit = json_copy_text(arena, item, "unit"),
            .value = value,
            .origin = (enum assumption_origin)origin_named(json_get_text(item, "origin")),
            .source = json_copy_text(arena, item, "source"),
            .as_of = json_copy_text(arena, item, "as_of"),
        };
}

void hosting_take_overheads(struct overheads *out, const struct hosting_document *document)
{
    for (size_t k = 0; k < document->overhead_count; k++) {
        const struct assumption *a = &document->overheads[k];
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            if (!strcmp(a->name, own[i].name))
                *(struct assumption *)((char *)out + own[i].at) = *a;
        if (!strcmp(a->name, evaluated_token))
            out->eval_cost = a->value.mid;
        if (!strcmp(a->name, "start-up") && a->origin == ASSUMPTION_MEASURED)
            out->startup_loads = true, out->load_bytes = 0; // a pilot measured both at once
    }
}

const char *hosting_measured_words(const struct hosting_document *document, struct arena *arena)
{
    struct out out = { .arena = arena };
    for (size_t i = 0; document->pilot && i < document->overhead_count; i++) {
        const struct assumption *a = &document->overheads[i];
        if (a->origin == ASSUMPTION_MEASURED && a->source && !strcmp(a->source, document->pilot))
            out_put(&out, "%s%s", out.size ? ", " : "", a->name);
    }
    return out_string(&out);
}

static struct range range_of(const struct json *assumption)
{
    double mid = json_get_number(assumption, "value", NAN);
    return (struct range){ json_get_number(assumption, "low", mid), mid,
                           json_get_number(assumption, "high", mid) };
}

static enum err read_assumptions(struct plan_request *out, struct hosting_document *document,
                                 struct arena *arena, const struct json *list, double examples)
{
    bool is_list = list && list->kind == JSON_ARRAY;
    document->overheads = ARENA_NEW(arena, struct assumption, is_list ? list->count + 1 : 1);
    for (size_t i = 0; is_list && i < list->count; i++) {
        const struct json *item = &list->items[i];
        keep_overhead(document, arena, item);
        struct text name = json_get_text(item, "name"), origin = json_get_text(item, "origin");
        if (text_is(name, "efficiency of the stack"))
            read_efficiency(&document->efficiency, item);
        if (text_is(name, "padding"))
            document->padding_share = range_of(item);
        if (text_is(name, "tokens"))
            document->tokens = range_of(item);
        bool known = text_is(origin, "given") || text_is(origin, "measured");
        if (text_is(name, "mean length") && known && examples >= 1 && examples <= 1e15)
            out->examples = (int64_t)examples;
        for (size_t k = 0; text_is(origin, "given") && k < sizeof given / sizeof *given; k++) {
            double value = json_get_number(item, "value", NAN);
            const struct field *field = field_find(plan_fields, text_of(given[k].option));
            if (text_is(name, given[k].name) && field && !isnan(value))
                TRY(field_set(field, out, arena, text_of(text_format(arena, "%.17g", value))));
        }
    }
    return OK;
}

// Reads the members of the configuration that are options of a request.
static enum err read_configuration(struct plan_request *out, struct arena *arena,
                                   const struct json *configuration, const char *name)
{
    for (size_t i = 0; i < configuration->count; i++) {
        const struct json *key = &configuration->items[2 * i];
        const struct field *field = field_find(plan_fields, key->string);
        void *object = out;
        if (!field) {
            field = field_find(recipe_fields, key->string);
            object = &out->recipe;
        }
        if (!field || is_free(key->string) || key[1].kind == JSON_NULL)
            continue;
        struct json pair = { .kind = JSON_OBJECT,
                             .items = &configuration->items[2 * i],
                             .count = 1 };
        TRY(field_read((const struct field[]){ *field, { 0 } }, object, arena, &pair, name, true));
    }
    return OK;
}

// What the plan was given rather than chose, and the layout that it has.
static enum err read_given(struct plan_request *out, struct hosting_document *document,
                           struct arena *arena, const struct json *tree)
{
    const struct json *request = json_get(tree, "request"), *pilot = json_get(tree, "pilot");
    struct text none = { 0 };
    struct text rows = request ? json_get_text(request, "micro_batch") : none,
                level = request ? json_get_text(request, "checkpointing") : none;
    struct recipe recipe = recipe_default();
    if (level.at)
        TRY(field_set(field_find(recipe_fields, TEXT("checkpointing")), &recipe, arena, level));
    document->checkpointing = recipe.checkpointing;
    document->pilot = pilot ? json_copy_text(arena, pilot, "source") : NULL;
    if (!(document->micro_batch >= 1 && document->micro_batch <= 65536))
        return OK;
    document->parallel = json_copy_text(arena, json_get(tree, "configuration"), "parallel");
    document->rows_given = rows.at && !text_is(rows, "auto");
    if (document->rows_given)
        out->micro_batch = text_format(arena, "%.0f", document->micro_batch);
    return OK;
}

enum err hosting_read_plan(struct plan_request *out, struct hosting_document *document,
                           struct arena *arena, struct text json, const char *name)
{
    struct json tree;
    TRY(json_read_document(&tree, arena, json, name, "plan"));
    const struct json *workload = json_get(&tree, "workload");
    const struct json *configuration = json_get(&tree, "configuration");
    bool configured = configuration && configuration->kind == JSON_OBJECT;
    if (!workload || !configured)
        return fail(ERR_INPUT, "%s: lacks \"%s\"; gpuhours plan --json writes whole plans", name,
                    configured ? "workload" : "configuration");
    *out = plan_request_default();
    *document = (struct hosting_document){
        .efficiency = { .log_mid = NAN, .log_spread = NAN },
        .padding_share = { NAN, NAN, NAN },
        .tokens = { NAN, NAN, NAN },
        .processed_tokens = json_get_number(workload, "processed_tokens", NAN),
        .micro_batch = json_get_number(configuration, "micro_batch", NAN),
        .accumulation = json_get_number(configuration, "accumulation", NAN),
        .global_batch = json_get_number(configuration, "global_batch", NAN),
    };
    TRY(read_configuration(out, arena, configuration, name));
    TRY(plan_read_model(&out->shape, &out->shape_of, arena, &tree, name));
    if (out->shape)
        out->model = out->shape_of;
    double tokens = json_get_number(workload, "tokens", NAN);
    double examples = json_get_number(workload, "examples", NAN);
    if (!(tokens >= 1 && tokens <= 1e15))
        return fail(ERR_INPUT, "%s: workload has no tokens; gpuhours plan --json writes them",
                    name);
    out->tokens = (int64_t)tokens;
    out->epochs = json_get_number(workload, "epochs", NAN);
    plan_read_images(out, arena, &tree);
    // A mean length of the whole context means that every row was assumed to fill it; a batching
    // given explicitly would undo that.
    if (json_get_number(workload, "mean_length", NAN) >= (double)out->context &&
        out->batching != BATCHING_PACKED)
        out->batching = BATCHING_AUTO;
    out->recipe.checkpointing = RECIPE_AUTO;
    out->search = false;
    if (json_get(workload, "shapes"))
        out->batches = plan_read_batches(&tree, arena);
    TRY(read_assumptions(out, document, arena, json_get(&tree, "assumptions"), examples));
    TRY(read_given(out, document, arena, &tree));
    document->request = *out;
    return OK;
}

// The options of a request, for comparison.
static const char *spell(const struct plan_request *request, struct arena *arena)
{
    struct out out = { .arena = arena };
    struct json_writer w = { .out = &out };
    plan_request_write(request, arena, NULL, &w);
    return out_string(&out);
}

void hosting_keep_run(struct plan_request *request, struct hosting_document *document,
                      struct arena *arena)
{
    const struct plan_request *former = &document->request;
    document->job_is_kept =
        document->parallel && !strcmp(spell(request, arena), spell(former, arena));
    if (document->job_is_kept) {
        request->parallel = document->parallel;
        request->micro_batch = text_format(arena, "%.0f", document->micro_batch);
        request->recipe.checkpointing = document->checkpointing;
        return;
    }
    bool same = request->context == former->context && request->batching == former->batching &&
                request->packing == former->packing && request->tokens == former->tokens &&
                request->pad_to_multiple_of == former->pad_to_multiple_of;
    if (!same)
        request->batches = NULL;
}

void hosting_adopt(struct hosting_input *input, struct plan *plan, const struct hosting_document *d)
{
    input->planned = d->job_is_kept ? d : NULL;
    if (!isnan(d->efficiency.log_mid)) {
        plan->efficiency.log_mid = d->efficiency.log_mid;
        plan->efficiency.log_spread = d->efficiency.log_spread;
        plan->efficiency.slow_tail = d->efficiency.slow_tail;
    }
    // Processed tokens are the tokens of the data over one minus the share of padding. Of the two
    // one is certain: lengths that are assumed come with a count that is given.
    struct range padding = d->padding_share, tokens = d->tokens;
    if (padding.low >= 0 && padding.low <= padding.mid && padding.mid <= padding.high &&
        padding.high < 1)
        input->lengths_factor = (struct range){ (1 - padding.mid) / (1 - padding.low), 1,
                                                (1 - padding.mid) / (1 - padding.high) };
    if (padding.low == padding.high && tokens.low > 0 && tokens.low < tokens.high)
        input->lengths_factor =
            (struct range){ tokens.low / tokens.mid, 1, tokens.high / tokens.mid };
    double ranks = d->global_batch / (d->micro_batch * d->accumulation);
    if (!(d->processed_tokens > 0) || !(d->micro_batch >= 1) || !(ranks >= 1) || ranks > 1e6)
        return;
    struct workload like;
    workload_make(&like, &plan->rule, d->micro_batch, rint(ranks), d->global_batch);
    double scale = d->processed_tokens / like.processed_tokens;
    if (scale > 0.01 && scale < 100)
        input->processed_scale = scale;
}
