// SPDX-License-Identifier: Apache-2.0
// lengths: how much longer or shorter a run takes where the assumed lengths of its examples are
// wrong.
//
// Padding follows from how widely lengths spread, and the workload has that range. The mean length
// decides more: a micro-batch of short rows keeps a GPU busy for a smaller part of the time, and
// attention of long rows takes longer. So the step is timed at other mean lengths too.
//
//     struct range factor;
//     TRY(lengths_factor(&factor, arena, &rule, &setup, &workload));
//
// Formulas: docs/formulas.md, section workload.

#pragma once

#include "core/forecast/workload.h"
#include "core/step/estimate.h"

// Whether nothing is known of the lengths, and batches depend on them.
bool lengths_are_assumed(const struct workload_rule *rule);

// Of the whole training, by the roofline; in RL with the sampling.
enum err lengths_seconds(double *out, struct arena *arena, const struct setup *setup,
                         const struct workload *workload);

// Of the training time, with a middle of 1: for the setup of a configuration with that workload.
// Where lengths are known it is the workload's processed_factor.
enum err lengths_factor(struct range *out, struct arena *arena, const struct workload_rule *rule,
                        const struct setup *setup, const struct workload *workload);
