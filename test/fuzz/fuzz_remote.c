// SPDX-License-Identifier: Apache-2.0
// Any bytes as an address, a file of profiles, a page of a bucket's list and an error document.

#include "remote/address.h"
#include "remote/credentials.h"
#include "remote/listing.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(lines)

static void try_address(struct arena *arena, const char *word)
{
    struct address address;
    struct text host, path;
    struct out out = { .arena = arena };
    if (!address_read(&address, word) && address.key.size > strlen(word))
        abort();
    if (strpbrk(address_name(arena, word), "?") && address_kind(word) == ADDRESS_WEB)
        abort(); // what follows may be a secret
    address_split(word, &host, &path);
    address_put_web(&out, word);
    address_escape(&out, text_of(word), true);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct text text = { (const char *)data, size };
    struct listing page;
    struct credentials keys = { 0 };
    bool found = false;
    char code[16];
    try_address(&arena, text_copy(&arena, text));
    credentials_read(&keys, &arena, text, "default", false, &found);
    credentials_read(&keys, &arena, text, "work", true, &found);
    listing_error_code(code, sizeof code, text);
    if (!listing_read(&page, &arena, text))
        for (size_t i = 0; i < page.count; i++)
            if (page.objects[i].size_bytes < 0 || strlen(page.objects[i].key) > 1024)
                abort();
    arena_release(&arena);
    return 0;
}
