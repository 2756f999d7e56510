// SPDX-License-Identifier: Apache-2.0
// The names of properties and classes in patterns, and what they stand for.

#include "base/pattern_internal.h"

#include <string.h>

static const struct property properties[] = {
    { "L", "Letter", .categories = UNICODE_LETTER },
    { "M", "Mark", .categories = UNICODE_MARK },
    { "N", "Number", .categories = UNICODE_NUMBER },
    { "P", "Punctuation", .categories = UNICODE_PUNCTUATION },
    { "S", "Symbol", .categories = UNICODE_SYMBOL },
    { "Z", "Separator", .categories = UNICODE_SEPARATOR },
    { "C", "Other", .categories = UNICODE_OTHER },
    { "LC", "Cased_Letter", .categories = UNICODE_SET(LU) | UNICODE_SET(LL) | UNICODE_SET(LT) },
    { "Lu", "Uppercase_Letter", .categories = UNICODE_SET(LU) },
    { "Ll", "Lowercase_Letter", .categories = UNICODE_SET(LL) },
    { "Lt", "Titlecase_Letter", .categories = UNICODE_SET(LT) },
    { "Lm", "Modifier_Letter", .categories = UNICODE_SET(LM) },
    { "Lo", "Other_Letter", .categories = UNICODE_SET(LO) },
    { "Mn", "Nonspacing_Mark", .categories = UNICODE_SET(MN) },
    { "Mc", "Spacing_Mark", .categories = UNICODE_SET(MC) },
    { "Me", "Enclosing_Mark", .categories = UNICODE_SET(ME) },
    { "Nd", "Decimal_Number", .categories = UNICODE_SET(ND) },
    { "Nl", "Letter_Number", .categories = UNICODE_SET(NL) },
    { "No", "Other_Number", .categories = UNICODE_SET(NO) },
    { "Pc", "Connector_Punctuation", .categories = UNICODE_SET(PC) },
    { "Pd", "Dash_Punctuation", .categories = UNICODE_SET(PD) },
    { "Ps", "Open_Punctuation", .categories = UNICODE_SET(PS) },
    { "Pe", "Close_Punctuation", .categories = UNICODE_SET(PE) },
    { "Pi", "Initial_Punctuation", .categories = UNICODE_SET(PI) },
    { "Pf", "Final_Punctuation", .categories = UNICODE_SET(PF) },
    { "Po", "Other_Punctuation", .categories = UNICODE_SET(PO) },
    { "Sm", "Math_Symbol", .categories = UNICODE_SET(SM) },
    { "Sc", "Currency_Symbol", .categories = UNICODE_SET(SC) },
    { "Sk", "Modifier_Symbol", .categories = UNICODE_SET(SK) },
    { "So", "Other_Symbol", .categories = UNICODE_SET(SO) },
    { "Zs", "Space_Separator", .categories = UNICODE_SET(ZS) },
    { "Zl", "Line_Separator", .categories = UNICODE_SET(ZL) },
    { "Zp", "Paragraph_Separator", .categories = UNICODE_SET(ZP) },
    { "Cc", "Control", .categories = UNICODE_SET(CC) },
    { "Cf", "Format", .categories = UNICODE_SET(CF) },
    { "Co", "Private_Use", .categories = UNICODE_SET(CO) },
    { "Cn", "Unassigned", .categories = UNICODE_SET(CN) },
    { "Cs", "Surrogate", .categories = UNICODE_SET(CS) },
    { "Alpha", "Alphabetic", UNICODE_LETTER | UNICODE_SET(NL), .traits = UNICODE_ALPHABETIC },
    { "Upper", "Uppercase", .categories = UNICODE_SET(LU), .traits = UNICODE_UPPER },
    { "Lower", "Lowercase", .categories = UNICODE_SET(LL), .traits = UNICODE_LOWER },
    { "Digit", "Digit", .categories = UNICODE_SET(ND) },
    { "Cntrl", "Cntrl", .categories = UNICODE_SET(CC) },
    { "Space", "White_Space", .flags = UNICODE_SPACE },
    { "Word", "Word", .flags = UNICODE_WORD },
};

// Classes that are not properties: the sets that they stand for. Those of POSIX are [:name:].
static const struct class
{
    const char *name, *set;
} classes[] = {
    { "alnum", "\\p{Alpha}\\p{Nd}]" },
    { "ascii", "\\x00-\\x7F]" },
    { "blank", "\\p{Zs}\\t]" },
    { "graph", "^\\s\\p{Cc}\\p{Cn}\\p{Cs}]" },
    { "print", "^\\p{Cc}\\p{Cn}\\p{Cs}\\p{Zl}\\p{Zp}]" },
    { "punct", "\\p{P}\\p{S}]" },
    { "xdigit", "0-9A-Fa-f]" },
    { "any", "\\x00-\\x{10FFFF}]" },
};

// Names are compared without regard to case, spaces, - and _.
static bool is_named(struct text text, const char *name)
{
    const char *at = text.at, *end = at + text.size;
    for (;;) {
        while (at < end && strchr(" -_", *at))
            at++;
        name += *name == '_';
        if (at == end || !*name)
            return at == end && !*name;
        if ((*at++ | 32) != (*name++ | 32))
            return false;
    }
}

const struct property *pattern_property(struct text name)
{
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (is_named(name, properties[i].name) || is_named(name, properties[i].long_name))
            return &properties[i];
    return NULL;
}

const char *pattern_class(struct text name)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (is_named(name, classes[i].name))
            return classes[i].set;
    return NULL;
}
