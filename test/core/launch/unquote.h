// SPDX-License-Identifier: Apache-2.0
// unquote: reads a line of bash as words, by the rules of its manual for the forms that launch
// uses.

#pragma once

#include "base/text.h"

#include <string.h>

static inline int unquote_digit(char c)
{
    return c >= '0' && c <= '7' ? c - '0' : -1;
}

// Decodes $'…' after its opening; returns where it goes on, or NULL.
static inline const char *unquote_escaped(struct out *out, const char *at)
{
    for (; *at != '\''; at++) {
        if (!*at)
            return NULL;
        if (*at != '\\') {
            out_char(out, *at);
            continue;
        }
        at++;
        int code = 0, digits = 0;
        if (*at == 'n' || *at == 't') {
            out_char(out, *at == 'n' ? '\n' : '\t');
            continue;
        }
        while (digits < 3 && unquote_digit(at[digits]) >= 0)
            code = 8 * code + unquote_digit(at[digits++]);
        if (!digits && *at != '\'' && *at != '\\')
            return NULL;
        out_char(out, digits ? (char)code : *at);
        at += digits ? digits - 1 : 0;
    }
    return at + 1;
}

// The next word of a line; NULL at its end, or where the line is not of these forms.
static inline const char *unquote_word(const char **line, struct arena *arena)
{
    struct out out = { .arena = arena };
    const char *at = *line;
    while (*at == ' ')
        at++;
    if (!*at || *at == '\n')
        return NULL;
    while (at && *at && *at != ' ' && *at != '\n') {
        const char *close = *at == '\'' ? strchr(at + 1, '\'') : NULL;
        if (close) {
            out_bytes(&out, at + 1, (size_t)(close - at - 1));
            at = close + 1;
        } else if (at[0] == '$' && at[1] == '\'') {
            at = unquote_escaped(&out, at + 2);
        } else if (strchr("'\"\\$`*?[]{}()<>|&;!#~", *at)) {
            return NULL; // the shell would do something
        } else {
            out_char(&out, *at++);
        }
    }
    *line = at;
    return at ? out_string(&out) : NULL;
}
