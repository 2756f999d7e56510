// trainer_metrics: metrics.jsonl, one object a step, also across kills and resumptions.

#pragma once

#include "train/trainer.h"

enum err trainer_metrics_add(const char *out, const struct trainer_report *report);

// Leaves the lines of the steps up to this one: what came after the checkpoint is done again.
enum err trainer_metrics_cut(const char *out, int64_t step, struct arena *arena);

extern const struct field trainer_metrics_fields[]; // keys of a line
