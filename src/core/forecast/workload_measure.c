#include "core/data/packing.h"
#include "core/forecast/workload.h"

#include <math.h>

enum { SHAPES = 9, MOST_SIMULATED = 250000 };

// The packing of every k-th example; the order of the files is kept.
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

static struct workload_shape shape_of(const struct batches *sums, double micro_batch, double scale)
{
    double processed = (double)sums->processed_tokens;
    return (struct workload_shape){
        .micro_batch = micro_batch,
        .fill = (double)sums->useful_tokens / processed,
        .width = processed / ((double)sums->micro_batches * micro_batch),
        .attended = sums->attended / processed,
        .worst_width = (double)sums->worst.rows * (double)sums->worst.width / micro_batch,
        .rows = rint((double)sums->rows * scale),
        .widths = (double)sums->distinct_widths,
    };
}

enum err workload_measure(struct workload_rule *rule, struct arena *arena,
                          const struct lengths *lengths, const char *stack, uint64_t seed)
{
    const struct packing_trainer *trainer;
    if (packing_trainer_find(&trainer, stack, NULL)) // a stack without a packer of its own
        TRY(packing_trainer_find(&trainer, NULL, NULL));
    struct packing_rule packing = packing_rule(trainer, (enum batching)rule->batching);
    struct workload_shape *shapes = ARENA_NEW(arena, struct workload_shape, SHAPES);
    struct lengths simulated = sample(lengths, arena);
    double examples = (double)lengths->count * lengths_each(lengths);
    double scale = examples / (double)simulated.count;
    for (int i = 0; i < SHAPES; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct packing_setup setup = { .window = (int64_t)rule->context,
                                       .micro_batch = (int64_t)1 << i,
                                       .seed = seed };
        struct packing plan;
        TRY(packing_plan(&plan, arena, &simulated, &packing, &setup));
        struct batches sums = plan.sums;
        arena_rewind(arena, mark);
        if (sums.processed_tokens <= 0)
            return fail(ERR_INPUT,
                        "no example is left at a context of %.0f tokens; raise --context",
                        rule->context);
        shapes[i] = shape_of(&sums, (double)setup.micro_batch, scale);
        if (i == 0) {
            rule->tokens = (double)sums.useful_tokens * scale;
            rule->labelled_share = (double)sums.labelled_tokens / (double)sums.useful_tokens;
        }
        shapes[i].fill = rule->tokens / scale / (double)sums.processed_tokens;
    }
    rule->examples = examples;
    rule->mean_length = rule->tokens / rule->examples;
    rule->shapes = shapes;
    rule->shape_count = SHAPES;
    return OK;
}
