// SPDX-License-Identifier: Apache-2.0
// Says what a data set loses at a context window.

#include "core/data/packing.h"

#include <math.h>

void packing_loss_add(struct packing_loss *loss, int64_t tokens, int64_t window)
{
    loss->examples += 1;
    loss->tokens += (double)tokens;
    loss->cut += tokens > window;
    loss->lost += tokens > window ? (double)(tokens - window) : 0;
    loss->longest = fmax(loss->longest, (double)tokens);
}

bool packing_loss_matters(const struct packing_loss *loss)
{
    return loss->lost > 0.005 * loss->tokens ||
           (loss->lost > 0 && loss->cut + loss->dropped > 0.01 * loss->examples);
}

static const char *number(struct arena *arena, double value)
{
    return text_commas(arena, llround(value));
}

static const char *rows_are(struct arena *arena, double rows)
{
    return text_format(arena, "%s %s", number(arena, rows), llround(rows) == 1 ? "is" : "are");
}

const char *packing_loss_text(const struct packing_loss *loss, struct arena *arena, double window)
{
    struct out out = { .arena = arena };
    out_put(&out, "of %s rows, ", number(arena, loss->examples));
    if (loss->cut > 0)
        out_put(&out, "%s cut at the context of %s", rows_are(arena, loss->cut),
                number(arena, window));
    if (loss->dropped > 0)
        out_put(&out, "%s%s left out (too long for the context of %s, or without labels)",
                loss->cut > 0 ? " and " : "", rows_are(arena, loss->dropped),
                number(arena, window));
    out_put(&out, ": %s of %s tokens (%s) are not trained on", number(arena, loss->lost),
            number(arena, loss->tokens), text_share(arena, loss->lost / loss->tokens));
    return out_string(&out);
}
