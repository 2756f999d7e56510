// SPDX-License-Identifier: Apache-2.0
// Makes rows from examples: cuts or drops long ones, packs or groups, and orders the rows as the
// trainer does. packing_batches.c makes batches of them, packing_bins.c has the algorithms.

#include "core/data/packing_internal.h"

#include "base/rng.h"

#include <assert.h>
#include <string.h>

void packing_shuffle(uint32_t *order, size_t count, uint64_t seed)
{
    struct rng rng = rng_seeded(seed);
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)rng_below(&rng, i);
        uint32_t swap = order[i - 1];
        order[i - 1] = order[other];
        order[other] = swap;
    }
}

const uint32_t *packing_order(struct arena *arena, size_t count, uint64_t seed)
{
    uint32_t *order = ARENA_NEW(arena, uint32_t, count);
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    packing_shuffle(order, count, seed);
    return order;
}

// --- examples to pieces ------------------------------------------------------

static int32_t labelled_within(struct length length, int64_t start, int64_t size)
{
    int64_t unlabelled = length.tokens - length.labelled; // the first tokens
    int64_t from = start > unlabelled ? start : unlabelled;
    return from < start + size ? (int32_t)(start + size - from) : 0;
}

// LLaMA-Factory's rule: prompt and answer are cut in proportion, unless one of them is short.
static int32_t labelled_share(struct length length, int64_t limit)
{
    int64_t answer = length.labelled, prompt = length.tokens - length.labelled, most;
    if (answer * 2 < limit)
        most = limit;
    else if (prompt * 2 < limit)
        most = limit - prompt;
    else
        most = limit * answer / length.tokens;
    return (int32_t)(most < answer ? most : answer);
}

// Appends the pieces of one example and adds what is lost to the sums.
static size_t add_example(const struct packing_job *job, struct packing_piece *at, uint32_t example)
{
    struct batches *sums = &job->out->sums;
    struct length length = job->lengths->items[example];
    int64_t limit = job->window - job->rule->reserve + job->rule->shift, left = length.tokens;
    enum packing_excess excess = job->rule->excess;

    bool unlabelled = job->rule->skips_unlabelled && !length.labelled;
    if (left <= job->rule->shift || unlabelled || (left > limit && excess == PACKING_DROP)) {
        sums->dropped_examples++;
        sums->lost_tokens += left;
        return 0;
    }
    if (left <= limit || excess != PACKING_SPLIT) {
        int32_t size = (int32_t)(left < limit ? left : limit);
        sums->cut_examples += left > limit;
        sums->lost_tokens += left - size;
        int32_t labelled = left > limit && excess == PACKING_CUT_SHARE
                               ? labelled_share(length, limit)
                               : labelled_within(length, 0, size);
        *at = (struct packing_piece){ example, 0, size, labelled };
        return 1;
    }
    size_t count = 0;
    for (int64_t start = 0; start < length.tokens; start += limit) {
        int64_t size = length.tokens - start < limit ? length.tokens - start : limit;
        at[count++] = (struct packing_piece){ example, (int32_t)start, (int32_t)size,
                                              labelled_within(length, start, size) };
    }
    return count;
}

// All pieces in the trainer's order. WRAPPED takes whole examples and cuts them itself.
static struct packing_piece *make_pieces(const struct packing_job *job, size_t *count)
{
    size_t examples = job->lengths->count, room = examples;
    bool splits = job->rule->excess == PACKING_SPLIT;
    int64_t limit = job->window - job->rule->reserve + job->rule->shift;
    for (size_t i = 0; splits && i < examples; i++)
        room += (size_t)(job->lengths->items[i].tokens / limit);

    struct packing_piece *pieces = ARENA_NEW(job->arena, struct packing_piece, room);
    const uint32_t *order = NULL;
    if (job->rule->shuffles_examples)
        order = job->order ? job->order : packing_order(job->arena, examples, job->seed);
    *count = 0;
    for (size_t i = 0; i < examples; i++)
        *count += add_example(job, pieces + *count, order ? order[i] : (uint32_t)i);
    return pieces;
}

// --- pieces to rows ----------------------------------------------------------

// The end of the chunk that starts at piece first.
static size_t chunk_end(const struct packing_job *job, const struct packing_piece *pieces,
                        size_t first, size_t count)
{
    if (!job->rule->chunk_examples)
        return count;
    int64_t examples = 0;
    size_t end = first;
    for (; end < count; end++)
        if (!pieces[end].start && examples++ == job->rule->chunk_examples)
            break;
    return end;
}

static void pack_volume(const struct packing_job *job, struct packing_bins *bins,
                        struct packing_scratch *scratch, const struct packing_piece *pieces,
                        const int32_t *sizes, size_t count)
{
    uint32_t *chunk = ARENA_NEW(job->arena, uint32_t, scratch->most);
    size_t waiting = 0; // items of the chunk, with those left over from the last one
    for (size_t first = 0, end; first < count; first = end) {
        end = chunk_end(job, pieces, first, count);
        for (size_t i = first; i < end; i++)
            chunk[waiting++] = (uint32_t)i;
        waiting = packing_volume(bins, scratch, sizes, chunk, waiting, end == count);
    }
}

static void pack_chunks(const struct packing_job *job, struct packing_bins *bins,
                        struct packing_scratch *scratch, const struct packing_piece *pieces,
                        const int32_t *sizes, size_t count)
{
    for (size_t first = 0, end; first < count; first = end) {
        end = chunk_end(job, pieces, first, count);
        packing_place(bins, scratch, job->rule, sizes, first, end - first);
    }
}

static size_t longest_chunk(const struct packing_job *job, const struct packing_piece *pieces,
                            size_t count)
{
    size_t most = 0;
    for (size_t first = 0, end; first < count; first = end) {
        end = chunk_end(job, pieces, first, count);
        most = end - first > most ? end - first : most;
    }
    if (job->rule->method == PACKING_VOLUME) // plus items left over
        most += (size_t)job->capacity < count ? (size_t)job->capacity : count;
    return most;
}

// Sorts the placements by row.
static void collect_rows(const struct packing_job *job, const struct packing_bins *bins,
                         const struct packing_piece *pieces)
{
    struct packing *out = job->out;
    out->rows = bins->count;
    out->starts = ARENA_NEW(job->arena, size_t, out->rows + 2);
    out->pieces = ARENA_NEW(job->arena, struct packing_piece, bins->placed);
    size_t *next = out->starts + 1; // next free place of a row; when all are filled, the starts
    for (size_t i = 0; i < bins->placed; i++)
        next[bins->rows[i] + 1]++;
    for (size_t row = 0; row < out->rows; row++)
        next[row + 1] += next[row];
    for (size_t i = 0; i < bins->placed; i++)
        out->pieces[next[bins->rows[i]]++] = pieces[bins->items[i]];
}

// Decides the row of each piece; returns the sizes as counted by the packer.
static const int32_t *place_pieces(const struct packing_job *job, struct packing_bins *bins,
                                   struct arena *arena, const struct packing_piece *pieces,
                                   size_t count)
{
    struct packing_scratch scratch;
    packing_scratch_init(&scratch, arena, job->capacity, longest_chunk(job, pieces, count));
    *bins = (struct packing_bins){ .items = ARENA_NEW(arena, uint32_t, count),
                                   .rows = ARENA_NEW(arena, uint32_t, count) };
    int32_t *sizes = ARENA_NEW(arena, int32_t, count);
    for (size_t i = 0; i < count; i++)
        sizes[i] = (int32_t)packing_rounded(pieces[i].size - job->rule->shift, job->rule->align);
    for (size_t i = 0; i < count; i++)
        assert(sizes[i] >= 1 && sizes[i] <= job->capacity);

    if (job->rule->method == PACKING_VOLUME)
        pack_volume(job, bins, &scratch, pieces, sizes, count);
    else
        pack_chunks(job, bins, &scratch, pieces, sizes, count);
    assert(bins->placed == count);
    return sizes;
}

static void pack(const struct packing_job *job, const struct packing_piece *pieces, size_t count)
{
    struct arena arena = { 0 };
    struct packing_bins bins;
    const int32_t *sizes = place_pieces(job, &bins, &arena, pieces, count);
    collect_rows(job, &bins, pieces);
    job->out->sums.fewest_rows = packing_fewest(sizes, count, job->capacity, &arena);
    arena_release(&arena);
}

// Lays the examples of a chunk end to end and cuts at every window.
static void wrap(const struct packing_job *job, const struct packing_piece *whole, size_t count)
{
    struct packing *out = job->out;
    int64_t tokens = 0;
    for (size_t i = 0; i < count; i++)
        tokens += whole[i].size;
    size_t chunks = job->rule->chunk_examples ? count / (size_t)job->rule->chunk_examples + 1 : 1;
    size_t most = (size_t)(tokens / job->window) + chunks;
    out->starts = ARENA_NEW(job->arena, size_t, most + 1);
    out->pieces = ARENA_NEW(job->arena, struct packing_piece, count + most);

    size_t pieces = 0;
    for (size_t first = 0, end; first < count; first = end) {
        end = chunk_end(job, whole, first, count);
        int64_t space = 0;
        for (size_t i = first; i < end; i++)
            for (int32_t at = 0, size; at < whole[i].size; at += size, space -= size) {
                if (!space) {
                    out->starts[out->rows++] = pieces;
                    space = job->window;
                }
                size = whole[i].size - at < space ? whole[i].size - at : (int32_t)space;
                int32_t start = whole[i].start + at;
                out->pieces[pieces++] =
                    (struct packing_piece){ whole[i].example, start, size,
                                            labelled_within(job->lengths->items[whole[i].example],
                                                            start, size) };
            }
    }
    out->starts[out->rows] = pieces;
}

// --- the order of rows -------------------------------------------------------

// Sorts one mega-batch by decreasing size, byte by byte of the sizes: stable, as Python's sort is.
static void sort_falling(uint32_t *order, uint32_t *spare, const int32_t *sizes, size_t count)
{
    uint32_t used = 0;
    for (size_t i = 0; i < count; i++)
        used |= (uint32_t)sizes[order[i]];
    for (int shift = 0; shift < 32 && used >> shift; shift += 8) {
        uint32_t places[256] = { 0 }, next = 0;
        for (size_t i = 0; i < count; i++)
            places[(uint32_t)sizes[order[i]] >> shift & 255]++;
        for (int byte = 255; byte >= 0; byte--) {
            uint32_t first = next;
            next += places[byte];
            places[byte] = first;
        }
        for (size_t i = 0; i < count; i++)
            spare[places[(uint32_t)sizes[order[i]] >> shift & 255]++] = order[i];
        memcpy(order, spare, count * sizeof *order);
    }
}

size_t packing_mega(size_t count, int64_t batch)
{
    size_t mega = count / ((size_t)batch * 4);
    return (mega > 50 ? 50 : mega ? mega : 1) * (size_t)batch;
}

// Reorders a permutation as transformers' group_by_length does: mega-batches of min(n / 4b, 50)
// batches, each sorted by decreasing length; then the longest example of all comes first.
static void group_by_length(uint32_t *order, const int32_t *sizes, size_t count, int64_t batch,
                            struct arena *scratch)
{
    size_t mega = packing_mega(count, batch);
    uint32_t *spare = ARENA_NEW(scratch, uint32_t, mega < count ? mega : count);
    size_t longest = 0;
    for (size_t first = 0; first < count; first += mega) {
        sort_falling(order + first, spare, sizes, count - first < mega ? count - first : mega);
        if (sizes[order[first]] > sizes[order[longest]])
            longest = first;
    }
    if (count) {
        uint32_t swap = order[0];
        order[0] = order[longest];
        order[longest] = swap;
    }
}

static void reorder_rows(const struct packing_job *job, const uint32_t *order)
{
    struct packing *out = job->out;
    size_t *starts = ARENA_NEW(job->arena, size_t, out->rows + 1);
    struct packing_piece *pieces =
        ARENA_NEW(job->arena, struct packing_piece, out->starts[out->rows]);
    size_t at = 0;
    for (size_t row = 0; row < out->rows; row++) {
        size_t first = out->starts[order[row]], count = out->starts[order[row] + 1] - first;
        memcpy(pieces + at, out->pieces + first, count * sizeof *pieces);
        starts[row] = at;
        at += count;
    }
    starts[out->rows] = at;
    out->starts = starts;
    out->pieces = pieces;
}

static void shuffle_rows(const struct packing_job *job)
{
    reorder_rows(job, packing_order(job->arena, job->out->rows, job->seed + 1));
}

// transformers groups batches of micro-batch × accumulation rows.
static void group_pieces(const struct packing_job *job, struct packing_piece *pieces, size_t count)
{
    struct arena scratch = { 0 };
    uint32_t *order = ARENA_NEW(&scratch, uint32_t, count);
    int32_t *sizes = ARENA_NEW(&scratch, int32_t, count);
    struct packing_piece *copy = ARENA_NEW(&scratch, struct packing_piece, count);
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
        sizes[i] = pieces[i].size;
        copy[i] = pieces[i];
    }
    group_by_length(order, sizes, count, job->micro_batch * job->accumulation, &scratch);
    for (size_t i = 0; i < count; i++)
        pieces[i] = copy[order[i]];
    arena_release(&scratch);
}

static void make_rows(const struct packing_job *job)
{
    size_t count;
    struct packing_piece *pieces = make_pieces(job, &count);
    if (job->rule->method == PACKING_GROUPED)
        group_pieces(job, pieces, count);
    if (job->rule->method == PACKING_NONE || job->rule->method == PACKING_GROUPED) {
        job->out->pieces = pieces;
        job->out->rows = count;
        job->out->starts = ARENA_NEW(job->arena, size_t, count + 1);
        for (size_t i = 0; i <= count; i++)
            job->out->starts[i] = i;
        return;
    }
    if (job->rule->method == PACKING_WRAPPED)
        wrap(job, pieces, count);
    else
        pack(job, pieces, count);
    if (job->rule->shuffles_rows)
        shuffle_rows(job);
}

// --- the plan ----------------------------------------------------------------

enum err packing_check(const struct packing_setup *setup, const struct lengths *lengths)
{
    if (setup->window < 2 || setup->window > PACKING_LARGEST_WINDOW)
        return fail(ERR_USAGE, "the context is %lld tokens; it must be 2 to %d",
                    (long long)setup->window, PACKING_LARGEST_WINDOW);
    if (setup->micro_batch < 0 || setup->micro_batch > 65536 || setup->accumulation < 0 ||
        setup->accumulation > 1 << 24 || setup->ranks < 0 || setup->ranks > 1 << 24)
        return fail(ERR_USAGE, "micro-batch %lld, accumulation %lld or ranks %lld is out of range",
                    (long long)setup->micro_batch, (long long)setup->accumulation,
                    (long long)setup->ranks);
    if (lengths->count >= UINT32_MAX)
        return fail(ERR_UNAVAILABLE, "cannot simulate %zu examples; the limit is %u",
                    lengths->count, UINT32_MAX - 1);
    return OK;
}

// A context far below its examples makes more pieces than memory holds out of little input: an
// image named in thirty bytes counts thousands of tokens.
static enum err check_pieces(const struct packing_job *job)
{
    enum { SMALL_WINDOW = 256, PIECES_EACH = 16, PIECES_ALWAYS = 1 << 23 };
    double pieces = 0, examples = (double)job->lengths->count;
    if (job->window >= SMALL_WINDOW ||
        (job->rule->excess != PACKING_SPLIT && job->rule->method != PACKING_WRAPPED))
        return OK;
    for (size_t i = 0; i < job->lengths->count; i++)
        pieces += (double)job->lengths->items[i].tokens / (double)job->window;
    if (pieces <= PIECES_ALWAYS || pieces <= PIECES_EACH * examples)
        return OK;
    return fail(ERR_USAGE,
                "a context of %lld tokens would cut %.0f examples into %.0f pieces; give a larger "
                "--context",
                (long long)job->window, examples, pieces);
}

struct packing_job packing_job(const struct packing_rule *rule, const struct packing_setup *setup)
{
    struct packing_job job = {
        .rule = rule,
        .window = setup->window,
        .micro_batch = setup->micro_batch ? setup->micro_batch : 1,
        .accumulation = setup->accumulation ? setup->accumulation : 1,
        .ranks = setup->ranks ? setup->ranks : 1,
        .multiple = setup->multiple ? setup->multiple : rule->multiple,
        .seed = setup->seed,
        .order = setup->order,
    };
    if (rule->single_rows) {
        job.accumulation *= job.micro_batch;
        job.micro_batch = 1;
    }
    job.capacity = job.window - rule->reserve;
    if (rule->fills_micro_batch) {
        job.capacity = job.window * job.micro_batch;
        job.multiple = job.window;
    }
    return job;
}

static enum err start(struct packing_job *job, struct packing *out, struct arena *arena,
                      const struct lengths *lengths, const struct packing_rule *rule,
                      const struct packing_setup *setup)
{
    *out = (struct packing){ 0 };
    TRY(packing_check(setup, lengths));
    *job = packing_job(rule, setup);
    job->arena = arena;
    job->lengths = lengths;
    job->out = out;
    if (job->capacity > PACKING_LARGEST_WINDOW * (int64_t)4)
        return fail(ERR_USAGE, "micro-batch %lld × context %lld is too large for one row",
                    (long long)job->micro_batch, (long long)job->window);
    return check_pieces(job);
}

enum err packing_plan(struct packing *out, struct arena *arena, const struct lengths *lengths,
                      const struct packing_rule *rule, const struct packing_setup *setup)
{
    struct packing_job job;
    TRY(start(&job, out, arena, lengths, rule, setup));
    make_rows(&job);
    packing_make_batches(&job);
    return OK;
}
