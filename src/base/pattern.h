// SPDX-License-Identifier: Apache-2.0
// pattern: a small regular-expression engine for pre-tokenizers that have no scanner.
//
// Supports what tokenizer files use, with the semantics of Oniguruma, the engine of Hugging Face's
// library: classes, \p{..}, greedy, lazy and possessive quantifiers, groups, (?i:), lookahead,
// lookbehind of one character, anchors. Anything else is an error that names it. The engine
// backtracks, but a text gets a number of steps in proportion to its size: once they are used up,
// nothing more matches in it.
//
//     struct pattern *pattern;
//     TRY(pattern_read(&pattern, arena, TEXT("\\p{L}+|\\s+(?!\\S)"), "tokenizer.json"));
//     struct pattern_stack stack = { .arena = arena };
//     while (pattern_find(pattern, &stack, text, at, &match)) …
//
// A pattern is immutable; each thread has its own stack.

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

// The leftmost match that starts at byte `from` or later. Begin each text at 0.
bool pattern_find(const struct pattern *pattern, struct pattern_stack *stack, struct text text,
                  size_t from, struct pattern_match *match);

// The end of the match that starts exactly at byte `from`, or SIZE_MAX.
size_t pattern_match(const struct pattern *pattern, struct pattern_stack *stack, struct text text,
                     size_t from);
