// SPDX-License-Identifier: Apache-2.0
// Fills a plan for a wrapped pilot from the trainer's configuration.

#include "cli/pilot_from.h"

#include "cli/data.h"
#include "cli/engine/pilot_rows.h"
#include "cli/terminal/print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The first sights of widths, by steps instead of micro-batches.
static struct packing_sights sights_by_steps(const struct workload *work)
{
    struct packing_sights sights = *work->sights;
    for (int i = 0; i < sights.count; i++) {
        sights.micro_batches[i] /= work->accumulation;
        if (work->batching != BATCHING_GROUPED)
            sights.tokens[i] = 0;
    }
    sights.epoch /= work->accumulation;
    return sights;
}

// The batches that the trainer makes of a profile's rows: steps, tokens and new widths.
static enum err simulate(struct outlook_plan *out, const struct command_line *line,
                         const struct plan_request *request, const char *profile, double micro,
                         double ranks)
{
    struct workload_rule rule = workload_rule();
    struct lengths lengths = { 0 };
    struct workload work;
    const char *trainer,
        *stack = request->stack ? request->stack : stack_default(request->recipe.method);
    rule.context = (double)request->context;
    rule.batching = request->batching;
    rule.micro_batch = micro;
    rule.step_rows = (int64_t)((double)request->global_batch / ranks);
    rule.epochs = request->epochs > 0 ? request->epochs : rule.epochs;
    TRY(data_trainer(&trainer, line, stack));
    TRY(pilot_rows_lengths(&lengths, line->arena, profile, (uint64_t)request->seed));
    TRY(workload_measure(&rule, line->arena, &lengths, trainer, (uint64_t)request->seed));
    workload_make(&work, &rule, micro, ranks, (double)request->global_batch);
    out->processed_tokens = work.processed_tokens;
    out->steps = work.steps;
    if (work.sights && work.varied_widths)
        out->sights = sights_by_steps(&work);
    return OK;
}

// Tokens that all GPUs process, padding included, and steps: of an epoch where the rows are known,
// else of one step.
static enum err find_batches(struct outlook_plan *out, const struct command_line *line,
                             const struct plan_request *request, const char *profile, double micro,
                             double ranks)
{
    double rows = (double)request->global_batch;
    bool full = request->batching == BATCHING_PACKED || request->batching == BATCHING_MAX;
    if (request->global_batch < 1 || request->context < 1)
        return OK;
    if (profile && request->batching != BATCHING_AUTO && micro > 0)
        return simulate(out, line, request, profile, micro, ranks);
    if (full)
        out->processed_tokens = rows * (double)request->context;
    return OK;
}

static void configure(struct pilot_configuration *out, const struct plan_request *request,
                      double micro, double ranks)
{
    *out = (struct pilot_configuration){
        .model = request->model,
        .stack = request->stack,
        .parallel = request->parallel,
        .gpus = request->gpus > 0 ? request->gpus : 0,
        .nodes = request->nodes > 0 ? request->nodes : 0,
        .context = request->context > 0 ? (double)request->context : NAN,
        .micro_batch = micro > 0 ? micro : NAN,
        .global_batch = request->global_batch > 0 ? (double)request->global_batch : NAN,
        .tokens = NAN,
        .padding_share = NAN,
        .recipe = request->recipe,
    };
    out->accumulation = out->global_batch / (out->micro_batch * ranks);
    if (request->batching != BATCHING_AUTO)
        out->batching = batching_names_auto[request->batching];
}

enum err pilot_from_read(struct outlook_plan *out, struct command_line *line,
                         const struct pilot_from *request)
{
    struct plan_request plan = plan_request_default();
    struct layout layout;
    double micro;
    TRY(from_read(request->from, line));
    TRY(from_fill(request->from, &plan, request->gpus));
    from_warn(request->from, line);
    if (request->gpus > 0)
        plan.gpus = request->gpus;
    if (plan.gpus < 1 && !line->common.quiet)
        print_note("--from does not say how many GPUs are used: 1 is assumed; give --gpus N");
    TRY(layout_read(&layout, text_of(plan.parallel ? plan.parallel : ""),
                    plan.gpus > 0 ? plan.gpus : 1));
    TRY(plan_request_rows(&micro, &plan));
    *out = (struct outlook_plan){ .name = request->from->from,
                                  .processed_tokens = NAN,
                                  .steps = 1,
                                  .gpus = plan.gpus > 0 ? (double)plan.gpus : 0 };
    TRY(find_batches(out, line, &plan, request->profile, micro, (double)layout.data));
    if (plan.objective != OBJECTIVE_AUTO && plan.objective != OBJECTIVE_SFT)
        out->objective = objective_names[plan.objective];
    configure(&out->configuration, &plan, micro, (double)layout.data);
    return OK;
}
