// name: finds what people mean by a loosely spelled name.
//
//     struct name_list list = { .arena = arena, .noise = words };
//     name_add(&list, "h100-sxm", "h100|h100-80gb", 0);
//     int row = name_find(&list, text_of("NVIDIA H100 80GB HBM3"));
//
// Names are compared as words: case, dashes, blanks and brackets only separate, "80 GB" is one
// word, a point inside a number stays. Three passes, the first hit in the order of adding wins:
// the words run together are equal; so are they without noise (vendors, "instruct"); and, where
// the list allows extras, all words of an entry stand somewhere in the query (the longest entry
// wins), unless the query has a strict word ("laptop", "ti") that the entry lacks.

#pragma once

#include "base/text.h"

struct name_entry {
    const char *text;
    int row;
};

struct name_list {
    struct arena *arena;
    const char *const *noise;  // words that do not tell rows apart, ended by NULL
    const char *const *strict; // words that do, ended by NULL
    bool extras;               // a query may say more than an entry
    struct name_entry *entries;
    size_t count, room;
};

void name_add(struct name_list *list, const char *name, const char *aliases, int row); // a|b|c
int name_find(const struct name_list *list, struct text query);                        // -1: none
int name_find_exact(const struct name_list *list, struct text query); // the first pass only

// The failure for a name that was not found: names that begin so, else the nearest, else where the
// names are listed. kind is "GPU", table is "gpus".
enum err name_unknown(const struct name_list *list, struct text query, const char *kind,
                      const char *table);
