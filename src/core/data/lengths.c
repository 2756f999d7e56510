// SPDX-License-Identifier: Apache-2.0
// Lists and tallies of example lengths: sorting, merging, sampling, quantiles, JSON.

#include "core/data/lengths.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

void lengths_add(struct lengths *list, int64_t tokens, int64_t labelled)
{
    list->items =
        arena_room(list->arena, list->items, sizeof *list->items, list->count, &list->room);
    if (tokens > LENGTHS_LONGEST)
        tokens = LENGTHS_LONGEST;
    if (labelled > tokens)
        labelled = tokens;
    list->items[list->count++] = (struct length){ (int32_t)tokens, (int32_t)labelled };
}

// --- list to tally -----------------------------------------------------------

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

// One pass of a radix sort by tokens. False if all items have the same digit: nothing to do.
static bool sort_digit(struct length *out, const struct length *in, size_t count, int shift)
{
    size_t starts[DIGITS + 1] = { 0 };
    for (size_t i = 0; i < count; i++)
        starts[((uint32_t)in[i].tokens >> shift & (DIGITS - 1)) + 1]++;
    for (size_t d = 0; d < DIGITS; d++)
        if (starts[d + 1] == count)
            return false;
    for (size_t d = 0; d < DIGITS; d++)
        starts[d + 1] += starts[d];
    for (size_t i = 0; i < count; i++)
        out[starts[(uint32_t)in[i].tokens >> shift & (DIGITS - 1)]++] = in[i];
    return true;
}

static struct length *sorted(struct arena *arena, const struct lengths *list)
{
    struct length *from = ARENA_NEW(arena, struct length, list->count);
    struct length *to = ARENA_NEW(arena, struct length, list->count);
    if (list->count)
        memcpy(from, list->items, list->count * sizeof *from);
    for (int shift = 0; shift < 31; shift += DIGIT_BITS) {
        if (!sort_digit(to, from, list->count, shift))
            continue;
        struct length *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

void lengths_tally(struct lengths_tally *out, struct arena *arena, const struct lengths *list)
{
    struct arena scratch = { 0 };
    struct length *items = sorted(&scratch, list);
    size_t distinct = 0;
    for (size_t i = 0; i < list->count; i++)
        distinct += !i || items[i].tokens != items[i - 1].tokens;

    *out = (struct lengths_tally){ .bins = ARENA_NEW(arena, struct lengths_bin, distinct) };
    for (size_t i = 0; i < list->count; i++) {
        if (!i || items[i].tokens != items[i - 1].tokens)
            out->bins[out->count++].tokens = items[i].tokens;
        struct lengths_bin *bin = &out->bins[out->count - 1];
        bin->examples++;
        bin->labelled += items[i].labelled;
    }
    arena_release(&scratch);
}

void lengths_merge(struct lengths_tally *out, struct arena *arena, const struct lengths_tally *a,
                   const struct lengths_tally *b)
{
    struct lengths_bin *bins = ARENA_NEW(arena, struct lengths_bin, a->count + b->count);
    size_t count = 0, i = 0, j = 0;
    while (i < a->count || j < b->count) {
        bool takes_a = i < a->count && (j == b->count || a->bins[i].tokens <= b->bins[j].tokens);
        const struct lengths_bin *next = takes_a ? &a->bins[i++] : &b->bins[j++];
        if (!count || bins[count - 1].tokens != next->tokens) {
            bins[count++] = *next;
            continue;
        }
        bins[count - 1].examples += next->examples;
        bins[count - 1].labelled += next->labelled;
    }
    *out = (struct lengths_tally){ bins, count };
}

void lengths_fold(struct lengths_tally *tally, struct arena *arena, struct lengths *list)
{
    struct arena scratch = { 0 }, next = { 0 };
    struct lengths_tally more, all;
    lengths_tally(&more, &scratch, list);
    lengths_merge(&all, &next, tally, &more);
    arena_release(&scratch);
    arena_release(arena);
    *arena = next;
    *tally = all;
    list->count = 0;
}

void lengths_unroll(struct lengths *out, struct arena *arena, const struct lengths_tally *tally,
                    uint64_t seed)
{
    int64_t all = lengths_sum(tally).examples;
    int64_t wanted = all < LENGTHS_SIMULATED ? all : LENGTHS_SIMULATED, seen = 0;
    *out = (struct lengths){ .arena = arena, .room = (size_t)wanted };
    out->items = ARENA_NEW(arena, struct length, out->room);
    for (size_t i = 0; i < tally->count; i++) {
        const struct lengths_bin *bin = &tally->bins[i];
        seen += bin->examples;
        int64_t end = wanted == all ? seen : (int64_t)((double)seen / (double)all * (double)wanted);
        int64_t count = end - (int64_t)out->count;
        double labelled = (double)bin->labelled / (double)bin->examples * (double)count;
        int64_t sum = wanted == all ? bin->labelled : (int64_t)labelled;
        for (int64_t k = 0; k < count; k++)
            out->items[out->count++] =
                (struct length){ (int32_t)bin->tokens, (int32_t)(sum / count + (k < sum % count)) };
    }
    struct rng rng = rng_seeded(seed);
    for (size_t i = out->count; i > 1; i--) {
        size_t other = (size_t)rng_below(&rng, i);
        struct length swap = out->items[i - 1];
        out->items[i - 1] = out->items[other];
        out->items[other] = swap;
    }
    if (wanted != all)
        out->each = (double)all / (double)out->count;
}

double lengths_each(const struct lengths *list)
{
    return list->each > 0 ? list->each : 1;
}

// --- sums and quantiles of a tally -------------------------------------------------------

struct lengths_sums lengths_sum(const struct lengths_tally *tally)
{
    struct lengths_sums sums = { 0 };
    for (size_t i = 0; i < tally->count; i++) {
        const struct lengths_bin *bin = &tally->bins[i];
        sums.examples += bin->examples;
        sums.tokens += bin->examples * bin->tokens;
        sums.labelled += bin->labelled;
        sums.squares += (double)bin->examples * (double)bin->tokens * (double)bin->tokens;
        sums.longest = bin->tokens;
    }
    return sums;
}

int64_t lengths_quantile(const struct lengths_tally *tally, double share)
{
    int64_t wanted = (int64_t)ceil(share * (double)lengths_sum(tally).examples), seen = 0;
    for (size_t i = 0; i < tally->count; i++) {
        seen += tally->bins[i].examples;
        if (seen >= wanted)
            return tally->bins[i].tokens;
    }
    return 0;
}

struct lengths_cut lengths_cut(const struct lengths_tally *tally, int64_t window)
{
    struct lengths_cut cut = { 0 };
    for (size_t i = tally->count; i > 0 && tally->bins[i - 1].tokens > window; i--) {
        const struct lengths_bin *bin = &tally->bins[i - 1];
        int64_t lost = (bin->tokens - window) * bin->examples;
        cut.examples += bin->examples;
        cut.tokens += lost;
        cut.labelled += lost < bin->labelled ? lost : bin->labelled;
    }
    return cut;
}

// --- JSON --------------------------------------------------------------------

void lengths_write(const struct lengths_tally *tally, struct json_writer *w, const char *key)
{
    json_open(w, key, '[');
    bool compact = w->compact;
    for (size_t i = 0; i < tally->count; i++) {
        json_open(w, NULL, '[');
        w->compact = true;
        json_put_count(w, NULL, tally->bins[i].tokens);
        json_put_count(w, NULL, tally->bins[i].examples);
        json_put_count(w, NULL, tally->bins[i].labelled);
        json_close(w, ']');
        w->compact = compact;
    }
    json_close(w, ']');
}

static bool read_bin(struct lengths_bin *bin, const struct json *in)
{
    if (in->kind != JSON_ARRAY || in->count != 3)
        return false;
    for (size_t i = 0; i < 3; i++)
        if (in->items[i].kind != JSON_NUMBER || in->items[i].number != floor(in->items[i].number) ||
            in->items[i].number < 0 || in->items[i].number > 9e15)
            return false;
    *bin = (struct lengths_bin){ (int64_t)in->items[0].number, (int64_t)in->items[1].number,
                                 (int64_t)in->items[2].number };
    return bin->tokens <= LENGTHS_LONGEST && bin->examples > 0 &&
           bin->examples <= LENGTHS_LONGEST && bin->labelled <= bin->tokens * bin->examples;
}

enum err lengths_read(struct lengths_tally *out, struct arena *arena, const struct json *in,
                      const char *name)
{
    *out = (struct lengths_tally){ 0 };
    if (!in || in->kind != JSON_ARRAY)
        return fail(ERR_INPUT,
                    "%s: length.histogram is missing; it must be a list of "
                    "[tokens, examples, labelled], as gpuhours profile writes it",
                    name);
    const double most_tokens = 9e15; // as much as a count of JSON may be
    double tokens = 0;
    out->bins = ARENA_NEW(arena, struct lengths_bin, in->count);
    for (size_t i = 0; i < in->count; i++) {
        struct lengths_bin *bin = &out->bins[out->count++];
        if (!read_bin(bin, &in->items[i]) || (i && bin[-1].tokens >= bin->tokens))
            return fail(ERR_INPUT,
                        "%s: length.histogram[%zu] must be [tokens, examples, labelled]: integers "
                        "in increasing order of tokens, as gpuhours profile writes them",
                        name, i);
        if ((tokens += (double)(bin->tokens * bin->examples)) > most_tokens)
            return fail(ERR_INPUT, "%s: length.histogram has over %g tokens", name, most_tokens);
    }
    return OK;
}
