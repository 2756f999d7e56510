// SPDX-License-Identifier: Apache-2.0
// pilot: what a short run measured, as a document that plans, the ledger and the page read.
//
//     struct pilot pilot;
//     pilot_clear(&pilot);                                 // everything unknown
//     pilot.tokens_per_s = (struct pilot_rate){ 9120, 9080, 9160 };
//     pilot_write(&pilot, &out);                           // {"kind":"pilot","version":1, …}
//     TRY(pilot_read(&pilot, arena, json, "pilot.json"));  // refuses what no run measures
//
// Numbers that were not measured are NAN, and null in the document; texts are NULL. Seconds are
// those of the steady part; warm-up and stalls are listed separately. A rate counts processed
// tokens over all GPUs, padding included, as a plan does. Texts point into the arena.

#pragma once

#include "base/field.h"
#include "core/step/recipe.h"

// Sustained, after the warm-up; low and high are the ends of the 90 % confidence interval.
struct pilot_rate {
    double mean, low, high;
};

// Seconds of a steady step; evaluation, saves and stalls are left out.
struct pilot_seconds {
    double mean, p10, p50, p90, p99, max;
};

// Seconds of a micro-batch on one GPU as a function of its content, by non-negative least squares.
struct pilot_fit {
    double constant_seconds, seconds_per_token, seconds_per_square, seconds_per_labelled;
    double spread; // standard deviation of the residuals over the mean
    int64_t samples;
    // Range that the samples cover; attended is Σl² over tokens.
    double tokens_low, tokens_high, attended_low, attended_high;
};

// The mean content of the measured optimizer steps, over all GPUs.
struct pilot_composition {
    double tokens;   // processed
    double squares;  // sum of squared lengths of the spans that attention covers
    double labelled; // tokens with loss
};

struct pilot_gpu {
    const char *name; // as the driver reports it; "cpu" if no GPU was used
    int64_t count;
    double memory_bytes, power_watts, power_limit_watts;
    double clock_hertz, clock_limit_hertz; // of the multiprocessors: mean and limit
    double temperature_celsius, utilisation;
    double throttled_share; // of the samples
    const char *throttling; // reasons; NULL: not throttled, or unknown
};

// Seconds lost between steps while the pilot ran. Those of data and others that go on come as often
// in the run: their share of the time of all its steps, and its standard deviation.
struct pilot_stalls {
    double data_seconds, evaluation_seconds, save_seconds, other_seconds;
    double recurring_share, recurring_error;
};

// Measured separately: what a full run pays too.
struct pilot_apart {
    double startup_seconds;              // from the start to the first step
    double update_seconds;               // of the optimizer, per step
    double evaluation_seconds_per_token; // forward alone
    double first_evaluation_seconds;     // loads its kernels
    double evaluation_seconds;           // of one after the first
    double evaluation_share;             // of the data, as the plan that is measured has it
    double save_seconds, save_bytes;     // of one checkpoint
    int64_t evaluations, saves;          // seen
    // Of several ranks: in collectives, per step, and how much of it computation waited for.
    double communication_seconds, waited_seconds;
};

// The cost of meeting widths for the first time, told apart from the steady steps.
struct pilot_transient {
    double seconds_per_width;       // stalls that nothing else explains included
    double widths_seen, widths_run; // expected in the pilot, and in the whole run
    double first_steps_seconds;     // of the first steps beyond steady ones: kernels are loaded
};

// Seconds of one step of reinforcement learning, as the trainer told them apart, or as a plan has
// them.
struct pilot_phases {
    double rollout, reward, reference, log_probabilities, critic, training, weight_update;
};

// What ran; the keys are those of a plan's "configuration".
struct pilot_configuration {
    const char *model, *stack, *gpu, *parallel, *batching;
    int64_t gpus, nodes;
    int64_t sampler_gpus; // of these, that only sample
    double context, micro_batch, accumulation, global_batch;
    double micro_batch_tokens, attended_tokens; // of a micro-batch: its tokens, Σl² over them
    double tokens, padding_share; // of the data set, as the plan that is measured has them
    struct recipe recipe;
    double lighter_share; // of the layers, which recompute one level less than the recipe has
};

struct pilot {
    struct pilot_rate tokens_per_s;
    int64_t warmup_steps, steps; // steps: measured after the warm-up
    bool steady;
    const char *verdict;  // a sentence: why the rate is not steady; NULL if it is
    const char *not_seen; // parts of the run that did not occur; NULL: none
    const char *doubts;   // what contradicts itself or the plan; NULL: nothing
    struct pilot_seconds step_seconds;
    struct pilot_fit fit;
    struct pilot_composition composition;
    double peak_bytes; // on the GPU with the highest peak, as nvidia-smi shows it
    struct pilot_gpu gpu;
    const char *stack;   // as in stacks.json
    const char *trainer; // recognised or run: "transformers", "native"
    struct pilot_configuration configuration;
    struct pilot_stalls stalls;
    struct pilot_apart apart;
    struct pilot_transient transient;
    const char *objective;               // NULL: supervised tuning
    struct pilot_phases phases, planned; // measured, and of the plan that was measured
    double answer_tokens;                // mean length of a sampled answer
    double elapsed_seconds;
    const char *as_of;                 // date
    const struct trainer_config *from; // the trainer's configuration; NULL: unknown
};

void pilot_clear(struct pilot *pilot);
void pilot_write(const struct pilot *pilot, struct out *out);
enum err pilot_read(struct pilot *out, struct arena *arena, struct text json, const char *name);

// Why `plan --pilot` cannot use this pilot and how to fix it, as a clause; NULL: it can.
const char *pilot_lacks(const struct pilot *pilot);

// Seconds in which the GPUs that train are at work on a step; NAN: its phases were not told apart.
double pilot_trainer_seconds(const struct pilot *pilot);

// Reads the phases of a plan's document.
void pilot_phases_read(struct pilot_phases *out, const struct json *plan);

// Reads the member "configuration" of a plan or a pilot; keys that it lacks stay unknown.
enum err pilot_configuration_read(struct pilot_configuration *out, struct arena *arena,
                                  const struct json *document, const char *name);

// The same of that member itself.
enum err pilot_configuration_read_member(struct pilot_configuration *out, struct arena *arena,
                                         const struct json *member, const char *place);

void pilot_configuration_write(const struct pilot_configuration *configuration,
                               struct json_writer *w); // as that member

// The summary for a person: rate, stalls, memory, power and clocks; ≤ 80 columns.
void pilot_text(const struct pilot *pilot, struct arena *arena, struct out *out);

// One timed micro-batch.
struct pilot_sample {
    double tokens, squares, labelled, seconds;
};

// Minimises relative errors, so that small micro-batches weigh as much as large ones, and leaves
// out outliers (stalls). Fewer than eight samples give no fit.
void pilot_fit_make(struct pilot_fit *out, struct arena *arena, const struct pilot_sample *samples,
                    size_t count);

double pilot_fit_seconds(const struct pilot_fit *fit, double tokens, double squares,
                         double labelled); // of a micro-batch; NAN without a fit

// The tables of the document, for its description: the fields under a key, or of the document
// itself where the key is NULL. NULL after the last one.
const struct field *pilot_table(int index, const char **key);
