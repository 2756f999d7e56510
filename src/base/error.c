// SPDX-License-Identifier: Apache-2.0
// The sentence of the last failure on each thread, and the table of exit codes.

#include "base/error.h"

#include "base/markup.h"
#include "base/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char text[1024];

const struct error_code error_codes[] = {
    { OK, "success", "the command did what it was asked" },
    { ERR_ANSWER, "no",
      "the answer is no: nothing fits, meets the deadline or stays within the budget; or a pilot "
      "found no steady rate; or training was stopped before its end" },
    { ERR_USAGE, "usage", "the command line is wrong" },
    { ERR_INPUT, "input or output",
      "a file cannot be read or written, its content is wrong, or standard output is full" },
    { ERR_UNAVAILABLE, "unavailable", "this build or this machine cannot do it" },
    { ERR_MEMORY, "out of memory", "the GPU or the machine has too little memory" },
    { ERR_BUG, "bug", "a fault of gpuhours itself: please report it" },
    { 0 },
};

// What a sentence quotes may come from a hostile file: no escape sequence reaches a terminal.
// Also none of 8 bits, no character that turns the direction of text, and no broken UTF-8.
static void disarm(char *sentence)
{
    const char *from = sentence, *end = sentence + strlen(sentence);
    char *to = sentence;
    while (from < end) {
        const char *start = from;
        uint32_t code = unicode_next(&from, end);
        size_t size = (size_t)(from - start);
        if (markup_is_hidden(code) || !unicode_valid(start, size)) {
            *to++ = code == '\n' ? ' ' : '?'; // a sentence is one line
        } else {
            memmove(to, start, size);
            to += size;
        }
    }
    *to = 0;
}

enum err fail(enum err code, const char *format, ...)
{
    char sentence[sizeof text]; // an argument may be error_text() itself
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    disarm(sentence);
    memcpy(text, sentence, sizeof text);
    return code;
}

const char *error_text(void)
{
    return text;
}

enum err error_prefix(enum err code, const char *format, ...)
{
    char former[sizeof text];
    memcpy(former, text, sizeof former);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof text)
        snprintf(text + used, sizeof text - (size_t)used, "%s", former);
    disarm(text);
    return code;
}
