// SPDX-License-Identifier: Apache-2.0
// Times the steps of a run, and micro-batches of varied composition between them.

#include "train/pilot_steps.h"

#include "base/stats.h"
#include "host/clock.h"

#include <math.h>

// Probes cycle through combinations of these: the fit needs its four terms to vary independently.
static const double fillings[] = { 1, 0.75, 1, 0.5 };        // of the largest micro-batch
static const double lengths[] = { 1, 0.03, 0.25, 0.1, 0.5 }; // of the window
static const double labellings[] = { 1, 0.1, 0.5 };          // of the tokens
enum { FILLINGS = 4, LENGTHS = 5, LABELLINGS = 3, EVALUATED = 4, SHORTEST = 8 };

static int64_t most_tokens(const struct pilot_steps *steps)
{
    const struct loader_settings *s = &steps->training->loader->settings;
    return loader_row_tokens(s) * s->micro_batch;
}

void pilot_steps_init(struct pilot_steps *steps, struct arena *arena, struct training *training)
{
    *steps = (struct pilot_steps){ .training = training, .arena = arena, .last_micro_batch = -1 };
    size_t tokens = (size_t)most_tokens(steps);
    steps->ids = ARENA_NEW(arena, int32_t, tokens);
    steps->positions = ARENA_NEW(arena, int32_t, tokens);
    steps->rows = ARENA_NEW(arena, int32_t, tokens);
    steps->targets = ARENA_NEW(arena, int32_t, tokens);
    steps->spans = ARENA_NEW(arena, struct span, tokens);
}

static struct pilot_sample sample_of(const struct micro_batch *batch)
{
    struct pilot_sample sample = { .tokens = (double)batch->tokens,
                                   .labelled = (double)batch->labelled };
    for (int64_t i = 0; i < batch->span_count; i++)
        sample.squares += (double)batch->spans[i].size * batch->spans[i].size;
    return sample;
}

// --- micro-batches -----------------------------------------------------------

// Tokens of the data end to end, cut into documents of one length, with a share of them labelled.
static struct micro_batch make_batch(struct pilot_steps *steps, int64_t tokens, int64_t length,
                                     double labelled)
{
    const struct loader *loader = steps->training->loader;
    int64_t token_count = loader->starts[loader->count];
    struct micro_batch batch = { .tokens = tokens,
                                 .ids = steps->ids,
                                 .positions = steps->positions,
                                 .spans = steps->spans,
                                 .rows = steps->rows,
                                 .targets = steps->targets,
                                 .key = 1 };
    for (int64_t i = 0; i < tokens; i++)
        steps->ids[i] = loader->ids[(steps->next_token + i) % token_count];
    steps->next_token = (steps->next_token + tokens) % token_count;
    for (int64_t first = 0; first < tokens; first += length) {
        int64_t size = tokens - first < length ? tokens - first : length;
        steps->spans[batch.span_count++] = (struct span){ (int32_t)first, (int32_t)size };
        for (int64_t i = 0; i < size; i++) {
            int64_t at = first + i;
            steps->positions[at] = (int32_t)i;
            if (i + 1 == size || floor((double)(at + 1) * labelled) == floor((double)at * labelled))
                continue;
            steps->rows[batch.labelled] = (int32_t)at;
            steps->targets[batch.labelled++] = steps->ids[at + 1];
        }
    }
    return batch;
}

static enum err time_batch(struct pilot_steps *steps, const struct micro_batch *batch)
{
    struct transformer *t = steps->training->transformer;
    const struct backend *backend = t->device->backend;
    const struct loader *loader = steps->training->loader;
    struct pilot_sample sample = sample_of(batch);
    t->trace = NULL;
    transformer_begin(t);
    TRY(backend->sync(t->device));
    double began = clock_seconds();
    transformer_loss(t, batch, 1 / fmax(1, (double)loader_losses_of(loader, batch)));
    transformer_backward(t, batch);
    TRY(backend->sync(t->device));
    sample.seconds = clock_seconds() - began;
    steps->probe_seconds += sample.seconds;
    if (steps->sample_count == steps->sample_room) {
        size_t room = 2 * steps->sample_room + 256;
        steps->samples =
            arena_grow(steps->arena, steps->samples, steps->sample_count * sizeof *steps->samples,
                       room * sizeof *steps->samples);
        steps->sample_room = room;
    }
    steps->samples[steps->sample_count++] = sample;
    return OK;
}

enum err pilot_steps_worst(struct pilot_steps *steps)
{
    int64_t window = steps->training->loader->settings.window;
    struct micro_batch batch = make_batch(steps, most_tokens(steps), window, 1);
    TRY(time_batch(steps, &batch));
    steps->sample_count = 0; // the very first one is warm-up
    return time_batch(steps, &batch);
}

enum err pilot_steps_probe(struct pilot_steps *steps)
{
    struct micro_batch batch;
    int64_t number = steps->next_probe++;
    if (number % 2 && steps->last_micro_batch >= 0) { // a real micro-batch
        loader_batch(steps->training->loader, &batch, steps->last_micro_batch);
        batch.key = 1;
        return time_batch(steps, &batch);
    }
    number /= 2;
    int64_t tokens = (int64_t)((double)most_tokens(steps) * fillings[number % FILLINGS]);
    double window = (double)steps->training->loader->settings.window;
    int64_t length = (int64_t)(window * lengths[number % LENGTHS]);
    if (length < SHORTEST)
        length = SHORTEST;
    if (tokens < SHORTEST)
        tokens = SHORTEST;
    if (tokens > most_tokens(steps))
        tokens = most_tokens(steps);
    if (length > steps->training->loader->settings.window)
        length = steps->training->loader->settings.window;
    batch = make_batch(steps, tokens, length, labellings[number % LABELLINGS]);
    return time_batch(steps, &batch);
}

// --- steps -------------------------------------------------------------------

static void *grown(struct pilot_steps *steps, void *at, size_t *room, size_t each)
{
    size_t count = steps->step_count;
    if (count < *room)
        return at;
    *room = 2 * count + 256;
    return arena_grow(steps->arena, at, count * each, *room * each);
}

// The composition of the next step, over all its micro-batches.
static struct pilot_sample next_sample(const struct pilot_steps *steps, double *micro_batches)
{
    const struct training *training = steps->training;
    int64_t first = training->state.micro_batch, end = first + training->settings.accumulation;
    struct pilot_sample sum = { 0 };
    if (end > training->epoch_batches)
        end = training->epoch_batches;
    for (int64_t i = first; i < end; i++) {
        struct micro_batch batch;
        loader_batch(training->loader, &batch, i);
        struct pilot_sample sample = sample_of(&batch);
        sum.tokens += sample.tokens;
        sum.squares += sample.squares;
        sum.labelled += sample.labelled;
    }
    *micro_batches = (double)(end - first);
    return sum;
}

enum err pilot_steps_step(struct pilot_steps *steps)
{
    struct training *training = steps->training;
    struct training_report report;
    double micro_batches;
    int64_t first = training->state.micro_batch, epoch = training->state.epoch;
    struct pilot_sample sample = next_sample(steps, &micro_batches);
    TRY(training_step(training, &report));
    if (training->stop && *training->stop)
        return OK;                                 // it may be incomplete
    bool is_over = training->state.epoch != epoch; // the next epoch is packed already
    steps->last_micro_batch = is_over ? -1 : first;
    steps->steps = grown(steps, steps->steps, &steps->step_room, sizeof *steps->steps);
    steps->of_steps = grown(steps, steps->of_steps, &steps->of_room, sizeof *steps->of_steps);
    steps->micro_batches =
        grown(steps, steps->micro_batches, &steps->micro_room, sizeof *steps->micro_batches);
    steps->clock_seconds += report.seconds;
    steps->between.all += report.communication_seconds;
    steps->between.waited += report.waited_seconds;
    sample.seconds = report.seconds;
    steps->of_steps[steps->step_count] = sample;
    steps->micro_batches[steps->step_count] = micro_batches;
    steps->steps[steps->step_count++] = (struct steady_step){ .number = report.step,
                                                              .count = 1,
                                                              .end_seconds = steps->clock_seconds,
                                                              .seconds = report.seconds,
                                                              .tokens = sample.tokens };
    return OK;
}

double pilot_steps_update(const struct pilot_steps *steps, const struct pilot_fit *fit,
                          int64_t warmup, struct arena *arena)
{
    if (!fit->samples || (int64_t)steps->step_count <= warmup)
        return NAN;
    double *beyond = ARENA_NEW(arena, double, steps->step_count);
    size_t count = 0;
    for (size_t i = (size_t)warmup; i < steps->step_count; i++) {
        const struct pilot_sample *s = &steps->of_steps[i];
        double n = steps->training->group->size; // ranks, each with its share of the micro-batches
        double micro = fit->constant_seconds * (steps->micro_batches[i] / n - 1) +
                       pilot_fit_seconds(fit, s->tokens / n, s->squares / n, s->labelled / n);
        beyond[count++] = s->seconds - micro;
    }
    return fmax(0, stats_median(beyond, count));
}

enum err pilot_steps_evaluate(struct pilot_steps *steps, double *seconds_per_token)
{
    struct training *training = steps->training;
    struct transformer *t = training->transformer;
    int64_t count = training->epoch_batches < EVALUATED ? training->epoch_batches : EVALUATED;
    double tokens = 0, began = 0;
    struct transformer_sums sums;
    transformer_begin(t);
    for (int64_t i = 0; i <= count; i++) { // the first is warm-up and does not count
        struct micro_batch batch;
        loader_batch(training->loader, &batch, i ? i - 1 : 0);
        transformer_loss(t, &batch, 0);
        tokens += i ? (double)batch.tokens : 0;
        if (!i) {
            TRY(transformer_sums(t, &sums));
            began = clock_seconds();
        }
    }
    TRY(transformer_sums(t, &sums));
    *seconds_per_token = (clock_seconds() - began) / tokens;
    return OK;
}
