// SPDX-License-Identifier: Apache-2.0
// Lists what the forecast rests on. Every value is read from the variable that the computation
// used, and every origin says who set it.

#include "core/plan/plan_internal.h"
#include "core/step/moe.h"
#include "core/trainers/trainer_config.h"

#include <math.h>
#include <string.h>

static void add(struct plan *plan, struct assumption assumption)
{
    if (plan->assumption_count < PLAN_ASSUMPTIONS && !isnan(assumption.value.mid))
        plan->assumptions[plan->assumption_count++] = assumption;
}

static bool is_given(const struct plan_request *request, const char *option)
{
    const struct field *field = field_find(plan_fields, text_of(option));
    return field && field_known(field, request) && field_number(field, request) != PLAN_NOT_GIVEN;
}

// Who set an option: the command line or a JSON request, a trainer's configuration, a former plan,
// a pilot, the data; else nobody, and the value is assumed for the reason that otherwise gives.
struct origin {
    enum assumption_origin origin;
    const char *source;
};

static struct origin origin_of(const struct plan_request *request, const char *option,
                               const char *otherwise)
{
    const struct plan_request *given = request->given ? request->given : request;
    if (!strcmp(option, "context") && request->context_from_data)
        return (struct origin){ ASSUMPTION_MEASURED, "recommended for these lengths" };
    if (is_given(given, option))
        return (struct origin){ ASSUMPTION_GIVEN, NULL };
    if (request->from && trainer_config_option(request->from, option))
        return (struct origin){ ASSUMPTION_GIVEN, "trainer's configuration (--from)" };
    if (request->former && is_given(request->former, option))
        return (struct origin){ ASSUMPTION_GIVEN, request->former_name };
    if (request->pilot && is_given(request, option))
        return (struct origin){ ASSUMPTION_GIVEN, request->pilot_name };
    return (struct origin){ ASSUMPTION_ASSUMED, otherwise };
}

static void add_option(struct plan *plan, const char *name, const char *unit, double value,
                       const char *option, const char *otherwise)
{
    struct origin origin = origin_of(plan->request, option, otherwise);
    add(plan, (struct assumption){
                  name, unit, { value, value, value }, origin.origin, origin.source, NULL });
}

// The lengths of the examples: measured on the user's own data, given, or assumed.
static void add_lengths(struct plan *plan)
{
    const struct plan_request *request = plan->request;
    const struct workload *workload = &plan->chosen.workload;
    const struct workload_rule *rule = &plan->rule;
    bool measured = plan_knows_batches(plan);
    bool prompts_assumed = plan_assumes_prompts(request);
    bool given = plan_knows_mean(request) && !prompts_assumed;
    if (prompts_assumed)
        add(plan,
            (struct assumption){ .name = "length of a prompt",
                                 .unit = "tokens",
                                 .value = { plan->prompts[0].length, plan->rollout.prompt_length,
                                            plan->prompts[1].length },
                                 .origin = ASSUMPTION_ASSUMED,
                                 .source = "nobody said how long prompts are" });
    double mean = workload->mean_length, padding = workload->padding_share;
    const struct range *factor = &workload->processed_factor;
    bool answers = objective_samples(plan->objective.kind);
    const char *source = answers                           ? "a prompt and its answer"
                         : request->lengths                ? "batches simulated on the examples"
                         : measured                        ? "batches of the former plan"
                         : rule->full_rows && rule->shapes ? "batches as in the pilot"
                         : rule->full_rows ? "lengths are unknown: every row fills the context"
                                           : "batches simulated on Alpaca, GSM8K, T0, SGD and MOSS";
    bool certain = given || answers || rule->full_rows;
    add(plan, (struct assumption){
                  .name = "mean length",
                  .unit = "tokens",
                  .value = { certain ? mean : workload_mean_lengths(rule).low, mean,
                             certain ? mean : workload_mean_lengths(rule).high },
                  .origin = request->token_spread > 0 ? ASSUMPTION_ESTIMATED
                            : measured                ? ASSUMPTION_MEASURED
                            : given                   ? ASSUMPTION_GIVEN
                                                      : ASSUMPTION_ASSUMED,
                  .source = given && !measured    ? NULL
                            : certain || measured ? source
                                                  : "public data sets trained with this context",
              });
    if (!measured && !answers && !rule->full_rows)
        add(plan, (struct assumption){ "spread of lengths", "of the logarithm",
                                       workload_spread(rule), ASSUMPTION_ASSUMED, source, NULL });
    if (given && !measured && workload->worst.width < rule->context)
        add(plan, (struct assumption){
                      "longest row",
                      "tokens",
                      { workload->worst.width, workload->worst.width, workload->worst.width },
                      ASSUMPTION_ASSUMED,
                      "from the mean: nine in ten data sets have no longer row",
                      NULL });
    struct range share = { padding, padding, padding };
    if (!measured)
        share.low = 1 - (1 - padding) / factor->low, share.high = 1 - (1 - padding) / factor->high;
    add(plan, (struct assumption){
                  .name = "padding",
                  .unit = "of processed tokens",
                  .value = share,
                  .origin = measured ? ASSUMPTION_MEASURED : ASSUMPTION_ASSUMED,
                  .source = source,
              });
}

static void add_workload(struct plan *plan)
{
    const struct plan_request *request = plan->request;
    const struct workload *workload = &plan->chosen.workload;
    const struct workload_rule *rule = &plan->rule;
    bool counted = request->lengths && !(request->given && request->given->tokens > 0);
    bool estimated = request->token_spread > 0;
    const char *counted_by =
        estimated ? text_format(plan->advice.arena, "by its characters, ± %.0f %% (80 %% range)",
                                100 * STATS_P90 * request->token_spread)
                  : "counted with the model's tokenizer";
    struct origin tokens =
        counted ? (struct origin){ estimated ? ASSUMPTION_ESTIMATED : ASSUMPTION_MEASURED,
                                   !(request->sample_examples > 0) ? counted_by
                                   : request->given && request->given->examples > 0
                                       ? "mean of a sample × --examples"
                                       : "counted, less what the trainer leaves out" }
                : origin_of(request, "tokens", "examples × mean length, both given");
    if (tokens.origin == ASSUMPTION_ASSUMED)
        tokens.origin = ASSUMPTION_GIVEN;
    double off = 1 + STATS_P90 * rule->token_spread;
    add(plan,
        (struct assumption){ "tokens",
                             "tokens",
                             { workload->tokens / off, workload->tokens, workload->tokens * off },
                             tokens.origin,
                             tokens.source,
                             NULL });
    if (rule->steps > 0)
        add_option(plan, "steps", "steps", rule->steps, "steps", NULL);
    add_option(plan, "epochs", "epochs", workload->epochs, rule->steps > 0 ? "steps" : "epochs",
               "one pass");
    add_option(plan, "context", "tokens", rule->context, "context",
               "usual in public recipes, or all that the model has");
    add_lengths(plan);
    bool answers = objective_samples(plan->objective.kind);
    if (!request->lengths)
        add_option(plan, "labelled share", "of the tokens", rule->labelled_share, "labelled_share",
                   answers                    ? "the answers of all rows"
                   : plan_knows_batches(plan) ? "counted by the former plan"
                   : rule->shapes             ? "as in the pilot"
                                              : "the loss counts every token");
    add_option(plan, "global batch", "rows", workload->global_batch, "global_batch",
               answers ? "near 256 answers"
                       : "near 64 rows and at most 4 M tokens, or the micro-batch times the GPUs");
}

bool plan_has_serial_experts(const struct plan *plan)
{
    struct step_request request = { .model = plan->model,
                                    .recipe = &plan->chosen.recipe,
                                    .stack = plan->stack };
    return moe_is_serial(&request, plan->chosen.gpu);
}

// Which kernel runs routed experts, and how unevenly they are loaded where GPUs share them.
static void add_experts(struct plan *plan)
{
    static const char *const names[] = { "experts, one by one", "experts, grouped",
                                         "experts, fused", "experts, all of them" };
    const struct model *model = plan->model;
    int kernel = plan->chosen.recipe.experts;
    double count = (double)model->experts, gpus = (double)plan->chosen.layout.expert;
    if (!model->experts || kernel == RECIPE_EXPERTS_AUTO)
        return;
    struct origin origin = origin_of(plan->request, "experts", plan->stack->experts_since);
    if (origin.origin == ASSUMPTION_ASSUMED && plan->request->recipe.experts == kernel)
        origin = (struct origin){ ASSUMPTION_GIVEN, NULL };
    if (plan_has_serial_experts(plan))
        add(plan, (struct assumption){ "experts, product by product",
                                       "in a layer",
                                       { count, count, count },
                                       ASSUMPTION_ASSUMED,
                                       "PyTorch has grouped products for compute capability 9 and "
                                       "10 alone; what the others take was not measured",
                                       NULL });
    else
        add(plan, (struct assumption){ names[kernel],
                                       "in a layer",
                                       { count, count, count },
                                       origin.origin,
                                       origin.source,
                                       plan->stack->as_of });
    if (gpus > 1)
        add(plan, (struct assumption){ "busiest GPU's experts", "of the mean",
                                       moe_imbalance(model, gpus), ASSUMPTION_ASSUMED,
                                       "popularity of experts varies by 0, 30 or 100 %", NULL });
}

// A config.json of an unknown type is read by the names of its keys (model_read_config).
static void add_model(struct plan *plan)
{
    const struct model *model = plan->model;
    double count = (double)model_parameters(model);
    if (!model->as_of && model->note)
        add(plan, (struct assumption){ "parameters of the model",
                                       "parameters",
                                       { count, count, count },
                                       ASSUMPTION_ASSUMED,
                                       model->note,
                                       NULL });
}

static void add_hardware(struct plan *plan)
{
    const struct gpu *gpu = plan->chosen.gpu;
    const struct node *node = plan->chosen.node.gpus > 0 ? &plan->chosen.node : NULL;
    struct links links = network_links(gpu, node);
    const struct timing *t = &plan->estimate.timing;
    bool several = plan->chosen.gpus > 1;
    const struct {
        const char *name, *unit;
        double value;
        const char *source, *as_of;
    } rows[] = {
        { "GPU memory", "bytes", plan->estimate.memory.device_bytes, gpu->source, gpu->as_of },
        { "GPU memory bandwidth, sustained", "bytes/s", compute_memory_bytes_per_s(gpu),
          gpu->source, gpu->as_of },
        { "GPU peak", "FLOP/s", t->flops / t->step_seconds / t->peak_share, gpu->source,
          gpu->as_of },
        { "GPU matrix products, sustained", "FLOP/s",
          compute_matmul_flops_per_s(gpu, plan->chosen.recipe.precision), gpu->source, gpu->as_of },
        { "link between GPUs, sustained", "bytes/s", several ? links.node_bytes_per_s : NAN,
          node ? node->source : gpu->source, node ? node->as_of : gpu->as_of },
        { "network between nodes, sustained", "bytes/s",
          several && node && (double)plan->chosen.gpus > links.node_gpus ? links.network_bytes_per_s
                                                                         : NAN,
          node ? node->source : NULL, node ? node->as_of : NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add(plan, (struct assumption){ rows[i].name,
                                       rows[i].unit,
                                       { rows[i].value, rows[i].value, rows[i].value },
                                       ASSUMPTION_CATALOG,
                                       rows[i].source,
                                       rows[i].as_of });
}

// What the byte plan assumes of the stack, and how far measured runs lie from such plans.
static void add_memory(struct plan *plan)
{
    const struct memory *memory = &plan->estimate.memory;
    const struct layout *layout = &plan->chosen.layout;
    const struct stack *stack = plan->stack;
    bool accumulates = layout->zero == 3 && plan->chosen.workload.accumulation > 1;
    const struct {
        const char *name, *unit;
        struct range value;
        bool applies;
        const char *source;
    } rows[] = {
        { "memory, measured over planned",
          "of the plan",
          { exp(-memory->spread), 1, exp(memory->spread) },
          true,
          "runs of the stack, data/runs.csv" },
        { "gradients held whole",
          "of all",
          { 1, 1, 1 },
          accumulates && stack->held_gradients && !layout->sync_each_batch,
          "the stack reduces them after the last one; --parallel \"fsdp sync_each_batch\" does "
          "after each" },
        { "checkpoints in host memory",
          "of layer inputs",
          { 1, 1, 1 },
          stack->offloads_checkpoints && plan->chosen.recipe.checkpointing == RECIPE_RECOMPUTE,
          "the stack's default" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].applies)
            add(plan, (struct assumption){ rows[i].name, rows[i].unit, rows[i].value,
                                           i ? ASSUMPTION_CATALOG : ASSUMPTION_MEASURED,
                                           rows[i].source, stack->as_of });
}

// Between saves: as given, else the interval that the forecast's middle run used.
static void add_saves(struct plan *plan)
{
    struct assumption interval = plan->overheads.save_interval_seconds;
    double used = plan->forecast.middle.save_interval_seconds;
    if (isnan(interval.value.mid))
        interval.value = (struct range){ used, used, used };
    add(plan, interval);
}

void plan_assume(struct plan *plan)
{
    const struct efficiency *e = &plan->efficiency;
    const struct overheads *o = &plan->overheads;
    add(plan,
        (struct assumption){ "efficiency of the stack",
                             "of its roofline",
                             { exp(efficiency_at(e, -STATS_P90)), exp(e->log_mid),
                               exp(efficiency_at(e, STATS_P90)) },
                             e->own ? ASSUMPTION_LEDGER : ASSUMPTION_MEASURED,
                             e->is_piloted ? plan->request->pilot_name
                             : e->own      ? plan_ledger_words(plan, plan->advice.arena)
                                           : "fitted on measured runs, data/runs.csv",
                             e->is_piloted ? plan->request->pilot->as_of : plan->stack->as_of });
    plan_assume_pilot(plan);
    add_workload(plan);
    add_model(plan);
    add_experts(plan);
    add_hardware(plan);
    add_memory(plan);
    const struct assumption *of_overheads[] = {
        &o->startup_seconds,
        o->compiles ? &o->compile_seconds : NULL,
        &o->storage_bytes_per_s,
        &o->eval_share,
        &o->evals_per_epoch,
        &o->failures_per_gpu_hour,
        &o->data_bytes_per_token,
        &o->retries,
        &o->failed_runs,
        &o->first_width_seconds,
        &o->first_steps_seconds,
        overhead_evaluates(o) ? &o->first_evaluation_seconds : NULL,
        o->compiles ? &o->compilations : NULL,
        o->evaluation_seconds.value.mid > 0 ? &o->evaluation_seconds : NULL,
        o->save_seconds.value.mid > 0 ? &o->save_seconds : NULL,
        o->stall_share.value.mid > 0 ? &o->stall_share : NULL,
    };
    for (size_t i = 0; i < sizeof of_overheads / sizeof *of_overheads; i++)
        if (of_overheads[i])
            add(plan, *of_overheads[i]);
    const struct pilot *pilot = plan->request->pilot;
    if (pilot && plan->transferred.weight >= 1 && pilot->apart.evaluation_seconds_per_token > 0)
        add(plan, (struct assumption){ "evaluated token",
                                       "of a trained token's time",
                                       { o->eval_cost, o->eval_cost, o->eval_cost },
                                       ASSUMPTION_MEASURED,
                                       plan->request->pilot_name,
                                       pilot->as_of });
    add_saves(plan);
    if (plan->price.offers)
        add(plan, (struct assumption){
                      "price",
                      "USD per GPU hour",
                      { plan->price.usd_per_gpu_hour[0], price_median(&plan->price),
                        plan->price.usd_per_gpu_hour[plan->price.offers - 1] },
                      isnan(plan->request->price) && !plan->price.own ? ASSUMPTION_CATALOG
                                                                      : ASSUMPTION_GIVEN,
                      plan->price.own               ? "your own machine"
                      : isnan(plan->request->price) ? "offers of the catalog"
                                                    : NULL,
                      plan->price.oldest });
}
