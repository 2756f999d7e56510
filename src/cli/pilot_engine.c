// SPDX-License-Identifier: Apache-2.0
// The built-in pilot: reads the plan, sets up the engine, times steps and probes, fills the
// document.

#include "cli/pilot_engine.h"

#include "base/stats.h"
#include "cli/data.h"
#include "cli/engine/engine_model.h"
#include "cli/engine/pilot_rows.h"
#include "cli/engine_run.h"
#include "cli/ranks.h"
#include "cli/terminal/print.h"
#include "cli/terminal/stop.h"
#include "core/forecast/workload.h"
#include "core/objective/objective.h"
#include "host/clock.h"
#include "host/file.h"
#include "host/gpu.h"
#include "train/arrange.h"
#include "train/device.h"
#include "train/pilot_steps.h"
#include "train/transformer_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct field pilot_engine_fields[] = {
    FIELD_AS("data", pilot_engine_request, rows, TEXT,
             "data set: file or folder; more may follow as plain words", .value = "DATA",
             .fallback = "random tokens"),
    FIELD_OF(pilot_engine_request, device, device_kinds, "where to compute", .value = "DEVICE"),
    FIELD(pilot_engine_request, profile, TEXT, "profile.json: lengths to use without DATA",
          .value = "FILE", .fallback = ""),
    FIELD(pilot_engine_request, seed, COUNT, "random seed of shuffling and random weights"),
    FIELD(pilot_engine_request, ranks, COUNT, "processes to start on this host, one per GPU",
          .fallback = "1, or those of torchrun, srun or mpirun"),
    { 0 },
};

struct pilot_engine_request pilot_engine_default(void)
{
    return (
        struct pilot_engine_request){ .minutes = NAN, .seed = 1, .wanted = 0.01, .at_least = 20 };
}

struct job {
    struct arena *arena;
    struct command_line *line;
    const struct pilot_engine_request *request;
    struct pilot_configuration configuration;
    const struct model *shape;          // of the plan's document; NULL: it has none
    const char *model_name;             // as given to plan, or --model
    double mean_length, labelled_share; // of the plan's micro-batches
    bool pairs;                         // the plan is of DPO, see cmd_pilot.c
    bool chooses_levels;                // of recomputation, by layer, as training does
    struct engine_model model;
    struct device device;
    struct recipe recipe;
    struct arrangement arrangement;
    struct loader loader;
    struct transformer transformer;
    struct training training;
    struct group group;
    struct pilot_steps steps;
    struct steady steady;
    struct gpu_monitor *monitor; // NULL where there is none
    double began, first_step_seconds, steady_from;
};

// --- the plan ----------------------------------------------------------------

static enum err read_plan(struct job *job)
{
    const char *path = job->request->plan;
    struct text text;
    struct json tree;
    if (!path)
        return fail(ERR_USAGE,
                    "pilot needs --plan plan.json for the built-in engine, or -- COMMAND for "
                    "another trainer");
    TRY(file_read(&text, job->arena, path));
    TRY(json_read_document(&tree, job->arena, text, path, "plan"));
    TRY(pilot_configuration_read(&job->configuration, job->arena, &tree, path));
    TRY(plan_read_model(&job->shape, &job->model_name, job->arena, &tree, path));
    job->pairs = text_is(json_get_text(&tree, "objective"), objective_names[OBJECTIVE_DPO]);
    if (!job->model_name)
        job->model_name = job->configuration.model;
    const struct json *workload = json_get(&tree, "workload");
    const struct json *batch = workload ? json_get(workload, "batch") : NULL;
    double tokens = batch ? json_get_number(batch, "tokens", NAN) : NAN;
    job->chooses_levels = json_get(json_get(&tree, "memory"), "filled");
    job->mean_length = batch ? json_get_number(batch, "squares", NAN) / tokens : NAN;
    job->labelled_share = batch ? json_get_number(batch, "labelled", tokens) / tokens : NAN;
    struct text reference = json_get_text(json_get(&tree, "configuration"), "reference");
    if (job->pairs && !text_is(reference, "auto") && !text_is(reference, "adapters"))
        return fail(
            ERR_UNAVAILABLE,
            "%s: the plan's reference is %.*s, but the engine's is the model with its adapters "
            "switched off; plan with --reference adapters, or give the trainer's command "
            "line after --",
            path, TEXT_ARGS(reference));
    struct pilot_configuration *c = &job->configuration;
    if (!(c->context >= 2 && c->context <= 1 << 20) ||
        !(c->micro_batch >= 1 && c->micro_batch <= 1 << 16))
        return fail(ERR_INPUT,
                    "%s: configuration: context is %g and micro_batch %g, which the "
                    "engine cannot run",
                    path, c->context, c->micro_batch);
    return OK;
}

static enum err find_model(struct job *job)
{
    const char *own = job->request->data.model;
    if (own)
        job->model_name = own;
    if (!job->model_name)
        return fail(ERR_INPUT, "%s: configuration has no model; give --model", job->request->plan);
    return engine_model_open(&job->model, job->arena, job->model_name, own ? NULL : job->shape);
}

// The plan's recipe as the engine runs it.
static enum err find_recipe(struct job *job, struct transformer_setup *setup)
{
    const struct pilot_configuration *c = &job->configuration;
    struct recipe *recipe = &job->recipe;
    *recipe = c->recipe;
    recipe->dropout = recipe->dropout > 0 ? recipe->dropout : 0;
    recipe->adapter_dtype = recipe->weights = recipe->states = RECIPE_DTYPE_AUTO;
    if (recipe->optimizer != RECIPE_ADAMW && recipe->optimizer != RECIPE_SGD)
        return fail(ERR_UNAVAILABLE,
                    "the engine has only AdamW and SGD; measure another optimizer with its own "
                    "trainer after --");
    if (recipe->precision == RECIPE_FP16 || recipe->precision == RECIPE_FP4)
        return fail(ERR_UNAVAILABLE,
                    "the engine has no %s; plan with --precision bf16, or measure with another "
                    "trainer after --",
                    recipe_precisions[recipe->precision]);
    bool fp8 = recipe->precision == RECIPE_FP8;
    if (fp8)
        recipe->precision = RECIPE_BF16;
    TRY(recipe_check(recipe, &job->model.decoder.model));
    static const enum recompute levels[] = {
        [RECIPE_KEEP_ALL] = RECOMPUTE_NONE,   [RECIPE_SELECTIVE] = RECOMPUTE_NORMS,
        [RECIPE_GATE] = RECOMPUTE_GATE,       [RECIPE_PROJECTIONS] = RECOMPUTE_PROJECTIONS,
        [RECIPE_RECOMPUTE] = RECOMPUTE_BLOCK, [RECIPE_AUTO] = RECOMPUTE_NONE
    };
    *setup = (struct transformer_setup){
        .decoder = &job->model.decoder,
        .recipe = recipe,
        .compute = recipe->precision == RECIPE_FP32 ? DTYPE_F32 : DTYPE_BF16,
        .level = job->chooses_levels ? RECOMPUTE_NONE : levels[recipe->checkpointing],
        .fp8 = fp8,
        .any_order = recipe->nondeterministic,
        .beta = job->pairs ? 0.1 : 0, // of any size: the operations are the same
        .rank = job->group.rank,
        .ranks = job->group.size,
    };
    return OK;
}

// --- set-up ------------------------------------------------------------------

static enum err read_rows(struct job *job)
{
    struct command_line *line = job->line;
    const struct pilot_engine_request *request = job->request;
    if (job->request->rows)
        line->positional[line->positional_count++] = job->request->rows;
    struct pilot_rows rows = { .words = line->positional,
                               .count = (size_t)line->positional_count,
                               .profile = request->profile,
                               .mean_length = job->mean_length,
                               .labelled_share = job->labelled_share > 0 ? job->labelled_share : 1,
                               .data = request->data,
                               .folder = job->model.folder,
                               .vocabulary = job->model.decoder.model.vocabulary,
                               .window = (int64_t)job->configuration.context,
                               .micro_batch = job->arrangement.micro_batch,
                               .seed = (uint64_t)request->seed,
                               .pairs = job->pairs,
                               .quiet = line->common.quiet };
    if (!rows.data.model)
        rows.data.model = job->model_name;
    return pilot_rows_load(&job->loader, job->arena, &rows);
}

static enum err lay_out(struct job *job)
{
    struct transformer *t = &job->transformer;
    TRY(transformer_init(t, job->arena, &job->device, &job->arrangement.setup));
    if (job->model.has_weights) {
        TRY(transformer_load(t, &job->model.weights));
        transformer_random_adapters(t, (uint64_t)job->request->seed);
    } else {
        if (!job->line->common.quiet && !job->group.rank)
            print_note("no weights of %s here: the pilot uses random weights, which does "
                       "not change its speed",
                       job->model_name);
        transformer_random_weights(t, (uint64_t)job->request->seed);
    }
    transformer_loaded(t);
    transformer_tune(t, TUNE_NOW);
    return job->device.backend->sync(&job->device);
}

// A learning rate of zero: every operation runs, and nothing diverges however long it goes.
static enum err make_training(struct job *job)
{
    struct training *training = &job->training;
    *training = (struct training){ .settings = training_default(),
                                   .transformer = &job->transformer,
                                   .loader = &job->loader,
                                   .stop = &stop_asked };
    training->group = &job->group;
    training->settings.rate = 0;
    training->settings.epochs = WORKLOAD_MOST_EPOCHS; // it ends by time
    training->settings.seed = job->request->seed;
    double accumulation = job->configuration.accumulation;
    training->settings.accumulation = accumulation >= 1 ? (int64_t)accumulation : 1;
    training->settings.accumulation *= job->group.size; // the plan's are of each GPU
    if (training->settings.accumulation > job->loader.train.micro_batches)
        training->settings.accumulation =
            job->loader.train.micro_batches / job->group.size * job->group.size;
    TRY(training_plan(training));
    pilot_steps_init(&job->steps, job->arena, training);
    return OK;
}

static bool is_planned_fsdp(const struct job *job)
{
    return job->configuration.parallel && !strncmp(job->configuration.parallel, "fsdp", 4);
}

// Ranks may have different free memory: all share the base if one must.
static enum err agree_on_base(struct job *job)
{
    double is_whole = !job->arrangement.setup.shards_base;
    TRY(group_least(&job->group, &is_whole, 1));
    if (job->arrangement.setup.shards_base == !is_whole)
        return OK;
    job->arrangement.setup.shards_base = true;
    return arrange(&job->arrangement, &job->device, 0);
}

static enum err prepare(struct job *job)
{
    struct transformer_setup setup;
    TRY(read_plan(job));
    TRY(find_model(job));
    TRY(find_recipe(job, &setup));
    TRY(device_open(&job->device, (enum device_kind)job->request->device, job->group.local_rank));
    TRY(group_use(&job->group, &job->device));
    if (job->group.note && !job->group.rank)
        print_note("%s", job->group.note);
    if (device_is_gpu(&job->device) && gpu_monitor_start(&job->monitor, 0.1))
        job->monitor = NULL; // the driver's figures stay unknown
    job->arrangement = (struct arrangement){ .setup = setup,
                                             .context = (int64_t)job->configuration.context,
                                             .micro_batch = (int64_t)job->configuration.micro_batch,
                                             .may_shard = job->group.size > 1 };
    job->arrangement.setup.shards_base = is_planned_fsdp(job);
    TRY(arrange(&job->arrangement, &job->device, 0));
    TRY(agree_on_base(job));
    TRY(read_rows(job));
    TRY(lay_out(job));
    return make_training(job);
}

// --- measuring ---------------------------------------------------------------

enum { FEWEST_PROBES = 24, LOOK_EVERY = 4 };

static bool is_enough(const struct job *job)
{
    const struct pilot_engine_request *request = job->request;
    const struct steady *steady = &job->steady;
    double minutes = isnan(request->minutes) ? PILOT_ENGINE_MINUTES : request->minutes;
    if (stop_asked || clock_seconds() - job->began >= 60 * minutes)
        return true;
    if (request->steps)
        return steady->ordinary_steps >= request->steps;
    return steady->verdict == STEADY_YES && steady->half_width <= request->wanted &&
           steady->ordinary_seconds >= request->at_least &&
           job->steps.sample_count >= FEWEST_PROBES;
}

static void show_progress(const struct job *job, bool ends)
{
    if (job->group.rank || job->line->common.quiet || job->line->common.json || !print_redraws())
        return;
    struct arena scratch = { 0 };
    const struct steady *steady = &job->steady;
    if (ends)
        print_redraw("");
    else
        print_redraw(text_format(
            &scratch, "step %zu, %zu probes, %s tokens/s ± %.1f %%  %s", job->steps.step_count,
            job->steps.sample_count,
            steady->tokens_per_s.mid > 0 ? text_commas(&scratch, llround(steady->tokens_per_s.mid))
                                         : "-",
            100 * steady->half_width, text_seconds(&scratch, clock_seconds() - job->began)));
    arena_release(&scratch);
}

static void look(struct job *job)
{
    struct arena scratch = { 0 };
    steady_measure(&job->steady, &scratch, job->steps.steps, job->steps.step_count,
                   &(struct steady_rule){ .wanted = job->request->wanted, .until_narrow = true });
    if (job->steady.reason)
        job->steady.reason = text_copy(job->arena, text_of(job->steady.reason));
    arena_release(&scratch);
}

// Once there are enough probes for a fit, they take at most a third of the time.
static bool wants_probe(const struct pilot_steps *steps)
{
    return steps->sample_count < FEWEST_PROBES || steps->probe_seconds < steps->clock_seconds / 2;
}

// What the first rank decides, by its clock and its signals, holds for all.
static enum err decide(struct job *job, bool *is)
{
    double decided = !job->group.rank && *is;
    TRY(group_sum(&job->group, &decided, 1));
    *is = decided > 0;
    return OK;
}

static enum err measure(struct job *job)
{
    struct pilot_steps *steps = &job->steps;
    size_t next_look = LOOK_EVERY;
    bool ends;
    TRY(pilot_steps_worst(steps));
    do {
        TRY(pilot_steps_step(steps));
        if (steps->step_count == 1)
            job->first_step_seconds = clock_seconds() - job->began;
        bool probes = !stop_asked && wants_probe(steps);
        TRY(decide(job, &probes));
        if (probes)
            TRY(pilot_steps_probe(steps));
        // A look at many short steps takes longer than a step, so they become rarer.
        if (steps->step_count >= next_look) {
            look(job);
            next_look = steps->step_count + LOOK_EVERY + steps->step_count / 16;
        }
        show_progress(job, false);
        ends = is_enough(job);
        TRY(decide(job, &ends));
    } while (!ends);
    show_progress(job, true);
    look(job);
    return OK;
}

// --- saves -------------------------------------------------------------------

// Removes a checkpoint and its folders; returns its size in bytes.
static double remove_save(const char *folder, struct arena *arena)
{
    static const char *const names[] = { "state.safetensors", "state.json", "DONE" };
    const char *path = NULL, *note;
    double bytes = 0;
    if (!checkpoint_find(&path, &note, arena, folder) && path) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            const char *file = text_format(arena, "%s/%s", path, names[i]);
            struct stat about;
            bytes += stat(file, &about) ? 0 : (double)about.st_size;
            unlink(file);
        }
        rmdir(path);
    }
    rmdir(text_format(arena, "%s/checkpoints", folder));
    rmdir(folder);
    return bytes;
}

// Times one checkpoint in a temporary folder; not if it could fill the disk.
static void time_save(struct job *job, struct pilot_apart *out)
{
    enum { MOST_BYTES = 1 << 30 };
    struct transformer *t = &job->transformer;
    const char *base = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    const char *pattern = text_format(job->arena, "%s/gpuhours-pilot-XXXXXX", base);
    double bytes = (double)(t->blocks.bytes[BLOCKS_TRAINABLES] + t->blocks.bytes[BLOCKS_OPTIMIZER]);
    char *folder = arena_copy(job->arena, pattern, strlen(pattern) + 1);
    bool goes = !stop_asked && bytes <= MOST_BYTES && (job->group.rank || mkdtemp(folder));
    if (decide(job, &goes) || !goes)
        return;
    job->training.state.fingerprint = "pilot";
    double began = clock_seconds();
    enum err err = checkpoint_write(folder, t, &job->training.state, 1, &job->group);
    double seconds = clock_seconds() - began;
    if (job->group.rank)
        return;
    bytes = remove_save(folder, job->arena);
    if (!err && bytes > 0)
        out->save_seconds = seconds, out->save_bytes = bytes;
}

// --- the document ------------------------------------------------------------

static void fill_rate(struct pilot *out, const struct job *job)
{
    const struct steady *steady = &job->steady;
    const struct pilot_steps *steps = &job->steps;
    out->tokens_per_s = (struct pilot_rate){ steady->tokens_per_s.mid, steady->tokens_per_s.low,
                                             steady->tokens_per_s.high };
    out->warmup_steps = steady->warmup_steps;
    out->steps = steady->ordinary_steps;
    out->steady = steady->verdict == STEADY_YES;
    out->verdict = steady->reason;
    const char *brief =
        job->request->steps ? NULL : steady_too_brief(steady, job->request->at_least, job->arena);
    if (brief)
        out->steady = false, out->verdict = brief;
    size_t first = (size_t)steady->warmup_steps, count = 0;
    double *seconds = ARENA_NEW(job->arena, double, steps->step_count + 1);
    struct pilot_composition sum = { 0 };
    for (size_t i = first; i < steps->step_count; i++) {
        seconds[count++] = steps->steps[i].seconds;
        sum.tokens += steps->of_steps[i].tokens;
        sum.squares += steps->of_steps[i].squares;
        sum.labelled += steps->of_steps[i].labelled;
    }
    if (!count)
        return;
    double n = (double)count;
    out->composition =
        (struct pilot_composition){ sum.tokens / n, sum.squares / n, sum.labelled / n };
    out->step_seconds.mean = stats_mean(seconds, count);
    stats_sort(seconds, count);
    out->step_seconds.p10 = stats_quantile(seconds, count, 0.1);
    out->step_seconds.p50 = stats_quantile(seconds, count, 0.5);
    out->step_seconds.p90 = stats_quantile(seconds, count, 0.9);
    out->step_seconds.p99 = stats_quantile(seconds, count, 0.99);
    out->step_seconds.max = seconds[count - 1];
    struct steady_recurring recurring = steady_recurring(steady);
    out->stalls.other_seconds = steady->slow[STEADY_STALL].extra_seconds;
    out->stalls.recurring_share = recurring.share;
    out->stalls.recurring_error = recurring.error;
}

static void fill_gpu(struct pilot *out, const struct job *job)
{
    struct pilot_gpu *gpu = &out->gpu;
    bool is_gpu = device_is_gpu(&job->device);
    gpu->name = is_gpu ? text_copy(job->arena, text_of(job->device.name)) : "cpu";
    gpu->count = job->group.size;
    if (job->device.total_bytes > 0)
        gpu->memory_bytes = (double)job->device.total_bytes;
    out->peak_bytes = (double)job->device.allocated_bytes;
    if (!job->monitor || job->device.index >= gpu_monitor_count(job->monitor))
        return;
    const struct gpu_about *about = gpu_monitor_about(job->monitor, job->device.index);
    struct gpu_summary s =
        gpu_monitor_summary(job->monitor, job->device.index, job->steady_from, clock_seconds());
    out->peak_bytes = s.peak_bytes;
    gpu->memory_bytes = about->memory_bytes;
    gpu->power_watts = s.watts, gpu->power_limit_watts = about->power_limit_watts;
    gpu->clock_hertz = s.clock_hertz, gpu->clock_limit_hertz = about->clock_limit_hertz;
    gpu->temperature_celsius = s.celsius;
    gpu->utilisation = s.utilisation;
    gpu->throttled_share = s.throttled_share;
    struct out why = { .arena = job->arena };
    for (int i = 0; i < GPU_THROTTLES; i++)
        if (s.throttled[i] > 0)
            out_put(&why, "%s%s %.0f %%", why.size ? ", " : "",
                    gpu_throttle_name((enum gpu_throttle)i), 100 * s.throttled[i]);
    gpu->throttling = why.size ? out_string(&why) : NULL;
}

static enum err fill_configuration(struct pilot *out, const struct job *job)
{
    double micro_batches = (double)job->training.settings.accumulation;
    struct engine_run run = { .transformer = &job->transformer,
                              .group = &job->group,
                              .device = &job->device,
                              .arrangement = &job->arrangement,
                              .accumulation = micro_batches,
                              .batch = { .tokens = out->composition.tokens / micro_batches,
                                         .squares = out->composition.squares / micro_batches } };
    out->configuration = job->configuration;
    out->objective = job->pairs ? objective_names[OBJECTIVE_DPO] : NULL;
    out->stack = out->trainer = "native";
    return engine_run_describe(&out->configuration, &run, job->line);
}

static enum err conclude(struct pilot *out, struct job *job)
{
    bool is_too_short = job->steady.ordinary_steps < 1 || !(job->steady.tokens_per_s.mid > 0);
    TRY(decide(job, &is_too_short));
    if (is_too_short) {
        double seconds = clock_seconds() - job->began, count = (double)job->steps.step_count;
        if (stop_asked)
            return fail(ERR_ANSWER,
                        "stopped after %zu step%s in %.0f s: too few for a result, which needs at "
                        "least %d after the warm-up",
                        job->steps.step_count, text_plural(count), seconds, STEADY_LEAST);
        return fail(ERR_ANSWER,
                    "%zu step%s of %lld micro-batch%s in %.0f s are too few for a result, which "
                    "needs at least %d steps after the warm-up: give --minutes %.0f, or a plan "
                    "with a smaller --global-batch",
                    job->steps.step_count, text_plural(count),
                    (long long)job->training.settings.accumulation,
                    job->training.settings.accumulation == 1 ? "" : "es", seconds, STEADY_LEAST,
                    ceil((STEADY_LEAST + 4) * seconds / fmax(1, count) / 60));
    }
    fill_rate(out, job);
    pilot_fit_make(&out->fit, job->arena, job->steps.samples, job->steps.sample_count);
    out->apart.startup_seconds = job->first_step_seconds;
    out->apart.update_seconds =
        pilot_steps_update(&job->steps, &out->fit, job->steady.warmup_steps, job->arena);
    if (job->group.size > 1 && job->steps.step_count) {
        double steps = (double)job->steps.step_count;
        out->apart.communication_seconds = job->steps.between.all / steps;
        out->apart.waited_seconds = job->steps.between.waited / steps;
    }
    fill_gpu(out, job);
    TRY(fill_configuration(out, job));
    bool evaluates = !stop_asked;
    TRY(decide(job, &evaluates));
    if (evaluates)
        TRY(pilot_steps_evaluate(&job->steps, &out->apart.evaluation_seconds_per_token));
    time_save(job, &out->apart);
    out->elapsed_seconds = clock_seconds() - job->began;
    out->as_of = data_today(job->arena);
    return OK;
}

enum err pilot_engine_run(struct pilot *out, struct command_line *line,
                          const struct pilot_engine_request *request, bool *is_told)
{
    struct job *job = ARENA_NEW(line->arena, struct job, 1);
    *job = (struct job){
        .arena = line->arena, .line = line, .request = request, .began = clock_seconds()
    };
    pilot_clear(out);
    TRY(ranks_open(&job->group, line, "pilot", request->ranks, is_told));
    if (*is_told)
        return OK;
    stop_listen();
    enum err err = prepare(job);
    job->steady_from = clock_seconds();
    if (!err)
        err = measure(job);
    if (!err)
        err = conclude(out, job);
    err = ranks_report(&job->group, err);
    *is_told = job->group.rank > 0;
    gpu_monitor_end(job->monitor);
    transformer_release(&job->transformer);
    group_close(&job->group);
    if (job->device.backend)
        job->device.backend->close(&job->device);
    loader_release(&job->loader);
    engine_model_close(&job->model);
    return err;
}
