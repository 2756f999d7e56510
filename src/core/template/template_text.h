// SPDX-License-Identifier: Apache-2.0
// template_text: strings as Python sees them, over UTF-8 bytes.
//
// Positions and lengths count code points. A byte that is not valid UTF-8 counts as one
// code point, so nothing here can read past the end of hostile text.

#pragma once

#include "base/text.h"

size_t template_text_step(struct text text, size_t at,
                          uint32_t *code);                   // bytes of the code point at at
size_t template_text_count(struct text text);                // code points
size_t template_text_offset(struct text text, size_t index); // in bytes
bool template_text_is_space(uint32_t code);                  // str.isspace()
bool template_text_is_printable(uint32_t code);              // str.isprintable()

// Strips white space; if what has an .at, the code points in what.
struct text template_text_strip(struct text text, struct text what, bool left, bool right);

// The byte offset of the first what in text at or after from, or of the last; SIZE_MAX if there is
// none. Takes linear time for any input.
size_t template_text_find(struct text text, struct text what, size_t from);
size_t template_text_find_last(struct text text, struct text what);

// Maps letters to upper or lower case and returns the size, at most twice the text's. SIZE_MAX if
// a letter would become several or depends on its neighbours, or for upper case beyond ASCII.
size_t template_text_case(char *out, struct text text, bool upper);
