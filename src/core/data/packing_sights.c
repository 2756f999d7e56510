// SPDX-License-Identifier: Apache-2.0
// Counts how many shapes of micro-batches have been met after each of them.

#include "core/data/packing_internal.h"

#include <math.h>
#include <stdlib.h>

struct sight {
    int64_t rows, width;
    size_t at; // index of the micro-batch
};

static int by_shape(const void *left, const void *right)
{
    const struct sight *a = left, *b = right;
    if (a->width != b->width)
        return a->width < b->width ? -1 : 1;
    if (a->rows != b->rows)
        return a->rows < b->rows ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static void add(struct sight *sights, size_t *count, const struct packing *epoch)
{
    for (size_t i = 0; epoch && i < epoch->count; i++) {
        sights[*count] = (struct sight){ epoch->batches[i].rows, epoch->batches[i].width, *count };
        ++*count;
    }
}

// is_first[i]: whether micro-batch i is the first of its shape.
static size_t find_first(bool **is_first, struct arena *arena, const struct packing *epoch,
                         const struct packing *next)
{
    size_t most = epoch->count + (next ? next->count : 0), count = 0;
    struct sight *sights = ARENA_NEW(arena, struct sight, most + 1);
    *is_first = ARENA_NEW(arena, bool, most + 1);
    add(sights, &count, epoch);
    add(sights, &count, next);
    qsort(sights, count, sizeof *sights, by_shape);
    for (size_t i = 0; i < count; i++)
        (*is_first)[sights[i].at] =
            !i || sights[i].width != sights[i - 1].width || sights[i].rows != sights[i - 1].rows;
    return count;
}

// The i-th micro-batch at which the count is kept: 20 log-spaced ones to the end of the epoch, the
// rest evenly over the second.
static size_t mark(int i, size_t epoch, size_t all)
{
    enum { FIRST = 20, SECOND = PACKING_SIGHTS - FIRST };
    if (i < FIRST)
        return (size_t)(pow((double)epoch, (double)i / (FIRST - 1)) + 0.5);
    return epoch + (all - epoch) * (size_t)(i - FIRST + 1) / SECOND;
}

void packing_count_sights(struct packing_sights *out, const struct packing *epoch,
                          const struct packing *next)
{
    struct arena scratch = { 0 };
    bool *is_first;
    size_t count = find_first(&is_first, &scratch, epoch, next), done = 0;
    double seen = 0, tokens = 0;
    *out = (struct packing_sights){ .epoch = (double)epoch->count };
    for (int i = 0; i < PACKING_SIGHTS && count; i++) {
        size_t end = mark(i, epoch->count, count);
        if (end <= done)
            continue;
        for (; done < end; done++) {
            const struct packing *of = done < epoch->count ? epoch : next;
            const struct packing_batch *batch =
                &of->batches[done - (of == epoch ? 0 : epoch->count)];
            seen += is_first[done];
            tokens += (double)batch->rows * (double)batch->width;
        }
        out->micro_batches[out->count] = (double)done;
        out->tokens[out->count] = tokens;
        out->widths[out->count++] = seen;
    }
    arena_release(&scratch);
}

// Epochs after the last simulated count: each adds the share of the one before it that the last
// simulated epoch added to all before it.
static double beyond(const struct packing_sights *sights, double micro_batches)
{
    int last = sights->count - 1, first = last;
    while (first > 0 && sights->micro_batches[first] > sights->epoch)
        first--;
    double epochs = (micro_batches - sights->micro_batches[last]) / sights->epoch;
    double added = first < last ? sights->widths[last] - sights->widths[first] : 0;
    double share = sights->widths[first] > 0 ? added / sights->widths[first] : 0;
    // Σ added · shareⁱ over the epochs, also over a part of one.
    return share > 0 && share < 1 ? added * share * (1 - pow(share, epochs)) / (1 - share)
                                  : added * epochs;
}

// A straight line between the marks; those after the last are the caller's.
static double between_marks(const struct packing_sights *sights, const double *values,
                            double micro_batches)
{
    int above = 0;
    while (sights->micro_batches[above] < micro_batches)
        above++;
    double x = above ? sights->micro_batches[above - 1] : 0, y = above ? values[above - 1] : 0;
    return y + (values[above] - y) * (micro_batches - x) / (sights->micro_batches[above] - x);
}

double packing_widths_seen(const struct packing_sights *sights, double micro_batches)
{
    int last = sights->count - 1;
    if (last < 0 || !(micro_batches > 0))
        return 0;
    if (micro_batches > sights->micro_batches[last])
        return sights->widths[last] + beyond(sights, micro_batches);
    return between_marks(sights, sights->widths, micro_batches);
}

double packing_tokens_seen(const struct packing_sights *sights, double micro_batches)
{
    int last = sights->count - 1;
    if (last < 0 || !(micro_batches > 0))
        return 0;
    if (micro_batches > sights->micro_batches[last])
        return sights->tokens[last] * micro_batches / sights->micro_batches[last];
    return between_marks(sights, sights->tokens, micro_batches);
}

// Of widths drawn at random the variance is at most N(2n) − N(n), where N expects the number seen.
// The curve ends with the run: its second half adds h times as much as the first, and if it goes on
// so, the next one h² and the one after it h³.
double packing_widths_error(const struct packing_sights *sights, double micro_batches)
{
    double half = packing_widths_seen(sights, micro_batches / 2);
    double added = packing_widths_seen(sights, micro_batches) - half;
    double falls = half > 0 ? fmin(added / half, 1) : 0;
    return sqrt(fmax(added, 0) * falls * (1 + falls));
}
