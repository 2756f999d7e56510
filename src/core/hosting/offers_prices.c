// SPDX-License-Identifier: Apache-2.0
// Reads the price lists that AWS and Azure publish as JSON.
//
// Neither says which GPU an instance has, AWS only how many: both are those of the catalog's offer
// of that instance, and an instance that the catalog does not know is refused. A price for a term
// that is paid at once (Azure's reservations) is divided by the hours of the term.

#include "core/hosting/offers_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HOURS_PER_YEAR = 8760 };

static bool contains(struct text text, const char *part)
{
    size_t size = strlen(part);
    for (size_t i = 0; i + size <= text.size; i++)
        if (!memcmp(text.at + i, part, size))
            return true;
    return false;
}

// Fills in GPU and host from the catalog. An instance that it does not know has no GPU, or, with
// has_gpu, one of the instance's name, which is refused as unknown.
static void describe(struct foreign *row, const struct import *in, const char *provider,
                     bool has_gpu)
{
    const struct catalog *catalog = in->source->catalog;
    row->provider = text_of(provider);
    for (size_t i = 0; i < catalog->offer_count; i++) {
        const struct offer *o = &catalog->offers[i];
        if (strcmp(o->provider, provider) || !text_is(row->instance, o->instance))
            continue;
        row->gpu = text_of(o->gpu);
        row->gpus = (double)o->gpus;
        row->cores = (double)o->host_cores;
        row->memory_bytes = o->host_memory_bytes;
        return;
    }
    if (has_gpu)
        row->gpu = row->instance, row->gpus = 1;
}

static void refuse_product(struct import *in, struct text what)
{
    in->report->rows++;
    offers_refuse(in, OFFERS_OTHER_PRODUCT, what);
}

// --- AWS ---------------------------------------------------------------------

struct product {
    struct text sku;
    const struct json *about;
};

static int by_sku(const void *a, const void *b)
{
    const struct text *x = &((const struct product *)a)->sku,
                      *y = &((const struct product *)b)->sku;
    size_t size = x->size < y->size ? x->size : y->size;
    int order = memcmp(x->at, y->at, size);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static bool is_or_absent(const struct json *attributes, const char *key, const char *value)
{
    struct text text = json_get_text(attributes, key);
    return !text.at || text_is(text, value);
}

// The dollars per hour of the first price of a term; NAN: another unit or currency.
static double aws_usd(const struct json *term)
{
    const struct json *prices = json_get(term, "priceDimensions");
    for (size_t i = 0; prices && prices->kind == JSON_OBJECT && i < prices->count; i++) {
        const struct json *price = &prices->items[2 * i + 1];
        const struct json *unit = json_get(price, "pricePerUnit");
        struct text usd = unit ? json_get_text(unit, "USD") : (struct text){ 0 };
        double value;
        if (text_is(json_get_text(price, "unit"), "Hrs") && usd.at &&
            !text_read_number(&value, usd))
            return value;
    }
    return NAN;
}

// Sets the price that a term is for: on demand, or a commitment without an upfront payment.
static void aws_price(struct foreign *row, const struct json *term, bool reserved)
{
    const struct json *about = json_get(term, "termAttributes");
    double usd = aws_usd(term);
    if (!reserved) {
        row->on_demand = usd == 0 ? NAN : usd;
        return;
    }
    if (!about || !text_is(json_get_text(about, "PurchaseOption"), "No Upfront") ||
        !text_is(json_get_text(about, "OfferingClass"), "standard") || !(usd > 0))
        return;
    if (text_is(json_get_text(about, "LeaseContractLength"), "1yr"))
        row->reserved_1y = usd;
    if (text_is(json_get_text(about, "LeaseContractLength"), "3yr"))
        row->reserved_3y = usd;
}

// All terms of one product of one kind become one row.
static void aws_row(struct import *in, const struct json *product, const struct json *terms,
                    bool reserved)
{
    const struct json *about = json_get(product, "attributes");
    struct text instance = about ? json_get_text(about, "instanceType") : (struct text){ 0 };
    if (!instance.at || !is_or_absent(about, "operatingSystem", "Linux") ||
        !is_or_absent(about, "tenancy", "Shared") || !is_or_absent(about, "preInstalledSw", "NA") ||
        !is_or_absent(about, "capacitystatus", "Used")) {
        refuse_product(in, instance.at ? instance : json_get_text(product, "productFamily"));
        return;
    }
    struct foreign row = { .instance = instance,
                           .region = json_get_text(about, "regionCode"),
                           .on_demand = NAN,
                           .spot = NAN };
    describe(&row, in, "aws", json_get_text(about, "gpu").size > 0);
    for (size_t i = 0; terms->kind == JSON_OBJECT && i < terms->count; i++)
        aws_price(&row, &terms->items[2 * i + 1], reserved);
    offers_import_row(in, &row);
}

static void aws_terms(struct import *in, const struct product *products, size_t count,
                      const struct json *terms, bool reserved)
{
    for (size_t i = 0; terms && terms->kind == JSON_OBJECT && i < terms->count; i++) {
        struct product wanted = { .sku = terms->items[2 * i].string };
        const struct product *found = bsearch(&wanted, products, count, sizeof *products, by_sku);
        if (found)
            aws_row(in, found->about, &terms->items[2 * i + 1], reserved);
    }
}

// The bulk price list: products and terms by SKU, with a date of publication.
static void read_aws(struct import *in, const struct json *tree, const struct json *list)
{
    struct product *products = ARENA_NEW(in->arena, struct product, list->count + 1);
    for (size_t i = 0; i < list->count; i++)
        products[i] = (struct product){ list->items[2 * i].string, &list->items[2 * i + 1] };
    qsort(products, list->count, sizeof *products, by_sku);
    struct text date = json_get_text(tree, "publicationDate");
    if (!in->as_of && date.size >= 10)
        in->as_of = text_copy(in->arena, (struct text){ date.at, 10 });
    const struct json *terms = json_get(tree, "terms");
    if (!terms)
        return;
    aws_terms(in, products, list->count, json_get(terms, "OnDemand"), false);
    aws_terms(in, products, list->count, json_get(terms, "Reserved"), true);
}

// --- Azure -------------------------------------------------------------------

static void azure_plans(struct foreign *row, const struct json *plans)
{
    for (size_t i = 0; plans && plans->kind == JSON_ARRAY && i < plans->count; i++) {
        struct text term = json_get_text(&plans->items[i], "term");
        double usd = json_get_number(&plans->items[i], "retailPrice", 0);
        if (text_is(term, "1 Year"))
            row->reserved_1y = usd;
        if (text_is(term, "3 Years"))
            row->reserved_3y = usd;
    }
}

static void azure_row(struct import *in, const struct json *item, int line)
{
    struct text kind = json_get_text(item, "type"), name = json_get_text(item, "skuName");
    struct text term = json_get_text(item, "reservationTerm");
    double usd = json_get_number(item, "retailPrice", NAN);
    struct foreign row = { .instance = json_get_text(item, "armSkuName"),
                           .region = json_get_text(item, "armRegionName"),
                           .on_demand = NAN,
                           .spot = NAN,
                           .line = line };
    bool hourly = text_is(json_get_text(item, "unitOfMeasure"), "1 Hour");
    bool linux_dollars = text_is(json_get_text(item, "currencyCode"), "USD") &&
                         !contains(json_get_text(item, "productName"), "Windows");
    bool consumed = text_is(kind, "Consumption") && !contains(name, "Low Priority");
    if (!linux_dollars || !hourly || !(consumed || text_is(kind, "Reservation"))) {
        refuse_product(in, row.instance.size ? row.instance : name);
        return;
    }
    if (text_is(kind, "Reservation") && text_is(term, "1 Year"))
        row.reserved_1y = usd / HOURS_PER_YEAR;
    else if (text_is(kind, "Reservation") && text_is(term, "3 Years"))
        row.reserved_3y = usd / (3 * HOURS_PER_YEAR);
    else if (consumed)
        *(contains(name, "Spot") ? &row.spot : &row.on_demand) = usd;
    azure_plans(&row, json_get(item, "savingsPlan"));
    describe(&row, in, "azure", contains(row.instance, "Standard_N"));
    offers_import_row(in, &row);
}

bool offers_read_prices(struct import *in, const struct json *tree)
{
    if (offers_read_gcp(in, tree))
        return true;
    const struct json *products = tree->kind == JSON_OBJECT ? json_get(tree, "products") : NULL;
    const struct json *items = tree->kind == JSON_OBJECT ? json_get(tree, "Items") : NULL;
    if (products && products->kind == JSON_OBJECT) {
        read_aws(in, tree, products);
        return true;
    }
    if (!items || items->kind != JSON_ARRAY)
        return false;
    for (size_t i = 0; i < items->count; i++)
        if (items->items[i].kind == JSON_OBJECT)
            azure_row(in, &items->items[i], (int)i + 1);
    return true;
}
