// SPDX-License-Identifier: Apache-2.0
// terminal: text for people, made ready for the terminal that shows it.
//
// Tables, charts and paragraphs are laid out by those who write them. What is left to do stands
// here, and is done once for all output (cli/terminal/print.c): lines that are still too long are
// broken, and where the locale has no UTF-8 every other character is spelled in ASCII.
//
//     terminal_fold(&folded, text, columns);
//     terminal_ascii(&ascii, out_view(&folded));
//
// terminal_ascii() keeps the layout: a character becomes as many ASCII characters as it took
// columns, so that no table or chart moves and no line grows. A sign that needs two letters takes
// the blank after it for the second ("± 3 %" is "+-3 %", "≤ 8" is "<=8"); without one it has a
// spelling of one letter. Characters without a spelling are "?".

#pragma once

#include "base/text.h"

// Breaks lines of more than so many columns at blanks; they go on below their text: after the label
// where the line has one ("  memory      fits, …"), else two columns right of their indentation.
// A word that does not fit there starts further left; one that is longer than a line is left whole.
void terminal_fold(struct out *out, struct text text, int columns);

void terminal_ascii(struct out *out, struct text text);

// Names in a text may come from hostile files. Controls other than line ends and tabs, characters
// that turn the direction of text and bytes that are no UTF-8 become "?"; colours stay if `styled`.
void terminal_disarm(struct out *out, struct text text, bool styled);
