// SPDX-License-Identifier: Apache-2.0
// SHA-256 against the published digests.

#include "base/sha256.h"

#include "test/test.h"

#include <string.h>

static const char *hashed(struct text text)
{
    uint8_t digest[32];
    struct out out = { .arena = &test_arena };
    sha256(digest, text);
    for (int i = 0; i < 32; i++)
        out_put(&out, "%02x", digest[i]);
    return out_string(&out);
}

// The examples of FIPS 180-4 (abc, two blocks) and NIST's long message of a million letters.
TEST(sha256_gives_the_published_digests)
{
    CHECK(!strcmp(hashed(TEXT("")),
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    CHECK(!strcmp(hashed(TEXT("abc")),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    CHECK(!strcmp(hashed(TEXT("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"));
    char *million = arena_alloc(&test_arena, 1000000);
    memset(million, 'a', 1000000);
    CHECK(!strcmp(hashed((struct text){ million, 1000000 }),
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
}

TEST(sha256_in_base64_matches_a_content_security_policy)
{
    struct out out = { .arena = &test_arena };
    sha256_put_base64(&out, TEXT(""));
    CHECK(!strcmp(out_string(&out), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="));
}
