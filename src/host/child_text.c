// SPDX-License-Identifier: Apache-2.0
// What the command printed last and how it ended, as text for people.

#include "host/child_internal.h"

#include <string.h>

// The tail as plain lines: a carriage return ends one too, control codes are left out.
static struct text plain_tail(const struct child_internal *in, struct arena *arena)
{
    struct out out = { .arena = arena };
    bool escape = false;
    for (size_t i = 0; i < in->tail_size; i++) {
        char c = in->tail[(in->tail_at + CHILD_TAIL - in->tail_size + i) % CHILD_TAIL];
        if (c == '\033')
            escape = true;
        else if (escape)
            escape = !((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '\n');
        else if (c == '\n' || c == '\r')
            out_char(&out, '\n');
        else if ((unsigned char)c >= ' ')
            out_char(&out, c);
    }
    return out_view(&out);
}

const char *child_last_lines(const struct child *child, struct arena *arena, int count)
{
    struct text rest = plain_tail(child->inside, arena), line;
    enum { MOST = 64 };
    struct text lines[MOST];
    size_t seen = 0, limit = count < MOST ? (size_t)count : MOST;
    while (text_next(&rest, '\n', &line)) {
        line = text_trim(line);
        if (line.size)
            lines[seen++ % limit] = line;
    }
    struct out out = { .arena = arena };
    for (size_t i = seen > limit ? seen - limit : 0; i < seen; i++)
        out_put(&out, "%s%.*s", out.size ? "\n" : "", TEXT_ARGS(lines[i % limit]));
    return out_string(&out);
}

const char *child_ending(const struct child *child, struct arena *arena)
{
    if (child->immortal)
        return text_format(arena, "could not be stopped: process %d is still there",
                           child->immortal);
    if (child->signal)
        return text_format(arena, "was ended by signal %d (%s)", child->signal,
                           strsignal(child->signal));
    return text_format(arena, "ended with code %d", child->code);
}
