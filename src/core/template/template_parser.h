// SPDX-License-Identifier: Apache-2.0
// template_parser: shared by the two halves of the parser, statements and expressions.

#pragma once

#include "core/template/template_internal.h"

struct name_use { // resolved to a slot when all scopes are known
    struct template_node *node;
    struct template_scope *scope;
    int name;
};

struct parser {
    struct arena *arena;
    struct template *template;
    struct token *at;
    enum err err;
    struct template_scope *scope;
    struct name_use *uses;
    int use_count;
    size_t use_room, name_room;
    int depth; // of nested statements and expressions
    int loops; // enclosing loops within the innermost macro or captured block
    int soft;  // inside an if: an unknown filter is an error only when reached
};

// Reports the first failure only, and skips to the last token so that every loop ends.
void *template_refuse(struct parser *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct template_node *template_node(struct parser *in, enum node_kind kind);
struct template_node *template_use(struct parser *in, struct text name); // a name in an expression

bool template_next_is(const struct parser *in, enum token_kind kind, const char *text);
bool template_accept(struct parser *in, enum token_kind kind, const char *text);
bool template_expect(struct parser *in, enum token_kind kind, const char *text);
struct text template_expect_name(struct parser *in);
bool template_enter(struct parser *in); // false if nested too deeply; undo with in->depth--

struct template_node *template_parse_expression(struct parser *in, bool with_choice);
struct template_node *template_parse_tuple(struct parser *in, bool with_choice, bool parentheses);
struct template_node *template_parse_filters(struct parser *in, struct template_node *of,
                                             bool inline_start);
struct text template_token_spelling(const struct token *token);
