// SPDX-License-Identifier: Apache-2.0
// advice_internal: what the files of advice share.

#pragma once

#include "core/plan/plan_internal.h"

// Each function returns the sentence of its warning, or NULL where there is nothing to warn about.
typedef const char *notice(const struct plan *plan, struct arena *arena);

// The alternative of that name; NULL where the plan has none.
const struct plan_alternative *advice_alternative(const struct plan *plan, const char *why);

// Of memory, and of methods that save it (advice_memory.c).
notice advice_does_not_fit, advice_tight_memory, advice_checkpointing_without_pressure,
    advice_logits_peak, advice_worst_batch, advice_host_memory, advice_qlora_where_lora_fits,
    advice_full_under_pressure, advice_pilot_needs_more_memory;
