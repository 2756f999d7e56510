// SPDX-License-Identifier: Apache-2.0
// Prints values as Python's str(), repr() and json.dumps() do.

#include "core/template/template_value.h"

#include "core/template/template_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The shortest digits that read back equal, then Python's choice of exponent or point.
void template_value_print_real(struct out *out, double real)
{
    if (!isfinite(real)) {
        out_put(out, "%s", isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
        return;
    }
    char digits[40];
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision, real);
        if (strtod(digits, NULL) == real)
            break;
    }
    char *mark = strchr(digits, 'e');
    long exponent = strtol(mark + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        out_put(out, "%.*se%c%02ld", (int)(mark - digits), digits, exponent < 0 ? '-' : '+',
                labs(exponent));
        return;
    }
    long significant = (long)(mark - digits) - (digits[0] == '-');
    long decimals = (significant > 1 ? significant - 2 : 0) - exponent;
    out_put(out, "%.*f", (int)(decimals < 1 ? 1 : decimals), real);
}

static void repr_string(struct out *out, struct text string)
{
    bool has_single = memchr(string.at, '\'', string.size) != NULL;
    char quote = has_single && !memchr(string.at, '"', string.size) ? '"' : '\'';
    out_char(out, quote);
    uint32_t code;
    for (size_t at = 0; at < string.size;) {
        size_t size = template_text_step(string, at, &code);
        if (code == (unsigned char)quote || code == '\\')
            out_put(out, "\\%c", (char)code);
        else if (code == '\n' || code == '\t' || code == '\r')
            out_put(out, "\\%c", code == '\n' ? 'n' : code == '\t' ? 't' : 'r');
        else if (template_text_is_printable(code))
            out_bytes(out, string.at + at, size);
        else if (code < 0x100)
            out_put(out, "\\x%02x", code);
        else
            out_put(out, code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
        at += size;
    }
    out_char(out, quote);
}

static bool repr(struct out *out, struct template_value value, struct template_budget *budget);

static bool repr_list(struct out *out, const struct template_list *list,
                      struct template_budget *budget)
{
    if (list->flavour > TEMPLATE_TUPLE)
        return false;
    bool tuple = list->flavour == TEMPLATE_TUPLE;
    out_char(out, tuple ? '(' : '[');
    bool good = true;
    for (size_t i = 0; i < list->count && good; i++) {
        if (i)
            out_bytes(out, ", ", 2);
        good = repr(out, list->items[i], budget);
    }
    if (tuple && list->count == 1)
        out_char(out, ',');
    out_char(out, tuple ? ')' : ']');
    return good;
}

static bool repr_dict(struct out *out, const struct template_dict *dict,
                      struct template_budget *budget)
{
    out_char(out, '{');
    bool good = true;
    for (size_t i = 0; i < dict->count && good; i++) {
        if (i)
            out_bytes(out, ", ", 2);
        good = repr(out, dict->entries[i].key, budget);
        out_bytes(out, ": ", 2);
        good = good && repr(out, dict->entries[i].value, budget);
    }
    out_char(out, '}');
    return good;
}

static bool repr(struct out *out, struct template_value value, struct template_budget *budget)
{
    if (value.kind == TEMPLATE_UNDEFINED) {
        out_put(out, "Undefined");
        return true;
    }
    if (value.kind != TEMPLATE_STRING)
        return template_value_print(out, value, budget);
    if (value.markup)
        out_put(out, "Markup(");
    repr_string(out, value.string);
    if (value.markup)
        out_char(out, ')');
    return true;
}

// Charges one step to the budget, and one level for a list or dict.
static bool afford(const struct out *out, struct template_budget *budget, int levels)
{
    budget->depth -= levels;
    budget->steps--;
    if (budget->depth < 0 || out->size > budget->out_bytes)
        budget->steps = -1;
    return budget->steps >= 0;
}

static bool print_nested(struct out *out, struct template_value value,
                         struct template_budget *budget)
{
    bool good = afford(out, budget, 1) &&
                (value.kind == TEMPLATE_LIST ? repr_list(out, value.list, budget)
                                             : repr_dict(out, value.dict, budget));
    budget->depth++;
    return good;
}

bool template_value_print(struct out *out, struct template_value value,
                          struct template_budget *budget)
{
    if (!afford(out, budget, 0))
        return false;
    switch (value.kind) {
    case TEMPLATE_UNDEFINED: return true;
    case TEMPLATE_NONE: out_bytes(out, "None", 4); return true;
    case TEMPLATE_BOOL: out_put(out, "%s", value.flag ? "True" : "False"); return true;
    case TEMPLATE_INT: out_put(out, "%lld", (long long)value.whole); return true;
    case TEMPLATE_FLOAT: template_value_print_real(out, value.real); return true;
    case TEMPLATE_STRING: out_bytes(out, value.string.at, value.string.size); return true;
    case TEMPLATE_BIG: out_bytes(out, value.string.at, value.string.size); return true;
    case TEMPLATE_LIST:
    case TEMPLATE_DICT: return print_nested(out, value, budget);
    default: return false;
    }
}

// --- JSON --------------------------------------------------------------------

struct dump {
    struct out *out;
    struct arena *arena;
    const struct template_json *style;
    struct template_budget *budget;
    int depth;
};

static void quote(struct out *out, struct text string, bool ascii)
{
    static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    out_char(out, '"');
    size_t plain = 0;
    uint32_t code;
    for (size_t at = 0; at < string.size;) {
        unsigned char c = (unsigned char)string.at[at];
        if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x80 || !ascii)) {
            at++;
            continue;
        }
        out_bytes(out, string.at + plain, at - plain);
        at += template_text_step(string, at, &code);
        plain = at;
        const char *name = code && code < 0x80 ? strchr(named, (int)code) : NULL;
        if (name)
            out_put(out, "\\%c", letters[name - named]);
        else if (code >= 0x10000)
            out_put(out, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
                    0xDC00 + (code & 0x3FF));
        else
            out_put(out, "\\u%04x", code);
    }
    out_bytes(out, string.at + plain, string.size - plain);
    out_char(out, '"');
}

static void break_line(struct dump *dump)
{
    if (dump->style->indent < 0)
        return;
    out_char(dump->out, '\n');
    out_repeat(dump->out, ' ', dump->style->indent * dump->depth);
}

static const char *dump_value(struct dump *dump, struct template_value value);

static const char *dump_list(struct dump *dump, const struct template_list *list)
{
    if (list->flavour > TEMPLATE_TUPLE)
        return "a view, a range or a generator";
    if (!list->count) {
        out_put(dump->out, "[]");
        return NULL;
    }
    const char *problem = NULL;
    out_char(dump->out, '[');
    dump->depth++;
    for (size_t i = 0; i < list->count && !problem; i++) {
        if (i)
            out_bytes(dump->out, dump->style->item_separator.at, dump->style->item_separator.size);
        break_line(dump);
        problem = dump_value(dump, list->items[i]);
    }
    dump->depth--;
    break_line(dump);
    out_char(dump->out, ']');
    return problem;
}

static int by_key(const void *a, const void *b)
{
    struct text x = ((const struct template_entry *)a)->key.string;
    struct text y = ((const struct template_entry *)b)->key.string;
    int order = memcmp(x.at, y.at, x.size < y.size ? x.size : y.size);
    return order ? order : (x.size > y.size) - (x.size < y.size);
}

static const char *dump_key(struct dump *dump, struct template_value key)
{
    struct out spelled = { .arena = dump->arena };
    struct template_budget budget = template_value_budget();
    switch (key.kind) {
    case TEMPLATE_STRING: quote(dump->out, key.string, dump->style->ascii); return NULL;
    case TEMPLATE_NONE: out_put(dump->out, "\"null\""); return NULL;
    case TEMPLATE_BOOL: out_put(dump->out, "\"%s\"", key.flag ? "true" : "false"); return NULL;
    case TEMPLATE_INT:
    case TEMPLATE_BIG:
    case TEMPLATE_FLOAT:
        template_value_print(&spelled, key, &budget);
        quote(dump->out, out_view(&spelled), true);
        return NULL;
    default: return "a key that is not a string";
    }
}

static const char *dump_dict(struct dump *dump, const struct template_dict *dict)
{
    if (!dict->count) {
        out_put(dump->out, "{}");
        return NULL;
    }
    const struct template_entry *entries = dict->entries;
    if (dump->style->sorted) {
        struct template_entry *sorted = ARENA_NEW(dump->arena, struct template_entry, dict->count);
        memcpy(sorted, entries, dict->count * sizeof *sorted);
        for (size_t i = 0; i < dict->count; i++)
            if (sorted[i].key.kind != TEMPLATE_STRING)
                return "sorted keys that are not strings";
        qsort(sorted, dict->count, sizeof *sorted, by_key);
        entries = sorted;
    }
    const char *problem = NULL;
    out_char(dump->out, '{');
    dump->depth++;
    for (size_t i = 0; i < dict->count && !problem; i++) {
        if (i)
            out_bytes(dump->out, dump->style->item_separator.at, dump->style->item_separator.size);
        break_line(dump);
        problem = dump_key(dump, entries[i].key);
        out_bytes(dump->out, dump->style->key_separator.at, dump->style->key_separator.size);
        if (!problem)
            problem = dump_value(dump, entries[i].value);
    }
    dump->depth--;
    break_line(dump);
    out_char(dump->out, '}');
    return problem;
}

static const char *dump_real(struct out *out, double real)
{
    if (isfinite(real))
        template_value_print_real(out, real);
    else
        out_put(out, "%s", isnan(real) ? "NaN" : real > 0 ? "Infinity" : "-Infinity");
    return NULL;
}

static const char *dump_nested(struct dump *dump, struct template_value value)
{
    const char *problem = "a value that is too large or too deeply nested";
    if (afford(dump->out, dump->budget, 1))
        problem =
            value.kind == TEMPLATE_LIST ? dump_list(dump, value.list) : dump_dict(dump, value.dict);
    dump->budget->depth++;
    return problem;
}

static const char *dump_value(struct dump *dump, struct template_value value)
{
    if (!afford(dump->out, dump->budget, 0))
        return "a value that is too long";
    switch (value.kind) {
    case TEMPLATE_NONE: out_put(dump->out, "null"); return NULL;
    case TEMPLATE_BOOL: out_put(dump->out, "%s", value.flag ? "true" : "false"); return NULL;
    case TEMPLATE_BIG:
    case TEMPLATE_INT: template_value_print(dump->out, value, dump->budget); return NULL;
    case TEMPLATE_FLOAT: return dump_real(dump->out, value.real);
    case TEMPLATE_STRING: quote(dump->out, value.string, dump->style->ascii); return NULL;
    case TEMPLATE_LIST:
    case TEMPLATE_DICT: return dump_nested(dump, value);
    default: return template_value_kind_name(value);
    }
}

const char *template_value_json(struct out *out, struct arena *arena, struct template_value value,
                                const struct template_json *style, struct template_budget *budget)
{
    struct dump dump = { out, arena, style, budget, 0 };
    return dump_value(&dump, value);
}
