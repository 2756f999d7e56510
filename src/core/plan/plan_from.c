// SPDX-License-Identifier: Apache-2.0
// Turns the facts of a trainer's configuration into options: what several keys decide together, and
// which of them contradict each other.

#include "core/plan/plan_from.h"

#include "core/trainers/trainer_facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct filling {
    struct trainer_config *config;
    struct plan_request *request;
    int64_t gpus;  // 0: not given
    int64_t ranks; // data-parallel ones; 0: unknown
    const char *method;
    bool samples; // the objective trains on answers that the model writes
};

static const char *given(const struct filling *f, enum trainer_config_fact_name fact)
{
    return f->config->facts[fact].value;
}

static bool is_set_to(const struct filling *f, enum trainer_config_fact_name fact,
                      const char *value)
{
    const char *known = given(f, fact);
    return known && !strcmp(known, value);
}

static int64_t number(const struct filling *f, enum trainer_config_fact_name fact,
                      int64_t otherwise)
{
    int64_t value;
    const char *known = given(f, fact);
    return known && !text_read_count(&value, text_of(known)) ? value : otherwise;
}

// "lora_r in peft.json"
static const char *place(const struct filling *f, enum trainer_config_fact_name fact)
{
    const struct trainer_config_fact *known = &f->config->facts[fact];
    return text_format(f->config->arena, "%s in %s", known->key, known->file);
}

static enum err set(struct filling *f, const char *option, const char *value)
{
    struct trainer_config *config = f->config;
    const struct field *field = field_find(plan_fields, text_of(option));
    void *object = f->request;
    if (!field) {
        field = field_find(recipe_fields, text_of(option));
        object = &f->request->recipe;
    }
    if (!field)
        return fail(ERR_BUG, "there is no option %s", option);
    if (field_set(field, object, config->arena, text_of(value)))
        return error_prefix(ERR_INPUT, "--from: ");
    for (size_t i = 0; i < config->option_count; i++)
        if (!strcmp(config->options[i].option, option)) {
            config->options[i].value = value;
            return OK;
        }
    if (config->option_count < TRAINER_CONFIG_OPTIONS) {
        config->options[config->option_count].option = option;
        config->options[config->option_count++].value = value;
    }
    return OK;
}

static enum err set_fact(struct filling *f, enum trainer_config_fact_name fact)
{
    return given(f, fact) ? set(f, trainer_config_fact_options[fact], given(f, fact)) : OK;
}

static void remark(struct filling *f, const char *key, const char *why)
{
    for (size_t i = 0; i < f->config->item_count; i++)
        if (f->config->items[i].remark == why)
            return;
    trainer_config_note(f->config, (struct trainer_config_item){ .file = "together",
                                                                 .key = key,
                                                                 .value = "not given",
                                                                 .effect = TRAINER_CONFIG_MATTERS,
                                                                 .remark = why });
}

// --- the objective as trainers spell it --------------------------------------

// As trainers spell them. What is not here is not modelled, and never taken for supervised tuning.
static const struct trainer_config_word objectives[] = {
    { "sft", "sft" },
    { "pt", "sft" },
    { "pretrain", "sft" },
    { "dpo", "dpo" },
    { "ipo", "ipo" },
    { "kto", "kto" },
    { "orpo", "orpo" },
    { "simpo", "simpo" },
    { "rm", "reward" },
    { "reward", "reward" },
    { "grpo", "grpo" },
    { "dapo", "dapo" },
    { "gspo", "gspo" },
    { "rloo", "rloo" },
    { "ppo", "ppo" },
    { "gae", "ppo" },
    { "group_norm", "grpo" },
    { "dr_grpo", "grpo" },
    { 0 },
};

// Losses that DPO's and CPO's trainers choose by a key, and that are objectives of their own here.
static const struct trainer_config_word losses[] = {
    { "ipo", "ipo" },
    { "orpo", "orpo" },
    { "simpo", "simpo" },
    { 0 },
};

static const char *look_up(const struct trainer_config_word *words, const char *word)
{
    for (; words->from; words++)
        if (!strcasecmp(words->from, word))
            return words->to;
    return NULL;
}

static enum objective_kind kind_of(const char *name)
{
    int kind = 0;
    while (kind < OBJECTIVES && strcmp(objective_names[kind], name) != 0)
        kind++;
    return (enum objective_kind)(kind < OBJECTIVES ? kind : OBJECTIVE_SFT);
}

// The objective as it is said: by a setting, else by the program's name, else by a key of its own.
static enum trainer_config_fact_name objective_fact(const struct filling *f)
{
    return given(f, FACT_OBJECTIVE) ? FACT_OBJECTIVE
           : given(f, FACT_PROGRAM) ? FACT_PROGRAM
                                    : FACT_KIND;
}

static const char *objective_of(const struct filling *f)
{
    const char *said = given(f, objective_fact(f)), *loss = given(f, FACT_LOSS);
    const char *by_loss = loss ? look_up(losses, loss) : NULL;
    if (by_loss && (!said || !strcmp(said, "dpo") || !strcmp(said, "cpo")))
        return by_loss;
    return said ? look_up(objectives, said) : NULL;
}

// --- defaults ----------------------------------------------------------------

// Whether another fact makes a default pointless.
static bool is_pointless(const struct filling *f, enum trainer_config_fact_name fact)
{
    bool full = is_set_to(f, FACT_ADAPTER, "full") || is_set_to(f, FACT_ADAPTER, "none");
    bool verl = f->config->trainers >> TRAINER_VERL & 1;
    switch (fact) {
    case FACT_RANK:
    case FACT_TARGETS: return full || !given(f, FACT_ADAPTER);
    case FACT_WEIGHTS: return !full;
    case FACT_ADAPTER: return !given(f, FACT_MODEL) || given(f, FACT_RANK);
    case FACT_SAMPLER: return !f->samples;
    case FACT_CONTEXT: return f->samples; // prompts and answers have limits of their own
    case FACT_KL: return !f->samples || (is_set_to(f, objective_fact(f), "rloo") && !verl);
    case FACT_SAVE_WHEN: return given(f, FACT_SAVE_EVERY) != NULL;
    case FACT_EVALS: return given(f, FACT_EVAL_EVERY) != NULL;
    case FACT_EVAL_SHARE: return given(f, FACT_EVAL_SET) != NULL;
    case FACT_EPOCHS: return given(f, FACT_STEPS) != NULL;
    case FACT_SAVE_EVERY: return given(f, FACT_SAVE_WHEN) && !is_set_to(f, FACT_SAVE_WHEN, "steps");
    case FACT_ACCUMULATION: return given(f, FACT_GLOBAL) != NULL;
    case FACT_GLOBAL: return given(f, FACT_ACCUMULATION) != NULL;
    default: return false;
    }
}

static void apply_defaults(struct filling *f)
{
    struct trainer_config *config = f->config;
    if (!given(f, FACT_ADAPTER) && given(f, FACT_RANK))
        trainer_config_say(config, FACT_ADAPTER, "lora", config->facts[FACT_RANK].file,
                           config->facts[FACT_RANK].key);
    for (int t = 0; t < TRAINERS; t++) {
        const struct trainer_config_table *table = &trainer_config_tables[t];
        if (!(config->trainers >> t & 1))
            continue;
        for (const struct trainer_config_default *d = table->defaults; d && d->value; d++) {
            if (given(f, d->fact) || is_pointless(f, d->fact))
                continue;
            const char *option = trainer_config_fact_options[d->fact];
            trainer_config_say(config, d->fact, d->value, table->trainer, "the default");
            trainer_config_note(config, (struct trainer_config_item){ .file = table->trainer,
                                                                      .key = option,
                                                                      .value = d->value,
                                                                      .option = option,
                                                                      .remark = "its default" });
        }
    }
}

// --- method and numbers ------------------------------------------------------

// Whether a key was given and is off.
static bool is_off(const struct filling *f, const char *key)
{
    for (size_t i = 0; i < f->config->item_count; i++)
        if (!strcmp(f->config->items[i].key, key) && !strcmp(f->config->items[i].value, "false"))
            return true;
    return false;
}

static enum err fill_method(struct filling *f)
{
    const char *quantization = given(f, FACT_QUANTIZATION);
    f->method = given(f, FACT_ADAPTER);
    if (quantization && f->method && !strcmp(f->method, "full")) {
        trainer_config_contradict(f->config,
                                  "%s quantizes the model but no adapter is trained, and quantized "
                                  "weights cannot be trained; using qlora",
                                  place(f, FACT_QUANTIZATION));
        f->method = "qlora";
    }
    if (f->method && !strcmp(f->method, "qlora") && !quantization && is_off(f, "load_in_4bit"))
        trainer_config_contradict(f->config, "%s is qlora but load_in_4bit is off; using 4 bits",
                                  place(f, FACT_ADAPTER));
    if (quantization)
        f->method = "qlora"; // LoRA over a quantized base
    if (quantization && !strcmp(quantization, "nf4") && is_set_to(f, FACT_NESTED, "yes"))
        quantization = "nf4-nested";
    if (quantization)
        TRY(set(f, "quantization", quantization));
    if (!f->method)
        return OK;
    if (!strcmp(f->method, "none")) // what is said of adapters stands there unused
        return set(f, "method", f->method = "full");
    TRY(set(f, "method", f->method));
    if (!strcmp(f->method, "full")) {
        if (given(f, FACT_RANK) && strcmp(f->config->facts[FACT_RANK].key, "the default"))
            trainer_config_contradict(f->config,
                                      "%s sets a rank but %s trains the whole model; using full "
                                      "fine-tuning",
                                      place(f, FACT_RANK), place(f, FACT_ADAPTER));
        return OK;
    }
    static const enum trainer_config_fact_name adapter[] = { FACT_RANK, FACT_ALPHA, FACT_DROPOUT,
                                                             FACT_TARGETS, FACT_EMBEDDINGS };
    for (size_t i = 0; i < sizeof adapter / sizeof *adapter; i++)
        TRY(set_fact(f, adapter[i]));
    return OK;
}

static enum err fill_plain(struct filling *f)
{
    static const enum trainer_config_fact_name plain[] = {
        FACT_MODEL, FACT_PRECISION,   FACT_WEIGHTS, FACT_OPTIMIZER, FACT_CONTEXT,
        FACT_SEED,  FACT_IN_BACKWARD, FACT_EXPERTS, FACT_ATTENTION,
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        TRY(set_fact(f, plain[i]));
    if (!given(f, FACT_PRECISION) && is_off(f, "bf16") && is_off(f, "fp16"))
        remark(
            f, "precision",
            "bf16 and fp16 are off: matrix products have the dtype that weights are loaded in; set "
            "--precision");
    return OK;
}

// --- how long, and what happens on the way ------------------------------------

// What becomes of a key after all.
static void demote(struct filling *f, enum trainer_config_fact_name fact,
                   enum trainer_config_effect effect, const char *why)
{
    const struct trainer_config_fact *known = &f->config->facts[fact];
    for (size_t i = 0; known->value && i < f->config->item_count; i++) {
        struct trainer_config_item *item = &f->config->items[i];
        if (strcmp(item->key, known->key) || strcmp(item->file, known->file))
            continue;
        item->effect = effect;
        item->option = NULL;
        item->remark = why;
    }
}

static double amount(const struct filling *f, enum trainer_config_fact_name fact)
{
    return given(f, fact) ? strtod(given(f, fact), NULL) : 0;
}

static enum err set_amount(struct filling *f, const char *option, double value)
{
    return set(f, option, text_format(f->config->arena, "%.10g", value));
}

// What is held out is not trained on, and --eval-share is of what is.
static enum err fill_rows(struct filling *f)
{
    double held = amount(f, FACT_EVAL_SHARE);
    f->request->held_out = held;
    const char *sets = given(f, FACT_DATASET);
    int64_t most = number(f, FACT_MOST_ROWS, 0);
    for (const char *c = sets; c && *c; c++)
        most += *c == ',' ? number(f, FACT_MOST_ROWS, 0) : 0; // of each data set
    if (most)
        f->request->most_examples = most;
    demote(f, FACT_MOST_ROWS, TRAINER_CONFIG_UNDERSTOOD,
           "only the first rows of the data are read");
    if (!given(f, FACT_EVAL_SHARE) || held >= 1)
        return OK;
    return set(f, "eval_share", text_format(f->config->arena, "%.4g", held / (1 - held)));
}

static enum err fill_length(struct filling *f)
{
    if (!given(f, FACT_STEPS))
        return set_fact(f, FACT_EPOCHS);
    demote(f, FACT_EPOCHS, TRAINER_CONFIG_HARMLESS, "the number of steps ends the run");
    return set_fact(f, FACT_STEPS);
}

// A number of steps below 1 is a share of the run's: so many evaluations lie in its epochs.
static enum err fill_evaluations(struct filling *f)
{
    const char *when = given(f, FACT_EVAL_WHEN);
    double every = amount(f, FACT_EVAL_EVERY), epochs = amount(f, FACT_EPOCHS);
    if (when && strcmp(when, "steps")) {
        demote(f, FACT_EVAL_EVERY, TRAINER_CONFIG_HARMLESS, "it does not evaluate by steps");
        return set(f, "evals_per_epoch", strcmp(when, "no") ? "1" : "0");
    }
    if (every >= 1)
        return set_amount(f, "evaluate_every", floor(every));
    if (every > 0 && epochs > 0 && !given(f, FACT_STEPS))
        return set_amount(f, "evals_per_epoch", 1 / (every * epochs));
    if (when || every > 0)
        remark(f, "evaluations",
               "how many steps lie between evaluations is not said; set --evaluate-every");
    return set_fact(f, FACT_EVALS);
}

static enum err fill_saves(struct filling *f)
{
    const char *when = given(f, FACT_SAVE_WHEN);
    double every = amount(f, FACT_SAVE_EVERY), epochs = amount(f, FACT_EPOCHS);
    if (given(f, FACT_SAVES)) {
        demote(f, FACT_SAVE_EVERY, TRAINER_CONFIG_HARMLESS, "it saves by epochs");
        return amount(f, FACT_SAVES) > 0 ? set_fact(f, FACT_SAVES) : set(f, "save_every", "0");
    }
    if (when && strcmp(when, "steps")) {
        demote(f, FACT_SAVE_EVERY, TRAINER_CONFIG_HARMLESS, "it does not save by steps");
        return strcmp(when, "no") ? set(f, "saves_per_epoch", "1") : set(f, "save_every", "0");
    }
    if (every >= 1)
        return set_amount(f, "save_every", floor(every));
    if (every > 0 && epochs > 0 && !given(f, FACT_STEPS))
        return set_amount(f, "saves_per_epoch", 1 / (every * epochs));
    if (every > 0)
        demote(f, FACT_SAVE_EVERY, TRAINER_CONFIG_MATTERS, "set --save-every instead");
    return OK;
}

static enum err fill_batching(struct filling *f)
{
    const char *batching = NULL;
    if (is_set_to(f, FACT_PACKED, "yes"))
        batching = "packed";
    else if (is_set_to(f, FACT_GROUPED, "yes"))
        batching = "grouped";
    else if (is_set_to(f, FACT_PADDED, "yes"))
        batching = "max";
    else if (given(f, FACT_PACKED) || given(f, FACT_GROUPED))
        batching = "longest";
    if (is_set_to(f, FACT_PACKED, "yes") && is_set_to(f, FACT_GROUPED, "yes"))
        trainer_config_contradict(
            f->config,
            "%s packs rows and %s groups them by length, which has no effect on "
            "packed rows; using packed",
            place(f, FACT_PACKED), place(f, FACT_GROUPED));
    return batching ? set(f, "batching", batching) : OK;
}

static enum err fill_checkpointing(struct filling *f)
{
    bool both = is_set_to(f, FACT_RECOMPUTE, "full") && is_set_to(f, FACT_RECOMPUTE_FSDP, "yes");
    if (both)
        trainer_config_contradict(f->config,
                                  "%s and %s both recompute activations, which transformers "
                                  "refuses; using one of them",
                                  place(f, FACT_RECOMPUTE), place(f, FACT_RECOMPUTE_FSDP));
    if (is_set_to(f, FACT_RECOMPUTE_FSDP, "yes"))
        return set(f, "checkpointing", "full");
    return set_fact(f, FACT_RECOMPUTE);
}

// --- the objective -----------------------------------------------------------

static bool is_sampler(const char *name)
{
    bool found = false;
    for (size_t i = 0; name && sampler_names[i]; i++)
        found = found || !strcmp(sampler_names[i], name);
    return found;
}

static enum err fill_answer_lengths(struct filling *f)
{
    int64_t prompt = number(f, FACT_MOST_PROMPT, 0), answer = number(f, FACT_MOST_ANSWER, 0);
    TRY(set_fact(f, FACT_MOST_ANSWER));
    if (given(f, FACT_CONTEXT) || !prompt || !answer)
        return OK;
    return set(f, "context", text_format(f->config->arena, "%lld", (long long)(prompt + answer)));
}

static enum err fill_objective(struct filling *f)
{
    struct arena *arena = f->config->arena;
    f->request->named_data = given(f, FACT_DATASET);
    if (f->request->named_data)
        f->request->named_at = place(f, FACT_DATASET);
    const char *said = given(f, objective_fact(f)), *objective = objective_of(f);
    if (objective) {
        TRY(set(f, "objective", objective));
        static const enum trainer_config_fact_name facts[] = { FACT_GENERATIONS, FACT_ASYNC,
                                                               FACT_REWARD, FACT_ROUNDS };
        for (size_t i = 0; f->samples && i < sizeof facts / sizeof *facts; i++)
            TRY(set_fact(f, facts[i]));
        const char *episodes = given(f, FACT_EPISODES);
        if (f->samples && f->config->trainers >> TRAINER_OPENRLHF & 1) // its epochs are rounds
            TRY(set(f, "epochs", episodes ? episodes : "1"));
        if (f->samples && is_sampler(given(f, FACT_SAMPLER)))
            TRY(set_fact(f, FACT_SAMPLER));
        if (f->samples)
            TRY(fill_answer_lengths(f));
        if (f->samples && given(f, FACT_KL))
            TRY(set(f, "reference", amount(f, FACT_KL) > 0 ? "auto" : "none"));
        return strcmp(objective, "sft") ? set_fact(f, FACT_REFERENCE) : OK;
    }
    if (said)
        f->request->unknown_objective =
            text_format(arena,
                        "%s is \"%.40s\", which is not modelled; --objective names what comes "
                        "nearest: sft, dpo, ipo, orpo, simpo, kto, reward, grpo or ppo",
                        place(f, objective_fact(f)), said);
    else if (given(f, FACT_HINT))
        f->request->unknown_objective = text_format(
            arena,
            "%s is a key of preference tuning or reinforcement learning, and nothing "
            "says of which; add --objective dpo, ipo, orpo, simpo, kto, reward, grpo or "
            "ppo",
            place(f, FACT_HINT));
    return OK;
}

// --- GPUs and batches --------------------------------------------------------

static enum err fill_gpus(struct filling *f, int64_t gpus)
{
    int64_t nodes = number(f, FACT_NODES, 1), each = number(f, FACT_GPUS_PER_NODE, 0);
    int64_t all = number(f, FACT_GPUS, 0);
    if (all && each && all != each * nodes)
        trainer_config_contradict(f->config, "%s is %lld GPU%s but %s makes %lld; using %lld",
                                  place(f, FACT_GPUS), (long long)all, text_plural((double)all),
                                  place(f, FACT_GPUS_PER_NODE), (long long)(each * nodes),
                                  (long long)all);
    f->gpus = all ? all : each * nodes;
    if (f->gpus > PLAN_MOST_GPUS)
        return fail(ERR_INPUT, "--from: %lld GPUs are more than %d", (long long)f->gpus,
                    PLAN_MOST_GPUS);
    if (f->gpus)
        TRY(set(f, "gpus", text_format(f->config->arena, "%lld", (long long)f->gpus)));
    if (f->gpus && nodes > 1)
        TRY(set(f, "nodes", given(f, FACT_NODES)));
    if (gpus > 0 && gpus <= PLAN_MOST_GPUS) // more are refused where options are read
        f->gpus = gpus;
    double inside = (double)number(f, FACT_TENSOR, 1) * (double)number(f, FACT_SEQUENCE, 1) *
                    (double)number(f, FACT_PIPELINE, 1);
    bool divides = inside <= (double)f->gpus && f->gpus % (int64_t)inside == 0;
    f->ranks = divides ? f->gpus / (int64_t)inside : 0;
    if (f->gpus && !f->ranks)
        trainer_config_contradict(f->config,
                                  "the model is split over %.0f GPUs, and %lld GPUs are not a "
                                  "multiple of that; set --gpus",
                                  inside, (long long)f->gpus);
    return OK;
}

// A trainer's own global batch is what it updates on, a part of the step's answers; verl counts
// prompts there too.
static enum err fill_answers(struct filling *f, int64_t prompts, int64_t global)
{
    int64_t each = number(f, FACT_GENERATIONS, 1), answers = prompts * each;
    int64_t update = number(f, FACT_UPDATE_PROMPTS, 0) * each;
    update = update ? update : global;
    if (update && update < answers)
        TRY(set(f, "updates",
                text_format(f->config->arena, "%lld", (long long)(answers / update))));
    return set(f, "global_batch", text_format(f->config->arena, "%lld", (long long)answers));
}

static enum err fill_batch(struct filling *f)
{
    struct arena *arena = f->config->arena;
    int64_t micro = number(f, FACT_MICRO, 0), steps = number(f, FACT_ACCUMULATION, 0);
    int64_t global = number(f, FACT_GLOBAL, 0), ranks = f->ranks ? f->ranks : 1;
    int64_t product = micro * steps * ranks;
    int64_t prompts = f->samples ? number(f, FACT_PROMPTS, 0) : 0;
    if (micro)
        TRY(set(f, "micro_batch", given(f, FACT_MICRO)));
    if (prompts)
        return fill_answers(f, prompts, global);
    if (global && product && f->ranks && product != global) {
        trainer_config_contradict(
            f->config,
            "%s is %lld, but micro-batch %lld × accumulation %lld × %lld GPUs is "
            "%lld; using %lld",
            place(f, FACT_GLOBAL), (long long)global, (long long)micro, (long long)steps,
            (long long)ranks, (long long)product, (long long)product);
        global = product;
    }
    if (!global)
        global = product;
    if (global && !f->ranks && !given(f, FACT_GLOBAL))
        remark(f, "gpus", "the global batch is for one GPU; --gpus N multiplies it");
    return global ? set(f, "global_batch", text_format(arena, "%lld", (long long)global)) : OK;
}

// --- layout and stack --------------------------------------------------------

static const char *sharding(struct filling *f)
{
    static const char *const stages[] = { "ddp", "zero1", "zero2", "zero3" };
    const char *zero = given(f, FACT_ZERO), *fsdp = given(f, FACT_FSDP);
    if (!fsdp && is_set_to(f, FACT_FSDP_USED, "yes"))
        fsdp = "full"; // FSDP's default
    if (zero && strcmp(zero, "0") && fsdp && strcmp(fsdp, "none"))
        trainer_config_contradict(
            f->config,
            "%s shards with DeepSpeed and %s with FSDP, but a run can use only one; "
            "using DeepSpeed",
            place(f, FACT_ZERO), place(f, given(f, FACT_FSDP) ? FACT_FSDP : FACT_FSDP_USED));
    if (zero && *zero >= '0' && *zero <= '3')
        return stages[*zero - '0'];
    if (fsdp)
        return !strcmp(fsdp, "full") ? "fsdp" : !strcmp(fsdp, "gradients") ? "zero2" : "ddp";
    const char *usual = NULL;
    for (int t = 0; t < TRAINERS && !usual; t++)
        if (f->config->trainers >> t & 1)
            usual = trainer_config_tables[t].many;
    return f->gpus > 1 ? usual : NULL;
}

static enum err fill_parallel(struct filling *f)
{
    static const struct {
        enum trainer_config_fact_name fact;
        const char *word;
    } splits[] = { { FACT_TENSOR, "tp" }, { FACT_SEQUENCE, "cp" }, { FACT_PIPELINE, "pp" } };
    const char *shards = sharding(f);
    struct out out = { .arena = f->config->arena };
    if (shards)
        out_put(&out, "%s", shards);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        if (number(f, splits[i].fact, 1) > 1)
            out_put(&out, "%s%s%s", out.size ? " " : "", splits[i].word, given(f, splits[i].fact));
    bool both = is_set_to(f, FACT_OFFLOAD_FSDP, "yes");
    bool optimizer = both || is_set_to(f, FACT_OFFLOAD_OPTIMIZER, "yes");
    bool weights = both || is_set_to(f, FACT_OFFLOAD_WEIGHTS, "yes");
    bool activations = is_set_to(f, FACT_OFFLOAD_ACTIVATIONS, "yes");
    if (optimizer || weights || activations)
        out_put(&out, "%soffload%s%s%s", out.size ? " " : "", optimizer ? " optimizer" : "",
                weights ? " weights" : "", activations ? " activations" : "");
    if (is_set_to(f, FACT_SYNC, "yes"))
        out_put(&out, "%ssync_each_batch", out.size ? " " : "");
    return out.size ? set(f, "parallel", out_string(&out)) : OK;
}

static enum err fill_stack(struct filling *f)
{
    const char *stack = given(f, FACT_STACK);
    for (int t = 0; t < TRAINERS && !stack; t++)
        if (f->config->trainers >> t & 1)
            stack = trainer_config_tables[t].stack;
    if (!stack && f->config->trainers >> TRAINER_PEFT & 1)
        stack = stack_default(RECIPE_LORA);
    static const char *const with_deepspeed[][2] = {
        { "hf-peft", "hf-deepspeed" },
        { "hf-liger", "hf-liger-deepspeed" },
        { "llama-factory", "llama-factory-deepspeed" },
    };
    bool plain = stack && !strcmp(stack, stack_default(RECIPE_LORA));
    bool deepspeed = given(f, FACT_ZERO) && !is_set_to(f, FACT_ZERO, "0");
    for (size_t i = 0; deepspeed && i < sizeof with_deepspeed / sizeof *with_deepspeed; i++)
        if (stack && !strcmp(stack, with_deepspeed[i][0]))
            return set(f, "stack", with_deepspeed[i][1]);
    if (plain && f->method && !strcmp(f->method, "full"))
        stack = stack_default(RECIPE_FULL);
    return stack ? set(f, "stack", stack) : OK;
}

enum err plan_from(struct trainer_config *config, struct plan_request *request, int64_t gpus)
{
    struct filling f = { .config = config, .request = request };
    config->option_count = 0;
    const char *objective = objective_of(&f);
    f.samples = objective && objective_samples(kind_of(objective));
    apply_defaults(&f);
    TRY(fill_gpus(&f, gpus));
    TRY(fill_plain(&f));
    TRY(fill_rows(&f));
    TRY(fill_length(&f));
    TRY(fill_evaluations(&f));
    TRY(fill_saves(&f));
    TRY(fill_method(&f));
    TRY(fill_objective(&f));
    TRY(fill_batching(&f));
    TRY(fill_batch(&f));
    TRY(fill_checkpointing(&f));
    TRY(fill_parallel(&f));
    return fill_stack(&f);
}
