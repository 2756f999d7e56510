// SPDX-License-Identifier: Apache-2.0
// training_metrics: metrics.jsonl, one object per step, consistent across kills and resumes.

#pragma once

#include "train/training.h"

enum err training_metrics_add(const char *out, const struct training_report *report);

// Keeps the lines up to this step: steps after the checkpoint are repeated.
enum err training_metrics_cut(const char *out, int64_t step, struct arena *arena);

extern const struct field training_metrics_fields[]; // keys of a line …
extern const struct field training_rewards_fields[]; // … and more of DPO
