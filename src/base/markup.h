// markup: text from outside, made harmless for HTML, Markdown, CSV and terminals.
//
// Names of files, models and warnings may hold anything. Each way out spells them so that they are
// seen as text: HTML's own characters are escaped, control characters and the invisible ones that
// turn the direction of text are shown as what they are (U+202E as ⟨202E⟩), bytes that are no UTF-8
// become U+FFFD, and what is too long ends in an ellipsis.
//
//     markup_put(out, MARKUP_HTML, name, MARKUP_NAME);
//
// Nothing here makes a link of anything.

#pragma once

#include "base/text.h"

enum markup_form {
    MARKUP_HTML,     // also XML, in text and in quoted attributes
    MARKUP_MARKDOWN, // one cell of a table, or a line
    MARKUP_CSV,      // one cell, quoted where needed; no spreadsheet takes it for a formula
    MARKUP_PLAIN,    // a terminal
};

enum { MARKUP_NAME = 80, MARKUP_SENTENCE = 600 }; // characters shown of a name, of a sentence

bool markup_is_hidden(uint32_t code); // a control, or invisible but changes how the rest is seen

void markup_put(struct out *out, enum markup_form form, struct text text, size_t most);

// The same as a string of the arena, for a label that is laid out before it is written.
const char *markup_plain(struct arena *arena, struct text text, size_t most);
