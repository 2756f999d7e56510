// SPDX-License-Identifier: Apache-2.0
// hosting: where a planned job could run, what it costs there, and which offer to take.
//
// Evaluates the job on every offer: whole instances, the job estimated for that GPU, count and
// links, the provider's billing, preemption of spot instances, commitments, ownership, and the data
// to move. All offers share the same samples of the unknowns, so that differences between rows are
// differences between offers. Offers are grouped by GPU, count and links: one estimate serves a
// group.
//
//     struct hosting hosting;
//     TRY(hosting_make(&hosting, arena, &input));
//     hosting.rows[0].cost_usd.mid … // the best first
//
// Rows point into the arena, the plan and the offers. The formulas are in the comments of
// hosting_samples.c (samples), hosting_preempt.c and hosting_spot.c (spot), hosting_row.c (billing)
// and hosting_ownership.c; hosting_write() lists those that connect the numbers of a row.

#pragma once

#include "base/rng.h"
#include "core/hosting/offers.h"
#include "core/plan/plan.h"

enum { HOSTING_SAMPLES = 10000, HOSTING_HOURS_PER_MONTH = 730 };

// --- the question ------------------------------------------------------------

extern const char *const hosting_patterns[], *const hosting_managed_billings[];
enum hosting_pattern { HOSTING_STEADY, HOSTING_BURST };
enum hosting_managed { HOSTING_BY_TOKEN, HOSTING_BY_MAXIMUM_LENGTH };

// Texts that are NULL, numbers that are NAN and counts that are 0 were not given.
struct hosting_request {
    const char *gpu, *provider, *region, *kind, *compliance; // lists are separated by commas
    const char *price, *data_at, *queue, *today;
    int64_t gpus, rows;
    double deadline, budget, discount; // seconds, USD, share
    int pattern, managed_billing;
    double runs_per_month, gpu_hours_per_month;
    double data_bytes, link; // bytes, bytes/s
    double managed_price;    // USD per million tokens
    double preemptions_per_hour, spot_wait;
    double server_price, amortisation_years, resale_share, electricity, pue, rack_price;
    double network_per_month, staff_per_month;
    double server_lead;   // seconds until a bought server runs
    double hour_is_worth; // USD per hour that the result comes earlier
};

extern const struct field hosting_fields[];
struct hosting_request hosting_request_default(void);

// A tuning service that is paid by the token, from data/managed.csv.
struct managed {
    const char *provider, *service, *model; // model: NULL: any of that size
    int method;
    double least_parameters, most_parameters, usd_per_million_tokens;
    const char *confidence, *source, *as_of, *note;
    int objective; // what the price is for: supervised or preference tuning
};
extern const struct field managed_fields[];
enum err hosting_read_managed(struct managed **out, size_t *count, struct arena *arena,
                              struct text csv, const char *name);

struct hosting_input {
    const struct plan *plan;
    const struct offers *offers;
    const struct billing *billing;
    size_t billing_count;
    const struct managed *managed; // services to compare with; NULL: none
    size_t managed_count;
    const struct hosting_request *request;
    // Of the plan's document, if no option changed its job: on the plan's own GPUs the run is the
    // plan's, with what was measured there. NULL: every offer chooses for itself.
    const struct hosting_document *planned;
    // Tokens processed according to the plan's document, over those of the plan; 0: not known.
    double processed_scale;
    struct range lengths_factor; // of the training time, by the document; mid 0: not known
};

// What a plan's document contains beyond the request that made it; NAN where it has no value.
struct hosting_document {
    struct efficiency efficiency; // only its numbers
    double processed_tokens, micro_batch, accumulation, global_batch;
    struct range padding_share, tokens;
    const char *parallel;
    int checkpointing;            // that the plan was given; RECIPE_AUTO: none
    bool rows_given;              // the plan was given its micro-batch
    bool job_is_kept;             // set by hosting_keep_run()
    const char *pilot;            // its file's name; NULL: the plan has none
    struct assumption *overheads; // of the plan's own GPUs
    size_t overhead_count;
    struct plan_request request; // as it was read
};

// Reads a plan's document back as the request that made it. Layout and activation checkpointing are
// left open, and a micro-batch that the plan chose itself, since each offer may choose its own.
enum err hosting_read_plan(struct plan_request *out, struct hosting_document *document,
                           struct arena *arena, struct text json, const char *name);

// Once options were read over that request: where they leave the job as it is, the plan gets the
// document's very run; else batches that they changed are dropped.
void hosting_keep_run(struct plan_request *request, struct hosting_document *document,
                      struct arena *arena);

// Takes over the document's efficiency, which a pilot may have measured, and its number of
// processed tokens, which a profile of the data may have measured. The document has to outlive the
// input.
void hosting_adopt(struct hosting_input *input, struct plan *plan,
                   const struct hosting_document *document);

// --- parts of the arithmetic -------------------------------------------------

int64_t hosting_instances(int64_t gpus, int64_t instance_gpus); // rounded up
double hosting_billed_seconds(double seconds, double granularity_seconds, double minimum_seconds);

// A run on spot instances.
struct hosting_preemption {
    double work_seconds;    // without checkpoints and restarts
    double save_seconds;    // of one checkpoint
    double restart_seconds; // from a new instance to the first step, billed
    double rate_per_second; // preemptions while it runs
    double wait_seconds;  // for a new instance, not billed; for the first one too, if none is free
    double fetch_seconds; // of the model's weights onto a new instance, billed
};

struct hosting_spot {
    double saves;                        // number of intervals, each ends with a checkpoint
    double interval_seconds;             // of work between checkpoints, the cheapest
    double young_daly_seconds;           // first-order approximation of that interval
    double billed_seconds, wall_seconds; // expected
    double preemptions;                  // expected
};

struct hosting_spot hosting_spot_best(const struct hosting_preemption *p);
// Expected billed seconds with that many intervals.
double hosting_spot_seconds(const struct hosting_preemption *p, double saves);
// One run of the same process, simulated event by event; returns billed seconds.
double hosting_spot_simulate(const struct hosting_preemption *p, double saves, struct rng *rng,
                             double *wall_seconds);

// The probability that an instance is free at once: up / (up + wait), with up = 1 / rate.
double hosting_spot_available(const struct hosting_preemption *p);

// The number of parallel commitments that the runs of a month need.
double hosting_sets(int pattern, double runs_per_month, double hours_per_run);

struct hosting_term {
    const char *name;
    struct range usd_per_month; // low, typical, high
    const char *confidence, *source, *as_of;
};

enum { HOSTING_WRITE_OFF = 0, HOSTING_ELECTRICITY = 4, HOSTING_TERMS = 7 };

// One owned server in a colocation.
struct hosting_ownership {
    const struct gpu *gpu;
    double gpus;
    struct range server_usd, years, kilowatts, pue, usd_per_kwh, usd_per_kw_month;
    double resale_share, capital_per_year, operations_per_year, network_per_month, staff_per_month;
    double idle_share, draw_share; // power draw over the maximum: idle, and training
    const char *confidence, *source, *as_of;
};

// From the catalog's facts about that GPU; false where no server price is known.
bool hosting_ownership_of(struct hosting_ownership *out, const struct catalog *catalog,
                          const struct gpu *gpu, const struct hosting_request *request);
// USD per month at that utilization (share of hours in use): each term, and their sum. Deviations
// of the terms add up as the root of their squares.
struct range hosting_ownership_month(const struct hosting_ownership *o, double utilization,
                                     struct hosting_term *terms);
// The utilization above which owning is cheaper than renting at that price; NAN if there is none.
double hosting_ownership_break_even(const struct hosting_ownership *o, double usd_per_gpu_hour);
// Months until the savings over renting have paid for the server; INFINITY if never.
double hosting_ownership_months(const struct hosting_ownership *o, double utilization,
                                double usd_per_gpu_hour);

// Moving data in before the run and results out after it.
struct hosting_move {
    double dataset_bytes, model_bytes, result_bytes;
    double in_usd_per_gb, out_usd_per_gb, link_bytes_per_s;
    double in_usd, out_usd, in_hours, out_hours;
};
void hosting_move_cost(struct hosting_move *move);

// The data set and two checkpoints, stored while data moves and the job runs.
struct hosting_storage {
    double bytes, usd_per_gb_month;
    const struct billing *terms; // where the price comes from; NULL: the offer itself, or free
    struct range usd;
};

// Standard deviation of log(price) for a price of that age.
double hosting_price_spread(double age_days);

// --- the answer --------------------------------------------------------------

struct hosting_group; // offers with the same GPU, count and links

struct hosting_row {
    const struct offers_row *offer; // NULL for managed and colocation
    enum offers_kind kind;
    const char *provider, *instance, *region, *as_of;
    const struct hosting_group *group; // NULL for managed
    int64_t instances, instance_gpus, gpus;
    double usd_per_hour, list_usd_per_hour; // of one instance, with and without discount
    double age_days, price_spread;
    double granularity_seconds, minimum_seconds;
    const struct billing *terms; // where they come from; NULL: the offer itself
    int price_kind;              // enum offer_price
    const char *doubt;           // why it cannot be recommended, in a sentence; NULL: it can
    const char *doubt_word;      // the same in a word, for the table
    double rank_usd;             // what rows are ordered by: cost, risk of the price, waiting
    struct range run_hours, billed_hours, queue_hours, elapsed_hours, compute_usd, cost_usd;
    double expected_usd; // spot: by the closed form, in whole units of billing
    struct hosting_move move;
    struct hosting_storage storage;
    struct hosting_spot spot;
    struct hosting_preemption preemption;
    double on_demand_usd;        // spot: the same instance on demand; NAN if it is not offered
    double commitment_usd, sets; // reserved and colocation
    // Reserved: the runs of a month above which it is cheaper than the best offer paid by the hour,
    // and the share of its hours that they use; NAN if it never is.
    double break_even_runs, break_even;
    const struct hosting_row *rent; // that offer; NULL: none
    struct hosting_ownership ownership;
    double rent_usd_per_gpu_hour; // cheapest on-demand price of an owned GPU; NAN: none
    double disk_needed_bytes, local_disk_bytes; // base model, data, two checkpoints; NAN: unknown
    double managed_tokens, usd_per_million_tokens;
    const struct managed *managed; // NULL: --managed-price, or not a service
    double chance_in_time;         // NAN without a deadline
    const double *wall_seconds;    // HOSTING_SAMPLES run times, unordered; NULL for managed
    const char *limit;             // the bottleneck: "compute", "memory", "interconnect", …
    bool in_time, in_budget, stale;
    bool surely_in_budget; // at P90
    bool pareto;           // no other row is both sooner and cheaper
};

// Why an offer was not evaluated or cannot run the job.
enum hosting_reason {
    HOSTING_OTHER_GPU,
    HOSTING_OTHER_PROVIDER,
    HOSTING_OTHER_REGION,
    HOSTING_NOT_ATTESTED,
    HOSTING_NO_PRICE,
    HOSTING_NO_PRECISION,
    HOSTING_NO_FIT,
    HOSTING_OTHER_BATCH, // more GPUs than the plan's global batch has micro-batches
    HOSTING_NO_NETWORK,  // smaller than --gpus, and no network between instances is known
    HOSTING_NO_HOST_MEMORY,
    HOSTING_REASONS,
};

struct hosting {
    const struct hosting_input *input;
    struct hosting_row *rows; // ranked, one per provider, instance, region and kind
    size_t count, evaluated, groups;
    size_t left_out[HOSTING_REASONS];
    const struct hosting_row *cheapest_doubtful; // meets the limits, but cannot be recommended
    const struct hosting_row *recommended, *cheapest_in_time, *fastest_in_budget;
    const struct hosting_row *smallest; // fewest GPUs, not spot, with room in memory
    const char *reason;                 // for the recommendation
    const char *advice[12];             // on demand or reserved, data, sensitivity, old prices
    size_t advice_count;
    double runs_per_month;
    bool runs_assumed;
    struct assumption assumptions[12]; // in addition to the plan's
    size_t assumption_count;
};

// ERR_USAGE for filters that name nothing. Finding no offer is OK: the caller checks count.
enum err hosting_make(struct hosting *out, struct arena *arena, const struct hosting_input *input);

// Why no offer meets the request, and which option to relax.
const char *hosting_explain_none(const struct hosting *hosting, struct arena *arena);

const struct hosting_row *hosting_find(const struct hosting *hosting, const char *name);

// The hours that the run stays under in that share of the samples: 0.95 is its P95. NAN for
// managed.
double hosting_run_hours(const struct hosting_row *row, struct arena *arena, double share);
// How the job would be configured there; NULL for managed.
const struct search_result *hosting_configuration(const struct hosting_row *row);
void hosting_write(const struct hosting *hosting, struct arena *arena, struct out *out);
// A line per offer, a column per term of its cost; see hosting_sheet.c.
void hosting_sheet(const struct hosting *hosting, struct out *out);
void hosting_text(const struct hosting *hosting, struct arena *arena, struct out *out);
void hosting_explain(const struct hosting *hosting, const struct hosting_row *row,
                     struct arena *arena, struct out *out);
