// SPDX-License-Identifier: Apache-2.0
// Cuts text into words for pre-tokenizers that have no scanner. As in the library, each step cuts
// the pieces of the step before, and a pattern sees one piece at a time.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

struct pieces {
    struct arena *arena;
    struct span *at;
    size_t count, room;
};

static void add(struct pieces *pieces, size_t start, size_t end)
{
    pieces->at =
        arena_room(pieces->arena, pieces->at, sizeof *pieces->at, pieces->count, &pieces->room);
    pieces->at[pieces->count++] = (struct span){ (uint32_t)start, (uint32_t)end };
}

// --- cutting one piece -------------------------------------------------------

// Collects the parts of a piece, matches and the text between them, in order.
struct cutter {
    struct pieces *out;
    enum split_behavior behavior;
    bool inverted;
    bool any, last_matched; // whether there was a part, and whether the last one matched
    size_t pending_start, pending_end;
    bool pending;
};

static void flush(struct cutter *c)
{
    if (c->pending && c->pending_end > c->pending_start)
        add(c->out, c->pending_start, c->pending_end);
    c->pending = false;
}

static void hold(struct cutter *c, size_t start, size_t end)
{
    flush(c);
    c->pending = true;
    c->pending_start = start;
    c->pending_end = end;
}

static void cut(struct cutter *c, size_t start, size_t end, bool matched)
{
    matched = matched != c->inverted;
    bool joins = false;
    switch (c->behavior) {
    case SPLIT_REMOVED:
        if (matched) {
            flush(c);
            return;
        }
        break;
    case SPLIT_ISOLATED: break;
    case SPLIT_MERGED_WITH_PREVIOUS: joins = matched && !c->last_matched; break;
    case SPLIT_MERGED_WITH_NEXT: joins = c->any && c->last_matched && !matched; break;
    case SPLIT_CONTIGUOUS: joins = matched == c->last_matched; break;
    }
    if (joins && c->pending)
        c->pending_end = end;
    else
        hold(c, start, end);
    c->any = true;
    c->last_matched = matched;
}

static void cut_by_pattern(struct cutter *c, struct pattern_stack *stack,
                           const struct split_step *step, struct text piece, size_t offset)
{
    struct pattern_match match;
    size_t from = 0, at = 0;
    while (at <= piece.size && pattern_find(step->pattern, stack, piece, at, &match)) {
        if (match.start > from)
            cut(c, offset + from, offset + match.start, false);
        if (match.end > match.start)
            cut(c, offset + match.start, offset + match.end, true);
        from = match.end;
        at = match.end > match.start ? match.end : match.end + 1;
    }
    if (from < piece.size)
        cut(c, offset + from, offset + piece.size, false);
}

static void cut_by_literal(struct cutter *c, struct text literal, struct text piece, size_t offset)
{
    size_t from = 0;
    for (size_t at = 0; literal.size && at + literal.size <= piece.size;) {
        if (memcmp(piece.at + at, literal.at, literal.size)) {
            at++;
            continue;
        }
        if (at > from)
            cut(c, offset + from, offset + at, false);
        cut(c, offset + at, offset + at + literal.size, true);
        from = at += literal.size;
    }
    if (from < piece.size)
        cut(c, offset + from, offset + piece.size, false);
}

static bool is_number(uint32_t code)
{
    return unicode_is(code, UNICODE_NUMBER);
}

static bool is_space(uint32_t code)
{
    return unicode_class(code) & UNICODE_SPACE;
}

static bool is_punctuation(uint32_t code)
{
    if (code < 128)
        return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) ||
               (code >= 91 && code <= 96) || (code >= 123 && code <= 126);
    return unicode_was(code, UNICODE_PUNCTUATION);
}

static void cut_by_character(struct cutter *c, bool (*is)(uint32_t), struct text piece,
                             size_t offset)
{
    const char *at = piece.at, *end = at + piece.size, *from = at;
    while (at < end) {
        const char *start = at;
        if (!is(unicode_next(&at, end)))
            continue;
        if (start > from)
            cut(c, offset + (size_t)(from - piece.at), offset + (size_t)(start - piece.at), false);
        cut(c, offset + (size_t)(start - piece.at), offset + (size_t)(at - piece.at), true);
        from = at;
    }
    if (from < end)
        cut(c, offset + (size_t)(from - piece.at), offset + piece.size, false);
}

// Runs of word characters, and runs of characters that are neither those nor white space.
static void cut_by_word(struct cutter *c, struct text piece, size_t offset)
{
    const char *at = piece.at, *end = at + piece.size, *from = at;
    int kind = -1; // of the run from `from`
    while (at <= end) {
        const char *start = at;
        int next = -1;
        if (at < end) {
            uint32_t code = unicode_next(&at, end);
            next = is_space(code)                                                           ? 0
                   : unicode_class(code) & UNICODE_WORD || code == 0x200C || code == 0x200D ? 1
                                                                                            : 2;
        }
        if (next != kind || start == end) {
            if (kind > 0)
                hold(c, offset + (size_t)(from - piece.at), offset + (size_t)(start - piece.at));
            from = start;
            kind = next;
        }
        if (start == end)
            break;
    }
}

// The script of a character; 0 for a space and where there is none: they go with any script. The
// library's scripts are those of Unicode 9.
static int script_of(const struct split_step *step, uint32_t code)
{
    const uint32_t long_vowel = 0x30FC; // used in Hiragana and Katakana
    int script = code == ' ' || !unicode_was_assigned(code) ? 0 : unicode_script(code);
    bool kana = script == step->hiragana || script == step->katakana || code == long_vowel;
    return kana ? step->han : script;
}

// As the library does, leaves out what stands before the first character that has a script.
static void cut_by_script(struct cutter *c, const struct split_step *step, struct text piece,
                          size_t offset)
{
    int last = 0;
    size_t from = 0;
    for (const char *at = piece.at, *end = at + piece.size; at < end;) {
        size_t start = (size_t)(at - piece.at);
        int script = script_of(step, unicode_next(&at, end));
        if (!script || script == last)
            continue;
        if (last)
            hold(c, offset + from, offset + start);
        from = start;
        last = script;
    }
    if (last)
        hold(c, offset + from, offset + piece.size);
}

static void cut_by_length(struct cutter *c, size_t length, struct text piece, size_t offset)
{
    for (const char *at = piece.at, *end = at + piece.size; at < end;) {
        const char *start = at;
        for (size_t i = 0; i < length && at < end; i++)
            unicode_next(&at, end);
        hold(c, offset + (size_t)(start - piece.at), offset + (size_t)(at - piece.at));
    }
}

// --- rewriting ---------------------------------------------------------------

struct rewriting {
    struct out out;
    uint32_t *origins;
    size_t room;
    bool places;
};

static void put(struct rewriting *to, const char *at, size_t size, uint32_t origin)
{
    if (to->places && to->out.size + size > to->room) {
        size_t room = (to->out.size + size) * 2;
        to->origins = arena_grow(to->out.arena, to->origins, to->room * sizeof *to->origins,
                                 room * sizeof *to->origins);
        to->room = room;
    }
    for (size_t i = 0; to->places && i < size; i++)
        to->origins[to->out.size + i] = origin;
    out_bytes(&to->out, at, size);
}

static uint32_t origin_at(const struct stretch *stretch, size_t at)
{
    return stretch->origin ? stretch->origin[at] : (uint32_t)(stretch->start + at);
}

static bool begins_with(struct text text, struct text start)
{
    return text.size >= start.size && !memcmp(text.at, start.at, start.size);
}

// What Metaspace and ByteLevel do to a piece before cutting it: replace spaces, prepend a space.
static void rewrite_piece(struct rewriting *to, const struct stretch *stretch, struct span piece,
                          const struct split_step *step)
{
    struct text text = { stretch->text.at + piece.start, piece.end - piece.start };
    struct text mark = step->kind == SPLIT_METASPACE ? step->literal : TEXT(" ");
    bool prepends = step->prefix_space || step->prepend == 2 ||
                    (step->prepend == 1 && origin_at(stretch, piece.start) == 0);
    bool replaces = step->kind == SPLIT_METASPACE;
    if (prepends && !begins_with(text, mark) && !(replaces && text.at[0] == ' '))
        put(to, mark.at, mark.size, origin_at(stretch, piece.start));
    for (const char *at = text.at, *end = at + text.size; at < end;) {
        const char *start = at;
        bool space = unicode_next(&at, end) == ' ' && replaces;
        uint32_t origin = origin_at(stretch, piece.start + (size_t)(start - text.at));
        if (space)
            put(to, mark.at, mark.size, origin);
        else
            put(to, start, (size_t)(at - start), origin);
    }
}

static void rewrite(struct stretch *stretch, struct pieces *pieces, const struct split_step *step,
                    bool places)
{
    struct rewriting to = { .out.arena = pieces->arena, .places = places };
    for (size_t i = 0; i < pieces->count; i++) {
        size_t start = to.out.size;
        rewrite_piece(&to, stretch, pieces->at[i], step);
        pieces->at[i] = (struct span){ (uint32_t)start, (uint32_t)to.out.size };
    }
    struct text text = out_view(&to.out);
    *stretch = (struct stretch){ text, places ? to.origins : NULL, stretch->start };
}

// --- steps -------------------------------------------------------------------

static void cut_piece(struct cutter *c, struct pattern_stack *stack, const struct split_step *step,
                      struct text piece, size_t offset)
{
    switch (step->kind) {
    case SPLIT_PATTERN:
        if (step->pattern)
            cut_by_pattern(c, stack, step, piece, offset);
        else
            cut_by_literal(c, step->literal, piece, offset);
        break;
    case SPLIT_DIGITS: cut_by_character(c, is_number, piece, offset); break;
    case SPLIT_PUNCTUATION: cut_by_character(c, is_punctuation, piece, offset); break;
    case SPLIT_ON_WHITESPACE: cut_by_character(c, is_space, piece, offset); break;
    case SPLIT_WHITESPACE: cut_by_word(c, piece, offset); break;
    case SPLIT_METASPACE:
    case SPLIT_DELIMITER: cut_by_literal(c, step->literal, piece, offset); break;
    case SPLIT_BYTE_LEVEL: cut_by_pattern(c, stack, step, piece, offset); break;
    case SPLIT_SCRIPTS: cut_by_script(c, step, piece, offset); break;
    case SPLIT_LENGTH: cut_by_length(c, step->length, piece, offset); break;
    case SPLIT_BERT: break;
    }
    flush(c);
}

// Cuts a piece in which every byte is a visible character of the byte-level alphabet.
static void cut_mapped(struct cutter *c, struct pattern_stack *stack, const struct split_step *step,
                       struct text piece, size_t offset)
{
    struct pieces *out = c->out;
    uint16_t codes[256];
    size_t size = 0, first = out->count;
    char *text = arena_alloc(out->arena, 2 * piece.size + UNICODE_BYTES);
    uint32_t *bytes = ARENA_NEW(out->arena, uint32_t, 2 * piece.size + UNICODE_BYTES);
    tokenizer_alphabet(codes);
    for (size_t i = 0; i < piece.size; i++) {
        bytes[size] = (uint32_t)(offset + i);
        size += (size_t)unicode_put(text + size, codes[(unsigned char)piece.at[i]]);
    }
    bytes[size] = (uint32_t)(offset + piece.size);
    cut_piece(c, stack, step, (struct text){ text, size }, 0);
    for (size_t i = first; i < out->count; i++)
        out->at[i] = (struct span){ bytes[out->at[i].start], bytes[out->at[i].end] };
}

static struct pieces cut_all(struct tokenizer_cache *cache, const struct split_step *step,
                             struct text text, struct pieces in)
{
    struct pieces out = { .arena = in.arena };
    for (size_t i = 0; i < in.count; i++) {
        struct cutter c = { .out = &out, .behavior = step->behavior, .inverted = step->inverted };
        struct text piece = { text.at + in.at[i].start, in.at[i].end - in.at[i].start };
        (step->mapped ? cut_mapped : cut_piece)(&c, &cache->stack, step, piece, in.at[i].start);
    }
    return out;
}

static struct pieces apply(struct tokenizer_cache *cache, const struct split_step *step,
                           struct stretch *stretch, struct pieces pieces, bool places)
{
    struct split_step part = *step;
    switch (step->kind) {
    case SPLIT_BERT:
        part.kind = SPLIT_ON_WHITESPACE;
        part.behavior = SPLIT_REMOVED;
        pieces = cut_all(cache, &part, stretch->text, pieces);
        part.kind = SPLIT_PUNCTUATION;
        part.behavior = SPLIT_ISOLATED;
        break;
    case SPLIT_ON_WHITESPACE:
    case SPLIT_DELIMITER: part.behavior = SPLIT_REMOVED; break;
    case SPLIT_METASPACE:
        rewrite(stretch, &pieces, step, places);
        part.behavior = SPLIT_MERGED_WITH_NEXT;
        break;
    case SPLIT_BYTE_LEVEL:
        if (step->prefix_space)
            rewrite(stretch, &pieces, step, places);
        part.behavior = SPLIT_ISOLATED;
        break;
    default: break;
    }
    bool rewrites_only =
        (step->kind == SPLIT_METASPACE || step->kind == SPLIT_BYTE_LEVEL) && !step->splits;
    return rewrites_only ? pieces : cut_all(cache, &part, stretch->text, pieces);
}

size_t tokenizer_split(const struct tokenizer *t, struct tokenizer_cache *cache,
                       struct stretch *stretch, bool places, struct span **spans)
{
    struct pieces pieces = { .arena = &cache->scratch };
    add(&pieces, 0, stretch->text.size);
    for (int i = 0; i < t->split_count; i++)
        pieces = apply(cache, &t->split_steps[i], stretch, pieces, places);
    *spans = pieces.at;
    return pieces.count;
}
