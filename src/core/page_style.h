// page_style: the one style sheet of the report and of the page, from data/page.css.
//
// Colours are custom properties with a light and a dark value; charts take theirs from the same
// ones (.c0 … .c7 and so on). No rule names anything outside the document.

#pragma once

#include "base/text.h"

struct text page_style(void);
