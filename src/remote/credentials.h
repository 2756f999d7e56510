// SPDX-License-Identifier: Apache-2.0
// credentials: keys, region and endpoint from the environment and the files of the AWS tools.
//
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, if they are set; else the profile
// (AWS_PROFILE, or "default") of ~/.aws/credentials and ~/.aws/config. The region is AWS_REGION,
// AWS_DEFAULT_REGION or the profile's; the endpoint AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the
// profile's. Without keys requests are sent unsigned, as public buckets allow.
//
// Keys are never printed. A core dump would contain them, at least in the environment; so
// credentials_find() turns core dumps of this process off before it reads any.

#pragma once

#include "base/text.h"

struct credentials {
    const char *key_id, *secret, *token; // NULL where there is none
    const char *region, *endpoint;       // NULL where none is given
    const char *command;                 // what the profile has in place of keys, if it has none
};

enum err credentials_find(struct credentials *out, struct arena *arena);

// Adds what a profile of one file says, where *out has nothing yet. In the config file sections are
// called "profile NAME". *found is set if the profile is there.
enum err credentials_read(struct credentials *out, struct arena *arena, struct text file,
                          const char *profile, bool is_config, bool *found);
