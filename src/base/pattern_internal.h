// SPDX-License-Identifier: Apache-2.0
// pattern_internal: the program of a pattern.
//
// pattern_read.c parses a pattern into a tree and compiles the tree into a program of small
// operations; pattern.c runs it. A quantifier over one set of characters is one operation.

#pragma once

#include "base/pattern.h"
#include "base/unicode.h"

enum { PATTERN_DEPTH = 64 }; // of groups, and of nested lookarounds

// --- sets of characters ------------------------------------------------------

struct item {
    uint32_t low, high;      // a range,
    uint32_t categories;     // or Unicode categories,
    unsigned traits;         //    and characters with these traits,
    unsigned flags;          // or characters with one of these class bits,
    int script;              // or a script, if not 0,
    const struct set *inner; // or a set in brackets
    bool negated;
};

struct set {
    uint32_t categories; // characters of these categories,
    unsigned flags;      // or with one of these class bits,
    struct item *items;  // or of one of these items;
    size_t count, room;
    const struct set *also; // and of this set, if there is one
    bool negated, folds;
    uint64_t ascii[2];
};

// A property \p{..}: categories, and characters with traits; or class bits.
struct property {
    const char *name, *long_name;
    uint32_t categories;
    unsigned traits, flags;
};

const struct property *pattern_property(struct text name); // NULL if there is none of the name
const char *pattern_class(struct text name);               // the rest of a set after its bracket

bool pattern_set_computes(const struct set *set, uint32_t code);

static inline bool pattern_set_has(const struct set *set, uint32_t code)
{
    return code < 128 ? set->ascii[code >> 6] >> (code & 63) & 1 : pattern_set_computes(set, code);
}

// --- program -----------------------------------------------------------------

enum mode { GREEDY, LAZY, POSSESSIVE };
enum place { AT_START, AT_END, AT_LAST_LINE, AT_LINE_START, AT_LINE_END, AT_EDGE, AT_NO_EDGE };
enum op_kind { OP_SET, OP_CLUSTER, OP_RUN, OP_SPLIT, OP_JUMP, OP_LOOK, OP_ATOMIC, OP_AT, OP_END };

struct op {
    enum op_kind kind;
    enum mode mode;
    enum place place;
    bool behind, negated; // of a lookaround
    const struct set *set;
    uint32_t least, most;
    int x, y; // ops to continue at; OP_SPLIT tries x first
};

struct pattern {
    struct op *ops;
    int count;
    bool starts[256]; // bytes that a match may start with
};
