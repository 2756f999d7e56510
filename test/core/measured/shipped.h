// SPDX-License-Identifier: Apache-2.0
// shipped: all runs of data/runs.csv, each forecast without its source.

#pragma once

#include "core/measured/validate.h"

// Made once for all tests of a process: it takes seconds.
const struct validate_row *shipped_rows(size_t *count);
