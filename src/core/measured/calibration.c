// SPDX-License-Identifier: Apache-2.0
// Fits each stack's efficiency by hierarchical shrinkage of medians, and the spread on what that
// gets wrong when each source is left out in turn.

#include "core/measured/calibration.h"

#include "core/step/moe.h"

#include <math.h>
#include <string.h>

const struct field efficiency_fields[] = {
    FIELD_NEEDED(efficiency, stack, TEXT, "as in stacks.json"),
    FIELD_NEEDED(efficiency, family, TEXT, "as in stacks.json"),
    FIELD_NEEDED(efficiency, log_mid, NUMBER, "logarithm of measured over roofline tokens/s"),
    FIELD(efficiency, runs, COUNT, "measured runs it is fitted on"),
    FIELD(efficiency, sources, COUNT, "independent sources it is fitted on"),
    { 0 },
};

// The rows that one source published on one stack.
struct cell {
    const struct stack *stack;
    struct text source;
    double mid;
    size_t count;
};

// Weight of the level above in a shrunken mean, in sources.
static const double prior_sources = 1;

static size_t make_cells(struct cell *cells, struct arena *arena, const struct residual *residuals,
                         size_t count)
{
    size_t cell_count = 0;
    double *values = ARENA_NEW(arena, double, count + 1);
    bool *done = ARENA_NEW(arena, bool, count + 1);
    for (size_t i = 0; i < count; i++) {
        if (done[i] || residuals[i].left_out)
            continue;
        size_t n = 0;
        for (size_t j = i; j < count; j++)
            if (!residuals[j].left_out && residuals[j].stack == residuals[i].stack &&
                text_equal(residuals[j].source, residuals[i].source)) {
                values[n++] = residuals[j].log_ratio;
                done[j] = true;
            }
        cells[cell_count++] =
            (struct cell){ residuals[i].stack, residuals[i].source, stats_median(values, n), n };
    }
    return cell_count;
}

static bool matches(const struct cell *cell, const struct stack *stack, bool whole_family)
{
    return cell->stack == stack || (whole_family && !strcmp(cell->stack->family, stack->family));
}

// The mean of the matching cells, shrunk towards the level above. A source far from the middle of
// them and the level above is an outlier: it counts as so far off as 1.35 times the usual distance
// of two sources, as Huber's mean has it.
static double shrunken(const struct cell *cells, size_t count, const struct stack *stack,
                       bool whole_family, double above, struct arena *arena)
{
    static const double most = 0.15;
    double *mids = ARENA_NEW(arena, double, count + 1), sum = prior_sources * above,
           weight = prior_sources;
    size_t found = 0;
    mids[found++] = above;
    for (size_t i = 0; i < count; i++)
        if (matches(&cells[i], stack, whole_family))
            mids[found++] = cells[i].mid;
    double center = stats_median(mids, found);
    for (size_t i = 0; i < count; i++)
        if (matches(&cells[i], stack, whole_family)) {
            double trust =
                (double)cells[i].count / ((double)cells[i].count + 2); // less for few rows
            sum += trust * fmin(fmax(cells[i].mid, center - most), center + most);
            weight += trust;
        }
    return sum / weight;
}

static double middle(const struct cell *cells, size_t count, struct arena *arena)
{
    double *mids = ARENA_NEW(arena, double, count + 1);
    for (size_t i = 0; i < count; i++)
        mids[i] = cells[i].mid;
    return count ? stats_median(mids, count) : 0;
}

// The prediction for a stack from the cells of all sources but one, as for a new source.
static double prediction(const struct cell *cells, size_t count, const struct stack *stack,
                         struct text without, struct arena *arena)
{
    struct cell *rest = ARENA_NEW(arena, struct cell, count + 1);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!text_equal(cells[i].source, without))
            rest[kept++] = cells[i];
    double all = middle(rest, kept, arena);
    double family = shrunken(rest, kept, stack, true, all, arena);
    return shrunken(rest, kept, stack, false, family, arena);
}

static struct efficiency *fit_middles(struct arena *arena, const struct stack *stacks,
                                      size_t stack_count, const struct cell *cells, size_t count)
{
    struct efficiency *rows = ARENA_NEW(arena, struct efficiency, stack_count + 1);
    double all = middle(cells, count, arena);
    for (size_t s = 0; s < stack_count; s++) {
        struct efficiency *row = &rows[s];
        *row = (struct efficiency){ .stack = stacks[s].name, .family = stacks[s].family };
        for (size_t i = 0; i < count; i++)
            if (cells[i].stack == &stacks[s]) {
                row->runs += (int64_t)cells[i].count;
                row->sources++;
            }
        double family = shrunken(cells, count, &stacks[s], true, all, arena);
        row->log_mid = shrunken(cells, count, &stacks[s], false, family, arena);
    }
    return rows;
}

// Runs that nobody here had looked at were off by far more than their ranges where few sources had
// measured the card or the trainer, and hardly elsewhere (bench/results/blind.md). With this 77 %
// of the speeds of the fourth and fifth blind collection are inside, each source counted once;
// without it 59 %. Steeper and flatter falls, 0.3 to 0.5 and 2 to 5 sources, are no likelier for
// those, or leave fewer reference runs of a group inside.
static const double UNSEEN = 0.4; // deviation of ln tokens/s
enum { FAMILIAR = 3 };            // sources by which it falls to 1/e

double calibration_strangeness(int64_t sources)
{
    return UNSEEN * exp(-(double)sources / FAMILIAR);
}

// A card of which a source published runs.
struct published {
    const char *gpu;
    struct text source;
};

static bool has_published(const struct published *p, const char *gpu, struct text source)
{
    return p->gpu == gpu && text_equal(p->source, source);
}

static size_t find_published(struct published *out, const struct residual *residuals, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const char *gpu = residuals[i].place.names[EVIDENCE_GPU];
        size_t at = 0;
        if (residuals[i].left_out || !gpu)
            continue;
        while (at < found && !has_published(&out[at], gpu, residuals[i].source))
            at++;
        if (at == found)
            out[found++] = (struct published){ gpu, residuals[i].source };
    }
    return found;
}

// How many other sources published runs of the same card.
static int64_t sources_elsewhere(const struct published *published, size_t count,
                                 const struct residual *r)
{
    int64_t sources = 0;
    for (size_t i = 0; i < count; i++)
        sources += published[i].gpu == r->place.names[EVIDENCE_GPU] &&
                   !text_equal(published[i].source, r->source);
    return sources;
}

// The error of each run as a forecast makes it that knows all other sources.
static struct evidence_row *find_errors(struct arena *arena, const struct residual *residuals,
                                        size_t count, const struct cell *cells, size_t cell_count)
{
    struct evidence_row *rows = ARENA_NEW(arena, struct evidence_row, count + 1);
    double predicted = 0;
    struct published *cards = ARENA_NEW(arena, struct published, count + 1);
    size_t card_count = find_published(cards, residuals, count);
    for (size_t i = 0; i < count; i++) {
        const struct residual *r = &residuals[i];
        bool as_before = i && r->stack == r[-1].stack && text_equal(r->source, r[-1].source);
        struct arena_mark mark = arena_mark(arena);
        if (!as_before)
            predicted = prediction(cells, cell_count, r->stack, r->source, arena);
        int64_t elsewhere = sources_elsewhere(cards, card_count, r);
        rows[i] = (struct evidence_row){
            .place = r->place,
            .source = r->source,
            .error = r->log_ratio - predicted,
            .step_spread = hypot(r->step_spread, calibration_strangeness(elsewhere)),
            .is_strange = elsewhere < FAMILIAR,
            .left_out = r->left_out,
        };
        arena_rewind(arena, mark);
    }
    return rows;
}

void calibration_fit(struct calibration *out, struct arena *arena, const struct stack *stacks,
                     size_t stack_count, const struct residual *residuals, size_t count,
                     const struct calibration *similar)
{
    struct cell *cells = ARENA_NEW(arena, struct cell, count + 1);
    size_t cell_count = make_cells(cells, arena, residuals, count);
    out->stacks = fit_middles(arena, stacks, stack_count, cells, cell_count);
    out->stack_count = stack_count;
    // A trainer is described with its measured runs in view, which no refit without them undoes.
    out->knows_trainers = false;
    for (size_t i = 0; i < count; i++)
        out->knows_trainers |= residuals[i].left_out;
    const struct evidence_row *errors = find_errors(arena, residuals, count, cells, cell_count);
    evidence_fit(&out->evidence, arena, errors, count, similar ? &similar->evidence : NULL);
}

enum err calibration_read(struct calibration *out, struct arena *arena, struct text efficiency,
                          const char *efficiency_path, struct text evidence,
                          const char *evidence_path)
{
    void *rows;
    TRY(field_read_csv(efficiency_fields, sizeof(struct efficiency), &rows, &out->stack_count,
                       arena, efficiency, efficiency_path));
    out->stacks = rows;
    out->knows_trainers = false;
    if (!out->stack_count)
        return fail(ERR_INPUT, "%s: has no rows", efficiency_path);
    return evidence_read(&out->evidence, arena, evidence, evidence_path);
}

struct efficiency calibration_of(const struct calibration *c, const struct stack *stack)
{
    // A stack that has changed its family is measured by the new one, not by what it is like.
    for (const struct stack *s = stack; s && !strcmp(s->family, stack->family); s = s->base)
        for (size_t i = 0; i < c->stack_count; i++)
            if (!strcmp(c->stacks[i].stack, s->name))
                return c->stacks[i];
    for (size_t i = 0; i < c->stack_count; i++)
        if (!strcmp(c->stacks[i].family, stack->family))
            return c->stacks[i];
    return c->stacks[0];
}

// The stack whose runs speak for this one: itself or what it is "like"; NULL where none does.
static const char *measured_as(const struct calibration *c, const struct stack *stack)
{
    struct efficiency row = calibration_of(c, stack);
    for (const struct stack *s = stack; s && !strcmp(s->family, stack->family); s = s->base)
        if (!strcmp(row.stack, s->name))
            return row.stack;
    return stack->name;
}

// Mixtures of experts, and steps with images, have causes of error of their own; so has each kind
// of these that nobody measured.
static const char *kind_of(const struct setup *setup)
{
    if (!(setup->batch.images.images > 0))
        return setup->model->experts ? "moe" : "dense";
    return setup->model->experts          ? "vision moe"
           : setup->recipe.trains_encoder ? "vision trained"
                                          : "vision";
}

struct place calibration_place(const struct calibration *c, const struct setup *setup)
{
    struct recipe recipe = estimate_recipe(setup);
    const struct gpu *gpu = setup->gpu;
    return (struct place){
        .names = { [EVIDENCE_KIND] = kind_of(setup),
                   [EVIDENCE_FAMILY] = setup->stack->family,
                   [EVIDENCE_STACK] = c ? measured_as(c, setup->stack) : setup->stack->name,
                   [EVIDENCE_VENDOR] = gpu ? gpu->vendor : NULL,
                   [EVIDENCE_GENERATION] = gpu ? gpu->architecture : NULL,
                   [EVIDENCE_GPU] = gpu ? gpu->name : NULL,
                   [EVIDENCE_METHOD] = recipe_methods[recipe.method],
                   [EVIDENCE_PRECISION] = recipe_precisions[recipe.precision] },
        .gpus = (double)layout_gpus(&setup->layout),
        .context = setup->batch.width,
        .batch_tokens = setup->batch.tokens,
    };
}

// Hosts differ in how long they take for the same launches: of eleven rented machines with an H200
// seven took 0.9 to 1.1 of what is assumed, and four, whose cores others seem to share, 1.2 to 1.6
// (bench/results/h200.md). So the slow side is the longer one.
static const double HOST_SPREAD = 0.11; // of ln seconds
static const double SLOW_HOST = 1.47;   // one in ten takes as many times as long, or longer

// Networks differ as much, and so do what collectives reach of them and how pipelines fill. Of 0,
// 0.1, 0.2, 0.3, 0.4 and 0.6 times that share of the step, 0.3 and 0.4 make the errors likeliest of
// runs without their source (ln density 7 and 8 higher than with 0, of 1,172 runs); the smaller one
// leaves 86 % of them inside, the other 87.
static const double NETWORK_SPREAD = 0.3; // of ln seconds

struct machine_doubt {
    double host, slow; // of ln tokens/s, by the host, on its fast and on its slow side
    double network;
};

static struct machine_doubt machine_doubt(const struct setup *setup)
{
    struct machine_doubt out = { 0 };
    struct arena arena = { 0 };
    struct estimate estimate;
    if (setup->gpu && !estimate_make(&estimate, &arena, setup)) {
        out.network = NETWORK_SPREAD * compute_network_share(&estimate.timing);
        out.host = HOST_SPREAD * compute_host_share(&estimate.timing);
        out.slow = fmax(out.host, log(compute_slowed(&estimate.timing, SLOW_HOST)) / STATS_P90);
    }
    arena_release(&arena);
    return out;
}

static double experts_spread(const struct setup *setup)
{
    struct recipe recipe = estimate_recipe(setup);
    struct step_request request = { .model = setup->model,
                                    .recipe = &recipe,
                                    .layout = &setup->layout,
                                    .stack = setup->stack,
                                    .batch = setup->batch };
    double rate = setup->gpu ? compute_matmul_flops_per_s(setup->gpu, RECIPE_BF16) : INFINITY;
    return moe_spread(&request, rate, setup->gpu && moe_is_serial(&request, setup->gpu));
}

// Of 0, 0.06, 0.08, 0.10 and 0.12 this makes the errors likeliest of runs without their source (ln
// density 7 higher than with 0, of 1,093 runs), and of two collections that no forecast had seen (3
// and 7 higher, of 51 and 93).
const double calibration_untold = 0.08;

// What the step itself leaves open: what no recipe tells, how experts are loaded, and which trainer
// runs it, where that is not known.
static double step_spread(const struct setup *setup)
{
    double trainer = setup->stack->trainer_spread / STATS_P90;
    return hypot(calibration_untold, hypot(experts_spread(setup), trainer));
}

double calibration_step_spread(const struct setup *setup)
{
    struct machine_doubt machine = machine_doubt(setup);
    return hypot(step_spread(setup), hypot(machine.host, machine.network));
}

double calibration_strange_card(const struct calibration *c, const struct gpu *gpu)
{
    return gpu ? calibration_strangeness(evidence_sources(&c->evidence, EVIDENCE_GPU, gpu->name))
               : 0;
}

double calibration_strange_trainer(const struct calibration *c, const struct stack *stack)
{
    if (c->knows_trainers || stack_is_engine(stack))
        return 0;
    const char *name = measured_as(c, stack);
    return calibration_strangeness(evidence_sources(&c->evidence, EVIDENCE_STACK, name));
}

struct efficiency calibration_at(const struct calibration *c, const struct setup *setup)
{
    struct efficiency out = calibration_of(c, setup->stack);
    struct place place = calibration_place(c, setup);
    struct machine_doubt machine = machine_doubt(setup);
    double known = hypot(evidence_spread(&c->evidence, &place), step_spread(setup));
    double strange = hypot(calibration_strange_card(c, setup->gpu),
                           calibration_strange_trainer(c, setup->stack));
    double other = hypot(hypot(known, machine.network), strange);
    out.log_spread = hypot(other, machine.host);
    out.slow_tail = hypot(other, machine.slow) / out.log_spread - 1;
    return out;
}
