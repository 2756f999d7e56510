// SPDX-License-Identifier: Apache-2.0
// Reads offers from SkyPilot's and gpuhunt's catalogs and from our own CSV.

#include "core/hosting/offers_internal.h"

#include "base/columns.h"
#include "base/markup.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// --- rows --------------------------------------------------------------------

// Names that mean another GPU than in our catalog, depending on the memory given with them.
static const struct {
    const char *name;
    double least_gib, most_gib; // most 0: any
    const char *meant;
} meanings[] = {
    { "A100", 60, 1000, "a100-sxm-80gb" }, // must precede the next: SkyPilot's plain A100 has 40 GB
    { "A100", 0, 0, "a100-sxm-40gb" },
    { "H100", 90, 100, "h100-nvl" },
    { "RTX6000", 60, 1000, "rtx-pro-6000-se" }, // the Quadro of that name has 24 GB
    { "RTX6000", 0, 0, "quadro-rtx-6000" },
    { "RTX PRO 6000 96GB", 0, 0, "rtx-pro-6000-se" },
    { "RTXPro6000", 0, 0, "rtx-pro-6000-se" },
    { "RTXPRO6000", 0, 0, "rtx-pro-6000-se" }, // clouds have the server edition
    { "RTX-PRO-6000", 0, 0, "rtx-pro-6000-se" },
};

// Whether the text contains this part, in upper or lower case.
static bool has_part(struct text text, const char *part)
{
    size_t size = strlen(part);
    for (size_t i = 0; i + size <= text.size; i++) {
        size_t k = 0;
        while (k < size && (text.at[i + k] | 32) == (part[k] | 32))
            k++;
        if (k == size)
            return true;
    }
    return false;
}

// "pcie" or "nvl" where the instance or the description of the card tells; else NULL. Azure's NC
// series has cards in slots, its ND series modules.
static const char *form_of(const struct foreign *row)
{
    bool slots = has_part(row->instance, "Standard_NC");
    if (has_part(row->instance, "pcie") || has_part(row->card, "pcie") ||
        has_part(row->gpu, "pcie") || (slots && has_part(row->gpu, "A100")))
        return "pcie";
    bool nvlink = has_part(row->card, "nvlink") || has_part(row->gpu, "nvlink");
    if ((has_part(row->card, "nvl") && !nvlink) || (has_part(row->gpu, "nvl") && !nvlink) ||
        (slots && has_part(row->gpu, "H100")))
        return "nvl";
    return NULL;
}

static struct text meant(const struct foreign *row)
{
    double gib = row->gpu_memory_bytes / (1024.0 * 1024 * 1024);
    const char *form = form_of(row);
    bool large = gib > 60 || has_part(row->gpu, "80G");
    if (form && has_part(row->gpu, "A100") && !strcmp(form, "pcie"))
        return text_of(large ? "a100-pcie-80gb" : "a100-pcie-40gb");
    if (form && has_part(row->gpu, "H100"))
        return text_of(!strcmp(form, "nvl") ? "h100-nvl" : "h100-pcie");
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (text_is(row->gpu, meanings[i].name) &&
            (meanings[i].most_gib == 0 ||
             (gib > meanings[i].least_gib && gib < meanings[i].most_gib)))
            return text_of(meanings[i].meant);
    return row->gpu;
}

static const struct gpu *find_gpu(struct import *in, const struct foreign *row)
{
    struct text name = meant(row);
    for (size_t i = 0; i < in->known_count; i++)
        if (text_equal(in->known[i].name, name))
            return in->known[i].gpu;
    const struct gpu *gpu = NULL;
    if (name.size > 64)
        return NULL;
    name.at = text_copy(in->arena, name);
    if (catalog_gpu(&gpu, in->source->catalog, name.at))
        gpu = NULL;
    if (in->known_count < sizeof in->known / sizeof *in->known)
        in->known[in->known_count++] = (struct known){ name, gpu };
    return gpu;
}

static bool is_absurd(double usd, double gpus)
{
    double each = usd / gpus;
    return usd != 0 && !isnan(usd) &&
           !(each >= OFFERS_USD_LEAST_CENTS / 100.0 && each <= OFFERS_USD_MOST);
}

static uint64_t hash(uint64_t seed, const char *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        seed = (seed ^ (unsigned char)at[i]) * 1099511628211u;
    return (seed ^ 0xff) * 1099511628211u;
}

static bool is_row(const struct offer *offer, const struct foreign *row, const struct gpu *gpu,
                   struct text provider)
{
    struct text region = row->region.size ? row->region : text_of(OFFERS_NO_REGION);
    return text_is(row->instance, offer->instance) && text_is(region, offer->region) &&
           text_is(provider, offer->provider) && !strcmp(gpu->name, offer->gpu) &&
           (double)offer->gpus == row->gpus;
}

// The slot of the row, or the empty one where it belongs.
static uint32_t *find_slot(struct import *in, const struct foreign *row, const struct gpu *gpu,
                           struct text provider)
{
    uint64_t at = hash(14695981039346656037u, row->instance.at, row->instance.size);
    struct text region = row->region.size ? row->region : text_of(OFFERS_NO_REGION);
    at = hash(at, region.at, region.size) ^ (uint64_t)row->gpus;
    for (;; at++) {
        uint32_t *slot = &in->slots[at & (in->slot_count - 1)];
        if (!*slot || is_row(&in->out->rows[*slot - 1].offer, row, gpu, provider))
            return slot;
    }
}

static void rehash(struct import *in)
{
    size_t count = in->slot_count ? in->slot_count * 2 : 1024;
    in->slots = ARENA_NEW(in->arena, uint32_t, count);
    in->slot_count = count;
    for (size_t i = 0; i < in->out->count; i++) {
        const struct offer *o = &in->out->rows[i].offer;
        struct foreign row = { .instance = text_of(o->instance),
                               .region = text_of(o->region),
                               .gpus = (double)o->gpus };
        struct gpu gpu = { .name = o->gpu };
        *find_slot(in, &row, &gpu, text_of(o->provider)) = (uint32_t)i + 1;
    }
}

// Zones of one region become one offer, with the lowest and the highest spot price.
static void merge(struct offer *offer, const struct foreign *row)
{
    if (row->on_demand > 0 && !(offer->on_demand_usd_per_hour <= row->on_demand))
        offer->on_demand_usd_per_hour = row->on_demand;
    if (row->reserved_1y > 0 && !(offer->reserved_1y_usd_per_hour <= row->reserved_1y))
        offer->reserved_1y_usd_per_hour = row->reserved_1y;
    if (row->reserved_3y > 0 && !(offer->reserved_3y_usd_per_hour <= row->reserved_3y))
        offer->reserved_3y_usd_per_hour = row->reserved_3y;
    if (!(row->spot > 0))
        return;
    bool first = isnan(offer->spot_usd_per_hour);
    if (first || row->spot < offer->spot_usd_per_hour)
        offer->spot_usd_per_hour = row->spot;
    if (first || row->spot > offer->spot_high_usd_per_hour)
        offer->spot_high_usd_per_hour = row->spot;
}

static struct offers_row *new_row(struct import *in)
{
    struct offers *out = in->out;
    out->rows = arena_room(in->arena, out->rows, sizeof *out->rows, out->count, &in->room);
    struct offers_row *row = &out->rows[out->count++];
    *row = (struct offers_row){ 0 };
    offers_clear_terms(row);
    return row;
}

// Whether a name has this word between signs: "8x_PRO-6000-MIG-24GB" has MIG.
static bool has_word(struct text name, const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= name.size; i++)
        if (!strncmp(name.at + i, word, size) && (i == 0 || !is_letter(name.at[i - 1])) &&
            (i + size == name.size || !is_letter(name.at[i + size])))
            return true;
    return false;
}

void offers_refuse(struct import *in, enum offers_refusal why, struct text example)
{
    if (!in->report->refused[why]++)
        in->report->example[why] = text_copy(in->arena, example);
}

// The first implausible price of a row, in dollars per GPU hour; NAN: none.
static double absurd_usd(const struct foreign *row)
{
    const double prices[] = { row->on_demand, row->spot, row->reserved_1y, row->reserved_3y };
    for (int i = 0; i < 4; i++)
        if (is_absurd(prices[i], row->gpus))
            return prices[i] / row->gpus;
    return NAN;
}

static bool is_priced(const struct foreign *row)
{
    return row->on_demand > 0 || row->spot > 0 || row->reserved_1y > 0 || row->reserved_3y > 0;
}

// Whether the row is a usable offer; if not, counts the reason in the report.
static bool is_good(struct import *in, const struct foreign *row, const struct gpu **gpu)
{
    struct offers_report *report = in->report;
    report->rows++;
    struct text name = row->instance.size ? row->instance : row->gpu;
    const char *region = text_copy(in->arena, row->region);
    bool placed = offers_is_placed(region);
    double absurd = absurd_usd(row);
    enum offers_refusal why = OFFERS_REFUSALS;
    if (has_word(row->gpu, "MIG") || has_word(row->instance, "MIG"))
        why = OFFERS_SLICE;
    else if (!row->gpu.size || !(row->gpus >= 1 && row->gpus <= 1e6))
        why = OFFERS_WITHOUT_GPU;
    else if (!(*gpu = find_gpu(in, row)))
        why = OFFERS_UNKNOWN_GPU, name = row->gpu;
    else if (!row->instance.size)
        why = OFFERS_HOSTLESS;
    else if (!isnan(absurd))
        why = OFFERS_ABSURD,
        name = text_of(text_format(in->arena, "row %d: $%.6g per GPU hour", row->line, absurd));
    else if (!is_priced(row))
        why = OFFERS_UNPRICED;
    else if (!in->source->all_regions && placed && !offers_area(region))
        why = OFFERS_ABROAD, name = row->region;
    if (why != OFFERS_REFUSALS) {
        offers_refuse(in, why, name);
        return false;
    }
    report->unplaced += !placed;
    report->undated += !in->as_of;
    return true;
}

// What the catalog says of the prices of this provider's instance: other tools do not tell.
static int price_kind_of(const struct import *in, struct text provider, struct text instance)
{
    const struct catalog *catalog = in->source->catalog;
    for (size_t i = 0; i < catalog->offer_count; i++) {
        const struct offer *o = &catalog->offers[i];
        if (o->price_kind != OFFER_FIRM && text_is(provider, o->provider) &&
            text_is(instance, o->instance))
            return o->price_kind;
    }
    return OFFER_FIRM;
}

void offers_import_row(struct import *in, const struct foreign *row)
{
    const struct gpu *gpu = NULL;
    if (!is_good(in, row, &gpu))
        return;
    struct text provider = row->provider.size ? row->provider : text_of(in->provider);
    if (in->out->count * 2 >= in->slot_count)
        rehash(in);
    uint32_t *slot = find_slot(in, row, gpu, provider);
    if (*slot) {
        merge(&in->out->rows[*slot - 1].offer, row);
        in->report->merged++;
        return;
    }
    struct offer *offer = &new_row(in)->offer;
    *slot = (uint32_t)in->out->count;
    const char *region = row->region.size ? text_copy(in->arena, row->region) : OFFERS_NO_REGION;
    *offer = (struct offer){
        .provider = text_copy(in->arena, provider),
        .instance = text_copy(in->arena, row->instance),
        .gpu = gpu->name,
        .region = region,
        .region_scope = row->region.size ? "region" : "list",
        .gpus = (int64_t)row->gpus,
        .host_cores = row->cores > 0 && row->cores < 1e6 ? (int64_t)row->cores : 0,
        .host_memory_bytes = row->memory_bytes > 0 ? row->memory_bytes : NAN,
        .on_demand_usd_per_hour = row->on_demand > 0 ? row->on_demand : NAN,
        .spot_usd_per_hour = NAN,
        .spot_high_usd_per_hour = NAN,
        .reserved_1y_usd_per_hour = row->reserved_1y > 0 ? row->reserved_1y : NAN,
        .reserved_3y_usd_per_hour = row->reserved_3y > 0 ? row->reserved_3y : NAN,
        .price_kind =
            row->price_kind ? row->price_kind : price_kind_of(in, provider, row->instance),
        .source = in->source->name,
        .as_of = in->as_of,
    };
    merge(offer, row);
    in->report->kept++;
}

// --- tables ------------------------------------------------------------------

// "aws" for "catalogs/v7/aws/vms.csv" and for "aws.csv".
static const char *provider_of(struct arena *arena, const char *name)
{
    struct text rest = text_of(name), piece, last = { 0 }, before = { 0 };
    while (text_next(&rest, '/', &piece))
        before = last, last = piece;
    const char *dot = last.size ? memchr(last.at, '.', last.size) : NULL;
    struct text stem = { last.at, dot ? (size_t)(dot - last.at) : last.size };
    bool general = text_is(stem, "vms") || text_is(stem, "offers") || text_is(stem, "catalog");
    return text_copy(arena, general && before.size ? before : stem);
}

static double number_or_nan(struct text cell)
{
    double value;
    return cell.size && !text_read_number(&value, text_trim(cell)) ? value : NAN;
}

static double price_of(struct text cell)
{
    double value = number_or_nan(cell);
    return value == 0 ? NAN : value; // zero means "not offered" or "not known"
}

// The number after a key in almost-JSON: "'SizeInMiB': 40960".
static double number_after(struct text text, const char *key)
{
    size_t size = strlen(key);
    for (size_t i = 0; i + size < text.size; i++) {
        if (memcmp(text.at + i, key, size))
            continue;
        size_t at = i + size, end;
        while (at < text.size && (text.at[at] < '0' || text.at[at] > '9'))
            at++;
        for (end = at; end < text.size && text.at[end] >= '0' && text.at[end] <= '9';)
            end++;
        return number_or_nan((struct text){ text.at + at, end - at });
    }
    return NAN;
}

static int column_of(const struct csv *csv, const char *a, const char *b)
{
    int column = csv_column(csv, a);
    return column >= 0 ? column : csv_column(csv, b);
}

// The columns of SkyPilot's catalog; -1: the file has none.
struct skypilot {
    int instance, gpu, gpus, cores, memory, price, spot, region, zone, info;
};

static struct foreign skypilot_row(const struct csv *csv, const struct skypilot *c, size_t i)
{
    struct text zone = csv_cell(csv, i, c->zone);
    return (struct foreign){
        .instance = csv_cell(csv, i, c->instance),
        .gpu = text_trim(csv_cell(csv, i, c->gpu)),
        .card = csv_cell(csv, i, c->info),
        .region = csv_cell(csv, i, c->region),
        .zone = zone.size ? zone : csv_cell(csv, i, c->region),
        .gpus = number_or_nan(csv_cell(csv, i, c->gpus)),
        .cores = number_or_nan(csv_cell(csv, i, c->cores)),
        .memory_bytes = number_or_nan(csv_cell(csv, i, c->memory)) * 1024 * 1024 * 1024,
        .gpu_memory_bytes = number_after(csv_cell(csv, i, c->info), "SizeInMiB") * 1024 * 1024,
        .on_demand = price_of(csv_cell(csv, i, c->price)),
        .spot = price_of(csv_cell(csv, i, c->spot)),
        .line = csv->lines[i],
    };
}

static void read_skypilot(struct import *in, const struct csv *csv)
{
    struct skypilot c = { .instance = csv_column(csv, "InstanceType"),
                          .gpu = csv_column(csv, "AcceleratorName"),
                          .gpus = csv_column(csv, "AcceleratorCount"),
                          .cores = csv_column(csv, "vCPUs"),
                          .memory = csv_column(csv, "MemoryGiB"),
                          .price = csv_column(csv, "Price"),
                          .spot = csv_column(csv, "SpotPrice"),
                          .region = csv_column(csv, "Region"),
                          .zone = csv_column(csv, "AvailabilityZone"),
                          .info = column_of(csv, "GpuInfo", "GPUInfo") };
    bool apart = false; // GPUs and their hosts are rows of their own
    for (size_t i = 0; !apart && i < csv->rows; i++)
        apart = csv_cell(csv, i, c.gpu).size && !csv_cell(csv, i, c.instance).size;
    if (!apart) {
        for (size_t i = 0; i < csv->rows; i++) {
            struct foreign row = skypilot_row(csv, &c, i);
            offers_import_row(in, &row);
        }
        return;
    }
    struct foreign *rows = ARENA_NEW(in->arena, struct foreign, csv->rows + 1);
    for (size_t i = 0; i < csv->rows; i++)
        rows[i] = skypilot_row(csv, &c, i);
    offers_join_hosts(in, rows, csv->rows);
}

static bool is_true(struct text cell)
{
    return text_is(cell, "True") || text_is(cell, "true") || text_is(cell, "1");
}

static void read_gpuhunt_csv(struct import *in, const struct csv *csv)
{
    int spot = csv_column(csv, "spot"), price = csv_column(csv, "price");
    const double gib = 1024.0 * 1024 * 1024;
    for (size_t i = 0; i < csv->rows; i++) {
        double usd = price_of(csv_cell(csv, i, price));
        bool is_spot = is_true(csv_cell(csv, i, spot));
        offers_import_row(
            in,
            &(struct foreign){
                .provider = csv_cell(csv, i, csv_column(csv, "provider")),
                .instance = csv_cell(csv, i, csv_column(csv, "instance_name")),
                .gpu = csv_cell(csv, i, csv_column(csv, "gpu_name")),
                .region = csv_cell(csv, i, csv_column(csv, "location")),
                .gpus = number_or_nan(csv_cell(csv, i, csv_column(csv, "gpu_count"))),
                .cores = number_or_nan(csv_cell(csv, i, csv_column(csv, "cpu"))),
                .memory_bytes = gib * number_or_nan(csv_cell(csv, i, csv_column(csv, "memory"))),
                .gpu_memory_bytes =
                    gib * number_or_nan(csv_cell(csv, i, csv_column(csv, "gpu_memory"))),
                .on_demand = is_spot ? NAN : usd,
                .spot = is_spot ? usd : NAN,
                .line = csv->lines[i],
            });
    }
}

static void add_gpuhunt(struct import *in, const struct json *item, int line)
{
    const double gib = 1024.0 * 1024 * 1024;
    double usd = json_get_number(item, "price", NAN);
    bool spot = json_get_bool(item, "spot", false);
    struct text instance = json_get_text(item, "instance_name");
    usd = usd == 0 ? NAN : usd;
    offers_import_row(in, &(struct foreign){
                              .provider = json_get_text(item, "provider"),
                              .instance = instance.at ? instance : json_get_text(item, "instance"),
                              .gpu = json_get_text(item, "gpu_name"),
                              .region = json_get_text(item, "location"),
                              .gpus = json_get_number(item, "gpu_count", NAN),
                              .cores = json_get_number(item, "cpu", NAN),
                              .memory_bytes = gib * json_get_number(item, "memory", NAN),
                              .gpu_memory_bytes = gib * json_get_number(item, "gpu_memory", NAN),
                              .on_demand = spot ? NAN : usd,
                              .spot = spot ? usd : NAN,
                              .line = line,
                          });
}

// A list of items, an object with "items", or one item per line.
static enum err read_gpuhunt(struct import *in, struct text text)
{
    const char *name = in->source->name;
    struct json tree;
    if (text.at[0] == '{' && memchr(text.at, '\n', text.size)) {
        struct text rest = text, line;
        bool lines = true;
        for (int number = 1; lines && text_next(&rest, '\n', &line); number++) {
            line = text_trim(line);
            if (!line.size)
                continue;
            lines = !json_read(&tree, in->arena, line, name) && tree.kind == JSON_OBJECT &&
                    json_get(&tree, "price");
            if (lines)
                add_gpuhunt(in, &tree, number);
        }
        if (lines)
            return OK;
    }
    TRY(json_read(&tree, in->arena, text, name));
    if (offers_read_prices(in, &tree))
        return OK;
    const struct json *list = tree.kind == JSON_OBJECT ? json_get(&tree, "items") : &tree;
    if (!list || list->kind != JSON_ARRAY)
        return fail(
            ERR_INPUT,
            "%s: has no list of offers; expected gpuhunt's list of items, AWS's price list, "
            "Azure's retail prices, GCP's billing catalog, or a CSV",
            name);
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].kind != JSON_OBJECT)
            return fail(ERR_INPUT, "%s: item %zu is %s, must be an object", name, i + 1,
                        json_kind_name(list->items[i].kind));
        add_gpuhunt(in, &list->items[i], (int)i + 1);
    }
    return OK;
}

// --- our own -----------------------------------------------------------------

static const struct field own_fields[] = {
    FIELD(offers_row, compliance, TEXT, "tags, separated by |"),
    FIELD(offers_row, minimum_seconds, SECONDS, "shortest time billed"),
    FIELD(offers_row, granularity_seconds, SECONDS, "unit that running time is rounded up to"),
    FIELD(offers_row, egress_usd_per_gb, USD, "price of outgoing data per GB"),
    FIELD(offers_row, queue_low_seconds, SECONDS, "time until it starts, 10th percentile"),
    FIELD(offers_row, queue_seconds, SECONDS, "time until it starts, median"),
    FIELD(offers_row, queue_high_seconds, SECONDS, "time until it starts, 90th percentile"),
    FIELD(offers_row, local_disk_bytes, BYTES, "local disk"),
    FIELD(offers_row, storage_bytes_per_s, RATE, "throughput of its storage"),
    FIELD(offers_row, network_bytes_per_s_per_gpu, RATE, "network bandwidth for each GPU"),
    FIELD(offers_row, preemptions_per_hour, NUMBER, "preemptions of its spot instances per hour"),
    FIELD(offers_row, storage_usd_per_gb_month, USD, "price of a GB stored for a month"),
};

void offers_columns(struct field *fields)
{
    size_t count = 0;
    for (const struct field *f = offer_fields; f->name; f++) {
        fields[count] = *f;
        fields[count++].required =
            !strcmp(f->name, "provider") || !strcmp(f->name, "gpu") || !strcmp(f->name, "gpus");
    }
    for (size_t i = 0; i < sizeof own_fields / sizeof *own_fields; i++)
        fields[count++] = own_fields[i];
    for (const struct field *f = offers_machine_fields + 1; f->name; f++) { // after its GPUs
        fields[count] = *f;
        fields[count++].offset += offsetof(struct offers_row, machine);
    }
    assert(count < OFFERS_COLUMNS);
    fields[count] = (struct field){ 0 };
}

static enum err complete(struct import *in, struct offers_row *row)
{
    const struct gpu *gpu;
    struct offer *offer = &row->offer;
    if (catalog_gpu(&gpu, in->source->catalog, offer->gpu))
        return error_prefix(ERR_INPUT, "%s: ", in->source->name);
    if (!offer->gpus)
        return fail(ERR_INPUT, "%s: %s: gpus is 0, must be at least 1", in->source->name,
                    offer->provider);
    offer->gpu = gpu->name;
    if (!offer->instance)
        offer->instance = text_format(in->arena, "%lldx-%s", (long long)offer->gpus, gpu->name);
    bool own = offer->price_kind == OFFER_OWN;
    if (own && offers_machine_price(row, in->source->catalog, gpu))
        return error_prefix(ERR_INPUT, "%s: %s: ", in->source->name, offer->instance);
    offer->region = offer->region ? offer->region : own ? OFFERS_HERE : "US";
    offer->region_scope = offer->region_scope ? offer->region_scope : "list";
    offer->source = offer->source ? offer->source : in->source->name;
    offer->as_of = offer->as_of ? offer->as_of : in->as_of;
    in->report->undated += !offer->as_of && !own;
    return OK;
}

static enum err read_own(struct import *in)
{
    struct field fields[OFFERS_COLUMNS];
    void *rows = NULL;
    size_t count = 0;
    offers_columns(fields);
    TRY(field_read_csv(fields, sizeof(struct offers_row), &rows, &count, in->arena,
                       in->source->text, in->source->name));
    for (size_t i = 0; i < count; i++) {
        struct offers_row *row = (struct offers_row *)rows + i;
        struct offer *offer = &row->offer;
        TRY(complete(in, row));
        in->report->rows++;
        double prices[] = { offer->on_demand_usd_per_hour, offer->spot_usd_per_hour,
                            offer->reserved_1y_usd_per_hour, offer->reserved_3y_usd_per_hour };
        bool priced = false, absurd = false;
        for (int k = 0; k < 4; k++) {
            priced = priced || prices[k] > 0;
            if (!absurd && offer->price_kind != OFFER_OWN &&
                is_absurd(prices[k], (double)offer->gpus)) {
                absurd = true;
                offers_refuse(in, OFFERS_ABSURD,
                              text_of(text_format(in->arena, "row %zu: $%.6g per GPU hour", i + 2,
                                                  prices[k] / (double)offer->gpus)));
            }
        }
        if (!priced)
            offers_refuse(in, OFFERS_UNPRICED, text_of(offer->instance));
        if (!priced || absurd)
            continue;
        *new_row(in) = *row;
        in->report->kept++;
    }
    return OK;
}

// --- reading -----------------------------------------------------------------

static enum err read_csv(struct import *in)
{
    struct csv csv;
    struct text text = in->source->text;
    const char *end = memchr(text.at, '\n', text.size);
    struct text head = { text.at, end ? (size_t)(end - text.at) : text.size };
    bool skypilot = false, gpuhunt = false;
    struct text rest = head, cell;
    while (text_next(&rest, ',', &cell)) {
        cell = text_trim(cell);
        skypilot = skypilot || text_is(cell, "InstanceType");
        gpuhunt = gpuhunt || text_is(cell, "instance_name");
    }
    if (!skypilot && !gpuhunt)
        return read_own(in);
    TRY(csv_read(&csv, in->arena, text, in->source->name, ','));
    const char *const needed[] = { "AcceleratorName", "AcceleratorCount", "Price" };
    for (size_t i = 0; skypilot && i < 3; i++)
        if (csv_column(&csv, needed[i]) < 0)
            return fail(ERR_INPUT, "%s: has no column %s, which a SkyPilot catalog has",
                        in->source->name, needed[i]);
    if (!skypilot && (csv_column(&csv, "price") < 0 || csv_column(&csv, "gpu_name") < 0))
        return fail(ERR_INPUT, "%s: has no columns price and gpu_name, which gpuhunt writes",
                    in->source->name);
    if (skypilot)
        read_skypilot(in, &csv);
    else
        read_gpuhunt_csv(in, &csv);
    return OK;
}

enum err offers_read(struct offers *out, struct offers_report *report, struct arena *arena,
                     const struct offers_source *source)
{
    struct import *in = ARENA_NEW(arena, struct import, 1);
    *out = (struct offers){ 0 };
    *report = (struct offers_report){ 0 };
    in->source = source;
    in->report = report;
    in->arena = arena;
    in->out = out;
    in->as_of = source->as_of;
    in->provider = source->provider ? source->provider : provider_of(arena, source->name);
    struct text text = text_trim(source->text);
    if (!text.size)
        return fail(ERR_INPUT,
                    "%s: is empty; expected a SkyPilot or gpuhunt catalog, or our own CSV",
                    source->name);
    return text.at[0] == '[' || text.at[0] == '{' ? read_gpuhunt(in, text) : read_csv(in);
}

// --- the report --------------------------------------------------------------

static const char *const refusals[] = {
    [OFFERS_WITHOUT_GPU] = "has no GPU",
    [OFFERS_UNPRICED] = "its price is zero or missing",
    [OFFERS_ABSURD] = "its price is implausible",
    [OFFERS_UNKNOWN_GPU] = "its GPU is not in the catalog",
    [OFFERS_HOSTLESS] = "a GPU, and the price of its host is not in the file",
    [OFFERS_SLICE] = "a slice of a GPU (MIG)",
    [OFFERS_ABROAD] = "outside the United States (--all-regions takes it)",
    [OFFERS_OTHER_PRODUCT] = "no Linux instance by the hour, in dollars",
};

void offers_report_add(struct offers_report *to, const struct offers_report *more)
{
    to->rows += more->rows;
    to->kept += more->kept;
    to->merged += more->merged;
    to->parts += more->parts;
    to->formed += more->formed;
    to->unplaced += more->unplaced;
    to->undated += more->undated;
    for (int i = 0; i < OFFERS_REFUSALS; i++) {
        to->refused[i] += more->refused[i];
        to->example[i] = to->example[i] ? to->example[i] : more->example[i];
    }
}

const char *offers_report_spell(const struct offers_report *r, struct arena *arena)
{
    struct out out = { .arena = arena };
    size_t refused = 0;
    for (int i = 0; i < OFFERS_REFUSALS; i++)
        refused += r->refused[i];
    out_put(&out, "%zu offer%s from %zu row%s", r->kept, text_plural((double)r->kept), r->rows,
            text_plural((double)r->rows));
    if (refused)
        out_put(&out, "; %zu refused: gpuhours show offers --import lists why", refused);
    if (r->unplaced)
        out_put(&out, "; %zu without a country: never recommended", r->unplaced);
    if (r->undated)
        out_put(&out, "; %zu without a date: never recommended (column as_of)", r->undated);
    return out_string(&out);
}

static void add_line(struct columns *columns, const char *what, size_t rows, const char *why,
                     const char *example)
{
    if (!rows)
        return;
    columns_add(columns, what);
    columns_add(columns, text_commas(columns->arena, (int64_t)rows));
    columns_add(columns, why);
    columns_add(columns,
                example ? markup_plain(columns->arena, text_of(example), MARKUP_NAME) : NULL);
}

void offers_report_text(const struct offers_report *r, struct arena *arena, struct out *out)
{
    struct columns columns = { .arena = arena, .align = "lrlL", .indent = 2 };
    columns_add_row(&columns, (const char *[]){ "", "rows", "why", "first", NULL });
    add_line(&columns, "taken", r->kept, "", NULL);
    add_line(&columns, "taken", r->merged, "another zone of a region that is taken", NULL);
    add_line(&columns, "taken", r->parts, "a GPU or a host: part of the price of a machine", NULL);
    add_line(&columns, "of these", r->unplaced, "country not stated: never recommended", NULL);
    add_line(&columns, "of these", r->undated, "no date: never recommended (--as-of)", NULL);
    for (int i = 0; i < OFFERS_REFUSALS; i++)
        add_line(&columns, "refused", r->refused[i], refusals[i], r->example[i]);
    columns_write(&columns, out);
}
