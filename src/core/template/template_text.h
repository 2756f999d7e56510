// template_text: strings as Python sees them, over UTF-8 bytes.
//
// Positions and lengths count code points. A byte that is no valid UTF-8 counts as one code point
// of its own, so that nothing here can run off the end of hostile text.

#pragma once

#include "base/text.h"

size_t template_text_step(struct text text, size_t at, uint32_t *code); // bytes of the one at at
size_t template_text_count(struct text text);                           // code points
size_t template_text_offset(struct text text, size_t index);            // in bytes
bool template_text_is_space(uint32_t code);                             // str.isspace()
bool template_text_is_printable(uint32_t code);                         // str.isprintable()

// Strips white space, or the code points of what where it has an .at.
struct text template_text_strip(struct text text, struct text what, bool left, bool right);

// The first place of what in text at or behind from, or the last one, in bytes; SIZE_MAX if there
// is none. The time is linear in the size of the text whatever is looked for.
size_t template_text_find(struct text text, struct text what, size_t from);
size_t template_text_find_last(struct text text, struct text what);

// Maps letters to upper or lower case and returns the size, at most twice the text's. SIZE_MAX
// where one letter would become several or depend on its neighbours, or where upper case would
// need more than ASCII.
size_t template_text_case(char *out, struct text text, bool upper);
