// SPDX-License-Identifier: Apache-2.0
// Prints the plan of a training run, its progress line and its result.

#include "cli/terminal/print.h"
#include "cli/train_progress.h"

#include "host/clock.h"
#include "train/device.h"
#include "train/training_metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct train_progress train_progress_start(const struct command_line *line, struct device *device,
                                           int rank)
{
    struct train_progress progress = { .json = line->common.json,
                                       .explain = line->common.explain,
                                       .silent = rank != 0 };
    progress.on = !rank && !line->common.quiet && print_redraws();
    progress.limit_flops_per_s = progress.on ? device_peak(device) : NAN;
    progress.gpu = device->index;
    if (progress.on && device_is_gpu(device) && gpu_monitor_start(&progress.monitor, 0.5))
        progress.monitor = NULL; // the line is shown without GPU statistics
    return progress;
}

void train_progress_plan(struct train_progress *progress, const struct training *training)
{
    struct arena arena = { 0 };
    struct out out = print_out(&arena);
    const struct transformer *t = training->transformer;
    const struct loader *loader = training->loader;
    int64_t trained = 0;
    for (size_t i = 0; i < t->parameter_count; i++)
        trained += t->parameters[i].gradient.at ? tensor_count(t->parameters[i].value) : 0;
    progress->first_step = training->state.step;
    if (progress->silent || progress->json)
        return;
    out_put(&out, "  trained     %s of %s weights, %s\n", text_count(&arena, (double)trained),
            text_count(&arena, (double)model_parameters(&t->decoder->model)),
            recipe_methods[t->setup.recipe->method]);
    out_put(&out, "  device      %s, %s\n", t->device->name, dtype_names[t->setup.compute]);
    out_put(&out, "  data        %s %s, %s held out, in %s micro-batches\n",
            text_commas(&arena, (int64_t)loader->train.lengths.count),
            loader->settings.pairs ? "pairs" : "examples",
            text_commas(&arena, (int64_t)loader->held_out.lengths.count),
            text_commas(&arena, training->epoch_batches));
    if (training->group->size > 1 && progress->read_bytes)
        out_put(&out, "  read        %s by %d ranks, at most %s by one\n",
                text_bytes(&arena, (double)progress->read_bytes), training->group->size,
                text_bytes(&arena, (double)progress->most_bytes));
    out_put(&out, "  labelled    %s tokens an epoch, %s of all\n",
            text_commas(&arena, loader_labelled(loader, 0, training->epoch_batches)),
            text_share(&arena, (double)loader_labelled(loader, 0, training->epoch_batches) /
                                   (double)loader->train.packing.sums.useful_tokens));
    out_put(&out, "  steps       %s", text_commas(&arena, training->steps));
    if (training->state.step)
        out_put(&out, ", from step %s on", text_commas(&arena, training->state.step));
    out_put(&out, "\n  memory      %s\n",
            text_bytes(&arena, (double)(blocks_total(&t->blocks) + t->device->overhead_bytes)));
    if (t->host_bytes)
        out_put(&out, "  offloaded   %s in host memory: activations of %lld layers\n",
                text_bytes(&arena, (double)t->host_bytes), (long long)t->setup.offloaded);
    if (progress->explain)
        blocks_print(&t->blocks, &out);
    print_text(&out);
    print_flush();
    arena_release(&arena);
}

static void print_json(const struct training_report *r)
{
    struct arena arena = { 0 };
    struct out out = print_out(&arena);
    struct json_writer w = { .out = &out, .compact = true };
    json_open(&w, NULL, '{');
    json_put_count(&w, "step", r->step);
    json_put_number(&w, "loss", r->loss);
    json_put_number(&w, "held_out_loss", r->held_out_loss);
    json_put_number(&w, "rate", r->rate);
    json_put_number(&w, "norm", r->norm);
    if (!isnan(r->reward_margin))
        field_write(training_rewards_fields, r, &w);
    json_close(&w, '}');
    out_char(&out, '\n');
    print_data(out_view(&out));
    print_flush();
    arena_release(&arena);
}

static const char *gpu_status(const struct train_progress *p, struct arena *arena)
{
    if (!p->monitor || p->gpu >= gpu_monitor_count(p->monitor))
        return "";
    struct gpu_sample s = gpu_monitor_last(p->monitor, p->gpu);
    return text_format(arena, "  %s  %.0f W  %.0f MHz", text_bytes(arena, s.memory_bytes), s.watts,
                       s.clock_hertz / 1e6);
}

static const char *hours_name(const struct training *training)
{
    return device_is_gpu(training->transformer->device) ? "GPU hours" : "device hours";
}

static const char *rewards(const struct training_report *r, struct arena *arena)
{
    return isnan(r->reward_margin) ? ""
                                   : text_format(arena, "  margin %.3f, %s right", r->reward_margin,
                                                 text_share(arena, r->reward_accuracy));
}

static void print_line(struct train_progress *p, const struct training *training,
                       const struct training_report *r)
{
    struct arena arena = { 0 };
    double step = p->seconds / (double)(r->step - p->first_step);
    double left = step * (double)(training->steps - r->step);
    double used = training->state.seconds * training->group->size / 3600;
    print_redraw(text_format(
        &arena, "step %lld/%lld  loss %.4f%s  %s tok/s  %.3g TFLOP/s, %s%s  %s of %s %s  %s left",
        (long long)r->step, (long long)training->steps, r->loss, rewards(r, &arena),
        text_commas(&arena, (int64_t)((double)r->processed_tokens / r->seconds)),
        r->flops / r->seconds / 1e12,
        text_share(&arena, r->flops / r->seconds / p->limit_flops_per_s), gpu_status(p, &arena),
        text_hours(&arena, used), text_hours(&arena, used + left * training->group->size / 3600),
        hours_name(training), text_seconds(&arena, left)));
    arena_release(&arena);
}

void train_progress_report(void *progress, const struct training *training,
                           const struct training_report *report)
{
    struct train_progress *p = progress;
    p->seconds += report->seconds;
    p->between.all += report->communication_seconds;
    p->between.waited += report->waited_seconds;
    if (!p->reported) {
        p->first = *report;
        p->start.first_step = report->seconds;
    }
    p->last = *report;
    p->reported = true;
    if (p->json && !p->silent)
        print_json(report);
    if (!p->on || (clock_seconds() - p->last_seconds < 0.2 && report->step < report->steps))
        return;
    p->last_seconds = clock_seconds();
    print_line(p, training, report);
}

void train_progress_end(struct train_progress *progress)
{
    if (progress->on)
        print_redraw("");
    progress->on = false;
    gpu_monitor_end(progress->monitor);
    progress->monitor = NULL;
}

double train_progress_start_seconds(const struct train_start *start)
{
    return start->prepare + start->weights + start->tuning + start->first_step;
}

// Of the collectives' time: what computation did not wait for.
static double hidden_share(const struct train_progress *progress)
{
    const struct group_seconds *s = &progress->between;
    return s->all > s->waited ? (s->all - s->waited) / s->all : 0;
}

void train_progress_result(const struct train_progress *progress, const struct training *training)
{
    struct arena arena = { 0 };
    if (progress->silent || progress->json)
        return;
    print_put("  trained on  %s tokens in %s, %s %s\n",
              text_commas(&arena, training->state.trained_tokens),
              text_seconds(&arena, training->state.seconds),
              text_hours(&arena, training->state.seconds * training->group->size / 3600),
              hours_name(training));
    const struct train_start *start = &progress->start;
    if (progress->reported)
        print_put("  first step  after %s: preparing %s, weights %s, tuning %s, the step %s\n",
                  text_seconds(&arena, train_progress_start_seconds(start)),
                  text_seconds(&arena, start->prepare), text_seconds(&arena, start->weights),
                  start->tuning > 1e-3 ? text_seconds(&arena, start->tuning) : "none",
                  text_seconds(&arena, start->first_step));
    if (training->tuning_seconds > 0)
        print_put("  tuning      %s more between steps%s\n",
                  text_seconds(&arena, training->tuning_seconds),
                  training->transformer->waits_for_tuning
                      ? ", not finished: the next run tunes again"
                      : "");
    if (training->group->size > 1)
        print_put("  ranks       %d, in collectives for %s, %s of it under computation\n",
                  training->group->size, text_seconds(&arena, progress->between.all),
                  text_share(&arena, hidden_share(progress)));
    if (progress->reported)
        print_put("  loss        %.4f at step %lld, %.4f at step %lld\n", progress->first.loss,
                  (long long)progress->first.step, progress->last.loss,
                  (long long)progress->last.step);
    if (progress->reported && !isnan(progress->last.reward_margin))
        print_put("  rewards     margin %.4f at step %lld, %.4f at step %lld; %s, %s right\n",
                  progress->first.reward_margin, (long long)progress->first.step,
                  progress->last.reward_margin, (long long)progress->last.step,
                  text_share(&arena, progress->first.reward_accuracy),
                  text_share(&arena, progress->last.reward_accuracy));
    if (!isnan(training->state.best_loss))
        print_put("  held out    best loss %.4f\n", training->state.best_loss);
    print_put("  written     %s: %s, metrics.jsonl, checkpoints\n", training->out,
              training->transformer->setup.recipe->method == RECIPE_FULL
                  ? "model.safetensors, config.json"
                  : "adapter_model.safetensors, adapter_config.json");
    arena_release(&arena);
}
