// SPDX-License-Identifier: Apache-2.0
// signature: signs requests to S3 and to other stores with its protocol (AWS Signature Version 4).
//
// Pure: the caller gives the time. Tests compare it with the examples that Amazon publishes.

#pragma once

#include "base/text.h"

#include <stdint.h>
#include <time.h>

struct signature_header {
    const char *name, *value; // names in lower case; the array is sorted by them
};

struct signature_request {
    const char *method, *path, *query; // escaped; the query's parts are sorted
    const struct signature_header *headers;
    size_t header_count;
    const char *body_hash; // of the body in hexadecimal; SIGNATURE_EMPTY where there is none
    const char *region, *service;
    const char *stamp; // "20130524T000000Z"
};

#define SIGNATURE_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

enum { SIGNATURE_STAMP_BYTES = 17 };
void signature_stamp(char out[SIGNATURE_STAMP_BYTES], time_t now);

// Puts the value of the Authorization header.
void signature_put(struct out *out, const struct signature_request *request, const char *key_id,
                   const char *secret);
