// plan_internal: what the files of plan share.

#pragma once

#include "core/plan.h"

// Fills in alternatives and scaling: searches the whole catalog unless the plan has done so.
enum err plan_compare(struct plan *plan, struct arena *arena, const struct search_space *space);

// What a forecast of that result is made from, without prices.
struct forecast_input plan_input(const struct plan *plan, const struct search_result *result,
                                 const struct setup *setup, const struct estimate *estimate);

struct price plan_price(const struct plan *plan, struct arena *arena,
                        const struct search_result *result);

// Lists what the forecast rests on.
void plan_assume(struct plan *plan);

// Puts words, broken before column 80; the cursor stands at column, later lines at indent.
void plan_put_wrapped(struct out *out, int indent, int column, const char *text);

// The member "memory" of a document.
void plan_put_memory(struct json_writer *w, const struct memory *memory, bool fits);

// The members "gpu_hours_percentiles" and "step": what a report draws of the range and of a step.
void plan_put_step(struct json_writer *w, const struct plan *plan, struct arena *arena);
