// SPDX-License-Identifier: Apache-2.0
// Parses the statements of a template, and gives every variable of every scope its slot.

#include "core/template/template_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NESTING = 120 };

void *template_refuse(struct parser *in, const char *format, ...)
{
    if (in->err)
        return NULL;
    char sentence[300];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    in->err = fail(ERR_INPUT, "%s:%d: %s", in->template->name, in->at->line, sentence);
    while (in->at->kind != TOKEN_END)
        in->at++;
    return NULL;
}

struct text template_token_spelling(const struct token *token)
{
    static const char *const kinds[] = { "the end", "text", "{{", "}}", "{%", "%}" };
    return token->kind <= TOKEN_CLOSE_BLOCK ? text_of(kinds[token->kind]) : token->text;
}

bool template_next_is(const struct parser *in, enum token_kind kind, const char *text)
{
    return in->at->kind == kind && (!text || text_is(in->at->text, text));
}

bool template_accept(struct parser *in, enum token_kind kind, const char *text)
{
    if (in->err || !template_next_is(in, kind, text))
        return false;
    in->at++;
    return true;
}

bool template_expect(struct parser *in, enum token_kind kind, const char *text)
{
    if (template_accept(in, kind, text))
        return true;
    struct text found = template_token_spelling(in->at);
    template_refuse(in, "expected %s, found %.*s",
                    text                        ? text
                    : kind == TOKEN_CLOSE_BLOCK ? "%}"
                                                : "}}",
                    TEXT_ARGS(found));
    return false;
}

struct text template_expect_name(struct parser *in)
{
    if (in->at->kind == TOKEN_NAME)
        return in->at++->text;
    struct text found = template_token_spelling(in->at);
    template_refuse(in, "expected a name, found %.*s", TEXT_ARGS(found));
    return TEXT("");
}

bool template_enter(struct parser *in)
{
    if (in->err)
        return false;
    if (in->depth >= NESTING) {
        template_refuse(in, "nesting is deeper than %d levels", NESTING);
        return false;
    }
    in->depth++;
    return true;
}

struct template_node *template_node(struct parser *in, enum node_kind kind)
{
    struct template_node *node = ARENA_NEW(in->arena, struct template_node, 1);
    node->kind = kind;
    node->line = in->at->line;
    return node;
}

// --- names, scopes and slots -------------------------------------------------

enum { NAMES = 2000 }; // they are looked for one after the other; real templates have some dozens

static int number_of(struct parser *in, struct text name)
{
    struct template *t = in->template;
    for (int i = 0; i < t->name_count; i++)
        if (text_equal(t->names[i], name))
            return i;
    if (t->name_count == NAMES) {
        template_refuse(in, "more than %d variables", NAMES);
        return 0;
    }
    t->names =
        arena_room(in->arena, t->names, sizeof *t->names, (size_t)t->name_count, &in->name_room);
    t->names[t->name_count] = name;
    return t->name_count++;
}

struct template_node *template_use(struct parser *in, struct text name)
{
    struct template_node *node = template_node(in, NODE_NAME);
    node->name = name;
    in->uses =
        arena_room(in->arena, in->uses, sizeof *in->uses, (size_t)in->use_count, &in->use_room);
    in->uses[in->use_count++] = (struct name_use){ node, in->scope, number_of(in, name) };
    return node;
}

static struct template_binding *find_binding(const struct template_scope *scope, int name)
{
    for (int i = 0; i < scope->count; i++)
        if (scope->bindings[i].name == name)
            return &scope->bindings[i];
    return NULL;
}

// The slot of a name that is set in this scope.
static int store(struct parser *in, struct text text)
{
    int name = number_of(in, text);
    struct template_scope *scope = in->scope;
    struct template_binding *binding = find_binding(scope, name);
    if (binding)
        return binding->slot;
    scope->bindings = arena_room(in->arena, scope->bindings, sizeof *scope->bindings,
                                 (size_t)scope->count, &scope->room);
    scope->bindings[scope->count++] =
        (struct template_binding){ .name = name, .slot = in->template->slot_count, .outer = -1 };
    return in->template->slot_count++;
}

static struct template_scope *open_scope(struct parser *in)
{
    struct template_scope *scope = ARENA_NEW(in->arena, struct template_scope, 1);
    scope->parent = in->scope;
    return in->scope = scope;
}

static void close_scope(struct parser *in)
{
    in->scope = in->scope->parent;
}

// The slot of a name in a scope: that of the nearest scope which sets it, else the caller's.
static int resolve(struct parser *in, const struct template_scope *scope, int name)
{
    for (; scope; scope = scope->parent) {
        struct template_binding *binding = find_binding(scope, name);
        if (binding)
            return binding->slot;
    }
    struct template *t = in->template;
    if (t->slot_of_name[name] < 0)
        t->slot_of_name[name] = t->slot_count++;
    return t->slot_of_name[name];
}

static void resolve_all(struct parser *in, struct template_scope *root)
{
    struct template *t = in->template;
    t->slot_of_name = ARENA_NEW(in->arena, int, t->name_count + 1);
    for (int i = 0; i < t->name_count; i++) {
        struct template_binding *binding = find_binding(root, i);
        t->slot_of_name[i] = binding ? binding->slot : -1;
    }
    for (int i = 0; i < in->use_count; i++) {
        struct name_use *use = &in->uses[i];
        if (use->node)
            use->node->slot = resolve(in, use->scope, use->name);
        for (struct template_scope *scope = use->scope; scope && scope->parent;
             scope = scope->parent)
            for (int b = scope->fixed; b < scope->count; b++)
                if (scope->bindings[b].outer < 0)
                    scope->bindings[b].outer = resolve(in, scope->parent, scope->bindings[b].name);
    }
    t->initial = ARENA_NEW(in->arena, struct template_value, t->slot_count + 1);
    for (int i = 0; i < t->name_count; i++) {
        int slot = t->slot_of_name[i];
        if (slot < 0)
            continue;
        bool elsewhere;
        int function = template_function_find(t->names[i], &elsewhere);
        t->initial[slot].string = t->names[i];
        if (function >= 0)
            t->initial[slot] =
                (struct template_value){ .kind = TEMPLATE_FUNCTION, .whole = function };
    }
}

// --- statements --------------------------------------------------------------

static struct template_node *parse_body(struct parser *in, const char *const *ends);

static bool at_end_tag(const struct parser *in, const char *const *ends)
{
    if (in->at->kind != TOKEN_OPEN_BLOCK || in->at[1].kind != TOKEN_NAME)
        return false;
    for (; *ends; ends++)
        if (text_is(in->at[1].text, *ends))
            return true;
    return false;
}

// The body of a block with an end tag that takes no arguments.
static struct template_node *parse_block(struct parser *in, const char *end)
{
    const char *ends[] = { end, NULL };
    template_expect(in, TOKEN_CLOSE_BLOCK, NULL);
    struct template_node *body = parse_body(in, ends);
    in->at += !in->err;
    template_expect(in, TOKEN_NAME, end);
    return body;
}

static struct template_node *parse_if(struct parser *in)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    struct template_node *node = template_node(in, NODE_IF), *branch = node;
    in->soft++;
    branch->a = template_parse_tuple(in, false, false);
    while (!in->err) {
        template_expect(in, TOKEN_CLOSE_BLOCK, NULL);
        branch->body = parse_body(in, ends);
        in->at += !in->err;
        if (template_accept(in, TOKEN_NAME, "elif")) {
            branch = branch->orelse = template_node(in, NODE_IF);
            branch->a = template_parse_tuple(in, false, false);
        } else if (template_accept(in, TOKEN_NAME, "else")) {
            branch->orelse = parse_block(in, "endif");
            break;
        } else {
            template_expect(in, TOKEN_NAME, "endif");
            break;
        }
    }
    in->soft--;
    return node;
}

static void refuse_reserved(struct parser *in, struct text name)
{
    static const char *const words[] = { "true", "false", "none", "True", "False", "None" };
    for (int i = 0; i < 6; i++)
        if (text_is(name, words[i]))
            template_refuse(in, "cannot assign to %s", words[i]);
}

// A target is a NODE_NAME with its slot in this scope, or a NODE_ATTRIBUTE of a namespace. Uses are
// recorded so that the scope's bindings can be resolved.
static struct template_node *parse_target(struct parser *in)
{
    struct token *token = in->at;
    struct text name = template_expect_name(in);
    refuse_reserved(in, name);
    if (in->err)
        return template_node(in, NODE_NAME);
    if (template_accept(in, TOKEN_SIGN, ".")) {
        struct template_node *node = template_node(in, NODE_ATTRIBUTE);
        node->a = template_use(in, name);
        node->name = template_expect_name(in);
        return node;
    }
    struct template_node *node = template_use(in, name);
    in->uses[in->use_count - 1].node = NULL;
    node->line = token->line;
    node->slot = store(in, name);
    return node;
}

static void parse_targets(struct parser *in, struct template_node *node)
{
    struct template_node *targets[TEMPLATE_ARGUMENTS];
    int count = 0;
    bool bracketed = template_accept(in, TOKEN_SIGN, "(");
    do {
        if (count == TEMPLATE_ARGUMENTS) {
            template_refuse(in, "more than %d targets", TEMPLATE_ARGUMENTS);
            return;
        }
        targets[count++] = parse_target(in);
    } while (template_accept(in, TOKEN_SIGN, ","));
    if (bracketed)
        template_expect(in, TOKEN_SIGN, ")");
    node->items = ARENA_NEW(in->arena, struct template_node *, count);
    memcpy(node->items, targets, (size_t)count * sizeof *targets);
    node->count = count;
}

// The iterated expression follows the targets but belongs to the outer scope.
static struct template_node *parse_for(struct parser *in)
{
    static const char *const ends[] = { "else", "endfor", NULL };
    struct template_node *node = template_node(in, NODE_FOR);
    int soft = in->soft;
    node->scope = open_scope(in);
    in->soft = 0;
    parse_targets(in, node);
    node->slot = store(in, TEXT("loop"));
    node->scope->fixed = node->scope->count;
    template_expect(in, TOKEN_NAME, "in");
    close_scope(in);
    node->a = template_parse_tuple(in, false, false);
    in->scope = node->scope;
    if (template_accept(in, TOKEN_NAME, "if"))
        node->b = template_parse_expression(in, true);
    if (template_next_is(in, TOKEN_NAME, "recursive"))
        return template_refuse(in, "recursive loops are not supported");
    template_expect(in, TOKEN_CLOSE_BLOCK, NULL);
    in->loops++;
    node->body = parse_body(in, ends);
    in->loops--;
    close_scope(in);
    in->at += !in->err;
    if (template_accept(in, TOKEN_NAME, "else")) {
        node->c = template_node(in, NODE_WITH);
        node->c->scope = open_scope(in);
        node->c->body = parse_block(in, "endfor");
        close_scope(in);
    } else {
        template_expect(in, TOKEN_NAME, "endfor");
    }
    in->soft = soft;
    return node;
}

// A new scope that break and continue cannot leave: a macro or a captured block.
static struct template_node *parse_scoped(struct parser *in, struct template_node *node,
                                          const char *end)
{
    int soft = in->soft, loops = in->loops;
    in->soft = in->loops = 0;
    if (!node->scope)
        node->scope = open_scope(in);
    node->body = parse_block(in, end);
    close_scope(in);
    in->soft = soft;
    in->loops = loops;
    return node;
}

static struct template_node *parse_set(struct parser *in)
{
    struct template_node *node = template_node(in, NODE_SET);
    parse_targets(in, node);
    if (template_accept(in, TOKEN_SIGN, "=")) {
        node->a = template_parse_tuple(in, true, false);
        return node;
    }
    node->kind = NODE_SET_BLOCK;
    if (node->count != 1)
        return template_refuse(in, "a set block takes one target");
    node->b = template_parse_filters(in, NULL, false);
    return parse_scoped(in, node, "endset");
}

static struct template_node *parse_macro(struct parser *in)
{
    struct template_node *node = template_node(in, NODE_MACRO);
    struct template_argument parameters[TEMPLATE_ARGUMENTS] = { 0 };
    int count = 0;
    node->name = template_expect_name(in);
    node->slot = store(in, node->name);
    template_expect(in, TOKEN_SIGN, "(");
    node->first_slot = in->template->slot_count;
    node->scope = open_scope(in);
    while (!in->err && !template_accept(in, TOKEN_SIGN, ")")) {
        if (count && !template_expect(in, TOKEN_SIGN, ","))
            break;
        if (count == TEMPLATE_ARGUMENTS)
            return template_refuse(in, "a macro has more than %d parameters", TEMPLATE_ARGUMENTS);
        parameters[count].name = template_expect_name(in);
        parameters[count].slot = store(in, parameters[count].name);
        node->scope->fixed = node->scope->count;
        if (template_accept(in, TOKEN_SIGN, "="))
            parameters[count].value = template_parse_expression(in, true);
        count++;
    }
    node->arguments = ARENA_NEW(in->arena, struct template_argument, count ? count : 1);
    memcpy(node->arguments, parameters, (size_t)count * sizeof *parameters);
    node->argument_count = count;
    parse_scoped(in, node, "endmacro");
    node->slot_count = in->template->slot_count - node->first_slot;
    return node;
}

static struct template_node *parse_with(struct parser *in)
{
    struct template_node *node = template_node(in, NODE_WITH);
    struct template_node *targets[TEMPLATE_ARGUMENTS];
    struct template_argument values[TEMPLATE_ARGUMENTS] = { 0 };
    int count = 0;
    node->scope = open_scope(in);
    struct template_scope *scope = node->scope;
    while (!in->err && in->at->kind != TOKEN_CLOSE_BLOCK) {
        if (count && !template_expect(in, TOKEN_SIGN, ","))
            break;
        if (count == TEMPLATE_ARGUMENTS)
            return template_refuse(in, "with has more than %d names", TEMPLATE_ARGUMENTS);
        targets[count] = parse_target(in);
        template_expect(in, TOKEN_SIGN, "=");
        in->scope = scope->parent;
        values[count++].value = template_parse_expression(in, true);
        in->scope = scope;
    }
    scope->fixed = scope->count;
    node->items = ARENA_NEW(in->arena, struct template_node *, count ? count : 1);
    memcpy(node->items, targets, (size_t)count * sizeof *targets);
    node->arguments = ARENA_NEW(in->arena, struct template_argument, count ? count : 1);
    memcpy(node->arguments, values, (size_t)count * sizeof *values);
    node->count = node->argument_count = count;
    node->body = parse_block(in, "endwith");
    close_scope(in);
    return node;
}

static struct template_node *parse_jump(struct parser *in, enum node_kind kind, const char *word)
{
    if (!in->loops)
        return template_refuse(in, "%s outside a loop", word);
    return template_node(in, kind);
}

static struct template_node *parse_statement(struct parser *in)
{
    struct token *token = in->at;
    struct text name = template_expect_name(in);
    if (text_is(name, "if"))
        return parse_if(in);
    if (text_is(name, "for"))
        return parse_for(in);
    if (text_is(name, "set"))
        return parse_set(in);
    if (text_is(name, "macro"))
        return parse_macro(in);
    if (text_is(name, "with"))
        return parse_with(in);
    if (text_is(name, "break"))
        return parse_jump(in, NODE_BREAK, "break");
    if (text_is(name, "continue"))
        return parse_jump(in, NODE_CONTINUE, "continue");
    if (text_is(name, "generation")) {
        in->template->has_generation = true;
        return parse_scoped(in, template_node(in, NODE_GENERATION), "endgeneration");
    }
    if (text_is(name, "filter")) {
        struct template_node *node = template_node(in, NODE_FILTER_BLOCK);
        node->b = template_parse_filters(in, NULL, true);
        return parse_scoped(in, node, "endfilter");
    }
    in->at = in->err ? in->at : token;
    return template_refuse(in, "the statement %.*s is not supported", TEXT_ARGS(name));
}

static struct template_node *parse_output(struct parser *in)
{
    struct template_node *node = template_node(in, NODE_OUTPUT);
    node->a = template_parse_tuple(in, true, false);
    template_expect(in, TOKEN_CLOSE_OUTPUT, NULL);
    return node;
}

// Parses statements up to one of the end tags, which the caller reads; without end tags, up to the
// end of the template.
static struct template_node *parse_body(struct parser *in, const char *const *ends)
{
    struct template_node *first = NULL, **last = &first;
    if (!template_enter(in))
        return NULL;
    while (!in->err && in->at->kind != TOKEN_END && !(ends && at_end_tag(in, ends))) {
        struct template_node *node;
        if (in->at->kind == TOKEN_DATA) {
            node = template_node(in, NODE_DATA);
            node->name = in->at++->text;
        } else if (template_accept(in, TOKEN_OPEN_OUTPUT, NULL)) {
            node = parse_output(in);
        } else {
            in->at++;
            node = parse_statement(in);
            if (node)
                template_expect(in, TOKEN_CLOSE_BLOCK, NULL);
        }
        if (node) {
            *last = node;
            last = &node->next;
        }
    }
    if (ends && in->at->kind == TOKEN_END)
        template_refuse(in, "a block is not closed: expected %s", ends[0]);
    in->depth--;
    return first;
}

enum err template_compile(const struct template **out, struct arena *arena, struct text source,
                          const char *name)
{
    struct tokens tokens;
    TRY(template_lex(&tokens, arena, source, name));
    struct template *template = ARENA_NEW(arena, struct template, 1);
    template->name = text_copy(arena, text_of(name));
    struct parser in = { .arena = arena, .template = template, .at = tokens.items };
    struct template_scope *root = open_scope(&in);
    template->body = parse_body(&in, NULL);
    if (in.err)
        return in.err;
    resolve_all(&in, root);
    *out = template;
    return OK;
}

bool template_has_generation(const struct template *template)
{
    return template->has_generation;
}

bool template_uses(const struct template *template, const char *variable)
{
    for (int i = 0; i < template->name_count; i++)
        if (text_is(template->names[i], variable))
            return template->slot_of_name[i] >= 0;
    return false;
}
