// SPDX-License-Identifier: Apache-2.0
// The comparison as a sheet for a spreadsheet: a line per offer, a column per term of its cost.
//
// Dollars are those of one run at the median. The terms from rent_usd to storage_usd add up to
// total_usd in every line: rented machines have rent_usd, owned ones the seven terms of ownership,
// shared by the runs of a month; one's own machine its write-off and electricity.

#include "core/hosting/hosting_internal.h"

#include "base/markup.h"

#include <math.h>
#include <string.h>

static const char *const heads[] = {
    "provider",
    "instance",
    "region",
    "kind",
    "gpu",
    "gpus",
    "instances",
    "price_kind",
    "price_as_of",
    "not_recommended",
    "run_hours_p50",
    "elapsed_hours_p50",
    "elapsed_hours_p90",
    "billed_hours",
    "usd_per_instance_hour",
    "rent_usd",
    "write_off_usd",
    "capital_usd",
    "operations_usd",
    "rack_usd",
    "electricity_usd",
    "network_usd",
    "staff_usd",
    "data_in_usd",
    "results_out_usd",
    "storage_usd",
    "total_usd",
    "total_usd_p10",
    "total_usd_p90",
    "commitment_usd",
    "break_even_runs_per_month",
};

static void put_word(struct out *out, const char *word)
{
    if (word)
        markup_put(out, MARKUP_CSV, text_of(word), MARKUP_SENTENCE);
    out_char(out, ',');
}

static void put_number(struct out *out, double value)
{
    if (isfinite(value))
        out_put(out, "%.12g", value);
    out_char(out, ',');
}

// What renting costs, or what each term of an owned machine does.
static void put_machines(struct out *out, const struct hosting *h, const struct hosting_row *row)
{
    double usd[HOSTING_TERMS] = { 0 }, rent = row->compute_usd.mid;
    if (row->kind == OFFERS_COLOCATION) {
        struct hosting_term terms[HOSTING_TERMS];
        double used = h->runs_per_month * row->run_hours.mid / row->sets / HOSTING_HOURS_PER_MONTH;
        hosting_ownership_month(&row->ownership, used, terms);
        for (int i = 0; i < HOSTING_TERMS; i++)
            usd[i] =
                terms[i].usd_per_month.mid * row->sets * (double)row->instances / h->runs_per_month;
        rent = 0;
    } else if (row->kind == OFFERS_OWN && !isnan(row->offer->machine.machine_watts)) {
        double hours = row->billed_hours.mid * (double)row->instances;
        usd[HOSTING_WRITE_OFF] = offers_machine_wear(&row->offer->machine) * hours;
        usd[HOSTING_ELECTRICITY] = offers_machine_electricity(&row->offer->machine) * hours;
        rent = 0;
    }
    put_number(out, rent);
    for (int i = 0; i < HOSTING_TERMS; i++)
        put_number(out, usd[i]);
}

static void put_row(struct out *out, const struct hosting *h, const struct hosting_row *row)
{
    put_word(out, row->provider);
    put_word(out, row->instance);
    put_word(out, row->region);
    put_word(out, offers_kind_names[row->kind]);
    put_word(out, row->group ? row->group->gpu->name : NULL);
    put_number(out, (double)row->gpus);
    put_number(out, (double)row->instances);
    put_word(out, offer_price_kinds[row->price_kind]);
    put_word(out, row->as_of);
    put_word(out, row->doubt);
    put_number(out, row->run_hours.mid);
    put_number(out, row->elapsed_hours.mid);
    put_number(out, row->elapsed_hours.high);
    put_number(out, row->billed_hours.mid);
    put_number(out, row->usd_per_hour);
    put_machines(out, h, row);
    put_number(out, row->move.in_usd);
    put_number(out, row->move.out_usd);
    put_number(out, row->storage.usd.mid);
    put_number(out, row->cost_usd.mid);
    put_number(out, row->cost_usd.low);
    put_number(out, row->cost_usd.high);
    put_number(out, row->commitment_usd);
    if (isfinite(row->break_even_runs))
        out_put(out, "%.12g", row->break_even_runs);
    out_char(out, '\n');
}

void hosting_sheet(const struct hosting *h, struct out *out)
{
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        out_put(out, "%s%s", i ? "," : "", heads[i]);
    out_char(out, '\n');
    for (size_t i = 0; i < h->count; i++)
        put_row(out, h, &h->rows[i]);
}
