// SPDX-License-Identifier: Apache-2.0
// Groups rows into micro-batches and steps as the trainer does, and sums up an epoch.

#include "core/data/packing_internal.h"

struct row {
    int64_t processed; // including alignment
    int64_t tokens, labelled, squares;
    int64_t spans; // Σ length² of the aligned examples
};

static struct row sum_row(const struct packing_job *job, size_t row)
{
    struct row sum = { 0 };
    for (size_t i = job->out->starts[row]; i < job->out->starts[row + 1]; i++) {
        const struct packing_piece *piece = &job->out->pieces[i];
        int64_t tokens = piece->size - job->rule->shift;
        int64_t padded = packing_rounded(tokens, job->rule->align);
        sum.processed += padded;
        sum.tokens += tokens;
        sum.labelled += piece->labelled < tokens ? piece->labelled : tokens;
        sum.squares += tokens * tokens;
        sum.spans += padded * padded;
    }
    return sum;
}

static struct packing_batch make_batch(const struct packing_job *job, size_t first, size_t count)
{
    struct packing_batch batch = { .rows = (int64_t)count };
    int64_t longest = 0, all = 0, spans = 0;
    for (size_t i = 0; i < count; i++) {
        struct row row = sum_row(job, (first + i) % job->out->rows);
        batch.tokens += row.tokens;
        batch.labelled += row.labelled;
        batch.squares += row.squares;
        spans += row.spans;
        all += row.processed;
        longest = row.processed > longest ? row.processed : longest;
    }
    switch (job->rule->width) {
    case PACKING_WIDTH_WINDOW: batch.width = job->window; break;
    case PACKING_WIDTH_LONGEST: batch.width = packing_rounded(longest, job->multiple); break;
    case PACKING_WIDTH_FLAT: batch.rows = 1; batch.width = packing_rounded(all, job->multiple);
    }
    bool packs = job->rule->method != PACKING_NONE && job->rule->method != PACKING_GROUPED;
    batch.attended =
        packs && !job->rule->attends_across ? spans : batch.rows * batch.width * batch.width;
    return batch;
}

// How many rows of an epoch are processed, `each` per micro-batch, in how many micro-batches and
// steps.
struct epoch {
    int64_t rows, each, micro_batches, steps;
};

static struct epoch count_epoch(int64_t rows, const struct packing_job *job)
{
    int64_t each = job->rule->fills_micro_batch ? 1 : job->micro_batch;
    int64_t step = job->ranks * job->accumulation, count = (rows + each - 1) / each;
    if (job->rule->drops_last) {
        count = rows / each / step * step;
        return (struct epoch){ count * each, each, count, count / step };
    }
    if (job->ranks >
        1) { // accelerate repeats the first rows until every rank has as many full batches
        count = (count + job->ranks - 1) / job->ranks * job->ranks;
        rows = count * each;
    }
    return (struct epoch){ rows, each, count, (count + step - 1) / step };
}

static bool is_larger(const struct packing_batch *a, const struct packing_batch *b)
{
    int64_t size_a = a->rows * a->width, size_b = b->rows * b->width;
    return size_a != size_b ? size_a > size_b : a->attended > b->attended;
}

// Sorts widths by counting those of each, unless there are few of wide ones.
static void sort_widths(double *widths, size_t count, int64_t widest, struct arena *scratch)
{
    enum { SPARSE = 8 };
    if (widest / SPARSE > (int64_t)count)
        return; // stats_range() sorts
    uint32_t *counts = ARENA_NEW(scratch, uint32_t, (size_t)widest + 1);
    for (size_t i = 0; i < count; i++)
        counts[(size_t)widths[i]]++;
    for (size_t width = 0, at = 0; width <= (size_t)widest; width++)
        for (uint32_t left = counts[width]; left; left--)
            widths[at++] = (double)width;
}

static void summarise(const struct packing_job *job)
{
    struct packing *out = job->out;
    struct batches *sums = &out->sums;
    struct arena scratch = { 0 };
    double *widths = ARENA_NEW(&scratch, double, out->count);
    int64_t widest = 0;
    for (size_t i = 0; i < out->count; i++) {
        const struct packing_batch *batch = &out->batches[i];
        sums->processed_tokens += batch->rows * batch->width;
        sums->useful_tokens += batch->tokens;
        sums->labelled_tokens += batch->labelled;
        sums->squares += (double)batch->squares;
        sums->attended += (double)batch->attended;
        if (is_larger(batch, &sums->worst))
            sums->worst = *batch;
        widths[i] = (double)batch->width;
        widest = batch->width > widest ? batch->width : widest;
    }
    sums->micro_batches = (int64_t)out->count;
    sums->mean_width = stats_mean(widths, out->count);
    sort_widths(widths, out->count, widest, &scratch);
    sums->widths = stats_range(widths, out->count);
    for (size_t i = 0; i < out->count; i++)
        sums->distinct_widths += !i || widths[i] != widths[i - 1];
    if (sums->processed_tokens) {
        double useful = (double)sums->useful_tokens;
        int64_t windows = job->rule->fills_micro_batch ? job->micro_batch : 1;
        sums->padding_share = 1 - useful / (double)sums->processed_tokens;
        sums->fill = useful / ((double)sums->rows * (double)(job->window * windows));
    }
    arena_release(&scratch);
}

void packing_make_batches(const struct packing_job *job)
{
    struct packing *out = job->out;
    struct epoch epoch = count_epoch((int64_t)out->rows, job);
    size_t each = (size_t)epoch.each, rows = (size_t)epoch.rows;
    out->count = (size_t)epoch.micro_batches;
    out->sums.steps = epoch.steps;
    out->sums.rows = epoch.rows;
    out->batches = ARENA_NEW(job->arena, struct packing_batch, out->count);
    for (size_t i = 0; i < out->count; i++) {
        size_t first = i * each, left = rows - first;
        out->batches[i] = make_batch(job, first, left < each ? left : each);
    }
    size_t seen = out->count * each < out->rows ? out->count * each : out->rows;
    for (size_t i = 0; i < out->starts[seen]; i++)
        out->sums.examples += !out->pieces[i].start;
    for (size_t i = out->starts[seen]; i < out->starts[out->rows]; i++)
        out->sums.unseen_tokens += out->pieces[i].size;
    summarise(job);
}

static int64_t scaled(int64_t count, double factor)
{
    return (int64_t)((double)count * factor + 0.5);
}

void packing_scale(struct batches *sums, double factor, const struct packing_rule *rule,
                   const struct packing_setup *setup)
{
    struct packing_job job = packing_job(rule, setup);
    int64_t *const counts[] = { &sums->examples,         &sums->rows,
                                &sums->processed_tokens, &sums->useful_tokens,
                                &sums->labelled_tokens,  &sums->fewest_rows,
                                &sums->cut_examples,     &sums->dropped_examples,
                                &sums->lost_tokens,      &sums->unseen_tokens };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        *counts[i] = scaled(*counts[i], factor);
    sums->squares *= factor;
    sums->attended *= factor;
    struct epoch epoch = count_epoch(sums->rows, &job);
    sums->rows = epoch.rows;
    sums->micro_batches = epoch.micro_batches;
    sums->steps = epoch.steps;
}
