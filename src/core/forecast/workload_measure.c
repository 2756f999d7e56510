// SPDX-License-Identifier: Apache-2.0
// workload_measure: simulates the micro-batches that a trainer makes of the user's own examples.

#include "core/data/packing.h"
#include "core/forecast/workload.h"

#include <math.h>

enum { POWERS = 9, SIZES = POWERS + 1, MOST_SIMULATED = 250000 };

// Every k-th example, in the order of the files.
static struct lengths sample(const struct lengths *all, struct arena *arena)
{
    if (all->count <= MOST_SIMULATED)
        return *all;
    struct lengths out = { .arena = arena };
    double stride = (double)all->count / MOST_SIMULATED;
    for (size_t i = 0; i < MOST_SIMULATED; i++) {
        const struct length *item = &all->items[(size_t)((double)i * stride)];
        lengths_add(&out, item->tokens, item->labelled);
    }
    return out;
}

// Pairs as one example each, as wide as their longer answer: trainers join the chosen and the
// rejected answers of a micro-batch and pad all of them to the longest. filled is how much of that
// width both answers use.
static struct lengths join_pairs(const struct lengths *all, struct arena *arena, double window,
                                 double *filled)
{
    struct lengths out = { .arena = arena };
    double used = 0, wide = 0;
    for (size_t i = 0; i + 1 < all->count; i += 2) {
        const struct length *a = &all->items[i], *b = &all->items[i + 1];
        int64_t longer = a->tokens > b->tokens ? a->tokens : b->tokens;
        double both = (double)a->tokens + (double)b->tokens;
        double labelled = both > 0 ? ((double)a->labelled + (double)b->labelled) / both : 0;
        lengths_add(&out, longer, (int64_t)rint((double)longer * labelled));
        used += fmin((double)a->tokens, window) + fmin((double)b->tokens, window);
        wide += 2 * fmin((double)longer, window);
    }
    *filled = wide > 0 ? used / wide : 1;
    return out;
}

// The shape of joined pairs in sequences: twice the rows, of which a part is padding.
static void split_pairs(struct workload_shape *shape, double filled)
{
    shape->micro_batch *= 2;
    shape->rows *= 2;
    shape->fill *= filled;
}

// The fill is that of the batches that are run: a trainer that drops a short last batch processes
// fewer tokens, but pads those that it does process as much as before. A simulated row may hold all
// windows of a micro-batch (axolotl), or be a micro-batch by itself whatever its size (NeMo); rows
// of a shape are always such that micro_batch of them make one, or all of a smaller set.
static struct workload_shape shape_of(const struct batches *sums, const struct packing_rule *rule,
                                      double micro_batch, double scale)
{
    double processed = (double)sums->processed_tokens;
    double windows = rule->fills_micro_batch ? micro_batch : 1; // of a simulated row
    double taken = fmin(micro_batch, windows * (double)sums->rows);
    if (rule->single_rows) // one makes a micro-batch
        taken = 1;
    return (struct workload_shape){
        .micro_batch = micro_batch,
        .fill = (double)sums->useful_tokens / processed,
        .width = processed / ((double)sums->micro_batches * taken),
        .attended = sums->attended / processed,
        .worst_width = (double)sums->worst.rows * (double)sums->worst.width / taken,
        .rows = rint((double)sums->rows * windows * scale),
    };
}

// Neighbours are on different ranks in the same step, so that their differences are those between
// ranks: few where rows are grouped by length, whatever the data set's own spread. Two values of a
// normal distribution lie 2/√π deviations apart on average.
static double spread_of(const struct packing *epoch)
{
    static const double half_root_pi = 0.886227;
    double sum = 0;
    for (size_t i = 1; i < epoch->count; i++) {
        const struct packing_batch *a = &epoch->batches[i - 1], *b = &epoch->batches[i];
        sum += fabs(log((double)(b->rows * b->width) / (double)(a->rows * a->width)));
    }
    return epoch->count > 1 ? half_root_pi * sum / (double)(epoch->count - 1) : 0;
}

// The deviation of the logarithm of tokens among all micro-batches.
static double varies_by(const struct packing *epoch)
{
    double sum = 0, square = 0, count = (double)epoch->count;
    for (size_t i = 0; i < epoch->count; i++) {
        double tokens = log((double)(epoch->batches[i].rows * epoch->batches[i].width));
        sum += tokens, square += tokens * tokens;
    }
    return count > 1 ? sqrt(fmax(square / count - sum * sum / (count * count), 0)) : 0;
}

// One epoch and, for a run of several, a second one with another shuffle.
static enum err simulate(struct batches *sums, struct workload_shape *shape, struct arena *arena,
                         const struct lengths *lengths, const struct packing_rule *rule,
                         struct packing_setup setup, bool again)
{
    struct packing epoch, next;
    TRY(packing_plan(&epoch, arena, lengths, rule, &setup));
    *sums = epoch.sums;
    shape->spread = spread_of(&epoch);
    shape->varies = varies_by(&epoch);
    setup.seed++;
    if (again)
        TRY(packing_plan(&next, arena, lengths, rule, &setup));
    packing_count_sights(&shape->sights, &epoch, again ? &next : NULL);
    return OK;
}

// Micro-batches of 1, 2, 4 … 256 rows, and of the given number (0: none), by size.
static size_t list_sizes(int64_t sizes[static SIZES], int64_t given)
{
    size_t count = 0;
    for (int power = 0; power < POWERS; power++) {
        int64_t size = (int64_t)1 << power, before = size / 2;
        if (given > before && given < size)
            sizes[count++] = given;
        sizes[count++] = size;
    }
    if (given > sizes[count - 1])
        sizes[count++] = given;
    return count;
}

// Answers of joined pairs are cut each by itself; what the trainer does to others was simulated.
static struct packing_loss loss_of(const struct lengths *lengths, const struct batches *simulated,
                                   double scale, double window, bool joins)
{
    struct packing_loss loss = { 0 };
    double each = lengths_each(lengths);
    for (size_t i = 0; i < lengths->count; i++)
        packing_loss_add(&loss, lengths->items[i].tokens, (int64_t)window);
    loss.examples *= each;
    loss.tokens *= each;
    loss.cut = joins ? loss.cut * each : (double)simulated->cut_examples * scale;
    loss.dropped = joins ? 0 : (double)simulated->dropped_examples * scale;
    loss.lost = joins ? loss.lost * each : (double)simulated->lost_tokens * scale;
    return loss;
}

// Why the trainer leaves out every example: nothing to learn in any, or too long for the context.
static enum err none_left(const struct lengths *lengths, double context)
{
    for (size_t i = 0; i < lengths->count; i++)
        if (lengths->items[i].labelled)
            return fail(ERR_INPUT,
                        "no example is left at a context of %.0f tokens; raise --context", context);
    return fail(ERR_INPUT,
                "no example is left: this trainer skips those without a token that carries loss, "
                "and none has one; --labels all learns from every token; prompts alone need an "
                "--objective such as grpo");
}

bool workload_has_single_rows(const struct workload_rule *rule, const char *trainer)
{
    const struct packing_trainer *found;
    return rule->rows_each != 2 && !packing_trainer_find(&found, trainer, NULL) &&
           packing_rule(found, (enum batching)rule->batching).single_rows;
}

enum err workload_measure(struct workload_rule *rule, struct arena *arena,
                          const struct lengths *lengths, const char *trainer, uint64_t seed)
{
    const struct packing_trainer *found;
    TRY(packing_trainer_find(&found, trainer, NULL));
    struct packing_rule packing = packing_rule(found, (enum batching)rule->batching);
    struct workload_shape *shapes = ARENA_NEW(arena, struct workload_shape, SIZES);
    bool joins = rule->paired && rule->rows_each == 2 && rule->batching != BATCHING_PACKED &&
                 lengths->count >= 2;
    double filled = 1, each = joins ? 2 : 1;
    struct lengths pairs = { 0 };
    if (joins)
        pairs = join_pairs(lengths, arena, rule->context, &filled);
    struct lengths simulated = sample(joins ? &pairs : lengths, arena);
    double examples = (double)lengths->count * lengths_each(lengths);
    double scale = examples / each / (double)simulated.count;
    int64_t sizes[SIZES];
    size_t count = 0, size_count = list_sizes(sizes, (int64_t)rule->micro_batch);
    for (; count < size_count; count++) {
        struct arena_mark mark = arena_mark(arena);
        struct packing_setup setup = { .window = (int64_t)rule->context,
                                       .micro_batch = sizes[count],
                                       .multiple = rule->multiple,
                                       .seed = seed };
        // transformers groups by length over the rows of a whole step.
        if (packing.method == PACKING_GROUPED && rule->step_rows > setup.micro_batch)
            setup.accumulation = rule->step_rows / setup.micro_batch;
        struct batches sums;
        struct workload_shape found_in = { 0 };
        TRY(simulate(&sums, &found_in, arena, &simulated, &packing, setup, rule->epochs > 1));
        arena_rewind(arena, mark);
        if (sums.processed_tokens <= 0) // fewer rows than the micro-batch, and the trainer drops it
            break;
        shapes[count] = shape_of(&sums, &packing, (double)setup.micro_batch, scale);
        shapes[count].sights = found_in.sights;
        shapes[count].spread = found_in.spread;
        shapes[count].varies = found_in.varies;
        if (joins)
            split_pairs(&shapes[count], filled);
        if (count == 0) {
            rule->tokens = (double)sums.useful_tokens * scale * each * filled;
            rule->labelled_share = (double)sums.labelled_tokens / (double)sums.useful_tokens;
            rule->loss = loss_of(lengths, &sums, scale, rule->context, joins);
        }
    }
    if (!count)
        return none_left(lengths, rule->context);
    rule->single_rows = workload_has_single_rows(rule, trainer);
    rule->examples = examples;
    rule->mean_length = rule->tokens / rule->examples;
    rule->shapes = shapes;
    rule->shape_count = count;
    return OK;
}
