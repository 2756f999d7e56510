// SPDX-License-Identifier: Apache-2.0
// The methods of strings, lists and dicts that templates call.

#include "core/template/template_internal.h"

#include "core/template/template_text.h"

#include <string.h>

#define NAME(literal)               \
    {                               \
        literal, sizeof literal - 1 \
    }

// All that Python's types have, and loops, so that a method read here is told from a key or from
// nothing.
static const struct text string_methods[] = {
    NAME("strip"),       NAME("lstrip"),       NAME("rstrip"),       NAME("split"),
    NAME("rsplit"),      NAME("splitlines"),   NAME("startswith"),   NAME("endswith"),
    NAME("upper"),       NAME("lower"),        NAME("title"),        NAME("capitalize"),
    NAME("replace"),     NAME("find"),         NAME("rfind"),        NAME("index"),
    NAME("count"),       NAME("join"),         NAME("format"),       NAME("isdigit"),
    NAME("isspace"),     NAME("removeprefix"), NAME("removesuffix"), NAME("partition"),
    NAME("rpartition"),  NAME("zfill"),        NAME("ljust"),        NAME("rjust"),
    NAME("isalpha"),     NAME("isalnum"),      NAME("isupper"),      NAME("islower"),
    NAME("isnumeric"),   NAME("isdecimal"),    NAME("isascii"),      NAME("isidentifier"),
    NAME("isprintable"), NAME("istitle"),      NAME("center"),       NAME("swapcase"),
    NAME("casefold"),    NAME("encode"),       NAME("expandtabs"),   NAME("format_map"),
    NAME("translate"),   NAME("maketrans"),    NAME("rindex"),       { 0 },
};
static const struct text dict_methods[] = {
    NAME("items"), NAME("get"),      NAME("keys"),    NAME("values"),
    NAME("copy"),  NAME("pop"),      NAME("popitem"), NAME("setdefault"),
    NAME("clear"), NAME("fromkeys"), NAME("update"),  { 0 },
};
static const struct text list_methods[] = {
    NAME("append"), NAME("index"),  NAME("count"),   NAME("copy"), NAME("pop"),   NAME("extend"),
    NAME("insert"), NAME("remove"), NAME("reverse"), NAME("sort"), NAME("clear"), { 0 },
};

static const struct text loop_methods[] = { NAME("cycle"), { 0 } };

bool template_method_has(struct template_value of, struct text name)
{
    const struct text *known = of.kind == TEMPLATE_DICT     ? dict_methods
                               : of.kind == TEMPLATE_STRING ? string_methods
                               : of.kind == TEMPLATE_LIST   ? list_methods
                               : of.kind == TEMPLATE_LOOP   ? loop_methods
                                                            : NULL;
    for (; known && known->at; known++)
        if (known->size == name.size && !memcmp(known->at, name.at, name.size))
            return true;
    return false;
}

static const struct template_value none = { .kind = TEMPLATE_NONE };

static struct template_value wrong(struct call *call, const char *wanted)
{
    return template_stop(call->run, call->line, "%s %.*s expects %s", call->what,
                         TEXT_ARGS(call->name), wanted);
}

static struct text text_argument(struct call *call, int index)
{
    struct template_value value = template_argument(call, index, NULL, none);
    if (value.kind == TEMPLATE_STRING)
        return value.string;
    wrong(call, "a string");
    return TEXT("");
}

static struct template_value like(struct template_value of, struct text string)
{
    of.string = string; // keeps the |safe flag
    return of;
}

static struct template_value pair_of(struct template_run *run, struct template_value a,
                                     struct template_value b)
{
    struct template_value pair = template_value_list(&run->arena, TEMPLATE_TUPLE, 2);
    pair.list->items[0] = a;
    pair.list->items[1] = b;
    pair.list->count = 2;
    return pair;
}

// --- splitting ---------------------------------------------------------------

static bool add_piece(struct call *call, struct template_value list, struct template_value of,
                      size_t start, size_t end)
{
    if (!template_take(call->run, call->line, 2 * sizeof of))
        return false;
    struct text piece = { of.string.at + start, end - start };
    template_value_append(&call->run->arena, list.list, like(of, piece));
    return true;
}

static void split_words(struct call *call, struct template_value of, struct template_value list,
                        int64_t most)
{
    struct text text = of.string;
    uint32_t code;
    size_t at = 0;
    while (at < text.size) {
        size_t size = template_text_step(text, at, &code);
        if (template_text_is_space(code)) {
            at += size;
            continue;
        }
        size_t start = at;
        bool last = most >= 0 && (int64_t)list.list->count == most;
        while (at < text.size && (last || !template_text_is_space(code))) {
            at += size;
            size = at < text.size ? template_text_step(text, at, &code) : 0;
        }
        if (last)
            at = start + template_text_strip((struct text){ text.at + start, text.size - start },
                                             (struct text){ 0 }, false, true)
                             .size;
        if (!add_piece(call, list, of, start, at) || last)
            return;
    }
}

static void split_by(struct call *call, struct template_value of, struct text by,
                     struct template_value list, int64_t most)
{
    size_t at = 0;
    for (;;) {
        bool last = most >= 0 && (int64_t)list.list->count == most;
        size_t hit = last ? SIZE_MAX : template_text_find(of.string, by, at);
        if (!add_piece(call, list, of, at, hit == SIZE_MAX ? of.string.size : hit))
            return;
        if (hit == SIZE_MAX)
            return;
        at = hit + by.size;
    }
}

static void split_from_right(struct call *call, struct template_value of, struct text by,
                             struct template_value list, int64_t most)
{
    size_t end = of.string.size;
    for (;;) {
        bool last = most >= 0 && (int64_t)list.list->count == most;
        size_t hit =
            last ? SIZE_MAX : template_text_find_last((struct text){ of.string.at, end }, by);
        if (!add_piece(call, list, of, hit == SIZE_MAX ? 0 : hit + by.size, end) || hit == SIZE_MAX)
            break;
        end = hit;
    }
    struct template_value *items = list.list->items;
    for (size_t i = 0, j = list.list->count; j > i + 1; i++) {
        struct template_value swapped = items[i];
        items[i] = items[--j];
        items[j] = swapped;
    }
}

static struct template_value split(struct call *call, struct template_value of, bool from_right)
{
    struct template_value by = template_argument(call, 0, "sep", none);
    struct template_value most = template_argument(call, 1, "maxsplit", template_value_whole(-1));
    struct template_value list = template_value_list(&call->run->arena, TEMPLATE_PLAIN, 4);
    if (most.kind != TEMPLATE_INT)
        return wrong(call, "an integer number of splits");
    if (by.kind == TEMPLATE_NONE && from_right && most.whole >= 0)
        return wrong(call, "a separator");
    if (by.kind == TEMPLATE_NONE)
        split_words(call, of, list, most.whole);
    else if (by.kind != TEMPLATE_STRING || !by.string.size)
        return wrong(call, "a separator that is not empty");
    else
        (from_right ? split_from_right : split_by)(call, of, by.string, list, most.whole);
    return list;
}

static struct template_value split_lines(struct call *call, struct template_value of)
{
    struct template_value list = template_value_list(&call->run->arena, TEMPLATE_PLAIN, 4);
    bool keep =
        template_value_truth(template_argument(call, 0, "keepends", template_value_flag(false)));
    struct text text = of.string;
    size_t start = 0;
    uint32_t code;
    for (size_t at = 0; at < text.size;) {
        size_t end = at;
        at += template_text_step(text, at, &code);
        bool ends = (code >= 10 && code <= 13) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
                    code == 0x2028 || code == 0x2029;
        if (!ends)
            continue;
        if (code == '\r' && at < text.size && text.at[at] == '\n')
            at++;
        if (!add_piece(call, list, of, start, keep ? at : end))
            return list;
        start = at;
    }
    if (start < text.size)
        add_piece(call, list, of, start, text.size);
    return list;
}

static struct template_value partition(struct call *call, struct template_value of, bool last)
{
    struct text by = text_argument(call, 0), text = of.string;
    if (call->run->err || !by.size)
        return wrong(call, "a separator that is not empty");
    size_t hit = last ? template_text_find_last(text, by) : template_text_find(text, by, 0);
    struct template_value parts = template_value_list(&call->run->arena, TEMPLATE_TUPLE, 3);
    struct text empty = TEXT("");
    struct text pieces[3] = { last ? empty : text, empty, last ? text : empty };
    if (hit != SIZE_MAX) {
        pieces[0] = (struct text){ text.at, hit };
        pieces[1] = by;
        pieces[2] = (struct text){ text.at + hit + by.size, text.size - hit - by.size };
    }
    for (int i = 0; i < 3; i++)
        parts.list->items[parts.list->count++] = like(of, pieces[i]);
    return parts;
}

// --- looking into strings ----------------------------------------------------

static bool starts(struct text text, struct text with)
{
    return with.size <= text.size && !memcmp(text.at, with.at, with.size);
}

static bool ends(struct text text, struct text with)
{
    return with.size <= text.size && !memcmp(text.at + text.size - with.size, with.at, with.size);
}

static struct template_value starts_or_ends(struct call *call, struct template_value of,
                                            bool (*holds)(struct text, struct text))
{
    struct template_value with = template_argument(call, 0, NULL, none);
    if (call->count > 1)
        return wrong(call, "one argument; start and end positions are not supported");
    if (with.kind == TEMPLATE_STRING)
        return template_value_flag(holds(of.string, with.string));
    if (with.kind != TEMPLATE_LIST || with.list->flavour != TEMPLATE_TUPLE)
        return wrong(call, "a string or a tuple of strings");
    for (size_t i = 0; i < with.list->count; i++) {
        if (with.list->items[i].kind != TEMPLATE_STRING)
            return wrong(call, "strings");
        if (holds(of.string, with.list->items[i].string))
            return template_value_flag(true);
    }
    return template_value_flag(false);
}

static struct template_value find_in(struct call *call, struct template_value of, bool last,
                                     bool must)
{
    struct text what = text_argument(call, 0);
    if (call->count != 1)
        return wrong(call, "one argument; start and end positions are not supported");
    size_t hit =
        last ? template_text_find_last(of.string, what) : template_text_find(of.string, what, 0);
    if (hit == SIZE_MAX)
        return must ? wrong(call, "a string that occurs in it") : template_value_whole(-1);
    return template_value_whole((int64_t)template_text_count((struct text){ of.string.at, hit }));
}

static struct template_value count_in(struct call *call, struct template_value of)
{
    struct text what = text_argument(call, 0);
    int64_t count = 0;
    if (!what.size)
        return template_value_whole((int64_t)template_text_count(of.string) + 1);
    for (size_t at = 0; (at = template_text_find(of.string, what, at)) != SIZE_MAX;) {
        count++;
        at += what.size;
    }
    return template_value_whole(count);
}

// isdigit and similar, for ASCII only; other letters would need Unicode's tables.
static struct template_value all_are(struct call *call, struct template_value of)
{
    struct text name = call->name, text = of.string;
    bool cased = false, all = text.size > 0 || text_is(name, "isascii");
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.at[i];
        bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'z';
        bool upper = c >= 'A' && c <= 'Z';
        cased = cased || lower || upper;
        if (text_is(name, "isascii"))
            all = all && c < 0x80;
        else if (c >= 0x80 && !text_is(name, "isspace"))
            return wrong(call, "ASCII text; other letters are not supported");
        else if (text_is(name, "isalpha"))
            all = all && (lower || upper);
        else if (text_is(name, "isalnum"))
            all = all && (lower || upper || digit);
        else if (text_is(name, "isupper"))
            all = all && !lower;
        else if (text_is(name, "islower"))
            all = all && !upper;
        else
            all = all && digit;
    }
    if (text_is(name, "isspace"))
        all = text.size && !template_text_strip(text, (struct text){ 0 }, true, false).size;
    else if (text_is(name, "isupper") || text_is(name, "islower"))
        all = all && cased;
    return template_value_flag(all);
}

// --- making new strings ------------------------------------------------------

struct template_value template_replace(struct template_run *run, int line, struct text in,
                                       struct text old, struct text with, int64_t most)
{
    struct out out = { .arena = &run->arena };
    size_t at = 0;
    uint32_t code;
    while (most != 0) {
        size_t hit = template_text_find(in, old, at);
        if (hit == SIZE_MAX)
            break;
        out_bytes(&out, in.at + at, hit - at);
        out_bytes(&out, with.at, with.size);
        at = hit + old.size;
        most -= most > 0;
        if (out.size > run->limits.scratch_bytes)
            return template_stop(run, line, "the result of a replacement is larger than %zu bytes",
                                 out.size);
        if (old.size)
            continue;
        if (at >= in.size) // an empty string is found before each character and at the end
            break;
        size_t step = template_text_step(in, at, &code);
        out_bytes(&out, in.at + at, step);
        at += step;
    }
    if (at < in.size)
        out_bytes(&out, in.at + at, in.size - at);
    template_charge(run, line, out.room);
    return template_value_string(out_view(&out));
}

struct template_value template_changed_case(struct template_run *run, int line, struct text text,
                                            bool upper)
{
    char *out = template_take(run, line, text.size * 2 + 1);
    size_t size = out ? template_text_case(out, text, upper) : 0;
    if (size == SIZE_MAX)
        return template_stop(run, line, "changing the case of this letter is not supported");
    return template_value_string((struct text){ out ? out : "", size });
}

// title() starts a new word after every character that is not a letter; capitalize() does not.
static struct template_value in_titles(struct call *call, struct template_value of, bool every)
{
    struct template_value out = template_changed_case(call->run, call->line, of.string, false);
    bool begins = true;
    char *at = (char *)(uintptr_t)out.string.at; // just created, not shared yet
    for (size_t i = 0; i < out.string.size && !call->run->err; i++) {
        bool letter = (at[i] >= 'a' && at[i] <= 'z') || (unsigned char)at[i] >= 0x80;
        if (letter && begins && (unsigned char)at[i] < 0x80)
            at[i] = (char)(at[i] - 32);
        begins = every ? !letter : false;
    }
    return out;
}

static struct template_value filled(struct call *call, struct template_value of, bool left)
{
    struct template_value width = template_argument(call, 0, NULL, none);
    struct template_value with = template_argument(call, 1, NULL, template_value_string(TEXT(" ")));
    bool zeros = text_is(call->name, "zfill");
    if (width.kind != TEMPLATE_INT || with.kind != TEMPLATE_STRING || with.string.size != 1)
        return wrong(call, "a width and one ASCII fill character");
    int64_t missing = width.whole - (int64_t)template_text_count(of.string);
    if (missing <= 0)
        return of;
    char *out = (uint64_t)missing > call->run->limits.scratch_bytes
                    ? NULL
                    : template_take(call->run, call->line, of.string.size + (size_t)missing + 1);
    if (!out)
        return wrong(call, "a smaller width");
    bool sign = zeros && of.string.size && (of.string.at[0] == '-' || of.string.at[0] == '+');
    memset(out, zeros ? '0' : with.string.at[0], of.string.size + (size_t)missing);
    memcpy(left ? out + missing + sign : out, of.string.at + sign, of.string.size - sign);
    if (sign)
        out[0] = of.string.at[0];
    return template_value_string((struct text){ out, of.string.size + (size_t)missing });
}

// "{} {0} {name}".format(…); conversions and format specifications are refused.
static struct template_value format(struct call *call, struct template_value of)
{
    struct out out = { .arena = &call->run->arena }, *outer = call->run->out;
    struct text text = of.string;
    int next = 0;
    call->run->out = &out;
    for (size_t at = 0; at < text.size && !call->run->err; at++) {
        char c = text.at[at];
        bool twice = at + 1 < text.size && text.at[at + 1] == c;
        if ((c == '{' || c == '}') && twice) {
            out_char(&out, c);
            at++;
            continue;
        }
        if (c != '{') {
            out_char(&out, c);
            continue;
        }
        size_t end = template_text_find(text, TEXT("}"), at);
        struct text name = { text.at + at + 1, end == SIZE_MAX ? 0 : end - at - 1 };
        bool number = name.size == 1 && name.at[0] >= '0' && name.at[0] <= '9';
        int index = number ? name.at[0] - '0' : name.size ? TEMPLATE_ARGUMENTS : next++;
        const char *key = text_copy(&call->run->arena, name);
        if (end == SIZE_MAX || !template_has_argument(call, index, number ? NULL : key)) {
            wrong(call, "plain {} fields, each with an argument");
            break;
        }
        template_write(call->run, call->line, template_argument(call, index, key, none));
        at = end;
    }
    call->run->out = outer;
    return template_value_string(out_view(&out));
}

struct template_value template_format_percent(struct template_run *run, int line, struct text text,
                                              struct template_value with)
{
    struct out out = { .arena = &run->arena }, *outer = run->out;
    bool tuple = with.kind == TEMPLATE_LIST && with.list->flavour == TEMPLATE_TUPLE;
    size_t next = 0, count = tuple ? with.list->count : 1;
    run->out = &out;
    for (size_t at = 0; at < text.size && !run->err; at++) {
        if (text.at[at] != '%') {
            out_char(&out, text.at[at]);
            continue;
        }
        char kind = ++at < text.size ? text.at[at] : 0;
        if (kind == '%') {
            out_char(&out, '%');
        } else if ((kind != 's' && kind != 'd') || next >= count) {
            template_stop(run, line, "a %% format supports %%s and %%d only, each with a value");
        } else {
            struct template_value value = tuple ? with.list->items[next] : with;
            next++;
            if (kind == 'd' && value.kind != TEMPLATE_INT)
                template_stop(run, line, "%%d expects an integer");
            template_write(run, line, value);
        }
    }
    run->out = outer;
    if (next < count && !run->err && with.kind != TEMPLATE_DICT)
        return template_stop(run, line, "a %% format has more values than fields");
    template_charge(run, line, out.room);
    return template_value_string(out_view(&out));
}

// --- by type -----------------------------------------------------------------

static struct template_value strip(struct call *call, struct template_value of, bool left,
                                   bool right)
{
    struct template_value what = template_argument(call, 0, NULL, none);
    if (what.kind != TEMPLATE_NONE && what.kind != TEMPLATE_STRING)
        return wrong(call, "a string");
    struct text characters = what.kind == TEMPLATE_STRING ? what.string : (struct text){ 0 };
    return like(of, template_text_strip(of.string, characters, left, right));
}

static struct template_value replace(struct call *call, struct template_value of)
{
    struct text old = text_argument(call, 0), with = text_argument(call, 1);
    struct template_value most = template_argument(call, 2, NULL, template_value_whole(-1));
    if (call->run->err || most.kind != TEMPLATE_INT)
        return wrong(call, "two strings and a count");
    return template_replace(call->run, call->line, of.string, old, with, most.whole);
}

static struct template_value join(struct call *call, struct template_value of)
{
    const struct template_list *items =
        template_walk(call->run, call->line, template_argument(call, 0, NULL, none));
    for (size_t i = 0; items && i < items->count; i++)
        if (items->items[i].kind != TEMPLATE_STRING)
            return wrong(call, "strings");
    return items ? template_join(call->run, call->line, of.string, items) : of;
}

static struct template_value cut_affix(struct call *call, struct template_value of, bool prefix)
{
    struct text affix = text_argument(call, 0), text = of.string;
    if (call->run->err || !(prefix ? starts : ends)(text, affix))
        return of;
    text.at += prefix ? affix.size : 0;
    text.size -= affix.size;
    return like(of, text);
}

static struct template_value string_method(struct call *call, struct template_value of)
{
    struct text name = call->name;
    call->run->steps += (int64_t)(of.string.size >> 6);
    if (text_is(name, "strip") || text_is(name, "lstrip") || text_is(name, "rstrip"))
        return strip(call, of, name.at[0] != 'r', name.at[0] != 'l');
    if (text_is(name, "split") || text_is(name, "rsplit"))
        return split(call, of, name.at[0] == 'r');
    if (text_is(name, "splitlines"))
        return split_lines(call, of);
    if (text_is(name, "startswith") || text_is(name, "endswith"))
        return starts_or_ends(call, of, name.at[0] == 's' ? starts : ends);
    if (text_is(name, "upper") || text_is(name, "lower"))
        return template_changed_case(call->run, call->line, of.string, name.at[0] == 'u');
    if (text_is(name, "title") || text_is(name, "capitalize"))
        return in_titles(call, of, name.at[0] == 't');
    if (text_is(name, "replace"))
        return replace(call, of);
    if (text_is(name, "join"))
        return join(call, of);
    if (text_is(name, "format"))
        return format(call, of);
    if (text_is(name, "find") || text_is(name, "rfind"))
        return find_in(call, of, name.at[0] == 'r', false);
    if (text_is(name, "index") || text_is(name, "rindex"))
        return find_in(call, of, name.at[0] == 'r', true);
    if (text_is(name, "count"))
        return count_in(call, of);
    if (text_is(name, "removeprefix") || text_is(name, "removesuffix"))
        return cut_affix(call, of, name.at[6] == 'p');
    if (text_is(name, "partition") || text_is(name, "rpartition"))
        return partition(call, of, name.at[0] == 'r');
    if (text_is(name, "zfill") || text_is(name, "rjust") || text_is(name, "ljust"))
        return filled(call, of, name.at[0] != 'l');
    static const char *const classes[] = { "isdigit", "isspace", "isalpha",   "isalnum",  "isupper",
                                           "islower", "isascii", "isnumeric", "isdecimal" };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (text_is(name, classes[i]))
            return all_are(call, of);
    return template_stop(call->run, call->line, "the string method %.*s is not supported",
                         TEXT_ARGS(name));
}

static struct template_value refuse_change(struct call *call, const char *type)
{
    return template_stop(call->run, call->line,
                         "the method %.*s of a %s is forbidden: templates cannot modify values",
                         TEXT_ARGS(call->name), type);
}

static struct template_value dict_parts(struct call *call, const struct template_dict *dict)
{
    struct template_run *run = call->run;
    if (!template_take(run, call->line, dict->count * 4 * sizeof(struct template_value)))
        return none;
    struct template_value parts = template_value_list(&run->arena, TEMPLATE_VIEW, dict->count);
    for (size_t i = 0; i < dict->count; i++) {
        const struct template_entry *entry = &dict->entries[i];
        parts.list->items[parts.list->count++] = text_is(call->name, "keys") ? entry->key
                                                 : text_is(call->name, "values")
                                                     ? entry->value
                                                     : pair_of(run, entry->key, entry->value);
    }
    return parts;
}

static struct template_value dict_method(struct call *call, struct template_value of)
{
    if (text_is(call->name, "get")) {
        struct template_value *found =
            template_value_find_key(of.dict, template_argument(call, 0, NULL, none));
        if (call->count < 1 || call->positional < call->count)
            return wrong(call, "a key and a default");
        return found ? *found : template_argument(call, 1, NULL, none);
    }
    if (text_is(call->name, "items") || text_is(call->name, "keys") ||
        text_is(call->name, "values"))
        return dict_parts(call, of.dict);
    if (text_is(call->name, "copy"))
        return of; // values are immutable here
    return refuse_change(call, "dict");
}

static struct template_value list_method(struct call *call, struct template_value of)
{
    struct template_value what = template_argument(call, 0, NULL, none);
    int64_t count = 0;
    if (text_is(call->name, "copy"))
        return of;
    if (!text_is(call->name, "count") && !text_is(call->name, "index"))
        return refuse_change(call, "list");
    for (size_t i = 0; i < of.list->count && !call->run->err; i++) {
        if (!template_equal(call->run, call->line, of.list->items[i], what))
            continue;
        if (text_is(call->name, "index"))
            return template_value_whole((int64_t)i);
        count++;
    }
    return text_is(call->name, "index") ? wrong(call, "an item of the list")
                                        : template_value_whole(count);
}

struct template_value template_method_apply(struct call *call, struct template_value of)
{
    switch (of.kind) {
    case TEMPLATE_STRING: return string_method(call, of);
    case TEMPLATE_DICT: return dict_method(call, of);
    case TEMPLATE_LOOP: // cycle: one argument per pass
        return call->count ? call->values[of.loop->index % (size_t)call->count]
                           : wrong(call, "arguments");
    default: return list_method(call, of);
    }
}
