// SPDX-License-Identifier: Apache-2.0
// Reads and checks the CSV tables of models, GPUs, nodes, offers and facts, and finds their rows.

#include "core/step/catalog.h"

#include "base/embedded.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct field gpu_fields[] = {
    FIELD_NEEDED(gpu, name, TEXT, "name on the command line"),
    FIELD_NEEDED(gpu, title, TEXT, "name by its maker"),
    FIELD(gpu, aliases, TEXT, "other names, separated by |"),
    FIELD_NEEDED(gpu, vendor, TEXT, "maker"),
    FIELD_NEEDED(gpu, architecture, TEXT, "architecture"),
    FIELD(gpu, form_factor, TEXT, "SXM module, PCIe card, …"),
    FIELD(gpu, compute_capability, TEXT, "as the driver reports it"),
    FIELD(gpu, memory_type, TEXT, "HBM3, GDDR6X, …"),
    FIELD(gpu, year, COUNT, "year of release"),
    FIELD_NEEDED(gpu, memory_bytes, BYTES, "device memory, as the driver reports it"),
    FIELD_NEEDED(gpu, memory_bytes_per_s, RATE, "device memory bandwidth"),
    FIELD(gpu, cache_bytes, BYTES, "last level of cache that all its processors share",
          .since = "0.6.0"),
    FIELD(gpu, fp32_flops_per_s, RATE, "dense peak of fp32"),
    FIELD(gpu, tf32_flops_per_s, RATE, "dense peak of tf32"),
    FIELD_NEEDED(gpu, fp16_flops_per_s, RATE, "dense peak of fp16 with fp32 accumulation"),
    FIELD(gpu, bf16_flops_per_s, RATE, "dense peak of bf16"),
    FIELD(gpu, fp8_flops_per_s, RATE, "dense peak of fp8"),
    FIELD(gpu, fp4_flops_per_s, RATE, "dense peak of fp4"),
    FIELD(gpu, measured_bf16_flops_per_s, RATE, "best measured bf16 matrix product"),
    FIELD(gpu, supports_bf16, FLAG, "has bf16 matrix products"),
    FIELD(gpu, supports_fp8, FLAG, "has fp8 matrix products"),
    FIELD(gpu, supports_fp4, FLAG, "has fp4 matrix products"),
    FIELD(gpu, link, TEXT, "fast link to other GPUs, or none"),
    FIELD(gpu, link_bytes_per_s, RATE, "bandwidth of the link, per GPU and direction"),
    FIELD(gpu, link_p2p_bytes_per_s, RATE, "bandwidth of the link to one other GPU"),
    FIELD_NEEDED(gpu, pcie_bytes_per_s, RATE, "PCIe bandwidth per direction"),
    FIELD(gpu, peers_through_host, FLAG,
          "copies between cards pass through host memory: the driver gives no peer access",
          .since = "0.12.0"),
    FIELD(gpu, tdp_watts, NUMBER, "board power limit"),
    FIELD(gpu, measured_source, TEXT, "who measured the matrix product"),
    FIELD_NEEDED(gpu, source, TEXT, "where the figures come from"),
    FIELD_NEEDED(gpu, as_of, DATE, "date of the figures"),
    FIELD(gpu, note, TEXT, "remark"),
    { 0 },
};

const struct field node_fields[] = {
    FIELD_NEEDED(node, name, TEXT, "name on the command line"),
    FIELD(node, aliases, TEXT, "other names, separated by |"),
    FIELD_NEEDED(node, kind, TEXT, "reference or cloud"),
    FIELD_NEEDED(node, gpu, TEXT, "GPU, as in gpus.csv"),
    FIELD_NEEDED(node, gpus, COUNT, "number of GPUs"),
    FIELD_NEEDED(node, link_domain_gpus, COUNT, "GPUs that share the fast link"),
    FIELD(node, link, TEXT, "link between the GPUs"),
    FIELD(node, link_bytes_per_s, RATE, "bandwidth of the link, per GPU and direction"),
    FIELD(node, link_p2p_bytes_per_s, RATE, "bandwidth of the link to one other GPU"),
    FIELD(node, measured_allreduce_bytes_per_s, RATE, "all-reduce bus bandwidth measured"),
    FIELD(node, network, TEXT, "network between nodes"),
    FIELD(node, nics, COUNT, "network cards; 0 is unknown"),
    FIELD(node, nic_bytes_per_s, RATE, "bandwidth of one network card"),
    FIELD(node, network_bytes_per_s, RATE, "network bandwidth of the node, per direction"),
    FIELD(node, network_bytes_per_s_per_gpu, RATE, "network bandwidth for each GPU"),
    FIELD(node, host_memory_bytes, BYTES, "host memory"),
    FIELD(node, host_cores, NUMBER, "virtual CPUs"),
    FIELD(node, local_disk_bytes, BYTES, "local disk"),
    FIELD(node, remote_storage_bytes_per_s, RATE, "throughput of remote disks"),
    FIELD(node, max_power_watts, NUMBER, "highest power of the server"),
    FIELD_NEEDED(node, source, TEXT, "where the figures come from"),
    FIELD_NEEDED(node, as_of, DATE, "date of the figures"),
    FIELD(node, note, TEXT, "remark"),
    { 0 },
};

const struct field fact_fields[] = {
    FIELD_NEEDED(fact, topic, TEXT, "what it is about"),
    FIELD_NEEDED(fact, item, TEXT, "what was counted or measured"),
    FIELD(fact, low, NUMBER, "low end"),
    FIELD(fact, typical, NUMBER, "usual value"),
    FIELD(fact, high, NUMBER, "high end"),
    FIELD_NEEDED(fact, unit, TEXT, "unit of low, typical and high"),
    FIELD(fact, conditions, TEXT, "where and when it holds"),
    FIELD_NEEDED(fact, confidence, TEXT, "confidence: low, medium or high"),
    FIELD_NEEDED(fact, source, TEXT, "where the figures come from"),
    FIELD_NEEDED(fact, as_of, DATE, "date of the figures"),
    FIELD(fact, note, TEXT, "remark"),
    { 0 },
};

const char *const offer_price_kinds[] = { "firm",  "auction", "median", "reservation",
                                          "block", "flex",    "own",    NULL };

const struct field offer_fields[] = {
    FIELD_NEEDED(offer, provider, TEXT, "provider"),
    FIELD_NEEDED(offer, instance, TEXT, "instance type, by the provider's name"),
    FIELD_NEEDED(offer, gpu, TEXT, "GPU, as in gpus.csv"),
    FIELD_NEEDED(offer, gpus, COUNT, "number of GPUs"),
    FIELD(offer, region, TEXT, "region, by the provider's name"),
    FIELD_NEEDED(offer, region_scope, TEXT, "region, us-any or list: how far the price holds"),
    FIELD(offer, host_cores, COUNT, "virtual CPUs; 0 is unknown"),
    FIELD(offer, host_memory_bytes, BYTES, "host memory"),
    FIELD(offer, on_demand_usd_per_hour, USD, "on-demand price of the instance"),
    FIELD(offer, spot_usd_per_hour, USD, "spot price in the cheapest zone"),
    FIELD(offer, spot_high_usd_per_hour, USD, "spot price in the most expensive zone"),
    FIELD(offer, reserved_1y_usd_per_hour, USD, "price with a one-year commitment"),
    FIELD(offer, reserved_3y_usd_per_hour, USD, "price with a three-year commitment"),
    FIELD_OF(offer, price_kind, offer_price_kinds, "what the on-demand price is: firm unless given",
             .since = "0.2.0"),
    FIELD_NEEDED(offer, source, TEXT, "where the figures come from"),
    FIELD_NEEDED(offer, as_of, DATE, "date of the figures"),
    FIELD(offer, spot_as_of, DATE, "date of the spot price"),
    FIELD(offer, reserved_as_of, DATE, "date of the committed prices"),
    FIELD(offer, note, TEXT, "remark"),
    { 0 },
};

// --- reading -----------------------------------------------------------------

struct table {
    const char *file; // "gpus.csv"
    const struct field *fields;
    size_t size;    // of a row
    bool has_names; // rows of an override come before the embedded ones, or replace them
};

struct rows {
    char *at;
    size_t count;
};

static const char *name_of(const struct rows *rows, const struct table *table, size_t i)
{
    const struct field *name = field_find(table->fields, TEXT("name"));
    return *(const char **)(rows->at + i * table->size + name->offset);
}

static bool has_name(const struct rows *rows, const struct table *table, const char *name)
{
    for (size_t i = 0; i < rows->count; i++)
        if (!strcmp(name_of(rows, table, i), name))
            return true;
    return false;
}

static enum err read_table(struct rows *out, const struct table *table, struct arena *arena,
                           struct text text, const char *path)
{
    void *at = NULL;
    TRY(field_read_csv(table->fields, table->size, &at, &out->count, arena, text, path));
    out->at = at;
    for (size_t i = 0; table->has_names && i < out->count; i++) {
        struct rows before = { out->at, i };
        if (has_name(&before, table, name_of(out, table, i)))
            return fail(ERR_INPUT, "%s: has two rows named %s", path, name_of(out, table, i));
    }
    return OK;
}

static enum err load(void *rows, size_t *count, const struct table *table, struct arena *arena,
                     const struct catalog_file *overrides, size_t override_count)
{
    struct rows own = { 0 }, built_in = { 0 };
    const struct catalog_file *override = NULL;
    for (size_t i = 0; i < override_count; i++)
        if (!strcmp(overrides[i].name, table->file))
            override = &overrides[i];
    if (override)
        TRY(read_table(&own, table, arena, override->text, override->path));
    if (!override || table->has_names)
        TRY(read_table(&built_in, table, arena, embedded_file(table->file), table->file));
    char *all = arena_alloc(arena, (own.count + built_in.count + 1) * table->size);
    size_t total = own.count;
    if (own.count)
        memcpy(all, own.at, own.count * table->size);
    for (size_t i = 0; i < built_in.count; i++)
        if (!own.count || !has_name(&own, table, name_of(&built_in, table, i)))
            memcpy(all + total++ * table->size, built_in.at + i * table->size, table->size);
    *(void **)rows = all;
    *count = total;
    return OK;
}

// --- models with an encoder of images ----------------------------------------

// A row of vision_models.csv: a decoder of models.csv, and what is different about it.
struct seeing {
    const char *name, *aliases, *decoder, *vision;
    int64_t layers, max_positions; // 0: as the decoder
    const char *source, *as_of;
};

static const struct field seeing_fields[] = {
    FIELD_NEEDED(seeing, name, TEXT, "name on the command line"),
    FIELD(seeing, aliases, TEXT, "other names, separated by |"),
    FIELD_NEEDED(seeing, decoder, TEXT, "decoder, as in models.csv"),
    FIELD_NEEDED(seeing, vision, TEXT, "family of its encoder, as in vision.csv"),
    FIELD(seeing, layers, COUNT, "layers, if more than the decoder has"),
    FIELD(seeing, max_positions, COUNT, "longest context, if not the decoder's"),
    FIELD_NEEDED(seeing, source, TEXT, "where the figures come from"),
    FIELD_NEEDED(seeing, as_of, DATE, "date of the figures"),
    { 0 },
};

static struct model *find_model(const struct catalog *c, const char *name)
{
    for (size_t i = 0; i < c->model_count; i++)
        if (!strcmp(c->models[i].name, name))
            return &c->models[i];
    return NULL;
}

static struct model with_encoder(const struct model *decoder, const struct seeing *row)
{
    struct model model = *decoder;
    model.name = row->name;
    model.aliases = row->aliases;
    model.vision = row->vision;
    model.layers = row->layers > 0 ? row->layers : model.layers;
    model.max_positions = row->max_positions > 0 ? row->max_positions : model.max_positions;
    if (model.layers != decoder->layers) {
        model.parameters = model_parameters(&model);
        model.active_parameters = model_active_parameters(&model);
        model.total_from = MODEL_TOTAL_COMPUTED;
    }
    model.source = row->source;
    model.as_of = row->as_of;
    return model;
}

// Adds the models of vision_models.csv; one that has its decoder's name is that decoder.
static enum err add_seeing(struct catalog *c, const struct seeing *rows, size_t count)
{
    struct model *all = ARENA_NEW(c->arena, struct model, c->model_count + count + 1);
    memcpy(all, c->models, c->model_count * sizeof *all);
    c->models = all;
    for (size_t i = 0; i < count; i++) {
        struct model *decoder = find_model(c, rows[i].decoder), *same = find_model(c, rows[i].name);
        if (!decoder)
            return fail(ERR_INPUT, "vision_models.csv: %s: its decoder %s is not in models.csv",
                        rows[i].name, rows[i].decoder);
        if (same == decoder)
            decoder->vision = rows[i].vision;
        else if (!same)
            c->models[c->model_count++] = with_encoder(decoder, &rows[i]);
    }
    return OK;
}

// --- checks ------------------------------------------------------------------

double catalog_capability(const struct gpu *gpu)
{
    double capability = 0;
    bool numbered = gpu->vendor && !strcmp(gpu->vendor, "nvidia") && gpu->compute_capability &&
                    !text_read_number(&capability, text_of(gpu->compute_capability));
    return numbered ? capability : 0;
}

static enum err check_gpu(const struct gpu *gpu)
{
    if (!(gpu->memory_bytes >= 1e9 && gpu->memory_bytes <= 1e13))
        return fail(ERR_INPUT, "gpus.csv: %s: memory_bytes is %g, must be 1e9 to 1e13", gpu->name,
                    gpu->memory_bytes);
    if (!(gpu->memory_bytes_per_s >= 1e10 && gpu->memory_bytes_per_s <= 1e15))
        return fail(ERR_INPUT, "gpus.csv: %s: memory_bytes_per_s is %g, must be 1e10 to 1e15",
                    gpu->name, gpu->memory_bytes_per_s);
    if (!(gpu->fp16_flops_per_s >= 1e12 && gpu->fp16_flops_per_s <= 1e18))
        return fail(ERR_INPUT, "gpus.csv: %s: fp16_flops_per_s is %g, must be 1e12 to 1e18",
                    gpu->name, gpu->fp16_flops_per_s);
    if (gpu->supports_bf16 && isnan(gpu->bf16_flops_per_s))
        return fail(ERR_INPUT, "gpus.csv: %s: supports bf16 but has no bf16_flops_per_s",
                    gpu->name);
    if (gpu->supports_fp8 && isnan(gpu->fp8_flops_per_s))
        return fail(ERR_INPUT, "gpus.csv: %s: supports fp8 but has no fp8_flops_per_s", gpu->name);
    return OK;
}

static bool has_gpu(const struct catalog *catalog, const char *name)
{
    for (size_t i = 0; i < catalog->gpu_count; i++)
        if (!strcmp(catalog->gpus[i].name, name))
            return true;
    return false;
}

static enum err check_node(const struct catalog *catalog, const struct node *node)
{
    if (!has_gpu(catalog, node->gpu))
        return fail(ERR_INPUT, "nodes.csv: %s: its GPU %s is not in gpus.csv", node->name,
                    node->gpu);
    if (node->gpus < 1 || node->gpus > 100000 || node->link_domain_gpus < 1)
        return fail(ERR_INPUT, "nodes.csv: %s: gpus and link_domain_gpus must be at least 1",
                    node->name);
    return OK;
}

static enum err check_facts(const struct fact *facts, size_t count, const char *file)
{
    for (size_t i = 0; i < count; i++) {
        const struct fact *f = &facts[i];
        if (isnan(f->low) && isnan(f->typical) && isnan(f->high))
            return fail(ERR_INPUT, "%s: %s: has neither low nor typical nor high", file, f->item);
        if (f->low > f->typical || f->typical > f->high || f->low > f->high)
            return fail(ERR_INPUT, "%s: %s: low, typical and high are out of order", file, f->item);
    }
    return OK;
}

static enum err check_offer(const struct catalog *catalog, const struct offer *offer)
{
    if (!has_gpu(catalog, offer->gpu))
        return fail(ERR_INPUT, "offers.csv: %s %s: its GPU %s is not in gpus.csv", offer->provider,
                    offer->instance, offer->gpu);
    if (!offer->gpus)
        return fail(ERR_INPUT, "offers.csv: %s %s: gpus is 0", offer->provider, offer->instance);
    return OK;
}

static enum err check(const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->model_count; i++)
        TRY(model_check(&catalog->models[i],
                        text_format(catalog->arena, "models.csv: %s", catalog->models[i].name),
                        NULL));
    for (size_t i = 0; i < catalog->gpu_count; i++)
        TRY(check_gpu(&catalog->gpus[i]));
    for (size_t i = 0; i < catalog->node_count; i++)
        TRY(check_node(catalog, &catalog->nodes[i]));
    for (size_t i = 0; i < catalog->offer_count; i++)
        TRY(check_offer(catalog, &catalog->offers[i]));
    TRY(check_facts(catalog->operations, catalog->operation_count, "operations.csv"));
    return check_facts(catalog->colocation, catalog->colocation_count, "colocation.csv");
}

// --- opening -----------------------------------------------------------------

// Words of a name that do not distinguish rows.
static const char *const model_noise[] = { "instruct", "chat",    "it",   "base", "hf",   "meta",
                                           "text",     "deduped", "pt",   "bnb",  "4bit", "8bit",
                                           "nf4",      "gptq",    "awq",  "gguf", "int4", "int8",
                                           "fp8",      "bf16",    "fp16", NULL };
static const char *const gpu_noise[] = { "nvidia",   "amd", "intel", "geforce", "tesla",
                                         "instinct", "gpu", "card",  NULL };
static const char *const gpu_strict[] = { "laptop", "mobile", "max", "ti", "super", "d", NULL };

static void list_names(struct catalog *c)
{
    c->model_names = (struct name_list){ .arena = c->arena, .noise = model_noise };
    c->gpu_names = (struct name_list){
        .arena = c->arena, .noise = gpu_noise, .strict = gpu_strict, .extras = true
    };
    c->node_names = (struct name_list){ .arena = c->arena };
    for (size_t i = 0; i < c->model_count; i++)
        name_add(&c->model_names, c->models[i].name, c->models[i].aliases, (int)i);
    for (size_t i = 0; i < c->gpu_count; i++) {
        name_add(&c->gpu_names, c->gpus[i].name, c->gpus[i].aliases, (int)i);
        name_add(&c->gpu_names, c->gpus[i].title, NULL, (int)i);
    }
    for (size_t i = 0; i < c->node_count; i++)
        name_add(&c->node_names, c->nodes[i].name, c->nodes[i].aliases, (int)i);
}

enum err catalog_open(struct catalog *catalog, struct arena *arena,
                      const struct catalog_file *overrides, size_t count)
{
    static const struct table models = { "models.csv", model_fields, sizeof(struct model), true };
    static const struct table seeing = { "vision_models.csv", seeing_fields, sizeof(struct seeing),
                                         true };
    static const struct table gpus = { "gpus.csv", gpu_fields, sizeof(struct gpu), true };
    static const struct table nodes = { "nodes.csv", node_fields, sizeof(struct node), true };
    static const struct table operations = { "operations.csv", fact_fields, sizeof(struct fact),
                                             false };
    static const struct table colocation = { "colocation.csv", fact_fields, sizeof(struct fact),
                                             false };
    static const struct table offers = { "offers.csv", offer_fields, sizeof(struct offer), false };
    struct catalog *c = catalog;
    *c = (struct catalog){ .arena = arena };
    TRY(load(&c->models, &c->model_count, &models, arena, overrides, count));
    struct seeing *rows;
    size_t row_count;
    TRY(load(&rows, &row_count, &seeing, arena, overrides, count));
    TRY(add_seeing(c, rows, row_count));
    TRY(load(&c->gpus, &c->gpu_count, &gpus, arena, overrides, count));
    TRY(load(&c->nodes, &c->node_count, &nodes, arena, overrides, count));
    TRY(load(&c->operations, &c->operation_count, &operations, arena, overrides, count));
    TRY(load(&c->colocation, &c->colocation_count, &colocation, arena, overrides, count));
    TRY(load(&c->offers, &c->offer_count, &offers, arena, overrides, count));
    list_names(c);
    return check(c);
}

// --- finding -----------------------------------------------------------------

// Whether a number in a name is another amount of memory than the card's, in GB or GiB, and in none
// of its names: "NVIDIA GH200 480GB" counts the host's.
static bool is_other_memory(const struct catalog *catalog, int row, double number)
{
    const struct name_list *names = &catalog->gpu_names;
    double times = number * 1e9 / catalog->gpus[row].memory_bytes;
    char spelled[32];
    snprintf(spelled, sizeof spelled, "%ggb", number);
    for (size_t i = 0; i < names->count; i++)
        if (names->entries[i].row == row && strstr(names->entries[i].text, spelled))
            return false;
    return times < 0.85 || times > 1.15;
}

// "8 x H100", "8xh100", "H100 x8" and "h100:8": the length of what comes before the card's name or
// after it, and how many there are; 0: nothing of the kind.
static size_t count_before(const char *name, int64_t *gpus)
{
    size_t digits = strspn(name, "0123456789"), at = digits + strspn(name + digits, " ");
    size_t sign = strspn(name + at, "xX*"), cross = strncmp(name + at, "×", strlen("×")) ? 0 : 2;
    bool is_count = digits && digits < 6 && (sign == 1 || cross);
    bool reads = is_count && !text_read_count(gpus, (struct text){ name, digits });
    return reads ? at + sign + cross : 0;
}

static size_t count_after(const char *name, int64_t *gpus)
{
    size_t size = strlen(name), at = size;
    while (at && isdigit((unsigned char)name[at - 1]))
        at--;
    bool reads =
        at < size && size - at < 6 && !text_read_count(gpus, (struct text){ name + at, size - at });
    while (at && name[at - 1] == ' ')
        at--;
    bool cross = at > 2 && !strncmp(name + at - 2, "×", strlen("×"));
    bool sign = at > 1 && at < size && strchr("xX*:", name[at - 1]);
    return reads && (cross || sign) ? size - at + (cross ? 2 : 1) : 0;
}

// Refuses a number of cards, which --gpus says.
static enum err check_several(const struct catalog *catalog, const char *name)
{
    int64_t before = 0, after = 0;
    size_t front = count_before(name, &before), back = count_after(name, &after);
    struct text card = { name + front, strlen(name) - front - (front ? 0 : back) };
    card = text_trim(card);
    int row = front || back ? name_find(&catalog->gpu_names, card) : -1;
    return row < 0 ? OK
                   : fail(ERR_USAGE, "\"%s\" is a card and how many; give --gpu %.*s --gpus %lld",
                          name, TEXT_ARGS(card), (long long)(front ? before : after));
}

// Apple's chips are what people have at hand; a near name would be a card that they do not.
static bool is_apple(const char *name)
{
    bool chip = tolower((unsigned char)*name) == 'm' && isdigit((unsigned char)name[1]) &&
                !isalnum((unsigned char)name[2]);
    return chip || !strncasecmp(name, "mac", 3) || !strncasecmp(name, "apple", 5) ||
           !strcasecmp(name, "mps");
}

// Refuses what a loosely spelled name says beside a card: other memory, a part of it, others.
static enum err check_beside(const struct catalog *catalog, int row, const char *name)
{
    const struct gpu *gpu = &catalog->gpus[row];
    for (const char *at = name; *at; at++) {
        char *end;
        bool begins = at == name || !isalnum((unsigned char)at[-1]);
        double number = begins && isdigit((unsigned char)*at) ? strtod(at, &end) : 0;
        if (begins && !strncasecmp(at, "mig", 3) && !isalpha((unsigned char)at[3]))
            return fail(ERR_USAGE,
                        "\"%s\" is a part of a card, which is not planned for; a row of its own in "
                        "gpus.csv (--catalog DIR) could describe it",
                        name);
        if (!(number > 0))
            continue;
        const char *unit = end + strspn(end, " -_");
        bool is_memory = !strncasecmp(unit, "gb", 2) || !strncasecmp(unit, "gib", 3);
        if (is_memory && is_other_memory(catalog, row, number))
            return fail(ERR_USAGE,
                        "\"%s\": %s has %.0f GiB; for a card with other memory, add a row to "
                        "gpus.csv (--catalog DIR)",
                        name, gpu->name, gpu->memory_bytes / 1073741824);
    }
    if (strpbrk(name, ",;+"))
        return fail(ERR_USAGE, "\"%s\" names more than one GPU; give one of them", name);
    return OK;
}

// "80" is in "h100-80gb", "8" is not.
static bool holds_number(const char *text, const char *number)
{
    const char *at = text;
    for (; (at = strstr(at, number)); at++)
        if ((at == text || !isdigit((unsigned char)at[-1])) &&
            !isdigit((unsigned char)at[strlen(number)]))
            return true;
    return false;
}

// "a100-40" as "a100-40gb": a last number that is in no name of the card counts its gigabytes.
static const char *spell_memory(const struct catalog *catalog, const char *name)
{
    const struct name_list *names = &catalog->gpu_names;
    size_t size = strlen(name), at = size;
    while (at && isdigit((unsigned char)name[at - 1]))
        at--;
    int row = name_find(names, text_of(name));
    if (row < 0 || at == size || !at || isalnum((unsigned char)name[at - 1]) ||
        name_find_exact(names, text_of(name)) >= 0)
        return name;
    for (size_t i = 0; i < names->count; i++)
        if (names->entries[i].row == row && holds_number(names->entries[i].text, name + at))
            return name;
    return text_format(names->arena, "%sgb", name);
}

enum err catalog_gpu(const struct gpu **out, const struct catalog *catalog, const char *name)
{
    if (name_find_exact(&catalog->gpu_names, text_of(name)) < 0)
        TRY(check_several(catalog, name));
    name = spell_memory(catalog, name);
    int row = name_find(&catalog->gpu_names, text_of(name));
    if (row < 0 && is_apple(name))
        return fail(ERR_USAGE,
                    "there is no GPU \"%s\": Apple's chips are not in the catalog; gpuhours show "
                    "gpus lists what is, and --catalog DIR adds a row",
                    name);
    if (row < 0)
        return name_unknown(&catalog->gpu_names, text_of(name), "GPU", "gpus");
    if (name_find_exact(&catalog->gpu_names, text_of(name)) < 0)
        TRY(check_beside(catalog, row, name));
    *out = &catalog->gpus[row];
    return OK;
}

enum err catalog_node(const struct node **out, const struct catalog *catalog, const char *name)
{
    int row = name_find(&catalog->node_names, text_of(name));
    if (row < 0)
        return name_unknown(&catalog->node_names, text_of(name), "node", "nodes");
    *out = &catalog->nodes[row];
    return OK;
}

// Removes " layers cut to 12" from the end of a name and returns the 12; 0 if it is not there.
static int64_t cut_layers(struct text *name)
{
    static const char mark[] = " layers cut to ";
    size_t size = sizeof mark - 1;
    for (size_t i = 0; i + size < name->size; i++) {
        if (memcmp(name->at + i, mark, size))
            continue;
        struct text number = { name->at + i + size, name->size - i - size };
        int64_t layers;
        if (text_read_count(&layers, number) || layers < 1)
            return 0;
        name->size = i;
        return layers;
    }
    return 0;
}

enum err catalog_model(const struct model **out, const struct catalog *catalog, const char *name)
{
    struct text wanted = text_of(name);
    int64_t layers = cut_layers(&wanted);
    for (size_t i = wanted.size; i > 0; i--) // without its publisher
        if (wanted.at[i - 1] == '/') {
            wanted = (struct text){ wanted.at + i, wanted.size - i };
            break;
        }
    int row = name_find(&catalog->model_names, wanted);
    if (row < 0) {
        TRY(model_check_name(catalog->arena, wanted));
        return name_unknown(&catalog->model_names, wanted, "model", "models");
    }
    *out = &catalog->models[row];
    if (!layers)
        return OK;
    struct model *cut = ARENA_NEW(catalog->arena, struct model, 1);
    *cut = **out;
    cut->name =
        text_format(catalog->arena, "%s layers cut to %lld", (*out)->name, (long long)layers);
    cut->layers = layers;
    cut->full_attention_layers = cut->full_attention_layers * layers / catalog->models[row].layers;
    cut->parameters = cut->active_parameters = 0;
    *out = cut;
    return model_check(cut, cut->name, NULL);
}

const struct node *catalog_offer_node(const struct catalog *catalog, const struct offer *offer)
{
    size_t size = strlen(offer->provider);
    for (size_t i = 0; i < catalog->node_count; i++) {
        const char *name = catalog->nodes[i].name;
        if (!strncmp(name, offer->provider, size) && name[size] == '/' &&
            !strcmp(name + size + 1, offer->instance))
            return &catalog->nodes[i];
    }
    return NULL;
}

const struct node *catalog_node_of(const struct catalog *catalog, const struct gpu *gpu)
{
    for (size_t i = 0; i < catalog->node_count; i++)
        if (!strcmp(catalog->nodes[i].gpu, gpu->name))
            return &catalog->nodes[i];
    return NULL;
}

const struct fact *catalog_operation(const struct catalog *catalog, const char *topic,
                                     const char *item)
{
    for (size_t i = 0; i < catalog->operation_count; i++)
        if (!strcmp(catalog->operations[i].topic, topic) &&
            !strcmp(catalog->operations[i].item, item))
            return &catalog->operations[i];
    return NULL;
}
