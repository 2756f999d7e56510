// SPDX-License-Identifier: Apache-2.0
// Takes addresses of objects apart, and escapes their parts for a URL.

#include "remote/address.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST_BYTES = 8192, LONGEST_KEY_BYTES = 1024 };

static const struct {
    const char *scheme;
    enum address_kind kind;
} schemes[] = {
    { "s3://", ADDRESS_S3 },      { "gs://", ADDRESS_GS },      { "https://", ADDRESS_WEB },
    { "http://", ADDRESS_WEB },   { "hf://", ADDRESS_HUB },     { "s3a://", ADDRESS_OTHER },
    { "s3n://", ADDRESS_OTHER },  { "r2://", ADDRESS_OTHER },   { "az://", ADDRESS_OTHER },
    { "abfs://", ADDRESS_OTHER }, { "hdfs://", ADDRESS_OTHER }, { "ftp://", ADDRESS_OTHER },
    { "gcs://", ADDRESS_OTHER },
};

enum address_kind address_kind(const char *word)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (!strncmp(word, schemes[i].scheme, strlen(schemes[i].scheme)))
            return schemes[i].kind;
    return ADDRESS_LOCAL;
}

static bool is_host(struct text host)
{
    for (size_t i = 0; i < host.size; i++)
        if (!isalnum((unsigned char)host.at[i]) && !strchr(".-_:[]", host.at[i]))
            return false;
    return host.size && host.at[0] != ':' && host.size < 256;
}

bool address_split(const char *url, struct text *host, struct text *path)
{
    const char *start = strstr(url, "://");
    if (address_kind(url) != ADDRESS_WEB || strpbrk(url, "?#"))
        return false;
    start += 3;
    host->at = start;
    host->size = strcspn(start, "/");
    path->at = start + host->size;
    path->size = strlen(path->at);
    while (path->size && path->at[path->size - 1] == '/')
        path->size--;
    for (size_t i = 0; i < path->size; i++)
        if (path->at[i] <= ' ' || path->at[i] == 127)
            return false;
    return is_host(*host);
}

static bool is_bucket(struct text bucket)
{
    bool good = bucket.size >= 1 && bucket.size <= 222; // 63 at Amazon, 222 with dots at Google
    for (size_t i = 0; good && i < bucket.size; i++)
        good = isalnum((unsigned char)bucket.at[i]) || strchr(".-_", bucket.at[i]);
    return good && isalnum((unsigned char)bucket.at[0]);
}

static enum err read_web(const char *word)
{
    const char *start = strstr(word, "://") + 3;
    struct text host = { start, strcspn(start, "/?#") };
    if (memchr(host.at, '@', host.size))
        return fail(ERR_INPUT, "the address names a user or a password before its host; such "
                               "addresses are not read, for a password would be shown to others");
    if (!is_host(host))
        return fail(ERR_INPUT, "%.60s: the address has no host such as example.org", word);
    return OK;
}

enum err address_read(struct address *out, const char *word)
{
    *out = (struct address){ .kind = address_kind(word) };
    if (strlen(word) > LONGEST_BYTES)
        return fail(ERR_INPUT, "%.60s…: the address is longer than %d bytes", word, LONGEST_BYTES);
    if (out->kind == ADDRESS_WEB)
        return read_web(word);
    if (out->kind == ADDRESS_OTHER)
        return fail(ERR_INPUT,
                    "%s: this kind of address is not read; give s3://, gs://, https://, "
                    "hf://datasets/ or a local path (other S3 stores: s3:// with "
                    "AWS_ENDPOINT_URL_S3)",
                    word);
    if (out->kind != ADDRESS_S3 && out->kind != ADDRESS_GS)
        return OK;
    const char *start = word + strlen("s3://");
    out->bucket = (struct text){ start, strcspn(start, "/") };
    const char *key = start + out->bucket.size;
    out->key = text_of(key + (*key == '/'));
    if (!is_bucket(out->bucket))
        return fail(ERR_INPUT, "%s: \"%.*s\" is no name of a bucket; give s3://bucket/key", word,
                    TEXT_BRIEF(out->bucket));
    if (out->key.size > LONGEST_KEY_BYTES)
        return fail(ERR_INPUT, "%.60s…: the key is longer than %d bytes", word, LONGEST_KEY_BYTES);
    return OK;
}

const char *address_name(struct arena *arena, const char *word)
{
    size_t size = strcspn(word, "?#");
    if (address_kind(word) != ADDRESS_WEB || !word[size])
        return word;
    return text_copy(arena, (struct text){ word, size });
}

static bool stands_for_itself(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void address_escape(struct out *out, struct text text, bool keep_slashes)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (stands_for_itself(c) || (c == '/' && keep_slashes))
            out_char(out, (char)c);
        else
            out_put(out, "%%%02X", c);
    }
}

void address_put_web(struct out *out, const char *word)
{
    for (; *word && *word != '#'; word++) {
        unsigned char c = (unsigned char)*word;
        if (c <= ' ' || c >= 127 || strchr("\"<>\\^`{|}", c))
            out_put(out, "%%%02X", c);
        else
            out_char(out, (char)c);
    }
}
