// gpuhours train: fine-tunes a model on this machine: full, LoRA or QLoRA.
//
// Reads and packs the data, lays the model out in planned memory, goes on from the newest
// checkpoint in --out if there is one, and ends with an adapter or a model that others can load.

#include "cli/data.h"
#include "cli/dataset.h"
#include "cli/train_progress.h"
#include "train/transformer_files.h"
#include "train/trainer.h"

#include "host/file.h"
#include "host/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *const precisions[] = { "fp32", "bf16", NULL };
static const char *const optimizers[] = { "adamw", "sgd", NULL };

static struct request {
    const char *out, *adapter;
    int64_t context, micro_batch;
    double held_out, memory;
    int precision, optimizer, recompute;
} request = { .context = 2048, .micro_batch = 1 };

static const struct field request_fields[] = {
    FIELD(request, out, TEXT, "folder for the result, metrics.jsonl and checkpoints"),
    FIELD(request, adapter, TEXT, "folder of an adapter to go on training"),
    FIELD(request, context, COUNT, "tokens of a row"),
    FIELD(request, micro_batch, COUNT, "rows at a time"),
    FIELD(request, held_out, SHARE, "of the examples, for evaluation"),
    FIELD_OF(request, precision, precisions, "what is computed in; masters are fp32"),
    FIELD_OF(request, optimizer, optimizers, "optimizer"),
    FIELD_OF(request, recompute, recompute_names, "in the backward pass, at least"),
    FIELD(request, memory, BYTES, "to stay below, by recomputing; 0: no limit"),
    { 0 },
};

static struct recipe recipe;
static const struct field method_fields[] = {
    FIELD_OF(recipe, method, recipe_methods, "what is trained"),
    FIELD(recipe, rank, COUNT, "of adapters"),
    FIELD(recipe, alpha, NUMBER, "of adapters; twice the rank unless given"),
    FIELD(recipe, targets, TEXT, "adapted linears: all-linear, attention, mlp, or a list like q,v"),
    FIELD(recipe, dropout, SHARE, "on the adapters' input"),
    { 0 },
};

static struct dataset_options data;
static struct trainer_settings settings;

static const struct options *options(void)
{
    static const struct options groups[] = {
        { "Run", request_fields, &request },
        { "Method", method_fields, &recipe },
        { "Training", trainer_fields, &settings },
        { "Data", dataset_fields, &data },
        { 0 },
    };
    return groups;
}

struct job {
    struct arena *arena;
    const struct command_line *line;
    struct group group;
    struct decoder decoder;
    const char *folder; // of the model; NULL where there is only a shape
    struct weights weights;
    bool has_weights;
    struct loader loader;
    int64_t bad_rows;
    struct device device;
    struct transformer transformer;
    struct trainer trainer;
};

// --- signals -----------------------------------------------------------------

static volatile int stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static void listen(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

// --- model and data ----------------------------------------------------------

static bool has_weight_files(const char *folder)
{
    return folder_has(folder, "model.safetensors") ||
           folder_has(folder, "model.safetensors.index.json");
}

static enum err read_config(struct job *job, const char *path)
{
    struct file file;
    TRY(file_open(&file, path));
    struct text copy = { arena_copy(job->arena, file.text.at, file.text.size), file.text.size };
    file_close(&file);
    return decoder_read(&job->decoder, job->arena, copy, path);
}

// A folder with weights, a folder or a config.json without (weights are then random), or a name of
// the catalog (likewise).
static enum err open_model(struct job *job)
{
    const char *name = data.model;
    if (!name)
        return fail(ERR_USAGE, "train wants --model: a folder with config.json and safetensors, or "
                               "a name of the catalog for random weights");
    if (folder_has(name, "config.json")) {
        TRY(read_config(job, text_format(job->arena, "%s/config.json", name)));
        job->folder = name;
        if (!has_weight_files(name))
            return OK;
        TRY(weights_open(&job->weights, job->arena, name));
        job->has_weights = true;
        return weights_check_finite(&job->weights);
    }
    size_t size = strlen(name);
    if (size > 5 && !strcmp(name + size - 5, ".json"))
        return read_config(job, name);
    struct catalog catalog;
    const struct model *model;
    TRY(catalog_open(&catalog, job->arena, NULL, 0));
    TRY(catalog_model(&model, &catalog, name));
    return decoder_of(&job->decoder, job->arena, model);
}

static enum err add_example(void *context, const struct example *example)
{
    struct job *job = context;
    if (example->problem) {
        job->bad_rows++;
        return OK;
    }
    for (int64_t i = 0; i < example->tokens; i++)
        if (example->ids[i] < 0 || example->ids[i] >= job->decoder.model.vocabulary)
            return fail(ERR_INPUT,
                        "%s:%lld: has token %d, the model knows %lld; --tokenizer must be the "
                        "model's own",
                        example->file, (long long)example->line, example->ids[i],
                        (long long)job->decoder.model.vocabulary);
    loader_add(&job->loader, example->ids, example->learned, example->tokens);
    return OK;
}

// Files stand free, or behind --data, which elsewhere names a folder of catalogs.
static enum err read_data(struct job *job, struct command_line *line)
{
    if (line->common.data)
        line->positional[line->positional_count++] = line->common.data;
    if (!line->positional_count)
        return fail(ERR_USAGE, "train wants data: --data train.jsonl, or files and folders");
    loader_init(&job->loader, job->arena,
                &(struct loader_settings){ request.context, request.micro_batch,
                                           (uint64_t)settings.seed, request.held_out });
    struct dataset dataset;
    struct dataset_options asked = data;
    if (!job->folder && asked.tokenizer)
        asked.model = NULL;
    TRY(dataset_open(&dataset, job->arena, &asked));
    struct dataset_reading reading = {
        .context = job, .give = add_example, .wants_ids = true, .quiet = line->common.quiet
    };
    TRY(dataset_read(&dataset, line->positional, (size_t)line->positional_count, &reading));
    return loader_start(&job->loader);
}

// --- the run -----------------------------------------------------------------

static enum err lay_out(struct job *job)
{
    recipe.precision = request.precision ? RECIPE_BF16 : RECIPE_FP32;
    recipe.optimizer = request.optimizer ? RECIPE_SGD : RECIPE_ADAMW;
    recipe.dropout = recipe.dropout > 0 ? recipe.dropout : 0;
    TRY(recipe_check(&recipe, &job->decoder.model));
    int64_t tokens = request.context * request.micro_batch;
    struct transformer_setup setup = { .decoder = &job->decoder,
                                       .recipe = &recipe,
                                       .compute = request.precision ? DTYPE_BF16 : DTYPE_F32,
                                       .tokens = tokens,
                                       .labelled = tokens,
                                       .longest = request.context,
                                       .budget_bytes = request.memory,
                                       .level = (enum recompute)request.recompute,
                                       .has_momentum = settings.momentum > 0 };
    TRY(backend_cpu.open(&job->device, 0));
    TRY(transformer_init(&job->transformer, job->arena, &job->device, &setup));
    if (job->has_weights) {
        transformer_start_adapters(&job->transformer, (uint64_t)settings.seed);
        TRY(transformer_load(&job->transformer, &job->weights));
    } else {
        transformer_start(&job->transformer, (uint64_t)settings.seed);
    }
    return request.adapter
               ? transformer_load_adapter(&job->transformer, job->arena, request.adapter)
               : OK;
}

// All that a checkpoint must agree with; how often to save or look does not matter.
static const char *fingerprint(const struct job *job)
{
    struct trainer_settings same = settings;
    same.evaluate_every = same.save_every = same.keep = 0;
    struct out out = { .arena = job->arena };
    struct json_writer w = { .out = &out, .compact = true };
    json_open(&w, NULL, '{');
    json_put_string(
        &w, "data",
        text_format(job->arena, "%016llx", (unsigned long long)job->loader.fingerprint));
    json_put_string(&w, "model", data.model);
    json_put_string(&w, "adapter", request.adapter);
    json_put_count(&w, "context", request.context);
    json_put_count(&w, "micro_batch", request.micro_batch);
    json_put_number(&w, "held_out", request.held_out);
    json_put_count(&w, "precision", request.precision);
    json_put_count(&w, "optimizer", request.optimizer);
    field_write(method_fields, &recipe, &w);
    field_write(trainer_fields, &same, &w);
    json_close(&w, '}');
    return out_string(&out);
}

// One run at a time writes to a folder. The lock goes with the process, however that ends.
static enum err lock_folder(struct job *job)
{
    if (mkdir(request.out, 0777) && errno != EEXIST)
        return fail(ERR_INPUT, "%s: cannot be made: %s", request.out, strerror(errno));
    if (job->group.rank)
        return OK;
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    const char *path = text_format(job->arena, "%s/.lock", request.out);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail(ERR_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    if (fcntl(fd, F_SETLK, &whole))
        return fail(ERR_INPUT, "%s: another run is writing there; choose another --out",
                    request.out);
    return OK; // the file stays open
}

static enum err save_result(struct job *job)
{
    if (job->group.rank)
        return OK;
    if (recipe.method == RECIPE_FULL)
        return transformer_save(&job->transformer, job->arena, request.out, job->folder);
    return transformer_save_adapter(&job->transformer, job->arena, request.out, data.model);
}

static enum err train(struct job *job)
{
    struct trainer *trainer = &job->trainer;
    struct train_progress progress = train_progress_start(job->line, &job->device, job->group.rank);
    *trainer = (struct trainer){ .settings = settings,
                                 .transformer = &job->transformer,
                                 .loader = &job->loader,
                                 .group = job->group,
                                 .out = request.out,
                                 .fingerprint = fingerprint(job),
                                 .context = &progress,
                                 .report = train_progress_report,
                                 .stop = &stop };
    TRY(trainer_plan(trainer));
    TRY(lock_folder(job));
    TRY(trainer_resume(trainer, job->arena));
    train_progress_plan(&progress, trainer);
    enum err err = trainer_run(trainer);
    train_progress_end(&progress);
    TRY(err);
    if (trainer->is_stopped)
        return fail(ERR_ANSWER, "stopped at step %lld of %lld and saved; the same command goes on",
                    (long long)trainer->state.step, (long long)trainer->steps);
    TRY(save_result(job));
    train_progress_result(&progress, trainer);
    return OK;
}

static enum err run_job(struct job *job, struct command_line *line)
{
    TRY(open_model(job));
    TRY(read_data(job, line));
    TRY(lay_out(job));
    return train(job);
}

static enum err run(struct command_line *line)
{
    recipe = recipe_default();
    settings = trainer_default();
    TRY(command_read(line, options()));
    if (!request.out)
        return fail(ERR_USAGE, "train wants --out with the folder for its result");
    if (request.context < 2 || request.context > 1 << 20 || request.micro_batch < 1 ||
        request.micro_batch > 1 << 16)
        return fail(ERR_USAGE, "--context must be from 2 to 1048576 and --micro-batch from 1 to "
                               "65536");
    struct job job = { .arena = line->arena, .line = line };
    TRY(group_open(&job.group));
    listen();
    enum err err = run_job(&job, line);
    transformer_release(&job.transformer);
    if (job.device.backend)
        job.device.backend->close(&job.device);
    if (job.has_weights)
        weights_release(&job.weights);
    loader_release(&job.loader);
    if (err && err != ERR_ANSWER && job.group.size > 1) { // the others wait for this one
        fprintf(stderr, "gpuhours: %s\n", error_text());
        group_abort(&job.group, err);
    }
    group_close(&job.group);
    return err;
}

const struct command command_train = {
    "train",
    "fine-tunes a model on this machine",
    "gpuhours train --model ./llama --data train.jsonl --method lora --rank 16 --out adapters",
    run,
    options,
};
