// SPDX-License-Identifier: Apache-2.0
// The built-in vocabulary, for estimates without a model's tokenizer, and its factors for known
// model families (data/families.csv).

#include "base/embedded.h"
#include "base/field.h"
#include "core/tokenizer/tokenizer_internal.h"

#include <math.h>
#include <string.h>

static struct text find_embedded(const char *name)
{
    for (const struct embedded *file = embedded_files; file->name; file++)
        if (!strcmp(file->name, name))
            return (struct text){ file->at, file->size };
    return (struct text){ 0 };
}

// --- vocabulary --------------------------------------------------------------

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
    struct text file = find_embedded("vocabulary.bin");
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

// --- families ----------------------------------------------------------------

static const struct field family_fields[] = {
    FIELD_NEEDED(tokenizer_family, family, TEXT, "name of the family"),
    FIELD_NEEDED(tokenizer_family, matches, TEXT,
                 "parts of model names, lower case, separated by spaces"),
    FIELD_NEEDED(tokenizer_family, factor, NUMBER,
                 "tokens of the family per token of the built-in vocabulary"),
    FIELD_NEEDED(tokenizer_family, spread, SHARE,
                 "relative standard deviation of the factor over texts"),
    FIELD_NEEDED(tokenizer_family, source, TEXT, "how it was measured"),
    FIELD_NEEDED(tokenizer_family, as_of, DATE, "when"),
    { 0 },
};

// Whether the model's name contains the part, ignoring case and punctuation.
static bool holds(const char *model, struct text part)
{
    for (const char *start = model; *start; start++) {
        size_t i = 0;
        for (const char *c = start; i < part.size && *c; c++) {
            char letter = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
            if (letter == '-' || letter == '_' || letter == '.')
                continue;
            if (letter != part.at[i])
                break;
            i++;
        }
        if (i == part.size)
            return true;
    }
    return false;
}

enum err tokenizer_family(struct tokenizer_family *out, struct arena *arena, const char *model)
{
    struct text file = find_embedded("families.csv");
    void *rows;
    size_t count, longest = 0;
    if (!file.at)
        return fail(ERR_UNAVAILABLE, "this build has no data/families.csv");
    TRY(field_read_csv(family_fields, sizeof *out, &rows, &count, arena, file, "families.csv"));
    const struct tokenizer_family *families = rows;
    if (!count)
        return fail(ERR_BUG, "data/families.csv has no rows");
    *out = families[count - 1]; // the last row is for all others
    for (size_t i = 0; i < count; i++) {
        struct text parts = text_of(families[i].matches), part;
        while (text_next(&parts, ' ', &part))
            if (part.size > longest && holds(model, part)) {
                *out = families[i];
                longest = part.size;
            }
    }
    return OK;
}
