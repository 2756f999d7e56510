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
                              const struct window_request *request)
{
    static const double shares[] = { 0.9, 0.95, 0.99, 0.999, 1 };
    size_t count = 0;
    for (int64_t window = 512; window <= 32768; window *= 2)
        add_candidate(windows, &count, window);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        int64_t length = lengths_quantile(tally, shares[i]);
        add_candidate(windows, &count, (length + ROUNDING - 1) / ROUNDING * ROUNDING);
    }
    add_candidate(windows, &count, request->context);
    if (request->positions < lengths_quantile(tally, 1))
        add_candidate(windows, &count, request->positions);
    return count;
}

// --- one candidate -----------------------------------------------------------

struct inputs {
    const struct lengths_tally *tally;
    const struct lengths *list;
    const struct window_request *request;
    const struct packing_trainer *trainer;
    struct arena *scratch;                           // of one simulation, rewound after each
    struct arena *kept;                              // of sizes
    const uint32_t *order;                           // of the examples, the same in all
    struct packing_sizes sizes[BATCHING_PACKED + 1]; // of the rules, once they were needed
    struct lengths_sums sums;
    int64_t longest;
    struct batches uncut[BATCHING_PACKED]; // of a window that cuts nothing; rows 0: not known yet
};

// Simulates an epoch at one context, exactly as the profile's batches are. Only those of its sums
// that packing_sizes_simulate() has are used.
static enum err simulate(struct batches *out, struct inputs *in, enum batching batching,
                         int64_t context)
{
    const struct window_request *request = in->request;
    struct packing_rule rule = packing_rule(in->trainer, batching);
    struct packing_setup setup = { .window = context,
                                   .micro_batch = request->micro_batch ? request->micro_batch
                                                                       : WINDOW_MICRO_BATCH,
                                   .accumulation = request->accumulation,
                                   .ranks = request->ranks,
                                   .seed = request->seed,
                                   .order = in->order };
    struct packing_sizes *sizes = &in->sizes[batching];
    if (!sizes->lengths)
        packing_sizes_init(sizes, in->kept, in->list, &rule, &setup);
    if (packing_sizes_simulate(out, sizes, &setup))
        return OK;
    struct arena_mark mark = arena_mark(in->scratch);
    struct packing packing;
    enum err err = packing_plan(&packing, in->scratch, in->list, &rule, &setup);
    *out = packing.sums;
    if (!err && in->list->each > 0)
        packing_scale(out, in->list->each, &rule, &setup);
    arena_rewind(in->scratch, mark);
    return err;
}

// The same for rows padded to their longest. A window that cuts nothing changes nothing about them,
// so of such windows one is simulated.
static enum err simulate_padded(struct batches *out, struct inputs *in, enum batching batching,
                                int64_t context)
{
    struct batches *uncut = &in->uncut[batching];
    enum { SLACK = 64 }; // widths are rounded up to at most a multiple of this
    bool whole = context >= in->longest + SLACK;
    if (!whole)
        return simulate(out, in, batching, context);
    if (!uncut->rows)
        TRY(simulate(uncut, in, batching, context));
    *out = *uncut;
    return OK;
}

static enum err measure(struct window *out, double *cost, struct inputs *in, int64_t context)
{
    struct lengths_cut cut = lengths_cut(in->tally, context);
    struct batches random, grouped, packed;
    *out = (struct window){ .context = context,
                            .truncated_examples = cut.examples,
                            .truncated_tokens = cut.tokens,
                            .truncated_labelled = cut.labelled };
    TRY(simulate_padded(&random, in, BATCHING_LONGEST, context));
    TRY(simulate_padded(&grouped, in, BATCHING_GROUPED, context));
    TRY(simulate(&packed, in, BATCHING_PACKED, context));
    out->padded_efficiency = 1 - random.padding_share;
    out->grouped_efficiency = 1 - grouped.padding_share;
    out->packed_efficiency = packed.fill;
    out->packs = packed.rows;

    struct batches chosen = packed;
    if (in->request->batching == BATCHING_LONGEST)
        chosen = random;
    if (in->request->batching == BATCHING_GROUPED)
        chosen = grouped;
    if (in->request->batching == BATCHING_MAX)
        TRY(simulate(&chosen, in, BATCHING_MAX, context));
    double square =
        in->request->square_tokens > 0 ? in->request->square_tokens : default_square_tokens;
    *cost = (double)chosen.processed_tokens + chosen.attended / square;
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

// The largest candidate that the model has positions for, if what the data asks for has more.
static void keep_positions(struct window_plan *plan, struct arena *arena, const struct inputs *in)
{
    int64_t positions = in->request->positions;
    size_t most = plan->recommended;
    if (positions <= 0 || plan->rows[most].context <= positions || !in->sums.examples)
        return;
    while (most > 0 && plan->rows[most].context > positions)
        most--;
    plan->reason = text_format(
        arena, "the model has %s positions; cuts %s of the examples, the data asks for %s",
        text_commas(arena, positions),
        text_share(arena, (double)plan->rows[most].truncated_examples / (double)in->sums.examples),
        text_commas(arena, plan->rows[plan->recommended].context));
    plan->recommended = most;
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
        const char *cost =
            more < 0.0005 ? "no" : text_format(arena, "only %s", text_share(arena, more));
        plan->reason = text_format(arena, "cuts no example and costs %s more than %s", cost,
                                   text_commas(arena, least->context));
    } else {
        double examples = (double)least->truncated_examples / (double)in->sums.examples;
        double labelled = (double)least->truncated_labelled / (double)in->sums.labelled;
        const char *loss = in->sums.labelled ? text_format(arena, " and %s of the labelled tokens",
                                                           text_share(arena, labelled))
                                             : "";
        plan->reason =
            text_format(arena, "cuts %s of the examples%s; cutting none would cost %s more",
                        text_share(arena, examples), loss, text_share(arena, more));
    }
    if (in->request->batching != BATCHING_PACKED)
        return;
    size_t wide = plan->recommended;
    while (wide + 1 < plan->count && plan->rows[wide].packed_efficiency < enough_fill)
        wide++;
    if (wide != plan->recommended && plan->rows[wide].packed_efficiency >= enough_fill) {
        plan->reason = text_format(
            arena, "packed rows are %s full; %s is long enough for the examples, but only %s full",
            text_share(arena, plan->rows[wide].packed_efficiency),
            text_commas(arena, plan->rows[plan->recommended].context),
            text_share(arena, plan->rows[plan->recommended].packed_efficiency));
        plan->recommended = wide;
    }
}

enum err window_plan(struct window_plan *out, struct arena *arena,
                     const struct lengths_tally *tally, const struct window_request *request)
{
    struct inputs in = { .tally = tally,
                         .list = request->list,
                         .request = request,
                         .trainer = request->trainer,
                         .sums = lengths_sum(tally),
                         .longest = lengths_quantile(tally, 1) };
    if (!in.trainer)
        TRY(packing_trainer_find(&in.trainer, NULL, NULL));
    int64_t windows[MOST_CANDIDATES];
    *out = (struct window_plan){ .rows = ARENA_NEW(arena, struct window, MOST_CANDIDATES) };
    out->count = find_candidates(windows, tally, request);

    struct arena scratch = { 0 }, kept = { 0 };
    in.scratch = &scratch;
    in.kept = &kept;
    struct lengths shuffled;
    if (!in.list) {
        lengths_unroll(&shuffled, &scratch, tally, request->seed);
        in.list = &shuffled;
    }
    in.order = packing_order(&scratch, in.list->count, request->seed);
    enum err err = OK;
    double costs[MOST_CANDIDATES], whole = NAN;
    for (size_t i = 0; i < out->count && !err; i++) {
        err = measure(&out->rows[i], &costs[i], &in, windows[i]);
        if (isnan(whole) && !out->rows[i].truncated_examples)
            whole = costs[i];
    }
    arena_release(&scratch);
    arena_release(&kept);
    TRY(err);
    if (isnan(whole))
        whole = costs[out->count - 1];
    for (size_t i = 0; i < out->count; i++)
        out->rows[i].relative_cost = costs[i] / whole;
    recommend(out, arena, &in);
    keep_positions(out, arena, &in);
    return OK;
}
