// SPDX-License-Identifier: Apache-2.0
// hosting_internal: declarations shared by the files of hosting.

#pragma once

#include "core/hosting/hosting.h"

// Assumed where neither the request nor the catalog has a value. The computation uses these
// constants and hosting_assume() reports them: one source for both.
#define HOSTING_TOKEN_BYTES 4.0                 // text per token of the data set
#define HOSTING_LINK_BYTES_PER_S 125e6          // link for data transfer: 1 Gb/s
#define HOSTING_REGION_USD_PER_GB 0.02          // traffic between regions of one cloud
#define HOSTING_PART_NETWORK_BYTES_PER_S 1.25e9 // an instance that is part of a node: 10 Gb/s
#define HOSTING_NODE_NETWORK_BYTES_PER_S 12.5e9 // a node without a fabric of its own: 100 Gb/s

// Samples of each unknown, shared by all offers: HOSTING_SAMPLES values each, standard normal or
// uniform in [0, 1), or scaled to the unknown where all offers have the same. See
// hosting_samples.c.
struct hosting_samples {
    double *speed; // how far the efficiency is off, in spreads, with the tails of measured runs
    double *lengths, *startup, *storage, *evaluation, *failure_rate, *failed_runs;
    double *stalls, *saves; // as a pilot measured them
    double *failure, *lost, *retries, *failed;
    double *queue, *preemption_rate, *waiting;
    double *first_wait; // whether a spot instance is free at the start, and how long until one is
    double *preemption, *preemption_normal; // the same samples, uniform and standard normal
};

// Samples of one unknown scaled to a range. Groups have few different ranges.
struct hosting_column {
    struct range range;
    double *values;
    struct hosting_column *next;
};

// Preempted runs of a group at one rate of preemption.
struct hosting_spot_samples {
    struct range rates; // preemptions per hour
    struct hosting_preemption preemption;
    struct hosting_spot best;
    struct range billed_hours, wall_hours;
    double *wall_seconds; // one per sample; NULL: not sampled yet
    struct hosting_spot_samples *next;
};

// Waits for the first spot instance, one per sample, at these rates of preemption.
struct hosting_waits {
    const double *rates;
    double mean_seconds;
    const double *seconds;
    struct hosting_waits *next;
};

struct hosting_group {
    const struct gpu *gpu;
    struct node node; // one instance
    int64_t gpus, instances;
    bool estimated, fits;
    bool other_batch; // it would fit with a larger global batch than the plan's
    struct search_result result;
    struct overheads overheads;
    struct overhead_times middle; // of the run with every unknown at its median
    double tokens_per_s, network_share, result_bytes;
    struct efficiency efficiency; // on this GPU
    double *wall_seconds;         // one per sample; NULL: not sampled yet
    struct range wall_hours;
    struct hosting_spot_samples *spots;
};

struct hosting_job {
    struct arena *arena;
    const struct plan *plan;
    const struct hosting_request *request;
    const struct hosting_document *planned; // as in struct hosting_input
    double processed_scale;
    struct range lengths_factor; // of the training time; mid 0: the workload's own
    struct hosting_samples samples;
    struct hosting_group **groups;
    size_t group_count, group_room;
    // Lists of what was scaled so far.
    struct hosting_column *speed, *lengths, *startup, *compile, *storage, *evaluation, *stalls;
    struct hosting_column *saves, *rates;
    struct hosting_waits *waits;
};

// Fills job->samples; the seed is the plan's.
void hosting_sample(struct hosting_job *job);

// The standard normal samples scaled to the range; computed once for each range.
const double *hosting_column(struct hosting_column **list, struct arena *arena,
                             const double *normal, struct range range);
bool hosting_range_is(const struct range *a, const struct range *b);

// The group of that GPU, count and node; added if there is none yet. hosting_group_estimate() then
// estimates all groups at once: what does not fit has fits false; errors are returned.
struct hosting_group *hosting_group_find(struct hosting_job *job, const struct gpu *gpu,
                                         int64_t gpus, int64_t instances, const struct node *node);
enum err hosting_group_estimate(struct hosting_job *job);
// Whether these are the plan's own GPUs on as many machines, where its run is known.
bool hosting_is_planned(const struct hosting_job *job, const struct hosting_group *group);
// Puts what the plan's document says of its own GPUs, which a pilot may have measured, in the place
// of what is assumed.
void hosting_take_overheads(struct overheads *out, const struct hosting_document *document);
// What of it a pilot measured: "start-up, save"; empty: nothing.
const char *hosting_measured_words(const struct hosting_document *document, struct arena *arena);
// The best configuration of each of these groups, which all have the same number of GPUs.
enum err hosting_configure(struct hosting_job *job, struct hosting_group **groups, size_t count);

// Samples the run time of the group, once.
void hosting_group_sample(struct hosting_job *job, struct hosting_group *group);

// The group's run on spot instances; own_rate: preemptions per hour, NAN: the catalog's rate.
struct hosting_spot_samples *hosting_spot_of(struct hosting_job *job, struct hosting_group *group,
                                             double own_rate);
void hosting_spot_sample(struct hosting_job *job, struct hosting_group *group,
                         struct hosting_spot_samples *spot);

// The node of an offer: the catalog's row of that instance, else the GPU's usual node cut to the
// size of the instance. networked: whether the network between such instances is known.
struct node hosting_node(const struct catalog *catalog, const struct gpu *gpu,
                         const struct offers_row *row, bool *networked);

// Whether two nodes are the same machine; with_network: and have the same network.
bool hosting_node_is(const struct node *a, const struct node *b, bool with_network);

// P10, P50 and P90; the values keep their order.
struct range hosting_range(const double *values, size_t count, struct arena *arena);
// The same of seconds, in hours.
struct range hosting_hours(const double *seconds, size_t count, struct arena *arena);

// Whether a list of words separated by commas is empty or contains the word.
bool hosting_lists(const char *list, const char *word);

// Preemptions per hour of that many instances. Instances of one zone are mostly preempted together.
struct range hosting_preemption_rate(const struct hosting_job *job, double instances,
                                     double own_rate);

// Lists the assumptions of the comparison that are not the plan's own.
void hosting_assume(struct hosting *hosting, const struct hosting_job *job);

void hosting_rank(struct hosting *hosting, struct arena *arena);
// Whether the run fits in memory even at the upper end of the memory range.
bool hosting_has_room(const struct hosting_row *row);
bool hosting_surely_in_time(const struct hosting_row *row); // in 90 % of the samples
int hosting_trust(const struct hosting_row *row);
const char *hosting_spell_runs(double runs_per_month, struct arena *arena); // "0.5", "20", "2,000"
void hosting_advise(struct hosting *hosting, struct hosting_job *job);

// Which limits a candidate keeps at its medians, the better the later.
enum hosting_keeps {
    HOSTING_KEEPS_NONE, // not the deadline
    HOSTING_KEEPS_DEADLINE,
    HOSTING_KEEPS_BOTH,
};

// A number of instances of one offer, with hours and cost as its row would have them.
struct hosting_candidate {
    const struct offers_row *offer;
    enum offers_kind kind;
    struct hosting_group *group;
    double worth_usd;         // of the hours, by --hour-is-worth
    double hours, late_hours; // from now to the result: median, and upper end of the range
    double usd, late_usd;     // likewise
    bool in_budget;
    enum hosting_keeps keeps;
};

struct hosting_maker {
    struct hosting_job job;
    struct hosting *out;
    const struct hosting_input *input;
    const struct hosting_request *request;
    size_t room;
    double runs_per_month;
    struct range queue_hours;
    const struct gpu *gpu; // --gpu, or NULL
    // Beside the count that is shown of each offer, where there are limits: the fastest within the
    // budget, the cheapest that is in time at P90, and the cheapest that keeps both limits at P90.
    struct hosting_candidate fastest, surely_in_time, surest;
    // The chance to meet the deadline of the last row of each kind: offers of one instance in many
    // regions follow each other, and have the same.
    struct hosting_chance {
        const double *wall_seconds;
        double moved_hours, chance;
    } chances[OFFERS_KINDS];
};

// Check the options; ERR_USAGE where a value is out of range or names nothing.
enum err hosting_check(struct hosting_maker *m);
enum err hosting_check_words(const struct hosting_maker *m, const struct offers *offers);
enum err hosting_own_offer(struct hosting_maker *m, struct offers *offers); // of --price
bool hosting_has_kind(const struct hosting_maker *m, enum offers_kind kind);

// Fills in what an offer is, takes and costs: price and terms, hours, move, storage, and their sum.
void hosting_bill(struct hosting_row *row, struct hosting_maker *m, const struct offers_row *offer,
                  enum offers_kind kind, struct hosting_group *group);

// Sets row->stale and row->doubt: the rules of what can be recommended; see hosting_doubt.c.
void hosting_doubt(struct hosting_row *row, const struct hosting_maker *m);

// Bytes of the model's weights as they are fetched, and bytes/s of the link that moves data.
double hosting_model_bytes(const struct plan *plan);
double hosting_link(const struct hosting_request *request);

void hosting_add_offer(struct hosting_maker *m, const struct offers_row *offer,
                       enum offers_kind kind, struct hosting_group *group);
// The group of an owned server, or NULL where no server with that GPU is compared.
struct hosting_group *hosting_find_server(struct hosting_maker *m, const struct gpu *gpu,
                                          struct hosting_ownership *owned);
void hosting_add_server(struct hosting_maker *m, const struct gpu *gpu);
void hosting_add_managed(struct hosting_maker *m);
struct hosting_row *hosting_new_row(struct hosting_maker *m); // with all that is not known yet
