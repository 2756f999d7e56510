// SPDX-License-Identifier: Apache-2.0
// Runs the statements of a template into an output.

#include "core/template/template_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SCRATCH_BYTES = 256 * 1024 };

static void exec(struct template_run *run, const struct template_node *body);

struct template_value template_stop(struct template_run *run, int line, const char *format, ...)
{
    if (!run->err) {
        char sentence[400];
        va_list args;
        va_start(args, format);
        vsnprintf(sentence, sizeof sentence, format, args);
        va_end(args);
        run->err = fail(ERR_INPUT, "%s:%d: %s", run->template->name, line, sentence);
    }
    return (struct template_value){ 0 };
}

void template_charge(struct template_run *run, int line, size_t size)
{
    run->scratch += size;
    if (run->scratch > run->limits.scratch_bytes)
        template_stop(run, line, "rendering needs more than %zu bytes of scratch memory",
                      run->limits.scratch_bytes);
}

void *template_take(struct template_run *run, int line, size_t size)
{
    template_charge(run, line, size + 64); // 64: bookkeeping
    return run->err ? NULL : arena_alloc(&run->arena, size);
}

struct template_budget template_budget(const struct template_run *run)
{
    size_t limit = run->out == run->root ? run->limits.output_bytes : run->limits.scratch_bytes;
    return (struct template_budget){ run->limits.steps - run->steps, limit, run->limits.depth };
}

bool template_equal(struct template_run *run, int line, struct template_value a,
                    struct template_value b)
{
    struct template_budget budget = template_budget(run);
    bool equal = template_value_equal_within(a, b, &budget);
    if (budget.steps < 0)
        template_stop(run, line, "the compared values are too large or too deeply nested");
    run->steps = run->limits.steps - budget.steps;
    return equal;
}

void template_write(struct template_run *run, int line, struct template_value value)
{
    struct template_budget budget = template_budget(run);
    if (!template_value_print(run->out, value, &budget) && budget.steps >= 0)
        template_stop(run, line, "cannot print a %s: not part of the supported subset of Jinja",
                      template_value_kind_name(value));
    if (budget.steps < 0 || run->out->size > budget.out_bytes)
        template_stop(run, line, "output is larger than %zu bytes or too deeply nested",
                      budget.out_bytes);
    run->steps = run->limits.steps - budget.steps;
}

// Copies the values that a scope inherits from the scope around it.
static void enter_scope(struct template_run *run, const struct template_scope *scope)
{
    for (int i = scope->fixed; i < scope->count; i++) {
        const struct template_binding *binding = &scope->bindings[i];
        run->slots[binding->slot] =
            binding->outer >= 0 ? run->slots[binding->outer] : (struct template_value){ 0 };
    }
}

// Renders a body into a new string.
static struct template_value capture(struct template_run *run, const struct template_node *body)
{
    struct out text = { .arena = &run->arena }, *outer = run->out;
    run->out = &text;
    exec(run, body);
    run->out = outer;
    template_charge(run, body ? body->line : 0, text.room);
    return template_value_string(out_view(&text));
}

static void bind_parameters(struct template_run *run, struct call *call,
                            const struct template_node *macro)
{
    for (int i = 0; i < macro->argument_count; i++) {
        const struct template_argument *parameter = &macro->arguments[i];
        struct template_value *slot = &run->slots[parameter->slot];
        const struct template_value *given = i < call->positional ? &call->values[i] : NULL;
        for (int k = call->positional; k < call->count && !given; k++)
            if (text_equal(call->names[k], parameter->name))
                given = &call->values[k];
        if (given)
            *slot = *given;
        else if (parameter->value)
            *slot = template_eval(run, parameter->value);
        else
            *slot = (struct template_value){ .string = parameter->name };
    }
}

static bool takes_arguments(struct template_run *run, const struct call *call,
                            const struct template_node *macro)
{
    if (call->positional > macro->argument_count) {
        template_stop(run, call->line, "macro %.*s takes %d arguments, but got %d",
                      TEXT_ARGS(macro->name), macro->argument_count, call->positional);
        return false;
    }
    for (int k = call->positional; k < call->count; k++) {
        bool known = false;
        for (int i = 0; i < macro->argument_count; i++)
            known = known ||
                    (i >= call->positional && text_equal(call->names[k], macro->arguments[i].name));
        if (!known) {
            template_stop(run, call->line, "macro %.*s has no parameter %.*s",
                          TEXT_ARGS(macro->name), TEXT_ARGS(call->names[k]));
            return false;
        }
    }
    return true;
}

struct template_value template_call_macro(struct template_run *run, struct call *call,
                                          const struct template_node *macro, bool captured)
{
    size_t size = (size_t)macro->slot_count * sizeof *run->slots;
    struct template_value result = { 0 };
    if (!takes_arguments(run, call, macro))
        return result;
    struct template_value *saved = template_take(run, call->line, size);
    if (!saved)
        return result;
    if (++run->depth > run->limits.depth)
        return template_stop(run, call->line, "nesting is deeper than %d levels",
                             run->limits.depth);
    memcpy(saved, run->slots + macro->first_slot, size);
    bind_parameters(run, call, macro);
    enter_scope(run, macro->scope);
    if (captured)
        result = capture(run, macro->body);
    else
        exec(run, macro->body);
    memcpy(run->slots + macro->first_slot, saved, size);
    run->depth--;
    return result;
}

// --- output ------------------------------------------------------------------

static void emit(struct template_run *run, const struct template_node *node);

// Writes a sum of strings piece by piece, without building the joined string.
static void emit_sum(struct template_run *run, const struct template_node *node)
{
    enum { PIECES = 16 };
    struct template_value pieces[PIECES];
    bool plain = node->count <= PIECES;
    if (!plain) {
        template_write(run, node->line, template_eval(run, node));
        return;
    }
    for (int i = 0; i < node->count; i++) {
        pieces[i] = template_eval(run, node->items[i]);
        plain = plain && pieces[i].kind == TEMPLATE_STRING && !pieces[i].markup;
    }
    if (plain) {
        for (int i = 0; i < node->count; i++)
            out_bytes(run->out, pieces[i].string.at, pieces[i].string.size);
        return;
    }
    for (int i = 1; i < node->count && !run->err; i++)
        pieces[0] = template_add(run, node->line, pieces[0], pieces[i]);
    if (!run->err)
        template_write(run, node->line, pieces[0]);
}

static void emit_call(struct template_run *run, const struct template_node *node)
{
    struct template_value callee = { 0 };
    if (node->a->kind == NODE_NAME)
        callee = run->slots[node->a->slot];
    if (callee.kind != TEMPLATE_MACRO) {
        struct template_value value = template_eval(run, node);
        if (!run->err)
            template_write(run, node->line, value);
        return;
    }
    struct call call;
    template_begin(&call, run, node->line, "macro", node->a->name);
    template_read_arguments(run, &call, node);
    if (!run->err)
        template_call_macro(run, &call, callee.macro, false);
}

static void emit_choice(struct template_run *run, const struct template_node *node)
{
    if (template_value_truth(template_eval(run, node->a)))
        emit(run, node->b);
    else if (node->c)
        emit(run, node->c);
}

static void emit(struct template_run *run, const struct template_node *node)
{
    if (run->err)
        return;
    switch (node->kind) {
    case NODE_SUM: emit_sum(run, node); break;
    case NODE_CALL: emit_call(run, node); break;
    case NODE_CHOICE: emit_choice(run, node); break;
    case NODE_CONCAT:
        for (int i = 0; i < node->count; i++)
            emit(run, node->items[i]);
        break;
    default: {
        struct template_value value = template_eval(run, node);
        if (!run->err)
            template_write(run, node->line, value);
    }
    }
}

// --- statements --------------------------------------------------------------

static void assign_attribute(struct template_run *run, const struct template_node *target,
                             struct template_value value)
{
    struct template_value of = template_eval(run, target->a);
    if (run->err)
        return;
    if (of.kind != TEMPLATE_NAMESPACE) {
        template_stop(run, target->line,
                      "cannot set %.*s.%.*s: only a namespace has attributes that can be set",
                      TEXT_ARGS(target->a->name), TEXT_ARGS(target->name));
        return;
    }
    if (of.dict->count == of.dict->room && !template_take(run, target->line, of.dict->room * 96))
        return;
    template_value_put(&run->arena, of.dict, template_value_string(target->name), value);
}

static void assign(struct template_run *run, struct template_node *const *targets, int count,
                   struct template_value value)
{
    if (count == 1) {
        if (targets[0]->kind == NODE_ATTRIBUTE)
            assign_attribute(run, targets[0], value);
        else
            run->slots[targets[0]->slot] = value;
        return;
    }
    const struct template_list *items = template_walk(run, targets[0]->line, value);
    if (!items)
        return;
    if (items->count != (size_t)count) {
        template_stop(run, targets[0]->line, "cannot unpack %zu values into %d names", items->count,
                      count);
        return;
    }
    for (int i = 0; i < count; i++)
        assign(run, targets + i, 1, items->items[i]);
}

// The items that satisfy the loop's condition (for … if).
static const struct template_list *chosen(struct template_run *run,
                                          const struct template_node *node,
                                          const struct template_list *items)
{
    struct template_list *kept = template_take(run, node->line, sizeof *kept);
    struct template_value *room =
        kept ? template_take(run, node->line, items->count * sizeof *room) : NULL;
    if (!room)
        return NULL;
    kept->items = room;
    for (size_t i = 0; i < items->count && !run->err; i++) {
        assign(run, node->items, node->count, items->items[i]);
        if (template_value_truth(template_eval(run, node->b)))
            kept->items[kept->count++] = items->items[i];
    }
    return kept;
}

// The index of a watched item; SIZE_MAX if it is not watched. Loops go through the list in order,
// so the search starts where the last one ended.
static size_t find_watched(const struct template_run *run, struct template_value item)
{
    const struct template_list *watched = run->watched;
    size_t count = item.kind == TEMPLATE_DICT ? watched->count : 0;
    for (size_t i = run->next_pass, tried = 0; tried < count; tried++, i++) {
        i = i < count ? i : 0;
        if (watched->items[i].kind == TEMPLATE_DICT && watched->items[i].dict == item.dict)
            return i;
    }
    return SIZE_MAX;
}

// Records what a loop pass wrote for a watched item, or that it failed. A pass that wrote nothing
// only inspected the item and is not recorded.
static void note_pass(struct template_run *run, struct template_value item, size_t start)
{
    bool wrote = run->out == run->root && run->out->size != start;
    if (!wrote && !run->err)
        return;
    size_t index = find_watched(run, item);
    if (index == SIZE_MAX)
        return;
    if (run->err) {
        run->failed_at = run->failed_at == SIZE_MAX ? index : run->failed_at;
        return;
    }
    run->passes[index] = (struct template_span){ start, run->out->size };
    run->next_pass = index + 1;
}

static void watch(struct template_run *run)
{
    size_t count = run->watched->count;
    if (count > run->pass_room) {
        run->passes = ARENA_NEW(&run->kept, struct template_span, count * 2);
        run->pass_room = count * 2;
    }
    memset(run->passes, 0, count * sizeof *run->passes);
    run->next_pass = 0;
    run->failed_at = SIZE_MAX;
}

static void exec_for(struct template_run *run, const struct template_node *node)
{
    struct template_value of = template_eval(run, node->a);
    const struct template_list *items = run->err ? NULL : template_walk(run, node->line, of);
    if (items && node->b)
        items = chosen(run, node, items);
    if (!items)
        return;
    struct template_value outer = run->slots[node->slot];
    struct template_loop loop = { .items = items };
    for (; loop.index < items->count && !run->err; loop.index++) {
        if (++run->steps > run->limits.steps)
            template_stop(run, node->line, "rendering takes more than %lld steps",
                          (long long)run->limits.steps);
        enter_scope(run, node->scope);
        assign(run, node->items, node->count, items->items[loop.index]);
        run->slots[node->slot] = (struct template_value){ .kind = TEMPLATE_LOOP, .loop = &loop };
        size_t start = run->out->size;
        exec(run, node->body);
        if (run->watched)
            note_pass(run, items->items[loop.index], start);
        int leaving = run->leaving;
        run->leaving = 0;
        if (leaving == NODE_BREAK)
            break;
    }
    run->slots[node->slot] = outer;
    if (!items->count && node->c)
        exec(run, node->c);
}

static void exec_set_block(struct template_run *run, const struct template_node *node)
{
    enter_scope(run, node->scope);
    struct template_value value = capture(run, node->body);
    if (node->b) {
        run->captured = value;
        value = template_eval(run, node->b);
    }
    if (!run->err)
        assign(run, node->items, 1, value);
}

static void exec_filter_block(struct template_run *run, const struct template_node *node)
{
    enter_scope(run, node->scope);
    run->captured = capture(run, node->body);
    struct template_value value = template_eval(run, node->b);
    if (!run->err)
        template_write(run, node->line, value);
}

static void add_span(struct template_run *run, size_t start, size_t end)
{
    run->spans =
        arena_room(&run->kept, run->spans, sizeof *run->spans, run->span_count, &run->span_room);
    run->spans[run->span_count++] = (struct template_span){ start, end };
}

static void exec_generation(struct template_run *run, const struct template_node *node)
{
    enter_scope(run, node->scope);
    size_t start = run->out->size;
    exec(run, node->body);
    if (run->out == run->root && !run->err)
        add_span(run, start, run->out->size);
}

static void exec_with(struct template_run *run, const struct template_node *node)
{
    struct template_value values[TEMPLATE_ARGUMENTS];
    for (int i = 0; i < node->count; i++)
        values[i] = template_eval(run, node->arguments[i].value);
    for (int i = 0; i < node->count && !run->err; i++)
        assign(run, node->items + i, 1, values[i]);
    enter_scope(run, node->scope);
    exec(run, node->body);
}

static void exec_one(struct template_run *run, const struct template_node *node)
{
    switch (node->kind) {
    case NODE_DATA:
        out_bytes(run->out, node->name.at, node->name.size);
        if (run->out->size > run->limits.output_bytes)
            template_stop(run, node->line, "output is larger than %zu bytes",
                          run->limits.output_bytes);
        break;
    case NODE_OUTPUT: emit(run, node->a); break;
    case NODE_IF:
        exec(run, template_value_truth(template_eval(run, node->a)) ? node->body : node->orelse);
        break;
    case NODE_FOR: exec_for(run, node); break;
    case NODE_SET: {
        struct template_value value = template_eval(run, node->a);
        if (!run->err)
            assign(run, node->items, node->count, value);
        break;
    }
    case NODE_SET_BLOCK: exec_set_block(run, node); break;
    case NODE_MACRO:
        run->slots[node->slot] = (struct template_value){ .kind = TEMPLATE_MACRO, .macro = node };
        break;
    case NODE_GENERATION: exec_generation(run, node); break;
    case NODE_FILTER_BLOCK: exec_filter_block(run, node); break;
    case NODE_WITH: exec_with(run, node); break;
    default: run->leaving = (int)node->kind; break; // break and continue
    }
}

static void exec(struct template_run *run, const struct template_node *body)
{
    if (++run->depth > run->limits.depth)
        template_stop(run, body ? body->line : 0, "nesting is deeper than %d levels",
                      run->limits.depth);
    for (; body && !run->err && !run->leaving; body = body->next)
        exec_one(run, body);
    run->depth--;
}

// --- a run -------------------------------------------------------------------

void template_run_init(struct template_run *run, const struct template *template)
{
    *run = (struct template_run){ .template = template };
    run->limits = (struct template_limits){ 20000000, (size_t)1 << 30, (size_t)1 << 28, 300 };
    arena_alloc(&run->arena, SCRATCH_BYTES); // one block, reused by every render
    run->empty = arena_mark(&run->arena);
    run->empty.used = 0;
    size_t size = (size_t) template->slot_count + 1;
    run->given = ARENA_NEW(&run->kept, struct template_value, size);
    run->slots = ARENA_NEW(&run->kept, struct template_value, size);
    memcpy(run->given, template->initial, (size - 1) * sizeof *run->given);
}

void template_run_release(struct template_run *run)
{
    arena_release(&run->arena);
    arena_release(&run->kept);
    *run = (struct template_run){ 0 };
}

void template_set(struct template_run *run, const char *variable, struct template_value value)
{
    const struct template *template = run->template;
    for (int i = 0; i < template->name_count; i++)
        if (text_is(template->names[i], variable)) {
            if (template->slot_of_name[i] >= 0)
                run->given[template->slot_of_name[i]] = value;
            return;
        }
}

enum err template_render(struct template_run *run, struct out *out)
{
    const struct template *template = run->template;
    arena_rewind(&run->arena, run->empty);
    memcpy(run->slots, run->given, (size_t) template->slot_count * sizeof *run->slots);
    run->out = run->root = out;
    run->err = OK;
    run->steps = 0;
    run->scratch = 0;
    run->depth = run->leaving = 0;
    run->span_count = 0;
    if (run->watched && run->watched->count)
        watch(run);
    else
        run->watched = NULL;
    exec(run, template->body);
    return run->err;
}
