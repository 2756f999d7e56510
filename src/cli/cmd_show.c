// SPDX-License-Identifier: Apache-2.0
// gpuhours show: the catalogs, whole or one row in full.

#include "base/columns.h"
#include "cli/data.h"
#include "cli/prices.h"
#include "cli/terminal/print.h"
#include "core/hosting/offers.h"
#include "host/file.h"

#include <math.h>
#include <string.h>

enum { VALUE_COLUMN = 32 }; // where the values of one row in full begin

struct show {
    struct arena *arena;
    struct catalog catalog;
    struct plan_data data; // the catalog and what goes with it
    struct out out;
    struct json_writer json;
    bool is_json;
    const char *name; // of the row to show in full; NULL: all rows
};

// --- cells -------------------------------------------------------------------

static const char *number(struct arena *arena, double value)
{
    if (isnan(value))
        return "";
    return fabs(value) >= 1e4 && fabs(value) < 1e15 ? text_commas(arena, (int64_t)value)
                                                    : text_format(arena, "%.4g", value);
}

static const char *count(struct arena *arena, int64_t value)
{
    return value ? text_format(arena, "%lld", (long long)value) : "";
}

static const char *bytes(struct arena *arena, double value)
{
    return isnan(value) ? "" : text_bytes(arena, value);
}

static const char *usd(struct arena *arena, double value)
{
    return isnan(value) ? "" : text_usd(arena, value);
}

// A rate in units of 1e9 or 1e12, without the unit that the heading names.
static const char *rate(struct arena *arena, double value, double unit)
{
    return isnan(value) ? "" : text_format(arena, "%.4g", value / unit);
}

static void put_note(struct show *show, const char *text)
{
    out_char(&show->out, '\n');
    out_wrapped(&show->out, 0, 0, text);
}

// --- a row in full -----------------------------------------------------------

static bool is_worth_showing(const struct field *field, const void *row)
{
    if (!field_known(field, row))
        return false;
    if (field->kind == FIELD_FLAG)
        return *(const bool *)((const char *)row + field->offset);
    return field->kind != FIELD_COUNT || field_number(field, row) != 0;
}

// "a|b|c" as "a, b, c".
static const char *listed(struct arena *arena, const char *aliases)
{
    struct out out = { .arena = arena };
    struct text rest = text_of(aliases), alias;
    while (text_next(&rest, '|', &alias))
        out_put(&out, "%s%.*s", out.size ? ", " : "", TEXT_ARGS(alias));
    return out_string(&out);
}

static void put_row(struct show *show, const struct field *fields, const void *row)
{
    if (show->is_json) {
        json_open(&show->json, NULL, '{');
        field_write(fields, row, &show->json);
        json_close(&show->json, '}');
        return;
    }
    for (const struct field *f = fields; f->name; f++) {
        if (!is_worth_showing(f, row))
            continue;
        out_put(&show->out, "%-*s", VALUE_COLUMN, f->name);
        const char *value = field_spell(f, row, show->arena);
        out_wrapped(&show->out, VALUE_COLUMN, VALUE_COLUMN,
                    strcmp(f->name, "aliases") ? value : listed(show->arena, value));
    }
}

static void put_rows_json(struct show *show, const struct field *fields, const void *rows,
                          size_t size, size_t row_count)
{
    for (size_t i = 0; i < row_count; i++)
        put_row(show, fields, (const char *)rows + i * size);
}

// --- models ------------------------------------------------------------------

static void put_linears(struct show *show, const struct model *model)
{
    static const char *const titles[] = { "weights of a layer", "in",    "out", "copies",
                                          "a token passes",     "total", NULL };
    for (int kind = MODEL_DENSE; kind <= MODEL_SPARSE; kind++) {
        struct model_linear linears[MODEL_LINEARS];
        int64_t layers = model_layers(model, (enum model_layer)kind);
        if (!layers)
            continue;
        struct columns columns = { .arena = show->arena, .align = "Lrrrrr", .spare = "000120" };
        columns_add_row(&columns, titles);
        size_t found = model_linears(model, (enum model_layer)kind, linears);
        for (size_t i = 0; i < found; i++) {
            const struct model_linear *l = &linears[i];
            columns_add(&columns, l->name);
            columns_add(&columns, count(show->arena, l->in));
            columns_add(&columns, count(show->arena, l->out));
            columns_add(&columns, count(show->arena, l->count));
            columns_add(&columns, count(show->arena, l->active));
            columns_add(&columns, text_commas(show->arena, l->in * l->out * l->count));
        }
        out_put(&show->out, "\n%lld %s layer%s\n", (long long)layers,
                kind == MODEL_SPARSE ? "sparse" : "dense", text_plural((double)layers));
        columns_write(&columns, &show->out);
    }
}

static enum err show_model(struct show *show)
{
    const struct model *found;
    TRY(data_model(&found, &show->catalog, show->name));
    struct model model = *found;
    model.parameters = model_parameters(&model);
    model.active_parameters = model_active_parameters(&model);
    put_row(show, model_fields, &model);
    if (!show->is_json)
        put_linears(show, &model);
    return OK;
}

// "32/8" where queries share keys, "128×768" for experts.
static const char *pair(struct arena *arena, int64_t a, const char *between, int64_t b)
{
    return text_format(arena, "%lld%s%lld", (long long)a, between, (long long)b);
}

static void add_model(struct show *show, struct columns *columns, const struct model *m)
{
    struct arena *arena = show->arena;
    columns_add(columns, m->name);
    columns_add(columns, text_count(arena, (double)model_parameters(m)));
    columns_add(columns, m->experts ? text_count(arena, (double)model_active_parameters(m)) : "");
    columns_add(columns, count(arena, m->layers));
    columns_add(columns, count(arena, m->width));
    columns_add(columns, pair(arena, m->heads, "/", m->kv_heads));
    columns_add(columns, m->experts ? pair(arena, m->experts, "×", m->expert_width)
                                    : count(arena, m->ffn_width));
    columns_add(columns, count(arena, m->vocabulary));
    columns_add(columns, count(arena, m->max_positions));
}

static enum err show_models(struct show *show)
{
    static const char *const titles[] = { "model", "total", "active", "layers",  "width",
                                          "heads", "ffn",   "vocab",  "context", NULL };
    const struct catalog *c = &show->catalog;
    if (show->name)
        return show_model(show);
    if (show->is_json) {
        put_rows_json(show, model_fields, c->models, sizeof *c->models, c->model_count);
        return OK;
    }
    struct columns columns = { .arena = show->arena, .align = "Lrrrrrrrr", .spare = "001230045" };
    columns_add_row(&columns, titles);
    for (size_t i = 0; i < c->model_count; i++)
        add_model(show, &columns, &c->models[i]);
    columns_write(&columns, &show->out);
    return OK;
}

// --- GPUs and nodes ----------------------------------------------------------

static enum err show_gpus(struct show *show)
{
    static const char *const titles[] = { "GPU",      "memory", "GB/s",      "bf16",
                                          "measured", "fp8",    "link GB/s", "PCIe GB/s",
                                          "watts",    "as of",  NULL };
    const struct catalog *c = &show->catalog;
    if (show->name) {
        const struct gpu *gpu;
        TRY(catalog_gpu(&gpu, c, show->name));
        put_row(show, gpu_fields, gpu);
        return OK;
    }
    if (show->is_json) {
        put_rows_json(show, gpu_fields, c->gpus, sizeof *c->gpus, c->gpu_count);
        return OK;
    }
    struct columns columns = { .arena = show->arena, .align = "lrrrrrrrrl", .spare = "0070645231" };
    columns_add_row(&columns, titles);
    for (size_t i = 0; i < c->gpu_count; i++) {
        const struct gpu *g = &c->gpus[i];
        double half = g->supports_bf16 ? g->bf16_flops_per_s : NAN;
        columns_add(&columns, g->name);
        columns_add(&columns, bytes(show->arena, g->memory_bytes));
        columns_add(&columns, rate(show->arena, g->memory_bytes_per_s, 1e9));
        columns_add(&columns, rate(show->arena, half, 1e12));
        columns_add(&columns, rate(show->arena, g->measured_bf16_flops_per_s, 1e12));
        columns_add(&columns, rate(show->arena, g->fp8_flops_per_s, 1e12));
        columns_add(&columns, rate(show->arena, g->link_bytes_per_s, 1e9));
        columns_add(&columns, rate(show->arena, g->pcie_bytes_per_s, 1e9));
        columns_add(&columns, number(show->arena, g->tdp_watts));
        columns_add(&columns, g->as_of);
    }
    columns_write(&columns, &show->out);
    put_note(show, "bf16, measured (the fastest matrix product found) and fp8 in dense TFLOP/s; "
                   "link and PCIe GB/s per direction.");
    return OK;
}

static enum err show_nodes(struct show *show)
{
    static const char *const titles[] = { "node", "GPU",     "GPUs",        "linked",
                                          "link", "network", "host memory", NULL };
    const struct catalog *c = &show->catalog;
    if (show->name) {
        const struct node *node;
        TRY(catalog_node(&node, c, show->name));
        put_row(show, node_fields, node);
        return OK;
    }
    if (show->is_json) {
        put_rows_json(show, node_fields, c->nodes, sizeof *c->nodes, c->node_count);
        return OK;
    }
    struct columns columns = { .arena = show->arena, .align = "LLrrrrr", .spare = "0001002" };
    columns_add_row(&columns, titles);
    for (size_t i = 0; i < c->node_count; i++) {
        const struct node *n = &c->nodes[i];
        columns_add(&columns, n->name);
        columns_add(&columns, n->gpu);
        columns_add(&columns, count(show->arena, n->gpus));
        columns_add(&columns, count(show->arena, n->link_domain_gpus));
        columns_add(&columns, rate(show->arena, n->link_bytes_per_s, 1e9));
        columns_add(&columns, rate(show->arena, n->network_bytes_per_s_per_gpu, 1e9));
        columns_add(&columns, bytes(show->arena, n->host_memory_bytes));
    }
    columns_write(&columns, &show->out);
    put_note(show, "linked: GPUs that share the link; link and network in GB/s per GPU and "
                   "direction.");
    return OK;
}

// --- facts -------------------------------------------------------------------

static enum err unknown_topic(struct show *show, const struct fact *facts, size_t fact_count)
{
    struct out topics = { .arena = show->arena };
    const char *last = "";
    for (size_t i = 0; i < fact_count; i++) {
        if (strcmp(facts[i].topic, last))
            out_put(&topics, "%s%s", topics.size ? ", " : "", facts[i].topic);
        last = facts[i].topic;
    }
    return fail(ERR_USAGE, "there is no topic \"%s\"; there are %s", show->name,
                out_string(&topics));
}

// With a name, the facts of that topic.
static enum err show_facts(struct show *show, const struct fact *facts, size_t fact_count)
{
    static const char *const titles[] = { "topic", "fact",  "low",   "typical", "high",
                                          "unit",  "trust", "as of", NULL };
    struct columns columns = { .arena = show->arena, .align = "LLrrrLll", .spare = "30000021" };
    size_t found = 0;
    columns_add_row(&columns, titles);
    for (size_t i = 0; i < fact_count; i++) {
        const struct fact *f = &facts[i];
        if (show->name && strcmp(show->name, f->topic))
            continue;
        found++;
        if (show->is_json) {
            put_row(show, fact_fields, f);
            continue;
        }
        columns_add(&columns, f->topic);
        columns_add(&columns, f->item);
        columns_add(&columns, number(show->arena, f->low));
        columns_add(&columns, number(show->arena, f->typical));
        columns_add(&columns, number(show->arena, f->high));
        columns_add(&columns, f->unit);
        columns_add(&columns, f->confidence);
        columns_add(&columns, text_format(show->arena, "%.7s", f->as_of));
    }
    if (!found)
        return unknown_topic(show, facts, fact_count);
    if (!show->is_json)
        columns_write(&columns, &show->out);
    return OK;
}

static enum err show_operations(struct show *show)
{
    return show_facts(show, show->catalog.operations, show->catalog.operation_count);
}

static enum err show_colocation(struct show *show)
{
    return show_facts(show, show->catalog.colocation, show->catalog.colocation_count);
}

// --- offers ------------------------------------------------------------------

// With a name, the offers of that provider or instance, else of that GPU.
static enum err filter(struct show *show, const char **gpu)
{
    const struct catalog *c = &show->catalog;
    for (size_t i = 0; i < c->offer_count; i++)
        if (!strcmp(c->offers[i].provider, show->name) ||
            !strcmp(c->offers[i].instance, show->name))
            return OK;
    const struct gpu *found;
    TRY(catalog_gpu(&found, c, show->name));
    *gpu = found->name;
    return OK;
}

static bool is_shown(const struct show *show, const struct offer *offer, const char *gpu)
{
    if (!show->name)
        return true;
    return gpu ? !strcmp(offer->gpu, gpu)
               : !strcmp(offer->provider, show->name) || !strcmp(offer->instance, show->name);
}

static void add_offer(struct show *show, struct columns *columns, const struct offer *o)
{
    columns_add(columns, o->provider);
    columns_add(columns, o->instance);
    columns_add(columns, o->gpu);
    columns_add(columns, count(show->arena, o->gpus));
    columns_add(columns, o->region);
    columns_add(columns, usd(show->arena, o->on_demand_usd_per_hour));
    columns_add(columns, usd(show->arena, o->spot_usd_per_hour));
    columns_add(columns, usd(show->arena, o->reserved_1y_usd_per_hour));
    columns_add(columns, text_format(show->arena, "%.7s", o->as_of));
}

static enum err show_offers(struct show *show)
{
    static const char *const titles[] = { "provider",  "instance", "GPU",    "GPUs",  "region",
                                          "on demand", "spot",     "1 year", "as of", NULL };
    const struct catalog *c = &show->catalog;
    const char *gpu = NULL;
    if (show->name)
        TRY(filter(show, &gpu));
    struct columns columns = { .arena = show->arena, .align = "LLlrLrrrl", .spare = "000030021" };
    columns_add_row(&columns, titles);
    for (size_t i = 0; i < c->offer_count; i++) {
        if (!is_shown(show, &c->offers[i], gpu))
            continue;
        if (show->is_json)
            put_row(show, offer_fields, &c->offers[i]);
        else
            add_offer(show, &columns, &c->offers[i]);
    }
    if (show->is_json)
        return OK;
    columns_write(&columns, &show->out);
    put_note(show, "USD per hour for the whole instance, as of the date shown.");
    return OK;
}

// --- stacks ------------------------------------------------------------------

static const char *spelled(struct show *show, const struct stack *stack, const char *field)
{
    return field_spell(field_find(stack_fields, text_of(field)), stack, show->arena);
}

// What share of its roofline a stack reaches; the range depends on what it runs.
static const char *reached(struct show *show, const struct stack *stack, int64_t *runs)
{
    struct efficiency e = calibration_of(&show->data.calibration, stack);
    *runs = e.runs;
    return text_format(show->arena, "%.2f", exp(e.log_mid));
}

static enum err show_stacks(struct show *show)
{
    static const char *const titles[] = { "stack",           "kernels", "attention",
                                          "adapters",        "loss",    "launch",
                                          "of its roofline", "runs",    NULL };
    const struct plan_data *data = &show->data;
    if (show->name) {
        const struct stack *stack;
        TRY(stack_find(&stack, data->stacks, data->stack_count, show->name));
        put_row(show, stack_fields, stack);
        return OK;
    }
    if (show->is_json) {
        put_rows_json(show, stack_fields, data->stacks, sizeof *data->stacks, data->stack_count);
        return OK;
    }
    struct columns columns = { .arena = show->arena, .align = "llllrrlr", .spare = "00342100" };
    columns_add_row(&columns, titles);
    for (size_t i = 0; i < data->stack_count; i++) {
        const struct stack *stack = &data->stacks[i];
        int64_t runs;
        const char *share = reached(show, stack, &runs);
        columns_add(&columns, stack->name);
        columns_add(&columns, spelled(show, stack, "kernels"));
        columns_add(&columns, spelled(show, stack, "attention"));
        columns_add(&columns, spelled(show, stack, "adapters"));
        columns_add(&columns, text_format(show->arena, "%g", stack->loss_bytes));
        columns_add(&columns, text_format(show->arena, "%.0f", stack->launch_seconds * 1e6));
        columns_add(&columns, share);
        columns_add(&columns, count(show->arena, runs));
    }
    columns_write(&columns, &show->out);
    put_note(show, "loss: bytes alive per logit; launch: µs of host time per operation; of its "
                   "roofline: speed as a share of the roofline's, median; runs: measured runs that "
                   "it is fitted on (where there are none, it is that of the stack's family).");
    return OK;
}

// --- imported offers ---------------------------------------------------------

static struct import {
    const char *import, *provider, *as_of, *out;
    bool all_regions;
} import;

static const struct field import_fields[] = {
    FIELD(import, import, TEXT, "price catalog to convert to offers.csv; gzip, zstd, zip too",
          .value = "FILE", .fallback = ""),
    FIELD(import, provider, TEXT, "provider of that catalog", .value = "NAME",
          .fallback = "from the file's name"),
    FIELD(import, as_of, DATE, "date of its prices", .fallback = "not known: never recommended"),
    FIELD(import, all_regions, FLAG, "include regions outside the United States"),
    FIELD(import, out, TEXT, "file to write", .value = "FILE", .fallback = "standard output"),
    { 0 },
};

static const struct options groups[] = { OPTIONS("show offers --import", import_fields, &import),
                                         { 0 } };

static const struct options *list_options(struct arena *arena)
{
    (void)arena;
    import = (struct import){ 0 };
    return groups;
}

static enum err import_offers(struct show *show)
{
    struct offers_source source = {
        .catalog = &show->catalog,
        .provider = import.provider,
        .as_of = import.as_of,
        .all_regions = import.all_regions,
    };
    struct offers offers;
    struct offers_report report;
    struct out table = { .arena = show->arena, .columns = show->out.columns };
    TRY(prices_read(&offers, &report, show->arena, &source, import.import));
    print_note("%s: %zu offer%s from %zu row%s", import.import, offers.count,
               text_plural((double)offers.count), report.rows, text_plural((double)report.rows));
    offers_report_text(&report, show->arena, &table);
    print_error(out_string(&table));
    offers_write(&offers, &show->out);
    return file_write(import.out ? import.out : "-", out_view(&show->out));
}

// --- command -----------------------------------------------------------------

static const char *const view_names[] = { "models", "gpus",       "nodes",  "operations",
                                          "offers", "colocation", "stacks", NULL };
static enum err (*const views[])(struct show *show) = {
    show_models, show_gpus, show_nodes, show_operations, show_offers, show_colocation, show_stacks,
};
enum { VIEWS = sizeof views / sizeof *views };
_Static_assert(sizeof view_names / sizeof *view_names == VIEWS + 1, "a name for each catalog");

static enum err find_view(int *out, const char *name)
{
    for (*out = 0; *out < VIEWS; ++*out)
        if (!strcmp(name, view_names[*out]))
            return OK;
    const char *near = text_nearest(text_of(name), view_names, VIEWS);
    if (near)
        return fail(ERR_USAGE, "there is no catalog \"%s\"; did you mean %s?", name, near);
    return fail(ERR_USAGE,
                "there is no catalog \"%s\"; there are models, gpus, nodes, operations, "
                "offers, colocation, stacks",
                name);
}

static enum err run(struct command_line *line)
{
    TRY(command_read(line, list_options(line->arena)));
    if (line->positional_count < 1 || line->positional_count > 2)
        return fail(ERR_USAGE, "show needs a catalog: gpuhours show "
                               "models|gpus|nodes|operations|offers|colocation|stacks [NAME]");
    int view;
    TRY(find_view(&view, line->positional[0]));
    struct show show = { .arena = line->arena,
                         .is_json = line->common.json,
                         .name = line->positional_count > 1 ? line->positional[1] : NULL };
    TRY(data_plan(&show.data, line));
    show.catalog = show.data.catalog;
    show.out = print_out(line->arena);
    show.json.out = &show.out;
    if (import.import && views[view] != show_offers)
        return fail(ERR_USAGE, "--import reads prices; use gpuhours show offers --import %s",
                    import.import);
    if (import.import)
        return import_offers(&show);
    if (show.is_json) {
        json_open(&show.json, NULL, '{');
        json_put_string(&show.json, "kind", view_names[view]);
        json_put_count(&show.json, "version", 1);
        json_open(&show.json, "rows", '[');
    }
    TRY(views[view](&show));
    if (show.is_json) {
        json_close(&show.json, ']');
        json_close(&show.json, '}');
        out_char(&show.out, '\n');
        print_data(out_view(&show.out));
    } else {
        print_text(&show.out);
    }
    return OK;
}

static const char *const first[] = { "json", "catalog", NULL };

static const struct command_example examples[] = {
    { "all GPUs", "gpuhours show gpus" },
    { "one GPU, with the source of each figure", "gpuhours show gpus h100" },
    { "what it costs to rent it", "gpuhours show offers h100" },
    { "training stacks that a plan can assume", "gpuhours show stacks" },
    { 0 },
};

const struct command command_show = {
    .name = "show",
    .summary = "list the catalogs of models, GPUs, nodes, offers and stacks",
    .usage = "models | gpus | nodes | operations | offers | colocation | stacks [NAME]",
    .about = "Lists a catalog, or shows one row of it in full with source and date. --import "
             "converts the catalog of SkyPilot or gpuhunt, AWS's price list or Azure's retail "
             "prices into offers.csv, which --offers of plan and hosts reads, and lists what was "
             "taken, what was refused, and why.",
    .first = first,
    .words = view_names,
    .examples = examples,
    .run = run,
    .options = list_options,
};
