// offers: what can be rented, at which price of which age; reads offers of other catalogs.
//
// The embedded table becomes rows with what only a user's own file knows beside it (compliance,
// queue, terms). Imported are SkyPilot's CSV (one file per cloud), gpuhunt's JSON or CSV, and our
// own CSV; which of them a text is shows in its first line. A row whose price is zero, missing or
// absurd is left out and reported, never free.
//
//     struct offers offers;
//     struct offers_report report;
//     TRY(offers_read(&offers, &report, arena, &source));
//     offers_write(&offers, &out); // as our own CSV
//
// Core has no clock: the caller gives today's date.

#pragma once

#include "core/step/catalog.h"

enum offers_kind {
    OFFERS_ON_DEMAND,
    OFFERS_SPOT,
    OFFERS_RESERVED_1Y,
    OFFERS_RESERVED_3Y,
    OFFERS_COLOCATION,
    OFFERS_MANAGED,
    OFFERS_KINDS,
};
extern const char *const offers_kind_names[]; // "on-demand", …; ended by NULL

// Unknown numbers are NAN: the provider's usual terms hold.
struct offers_row {
    struct offer offer;     // first, so that offer_fields describe this struct too
    const char *compliance; // tags of the user's own offers: "hipaa|soc2"
    double minimum_seconds, granularity_seconds, egress_usd_per_gb;
    double queue_low_seconds, queue_seconds, queue_high_seconds; // until it starts
    double local_disk_bytes, storage_bytes_per_s, network_bytes_per_s_per_gpu;
    double preemptions_per_hour;
};

struct offers {
    struct offers_row *rows;
    size_t count;
};

// What a provider bills beside its price, data/billing.csv.
struct billing {
    const char *provider, *instance; // "*" is any; instance: how its names begin, or NULL
    double granularity_seconds, minimum_seconds, egress_usd_per_gb;
    const char *confidence, *source, *as_of, *note;
};
extern const struct field billing_fields[];

struct offers_source {
    const struct catalog *catalog; // for the names of GPUs
    struct text text;
    const char *name;     // of the file, in sentences; tells the provider where none is given
    const char *provider; // NULL: from the name
    const char *as_of;    // of prices without a date of their own
    bool all_regions;     // keeps what is outside the United States
};

struct offers_report {
    size_t rows, kept, merged; // of the text; merged: zones of one region
    size_t without_gpu, unknown_gpu, unpriced, absurd, abroad; // left out
    const char *unknown_name;                                  // the first of them
    double absurd_usd;                                         // the first of them, per GPU hour
    int absurd_line;
};

enum err offers_read(struct offers *out, struct offers_report *report, struct arena *arena,
                     const struct offers_source *source);
const char *offers_report_spell(const struct offers_report *report, struct arena *arena);

// The columns of a CSV of your own offers: those of offers.csv and more; only provider, gpu and
// gpus are needed.
enum { OFFERS_COLUMNS = 48 };
void offers_columns(struct field *fields); // with room for OFFERS_COLUMNS

void offers_of_catalog(struct offers *out, struct arena *arena, const struct catalog *catalog);
void offers_append(struct offers *to, struct arena *arena, const struct offers *more);
void offers_write(const struct offers *offers, struct out *out); // our own CSV

// Dollars per hour of the instance; NAN where it is not offered so. Zero is not a price.
double offers_price(const struct offer *offer, enum offers_kind kind);
const char *offers_as_of(const struct offer *offer, enum offers_kind kind);

// Days from one date to another: "2026-08-22", "2026-08" (its 15th), "2026" (its July 1st). NAN
// for what is not a date.
double offers_days(const char *from, const char *to);

enum err offers_billing(struct billing **out, size_t *count, struct arena *arena, struct text csv,
                        const char *name);
// The row of the provider and instance, else of "*"; NULL where there is neither.
const struct billing *offers_terms(const struct billing *rows, size_t count, const char *provider,
                                   const char *instance);

// "us-east", "us-central", "us-south", "us-west"; "us" where nothing closer is said; NULL abroad.
const char *offers_area(const char *region);

// Whether the offer is in the region: its own name, how that begins, its area, or "us".
bool offers_in_region(const struct offer *offer, const char *region);

enum { OFFERS_USD_LEAST_CENTS = 1, OFFERS_USD_MOST = 200 }; // per GPU hour; beyond is absurd
