// SPDX-License-Identifier: Apache-2.0
// template_internal: shared by the files of the template engine: tokens, syntax tree, a render.

#pragma once

#include "core/template/template.h"

// --- tokens ------------------------------------------------------------------

enum token_kind {
    TOKEN_END,
    TOKEN_DATA, // text between tags, after white space control
    TOKEN_OPEN_OUTPUT,
    TOKEN_CLOSE_OUTPUT,
    TOKEN_OPEN_BLOCK,
    TOKEN_CLOSE_BLOCK,
    TOKEN_NAME,
    TOKEN_STRING, // escapes decoded
    TOKEN_WHOLE,
    TOKEN_REAL,
    TOKEN_SIGN, // the operator or bracket in text
};

struct token {
    enum token_kind kind;
    int line;
    struct text text;
};

struct tokens {
    struct token *items; // the last is TOKEN_END
    size_t count;
};

enum err template_lex(struct tokens *out, struct arena *arena, struct text source,
                      const char *name);

// --- nodes -------------------------------------------------------------------

enum node_kind {
    // expressions
    NODE_CONST,
    NODE_NAME,
    NODE_ATTRIBUTE, // a.name
    NODE_ITEM,      // a[b]
    NODE_SLICE,     // a[items[0]:items[1]:items[2]], each may be NULL
    NODE_CALL,      // a(arguments)
    NODE_FILTER,    // a|name(arguments); a is NULL for the text of a filter block
    NODE_TEST,      // a is name(arguments)
    NODE_NOT,
    NODE_NEGATE,
    NODE_POSITIVE,
    NODE_AND,
    NODE_OR,
    NODE_CHOICE,  // b if a else c
    NODE_SUM,     // items with + between them
    NODE_CONCAT,  // items with ~ between them
    NODE_MATH,    // a op b
    NODE_COMPARE, // items[0] ops[0] items[1] ops[1] …
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT, // items: key, value, key, value
    // statements
    NODE_DATA,
    NODE_OUTPUT,    // a
    NODE_IF,        // a: condition, body, orelse (another statement list)
    NODE_FOR,       // items: targets; a: iterated, b: filter; body, orelse
    NODE_SET,       // items: targets; a: value
    NODE_SET_BLOCK, // items[0]: target; body; b: filter chain
    NODE_MACRO,     // arguments: parameters and defaults; body
    NODE_GENERATION,
    NODE_FILTER_BLOCK, // body; b: filter chain
    NODE_WITH,         // items: targets; values; body
    NODE_BREAK,
    NODE_CONTINUE,
};

enum operator_kind {
    OPERATOR_MINUS,
    OPERATOR_TIMES,
    OPERATOR_DIVIDE,
    OPERATOR_FLOOR,
    OPERATOR_MODULO,
    OPERATOR_POWER,
    OPERATOR_EQUAL,
    OPERATOR_UNEQUAL,
    OPERATOR_LESS,
    OPERATOR_LESS_EQUAL,
    OPERATOR_MORE,
    OPERATOR_MORE_EQUAL,
    OPERATOR_IN,
    OPERATOR_NOT_IN,
};

struct template_argument {
    struct text name; // .at NULL when by position
    struct template_node *value;
    int slot; // of a macro's parameter
};

// A name that a scope sets, and the slot its value is copied from when the scope is entered.
struct template_binding {
    int name, slot, outer; // outer -1: starts undefined
};

struct template_scope {
    struct template_scope *parent;
    struct template_binding *bindings;
    int count;
    size_t room;
    int fixed; // the first bindings, targets and parameters, are not copied on entry
};

struct template_node {
    enum node_kind kind;
    enum operator_kind operator;
    int line;
    int slot;                   // of a name, a macro or the loop variable
    int first_slot, slot_count; // of a macro: the slots of one call
    int function;               // of a filter or test
    struct text name;
    struct template_value value;
    struct template_node *a, *b, *c;
    struct template_node **items; // expressions
    struct template_argument *arguments;
    enum operator_kind *operators;
    int count, argument_count;
    struct template_node *body, *orelse; // statements
    struct template_node *next;          // next statement
    struct template_scope *scope;
};

struct template
{
    const char *name;
    struct template_node *body;
    struct text *names; // of the variables
    int name_count;
    int *slot_of_name; // slot of the caller's value; -1 if never read
    struct template_value *initial;
    int slot_count;
    bool has_generation;
};

// --- a running render --------------------------------------------------------

struct template_loop {
    const struct template_list *items;
    size_t index;
};

struct template_method {
    struct template_value receiver;
    struct text name;
};

// The arguments of one call of a filter, test, method, function or macro.
struct call {
    struct template_run *run;
    int line;
    const char *what; // "filter", "method" … for error messages
    struct text name;
    struct template_value values[TEMPLATE_ARGUMENTS];
    struct text names[TEMPLATE_ARGUMENTS]; // .at NULL when by position
    int count, positional;
};

// Starts a call. Its arrays are not cleared: they are read up to count only.
static inline void template_begin(struct call *call, struct template_run *run, int line,
                                  const char *what, struct text name)
{
    call->run = run;
    call->line = line;
    call->what = what;
    call->name = name;
    call->count = call->positional = 0;
}

// Reports the first failure of a run; later ones are ignored. Returns an undefined value.
struct template_value template_stop(struct template_run *run, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void *template_take(struct template_run *run, int line,
                    size_t size); // scratch; NULL over the limit
void template_charge(struct template_run *run, int line,
                     size_t size); // counts scratch taken elsewhere
struct template_budget template_budget(
    const struct template_run *run); // what is left of the limits
bool template_equal(struct template_run *run, int line, struct template_value a,
                    struct template_value b);

struct template_value template_eval(struct template_run *run, const struct template_node *node);
void template_write(struct template_run *run, int line, struct template_value value);
struct template_value template_call_macro(struct template_run *run, struct call *call,
                                          const struct template_node *macro, bool captured);
void template_read_arguments(struct template_run *run, struct call *call,
                             const struct template_node *node);

// An argument by position or name; `otherwise` if it was not given.
struct template_value template_argument(const struct call *call, int index, const char *name,
                                        struct template_value otherwise);
bool template_has_argument(const struct call *call, int index, const char *name);

struct template_value template_attribute(struct template_run *run, int line,
                                         struct template_value of, struct text name);
struct template_value template_item(struct template_run *run, int line, struct template_value of,
                                    struct template_value key);
struct template_value template_slice(struct template_run *run, int line, struct template_value of,
                                     const struct template_value bounds[3]);
struct template_value template_math(struct template_run *run, int line, enum operator_kind op,
                                    struct template_value a, struct template_value b);
struct template_value template_add(struct template_run *run, int line, struct template_value a,
                                   struct template_value b);
// -1, 0, 1 for a before, equal to, after b; stops the run where Python cannot order them.
int template_order(struct template_run *run, int line, struct template_value a,
                   struct template_value b);
bool template_contains(struct template_run *run, int line, struct template_value in,
                       struct template_value what);
// What a for loop iterates over: items of a list, keys of a dict, characters of a string.
const struct template_list *template_walk(struct template_run *run, int line,
                                          struct template_value of);
struct template_value template_string(struct template_run *run, int line,
                                      struct template_value of); // str()
struct template_value template_join(struct template_run *run, int line, struct text between,
                                    const struct template_list *items);

// The index of a filter, test or global function by name; -1 if there is none. known_elsewhere is
// set if jinja2 has it and this engine does not, so that the error can say "not supported".
int template_filter_find(struct text name, bool *known_elsewhere);
int template_test_find(struct text name, bool *known_elsewhere);
int template_function_find(struct text name, bool *known_elsewhere);
struct template_value template_filter_apply(int filter, struct call *call,
                                            struct template_value of);
bool template_test_apply(int test, struct call *call, struct template_value of);
struct template_value template_function_apply(int function, struct call *call);

bool template_method_has(struct template_value of, struct text name); // as Python's type does
struct template_value template_method_apply(struct call *call, struct template_value of);
struct template_value template_replace(struct template_run *run, int line, struct text in,
                                       struct text old, struct text with, int64_t most);
struct template_value template_format_percent(struct template_run *run, int line,
                                              struct text format, struct template_value with);
struct template_value template_changed_case(struct template_run *run, int line, struct text text,
                                            bool upper);
