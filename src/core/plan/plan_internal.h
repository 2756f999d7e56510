// SPDX-License-Identifier: Apache-2.0
// plan_internal: what the files of plan share.

#pragma once

#include "core/plan/plan.h"

// --- reading the request (plan_setup.c) --------------------------------------

// Where a trainer's configuration names data that was not given: a sentence that asks for it.
// Else NULL.
const char *plan_missing_data(const struct plan_request *request, struct arena *arena);

// Finds model, stack and the workload's rule. The rule may have no tokens.
enum err plan_begin(struct plan *out, struct arena *arena, const struct plan_data *data,
                    const struct plan_request *request);

// How rows form batches: as the request says, else as the stack's trainer does.
enum err plan_batching(int *out, const struct plan *plan);

// What the objective adds to a step of that recipe.
struct step_passes plan_passes(const struct plan *plan, const struct recipe *recipe);

// Reads what grpo needs: its rollout, and the answers as the lengths that are trained on
// (plan_rollout.c). Does nothing for other objectives.
enum err plan_rollout(struct plan *plan, struct arena *arena);

// Of the data what carries no label, which is what the model is asked; all of it where all does.
double plan_prompt_length(const struct plan_request *request);
// Whether that is assumed: neither data nor an option tells it.
bool plan_assumes_prompts(const struct plan_request *request);

// Of the training time, with a middle of 1, where the length of the prompts is assumed.
enum err plan_prompts_factor(struct range *out, const struct plan *plan, struct arena *arena,
                             const struct setup *setup, const struct workload *workload);

// Tokens of a row on average, where nothing was said of it: as workload assumes.
double plan_assumed_mean(const struct plan_request *request);

// Adds the images of the data, or of --image-size, to the plan's rule (plan_images.c).
enum err plan_images(struct plan *plan);

// "1.2 per example, …", one line; NULL without images.
const char *plan_images_words(const struct plan *plan, struct arena *arena);
void plan_put_images(struct json_writer *w, const struct plan *plan); // the member "images"

// Whether PyTorch runs the grouped products of the chosen configuration one by one.
bool plan_has_serial_experts(const struct plan *plan);

// Whether the mean length of the examples is known: from their count, or as given.
bool plan_knows_mean(const struct plan_request *request);

// Whether batches were simulated on the data, now or by the former plan (plan_batches.c).
bool plan_knows_batches(const struct plan *plan);
void plan_put_shapes(struct json_writer *w, const struct plan *plan); // the member "shapes"

// ERR_USAGE where no engine of the chosen GPUs holds the model.
enum err plan_check_sampler(const struct plan *plan);

// Makes the overheads, and the space of configurations that the request leaves open.
enum err plan_space(struct search_space *out, struct plan *plan);

// The request's recipe in a precision that the GPU has: fp4 becomes fp8, fp8 bf16, and bf16 fp16.
// gpu may be NULL.
struct recipe plan_recipe(const struct plan_request *request, const struct gpu *gpu);

// --- comparing configurations by what is shown (plan_rank.c) -----------------

// Replaces the middle values that the search compares by medians over all samples.
enum err plan_settle(struct plan *plan, struct arena *arena, struct search_result *result);

// A copy of a search's result with its medians. The result keeps its middle values, and what the
// samples gave, so that it is not forecast again.
enum err plan_sample(struct search_result *out, struct plan *plan, struct arena *arena,
                     struct search_result *result);

enum plan_goal { PLAN_CHEAPEST, PLAN_FASTEST, PLAN_FEWEST_GPU_HOURS };

// The stable result with the least median of what the goal names, sampled. found is false where
// there is none. plan_lesser compares two sampled results; a may be NULL.
enum err plan_least(struct search_result *out, bool *found, struct plan *plan, struct arena *arena,
                    const struct search *search, enum plan_goal goal);
const struct search_result *plan_lesser(const struct search_result *a,
                                        const struct search_result *b, enum plan_goal goal);

// The stable result that keeps a deadline in seconds and a budget in dollars (NAN: none), at its
// P90 where one does, else at its median: of one kind of GPU the fewest, of several kinds the
// cheapest. Sampled.
enum err plan_within(struct search_result *out, bool *found, struct plan *plan, struct arena *arena,
                     const struct search *search, double deadline, double budget);

// --- alternatives (plan_compare.c, plan_change.c) ----------------------------

// Fills in alternatives and scaling: searches the whole catalog unless the plan has done so.
enum err plan_compare(struct plan *plan, struct arena *arena, const struct search_space *space);

// What a result changes against the plan, in words: "2 × h100-sxm, micro-batch 4".
const char *plan_changes(const struct plan *plan, const struct search_result *result,
                         struct arena *arena);
bool plan_is_same(const struct search_result *a, const struct search_result *b);

// --- forecasting -------------------------------------------------------------

// What a forecast of that result is made from, without prices.
enum err plan_input(struct forecast_input *out, const struct plan *plan, struct arena *arena,
                    const struct search_result *result, const struct setup *setup,
                    const struct estimate *estimate);
// Puts what the pilot measured beside its speed in the place of assumptions (plan_measured.c).
void plan_take_measured(struct overheads *o, const struct plan *plan, const struct transferred *to);

struct price plan_price(const struct plan *plan, struct arena *arena,
                        const struct search_result *result);

// What a deadline and a budget are held against: those of all runs together.
const struct range *plan_wall_hours(const struct plan *plan);
const struct range *plan_cost_usd(const struct plan *plan);

// Takes batches to be as the pilot had them, where nothing else is known about the lengths.
void plan_rows_of_pilot(struct workload_rule *rule, struct arena *arena, const struct plan *plan);

// --- what the forecast rests on ----------------------------------------------

// How long a pilot of the plan takes at least: "a five-minute pilot" (plan_pilot.c).
const char *plan_pilot_length(const struct plan *plan, struct arena *arena);

void plan_assume(struct plan *plan);
void plan_assume_pilot(struct plan *plan);

// --- writing -----------------------------------------------------------------

// Members of the document: "model" (its name as given, and its shape), "memory", "evidence",
// "pilot", "ledger", and "gpu_hours_percentiles" with "step".
void plan_put_model(struct json_writer *w, const struct plan *plan);
// chooses: nobody said what is recomputed.
void plan_put_memory(struct json_writer *w, const struct memory *memory, bool fits, bool chooses);
// What our engine makes of a card's room then: "gpuhours train takes 137 GiB …"; NULL: nothing else
// than planned.
const char *plan_filled_words(const struct memory *memory, int planned, const struct model *model,
                              struct arena *arena);
void plan_put_pilot(struct json_writer *w, const struct plan *plan);
void plan_put_evidence(struct json_writer *w, const struct plan *plan, struct arena *arena);
void plan_put_ledger(struct json_writer *w, const struct plan *plan, struct arena *arena);
void plan_put_step(struct json_writer *w, const struct plan *plan, struct arena *arena);

// "fits: peak 42.4 GiB allocated (at the loss), 79.0 GiB reserved, of 79.6 GiB". `plan` and
// `memory` print the same sentence. Styled as out is.
const char *plan_memory_words(const struct memory *memory, struct out *out);
const char *plan_moment_words(const struct memory *memory); // of the peak: "at the loss"
