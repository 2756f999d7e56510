// SPDX-License-Identifier: Apache-2.0
// Computes what each candidate context cuts and costs, and recommends one.

#include "core/data/window.h"

#include <math.h>

// What a window must keep, and the extra cost at which cutting nothing is still preferred.
static const double keep_examples = 0.99, keep_labelled = 0.995, spare_cost = 0.02;
static const double enough_fill = 0.95;

// Per token, attention costs about as much as layers × width × length parameters. A model has about
// 12 × layers × width² parameters, so both are equal at length 12 × width; an 8B model has width
// 4,096.
static const double default_square_tokens = 12 * 4096.0;

enum { ROUNDING = 64, MOST_CANDIDATES = 32 };

// Rows and widths of padded batches of the uncut examples. After cutting to a window, a batch is as
// wide as its longest example or the window, so one simulation serves all candidates. (Only the one
// example that grouping moves to the front could be a different one.)
struct padded {
    const struct packing_batch *batches;
    size_t count;
};

static enum err pad(struct padded *out, struct arena *arena, const struct lengths *list,
                    const struct window_request *request, enum packing_method method)
{
    struct packing_rule rule = { .method = method,
                                 .width = PACKING_WIDTH_LONGEST,
                                 .shuffles_examples = true };
    struct packing_setup setup = { .window = PACKING_LARGEST_WINDOW,
                                   .micro_batch = request->micro_batch ? request->micro_batch
                                                                       : WINDOW_MICRO_BATCH,
                                   .seed = request->seed };
    struct packing packing;
    TRY(packing_plan(&packing, arena, list, &rule, &setup));
    *out = (struct padded){ packing.batches, packing.count };
    return OK;
}

struct cost {
    double tokens, attended;
};

static struct cost padded_cost(const struct padded *padded, int64_t window, double each)
{
    struct cost cost = { 0 };
    for (size_t i = 0; i < padded->count; i++) {
        const struct packing_batch *batch = &padded->batches[i];
        double width = (double)(batch->width < window ? batch->width : window);
        cost.tokens += each * (double)batch->rows * width;
        cost.attended += each * (double)batch->rows * width * width;
    }
    return cost;
}

// Σ length² of the examples cut to the window.
static double squares_within(const struct lengths_tally *tally, int64_t window)
{
    double squares = 0;
    for (size_t i = 0; i < tally->count; i++) {
        int64_t tokens = tally->bins[i].tokens < window ? tally->bins[i].tokens : window;
        squares += (double)tally->bins[i].examples * (double)tokens * (double)tokens;
    }
    return squares;
}

// --- candidates --------------------------------------------------------------

static void add_candidate(int64_t *windows, size_t *count, int64_t window)
{
    size_t at = *count;
    for (size_t i = 0; i < *count; i++)
        if (windows[i] == window)
            return;
    if (window < 2 || window > PACKING_LARGEST_WINDOW || at == MOST_CANDIDATES)
        return;
    for (; at > 0 && windows[at - 1] > window; at--)
        windows[at] = windows[at - 1];
    windows[at] = window;
    ++*count;
}

static size_t find_candidates(int64_t *windows, const struct lengths_tally *tally,
                              int64_t extra_context)
{
    static const double shares[] = { 0.9, 0.95, 0.99, 0.999, 1 };
    size_t count = 0;
    for (int64_t window = 512; window <= 32768; window *= 2)
        add_candidate(windows, &count, window);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        int64_t length = lengths_quantile(tally, shares[i]);
        add_candidate(windows, &count, (length + ROUNDING - 1) / ROUNDING * ROUNDING);
    }
    add_candidate(windows, &count, extra_context);
    return count;
}

// --- one candidate -----------------------------------------------------------

struct inputs {
    const struct lengths_tally *tally;
    const struct lengths *list;
    const struct window_request *request;
    struct packing_rule packed;
    struct lengths_sums sums;
    struct padded random, grouped;
    double each; // examples that an item of the list represents
};

static enum err measure(struct window *out, double *cost, const struct inputs *in, int64_t context)
{
    struct lengths_cut cut = lengths_cut(in->tally, context);
    *out = (struct window){ .context = context,
                            .truncated_examples = cut.examples,
                            .truncated_tokens = cut.tokens,
                            .truncated_labelled = cut.labelled };
    struct cost random = padded_cost(&in->random, context, in->each);
    struct cost grouped = padded_cost(&in->grouped, context, in->each);
    double kept = (double)(in->sums.tokens - cut.tokens);
    out->padded_efficiency = kept / random.tokens;
    out->grouped_efficiency = kept / grouped.tokens;

    int64_t tokens;
    struct packing_setup setup = { .window = context, .seed = in->request->seed };
    TRY(packing_count(&out->packs, &tokens, in->list, &in->packed, &setup));
    double slots = in->each * (double)out->packs * (double)context;
    out->packed_efficiency = in->each * (double)tokens / slots;
    out->packs = (int64_t)(in->each * (double)out->packs + 0.5);

    struct cost chosen = { in->each * (double)tokens, squares_within(in->tally, context) };
    if (in->packed.width == PACKING_WIDTH_WINDOW)
        chosen.tokens = slots;
    if (in->packed.attends_across)
        chosen.attended = slots * (double)context;
    if (in->request->batching == BATCHING_LONGEST)
        chosen = random;
    if (in->request->batching == BATCHING_GROUPED)
        chosen = grouped;
    if (in->request->batching == BATCHING_MAX)
        chosen = (struct cost){ (double)(in->sums.examples * context),
                                (double)in->sums.examples * (double)context * (double)context };
    double square =
        in->request->square_tokens > 0 ? in->request->square_tokens : default_square_tokens;
    *cost = chosen.tokens + chosen.attended / square;
    return OK;
}

// --- the recommendation ------------------------------------------------------

static bool covers(const struct window *window, const struct lengths_sums *sums)
{
    double whole = (double)(sums->examples - window->truncated_examples);
    double labelled = (double)(sums->labelled - window->truncated_labelled);
    return whole >= keep_examples * (double)sums->examples &&
           labelled >= keep_labelled * (double)sums->labelled;
}

static void recommend(struct window_plan *plan, struct arena *arena, const struct inputs *in)
{
    size_t smallest = 0, uncut;
    while (smallest + 1 < plan->count && !covers(&plan->rows[smallest], &in->sums))
        smallest++;
    for (uncut = smallest; uncut + 1 < plan->count && plan->rows[uncut].truncated_examples;)
        uncut++;
    const struct window *least = &plan->rows[smallest], *whole = &plan->rows[uncut];
    double more = whole->relative_cost / least->relative_cost - 1;

    plan->recommended = smallest;
    if (!in->sums.examples) {
        plan->reason = "there are no examples";
        return;
    }
    if (!least->truncated_examples) {
        plan->reason = "the smallest that cuts no example";
    } else if (!whole->truncated_examples && more <= spare_cost) {
        plan->recommended = uncut;
        plan->reason = text_format(arena, "cuts no example and costs only %s more than %lld",
                                   text_share(arena, fmax(more, 0)), (long long)least->context);
    } else {
        double examples = (double)least->truncated_examples / (double)in->sums.examples;
        double labelled = (double)least->truncated_labelled / (double)in->sums.labelled;
        plan->reason = text_format(
            arena,
            "cuts %s of the examples and %s of the labelled tokens; cutting none would cost "
            "%s more",
            text_share(arena, examples), text_share(arena, labelled), text_share(arena, more));
    }
    if (in->request->batching != BATCHING_PACKED)
        return;
    size_t wide = plan->recommended;
    while (wide + 1 < plan->count && plan->rows[wide].packed_efficiency < enough_fill)
        wide++;
    if (wide != plan->recommended && plan->rows[wide].packed_efficiency >= enough_fill) {
        plan->reason = text_format(
            arena,
            "packed rows are %s full; %lld is long enough for the examples, but only %s full",
            text_share(arena, plan->rows[wide].packed_efficiency),
            (long long)plan->rows[plan->recommended].context,
            text_share(arena, plan->rows[plan->recommended].packed_efficiency));
        plan->recommended = wide;
    }
}

enum err window_plan(struct window_plan *out, struct arena *arena,
                     const struct lengths_tally *tally, const struct window_request *request)
{
    struct inputs in = { .tally = tally, .request = request, .sums = lengths_sum(tally) };
    const struct packing_trainer *trainer = request->trainer;
    if (!trainer)
        TRY(packing_trainer_find(&trainer, NULL, NULL));
    in.packed = packing_rule(trainer, BATCHING_PACKED);
    in.packed.skips_unlabelled = false;  // efficiency depends on lengths only
    in.packed.shuffles_examples = false; // the list is already shuffled

    int64_t windows[MOST_CANDIDATES];
    *out = (struct window_plan){ .rows = ARENA_NEW(arena, struct window, MOST_CANDIDATES) };
    out->count = find_candidates(windows, tally, request->context);

    struct arena scratch = { 0 };
    struct lengths list;
    lengths_unroll(&list, &scratch, tally, request->seed);
    in.each = lengths_each(&list);
    in.list = &list;
    enum err err = pad(&in.random, &scratch, &list, request, PACKING_NONE);
    if (!err)
        err = pad(&in.grouped, &scratch, &list, request, PACKING_GROUPED);
    double costs[MOST_CANDIDATES], whole = NAN;
    for (size_t i = 0; i < out->count && !err; i++) {
        err = measure(&out->rows[i], &costs[i], &in, windows[i]);
        if (isnan(whole) && !out->rows[i].truncated_examples)
            whole = costs[i];
    }
    arena_release(&scratch);
    TRY(err);
    if (isnan(whole))
        whole = costs[out->count - 1];
    for (size_t i = 0; i < out->count; i++)
        out->rows[i].relative_cost = costs[i] / whole;
    recommend(out, arena, &in);
    return OK;
}
