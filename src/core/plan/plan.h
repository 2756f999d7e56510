// SPDX-License-Identifier: Apache-2.0
// plan: the whole chain, from a request to hours, cost, alternatives and warnings.
//
// The command line, the page and the tests call this. It is pure: the caller opens files. A request
// is a struct whose fields are the options of `gpuhours plan` and the keys of a JSON request.
//
//     struct plan_data data;
//     TRY(plan_open(&data, arena, NULL, 0));
//     struct plan_request request = plan_request_default();
//     request.model = "llama-3.1-8b", request.tokens = 21400000;
//     struct plan plan;
//     TRY(plan_make(&plan, arena, &data, &request));
//
// A plan that does not fit is a plan, of the configuration that comes closest: plan.fits is false,
// and its alternatives fit. The plan points into the arena, the data and the request.

#pragma once

#include "core/plan/advice.h"
#include "core/data/profile.h"
#include "core/forecast/lengths.h"
#include "core/forecast/search.h"
#include "core/objective/objective.h"
#include "core/objective/rollout.h"

// The catalogs and what was fitted on measured runs.
struct plan_data {
    struct catalog catalog;
    struct stack *stacks;
    size_t stack_count;
    struct calibration calibration;
    struct prior ledger; // the user's own measured runs; empty: the ledger is off, or has none
};

enum err plan_open(struct plan_data *data, struct arena *arena,
                   const struct catalog_file *overrides, size_t count);

enum { PLAN_NOT_GIVEN = -1, PLAN_MOST_GPUS = 16384 };

// Counts of PLAN_NOT_GIVEN, texts of NULL and numbers of NAN are not given.
// Batches that a former plan simulated on its data. Documents before 0.9.9 have only those of the
// micro-batch that was chosen.
struct plan_batches {
    const struct workload_shape *shapes; // by ascending micro-batch
    size_t count;
    int batching;          // BATCHING_AUTO: unknown
    double only_rows;      // the one micro-batch whose padding is known; 0: that of all is
    double labelled_share; // of the tokens; NAN: unknown
};

struct plan_request {
    struct recipe recipe; // read by recipe_fields
    const char *model, *gpu, *stack, *parallel, *micro_batch, *packing;
    int batching;                     // enum workload_batching
    int objective, reference, reward; // enum objective_kind, objective_reference, objective_reward
    int sampler;                      // of samplers[]
    int sampler_precision;            // enum sampler_precision
    int file_cache;                   // enum overhead_cache
    const char *response_length, *image_size;
    double images; // of an example
    int64_t generations, sampler_gpus, async_steps, steps, updates, rounds;
    int64_t gpus, nodes, tokens, examples, context, global_batch, seed;
    int64_t response_limit, pad_to_multiple_of, runs, parallel_runs, image_max_pixels;
    double epochs, mean_length, labelled_share;
    int64_t evaluate_every, save_every;
    double eval_share, evals_per_epoch, saves_per_epoch, retries, failed_runs;
    double startup, compile, storage, save_interval, failures_per_gpu_hour; // seconds, bytes/s
    double deadline, budget, price;                                         // seconds, USD
    bool search; // alternatives over the whole catalog
    // Not options: shapes and stacks that the caller read from files.
    const struct model *shape;
    const char *shape_of; // the name that a plan's document has for shape; NULL: not from one
    const struct stack *own_stack;
    int64_t positions; // of the model, which a context recommended for data keeps; 0: not known
    const struct lengths *lengths; // of the user's examples, in order; NULL: only a token count
    const struct plan_batches *batches; // as a plan's document has them; may be NULL
    struct vision_load seen;            // images that were counted in the data; zero: none
    const char *seen_as;                // the family by whose rule they were; NULL: unknown
    double token_spread;       // relative deviation of counts that are estimates; 0: they are exact
    const struct pilot *pilot; // what was measured; NULL: nothing
    const char *pilot_name;    // of its file
    const struct trainer_config *from; // what a trainer was configured with; NULL: nothing
    // Who gave an option, for --explain: given holds the options of the user alone, former those of
    // the plan that this one starts from. Both NULL: everything in this request was given.
    const struct plan_request *given, *former;
    const char *former_name;
    bool context_from_data; // set by plan_request_measure()
    double sample_examples; // likewise: counted, where --tokens or --examples tell another; else 0
    double sample_spread;   // likewise: relative deviation of the tokens of such a sample
    struct profile_warning uncounted[PROFILE_WARNINGS]; // likewise: what the data has besides
    size_t uncounted_count;
    bool has_pairs;      // likewise: rows are chosen and rejected answers
    bool has_verdicts;   // likewise: each answer is marked as a good or a bad one
    bool has_prompts;    // likewise: rows are prompts without answers
    bool pairs_in_order; // and lengths has the two of each pair side by side
    // Set by plan_from(): what the trainer keeps of the data before it trains.
    int64_t most_examples; // the first so many; PLAN_NOT_GIVEN: all
    double held_out; // then evaluated on and not trained on: a share, or rows from 1 on; 0: none
    const char *unknown_objective;     // likewise: what the trainer was configured for
    const char *named_data, *named_at; // likewise: the data set that it names, and where
};

extern const struct field plan_fields[]; // without the recipe's

struct plan_request plan_request_default(void);

// What a plan takes for options that are not given, for --help: the values of workload_rule() and
// overhead_assume().
enum err plan_request_assumed(struct plan_request *out, const struct plan_data *data);

// ERR_USAGE for counts that no run has, and for options that say the same twice.
enum err plan_request_check(const struct plan_request *request);

// Rows per GPU and pass; 0 is auto.
enum err plan_request_rows(double *out, const struct plan_request *request);

// Replaces defaults by the pilot's configuration; the caller reads options over it.
void plan_request_like(struct plan_request *request, const struct pilot *pilot,
                       struct arena *arena);

// Frees micro-batch and checkpointing again where the options changed what they depend on. given is
// the same request without the pilot.
void plan_request_differ(struct plan_request *request, const struct plan_request *given,
                         const struct pilot *pilot);

// Reads the request that made a plan from its document, and the batches that were simulated on its
// data: the options of the new plan are read over it.
enum err plan_request_former(struct plan_request *out, struct arena *arena, struct text document,
                             const char *name);

// Drops what files and the former plan say where the options, or new data, say otherwise.
void plan_request_renew(struct plan_request *request);

// Reads a JSON request: keys of plan_fields and recipe_fields.
enum err plan_request_read(struct plan_request *out, struct arena *arena, struct text json,
                           const char *name);

// Writes what was given, to be read back by plan_request_read().
void plan_request_write(const struct plan_request *request, struct arena *arena, const char *key,
                        struct json_writer *w);

// Takes tokens, examples and, unless one is given, the context from a profile and the lengths of
// its examples. If lengths is empty, it is made from the profile's histogram. Where tokens or
// examples are given, the examples are a sample of so many.
enum err plan_request_measure(struct plan_request *request, struct arena *arena,
                              struct profile *profile, struct lengths *lengths);

struct plan_alternative {
    const char *why;     // "cheapest", "fewer GPUs"
    const char *changes; // against the plan: "2 × h100-sxm, micro-batch 4"
    struct search_result result;
};

enum { PLAN_ALTERNATIVES = 12, PLAN_SCALING = 8, PLAN_PARETO = 16, PLAN_ASSUMPTIONS = 56 };

struct plan {
    const struct plan_request *request;
    const struct plan_data *data;
    const struct model *model;
    const struct stack *stack;
    struct objective objective;
    struct objective_phases phases; // of one step
    struct rollout rollout;         // of objectives that sample
    struct plan_prompts {           // the shortest and the longest that may be meant
        double length, limit;       // in tokens, and of an answer; 0: nothing is assumed of them
        struct workload_rule rule;
    } prompts[2];
    bool splits; // how many GPUs only sample is searched
    struct workload_rule rule;
    struct overheads overheads;
    struct efficiency prior;      // of the chosen configuration, by published runs
    struct efficiency efficiency; // of the chosen configuration, by the pilot or the ledger
    struct place place;           // of the chosen configuration, as evidence tells it apart
    struct range gpu_hours_without_ledger; // what would be forecast with --ledger off
    struct transfer transfer;              // of the pilot, where there is one
    struct transferred transferred;        // to the chosen configuration
    struct forecast_samples samples; // of the unknowns; all configurations are compared on them
    struct price price;
    struct search_result chosen;
    struct estimate estimate;
    struct range lengths_factor; // of the training time, where the lengths are uncertain
    struct forecast forecast;
    struct forecast_sweep sweep; // of all runs together, where several are asked for
    struct search search;        // over the whole catalog; empty with --search off
    bool fits, meets_deadline, meets_budget;
    struct plan_alternative alternatives[PLAN_ALTERNATIVES];
    size_t alternative_count;
    struct search_result scaling[PLAN_SCALING]; // of the chosen GPU by count
    size_t scaling_count;
    struct search_result pareto[PLAN_PARETO]; // no other has less wall time and fewer GPU hours
    size_t pareto_count;
    struct assumption assumptions[PLAN_ASSUMPTIONS];
    size_t assumption_count;
    struct advice advice;
};

enum err plan_make(struct plan *out, struct arena *arena, const struct plan_data *data,
                   const struct plan_request *request);

// OK, or ERR_ANSWER where it does not fit, misses the deadline or exceeds the budget.
enum err plan_verdict(const struct plan *plan);

void plan_write(const struct plan *plan, struct arena *arena, struct out *out); // JSON

// The batches that a plan simulated on its data, from its document; NULL where it keeps none.
const struct plan_batches *plan_read_batches(const struct json *document, struct arena *arena);

// The images of a plan's document, "images".
void plan_read_images(struct plan_request *out, struct arena *arena, const struct json *document);

// The model of a plan's document: its shape, and its name as it was given. NULL: an old document.
enum err plan_read_model(const struct model **shape, const char **given, struct arena *arena,
                         const struct json *document, const char *name);
void plan_text(const struct plan *plan, struct arena *arena, struct out *out); // as wide as out
void plan_explain(const struct plan *plan, struct arena *arena, struct out *out);

// A configuration as one line: "8 × h100-sxm, ddp8, micro-batch 4, checkpointing none".
const char *plan_spell(const struct search_result *result, struct arena *arena);

// Whether packing can be advised: trainers of pairs do not pack, and TRL no rows with images.
bool plan_may_pack(const struct plan *plan);

// What failed and repeated runs add to the hours, one line; NULL where they add nothing.
const char *plan_repeats_words(const struct plan *plan, struct arena *arena);

// How the user's ledger changed the forecast, one line; NULL if it did not.
const char *plan_ledger_words(const struct plan *plan, struct arena *arena);

// Which measured runs the range of the speed rests on, one line.
const char *plan_evidence_words(const struct plan *plan, struct arena *arena);

// What nobody has measured and nothing near stands for, one line; NULL if there is nothing.
const char *plan_unmeasured_words(const struct plan *plan, struct arena *arena);

// How far a pilot narrows the range, one line; NULL without one.
const char *plan_pilot_words(const struct plan *plan, struct arena *arena);
