// SPDX-License-Identifier: Apache-2.0
// The user's pattern. base/pattern.h finds matches but no groups, so the group B of A(B)C is found
// by two more patterns at the position of the match: A(?=BC) ends where the group begins, AB(?=C)
// where it ends. All three try their choices in the same order.

#include "base/pattern.h"
#include "core/trainers/trainer_log_internal.h"

#include <math.h>
#include <string.h>

enum { GROUPS = 12 };

#define NAMED(name, field)                                    \
    {                                                         \
        name, offsetof(struct trainer_log_found, event.field) \
    }

static const struct {
    const char *name;
    size_t offset;
} names[] = {
    NAMED("step", step),
    NAMED("total", total),
    NAMED("epoch", epoch),
    NAMED("loss", loss),
    NAMED("rate", rate),
    NAMED("tokens", tokens),
    NAMED("step_tokens", step_tokens),
    NAMED("tokens_per_second", tokens_per_s),
    NAMED("seconds", step_seconds),
};

struct group {
    const char *open, *body, *close; // in the user's text: "(", after "(?<name>", ")"
    size_t offset;
    struct pattern *before, *until;
};

struct trainer_log_pattern {
    struct pattern *whole;
    struct pattern_stack stack;
    struct group groups[GROUPS];
    int count;
};

// --- reading -----------------------------------------------------------------

static enum err find_offset(size_t *offset, struct text name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_is(name, names[i].name)) {
            *offset = names[i].offset;
            return OK;
        }
    return fail(
        ERR_USAGE,
        "--pattern: there is no value named %.*s; use step, total, loss, rate, epoch, tokens, "
        "step_tokens, tokens_per_second or seconds",
        TEXT_BRIEF(name));
}

// Position after an escape, a class or a single character.
static const char *skip_one(const char *at)
{
    if (*at == '\\')
        return at + (at[1] ? 2 : 1);
    if (*at != '[')
        return at + 1;
    at += at[1] == '^' ? 2 : 1;
    at += *at == ']';
    while (*at && *at != ']')
        at += *at == '\\' && at[1] ? 2 : 1;
    return *at ? at + 1 : at;
}

// Whether a capturing group opens here. Sets where its body begins, and its name.
static bool opens_group(const char *at, const char **body, struct text *name)
{
    *name = (struct text){ 0 };
    if (at[0] != '(')
        return false;
    if (at[1] != '?') {
        *body = at + 1;
        return true;
    }
    const char *less = at + 2 + (at[2] == 'P');
    const char *more = *less == '<' && less[1] != '=' && less[1] != '!' ? strchr(less, '>') : NULL;
    if (!more)
        return false;
    *name = (struct text){ less + 1, (size_t)(more - less - 1) };
    *body = more + 1;
    return true;
}

static enum err add_group(struct trainer_log_pattern *p, const char *open, const char *body,
                          struct text name)
{
    size_t offset = names[0].offset;
    if (name.at)
        TRY(find_offset(&offset, name));
    if (p->count == GROUPS)
        return fail(ERR_USAGE,
                    "--pattern: more than %d groups; use (?:…) for those without a value", GROUPS);
    p->groups[p->count++] = (struct group){ .open = open, .body = body, .offset = offset };
    return OK;
}

static enum err find_groups(struct trainer_log_pattern *p, const char *source)
{
    int depth = 0;
    bool open = false, choice = false;
    for (const char *at = source; *at;) {
        const char *body = at;
        struct text name;
        bool opens = opens_group(at, &body, &name);
        if (opens && name.at && depth)
            return fail(ERR_USAGE, "--pattern: the group %.*s is inside another one",
                        TEXT_BRIEF(name));
        if (opens && !depth) {
            TRY(add_group(p, at, body, name));
            open = true;
        }
        choice = choice || (*at == '|' && !depth);
        if (*at == ')' && --depth == 0 && open) {
            p->groups[p->count - 1].close = at;
            open = false;
            if (at[1] && strchr("*+?{", at[1]))
                return fail(ERR_USAGE, "--pattern: a group for a value cannot be repeated: put the "
                                       "repetition inside it");
        }
        depth += *at == '(';
        at = opens ? body : skip_one(at);
    }
    if (choice && p->count)
        return fail(ERR_USAGE, "--pattern: put the alternatives into (?:…|…)");
    if (open || depth)
        return fail(ERR_USAGE, "--pattern: a bracket is not closed");
    return OK;
}

// The user's text between two positions, with non-capturing groups.
static void put_plain(const struct trainer_log_pattern *p, struct out *out, const char *from,
                      const char *end)
{
    for (int i = 0; i < p->count; i++) {
        const struct group *group = &p->groups[i];
        if (group->open < from || group->open >= end)
            continue;
        out_bytes(out, from, (size_t)(group->open - from));
        out_put(out, "(?:");
        from = group->body;
    }
    out_bytes(out, from, (size_t)(end - from));
}

static enum err read_part(struct trainer_log_pattern *p, struct pattern **out, struct arena *arena,
                          const char *source, const char *cut)
{
    struct out text = { .arena = arena };
    const char *end = source + strlen(source);
    put_plain(p, &text, source, cut);
    if (cut < end) {
        out_put(&text, "(?=");
        put_plain(p, &text, cut, end);
        out_put(&text, ")");
    }
    return pattern_read(out, arena, out_view(&text), "--pattern");
}

enum err trainer_log_read_pattern(struct trainer_log_pattern **out, struct arena *arena,
                                  const char *source)
{
    struct trainer_log_pattern *p = ARENA_NEW(arena, struct trainer_log_pattern, 1);
    p->stack.arena = arena;
    TRY(find_groups(p, source));
    bool has_step = false;
    for (int i = 0; i < p->count; i++)
        has_step = has_step || p->groups[i].offset == names[0].offset;
    if (!has_step)
        return fail(ERR_USAGE, "--pattern: has no group for the step number; write it as in 'step "
                               "(\\d+)' or '(?<step>\\d+)'");
    TRY(read_part(p, &p->whole, arena, source, source + strlen(source)));
    for (int i = 0; i < p->count; i++) {
        TRY(read_part(p, &p->groups[i].before, arena, source, p->groups[i].open));
        TRY(read_part(p, &p->groups[i].until, arena, source, p->groups[i].close + 1));
    }
    *out = p;
    return OK;
}

// --- matching ----------------------------------------------------------------

static void take(struct trainer_log_found *found, const struct group *group, struct text value)
{
    char text[64];
    double number;
    double *slot = (double *)((char *)found + group->offset);
    value = text_trim(value);
    if (!value.size || value.size >= sizeof text || !isnan(*slot)) // the first group of a name
        return;
    memcpy(text, value.at, value.size);
    text[value.size] = 0;
    if (!trainer_log_number(text, &number))
        return;
    *slot = number;
    found->count++;
}

bool trainer_log_match(struct trainer_log_pattern *p, struct trainer_log_found *found,
                       struct text line)
{
    struct pattern_match match;
    if (!pattern_find(p->whole, &p->stack, line, 0, &match))
        return false;
    for (int i = 0; i < p->count; i++) {
        size_t from = pattern_match(p->groups[i].before, &p->stack, line, match.start);
        size_t end = pattern_match(p->groups[i].until, &p->stack, line, match.start);
        if (from <= end && end <= line.size)
            take(found, &p->groups[i], (struct text){ line.at + from, end - from });
    }
    return !isnan(found->event.step);
}
