// SPDX-License-Identifier: Apache-2.0
// template_value: the values of templates, with the semantics of Python's.
//
// A value is 24 bytes and is passed by copy. Strings are views; lists and dicts point into an
// arena. JSON is read directly into values:
//
//     struct template_value messages;
//     TRY(template_value_read(&messages, arena, text, "row 12"));
//
// A list has a flavour, because Python prints, tests and indexes lists, tuples, dict views and
// generators differently, and real templates depend on that.

#pragma once

#include "base/json.h"

enum template_kind {
    TEMPLATE_UNDEFINED, // string holds its name
    TEMPLATE_NONE,
    TEMPLATE_BOOL,
    TEMPLATE_INT,
    TEMPLATE_FLOAT,
    TEMPLATE_BIG, // an integer beyond 64 bits: string holds its digits; no arithmetic
    TEMPLATE_STRING,
    TEMPLATE_LIST,
    TEMPLATE_DICT,
    TEMPLATE_NAMESPACE,
    TEMPLATE_FUNCTION,
    TEMPLATE_METHOD,
    TEMPLATE_MACRO,
    TEMPLATE_LOOP,
};

enum template_flavour {
    TEMPLATE_PLAIN, // a list
    TEMPLATE_TUPLE,
    TEMPLATE_VIEW,  // dict.items() and the like: no index
    TEMPLATE_RANGE, // prints as range(…)
    TEMPLATE_LAZY,  // a generator: always true, no length, empty after one iteration
};

struct template_value {
    enum template_kind kind;
    bool markup; // a string that went through |safe or |escape
    union {
        bool flag;
        int64_t whole; // also the index of a function
        double real;
        struct text string;
        struct template_list *list;
        struct template_dict *dict; // also for a namespace
        struct template_method *method;
        const struct template_node *macro;
        const struct template_loop *loop;
    };
};

struct template_list {
    struct template_value *items;
    size_t count, room;
    enum template_flavour flavour;
    bool walked;
};

struct template_entry {
    struct template_value key, value;
};

struct template_dict { // keys are unique, in the order of insertion
    struct template_entry *entries;
    size_t count, room;
};

struct template_value template_value_string(struct text string);
struct template_value template_value_whole(int64_t whole);
struct template_value template_value_flag(bool flag);
struct template_value template_value_list(struct arena *arena, enum template_flavour flavour,
                                          size_t room);
struct template_value template_value_dict(struct arena *arena, size_t room);

void template_value_append(struct arena *arena, struct template_list *list,
                           struct template_value item);
void template_value_put(struct arena *arena, struct template_dict *dict, struct template_value key,
                        struct template_value value);
struct template_value *template_value_find(const struct template_dict *dict, struct text key);
struct template_value *template_value_find_key(const struct template_dict *dict,
                                               struct template_value key);

// Reads one value from a JSON stream.
struct template_value template_value_take(struct json_reader *in, struct arena *arena);
enum err template_value_read(struct template_value *out, struct arena *arena, struct text in,
                             const char *name);

// Values built by a template may share parts many times or be nested very deeply. Functions that
// traverse them take a budget; steps is negative if it was exceeded.
struct template_budget {
    int64_t steps;
    size_t out_bytes; // largest size of the output
    int depth;
};
struct template_budget template_value_budget(void); // enough for any value read from JSON

bool template_value_is_number(struct template_value value); // int, float or bool
double template_value_real(struct template_value number);
bool template_value_truth(struct template_value value);
bool template_value_equal(struct template_value a, struct template_value b);
bool template_value_equal_within(struct template_value a, struct template_value b,
                                 struct template_budget *budget);
const char *template_value_kind_name(struct template_value value); // as Python names its type

// Writes what Python's str() writes. False, without an error message, for values that have no
// portable form: functions, generators, namespaces.
bool template_value_print(struct out *out, struct template_value value,
                          struct template_budget *budget);
void template_value_print_real(struct out *out, double real);

// Writes what Python's json.dumps() writes, with ensure_ascii=False unless ascii is set. A negative
// indent means none. Returns NULL on success, else what cannot be written.
struct template_json {
    int indent;
    struct text item_separator, key_separator;
    bool ascii, sorted;
};
const char *template_value_json(struct out *out, struct arena *arena, struct template_value value,
                                const struct template_json *style, struct template_budget *budget);
