// training_metrics: metrics.jsonl, one object a step, also across kills and resumptions.

#pragma once

#include "train/training.h"

enum err training_metrics_add(const char *out, const struct training_report *report);

// Leaves the lines of the steps up to this one: what came after the checkpoint is done again.
enum err training_metrics_cut(const char *out, int64_t step, struct arena *arena);
