// SPDX-License-Identifier: Apache-2.0
// Reads a request: finds model and stack, makes the workload's rule, the overheads and the space to
// search. `plan` and `memory` both begin here, so that both take the same defaults.

#include "core/plan/plan_internal.h"

#include <math.h>
#include <string.h>

enum { USUAL_GLOBAL_BATCH = 64 };                 // rows per optimizer step unless given
static const double MOST_STEP_TOKENS = 1 << 22;   // of them: rows of 65,536 tokens, as ProLong has
static const double USUAL_BATCH_TOLERANCE = 0.25; // how far from that GPUs may make it

// --- model, stack and precision ----------------------------------------------

static enum err find_stack(struct plan *plan)
{
    const struct plan_request *request = plan->request;
    plan->stack = request->own_stack;
    if (plan->stack)
        return OK;
    return stack_find(&plan->stack, plan->data->stacks, plan->data->stack_count,
                      request->stack ? request->stack : stack_default(request->recipe.method));
}

struct recipe plan_recipe(const struct plan_request *request, const struct gpu *gpu)
{
    struct recipe recipe = request->recipe;
    if (gpu && recipe.precision == RECIPE_FP4 && !gpu->supports_fp4)
        recipe.precision = RECIPE_FP8;
    if (gpu && recipe.precision == RECIPE_FP8 && !gpu->supports_fp8)
        recipe.precision = RECIPE_BF16;
    if (gpu && recipe.precision == RECIPE_BF16 && !gpu->supports_bf16)
        recipe.precision = RECIPE_FP16;
    // Loss scaling cannot update fp16 weights: the trained ones stay in fp32.
    bool scaled = recipe.precision == RECIPE_FP16 && recipe.method == RECIPE_FULL;
    if (scaled && recipe.weights == RECIPE_DTYPE_AUTO)
        recipe.weights = RECIPE_FP32;
    if (scaled && recipe.states == RECIPE_DTYPE_AUTO)
        recipe.states = RECIPE_FP32;
    return recipe;
}

// --- the workload ------------------------------------------------------------

enum err plan_batching(int *out, const struct plan *plan)
{
    const struct plan_request *request = plan->request;
    *out = request->batching;
    if (*out != BATCHING_AUTO)
        return OK;
    const char *packing = request->packing;
    if (packing && (!strcmp(packing, "on") || !strcmp(packing, "true")))
        return *out = BATCHING_PACKED, OK;
    if (packing && (!strcmp(packing, "off") || !strcmp(packing, "false")))
        return *out = BATCHING_LONGEST, OK;
    if (packing)
        return fail(ERR_USAGE, "--packing is \"%s\", must be on or off", packing);
    *out = objective_batching(plan->objective.kind, plan->stack, plan->stack->batching);
    return OK;
}

bool plan_may_pack(const struct plan *plan)
{
    return plan->objective.kind == OBJECTIVE_SFT && !(plan->rule.images.images > 0);
}

const char *plan_missing_data(const struct plan_request *request, struct arena *arena)
{
    const char *name = request->named_data, *slash = name ? strchr(name, '/') : NULL;
    if (!name)
        return NULL;
    bool on_a_hub = slash && slash > name && *name != '.' && !strpbrk(slash + 1, "/.,");
    if (!on_a_hub)
        return text_format(arena, "%s is \"%.80s\": give its files too, or --tokens",
                           request->named_at, name);
    return text_format(
        arena,
        "%s is \"%.80s\", which is not downloaded: give its files too, or --tokens; after "
        "\"hf download %.80s --repo-type dataset\" give hf://datasets/%.80s",
        request->named_at, name, name, name);
}

// Where nobody says the context: long enough for most rows, if the usual one would cut the average
// one.
static void widen_context(struct plan *plan)
{
    struct workload_rule *rule = &plan->rule;
    double mean = workload_known_mean(rule), most = (double)plan->model->max_positions;
    if (plan->request->context > 0 || plan->request->lengths || !(mean > rule->context))
        return;
    rule->context = 1024 * ceil(2 * mean / 1024);
    rule->context = most > 0 ? fmin(rule->context, most) : rule->context;
}

// Trainers cut a row that is longer than the context, unless they pack.
static void cut_rows(struct plan *plan)
{
    struct workload_rule *rule = &plan->rule;
    double mean = workload_known_mean(rule);
    if (rule->shapes || rule->batching == BATCHING_PACKED || !(mean > rule->context))
        return;
    rule->examples = rule->examples > 0 ? rule->examples : rint(rule->tokens / mean);
    rule->loss = (struct packing_loss){ .examples = rule->examples,
                                        .tokens = rule->examples * mean,
                                        .lost = rule->examples * (mean - rule->context),
                                        .cut = NAN,
                                        .longest = NAN };
    rule->tokens = rule->examples * rule->context;
    rule->mean_length = rule->context;
}

// Those of a former plan are of no use to rows that form batches in another way.
static bool has_batches(const struct plan *plan)
{
    const struct plan_batches *batches = plan->request->batches;
    return batches &&
           (batches->batching == BATCHING_AUTO || batches->batching == plan->rule.batching);
}

static void take_batches(struct plan *plan)
{
    const struct plan_batches *batches = plan->request->batches;
    struct workload_rule *rule = &plan->rule;
    rule->shapes = batches->shapes;
    rule->shape_count = batches->count;
    rule->only_rows = batches->only_rows;
    rule->single_rows = workload_has_single_rows(rule, plan->stack->trainer);
    rule->full_rows = false;
    if (isnan(plan->request->labelled_share) && !isnan(batches->labelled_share))
        rule->labelled_share = batches->labelled_share;
}

static enum err make_rule(struct plan *plan, struct arena *arena)
{
    const struct plan_request *request = plan->request;
    struct workload_rule *rule = &plan->rule;
    *rule = workload_rule();
    rule->rows_each = objective_rows_each(plan->objective.kind);
    rule->paired = request->pairs_in_order;
    rule->tokens = request->tokens > 0 ? (double)request->tokens : 0;
    rule->mean_length = request->mean_length;
    if (request->examples > 0)
        rule->examples = (double)request->examples;
    if (request->tokens < 0 && !isnan(rule->examples) && !isnan(request->mean_length))
        rule->tokens = rint(rule->examples * rule->mean_length);
    rule->missing = plan_missing_data(request, arena);
    double made = rule->examples * rule->mean_length; // NAN: one of them is not given
    if (!request->lengths && !(fabs(made - rule->tokens) <= 0.01 * rule->tokens) && !isnan(made))
        return fail(ERR_USAGE,
                    "--examples %s of --mean-length %.6g make %s tokens, but --tokens is %s; leave "
                    "one of the three out",
                    text_commas(arena, request->examples), rule->mean_length,
                    text_commas(arena, llround(made)), text_commas(arena, request->tokens));
    if (request->tokens < 0 && !isnan(rule->examples) && isnan(request->mean_length))
        return fail(ERR_USAGE, "--examples gives the number of rows but not their length; add "
                               "--tokens or --mean-length");
    if (!isnan(request->epochs))
        rule->epochs = request->epochs;
    if (request->steps > 0)
        rule->steps = (double)request->steps;
    if (request->global_batch > 0)
        rule->step_rows = request->global_batch / (request->gpus > 0 ? request->gpus : 1);
    TRY(plan_request_rows(&rule->micro_batch, request));
    if (request->pad_to_multiple_of > 0)
        rule->multiple = request->pad_to_multiple_of;
    if (request->context > 0)
        rule->context = (double)request->context;
    else if (plan->model->max_positions > 0)
        rule->context = fmin(rule->context, (double)plan->model->max_positions);
    widen_context(plan);
    if (!isnan(request->labelled_share))
        rule->labelled_share = request->labelled_share;
    TRY(plan_batching(&rule->batching, plan));
    bool given = request->batching != BATCHING_AUTO || request->packing;
    rule->full_rows = !plan_knows_mean(request) && (!given || rule->batching == BATCHING_PACKED);
    rule->token_spread = hypot(request->token_spread, request->sample_spread);
    if (request->lengths)
        TRY(workload_measure(rule, arena, request->lengths, plan->stack->trainer,
                             (uint64_t)request->seed));
    else if (has_batches(plan))
        take_batches(plan);
    else if (request->pilot && rule->full_rows)
        plan_rows_of_pilot(rule, arena, plan);
    TRY(plan_images(plan));
    cut_rows(plan);
    return OK;
}

// Never takes what the configuration of a trainer says for supervised tuning when it is not.
static enum err read_objective(struct plan *plan)
{
    const struct plan_request *request = plan->request;
    bool known = request->objective != OBJECTIVE_AUTO;
    if (!known && request->unknown_objective)
        return fail(ERR_INPUT, "--from: %s", request->unknown_objective);
    plan->objective = (struct objective){
        .kind = known ? (enum objective_kind)request->objective : OBJECTIVE_SFT,
        .reference = (enum objective_reference)request->reference,
        .reward = (enum objective_reward)request->reward,
    };
    const char *of_sampling = request->generations > 0                  ? "generations"
                              : request->response_length                ? "response-length"
                              : request->response_limit > 0             ? "response-limit"
                              : request->sampler_gpus != PLAN_NOT_GIVEN ? "sampler-gpus"
                              : request->async_steps != PLAN_NOT_GIVEN  ? "async-steps"
                              : request->updates > 0                    ? "updates"
                              : request->rounds > 0                     ? "rounds"
                                                                        : NULL;
    if (of_sampling && !objective_samples(plan->objective.kind))
        return fail(ERR_USAGE,
                    "--%s is for objectives that sample answers (grpo, ppo …), and this "
                    "is %s",
                    of_sampling, objective_names[plan->objective.kind]);
    return objective_check(&plan->objective, &request->recipe);
}

// What only our engine is known to do, and at which cost.
static enum err check_engine_options(const struct plan *plan)
{
    const struct recipe *recipe = &plan->request->recipe;
    const char *option = recipe->dora               ? "--dora"
                         : recipe->nondeterministic ? "--nondeterministic"
                                                    : NULL;
    if (option && !stack_is_engine(plan->stack))
        return fail(ERR_USAGE,
                    "%s is forecast for --stack native alone: what it costs elsewhere was not "
                    "measured",
                    option);
    const char *parallel = plan->request->parallel;
    bool shares = parallel && strstr(parallel, "fsdp");
    const char *with = recipe->dropout > 0               ? "--dropout"
                       : recipe->precision == RECIPE_FP8 ? "--precision fp8"
                       : plan->model->experts            ? "a mixture of experts"
                       : shares                          ? "--parallel fsdp"
                                                         : NULL;
    if (recipe->dora && with) // as check_dora() of the engine
        return fail(ERR_USAGE, "--dora does not go together with %s: the engine does not train it",
                    with);
    if (recipe->attention != RECIPE_ATTENTION_AUTO && stack_is_engine(plan->stack))
        return fail(ERR_USAGE, "--attention is for other stacks; %s has kernels of its own",
                    plan->stack->name);
    bool partial =
        recipe->checkpointing == RECIPE_GATE || recipe->checkpointing == RECIPE_PROJECTIONS;
    if (partial && !stack_recomputes(plan->stack, recipe->checkpointing))
        return fail(ERR_USAGE,
                    "--checkpointing %s is a level of --stack native; %s has only none, "
                    "selective and full",
                    recipe_checkpointings[recipe->checkpointing], plan->stack->name);
    if (recipe->dora && recipe->method == RECIPE_FULL)
        return fail(ERR_USAGE, "--dora is for adapters, and --method full has none");
    return OK;
}

enum err plan_begin(struct plan *out, struct arena *arena, const struct plan_data *data,
                    const struct plan_request *request)
{
    *out = (struct plan){ .request = request, .data = data, .model = request->shape };
    out->advice.arena = arena;
    TRY(plan_request_check(request));
    if (!out->model)
        TRY(catalog_model(&out->model, &data->catalog, request->model));
    TRY(model_find_tower(&out->model, arena));
    TRY(recipe_check(&request->recipe, out->model));
    TRY(read_objective(out));
    TRY(find_stack(out));
    TRY(check_engine_options(out));
    out->prior = calibration_of(&data->calibration, out->stack); // until a GPU is chosen
    return objective_samples(out->objective.kind) ? plan_rollout(out, arena)
                                                  : make_rule(out, arena);
}

// --- overheads ---------------------------------------------------------------

// A pilot of the same model, stack and number of GPUs has measured the start: imports, process
// groups, weights and the first step's kernels. A disk that is not warm takes longer.
static void take_startup(struct overheads *o, const struct plan_request *request,
                         const struct plan *plan)
{
    const struct pilot *pilot = request->pilot;
    const struct setup *measured = &plan->transfer.setup;
    if (!pilot || !(pilot->apart.startup_seconds > 0) || !isnan(request->startup) ||
        strcmp(measured->model->name, plan->model->name) ||
        strcmp(measured->stack->name, plan->stack->name) ||
        layout_gpus(&measured->layout) != request->gpus)
        return;
    double seconds = pilot->apart.startup_seconds;
    o->startup_seconds =
        assumption_measured(o->startup_seconds, seconds, request->pilot_name, pilot->as_of);
    o->startup_seconds.value = (struct range){ 0.8 * seconds, seconds, 1.6 * seconds };
    o->startup_loads = true;
}

static enum err make_overheads(struct plan *plan, const struct gpu *gpu)
{
    const struct plan_request *request = plan->request;
    const struct node *node = gpu ? catalog_node_of(&plan->data->catalog, gpu) : NULL;
    struct overheads *o = &plan->overheads;
    TRY(overhead_assume(o, &plan->data->catalog, node));
    o->file_cache = (enum overhead_cache)request->file_cache;
    take_startup(o, request, plan);
    const struct {
        struct assumption *assumption;
        double value;
        const char *option;
        bool positive; // the computation divides by it
    } settable[] = {
        { &o->startup_seconds, request->startup, "startup", false },
        { &o->compile_seconds, request->compile, "compile", false },
        { &o->storage_bytes_per_s, request->storage, "storage", true },
        { &o->eval_share, request->eval_share, "eval-share", false },
        { &o->evals_per_epoch, request->evals_per_epoch, "evals-per-epoch", false },
        { &o->retries, request->retries, "retries", false },
        { &o->failed_runs, request->failed_runs, "failed-runs", false },
        { &o->save_interval_seconds, request->save_interval, "save-interval", true },
        { &o->failures_per_gpu_hour, request->failures_per_gpu_hour, "failures-per-gpu-hour",
          false },
    };
    for (size_t i = 0; i < sizeof settable / sizeof *settable; i++) {
        double value = settable[i].value;
        if (value < 0 || (value == 0 && settable[i].positive) || value > 1e18)
            return fail(ERR_USAGE, "--%s is %g, must be %s", settable[i].option, value,
                        value > 1e18           ? "smaller"
                        : settable[i].positive ? "above 0"
                                               : "0 or more");
        *settable[i].assumption = assumption_given(*settable[i].assumption, value);
    }
    if (request->evaluate_every != PLAN_NOT_GIVEN)
        o->evaluate_every = (double)request->evaluate_every;
    bool by_steps = request->save_every != PLAN_NOT_GIVEN;
    if (by_steps)
        o->save_every = (double)request->save_every;
    if (!isnan(request->saves_per_epoch))
        o->saves_per_epoch = request->saves_per_epoch;
    if (by_steps || !isnan(request->saves_per_epoch))
        o->save_interval_seconds =
            (struct assumption){ "save interval",
                                 "s",
                                 { NAN, NAN, NAN },
                                 ASSUMPTION_GIVEN,
                                 by_steps ? "--save-every" : "--saves-per-epoch",
                                 NULL };
    return OK;
}

// --- the space to search -----------------------------------------------------

// Sets the number of GPUs; 0 leaves it to the search.
static enum err count_gpus(struct search_space *space, const struct plan_request *request)
{
    space->gpus = request->gpus > 0 ? request->gpus : 0;
    if (request->nodes == PLAN_NOT_GIVEN)
        return OK;
    const struct node *node = space->gpu ? catalog_node_of(space->catalog, space->gpu) : NULL;
    if (!space->gpus)
        space->gpus = request->nodes * (node ? node->gpus : 8);
    if (space->gpus % request->nodes || space->gpus > PLAN_MOST_GPUS)
        return fail(ERR_USAGE, "--nodes is %lld, must divide the %lld GPUs of --gpus",
                    (long long)request->nodes, (long long)space->gpus);
    space->node_gpus = space->gpus / request->nodes;
    return OK;
}

// Refuses a layout that the model cannot be split into.
static enum err check_parallel(const struct search_space *space)
{
    const struct model *model = space->model;
    struct layout layout;
    if (!space->parallel || !space->gpus || space->splits)
        return OK;
    TRY(layout_read(&layout, text_of(space->parallel), space->gpus - space->sampler_gpus));
    if (model->heads % layout.tensor)
        return fail(ERR_USAGE, "--parallel %s: the %lld heads of %s do not divide by %lld",
                    space->parallel, (long long)model->heads, model->name,
                    (long long)layout.tensor);
    if (layout.pipeline > model->layers)
        return fail(ERR_USAGE, "--parallel %s: %s has only %lld layers for %lld stages",
                    space->parallel, model->name, (long long)model->layers,
                    (long long)layout.pipeline);
    return OK;
}

struct step_passes plan_passes(const struct plan *plan, const struct recipe *recipe)
{
    struct step_passes passes = objective_passes(&plan->objective, recipe, plan->stack,
                                                 plan->rule.steps > 0 ? 1 : plan->rule.epochs);
    if (objective_samples(plan->objective.kind))
        passes.rollout = &plan->rollout, passes.sampling = rollout_sampling;
    passes.updates = plan->request->updates > 0 ? (double)plan->request->updates : 1;
    passes.rounds = plan->request->rounds > 0 ? (double)plan->request->rounds : 1;
    return passes;
}

// Rows per optimizer step where the request leaves them open: fewer of very long ones.
static double usual_global_batch(const struct workload_rule *rule)
{
    struct workload row;
    double rows = USUAL_GLOBAL_BATCH;
    workload_make(&row, rule, 1, 1, 1);
    while (rows > 1 && rows * row.batch.tokens > MOST_STEP_TOKENS)
        rows /= 2;
    return rows;
}

// Where no GPU is named: NVIDIA's, unless the stack runs on others alone.
static const char *usual_vendor(const struct plan *plan)
{
    const struct catalog *catalog = &plan->data->catalog;
    const char *usual = "nvidia";
    for (size_t i = 0; i < catalog->gpu_count && !stack_runs_on(plan->stack, usual); i++)
        if (stack_runs_on(plan->stack, catalog->gpus[i].vendor))
            usual = catalog->gpus[i].vendor;
    return usual;
}

enum err plan_space(struct search_space *out, struct plan *plan)
{
    const struct plan_request *request = plan->request;
    *out = (struct search_space){
        .catalog = &plan->data->catalog,
        .model = plan->model,
        .stack = plan->stack,
        .recipe = request->recipe,
        .rule = plan->rule,
        .passes = plan_passes(plan, &request->recipe),
        .efficiency = plan->prior,
        .calibration = &plan->data->calibration,
        .ledger = &plan->data->ledger,
        .transfer = request->pilot ? &plan->transfer : NULL,
        .overheads = &plan->overheads,
        .fills = request->recipe.checkpointing == RECIPE_AUTO,
        .global_batch = request->global_batch > 0 ? (double)request->global_batch : 0,
        .batch_tolerance = request->global_batch > 0 ? 0 : USUAL_BATCH_TOLERANCE,
        .usd_per_gpu_hour = request->price,
        .vendor = usual_vendor(plan),
    };
    if (request->gpu)
        TRY(catalog_gpu(&out->gpu, out->catalog, request->gpu));
    if (out->gpu)
        out->vendor = out->gpu->vendor;
    out->recipe = plan_recipe(request, out->gpu);
    if (request->parallel && strcmp(request->parallel, "auto"))
        out->parallel = request->parallel;
    TRY(plan_request_rows(&out->micro_batch, request));
    if (!out->global_batch && !out->micro_batch)
        out->global_batch = usual_global_batch(&plan->rule);
    if (objective_samples(plan->objective.kind)) {
        out->global_batch = plan->rollout.prompts * plan->rollout.generations;
        out->batch_tolerance = 0;
        out->sampler_gpus = (int64_t)plan->rollout.gpus;
        out->splits = plan->splits;
    }
    TRY(count_gpus(out, request));
    TRY(check_parallel(out));
    return make_overheads(plan, out->gpu);
}
