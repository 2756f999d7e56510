// SPDX-License-Identifier: Apache-2.0
// evidence_internal: what the files of evidence share.

#pragma once

#include "core/measured/evidence.h"

enum { EVIDENCE_TERMS = EVIDENCE_FACTORS + 3 };

// A level that a place has, and its share in it: 1, but for numbers.
struct evidence_term {
    int factor;
    const char *level, *with;
    double number; // of a level that is one
    double share;
};

// All levels of a place, in the order of factors.
size_t evidence_terms(struct evidence_term out[EVIDENCE_TERMS], const struct place *place);
struct evidence_level *evidence_find(const struct evidence *e, const char *kind,
                                     const struct evidence_term *term); // NULL: not measured
bool evidence_is(const struct evidence_level *level, const char *kind,
                 const struct evidence_term *term);
bool evidence_same(const struct evidence_level *a, const struct evidence_level *b);
