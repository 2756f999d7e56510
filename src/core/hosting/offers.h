// SPDX-License-Identifier: Apache-2.0
// offers: GPU instances for rent with price and date; reads the catalogs of other tools.
//
// A row is an offer of the embedded catalog plus what only a user's own file can give (compliance,
// queue, terms). Imports SkyPilot's CSV (one file per cloud), gpuhunt's JSON or CSV, the JSON of
// AWS's price list, Azure's retail prices and GCP's billing catalog, and our own CSV; the content
// tells which. A row whose price is zero, missing or implausible is left out and reported; it is
// never treated as free.
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
    OFFERS_FLEX, // as on demand, from when there is a machine, for seven days at most
    OFFERS_OWN,  // one's own machine
    OFFERS_RESERVED_1Y,
    OFFERS_RESERVED_3Y,
    OFFERS_COLOCATION,
    OFFERS_MANAGED,
    OFFERS_KINDS,
};
extern const char *const offers_kind_names[]; // "on-demand", …; ended by NULL

// What one's own machine costs; NAN: not given. An option of each, and a column of one's own CSV.
struct offers_machine {
    const char *machine; // "2x4090"; NULL: none, or the row's own GPUs
    double machine_usd, machine_years, machine_use, machine_watts, machine_usd_per_kwh;
};
extern const struct field offers_machine_fields[];

// Unknown numbers are NAN: the provider's usual terms apply.
struct offers_row {
    struct offer offer;     // first, so that offer_fields describe this struct too
    const char *compliance; // tags of the user's own offers: "hipaa|soc2"
    double minimum_seconds, granularity_seconds, egress_usd_per_gb;
    double queue_low_seconds, queue_seconds, queue_high_seconds; // until it starts
    double local_disk_bytes, storage_bytes_per_s, network_bytes_per_s_per_gpu;
    double preemptions_per_hour, storage_usd_per_gb_month;
    struct offers_machine machine; // of price_kind own; all given once the row is priced
};

struct offers {
    struct offers_row *rows;
    size_t count;
};

// What a provider bills besides the price of an instance, and what it states to be attested for,
// from data/billing.csv.
struct billing {
    const char *provider, *instance; // "*": any provider; instance: prefix of its names, or NULL
    double granularity_seconds, minimum_seconds, egress_usd_per_gb;
    const char *confidence, *source, *as_of, *note;
    double storage_usd_per_gb_month; // NAN: not stated
    const char *storage_source, *storage_as_of;
    const char *attested; // "hipaa|soc2"; NULL: nothing is stated
    const char *attested_source, *attested_as_of;
};
extern const struct field billing_fields[];

struct offers_source {
    const struct catalog *catalog; // for the names of GPUs
    struct text text;
    const char *name;     // of the file, for messages; gives the provider if there is none
    const char *provider; // NULL: from the name
    const char *as_of;    // date of prices that have none; NULL: not known
    bool all_regions;     // also outside the United States
};

enum offers_refusal {
    OFFERS_WITHOUT_GPU,
    OFFERS_UNPRICED,
    OFFERS_ABSURD,
    OFFERS_UNKNOWN_GPU,
    OFFERS_HOSTLESS, // a GPU; its host has a price of its own, which is missing
    OFFERS_SLICE,
    OFFERS_ABROAD,
    OFFERS_OTHER_PRODUCT, // of a price list: another system, tenancy, unit or currency
    OFFERS_REFUSALS,
};

// rows + formed = kept + merged + parts + the sum of refused.
struct offers_report {
    size_t rows, kept, merged; // merged: further zones of one region
    size_t parts;              // rows that are a GPU or a host, in the price of a machine
    size_t formed;             // machines made of parts, kept, merged or refused
    size_t refused[OFFERS_REFUSALS];
    const char *example[OFFERS_REFUSALS]; // of the first row refused so
    size_t unplaced, undated;             // kept, but never recommended
};

enum err offers_read(struct offers *out, struct offers_report *report, struct arena *arena,
                     const struct offers_source *source);
void offers_report_add(struct offers_report *to, const struct offers_report *more);
const char *offers_report_spell(const struct offers_report *report, struct arena *arena);
// A table of what was taken, and what was refused and why.
void offers_report_text(const struct offers_report *report, struct arena *arena, struct out *out);

// The columns of a CSV of your own offers: those of offers.csv and more; only provider, gpu and
// gpus are needed.
enum { OFFERS_COLUMNS = 48 };
void offers_columns(struct field *fields); // with room for OFFERS_COLUMNS

void offers_clear_terms(struct offers_row *row); // what only one's own file gives: unknown
void offers_of_catalog(struct offers *out, struct arena *arena, const struct catalog *catalog);
// Adds rows; each replaces those of the same provider, instance and region.
void offers_override(struct offers *to, struct arena *arena, const struct offers *more);
void offers_write(const struct offers *offers, struct out *out); // our own CSV

// A prepaid block is an offer of its own, named after its instance: "p5.48xlarge-block", and so is
// an instance that starts when there is one: "a3-highgpu-8g-flex". This is the name of the instance
// in any offer.
#define OFFERS_BLOCK_END "-block"
#define OFFERS_FLEX_END "-flex"
struct text offers_instance(const struct offer *offer);

struct offers_machine offers_machine_default(void); // nothing given
// Adds the machine, if there is one; ERR_USAGE for numbers that no machine has.
enum err offers_machine_add(struct offers *to, struct arena *arena, const struct catalog *catalog,
                            const struct offers_machine *machine);
// Prices a row of one's own machine by the hour, unless it has a price.
enum err offers_machine_price(struct offers_row *row, const struct catalog *catalog,
                              const struct gpu *gpu);
double offers_machine_wear(const struct offers_machine *machine); // USD per hour in use
double offers_machine_electricity(const struct offers_machine *machine);

#define OFFERS_SERVER_OVER_GPUS 1.6 // its power over that of its GPUs, where no node tells

// Whether it is rented and paid for the time that it is used.
bool offers_is_rented(enum offers_kind kind);

// USD per hour of the instance; NAN if it is not offered this way. Zero is not a price.
double offers_price(const struct offer *offer, enum offers_kind kind);
const char *offers_as_of(const struct offer *offer, enum offers_kind kind);

// Days from one date to another: "2026-08-22", "2026-08" (the 15th), "2026" (July 1st). NAN if
// either is not a date.
double offers_days(const char *from, const char *to);

enum err offers_billing(struct billing **out, size_t *count, struct arena *arena, struct text csv,
                        const char *name);
// The row of the provider and instance, else of "*"; NULL where there is neither.
const struct billing *offers_terms(const struct billing *rows, size_t count, const char *provider,
                                   const char *instance);
// The row that prices the storage of an offer with these terms: theirs, else that of "*".
const struct billing *offers_storage(const struct billing *rows, size_t count,
                                     const struct billing *terms);

// Whether a list separated by | has the word.
bool offers_tagged(const char *tags, struct text word);

// "us-east", "us-central", "us-south", "us-west"; "us" if nothing more precise is known; NULL
// outside the United States, or if the country is not stated.
const char *offers_area(const char *region);

// Whether a region says in which country it is: not "", "global", OFFERS_NO_REGION or OFFERS_HERE.
bool offers_is_placed(const char *region);
#define OFFERS_NO_REGION "not-stated"
#define OFFERS_HERE "here" // where one's own machine stands

// Whether the offer is in the region, given as its name, a prefix of it, its area, or "us".
bool offers_in_region(const struct offer *offer, const char *region);

enum { OFFERS_USD_LEAST_CENTS = 5, OFFERS_USD_MOST = 200 }; // per GPU hour; others are implausible
