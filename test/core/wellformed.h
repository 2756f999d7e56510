// SPDX-License-Identifier: Apache-2.0
// wellformed: a small strict reader of XML, and of HTML that is written like it.
//
// Wants every element closed in order, quoted attributes given once, known entities only, no bare
// & or <, no control characters and valid UTF-8. Text inside <style> and <script> is raw. Counts
// the elements by name for tests that say which there may be.

#pragma once

#include "test/test.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct wellformed {
    const char *at, *end, *problem;
    char stack[64][24];
    int depth;
    size_t elements, links; // attributes that could load or lead somewhere
    char names[4096];       // " svg text script …", each once
};

static inline bool wellformed_fail(struct wellformed *w, const char *problem)
{
    if (!w->problem)
        w->problem = problem;
    return false;
}

static inline bool wellformed_name(struct wellformed *w, char *name, size_t room)
{
    size_t size = 0;
    while (w->at < w->end && (isalnum((unsigned char)*w->at) || strchr("-_:", *w->at)) && *w->at &&
           size < room - 1)
        name[size++] = *w->at++;
    name[size] = 0;
    return size > 0 || wellformed_fail(w, "no name");
}

static inline bool wellformed_entity(struct wellformed *w)
{
    static const char *const known[] = { "&lt;", "&gt;", "&amp;", "&quot;", "&#39;" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((size_t)(w->end - w->at) >= strlen(known[i]) &&
            !memcmp(w->at, known[i], strlen(known[i]))) {
            w->at += strlen(known[i]);
            return true;
        }
    return wellformed_fail(w, "a bare &");
}

static inline bool wellformed_char(struct wellformed *w)
{
    unsigned char c = (unsigned char)*w->at;
    if (c == '&')
        return wellformed_entity(w);
    if ((c < 0x20 && c != '\n') || c == 0x7F)
        return wellformed_fail(w, "a control character");
    size_t size = c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 0;
    if (!size || size > (size_t)(w->end - w->at))
        return wellformed_fail(w, "not UTF-8");
    for (size_t i = 1; i < size; i++)
        if (((unsigned char)w->at[i] & 0xC0) != 0x80)
            return wellformed_fail(w, "not UTF-8");
    // U+202A…202E and U+2066…2069 turn the direction of what follows.
    if (size == 3 && c == 0xE2 &&
        (((unsigned char)w->at[1] == 0x80 && (unsigned char)w->at[2] >= 0xAA &&
          (unsigned char)w->at[2] <= 0xAE) ||
         ((unsigned char)w->at[1] == 0x81 && (unsigned char)w->at[2] >= 0xA6 &&
          (unsigned char)w->at[2] <= 0xA9)))
        return wellformed_fail(w, "a bidirectional control");
    w->at += size;
    return true;
}

static inline bool wellformed_attributes(struct wellformed *w)
{
    char name[40], seen[512] = " ";
    while (w->at < w->end && (*w->at == ' ' || *w->at == '\n')) {
        w->at++;
        if (!wellformed_name(w, name, sizeof name))
            return false;
        char key[48];
        snprintf(key, sizeof key, " %s ", name);
        if (strstr(seen, key))
            return wellformed_fail(w, "an attribute twice");
        snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s ", name);
        if (!strncmp(name, "on", 2) || !strcmp(name, "style"))
            return wellformed_fail(w, "a handler or an inline style");
        if (w->end - w->at < 2 || w->at[0] != '=' || w->at[1] != '"')
            return wellformed_fail(w, "an attribute without quotes");
        w->at += 2;
        if ((!strcmp(name, "href") || !strcmp(name, "src") || !strcmp(name, "action") ||
             !strcmp(name, "xlink:href")) &&
            *w->at != '#')
            w->links++;
        while (w->at < w->end && *w->at != '"') {
            if (*w->at == '<')
                return wellformed_fail(w, "< in an attribute");
            if (!wellformed_char(w))
                return false;
        }
        if (w->at++ >= w->end)
            return wellformed_fail(w, "an attribute without end");
    }
    return true;
}

// Skips the raw text of style and script up to their end tag.
static inline bool wellformed_raw(struct wellformed *w, const char *name)
{
    char closing[32];
    snprintf(closing, sizeof closing, "</%s>", name);
    size_t size = strlen(closing);
    while ((size_t)(w->end - w->at) >= size && memcmp(w->at, closing, size))
        w->at++;
    return (size_t)(w->end - w->at) >= size || wellformed_fail(w, "raw text without end");
}

static inline bool wellformed_tag(struct wellformed *w)
{
    char name[24], spaced[32];
    if (w->at + 1 < w->end && w->at[1] == '/') {
        w->at += 2;
        if (!wellformed_name(w, name, sizeof name))
            return false;
        if (!w->depth || strcmp(w->stack[--w->depth], name))
            return wellformed_fail(w, "an end tag of another element");
        return w->at < w->end && *w->at++ == '>' ? true : wellformed_fail(w, "a broken end tag");
    }
    w->at++;
    if (!wellformed_name(w, name, sizeof name) || !wellformed_attributes(w))
        return false;
    w->elements++;
    snprintf(spaced, sizeof spaced, " %s ", name);
    if (!strstr(w->names, spaced) && strlen(w->names) + strlen(spaced) < sizeof w->names)
        snprintf(w->names + strlen(w->names), sizeof w->names - strlen(w->names), "%s", spaced);
    bool empty = w->at < w->end && *w->at == '/';
    w->at += empty;
    if (w->at >= w->end || *w->at++ != '>')
        return wellformed_fail(w, "a broken tag");
    if (empty)
        return true;
    if (w->depth >= 63)
        return wellformed_fail(w, "too deep");
    snprintf(w->stack[w->depth++], sizeof w->stack[0], "%s", name);
    return strcmp(name, "style") && strcmp(name, "script") ? true : wellformed_raw(w, name);
}

// NULL where all is well, else what is wrong.
static inline const char *wellformed_check(struct wellformed *w, struct text text)
{
    *w = (struct wellformed){ .at = text.at, .end = text.at + text.size, .names = " " };
    static const char doctype[] = "<!doctype html>\n";
    if (text.size > sizeof doctype && !memcmp(text.at, doctype, sizeof doctype - 1))
        w->at += sizeof doctype - 1;
    while (w->at < w->end && !w->problem)
        if (*w->at == '<' ? !wellformed_tag(w) : !wellformed_char(w))
            break;
    if (!w->problem && w->depth)
        w->problem = "an element without end";
    return w->problem;
}
