#include "core/forecast/search.h"

#include <math.h>
#include <string.h>

static const int64_t counts[] = { 1, 2, 4, 8, 16, 32, 64 };
enum { LAYOUTS = 24, MICROS = 7 }; // micro-batches of 1 to 64 rows

// --- layouts -----------------------------------------------------------------

struct layouts {
    struct layout items[LAYOUTS];
    size_t count;
};

// Adds a layout if its parts divide the GPUs and the model; the rest is data parallelism.
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

static void add_splits(struct layouts *out, const struct search_space *space, int64_t gpus)
{
    const struct model *model = space->model;
    const struct stack *can = space->stack;
    for (int64_t n = 2; n <= 8 && n <= gpus; n *= 2) {
        struct layout tensor = sharded(1), pipeline = sharded(1), context = sharded(3),
                      expert = sharded(1);
        tensor.tensor = pipeline.pipeline = context.context = expert.expert = n;
        if (can->tensor_parallel)
            add_layout(out, model, gpus, tensor);
        if (can->pipeline_parallel)
            add_layout(out, model, gpus, pipeline);
        if (can->context_parallel && space->rule.context >= 16384)
            add_layout(out, model, gpus, context);
        if (can->expert_parallel && model->experts > 0)
            add_layout(out, model, gpus, expert);
        tensor.pipeline = 2;
        for (; can->tensor_parallel && can->pipeline_parallel && n >= 4 && tensor.pipeline <= 8;
             tensor.pipeline *= 2)
            add_layout(out, model, gpus, tensor);
    }
    struct layout offloaded = sharded(gpus > 1 ? 3 : 0);
    offloaded.offload_optimizer = true;
    if (can->offloads && space->recipe.method == RECIPE_FULL)
        add_layout(out, model, gpus, offloaded);
}

// The layouts of that many GPUs, the simplest first.
static enum err list_layouts(struct layouts *out, int64_t gpus, const struct search_space *space)
{
    *out = (struct layouts){ .count = 1 };
    if (space->parallel)
        return layout_read(&out->items[0], text_of(space->parallel), gpus);
    out->count = 0;
    add_layout(out, space->model, gpus, sharded(0));
    if (gpus > 1 && space->recipe.method == RECIPE_FULL)
        add_layout(out, space->model, gpus, sharded(2));
    if (gpus > 1)
        add_layout(out, space->model, gpus, sharded(3));
    add_splits(out, space, gpus);
    return OK;
}

// --- one step list against every card ----------------------------------------

// A card of the space with the best that was found for it at the present count.
struct card {
    const struct gpu *gpu;
    struct node node;
    struct links links;
    double usd_per_gpu_hour;
    bool found, lighter[MICROS]; // whether lighter recomputation fits at each micro-batch
    struct search_result best;
};

struct walk {
    const struct search_space *space;
    struct search *out;
    struct arena *arena;
    struct card *cards;
    size_t card_count;
};

static struct node node_of(const struct search_space *space, const struct gpu *gpu)
{
    const struct node *known = catalog_node_of(space->catalog, gpu);
    struct node node = { 0 };
    if (known)
        node = *known;
    if (space->node_gpus)
        node.gpus = node.link_domain_gpus = space->node_gpus;
    return node;
}

static double node_gpus(const struct card *card)
{
    return card->node.gpus > 0 ? (double)card->node.gpus : 8;
}

static bool suits(const struct search_space *space, const struct card *card,
                  const struct layout *layout)
{
    double inside = node_gpus(card), gpus = (double)layout_gpus(layout);
    bool whole = space->gpus || gpus <= inside || fmod(gpus, inside) == 0;
    return whole && (space->parallel || (double)layout->tensor <= inside);
}

static bool is_stable(const struct memory *memory)
{
    struct range range = memory_range(memory);
    double context = memory->parts[MEMORY_CONTEXT];
    double high = memory->allocated_bytes * range.high / range.mid;
    return memory->fits && high + context <= memory->device_bytes;
}

// A stable configuration beats a tight one, a faster one a slower one by 2 % or more. Among tight
// ones a faster one may need a tenth more memory, and one that needs a tenth less may be slower.
static bool is_better(const struct search_result *best, bool stable, double wall_hours,
                      const struct memory *memory)
{
    if (stable != best->stable)
        return stable;
    double bytes = memory->allocated_bytes / best->memory.allocated_bytes;
    bool faster = wall_hours < best->wall_hours / 1.02;
    return stable ? faster : bytes < 0.9 || (bytes < 1.1 && faster);
}

static struct efficiency efficiency_of(struct walk *walk, const struct card *card,
                                       const struct step_request *request)
{
    const struct search_space *space = walk->space;
    if (!space->carry)
        return space->efficiency;
    struct setup setup = { .model = request->model,
                           .stack = request->stack,
                           .gpu = card->gpu,
                           .node = card->node.gpus > 0 ? &card->node : NULL,
                           .recipe = *request->recipe,
                           .layout = *request->layout,
                           .batch = request->batch,
                           .accumulation = request->accumulation };
    struct transferred carried;
    transfer_to(&carried, space->carry, walk->arena, &setup);
    return carried.same_stack ? carried.efficiency : space->efficiency;
}

static void time_card(struct walk *walk, struct card *card, const struct step *step,
                      const struct step_request *request, const struct workload *workload,
                      const struct memory *memory, const struct overheads *overheads)
{
    struct timing timing;
    compute_time(&timing, step, request, card->gpu, &card->links);
    walk->out->timed++;
    struct efficiency efficiency = efficiency_of(walk, card, request);
    struct forecast_input input = {
        .roofline_tokens_per_s = compute_tokens_per_s(&timing, request),
        .efficiency = efficiency,
        .processed_tokens = workload->processed_tokens,
        .processed_factor = { 1, 1, 1 },
        .overheads = *overheads,
    };
    struct overhead_times times;
    double hours = forecast_middle(&times, &input) / 3600;
    bool stable = is_stable(memory);
    struct search_result *best = &card->best;
    if (card->found && !is_better(best, stable, hours, memory))
        return;
    card->found = true;
    int64_t gpus = layout_gpus(request->layout);
    double gpu_hours = hours * (double)gpus;
    *best = (struct search_result){
        .gpu = card->gpu,
        .node = card->node,
        .gpus = gpus,
        .recipe = *request->recipe,
        .layout = *request->layout,
        .workload = *workload,
        .memory = *memory,
        .tokens_per_s = input.roofline_tokens_per_s * exp(efficiency.log_mid),
        .wall_hours = hours,
        .gpu_hours = gpu_hours,
        .cost_usd = gpu_hours * card->usd_per_gpu_hour,
        .seconds_per_step = timing.step_seconds / exp(efficiency.log_mid),
        .stable = stable,
    };
}

// Holds one layout, recomputation and micro-batch against every card; false if it fits none.
static enum err try_shape(struct walk *walk, struct setup *setup, double rows, int micro,
                          bool *fits_any)
{
    const struct search_space *space = walk->space;
    struct recipe recipe = estimate_recipe(setup);
    struct workload workload;
    workload_make(&workload, &space->rule, rows, (double)setup->layout.data, space->global_batch);
    struct step_request request = { .model = space->model,
                                    .recipe = &recipe,
                                    .layout = &setup->layout,
                                    .stack = space->stack,
                                    .batch = workload.worst,
                                    .accumulation = workload.accumulation };
    struct arena_mark mark = arena_mark(walk->arena);
    struct step worst, step = { 0 };
    TRY(step_list(&worst, walk->arena, &request));
    struct overheads overheads = *space->overheads;
    overheads.epochs = space->rule.epochs;
    for (size_t i = 0; i < walk->card_count; i++) {
        struct card *card = &walk->cards[i];
        if (!suits(space, card, &setup->layout))
            continue;
        struct memory memory;
        struct memory_device device = memory_device(card->gpu, workload.varied_widths);
        memory_plan(&memory, &worst, &request, &device);
        walk->out->considered++;
        if (!memory.fits)
            continue;
        walk->out->fitting++;
        *fits_any = true;
        if (card->lighter[micro])
            continue;
        card->lighter[micro] = is_stable(&memory);
        if (!step.count) {
            request.batch = workload.batch;
            TRY(step_list(&step, walk->arena, &request));
            setup->varied_widths = workload.varied_widths;
            setup->distinct_widths = workload.distinct_widths;
            overhead_configure(&overheads, setup, &step);
        }
        request.batch = workload.batch;
        time_card(walk, card, &step, &request, &workload, &memory, &overheads);
        request.batch = workload.worst;
    }
    arena_rewind(walk->arena, mark);
    return OK;
}

static enum err try_layout(struct walk *walk, const struct layout *layout)
{
    const struct search_space *space = walk->space;
    bool any = space->recipe.checkpointing == RECIPE_AUTO;
    for (size_t i = 0; i < walk->card_count; i++)
        memset(walk->cards[i].lighter, 0, sizeof walk->cards[i].lighter);
    for (int again = RECIPE_KEEP_ALL; again <= RECIPE_RECOMPUTE; again++) {
        if (any ? again == RECIPE_SELECTIVE && !space->stack->selective
                : again != space->recipe.checkpointing)
            continue;
        for (int micro = 0; micro < (space->micro_batch > 0 ? 1 : MICROS); micro++) {
            double rows = space->micro_batch > 0 ? space->micro_batch : (double)(1 << micro);
            if (micro > 0 && space->global_batch > 0 &&
                rows * (double)layout->data > space->global_batch)
                break;
            struct setup setup = { .model = space->model,
                                   .stack = space->stack,
                                   .recipe = space->recipe,
                                   .layout = *layout };
            setup.recipe.checkpointing = again;
            bool fits_any = false;
            TRY(try_shape(walk, &setup, rows, micro, &fits_any));
            if (!fits_any)
                break;
        }
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
    for (size_t i = 0; i < walk->card_count; i++) {
        struct arena_mark mark = arena_mark(walk->arena);
        struct card *card = &walk->cards[i];
        card->usd_per_gpu_hour = walk->space->usd_per_gpu_hour;
        if (isnan(card->usd_per_gpu_hour)) {
            struct price price =
                price_find(walk->arena, walk->space->catalog, card->gpu, (double)gpus);
            card->usd_per_gpu_hour = price_median(&price);
        }
        arena_rewind(walk->arena, mark);
    }
}

static enum err try_count(struct walk *walk, int64_t gpus)
{
    struct layouts layouts;
    enum err err = list_layouts(&layouts, gpus, walk->space);
    if (err)
        return walk->space->gpus ? err : OK; // a layout that needs more GPUs than these
    price_cards(walk, gpus);
    for (size_t i = 0; i < walk->card_count; i++)
        walk->cards[i].found = false;
    for (size_t i = 0; i < layouts.count; i++)
        TRY(try_layout(walk, &layouts.items[i]));
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
    *out = (struct search){ 0 };
    struct walk walk = { .space = space, .out = out, .arena = arena };
    list_cards(&walk);
    size_t rounds = space->gpus ? 1 : sizeof counts / sizeof *counts;
    out->best = ARENA_NEW(arena, struct search_result, rounds * walk.card_count);
    for (size_t i = 0; i < rounds; i++)
        TRY(try_count(&walk, space->gpus ? space->gpus : counts[i]));
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
        .layout = result->layout,
        .batch = result->workload.batch,
        .worst = result->workload.worst,
        .accumulation = result->workload.accumulation,
        .varied_widths = result->workload.varied_widths,
        .distinct_widths = result->workload.distinct_widths,
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

const struct search_result *search_smallest(const struct search *search, double wall_hours,
                                            double budget_usd)
{
    const struct search_result *smallest = NULL;
    for (size_t i = 0; i < search->count; i++) {
        const struct search_result *r = &search->best[i];
        if (!r->stable || r->wall_hours > wall_hours || r->cost_usd > budget_usd)
            continue;
        bool cheaper = smallest && (isnan(smallest->cost_usd) ? !isnan(r->cost_usd)
                                                              : r->cost_usd < smallest->cost_usd);
        if (!smallest || r->gpus < smallest->gpus || (r->gpus == smallest->gpus && cheaper))
            smallest = r;
    }
    return smallest;
}
