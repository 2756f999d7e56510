// SPDX-License-Identifier: Apache-2.0
// Reads, checks and writes requests: the options of `gpuhours plan` as a struct.

#include "base/embedded.h"
#include "core/data/record.h"
#include "core/plan/plan_internal.h"

#include <math.h>
#include <string.h>

const struct field plan_fields[] = {
    FIELD(plan_request, model, TEXT, "catalog name, folder or config.json", .value = "MODEL",
          .fallback = "required"),
    FIELD_OF(plan_request, objective, objective_names,
             "training objective; with preference data, batch sizes count pairs", .value = "NAME",
             .fallback = "sft, or that of --from", .since = "0.3.0"),
    FIELD_OF(plan_request, reference, objective_reference_names,
             "reference policy of preference tuning and RL", .value = "FROM",
             .fallback = "the model with adapters switched off, else a second model",
             .since = "0.3.0"),
    FIELD(plan_request, generations, COUNT, "RL: answers sampled to each prompt",
          .fallback = "8; dapo 16, rloo 2, ppo 1", .since = "0.3.0"),
    FIELD(plan_request, response_length, TEXT, "RL: tokens of an answer as P10,P50,P90",
          .value = "P10,P50,P90", .fallback = "required with grpo, ppo …", .since = "0.3.0"),
    FIELD(plan_request, response_limit, COUNT, "RL: tokens at which an answer is cut off",
          .value = "TOKENS", .fallback = "the context less the prompt", .since = "0.9.9"),
    FIELD_OF(plan_request, sampler, sampler_names, "RL: engine that samples answers",
             .value = "ENGINE", .since = "0.3.0"),
    FIELD_OF(plan_request, sampler_precision, sampler_precisions,
             "RL: precision of the weights that sample", .value = "PRECISION", .since = "0.4.0"),
    FIELD(plan_request, sampler_gpus, COUNT,
          "RL: GPUs of --gpus that only sample; 0: all take turns", .fallback = "best split",
          .since = "0.3.0"),
    FIELD(plan_request, async_steps, COUNT, "RL: steps by which answers may lag behind the weights",
          .fallback = "0, synchronous", .since = "0.4.0"),
    FIELD(plan_request, updates, COUNT,
          "RL: weight updates per step, each on its share of the answers", .fallback = "1",
          .since = "0.5.0"),
    FIELD(plan_request, rounds, COUNT, "RL: passes over the answers of a step", .fallback = "1",
          .since = "0.5.0"),
    FIELD_OF(plan_request, reward, objective_reward_names,
             "RL: what scores the answers (model: a frozen one of the same size)", .value = "BY",
             .since = "0.4.0"),
    FIELD(plan_request, steps, COUNT, "optimizer steps of the run, in place of --epochs",
          .fallback = "by --epochs", .since = "0.3.0"),
    FIELD(plan_request, tokens, COUNT,
          "tokens in the data set, e.g. 21.4M; DATA is then a sample of it", .value = "TOKENS",
          .fallback = "counted in DATA"),
    FIELD(plan_request, examples, COUNT,
          "examples (rows) in the data set; DATA is then a sample of it",
          .fallback = "counted in DATA"),
    FIELD(plan_request, epochs, NUMBER, "passes over the data"),
    FIELD(plan_request, context, COUNT,
          "context window: longest row, in tokens; 32k is 32,000, 32Ki 32,768", .value = "TOKENS",
          .fallback = "recommended for DATA, else %s, or what examples need"),
    FIELD(plan_request, mean_length, NUMBER, "without DATA: mean length of an example, in tokens",
          .value = "TOKENS", .fallback = "full rows"),
    FIELD(plan_request, labelled_share, SHARE, "share of the tokens that carry loss",
          .fallback = "counted in DATA, else %s"),
    FIELD_OF(plan_request, batching, batching_names_auto, "how rows form batches", .value = "MODE"),
    FIELD(plan_request, packing, TEXT, "on: the same as --batching packed; off: longest",
          .value = "on|off", .fallback = ""),
    FIELD(plan_request, pad_to_multiple_of, COUNT, "round padded widths up to a multiple of this",
          .fallback = "as the trainer does", .since = "0.2.0"),
    FIELD(plan_request, image_size, TEXT, "size of every image, in pixels, instead of its file's",
          .value = "WxH", .fallback = "read from the files", .since = "0.4.0"),
    FIELD(plan_request, image_max_pixels, COUNT,
          "pixels to which the trainer shrinks larger images",
          .fallback = "as the model's processor does", .since = "0.4.0"),
    FIELD(plan_request, images, NUMBER, "without DATA: images per example, in addition to --tokens",
          .value = "N", .fallback = "1 with --image-size, else none", .since = "0.4.0"),
    FIELD(plan_request, micro_batch, TEXT, "rows per GPU and forward pass", .value = "N",
          .fallback = "auto"),
    FIELD(plan_request, global_batch, COUNT, "rows per optimizer step, over all GPUs",
          .fallback = "about 64, fewer above 4 M tokens, at least one row per rank; with "
                      "--micro-batch, one micro-batch per rank; RL: about 256 answers"),
    FIELD(plan_request, gpu, TEXT, "GPU name, e.g. h100 or 4090", .value = "GPU",
          .fallback = "cheapest to rent"),
    FIELD(plan_request, gpus, COUNT, "number of GPUs", .fallback = "fewest GPU hours"),
    FIELD(plan_request, nodes, COUNT, "number of machines that hold the GPUs",
          .fallback = "fewest that hold them"),
    FIELD(plan_request, parallel, TEXT,
          "single, ddp, zero1, zero2, fsdp, or a mix like \"tp4 pp2 fsdp\"", .value = "LAYOUT",
          .fallback = "auto"),
    FIELD(plan_request, stack, TEXT, "training stack, or a JSON file that describes one",
          .value = "STACK", .fallback = "hf-peft, or hf for --method full"),
    FIELD(plan_request, eval_share, SHARE, "evaluation tokens as a share of the training tokens"),
    FIELD(plan_request, evals_per_epoch, NUMBER, "evaluations per epoch"),
    FIELD(plan_request, evaluate_every, COUNT,
          "steps between evaluations, in place of --evals-per-epoch; 0: at the end", .fallback = "",
          .since = "0.9.9"),
    FIELD(plan_request, retries, NUMBER,
          "further complete runs, e.g. to tune (failures: --failed-runs)"),
    FIELD(plan_request, failed_runs, NUMBER,
          "failed attempts per run, resumed from the last checkpoint; 0: none"),
    FIELD(plan_request, runs, COUNT, "runs of a sweep, all of this configuration", .fallback = "1",
          .since = "0.3.0"),
    FIELD(plan_request, parallel_runs, COUNT, "runs of the sweep at a time", .fallback = "1",
          .since = "0.3.0"),
    FIELD(plan_request, startup, SECONDS, "time from start to first step, without loading weights"),
    FIELD_OF(plan_request, file_cache, overhead_cache_names,
             "warm if this trainer and model have run on the machine before", .value = "STATE",
             .since = "0.5.0"),
    FIELD(plan_request, compile, SECONDS, "compilation time, for stacks that compile"),
    FIELD(plan_request, storage, RATE, "throughput for weights, checkpoints and data",
          .fallback = "of the node, else %s"),
    FIELD(plan_request, save_interval, SECONDS, "time between checkpoints",
          .fallback = "best for the failure rate"),
    FIELD(plan_request, save_every, COUNT,
          "steps between checkpoints, in place of --save-interval; 0: at the end", .fallback = "",
          .since = "0.9.9"),
    FIELD(plan_request, saves_per_epoch, NUMBER,
          "checkpoints per epoch, in place of --save-interval", .fallback = "", .since = "0.9.9"),
    FIELD(plan_request, failures_per_gpu_hour, NUMBER, "job-ending failures per GPU hour"),
    FIELD(plan_request, deadline, SECONDS, "longest acceptable wall time, e.g. 24h",
          .fallback = ""),
    FIELD(plan_request, budget, USD, "highest acceptable cost", .fallback = ""),
    FIELD(plan_request, price, PRICE, "price per GPU hour, e.g. 2.49 or 2.49/gpu-h",
          .fallback = "offers in the catalog"),
    FIELD(plan_request, seed, COUNT, "random seed of the simulation"),
    FIELD(plan_request, search, FLAG, "look for alternatives; --search off is faster"),
    { 0 },
};

struct plan_request plan_request_default(void)
{
    struct plan_request request;
    memset(&request, 0, sizeof request);
    field_clear(plan_fields, &request);
    request.gpus = request.nodes = request.tokens = request.examples = PLAN_NOT_GIVEN;
    request.context = request.global_batch = request.pad_to_multiple_of = PLAN_NOT_GIVEN;
    request.runs = request.parallel_runs = PLAN_NOT_GIVEN;
    request.generations = request.sampler_gpus = request.steps = PLAN_NOT_GIVEN;
    request.async_steps = request.updates = request.rounds = PLAN_NOT_GIVEN;
    request.evaluate_every = request.save_every = PLAN_NOT_GIVEN;
    request.response_limit = request.most_examples = PLAN_NOT_GIVEN;
    request.recipe = recipe_default();
    request.batching = BATCHING_AUTO;
    request.objective = OBJECTIVE_AUTO;
    request.reference = REFERENCE_AUTO;
    request.seed = 1;
    request.search = true;
    return request;
}

enum err plan_request_assumed(struct plan_request *out, const struct plan_data *data)
{
    struct workload_rule rule = workload_rule();
    struct overheads o;
    *out = plan_request_default();
    TRY(overhead_assume(&o, &data->catalog, NULL));
    out->epochs = rule.epochs;
    out->context = (int64_t)rule.context;
    out->labelled_share = rule.labelled_share;
    out->eval_share = o.eval_share.value.mid;
    out->evals_per_epoch = o.evals_per_epoch.value.mid;
    out->retries = o.retries.value.mid;
    out->failed_runs = o.failed_runs.value.mid;
    out->startup = o.startup_seconds.value.mid;
    out->compile = o.compile_seconds.value.mid;
    out->storage = o.storage_bytes_per_s.value.mid;
    out->failures_per_gpu_hour = o.failures_per_gpu_hour.value.mid;
    return OK;
}

// Refuses options that say the same twice. What a file says beside the user's own was dropped.
static enum err check_twice(const struct plan_request *given)
{
    const struct {
        int64_t steps;
        double other;
        const char *both;
    } pairs[] = {
        { given->steps, given->epochs, "--steps and --epochs both say how long the run is" },
        { given->evaluate_every, given->evals_per_epoch,
          "--evaluate-every and --evals-per-epoch both say how often it evaluates" },
        { given->save_every, given->save_interval,
          "--save-every and --save-interval both say how often it saves" },
        { given->save_every, given->saves_per_epoch,
          "--save-every and --saves-per-epoch both say how often it saves" },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].steps != PLAN_NOT_GIVEN && !isnan(pairs[i].other))
            return fail(ERR_USAGE, "%s; leave one of them out", pairs[i].both);
    if (!isnan(given->saves_per_epoch) && !isnan(given->save_interval))
        return fail(ERR_USAGE, "--saves-per-epoch and --save-interval both say how often it saves; "
                               "leave one of them out");
    bool on = given->packing && (!strcmp(given->packing, "on") || !strcmp(given->packing, "true"));
    if (given->packing && given->batching != BATCHING_AUTO &&
        on != (given->batching == BATCHING_PACKED))
        return fail(ERR_USAGE, "--packing %s contradicts --batching %s; leave one of them out",
                    given->packing, batching_names_auto[given->batching]);
    return OK;
}

enum err plan_request_check(const struct plan_request *request)
{
    TRY(check_twice(request->given ? request->given : request));
    const int64_t many = 1000000000000000;
    const struct {
        const char *option;
        int64_t value, most;
    } counts[] = {
        { "gpus", request->gpus, PLAN_MOST_GPUS },
        { "nodes", request->nodes, PLAN_MOST_GPUS },
        { "tokens", request->tokens, many },
        { "examples", request->examples, many },
        { "context", request->context, 1 << 24 },
        { "global-batch", request->global_batch, 1 << 24 },
        { "pad-to-multiple-of", request->pad_to_multiple_of, 1 << 20 },
        { "generations", request->generations, 1 << 16 },
        { "response-limit", request->response_limit, 1 << 24 },
        { "steps", request->steps, 100000000 },
        { "updates", request->updates, 1 << 16 },
        { "rounds", request->rounds, 1 << 10 },
        { "runs", request->runs, FORECAST_RUNS },
        { "parallel-runs", request->parallel_runs, FORECAST_RUNS },
    };
    const struct {
        const char *option;
        int64_t value, most;
    } from_zero[] = {
        { "sampler-gpus", request->sampler_gpus, PLAN_MOST_GPUS },
        { "async-steps", request->async_steps, 64 },
        { "evaluate-every", request->evaluate_every, 100000000 },
        { "save-every", request->save_every, 100000000 },
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value != PLAN_NOT_GIVEN &&
            (counts[i].value < 1 || counts[i].value > counts[i].most))
            return fail(ERR_USAGE, "--%s is %lld, must be from 1 to %lld", counts[i].option,
                        (long long)counts[i].value, (long long)counts[i].most);
    for (size_t i = 0; i < sizeof from_zero / sizeof *from_zero; i++)
        if (from_zero[i].value != PLAN_NOT_GIVEN &&
            (from_zero[i].value < 0 || from_zero[i].value > from_zero[i].most))
            return fail(ERR_USAGE, "--%s is %lld, must be from 0 to %lld", from_zero[i].option,
                        (long long)from_zero[i].value, (long long)from_zero[i].most);
    if (request->parallel_runs > 1 && request->runs == PLAN_NOT_GIVEN)
        return fail(ERR_USAGE, "--parallel-runs says how many of --runs go at a time; add --runs");
    // Beyond these every hour is that of the option, and sums are no numbers any more.
    const struct {
        const char *option;
        double value, most;
    } amounts[] = {
        { "retries", request->retries, 1e6 },
        { "failed-runs", request->failed_runs, 1e6 },
        { "evals-per-epoch", request->evals_per_epoch, 1e9 },
        { "saves-per-epoch", request->saves_per_epoch, 1e9 },
        { "startup", request->startup, 1e9 },
        { "compile", request->compile, 1e9 },
        { "failures-per-gpu-hour", request->failures_per_gpu_hour, 1e3 },
        { "price", request->price, 1e9 },
    };
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++)
        if (amounts[i].value > amounts[i].most)
            return fail(ERR_USAGE, "--%s is %g, must be at most %g", amounts[i].option,
                        amounts[i].value, amounts[i].most);
    if (request->deadline == 0)
        return fail(ERR_USAGE, "--deadline is 0, must be more; leave it out to have none");
    if (request->budget == 0)
        return fail(ERR_USAGE, "--budget is 0, must be more; leave it out to have none");
    if (request->storage > 0 && request->storage < 1)
        return fail(ERR_USAGE, "--storage is %g bytes/s, must be at least 1", request->storage);
    if (!request->model && !request->shape)
        return fail(ERR_USAGE, "no --model is given; gpuhours show models lists them");
    if (request->parallel && strcmp(request->parallel, "auto"))
        TRY(layout_check(text_of(request->parallel)));
    double rows;
    return plan_request_rows(&rows, request);
}

enum err plan_request_rows(double *out, const struct plan_request *request)
{
    const int64_t most = 65536;
    int64_t rows = 0;
    *out = 0;
    if (!request->micro_batch || !strcmp(request->micro_batch, "auto"))
        return OK;
    if (text_read_count(&rows, text_of(request->micro_batch)) || rows < 1 || rows > most)
        return fail(ERR_USAGE, "--micro-batch is \"%s\", must be auto or from 1 to %lld",
                    request->micro_batch, (long long)most);
    *out = (double)rows;
    return OK;
}

// The key's field and the object it describes; NULL where there is none.
static const struct field *find(struct plan_request *request, struct text key, void **object)
{
    const struct field *field = field_find(plan_fields, key);
    *object = request;
    if (field)
        return field;
    *object = &request->recipe;
    return field_find(recipe_fields, key);
}

static enum err read_members(struct plan_request *out, struct arena *arena, const struct json *tree,
                             const char *name)
{
    if (tree->kind != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: is %s, must be an object", name, json_kind_name(tree->kind));
    *out = plan_request_default();
    for (size_t i = 0; i < tree->count; i++) {
        struct text key = tree->items[2 * i].string;
        void *object;
        const struct field *field = find(out, key, &object);
        if (text_is(key, "kind") || text_is(key, "version") ||
            tree->items[2 * i + 1].kind == JSON_NULL)
            continue;
        if (!field)
            return fail(ERR_INPUT,
                        "%s: has an unknown key \"%.*s\"; the keys are the options of "
                        "gpuhours plan",
                        name, TEXT_ARGS(key));
        struct json pair = { .kind = JSON_OBJECT, .items = &tree->items[2 * i], .count = 1 };
        TRY(field_read((const struct field[]){ *field, { 0 } }, object, arena, &pair, name, true));
    }
    return OK;
}

enum err plan_request_read(struct plan_request *out, struct arena *arena, struct text json,
                           const char *name)
{
    struct json tree;
    TRY(json_read(&tree, arena, json, name));
    return read_members(out, arena, &tree, name);
}

// --- a former plan -----------------------------------------------------------

enum err plan_request_former(struct plan_request *out, struct arena *arena, struct text document,
                             const char *name)
{
    struct json tree;
    TRY(json_read_document(&tree, arena, document, name, "plan"));
    const struct json *request = json_get(&tree, "request");
    const struct json *workload = json_get(&tree, "workload");
    if (!request || !workload)
        return fail(ERR_INPUT, "%s: lacks \"%s\"; gpuhours plan --json writes whole plans", name,
                    request ? "workload" : "request");
    TRY(read_members(out, arena, request, text_format(arena, "%s: request", name)));
    if (json_get_bool(workload, "measured", false)) {
        out->batches = plan_read_batches(&tree, arena);
        out->token_spread = json_get_number(workload, "token_spread", 0);
        out->sample_spread = json_get_number(workload, "sample_spread", 0);
        double tokens = json_get_number(workload, "tokens", (double)out->tokens);
        if (!(tokens >= 0 && tokens <= 1e15))
            return fail(ERR_INPUT, "%s: workload has %g tokens; expected are 0 to 1e+15", name,
                        tokens);
        out->tokens = (int64_t)tokens;
        plan_read_images(out, arena, &tree);
    }
    struct plan_request *former = ARENA_NEW(arena, struct plan_request, 1);
    *former = *out;
    out->former = former;
    out->former_name = name;
    return OK;
}

// Where the user gave one of two options that say the same, the other, of a file or a pilot, is not
// meant.
static void drop_others(struct plan_request *request)
{
    const struct plan_request *given = request->given;
    if (!isnan(given->epochs))
        request->steps = given->steps;
    if (!isnan(given->evals_per_epoch))
        request->evaluate_every = given->evaluate_every;
    if (!isnan(given->save_interval) || !isnan(given->saves_per_epoch))
        request->save_every = given->save_every;
    if (!isnan(given->save_interval) || given->save_every != PLAN_NOT_GIVEN)
        request->saves_per_epoch = given->saves_per_epoch;
    if (given->packing)
        request->batching = given->batching;
    if (!request->lengths && given->examples > 0 && !isnan(given->mean_length))
        request->tokens = given->tokens;
}

// The share of the data that is trained on: a trainer may read only its first rows, and hold some
// out to evaluate on them, unless the user says how many are evaluated. rows is NAN: unknown.
static double trained_share(struct plan_request *request, double rows)
{
    const struct plan_request *given = request->given;
    double each = request->has_pairs ? 2 : 1; // rows of an example
    double most = each * (double)request->most_examples, held = request->held_out;
    double kept = most > 0 && most < rows ? most / rows : 1;
    if (given && !isnan(given->eval_share))
        held = 0;
    if (held >= 1)
        held = isnan(rows) ? 0 : fmin(0.5, each * held / (kept * rows));
    if (held > 0 && isnan(request->eval_share))
        request->eval_share = held / (1 - held);
    return kept * (1 - held);
}

double plan_assumed_mean(const struct plan_request *request)
{
    struct workload_rule rule = workload_rule();
    if (request->objective != OBJECTIVE_AUTO &&
        objective_samples((enum objective_kind)request->objective))
        return plan_prompt_length(request);
    rule.context = request->context > 0 ? (double)request->context : rule.context;
    bool padded = request->packing && !text_is(text_of(request->packing), "on") &&
                  !text_is(text_of(request->packing), "true");
    bool fills =
        request->batching == BATCHING_PACKED || (request->batching == BATCHING_AUTO && !padded);
    return fills ? rule.context : workload_mean_lengths(&rule).mid;
}

// The same where there is no data but counts of the user's.
static void keep_trained(struct plan_request *request)
{
    bool told = request->given->tokens > 0, counted = request->given->examples > 0;
    if (request->lengths || (!told && !counted))
        return;
    bool unknown = !counted && isnan(request->mean_length);
    double mean = unknown ? plan_assumed_mean(request) : request->mean_length;
    double share = trained_share(request, counted ? (double)request->examples
                                                  : (double)request->tokens / mean);
    if (told)
        request->tokens = (int64_t)fmax(1, rint(share * (double)request->tokens));
    if (counted)
        request->examples = (int64_t)fmax(1, rint(share * (double)request->examples));
}

void plan_request_renew(struct plan_request *request)
{
    const struct plan_request *former = request->former, *given = request->given;
    if (given) {
        drop_others(request);
        keep_trained(request);
    }
    if (!former || !given)
        return;
    bool new_data = request->lengths || given->tokens != PLAN_NOT_GIVEN;
    if (new_data && !request->lengths && given->examples == PLAN_NOT_GIVEN)
        request->examples = PLAN_NOT_GIVEN;
    if (new_data && !request->lengths && isnan(given->mean_length))
        request->mean_length = NAN;
    bool same = request->context == former->context && request->batching == former->batching &&
                request->packing == former->packing &&
                request->pad_to_multiple_of == former->pad_to_multiple_of;
    if (new_data || !same)
        request->batches = NULL;
    if (new_data && !request->lengths) {
        request->token_spread = request->sample_spread = 0; // as many as were given
        request->seen = (struct vision_load){ 0 };
    }
}

// --- writing and measuring ---------------------------------------------------

static void write_given(const struct field *fields, const void *object, const void *defaults,
                        struct arena *arena, struct json_writer *w)
{
    for (const struct field *field = fields; field->name; field++) {
        const char *value = field_known(field, object) ? field_spell(field, object, arena) : NULL;
        const char *usual =
            field_known(field, defaults) ? field_spell(field, defaults, arena) : NULL;
        if (value && (!usual || strcmp(value, usual)))
            field_write((const struct field[]){ *field, { 0 } }, object, w);
    }
}

void plan_request_write(const struct plan_request *request, struct arena *arena, const char *key,
                        struct json_writer *w)
{
    const struct plan_request defaults = plan_request_default();
    json_open(w, key, '{');
    write_given(plan_fields, request, &defaults, arena, w);
    write_given(recipe_fields, &request->recipe, &defaults.recipe, arena, w);
    json_close(w, '}');
}

// Whether the data is what the objective needs.
static enum err check_pairs(struct plan_request *request, const struct profile *profile,
                            const struct lengths *lengths)
{
    const char *pairs = record_format_names[RECORD_PREFERENCE];
    int kind = request->objective == OBJECTIVE_AUTO ? OBJECTIVE_SFT : request->objective;
    request->has_pairs = profile->format && !strcmp(profile->format, pairs);
    request->has_verdicts = profile_has_verdicts(profile);
    request->has_prompts =
        profile->format && !strcmp(profile->format, record_format_names[RECORD_PROMPT]);
    bool whole = lengths->count && lengths->count % 2 == 0 && !lengths->each;
    request->pairs_in_order = request->has_pairs && whole && !profile->spots[PROFILE_BAD].count;
    if (profile->format && !request->has_pairs && objective_is_paired((enum objective_kind)kind))
        return fail(ERR_INPUT,
                    "--objective %s needs a chosen and a rejected answer in each row, but the rows "
                    "have the format %s; --fields chosen=NAME,rejected=NAME names the columns%s",
                    objective_names[kind], profile->format,
                    request->has_verdicts ? "; for single answers that are labelled true or "
                                            "false, or 1 or 0, there is --objective kto"
                                          : "");
    return OK;
}

// The user may say how large the whole data set is: then the examples are a sample of it.
static enum err find_whole(double *factor, const struct plan_request *given, double tokens,
                           double examples)
{
    *factor = 1;
    if (!given)
        return OK;
    if (!isnan(given->mean_length))
        return fail(ERR_USAGE, "--mean-length is for plans without data; leave it out, the lengths "
                               "are counted");
    if (given->tokens > 0 && given->examples > 0)
        return fail(ERR_USAGE, "--tokens and --examples both say how large the whole data set is; "
                               "give one of them");
    if (given->tokens > 0)
        *factor = (double)given->tokens / tokens;
    else if (given->examples > 0)
        *factor = (double)given->examples / examples;
    return OK;
}

// The relative deviation of a mean over a random sample from that over all: of whichever are fewer.
static double sampling_error(const struct lengths *lengths, double mean, double factor)
{
    double squares = 0, count = (double)lengths->count;
    for (size_t i = 0; i < lengths->count; i++)
        squares += pow((double)lengths->items[i].tokens / mean - 1, 2);
    double fewer = count * lengths_each(lengths) * fmin(1, factor);
    return sqrt(squares / count / fmax(1, fewer) * (1 - fmin(factor, 1 / factor)));
}

enum err plan_request_measure(struct plan_request *request, struct arena *arena,
                              struct profile *profile, struct lengths *lengths)
{
    TRY(check_pairs(request, profile, lengths));
    bool ordered = lengths->count; // else too many to keep in order, or read from a document
    if (!ordered)
        lengths_unroll(lengths, arena, &profile->tally, (uint64_t)request->seed);
    if (!lengths->count)
        return fail(ERR_INPUT, "the profile holds no example");
    if (request->context == PLAN_NOT_GIVEN) { // the one recommended for these lengths
        struct profile_settings settings = {
            .batching = BATCHING_LONGEST,
            .positions = request->positions,
        };
        TRY(profile_finish(profile, arena, ordered ? lengths : NULL, &settings));
        request->context = profile->windows.rows[profile->windows.recommended].context;
        request->context_from_data = true;
    }
    request->lengths = lengths;
    double tokens = 0, examples = (double)lengths->count * lengths_each(lengths);
    for (size_t i = 0; i < lengths->count; i++)
        tokens += (double)lengths->items[i].tokens * lengths_each(lengths);
    double factor;
    TRY(find_whole(&factor, request->given, tokens, examples));
    factor *= trained_share(request, factor * examples);
    bool is_told = request->given && request->given->tokens > 0;
    if (factor != 1) {
        request->sample_examples = examples;
        request->sample_spread = is_told ? 0 : sampling_error(lengths, tokens / examples, factor);
        lengths->each = factor * lengths_each(lengths);
    }
    request->examples = (int64_t)fmax(1, rint(factor * examples));
    request->tokens = (int64_t)rint(factor * tokens);
    request->mean_length = tokens / examples;
    // Tokens of images are exact.
    double text = 1 - fmin(1, profile->images.tokens / fmax(1, tokens));
    request->token_spread = is_told ? 0 : profile->spread * text;
    request->seen = vision_load_scaled(&profile->images, factor);
    request->seen_as = profile->vision;
    request->uncounted_count = profile_warnings(request->uncounted, profile, arena);
    return OK;
}

static struct text file_of(const struct catalog_file *overrides, size_t count, const char *name,
                           const char **path)
{
    *path = name;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(overrides[i].name, name)) {
            *path = overrides[i].path;
            return overrides[i].text;
        }
    return embedded_file(name);
}

enum err plan_open(struct plan_data *data, struct arena *arena,
                   const struct catalog_file *overrides, size_t count)
{
    *data = (struct plan_data){ 0 };
    TRY(catalog_open(&data->catalog, arena, overrides, count));
    const char *path, *evidence_path;
    struct text stacks = file_of(overrides, count, "stacks.json", &path);
    TRY(stack_read(&data->stacks, &data->stack_count, arena, NULL, 0, stacks, path));
    struct text fitted = file_of(overrides, count, "efficiency.csv", &path);
    struct text evidence = file_of(overrides, count, "evidence.csv", &evidence_path);
    return calibration_read(&data->calibration, arena, fitted, path, evidence, evidence_path);
}
