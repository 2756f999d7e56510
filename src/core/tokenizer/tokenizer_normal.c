// SPDX-License-Identifier: Apache-2.0
// Normalizes a stretch of text, step by step, and tracks the origin of every character.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

static struct unicode_points read_points(struct arena *arena, const struct stretch *in)
{
    struct unicode_points points = { ARENA_NEW(arena, struct unicode_point, in->text.size), 0 };
    for (const char *at = in->text.at, *end = at + in->text.size; at < end;) {
        size_t offset = (size_t)(at - in->text.at);
        uint32_t origin = in->origin ? in->origin[offset] : (uint32_t)(in->start + offset);
        points.at[points.count++] = (struct unicode_point){ unicode_next(&at, end), origin };
    }
    return points;
}

static struct unicode_point *append(struct arena *arena, struct unicode_points *points,
                                    size_t *room, struct unicode_point point)
{
    points->at = arena_room(arena, points->at, sizeof *points->at, points->count, room);
    points->at[points->count++] = point;
    return points->at;
}

// --- steps on characters -----------------------------------------------------

static void lower(struct arena *arena, struct unicode_points *points)
{
    struct unicode_points out = { ARENA_NEW(arena, struct unicode_point, points->count), 0 };
    size_t room = points->count;
    for (size_t i = 0; i < points->count; i++) {
        struct unicode_point point = points->at[i];
        bool dotted = point.code == 0x130; // İ, the only character that becomes two
        point.code = dotted ? 'i' : unicode_lower(point.code);
        append(arena, &out, &room, point);
        if (dotted)
            append(arena, &out, &room, (struct unicode_point){ 0x307, point.origin });
    }
    *points = out;
}

static void keep(struct unicode_points *points, bool (*drops)(uint32_t code))
{
    size_t count = 0;
    for (size_t i = 0; i < points->count; i++)
        if (!drops(points->at[i].code))
            points->at[count++] = points->at[i];
    points->count = count;
}

static bool is_mark(uint32_t code)
{
    return unicode_was_mark(code);
}

static bool is_accent(uint32_t code)
{
    return unicode_was(code, UNICODE_SET(MN));
}

static bool is_space(uint32_t code)
{
    return unicode_class(code) & UNICODE_SPACE;
}

static void strip(struct unicode_points *points, bool left, bool right)
{
    while (right && points->count && is_space(points->at[points->count - 1].code))
        points->count--;
    while (left && points->count && is_space(points->at[0].code)) {
        points->at++;
        points->count--;
    }
}

static bool is_unclean(uint32_t code)
{
    if (code == '\t' || code == '\n' || code == '\r')
        return false;
    return !code || code == 0xFFFD ||
           unicode_was(code, UNICODE_SET(CC) | UNICODE_SET(CF) | UNICODE_SET(CO));
}

static bool is_chinese(uint32_t code)
{
    static const uint32_t ranges[][2] = {
        { 0x4E00, 0x9FFF },   { 0x3400, 0x4DBF },   { 0x20000, 0x2A6DF }, { 0x2A700, 0x2B73F },
        { 0x2B740, 0x2B81F }, { 0x2B920, 0x2CEAF }, { 0xF900, 0xFAFF },   { 0x2F800, 0x2FA1F },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

static void space_chinese(struct arena *arena, struct unicode_points *points)
{
    struct unicode_points out = { 0 };
    size_t room = 0;
    for (size_t i = 0; i < points->count; i++) {
        struct unicode_point point = points->at[i];
        struct unicode_point space = { ' ', point.origin };
        bool chinese = is_chinese(point.code);
        if (chinese)
            append(arena, &out, &room, space);
        append(arena, &out, &room, point);
        if (chinese)
            append(arena, &out, &room, space);
    }
    *points = out;
}

static void normalize_bert(struct arena *arena, struct unicode_points *points,
                           const struct normal_step *step)
{
    if (step->cleans) {
        keep(points, is_unclean);
        for (size_t i = 0; i < points->count; i++)
            if (is_space(points->at[i].code))
                points->at[i].code = ' ';
    }
    if (step->chinese)
        space_chinese(arena, points);
    if (step->accents) {
        *points = unicode_normalize(arena, UNICODE_NFD, *points);
        keep(points, is_accent);
    }
    if (step->lowers)
        lower(arena, points);
}

static void normalize_nmt(struct unicode_points *points)
{
    size_t count = 0;
    for (size_t i = 0; i < points->count; i++) {
        struct unicode_point point = points->at[i];
        uint32_t c = point.code;
        if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
            c == 0x9F)
            continue;
        if (c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
            (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
            c == 0xFEFF || c == 0xFFFD)
            point.code = ' ';
        points->at[count++] = point;
    }
    points->count = count;
}

// --- steps on bytes ----------------------------------------------------------

struct rewrite { // the output of a step
    struct arena *arena;
    struct out out;
    uint32_t *origins;
    size_t room;
    bool places;
};

static void put_bytes(struct rewrite *to, const char *at, size_t size, uint32_t origin)
{
    if (to->places && to->out.size + size > to->room) {
        size_t room = (to->out.size + size) * 2;
        to->origins = arena_grow(to->arena, to->origins, to->room * sizeof *to->origins,
                                 room * sizeof *to->origins);
        to->room = room;
    }
    for (size_t i = 0; to->places && i < size; i++)
        to->origins[to->out.size + i] = origin;
    out_bytes(&to->out, at, size);
}

static void put_same(struct rewrite *to, const struct stretch *in, size_t from, size_t until)
{
    if (!to->places) {
        out_bytes(&to->out, in->text.at + from, until - from);
        return;
    }
    const char *at = in->text.at + from, *end = in->text.at + until;
    while (at < end) {
        const char *start = at;
        unicode_next(&at, end);
        size_t offset = (size_t)(start - in->text.at);
        put_bytes(to, start, (size_t)(at - start),
                  in->origin ? in->origin[offset] : (uint32_t)(in->start + offset));
    }
}

static struct stretch finish(struct rewrite *to, const struct stretch *in)
{
    struct text text = out_view(&to->out);
    if (!text.at)
        text.at = "";
    return (struct stretch){ text, to->places ? to->origins : NULL, in->start };
}

static bool find_next(const struct normal_step *step, struct pattern_stack *stack, struct text text,
                      size_t from, struct pattern_match *match)
{
    if (step->pattern)
        return pattern_find(step->pattern, stack, text, from, match);
    if (!step->from.size || text.size < step->from.size)
        return false;
    for (const char *at = text.at + from, *end = text.at + text.size - step->from.size + 1;
         at < end && (at = memchr(at, step->from.at[0], (size_t)(end - at))); at++)
        if (!memcmp(at, step->from.at, step->from.size)) {
            size_t start = (size_t)(at - text.at);
            *match = (struct pattern_match){ start, start + step->from.size };
            return true;
        }
    return false;
}

static struct stretch replace(struct arena *arena, struct pattern_stack *stack,
                              const struct stretch *in, const struct normal_step *step, bool places)
{
    struct rewrite to = { .arena = arena, .out.arena = arena, .places = places };
    struct pattern_match match;
    size_t from = 0, at = 0;
    while (at <= in->text.size && find_next(step, stack, in->text, at, &match)) {
        put_same(&to, in, from, match.start);
        size_t last = match.end; // the origin of a replacement is the last character of the match
        while (last > match.start && (in->text.at[--last] & 0xC0) == 0x80)
            ;
        uint32_t origin = (uint32_t)(in->start + last);
        if (in->origin)
            origin = in->origin[last < in->text.size ? last : in->text.size - 1];
        put_bytes(&to, step->to.at, step->to.size, origin);
        from = match.end;
        at = match.end > match.start ? match.end : match.end + 1;
    }
    put_same(&to, in, from, in->text.size);
    return finish(&to, in);
}

static struct stretch prepend(struct arena *arena, const struct stretch *in, struct text what,
                              bool places)
{
    if (!in->text.size)
        return *in;
    struct rewrite to = { .arena = arena, .out.arena = arena, .places = places };
    uint32_t start = in->origin ? in->origin[0] : (uint32_t)in->start;
    put_bytes(&to, what.at, what.size, start);
    put_same(&to, in, 0, in->text.size);
    return finish(&to, in);
}

static struct stretch write_points(struct arena *arena, struct unicode_points points,
                                   const struct stretch *in, bool places)
{
    struct rewrite to = { .arena = arena, .out.arena = arena, .places = places };
    for (size_t i = 0; i < points.count; i++) {
        char bytes[UNICODE_BYTES];
        int size = unicode_put(bytes, points.at[i].code);
        put_bytes(&to, bytes, (size_t)size, points.at[i].origin);
    }
    return finish(&to, in);
}

static struct stretch map_characters(struct arena *arena, const struct stretch *in,
                                     const struct normal_step *step, bool places)
{
    struct rewrite to = { .arena = arena, .out.arena = arena, .places = places };
    for (const char *at = in->text.at, *end = at + in->text.size; at < end;) {
        struct text whole;
        const char *stop = at + tokenizer_charsmap_cluster(step, at, end, &whole);
        while (at < stop) {
            const char *start = at;
            size_t offset = (size_t)(at - in->text.at);
            if (whole.at)
                at = stop;
            else
                unicode_next(&at, end);
            struct text part = { start, (size_t)(at - start) };
            struct text becomes = whole.at ? whole : tokenizer_charsmap_character(step, part);
            put_bytes(&to, becomes.at, becomes.size,
                      in->origin ? in->origin[offset] : (uint32_t)(in->start + offset));
        }
    }
    return finish(&to, in);
}

static struct stretch apply(const struct normal_step *step, struct tokenizer_cache *cache,
                            struct stretch in, bool places)
{
    struct arena *arena = &cache->scratch;
    if (step->kind == NORMAL_FORM && step->form == UNICODE_NFC &&
        unicode_is_nfc(in.text.at, in.text.size))
        return in;
    if (step->kind == NORMAL_REPLACE)
        return replace(arena, &cache->stack, &in, step, places);
    if (step->kind == NORMAL_PREPEND)
        return prepend(arena, &in, step->to, places);
    if (step->kind == NORMAL_CHARSMAP)
        return map_characters(arena, &in, step, places);
    struct unicode_points points = read_points(arena, &in);
    switch (step->kind) {
    case NORMAL_FORM: points = unicode_normalize(arena, step->form, points); break;
    case NORMAL_LOWER: lower(arena, &points); break;
    case NORMAL_STRIP: strip(&points, step->left, step->right); break;
    case NORMAL_ACCENTS: keep(&points, is_mark); break;
    case NORMAL_BERT: normalize_bert(arena, &points, step); break;
    case NORMAL_NMT: normalize_nmt(&points); break;
    case NORMAL_CHARSMAP:
    case NORMAL_REPLACE:
    case NORMAL_PREPEND: break;
    }
    return write_points(arena, points, &in, places);
}

// --- SentencePiece's space marks --------------------------------------

static const struct text space_mark = { TOKENIZER_MARK, sizeof TOKENIZER_MARK - 1 };

void tokenizer_choose_normal(struct tokenizer *t)
{
    const struct normal_step *steps = t->normal_steps;
    int last = t->normal_count - 1;
    if (last < 0 || last > 1 || steps[last].kind != NORMAL_REPLACE || steps[last].pattern)
        return;
    bool replaces = text_is(steps[last].from, " ") && text_equal(steps[last].to, space_mark);
    bool prepends =
        last == 1 && steps[0].kind == NORMAL_PREPEND && text_equal(steps[0].to, space_mark);
    t->marks_spaces = replaces && (last == 0 || prepends);
}

// Both steps (prepend, replace spaces) in one pass, for when places are not needed.
static struct stretch mark_spaces(const struct tokenizer *t, struct tokenizer_cache *cache,
                                  struct stretch in)
{
    char *start = tokenizer_room(cache, &cache->normal, 3 * in.text.size + 8), *to = start;
    if (t->normal_count > 1 && in.text.size) {
        memcpy(to, space_mark.at, 3);
        to += 3;
    }
    const char *at = in.text.at, *end = at + in.text.size;
    while (end - at >= 8) {
        const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones * 0x80;
        uint64_t word, spaces;
        memcpy(&word, at, 8);
        memcpy(to, at, 8); // bytes after a space are written again
        spaces = word ^ ones * ' ';
        spaces = ~(((spaces & ~tops) + ~tops) | spaces) & tops; // top bits of bytes that are zero
        if (!spaces) {
            at += 8;
            to += 8;
            continue;
        }
        int plain = __builtin_ctzll(spaces) >> 3;
        memcpy(to + plain, space_mark.at, 3);
        at += plain + 1;
        to += plain + 3;
    }
    for (; at < end; at++) {
        bool space = *at == ' ';
        memcpy(to, space ? space_mark.at : at, space ? 3 : 1);
        to += space ? 3 : 1;
    }
    return (struct stretch){ { start, (size_t)(to - start) }, NULL, in.start };
}

// The only other step beside the marks for spaces is one before the text.
static struct stretch prepend_space(struct tokenizer_cache *cache, struct stretch in)
{
    char *start = tokenizer_room(cache, &cache->normal, in.text.size + 1);
    *start = ' ';
    memcpy(start + 1, in.text.at, in.text.size);
    return (struct stretch){ { start, in.text.size + 1 }, NULL, in.start };
}

struct stretch tokenizer_normalize(const struct tokenizer *t, struct tokenizer_cache *cache,
                                   struct stretch in, bool places)
{
    bool prepends = t->normal_count > 1 && in.text.size;
    if (t->reads_spaces && !(prepends && places))
        return prepends ? prepend_space(cache, in) : in;
    if (t->marks_spaces && !places)
        return mark_spaces(t, cache, in);
    for (int i = 0; i < t->normal_count; i++)
        in = apply(&t->normal_steps[i], cache, in, places);
    return in;
}
