// SPDX-License-Identifier: Apache-2.0
// Chooses the scanner of tokenizer_scan.c that cuts as the pre-tokenizer of a file does.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

// --- patterns ----------------------------------------------------------------

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define CL100K_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *source;
    enum scan_kind scan;
} known_patterns[] = {
    { LEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" LEAD UPPER "+" LOWER "*" CONTRACTIONS
                 "?|\\p{N}{1,3}" O200K_TAIL,
      SCAN_O200K },
    { LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER "*|\\p{N}" O200K_TAIL, SCAN_TEKKEN },
    { CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" CL100K_TAIL, SCAN_CL100K },
    { CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" CL100K_TAIL, SCAN_CL100K_1 },
};

// A pattern that matches everywhere gives the same words whether matches are isolated or inverted
// and removed.
static bool keeps_matches(const struct split_step *step)
{
    return (step->behavior == SPLIT_ISOLATED && !step->inverted) ||
           (step->behavior == SPLIT_REMOVED && step->inverted);
}

// SentencePiece-style: the whole text is one word, or is cut at spaces, which normalization
// removed.
static bool is_whole(const struct tokenizer *t)
{
    const struct split_step *step = t->split_steps;
    bool cuts_nothing = t->split_count == 1 && t->marks_spaces && step->kind == SPLIT_PATTERN &&
                        !step->pattern && text_is(step->literal, " ");
    bool knows_all = t->byte_fallback;
    for (int byte = 0; byte < 256; byte++)
        knows_all = knows_all && t->byte_ids[byte] >= 0;
    if (t->fuses_unknown && !knows_all)
        return false; // adjacent unknown characters become one token
    return t->model == MODEL_BPE && !t->byte_level && !t->ignores_merges && !t->suffix.size &&
           (!t->split_count || cuts_nothing) &&
           tokenizer_vocabulary_find(&t->vocabulary, TEXT(TOKENIZER_MARK)) >= 0;
}

#define DEEPSEEK_REST                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?" \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"

// The four steps of DeepSeek V3.
static bool is_deepseek(const struct tokenizer *t)
{
    static const char *const sources[] = {
        "\\p{N}{1,3}",
        "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
        DEEPSEEK_REST,
    };
    bool same = t->split_count == 4 && !t->split_steps[3].splits;
    for (int i = 0; same && i < 3; i++) {
        const struct split_step *step = &t->split_steps[i];
        same = step->kind == SPLIT_PATTERN && step->pattern && !step->inverted &&
               step->behavior == SPLIT_ISOLATED && text_is(step->literal, sources[i]);
    }
    return same;
}

// --- text without a pre-tokenizer --------------------------------------------

// A symbol of a token, as the bytes that begin and end it in a text: ▁ may be written as a space.
struct written {
    uint8_t first[2], last[2];
};

static struct written next_written(const struct tokenizer *t, const char **at, const char *end)
{
    const char *s = *at;
    if (end - s > 2 && !memcmp(s, TOKENIZER_MARK, 3)) {
        *at = s + 3;
        uint8_t first = (uint8_t)s[0], last = (uint8_t)s[2];
        return (struct written){ { first, t->reads_spaces ? ' ' : first },
                                 { last, t->reads_spaces ? ' ' : last } };
    }
    ++*at;
    return (struct written){ { (uint8_t)*s, (uint8_t)*s }, { (uint8_t)*s, (uint8_t)*s } };
}

// Two adjacent characters that no token contains side by side can never merge, so cutting between
// them changes no token. Characters are never split.
static void find_whole_borders(struct tokenizer *t)
{
    const struct vocabulary *v = &t->vocabulary;
    for (int byte = 0; byte < 256; byte++)
        memset(t->borders[byte], (byte & 0xC0) != 0x80, sizeof *t->borders);
    for (int32_t id = 0; id < v->size; id++) {
        const char *at = v->tokens[id].at, *end = at + v->tokens[id].size;
        if (at == end)
            continue;
        for (struct written left = next_written(t, &at, end), right; at < end; left = right) {
            right = next_written(t, &at, end);
            for (int i = 0; i < 4; i++)
                t->borders[right.first[i / 2]][left.last[i % 2]] = 0;
        }
    }
}

void tokenizer_choose_scan(struct tokenizer *t, struct arena *arena)
{
    const struct split_step *steps = t->split_steps;
    if (is_whole(t)) {
        t->scan = SCAN_WHOLE;
        t->reads_spaces = t->marks_spaces && !t->normal.first_bytes;
        t->borders = arena_alloc(arena, 256 * sizeof *t->borders);
        find_whole_borders(t);
        return;
    }
    if (!t->split_count || steps[t->split_count - 1].kind != SPLIT_BYTE_LEVEL ||
        steps[t->split_count - 1].prefix_space)
        return;
    if (is_deepseek(t))
        t->scan = SCAN_DEEPSEEK;
    if (t->split_count == 1 && steps[0].splits)
        t->scan = SCAN_GPT2;
    if (t->split_count == 2 && steps[0].kind == SPLIT_DIGITS && steps[0].each && steps[1].splits)
        t->scan = SCAN_GPT2_DIGITS;
    if (t->split_count != 2 || steps[0].kind != SPLIT_PATTERN || !steps[0].pattern ||
        steps[1].splits || !keeps_matches(&steps[0]))
        return;
    for (size_t i = 0; i < sizeof known_patterns / sizeof *known_patterns; i++)
        if (text_is(steps[0].literal, known_patterns[i].source))
            t->scan = known_patterns[i].scan;
}
