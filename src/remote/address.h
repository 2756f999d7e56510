// SPDX-License-Identifier: Apache-2.0
// address: the parts of "s3://bucket/key", "gs://bucket/key", "https://host/file" and "hf://…".
//
// Nothing here opens a connection. An address on the web may carry a signature after its "?"; what
// people read is address_name(), which ends before it.

#pragma once

#include "base/text.h"

enum address_kind {
    ADDRESS_LOCAL, // no address
    ADDRESS_S3,    // "s3://bucket/key"
    ADDRESS_GS,    // "gs://bucket/key"
    ADDRESS_WEB,   // "https://…", "http://…"
    ADDRESS_HUB,   // "hf://datasets/org/name/path": the local cache of the hub
    ADDRESS_OTHER, // another scheme that people use, which is refused
};

struct address {
    enum address_kind kind;
    struct text bucket, key; // S3, GS: as written, nothing is unescaped
};

enum address_kind address_kind(const char *word);

// ERR_INPUT with a sentence for what cannot be an address of its kind. Points into the word.
enum err address_read(struct address *out, const char *word);

// The address without what follows "?" or "#"; the word itself where nothing is to be hidden.
const char *address_name(struct arena *arena, const char *word);

// Puts text as a part of a URL: A-Z a-z 0-9 - . _ ~ stand for themselves, all else as %XX.
void address_escape(struct out *out, struct text text, bool keep_slashes);

// Puts a web address as it may be sent: bytes that no URL holds as %XX, nothing after "#".
void address_put_web(struct out *out, const char *word);

// "https://host:port/path" → "host:port", as the Host header has it, and "/path" without a last
// slash. False where it is no such URL, names a user, or holds a query.
bool address_split(const char *url, struct text *host, struct text *path);
