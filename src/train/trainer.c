#include "train/trainer.h"

#include "host/clock.h"
#include "train/trainer_metrics.h"

#include <math.h>
#include <string.h>

const struct field trainer_fields[] = {
    FIELD(trainer_settings, epochs, NUMBER, "passes over the data"),
    FIELD(trainer_settings, max_steps, COUNT, "stop after this many steps",
          .fallback = "all epochs"),
    FIELD(trainer_settings, accumulation, COUNT, "micro-batches per step, over all processes"),
    FIELD(trainer_settings, rate, NUMBER, "peak learning rate"),
    FIELD_OF(trainer_settings, schedule, schedule_names, "learning rate schedule", .value = "NAME"),
    FIELD(trainer_settings, warmup, SHARE, "share of the steps in which the rate rises"),
    FIELD(trainer_settings, lowest, SHARE, "final learning rate, as a share of the peak"),
    FIELD(trainer_settings, decay, NUMBER, "weight decay; norms and biases have none"),
    FIELD(trainer_settings, beta1, NUMBER, "AdamW beta 1"),
    FIELD(trainer_settings, beta2, NUMBER, "AdamW beta 2"),
    FIELD(trainer_settings, epsilon, NUMBER, "AdamW epsilon"),
    FIELD(trainer_settings, momentum, SHARE, "SGD momentum"),
    FIELD(trainer_settings, clip, NUMBER, "gradient norm to clip to; 0 does not clip"),
    FIELD(trainer_settings, seed, COUNT, "random seed of shuffling, adapters and dropout"),
    FIELD(trainer_settings, evaluate_every, COUNT,
          "steps between evaluations; 0 is only at the end"),
    FIELD(trainer_settings, save_every, COUNT, "steps between checkpoints; 0 is only at the end"),
    FIELD(trainer_settings, keep, COUNT, "newest checkpoints to keep"),
    { 0 },
};

struct trainer_settings trainer_default(void)
{
    return (struct trainer_settings){ .epochs = 1,
                                      .accumulation = 1,
                                      .rate = 2e-4,
                                      .warmup = 0.03,
                                      .beta1 = 0.9,
                                      .beta2 = 0.999,
                                      .epsilon = 1e-8,
                                      .clip = 1,
                                      .save_every = 100,
                                      .keep = 2 };
}

// --- before ------------------------------------------------------------------

enum err trainer_plan(struct trainer *trainer)
{
    struct trainer_settings *s = &trainer->settings;
    if (s->accumulation < 1 || s->accumulation % trainer->group.size)
        return fail(ERR_USAGE,
                    "--accumulation %lld is shared out among %d processes and must be a multiple "
                    "of that",
                    (long long)s->accumulation, trainer->group.size);
    if (!(s->epochs > 0) || !(s->rate >= 0) || !(s->epsilon > 0) || !(s->beta1 >= 0) ||
        !(s->beta1 < 1) || !(s->beta2 >= 0) || !(s->beta2 < 1))
        return fail(ERR_USAGE, "--epochs and --epsilon must be above 0, --rate not negative, "
                               "--beta1 and --beta2 from 0 to below 1");
    trainer->epoch_batches = trainer->loader->train.micro_batches;
    trainer->epoch_steps = (trainer->epoch_batches + s->accumulation - 1) / s->accumulation;
    trainer->steps = (int64_t)ceil(s->epochs * (double)trainer->epoch_steps);
    if (s->max_steps && s->max_steps < trainer->steps)
        trainer->steps = s->max_steps;
    trainer->state.best_loss = NAN;
    trainer->state.fingerprint = trainer->fingerprint;
    return OK;
}

enum err trainer_resume(struct trainer *trainer, struct arena *arena)
{
    const char *path = NULL;
    if (!trainer->group.rank)
        TRY(checkpoint_find(&path, arena, trainer->out));
    group_wait(&trainer->group); // until what was left over is swept
    if (trainer->group.rank)
        TRY(checkpoint_find(&path, arena, trainer->out));
    if (!path) {
        return trainer->group.rank ? OK : trainer_metrics_cut(trainer->out, 0, arena);
    }
    TRY(checkpoint_read(&trainer->state, trainer->transformer, arena, path));
    if (!trainer->state.fingerprint || strcmp(trainer->state.fingerprint, trainer->fingerprint))
        return fail(ERR_INPUT,
                    "%s: is of a run with other data, another model or other settings; remove it "
                    "or choose another --out",
                    path);
    trainer->state.fingerprint = trainer->fingerprint;
    TRY(loader_epoch(trainer->loader, trainer->state.epoch));
    return trainer->group.rank ? OK : trainer_metrics_cut(trainer->out, trainer->state.step, arena);
}

// --- a step ------------------------------------------------------------------

// The micro-batches of the next step, over all processes.
struct step_range {
    int64_t first, count, labelled;
};

static struct step_range next_range(const struct trainer *trainer)
{
    struct step_range range = { trainer->state.micro_batch, trainer->settings.accumulation, 0 };
    if (range.first + range.count > trainer->epoch_batches)
        range.count = trainer->epoch_batches - range.first;
    range.labelled = loader_labelled(trainer->loader, range.first, range.count);
    return range;
}

static uint64_t dropout_key(const struct trainer *trainer, int64_t micro_batch)
{
    uint64_t key = (uint64_t)trainer->settings.seed + 1;
    key = key * 0x9E3779B97F4A7C15u + (uint64_t)trainer->state.epoch + 1;
    return (key * 0xD1342543DE82EF95u + (uint64_t)micro_batch + 1) | 1;
}

static bool is_stopped(const struct trainer *trainer)
{
    return trainer->stop && *trainer->stop;
}

// Gradients of all processes, through the host's memory a piece at a time.
static enum err share_gradients(struct trainer *trainer)
{
    enum { PIECE = 1 << 22 };
    struct device *device = trainer->transformer->device;
    struct tensor all = transformer_gradients(trainer->transformer);
    if (trainer->group.size == 1)
        return OK;
    if (all.dtype != DTYPE_F32)
        return fail(ERR_USAGE, "several processes share fp32 gradients only");
    struct arena scratch = { 0 };
    float *piece = ARENA_NEW(&scratch, float, PIECE);
    for (int64_t first = 0; first < all.columns; first += PIECE) {
        int64_t count = all.columns - first < PIECE ? all.columns - first : PIECE;
        float *at = (float *)all.at + first;
        device->backend->download(device, piece, at, 4 * count);
        group_sum_f32(&trainer->group, piece, count);
        device->backend->upload(device, at, piece, 4 * count);
    }
    arena_release(&scratch);
    return device->backend->sync(device);
}

// Queues this process's micro-batches, then sums the gradients of all processes.
static enum err accumulate(struct trainer *trainer, const struct step_range *range,
                           double *processed)
{
    struct transformer *t = trainer->transformer;
    transformer_begin(t);
    if (trainer->group.rank >= range->count)
        transformer_clear(t);
    for (int64_t i = trainer->group.rank; i < range->count; i += trainer->group.size) {
        struct micro_batch batch;
        loader_batch(trainer->loader, &batch, range->first + i);
        batch.key = dropout_key(trainer, range->first + i);
        transformer_loss(t, &batch, 1 / (double)range->labelled);
        transformer_backward(t, &batch);
        *processed += (double)batch.tokens;
        if (is_stopped(trainer) && trainer->group.size == 1)
            return OK; // the step is not finished and will be done again
    }
    group_sum(&trainer->group, processed, 1);
    return share_gradients(trainer);
}

static void update(struct trainer *trainer, double rate)
{
    const struct trainer_settings *s = &trainer->settings;
    int64_t step = trainer->state.step + 1;
    struct adamw adamw = { rate,
                           s->beta1,
                           s->beta2,
                           s->epsilon,
                           s->decay,
                           step,
                           (uint64_t)s->seed * 0x9E3779B97F4A7C15u + (uint64_t)step * 65537 };
    transformer_update(trainer->transformer, &(struct update){ adamw, s->momentum });
}

static double traced_flops(struct transformer_trace *trace)
{
    double sum = 0;
    for (int i = 0; i < trace->count; i++)
        sum += trace->items[i].flops;
    *trace = (struct transformer_trace){ 0 };
    return sum;
}

static void move_cursor(struct trainer *trainer, const struct step_range *range)
{
    struct checkpoint_state *state = &trainer->state;
    state->step++;
    state->micro_batch = range->first + range->count;
    if (state->micro_batch < trainer->epoch_batches)
        return;
    state->micro_batch = 0;
    state->epoch++;
}

enum err trainer_step(struct trainer *trainer, struct trainer_report *report)
{
    struct transformer *t = trainer->transformer;
    struct step_range range = next_range(trainer);
    const struct trainer_settings *s = &trainer->settings;
    struct schedule schedule = { s->schedule, s->rate, s->lowest,
                                 (int64_t)ceil(s->warmup * (double)trainer->steps),
                                 trainer->steps };
    double began = clock_seconds(), processed = 0;
    *report = (struct trainer_report){ .step = trainer->state.step + 1,
                                       .steps = trainer->steps,
                                       .held_out_loss = NAN,
                                       .trained_tokens = range.labelled,
                                       .rate = schedule_rate(&schedule, trainer->state.step) };
    t->trace = &trainer->trace;
    if (range.labelled) {
        struct transformer_sums sums;
        TRY(accumulate(trainer, &range, &processed));
        if (is_stopped(trainer) && trainer->group.size == 1)
            return t->device->backend->sync(t->device);
        transformer_clip(t, s->clip);
        update(trainer, report->rate);
        TRY(transformer_sums(t, &sums));
        group_sum(&trainer->group, &sums.loss, 1);
        report->loss = sums.loss / (double)range.labelled;
        report->norm = sqrt(sums.squares);
        if (!isfinite(report->norm) || !isfinite(report->loss))
            return fail(ERR_INPUT,
                        "step %lld: the loss is %g and the gradient's norm %g; a smaller --rate, "
                        "or --clip, keeps a run from diverging; the last checkpoint is whole",
                        (long long)report->step, report->loss, report->norm);
    }
    move_cursor(trainer, &range);
    report->processed_tokens = (int64_t)processed;
    report->epoch = (double)trainer->state.epoch +
                    (double)trainer->state.micro_batch / (double)trainer->epoch_batches;
    report->seconds = clock_seconds() - began;
    report->flops = traced_flops(&trainer->trace);
    trainer->state.trained_tokens += range.labelled;
    trainer->state.processed_tokens += report->processed_tokens;
    trainer->state.seconds += report->seconds;
    return trainer->state.micro_batch ? OK : loader_epoch(trainer->loader, trainer->state.epoch);
}

// --- between steps -----------------------------------------------------------

enum err trainer_evaluate(struct trainer *trainer, double *loss)
{
    struct loader *loader = trainer->loader;
    struct transformer *t = trainer->transformer;
    struct transformer_sums found;
    double sums[2] = { 0 };
    t->trace = NULL;
    transformer_begin(t);
    for (int64_t i = trainer->group.rank; i < loader->held_out.micro_batches;
         i += trainer->group.size) {
        struct micro_batch batch;
        loader_held_out(loader, &batch, i);
        transformer_loss(t, &batch, 0);
        sums[1] += (double)batch.labelled;
    }
    TRY(transformer_sums(t, &found));
    sums[0] = found.loss;
    group_sum(&trainer->group, sums, 2);
    *loss = sums[1] > 0 ? sums[0] / sums[1] : NAN;
    return OK;
}

static bool is_due(int64_t every, const struct trainer *trainer)
{
    return trainer->state.step == trainer->steps || (every && trainer->state.step % every == 0);
}

static enum err save(struct trainer *trainer)
{
    enum err err = OK;
    if (!trainer->group.rank)
        err = checkpoint_write(trainer->out, trainer->transformer, &trainer->state,
                               trainer->settings.keep);
    double failed = err != OK; // of the first process: the others must not wait for it for ever
    group_sum(&trainer->group, &failed, 1);
    if (!err && failed > 0)
        return fail(ERR_INPUT, "the first process could not write its checkpoint");
    return err;
}

static enum err after_step(struct trainer *trainer, struct trainer_report *report)
{
    if (is_due(trainer->settings.evaluate_every, trainer)) {
        TRY(trainer_evaluate(trainer, &report->held_out_loss));
        if (!(trainer->state.best_loss <= report->held_out_loss))
            trainer->state.best_loss = report->held_out_loss;
    }
    if (!trainer->group.rank)
        TRY(trainer_metrics_add(trainer->out, report));
    if (trainer->report)
        trainer->report(trainer->context, trainer, report);
    return is_due(trainer->settings.save_every, trainer) ? save(trainer) : OK;
}

// Whether a signal came to any of the processes: all of them must stop at the same step.
static bool all_stop(const struct trainer *trainer)
{
    double stopped = is_stopped(trainer);
    group_sum(&trainer->group, &stopped, 1);
    return stopped > 0;
}

enum err trainer_run(struct trainer *trainer)
{
    if (trainer->state.step == trainer->steps && trainer->steps)
        return save(trainer); // it was killed at its end: older checkpoints may be left to remove
    while (trainer->state.step < trainer->steps) {
        struct trainer_report report;
        int64_t before = trainer->state.step;
        TRY(trainer_step(trainer, &report));
        if (trainer->state.step > before)
            TRY(after_step(trainer, &report));
        if (all_stop(trainer)) {
            trainer->is_stopped = trainer->state.step < trainer->steps;
            return save(trainer);
        }
    }
    return OK;
}
