// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"
#include "test/test.h"

#include <string.h>

TEST(checksum_is_the_published_xxh64)
{
    CHECK(checksum(TEXT(""), 0) == UINT64_C(0xEF46DB3751D8E999));
    CHECK(checksum(TEXT("abc"), 0) == UINT64_C(0x44BC2CF5AD770999));
    CHECK(checksum(TEXT("Nobody inspects the spammish repetition"), 0) ==
          UINT64_C(0xFBCEA83C8A378BF1));
}

TEST(checksum_notices_every_flipped_bit)
{
    char bytes[77] = "0123456789";
    uint64_t whole = checksum((struct text){ bytes, sizeof bytes }, 5);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        CHECK(checksum((struct text){ bytes, sizeof bytes }, 5) != whole);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
    CHECK(!strcmp(checksum_text(&test_arena, 255), "xxh64:00000000000000ff"));
}
