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

// --- lines of JSON -----------------------------------------------------------

struct json_line {
    struct arena arena;
    struct out out;
    struct json_writer w;
};

// kind: of the first and the last line; NULL: of a step.
static void open_line(struct json_line *line, const char *kind)
{
    *line = (struct json_line){ 0 };
    line->out = print_out(&line->arena);
    line->w = (struct json_writer){ .out = &line->out, .compact = true };
    json_open(&line->w, NULL, '{');
    if (!kind)
        return;
    json_put_string(&line->w, "kind", kind);
    json_put_count(&line->w, "version", 1);
}

static void close_line(struct json_line *line)
{
    json_close(&line->w, '}');
    out_char(&line->out, '\n');
    print_data(out_view(&line->out));
    print_flush();
    arena_release(&line->arena);
}

static int64_t trained_weights(const struct transformer *t)
{
    int64_t trained = 0;
    for (size_t i = 0; i < t->parameter_count; i++)
        trained += t->parameters[i].gradient.at ? tensor_count(t->parameters[i].value) : 0;
    return trained;
}

static int64_t memory_bytes(const struct transformer *t)
{
    return blocks_total(&t->blocks) + t->device->overhead_bytes;
}

static void write_plan(const struct training *training)
{
    const struct transformer *t = training->transformer;
    const struct loader *loader = training->loader;
    struct json_line line;
    open_line(&line, "train");
    json_put_string(&line.w, "method", recipe_methods[t->setup.recipe->method]);
    json_put_string(&line.w, "device", t->device->name);
    json_put_string(&line.w, "precision", dtype_names[t->setup.compute]);
    json_put_count(&line.w, "weights", model_parameters(&t->decoder->model));
    json_put_count(&line.w, "trained_weights", trained_weights(t));
    json_put_count(&line.w, "examples", (int64_t)loader->train.lengths.count);
    json_put_count(&line.w, "held_out_examples", (int64_t)loader->held_out.lengths.count);
    json_put_count(&line.w, "tokens", loader->train.packing.sums.useful_tokens);
    json_put_count(&line.w, "labelled_tokens", loader_labelled(loader, 0, training->epoch_batches));
    json_put_number(&line.w, "cut_examples", loader->loss.cut);
    json_put_number(&line.w, "lost_tokens", loader->loss.lost);
    json_put_count(&line.w, "steps", training->steps);
    json_put_count(&line.w, "steps_before", training->state.step);
    json_put_count(&line.w, "bytes", memory_bytes(t));
    close_line(&line);
}

static void write_step(const struct training_report *r)
{
    struct json_line line;
    open_line(&line, NULL);
    json_put_count(&line.w, "step", r->step);
    json_put_number(&line.w, "loss", r->loss);
    json_put_number(&line.w, "held_out_loss", r->held_out_loss);
    json_put_number(&line.w, "rate", r->rate);
    json_put_number(&line.w, "norm", r->norm);
    if (!isnan(r->reward_margin))
        field_write(training_rewards_fields, r, &line.w);
    close_line(&line);
}

static void write_result(const struct train_progress *progress, const struct training *training)
{
    const struct checkpoint_state *state = &training->state;
    struct json_line line;
    open_line(&line, "trained");
    json_put_bool(&line.w, "finished", !training->is_stopped);
    json_put_count(&line.w, "steps", state->step);
    json_put_count(&line.w, "trained_tokens", state->trained_tokens);
    json_put_count(&line.w, "processed_tokens", state->processed_tokens);
    json_put_number(&line.w, "wall_hours", state->seconds / 3600);
    json_put_number(&line.w, "gpu_hours", state->seconds * training->group->size / 3600);
    json_put_number(&line.w, "first_loss", progress->reported ? progress->first.loss : NAN);
    json_put_number(&line.w, "last_loss", progress->reported ? progress->last.loss : NAN);
    json_put_number(&line.w, "best_held_out_loss", state->best_loss);
    json_put_string(&line.w, "out", training->out);
    close_line(&line);
}

// --- text --------------------------------------------------------------------

void train_progress_plan(struct train_progress *progress, const struct training *training)
{
    struct arena arena = { 0 };
    struct out out = print_out(&arena);
    const struct transformer *t = training->transformer;
    const struct loader *loader = training->loader;
    progress->first_step = training->state.step;
    if (progress->json && !progress->silent)
        write_plan(training);
    if (progress->silent || progress->json)
        return;
    out_put(&out, "  trained     %s of %s weights, %s\n",
            text_count(&arena, (double)trained_weights(t)),
            text_count(&arena, (double)model_parameters(&t->decoder->model)),
            recipe_methods[t->setup.recipe->method]);
    out_put(&out, "  device      %s, %s\n", t->device->name, dtype_names[t->setup.compute]);
    out_put(&out, "  data        %s %s%s, %s held out, in %s micro-batch%s\n",
            text_commas(&arena, (int64_t)loader->train.lengths.count),
            loader->settings.pairs ? "pair" : "example",
            text_plural((double)loader->train.lengths.count),
            text_commas(&arena, (int64_t)loader->held_out.lengths.count),
            text_commas(&arena, training->epoch_batches), training->epoch_batches == 1 ? "" : "es");
    if (training->group->size > 1 && progress->read_bytes)
        out_put(&out, "  read        %s by %d ranks, at most %s by one\n",
                text_bytes(&arena, (double)progress->read_bytes), training->group->size,
                text_bytes(&arena, (double)progress->most_bytes));
    out_put(&out, "  labelled    %s tokens an epoch, %s of %s\n",
            text_commas(&arena, loader_labelled(loader, 0, training->epoch_batches)),
            text_share(&arena, (double)loader_labelled(loader, 0, training->epoch_batches) /
                                   (double)loader->train.packing.sums.useful_tokens),
            loader->loss.lost > 0 ? "those within the context" : "all");
    out_put(&out, "  steps       %s", text_commas(&arena, training->steps));
    if (training->state.step)
        out_put(&out, ", from step %s on", text_commas(&arena, training->state.step));
    out_put(&out, "\n  memory      %s\n", text_bytes(&arena, (double)memory_bytes(t)));
    if (t->host_bytes)
        out_put(&out, "  offloaded   %s in host memory: activations of %lld layer%s\n",
                text_bytes(&arena, (double)t->host_bytes), (long long)t->setup.offloaded,
                text_plural((double)t->setup.offloaded));
    if (progress->explain)
        blocks_print(&t->blocks, &out);
    print_text(&out);
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
        &arena, "step %lld/%lld  loss %s%s  %s tok/s  %.3g TFLOP/s, %s%s  %s of %s %s  %s left",
        (long long)r->step, (long long)training->steps,
        isnan(r->loss) ? "–" : text_format(&arena, "%.4f", r->loss), rewards(r, &arena),
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
    if (!(p->start.first_step > 0))
        p->start.first_step = report->seconds;
    if (!isnan(report->loss)) { // a step without labelled tokens has none
        p->first = p->reported ? p->first : *report;
        p->last = *report;
        p->reported = true;
    }
    if (p->json && !p->silent)
        write_step(report);
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
    if (progress->json && !progress->silent)
        write_result(progress, training);
    if (progress->silent || progress->json || training->is_stopped)
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
