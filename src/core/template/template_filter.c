// SPDX-License-Identifier: Apache-2.0
// Implements the filters of templates; the table at the end names them.

#include "core/template/template_internal.h"

#include "core/template/template_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct template_value none = { .kind = TEMPLATE_NONE };

static struct template_value wrong(struct call *call, const char *wanted)
{
    return template_stop(call->run, call->line, "%s %.*s expects %s", call->what,
                         TEXT_ARGS(call->name), wanted);
}

static struct template_value new_list(struct call *call, enum template_flavour flavour, size_t room)
{
    template_take(call->run, call->line, room * sizeof(struct template_value));
    return template_value_list(&call->run->arena, flavour, call->run->err ? 0 : room);
}

static void append(struct call *call, struct template_value list, struct template_value item)
{
    template_value_append(&call->run->arena, list.list, item);
}

// str() of a string or anything else, keeping the mark of |safe.
static struct template_value soft(struct call *call, struct template_value of)
{
    return template_string(call->run, call->line, of);
}

// --- strings -----------------------------------------------------------------

static struct template_value apply_trim(struct call *call, struct template_value of)
{
    struct template_value what = template_argument(call, 0, "chars", none);
    struct text characters = what.kind == TEMPLATE_STRING ? what.string : (struct text){ 0 };
    of = soft(call, of);
    of.string = template_text_strip(of.string, characters, true, true);
    return of;
}

static struct template_value apply_lower(struct call *call, struct template_value of)
{
    return template_changed_case(call->run, call->line, soft(call, of).string, false);
}

static struct template_value apply_upper(struct call *call, struct template_value of)
{
    return template_changed_case(call->run, call->line, soft(call, of).string, true);
}

static bool splits_words(char c)
{
    return strchr("-({[<", c) ? c != 0 : template_text_is_space((unsigned char)c);
}

static struct template_value apply_title(struct call *call, struct template_value of)
{
    struct template_value out = apply_lower(call, of);
    char *at = (char *)(uintptr_t)out.string.at; // just created, not shared yet
    for (size_t i = 0; i < out.string.size && !call->run->err; i++)
        if (at[i] >= 'a' && at[i] <= 'z' && (i == 0 || splits_words(at[i - 1])))
            at[i] = (char)(at[i] - 32);
    return out;
}

static struct template_value apply_capitalize(struct call *call, struct template_value of)
{
    struct template_value out = apply_lower(call, of);
    char *at = (char *)(uintptr_t)out.string.at; // just created, not shared yet
    if (!call->run->err && out.string.size && at[0] >= 'a' && at[0] <= 'z')
        at[0] = (char)(at[0] - 32);
    return out;
}

static struct template_value apply_replace(struct call *call, struct template_value of)
{
    struct template_value old = soft(call, template_argument(call, 0, "old", none));
    struct template_value with = soft(call, template_argument(call, 1, "new", none));
    struct template_value most = template_argument(call, 2, "count", none);
    if (call->count < 2)
        return wrong(call, "the old and the new string");
    of = soft(call, of);
    if (call->run->err)
        return of;
    return template_replace(call->run, call->line, of.string, old.string, with.string,
                            most.kind == TEMPLATE_INT ? most.whole : -1);
}

static struct template_value apply_indent(struct call *call, struct template_value of)
{
    struct template_run *run = call->run;
    struct template_value width = template_argument(call, 0, "width", template_value_whole(4));
    bool first = template_value_truth(template_argument(call, 1, "first", none));
    bool blank = template_value_truth(template_argument(call, 2, "blank", none));
    struct out prefix = { .arena = &run->arena }, out = { .arena = &run->arena };
    if (of.kind != TEMPLATE_STRING)
        return wrong(call, "a string");
    if (width.kind == TEMPLATE_INT && width.whole < 1000)
        out_repeat(&prefix, ' ', (int)width.whole);
    else if (width.kind == TEMPLATE_STRING)
        out_bytes(&prefix, width.string.at, width.string.size);
    else
        return wrong(call, "a width under 1000 or a string");
    for (size_t at = 0, line = 0; at <= of.string.size; line++) {
        const char *end = memchr(of.string.at + at, '\n', of.string.size - at);
        size_t size = end ? (size_t)(end - of.string.at) - at : of.string.size - at;
        if (line)
            out_char(&out, '\n');
        if (line ? size || blank : first)
            out_bytes(&out, prefix.at, prefix.size);
        out_bytes(&out, of.string.at + at, size);
        at += size + 1;
        if (out.size > run->limits.scratch_bytes)
            return wrong(call, "a shorter text");
    }
    template_charge(run, call->line, out.room);
    return template_value_string(out_view(&out));
}

static struct template_value apply_safe(struct call *call, struct template_value of)
{
    of = soft(call, of);
    of.markup = of.kind == TEMPLATE_STRING;
    return of;
}

static struct template_value apply_escape(struct call *call, struct template_value of)
{
    struct template_value empty = template_value_string(TEXT(""));
    empty.markup = true; // strings added to markup are escaped
    return template_add(call->run, call->line, empty, soft(call, of));
}

static struct template_value apply_format(struct call *call, struct template_value of)
{
    struct template_value values = new_list(call, TEMPLATE_TUPLE, (size_t)call->count + 1);
    if (call->positional < call->count)
        return wrong(call, "positional values; named ones are not supported");
    for (int i = 0; i < call->count; i++)
        append(call, values, call->values[i]);
    return template_format_percent(call->run, call->line, soft(call, of).string, values);
}

static bool read_separators(struct call *call, struct template_json *style)
{
    struct template_value given = template_argument(call, 2, "separators", none);
    bool indented = style->indent >= 0;
    style->item_separator = indented ? TEXT(",") : TEXT(", ");
    style->key_separator = TEXT(": ");
    if (given.kind == TEMPLATE_NONE)
        return true;
    if (given.kind != TEMPLATE_LIST || given.list->count != 2 ||
        given.list->items[0].kind != TEMPLATE_STRING ||
        given.list->items[1].kind != TEMPLATE_STRING)
        return false;
    style->item_separator = given.list->items[0].string;
    style->key_separator = given.list->items[1].string;
    return true;
}

static struct template_value apply_tojson(struct call *call, struct template_value of)
{
    struct template_run *run = call->run;
    struct template_value indent = template_argument(call, 1, "indent", none);
    struct template_json style = { .indent = -1 };
    style.ascii = template_value_truth(template_argument(call, 0, "ensure_ascii", none));
    style.sorted = template_value_truth(template_argument(call, 3, "sort_keys", none));
    if (indent.kind == TEMPLATE_INT && indent.whole < 100)
        style.indent = indent.whole < 0 ? 0 : (int)indent.whole;
    else if (indent.kind != TEMPLATE_NONE)
        return wrong(call, "an indent under 100");
    if (!read_separators(call, &style))
        return wrong(call, "two strings as separators");
    struct out out = { .arena = &run->arena };
    struct template_budget budget = template_budget(run);
    const char *problem = template_value_json(&out, &run->arena, of, &style, &budget);
    run->steps = run->limits.steps - budget.steps;
    if (problem)
        return template_stop(run, call->line, "tojson cannot write %s", problem);
    template_charge(run, call->line, out.room);
    return template_value_string(out_view(&out));
}

// --- numbers -----------------------------------------------------------------

static bool parse_real(struct text text, double *out)
{
    char digits[64];
    text = template_text_strip(text, (struct text){ 0 }, true, true);
    if (!text.size || text.size >= sizeof digits || memchr(text.at, 'x', text.size) ||
        memchr(text.at, 'X', text.size))
        return false;
    memcpy(digits, text.at, text.size);
    digits[text.size] = 0;
    char *end;
    *out = strtod(digits, &end);
    return end == digits + text.size;
}

static struct template_value whole_from(struct call *call, double real,
                                        struct template_value otherwise)
{
    if (!isfinite(real))
        return otherwise;
    if (fabs(real) > 9e18)
        return wrong(call, "a number that fits into 64 bits");
    return template_value_whole((int64_t)real);
}

static struct template_value apply_int(struct call *call, struct template_value of)
{
    struct template_value otherwise =
        template_argument(call, 0, "default", template_value_whole(0));
    double real;
    if (template_has_argument(call, 1, "base"))
        return wrong(call, "no base; bases are not supported");
    switch (of.kind) {
    case TEMPLATE_INT: return of;
    case TEMPLATE_BOOL: return template_value_whole(of.flag);
    case TEMPLATE_FLOAT: return whole_from(call, of.real, otherwise);
    case TEMPLATE_STRING:
        return parse_real(of.string, &real) ? whole_from(call, real, otherwise) : otherwise;
    default: return otherwise;
    }
}

static struct template_value apply_float(struct call *call, struct template_value of)
{
    struct template_value out = { .kind = TEMPLATE_FLOAT };
    if (of.kind == TEMPLATE_FLOAT)
        return of;
    if (of.kind == TEMPLATE_INT || of.kind == TEMPLATE_BOOL) {
        out.real = of.kind == TEMPLATE_INT ? (double)of.whole : of.flag;
        return out;
    }
    if (of.kind == TEMPLATE_STRING && parse_real(of.string, &out.real))
        return out;
    out.real = 0;
    return template_argument(call, 0, "default", out);
}

static struct template_value apply_abs(struct call *call, struct template_value of)
{
    if (of.kind == TEMPLATE_FLOAT)
        of.real = fabs(of.real);
    else if (of.kind == TEMPLATE_INT)
        of.whole = of.whole < 0 ? -of.whole : of.whole;
    else
        return wrong(call, "a number");
    return of;
}

// Python rounds halves to even, on the decimal digits of the number.
static struct template_value apply_round(struct call *call, struct template_value of)
{
    struct template_value precision =
        template_argument(call, 0, "precision", template_value_whole(0));
    struct template_value method =
        template_argument(call, 1, "method", template_value_string(TEXT("common")));
    bool common = method.kind == TEMPLATE_STRING && text_is(method.string, "common");
    if (precision.kind != TEMPLATE_INT || precision.whole < 0 || precision.whole > 15)
        return wrong(call, "a precision from 0 to 15");
    if (of.kind == TEMPLATE_INT && common)
        return of;
    struct template_value real = apply_float(call, of);
    if (of.kind != TEMPLATE_INT && of.kind != TEMPLATE_FLOAT)
        return wrong(call, "a number");
    double scale = pow(10, (double)precision.whole);
    if (common) {
        struct out out = { .arena = &call->run->arena };
        out_put(&out, "%.*f", (int)precision.whole, real.real);
        real.real = strtod(out_string(&out), NULL);
    } else if (method.kind == TEMPLATE_STRING && text_is(method.string, "ceil")) {
        real.real = ceil(real.real * scale) / scale;
    } else {
        real.real = floor(real.real * scale) / scale;
    }
    return real;
}

// --- lists -------------------------------------------------------------------

static struct template_value apply_length(struct call *call, struct template_value of)
{
    switch (of.kind) {
    case TEMPLATE_STRING: return template_value_whole((int64_t)template_text_count(of.string));
    case TEMPLATE_DICT: return template_value_whole((int64_t)of.dict->count);
    case TEMPLATE_UNDEFINED: return template_value_whole(0);
    case TEMPLATE_LIST:
        if (of.list->flavour != TEMPLATE_LAZY)
            return template_value_whole((int64_t)of.list->count);
        break;
    default: break;
    }
    return template_stop(call->run, call->line, "a %s has no length", template_value_kind_name(of));
}

static const struct template_list *walk(struct call *call, struct template_value of)
{
    const struct template_list *items = template_walk(call->run, call->line, of);
    static const struct template_list nothing;
    call->run->steps += items ? (int64_t)items->count : 0;
    return items ? items : &nothing;
}

// Reads an attribute path such as "function.name" or 0 of an item.
static struct template_value dig(struct call *call, struct template_value item,
                                 struct template_value path)
{
    if (path.kind == TEMPLATE_INT)
        return template_item(call->run, call->line, item, path);
    if (path.kind != TEMPLATE_STRING)
        return item;
    struct text rest = path.string, part;
    while (!call->run->err && text_next(&rest, '.', &part)) {
        struct template_value key = template_value_string(part);
        bool number = part.size > 0 && part.size < 10;
        int64_t index = 0;
        for (size_t i = 0; i < part.size && number; i++) {
            number = part.at[i] >= '0' && part.at[i] <= '9';
            index = index * 10 + (part.at[i] - '0');
        }
        item =
            template_item(call->run, call->line, item, number ? template_value_whole(index) : key);
    }
    return item;
}

static struct template_value folded(struct call *call, struct template_value value)
{
    return value.kind == TEMPLATE_STRING ? apply_lower(call, value) : value;
}

static struct template_value apply_list(struct call *call, struct template_value of)
{
    const struct template_list *items = walk(call, of);
    struct template_value list = new_list(call, TEMPLATE_PLAIN, items->count);
    for (size_t i = 0; i < items->count && !call->run->err; i++)
        append(call, list, items->items[i]);
    return list;
}

static struct template_value apply_first(struct call *call, struct template_value of)
{
    const struct template_list *items = walk(call, of);
    return items->count ? items->items[0]
                        : (struct template_value){ .string = TEXT("the first of nothing") };
}

static struct template_value apply_last(struct call *call, struct template_value of)
{
    if (of.kind == TEMPLATE_LIST && of.list->flavour == TEMPLATE_LAZY)
        return wrong(call, "a list, not a generator");
    const struct template_list *items = walk(call, of);
    return items->count ? items->items[items->count - 1]
                        : (struct template_value){ .string = TEXT("the last of nothing") };
}

static struct template_value apply_join(struct call *call, struct template_value of)
{
    struct template_value between =
        soft(call, template_argument(call, 0, "d", template_value_string(TEXT(""))));
    struct template_value attribute = template_argument(call, 1, "attribute", none);
    const struct template_list *items = walk(call, of);
    if (attribute.kind == TEMPLATE_NONE || call->run->err)
        return template_join(call->run, call->line, between.string, items);
    struct template_value dug = new_list(call, TEMPLATE_PLAIN, items->count);
    for (size_t i = 0; i < items->count && !call->run->err; i++)
        append(call, dug, dig(call, items->items[i], attribute));
    return template_join(call->run, call->line, between.string, dug.list);
}

static struct template_value apply_reverse(struct call *call, struct template_value of)
{
    if (of.kind == TEMPLATE_STRING) {
        struct template_value bounds[3] = { none, none, template_value_whole(-1) };
        return template_slice(call->run, call->line, of, bounds);
    }
    if (of.kind != TEMPLATE_LIST && of.kind != TEMPLATE_DICT)
        return wrong(call, "something that can be iterated");
    const struct template_list *items = walk(call, of);
    struct template_value list = new_list(call, TEMPLATE_LAZY, items->count);
    for (size_t i = items->count; i-- > 0 && !call->run->err;)
        append(call, list, items->items[i]);
    return list;
}

static struct template_value apply_items(struct call *call, struct template_value of)
{
    struct template_value list = new_list(call, TEMPLATE_LAZY, 4);
    if (of.kind == TEMPLATE_UNDEFINED)
        return list;
    if (of.kind != TEMPLATE_DICT)
        return wrong(call, "a dict");
    struct call items = {
        .run = call->run, .line = call->line, .what = "filter", .name = TEXT("items")
    };
    struct template_value view = template_method_apply(&items, of);
    if (!call->run->err)
        view.list->flavour = TEMPLATE_LAZY;
    return view;
}

struct sorting {
    struct template_value key, value;
};

static bool before(struct call *call, const struct sorting *a, const struct sorting *b, bool down)
{
    int order = template_order(call->run, call->line, a->key, b->key);
    return down ? order > 0 : order < 0;
}

// A stable merge sort from the bottom up.
static void sort(struct call *call, struct sorting *rows, size_t count, bool down)
{
    struct sorting *other = template_take(call->run, call->line, count * sizeof *rows + 1);
    if (!other)
        return;
    struct sorting *from = rows, *to = other;
    for (size_t width = 1; width < count && !call->run->err; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t a = start, middle = start + width < count ? start + width : count;
            size_t b = middle, end = middle + width < count ? middle + width : count;
            for (size_t i = start; i < end; i++) {
                bool right = a >= middle || (b < end && before(call, &from[b], &from[a], down));
                to[i] = right ? from[b++] : from[a++];
            }
        }
        call->run->steps += (int64_t)count;
        struct sorting *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != rows)
        memcpy(rows, from, count * sizeof *rows);
}

static struct template_value sorted(struct call *call, const struct template_list *items,
                                    struct template_value path, bool fold, bool down)
{
    size_t count = items->count;
    struct sorting *rows = template_take(call->run, call->line, count * sizeof *rows + 1);
    struct template_value list = new_list(call, TEMPLATE_PLAIN, count);
    for (size_t i = 0; i < count && !call->run->err; i++) {
        struct template_value key = dig(call, items->items[i], path);
        rows[i] = (struct sorting){ fold ? folded(call, key) : key, items->items[i] };
    }
    if (!call->run->err)
        sort(call, rows, count, down);
    for (size_t i = 0; i < count && !call->run->err; i++)
        append(call, list, rows[i].value);
    return list;
}

static struct template_value apply_sort(struct call *call, struct template_value of)
{
    bool down = template_value_truth(template_argument(call, 0, "reverse", none));
    bool exact = template_value_truth(template_argument(call, 1, "case_sensitive", none));
    struct template_value path = template_argument(call, 2, "attribute", none);
    if (path.kind == TEMPLATE_STRING && memchr(path.string.at, ',', path.string.size))
        return wrong(call, "one attribute; several are not supported");
    return sorted(call, walk(call, of), path, !exact, down);
}

static struct template_value apply_dictsort(struct call *call, struct template_value of)
{
    bool exact = template_value_truth(template_argument(call, 0, "case_sensitive", none));
    struct template_value by = template_argument(call, 1, "by", template_value_string(TEXT("key")));
    bool down = template_value_truth(template_argument(call, 2, "reverse", none));
    if (of.kind != TEMPLATE_DICT || by.kind != TEMPLATE_STRING)
        return wrong(call, "a dict");
    struct template_value items = apply_items(call, of);
    if (call->run->err)
        return items;
    return sorted(call, items.list, template_value_whole(text_is(by.string, "value")), !exact,
                  down);
}

static struct template_value extreme(struct call *call, struct template_value of, int sign)
{
    bool exact = template_value_truth(template_argument(call, 0, "case_sensitive", none));
    struct template_value path = template_argument(call, 1, "attribute", none);
    const struct template_list *items = walk(call, of);
    struct template_value best = { .string = TEXT("the extreme of nothing") }, best_key = best;
    for (size_t i = 0; i < items->count && !call->run->err; i++) {
        struct template_value key = dig(call, items->items[i], path);
        key = exact ? key : folded(call, key);
        if (i && template_order(call->run, call->line, key, best_key) * sign <= 0)
            continue;
        best = items->items[i];
        best_key = key;
    }
    return best;
}

static struct template_value apply_min(struct call *call, struct template_value of)
{
    return extreme(call, of, -1);
}

static struct template_value apply_max(struct call *call, struct template_value of)
{
    return extreme(call, of, 1);
}

static struct template_value apply_sum(struct call *call, struct template_value of)
{
    struct template_value path = template_argument(call, 0, "attribute", none);
    struct template_value sum = template_argument(call, 1, "start", template_value_whole(0));
    const struct template_list *items = walk(call, of);
    for (size_t i = 0; i < items->count && !call->run->err; i++)
        sum = template_add(call->run, call->line, sum, dig(call, items->items[i], path));
    return sum;
}

static struct template_value apply_unique(struct call *call, struct template_value of)
{
    bool exact = template_value_truth(template_argument(call, 0, "case_sensitive", none));
    struct template_value path = template_argument(call, 1, "attribute", none);
    const struct template_list *items = walk(call, of);
    struct template_value list = new_list(call, TEMPLATE_LAZY, items->count);
    struct template_value seen = new_list(call, TEMPLATE_PLAIN, items->count);
    for (size_t i = 0; i < items->count && !call->run->err; i++) {
        struct template_value key = dig(call, items->items[i], path);
        key = exact ? key : folded(call, key);
        if (call->run->steps > call->run->limits.steps)
            return wrong(call, "fewer items");
        if (call->run->err || template_contains(call->run, call->line, seen, key))
            continue;
        append(call, seen, key);
        append(call, list, items->items[i]);
    }
    return list;
}

// --- filters that take filters and tests -------------------------------------

// The call without its first arguments.
static struct call rest_of(const struct call *call, int taken, const char *what, struct text name)
{
    struct call rest = { .run = call->run, .line = call->line, .what = what, .name = name };
    for (int i = taken; i < call->count; i++) {
        rest.values[rest.count] = call->values[i];
        rest.names[rest.count++] = call->names[i];
    }
    rest.positional = call->positional > taken ? call->positional - taken : 0;
    return rest;
}

static struct template_value map_attribute(struct call *call, const struct template_list *items)
{
    struct template_value path = template_argument(call, TEMPLATE_ARGUMENTS, "attribute", none);
    struct template_value otherwise = template_argument(call, TEMPLATE_ARGUMENTS, "default", none);
    struct template_value list = new_list(call, TEMPLATE_LAZY, items->count);
    for (size_t i = 0; i < items->count && !call->run->err; i++) {
        struct template_value item = dig(call, items->items[i], path);
        append(call, list,
               item.kind == TEMPLATE_UNDEFINED && otherwise.kind != TEMPLATE_NONE ? otherwise
                                                                                  : item);
    }
    return list;
}

static struct template_value apply_map(struct call *call, struct template_value of)
{
    const struct template_list *items = walk(call, of);
    if (!call->positional)
        return map_attribute(call, items);
    bool elsewhere;
    struct template_value name = call->values[0];
    int filter = name.kind == TEMPLATE_STRING ? template_filter_find(name.string, &elsewhere) : -1;
    if (filter < 0)
        return wrong(call, "the name of a supported filter");
    struct template_value list = new_list(call, TEMPLATE_LAZY, items->count);
    for (size_t i = 0; i < items->count && !call->run->err; i++) {
        struct call inner = rest_of(call, 1, "filter", name.string);
        append(call, list, template_filter_apply(filter, &inner, items->items[i]));
    }
    return list;
}

static struct template_value choose(struct call *call, struct template_value of, bool by_attribute,
                                    bool keep)
{
    const struct template_list *items = walk(call, of);
    struct template_value list = new_list(call, TEMPLATE_LAZY, items->count);
    if (by_attribute && !call->positional)
        return wrong(call, "the name of an attribute");
    bool elsewhere, tested = call->positional > by_attribute;
    struct template_value name = tested ? call->values[by_attribute] : none;
    int test = name.kind == TEMPLATE_STRING ? template_test_find(name.string, &elsewhere) : -1;
    if (tested && test < 0 && items->count)
        return wrong(call, "the name of a supported test");
    for (size_t i = 0; i < items->count && !call->run->err; i++) {
        struct template_value item = items->items[i];
        if (by_attribute)
            item = dig(call, item, call->values[0]);
        struct call inner = rest_of(call, 1 + by_attribute, "test", name.string);
        bool holds = !call->run->err && (tested ? template_test_apply(test, &inner, item)
                                                : template_value_truth(item));
        if (holds == keep)
            append(call, list, items->items[i]);
    }
    return list;
}

static struct template_value apply_select(struct call *call, struct template_value of)
{
    return choose(call, of, false, true);
}

static struct template_value apply_reject(struct call *call, struct template_value of)
{
    return choose(call, of, false, false);
}

static struct template_value apply_selectattr(struct call *call, struct template_value of)
{
    return choose(call, of, true, true);
}

static struct template_value apply_rejectattr(struct call *call, struct template_value of)
{
    return choose(call, of, true, false);
}

static struct template_value apply_default(struct call *call, struct template_value of)
{
    bool falsy = template_value_truth(template_argument(call, 1, "boolean", none));
    if (of.kind == TEMPLATE_UNDEFINED || (falsy && !template_value_truth(of)))
        return template_argument(call, 0, "default_value", template_value_string(TEXT("")));
    return of;
}

static struct template_value apply_wordcount(struct call *call, struct template_value of)
{
    struct text text = soft(call, of).string;
    int64_t count = 0;
    bool inside = false;
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.at[i];
        bool word = c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                    (c >= 'A' && c <= 'Z') || c == '_';
        count += word && !inside;
        inside = word;
    }
    return template_value_whole(count);
}

// --- the table ---------------------------------------------------------------

struct filter {
    const char *name;
    struct template_value (*apply)(struct call *call, struct template_value of);
};

static const struct filter filters[] = {
    { "abs", apply_abs },
    { "capitalize", apply_capitalize },
    { "count", apply_length },
    { "d", apply_default },
    { "default", apply_default },
    { "dictsort", apply_dictsort },
    { "e", apply_escape },
    { "escape", apply_escape },
    { "first", apply_first },
    { "float", apply_float },
    { "format", apply_format },
    { "indent", apply_indent },
    { "int", apply_int },
    { "items", apply_items },
    { "join", apply_join },
    { "last", apply_last },
    { "length", apply_length },
    { "list", apply_list },
    { "lower", apply_lower },
    { "map", apply_map },
    { "max", apply_max },
    { "min", apply_min },
    { "reject", apply_reject },
    { "rejectattr", apply_rejectattr },
    { "replace", apply_replace },
    { "reverse", apply_reverse },
    { "round", apply_round },
    { "safe", apply_safe },
    { "select", apply_select },
    { "selectattr", apply_selectattr },
    { "sort", apply_sort },
    { "string", soft },
    { "sum", apply_sum },
    { "title", apply_title },
    { "tojson", apply_tojson },
    { "trim", apply_trim },
    { "unique", apply_unique },
    { "upper", apply_upper },
    { "wordcount", apply_wordcount },
};

static const char *const others[] = { "attr",        "batch",     "center",   "filesizeformat",
                                      "forceescape", "groupby",   "pprint",   "random",
                                      "slice",       "striptags", "truncate", "urlencode",
                                      "urlize",      "wordwrap",  "xmlattr" };

int template_filter_find(struct text name, bool *known_elsewhere)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (text_is(name, filters[i].name))
            return (int)i;
    *known_elsewhere = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        *known_elsewhere = *known_elsewhere || text_is(name, others[i]);
    return -1;
}

struct template_value template_filter_apply(int filter, struct call *call, struct template_value of)
{
    call->run->steps += of.kind == TEMPLATE_STRING ? (int64_t)(of.string.size >> 6) : 0;
    return filters[filter].apply(call, of);
}
