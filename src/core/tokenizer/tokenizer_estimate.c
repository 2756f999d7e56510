// SPDX-License-Identifier: Apache-2.0
// Estimates the tokens of a model family (data/families.csv): from tokens of the built-in
// vocabulary for text in Latin script, from characters for the others (data/scripts.csv).

#include "base/embedded.h"
#include "base/field.h"
#include "base/unicode.h"
#include "core/tokenizer/tokenizer.h"

#include <string.h>

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

struct rate_row {
    const char *family, *script;
    double tokens, spread;
    const char *as_of;
};

static const struct field rate_fields[] = {
    FIELD_NEEDED(rate_row, family, TEXT, "name of the family, as in families.csv"),
    FIELD_NEEDED(rate_row, script, TEXT,
                 "name of the script in Unicode; others: all that are not listed"),
    FIELD_NEEDED(rate_row, tokens, NUMBER, "tokens per character"),
    FIELD_NEEDED(rate_row, spread, SHARE, "relative standard deviation over languages and texts"),
    FIELD_NEEDED(rate_row, as_of, DATE, "when it was measured"),
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

// How a character is counted: by the rate of its script, by unicode_script(), where 0 stands for
// all scripts that are not listed; or as Latin, by the built-in vocabulary.
enum { LATIN = -1, OTHERS = 0 };

// The rates of a family by script: none for Latin and for what belongs to no script.
static enum err read_rates(struct tokenizer_family *family, struct arena *arena)
{
    struct text file = embedded_file("scripts.csv");
    void *rows;
    size_t count;
    if (!file.at)
        return fail(ERR_UNAVAILABLE, "this build has no data/scripts.csv");
    TRY(field_read_csv(rate_fields, sizeof(struct rate_row), &rows, &count, arena, file,
                       "scripts.csv"));
    struct tokenizer_rate *rates = ARENA_NEW(arena, struct tokenizer_rate, TOKENIZER_SCRIPTS);
    for (const struct rate_row *row = rows, *end = row + count; row < end; row++) {
        bool others = !strcmp(row->script, "others");
        int script = others ? OTHERS : unicode_script_named(row->script, strlen(row->script));
        if (script < 0 || script >= TOKENIZER_SCRIPTS)
            return fail(ERR_BUG, "data/scripts.csv: no script has the name %s", row->script);
        if (strcmp(row->family, family->family))
            continue;
        rates[script] = (struct tokenizer_rate){ row->tokens, row->spread };
        if (!strcmp(row->script, "Latin"))
            family->accented = rates[script];
    }
    if (!(rates[OTHERS].tokens > 0) || !(family->accented.tokens > 0))
        return fail(ERR_BUG, "data/scripts.csv: %s has no row for Latin or none for others",
                    family->family);
    for (int i = 1; i < TOKENIZER_SCRIPTS; i++)
        if (!(rates[i].tokens > 0))
            rates[i] = rates[OTHERS];
    static const char *const without[] = { "Latin", "Common", "Inherited" };
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        rates[unicode_script_named(without[i], strlen(without[i]))] = (struct tokenizer_rate){ 0 };
    family->rates = rates;
    return OK;
}

enum err tokenizer_family(struct tokenizer_family *out, struct arena *arena, const char *model)
{
    struct text file = embedded_file("families.csv");
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
    return read_rates(out, arena);
}

// --- estimates ---------------------------------------------------------------

// Marks and punctuation belong to no script: they are counted as the letter before them; where that
// is Latin, or there is none, East Asian punctuation is counted as others.
static int script_of(const struct tokenizer_rate *rates, uint32_t code, int before)
{
    enum { LATIN_END = 0x300, EAST_ASIAN = 0x3000, EAST_ASIAN_END = 0x10000 };
    int script = code < LATIN_END ? LATIN : unicode_script(code);
    if (script == LATIN || rates[script].tokens > 0)
        return script;
    if (before != LATIN)
        return before;
    return code >= EAST_ASIAN && code < EAST_ASIAN_END ? OTHERS : LATIN;
}

// Letters with accents, and accents alone.
static bool is_accented(uint32_t code)
{
    enum { TIMES = 0xD7, DIVIDED = 0xF7 };
    return (code >= 0xC0 && code < 0x370 && code != TIMES && code != DIVIDED) ||
           (code >= 0x1E00 && code < 0x1F00);
}

void tokenizer_parts_add(struct tokenizer_parts *parts, const struct tokenizer_family *family,
                         const struct tokenizer *builtin, struct tokenizer_cache *cache,
                         struct text text)
{
    const char *end = text.at + text.size, *from = text.at;
    int before = LATIN;
    for (const char *at = from;;) {
        const char *next = at;
        int script = LATIN;
        if (at < end) {
            uint32_t code = unicode_next(&next, end);
            script = script_of(family->rates, code, before);
            parts->accents += script == LATIN && is_accented(code);
        }
        if (before == LATIN && (script != LATIN || at == end)) {
            size_t size = (size_t)(at - from);
            size -= script != LATIN && size && at[-1] == ' ';
            parts->tokens += tokenizer_count(builtin, cache, (struct text){ from, size }, 0);
            parts->bytes += (int64_t)size;
        }
        if (script != LATIN) {
            parts->characters[script]++;
            from = next;
        }
        if (at == end)
            return;
        before = script;
        at = next;
    }
}

// Text in Latin script is taken for another language than English as far as it has accents.
static struct tokenizer_rate latin_rate(const struct tokenizer_family *family,
                                        const struct tokenizer_parts *parts)
{
    const double sure = 0.005; // accents in a byte; German has 0.015, English 0.0005
    double share = (double)parts->accents / (double)(parts->bytes + 1) / sure;
    share = share < 1 ? share : 1;
    return (struct tokenizer_rate){
        family->factor + share * (family->accented.tokens - family->factor),
        family->spread + share * (family->accented.spread - family->spread),
    };
}

double tokenizer_estimate(const struct tokenizer_family *family,
                          const struct tokenizer_parts *parts, double *doubt)
{
    struct tokenizer_rate latin = latin_rate(family, parts);
    double tokens = (double)parts->tokens * latin.tokens;
    *doubt = tokens * latin.spread;
    for (int i = 0; i < TOKENIZER_SCRIPTS; i++) {
        double of_script = (double)parts->characters[i] * family->rates[i].tokens;
        tokens += of_script;
        *doubt += of_script * family->rates[i].spread;
    }
    return tokens;
}
