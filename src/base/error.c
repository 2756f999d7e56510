#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char text[1024];

// What a sentence quotes may come from a hostile file: no escape sequence reaches a terminal.
static void disarm(char *at)
{
    for (; *at; at++)
        if (((unsigned char)*at < 0x20 && *at != '\n') || *at == 0x7F)
            *at = '?';
}

enum err fail(enum err code, const char *format, ...)
{
    char said[sizeof text]; // an argument may be error_text() itself
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    disarm(said);
    memcpy(text, said, sizeof text);
    return code;
}

const char *error_text(void)
{
    return text;
}

enum err error_prefix(enum err code, const char *format, ...)
{
    char said[sizeof text];
    memcpy(said, text, sizeof said);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof text)
        snprintf(text + used, sizeof text - (size_t)used, "%s", said);
    return code;
}
