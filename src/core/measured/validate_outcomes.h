// SPDX-License-Identifier: Apache-2.0
// validate_outcomes: what validate says beside the errors: verdicts of fit, and how jobs scale.

#pragma once

#include "base/json.h"
#include "base/text.h"
#include "core/measured/validate.h"

// Verdicts against the outcomes that rows name; nothing where none does.
void validate_put_fit(const struct validate_row *rows, size_t count, struct out *out);
void validate_write_fit(struct json_writer *w, const struct validate_row *rows, size_t count);

// Efficiency of growing jobs: those that are off, or all.
void validate_put_series(const struct validate_row *rows, size_t count, bool all, struct out *out);
void validate_write_series(struct json_writer *w, struct arena *arena,
                           const struct validate_row *rows, size_t count);
