// SPDX-License-Identifier: Apache-2.0
// The search walks a tree of configurations and prunes it. For each number of GPUs:
//
//     split             GPUs that only sample, where answers are sampled and nobody says
//     └─ layout         ddp, zero2, fsdp, tensor, pipeline, context, expert, offloaded
//        └─ checkpointing  none → selective → … → full        (lightest first)
//           └─ rows        1 → 2 → 4 → … → 64 per micro-batch (smallest first)
//              └─ card     every GPU of the catalog against one and the same step list
//
// The list of a step's operations does not depend on the card. It is made once per leaf of the
// levels above, and only its memory and time are computed per card: that is what makes
// thousands of configurations cost tens of milliseconds. What is skipped, and why that is safe:
//
// 1. Rows. Memory grows with the rows of a micro-batch. When a size fits no card, no larger one
//    does, and the loop over rows ends there.
// 2. Checkpointing. Recomputing activations costs time and saves memory. Where a card can run a
//    micro-batch with lighter checkpointing and to spare (stable), the heavier kind of the same
//    micro-batch is not timed. It is still counted, because it fits.
// 3. Batch. A step holds the global batch that the space names, within batch_tolerance. More rows
//    per micro-batch only make the deviation larger, so the loop ends at the first size that is
//    too far off. One exception: if the number of GPUs is given and even the smallest micro-batch
//    is too far off, that one is tried, because the user asked for so many GPUs, and others that
//    come near to what it holds.
// 4. Context parallelism costs communication in every layer and helps only long rows. It is tried
//    from LONG_CONTEXT tokens on, and leaves each GPU at least LEAST_PART of them.
// 5. Cards that nobody rents in that number are no answer, unless one of them was asked for or the
//    user gave a price. Where the catalog has no price at all, every card is tried. Numbers that no
//    offer joins, in one instance or over a known network, are left out unless one was asked for
//    or nothing else fits.
//
// Of each card and count one configuration is kept: the fastest that is stable. One that is faster
// by less than EQUAL does not replace another, so that the simplest stays: layouts come simplest
// first. More memory adds configurations and takes none away, so that it never costs more than
// EQUAL. For the same reason the one that needs least memory is kept while none is stable: it is
// the first to become so.

#include "core/forecast/search.h"

#include "core/objective/rollout.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const int64_t counts[] = { 1, 2, 4, 8, 16, 32, 64 };
enum { LAYOUTS = 40, ROW_SIZES = 7 }; // micro-batches of 1 to 64 rows
static const double LONG_CONTEXT = 16384, LEAST_PART = 4096;
static const double EQUAL = 1.01;

// --- layouts -----------------------------------------------------------------

struct layouts {
    struct layout items[LAYOUTS];
    size_t count;
};

// Adds a layout if its parts divide the GPUs and the model. Data parallelism takes the rest.
static void add_layout(struct layouts *out, const struct model *model, int64_t gpus,
                       struct layout layout)
{
    int64_t ranks = layout.tensor * layout.pipeline * layout.context;
    if (gpus % ranks || model->heads % layout.tensor || model->kv_heads % layout.tensor ||
        model->layers % layout.pipeline || out->count >= LAYOUTS)
        return;
    layout.data = gpus / ranks;
    if (layout.expert > 1 && (layout.data % layout.expert || model->experts % layout.expert))
        return;
    if (layout.data * layout.context == 1)
        layout.zero = 0;
    out->items[out->count++] = layout;
}

static struct layout sharded(int zero)
{
    struct layout layout = layout_single();
    layout.zero = zero;
    return layout;
}

// Rows split over GPUs, alone and with the weights split inside the node.
static void add_contexts(struct layouts *out, const struct search_space *space, int64_t gpus)
{
    const struct stack *can = space->stack;
    if (!can->context_parallel || space->rule.context < LONG_CONTEXT)
        return;
    for (int64_t n = 2; n <= gpus && space->rule.context / (double)n >= LEAST_PART; n *= 2) {
        struct layout context = sharded(3), both = sharded(1);
        context.context = both.context = n;
        add_layout(out, space->model, gpus, context);
        for (both.tensor = 4; can->tensor_parallel && both.tensor <= 8; both.tensor *= 2)
            add_layout(out, space->model, gpus, both);
    }
}

static void add_splits(struct layouts *out, const struct search_space *space, int64_t gpus)
{
    const struct model *model = space->model;
    const struct stack *can = space->stack;
    for (int64_t n = 2; n <= 8 && n <= gpus; n *= 2) {
        struct layout tensor = sharded(1), pipeline = sharded(1), expert = sharded(1);
        tensor.tensor = pipeline.pipeline = expert.expert = n;
        if (can->tensor_parallel)
            add_layout(out, model, gpus, tensor);
        if (can->pipeline_parallel)
            add_layout(out, model, gpus, pipeline);
        if (can->expert_parallel && model->experts > 0)
            add_layout(out, model, gpus, expert);
        tensor.pipeline = 2;
        for (; can->tensor_parallel && can->pipeline_parallel && n >= 4 && tensor.pipeline <= 8;
             tensor.pipeline *= 2)
            add_layout(out, model, gpus, tensor);
    }
    add_contexts(out, space, gpus);
    struct layout offloaded = sharded(gpus > 1 ? 3 : 0);
    offloaded.offload_optimizer = true;
    if (can->offloads && space->recipe.method == RECIPE_FULL)
        add_layout(out, model, gpus, offloaded);
}

// The layouts of that many GPUs, the simplest first.
static enum err list_layouts(struct layouts *out, int64_t gpus, const struct search_space *space)
{
    *out = (struct layouts){ .count = 1 };
    if (space->layout) {
        out->items[0] = *space->layout;
        return OK;
    }
    if (space->parallel) {
        TRY(layout_read(&out->items[0], text_of(space->parallel), gpus));
        out->items[0] = estimate_unsharded(&out->items[0], space->stack);
        return OK;
    }
    out->count = 0;
    int most = (int)space->stack->most_zero;
    bool full = space->recipe.method == RECIPE_FULL;
    bool fsdp = gpus > 1 && (most >= 3 || (!full && !space->model->experts &&
                                           space->stack->shares_base && !space->recipe.dora));
    if (!full || gpus == 1 || most >= 2) // an engine with stage 1 alone runs full training so
        add_layout(out, space->model, gpus, sharded(0));
    if (gpus > 1 && full && most)
        add_layout(out, space->model, gpus, sharded(most < 2 ? most : 2));
    if (fsdp)
        add_layout(out, space->model, gpus, sharded(3));
    bool whole = full && space->stack->held_gradients;
    if (fsdp && (whole || space->stack->held_gradients == STACK_GRADIENTS_FLAT)) {
        struct layout synced = sharded(3);
        synced.sync_each_batch = true;
        add_layout(out, space->model, gpus, synced);
    }
    add_splits(out, space, gpus);
    return OK;
}

// --- one step list against every card ----------------------------------------

// A card of the space, with the best configuration found for it at the current number of GPUs.
struct card {
    const struct gpu *gpu;
    struct node node;
    struct links links;
    double usd_per_gpu_hour;
    bool rentable; // in the current number
    bool apart; // offers have the card, but none joins the current number, which was not asked for
    bool found;
    bool lighter[ROW_SIZES]; // whether lighter checkpointing is stable at each micro-batch
    struct search_result best;
    double working;            // seconds of the best, without its start
    struct efficiency learned; // with learned_gpus of them; 0: not yet
    int64_t learned_gpus;
};

struct walk {
    const struct search_space *space;
    struct search *out;
    struct arena *arena;
    struct card *cards;
    size_t card_count;
    bool apart_too;            // numbers that no offer joins are tried as well
    bool any_apart;            // there are such
    struct step_passes passes; // of the objective, with the split at hand
    int64_t sampler_gpus;
};

static struct node node_of(const struct search_space *space, const struct gpu *gpu)
{
    const struct node *known = catalog_node_of(space->catalog, gpu);
    struct node node = { 0 };
    if (known)
        node = *known;
    else if (space->node_gpus)
        node = network_plain_node(gpu, space->node_gpus);
    bool rack = node.link_domain_gpus > node.gpus; // whose link joins many hosts
    if (space->node_gpus)
        node.gpus = space->node_gpus;
    if (space->node_gpus && !rack)
        node.link_domain_gpus = space->node_gpus;
    return node;
}

static double node_gpus(const struct card *card)
{
    return card->node.gpus > 0 ? (double)card->node.gpus : 8;
}

static bool suits(const struct walk *walk, const struct card *card, const struct layout *layout)
{
    const struct search_space *space = walk->space;
    double inside = node_gpus(card), gpus = (double)(layout_gpus(layout) + walk->sampler_gpus);
    if ((!space->gpu && !card->rentable) || (card->apart && !walk->apart_too))
        return false;
    bool whole = space->gpus || gpus <= inside || fmod(gpus, inside) == 0;
    double reach = fmax(inside, (double)card->node.link_domain_gpus);
    return whole && (space->parallel || space->layout || (double)layout->tensor <= reach);
}

bool search_is_stable(const struct memory *memory)
{
    return memory->fit_probability >= memory_sure;
}

// A stable configuration beats a tight one. Among stable ones the faster wins, among tight ones the
// one that needs less memory.
static bool is_better(const struct card *card, const struct search_result *result, double working)
{
    const struct search_result *best = &card->best;
    if (result->stable != best->stable)
        return result->stable;
    return result->stable ? working < card->working / EQUAL
                          : result->memory.allocated_bytes < best->memory.allocated_bytes / EQUAL;
}

// Without what every configuration waits for, so that settings are equal or not in short runs as in
// long ones.
static double working_seconds(const struct overhead_times *times)
{
    const double *seconds = times->seconds;
    return times->wall_seconds - seconds[OVERHEAD_STARTUP] - seconds[OVERHEAD_COMPILATION] -
           seconds[OVERHEAD_LOADING];
}

// By published runs and the ledger; of a card it depends on the number of GPUs, which seldom
// changes. The first micro-batch tried stands for all: which of them is fastest must not depend on
// which was measured.
static struct efficiency learned(const struct search_space *space, struct card *card,
                                 const struct setup *setup)
{
    int64_t gpus = layout_gpus(&setup->layout);
    if (card->learned_gpus != gpus) {
        struct efficiency published =
            space->calibration ? calibration_at(space->calibration, setup) : space->efficiency;
        card->learned = prior_at(space->ledger, &published, setup);
    }
    card->learned_gpus = gpus;
    return card->learned;
}

static struct efficiency efficiency_of(struct walk *walk, struct card *card,
                                       const struct step_request *request)
{
    const struct search_space *space = walk->space;
    if (!space->transfer && !space->calibration && !(space->ledger && space->ledger->count))
        return space->efficiency;
    struct setup setup = { .model = request->model,
                           .stack = request->stack,
                           .gpu = card->gpu,
                           .node = card->node.gpus > 0 ? &card->node : NULL,
                           .recipe = *request->recipe,
                           .layout = *request->layout,
                           .batch = request->batch,
                           .accumulation = request->accumulation,
                           .passes = request->passes };
    struct transferred to = { 0 };
    if (space->transfer)
        transfer_to(&to, space->transfer, walk->arena, &setup);
    return to.same_stack ? to.efficiency : learned(space, card, &setup);
}

// One configuration against one card: what the search knows of it before its time is computed.
static struct search_result result_of(const struct walk *walk, const struct card *card,
                                      const struct step_request *request,
                                      const struct workload *workload, const struct memory *memory)
{
    return (struct search_result){
        .stack = request->stack,
        .gpu = card->gpu,
        .node = card->node,
        .gpus = layout_gpus(request->layout) + walk->sampler_gpus,
        .recipe = *request->recipe,
        .fills = walk->space->fills,
        .layout = *request->layout,
        .workload = *workload,
        .passes = request->passes,
        .memory = *memory,
        .stable = search_is_stable(memory),
    };
}

static void note_miss(struct search *search, const struct search_result *miss)
{
    const struct search_result *closest = &search->closest;
    if (!closest->gpu || memory_needed_bytes(&miss->memory) / miss->memory.device_bytes <
                             memory_needed_bytes(&closest->memory) / closest->memory.device_bytes)
        search->closest = *miss;
}

static void time_card(struct walk *walk, struct card *card, const struct step *step,
                      const struct step_request *request, struct search_result result,
                      const struct overheads *overheads)
{
    struct timing timing;
    compute_time(&timing, step, request, card->gpu, &card->links);
    walk->out->timed++;
    if (!isfinite(timing.step_seconds)) { // a sampler beside the trainer has no room
        note_miss(walk->out, &result);
        return;
    }
    struct efficiency efficiency = efficiency_of(walk, card, request);
    double lengths = forecast_lengths(&result.workload.processed_factor, efficiency.log_spread);
    struct forecast_input input = {
        .roofline_tokens_per_s = compute_tokens_per_s(&timing, request),
        .efficiency = efficiency,
        .processed_tokens = result.workload.processed_tokens,
        .lengths_factor = { lengths, lengths, lengths },
        .overheads = *overheads,
    };
    overhead_first_sights(&input.overheads, request->stack, card->gpu, &request->batch,
                          step->layers, result.workload.alignments);
    input.overheads.eval_cost = timing.evaluation_share;
    struct overhead_times times;
    result.wall_hours = forecast_middle(&times, &input) / 3600;
    double working = working_seconds(&times);
    if (card->found && !is_better(card, &result, working))
        return;
    card->found = true;
    card->working = working;
    result.gpu_hours = result.wall_hours * (double)result.gpus;
    result.cost_usd = result.gpu_hours * card->usd_per_gpu_hour;
    result.tokens_per_s = input.roofline_tokens_per_s * exp(efficiency.log_mid);
    result.seconds_per_step = timing.step_seconds / exp(efficiency.log_mid);
    card->best = result;
}

// Tries one layout, checkpointing and micro-batch on every card. Sets fits_any where one fits.
static enum err try_shape(struct walk *walk, struct setup *setup, const struct workload *workload,
                          int size, bool *fits_any)
{
    const struct search_space *space = walk->space;
    struct recipe recipe = estimate_recipe(setup);
    struct layout layout = estimate_layout(setup);
    struct step_request request = { .model = space->model,
                                    .recipe = &recipe,
                                    .layout = &layout,
                                    .stack = space->stack,
                                    .batch = workload->worst,
                                    .accumulation = workload->accumulation,
                                    .passes = walk->passes };
    struct arena_mark mark = arena_mark(walk->arena);
    struct step worst, step = { 0 };
    TRY(step_list(&worst, walk->arena, &request));
    struct overheads overheads = *space->overheads;
    overhead_pace(&overheads, workload->epochs, workload->steps);
    for (size_t i = 0; i < walk->card_count; i++) {
        struct card *card = &walk->cards[i];
        if (!suits(walk, card, &setup->layout))
            continue;
        struct memory memory;
        struct memory_device device = memory_device(card->gpu, workload->varied_widths);
        request.batch = workload->worst;
        memory_plan(&memory, &worst, &request, &device);
        struct search_result result = result_of(walk, card, &request, workload, &memory);
        walk->out->considered++;
        if (!memory.fits) {
            note_miss(walk->out, &result);
            continue;
        }
        walk->out->fitting++;
        *fits_any = true;
        if (card->lighter[size])
            continue;
        card->lighter[size] = result.stable;
        request.batch = workload->batch;
        if (!step.count) {
            TRY(step_list(&step, walk->arena, &request));
            setup->varied_widths = workload->varied_widths;
            setup->distinct_widths = workload->distinct_widths;
            setup->alignments = workload->alignments;
            overhead_configure(&overheads, setup, &step, NAN); // of evaluation: by each card
        }
        time_card(walk, card, &step, &request, result, &overheads);
    }
    arena_rewind(walk->arena, mark);
    return OK;
}

static bool is_near(const struct search_space *space, double rows, double asked)
{
    return fabs(rows / asked - 1) <= space->batch_tolerance + 1e-9;
}

// Whether steps of this workload hold as many rows as the space asks for. On a given number of GPUs
// the smallest micro-batch always does: others may hold what it makes of the global batch instead.
static bool keeps_batch(const struct search_space *space, const struct workload *workload, int size,
                        double *asked)
{
    if (!(space->global_batch > 0))
        return true;
    if (space->gpus && size == 0 && !space->splits)
        *asked = workload->global_batch;
    return is_near(space, workload->global_batch, space->global_batch) ||
           is_near(space, workload->global_batch, *asked);
}

// Tries all micro-batches of one layout and checkpointing, the smallest first.
static enum err try_rows(struct walk *walk, struct setup *setup)
{
    const struct search_space *space = walk->space;
    double before = 0, asked = space->global_batch;
    double given = space->micro_batch > 0 ? space->micro_batch : space->rule.only_rows;
    bool single = given > 0 || space->rule.single_rows;
    for (int size = 0; size < (single ? 1 : ROW_SIZES); size++) {
        double rows = given > 0 ? given : (double)(1 << size);
        assert(rows > before); // pruning rests on it: more rows need more memory
        before = rows;
        struct workload workload;
        bool fits_any = false;
        workload_make(&workload, &space->rule, rows, (double)setup->layout.data,
                      space->global_batch);
        if (!keeps_batch(space, &workload, size, &asked))
            break;
        TRY(try_shape(walk, setup, &workload, size, &fits_any));
        if (!fits_any)
            break;
    }
    return OK;
}

static enum err try_layout(struct walk *walk, const struct layout *layout)
{
    const struct search_space *space = walk->space;
    bool any = space->recipe.checkpointing == RECIPE_AUTO;
    for (size_t i = 0; i < walk->card_count; i++)
        memset(walk->cards[i].lighter, 0, sizeof walk->cards[i].lighter);
    for (int level = RECIPE_KEEP_ALL; level <= RECIPE_RECOMPUTE; level++) {
        if (any ? !stack_recomputes(space->stack, level) : level != space->recipe.checkpointing)
            continue;
        struct setup setup = { .model = space->model,
                               .stack = space->stack,
                               .recipe = space->recipe,
                               .layout = *layout,
                               .passes = walk->passes };
        setup.recipe.checkpointing = level;
        TRY(try_rows(walk, &setup));
    }
    return OK;
}

// --- the walk ----------------------------------------------------------------

static void list_cards(struct walk *walk)
{
    const struct search_space *space = walk->space;
    const struct catalog *catalog = space->catalog;
    walk->cards = ARENA_NEW(walk->arena, struct card, catalog->gpu_count);
    for (size_t i = 0; i < catalog->gpu_count; i++) {
        const struct gpu *gpu = &catalog->gpus[i];
        bool fp8 = space->recipe.precision == RECIPE_FP8,
             bf16 = space->recipe.precision == RECIPE_BF16;
        if (space->gpu ? gpu != space->gpu
                       : strcmp(gpu->vendor, space->vendor) || (fp8 && !gpu->supports_fp8) ||
                             (bf16 && !gpu->supports_bf16))
            continue;
        struct card *card = &walk->cards[walk->card_count++];
        card->gpu = gpu;
        card->node = node_of(space, gpu);
        card->links = network_links(gpu, card->node.gpus > 0 ? &card->node : NULL);
    }
}

static void price_cards(struct walk *walk, int64_t gpus)
{
    bool given = !isnan(walk->space->usd_per_gpu_hour), any = false;
    for (size_t i = 0; i < walk->card_count; i++) {
        struct arena_mark mark = arena_mark(walk->arena);
        struct card *card = &walk->cards[i];
        card->usd_per_gpu_hour = walk->space->usd_per_gpu_hour;
        if (!given) {
            struct price price =
                price_find(walk->arena, walk->space->catalog, card->gpu, (double)gpus);
            card->usd_per_gpu_hour = price_median(&price);
            card->apart = price.unconnected && !(walk->space->gpu && walk->space->gpus);
            walk->any_apart = walk->any_apart || card->apart;
        }
        card->rentable = !isnan(card->usd_per_gpu_hour);
        any = any || card->rentable;
        arena_rewind(walk->arena, mark);
    }
    for (size_t i = 0; i < walk->card_count && !any; i++)
        walk->cards[i].rentable = true;
}

// With so many of the GPUs that only sample.
static enum err try_split(struct walk *walk, int64_t gpus, int64_t sampling)
{
    const struct search_space *space = walk->space;
    struct layouts layouts;
    enum err err = list_layouts(&layouts, gpus - sampling, space);
    if (err)
        return space->gpus && !space->splits ? err : OK; // a layout that needs more GPUs
    walk->sampler_gpus = sampling;
    walk->passes = space->passes;
    if (space->passes.rollout) {
        struct rollout *rollout = ARENA_NEW(walk->arena, struct rollout, 1);
        *rollout = *space->passes.rollout;
        rollout->gpus = (double)sampling;
        walk->passes.rollout = rollout;
    }
    for (size_t i = 0; i < layouts.count; i++)
        TRY(try_layout(walk, &layouts.items[i]));
    return OK;
}

static enum err try_count(struct walk *walk, int64_t gpus)
{
    enum { PARTS = 8 };
    const struct search_space *space = walk->space;
    if (gpus <= space->sampler_gpus)
        return OK;
    price_cards(walk, gpus);
    for (size_t i = 0; i < walk->card_count; i++)
        walk->cards[i].found = false;
    bool turns = !space->splits || !(space->passes.rollout->async_steps > 0);
    if (turns)
        TRY(try_split(walk, gpus, space->splits ? 0 : space->sampler_gpus));
    for (int64_t part = 1, tried = 0; space->splits && part < PARTS; part++) {
        int64_t sampling = gpus * part / PARTS;
        if (sampling > tried)
            TRY(try_split(walk, gpus, sampling));
        tried = sampling;
    }
    for (size_t i = 0; i < walk->card_count; i++)
        if (walk->cards[i].found)
            walk->out->best[walk->out->count++] = walk->cards[i].best;
    return OK;
}

static void sort_results(struct search *search)
{
    for (size_t i = 1; i < search->count; i++) {
        struct search_result moved = search->best[i];
        size_t at = i;
        for (; at > 0 && search->best[at - 1].gpu_hours > moved.gpu_hours; at--)
            search->best[at] = search->best[at - 1];
        search->best[at] = moved;
    }
}

enum err search_run(struct search *out, struct arena *arena, const struct search_space *space)
{
    struct walk walk = { .space = space, .out = out, .arena = arena };
    list_cards(&walk);
    size_t rounds = space->gpus ? 1 : sizeof counts / sizeof *counts;
    struct search_result *best = ARENA_NEW(arena, struct search_result, rounds * walk.card_count);
    do {
        *out = (struct search){ .best = best };
        walk.apart_too = walk.any_apart; // the first time none was seen
        for (size_t i = 0; i < rounds; i++)
            TRY(try_count(&walk, space->gpus ? space->gpus : counts[i]));
    } while (!out->count && walk.any_apart && !walk.apart_too);
    sort_results(out);
    return OK;
}

struct setup search_setup(const struct search_result *result, const struct model *model,
                          const struct stack *stack)
{
    return (struct setup){
        .model = model,
        .stack = stack,
        .gpu = result->gpu,
        .node = result->node.gpus > 0 ? &result->node : NULL,
        .recipe = result->recipe,
        .fills = result->fills,
        .layout = result->layout,
        .batch = result->workload.batch,
        .worst = result->workload.worst,
        .accumulation = result->workload.accumulation,
        .varied_widths = result->workload.varied_widths,
        .distinct_widths = result->workload.distinct_widths,
        .alignments = result->workload.alignments,
        .passes = result->passes,
    };
}

bool search_is_pareto(const struct search *search, const struct search_result *result)
{
    for (size_t i = 0; i < search->count; i++) {
        const struct search_result *other = &search->best[i];
        bool no_worse =
            other->wall_hours <= result->wall_hours && other->gpu_hours <= result->gpu_hours;
        bool better =
            other->wall_hours < result->wall_hours || other->gpu_hours < result->gpu_hours;
        if (no_worse && better)
            return false;
    }
    return true;
}
