// plan: the whole chain, from a request to hours, money, alternatives and mistakes.
//
// What the command line, the page and the tests call. Pure: the caller opens files. A request is a
// struct whose fields are the options of `gpuhours plan` and the keys of a JSON request.
//
//     struct plan_data data;
//     TRY(plan_open(&data, arena, NULL, 0));
//     struct plan_request request = plan_request_default();
//     request.model = "llama-3.1-8b", request.tokens = 21400000;
//     struct plan plan;
//     TRY(plan_make(&plan, arena, &data, &request));
//
// A plan that does not fit is a plan: plan.fits is false, and its alternatives fit. The plan points
// into the arena, the data and the request.

#pragma once

#include "core/plan/advice.h"
#include "core/data/profile.h"
#include "core/forecast/search.h"

// The catalogs and what was fitted on measured runs.
struct plan_data {
    struct catalog catalog;
    struct stack *stacks;
    struct efficiency *efficiencies;
    size_t stack_count, efficiency_count;
};

enum err plan_open(struct plan_data *data, struct arena *arena,
                   const struct catalog_file *overrides, size_t count);

enum { PLAN_NOT_GIVEN = -1, PLAN_MOST_GPUS = 16384 };

// Counts of PLAN_NOT_GIVEN, texts of NULL and numbers of NAN were not said.
struct plan_request {
    struct recipe recipe; // read by recipe_fields
    const char *model, *gpu, *stack, *parallel, *micro_batch, *packing;
    int batching; // enum workload_batching
    int64_t gpus, nodes, tokens, examples, context, global_batch, seed;
    double epochs, mean_length, labelled_share;
    double eval_share, evals_per_epoch, retries, failed_runs;
    double startup, compile, storage, save_interval, failures_per_gpu_hour; // seconds, bytes/s
    double deadline, budget, price;                                         // seconds, USD
    bool search; // alternatives over the whole catalog
    // Not options: shapes and stacks that the caller read from files.
    const struct model *shape;
    const struct stack *own_stack;
    const struct lengths *lengths; // of the user's examples, in order; NULL: only a token count
    const struct workload_shape *shape_known; // batches as a plan's document has them; may be NULL
    double token_spread;       // relative deviation of counts that are estimates; 0: they are exact
    const struct pilot *pilot; // what was measured; NULL: nothing
    const char *pilot_name;    // of its file
    const struct trainer_config *from; // what a trainer was configured with; NULL: nothing
};

extern const struct field plan_fields[]; // without the recipe's

struct plan_request plan_request_default(void);

// ERR_USAGE for counts that no run has.
enum err plan_request_check(const struct plan_request *request);

// Rows per GPU and pass; 0 is auto.
enum err plan_request_rows(double *out, const struct plan_request *request);

// Puts the pilot's configuration in the place of defaults, before options are read over it.
void plan_request_like(struct plan_request *request, const struct pilot *pilot,
                       struct arena *arena);

// Leaves micro-batch and recomputation free again where the options read over it changed what they
// depend on; said is the same request without the pilot.
void plan_request_differ(struct plan_request *request, const struct plan_request *said,
                         const struct pilot *pilot);

// Reads a JSON request: keys of plan_fields and recipe_fields.
enum err plan_request_read(struct plan_request *out, struct arena *arena, struct text json,
                           const char *name);

// Writes what was said, to be read back by plan_request_read().
void plan_request_write(const struct plan_request *request, struct arena *arena, const char *key,
                        struct json_writer *w);

// Lets a profile and the lengths of its examples speak for the token count and, where none was
// said, for the context. Of a profile that was read, the list is made here, from its histogram.
enum err plan_request_measure(struct plan_request *request, struct arena *arena,
                              struct profile *profile, struct lengths *lengths);

struct plan_alternative {
    const char *why; // "cheapest", "fewer GPUs"
    struct search_result result;
};

enum { PLAN_ALTERNATIVES = 12, PLAN_SCALING = 8, PLAN_ASSUMPTIONS = 56 };

struct plan {
    const struct plan_request *request;
    const struct plan_data *data;
    const struct model *model;
    const struct stack *stack;
    struct workload_rule rule;
    struct overheads overheads;
    struct efficiency prior;      // of the stack
    struct efficiency efficiency; // of the chosen configuration
    struct transfer carry;        // the pilot, where there is one
    struct transferred carried;   // to the chosen configuration
    struct price price;
    struct search_result chosen;
    struct estimate estimate;
    struct forecast forecast;
    struct search search; // over the whole catalog; empty where it was not asked for
    bool fits, meets_deadline, meets_budget;
    struct plan_alternative alternatives[PLAN_ALTERNATIVES];
    size_t alternative_count;
    struct search_result scaling[PLAN_SCALING]; // of the chosen GPU by count
    size_t scaling_count;
    struct assumption assumptions[PLAN_ASSUMPTIONS];
    size_t assumption_count;
    struct advice advice;
};

enum err plan_make(struct plan *out, struct arena *arena, const struct plan_data *data,
                   const struct plan_request *request);

void plan_write(const struct plan *plan, struct arena *arena, struct out *out); // JSON
void plan_text(const struct plan *plan, struct arena *arena, struct out *out);  // ≤ 80 columns
void plan_explain(const struct plan *plan, struct arena *arena, struct out *out);

// Writes a configuration as one line: "8 × h100-sxm, ddp8, micro-batch 4, no recomputation".
const char *plan_spell(const struct search_result *result, struct arena *arena);

// What a pilot leaves of the range, one line; NULL without one.
const char *plan_pilot_words(const struct plan *plan, struct arena *arena);
