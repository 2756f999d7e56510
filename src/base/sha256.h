// SPDX-License-Identifier: Apache-2.0
// sha256: SHA-256 (FIPS 180-4), which content security policies use to identify inline scripts.

#pragma once

#include "base/text.h"

#include <stdint.h>

void sha256(uint8_t digest[32], struct text text);
void sha256_put_base64(struct out *out, struct text text); // writes the digest in base64
