// price: what a GPU hour costs, over the offers of the catalog.
//
// A simple reading: each provider's cheapest on-demand instances that hold so many of the GPU,
// whole instances billed. Where to rent, on which terms, is the hosting stage's matter.

#pragma once

#include "base/stats.h"
#include "core/step/catalog.h"

struct price {
    double *usd_per_gpu_hour; // per GPU used, one per provider, ascending
    size_t offers;
    const char *oldest, *newest; // as_of of the offers; NULL without any
};

// Prices of that many GPUs: of instances that hold them in as few machines as can be had, and of
// those the ones that leave the fewest GPUs unused.
struct price price_find(struct arena *arena, const struct catalog *catalog, const struct gpu *gpu,
                        double gpus);
struct price price_given(struct arena *arena, double usd_per_gpu_hour);
double price_median(const struct price *price); // NAN without offers
