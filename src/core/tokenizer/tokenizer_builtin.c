// SPDX-License-Identifier: Apache-2.0
// The built-in vocabulary, for estimates without a model's tokenizer.

#include "base/embedded.h"
#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

// A merge is stored as the ids of its two parts, 16 bits each; see tools/vocabulary.c.
static enum err add_merges(struct tokenizer *t, struct arena *arena, struct text file)
{
    const unsigned char *at = (const unsigned char *)file.at;
    for (uint32_t rank = 0; rank < file.size / 4; rank++, at += 4) {
        int32_t left = at[0] | at[1] << 8, right = at[2] | at[3] << 8, whole = 256 + (int32_t)rank;
        if (left >= whole || right >= whole)
            return fail(ERR_BUG, "the built-in vocabulary is broken at merge %u", rank);
        struct text first = t->vocabulary.tokens[left], second = t->vocabulary.tokens[right];
        struct text both = { arena_alloc(arena, first.size + second.size + 1),
                             first.size + second.size };
        memcpy((char *)both.at, first.at, first.size);
        memcpy((char *)both.at + first.size, second.at, second.size);
        if (!tokenizer_vocabulary_add(&t->vocabulary, arena, both, whole))
            return fail(ERR_BUG, "the built-in vocabulary has the same token twice, at merge %u",
                        rank);
        tokenizer_merges_add(&t->merges, arena, (struct merge){ left, right, rank, whole });
    }
    return OK;
}

enum err tokenizer_builtin(struct tokenizer **out, struct arena *arena)
{
    struct text file = embedded_file("vocabulary.bin");
    if (!file.at)
        return fail(ERR_UNAVAILABLE, "this build has no built-in vocabulary (data/vocabulary.bin)");
    struct tokenizer *t = ARENA_NEW(arena, struct tokenizer, 1);
    t->unknown = TOKENIZER_NONE;
    t->byte_level = true;
    tokenizer_vocabulary_init(&t->vocabulary, arena, 256 + file.size / 4);
    tokenizer_vocabulary_init(&t->special, arena, 0);
    tokenizer_merges_init(&t->merges, arena, file.size / 4);
    char *bytes = arena_alloc(arena, 256);
    for (int byte = 0; byte < 256; byte++) {
        bytes[byte] = (char)byte;
        tokenizer_vocabulary_add(&t->vocabulary, arena, (struct text){ bytes + byte, 1 }, byte);
        t->byte_ids[byte] = byte;
    }
    TRY(add_merges(t, arena, file));
    t->size = t->vocabulary.size;
    TRY(tokenizer_finish(t, arena));
    t->scan = SCAN_CL100K; // the pattern it was trained with
    *out = t;
    return OK;
}
