// SPDX-License-Identifier: Apache-2.0
// Evaluates the expressions of a template.

#include "core/template/template_internal.h"

#include <string.h>

void template_read_arguments(struct template_run *run, struct call *call,
                             const struct template_node *node)
{
    for (int i = 0; i < node->argument_count && !run->err; i++) {
        const struct template_argument *argument = &node->arguments[i];
        call->names[i] = argument->name;
        call->values[i] = template_eval(run, argument->value);
        call->positional += !argument->name.at;
        call->count++;
    }
}

static int find_argument(const struct call *call, int index, const char *name)
{
    if (index < call->positional)
        return index;
    for (int i = call->positional; name && i < call->count; i++)
        if (text_is(call->names[i], name))
            return i;
    return -1;
}

struct template_value template_argument(const struct call *call, int index, const char *name,
                                        struct template_value otherwise)
{
    int at = find_argument(call, index, name);
    return at < 0 ? otherwise : call->values[at];
}

bool template_has_argument(const struct call *call, int index, const char *name)
{
    return find_argument(call, index, name) >= 0;
}

static struct template_value eval_call(struct template_run *run, const struct template_node *node)
{
    struct call call;
    struct template_value callee;
    template_begin(&call, run, node->line, "function", TEXT(""));
    if (node->a->kind == NODE_ATTRIBUTE) { // a method is called without making a value of it
        struct template_value of = template_eval(run, node->a->a);
        if (run->err)
            return of;
        call.what = "method";
        call.name = node->a->name;
        if (template_method_has(of, call.name)) {
            template_read_arguments(run, &call, node);
            return run->err ? of : template_method_apply(&call, of);
        }
        callee = template_attribute(run, node->line, of, node->a->name);
    } else {
        call.name = node->a->kind == NODE_NAME ? node->a->name : TEXT("an expression");
        callee = template_eval(run, node->a);
    }
    template_read_arguments(run, &call, node);
    if (run->err)
        return callee;
    switch (callee.kind) {
    case TEMPLATE_MACRO: return template_call_macro(run, &call, callee.macro, true);
    case TEMPLATE_FUNCTION:
        call.what = "function";
        return template_function_apply((int)callee.whole, &call);
    case TEMPLATE_METHOD:
        call.what = "method";
        call.name = callee.method->name;
        return template_method_apply(&call, callee.method->receiver);
    case TEMPLATE_UNDEFINED:
        return template_stop(run, node->line, "%.*s is undefined and cannot be called",
                             TEXT_ARGS(call.name));
    default:
        return template_stop(run, node->line, "%.*s is a %s and cannot be called",
                             TEXT_ARGS(call.name), template_value_kind_name(callee));
    }
}

static struct template_value eval_filter(struct template_run *run, const struct template_node *node)
{
    struct template_value of = node->a ? template_eval(run, node->a) : run->captured;
    struct call call;
    template_begin(&call, run, node->line, "filter", node->name);
    if (!run->err)
        template_read_arguments(run, &call, node);
    if (!run->err && node->function < 0)
        template_stop(run, node->line, "unknown filter %.*s", TEXT_ARGS(node->name));
    return run->err ? of : template_filter_apply(node->function, &call, of);
}

static struct template_value eval_test(struct template_run *run, const struct template_node *node)
{
    struct template_value of = template_eval(run, node->a);
    struct call call;
    template_begin(&call, run, node->line, "test", node->name);
    if (!run->err)
        template_read_arguments(run, &call, node);
    if (!run->err && node->function < 0)
        template_stop(run, node->line, "unknown test %.*s", TEXT_ARGS(node->name));
    return run->err ? of : template_value_flag(template_test_apply(node->function, &call, of));
}

static struct template_value join_strings(struct template_run *run, int line,
                                          const struct template_value *pieces, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += pieces[i].string.size;
    char *joined = template_take(run, line, size + 1), *to = joined;
    if (!joined)
        return (struct template_value){ 0 };
    for (int i = 0; i < count; i++) {
        memcpy(to, pieces[i].string.at, pieces[i].string.size);
        to += pieces[i].string.size;
    }
    return template_value_string((struct text){ joined, size });
}

// Joins runs of strings in one step; adds everything else from left to right, as Python does.
static struct template_value eval_sum(struct template_run *run, const struct template_node *node)
{
    enum { PIECES = 16 };
    struct template_value pieces[PIECES];
    struct template_value sum = template_eval(run, node->items[0]);
    for (int i = 1; i < node->count && !run->err;) {
        int count = 1;
        pieces[0] = sum;
        while (i < node->count && count < PIECES && !run->err) {
            pieces[count] = template_eval(run, node->items[i++]);
            bool plain = pieces[count - 1].kind == TEMPLATE_STRING && !pieces[count - 1].markup &&
                         pieces[count].kind == TEMPLATE_STRING && !pieces[count].markup;
            count++;
            if (!plain)
                break;
        }
        if (run->err)
            break;
        bool all = pieces[count - 1].kind == TEMPLATE_STRING && !pieces[count - 1].markup &&
                   pieces[0].kind == TEMPLATE_STRING && !pieces[0].markup;
        if (all) {
            sum = join_strings(run, node->line, pieces, count);
        } else {
            sum = count > 2 ? join_strings(run, node->line, pieces, count - 1) : pieces[0];
            sum = template_add(run, node->line, sum, pieces[count - 1]);
        }
    }
    return sum;
}

static struct template_value eval_concat(struct template_run *run, const struct template_node *node)
{
    struct out out = { .arena = &run->arena }, *outer = run->out;
    run->out = &out;
    for (int i = 0; i < node->count && !run->err; i++) {
        struct template_value piece = template_eval(run, node->items[i]);
        if (!run->err)
            template_write(run, node->line, piece);
    }
    run->out = outer;
    template_charge(run, node->line, out.room);
    return template_value_string(out_view(&out));
}

static bool holds(struct template_run *run, int line, enum operator_kind operator,
                  struct template_value a, struct template_value b)
{
    switch (operator) {
    case OPERATOR_EQUAL: return template_equal(run, line, a, b);
    case OPERATOR_UNEQUAL: return !template_equal(run, line, a, b);
    case OPERATOR_IN: return template_contains(run, line, b, a);
    case OPERATOR_NOT_IN: return !template_contains(run, line, b, a);
    default: break;
    }
    int order = template_order(run, line, a, b);
    return operator== OPERATOR_LESS       ? order < 0 :
           operator== OPERATOR_LESS_EQUAL ? order <= 0
           :
           operator== OPERATOR_MORE ? order > 0
                                    : order >= 0;
}

static struct template_value eval_compare(struct template_run *run,
                                          const struct template_node *node)
{
    struct template_value left = template_eval(run, node->items[0]);
    for (int i = 1; i < node->count && !run->err; i++) {
        struct template_value right = template_eval(run, node->items[i]);
        if (run->err || !holds(run, node->line, node->operators[i - 1], left, right))
            return template_value_flag(false);
        left = right;
    }
    return template_value_flag(true);
}

static struct template_value eval_list(struct template_run *run, const struct template_node *node)
{
    size_t count = (size_t)node->count;
    if (!template_take(run, node->line, count * sizeof(struct template_value)))
        return (struct template_value){ 0 };
    struct template_value list = template_value_list(
        &run->arena, node->kind == NODE_TUPLE ? TEMPLATE_TUPLE : TEMPLATE_PLAIN, count);
    for (size_t i = 0; i < count && !run->err; i++)
        list.list->items[list.list->count++] = template_eval(run, node->items[i]);
    return list;
}

static struct template_value eval_dict(struct template_run *run, const struct template_node *node)
{
    if (!template_take(run, node->line, (size_t)node->count * sizeof(struct template_value)))
        return (struct template_value){ 0 };
    struct template_value dict = template_value_dict(&run->arena, (size_t)node->count / 2);
    for (int i = 0; i < node->count && !run->err; i += 2) {
        struct template_value key = template_eval(run, node->items[i]);
        if (key.kind > TEMPLATE_STRING)
            return template_stop(run, node->line, "a %s cannot be a dict key",
                                 template_value_kind_name(key));
        struct template_value value = template_eval(run, node->items[i + 1]);
        template_value_put(&run->arena, dict.dict, key, value);
    }
    return dict;
}

static struct template_value eval_slice(struct template_run *run, const struct template_node *node)
{
    struct template_value of = template_eval(run, node->a), bounds[3];
    for (int i = 0; i < 3 && !run->err; i++)
        bounds[i] = node->items[i] ? template_eval(run, node->items[i])
                                   : (struct template_value){ .kind = TEMPLATE_NONE };
    return run->err ? of : template_slice(run, node->line, of, bounds);
}

static struct template_value eval_chain(struct template_run *run, const struct template_node *node)
{
    struct template_value value = template_eval(run, node->items[0]);
    for (int i = 1; i < node->count && !run->err; i++) {
        if (template_value_truth(value) == (node->kind == NODE_OR))
            break;
        value = template_eval(run, node->items[i]);
    }
    return value;
}

static struct template_value eval_sign(struct template_run *run, const struct template_node *node)
{
    struct template_value of = template_eval(run, node->a);
    struct template_value zero = template_value_whole(0);
    if (run->err)
        return of;
    if (of.kind == TEMPLATE_FLOAT) {
        of.real = node->kind == NODE_NEGATE ? -of.real : of.real;
        return of;
    }
    return node->kind == NODE_NEGATE ? template_math(run, node->line, OPERATOR_MINUS, zero, of)
                                     : template_add(run, node->line, zero, of);
}

static struct template_value eval_operator(struct template_run *run,
                                           const struct template_node *node)
{
    struct template_value a = template_eval(run, node->a);
    if (run->err)
        return a;
    switch (node->kind) {
    case NODE_ATTRIBUTE: return template_attribute(run, node->line, a, node->name);
    case NODE_NOT: return template_value_flag(!template_value_truth(a));
    default: break;
    }
    struct template_value b = template_eval(run, node->b);
    if (run->err)
        return b;
    return node->kind == NODE_ITEM ? template_item(run, node->line, a, b)
                                   : template_math(run, node->line, node->operator, a, b);
}

static struct template_value eval_choice(struct template_run *run, const struct template_node *node)
{
    if (template_value_truth(template_eval(run, node->a)))
        return template_eval(run, node->b);
    return node->c ? template_eval(run, node->c)
                   : (struct template_value){ .string = TEXT("an if without else") };
}

static struct template_value eval_deep(struct template_run *run, const struct template_node *node)
{
    switch (node->kind) {
    case NODE_CALL: return eval_call(run, node);
    case NODE_FILTER: return eval_filter(run, node);
    case NODE_TEST: return eval_test(run, node);
    case NODE_SUM: return eval_sum(run, node);
    case NODE_CONCAT: return eval_concat(run, node);
    case NODE_COMPARE: return eval_compare(run, node);
    case NODE_AND:
    case NODE_OR: return eval_chain(run, node);
    case NODE_CHOICE: return eval_choice(run, node);
    case NODE_NEGATE:
    case NODE_POSITIVE: return eval_sign(run, node);
    case NODE_SLICE: return eval_slice(run, node);
    case NODE_LIST:
    case NODE_TUPLE: return eval_list(run, node);
    case NODE_DICT: return eval_dict(run, node);
    default: return eval_operator(run, node);
    }
}

struct template_value template_eval(struct template_run *run, const struct template_node *node)
{
    if (node->kind == NODE_CONST)
        return node->value;
    if (node->kind == NODE_NAME)
        return run->slots[node->slot];
    if (run->err)
        return (struct template_value){ 0 };
    if (++run->steps > run->limits.steps)
        return template_stop(run, node->line, "rendering takes more than %lld steps",
                             (long long)run->limits.steps);
    if (++run->depth > run->limits.depth)
        return template_stop(run, node->line, "nesting is deeper than %d levels",
                             run->limits.depth);
    struct template_value value = eval_deep(run, node);
    run->depth--;
    return value;
}
