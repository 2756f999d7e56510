// SPDX-License-Identifier: Apache-2.0
// Parses the expressions of a template, with the precedence that jinja2 gives its operators.

#include "core/template/template_parser.h"

#include <stdlib.h>
#include <string.h>

static void add_item(struct parser *in, struct template_node *node, struct template_node *item)
{
    size_t size = sizeof *node->items;
    if ((node->count & (node->count - 1)) == 0) { // room doubles at powers of two
        size_t room = node->count ? (size_t)node->count * 2 : 1;
        node->items = arena_grow(in->arena, node->items, (size_t)node->count * size, room * size);
    }
    node->items[node->count++] = item;
}

static struct template_node *pair(struct parser *in, enum node_kind kind, struct template_node *a,
                                  struct template_node *b)
{
    struct template_node *node = template_node(in, kind);
    node->a = a;
    node->b = b;
    return node;
}

static struct template_node *constant(struct parser *in, struct template_value value)
{
    struct template_node *node = template_node(in, NODE_CONST);
    node->value = value;
    return node;
}

// --- what an expression starts with ------------------------------------------

static struct template_node *parse_string(struct parser *in)
{
    struct template_node *node = constant(in, template_value_string(in->at->text));
    in->at++;
    if (in->at->kind != TOKEN_STRING)
        return node;
    struct out out = { .arena = in->arena };
    out_bytes(&out, node->value.string.at, node->value.string.size);
    for (; in->at->kind == TOKEN_STRING; in->at++)
        out_bytes(&out, in->at->text.at, in->at->text.size);
    node->value.string = out_view(&out);
    return node;
}

static struct template_node *parse_number(struct parser *in)
{
    char digits[64];
    size_t size = 0;
    struct token *token = in->at++;
    for (size_t i = 0; i < token->text.size && size < sizeof digits - 1; i++)
        if (token->text.at[i] != '_')
            digits[size++] = token->text.at[i];
    digits[size] = 0;
    if (size == sizeof digits - 1 || (token->kind == TOKEN_WHOLE && size > 18))
        return template_refuse(in, "a number of %zu digits is too long", token->text.size);
    if (token->kind == TOKEN_WHOLE)
        return constant(in, template_value_whole(strtoll(digits, NULL, 10)));
    return constant(
        in, (struct template_value){ .kind = TEMPLATE_FLOAT, .real = strtod(digits, NULL) });
}

static struct template_node *parse_list(struct parser *in)
{
    struct template_node *node = template_node(in, NODE_LIST);
    while (!in->err && !template_next_is(in, TOKEN_SIGN, "]")) {
        if (node->count &&
            (!template_expect(in, TOKEN_SIGN, ",") || template_next_is(in, TOKEN_SIGN, "]")))
            break;
        add_item(in, node, template_parse_expression(in, true));
    }
    template_expect(in, TOKEN_SIGN, "]");
    return node;
}

static struct template_node *parse_dict(struct parser *in)
{
    struct template_node *node = template_node(in, NODE_DICT);
    while (!in->err && !template_next_is(in, TOKEN_SIGN, "}")) {
        if (node->count &&
            (!template_expect(in, TOKEN_SIGN, ",") || template_next_is(in, TOKEN_SIGN, "}")))
            break;
        add_item(in, node, template_parse_expression(in, true));
        template_expect(in, TOKEN_SIGN, ":");
        add_item(in, node, template_parse_expression(in, true));
    }
    template_expect(in, TOKEN_SIGN, "}");
    return node;
}

static struct template_node *parse_name(struct parser *in)
{
    static const char *const words[] = { "true", "True", "false", "False", "none", "None" };
    struct text name = in->at->text;
    for (int i = 0; i < 6; i++)
        if (text_is(name, words[i])) {
            in->at++;
            return constant(in, i < 4 ? template_value_flag(i < 2)
                                      : (struct template_value){ .kind = TEMPLATE_NONE });
        }
    struct template_node *node = template_use(in, name);
    in->at++;
    return node;
}

static struct template_node *parse_primary(struct parser *in)
{
    switch (in->at->kind) {
    case TOKEN_NAME: return parse_name(in);
    case TOKEN_STRING: return parse_string(in);
    case TOKEN_WHOLE:
    case TOKEN_REAL: return parse_number(in);
    default: break;
    }
    if (template_accept(in, TOKEN_SIGN, "(")) {
        struct template_node *node = template_parse_tuple(in, true, true);
        template_expect(in, TOKEN_SIGN, ")");
        return node;
    }
    if (template_accept(in, TOKEN_SIGN, "["))
        return parse_list(in);
    if (template_accept(in, TOKEN_SIGN, "{"))
        return parse_dict(in);
    struct text found = template_token_spelling(in->at);
    return template_refuse(in, "expected an expression, found %.*s", TEXT_ARGS(found));
}

// --- calls, indexes and attributes ------------------------------------------------------

static void parse_arguments(struct parser *in, struct template_node *node)
{
    struct template_argument arguments[TEMPLATE_ARGUMENTS];
    int count = 0;
    while (!in->err && !template_next_is(in, TOKEN_SIGN, ")")) {
        if (count &&
            (!template_expect(in, TOKEN_SIGN, ",") || template_next_is(in, TOKEN_SIGN, ")")))
            break;
        if (template_next_is(in, TOKEN_SIGN, "*") || template_next_is(in, TOKEN_SIGN, "**")) {
            template_refuse(in, "*arguments in a call are not supported");
            return;
        }
        if (count == TEMPLATE_ARGUMENTS) {
            template_refuse(in, "a call has more than %d arguments", TEMPLATE_ARGUMENTS);
            return;
        }
        struct template_argument *argument = &arguments[count++];
        *argument = (struct template_argument){ 0 };
        if (in->at->kind == TOKEN_NAME && in->at[1].kind == TOKEN_SIGN &&
            text_is(in->at[1].text, "=")) {
            argument->name = in->at->text;
            in->at += 2;
        } else if (count > 1 && arguments[count - 2].name.at) {
            template_refuse(in, "a positional argument follows a named one");
        }
        argument->value = template_parse_expression(in, true);
    }
    template_expect(in, TOKEN_SIGN, ")");
    node->arguments = ARENA_NEW(in->arena, struct template_argument, count ? count : 1);
    memcpy(node->arguments, arguments, (size_t)count * sizeof *arguments);
    node->argument_count = count;
}

static struct template_node *parse_subscript(struct parser *in, struct template_node *of)
{
    struct template_node *bounds[3] = { 0 };
    int count = 0;
    bool sliced = false;
    for (;;) {
        if (!template_next_is(in, TOKEN_SIGN, ":") && !template_next_is(in, TOKEN_SIGN, "]"))
            bounds[count] = template_parse_expression(in, true);
        if (in->err || !template_next_is(in, TOKEN_SIGN, ":") || count == 2)
            break;
        in->at++;
        sliced = true;
        count++;
    }
    if (template_next_is(in, TOKEN_SIGN, ","))
        return template_refuse(in, "an index of several values is not supported");
    template_expect(in, TOKEN_SIGN, "]");
    if (!sliced)
        return bounds[0] || in->err ? pair(in, NODE_ITEM, of, bounds[0])
                                    : template_refuse(in, "an index is empty");
    struct template_node *node = pair(in, NODE_SLICE, of, NULL);
    node->items = ARENA_NEW(in->arena, struct template_node *, 3);
    memcpy(node->items, bounds, sizeof bounds);
    return node;
}

static struct template_node *parse_call(struct parser *in, struct template_node *of)
{
    struct template_node *call = pair(in, NODE_CALL, of, NULL);
    parse_arguments(in, call);
    return call;
}

static struct template_node *parse_postfix(struct parser *in, struct template_node *node)
{
    int depth = 0;
    for (; !in->err; depth++) {
        if (depth > 200)
            return template_refuse(
                in, "an expression chains more than 200 calls, indexes and attributes");
        if (template_accept(in, TOKEN_SIGN, "[")) {
            node = parse_subscript(in, node);
        } else if (template_accept(in, TOKEN_SIGN, "(")) {
            node = parse_call(in, node);
        } else if (template_accept(in, TOKEN_SIGN, ".")) {
            struct template_node *of = node;
            if (in->at->kind == TOKEN_WHOLE) {
                node = pair(in, NODE_ITEM, of, parse_number(in));
            } else {
                node = pair(in, NODE_ATTRIBUTE, of, NULL);
                node->name = template_expect_name(in);
            }
        } else {
            break;
        }
    }
    return node;
}

static struct text dotted_name(struct parser *in)
{
    struct text name = template_expect_name(in);
    if (template_next_is(in, TOKEN_SIGN, "."))
        template_refuse(in, "filter and test names cannot contain a dot");
    return name;
}

// Finds a filter or test. Inside an if, an unknown one is an error only when it is evaluated.
static int find_function(struct parser *in, const char *what, struct text name,
                         int (*find)(struct text, bool *))
{
    bool elsewhere = false;
    int found = find(name, &elsewhere);
    if (found < 0 && elsewhere)
        template_refuse(in, "the %s %.*s is not supported", what, TEXT_ARGS(name));
    else if (found < 0 && !in->soft)
        template_refuse(in, "unknown %s %.*s", what, TEXT_ARGS(name));
    return found;
}

struct template_node *template_parse_filters(struct parser *in, struct template_node *of,
                                             bool inline_start)
{
    int depth = 0;
    while (!in->err && (inline_start || template_accept(in, TOKEN_SIGN, "|"))) {
        inline_start = false;
        if (depth++ > 100)
            return template_refuse(in, "a chain of more than 100 filters");
        struct template_node *node = pair(in, NODE_FILTER, of, NULL);
        node->name = dotted_name(in);
        node->function = find_function(in, "filter", node->name, template_filter_find);
        if (template_accept(in, TOKEN_SIGN, "("))
            parse_arguments(in, node);
        of = node;
    }
    return of;
}

static bool starts_test_argument(const struct parser *in)
{
    switch (in->at->kind) {
    case TOKEN_NAME:
        return !text_is(in->at->text, "else") && !text_is(in->at->text, "or") &&
               !text_is(in->at->text, "and");
    case TOKEN_STRING:
    case TOKEN_WHOLE:
    case TOKEN_REAL: return true;
    default: return template_next_is(in, TOKEN_SIGN, "[") || template_next_is(in, TOKEN_SIGN, "{");
    }
}

static struct template_node *parse_test(struct parser *in, struct template_node *of)
{
    bool negated = template_accept(in, TOKEN_NAME, "not");
    struct template_node *node = pair(in, NODE_TEST, of, NULL);
    node->name = dotted_name(in);
    node->function = find_function(in, "test", node->name, template_test_find);
    if (template_accept(in, TOKEN_SIGN, "(")) {
        parse_arguments(in, node);
    } else if (starts_test_argument(in)) {
        if (template_next_is(in, TOKEN_NAME, "is"))
            return template_refuse(in, "tests cannot be chained with is");
        node->arguments = ARENA_NEW(in->arena, struct template_argument, 1);
        node->arguments[0].value = parse_postfix(in, parse_primary(in));
        node->argument_count = 1;
    }
    return negated ? pair(in, NODE_NOT, node, NULL) : node;
}

static struct template_node *parse_filters_and_tests(struct parser *in, struct template_node *node)
{
    for (int depth = 0; !in->err; depth++) {
        if (depth > 100)
            return template_refuse(in, "a chain of more than 100 filters and tests");
        if (template_next_is(in, TOKEN_SIGN, "|"))
            node = template_parse_filters(in, node, false);
        else if (template_accept(in, TOKEN_NAME, "is"))
            node = parse_test(in, node);
        else if (template_accept(in, TOKEN_SIGN, "("))
            node = parse_call(in, node);
        else
            break;
    }
    return node;
}

// --- operators, tightest binding first ---------------------------------------------

static struct template_node *parse_unary(struct parser *in, bool with_filters)
{
    if (!template_enter(in))
        return NULL;
    struct template_node *node;
    if (template_accept(in, TOKEN_SIGN, "-"))
        node = pair(in, NODE_NEGATE, parse_unary(in, false), NULL);
    else if (template_accept(in, TOKEN_SIGN, "+"))
        node = pair(in, NODE_POSITIVE, parse_unary(in, false), NULL);
    else
        node = parse_primary(in);
    node = parse_postfix(in, node);
    if (with_filters)
        node = parse_filters_and_tests(in, node);
    in->depth--;
    return node;
}

static struct template_node *math(struct parser *in, enum operator_kind operator,
                                  struct template_node * a, struct template_node *b)
{
    struct template_node *node = pair(in, NODE_MATH, a, b);
    node->operator= operator;
    return node;
}

static struct template_node *parse_power(struct parser *in)
{
    struct template_node *left = parse_unary(in, true);
    while (template_accept(in, TOKEN_SIGN, "**"))
        left = math(in, OPERATOR_POWER, left, parse_unary(in, true));
    return left;
}

static struct template_node *parse_product(struct parser *in)
{
    static const char *const signs[] = { "*", "/", "//", "%" };
    struct template_node *left = parse_power(in);
    for (int i = 0; i < 4 && !in->err; i++)
        if (template_accept(in, TOKEN_SIGN, signs[i])) {
            left = math(in, (enum operator_kind)(OPERATOR_TIMES + i), left, parse_power(in));
            i = -1;
        }
    return left;
}

static struct template_node *parse_concat(struct parser *in)
{
    struct template_node *first = parse_product(in);
    if (!template_next_is(in, TOKEN_SIGN, "~"))
        return first;
    struct template_node *node = template_node(in, NODE_CONCAT);
    add_item(in, node, first);
    while (template_accept(in, TOKEN_SIGN, "~"))
        add_item(in, node, parse_product(in));
    return node;
}

static struct template_node *parse_sum(struct parser *in)
{
    struct template_node *left = parse_concat(in);
    bool open = false; // left is a sum that was started here and takes more items
    while (!in->err) {
        if (template_accept(in, TOKEN_SIGN, "-")) {
            left = math(in, OPERATOR_MINUS, left, parse_concat(in));
            open = false;
        } else if (template_accept(in, TOKEN_SIGN, "+")) {
            if (!open) {
                struct template_node *sum = template_node(in, NODE_SUM);
                add_item(in, sum, left);
                left = sum;
                open = true;
            }
            add_item(in, left, parse_concat(in));
        } else {
            break;
        }
    }
    return left;
}

static bool accept_comparison(struct parser *in, enum operator_kind *operator)
{
    static const char *const signs[] = { "==", "!=", "<", "<=", ">", ">=" };
    for (int i = 0; i < 6; i++)
        if (template_accept(in, TOKEN_SIGN, signs[i])) {
            *operator=(enum operator_kind)(OPERATOR_EQUAL + i);
            return true;
        }
    if (template_accept(in, TOKEN_NAME, "in")) {
        *operator= OPERATOR_IN;
        return true;
    }
    if (template_next_is(in, TOKEN_NAME, "not") && in->at[1].kind == TOKEN_NAME &&
        text_is(in->at[1].text, "in")) {
        in->at += 2;
        *operator= OPERATOR_NOT_IN;
        return true;
    }
    return false;
}

static struct template_node *parse_comparison(struct parser *in)
{
    struct template_node *first = parse_sum(in);
    enum operator_kind operators[16];
    if (!accept_comparison(in, &operators[0]))
        return first;
    struct template_node *node = template_node(in, NODE_COMPARE);
    add_item(in, node, first);
    int count = 1;
    do {
        add_item(in, node, parse_sum(in));
        if (count == 16)
            return template_refuse(in, "a chain of more than 16 comparisons");
    } while (!in->err && accept_comparison(in, &operators[count]) && count++);
    node->operators = ARENA_NEW(in->arena, enum operator_kind, count);
    memcpy(node->operators, operators, (size_t)count * sizeof *operators);
    return node;
}

static struct template_node *parse_not(struct parser *in)
{
    int count = 0;
    for (; template_accept(in, TOKEN_NAME, "not"); count++)
        if (count > 50)
            return template_refuse(in, "more than 50 not operators in a row");
    struct template_node *node = parse_comparison(in);
    while (count-- > 0)
        node = pair(in, NODE_NOT, node, NULL);
    return node;
}

// A chain of and/or becomes one node, so that a long chain does not nest.
static struct template_node *parse_chain(struct parser *in, enum node_kind kind, const char *word,
                                         struct template_node *(*parse)(struct parser *))
{
    struct template_node *first = parse(in);
    if (!template_next_is(in, TOKEN_NAME, word))
        return first;
    struct template_node *node = template_node(in, kind);
    add_item(in, node, first);
    while (template_accept(in, TOKEN_NAME, word))
        add_item(in, node, parse(in));
    return node;
}

static struct template_node *parse_and(struct parser *in)
{
    return parse_chain(in, NODE_AND, "and", parse_not);
}

static struct template_node *parse_or(struct parser *in)
{
    return parse_chain(in, NODE_OR, "or", parse_and);
}

struct template_node *template_parse_expression(struct parser *in, bool with_choice)
{
    if (!template_enter(in))
        return NULL;
    struct template_node *node = parse_or(in);
    while (with_choice && template_accept(in, TOKEN_NAME, "if")) {
        struct template_node *choice = template_node(in, NODE_CHOICE);
        in->soft++;
        choice->b = node;
        choice->a = parse_or(in);
        if (template_accept(in, TOKEN_NAME, "else"))
            choice->c = template_parse_expression(in, true);
        in->soft--;
        node = choice;
    }
    in->depth--;
    return node;
}

static bool ends_tuple(const struct parser *in)
{
    return in->at->kind == TOKEN_CLOSE_OUTPUT || in->at->kind == TOKEN_CLOSE_BLOCK ||
           template_next_is(in, TOKEN_SIGN, ")");
}

struct template_node *template_parse_tuple(struct parser *in, bool with_choice, bool parentheses)
{
    if (parentheses && template_next_is(in, TOKEN_SIGN, ")"))
        return template_node(in, NODE_TUPLE);
    struct template_node *first = template_parse_expression(in, with_choice);
    if (!template_next_is(in, TOKEN_SIGN, ","))
        return first;
    struct template_node *node = template_node(in, NODE_TUPLE);
    add_item(in, node, first);
    while (!in->err && template_accept(in, TOKEN_SIGN, ",") && !ends_tuple(in))
        add_item(in, node, template_parse_expression(in, with_choice));
    return node;
}
