// SPDX-License-Identifier: Apache-2.0
// transfer: one HTTP request and its answer, by the system's libcurl.
//
// libcurl.so.4 is loaded when the first request is made, by its soname from the system's library
// path: a program that names no address has no network code in memory. Connections are kept and
// used again; any thread may call.

#pragma once

#include "base/text.h"

struct transfer_request {
    const char *url;
    const char *const *headers; // "name: value"
    size_t header_count;
    bool may_redirect; // only from https to https, and from http to either
    // Called for each piece of a body that was answered with 200 or 206; false: that is enough.
    bool (*take)(void *context, const char *at, size_t size);
    void *context;
};

struct transfer_answer {
    int status;          // 0: there was no answer
    bool stopped;        // take() had enough
    const char *broken;  // NULL, or why the transfer broke off
    bool may_try_again;  // the cause may pass
    int64_t range_first; // of the answer's Content-Range; -1 without one
    int64_t total_bytes; // of the object, from Content-Range or Content-Length; -1: unknown
    double wait_seconds; // Retry-After; 0 without
    char etag[160];      // without quotes; "" if there is none, or a weak one
    char region[40];     // x-amz-bucket-region
    char code[64];       // of an error document
};

// ERR_UNAVAILABLE if there is no libcurl. All else, also failure, is in the answer.
enum err transfer_run(const struct transfer_request *request, struct transfer_answer *answer);
