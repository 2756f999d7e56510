// SPDX-License-Identifier: Apache-2.0
// Simulates one rule at many windows from the sizes of the examples alone. They are gathered,
// shuffled and sorted once; a window then cuts them, which keeps their order. What a row holds,
// and which example is where, is not followed: sums that need it are left to packing_plan().

#include "core/data/packing_internal.h"

#include <string.h>

static bool is_packed(const struct packing_rule *rule)
{
    return rule->method != PACKING_NONE && rule->method != PACKING_GROUPED;
}

// Whether the sums follow from sizes. With several ranks rows repeat, and where the end of an epoch
// is dropped or each batch is rounded, it matters which rows come together.
static bool suits(const struct packing_rule *rule, const struct packing_setup *setup)
{
    bool plain = !rule->shift && !rule->reserve && rule->align <= 1 && !rule->drops_last &&
                 !rule->fills_micro_batch && !rule->single_rows && setup->ranks <= 1;
    if (!is_packed(rule))
        return plain && rule->width == PACKING_WIDTH_LONGEST;
    bool sums = rule->width == PACKING_WIDTH_WINDOW ||
                (rule->width == PACKING_WIDTH_FLAT && !rule->attends_across &&
                 (setup->multiple ? setup->multiple : rule->multiple) <= 1);
    return plain && sums && rule->method != PACKING_WRAPPED && rule->method != PACKING_VOLUME;
}

static size_t chunk_of(const struct packing_sizes *sizes)
{
    size_t chunk = (size_t)sizes->rule.chunk_examples;
    return chunk && chunk < sizes->count ? chunk : sizes->count;
}

// By decreasing size, as the rows of the longest examples come first.
static void sort_chunks(struct packing_sizes *sizes, size_t chunk)
{
    struct arena scratch = { 0 };
    struct packing_scratch sorting;
    packing_scratch_init(&sorting, &scratch, sizes->longest, chunk);
    for (size_t first = 0; first < sizes->count; first += chunk) {
        size_t left = sizes->count - first;
        packing_sort_falling(&sorting, sizes->all + first, left < chunk ? left : chunk);
    }
    arena_release(&scratch);
}

void packing_sizes_init(struct packing_sizes *out, struct arena *arena,
                        const struct lengths *lengths, const struct packing_rule *rule,
                        const struct packing_setup *setup)
{
    const struct packing_job job = packing_job(rule, setup);
    *out = (struct packing_sizes){ .arena = arena, .rule = *rule, .lengths = lengths };
    bool is_sample = lengths->each > 0; // packing_scale() needs the rest of the sums
    out->suits = !is_sample && suits(rule, setup) && !packing_check(setup, lengths);
    if (!out->suits)
        return;
    const uint32_t *order = NULL;
    if (rule->shuffles_examples)
        order = setup->order ? setup->order : packing_order(arena, lengths->count, setup->seed);
    out->all = ARENA_NEW(arena, int32_t, lengths->count);
    out->cut = ARENA_NEW(arena, int32_t, lengths->count);
    for (size_t i = 0; i < lengths->count; i++) {
        struct length length = lengths->items[order ? order[i] : i];
        if (length.tokens <= 0 || (rule->skips_unlabelled && !length.labelled))
            continue;
        out->all[out->count++] = length.tokens;
        out->longest = length.tokens > out->longest ? length.tokens : out->longest;
    }
    out->mega = packing_mega(out->count, job.micro_batch * job.accumulation);
    if (rule->method == PACKING_GROUPED)
        sort_chunks(out, out->mega);
    if (rule->method == PACKING_BEST_FIT || rule->method == PACKING_FIRST_FIT_DECREASING)
        sort_chunks(out, chunk_of(out));
}

// Each mega-batch is sorted; the first of the longest comes first of all.
static void put_longest_first(const struct packing_sizes *sizes)
{
    size_t longest = 0;
    for (size_t first = 0; first < sizes->count; first += sizes->mega)
        if (sizes->cut[first] > sizes->cut[longest])
            longest = first;
    if (sizes->count) {
        int32_t swap = sizes->cut[0];
        sizes->cut[0] = sizes->cut[longest];
        sizes->cut[longest] = swap;
    }
}

static void sum_padded(struct batches *out, const struct packing_sizes *sizes,
                       const struct packing_job *job)
{
    size_t each = (size_t)job->micro_batch;
    for (size_t first = 0; first < sizes->count; first += each) {
        size_t rows = sizes->count - first < each ? sizes->count - first : each;
        int32_t longest = 0;
        for (size_t i = first; i < first + rows; i++)
            longest = sizes->cut[i] > longest ? sizes->cut[i] : longest;
        int64_t width = packing_rounded(longest, job->multiple), all = (int64_t)rows * width;
        out->processed_tokens += all;
        out->attended += (double)(all * width);
    }
    out->rows = (int64_t)sizes->count;
}

// False if a sum is too large for a double to be exact in any order.
static bool sum_packed(struct batches *out, const struct packing_sizes *sizes,
                       const struct packing_job *job)
{
    struct arena_mark mark = arena_mark(sizes->arena);
    size_t chunk = chunk_of(sizes);
    struct packing_scratch scratch;
    packing_scratch_init(&scratch, sizes->arena, job->capacity, chunk);
    struct packing_bins bins = { .items = ARENA_NEW(sizes->arena, uint32_t, sizes->count),
                                 .rows = ARENA_NEW(sizes->arena, uint32_t, sizes->count) };
    for (size_t first = 0; first < sizes->count; first += chunk) {
        size_t left = sizes->count - first;
        packing_place(&bins, &scratch, job->rule, sizes->cut, first, left < chunk ? left : chunk);
    }
    arena_rewind(sizes->arena, mark);

    double squares = 0, window = (double)job->window;
    for (size_t i = 0; i < sizes->count; i++)
        squares += (double)sizes->cut[i] * (double)sizes->cut[i];
    bool windows = job->rule->width == PACKING_WIDTH_WINDOW;
    out->rows = bins.count;
    out->processed_tokens = windows ? out->rows * job->window : out->useful_tokens;
    out->attended = job->rule->attends_across ? (double)out->rows * window * window : squares;
    return out->attended < 0x1p53;
}

bool packing_sizes_simulate(struct batches *out, const struct packing_sizes *sizes,
                            const struct packing_setup *setup)
{
    *out = (struct batches){ 0 };
    enum packing_excess excess = sizes->rule.excess;
    bool one_each = excess == PACKING_CUT || excess == PACKING_CUT_SHARE; // a piece of each example
    if (!sizes->suits || packing_check(setup, sizes->lengths) ||
        (!one_each && sizes->longest > setup->window))
        return false;
    const struct packing_job job = packing_job(&sizes->rule, setup);
    int32_t limit = (int32_t)job.window;
    for (size_t i = 0; i < sizes->count; i++) {
        sizes->cut[i] = sizes->all[i] < limit ? sizes->all[i] : limit;
        out->useful_tokens += sizes->cut[i];
    }
    if (sizes->rule.method == PACKING_GROUPED)
        put_longest_first(sizes);
    bool exact = true;
    if (is_packed(&sizes->rule))
        exact = sum_packed(out, sizes, &job);
    else
        sum_padded(out, sizes, &job);
    if (out->processed_tokens) {
        double useful = (double)out->useful_tokens;
        out->padding_share = 1 - useful / (double)out->processed_tokens;
        out->fill = useful / ((double)out->rows * (double)job.window);
    }
    return exact;
}
