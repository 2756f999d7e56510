// SPDX-License-Identifier: Apache-2.0
// gpuhours train: fine-tunes a model on this machine: full, LoRA or QLoRA.
//
// Reads and packs the data, lays the model out in planned memory, resumes from the newest
// checkpoint in --out if there is one, and writes an adapter or a model that other tools can load.

#include "cli/data.h"
#include "cli/engine/engine_model.h"
#include "cli/engine/train_data.h"
#include "cli/engine/train_out.h"
#include "cli/engine_run.h"
#include "cli/ledger_entry.h"
#include "cli/ranks.h"
#include "cli/terminal/print.h"
#include "cli/terminal/stop.h"
#include "cli/train_progress.h"
#include "train/arrange.h"
#include "train/device.h"
#include "train/transformer_files.h"
#include "train/training.h"

#include "base/checksum.h"
#include "host/clock.h"
#include "host/file.h"
#include "host/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const precisions[] = { "auto", "fp32", "bf16", "fp8", NULL };
enum { PRECISION_AUTO, PRECISION_FP32, PRECISION_BF16, PRECISION_FP8 };
static const char *const objectives[] = { "sft", "dpo", NULL };
enum { TRAIN_SFT, TRAIN_DPO };
static const char *const states[] = { "fp32", "bf16", NULL };
static const char *const optimizers[] = { "adamw", "sgd", NULL };
static const char *const layouts[] = { "auto", "ddp", "zero1", "fsdp", NULL };
enum { PARALLEL_AUTO, PARALLEL_DDP, PARALLEL_ZERO1, PARALLEL_FSDP };
static const char *const tunings[] = { "before", "spread", NULL };
enum { TUNE_BEFORE, TUNE_SPREAD };

static struct request {
    const char *data, *out, *adapter;
    int64_t context, micro_batch, ranks, offload;
    double held_out, memory_limit, beta;
    int objective, device, precision, states, optimizer, recompute, parallel, tune;
    bool random_weights, nondeterministic;
} request;

static const struct field request_fields[] = {
    FIELD(request, data, TEXT, "data set: file or folder; more may follow as plain words",
          .value = "DATA", .fallback = "required"),
    FIELD(request, out, TEXT, "folder for the result, metrics.jsonl and checkpoints",
          .value = "DIR", .fallback = "required"),
    FIELD(request, adapter, TEXT, "folder of an adapter to continue training", .value = "DIR",
          .fallback = "new adapters"),
    FIELD(request, random_weights, FLAG, "start from random weights (for tests)"),
    FIELD_OF(request, objective, objectives,
             "sft, or dpo on chosen and rejected answers (LoRA, QLoRA)", .value = "NAME"),
    FIELD(request, beta, NUMBER, "DPO: how strongly the policy is kept near the reference"),
    FIELD(request, context, COUNT,
          "context window: longest row or answer; 32k is 32,000, 32Ki 32,768", .value = "TOKENS"),
    FIELD(request, micro_batch, COUNT, "rows per forward pass; with DPO a row is two contexts long",
          .fallback = "what fits on a GPU, 1 on a CPU"),
    FIELD(request, ranks, COUNT, "processes to start on this host, one per GPU",
          .fallback = "1, or those of torchrun, srun or mpirun"),
    FIELD(request, held_out, SHARE, "share of the examples held out for evaluation"),
    FIELD_OF(request, device, device_kinds, "where to compute", .value = "DEVICE"),
    FIELD_OF(request, precision, precisions, "data type of computation (auto: bf16 on a GPU)",
             .value = "DTYPE"),
    FIELD_OF(request, states, states, "data type of gradients and states (bf16: full only)",
             .value = "DTYPE"),
    FIELD_OF(request, optimizer, optimizers, "optimizer", .value = "NAME"),
    FIELD_OF(request, recompute, recompute_names,
             "lightest activation checkpointing (plan: norms selective, block full)",
             .value = "MODE"),
    FIELD(request, offload, COUNT, "layers whose activations wait in host memory",
          .value = "LAYERS"),
    FIELD(request, nondeterministic, FLAG,
          "faster attention in long rows, not reproducible to the bit (GPU)"),
    FIELD_OF(request, tune, tunings,
             "when to tune products: before the first step or between the first", .value = "WHEN"),
    FIELD(request, memory_limit, BYTES,
          "memory to stay below, by recomputing, fewer rows, fsdp, then NF4",
          .fallback = "all of the device"),
    FIELD_OF(request, parallel, layouts,
             "sharded over ranks: ddp nothing, zero1 states, fsdp base and moments",
             .value = "LAYOUT", .fallback = "zero1 for full, ddp or what fits for LoRA"),
    { 0 },
};

static struct recipe recipe;
static const struct field method_fields[] = {
    FIELD_OF(recipe, method, recipe_methods, "training method", .value = "METHOD"),
    FIELD(recipe, rank, COUNT, "LoRA rank"),
    FIELD(recipe, alpha, NUMBER, "LoRA alpha, the scale of the adapters",
          .fallback = "twice the rank"),
    FIELD(recipe, rslora, FLAG, "scale the adapters by alpha / √rank instead of alpha / rank"),
    FIELD(recipe, dora, FLAG, "DoRA: also train a magnitude per output"),
    FIELD(recipe, targets, TEXT, "adapted layers: all-linear, attention, mlp, or a list like q,v",
          .value = "LAYERS"),
    FIELD(recipe, trains_embeddings, FLAG, "train embeddings and head next to the adapters"),
    FIELD(recipe, dropout, SHARE, "dropout on the adapters' input", .fallback = "0"),
    { 0 },
};

static struct dataset_options data;
static struct training_settings settings;

static const struct field base_fields[] = {
    FIELD(dataset_options, model, TEXT, "folder with config.json and safetensors", .value = "DIR",
          .fallback = "required"),
    { 0 },
};

static const struct options *list_options(struct arena *arena)
{
    static const struct options groups[] = {
        OPTIONS("model", base_fields, &data),
        OPTIONS("run", request_fields, &request),
        OPTIONS("method", method_fields, &recipe),
        OPTIONS("optimization", training_fields, &settings),
        OPTIONS("reading the data", dataset_fields, &data),
        { 0 },
    };
    (void)arena;
    request = (struct request){ .context = 2048, .beta = 0.1 };
    recipe = recipe_default();
    settings = training_default();
    data = (struct dataset_options){ 0 };
    return groups;
}

struct job {
    struct arena *arena;
    const struct command_line *line;
    struct group group;
    struct engine_model model;
    struct loader loader;
    struct device device;
    struct arrangement arrangement;
    struct transformer transformer;
    struct training training;
    struct train_progress progress;
    const char *base_sum, *adapter_sum; // checksums of content; NULL: no adapter
};

// --- model and data ----------------------------------------------------------

static enum err open_model(struct job *job)
{
    if (!data.model)
        return fail(ERR_USAGE, "train needs --model: a folder with config.json and *.safetensors");
    TRY(engine_model_open(&job->model, job->arena, data.model, NULL));
    if (!job->model.has_weights && !request.random_weights)
        return fail(ERR_INPUT,
                    "no weights found in %s; give --model a folder with config.json and "
                    "*.safetensors, or --random-weights to train from scratch for a test",
                    data.model);
    bool copies = recipe.method == RECIPE_FULL && job->model.folder; // at the end, hours from now
    return copies ? weights_check_config(job->model.folder, job->arena) : OK;
}

// A run that goes on from an adapter of supervised tuning usually means to be held to it.
static void note_reference(const struct job *job)
{
    if (request.adapter && request.objective == TRAIN_DPO && !job->group.rank)
        print_note("--adapter with --objective dpo: the reference is the model without %s; to make "
                   "the adapter part of it, merge it first: gpuhours merge --model %s "
                   "--adapter %s --out DIR, then train with --model DIR",
                   request.adapter, data.model, request.adapter);
}

// What the context costs: it is no progress, so that --quiet does not silence it.
static void note_context(const struct job *job)
{
    const struct packing_loss *loss = &job->loader.loss;
    const struct model *model = &job->model.decoder.model;
    double longest = fmin(loss->longest, (double)request.context);
    double most = model->max_positions > 0 ? (double)model->max_positions : INFINITY;
    const char *remedy = loss->longest <= most
                             ? text_format(job->arena, "--context %.0f keeps all", loss->longest)
                             : "split long rows into several";
    if (loss->lost > 0)
        print_note("%s; %s", packing_loss_text(loss, job->arena, (double)request.context), remedy);
    if (longest > most)
        print_note("rows of up to %.0f tokens exceed the %lld positions of %s; use RoPE scaling or "
                   "a shorter --context",
                   longest, (long long)model->max_positions, data.model);
}

static enum err read_data(struct job *job, struct command_line *line)
{
    if (request.data)
        line->positional[line->positional_count++] = request.data;
    if (!line->positional_count)
        return fail(ERR_USAGE, "train needs data: --data train.jsonl, or files and folders");
    loader_init(&job->loader, job->arena,
                &(struct loader_settings){ .window = request.context,
                                           .micro_batch = request.micro_batch,
                                           .seed = (uint64_t)settings.seed,
                                           .held_out = request.held_out,
                                           .pairs = request.objective == TRAIN_DPO });
    struct dataset_options asked = data;
    asked.trainer = "native";
    if (request.objective == TRAIN_DPO)
        dataset_label_answers(&asked);
    if (!job->model.folder && asked.tokenizer)
        asked.model = NULL;
    struct train_data files = { .options = &asked,
                                .words = line->positional,
                                .count = (size_t)line->positional_count,
                                .vocabulary = job->model.decoder.model.vocabulary,
                                .quiet = line->common.quiet };
    TRY(train_data_read(&files, &job->loader, job->arena, &job->group));
    job->progress.read_bytes = files.read_bytes;
    job->progress.most_bytes = files.most_bytes;
    TRY(loader_start(&job->loader));
    if (!job->group.rank)
        note_context(job);
    return OK;
}

// --- the run -----------------------------------------------------------------

static bool is_narrow(void)
{
    return request.precision == PRECISION_BF16 || request.precision == PRECISION_FP8;
}

static enum err open_device(struct job *job)
{
    // Each rank takes a GPU of its own.
    TRY(device_open(&job->device, (enum device_kind)request.device, job->group.local_rank));
    TRY(group_use(&job->group, &job->device));
    if (job->group.note && !job->group.rank)
        print_note("%s", job->group.note);
    if (request.precision == PRECISION_AUTO)
        request.precision = device_is_gpu(&job->device) ? PRECISION_BF16 : PRECISION_FP32;
    if (!request.micro_batch && !device_is_gpu(&job->device))
        request.micro_batch = 1;
    return OK;
}

// Ranks may have different free memory: all take the fewest rows and the smallest base of any, and
// share it if one must. How much is recomputed changes no bits and may differ.
static enum err agree(struct job *job)
{
    struct arrangement *a = &job->arrangement;
    double least[] = { (double)a->micro_batch, !a->was_quantized, !a->setup.shards_base };
    TRY(group_least(&job->group, least, 3));
    if ((double)a->micro_batch == least[0] && a->was_quantized == !least[1] &&
        a->setup.shards_base == !least[2])
        return OK;
    struct recipe smaller = *a->setup.recipe;
    bool was_quantized = a->was_quantized || !least[1];
    if (was_quantized)
        smaller.method = RECIPE_QLORA;
    a->setup.recipe = &smaller;
    a->setup.shards_base = !least[2];
    a->micro_batch = (int64_t)least[0];
    enum err err = arrange(a, &job->device, request.memory_limit);
    a->was_quantized = was_quantized;
    return err;
}

static enum err check_layout(void)
{
    bool full = recipe.method == RECIPE_FULL;
    if (full && (request.parallel == PARALLEL_DDP || request.parallel == PARALLEL_FSDP))
        return fail(ERR_USAGE,
                    "--parallel %s is for LoRA and QLoRA; in full training ranks always "
                    "share the optimizer's states: --parallel zero1",
                    layouts[request.parallel]);
    if (!full && request.parallel == PARALLEL_ZERO1)
        return fail(ERR_USAGE, "--parallel zero1 is for full training; LoRA and QLoRA take ddp, or "
                               "fsdp to share the frozen base");
    return OK;
}

static enum err check_offload(const struct model *model)
{
    if (request.offload < 0 || request.offload > model->layers)
        return fail(ERR_USAGE, "--offload is %lld; the model has %lld layers",
                    (long long)request.offload, (long long)model->layers);
    return OK;
}

static enum err fit(struct job *job)
{
    recipe.precision = is_narrow() ? RECIPE_BF16 : RECIPE_FP32;
    recipe.optimizer = request.optimizer ? RECIPE_SGD : RECIPE_ADAMW;
    recipe.dropout = recipe.dropout > 0 ? recipe.dropout : 0;
    recipe.nondeterministic = request.nondeterministic;
    TRY(recipe_check(&recipe, &job->model.decoder.model));
    TRY(check_offload(&job->model.decoder.model));
    struct transformer_setup setup = { .decoder = &job->model.decoder,
                                       .recipe = &recipe,
                                       .compute = is_narrow() ? DTYPE_BF16 : DTYPE_F32,
                                       .level = (enum recompute)request.recompute,
                                       .offloaded = request.offload,
                                       .has_momentum = settings.momentum > 0,
                                       .fp8 = request.precision == PRECISION_FP8,
                                       .bf16_states = request.states != 0,
                                       .any_order = request.nondeterministic,
                                       .beta = request.objective == TRAIN_DPO ? request.beta : 0,
                                       .rank = job->group.rank,
                                       .ranks = job->group.size,
                                       .shards_base = request.parallel == PARALLEL_FSDP };
    job->arrangement =
        (struct arrangement){ .setup = setup,
                              .context = request.context,
                              .micro_batch = request.micro_batch,
                              .may_shard = request.parallel == PARALLEL_AUTO && job->group.size > 1,
                              .may_quantize = request.memory_limit > 0 };
    TRY(arrange(&job->arrangement, &job->device, request.memory_limit));
    TRY(agree(job));
    recipe = job->arrangement.recipe;
    if (job->arrangement.was_quantized && !job->group.rank)
        print_note("to stay under --memory-limit the frozen base is stored in NF4, as with "
                   "--method qlora");
    if (job->arrangement.setup.shards_base && request.parallel == PARALLEL_AUTO && !job->group.rank)
        print_note("to fit into memory the %d ranks share the frozen base, as with --parallel fsdp",
                   job->group.size);
    request.micro_batch = job->arrangement.micro_batch;
    return OK;
}

static enum err lay_out(struct job *job)
{
    struct train_start *start = &job->progress.start;
    double began = clock_seconds();
    TRY(transformer_init(&job->transformer, job->arena, &job->device, &job->arrangement.setup));
    if (job->model.has_weights && !request.random_weights) {
        TRY(transformer_load(&job->transformer, &job->model.weights));
        transformer_random_adapters(&job->transformer, (uint64_t)settings.seed);
    } else {
        if (!job->group.rank && !job->line->common.quiet)
            print_note("training random weights: the result is only a test");
        transformer_random_weights(&job->transformer, (uint64_t)settings.seed);
    }
    if (request.adapter)
        TRY(transformer_load_adapter(&job->transformer, job->arena, request.adapter));
    transformer_loaded(&job->transformer);
    TRY(job->device.backend->sync(&job->device));
    start->weights = clock_seconds() - began;
    transformer_tune(&job->transformer, request.tune == TUNE_SPREAD ? TUNE_LATER : TUNE_NOW);
    enum err err = job->device.backend->sync(&job->device);
    start->tuning = clock_seconds() - began - start->weights;
    return err;
}

static enum err add_file(uint64_t *sum, struct arena *arena, const char *folder, const char *name)
{
    struct file file;
    TRY(file_open(&file, text_format(arena, "%s/%s", folder, name)));
    *sum = checksum(file.text, *sum);
    file_close(&file);
    return OK;
}

// Sums the content that training starts from, so that a resumed run has the same, whatever its path
// is: the model's shape, configuration and weights; and the adapter.
static enum err sum_inputs(struct job *job)
{
    const struct model *model = &job->model.decoder.model;
    const char *shape =
        text_format(job->arena, "%lld %lld %lld %lld", (long long)model_parameters(model),
                    (long long)model->layers, (long long)model->width, (long long)model->heads);
    uint64_t sum = checksum(text_of(shape), 0), adapter = 0;
    if (job->model.folder)
        TRY(add_file(&sum, job->arena, job->model.folder, "config.json"));
    if (job->model.has_weights && !request.random_weights)
        sum = weights_sum(&job->model.weights, sum);
    job->base_sum = checksum_text(job->arena, sum);
    if (!request.adapter)
        return OK;
    TRY(add_file(&adapter, job->arena, request.adapter, "adapter_model.safetensors"));
    job->adapter_sum = checksum_text(job->arena, adapter);
    return OK;
}

// Every option that must be the same when a run is resumed, as JSON under the names of the options;
// how often to save or evaluate may change.
static const char *fingerprint(const struct job *job)
{
    struct training_settings same = settings;
    same.evaluate_every = same.save_every = same.keep = 0;
    struct out out = { .arena = job->arena };
    struct json_writer w = { .out = &out, .compact = true };
    json_open(&w, NULL, '{');
    json_put_string(
        &w, "data",
        text_format(job->arena, "%016llx", (unsigned long long)job->loader.fingerprint));
    json_put_string(&w, "base_weights", job->base_sum);
    json_put_string(&w, "adapter_weights", job->adapter_sum);
    if (request.objective == TRAIN_DPO) // others go on from checkpoints of versions without it
        json_put_number(&w, "beta", request.beta);
    json_put_count(&w, "context", request.context);
    json_put_count(&w, "micro_batch", request.micro_batch);
    json_put_number(&w, "held_out", request.held_out);
    json_put_string(&w, "precision", precisions[request.precision]);
    json_put_string(&w, "states", states[request.states]);
    json_put_string(&w, "optimizer", optimizers[request.optimizer]);
    json_put_bool(&w, "random_weights", request.random_weights);
    field_write(method_fields, &recipe, &w);
    field_write(training_fields, &same, &w);
    json_close(&w, '}');
    return out_string(&out);
}

static enum err save_result(struct job *job)
{
    if (job->group.rank)
        return OK;
    if (recipe.method == RECIPE_FULL)
        return transformer_save(&job->transformer, job->arena, request.out, job->model.folder);
    return transformer_save_adapter(&job->transformer, job->arena, request.out, data.model);
}

// The run in the words of a plan, with the mean micro-batch of its last epoch; all have the same
// rows.
static enum err describe(struct pilot_configuration *out, double *roofline, const struct job *job)
{
    const struct batches *sums = &job->loader.train.packing.sums;
    double batches = (double)job->loader.train.micro_batches;
    struct engine_run run = { .transformer = &job->transformer,
                              .group = &job->group,
                              .device = &job->device,
                              .arrangement = &job->arrangement,
                              .accumulation = (double)settings.accumulation,
                              .batch = { .rows = (double)request.micro_batch,
                                         .tokens = (double)sums->useful_tokens / batches,
                                         .squares = sums->attended / batches,
                                         .labelled = (double)sums->labelled_tokens / batches,
                                         .packed = true } };
    run.batch.width = run.batch.tokens / run.batch.rows;
    struct pilot nothing;
    pilot_clear(&nothing);
    *out = nothing.configuration;
    out->model = job->model.decoder.model.name;
    out->context = (double)request.context;
    TRY(engine_run_describe(out, &run, job->line));
    return engine_run_roofline(roofline, out, &run, job->line);
}

// What the ledger stores of a finished run, with the keys of a plan's configuration.
static enum err make_document(struct text *document, const struct job *job)
{
    const struct checkpoint_state *state = &job->training.state;
    double hours = state->seconds / 3600, roofline;
    struct pilot_configuration configuration;
    TRY(describe(&configuration, &roofline, job));
    struct out out = { .arena = job->arena };
    struct json_writer w = { .out = &out };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "run");
    json_put_count(&w, "version", 1);
    json_put_count(&w, "steps", state->step);
    json_put_count(&w, "trained_tokens", state->trained_tokens);
    json_put_count(&w, "processed_tokens", state->processed_tokens);
    json_put_number(&w, "tokens_per_second", (double)state->processed_tokens / state->seconds);
    json_put_number(&w, "roofline_tokens_per_second", roofline);
    json_put_number(&w, "wall_hours", hours);
    json_put_number(&w, "gpu_hours", hours * job->group.size);
    json_put_number(&w, "held_out_loss", state->best_loss);
    const struct train_start *start = &job->progress.start;
    json_open(&w, "first_step", '{');
    json_put_number(&w, "after_seconds", train_progress_start_seconds(start));
    json_put_number(&w, "prepare_seconds", start->prepare);
    json_put_number(&w, "weights_seconds", start->weights);
    json_put_number(&w, "tuning_seconds", start->tuning);
    json_put_number(&w, "step_seconds", start->first_step);
    json_close(&w, '}');
    if (request.tune == TUNE_SPREAD)
        json_put_number(&w, "spread_tuning_seconds", job->training.tuning_seconds);
    if (job->group.size > 1) {
        json_put_number(&w, "communication_seconds", job->progress.between.all);
        json_put_number(&w, "waited_seconds", job->progress.between.waited);
    }
    pilot_configuration_write(&configuration, &w);
    json_close(&w, '}');
    *document = out_view(&out);
    return OK;
}

static enum err train(struct job *job)
{
    struct training *training = &job->training;
    *training = (struct training){ .settings = settings,
                                   .transformer = &job->transformer,
                                   .loader = &job->loader,
                                   .group = &job->group,
                                   .out = request.out,
                                   .fingerprint = fingerprint(job),
                                   .context = &job->progress,
                                   .report = train_progress_report,
                                   .stop = &stop_asked };
    TRY(training_plan(training));
    TRY(train_out_lock(job->arena, request.out, !job->group.rank));
    TRY(training_resume(training, job->arena));
    if (training->note)
        print_note("%s", training->note);
    train_progress_plan(&job->progress, training);
    enum err err = training_run(training);
    train_progress_end(&job->progress);
    TRY(err);
    if (training->is_stopped) {
        train_progress_result(&job->progress, training);
        return fail(ERR_ANSWER,
                    "stopped at step %lld of %lld and saved; run the same command to continue",
                    (long long)training->state.step, (long long)training->steps);
    }
    TRY(save_result(job));
    train_progress_result(&job->progress, training);
    // Plans of supervised tuning learn from the ledger, whose entries have no objective.
    struct text document;
    if (job->group.rank || request.objective != TRAIN_SFT)
        return OK;
    if (make_document(&document, job)) // the adapter is written: nothing has failed
        ledger_entry_refuse(job->line, error_text());
    else
        ledger_entry_document(job->line, document);
    return OK;
}

static enum err run_job(struct job *job, struct command_line *line)
{
    double began = clock_seconds();
    TRY(open_model(job));
    TRY(train_out_check(request.out, recipe.method == RECIPE_FULL ? job->model.folder : NULL,
                        request.adapter));
    note_reference(job);
    TRY(open_device(job));
    job->progress = train_progress_start(job->line, &job->device, job->group.rank);
    TRY(fit(job));
    TRY(read_data(job, line));
    job->progress.start.prepare = clock_seconds() - began;
    TRY(lay_out(job));
    TRY(sum_inputs(job));
    return train(job);
}

static enum err run(struct command_line *line)
{
    TRY(command_read(line, list_options(line->arena)));
    if (!request.out)
        return fail(ERR_USAGE, "train needs --out: the folder for its result");
    if (request.context < 2 || request.context > 1 << 20 || request.micro_batch > 1 << 16)
        return fail(ERR_USAGE, "--context must be from 2 to 1048576 and --micro-batch at most "
                               "65536");
    if (!(request.beta > 0))
        return fail(ERR_USAGE, "--beta is %g; it must be above 0", request.beta);
    TRY(training_check(&settings));
    TRY(check_layout());
    struct job job = { .arena = line->arena, .line = line };
    bool is_over;
    TRY(ranks_open(&job.group, line, "train", request.ranks, &is_over));
    if (is_over)
        return OK;
    stop_listen();
    enum err err = ranks_report(&job.group, run_job(&job, line));
    train_progress_end(&job.progress);
    transformer_release(&job.transformer);
    group_close(&job.group);
    if (job.device.backend)
        job.device.backend->close(&job.device);
    engine_model_close(&job.model);
    loader_release(&job.loader);
    return err;
}

static const char *const first[] = { "model",        "data",   "out",  "method",  "objective",
                                     "rank",         "epochs", "rate", "context", "micro_batch",
                                     "accumulation", "device", NULL };

static const struct command_example examples[] = {
    { "LoRA on this machine's GPU, or on its processor",
      "gpuhours train --model ./model --data train.jsonl --method lora --rank 16 --out adapters" },
    { "two epochs, a tenth of the examples held out, a checkpoint every 50 steps",
      "gpuhours train --model ./model --data train.jsonl --epochs 2 --held-out 0.1 --save-every 50 "
      "--out tuned" },
    { "DPO on chosen and rejected answers; the reference is the model without adapters",
      "gpuhours train --model ./model --data pairs.jsonl --objective dpo --rate 5e-6 --out dpo" },
    { 0 },
};

const struct command command_train = {
    .name = "train",
    .summary = "fine-tune a model on this machine: full, LoRA or QLoRA",
    .usage = "--model DIR --data DATA --out DIR [OPTION...] [DATA...]",
    .about =
        "Trains a Llama-like decoder with the built-in engine, on an NVIDIA GPU or on the "
        "processor. The same command continues from the newest checkpoint in --out. The result "
        "is an adapter in PEFT's layout, or a model folder; metrics.jsonl has an object per "
        "step.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
