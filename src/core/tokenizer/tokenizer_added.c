// SPDX-License-Identifier: Apache-2.0
// Finds added tokens in text: the leftmost, and of those the longest, with the white space that
// some of them strip.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

static enum err add(struct added_set *set, struct arena *arena, int32_t index)
{
    struct text text = set->tokens[index].text;
    uint32_t *link = &set->roots[(unsigned char)text.at[0]];
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = (uint8_t)text.at[i];
        while (*link && set->nodes[*link].byte != byte)
            link = &set->nodes[*link].sibling;
        if (!*link) {
            if (set->node_count == set->room) { // link may point into the array that moves
                size_t room = set->room ? set->room * 2 : 1024;
                ptrdiff_t offset = (char *)link - (char *)set->nodes;
                bool inside =
                    set->nodes && offset >= 0 && (size_t)offset < set->room * sizeof *set->nodes;
                set->nodes = arena_grow(arena, set->nodes, set->room * sizeof *set->nodes,
                                        room * sizeof *set->nodes);
                set->room = room;
                if (inside)
                    link = (uint32_t *)((char *)set->nodes + offset);
            }
            *link = (uint32_t)set->node_count;
            set->nodes[set->node_count++] = (struct added_node){ .byte = byte, .token = -1 };
        }
        if (i + 1 == text.size) {
            if (set->nodes[*link].token < 0)
                set->nodes[*link].token = index;
        } else {
            link = &set->nodes[*link].child;
        }
    }
    return OK;
}

enum err tokenizer_added_build(struct added_set *set, struct arena *arena)
{
    set->room = 1024;
    set->nodes = ARENA_NEW(arena, struct added_node, set->room);
    set->node_count = 1; // node 0 means none
    for (size_t i = 0; i < set->count; i++)
        if (set->tokens[i].text.size)
            TRY(add(set, arena, (int32_t)i));
    for (int byte = 0; byte < 256; byte++)
        if (set->roots[byte]) {
            set->first_bytes++;
            set->only = (uint8_t)byte;
        }
    return OK;
}

// The longest token that starts at `at`, or NULL.
static const struct added_token *longest_at(const struct added_set *set, const char *at,
                                            const char *end)
{
    const struct added_token *found = NULL;
    uint32_t node = set->roots[(unsigned char)*at];
    while (node) {
        if (set->nodes[node].token >= 0)
            found = &set->tokens[set->nodes[node].token];
        if (++at == end)
            break;
        for (node = set->nodes[node].child; node && set->nodes[node].byte != (uint8_t)*at;)
            node = set->nodes[node].sibling;
    }
    return found;
}

static bool is_word(uint32_t code)
{
    return (unicode_class(code) & UNICODE_WORD) || code == 0x200C || code == 0x200D;
}

static bool stands_alone(struct text text, size_t start, size_t stop)
{
    const char *after = text.at + stop;
    if (start && is_word(unicode_before(text.at, text.at + start)))
        return false;
    return stop == text.size || !is_word(unicode_next(&after, text.at + text.size));
}

static size_t strip_left(struct text text, size_t start, size_t from)
{
    while (start > from) {
        uint32_t code = unicode_before(text.at, text.at + start);
        if (!(unicode_class(code) & UNICODE_SPACE))
            break;
        char bytes[UNICODE_BYTES];
        start -= (size_t)unicode_put(bytes, code);
    }
    return start;
}

static size_t strip_right(struct text text, size_t stop)
{
    while (stop < text.size) {
        const char *at = text.at + stop;
        if (!(unicode_class(unicode_next(&at, text.at + text.size)) & UNICODE_SPACE))
            break;
        stop = (size_t)(at - text.at);
    }
    return stop;
}

static const char *next_candidate(const struct added_set *set, const char *at, const char *end)
{
    if (set->first_bytes == 1)
        return memchr(at, set->only, (size_t)(end - at));
    for (uint32_t any = 0; end - at >= 8; at += 8) { // most bytes begin none
        for (int i = 0; i < 8; i++)
            any |= set->roots[(unsigned char)at[i]];
        if (!any)
            continue;
        uint32_t first = 0; // without a branch that depends on where it is
        for (int i = 0; i < 8; i++)
            first |= (uint32_t)(set->roots[(unsigned char)at[i]] != 0) << i;
        return at + __builtin_ctz(first);
    }
    while (at < end && !set->roots[(unsigned char)*at])
        at++;
    return at < end ? at : NULL;
}

bool tokenizer_added_next(const struct added_set *set, struct text text, size_t *at, size_t from,
                          struct match *match)
{
    if (!set->first_bytes)
        return false;
    const char *end = text.at + text.size, *candidate = text.at + *at;
    for (; candidate < end && (candidate = next_candidate(set, candidate, end)); candidate++) {
        const struct added_token *token = longest_at(set, candidate, end);
        if (!token)
            continue;
        size_t start = (size_t)(candidate - text.at), stop = start + token->text.size;
        *at = stop;
        if (token->single_word && !stands_alone(text, start, stop)) {
            candidate = text.at + stop - 1;
            continue;
        }
        if (token->strips_left)
            start = strip_left(text, start, from);
        if (token->strips_right)
            stop = strip_right(text, stop);
        *match = (struct match){ start, stop, token->id };
        return true;
    }
    return false;
}
