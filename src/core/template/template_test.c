// SPDX-License-Identifier: Apache-2.0
// Implements the tests ("x is string") and the global functions of templates.

#include "core/template/template_internal.h"

#include <string.h>
#include <time.h>

static const struct template_value none = { .kind = TEMPLATE_NONE };

// --- tests -------------------------------------------------------------------

enum test {
    TEST_DEFINED,
    TEST_UNDEFINED,
    TEST_NONE,
    TEST_STRING,
    TEST_MAPPING,
    TEST_ITERABLE,
    TEST_SEQUENCE,
    TEST_NUMBER,
    TEST_INTEGER,
    TEST_FLOAT,
    TEST_BOOLEAN,
    TEST_TRUE,
    TEST_FALSE,
    TEST_CALLABLE,
    TEST_ESCAPED,
    TEST_ODD,
    TEST_EVEN,
    TEST_DIVISIBLE,
    TEST_IN,
    TEST_SAME,
    TEST_EQUAL,
    TEST_UNEQUAL,
    TEST_LESS,
    TEST_LESS_EQUAL,
    TEST_MORE,
    TEST_MORE_EQUAL,
    TEST_LOWER,
    TEST_UPPER,
    TEST_FILTER,
    TEST_TEST,
};

static const struct {
    const char *name;
    enum test test;
} tests[] = {
    { "defined", TEST_DEFINED },
    { "undefined", TEST_UNDEFINED },
    { "none", TEST_NONE },
    { "string", TEST_STRING },
    { "mapping", TEST_MAPPING },
    { "iterable", TEST_ITERABLE },
    { "sequence", TEST_SEQUENCE },
    { "number", TEST_NUMBER },
    { "integer", TEST_INTEGER },
    { "float", TEST_FLOAT },
    { "boolean", TEST_BOOLEAN },
    { "true", TEST_TRUE },
    { "false", TEST_FALSE },
    { "callable", TEST_CALLABLE },
    { "escaped", TEST_ESCAPED },
    { "odd", TEST_ODD },
    { "even", TEST_EVEN },
    { "divisibleby", TEST_DIVISIBLE },
    { "in", TEST_IN },
    { "sameas", TEST_SAME },
    { "eq", TEST_EQUAL },
    { "equalto", TEST_EQUAL },
    { "==", TEST_EQUAL },
    { "ne", TEST_UNEQUAL },
    { "!=", TEST_UNEQUAL },
    { "lt", TEST_LESS },
    { "lessthan", TEST_LESS },
    { "<", TEST_LESS },
    { "le", TEST_LESS_EQUAL },
    { "<=", TEST_LESS_EQUAL },
    { "gt", TEST_MORE },
    { "greaterthan", TEST_MORE },
    { ">", TEST_MORE },
    { "ge", TEST_MORE_EQUAL },
    { ">=", TEST_MORE_EQUAL },
    { "lower", TEST_LOWER },
    { "upper", TEST_UPPER },
    { "filter", TEST_FILTER },
    { "test", TEST_TEST },
};

int template_test_find(struct text name, bool *known_elsewhere)
{
    *known_elsewhere = false; // all of jinja2's are here
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (text_is(name, tests[i].name))
            return (int)i;
    return -1;
}

static bool divides(struct call *call, struct template_value of, int64_t by, int64_t rest)
{
    struct template_value left =
        template_math(call->run, call->line, OPERATOR_MODULO, of, template_value_whole(by));
    return !call->run->err && template_value_equal(left, template_value_whole(rest));
}

static bool same(struct template_value a, struct template_value b)
{
    if (a.kind != b.kind)
        return false;
    return a.kind > TEMPLATE_STRING ? a.dict == b.dict : template_value_equal(a, b);
}

static bool is_cased(struct call *call, struct template_value of, bool upper)
{
    struct template_value string = template_string(call->run, call->line, of);
    struct call inner = { .run = call->run, .line = call->line, .what = "test" };
    inner.name = upper ? TEXT("isupper") : TEXT("islower");
    return !call->run->err && template_method_apply(&inner, string).flag;
}

static bool compares(enum test test, struct call *call, struct template_value of)
{
    struct template_value with = template_argument(call, 0, NULL, none);
    bool elsewhere;
    if (call->count < 1 && test != TEST_LOWER && test != TEST_UPPER && test < TEST_FILTER) {
        template_stop(call->run, call->line, "the test %.*s expects an argument",
                      TEXT_ARGS(call->name));
        return false;
    }
    switch (test) {
    case TEST_IN: return template_contains(call->run, call->line, with, of);
    case TEST_SAME: return same(of, with);
    case TEST_EQUAL: return template_equal(call->run, call->line, of, with);
    case TEST_UNEQUAL: return !template_equal(call->run, call->line, of, with);
    case TEST_LESS: return template_order(call->run, call->line, of, with) < 0;
    case TEST_LESS_EQUAL: return template_order(call->run, call->line, of, with) <= 0;
    case TEST_MORE: return template_order(call->run, call->line, of, with) > 0;
    case TEST_MORE_EQUAL: return template_order(call->run, call->line, of, with) >= 0;
    case TEST_LOWER: return is_cased(call, of, false);
    case TEST_UPPER: return is_cased(call, of, true);
    case TEST_DIVISIBLE: return divides(call, of, with.kind == TEMPLATE_INT ? with.whole : 0, 0);
    case TEST_FILTER:
        return of.kind == TEMPLATE_STRING && template_filter_find(of.string, &elsewhere) >= 0;
    default: return of.kind == TEMPLATE_STRING && template_test_find(of.string, &elsewhere) >= 0;
    }
}

bool template_test_apply(int number, struct call *call, struct template_value of)
{
    enum test test = tests[number].test;
    bool list = of.kind == TEMPLATE_LIST;
    switch (test) {
    case TEST_DEFINED: return of.kind != TEMPLATE_UNDEFINED;
    case TEST_UNDEFINED: return of.kind == TEMPLATE_UNDEFINED;
    case TEST_NONE: return of.kind == TEMPLATE_NONE;
    case TEST_STRING: return of.kind == TEMPLATE_STRING;
    case TEST_MAPPING: return of.kind == TEMPLATE_DICT;
    case TEST_ITERABLE:
        return list || of.kind == TEMPLATE_DICT || of.kind == TEMPLATE_STRING ||
               of.kind == TEMPLATE_UNDEFINED || of.kind == TEMPLATE_LOOP;
    case TEST_SEQUENCE: // has a length and can be indexed, or is undefined
        return (list && of.list->flavour != TEMPLATE_VIEW && of.list->flavour != TEMPLATE_LAZY) ||
               of.kind == TEMPLATE_DICT || of.kind == TEMPLATE_STRING ||
               of.kind == TEMPLATE_UNDEFINED;
    case TEST_NUMBER: return of.kind >= TEMPLATE_BOOL && of.kind <= TEMPLATE_BIG;
    case TEST_INTEGER: return of.kind == TEMPLATE_INT || of.kind == TEMPLATE_BIG;
    case TEST_FLOAT: return of.kind == TEMPLATE_FLOAT;
    case TEST_BOOLEAN: return of.kind == TEMPLATE_BOOL;
    case TEST_TRUE: return of.kind == TEMPLATE_BOOL && of.flag;
    case TEST_FALSE: return of.kind == TEMPLATE_BOOL && !of.flag;
    case TEST_CALLABLE:
        return of.kind == TEMPLATE_FUNCTION || of.kind == TEMPLATE_MACRO ||
               of.kind == TEMPLATE_METHOD || of.kind == TEMPLATE_LOOP ||
               of.kind == TEMPLATE_UNDEFINED;
    case TEST_ESCAPED: return of.kind == TEMPLATE_STRING && of.markup;
    case TEST_ODD: return divides(call, of, 2, 1);
    case TEST_EVEN: return divides(call, of, 2, 0);
    default: return compares(test, call, of);
    }
}

// --- functions ---------------------------------------------------------------

static struct template_value call_namespace(struct call *call)
{
    struct template_run *run = call->run;
    struct template_value space = template_value_dict(&run->arena, (size_t)call->count + 1);
    template_charge(run, call->line, ((size_t)call->count + 2) * sizeof(struct template_entry));
    if (call->positional) {
        struct template_value from = call->values[0];
        if (from.kind != TEMPLATE_DICT)
            return template_stop(run, call->line, "namespace expects named arguments and a dict");
        for (size_t i = 0; i < from.dict->count; i++)
            template_value_put(&run->arena, space.dict, from.dict->entries[i].key,
                               from.dict->entries[i].value);
    }
    for (int i = call->positional; i < call->count; i++)
        template_value_put(&run->arena, space.dict, template_value_string(call->names[i]),
                           call->values[i]);
    space.kind = TEMPLATE_NAMESPACE;
    return space;
}

static struct template_value call_dict(struct call *call)
{
    struct template_value dict = call_namespace(call);
    dict.kind = call->run->err ? TEMPLATE_UNDEFINED : TEMPLATE_DICT;
    return dict;
}

static struct template_value call_range(struct call *call)
{
    enum { LONGEST = 100000 }; // jinja2's sandbox has the same limit
    int64_t bounds[3] = { 0, 0, 1 };
    for (int i = 0; i < call->count; i++)
        if (call->values[i].kind != TEMPLATE_INT || call->count > 3)
            return template_stop(call->run, call->line, "range expects one to three integers");
    for (int i = 0; i < call->count; i++)
        bounds[call->count == 1 ? 1 : i] = call->values[i].whole;
    double width = (double)bounds[1] - (double)bounds[0];
    int64_t step = bounds[2];
    if (!call->count || !step)
        return template_stop(call->run, call->line,
                             "range expects an end, and a step other than zero");
    double exact = width / (double)step;
    if (exact > LONGEST)
        return template_stop(call->run, call->line, "a range of more than %d numbers", LONGEST);
    size_t room = exact > 0 ? (size_t)exact + 1 : 1;
    template_charge(call->run, call->line, room * sizeof(struct template_value));
    struct template_value list = template_value_list(&call->run->arena, TEMPLATE_RANGE, room);
    for (int64_t at = bounds[0]; step > 0 ? at < bounds[1] : at > bounds[1]; at += step)
        template_value_append(&call->run->arena, list.list, template_value_whole(at));
    return list;
}

static struct template_value call_raise(struct call *call)
{
    struct template_value what = template_argument(call, 0, "message", none);
    what = template_string(call->run, call->line, what);
    return template_stop(call->run, call->line, "raise_exception: %.*s", TEXT_ARGS(what.string));
}

static int day_of_week(int year, int month, int day)
{
    static const int offsets[] = { 0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4 };
    year -= month < 3;
    return (year + year / 4 - year / 100 + year / 400 + offsets[month - 1] + day) % 7;
}

static int day_of_year(int year, int month, int day)
{
    static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return before[month - 1] + day - 1 + (leap && month > 2);
}

static struct template_value call_strftime(struct call *call)
{
    const struct template_date *date = &call->run->date;
    struct template_value format = template_argument(call, 0, "format", none);
    if (format.kind != TEMPLATE_STRING)
        return template_stop(call->run, call->line, "strftime_now expects a format");
    if (!date->year)
        return template_stop(call->run, call->line,
                             "the template needs the date; give one with --date");
    struct tm tm = { .tm_year = date->year - 1900,
                     .tm_mon = date->month - 1,
                     .tm_mday = date->day,
                     .tm_hour = date->hour,
                     .tm_min = date->minute,
                     .tm_sec = date->second };
    tm.tm_wday = day_of_week(date->year, date->month, date->day);
    tm.tm_yday = day_of_year(date->year, date->month, date->day);
    enum { LONGEST = 400 };
    char *out = template_take(call->run, call->line, LONGEST);
    const char *pattern = text_copy(&call->run->arena, format.string);
    size_t size = out && *pattern ? strftime(out, LONGEST, pattern, &tm) : 0;
    return template_value_string((struct text){ out ? out : "", size });
}

static const struct {
    const char *name;
    struct template_value (*apply)(struct call *call);
} functions[] = {
    { "namespace", call_namespace },   { "range", call_range },           { "dict", call_dict },
    { "raise_exception", call_raise }, { "strftime_now", call_strftime },
};

int template_function_find(struct text name, bool *known_elsewhere)
{
    *known_elsewhere =
        text_is(name, "cycler") || text_is(name, "joiner") || text_is(name, "lipsum");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (text_is(name, functions[i].name))
            return (int)i;
    return -1;
}

struct template_value template_function_apply(int function, struct call *call)
{
    return functions[function].apply(call);
}
