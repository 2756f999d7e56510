// SPDX-License-Identifier: Apache-2.0
// Recognises secrets by words in the key and by well-known prefixes of the value.

#include "base/secret.h"

#include <string.h>

enum { KEY = 256, LEAST = 16 };

// Parts of keys, in lower case and without separators.
static const char *const words[] = {
    "secret",    "password",   "passwd",        "passphrase", "credential", "apikey",
    "accesskey", "privatekey", "signingkey",    "authkey",    "authtoken",  "accesstoken",
    "webhook",   "bearer",     "sessionkey",    "accountkey", "sastoken",   "connectionstring",
    "cookie",    "licensekey", "encryptionkey",
};

// Tokens of a vocabulary, not of an account.
static const char *const vocabulary[] = { "pad",     "eos",         "bos",   "unk",   "cls",
                                          "sep",     "mask",        "image", "video", "audio",
                                          "prefix",  "suffix",      "start", "end",   "per",
                                          "special", "decoderstart" };

static const char *const prefixes[] = {
    "hf_",  "sk-", "ghp_", "gho_",  "ghs_",    "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA",
    "ASIA", "eyJ", "npm_", "pypi-", "Bearer ", "nvapi-",      "dapi",   "AIza",  "r8_",
};

static bool key_is_secret(struct text key)
{
    char plain[KEY];
    size_t size = 0;
    for (size_t i = 0; i < key.size && size + 1 < sizeof plain; i++) {
        char c = key.at[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c + 'a' - 'A');
        if (c != '_' && c != '-' && c != '.' && c != ' ')
            plain[size++] = c;
    }
    plain[size] = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(plain, words[i]))
            return true;
    if (!text_ends((struct text){ plain, size }, "token"))
        return false;
    for (size_t i = 0; i < sizeof vocabulary / sizeof *vocabulary; i++)
        if (text_ends((struct text){ plain, size - strlen("token") }, vocabulary[i]))
            return false;
    return true;
}

// One item of a list: "a,hf_…" has two.
static bool item_is_secret(struct text item)
{
    for (size_t i = 0; item.size >= LEAST && i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t size = strlen(prefixes[i]);
        if (!memcmp(item.at, prefixes[i], size) && !memchr(item.at + size, '/', item.size - size))
            return true;
    }
    return false;
}

// "scheme://user:password@host", or a token in place of the user, as clones of repositories have
// it.
static bool has_password(struct text value)
{
    bool colon = false;
    const char *user = NULL; // where the part before the host begins
    for (size_t i = 0; i < value.size; i++) {
        char c = value.at[i];
        if (c == '/' && i >= 2 && value.at[i - 1] == '/' && value.at[i - 2] == ':') {
            user = value.at + i + 1;
            colon = false;
        } else if (c == '/' || c == ' ') {
            user = NULL;
        } else if (user && c == ':') {
            colon = true;
        } else if (user && c == '@') {
            struct text name = { user, (size_t)(value.at + i - user) };
            if (colon || item_is_secret(name))
                return true;
        }
    }
    return false;
}

bool secret_is(struct text key, struct text value)
{
    if (!value.size || text_is(value, "true") || text_is(value, "false"))
        return false; // use_auth_token: true
    if (key_is_secret(key) || has_password(value))
        return true;
    struct text item;
    while (text_next(&value, ',', &item))
        if (item_is_secret(item))
            return true;
    return false;
}

const char *secret_hide(const char *key, const char *value)
{
    return value && secret_is(text_of(key), text_of(value)) ? SECRET_HIDDEN : value;
}
