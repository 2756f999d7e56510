// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"
#include "test/test.h"

#include <string.h>

TEST(secrets_are_known_by_their_key)
{
    static const char *const keys[] = { "hub_token",
                                        "HF_TOKEN",
                                        "wandb.apiKey",
                                        "--db-password",
                                        "aws_secret_access_key",
                                        "push_to_hub_token",
                                        "slack.webhook_url",
                                        "api-key" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        CHECK(!strcmp(secret_hide(keys[i], "abc"), SECRET_HIDDEN));
}

TEST(secrets_are_known_by_their_shape)
{
    CHECK(secret_is(TEXT("x"), TEXT("hf_abcdefghijklmnop")));
    CHECK(secret_is(TEXT("x"), TEXT("a,sk-abcdefghijklmnop")));
    CHECK(secret_is(TEXT("tracking"), TEXT("https://me:secret@example.org/x")));
    CHECK(secret_is(TEXT("repo"), TEXT("https://ghp_abcdefghijklmnop@example.org/x.git")));
    CHECK(!secret_is(TEXT("repo"), TEXT("https://somebody-or-other@example.org/x.git")));
    CHECK(!secret_is(TEXT("tracking"), TEXT("https://example.org:80/a@b")));
}

TEST(settings_of_a_vocabulary_are_no_secrets)
{
    static const char *const keys[] = { "pad_token", "special_tokens.eos_token", "max_tokens",
                                        "tokenizer", "tokens_per_step",          "bos_token" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        CHECK(!secret_is(text_of(keys[i]), TEXT("</s>")));
    CHECK(!secret_is(TEXT("use_auth_token"), TEXT("true")));
    CHECK(!secret_is(TEXT("model"), TEXT("hf_internal/tiny-random-llama")));
}
