// SPDX-License-Identifier: Apache-2.0
// Reads a plan's JSON document back as a request.

#include "core/hosting/hosting.h"

#include <math.h>
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

static enum err read_assumptions(struct plan_request *out, struct hosting_document *document,
                                 struct arena *arena, const struct json *list, double examples)
{
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++) {
        const struct json *item = &list->items[i];
        struct text name = json_get_text(item, "name"), origin = json_get_text(item, "origin");
        if (text_is(name, "efficiency of the stack"))
            read_efficiency(&document->efficiency, item);
        if (text_is(name, "padding")) {
            double mid = json_get_number(item, "value", NAN);
            document->padding_share = (struct range){ json_get_number(item, "low", mid), mid,
                                                      json_get_number(item, "high", mid) };
        }
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

enum err hosting_read_plan(struct plan_request *out, struct hosting_document *document,
                           struct arena *arena, struct text json, const char *name)
{
    struct json tree;
    TRY(json_read(&tree, arena, json, name));
    const struct json *workload = json_get(&tree, "workload");
    const struct json *configuration = json_get(&tree, "configuration");
    if (!text_is(json_get_text(&tree, "kind"), "plan") || !workload || !configuration ||
        configuration->kind != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: is not a plan; gpuhours plan --json writes one", name);
    *out = plan_request_default();
    *document = (struct hosting_document){
        .efficiency = { .log_mid = NAN, .log_spread = NAN },
        .padding_share = { NAN, NAN, NAN },
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
    return read_assumptions(out, document, arena, json_get(&tree, "assumptions"), examples);
}

void hosting_adopt(struct hosting_input *input, struct plan *plan, const struct hosting_document *d)
{
    if (!isnan(d->efficiency.log_mid)) {
        plan->efficiency.log_mid = d->efficiency.log_mid;
        plan->efficiency.log_spread = d->efficiency.log_spread;
        plan->efficiency.slow_tail = d->efficiency.slow_tail;
    }
    // Processed tokens are the tokens of the data over one minus the share of padding.
    struct range padding = d->padding_share;
    if (padding.low >= 0 && padding.low <= padding.mid && padding.mid <= padding.high &&
        padding.high < 1)
        input->processed_factor = (struct range){ (1 - padding.mid) / (1 - padding.low), 1,
                                                  (1 - padding.mid) / (1 - padding.high) };
    double ranks = d->global_batch / (d->micro_batch * d->accumulation);
    if (!(d->processed_tokens > 0) || !(d->micro_batch >= 1) || !(ranks >= 1) || ranks > 1e6)
        return;
    struct workload same;
    workload_make(&same, &plan->rule, d->micro_batch, rint(ranks), d->global_batch);
    double scale = d->processed_tokens / same.processed_tokens;
    if (scale > 0.01 && scale < 100)
        input->processed_scale = scale;
}
