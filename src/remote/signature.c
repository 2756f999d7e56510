// SPDX-License-Identifier: Apache-2.0
// AWS Signature Version 4: a canonical request, a string to sign, and a key derived from the
// secret.

#define _DEFAULT_SOURCE // explicit_bzero

#include "remote/signature.h"

#include "base/sha256.h"

#include <stdio.h>
#include <string.h>

enum { DIGEST = 32, BLOCK = 64 };

static void hmac(uint8_t out[DIGEST], const uint8_t *key, size_t key_size, struct text message,
                 struct arena *arena)
{
    uint8_t block[BLOCK] = { 0 };
    if (key_size > BLOCK)
        sha256(block, (struct text){ (const char *)key, key_size });
    else if (key_size)
        memcpy(block, key, key_size);
    uint8_t *inner = arena_alloc(arena, BLOCK + message.size), outer[BLOCK + DIGEST];
    for (int i = 0; i < BLOCK; i++) {
        inner[i] = block[i] ^ 0x36;
        outer[i] = block[i] ^ 0x5C;
    }
    if (message.size)
        memcpy(inner + BLOCK, message.at, message.size);
    sha256(outer + BLOCK, (struct text){ (const char *)inner, BLOCK + message.size });
    sha256(out, (struct text){ (const char *)outer, sizeof outer });
    explicit_bzero(inner, BLOCK);
    explicit_bzero(outer, sizeof outer);
    explicit_bzero(block, sizeof block);
}

static void put_hex(struct out *out, const uint8_t digest[DIGEST])
{
    for (int i = 0; i < DIGEST; i++)
        out_put(out, "%02x", digest[i]);
}

static void put_signed_names(struct out *out, const struct signature_request *r)
{
    for (size_t i = 0; i < r->header_count; i++)
        out_put(out, "%s%s", i ? ";" : "", r->headers[i].name);
}

static void put_scope(struct out *out, const struct signature_request *r)
{
    out_put(out, "%.8s/%s/%s/aws4_request", r->stamp, r->region, r->service);
}

static void put_canonical(struct out *out, const struct signature_request *r)
{
    out_put(out, "%s\n%s\n%s\n", r->method, *r->path ? r->path : "/", r->query);
    for (size_t i = 0; i < r->header_count; i++)
        out_put(out, "%s:%s\n", r->headers[i].name, r->headers[i].value);
    out_put(out, "\n");
    put_signed_names(out, r);
    out_put(out, "\n%s", r->body_hash);
}

// The key of one day, region and service.
static void derive(uint8_t key[DIGEST], const struct signature_request *r, const char *secret,
                   struct arena *arena)
{
    size_t size = strlen(secret);
    char *first = arena_alloc(arena, size + 5);
    memcpy(first, "AWS4", 4);
    memcpy(first + 4, secret, size);
    hmac(key, (uint8_t *)first, size + 4, (struct text){ r->stamp, 8 }, arena);
    hmac(key, key, DIGEST, text_of(r->region), arena);
    hmac(key, key, DIGEST, text_of(r->service), arena);
    hmac(key, key, DIGEST, TEXT("aws4_request"), arena);
    explicit_bzero(first, size + 4);
}

void signature_put(struct out *out, const struct signature_request *r, const char *key_id,
                   const char *secret)
{
    struct arena scratch = { 0 };
    struct out canonical = { .arena = &scratch }, wanted = { .arena = &scratch };
    uint8_t digest[DIGEST], key[DIGEST];
    put_canonical(&canonical, r);
    sha256(digest, out_view(&canonical));
    out_put(&wanted, "AWS4-HMAC-SHA256\n%s\n", r->stamp);
    put_scope(&wanted, r);
    out_put(&wanted, "\n");
    put_hex(&wanted, digest);
    derive(key, r, secret, &scratch);
    hmac(digest, key, DIGEST, out_view(&wanted), &scratch);
    out_put(out, "AWS4-HMAC-SHA256 Credential=%s/", key_id);
    put_scope(out, r);
    out_put(out, ", SignedHeaders=");
    put_signed_names(out, r);
    out_put(out, ", Signature=");
    put_hex(out, digest);
    explicit_bzero(key, sizeof key);
    arena_release(&scratch);
}

void signature_stamp(char out[SIGNATURE_STAMP_BYTES], time_t now)
{
    struct tm t;
    gmtime_r(&now, &t);
    strftime(out, SIGNATURE_STAMP_BYTES, "%Y%m%dT%H%M%SZ", &t);
}
