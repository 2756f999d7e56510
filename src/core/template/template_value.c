// SPDX-License-Identifier: Apache-2.0
// Values of templates: lists and dicts, reading JSON, truth and equality as in Python.

#include "core/template/template_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HASHED_KEYS = 24 }; // objects with more keys than this are read with a hash table

struct template_value template_value_string(struct text string)
{
    return (struct template_value){ .kind = TEMPLATE_STRING, .string = string };
}

struct template_value template_value_whole(int64_t whole)
{
    return (struct template_value){ .kind = TEMPLATE_INT, .whole = whole };
}

struct template_value template_value_flag(bool flag)
{
    return (struct template_value){ .kind = TEMPLATE_BOOL, .flag = flag };
}

struct template_value template_value_list(struct arena *arena, enum template_flavour flavour,
                                          size_t room)
{
    struct template_list *list = ARENA_NEW(arena, struct template_list, 1);
    list->flavour = flavour;
    list->room = room;
    list->items = room ? ARENA_NEW(arena, struct template_value, room) : NULL;
    return (struct template_value){ .kind = TEMPLATE_LIST, .list = list };
}

struct template_value template_value_dict(struct arena *arena, size_t room)
{
    struct template_dict *dict = ARENA_NEW(arena, struct template_dict, 1);
    dict->room = room;
    dict->entries = room ? ARENA_NEW(arena, struct template_entry, room) : NULL;
    return (struct template_value){ .kind = TEMPLATE_DICT, .dict = dict };
}

void template_value_append(struct arena *arena, struct template_list *list,
                           struct template_value item)
{
    list->items = arena_room(arena, list->items, sizeof *list->items, list->count, &list->room);
    list->items[list->count++] = item;
}

struct template_value *template_value_find(const struct template_dict *dict, struct text key)
{
    for (size_t i = 0; i < dict->count; i++) {
        const struct template_value *have = &dict->entries[i].key;
        if (have->kind == TEMPLATE_STRING && have->string.size == key.size &&
            !memcmp(have->string.at, key.at, key.size))
            return &dict->entries[i].value;
    }
    return NULL;
}

struct template_value *template_value_find_key(const struct template_dict *dict,
                                               struct template_value key)
{
    if (key.kind == TEMPLATE_STRING)
        return template_value_find(dict, key.string);
    for (size_t i = 0; i < dict->count; i++)
        if (template_value_equal(dict->entries[i].key, key))
            return &dict->entries[i].value;
    return NULL;
}

static void put_new(struct arena *arena, struct template_dict *dict, struct template_value key,
                    struct template_value value)
{
    dict->entries =
        arena_room(arena, dict->entries, sizeof *dict->entries, dict->count, &dict->room);
    dict->entries[dict->count++] = (struct template_entry){ key, value };
}

void template_value_put(struct arena *arena, struct template_dict *dict, struct template_value key,
                        struct template_value value)
{
    struct template_value *have = template_value_find_key(dict, key);
    if (have)
        *have = value;
    else
        put_new(arena, dict, key, value);
}

// --- reading JSON ------------------------------------------------------------

static uint64_t hash(struct text text)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < text.size; i++)
        h = (h ^ (unsigned char)text.at[i]) * 1099511628211u;
    return h ^ h >> 29;
}

// A key that occurs twice keeps its first position and its last value. For objects with many keys
// an open-addressed table of entry indices avoids quadratic time.
static void drop_twins(struct arena *arena, struct template_dict *dict)
{
    size_t slots = 64;
    while (slots < dict->count * 2)
        slots *= 2;
    struct arena_mark mark = arena_mark(arena);
    uint32_t *table = ARENA_NEW(arena, uint32_t, slots);
    size_t kept = 0;
    for (size_t i = 0; i < dict->count; i++) {
        struct text key = dict->entries[i].key.string;
        size_t slot = hash(key) & (slots - 1);
        while (table[slot] && !text_equal(dict->entries[table[slot] - 1].key.string, key))
            slot = (slot + 1) & (slots - 1);
        if (table[slot]) {
            dict->entries[table[slot] - 1].value = dict->entries[i].value;
            continue;
        }
        dict->entries[kept++] = dict->entries[i];
        table[slot] = (uint32_t)kept;
    }
    dict->count = kept;
    arena_rewind(arena, mark);
}

static struct template_value take_number(struct json_reader *in)
{
    struct text digits = json_skip(in);
    if (in->problem)
        return (struct template_value){ 0 };
    bool real = false;
    for (size_t i = 0; i < digits.size; i++)
        real = real || digits.at[i] == '.' || digits.at[i] == 'e' || digits.at[i] == 'E';
    if (real) {
        struct json_reader again = json_reader(digits);
        double number = json_number(&again);
        if (again.problem)
            json_failed(in, again.problem);
        return (struct template_value){ .kind = TEMPLATE_FLOAT, .real = number };
    }
    bool negative = digits.at[0] == '-';
    uint64_t whole = 0;
    for (size_t i = negative; i < digits.size; i++) {
        unsigned digit = (unsigned)(digits.at[i] - '0');
        if (whole > ((uint64_t)INT64_MAX - digit) / 10)
            return (struct template_value){ .kind = TEMPLATE_BIG, .string = digits };
        whole = whole * 10 + digit;
    }
    return template_value_whole(negative ? -(int64_t)whole : (int64_t)whole);
}

static struct template_value take_object(struct json_reader *in, struct arena *arena)
{
    struct template_value object = template_value_dict(arena, 2);
    struct text key;
    for (json_object(in); json_key(in, arena, &key);) {
        struct template_value name = template_value_string(key);
        struct template_value value = template_value_take(in, arena);
        if (object.dict->count < HASHED_KEYS)
            template_value_put(arena, object.dict, name, value);
        else
            put_new(arena, object.dict, name, value);
    }
    if (object.dict->count > HASHED_KEYS)
        drop_twins(arena, object.dict);
    return object;
}

struct template_value template_value_take(struct json_reader *in, struct arena *arena)
{
    struct template_value value = { .kind = TEMPLATE_NONE };
    switch (json_peek(in)) {
    case JSON_NULL:
    case JSON_NONE: json_skip(in); return value;
    case JSON_BOOL: return template_value_flag(json_bool(in));
    case JSON_NUMBER: return take_number(in);
    case JSON_STRING: return template_value_string(json_string(in, arena));
    case JSON_OBJECT: return take_object(in, arena);
    case JSON_ARRAY: break;
    }
    value = template_value_list(arena, TEMPLATE_PLAIN, 4);
    for (json_array(in); json_item(in);) {
        struct template_value item = template_value_take(in, arena);
        template_value_append(arena, value.list, item);
    }
    return value;
}

enum err template_value_read(struct template_value *out, struct arena *arena, struct text in,
                             const char *name)
{
    struct json_reader reader = json_reader(in);
    *out = template_value_take(&reader, arena);
    return json_end(&reader, name);
}

// --- truth and equality ------------------------------------------------------

bool template_value_truth(struct template_value value)
{
    switch (value.kind) {
    case TEMPLATE_UNDEFINED:
    case TEMPLATE_NONE: return false;
    case TEMPLATE_BOOL: return value.flag;
    case TEMPLATE_INT: return value.whole != 0;
    case TEMPLATE_FLOAT: return value.real != 0;
    case TEMPLATE_STRING: return value.string.size > 0;
    case TEMPLATE_LIST: return value.list->count > 0 || value.list->flavour == TEMPLATE_LAZY;
    case TEMPLATE_DICT: return value.dict->count > 0;
    default: return true;
    }
}

bool template_value_is_number(struct template_value value)
{
    return value.kind == TEMPLATE_INT || value.kind == TEMPLATE_FLOAT ||
           value.kind == TEMPLATE_BOOL;
}

double template_value_real(struct template_value value)
{
    return value.kind == TEMPLATE_FLOAT  ? value.real
           : value.kind == TEMPLATE_BOOL ? value.flag
                                         : (double)value.whole;
}

struct template_budget template_value_budget(void)
{
    return (struct template_budget){ INT64_MAX, SIZE_MAX, JSON_DEPTH + 8 };
}

static bool lists_equal(const struct template_list *a, const struct template_list *b,
                        struct template_budget *budget)
{
    if (a == b)
        return true;
    if (a->flavour != b->flavour || a->count != b->count || a->flavour == TEMPLATE_LAZY)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!template_value_equal_within(a->items[i], b->items[i], budget))
            return false;
    return true;
}

static bool dicts_equal(const struct template_dict *a, const struct template_dict *b,
                        struct template_budget *budget)
{
    if (a == b)
        return true;
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct template_value *other = template_value_find_key(b, a->entries[i].key);
        budget->steps -= (int64_t)(b->count >> 3);
        if (!other || !template_value_equal_within(a->entries[i].value, *other, budget))
            return false;
    }
    return true;
}

static bool nested_equal(struct template_value a, struct template_value b,
                         struct template_budget *budget)
{
    if (--budget->depth < 0)
        budget->steps = -1;
    bool equal =
        budget->steps >= 0 && (a.kind == TEMPLATE_LIST ? lists_equal(a.list, b.list, budget)
                                                       : dicts_equal(a.dict, b.dict, budget));
    budget->depth++;
    return equal;
}

bool template_value_equal_within(struct template_value a, struct template_value b,
                                 struct template_budget *budget)
{
    if (budget->steps < 0 || --budget->steps < 0)
        return false;
    if (a.kind == TEMPLATE_INT && b.kind == TEMPLATE_INT)
        return a.whole == b.whole;
    if (template_value_is_number(a) && template_value_is_number(b))
        return template_value_real(a) == template_value_real(b);
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case TEMPLATE_STRING:
        budget->steps -= (int64_t)(a.string.size >> 6);
        return text_equal(a.string, b.string);
    case TEMPLATE_BIG: return text_equal(a.string, b.string);
    case TEMPLATE_LIST:
    case TEMPLATE_DICT: return nested_equal(a, b, budget);
    case TEMPLATE_UNDEFINED:
    case TEMPLATE_NONE: return true;
    case TEMPLATE_FUNCTION: return a.whole == b.whole;
    default: return a.dict == b.dict; // identity
    }
}

bool template_value_equal(struct template_value a, struct template_value b)
{
    struct template_budget budget = template_value_budget();
    return template_value_equal_within(a, b, &budget);
}

const char *template_value_kind_name(struct template_value value)
{
    static const char *const names[] = { "undefined", "None",     "bool",  "int",  "float",
                                         "int",       "str",      "list",  "dict", "namespace",
                                         "function",  "function", "macro", "loop" };
    static const char *const lists[] = { "list", "tuple", "dict_items", "range", "generator" };
    return value.kind == TEMPLATE_LIST ? lists[value.list->flavour] : names[value.kind];
}
