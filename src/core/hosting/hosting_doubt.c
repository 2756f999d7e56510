// SPDX-License-Identifier: Apache-2.0
// What can be recommended: the rules, one per row of a table of tests.
//
// A row is shown whatever its price is. It is recommended only if one would sign for it: the price
// is firm, has a date within 180 days, holds in the place that was asked for (the United States
// where no region was), and where several nodes are used the network between them is known.

#include "core/hosting/hosting_internal.h"

#include <math.h>

// Whether the price of this kind is not one that a provider asks for this offer.
static bool is_unfirm(const struct hosting_row *row)
{
    bool only_on_demand = row->price_kind == OFFER_RESERVATION || row->price_kind == OFFER_BLOCK;
    bool firm = row->price_kind == OFFER_FIRM || row->price_kind == OFFER_FLEX ||
                row->price_kind == OFFER_OWN;
    return !firm && (!only_on_demand || row->kind == OFFERS_ON_DEMAND);
}

static void doubt_price(struct hosting_row *row)
{
    static const struct {
        const char *word, *sentence;
    } kinds[] = {
        [OFFER_AUCTION] = { "auction", "its price is the floor of an auction" },
        [OFFER_MEDIAN] = { "median", "its price is a median of other offers" },
        [OFFER_RESERVATION] = { "reservation", "it is sold by reservation only" },
        [OFFER_BLOCK] = { "block", "it is a prepaid block of whole days, whose start has to be "
                                   "found and which cannot be "
                                   "cancelled" },
    };
    row->doubt_word = kinds[row->price_kind].word;
    row->doubt = row->kind == OFFERS_COLOCATION
                     ? "its price is a median of published ones; --server-price gives yours"
                     : kinds[row->price_kind].sentence;
}

static bool has_network(const struct hosting_row *row, const struct hosting_maker *m)
{
    bool networked = true;
    if (row->offer && row->instances > 1)
        hosting_node(&m->job.plan->data->catalog, row->group->gpu, row->offer, &networked);
    return networked;
}

// GCP gives a flex-start machine away for seven days at most.
enum { MOST_FLEX_HOURS = 7 * 24 };

static bool is_queue_known(const struct hosting_row *row, const struct hosting_maker *m)
{
    return m->request->queue || !isnan(row->offer->queue_seconds);
}

void hosting_doubt(struct hosting_row *row, const struct hosting_maker *m)
{
    bool own = row->kind == OFFERS_OWN;
    bool anywhere = own || row->kind == OFFERS_COLOCATION; // where the owner puts it
    row->stale = row->age_days > 180;
    if (is_unfirm(row)) {
        doubt_price(row);
    } else if (row->kind == OFFERS_FLEX && !is_queue_known(row, m)) {
        row->doubt_word = "start?";
        row->doubt = "when it starts is not known; --queue says how long it takes";
    } else if (row->kind == OFFERS_FLEX && row->run_hours.high > MOST_FLEX_HOURS) {
        row->doubt_word = "7 days";
        row->doubt = "it is taken away after seven days, and the run may need more";
    } else if (row->offer && isnan(row->age_days) && !own) {
        row->doubt_word = "no date";
        row->doubt = "its price has no date";
    } else if (row->age_days < 0) {
        row->doubt_word = "future date";
        row->doubt = "its price is dated in the future";
    } else if (!anywhere && !offers_is_placed(row->region)) {
        row->doubt_word = "country?";
        row->doubt = "its country is not stated";
    } else if (!anywhere && !m->request->region && !offers_area(row->region)) {
        row->doubt_word = "abroad";
        row->doubt = "it is outside the United States (--region names its region)";
    } else if (!has_network(row, m)) {
        row->doubt_word = "network?";
        row->doubt = "the network between its nodes is not known";
    } else if (row->stale && !own) {
        row->doubt_word = "old price";
        row->doubt = text_format(m->job.arena, "its price is %.0f days old", row->age_days);
    }
}
