// The sentence of the last failure on each thread, and the table of exit codes.

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char text[1024];

const struct error_code error_codes[] = {
    { OK, "success", "the command did what it was asked" },
    { ERR_ANSWER, "no",
      "the answer is no: nothing fits, meets the deadline or stays within the budget, or a pilot "
      "measured nothing steady, or training was stopped before its end" },
    { ERR_USAGE, "usage", "the command line is wrong" },
    { ERR_INPUT, "input or output",
      "a file cannot be read or written, its content is wrong, or standard output is full" },
    { ERR_UNAVAILABLE, "unavailable", "this build or this machine cannot do it" },
    { ERR_DEVICE_MEMORY, "out of memory", "the GPU or the machine has too little memory" },
    { ERR_BUG, "bug", "a fault of gpuhours itself: please report it" },
    { 0 },
};

// What a sentence quotes may come from a hostile file: no escape sequence reaches a terminal.
static void disarm(char *at)
{
    for (; *at; at++)
        if (((unsigned char)*at < 0x20 && *at != '\n') || *at == 0x7F)
            *at = '?';
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
    return code;
}
