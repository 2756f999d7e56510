// SPDX-License-Identifier: Apache-2.0
// Runs a pattern's program on a backtracking machine.
//
// The machine has a position in the program (op) and in the text (at). An op that has alternatives
// pushes the ones not taken; when an op fails, the last one pushed is popped and tried:
//
//     \s+(?!\S)|\s+              on "a  b" from byte 1, the first space
//
//     0  SPLIT 1, 6             pushes op 6, tries op 1           [op 6 at 1]
//     1  RUN \s, 1 or more      takes both spaces                 [op 6 at 1] [run at 3, down to 2]
//     2  LOOK not, then 5       runs 3 and 4 on "b": found, so it fails; pops the run, which gives
//     3    SET \S               back a space; runs 3 and 4 on " ": not found, so it goes on at 5
//     4    END
//     5  JUMP 7
//     6  RUN \s, 1 or more
//     7  END                    the match is byte 1
//
// A run of one set of characters is one frame however long it is: it stores the current end and how
// far it may shrink (greedy) or grow (lazy). So common patterns need only a few frames.
//
// Bounds: steps per match, frames, and depth of nested lookarounds; exceeding one is "no match".
// Invariant: run() leaves the stack as it found it.

#include "base/pattern_internal.h"

#include <assert.h>

enum { STEPS_AT_LEAST = 1 << 10, STEPS_PER_BYTE = 256, STEPS_PER_OP = 8, FRAMES = 1 << 20 };

// --- sets of characters ------------------------------------------------------

static bool item_has(const struct item *item, uint32_t code);

static bool items_have(const struct set *set, uint32_t code)
{
    unsigned class = unicode_class(code);
    bool has = set->categories >> (class & UNICODE_CATEGORY) & 1 || class & set->flags;
    for (size_t i = 0; !has && i < set->count; i++)
        has = item_has(&set->items[i], code);
    return has && (!set->also || pattern_set_computes(set->also, code));
}

bool pattern_set_computes(const struct set *set, uint32_t code)
{
    bool has = items_have(set, code);
    if (!has && set->folds) {
        uint32_t fold = unicode_fold(code);
        has = items_have(set, fold) || (fold >= 'a' && fold <= 'z' && items_have(set, fold - 32)) ||
              (fold == 's' && items_have(set, 0x17F)) || (fold == 'k' && items_have(set, 0x212A));
    }
    return has != set->negated;
}

static bool item_has(const struct item *item, uint32_t code)
{
    bool has;
    if (item->inner && code < 128) // known since the inner set was read
        has = item->inner->ascii[code >> 6] >> (code & 63) & 1;
    else if (item->inner)
        has = pattern_set_computes(item->inner, code);
    else if (item->categories)
        has = unicode_is(code, item->categories) ||
              (item->traits && unicode_traits(code) & item->traits);
    else if (item->script)
        has = unicode_script(code) == item->script;
    else if (item->flags)
        has = unicode_class(code) & item->flags;
    else
        has = code >= item->low && code <= item->high;
    return has != item->negated;
}

// --- machine -----------------------------------------------------------------

// An alternative to try later: continue at op from `at`. The frame of a run has a limit: how far
// its end may move, one character at a time.
struct pattern_frame {
    int op;
    const char *at, *limit;
};

struct machine {
    const struct pattern *pattern;
    struct pattern_stack *stack;
    const char *start, *end; // of the text
    int64_t steps;
    int depth;
};

static void push(struct machine *m, int op, const char *at, const char *limit)
{
    struct pattern_stack *s = m->stack;
    if (s->count == FRAMES) {
        m->steps = 0;
        return;
    }
    s->frames = arena_room(s->arena, s->frames, sizeof *s->frames, s->count, &s->room);
    s->frames[s->count++] = (struct pattern_frame){ op, at, limit };
}

static bool is_word_at(const struct machine *m, const char *at)
{
    return at < m->end && unicode_class(unicode_next(&at, m->end)) & UNICODE_WORD;
}

static bool holds_at(const struct machine *m, enum place place, const char *at)
{
    bool before = at > m->start && unicode_class(unicode_before(m->start, at)) & UNICODE_WORD;
    switch (place) {
    case AT_START: return at == m->start;
    case AT_END: return at == m->end;
    case AT_LAST_LINE: return at == m->end || (at + 1 == m->end && *at == '\n');
    case AT_LINE_START: return at == m->start || at[-1] == '\n';
    case AT_LINE_END: return at == m->end || *at == '\n';
    case AT_EDGE: return before != is_word_at(m, at);
    case AT_NO_EDGE: return before == is_word_at(m, at);
    }
    return false;
}

static const char *run(struct machine *m, int op, const char *at);

static bool looks(struct machine *m, const struct op *op, int index, const char *at)
{
    bool found;
    if (op->behind)
        found = at > m->start && pattern_set_has(op->set, unicode_before(m->start, at));
    else
        found = run(m, index + 1, at) != NULL;
    return found != op->negated;
}

// Takes as many characters as the run allows, or as few if lazy; pushes the alternative.
static const char *take_run(struct machine *m, const struct op *op, int index, const char *at)
{
    uint32_t count = 0, most = op->mode == LAZY ? op->least : op->most;
    const char *least = at;
    while (count < most && at < m->end) {
        const char *next = at;
        if (!pattern_set_has(op->set, unicode_next(&next, m->end)))
            break;
        at = next;
        if (++count == op->least)
            least = at;
    }
    m->steps -= count / 8;
    if (count < op->least)
        return NULL;
    if (op->mode == GREEDY && at > least)
        push(m, index, at, least);
    if (op->mode == LAZY && op->most > op->least)
        push(m, index, at, m->end);
    return at;
}

// Resumes a run with one character less, or one more if lazy. NULL if it cannot.
static const char *change_run(struct machine *m, struct pattern_frame frame)
{
    const struct op *op = &m->pattern->ops[frame.op];
    const char *at = frame.at;
    if (op->mode == GREEDY) {
        char bytes[UNICODE_BYTES];
        at -= unicode_put(bytes, unicode_before(m->start, at));
        if (at > frame.limit)
            push(m, frame.op, at, frame.limit);
        return at;
    }
    if (at == m->end || !pattern_set_has(op->set, unicode_next(&at, m->end)))
        return NULL;
    push(m, frame.op, at, frame.limit);
    return at;
}

// The end of a match of the program from op index on, or NULL.
static const char *run(struct machine *m, int index, const char *at)
{
    size_t floor = m->stack->count;
    if (++m->depth > PATTERN_DEPTH)
        m->steps = 0;
    while (m->steps-- > 0) {
        const struct op *op = &m->pattern->ops[index];
        const char *next = at;
        switch (op->kind) {
        case OP_SET:
            if (at == m->end || !pattern_set_has(op->set, unicode_next(&next, m->end)))
                next = NULL;
            index++;
            break;
        case OP_CLUSTER:
            next = at < m->end ? at + unicode_cluster(m->start, at, m->end) : NULL;
            index++;
            break;
        case OP_RUN:
            next = take_run(m, op, index, at);
            index++;
            break;
        case OP_SPLIT:
            push(m, op->y, at, NULL);
            index = op->x;
            break;
        case OP_JUMP: index = op->x; break;
        case OP_LOOK:
            next = looks(m, op, index, at) ? at : NULL;
            index = op->x;
            break;
        case OP_ATOMIC:
            next = run(m, index + 1, at);
            index = op->x;
            break;
        case OP_AT:
            next = holds_at(m, op->place, at) ? at : NULL;
            index++;
            break;
        case OP_END:
            m->stack->count = floor;
            m->depth--;
            return at;
        }
        assert(m->stack->count >= floor);
        while (!next && m->stack->count > floor && m->steps-- > 0) {
            struct pattern_frame frame = m->stack->frames[--m->stack->count];
            next = frame.limit ? change_run(m, frame) : frame.at;
            index = frame.limit ? frame.op + 1 : frame.op;
        }
        if (!next)
            break;
        at = next;
    }
    m->stack->count = floor;
    m->depth--;
    return NULL;
}

// The steps that all matches in a text may take together: in proportion to its size, so that no
// text takes more than linear time, however the pattern backtracks. A long alternation needs more.
static int64_t steps_for(const struct pattern *pattern, size_t size)
{
    int64_t per_byte = STEPS_PER_BYTE + STEPS_PER_OP * (int64_t)pattern->count;
    return STEPS_AT_LEAST + per_byte * (int64_t)size;
}

bool pattern_find(const struct pattern *pattern, struct pattern_stack *stack, struct text text,
                  size_t from, struct pattern_match *match)
{
    if (!from)
        stack->steps = steps_for(pattern, text.size);
    struct machine m = { pattern, stack, text.at, text.at + text.size, stack->steps, 0 };
    const char *at = text.at + from;
    for (;;) {
        while (at < m.end && !pattern->starts[(unsigned char)*at])
            at++;
        const char *stop = run(&m, 0, at);
        stack->steps = m.steps;
        if (stop) {
            *match = (struct pattern_match){ (size_t)(at - text.at), (size_t)(stop - text.at) };
            return true;
        }
        if (at == m.end || m.steps <= 0)
            return false;
        unicode_next(&at, m.end);
    }
}

size_t pattern_match(const struct pattern *pattern, struct pattern_stack *stack, struct text text,
                     size_t from)
{
    int64_t steps = steps_for(pattern, text.size - from);
    struct machine m = { pattern, stack, text.at, text.at + text.size, steps, 0 };
    const char *stop = run(&m, 0, text.at + from);
    return stop ? (size_t)(stop - text.at) : SIZE_MAX;
}
