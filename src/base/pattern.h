// pattern: a small regular-expression engine for the pre-tokenizers of odd models.
//
// Knows what tokenizer files use, with the meaning it has in Oniguruma, the engine behind Hugging
// Face's library: classes, \p{..}, greedy, lazy and possessive quantifiers, groups, (?i:),
// lookahead, lookbehind of one character, anchors. Anything else is refused by name. It backtracks,
// but a text gets a number of steps in proportion to its size: once they are used up, nothing more
// matches in it.
//
//     struct pattern *pattern;
//     TRY(pattern_read(&pattern, arena, TEXT("\\p{L}+|\\s+(?!\\S)"), "tokenizer.json"));
//     struct pattern_stack stack = { .arena = arena };
//     while (pattern_find(pattern, &stack, text, at, &match)) …
//
// A pattern never changes once it is read; each thread has a stack of its own.

#pragma once

#include "base/text.h"

struct pattern;
struct pattern_frame;

struct pattern_stack {
    struct arena *arena;
    struct pattern_frame *frames;
    size_t count, room;
    int64_t steps; // left for the text that pattern_find() is in
};

struct pattern_match {
    size_t start, end;
};

enum err pattern_read(struct pattern **out, struct arena *arena, struct text source,
                      const char *name);

// The leftmost match that starts at byte `from` or after it. Begin each text at 0.
bool pattern_find(const struct pattern *pattern, struct pattern_stack *stack, struct text text,
                  size_t from, struct pattern_match *match);

// The end of the match that starts just at byte `from`, or SIZE_MAX.
size_t pattern_match(const struct pattern *pattern, struct pattern_stack *stack, struct text text,
                     size_t from);
