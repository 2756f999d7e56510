// sha256: the hash of FIPS 180-4, as content security policies name inline texts by it.

#pragma once

#include "base/text.h"

#include <stdint.h>

void sha256(uint8_t digest[32], struct text text);
void sha256_put_base64(struct out *out, struct text text); // of the digest
