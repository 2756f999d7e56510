// SPDX-License-Identifier: Apache-2.0
// Warnings about memory. A way out is named only where the plan has it: no smaller micro-batch than
// one row, no method that the plan already has; and where it can be computed, only if it works.

#include "core/plan/advice_internal.h"

#include <math.h>
#include <string.h>

// --- ways to need less -------------------------------------------------------

// What stacks offload by themselves depends on what they recompute: only what was asked for stays.
static struct layout asked_layout(const struct plan *plan)
{
    const char *parallel = plan->request->parallel;
    struct layout layout = plan->chosen.layout, given = { 0 };
    bool read = parallel && !layout_read(&given, text_of(parallel), layout_gpus(&layout));
    if (plan->stack->offloads_checkpoints && !(read && given.offload_activations))
        layout.offload_activations = false;
    return layout;
}

static bool can_recompute_more(const struct plan *plan)
{
    return plan->chosen.recipe.checkpointing < RECIPE_RECOMPUTE;
}

static bool can_take_fewer_rows(const struct plan *plan)
{
    return plan->chosen.workload.micro_batch > 1;
}

// Joins words as in "a, b or c".
static const char *either(struct arena *arena, const char *const *words, size_t count)
{
    struct out out = { .arena = arena };
    for (size_t i = 0; i < count; i++)
        out_put(&out, "%s%s", !i ? "" : i + 1 < count ? ", " : " or ", words[i]);
    return out_string(&out);
}

// Settings that make room on the same GPUs; first is named before them.
static const char *ways_to_room(const struct plan *plan, struct arena *arena, const char *first)
{
    const char *words[4];
    size_t count = 0;
    if (first)
        words[count++] = first;
    if (can_take_fewer_rows(plan))
        words[count++] = "a smaller micro-batch";
    if (can_recompute_more(plan))
        words[count++] = "more --checkpointing";
    if (!can_take_fewer_rows(plan) && !can_recompute_more(plan))
        words[count++] = "a shorter --context";
    return either(arena, words, count);
}

// One or several settings that save memory.
struct saving {
    bool recomputes, one_row, qlora;
};

// Whether the plan on its GPUs, so changed, fits.
static bool fits_with(struct memory *out, const struct plan *plan, struct arena *arena,
                      const struct saving *saving)
{
    struct search_result changed = plan->chosen;
    changed.layout = asked_layout(plan);
    if (saving->qlora) {
        struct plan_request request = *plan->request;
        request.recipe.method = RECIPE_QLORA;
        changed.recipe = plan_recipe(&request, changed.gpu);
        changed.recipe.checkpointing = plan->chosen.recipe.checkpointing;
        changed.passes = plan_passes(plan, &changed.recipe);
        changed.layout.offload_optimizer = false;
    }
    if (saving->recomputes)
        changed.recipe.checkpointing = RECIPE_RECOMPUTE;
    if (saving->one_row)
        workload_make(&changed.workload, &plan->rule, 1, (double)changed.layout.data,
                      plan->chosen.workload.global_batch);
    struct setup setup = search_setup(&changed, plan->model, plan->stack);
    return !recipe_check(&changed.recipe, plan->model) &&
           !objective_check(&plan->objective, &changed.recipe) &&
           !estimate_memory(out, arena, &setup) && out->fits;
}

// The least change that makes the plan fit its GPUs: "--checkpointing full fits (99 %)"; NULL: none
// does.
static const char *saving_that_fits(const struct plan *plan, struct arena *arena)
{
    static const struct saving savings[] = {
        { .recomputes = true },
        { .one_row = true },
        { .recomputes = true, .one_row = true },
        { .qlora = true },
        { .qlora = true, .recomputes = true },
        { .qlora = true, .recomputes = true, .one_row = true },
    };
    for (size_t i = 0; i < sizeof savings / sizeof *savings; i++) {
        const struct saving *s = &savings[i];
        struct memory memory;
        if ((s->recomputes && !can_recompute_more(plan)) ||
            (s->one_row && !can_take_fewer_rows(plan)) ||
            (s->qlora && plan->chosen.recipe.method == RECIPE_QLORA) ||
            !fits_with(&memory, plan, arena, s))
            continue;
        return text_format(arena, "with%s%s%s it %s", s->qlora ? " --method qlora" : "",
                           s->one_row ? " --micro-batch 1" : "",
                           s->recomputes ? " --checkpointing full" : "",
                           memory_verdict(&memory, arena));
    }
    return NULL;
}

// --- whether it fits ---------------------------------------------------------

// Of what fits, the nearest to what was asked for: other settings, more GPUs, else the first.
static const struct plan_alternative *nearest_fit(const struct plan *plan)
{
    const struct plan_alternative *settings = advice_alternative(plan, "settings that fit");
    const struct plan_alternative *more = advice_alternative(plan, "more GPUs");
    return settings                  ? settings
           : more                    ? more
           : plan->alternative_count ? &plan->alternatives[0]
                                     : NULL;
}

static const char *way_to_fit(const struct plan *plan, struct arena *arena)
{
    const struct plan_alternative *other = nearest_fit(plan);
    if (other)
        return text_format(arena, "%s fits (%s)", plan_spell(&other->result, arena), other->why);
    bool qlora = plan->chosen.recipe.method == RECIPE_QLORA;
    if (plan->request->search)
        return text_format(arena,
                           "no configuration considered fits, not even on 128 to 1,024 of these "
                           "GPUs; %sa shorter --context needs less",
                           qlora ? "" : "--method qlora or ");
    const char *saving = saving_that_fits(plan, arena);
    return saving ? saving
                  : text_format(arena,
                                "%sa shorter --context or more GPUs with --parallel fsdp need less",
                                qlora ? "" : "--method qlora, ");
}

const char *advice_does_not_fit(const struct plan *plan, struct arena *arena)
{
    const struct memory *memory = &plan->estimate.memory;
    if (plan->fits)
        return NULL;
    double needed = memory_needed_bytes(memory);
    return text_format(arena, "needs %s on each GPU, %s has %s: %s short; %s",
                       text_bytes_apart(arena, needed, memory->device_bytes),
                       plan->chosen.gpu->title,
                       text_bytes_apart(arena, memory->device_bytes, needed),
                       text_bytes(arena, needed - memory->device_bytes), way_to_fit(plan, arena));
}

const char *advice_tight_memory(const struct plan *plan, struct arena *arena)
{
    const struct memory *memory = &plan->estimate.memory;
    if (!plan->fits || plan->chosen.stable)
        return NULL;
    bool more = advice_alternative(plan, "more GPUs") != NULL;
    return text_format(
        arena,
        "it fits with a probability of %s: of 80 %% of measured runs the planned memory is "
        "within %.0f %%; %s makes room",
        memory_chance(memory, arena), 100 * (exp(memory->spread) - 1),
        ways_to_room(plan, arena, more ? "more GPUs" : "another GPU"));
}

const char *advice_pilot_needs_more_memory(const struct plan *plan, struct arena *arena)
{
    if (!plan->request->pilot || !plan->transferred.same_stack || !plan->fits)
        return NULL;
    const struct memory *memory = &plan->estimate.memory;
    double ratio = transfer_memory_ratio(&plan->transfer), bytes = memory->total_bytes * ratio;
    if (!(bytes > memory->device_bytes))
        return NULL;
    return text_format(arena,
                       "the pilot used %.2f × the memory predicted for it; at that rate this run "
                       "needs %s of %s; %s leaves room",
                       ratio, text_bytes_apart(arena, bytes, memory->device_bytes),
                       text_bytes_apart(arena, memory->device_bytes, bytes),
                       ways_to_room(plan, arena, NULL));
}

// --- what takes memory -------------------------------------------------------

const char *advice_checkpointing_without_pressure(const struct plan *plan, struct arena *arena)
{
    const double worth = 1.02;
    if (plan->request->recipe.checkpointing != RECIPE_RECOMPUTE || !plan->fits)
        return NULL;
    struct setup setup = search_setup(&plan->chosen, plan->model, plan->stack);
    setup.recipe.checkpointing = RECIPE_KEEP_ALL;
    setup.layout = asked_layout(plan);
    struct estimate lighter;
    if (estimate_make(&lighter, arena, &setup) || !search_is_stable(&lighter.memory) ||
        lighter.tokens_per_s < worth * plan->estimate.tokens_per_s)
        return NULL;
    return text_format(arena,
                       "without checkpointing it needs %s of %s; --checkpointing none is %s faster",
                       text_bytes(arena, memory_needed_bytes(&lighter.memory)),
                       text_bytes(arena, lighter.memory.device_bytes),
                       text_share(arena, lighter.tokens_per_s / plan->estimate.tokens_per_s - 1));
}

const char *advice_logits_peak(const struct plan *plan, struct arena *arena)
{
    const struct memory *memory = &plan->estimate.memory;
    double logits = memory->parts[MEMORY_LOGITS];
    if (strcmp(memory->moment, "loss") || logits < 0.25 * memory->allocated_bytes)
        return NULL;
    return text_format(arena, "memory peaks at the loss: logits take %s of %s; %s",
                       text_bytes(arena, logits), text_bytes(arena, memory->allocated_bytes),
                       plan->objective.kind == OBJECTIVE_SFT
                           ? "a fused or chunked cross-entropy (Liger, Unsloth) avoids that"
                       : can_take_fewer_rows(plan)
                           ? "the log-probabilities need them; a smaller --micro-batch reduces them"
                           : "the log-probabilities need them; shorter rows reduce them");
}

const char *advice_worst_batch(const struct plan *plan, struct arena *arena)
{
    const struct workload *workload = &plan->chosen.workload;
    const struct memory *memory = &plan->estimate.memory;
    bool grouped = workload->batching == BATCHING_GROUPED;
    bool assumed = workload->worst.width < plan->rule.context && !plan_knows_batches(plan);
    if (assumed && (workload->varied_widths || grouped))
        return text_format(arena,
                           "memory is planned for %.0f × %.0f tokens: how long the longest row is, "
                           "is assumed from the mean length, and one in ten data sets has a longer "
                           "one; gpuhours profile counts it",
                           workload->worst.rows, workload->worst.width);
    if (!workload->varied_widths || memory->allocated_bytes < 0.6 * memory->device_bytes)
        return NULL;
    return text_format(arena,
                       "memory is planned for the widest batch, %.0f × %.0f tokens, which may come "
                       "at any step; train on the longest rows first, so that memory runs out "
                       "early if it does",
                       workload->worst.rows, workload->worst.width);
}

// The node with this GPU that has the least host memory per GPU, of those that state it.
static const struct node *leanest_node(const struct plan *plan)
{
    const struct catalog *catalog = &plan->data->catalog;
    const struct node *least = NULL;
    for (size_t i = 0; i < catalog->node_count; i++) {
        const struct node *node = &catalog->nodes[i];
        if (strcmp(node->gpu, plan->chosen.gpu->name) || !(node->host_memory_bytes > 0) ||
            node->gpus < 1)
            continue;
        if (!least || node->host_memory_bytes / (double)node->gpus <
                          least->host_memory_bytes / (double)least->gpus)
            least = node;
    }
    return least;
}

// Loading may take most of a machine's memory, not all.
const char *advice_host_memory(const struct plan *plan, struct arena *arena)
{
    const double usable = 0.8, assumed_per_gpu = 32e9;
    const struct node *node = &plan->chosen.node, *lean = leanest_node(plan);
    double on_node = fmin((double)plan->chosen.gpus, node->gpus > 0 ? (double)node->gpus : 8);
    double bytes = plan->estimate.memory.host_bytes * on_node;
    bool known = node->gpus > 0 && node->host_memory_bytes > 0;
    double per_gpu = lean ? lean->host_memory_bytes / (double)lean->gpus : assumed_per_gpu;
    double has = known ? node->host_memory_bytes : per_gpu * on_node;
    if (bytes < usable * has)
        return NULL;
    const char *whose =
        known  ? text_format(arena, "%s has", node->name)
        : lean ? text_format(arena, "%.0f GPUs of %s come with", on_node, lean->name)
               : text_format(arena,
                             "for %.0f GPUs of this kind no node in the catalog tells it, and a "
                             "usual one has",
                             on_node);
    return text_format(arena,
                       "the processes of one machine need %s of host memory while weights load; %s "
                       "%s, of which %.0f %% are taken to be free; load on one rank and broadcast, "
                       "or start them one after another",
                       text_bytes(arena, bytes), whose, text_bytes(arena, has), 100 * usable);
}

// --- methods that need less --------------------------------------------------

const char *advice_qlora_where_lora_fits(const struct plan *plan, struct arena *arena)
{
    const double clearly = 0.97;
    const struct plan_alternative *lora = advice_alternative(plan, "lora");
    if (plan->chosen.recipe.method != RECIPE_QLORA || !lora || !lora->result.stable ||
        lora->result.gpu_hours > clearly * plan->chosen.gpu_hours)
        return NULL;
    return text_format(
        arena, "LoRA fits the same GPUs without quantization: %s GPU hours instead of %s",
        text_hours(arena, lora->result.gpu_hours), text_hours(arena, plan->chosen.gpu_hours));
}

// Where full fine-tuning is not sure to fit, LoRA that is sure to; where it fits with no room to
// spare, LoRA that is faster and needs less.
const char *advice_full_under_pressure(const struct plan *plan, struct arena *arena)
{
    const double clearly = 0.97, full = 0.8;
    const struct plan_alternative *lora = advice_alternative(plan, "lora");
    const struct search_result *own = &plan->chosen;
    if (own->recipe.method != RECIPE_FULL || !lora || (plan->fits && !lora->result.stable))
        return NULL;
    const struct memory *less = &lora->result.memory, *memory = &plan->estimate.memory;
    const char *chance =
        text_format(arena, " with a probability of %s", memory_chance(less, arena));
    const char *takes =
        text_format(arena, "LoRA on the same GPUs fits%s: %s GPU hours and %s",
                    lora->result.stable ? "" : chance, text_hours(arena, lora->result.gpu_hours),
                    text_bytes(arena, memory_needed_bytes(less)));
    if (!plan->fits || !own->stable)
        return text_format(arena, "full fine-tuning %s here; %s", memory_verdict(memory, arena),
                           takes);
    bool pressed = own->recipe.checkpointing == RECIPE_RECOMPUTE && !can_take_fewer_rows(plan) &&
                   memory_needed_bytes(memory) > full * memory->device_bytes;
    bool better = lora->result.gpu_hours < clearly * own->gpu_hours &&
                  memory_needed_bytes(less) < clearly * memory_needed_bytes(memory);
    return pressed && better
               ? text_format(arena, "full fine-tuning leaves little memory here; %s", takes)
               : NULL;
}
