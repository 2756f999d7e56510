// SPDX-License-Identifier: Apache-2.0
// Parses a pattern into a tree and compiles the tree into a program.

#include "base/pattern_internal.h"

#include <string.h>

enum { OPS = 4096, SET_ITEMS = 4096, LONGEST = 1 << 15 };
#define MANY UINT32_MAX

// --- tree --------------------------------------------------------------------

enum node_kind {
    NODE_EMPTY,
    NODE_SET,
    NODE_CLUSTER,
    NODE_LIST,
    NODE_CHOICE,
    NODE_REPEAT,
    NODE_LOOK,
    NODE_AT
};

struct node {
    enum node_kind kind;
    struct node *first, *next; // of a sequence or alternation; the body of a repeat or lookaround
    struct set *set;
    uint32_t least, most;
    enum mode mode;
    bool behind, negated;
    enum place place;
};

enum { NEGATIONS = 3 }; // sets like [^..] inside each other, without regard to case

struct parser {
    struct arena *arena;
    const char *at, *end;
    int depth;
    int negations; // folding negated sets around this place
    bool folds, dot_all;
    const char *refused;
};

static struct node *new_node(struct parser *p, enum node_kind kind)
{
    struct node *node = ARENA_NEW(p->arena, struct node, 1);
    node->kind = kind;
    return node;
}

static struct node *refuse(struct parser *p, const char *what)
{
    if (!p->refused)
        p->refused = what;
    p->at = p->end;
    return new_node(p, NODE_EMPTY);
}

static bool take(struct parser *p, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(p->end - p->at) < size || memcmp(p->at, word, size))
        return false;
    p->at += size;
    return true;
}

static struct set *new_set(struct parser *p)
{
    struct set *set = ARENA_NEW(p->arena, struct set, 1);
    set->folds = p->folds;
    return set;
}

static void add_item(struct parser *p, struct set *set, struct item item)
{
    if (item.categories && !item.traits) {
        set->categories |= item.negated ? ~item.categories : item.categories;
        return;
    }
    if (item.flags && !item.negated) {
        set->flags |= item.flags;
        return;
    }
    if (set->count == SET_ITEMS) {
        refuse(p, "a set with too many parts");
        return;
    }
    set->items = arena_room(p->arena, set->items, sizeof *set->items, set->count, &set->room);
    set->items[set->count++] = item;
}

static void finish_set(struct set *set)
{
    for (uint32_t code = 0; code < 128; code++)
        if (pattern_set_computes(set, code))
            set->ascii[code >> 6] |= UINT64_C(1) << (code & 63);
}

// --- reading escapes and sets ------------------------------------------------

static struct set *read_set(struct parser *p);

// The set of a class. The members are our own: they are as deep wherever the class stands.
static const struct set *class_set(struct parser *p, const char *members)
{
    struct parser inner = { .arena = p->arena, .at = members };
    inner.end = members + strlen(members);
    return read_set(&inner);
}

static bool find_property(struct parser *p, struct text name, struct item *item)
{
    const struct property *property = pattern_property(name);
    const char *members = pattern_class(name);
    if (property) {
        item->categories = property->categories;
        item->traits = property->traits;
        item->flags = property->flags;
    } else if (members) {
        item->inner = class_set(p, members);
    } else {
        item->script = unicode_script_named(name.at, name.size);
    }
    return property || members || item->script > 0;
}

static struct item read_property(struct parser *p, bool negated)
{
    struct text name = { p->at, p->at < p->end };
    if (take(p, "{")) {
        if (take(p, "^"))
            negated = !negated;
        const char *close = memchr(p->at, '}', (size_t)(p->end - p->at));
        name = (struct text){ p->at, close ? (size_t)(close - p->at) : 0 };
        p->at = close ? close + 1 : p->end;
    } else {
        p->at += name.size;
    }
    struct item item = { .negated = negated };
    if (find_property(p, name, &item))
        return item;
    refuse(p, text_format(p->arena, "the property \\p{%.*s}", TEXT_ARGS(name)));
    return (struct item){ 0 };
}

static uint32_t read_hex(struct parser *p, int most)
{
    uint32_t code = 0;
    bool braced = take(p, "{");
    if (braced)
        most = 6;
    for (; most-- > 0 && p->at < p->end; p->at++) {
        char c = *p->at;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            break;
        code = code * 16 + (uint32_t)digit;
    }
    if (braced && !take(p, "}"))
        refuse(p, "an unfinished \\x{..}");
    return code;
}

// Reads an escape that stands for characters, after its backslash.
static struct item read_escape(struct parser *p)
{
    if (p->at == p->end) {
        refuse(p, "a backslash at the end");
        return (struct item){ 0 };
    }
    uint32_t code = unicode_next(&p->at, p->end);
    switch (code) {
    case 'p': return read_property(p, false);
    case 'P': return read_property(p, true);
    case 's': return (struct item){ .flags = UNICODE_SPACE };
    case 'S': return (struct item){ .flags = UNICODE_SPACE, .negated = true };
    case 'w': return (struct item){ .flags = UNICODE_WORD };
    case 'W': return (struct item){ .flags = UNICODE_WORD, .negated = true };
    case 'd': return (struct item){ .categories = UNICODE_SET(ND) };
    case 'D': return (struct item){ .categories = UNICODE_SET(ND), .negated = true };
    case 'h': return (struct item){ .inner = class_set(p, "0-9A-Fa-f]") };
    case 'H': return (struct item){ .inner = class_set(p, "0-9A-Fa-f]"), .negated = true };
    case 'r': code = '\r'; break;
    case 'n': code = '\n'; break;
    case 't': code = '\t'; break;
    case 'f': code = '\f'; break;
    case 'v': code = '\v'; break;
    case 'a': code = '\a'; break;
    case 'e': code = 0x1B; break;
    case 'x': code = read_hex(p, 2); break;
    case 'u': code = read_hex(p, 4); break;
    default:
        if ((code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') ||
            (code >= 'A' && code <= 'Z'))
            refuse(p, text_format(p->arena, "the escape \\%c", (char)code));
    }
    return (struct item){ .low = code, .high = code };
}

static const struct set *read_inner_set(struct parser *p);

// Reads a class after its "[:".
static struct item read_class(struct parser *p)
{
    static const char *const names[] = { "alnum", "alpha", "ascii", "blank", "cntrl",
                                         "digit", "graph", "lower", "print", "punct",
                                         "space", "upper", "word",  "xdigit" };
    struct item item = { .negated = take(p, "^") };
    const char *start = p->at;
    bool known = false;
    while (p->at < p->end && *p->at >= 'a' && *p->at <= 'z')
        p->at++;
    struct text name = { start, (size_t)(p->at - start) };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        known |= text_is(name, names[i]);
    if (!known || !take(p, ":]") || !find_property(p, name, &item))
        refuse(p, text_format(p->arena, "the class [:%.*s:]", TEXT_ARGS(name)));
    return item;
}

static struct item read_set_item(struct parser *p)
{
    if (take(p, "[:"))
        return read_class(p);
    if (take(p, "["))
        return (struct item){ .inner = read_inner_set(p) };
    if (take(p, "\\"))
        return read_escape(p);
    uint32_t code = unicode_next(&p->at, p->end);
    return (struct item){ .low = code, .high = code };
}

static bool is_character(const struct item *item)
{
    return !item->categories && !item->flags && !item->inner && !item->script;
}

// A folding set asks its parts about every case of a character. Those cases have no further ones,
// so that a plain inner set need not ask again: nesting would multiply the work by five a level.
static const struct set *read_inner_set(struct parser *p)
{
    struct set *set = read_set(p);
    set->folds = set->folds && set->negated;
    return set;
}

// Reads the members of a set up to its closing bracket.
static struct set *read_members(struct parser *p, bool negated)
{
    struct set *set = new_set(p);
    if (++p->depth > PATTERN_DEPTH)
        refuse(p, "too deeply nested brackets");
    set->negated = negated;
    if (set->negated && set->folds && ++p->negations > NEGATIONS)
        refuse(p, "negated sets nested too deep");
    for (bool first = true;; first = false) {
        if (p->at == p->end) {
            refuse(p, "a set without its closing bracket");
            break;
        }
        if (!first && take(p, "]"))
            break;
        if (take(p, "&&")) { // the rest is a set of its own
            struct set *also = read_members(p, false);
            also->folds = false; // the set around it asks for every case
            set->also = also;
            break;
        }
        struct item item = read_set_item(p);
        if (is_character(&item) && p->end - p->at >= 2 && p->at[0] == '-' && p->at[1] != ']') {
            p->at++;
            struct item last = read_set_item(p);
            if (!is_character(&last) || last.high < item.low)
                refuse(p, "a range in reverse order");
            item.high = last.high;
        }
        add_item(p, set, item);
    }
    p->depth--;
    if (set->negated && set->folds)
        p->negations--;
    finish_set(set);
    return set;
}

// Reads a set after its opening bracket.
static struct set *read_set(struct parser *p)
{
    return read_members(p, take(p, "^"));
}

static struct node *set_node(struct parser *p, struct item item)
{
    struct node *node = new_node(p, NODE_SET);
    node->set = new_set(p);
    add_item(p, node->set, item);
    finish_set(node->set);
    return node;
}

// --- reading the rest --------------------------------------------------------

static struct node *read_choice(struct parser *p);

static struct node *place_node(struct parser *p, enum place place)
{
    struct node *node = new_node(p, NODE_AT);
    node->place = place;
    return node;
}

static struct node *read_look(struct parser *p, bool behind, bool negated)
{
    struct node *node = new_node(p, NODE_LOOK);
    node->behind = behind;
    node->negated = negated;
    node->first = read_choice(p);
    if (behind && !p->refused && node->first->kind != NODE_SET)
        return refuse(p, "a lookbehind of more than one character");
    return node;
}

// Reads a group after "(", up to but excluding ")".
static struct node *read_group(struct parser *p)
{
    if (!take(p, "?"))
        return read_choice(p);
    if (take(p, ":"))
        return read_choice(p);
    if (take(p, "="))
        return read_look(p, false, false);
    if (take(p, "!"))
        return read_look(p, false, true);
    if (take(p, "<="))
        return read_look(p, true, false);
    if (take(p, "<!"))
        return read_look(p, true, true);
    if (take(p, ">")) {
        struct node *node = new_node(p, NODE_REPEAT);
        node->least = node->most = 1;
        node->mode = POSSESSIVE;
        node->first = read_choice(p);
        return node;
    }
    bool folds = p->folds, dot_all = p->dot_all, off = false;
    for (; p->at < p->end && *p->at != ':' && *p->at != ')'; p->at++) {
        if (*p->at == '-')
            off = true;
        else if (*p->at == 'i')
            p->folds = !off;
        else if (*p->at == 'm')
            p->dot_all = !off;
        else
            return refuse(p, text_format(p->arena, "the group (?%c", *p->at));
    }
    if (p->at < p->end && *p->at == ')') // applies to the end of the enclosing group
        return new_node(p, NODE_EMPTY);
    take(p, ":");
    struct node *node = read_choice(p);
    p->folds = folds;
    p->dot_all = dot_all;
    return node;
}

// Reads an escape that is short for another pattern, which is our own too.
static struct node *read_text(struct parser *p, const char *pattern)
{
    struct parser inner = { .arena = p->arena, .at = pattern };
    inner.end = pattern + strlen(pattern);
    return read_choice(&inner);
}

static struct node *read_atom(struct parser *p)
{
    if (take(p, "(")) {
        bool folds = p->folds, dot_all = p->dot_all;
        bool bare = p->end - p->at > 2 && p->at[0] == '?' && p->at[1] == 'i' && p->at[2] == ')';
        if (++p->depth > PATTERN_DEPTH)
            return refuse(p, "too deeply nested groups");
        struct node *node = read_group(p);
        p->depth--;
        if (!take(p, ")") && !p->refused)
            return refuse(p, "a group without its closing bracket");
        if (!bare) {
            p->folds = folds;
            p->dot_all = dot_all;
        }
        return node;
    }
    if (take(p, "[")) {
        struct node *node = new_node(p, NODE_SET);
        node->set = read_set(p);
        return node;
    }
    if (take(p, "."))
        return set_node(p, p->dot_all
                               ? (struct item){ .high = UINT32_MAX }
                               : (struct item){ .low = '\n', .high = '\n', .negated = true });
    if (take(p, "^"))
        return place_node(p, AT_LINE_START);
    if (take(p, "$"))
        return place_node(p, AT_LINE_END);
    if (take(p, "\\A"))
        return place_node(p, AT_START);
    if (take(p, "\\z"))
        return place_node(p, AT_END);
    if (take(p, "\\Z"))
        return place_node(p, AT_LAST_LINE);
    if (take(p, "\\b"))
        return place_node(p, AT_EDGE);
    if (take(p, "\\B"))
        return place_node(p, AT_NO_EDGE);
    if (take(p, "\\X"))
        return new_node(p, NODE_CLUSTER);
    if (take(p, "\\R"))
        return read_text(p, "(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])");
    if (take(p, "\\N"))
        return read_text(p, "[^\\n]");
    if (take(p, "\\O"))
        return read_text(p, "(?m:.)");
    if (take(p, "\\"))
        return set_node(p, read_escape(p));
    if (*p->at == '*' || *p->at == '+' || *p->at == '?')
        return refuse(p, "a quantifier without an operand");
    uint32_t code = unicode_next(&p->at, p->end);
    return set_node(p, (struct item){ .low = code, .high = code });
}

static bool read_count(struct parser *p, uint32_t *count)
{
    const char *start = p->at;
    for (*count = 0; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        *count = *count < 100000 ? *count * 10 + (uint32_t)(*p->at - '0') : *count;
    return p->at > start;
}

static bool read_quantifier(struct parser *p, uint32_t *least, uint32_t *most)
{
    *least = 0;
    *most = MANY;
    if (take(p, "*"))
        return true;
    *least = 1;
    if (take(p, "+"))
        return true;
    *least = 0;
    *most = 1;
    if (take(p, "?"))
        return true;
    const char *start = p->at;
    if (!take(p, "{"))
        return false;
    bool has_least = read_count(p, least), comma = take(p, ",");
    bool has_most = comma && read_count(p, most);
    if (!take(p, "}") || (!has_least && !has_most)) { // a literal brace
        p->at = start;
        return false;
    }
    if (!comma)
        *most = *least;
    else if (!has_most)
        *most = MANY;
    if (*least > *most || *least > 1000 || (*most != MANY && *most > 1000))
        refuse(p, "a quantifier beyond 1,000");
    return true;
}

static struct node *read_repeat(struct parser *p)
{
    struct node *atom = read_atom(p);
    uint32_t least, most;
    bool braced;
    while (p->at < p->end && !p->refused) {
        braced = *p->at == '{';
        if (!read_quantifier(p, &least, &most))
            break;
        struct node *repeat = new_node(p, NODE_REPEAT);
        repeat->first = atom;
        repeat->least = least;
        repeat->most = most;
        if (take(p, "?"))
            repeat->mode = LAZY;
        else if (!braced && take(p, "+")) // {1,3}+ is a quantified quantifier
            repeat->mode = POSSESSIVE;
        atom = repeat;
    }
    return atom;
}

static struct node *read_list(struct parser *p)
{
    struct node *list = new_node(p, NODE_LIST), **last = &list->first;
    while (p->at < p->end && *p->at != '|' && *p->at != ')') {
        if (*p->at == '{') { // it was not a quantifier
            p->at++;
            *last = set_node(p, (struct item){ .low = '{', .high = '{' });
        } else {
            *last = read_repeat(p);
        }
        last = &(*last)->next;
    }
    return list->first && !list->first->next ? list->first : list;
}

static struct node *read_choice(struct parser *p)
{
    struct node *first = read_list(p);
    if (p->at == p->end || *p->at != '|')
        return first;
    struct node *choice = new_node(p, NODE_CHOICE), **last = &choice->first;
    *last = first;
    while (take(p, "|")) {
        last = &(*last)->next;
        *last = read_list(p);
    }
    return choice;
}

// --- program -----------------------------------------------------------------

struct writer {
    struct pattern *pattern;
    const char *refused;
};

static int write_op(struct writer *w, struct op op)
{
    if (w->pattern->count == OPS) {
        w->refused = "a pattern of too many parts";
        return 0;
    }
    w->pattern->ops[w->pattern->count] = op;
    return w->pattern->count++;
}

static bool may_be_empty(const struct node *node)
{
    switch (node->kind) {
    case NODE_SET:
    case NODE_CLUSTER: return false;
    case NODE_LIST:
        for (const struct node *n = node->first; n; n = n->next)
            if (!may_be_empty(n))
                return false;
        return true;
    case NODE_CHOICE:
        for (const struct node *n = node->first; n; n = n->next)
            if (may_be_empty(n))
                return true;
        return false;
    case NODE_REPEAT: return !node->least || may_be_empty(node->first);
    default: return true;
    }
}

static void write_node(struct writer *w, const struct node *node);

static void write_loop(struct writer *w, const struct node *node)
{
    struct op *ops = w->pattern->ops;
    bool lazy = node->mode == LAZY;
    for (uint32_t i = 0; i < node->least && !w->refused; i++) {
        int before = w->pattern->count;
        write_node(w, node->first);
        if (w->pattern->count == before) // nothing: repeats of repeats of it would take forever
            break;
    }
    if (node->most == MANY) {
        if (may_be_empty(node->first))
            w->refused = "a repeated group that may be empty";
        int split = write_op(w, (struct op){ .kind = OP_SPLIT });
        write_node(w, node->first);
        write_op(w, (struct op){ .kind = OP_JUMP, .x = split });
        *(lazy ? &ops[split].y : &ops[split].x) = split + 1;
        *(lazy ? &ops[split].x : &ops[split].y) = w->pattern->count;
        return;
    }
    int last = -1; // leaving one copy leaves all: their exits are chained until the end is known
    for (uint32_t i = node->least; i < node->most && !w->refused; i++) {
        int split = write_op(w, (struct op){ .kind = OP_SPLIT });
        write_node(w, node->first);
        *(lazy ? &ops[split].y : &ops[split].x) = split + 1;
        *(lazy ? &ops[split].x : &ops[split].y) = last;
        last = split;
    }
    while (last >= 0 && !w->refused) {
        int *way_out = lazy ? &ops[last].x : &ops[last].y;
        last = *way_out;
        *way_out = w->pattern->count;
    }
}

static void write_repeat(struct writer *w, const struct node *node)
{
    if (node->first->kind == NODE_SET) {
        write_op(w, (struct op){ .kind = OP_RUN,
                                 .set = node->first->set,
                                 .least = node->least,
                                 .most = node->most,
                                 .mode = node->mode });
        return;
    }
    if (node->mode != POSSESSIVE) {
        write_loop(w, node);
        return;
    }
    int atomic = write_op(w, (struct op){ .kind = OP_ATOMIC });
    write_loop(w, node);
    write_op(w, (struct op){ .kind = OP_END });
    w->pattern->ops[atomic].x = w->pattern->count;
}

static void write_choice(struct writer *w, const struct node *node)
{
    struct op *ops = w->pattern->ops;
    int jumps[256], count = 0;
    for (const struct node *n = node->first; n && !w->refused; n = n->next) {
        if (!n->next) {
            write_node(w, n);
            break;
        }
        int split = write_op(w, (struct op){ .kind = OP_SPLIT });
        write_node(w, n);
        if (count == 256) {
            w->refused = "a choice of too many parts";
            return;
        }
        jumps[count++] = write_op(w, (struct op){ .kind = OP_JUMP });
        ops[split].x = split + 1;
        ops[split].y = w->pattern->count;
    }
    for (int i = 0; i < count; i++)
        ops[jumps[i]].x = w->pattern->count;
}

static void write_node(struct writer *w, const struct node *node)
{
    if (w->refused)
        return;
    switch (node->kind) {
    case NODE_EMPTY: break;
    case NODE_SET: write_op(w, (struct op){ .kind = OP_SET, .set = node->set }); break;
    case NODE_CLUSTER: write_op(w, (struct op){ .kind = OP_CLUSTER }); break;
    case NODE_LIST:
        for (const struct node *n = node->first; n; n = n->next)
            write_node(w, n);
        break;
    case NODE_CHOICE: write_choice(w, node); break;
    case NODE_REPEAT: write_repeat(w, node); break;
    case NODE_AT: write_op(w, (struct op){ .kind = OP_AT, .place = node->place }); break;
    case NODE_LOOK: {
        int look = write_op(w, (struct op){ .kind = OP_LOOK,
                                            .behind = node->behind,
                                            .negated = node->negated,
                                            .set = node->first->set });
        if (!node->behind) {
            write_node(w, node->first);
            write_op(w, (struct op){ .kind = OP_END });
        }
        w->pattern->ops[look].x = w->pattern->count;
        break;
    }
    }
}

// Marks the bytes that a match from op `at` on may start with; false if it may be empty.
static void find_starts(struct pattern *pattern, int at, bool *seen)
{
    while (!seen[at]) {
        seen[at] = true;
        const struct op *op = &pattern->ops[at];
        switch (op->kind) {
        case OP_SET:
        case OP_RUN:
            for (int byte = 0; byte < 256; byte++)
                pattern->starts[byte] |= byte >= 128 || pattern_set_has(op->set, (uint32_t)byte);
            if (op->kind == OP_SET || op->least)
                return;
            at++;
            break;
        case OP_SPLIT:
            find_starts(pattern, op->x, seen);
            at = op->y;
            break;
        case OP_JUMP: at = op->x; break;
        case OP_AT: at++; break;
        case OP_LOOK: at = op->x; break;
        case OP_CLUSTER:
        case OP_ATOMIC:
        case OP_END: memset(pattern->starts, true, sizeof pattern->starts); return;
        }
    }
}

enum err pattern_read(struct pattern **out, struct arena *arena, struct text source,
                      const char *name)
{
    if (source.size > LONGEST) // those of real tokenizers have a few hundred
        return fail(ERR_INPUT, "%s: the pattern has %zu bytes; at most %d are supported", name,
                    source.size, (int)LONGEST);
    struct parser parser = { .arena = arena, .at = source.at, .end = source.at + source.size };
    struct node *tree = read_choice(&parser);
    if (!parser.refused && parser.at < parser.end)
        refuse(&parser, "an unmatched closing bracket");
    struct pattern *pattern = ARENA_NEW(arena, struct pattern, 1);
    pattern->ops = ARENA_NEW(arena, struct op, OPS + 1);
    struct writer writer = { .pattern = pattern, .refused = parser.refused };
    write_node(&writer, tree);
    write_op(&writer, (struct op){ .kind = OP_END });
    if (writer.refused)
        return fail(ERR_INPUT, "%s: the pattern %.*s has %s, which is not supported", name,
                    source.size > 200 ? 200 : (int)source.size, source.at, writer.refused);
    bool *seen = ARENA_NEW(arena, bool, OPS);
    find_starts(pattern, 0, seen);
    *out = pattern;
    return OK;
}
