// SPDX-License-Identifier: Apache-2.0
// sha256: SHA-256 (FIPS 180-4).
//
// Four things need it: signatures of requests to object stores, the proof that ranks know the same
// key, the names of a dataset's units, and the content security policy of the report, which
// identifies inline scripts by it.

#pragma once

#include "base/text.h"

#include <stdint.h>

void sha256(uint8_t digest[32], struct text text);
void sha256_put_base64(struct out *out, struct text text); // writes the digest in base64
