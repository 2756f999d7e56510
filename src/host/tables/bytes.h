// SPDX-License-Identifier: Apache-2.0
// bytes: writes those values of a table that are bytes rather than text as JSON.

#pragma once

#include "base/json.h"

bool bytes_are_text(struct text bytes); // valid UTF-8 without control characters but white space

// Puts an image as base64, the beginning of it, where its size stands; other bytes are null.
void bytes_put(struct text bytes, struct json_writer *w, const char *key);
