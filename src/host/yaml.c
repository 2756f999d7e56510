// SPDX-License-Identifier: Apache-2.0
// Reads YAML 1.1 with libyaml into the tree of base/json, as PyYAML would read it.

#include "host/yaml.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct anchor {
    const char *name;
    struct json value;
    size_t nodes; // in it, including itself
    int height;
};

struct reader {
    yaml_parser_t parser;
    struct arena *arena;
    const char *name;
    struct anchor *anchors;
    size_t anchor_count, anchor_room;
    size_t nodes;
};

// What was read of one node, for anchors and limits.
struct node {
    struct json value;
    int height;
};

static enum err wrong(const struct reader *in, yaml_mark_t at, const char *problem)
{
    return fail(ERR_INPUT, "%s:%zu: %s", in->name, at.line + 1, problem);
}

static enum err next(struct reader *in, yaml_event_t *event)
{
    if (yaml_parser_parse(&in->parser, event))
        return OK;
    const yaml_parser_t *p = &in->parser;
    return fail(ERR_INPUT, "%s:%zu: is not valid YAML: %s", in->name, p->problem_mark.line + 1,
                p->problem ? p->problem : "it cannot be read");
}

// --- words -------------------------------------------------------------------

static bool is_any(struct text word, const char *const *list)
{
    for (; *list; list++)
        if (text_is(word, *list))
            return true;
    return false;
}

// Sixties: 1:30 is 90 in YAML 1.1.
static bool read_sixties(struct text word, double *out)
{
    double value = 0;
    struct text rest = word, piece;
    int pieces = 0;
    for (; text_next(&rest, ':', &piece); pieces++) {
        if (!piece.size || piece.size > (pieces ? 2u : 9u))
            return false;
        double digit = 0;
        for (size_t i = 0; i < piece.size; i++) {
            if (!isdigit((unsigned char)piece.at[i]))
                return false;
            digit = 10 * digit + (piece.at[i] - '0');
        }
        if (pieces && digit >= 60)
            return false;
        value = 60 * value + digit;
    }
    *out = value;
    return pieces > 1 && word.at[0] != '0';
}

static bool read_based(struct text digits, int base, double *out)
{
    double value = 0;
    for (size_t i = 0; i < digits.size; i++) {
        int c = tolower((unsigned char)digits.at[i]);
        int digit = isdigit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
        if (digit >= base)
            return false;
        value = value * base + digit;
    }
    *out = value;
    return digits.size > 0;
}

// Digits with at most one point and an exponent: what strtod() reads, without its words.
static bool read_decimal(struct text word, double *out)
{
    size_t i = 0, digits = 0;
    for (bool point = false; i < word.size; i++) {
        if (isdigit((unsigned char)word.at[i]))
            digits++;
        else if (word.at[i] == '.' && !point)
            point = true;
        else
            break;
    }
    if (!digits)
        return false;
    if (i < word.size) {
        if ((word.at[i] != 'e' && word.at[i] != 'E') || ++i == word.size)
            return false;
        i += word.at[i] == '-' || word.at[i] == '+';
        if (i == word.size)
            return false;
        for (; i < word.size; i++)
            if (!isdigit((unsigned char)word.at[i]))
                return false;
    }
    *out = strtod(word.at, NULL); // ends with the word's NUL
    return isfinite(*out);
}

static bool read_number(struct reader *in, struct text word, double *out)
{
    if (!word.size || word.size > 64 ||
        !(isdigit((unsigned char)word.at[0]) || strchr("+-.", word.at[0])))
        return false;
    char *plain = arena_alloc(in->arena, word.size + 1); // without the underscores of 10_000
    size_t size = 0;
    for (size_t i = 0; i < word.size; i++)
        if (word.at[i] != '_')
            plain[size++] = word.at[i];
    bool negative = plain[0] == '-', sign = negative || plain[0] == '+';
    struct text digits = { plain + sign, size - sign };
    bool read = false, zero = digits.size > 1 && digits.at[0] == '0';
    struct text after_zero = { digits.at + 1, digits.size ? digits.size - 1 : 0 };
    if (zero && tolower((unsigned char)digits.at[1]) == 'x')
        read = read_based((struct text){ digits.at + 2, digits.size - 2 }, 16, out);
    else if (zero && digits.at[1] == 'b')
        read = read_based((struct text){ digits.at + 2, digits.size - 2 }, 2, out);
    else if (zero && strspn(after_zero.at, "0123456789") == after_zero.size) // 08 is text
        read = read_based(after_zero, 8, out);
    else
        read = read_sixties(digits, out) || read_decimal(digits, out);
    if (read && negative)
        *out = -*out;
    return read;
}

static struct json resolve(struct reader *in, struct text word)
{
    static const char *const null_words[] = { "", "~", "null", "Null", "NULL", NULL };
    static const char *const true_words[] = { "yes",  "Yes", "YES", "true", "True",
                                              "TRUE", "on",  "On",  "ON",   NULL };
    static const char *const false_words[] = { "no",    "No",  "NO",  "false", "False",
                                               "FALSE", "off", "Off", "OFF",   NULL };
    double number;
    if (is_any(word, null_words))
        return (struct json){ .kind = JSON_NULL };
    if (is_any(word, true_words) || is_any(word, false_words))
        return (struct json){ .kind = JSON_BOOL, .flag = is_any(word, true_words) };
    if (read_number(in, word, &number))
        return (struct json){ .kind = JSON_NUMBER, .number = number };
    return (struct json){ .kind = JSON_STRING, .string = word };
}

static struct json read_scalar(struct reader *in, const yaml_event_t *event)
{
    size_t size = event->data.scalar.length;
    struct text word = { arena_copy(in->arena, (const char *)event->data.scalar.value, size),
                         size };
    const char *tag = (const char *)event->data.scalar.tag;
    bool typed = tag && (!strcmp(tag, YAML_INT_TAG) || !strcmp(tag, YAML_FLOAT_TAG) ||
                         !strcmp(tag, YAML_BOOL_TAG) || !strcmp(tag, YAML_NULL_TAG));
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !tag;
    if (plain || typed)
        return resolve(in, word);
    return (struct json){ .kind = JSON_STRING, .string = word };
}

// --- nodes -------------------------------------------------------------------

static enum err read_node(struct reader *in, struct node *out, const yaml_event_t *event,
                          int depth);

static enum err count(struct reader *in, size_t nodes, yaml_mark_t at)
{
    in->nodes += nodes;
    if (in->nodes > YAML_NODES)
        return wrong(in, at,
                     "holds more than 100,000 values once its aliases are resolved; no trainer's "
                     "configuration is that large");
    return OK;
}

static enum err read_alias(struct reader *in, struct node *out, const yaml_event_t *event,
                           int depth)
{
    const char *name = (const char *)event->data.alias.anchor;
    for (size_t i = in->anchor_count; i-- > 0;) {
        const struct anchor *a = &in->anchors[i];
        if (strcmp(a->name, name))
            continue;
        if (depth + a->height > JSON_DEPTH)
            return wrong(in, event->start_mark, "is nested too deeply");
        *out = (struct node){ .value = a->value, .height = a->height };
        return count(in, a->nodes, event->start_mark);
    }
    return wrong(in, event->start_mark,
                 text_format(in->arena, "alias *%.40s has no anchor before it", name));
}

static void remember(struct reader *in, const yaml_char_t *name, const struct node *node,
                     size_t nodes)
{
    if (!name)
        return;
    in->anchors =
        arena_room(in->arena, in->anchors, sizeof *in->anchors, in->anchor_count, &in->anchor_room);
    in->anchors[in->anchor_count++] =
        (struct anchor){ text_copy(in->arena, text_of((const char *)name)), node->value, nodes,
                         node->height };
}

// A list of values that grows: the items of a list, or keys and values in turn.
struct items {
    struct json *at;
    size_t count, room;
};

static void push(struct arena *arena, struct items *items, struct json value)
{
    items->at = arena_room(arena, items->at, sizeof *items->at, items->count, &items->room);
    items->at[items->count++] = value;
}

static void put(struct arena *arena, struct items *members, struct json key, struct json value,
                bool replace)
{
    for (size_t i = 0; i < members->count; i += 2)
        if (text_equal(members->at[i].string, key.string)) {
            if (replace)
                members->at[i + 1] = value;
            return;
        }
    push(arena, members, key);
    push(arena, members, value);
}

// Appends the members of merged mappings; the mapping's own members take precedence.
static enum err merge(struct reader *in, struct items *members, const struct json *from,
                      yaml_mark_t at)
{
    if (from->kind == JSON_ARRAY) {
        for (size_t i = 0; i < from->count; i++) {
            if (from->items[i].kind != JSON_OBJECT)
                return wrong(in, at, "<< takes a mapping or a list of them");
            TRY(merge(in, members, &from->items[i], at));
        }
        return OK;
    }
    if (from->kind != JSON_OBJECT)
        return wrong(in, at, "<< takes a mapping or a list of them");
    for (size_t i = 0; i < from->count; i++)
        put(in->arena, members, from->items[2 * i], from->items[2 * i + 1], false);
    return OK;
}

static enum err read_key(struct reader *in, struct json *out, const yaml_event_t *event,
                         bool *merges)
{
    if (event->type != YAML_SCALAR_EVENT)
        return wrong(in, event->start_mark, "has a key that is not a scalar");
    size_t size = event->data.scalar.length;
    *out = (struct json){
        .kind = JSON_STRING,
        .string = { arena_copy(in->arena, (const char *)event->data.scalar.value, size), size }
    };
    *merges = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && text_is(out->string, "<<");
    return OK;
}

static enum err read_member(struct reader *in, struct items *members, struct items *merged,
                            const yaml_event_t *event, int depth, int *height)
{
    struct json key;
    bool merges = false;
    TRY(read_key(in, &key, event, &merges));
    yaml_event_t value_event;
    TRY(next(in, &value_event));
    struct node value = { 0 };
    enum err err = read_node(in, &value, &value_event, depth + 1);
    yaml_event_delete(&value_event);
    TRY(err);
    if (value.height >= *height)
        *height = value.height + 1;
    if (members->count >= 2 * YAML_KEYS)
        return wrong(in, event->start_mark, "holds a mapping of more than 4,096 keys");
    if (merges)
        push(in->arena, merged, value.value);
    else
        put(in->arena, members, key, value.value, true);
    return OK;
}

static enum err read_mapping(struct reader *in, struct node *out, int depth, yaml_mark_t at)
{
    struct items members = { 0 }, merged = { 0 };
    for (bool open = true; open;) {
        yaml_event_t event;
        TRY(next(in, &event));
        open = event.type != YAML_MAPPING_END_EVENT;
        enum err err = open ? read_member(in, &members, &merged, &event, depth, &out->height) : OK;
        yaml_event_delete(&event);
        TRY(err);
    }
    for (size_t i = 0; i < merged.count; i++)
        TRY(merge(in, &members, &merged.at[i], at));
    out->value.kind = JSON_OBJECT;
    out->value.items = members.at;
    out->value.count = members.count / 2;
    return OK;
}

static enum err read_sequence(struct reader *in, struct node *out, int depth)
{
    struct items items = { 0 };
    for (bool open = true; open;) {
        yaml_event_t event;
        struct node item = { 0 };
        TRY(next(in, &event));
        open = event.type != YAML_SEQUENCE_END_EVENT;
        enum err err = open ? read_node(in, &item, &event, depth + 1) : OK;
        yaml_event_delete(&event);
        TRY(err);
        if (open)
            push(in->arena, &items, item.value);
        if (open && item.height >= out->height)
            out->height = item.height + 1;
    }
    out->value.kind = JSON_ARRAY;
    out->value.items = items.at;
    out->value.count = items.count;
    return OK;
}

static enum err read_node(struct reader *in, struct node *out, const yaml_event_t *event, int depth)
{
    if (depth > JSON_DEPTH)
        return wrong(in, event->start_mark, "is nested too deeply");
    if (event->type == YAML_ALIAS_EVENT)
        return read_alias(in, out, event, depth);
    *out = (struct node){ .height = 1 };
    size_t before = in->nodes;
    TRY(count(in, 1, event->start_mark));
    const yaml_char_t *anchor = NULL;
    if (event->type == YAML_SCALAR_EVENT) {
        out->value = read_scalar(in, event);
        anchor = event->data.scalar.anchor;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        TRY(read_sequence(in, out, depth));
        anchor = event->data.sequence_start.anchor;
    } else {
        TRY(read_mapping(in, out, depth, event->start_mark));
        anchor = event->data.mapping_start.anchor;
    }
    remember(in, anchor, out, in->nodes - before);
    return OK;
}

static enum err read_document(struct reader *in, struct json *out)
{
    *out = (struct json){ .kind = JSON_NULL };
    int documents = 0;
    for (bool open = true; open;) {
        yaml_event_t event;
        struct node node = { 0 };
        TRY(next(in, &event));
        enum err err = OK;
        switch (event.type) {
        case YAML_STREAM_END_EVENT: open = false; break;
        case YAML_DOCUMENT_START_EVENT:
            if (documents++)
                err = wrong(in, event.start_mark, "begins a second document; only one is allowed");
            break;
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT: break;
        default: err = read_node(in, &node, &event, 1); *out = node.value;
        }
        yaml_event_delete(&event);
        TRY(err);
    }
    return OK;
}

enum err yaml_read(struct json *out, struct arena *arena, struct text in, const char *name)
{
    struct reader reader = { .arena = arena, .name = name };
    if (!yaml_parser_initialize(&reader.parser))
        return fail(ERR_MEMORY, "%s: out of memory", name);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)(in.at ? in.at : ""),
                                 in.size);
    enum err err = read_document(&reader, out);
    yaml_parser_delete(&reader.parser);
    return err;
}
