// SPDX-License-Identifier: Apache-2.0
// Finds prices per GPU hour in the catalog's offers.

#include "core/forecast/price.h"

#include <math.h>
#include <string.h>

static bool has_gpu(const struct offer *offer, const struct gpu *gpu)
{
    return offer->gpu && offer->gpus > 0 && offer->on_demand_usd_per_hour > 0 &&
           offer->gpu[0] == gpu->name[0] && !strcmp(offer->gpu, gpu->name); // most differ at once
}

// As in core/hosting: a firm price of this GPU, in a stated country.
static bool is_of(const struct offer *offer, const struct gpu *gpu)
{
    return offer->price_kind == OFFER_FIRM && has_gpu(offer, gpu) && offer->region &&
           strcmp(offer->region, "global");
}

// One's own machine that holds so many of these GPUs: who has one need not rent. NULL: none.
static const struct offer *find_own(const struct catalog *catalog, const struct gpu *gpu,
                                    double gpus)
{
    for (size_t i = 0; i < catalog->offer_count; i++) {
        const struct offer *offer = &catalog->offers[i];
        if (offer->price_kind == OFFER_OWN && has_gpu(offer, gpu) && gpus <= (double)offer->gpus)
            return offer;
    }
    return NULL;
}

// Whether so many GPUs of the offer can train together: in one instance, or over a known network.
static bool holds(const struct catalog *catalog, const struct offer *offer, double gpus)
{
    if (gpus <= (double)offer->gpus)
        return true;
    const struct node *node = catalog_offer_node(catalog, offer);
    return node && node->network_bytes_per_s_per_gpu > 0;
}

static void note_age(struct price *price, const char *as_of)
{
    if (!as_of)
        return;
    if (!price->oldest || strcmp(as_of, price->oldest) < 0)
        price->oldest = as_of;
    if (!price->newest || strcmp(as_of, price->newest) > 0)
        price->newest = as_of;
}

// A provider counts once, with its cheapest offer of that many GPUs.
static void add_offer(struct price *price, const char **providers, const struct offer *offer,
                      double usd_per_gpu_hour)
{
    size_t at = 0;
    while (at < price->offers && strcmp(providers[at], offer->provider))
        at++;
    if (at == price->offers) {
        providers[price->offers++] = offer->provider;
        price->usd_per_gpu_hour[at] = usd_per_gpu_hour;
    }
    price->usd_per_gpu_hour[at] = fmin(price->usd_per_gpu_hour[at], usd_per_gpu_hour);
}

// GPUs paid for over GPUs used, where whole instances are billed.
static double waste(const struct offer *offer, double gpus)
{
    return ceil(gpus / (double)offer->gpus) * (double)offer->gpus / gpus;
}

struct price price_find(struct arena *arena, const struct catalog *catalog, const struct gpu *gpu,
                        double gpus)
{
    struct price price = { .usd_per_gpu_hour = ARENA_NEW(arena, double, catalog->offer_count) };
    const char **providers = ARENA_NEW(arena, const char *, catalog->offer_count);
    const struct offer **offers = ARENA_NEW(arena, const struct offer *, catalog->offer_count);
    size_t count = 0;
    double largest = 0, least = INFINITY;
    bool networked = false; // whether any offer holds that many; else the network is disregarded
    for (size_t i = 0; i < catalog->offer_count; i++)
        if (is_of(&catalog->offers[i], gpu)) {
            offers[count++] = &catalog->offers[i];
            largest = fmax(largest, (double)catalog->offers[i].gpus);
            networked = networked || holds(catalog, &catalog->offers[i], gpus);
        }
    for (int pass = 0; pass < 2; pass++) // first the least waste, then the offers that have it
        for (size_t i = 0; i < count; i++) {
            const struct offer *offer = offers[i];
            if ((double)offer->gpus < fmin(gpus, largest) ||
                (networked && !holds(catalog, offer, gpus)))
                continue;
            double paid = waste(offer, gpus);
            least = fmin(least, paid);
            if (pass == 0 || paid > least)
                continue;
            add_offer(&price, providers, offer,
                      offer->on_demand_usd_per_hour / (double)offer->gpus * paid);
            note_age(&price, offer->as_of);
        }
    stats_sort(price.usd_per_gpu_hour, price.offers);
    price.unconnected = price.offers && !networked;
    price.paid_per_used = price.offers ? least : 1;
    const struct offer *own = find_own(catalog, gpu, gpus);
    if (own) {
        price = price_given(arena, own->on_demand_usd_per_hour / gpus);
        price.own = true;
    }
    return price;
}

struct price price_given(struct arena *arena, double usd_per_gpu_hour)
{
    struct price price = { .usd_per_gpu_hour = ARENA_NEW(arena, double, 1),
                           .offers = 1,
                           .paid_per_used = 1 };
    price.usd_per_gpu_hour[0] = usd_per_gpu_hour;
    return price;
}

double price_median(const struct price *price)
{
    return price->offers ? stats_quantile(price->usd_per_gpu_hour, price->offers, 0.5) : NAN;
}
