// SPDX-License-Identifier: Apache-2.0
// price: what a GPU hour costs in the catalog's offers.
//
// A simple view: each provider's cheapest on-demand instances that hold that many GPUs, billed as
// whole instances. Like core/hosting it takes only firm prices in a stated country, and several
// instances only if a known network joins them; where no offer has one, the price says so. If the
// user has given a machine of their own, its price is the only one. core/hosting compares places
// and terms.

#pragma once

#include "base/stats.h"
#include "core/step/catalog.h"

struct price {
    double *usd_per_gpu_hour; // per GPU used, one per provider, ascending
    size_t offers;
    const char *oldest, *newest; // as_of of the offers; NULL without any
    double paid_per_used;        // GPUs paid for over GPUs used: whole instances are billed
    bool own;                    // of one's own machine
    bool unconnected;            // of instances with no known network, none of which holds them all
};

// Prices of that many GPUs, in instances that hold them in the fewest machines and leave the fewest
// GPUs unused.
struct price price_find(struct arena *arena, const struct catalog *catalog, const struct gpu *gpu,
                        double gpus);
struct price price_given(struct arena *arena, double usd_per_gpu_hour);
double price_median(const struct price *price); // NAN without offers
