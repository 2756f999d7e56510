// SPDX-License-Identifier: Apache-2.0
// markup: escapes untrusted text for HTML, Markdown, CSV and terminals.
//
// Names of files and models, and warnings, may contain anything. Each output format shows them as
// text: its special characters are escaped, control characters and invisible ones that change the
// direction of text are shown by number (U+202E as ⟨202E⟩), bytes that are not UTF-8 become U+FFFD,
// and text that is too long ends in an ellipsis.
//
//     markup_put(out, MARKUP_HTML, name, MARKUP_NAME);
//
// Nothing here creates links.

#pragma once

#include "base/text.h"

enum markup_form {
    MARKUP_HTML,     // also XML, in text and in quoted attributes
    MARKUP_MARKDOWN, // one cell of a table, or a line
    MARKUP_CSV,      // one cell, quoted if needed; never read as a formula by a spreadsheet
    MARKUP_PLAIN,    // a terminal
};

enum { MARKUP_NAME = 80, MARKUP_SENTENCE = 600 }; // most characters of a name, of a sentence

bool markup_is_hidden(uint32_t code); // a control, or invisible but changes how the rest is seen

void markup_put(struct out *out, enum markup_form form, struct text text, size_t most);

// The same as a string in the arena.
const char *markup_plain(struct arena *arena, struct text text, size_t most);
