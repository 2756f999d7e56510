// SPDX-License-Identifier: Apache-2.0
// name: finds an entry by a loosely spelled name.
//
//     struct name_list list = { .arena = arena, .noise = words };
//     name_add(&list, "h100-sxm", "h100|h100-80gb", 0);
//     int row = name_find(&list, text_of("NVIDIA H100 80GB HBM3"));
//
// Names are compared as lists of words. Case is ignored; dashes, blanks and brackets separate
// words; "80 GB" is one word; a point inside a number belongs to it. There are three passes, and
// the entry added first wins:
//
//     1. the concatenated words are equal;
//     2. they are equal without noise words (vendors, "instruct");
//     3. if the list allows extras, the query contains all words of the entry (the longest entry
//        wins), unless it has a strict word ("laptop", "ti") that the entry lacks.

#pragma once

#include "base/text.h"

struct name_entry {
    const char *text;
    int row;
};

struct name_list {
    struct arena *arena;
    const char *const *noise;  // words to ignore, ended by NULL
    const char *const *strict; // words that must match, ended by NULL
    bool extras;               // a query may have more words than an entry
    struct name_entry *entries;
    size_t count, room;
};

void name_add(struct name_list *list, const char *name, const char *aliases, int row); // a|b|c
int name_find(const struct name_list *list, struct text query);                        // -1: none
int name_find_exact(const struct name_list *list, struct text query); // the first pass only

// The error for an unknown name. Suggests names with this prefix or all of its words,
// which may be written together, else the nearest one, else the command that lists them. kind is
// "GPU", table is "gpus".
enum err name_unknown(const struct name_list *list, struct text query, const char *kind,
                      const char *table);
