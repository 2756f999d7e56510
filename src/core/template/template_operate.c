// SPDX-License-Identifier: Apache-2.0
// Implements operators, indexing, slicing, comparison and iteration of values.

#include "core/template/template_internal.h"

#include "core/template/template_text.h"

#include <math.h>
#include <string.h>

static struct template_value undefined(struct text name)
{
    return (struct template_value){ .kind = TEMPLATE_UNDEFINED, .string = name };
}

static struct template_value not_defined(struct template_run *run, int line,
                                         struct template_value value)
{
    struct text name = value.string.at ? value.string : TEXT("a value");
    return template_stop(run, line, "%.*s is used but not defined", TEXT_ARGS(name));
}

// --- parts of values ---------------------------------------------------------

static struct template_value loop_attribute(struct template_run *run, int line,
                                            const struct template_loop *loop, struct text name)
{
    static const struct text names[] = {
        { "index0", 6 }, { "first", 5 },    { "last", 4 },      { "index", 5 },
        { "length", 6 }, { "revindex", 8 }, { "revindex0", 9 }, { "depth", 5 },
        { "depth0", 6 }, { "previtem", 8 }, { "nextitem", 8 },  { "changed", 7 },
    };
    enum { COUNT = sizeof names / sizeof *names };
    int64_t at = (int64_t)loop->index, count = (int64_t)loop->items->count;
    int found = 0;
    while (found < COUNT && !text_equal(names[found], name))
        found++;
    switch (found) {
    case 0: return template_value_whole(at);
    case 1: return template_value_flag(at == 0);
    case 2: return template_value_flag(at + 1 == count);
    case 3: return template_value_whole(at + 1);
    case 4: return template_value_whole(count);
    case 5: return template_value_whole(count - at);
    case 6: return template_value_whole(count - at - 1);
    case 7: return template_value_whole(1); // recursive loops are not supported
    case 8: return template_value_whole(0);
    case 9: return at ? loop->items->items[at - 1] : undefined(name);
    case 10: return at + 1 < count ? loop->items->items[at + 1] : undefined(name);
    case 11: return template_stop(run, line, "loop.changed is not supported");
    default: return undefined(name);
    }
}

static struct template_value method_of(struct template_run *run, int line, struct template_value of,
                                       struct text name)
{
    struct template_method *method = template_take(run, line, sizeof *method);
    if (!method)
        return undefined(name);
    *method = (struct template_method){ of, name };
    return (struct template_value){ .kind = TEMPLATE_METHOD, .method = method };
}

struct template_value template_attribute(struct template_run *run, int line,
                                         struct template_value of, struct text name)
{
    struct template_value *found = NULL;
    if (of.kind == TEMPLATE_UNDEFINED)
        return not_defined(run, line, of);
    if (template_method_has(of, name))
        return method_of(run, line, of, name);
    if (of.kind == TEMPLATE_LOOP)
        return loop_attribute(run, line, of.loop, name);
    if (of.kind == TEMPLATE_DICT || of.kind == TEMPLATE_NAMESPACE) {
        run->steps += (int64_t)(of.dict->count >> 3);
        found = template_value_find(of.dict, name);
    }
    return found ? *found : undefined(name);
}

struct template_value template_item(struct template_run *run, int line, struct template_value of,
                                    struct template_value key)
{
    int64_t index = key.kind == TEMPLATE_BOOL ? key.flag : key.whole;
    bool indexed = key.kind == TEMPLATE_INT || key.kind == TEMPLATE_BOOL;
    if (of.kind == TEMPLATE_UNDEFINED)
        return not_defined(run, line, of);
    if (of.kind == TEMPLATE_DICT) {
        run->steps += (int64_t)(of.dict->count >> 3);
        struct template_value *found = template_value_find_key(of.dict, key);
        if (found)
            return *found;
    }
    if (of.kind == TEMPLATE_LIST && indexed && of.list->flavour != TEMPLATE_VIEW &&
        of.list->flavour != TEMPLATE_LAZY) {
        int64_t count = (int64_t)of.list->count;
        index += index < 0 ? count : 0;
        return index >= 0 && index < count ? of.list->items[index] : undefined(TEXT("an item"));
    }
    if (of.kind == TEMPLATE_STRING && indexed) {
        int64_t count = (int64_t)template_text_count(of.string);
        run->steps += (int64_t)(of.string.size >> 3);
        index += index < 0 ? count : 0;
        if (index < 0 || index >= count)
            return undefined(TEXT("a character"));
        uint32_t code;
        size_t at = template_text_offset(of.string, (size_t)index);
        size_t size = template_text_step(of.string, at, &code);
        of.string = (struct text){ of.string.at + at, size };
        return of;
    }
    if (key.kind == TEMPLATE_STRING) {
        if (of.kind == TEMPLATE_DICT && !template_method_has(of, key.string))
            return undefined(key.string);
        return template_attribute(run, line, of, key.string);
    }
    return undefined(TEXT("an item"));
}

static bool bound(struct template_run *run, int line, struct template_value value, int64_t *out)
{
    if (value.kind == TEMPLATE_INT || value.kind == TEMPLATE_BOOL)
        *out = value.kind == TEMPLATE_INT ? value.whole : value.flag;
    else if (value.kind != TEMPLATE_NONE)
        template_stop(run, line, "a slice expects integers, found a %s",
                      template_value_kind_name(value));
    return value.kind != TEMPLATE_NONE;
}

// Start and end of a slice, as Python's slice.indices() computes them.
static void slice_bounds(struct template_run *run, int line, int64_t count,
                         const struct template_value bounds[3], int64_t out[3])
{
    out[2] = 1;
    bound(run, line, bounds[2], &out[2]);
    if (out[2] == 0)
        template_stop(run, line, "a slice has a step of zero");
    int64_t low = out[2] < 0 ? -1 : 0, high = out[2] < 0 ? count - 1 : count;
    out[0] = out[2] < 0 ? high : low;
    out[1] = out[2] < 0 ? low : high;
    for (int i = 0; i < 2; i++) {
        int64_t at = 0;
        if (!bound(run, line, bounds[i], &at) || run->err)
            continue;
        at = at < -count ? low : at < 0 ? at + count : at;
        out[i] = at < low ? low : at > high ? high : at;
    }
}

static struct template_value slice_string(struct template_run *run, int line,
                                          struct template_value of, const int64_t at[3])
{
    if (at[2] == 1) {
        size_t start = template_text_offset(of.string, (size_t)at[0]);
        struct text rest = { of.string.at + start, of.string.size - start };
        int64_t count = at[1] > at[0] ? at[1] - at[0] : 0;
        of.string = (struct text){ rest.at, template_text_offset(rest, (size_t)count) };
        return of;
    }
    const struct template_list *letters = template_walk(run, line, of);
    char *out = letters ? template_take(run, line, of.string.size + 1) : NULL;
    size_t size = 0;
    for (int64_t i = at[0]; out && (at[2] > 0 ? i < at[1] : i > at[1]); i += at[2]) {
        struct text letter = letters->items[i].string;
        memcpy(out + size, letter.at, letter.size);
        size += letter.size;
    }
    of.string = (struct text){ out ? out : "", size };
    return of;
}

struct template_value template_slice(struct template_run *run, int line, struct template_value of,
                                     const struct template_value bounds[3])
{
    int64_t at[3];
    if (of.kind == TEMPLATE_UNDEFINED)
        return not_defined(run, line, of);
    bool list = of.kind == TEMPLATE_LIST && of.list->flavour != TEMPLATE_VIEW &&
                of.list->flavour != TEMPLATE_LAZY;
    if (!list && of.kind != TEMPLATE_STRING)
        return template_stop(run, line, "a %s cannot be sliced", template_value_kind_name(of));
    int64_t count = (int64_t)(list ? of.list->count : template_text_count(of.string));
    run->steps += list ? 0 : (int64_t)(of.string.size >> 2);
    slice_bounds(run, line, count, bounds, at);
    if (run->err)
        return of;
    if (!list)
        return slice_string(run, line, of, at);
    int64_t step = at[2] > 0 ? at[2] : -at[2], width = at[2] > 0 ? at[1] - at[0] : at[0] - at[1];
    size_t taken = width > 0 ? (size_t)((width - 1) / step + 1) : 0;
    if (!template_take(run, line, taken * sizeof(struct template_value)))
        return of;
    struct template_value part = template_value_list(&run->arena, of.list->flavour, taken);
    for (size_t i = 0; i < taken; i++)
        part.list->items[i] = of.list->items[at[0] + (int64_t)i * at[2]];
    part.list->count = taken;
    return part;
}

// --- arithmetic --------------------------------------------------------------

static int64_t whole_of(struct template_value value)
{
    return value.kind == TEMPLATE_BOOL ? value.flag : value.whole;
}

static struct template_value real(double value)
{
    return (struct template_value){ .kind = TEMPLATE_FLOAT, .real = value };
}

static struct template_value whole_math(struct template_run *run, int line, enum operator_kind op,
                                        int64_t a, int64_t b)
{
    double about = op == OPERATOR_MINUS   ? (double)a - (double)b
                   : op == OPERATOR_TIMES ? (double)a * (double)b
                   : op == OPERATOR_POWER ? pow((double)a, (double)b)
                                          : 0;
    if (fabs(about) > 9e18)
        return template_stop(run, line, "an integer does not fit into 64 bits");
    int64_t result = 1;
    switch (op) {
    case OPERATOR_MINUS: return template_value_whole(a - b);
    case OPERATOR_TIMES: return template_value_whole(a * b);
    case OPERATOR_POWER:
        if (b < 0)
            return real(about);
        if (a == 0 || a == 1 || a == -1)
            return template_value_whole(b == 0 ? 1 : a == -1 && b % 2 == 0 ? 1 : a);
        for (; b > 0; b--)
            result *= a;
        return template_value_whole(result);
    default: break;
    }
    if (!b)
        return template_stop(run, line, "division by zero");
    if (op == OPERATOR_DIVIDE)
        return real((double)a / (double)b);
    if (b == -1)
        return template_value_whole(op == OPERATOR_FLOOR ? -a : 0);
    int64_t quotient = a / b - (a % b != 0 && (a < 0) != (b < 0));
    return template_value_whole(op == OPERATOR_FLOOR ? quotient : a - quotient * b);
}

static struct template_value real_math(struct template_run *run, int line, enum operator_kind op,
                                       double a, double b)
{
    if (b == 0 && op >= OPERATOR_DIVIDE && op <= OPERATOR_MODULO)
        return template_stop(run, line, "division by zero");
    double rest = fmod(a, b);
    switch (op) {
    case OPERATOR_MINUS: return real(a - b);
    case OPERATOR_TIMES: return real(a * b);
    case OPERATOR_DIVIDE: return real(a / b);
    case OPERATOR_FLOOR: return real(floor(a / b));
    case OPERATOR_MODULO: return real(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    default: return real(pow(a, b));
    }
}

static struct template_value repeat(struct template_run *run, int line, struct template_value of,
                                    int64_t times)
{
    bool string = of.kind == TEMPLATE_STRING;
    size_t size = string ? of.string.size : of.list->count * sizeof(struct template_value);
    times = times < 0 ? 0 : times;
    if (size && (uint64_t)times > run->limits.scratch_bytes / size)
        return template_stop(run, line, "cannot repeat a value %lld times", (long long)times);
    char *out = template_take(run, line, size * (size_t)times + 1);
    for (int64_t i = 0; out && i < times && size; i++)
        memcpy(out + (size_t)i * size, string ? of.string.at : (const char *)of.list->items, size);
    if (!out)
        return of;
    if (string) {
        of.string = (struct text){ out, size * (size_t)times };
        return of;
    }
    struct template_value list = template_value_list(&run->arena, of.list->flavour, 0);
    list.list->items = (void *)out;
    list.list->count = list.list->room = of.list->count * (size_t)times;
    return list;
}

static bool repeats(struct template_value value)
{
    return value.kind == TEMPLATE_STRING ||
           (value.kind == TEMPLATE_LIST && value.list->flavour <= TEMPLATE_TUPLE);
}

struct template_value template_math(struct template_run *run, int line, enum operator_kind op,
                                    struct template_value a, struct template_value b)
{
    static const char *const signs[] = { "-", "*", "/", "//", "%", "**" };
    if (a.kind == TEMPLATE_UNDEFINED || b.kind == TEMPLATE_UNDEFINED)
        return not_defined(run, line, a.kind == TEMPLATE_UNDEFINED ? a : b);
    if (template_value_is_number(a) && template_value_is_number(b)) {
        if (a.kind == TEMPLATE_FLOAT || b.kind == TEMPLATE_FLOAT)
            return real_math(run, line, op, template_value_real(a), template_value_real(b));
        return whole_math(run, line, op, whole_of(a), whole_of(b));
    }
    if (op == OPERATOR_TIMES && repeats(a) && template_value_is_number(b) &&
        b.kind != TEMPLATE_FLOAT)
        return repeat(run, line, a, whole_of(b));
    if (op == OPERATOR_TIMES && repeats(b) && template_value_is_number(a) &&
        a.kind != TEMPLATE_FLOAT)
        return repeat(run, line, b, whole_of(a));
    if (op == OPERATOR_MODULO && a.kind == TEMPLATE_STRING)
        return template_format_percent(run, line, a.string, b);
    return template_stop(run, line, "unsupported operands for %s: %s and %s", signs[op],
                         template_value_kind_name(a), template_value_kind_name(b));
}

// Adding a plain string to markup escapes it.
static struct text escaped(struct template_run *run, int line, struct template_value value)
{
    if (value.markup)
        return value.string;
    struct out out = { .arena = &run->arena };
    for (size_t i = 0; i < value.string.size; i++) {
        char c = value.string.at[i];
        const char *name = c == '&'    ? "&amp;"
                           : c == '<'  ? "&lt;"
                           : c == '>'  ? "&gt;"
                           : c == '\'' ? "&#39;"
                           : c == '"'  ? "&#34;"
                                       : NULL;
        if (name)
            out_bytes(&out, name, strlen(name));
        else
            out_char(&out, c);
    }
    template_charge(run, line, out.room);
    return out_view(&out);
}

static struct template_value add_strings(struct template_run *run, int line,
                                         struct template_value a, struct template_value b)
{
    bool markup = a.markup || b.markup;
    struct text x = markup ? escaped(run, line, a) : a.string;
    struct text y = markup ? escaped(run, line, b) : b.string;
    char *out = template_take(run, line, x.size + y.size + 1);
    if (!out)
        return a;
    memcpy(out, x.at, x.size);
    memcpy(out + x.size, y.at, y.size);
    struct template_value sum = template_value_string((struct text){ out, x.size + y.size });
    sum.markup = markup;
    return sum;
}

static struct template_value add_lists(struct template_run *run, int line,
                                       const struct template_list *a, const struct template_list *b)
{
    size_t count = a->count + b->count, size = sizeof(struct template_value);
    if (!template_take(run, line, count * size))
        return (struct template_value){ 0 };
    struct template_value sum = template_value_list(&run->arena, a->flavour, count);
    if (a->count)
        memcpy(sum.list->items, a->items, a->count * size);
    if (b->count)
        memcpy(sum.list->items + a->count, b->items, b->count * size);
    sum.list->count = count;
    return sum;
}

struct template_value template_add(struct template_run *run, int line, struct template_value a,
                                   struct template_value b)
{
    if (a.kind == TEMPLATE_UNDEFINED || b.kind == TEMPLATE_UNDEFINED)
        return not_defined(run, line, a.kind == TEMPLATE_UNDEFINED ? a : b);
    if (a.kind == TEMPLATE_STRING && b.kind == TEMPLATE_STRING)
        return add_strings(run, line, a, b);
    if (repeats(a) && repeats(b) && a.kind == b.kind && a.list->flavour == b.list->flavour)
        return add_lists(run, line, a.list, b.list);
    if (!template_value_is_number(a) || !template_value_is_number(b))
        return template_stop(run, line, "unsupported operands for +: %s and %s",
                             template_value_kind_name(a), template_value_kind_name(b));
    if (a.kind == TEMPLATE_FLOAT || b.kind == TEMPLATE_FLOAT)
        return real(template_value_real(a) + template_value_real(b));
    if (fabs((double)whole_of(a) + (double)whole_of(b)) > 9e18)
        return template_stop(run, line, "an integer does not fit into 64 bits");
    return template_value_whole(whole_of(a) + whole_of(b));
}

// --- order, membership, iteration ----------------------------------------------

int template_order(struct template_run *run, int line, struct template_value a,
                   struct template_value b)
{
    if (template_value_is_number(a) && template_value_is_number(b)) {
        if (a.kind == TEMPLATE_INT && b.kind == TEMPLATE_INT)
            return (a.whole > b.whole) - (a.whole < b.whole);
        return (template_value_real(a) > template_value_real(b)) -
               (template_value_real(a) < template_value_real(b));
    }
    if (a.kind == TEMPLATE_STRING && b.kind == TEMPLATE_STRING) {
        size_t shared = a.string.size < b.string.size ? a.string.size : b.string.size;
        int order = memcmp(a.string.at, b.string.at, shared);
        if (order)
            return order < 0 ? -1 : 1;
        return (a.string.size > b.string.size) - (a.string.size < b.string.size);
    }
    if (repeats(a) && repeats(b) && a.kind == b.kind && a.list->flavour == b.list->flavour) {
        for (size_t i = 0; i < a.list->count && i < b.list->count && !run->err; i++)
            if (!template_equal(run, line, a.list->items[i], b.list->items[i]) && !run->err)
                return template_order(run, line, a.list->items[i], b.list->items[i]);
        return (a.list->count > b.list->count) - (a.list->count < b.list->count);
    }
    if (a.kind == TEMPLATE_UNDEFINED || b.kind == TEMPLATE_UNDEFINED)
        not_defined(run, line, a.kind == TEMPLATE_UNDEFINED ? a : b);
    template_stop(run, line, "cannot order a %s and a %s", template_value_kind_name(a),
                  template_value_kind_name(b));
    return 0;
}

bool template_contains(struct template_run *run, int line, struct template_value in,
                       struct template_value what)
{
    switch (in.kind) {
    case TEMPLATE_UNDEFINED: return false;
    case TEMPLATE_DICT:
        run->steps += (int64_t)(in.dict->count >> 3);
        return template_value_find_key(in.dict, what) != NULL;
    case TEMPLATE_LIST:
        for (size_t i = 0; i < in.list->count && !run->err; i++)
            if (template_equal(run, line, in.list->items[i], what))
                return true;
        return false;
    case TEMPLATE_STRING:
        run->steps += (int64_t)(in.string.size >> 4);
        if (what.kind == TEMPLATE_STRING)
            return template_text_find(in.string, what.string, 0) != SIZE_MAX;
        template_stop(run, line, "cannot search for a %s in a string",
                      template_value_kind_name(what));
        return false;
    default:
        template_stop(run, line, "a %s cannot be searched", template_value_kind_name(in));
        return false;
    }
}

static const struct template_list *letters_of(struct template_run *run, int line, struct text text)
{
    size_t count = template_text_count(text);
    if (!template_take(run, line, count * sizeof(struct template_value)))
        return NULL;
    struct template_list *list = template_value_list(&run->arena, TEMPLATE_PLAIN, count).list;
    uint32_t code;
    for (size_t at = 0; at < text.size;) {
        size_t size = template_text_step(text, at, &code);
        list->items[list->count++] = template_value_string((struct text){ text.at + at, size });
        at += size;
    }
    return list;
}

const struct template_list *template_walk(struct template_run *run, int line,
                                          struct template_value of)
{
    static const struct template_list nothing;
    switch (of.kind) {
    case TEMPLATE_UNDEFINED: return &nothing;
    case TEMPLATE_LIST:
        if (of.list->flavour != TEMPLATE_LAZY)
            return of.list;
        if (of.list->walked)
            return &nothing;
        of.list->walked = true;
        return of.list;
    case TEMPLATE_STRING: return letters_of(run, line, of.string);
    case TEMPLATE_DICT: break;
    default:
        template_stop(run, line, "a %s cannot be iterated", template_value_kind_name(of));
        return NULL;
    }
    if (!template_take(run, line, of.dict->count * sizeof(struct template_value)))
        return NULL;
    struct template_list *keys =
        template_value_list(&run->arena, TEMPLATE_PLAIN, of.dict->count).list;
    for (size_t i = 0; i < of.dict->count; i++)
        keys->items[keys->count++] = of.dict->entries[i].key;
    return keys;
}

struct template_value template_string(struct template_run *run, int line, struct template_value of)
{
    if (of.kind == TEMPLATE_STRING)
        return of;
    struct out out = { .arena = &run->arena }, *outer = run->out;
    run->out = &out;
    template_write(run, line, of);
    run->out = outer;
    template_charge(run, line, out.room);
    return template_value_string(out_view(&out));
}

struct template_value template_join(struct template_run *run, int line, struct text between,
                                    const struct template_list *items)
{
    struct out out = { .arena = &run->arena }, *outer = run->out;
    run->out = &out;
    for (size_t i = 0; i < items->count && !run->err; i++) {
        if (i)
            out_bytes(&out, between.at, between.size);
        template_write(run, line, items->items[i]);
        if (out.size > run->limits.scratch_bytes)
            template_charge(run, line, out.room);
    }
    run->out = outer;
    template_charge(run, line, out.room);
    return template_value_string(out_view(&out));
}
