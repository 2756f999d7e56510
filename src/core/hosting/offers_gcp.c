// SPDX-License-Identifier: Apache-2.0
// GCP prices a GPU and its host apart: adds up the parts, from SkyPilot's rows or the billing
// catalog.
//
// SkyPilot's file has a row for the GPUs of a machine, without an instance, and one for the host,
// without a GPU, in each zone. The billing catalog has a SKU for each part and way to pay:
//
//     a2-highgpu-1g  =  1 × "Nvidia Tesla A100 GPU running in Americas"
//                    + 12 × "A2 Instance Core running in Americas"
//                    + 85 × "A2 Instance Ram running in Americas"
//
// Which machines there are, and their GPUs, cores and GiB, the catalog's offers of gcp tell. A GPU
// without the price of a host is refused. Disks that come with some machines are not counted: below
// one per cent of an a3-highgpu-8g.

#include "core/hosting/offers_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct family {
    const char *machines, *with; // how their names begin, and what they contain; NULL: nothing more
    const char *accelerator;     // SkyPilot's name of its GPU
    const char *host;            // the name of its parts in the billing catalog; NULL: the price of
                                 // the GPUs is that of the whole machine
    const char *gpus[3];         // names of its GPU there
} families[] = {
    { "a2-highgpu-", NULL, "A100", "A2", { "A100 GPU" } },
    { "a2-megagpu-", NULL, "A100", "A2", { "A100 GPU" } },
    { "a2-ultragpu-", NULL, "A100-80GB", "A2", { "A100 80GB GPU" } },
    { "a3-highgpu-", NULL, "H100", "A3", { "H100 80GB GPU" } },
    { "a3-megagpu-",
      NULL,
      "H100-MEGA",
      "A3Plus",
      { "H100 80GB Mega GPU", "H100 Mega 80GB GPU", "H100 80GB Plus GPU" } },
    { "a3-ultragpu-", NULL, "H200", "A3Ultra", { "H200 141GB GPU" } },
    { "a4-highgpu-", NULL, "B200", NULL, { "B200 (1 gpu slice)" } },
    { "g2-standard-", NULL, "L4", "G2", { "L4 GPU" } },
    { "g4-standard-", NULL, "RTXPRO6000", "G4", { "RTX 6000 96GB" } },
    { "n1-standard-", "+T4", "T4", "N1 Predefined", { "T4 GPU" } },
    { "n1-standard-", "+V100", "V100", "N1 Predefined", { "V100 GPU" } },
};
enum { FAMILIES = sizeof families / sizeof *families };

// A machine of the catalog: "n1-standard-8+T4x1" has the host "n1-standard-8".
struct machine {
    const struct family *family;
    const struct offer *offer;
    struct text host;
};

struct machines {
    struct machine *at;
    size_t count;
};

static const struct family *family_of(const char *instance)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (!strncmp(instance, families[i].machines, strlen(families[i].machines)) &&
            (!families[i].with || strstr(instance, families[i].with)))
            return &families[i];
    return NULL;
}

static struct machines list_machines(const struct import *in)
{
    const struct catalog *catalog = in->source->catalog;
    struct machines list = { ARENA_NEW(in->arena, struct machine, catalog->offer_count + 1), 0 };
    for (size_t i = 0; i < catalog->offer_count; i++) {
        const struct offer *offer = &catalog->offers[i];
        if (strcmp(offer->provider, "gcp"))
            continue;
        bool known = false;
        for (size_t k = 0; !known && k < list.count; k++)
            known = !strcmp(list.at[k].offer->instance, offer->instance);
        const struct family *family = known ? NULL : family_of(offer->instance);
        struct text host = text_of(offer->instance);
        const char *plus = strchr(offer->instance, '+');
        if (plus)
            host.size = (size_t)(plus - offer->instance);
        if (family)
            list.at[list.count++] = (struct machine){ family, offer, host };
    }
    return list;
}

// A row of the machine, without prices.
static struct foreign row_of(const struct machine *machine, struct text region, int line)
{
    const struct offer *offer = machine->offer;
    return (struct foreign){ .provider = TEXT("gcp"),
                             .instance = text_of(offer->instance),
                             .gpu = text_of(offer->gpu),
                             .region = region,
                             .gpus = (double)offer->gpus,
                             .cores = (double)offer->host_cores,
                             .memory_bytes = offer->host_memory_bytes,
                             .on_demand = NAN,
                             .spot = NAN,
                             .line = line };
}

// Imports a row that the file does not have, but its parts.
static void import_formed(struct import *in, const struct foreign *row)
{
    offers_import_row(in, row);
    in->report->rows--;
    in->report->formed++;
}

static void count_part(struct import *in)
{
    in->report->rows++;
    in->report->parts++;
}

static int by_text(struct text x, struct text y)
{
    size_t size = x.size < y.size ? x.size : y.size;
    int order = size ? memcmp(x.at, y.at, size) : 0;
    return order ? order : (x.size > y.size) - (x.size < y.size);
}

// --- SkyPilot ----------------------------------------------------------------

static bool is_host(const struct foreign *row)
{
    return row->instance.size && !row->gpu.size;
}

static int by_host(const void *a, const void *b)
{
    const struct foreign *x = *(const struct foreign *const *)a,
                         *y = *(const struct foreign *const *)b;
    int order = by_text(x->instance, y->instance);
    return order ? order : by_text(x->zone, y->zone);
}

struct hosts {
    const struct foreign **at; // sorted
    size_t count;
};

static const struct foreign *find_host(const struct hosts *hosts, struct text name,
                                       struct text zone)
{
    struct foreign wanted = { .instance = name, .zone = zone }, *key = &wanted;
    const struct foreign **found =
        hosts->count ? bsearch(&key, hosts->at, hosts->count, sizeof *hosts->at, by_host) : NULL;
    return found ? *found : NULL;
}

static bool has_gpus(const struct machine *machine, const struct foreign *row)
{
    return text_is(row->gpu, machine->family->accelerator) &&
           row->gpus == (double)machine->offer->gpus;
}

// Forms the machines that have these GPUs and whose host has a price in the zone. The rows of GPU
// and host are then parts.
static void join(struct import *in, const struct machines *machines, const struct hosts *hosts,
                 const struct foreign *rows, const struct foreign *gpus, bool *is_part)
{
    for (size_t i = 0; i < machines->count; i++) {
        const struct machine *machine = &machines->at[i];
        const struct foreign *host = machine->family->host && has_gpus(machine, gpus)
                                         ? find_host(hosts, machine->host, gpus->zone)
                                         : NULL;
        if (!host)
            continue;
        struct foreign row = row_of(machine, gpus->region, gpus->line);
        row.on_demand = gpus->on_demand + host->on_demand;
        row.spot = gpus->spot + host->spot;
        import_formed(in, &row);
        is_part[gpus - rows] = is_part[host - rows] = true;
    }
}

// Imports a row as it is, or as the machine that its price is the whole price of.
static void import_whole(struct import *in, const struct machines *machines,
                         const struct foreign *row)
{
    struct foreign whole = *row;
    for (size_t i = 0; i < machines->count && !row->instance.size; i++)
        if (!machines->at[i].family->host && has_gpus(&machines->at[i], row)) {
            whole = row_of(&machines->at[i], row->region, row->line);
            whole.on_demand = row->on_demand;
            whole.spot = row->spot;
        }
    offers_import_row(in, &whole);
}

void offers_join_hosts(struct import *in, const struct foreign *rows, size_t count)
{
    struct machines machines = list_machines(in);
    struct hosts hosts = { ARENA_NEW(in->arena, const struct foreign *, count + 1), 0 };
    bool *is_part = ARENA_NEW(in->arena, bool, count + 1);
    for (size_t i = 0; i < count; i++)
        if (is_host(&rows[i]))
            hosts.at[hosts.count++] = &rows[i];
    qsort(hosts.at, hosts.count, sizeof *hosts.at, by_host);
    for (size_t i = 0; i < count; i++)
        if (rows[i].gpu.size && !rows[i].instance.size)
            join(in, &machines, &hosts, rows, &rows[i], is_part);
    for (size_t i = 0; i < count; i++) {
        if (is_part[i])
            count_part(in);
        else
            import_whole(in, &machines, &rows[i]);
    }
}

// --- the billing catalog -----------------------------------------------------

enum part { PART_GPU, PART_CORE, PART_MEMORY, PARTS };
enum way { WAY_ON_DEMAND, WAY_SPOT, WAY_1Y, WAY_3Y, WAY_FLEX, WAY_CALENDAR, WAYS };

// The price of a part in a region. Parts of a host have the first family of its name.
struct rate {
    const struct family *family;
    enum part part;
    enum way way;
    struct text region;
    double usd;
    size_t sku;
};

struct rates {
    struct rate *at;
    size_t count, room;
};

static bool contains(struct text text, const char *part)
{
    size_t size = strlen(part);
    for (size_t i = 0; i + size <= text.size; i++)
        if (!memcmp(text.at + i, part, size))
            return true;
    return false;
}

// Whether the text has these words, between blanks or at an end.
static bool has_words(struct text text, const char *words)
{
    size_t size = strlen(words);
    for (size_t i = 0; i + size <= text.size; i++)
        if (!memcmp(text.at + i, words, size) && (i == 0 || text.at[i - 1] == ' ') &&
            (i + size == text.size || text.at[i + size] == ' '))
            return true;
    return false;
}

static bool starts(struct text text, const char *start)
{
    return text.size >= strlen(start) && !memcmp(text.at, start, strlen(start));
}

// How the part is paid for; WAYS: not as an ordinary machine.
static enum way way_of(struct text about, struct text usage)
{
    static const char *const other[] = { "Custom", "Sole Tenancy", "Premium", "Capacity Optimized",
                                         "Virtual Workstation" };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (contains(about, other[i]))
            return WAYS;
    if (contains(about, "Calendar Mode"))
        return WAY_CALENDAR;
    if (contains(about, "DWS Defined Duration") || contains(about, "DWS Flex Start"))
        return WAY_FLEX;
    if (starts(about, "Commitment"))
        return text_is(usage, "Commit1Yr") ? WAY_1Y : text_is(usage, "Commit3Yr") ? WAY_3Y : WAYS;
    if (starts(about, "Reserved"))
        return WAYS; // covered by a reservation, at a price of zero
    if (contains(about, "Spot Preemptible") || text_is(usage, "Preemptible"))
        return WAY_SPOT;
    return text_is(usage, "OnDemand") ? WAY_ON_DEMAND : WAYS;
}

static const struct family *family_of_gpu(struct text about)
{
    for (size_t i = 0; i < FAMILIES; i++)
        for (int k = 0; k < 3 && families[i].gpus[k]; k++)
            if (contains(about, families[i].gpus[k]))
                return &families[i];
    return NULL;
}

static const struct family *family_of_host(struct text about)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (families[i].host && has_words(about, families[i].host))
            return &families[i];
    return NULL;
}

static enum part part_of(struct text about, struct text group)
{
    if (text_is(group, "GPU"))
        return PART_GPU;
    if (text_is(group, "CPU") || has_words(about, "Core"))
        return PART_CORE;
    return text_is(group, "RAM") || has_words(about, "Ram") ? PART_MEMORY : PARTS;
}

// The newest price of a SKU in its dearest tier; NAN where it is not in dollars.
static double usd_of(const struct json *sku, struct text *unit, struct text *date)
{
    const struct json *infos = json_get(sku, "pricingInfo");
    const struct json *info =
        infos && infos->kind == JSON_ARRAY && infos->count ? &infos->items[infos->count - 1] : NULL;
    const struct json *expression = info ? json_get(info, "pricingExpression") : NULL;
    const struct json *tiers = expression ? json_get(expression, "tieredRates") : NULL;
    double most = NAN;
    for (size_t i = 0; tiers && tiers->kind == JSON_ARRAY && i < tiers->count; i++) {
        const struct json *price = json_get(&tiers->items[i], "unitPrice");
        struct text currency = price ? json_get_text(price, "currencyCode") : (struct text){ 0 };
        struct text units = price ? json_get_text(price, "units") : (struct text){ 0 };
        double whole = 0;
        if (!price || (currency.at && !text_is(currency, "USD")) ||
            (units.size && text_read_number(&whole, units)))
            return NAN;
        double usd = whole + json_get_number(price, "nanos", 0) / 1e9;
        most = isnan(most) ? usd : fmax(most, usd);
    }
    if (expression)
        *unit = json_get_text(expression, "usageUnit");
    if (info)
        *date = json_get_text(info, "effectiveTime");
    return most;
}

// Adds a rate for each region of the SKU; false: it is no part of a machine of the catalog.
static bool add_rates(struct import *in, struct rates *rates, const struct json *sku, size_t index,
                      struct text *newest)
{
    const struct json *category = json_get(sku, "category"), *regions;
    struct text about = json_get_text(sku, "description"), unit = { 0 }, date = { 0 };
    if (!category || !about.at)
        return false;
    struct rate rate = { .part = part_of(about, json_get_text(category, "resourceGroup")),
                         .way = way_of(about, json_get_text(category, "usageType")),
                         .usd = usd_of(sku, &unit, &date),
                         .sku = index };
    rate.family = rate.part == PART_GPU ? family_of_gpu(about) : family_of_host(about);
    regions = json_get(sku, "serviceRegions");
    bool hourly = !unit.at || text_is(unit, rate.part == PART_MEMORY ? "GiBy.h" : "h");
    if (rate.part == PARTS || rate.way == WAYS || !rate.family || !(rate.usd > 0) || !hourly ||
        !regions || regions->kind != JSON_ARRAY)
        return false;
    if (date.size >= 10 && by_text(date, *newest) > 0)
        *newest = date;
    for (size_t i = 0; i < regions->count; i++) {
        if (regions->items[i].kind != JSON_STRING)
            continue;
        rates->at = arena_room(in->arena, rates->at, sizeof *rates->at, rates->count, &rates->room);
        rate.region = regions->items[i].string;
        rates->at[rates->count++] = rate;
    }
    return true;
}

static int by_place(const struct rate *x, const struct rate *y)
{
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->family != y->family)
        return x->family < y->family ? -1 : 1;
    if (x->way != y->way)
        return x->way < y->way ? -1 : 1;
    return by_text(x->region, y->region);
}

// The dearest of the same place comes first, so that none is taken for cheaper than it is.
static int by_rate(const void *a, const void *b)
{
    const struct rate *x = a, *y = b;
    int order = by_place(x, y);
    return order ? order : (x->usd < y->usd) - (x->usd > y->usd);
}

// The first rate of that place, or NULL.
static const struct rate *find_rate(const struct rates *rates, const struct rate *wanted)
{
    size_t low = 0, high = rates->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (by_place(&rates->at[mid], wanted) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < rates->count && !by_place(&rates->at[low], wanted) ? &rates->at[low] : NULL;
}

// The price of the machine's host, paid as the GPU is; NAN: a part of it is missing.
static double host_usd(const struct rates *rates, const struct rate *gpu, const struct offer *offer,
                       bool *used)
{
    struct rate core = {
        family_of_host(text_of(gpu->family->host)), PART_CORE, gpu->way, gpu->region, 0, 0
    };
    struct rate memory = core;
    memory.part = PART_MEMORY;
    const struct rate *cores = find_rate(rates, &core), *bytes = find_rate(rates, &memory);
    if (!cores || !bytes)
        return NAN;
    used[cores->sku] = used[bytes->sku] = true;
    return (double)offer->host_cores * cores->usd +
           offer->host_memory_bytes / (1024.0 * 1024 * 1024) * bytes->usd;
}

static void set_price(struct foreign *row, enum way way, double usd, struct arena *arena)
{
    if (way == WAY_SPOT)
        row->spot = usd;
    else if (way == WAY_1Y)
        row->reserved_1y = usd;
    else if (way == WAY_3Y)
        row->reserved_3y = usd;
    else
        row->on_demand = usd;
    if (way != WAY_FLEX && way != WAY_CALENDAR)
        return;
    row->price_kind = way == WAY_FLEX ? OFFER_FLEX : OFFER_BLOCK;
    row->instance = text_of(text_format(arena, "%.*s%s", TEXT_ARGS(row->instance),
                                        way == WAY_FLEX ? OFFERS_FLEX_END : OFFERS_BLOCK_END));
}

// Forms the machines that have this GPU, in its region, paid in its way.
static void form(struct import *in, const struct machines *machines, const struct rates *rates,
                 const struct rate *gpu, bool *used)
{
    for (size_t i = 0; i < machines->count; i++) {
        const struct machine *machine = &machines->at[i];
        const struct offer *offer = machine->offer;
        bool same = machine->family == gpu->family || // a2-highgpu and a2-megagpu
                    !strcmp(machine->family->gpus[0], gpu->family->gpus[0]);
        if (!same)
            continue;
        double usd = (double)offer->gpus * gpu->usd;
        if (gpu->family->host)
            usd += host_usd(rates, gpu, offer, used);
        if (isnan(usd))
            continue;
        struct foreign row = row_of(machine, gpu->region, (int)gpu->sku + 1);
        set_price(&row, gpu->way, usd, in->arena);
        import_formed(in, &row);
        used[gpu->sku] = true;
    }
}

// The SKUs of one page or of several.
static size_t list_skus(const struct json ***out, struct arena *arena, const struct json *tree)
{
    bool many = tree->kind == JSON_ARRAY;
    size_t pages = many ? tree->count : 1, count = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass)
            *out = ARENA_NEW(arena, const struct json *, count + 1);
        count = 0;
        for (size_t i = 0; i < pages; i++) {
            const struct json *page = many ? &tree->items[i] : tree;
            const struct json *skus = page->kind == JSON_OBJECT ? json_get(page, "skus") : NULL;
            for (size_t k = 0; skus && skus->kind == JSON_ARRAY && k < skus->count; k++, count++)
                if (pass)
                    (*out)[count] = &skus->items[k];
        }
    }
    return count;
}

// Why a SKU is not in any price: no part of a machine, or a part whose others are missing.
static void refuse_sku(struct import *in, const struct json *sku, bool is_part)
{
    const struct json *category = sku->kind == JSON_OBJECT ? json_get(sku, "category") : NULL;
    bool gpu = category && text_is(json_get_text(category, "resourceGroup"), "GPU");
    struct text about =
        sku->kind == JSON_OBJECT ? json_get_text(sku, "description") : (struct text){ 0 };
    in->report->rows++;
    offers_refuse(in,
                  !is_part ? OFFERS_OTHER_PRODUCT
                  : gpu    ? OFFERS_HOSTLESS
                           : OFFERS_WITHOUT_GPU,
                  about);
}

bool offers_read_gcp(struct import *in, const struct json *tree)
{
    const struct json **skus = NULL;
    size_t count = list_skus(&skus, in->arena, tree);
    if (!count)
        return false;
    struct rates rates = { 0 };
    struct text newest = { 0 };
    bool *is_part = ARENA_NEW(in->arena, bool, count), *used = ARENA_NEW(in->arena, bool, count);
    for (size_t i = 0; i < count; i++)
        is_part[i] = skus[i]->kind == JSON_OBJECT && add_rates(in, &rates, skus[i], i, &newest);
    if (rates.count)
        qsort(rates.at, rates.count, sizeof *rates.at, by_rate);
    if (!in->as_of && newest.size >= 10)
        in->as_of = text_copy(in->arena, (struct text){ newest.at, 10 });
    struct machines machines = list_machines(in);
    for (size_t i = 0; i < rates.count && rates.at[i].part == PART_GPU; i++)
        if (i == 0 || by_place(&rates.at[i - 1], &rates.at[i]))
            form(in, &machines, &rates, &rates.at[i], used);
    for (size_t i = 0; i < count; i++) {
        if (used[i])
            count_part(in);
        else
            refuse_sku(in, skus[i], is_part[i]);
    }
    return true;
}
