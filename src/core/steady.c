#include "core/steady.h"

#include "base/arena.h"

#include <math.h>

const char *steady_cause_name(enum steady_cause cause)
{
    static const char *const names[] = { "evaluation", "save", "stall" };
    return names[cause];
}

const char *steady_verdict_name(enum steady_verdict verdict)
{
    static const char *const names[] = { "steady", "too_short", "drifts", "jumps" };
    return names[verdict];
}

void steady_measure(struct steady *out, struct arena *arena, const struct steady_step *steps,
                    size_t count, const struct steady_rule *rule)
{
    (void)rule;
    double *seconds = ARENA_NEW(arena, double, count + 1), total = 0, tokens = 0;
    for (size_t i = 0; i < count; i++)
        seconds[i] = steps[i].seconds, total += steps[i].seconds, tokens += steps[i].tokens;
    *out = (struct steady){ .verdict = count > 1 ? STEADY_YES : STEADY_TOO_SHORT,
                            .reason = count > 1 ? NULL : "too few steps",
                            .ordinary_steps = (int64_t)count,
                            .ordinary_seconds = total,
                            .ordinary_tokens = tokens,
                            .tokens_per_s = { NAN, tokens / total, NAN },
                            .step_seconds = { NAN, total / (double)count, NAN },
                            .spread = stats_range(seconds, count) };
}
