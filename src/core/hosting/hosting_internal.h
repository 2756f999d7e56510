// hosting_internal: what the files of hosting share.

#pragma once

#include "core/hosting/hosting.h"

// Assumed where neither the request nor the catalog says. The computation uses these constants and
// hosting_assume() reports them: one source for both.
#define HOSTING_TOKEN_BYTES 4.0                 // of text, per token of the data set
#define HOSTING_LINK_BYTES_PER_S 125e6          // of the link that moves data: 1 Gb/s
#define HOSTING_REGION_USD_PER_GB 0.02          // traffic between regions of one cloud
#define HOSTING_PART_NETWORK_BYTES_PER_S 1.25e9 // of an instance that is a part of a node: 10 Gb/s
#define HOSTING_NODE_NETWORK_BYTES_PER_S 12.5e9 // of a node without a fabric of its own: 100 Gb/s

// Shared outcomes of what is unknown: standard normal variables, and chances in [0, 1).
struct hosting_draws {
    double *speed, *speed_elsewhere; // on the plan's GPU, and on others
    double *lengths, *startup, *compile, *storage, *evaluation, *failure_rate;
    double *failure, *lost, *retry, *failed;
    double *queue, *preemption_rate, *waiting;
    double *preemption, *preemption_normal; // the same draw as a chance and as a normal variable
};

// Preempted runs of a group, at one rate.
struct hosting_spot_draws {
    struct range rates; // preemptions per hour
    struct hosting_preemption preemption;
    struct hosting_spot best;
    struct range billed_hours, wall_hours;
    double *wall_seconds; // NULL: not drawn yet
    struct hosting_spot_draws *next;
};

struct hosting_group {
    const struct gpu *gpu;
    struct node node; // one instance
    int64_t gpus, instances;
    bool estimated, fits;
    struct search_result result;
    struct overheads overheads;
    struct overhead_times middle;
    double tokens_per_s, network_share, result_bytes;
    double *wall_seconds; // one per draw; NULL: not drawn yet
    struct range wall_hours;
    struct hosting_spot_draws *spots;
};

struct hosting_job {
    struct arena *arena;
    const struct plan *plan;
    const struct hosting_request *request;
    double processed_scale;
    double elsewhere_log_spread;
    struct range processed_factor; // of the document; mid 0: as the workload has it
    struct hosting_draws draws;
    struct hosting_group **groups;
    size_t group_count, group_room;
    // Draws of the last ranges met; groups mostly share them.
    struct range lengths_of, storage_of, rates_of;
    double *lengths, *storage, *rates;
};

void hosting_draw(struct hosting_job *job);

// The group of that GPU, count and node, one for all offers that share them; new ones are to be
// estimated, all of them at once.
struct hosting_group *hosting_group_find(struct hosting_job *job, const struct gpu *gpu,
                                         int64_t gpus, int64_t instances, const struct node *node);
enum err hosting_group_estimate(struct hosting_job *job);

// Draws what is unknown of the group, once.
void hosting_group_draw(struct hosting_job *job, struct hosting_group *group);

// The group's run on instances that are taken away; own_rate is NAN where the usual one holds.
struct hosting_spot_draws *hosting_spot_of(struct hosting_job *job, struct hosting_group *group,
                                           double own_rate);
void hosting_spot_draw(struct hosting_job *job, struct hosting_group *group,
                       struct hosting_spot_draws *spot);

// The node that an offer is: the catalog's row of that instance, else the GPU's usual node cut to
// the instance's size. networked: whether the network between such instances is known.
struct node hosting_node(const struct catalog *catalog, const struct gpu *gpu,
                         const struct offers_row *row, bool *networked);

// P10, P50 and P90 without sorting; the order of the values changes.
struct range hosting_range(double *values, size_t count);

// Whether a list of words separated by commas is empty or holds the word.
bool hosting_lists(const char *list, const char *word);

// Preemptions per hour of so many instances, and seconds until there is another.
struct range hosting_preemption_rate(const struct hosting_job *job, double instances,
                                     double own_rate);

// Lists what the comparison rests on beside the plan's own assumptions.
void hosting_assume(struct hosting *hosting, const struct hosting_job *job);

void hosting_rank(struct hosting *hosting, struct arena *arena);
void hosting_advise(struct hosting *hosting, struct hosting_job *job);

// A number of instances of one offer, with every unknown at its middle: what is compared before
// anything is drawn.
struct hosting_candidate {
    const struct offers_row *offer;
    enum offers_kind kind;
    struct hosting_group *group;
    double hours, usd;
    bool in_time, in_budget;
};

struct hosting_maker {
    struct hosting_job job;
    struct hosting *out;
    const struct hosting_input *input;
    const struct hosting_request *request;
    size_t room;
    double runs_per_month;
    struct range queue_hours;
    const struct gpu *gpu;            // asked for, or NULL
    struct hosting_candidate fastest; // within the budget
};

// Reads what options say, ERR_USAGE where they say nothing.
enum err hosting_check(struct hosting_maker *m);
enum err hosting_check_words(const struct hosting_maker *m, const struct offers *offers);
enum err hosting_own_offer(struct hosting_maker *m, struct offers *offers); // of --price
bool hosting_wants(const struct hosting_maker *m, enum offers_kind kind);

void hosting_add_offer(struct hosting_maker *m, const struct offers_row *offer,
                       enum offers_kind kind, struct hosting_group *group);
// The group of an owned server, or NULL where none of that GPU is compared.
struct hosting_group *hosting_find_server(struct hosting_maker *m, const struct gpu *gpu,
                                          struct hosting_ownership *owned);
void hosting_add_server(struct hosting_maker *m, const struct gpu *gpu);
void hosting_add_managed(struct hosting_maker *m);
