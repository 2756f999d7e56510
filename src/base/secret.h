// SPDX-License-Identifier: Apache-2.0
// secret: tells which settings hold a password, an access token or a key.
//
// What a user's configuration says is copied into documents, reports and the ledger, which people
// share. A value whose key or shape looks like a secret is replaced by SECRET_HIDDEN there.

#pragma once

#include "base/text.h"

#define SECRET_HIDDEN "[redacted]"

// By its key ("hub_token", "wandb.apiKey", "--db-password") or its shape ("hf_…", "https://u:p@…").
// "pad_token" and "max_tokens" are no secrets.
bool secret_is(struct text key, struct text value);

// The value, or SECRET_HIDDEN.
const char *secret_hide(const char *key, const char *value);
