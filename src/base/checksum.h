// SPDX-License-Identifier: Apache-2.0
// checksum: a fast 64-bit hash (XXH64) that notices damaged files. It keeps no attacker out.

#pragma once

#include "base/text.h"

#include <stdint.h>

uint64_t checksum(struct text bytes, uint64_t seed);
const char *checksum_text(struct arena *arena, uint64_t sum); // "xxh64:0123456789abcdef"
