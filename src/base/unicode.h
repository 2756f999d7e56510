// unicode: character classes, normal forms and case, from tables made by tools/unicode.mjs.
//
// Classes and case mappings are those of Unicode 16.0, normal forms those of 12.0: the versions
// that Hugging Face tokenizers 0.23.2 carries, against which tokens are held. Bytes that are no
// UTF-8 are read one by one as UNICODE_BAD + byte, which belongs to no class.
//
//     for (const char *at = text.at, *end = at + text.size; at < end;)
//         if (unicode_is(unicode_next(&at, end), UNICODE_LETTER)) letters++;

#pragma once

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unicode_category {
    UNICODE_CN,
    UNICODE_LU,
    UNICODE_LL,
    UNICODE_LT,
    UNICODE_LM,
    UNICODE_LO,
    UNICODE_MN,
    UNICODE_MC,
    UNICODE_ME,
    UNICODE_ND,
    UNICODE_NL,
    UNICODE_NO,
    UNICODE_PC,
    UNICODE_PD,
    UNICODE_PS,
    UNICODE_PE,
    UNICODE_PI,
    UNICODE_PF,
    UNICODE_PO,
    UNICODE_SM,
    UNICODE_SC,
    UNICODE_SK,
    UNICODE_SO,
    UNICODE_ZS,
    UNICODE_ZL,
    UNICODE_ZP,
    UNICODE_CC,
    UNICODE_CF,
    UNICODE_CO,
    UNICODE_CS,
};

// A class holds the category in its low five bits and these.
enum { UNICODE_CATEGORY = 31, UNICODE_SPACE = 32, UNICODE_WORD = 64, UNICODE_OLD = 128 };

// Sets of categories, for unicode_is().
#define UNICODE_SET(category) (1u << UNICODE_##category)
#define UNICODE_LETTER \
    (UNICODE_SET(LU) | UNICODE_SET(LL) | UNICODE_SET(LT) | UNICODE_SET(LM) | UNICODE_SET(LO))
#define UNICODE_MARK (UNICODE_SET(MN) | UNICODE_SET(MC) | UNICODE_SET(ME))
#define UNICODE_NUMBER (UNICODE_SET(ND) | UNICODE_SET(NL) | UNICODE_SET(NO))
#define UNICODE_PUNCTUATION                                                                    \
    (UNICODE_SET(PC) | UNICODE_SET(PD) | UNICODE_SET(PS) | UNICODE_SET(PE) | UNICODE_SET(PI) | \
     UNICODE_SET(PF) | UNICODE_SET(PO))
#define UNICODE_SYMBOL (UNICODE_SET(SM) | UNICODE_SET(SC) | UNICODE_SET(SK) | UNICODE_SET(SO))
#define UNICODE_SEPARATOR (UNICODE_SET(ZS) | UNICODE_SET(ZL) | UNICODE_SET(ZP))
#define UNICODE_OTHER \
    (UNICODE_SET(CN) | UNICODE_SET(CC) | UNICODE_SET(CF) | UNICODE_SET(CO) | UNICODE_SET(CS))

enum { UNICODE_BAD = 0x110000 };

extern const uint8_t unicode_class_index[], unicode_class_blocks[];

static inline unsigned unicode_class(uint32_t code)
{
    return code < UNICODE_BAD
               ? unicode_class_blocks[unicode_class_index[code >> 8] << 8 | (code & 255)]
               : UNICODE_CN;
}

static inline bool unicode_is(uint32_t code, uint32_t categories)
{
    return categories >> (unicode_class(code) & UNICODE_CATEGORY) & 1;
}

// Reads the character at *at, which is before end, and moves behind it.
uint32_t unicode_next(const char **at, const char *end);
uint32_t unicode_before(const char *start,
                        const char *at); // the one that ends at `at`, above start

enum { UNICODE_BYTES = 4 };                      // the most that a character takes
int unicode_put(char *out, uint32_t code);       // returns the bytes written
bool unicode_valid(const char *at, size_t size); // is UTF-8

uint32_t unicode_lower(uint32_t code);
uint32_t unicode_fold(uint32_t code); // characters equal but for case have one fold
int unicode_combining(uint32_t code); // canonical combining class

// --- normal forms ------------------------------------------------------------

enum unicode_form { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD };

// A character and where in the text it came from: what composes keeps its first part's place.
struct unicode_point {
    uint32_t code, origin;
};

struct unicode_points {
    struct unicode_point *at;
    size_t count;
};

struct unicode_points unicode_normalize(struct arena *arena, enum unicode_form form,
                                        struct unicode_points in);

// True if the bytes surely are in NFC already; false means that they may not be.
bool unicode_is_nfc(const char *at, size_t size);
