// SPDX-License-Identifier: Apache-2.0
// Where the time of a step goes and how the hours spread, as members of the plan's document.

#include "core/plan/plan_internal.h"

#include <math.h>
#include <string.h>

static const char *const kind_names[] = { "product", "attention", "elementwise", "dequantize",
                                          "optimizer" };

struct operation {
    const char *name;
    enum step_kind kind;
    double seconds, flops, bytes; // per optimizer step on one GPU
};

enum { OPERATIONS = 48 };

// Operations of one name and kind over forward, recomputation and backward, the longest first; what
// differs by rounding alone stays in the list's order, so that it is one on every machine.
static size_t gather(struct operation *out, const struct step *step, const struct step_request *r,
                     const struct gpu *gpu)
{
    size_t count = 0;
    double seconds[STEP_OPS];
    compute_op_times(seconds, step, r, gpu);
    for (size_t i = 0; i < step->count; i++) {
        const struct step_op *op = &step->ops[i];
        size_t at = 0;
        while (at < count && (out[at].kind != op->kind || strcmp(out[at].name, op->name)))
            at++;
        if (at == OPERATIONS)
            continue;
        if (at == count)
            out[count++] = (struct operation){ .name = op->name, .kind = op->kind };
        double times = op->repeats * (op->phase == STEP_UPDATE ? 1 : r->accumulation) *
                       (step_trains(op->phase) ? step_rounds(r) : 1);
        out[at].seconds += seconds[i] * times;
        out[at].flops += op->flops * times;
        out[at].bytes += op->bytes * times;
    }
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k > 0 && out[k].seconds > out[k - 1].seconds * (1 + 1e-9); k--) {
            struct operation swap = out[k];
            out[k] = out[k - 1], out[k - 1] = swap;
        }
    return count;
}

static void put_parts(struct json_writer *w, const struct plan *plan)
{
    const struct timing *t = &plan->estimate.timing;
    double times = plan->chosen.workload.accumulation;
    const struct {
        const char *name;
        double seconds;
    } parts[] = {
        { "matrix products", times * t->matmul_seconds },
        { "attention", times * t->attention_seconds },
        { "elementwise", times * t->elementwise_seconds },
        { "dequantization", times * t->dequantize_seconds },
        { "host", times * t->waiting_seconds },
        { "communication", times * t->exposed_seconds + t->reduce_seconds },
        { "waiting for longer rows", times * t->uneven_seconds },
        { "pipeline bubbles", t->bubble_seconds },
        { "optimizer", t->update_seconds },
        { "offload", t->offload_seconds },
        { "between steps", plan->stack->step_seconds },
        { "sampling", t->sampling_seconds },
    };
    json_open(w, "parts", '[');
    bool samples = t->sampling_seconds > 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts - !samples; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", parts[i].name);
        json_put_number(w, "seconds", parts[i].seconds);
        json_close(w, '}');
    }
    json_close(w, ']');
}

static void put_operations(struct json_writer *w, const struct plan *plan,
                           const struct step_request *request)
{
    struct operation operations[OPERATIONS];
    size_t count = gather(operations, &plan->estimate.step, request, plan->chosen.gpu);
    json_open(w, "operations", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", operations[i].name);
        json_put_string(w, "kind", kind_names[operations[i].kind]);
        json_put_number(w, "seconds", operations[i].seconds);
        json_put_number(w, "flops", operations[i].flops);
        json_put_number(w, "bytes", operations[i].bytes);
        json_close(w, '}');
    }
    json_close(w, ']');
}

static void put_batch(struct json_writer *w, const char *key, const struct step_batch *batch)
{
    json_open(w, key, '{');
    json_put_number(w, "rows", batch->rows);
    json_put_number(w, "width", batch->width);
    json_put_number(w, "tokens", batch->tokens);
    json_close(w, '}');
}

void plan_put_step(struct json_writer *w, const struct plan *plan, struct arena *arena)
{
    const struct timing *t = &plan->estimate.timing;
    struct setup setup = search_setup(&plan->chosen, plan->model, plan->stack);
    struct recipe *recipe = ARENA_NEW(arena, struct recipe, 1);
    *recipe = estimate_recipe(&setup);
    struct step_request request = { .model = plan->model,
                                    .recipe = recipe,
                                    .layout = &setup.layout,
                                    .stack = plan->stack,
                                    .batch = setup.batch,
                                    .accumulation = setup.accumulation,
                                    .passes = setup.passes };
    json_open(w, "gpu_hours_percentiles", '[');
    for (int i = 0; i < FORECAST_PERCENTILES; i++) {
        json_open(w, NULL, '{');
        json_put_count(w, "percentile", 5 * (i + 1));
        json_put_number(w, "gpu_hours", plan->forecast.gpu_hours_percentiles[i]);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_open(w, "step", '{');
    json_put_number(w, "seconds", plan->chosen.seconds_per_step);
    json_put_number(w, "roofline_seconds", t->step_seconds);
    json_put_number(w, "flops", t->flops);
    json_put_number(w, "peak_share", t->peak_share * exp(plan->efficiency.log_mid));
    json_put_number(w, "peak_flops_per_second", t->flops / t->step_seconds / t->peak_share);
    json_put_number(w, "sustained_flops_per_second",
                    compute_matmul_flops_per_s(plan->chosen.gpu, recipe->precision));
    json_put_number(w, "memory_bytes_per_second", compute_memory_bytes_per_s(plan->chosen.gpu));
    put_batch(w, "batch", &plan->chosen.workload.batch);
    put_batch(w, "worst_batch", &plan->chosen.workload.worst);
    put_parts(w, plan);
    put_operations(w, plan, &request);
    json_close(w, '}');
}
