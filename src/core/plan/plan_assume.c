#include "core/plan/plan_internal.h"

#include <math.h>

static void add(struct plan *plan, struct assumption assumption)
{
    if (plan->assumption_count < PLAN_ASSUMPTIONS && !isnan(assumption.value.mid))
        plan->assumptions[plan->assumption_count++] = assumption;
}

static void add_number(struct plan *plan, const char *name, const char *unit, double value,
                       bool given, const char *source)
{
    add(plan, (struct assumption){ name,
                                   unit,
                                   { value, value, value },
                                   given ? ASSUMPTION_GIVEN : ASSUMPTION_ASSUMED,
                                   given ? NULL : source,
                                   NULL });
}

// What is known of the lengths: measured on the user's own data, said, or assumed.
static void add_lengths(struct plan *plan)
{
    const struct plan_request *request = plan->request;
    const struct workload *workload = &plan->chosen.workload;
    const struct workload_rule *rule = &plan->rule;
    bool measured = request->lengths != NULL;
    bool said = request->examples > 0 || !isnan(request->mean_length);
    double mean = workload->mean_length, padding = workload->padding_share;
    const struct range *factor = &workload->processed_factor;
    const char *source = measured                          ? "batches simulated on the examples"
                         : rule->full_rows && rule->shapes ? "batches as the pilot had them"
                         : rule->full_rows ? "nothing is known of the lengths: rows are full"
                                           : "batches simulated on Alpaca, GSM8K, T0, SGD and MOSS";
    bool certain = said || rule->full_rows;
    add(plan, (struct assumption){
                  .name = "mean length",
                  .unit = "tokens",
                  .value = { certain ? mean : rule->mean_share.low * rule->context, mean,
                             certain ? mean : rule->mean_share.high * rule->context },
                  .origin = measured ? ASSUMPTION_MEASURED
                            : said   ? ASSUMPTION_GIVEN
                                     : ASSUMPTION_ASSUMED,
                  .source = said && !measured ? NULL : source,
              });
    if (!measured && !rule->full_rows)
        add(plan, (struct assumption){ "spread of lengths", "of the logarithm", rule->length_spread,
                                       ASSUMPTION_ASSUMED, source, NULL });
    add(plan,
        (struct assumption){
            .name = "padding",
            .unit = "of processed tokens",
            .value = { 1 - (1 - padding) / factor->low, padding, 1 - (1 - padding) / factor->high },
            .origin = measured ? ASSUMPTION_MEASURED : ASSUMPTION_ASSUMED,
            .source = source,
        });
}

static void add_workload(struct plan *plan)
{
    const struct plan_request *request = plan->request;
    const struct workload *workload = &plan->chosen.workload;
    const struct workload_rule *rule = &plan->rule;
    bool measured = request->lengths != NULL;
    add(plan, (struct assumption){
                  .name = "tokens",
                  .unit = "tokens",
                  .value = { workload->tokens, workload->tokens, workload->tokens },
                  .origin = measured ? ASSUMPTION_MEASURED : ASSUMPTION_GIVEN,
                  .source = !measured                   ? NULL
                            : request->token_spread > 0 ? "counted with another model's tokenizer"
                                                        : "counted with the model's tokenizer",
              });
    add_number(plan, "epochs", "epochs", workload->epochs, !isnan(request->epochs), "one pass");
    add_number(plan, "context", "tokens", rule->context, request->context > 0,
               "the usual window of public recipes, or the model's");
    add_lengths(plan);
    if (!measured)
        add_number(plan, "labelled share", "of the tokens", rule->labelled_share,
                   !isnan(request->labelled_share), "every token carries loss");
    add_number(plan, "global batch", "rows", workload->global_batch, request->global_batch > 0,
               "near 64 rows, or the micro-batch times the GPUs");
}

static void add_hardware(struct plan *plan)
{
    const struct gpu *gpu = plan->chosen.gpu;
    const struct {
        const char *name, *unit;
        double value;
    } rows[] = {
        { "GPU memory", "bytes", gpu->memory_bytes },
        { "GPU memory bandwidth", "bytes/s", gpu->memory_bytes_per_s },
        { "GPU bf16 peak", "FLOP/s", gpu->bf16_flops_per_s },
        { "GPU best measured product", "FLOP/s", gpu->measured_bf16_flops_per_s },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add(plan, (struct assumption){ rows[i].name,
                                       rows[i].unit,
                                       { rows[i].value, rows[i].value, rows[i].value },
                                       ASSUMPTION_CATALOG,
                                       gpu->source,
                                       gpu->as_of });
    const struct node *node = &plan->chosen.node;
    if (plan->chosen.gpus > 1 && node->gpus > 0)
        add(plan, (struct assumption){
                      "link between GPUs",
                      "bytes/s",
                      { node->link_bytes_per_s, node->link_bytes_per_s, node->link_bytes_per_s },
                      ASSUMPTION_CATALOG,
                      node->source,
                      node->as_of });
}

// What the ledger made of the stack's efficiency (core/prior.h).
static void add_own(struct plan *plan)
{
    const struct efficiency *e = &plan->efficiency;
    if (e->own)
        add(plan, (struct assumption){
                      "efficiency by the ledger",
                      "of its roofline",
                      { exp(e->log_mid - STATS_P90 * e->log_spread), exp(e->log_mid),
                        exp(e->log_mid + STATS_P90 * e->log_spread) },
                      ASSUMPTION_LEDGER,
                      text_format(plan->advice.arena,
                                  "%lld of your own with this stack, GPU and method; gpuhours runs",
                                  (long long)e->own),
                      NULL });
}

void plan_assume(struct plan *plan)
{
    const struct efficiency *e = &plan->efficiency;
    const struct overheads *o = &plan->overheads;
    add(plan,
        (struct assumption){ "efficiency of the stack",
                             "of its roofline",
                             { exp(e->log_mid - STATS_P90 * e->log_spread), exp(e->log_mid),
                               exp(e->log_mid + STATS_P90 * e->log_spread) },
                             ASSUMPTION_MEASURED,
                             e->is_piloted ? plan->request->pilot_name
                                           : "fitted on measured runs, data/runs.csv",
                             e->is_piloted ? plan->request->pilot->as_of : plan->stack->as_of });
    plan_assume_pilot(plan);
    add_workload(plan);
    add_hardware(plan);
    const struct assumption *of_overheads[] = {
        &o->startup_seconds,       o->compiles ? &o->compile_seconds : NULL,
        &o->storage_bytes_per_s,   &o->eval_share,
        &o->evals_per_epoch,       &o->failures_per_gpu_hour,
        &o->save_interval_seconds, &o->retries,
        &o->failed_runs,           &o->data_bytes_per_token,
    };
    for (size_t i = 0; i < sizeof of_overheads / sizeof *of_overheads; i++)
        if (of_overheads[i])
            add(plan, *of_overheads[i]);
    if (plan->price.offers)
        add(plan, (struct assumption){
                      "price",
                      "USD per GPU hour",
                      { plan->price.usd_per_gpu_hour[0], price_median(&plan->price),
                        plan->price.usd_per_gpu_hour[plan->price.offers - 1] },
                      isnan(plan->request->price) ? ASSUMPTION_CATALOG : ASSUMPTION_GIVEN,
                      isnan(plan->request->price) ? "offers of the catalog" : NULL,
                      plan->price.oldest });
    add_own(plan);
}
