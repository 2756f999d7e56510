// SPDX-License-Identifier: Apache-2.0
// run_internal: what the files of run share.

#pragma once

#include "core/measured/run.h"

bool run_mentions(const char *text, const char *phrase); // text may be NULL
