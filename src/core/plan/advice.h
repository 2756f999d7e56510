// SPDX-License-Identifier: Apache-2.0
// advice: warnings about a plan, each with how to fix it.
//
// A warning is a row of a table: a code, and a function that looks at the finished plan and returns
// a sentence. Nothing here changes a number.
//
//     struct advice advice = { .arena = arena };
//     advice_give(&advice, &plan);
//     advice.items[0].code, advice.items[0].text

#pragma once

#include "base/text.h"

struct plan;

struct advice_item {
    const char *code; // "no_packing"
    const char *text; // what is wrong, and what to do
};

enum { ADVICE_ITEMS = 96 };

struct advice {
    struct arena *arena;
    struct advice_item items[ADVICE_ITEMS];
    size_t count;
};

void advice_give(struct advice *advice, const struct plan *plan);
