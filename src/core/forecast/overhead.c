// SPDX-License-Identifier: Apache-2.0
// The overhead model: assumptions with their sources, and one run with given values.

#include "core/forecast/overhead.h"

#include "core/objective/rollout.h"

#include <math.h>

enum { RECOMPILE_LIMIT = 8 }; // of PyTorch: programs that torch.compile makes of one function

const char *const overhead_names[] = {
    "training",
    "start-up",
    "compilation",
    "loading weights",
    "new widths",
    "data stalls",
    "recurring stalls",
    "evaluation",
    "saves",
    "failures",
    "failed and repeated runs",
};

const char *const overhead_cache_names[] = { "cold", "warm", NULL };

static struct assumption certain(const char *name, const char *unit, double value,
                                 const char *source)
{
    return (struct assumption){ name,   unit, { value, value, value }, ASSUMPTION_ASSUMED,
                                source, NULL };
}

static enum err fact(const struct fact **out, const struct catalog *catalog, const char *topic,
                     const char *item)
{
    *out = catalog_operation(catalog, topic, item);
    return *out ? OK
                : fail(ERR_INPUT, "operations.csv: has no row \"%s\" of topic \"%s\"", item, topic);
}

// Failure rates of large clusters: Meta's second research cluster, its first, and what jobs of
// 1,024 GPUs on the first met.
static enum err assume_failures(struct overheads *out, const struct catalog *catalog)
{
    const struct fact *calm, *usual, *jobs;
    TRY(fact(&calm, catalog, "failure", "node failure rate RSC-2"));
    TRY(fact(&usual, catalog, "failure", "node failure rate RSC-1"));
    TRY(fact(&jobs, catalog, "failure", "job MTTF 1024 GPUs"));
    const double gpu_hours_per_node_day = 8 * 24;
    out->failures_per_gpu_hour = (struct assumption){
        "failures",
        "1/GPU-hour",
        { calm->typical / gpu_hours_per_node_day, usual->typical / gpu_hours_per_node_day,
          1 / (jobs->typical * 1024) },
        ASSUMPTION_CATALOG,
        usual->source,
        usual->as_of,
    };
    return OK;
}

// Attempts that end by a mistake rather than by broken hardware: a wrong path, a row that does not
// fit, a full disk. From jobs of 512 GPUs and more, which are prepared with most care, over all
// jobs of a cluster for deep learning to all jobs of one for language models, half of them trials.
static enum err assume_failed_runs(struct overheads *out, const struct catalog *catalog)
{
    const struct fact *careful, *usual, *trials;
    TRY(fact(&careful, catalog, "failure", "failed over other jobs of 512 GPUs and more, Seren"));
    TRY(fact(&usual, catalog, "failure", "failed over other jobs, Helios"));
    TRY(fact(&trials, catalog, "failure", "failed over other jobs, Kalos"));
    out->failed_runs = (struct assumption){
        "failed runs",
        "per run that ends well",
        { careful->typical, usual->typical, trials->typical },
        ASSUMPTION_CATALOG,
        usual->source,
        usual->as_of,
    };
    return OK;
}

// From a cloud's remote disks to a local NVMe drive, unless the node's row has a figure of its own.
static enum err assume_storage(struct overheads *out, const struct catalog *catalog,
                               const struct node *node)
{
    const struct fact *remote, *local;
    TRY(fact(&remote, catalog, "storage", "Azure ND H100 v5 remote disks"));
    TRY(fact(&local, catalog, "storage", "Samsung 980 PRO sequential-file read"));
    double slow = remote->typical * 1e6, fast = local->typical * 1024 * 1024;
    out->storage_bytes_per_s = (struct assumption){
        "storage throughput", "bytes/s",      { slow, sqrt(slow * fast), fast },
        ASSUMPTION_CATALOG,   remote->source, remote->as_of,
    };
    if (node && node->remote_storage_bytes_per_s > 0) {
        double known = node->remote_storage_bytes_per_s;
        out->storage_bytes_per_s.value = (struct range){ 0.8 * known, known, fmax(known, fast) };
        out->storage_bytes_per_s.source = node->source;
        out->storage_bytes_per_s.as_of = node->as_of;
    }
    return OK;
}

// torch.compile makes its first program for the very width it sees, and at the second width one for
// all widths. What that one still assumes (a size that divides, a stride) is made again when it
// fails, at most eight times in all; from then on the function runs uncompiled. Nobody measured how
// often.
static struct assumption count_compilations(double widths)
{
    bool vary = widths > 1;
    return (struct assumption){ "compilations",
                                "programs",
                                { vary ? 2 : 1, vary ? 2 : 1, vary ? RECOMPILE_LIMIT : 1 },
                                ASSUMPTION_ASSUMED,
                                vary ? "PyTorch: the first width, then all; recompile_limit 8"
                                     : "one width",
                                "2026-11" };
}

enum err overhead_assume(struct overheads *out, const struct catalog *catalog,
                         const struct node *node)
{
    const struct fact *held_out;
    *out = (struct overheads){ .gpus = 1,
                               .epochs = 1,
                               .steps = 1,
                               .evaluate_every = NAN,
                               .save_every = NAN,
                               .saves_per_epoch = NAN };
    out->startup_seconds = (struct assumption){
        "start-up", "s", { 60, 180, 600 }, ASSUMPTION_ASSUMED, "container, imports, process groups",
        NULL,
    };
    out->compile_seconds = (struct assumption){
        "compilation",
        "s",
        { 30, 75, 240 },
        ASSUMPTION_ASSUMED,
        "of one program of a compiled model; more with model size",
        NULL,
    };
    out->compilations = count_compilations(1);
    TRY(assume_storage(out, catalog, node));
    TRY(fact(&held_out, catalog, "evaluation", "axolotl val_set_size common values"));
    out->eval_share = (struct assumption){
        "evaluation share", "of the tokens",  { held_out->low, held_out->typical, held_out->high },
        ASSUMPTION_CATALOG, held_out->source, held_out->as_of,
    };
    out->evals_per_epoch = certain("evaluations", "1/epoch", 1, "once an epoch");
    TRY(assume_failures(out, catalog));
    out->save_interval_seconds =
        certain("save interval", "s", NAN, "Young-Daly interval, at least once an epoch");
    out->retries = certain("retries", "runs", 0, "one run; --retries adds more");
    TRY(assume_failed_runs(out, catalog));
    out->data_bytes_per_token = certain("data read", "bytes/token", 8, "token ids and labels");
    return OK;
}

// PyTorch runs attention through cuDNN on Hopper and newer, and builds a plan for each shape. Rows
// that lie end to end need a kernel that takes lengths as they come (FlashAttention's), which has
// no plans.
static bool runs_cudnn(const struct gpu *gpu)
{
    return !gpu || catalog_capability(gpu) >= 9;
}

static struct assumption spread_over(const char *name, double low, double mid, double high,
                                     bool measured, const char *source)
{
    return (struct assumption){
        name,   "s",      { low, mid, high }, measured ? ASSUMPTION_MEASURED : ASSUMPTION_ASSUMED,
        source, "2026-11"
    };
}

// Measured on H200s with transformers and PEFT: 0.10 to 0.12 s for each new width of a micro-batch
// alone; in 23 runs of the Trainer on four machines 0.145 s (80 % of them 0.11 to 0.19), of 1B, 3B
// and 8B alike.
//
// Kernels differ by the alignment of a width: odd, or divisible by 2, by 4, by 8. The first step of
// each alignment reads its kernels from the library's files: on a machine that never did so before
// 6.0, 6.8 and 8.7 s in all with 16 layers and 8.0, 10.7 and 13.4 s with 28; on one that has run
// the trainer before, the first step alone takes 0.3 to 0.8 s more. The first evaluation loads
// kernels of its own: 2.4 s with batches of three alignments, 2.7, 3.9 and 4.2 s with four,
// whatever the layers; on a machine that has evaluated before, 0.3 s. Nobody measured other stacks
// and older GPUs.
void overhead_first_sights(struct overheads *out, const struct stack *stack, const struct gpu *gpu,
                           const struct step_batch *batch, double layers, double alignments)
{
    const double known = 0.1; // seconds; stacks that nobody measured have less
    double width = stack->first_width_seconds;
    double first = stack->first_steps_seconds * layers * fmax(1, alignments);
    bool measured = width >= known && runs_cudnn(gpu) && !batch->packed;
    if (width >= known && !measured)
        width = 0.02;
    out->first_width_seconds =
        spread_over("first sight of a width", width * (measured ? 0.7 : 0.2), width,
                    width * (measured ? 1.4 : 6), measured,
                    measured        ? "on an H200, transformers with PEFT"
                    : batch->packed ? "not measured where rows lie end to end"
                                    : "not measured for this stack and GPU");
    bool warm = out->file_cache == CACHE_WARM;
    const struct range share =
        warm ? (struct range){ 0.05, 0.1, 0.2 } : (struct range){ 0.1, 1, measured ? 1.5 : 2.2 };
    double evaluation = stack->first_steps_seconds > 0 ? fmax(1, alignments) : 0;
    out->evaluation_load_seconds = evaluation;
    out->first_evaluation_seconds =
        spread_over("first evaluation", evaluation * share.low, evaluation * share.mid,
                    evaluation * share.high, measured, "its kernels are loaded");
    out->first_steps_seconds = spread_over(
        "first steps", first * share.low, first * share.mid, first * share.high, measured,
        !measured ? "kernels are loaded; not measured for this stack and GPU"
        : warm    ? "kernels are loaded; on an H200 that had run the trainer"
                  : "kernels are loaded; on an H200, fresh and not");
}

void overhead_configure(struct overheads *out, const struct setup *setup, const struct step *step,
                        double evaluation_share)
{
    struct recipe recipe = estimate_recipe(setup);
    const struct layout *layout = &setup->layout;
    double ranks = (double)(layout->tensor * (layout->split ? 1 : layout->pipeline));
    double trained = step->trained_weights * ranks;
    double weight = recipe.method == RECIPE_FULL ? 2 : recipe_dtype_bytes(recipe.adapter_dtype);
    double master = recipe.method == RECIPE_FULL && recipe.weights == RECIPE_FP32 ? 4 : 0;
    out->save_bytes = trained * (weight + master + recipe_state_bytes(&recipe, recipe.states));
    bool sharded = layout->zero > 0 || layout->tensor > 1 || layout->pipeline > 1;
    if (sharded && setup->node && setup->node->gpus > 0)
        out->save_bytes /= ceil((double)layout_gpus(layout) / (double)setup->node->gpus);
    // Weights are read from 16-bit files, even where they are then quantized.
    out->load_bytes = out->startup_loads ? 0 : 2 * (double)model_parameters(setup->model);
    out->eval_cost = evaluation_share;
    out->new_widths = setup->distinct_widths;
    overhead_first_sights(out, setup->stack, setup->gpu, &setup->batch, step->layers,
                          setup->alignments);
    out->gpus = (double)layout_gpus(layout);
    if (setup->passes.rollout)
        out->gpus += setup->passes.rollout->gpus; // those that only sample
    out->compiles = setup->stack->kernels == STACK_COMPILED;
    out->compilations = count_compilations(setup->distinct_widths);
}

void overhead_pace(struct overheads *out, double epochs, double steps)
{
    out->epochs = epochs;
    out->steps = steps;
    if (!isnan(out->saves_per_epoch))
        out->save_every =
            out->saves_per_epoch > 0 ? fmax(1, steps / (epochs * out->saves_per_epoch)) : 0;
    if (isnan(out->evaluate_every))
        return;
    double count = out->evaluate_every > 0 ? floor(steps / out->evaluate_every) : 1;
    out->evals_per_epoch = assumption_given(out->evals_per_epoch, count / epochs);
}

double overhead_save_interval(double save_seconds, double mean_seconds_between_failures)
{
    return sqrt(2 * save_seconds * mean_seconds_between_failures);
}

double overhead_count(double mean, double chance)
{
    if (isnan(chance) || !(mean > 0))
        return mean > 0 ? mean : 0;
    if (mean > 100) // close to a normal distribution, and the sum below would be long
        return fmax(0, rint(mean + sqrt(mean) * stats_normal_quantile(fmax(chance, 1e-12))));
    double probability = exp(-mean), below = probability;
    int count = 0;
    while (chance >= below && count < 1000) {
        probability *= mean / ++count;
        below += probability;
    }
    return count;
}

double overhead_further_runs(double retries, double chance)
{
    double whole = floor(retries);
    return whole + overhead_count(retries - whole, chance);
}

// The same as overhead_count(); most outcomes have no event, since e^-mean is above 1 - mean, which
// is at least 1 where none is expected.
static inline double count_events(double mean, double chance)
{
    if (isnan(chance))
        return mean > 0 ? mean : 0;
    return chance < 1 - mean ? 0 : overhead_count(mean, chance);
}

struct overhead_draw overhead_middle(const struct overheads *overheads)
{
    return (struct overhead_draw){
        .startup_seconds = overheads->startup_seconds.value.mid,
        .compile_seconds = overheads->compile_seconds.value.mid,
        .storage_bytes_per_s = overheads->storage_bytes_per_s.value.mid,
        .evaluation = overhead_evaluation(overheads)->value.mid,
        .save_seconds = overheads->save_seconds.value.mid,
        .stall_share = overheads->stall_share.value.mid,
        .failures_per_gpu_hour = overheads->failures_per_gpu_hour.value.mid,
        .failed_runs = overhead_count(overheads->failed_runs.value.mid, NAN),
        .retries = overhead_count(overheads->retries.value.mid, NAN),
        .first_width_seconds = overheads->first_width_seconds.value.mid,
        .first_steps_seconds = overheads->first_steps_seconds.value.mid,
        .first_evaluation_seconds = overheads->first_evaluation_seconds.value.mid,
        .compilations = overheads->compilations.value.mid,
        .failure_chance = NAN,
        .lost_share = 0.5,
    };
}

// What a save takes before its first byte: files are made, states gathered and serialised. The
// Trainer's saves of 0.14 GB of adapters took 0.2 to 0.4 s on an H200's own disk.
static const double SAVE_SECONDS = 0.25;

// Seconds between saves during one run: an epoch, or less where failures are expected.
static double save_interval(const struct overheads *o, const struct overhead_draw *draw,
                            double working_seconds, double save_seconds)
{
    double interval = o->save_interval_seconds.value.mid;
    if (!isnan(o->save_every)) {
        interval = working_seconds * (o->save_every > 0 ? o->save_every / o->steps : 1);
    } else if (isnan(interval)) {
        double failures_per_s = draw->failures_per_gpu_hour * o->gpus / 3600;
        interval = fmin(working_seconds / o->epochs,
                        overhead_save_interval(save_seconds, 1 / failures_per_s));
    }
    return fmax(interval, save_seconds);
}

// Mistakes show early, broken hardware at any time. The square, a third on average, makes failed
// attempts take the share of GPU time that clusters measured: see "GPU time of failed over other
// jobs" in operations.csv.
static double early(double lost_share)
{
    return lost_share * lost_share;
}

static inline void run(struct overhead_times *out, const struct overheads *o,
                       const struct overhead_draw *draw, double train, double tokens)
{
    double startup = draw->startup_seconds;
    double compilation =
        o->compiles ? draw->compile_seconds * fmin(draw->compilations, RECOMPILE_LIMIT) : 0;
    double loading = o->load_bytes / draw->storage_bytes_per_s;
    double widths = o->new_widths * draw->first_width_seconds + draw->first_steps_seconds;
    double reading = tokens * o->data_bytes_per_token.value.mid / draw->storage_bytes_per_s;
    double stalls = fmax(0, reading - train); // else it overlaps the steps
    double recurring = draw->stall_share * train;
    double evaluation =
        o->evals_per_epoch.value.mid * (overhead_evaluation(o) == &o->evaluation_seconds
                                            ? o->epochs * draw->evaluation
                                            : train * draw->evaluation * o->eval_cost);
    if (evaluation > 0)
        evaluation += draw->first_evaluation_seconds;
    double working = train + stalls + recurring + evaluation;
    double save = draw->save_seconds > 0 ? draw->save_seconds
                  : o->save_bytes > 0    ? SAVE_SECONDS + o->save_bytes / draw->storage_bytes_per_s
                                         : 0;
    double interval = save_interval(o, draw, working, save);
    double save_count = fmax(1, ceil(working / fmax(1e-9, interval)));
    double saves = save_count * save;

    double begin = startup + compilation + loading + widths, unsaved = fmin(working, interval);
    double once = begin + working + saves;
    double mean = draw->failures_per_gpu_hour * o->gpus * once / 3600;
    double failure_count = count_events(mean, draw->failure_chance);
    double failures = failure_count * (begin + draw->lost_share * unsaved);
    double failed = draw->failed_runs * early(draw->lost_share) * (begin + unsaved);
    double retries = failed + draw->retries * (once + failures + failed);
    *out = (struct overhead_times){
        .seconds = { [OVERHEAD_TRAINING] = train,
                     [OVERHEAD_STARTUP] = startup,
                     [OVERHEAD_COMPILATION] = compilation,
                     [OVERHEAD_LOADING] = loading,
                     [OVERHEAD_WIDTHS] = widths,
                     [OVERHEAD_STALLS] = stalls,
                     [OVERHEAD_RECURRING] = recurring,
                     [OVERHEAD_EVALUATION] = evaluation,
                     [OVERHEAD_SAVES] = saves,
                     [OVERHEAD_FAILURES] = failures,
                     [OVERHEAD_RETRIES] = retries },
        .wall_seconds = once + failures + retries,
        .saves = save_count,
        .failures = failure_count,
        .failed_runs = draw->failed_runs,
        .save_interval_seconds = interval,
    };
}

void overhead_run(struct overhead_times *out, const struct overheads *o,
                  const struct overhead_draw *draw, double train_seconds, double tokens)
{
    run(out, o, draw, train_seconds, tokens);
}

// run() is compiled into these two, where most of its times stay in registers: a search draws
// hundreds of thousands of outcomes, a comparison of places a million.
double overhead_wall(const struct overheads *o, const struct overhead_draw *draw,
                     double train_seconds, double tokens)
{
    struct overhead_times times;
    run(&times, o, draw, train_seconds, tokens);
    return times.wall_seconds;
}

void overhead_walls(double *wall_seconds, const struct overheads *o,
                    const struct overhead_columns *columns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct overhead_draw draw = {
            .startup_seconds = columns->startup_seconds[i],
            .compile_seconds = columns->compile_seconds[i],
            .storage_bytes_per_s = columns->storage_bytes_per_s[i],
            .evaluation = columns->evaluation[i],
            .save_seconds = columns->save_seconds[i],
            .stall_share = columns->stall_share[i],
            .failures_per_gpu_hour = columns->failures_per_gpu_hour[i],
            .failed_runs = columns->failed_runs[i],
            .retries = columns->retries[i],
            .first_width_seconds = o->first_width_seconds.value.mid,
            .first_steps_seconds = o->first_steps_seconds.value.mid,
            .first_evaluation_seconds = o->first_evaluation_seconds.value.mid,
            .compilations = o->compilations.value.mid,
            .failure_chance = columns->failure_chance[i],
            .lost_share = columns->lost_share[i],
        };
        struct overhead_times times;
        run(&times, o, &draw, columns->train_seconds[i], columns->tokens[i]);
        wall_seconds[i] = times.wall_seconds;
    }
}
