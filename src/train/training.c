// SPDX-License-Identifier: Apache-2.0
// Runs a training: plans its steps, resumes, steps, evaluates, saves.

#include "train/training.h"

#include "core/forecast/workload.h"
#include "host/clock.h"
#include "train/training_metrics.h"

#include <math.h>
#include <string.h>

const struct field training_fields[] = {
    FIELD(training_settings, epochs, NUMBER, "passes over the data"),
    FIELD(training_settings, max_steps, COUNT, "stop after this many steps",
          .fallback = "all epochs"),
    FIELD(training_settings, accumulation, COUNT, "micro-batches per step, over all ranks"),
    FIELD(training_settings, rate, NUMBER, "peak learning rate"),
    FIELD_OF(training_settings, schedule, schedule_names, "learning rate schedule",
             .value = "NAME"),
    FIELD(training_settings, warmup, SHARE, "share of the steps in which the rate rises"),
    FIELD(training_settings, lowest, SHARE, "final learning rate, as a share of the peak"),
    FIELD(training_settings, decay, NUMBER, "weight decay; norms and biases have none"),
    FIELD(training_settings, beta1, NUMBER, "AdamW beta 1"),
    FIELD(training_settings, beta2, NUMBER, "AdamW beta 2"),
    FIELD(training_settings, epsilon, NUMBER, "AdamW epsilon"),
    FIELD(training_settings, momentum, SHARE, "SGD momentum"),
    FIELD(training_settings, clip, NUMBER, "gradient norm to clip to; 0 does not clip"),
    FIELD(training_settings, seed, COUNT, "random seed of shuffling, adapters and dropout"),
    FIELD(training_settings, evaluate_every, COUNT,
          "steps between evaluations; 0 is only at the end"),
    FIELD(training_settings, save_every, COUNT, "steps between checkpoints; 0 is only at the end"),
    FIELD(training_settings, keep, COUNT, "newest checkpoints to keep"),
    { 0 },
};

struct training_settings training_default(void)
{
    return (struct training_settings){ .epochs = 1,
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

enum err training_check(const struct training_settings *s)
{
    static const char above[] = "above 0", not_below[] = "0 or above",
                      share[] = "from 0 to below 1";
    const struct {
        const char *option;
        double value;
        bool fits;
        const char *range;
    } checks[] = {
        { "epochs", s->epochs, s->epochs > 0 && s->epochs <= WORKLOAD_MOST_EPOCHS,
          "above 0 and at most " FIELD_WORDS(WORKLOAD_MOST_EPOCHS) },
        { "rate", s->rate, s->rate >= 0, not_below },
        { "decay", s->decay, s->decay >= 0, not_below },
        { "epsilon", s->epsilon, s->epsilon > 0, above },
        { "clip", s->clip, s->clip >= 0, "0 (no clipping) or above" },
        { "beta1", s->beta1, s->beta1 >= 0 && s->beta1 < 1, share },
        { "beta2", s->beta2, s->beta2 >= 0 && s->beta2 < 1, share },
        { "momentum", s->momentum, s->momentum >= 0 && s->momentum < 1, share },
        { "accumulation", (double)s->accumulation, s->accumulation >= 1, "1 or above" },
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (!checks[i].fits)
            return fail(ERR_USAGE, "--%s is %g, must be %s", checks[i].option, checks[i].value,
                        checks[i].range);
    return OK;
}

enum err training_plan(struct training *training)
{
    struct training_settings *s = &training->settings;
    int ranks = training->group->size;
    transformer_join(training->transformer, training->group);
    TRY(training_check(s));
    if (s->accumulation % ranks)
        return fail(ERR_USAGE, "--accumulation is %lld; with %d ranks it must be a multiple of %d",
                    (long long)s->accumulation, ranks, ranks);
    training->epoch_batches = training->loader->train.micro_batches;
    training->epoch_steps = (training->epoch_batches + s->accumulation - 1) / s->accumulation;
    training->steps = (int64_t)ceil(s->epochs * (double)training->epoch_steps);
    if (s->max_steps && s->max_steps < training->steps)
        training->steps = s->max_steps;
    training->state.best_loss = NAN;
    training->state.fingerprint = training->fingerprint;
    return OK;
}

// Numbers with all the digits by which runs are told apart.
static const char *spell_option(struct arena *arena, struct text key, const struct json *value)
{
    struct out out = { .arena = arena };
    struct json_writer w = { .out = &out };
    out_put(&out, " --");
    for (size_t i = 0; i < key.size; i++)
        out_char(&out, key.at[i] == '_' ? '-' : key.at[i]);
    out_char(&out, ' ');
    switch (value ? value->kind : JSON_NULL) {
    case JSON_STRING: out_put(&out, "%.*s", TEXT_ARGS(value->string)); break;
    case JSON_NUMBER: json_put_number(&w, NULL, value->number); break;
    case JSON_BOOL: out_put(&out, "%s", value->flag ? "yes" : "no"); break;
    default: out_put(&out, "(default)");
    }
    return out_string(&out);
}

// Keys of the fingerprint that stand for the content of files, not for an option.
static const struct {
    const char *key, *other, *same;
} contents[] = {
    { "data", "other data", "the same data" },
    { "base_weights", "other base weights", "the same base weights" },
    { "adapter_weights", "another adapter", "the same adapter" },
};

// Adds " and WHAT"; the first one without "and" if nothing precedes it.
static void join(struct out *out, const char *what)
{
    out_put(out, "%s %s", out->size ? " and" : "", what);
}

enum { CONTENTS = sizeof contents / sizeof *contents };

struct difference {        // between the run of a checkpoint and this one
    struct out then, here; // options
    bool contents[CONTENTS];
};

static void compare_key(struct difference *out, struct arena *arena, struct text key,
                        const struct json *was, const struct json *now)
{
    const char *name = text_copy(arena, key);
    const char *before = spell_option(arena, key, json_get(was, name));
    const char *after = spell_option(arena, key, json_get(now, name));
    if (!strcmp(before, after))
        return;
    for (int c = 0; c < CONTENTS; c++)
        if (text_is(key, contents[c].key)) {
            out->contents[c] = true;
            return;
        }
    out_put(&out->then, "%s", before);
    out_put(&out->here, "%s", after);
}

// Refuses a checkpoint of another run: names the options that differ, and what to give instead.
static enum err refuse_other_run(const struct training *training, struct arena *arena,
                                 const char *path)
{
    struct json was, now;
    struct difference d = { .then.arena = arena, .here.arena = arena };
    struct out give = { .arena = arena };
    if (json_read(&was, arena, text_of(training->state.fingerprint), path) ||
        json_read(&now, arena, text_of(training->fingerprint), path) || was.kind != JSON_OBJECT ||
        now.kind != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: is of another run; remove it or give another --out", path);
    for (size_t i = 0; i < now.count; i++)
        compare_key(&d, arena, now.items[2 * i].string, &was, &now);
    for (size_t i = 0; i < was.count; i++)
        if (!json_get(&now, text_copy(arena, was.items[2 * i].string)))
            compare_key(&d, arena, was.items[2 * i].string, &was, &now);
    out_put(&give, "%s", out_string(&d.then));
    for (int c = 0; c < CONTENTS; c++) {
        if (d.contents[c]) {
            join(&d.then, contents[c].other);
            join(&give, contents[c].same);
        }
    }
    return fail(ERR_INPUT, "%s: is of a run with%s;%s%s%s give%s, or another --out", path,
                out_string(&d.then), d.here.size ? " this run has" : "", out_string(&d.here),
                d.here.size ? ":" : "", out_string(&give));
}

static enum err check_same_run(const struct training *training, struct arena *arena,
                               const char *path)
{
    const char *found = training->state.fingerprint;
    if (found && !strcmp(found, training->fingerprint))
        return OK;
    return found ? refuse_other_run(training, arena, path)
                 : fail(ERR_INPUT, "%s: does not say which run it is of; remove it", path);
}

enum err training_resume(struct training *training, struct arena *arena)
{
    const char *path = NULL, *ignored;
    if (!training->group->rank)
        TRY(checkpoint_find(&path, &training->note, arena, training->out));
    TRY(group_meet(training->group)); // until incomplete checkpoints are removed
    if (training->group->rank)
        TRY(checkpoint_find(&path, &ignored, arena, training->out));
    if (!path) {
        return training->group->rank ? OK : training_metrics_cut(training->out, 0, arena);
    }
    TRY(checkpoint_read_state(&training->state, arena, path));
    TRY(check_same_run(training, arena, path));
    TRY(checkpoint_read_tensors(training->transformer, arena, path));
    training->state.fingerprint = training->fingerprint;
    TRY(loader_epoch(training->loader, training->state.epoch));
    return training->group->rank ? OK
                                 : training_metrics_cut(training->out, training->state.step, arena);
}

// --- a step ------------------------------------------------------------------

// The micro-batches of the next step, over all ranks: which they are depends on the data and the
// cursor alone, and rank r takes every size-th of them.
struct step_range {
    int64_t first, count, labelled;
    double losses; // that the step averages: labelled tokens, or pairs
};

static struct step_range next_range(const struct training *training)
{
    struct step_range range = { training->state.micro_batch, training->settings.accumulation, 0,
                                0 };
    if (range.first + range.count > training->epoch_batches)
        range.count = training->epoch_batches - range.first;
    range.labelled = loader_labelled(training->loader, range.first, range.count);
    range.losses = (double)loader_losses(training->loader, range.first, range.count);
    return range;
}

static uint64_t dropout_key(const struct training *training, int64_t micro_batch)
{
    uint64_t key = (uint64_t)training->settings.seed + 1;
    key = key * 0x9E3779B97F4A7C15u + (uint64_t)training->state.epoch + 1;
    return (key * 0xD1342543DE82EF95u + (uint64_t)micro_batch + 1) | 1;
}

static bool is_stopped(const struct training *training)
{
    return training->stop && *training->stop;
}

// Queues this rank's micro-batches, and sums the gradients of all ranks.
static enum err accumulate(struct training *training, const struct step_range *range,
                           double *processed)
{
    struct transformer *t = training->transformer;
    transformer_begin(t);
    if (training->group->rank >= range->count)
        transformer_clear(t);
    int64_t i = training->group->rank, size = training->group->size;
    for (; i < range->count; i += size) {
        struct micro_batch batch;
        loader_batch(training->loader, &batch, range->first + i);
        batch.key = dropout_key(training, range->first + i);
        transformer_loss(t, &batch, 1 / range->losses);
        if (i + size >= range->count)
            transformer_reduce_in(t, training->group);
        transformer_backward(t, &batch);
        *processed += (double)batch.tokens;
        if (is_stopped(training) && training->group->size == 1)
            return OK; // the step is incomplete and will be repeated
    }
    if (i < (range->count + size - 1) / size * size)
        transformer_attend(t, true);
    transformer_reduce(t, training->group);
    TRY(group_wait(training->group));
    return group_sum(training->group, processed, 1);
}

// The norm of all gradients, of which each rank may have summed only its part.
static enum err clip(struct training *training)
{
    struct transformer *t = training->transformer;
    transformer_norm(t);
    if (transformer_is_sharded(t))
        group_all_reduce(training->group, t->squared_norm);
    TRY(group_wait(training->group));
    transformer_clip(t, training->settings.clip);
    return OK;
}

static enum err update(struct training *training, double rate)
{
    const struct training_settings *s = &training->settings;
    int64_t step = training->state.step + 1;
    struct adamw adamw = { .rate = rate,
                           .beta1 = s->beta1,
                           .beta2 = s->beta2,
                           .epsilon = s->epsilon,
                           .decay = s->decay,
                           .step = step,
                           .key =
                               (uint64_t)s->seed * 0x9E3779B97F4A7C15u + (uint64_t)step * 65537 };
    transformer_update(training->transformer, &(struct update){ adamw, s->momentum });
    transformer_gather_values(training->transformer, training->group);
    return group_wait(training->group);
}

static double traced_flops(struct transformer_trace *trace)
{
    double sum = 0;
    for (int i = 0; i < trace->count; i++)
        sum += trace->items[i].flops;
    *trace = (struct transformer_trace){ 0 };
    return sum;
}

static void move_cursor(struct training *training, const struct step_range *range)
{
    struct checkpoint_state *state = &training->state;
    state->step++;
    state->micro_batch = range->first + range->count;
    if (state->micro_batch < training->epoch_batches)
        return;
    state->micro_batch = 0;
    state->epoch++;
}

// What TRL's DPO reports beside the loss, over the pairs of all ranks.
static enum err report_rewards(struct training *training, struct training_report *report,
                               struct preference_sums sums)
{
    if (!training->loader->settings.pairs)
        return OK;
    double all[] = { sums.pairs, sums.chosen, sums.rejected, sums.right };
    TRY(group_sum(training->group, all, sizeof all / sizeof *all));
    report->reward_chosen = all[1] / all[0];
    report->reward_rejected = all[2] / all[0];
    report->reward_margin = report->reward_chosen - report->reward_rejected;
    report->reward_accuracy = all[3] / all[0];
    return OK;
}

enum err training_step(struct training *training, struct training_report *report)
{
    struct transformer *t = training->transformer;
    struct step_range range = next_range(training);
    const struct training_settings *s = &training->settings;
    struct schedule schedule = { s->schedule, s->rate, s->lowest,
                                 (int64_t)ceil(s->warmup * (double)training->steps),
                                 training->steps };
    double began = clock_seconds(), processed = 0;
    *report = (struct training_report){ .step = training->state.step + 1,
                                        .steps = training->steps,
                                        .loss = NAN,
                                        .norm = NAN,
                                        .held_out_loss = NAN,
                                        .reward_chosen = NAN,
                                        .reward_rejected = NAN,
                                        .reward_margin = NAN,
                                        .reward_accuracy = NAN,
                                        .trained_tokens = range.labelled,
                                        .rate = schedule_rate(&schedule, training->state.step) };
    t->trace = &training->trace;
    group_seconds(training->group); // of evaluations and probes since the last step
    if (range.labelled) {
        struct transformer_sums sums;
        TRY(accumulate(training, &range, &processed));
        if (is_stopped(training) && training->group->size == 1)
            return t->device->backend->sync(t->device);
        TRY(clip(training));
        TRY(update(training, report->rate));
        TRY(transformer_sums(t, &sums));
        struct group_seconds spent = group_seconds(training->group);
        report->communication_seconds = spent.all;
        report->waited_seconds = spent.waited;
        TRY(group_sum(training->group, &sums.loss, 1));
        report->loss = sums.loss / range.losses;
        TRY(report_rewards(training, report, sums.preferences));
        report->norm = sqrt(sums.squared_norm);
        if (!isfinite(report->norm) || !isfinite(report->loss))
            return fail(
                ERR_INPUT,
                "step %lld: the run diverged: loss %g, gradient norm %g; try a smaller --rate "
                "or --clip 1; checkpoints from before that step may still be good",
                (long long)report->step, report->loss, report->norm);
    }
    move_cursor(training, &range);
    report->processed_tokens = (int64_t)processed;
    report->epoch = (double)training->state.epoch +
                    (double)training->state.micro_batch / (double)training->epoch_batches;
    report->seconds = clock_seconds() - began;
    report->flops = traced_flops(&training->trace);
    training->state.trained_tokens += range.labelled;
    training->state.processed_tokens += report->processed_tokens;
    training->state.seconds += report->seconds;
    training->step_seconds += report->seconds;
    return training->state.micro_batch ? OK : loader_epoch(training->loader, training->state.epoch);
}

// --- between steps -----------------------------------------------------------

enum err training_evaluate(struct training *training, double *loss)
{
    struct loader *loader = training->loader;
    struct transformer *t = training->transformer;
    struct transformer_sums found;
    double sums[2] = { 0 };
    t->trace = NULL;
    transformer_begin(t);
    int64_t i = training->group->rank, size = training->group->size;
    int64_t count = loader->held_out.micro_batches;
    for (; i < count; i += size) {
        struct micro_batch batch;
        loader_held_out(loader, &batch, i);
        transformer_loss(t, &batch, 0);
        sums[1] += (double)loader_losses_of(loader, &batch);
    }
    if (i < (count + size - 1) / size * size)
        transformer_attend(t, false);
    TRY(group_wait(training->group));
    TRY(transformer_sums(t, &found));
    sums[0] = found.loss;
    TRY(group_sum(training->group, sums, 2));
    *loss = sums[1] > 0 ? sums[0] / sums[1] : NAN;
    return OK;
}

static bool is_due(int64_t every, const struct training *training)
{
    return training->state.step == training->steps || (every && training->state.step % every == 0);
}

// The first rank writes, also what the others keep. If it cannot, it ends, and with it the group.
static enum err save(struct training *training)
{
    return checkpoint_write(training->out, training->transformer, &training->state,
                            training->settings.keep, training->group);
}

static enum err after_step(struct training *training, struct training_report *report)
{
    if (is_due(training->settings.evaluate_every, training)) {
        TRY(training_evaluate(training, &report->held_out_loss));
        if (!(training->state.best_loss <= report->held_out_loss))
            training->state.best_loss = report->held_out_loss;
    }
    if (!training->group->rank)
        TRY(training_metrics_add(training->out, report));
    if (training->report)
        training->report(training->context, training, report);
    return is_due(training->settings.save_every, training) ? save(training) : OK;
}

// What one trial took too much is missing from the time of the next.
static void tune_between_steps(struct training *training)
{
    const double share = 0.2;
    double began = clock_seconds();
    if (!training->transformer->waits_for_tuning || training->state.step == training->steps)
        return;
    transformer_tune_some(training->transformer,
                          share * training->step_seconds - training->tuning_seconds);
    training->tuning_seconds += clock_seconds() - began;
}

// Whether any of the ranks got a signal: all of them must stop at the same step.
static enum err all_stop(struct training *training, bool *out)
{
    double stopped = is_stopped(training);
    TRY(group_sum(training->group, &stopped, 1));
    *out = stopped > 0;
    return OK;
}

enum err training_run(struct training *training)
{
    if (training->state.step == training->steps && training->steps)
        return save(training); // it was killed at its end: older checkpoints may remain
    while (training->state.step < training->steps) {
        struct training_report report;
        int64_t before = training->state.step;
        TRY(training_step(training, &report));
        if (training->state.step > before)
            TRY(after_step(training, &report));
        bool stops;
        TRY(all_stop(training, &stops));
        if (stops) {
            training->is_stopped = training->state.step < training->steps;
            return save(training);
        }
        tune_between_steps(training);
    }
    return OK;
}
