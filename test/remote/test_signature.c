// SPDX-License-Identifier: Apache-2.0
// Signatures against the examples of Amazon's documentation and of its public test suite.

#include "remote/address.h"
#include "remote/signature.h"
#include "test/test.h"

#include <string.h>

static bool signs(const struct signature_request *request, const char *id, const char *secret,
                  const char *signature)
{
    struct out out = { .arena = &test_arena };
    signature_put(&out, request, id, secret);
    return text_ends(out_view(&out), signature);
}

static bool signs_object(const char *path, const char *query, const char *range,
                         const char *signature)
{
    struct signature_header headers[] = { { "host", "examplebucket.s3.amazonaws.com" },
                                          { "range", range },
                                          { "x-amz-content-sha256", SIGNATURE_EMPTY },
                                          { "x-amz-date", "20130524T000000Z" } };
    if (!range)
        memmove(headers + 1, headers + 2, 2 * sizeof *headers);
    struct signature_request request = { .method = "GET",
                                         .path = path,
                                         .query = query,
                                         .headers = headers,
                                         .header_count = range ? 4 : 3,
                                         .body_hash = SIGNATURE_EMPTY,
                                         .region = "us-east-1",
                                         .service = "s3",
                                         .stamp = "20130524T000000Z" };
    return signs(&request, "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                 signature);
}

TEST(signature_equals_the_examples_of_the_s3_documentation)
{
    CHECK(signs_object("/test.txt", "", "bytes=0-9",
                       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
    CHECK(signs_object("/", "lifecycle=", NULL,
                       "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
    CHECK(signs_object("/", "max-keys=2&prefix=J", NULL,
                       "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

static bool signs_suite(const char *method, struct text path, const char *query,
                        const char *signature)
{
    struct signature_header headers[] = { { "host", "example.amazonaws.com" },
                                          { "x-amz-date", "20150830T123600Z" } };
    struct out escaped = { .arena = &test_arena };
    address_escape(&escaped, path, true);
    struct signature_request request = { .method = method,
                                         .path = out_string(&escaped),
                                         .query = query,
                                         .headers = headers,
                                         .header_count = 2,
                                         .body_hash = SIGNATURE_EMPTY,
                                         .region = "us-east-1",
                                         .service = "service",
                                         .stamp = "20150830T123600Z" };
    return signs(&request, "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", signature);
}

TEST(signature_equals_the_vectors_of_the_public_test_suite)
{
    CHECK(signs_suite("GET", TEXT("/"), "",
                      "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"));
    CHECK(signs_suite("GET", TEXT("/"), "Param1=value1&Param2=value2",
                      "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"));
    CHECK(signs_suite("GET", TEXT("/\xE1\x88\xB4"), "",
                      "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"));
    CHECK(signs_suite("GET",
                      TEXT("/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "abcdefghijklmnopqrstuvwxyz"),
                      "", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"));
    CHECK(signs_suite("POST", TEXT("/"), "",
                      "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"));
}

TEST(signature_covers_the_session_token)
{
    struct signature_header headers[] = { { "host", "h" },
                                          { "x-amz-date", "20150830T123600Z" },
                                          { "x-amz-security-token", "token" } };
    struct signature_request request = { .method = "GET",
                                         .path = "/",
                                         .query = "",
                                         .headers = headers,
                                         .header_count = 3,
                                         .body_hash = SIGNATURE_EMPTY,
                                         .region = "r",
                                         .service = "s3",
                                         .stamp = "20150830T123600Z" };
    struct out out = { .arena = &test_arena };
    signature_put(&out, &request, "id", "secret");
    CHECK(strstr(out_string(&out), "SignedHeaders=host;x-amz-date;x-amz-security-token, "));
    CHECK(!strstr(out_string(&out), "secret"));
}

TEST(signature_stamp_is_the_time_in_utc)
{
    char stamp[SIGNATURE_STAMP_BYTES];
    signature_stamp(stamp, 1369353600);
    CHECK(!strcmp(stamp, "20130524T000000Z"));
}
