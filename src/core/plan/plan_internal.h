// plan_internal: what the files of plan share.

#pragma once

#include "core/plan/plan.h"

// Fills in alternatives and scaling: searches the whole catalog unless the plan has done so.
enum err plan_compare(struct plan *plan, struct arena *arena, const struct search_space *space);

// What a forecast of that result is made from, without prices.
struct forecast_input plan_input(const struct plan *plan, struct arena *arena,
                                 const struct search_result *result, const struct setup *setup,
                                 const struct estimate *estimate);

void plan_assume_pilot(struct plan *plan);

// Where nothing else is known of the lengths, batches are as the pilot had them.
void plan_rows_of_pilot(struct workload_rule *rule, struct arena *arena, const struct plan *plan);
void plan_put_pilot(struct json_writer *w, const struct plan *plan); // the member "pilot"

void plan_put_ledger(struct json_writer *w, const struct plan *plan); // the member "ledger"

struct price plan_price(const struct plan *plan, struct arena *arena,
                        const struct search_result *result);

// Lists what the forecast rests on.
void plan_assume(struct plan *plan);

// The member "model" of a document: the name as given, and the shape.
void plan_put_model(struct json_writer *w, const struct plan *plan);

// The member "memory" of a document.
void plan_put_memory(struct json_writer *w, const struct memory *memory, bool fits);

// The members "gpu_hours_percentiles" and "step": what a report draws of the range and of a step.
void plan_put_step(struct json_writer *w, const struct plan *plan, struct arena *arena);
