// From facts to options: what several keys decide together, and what cannot all be true.

#include "core/plan/plan_from.h"

#include "core/trainers/trainer_facts.h"

#include <stdlib.h>
#include <string.h>

struct filling {
    struct trainer_config *config;
    struct plan_request *request;
    int64_t gpus;  // 0: nobody says
    int64_t ranks; // data-parallel ones; 0: nobody knows
    const char *method;
};

static const char *said(const struct filling *f, enum trainer_config_fact_name fact)
{
    return f->config->facts[fact].value;
}

static bool says(const struct filling *f, enum trainer_config_fact_name fact, const char *value)
{
    const char *known = said(f, fact);
    return known && !strcmp(known, value);
}

static int64_t number(const struct filling *f, enum trainer_config_fact_name fact,
                      int64_t otherwise)
{
    int64_t value;
    const char *known = said(f, fact);
    return known && !text_read_count(&value, text_of(known)) ? value : otherwise;
}

// "lora_r of peft.json"
static const char *place(const struct filling *f, enum trainer_config_fact_name fact)
{
    const struct trainer_config_fact *known = &f->config->facts[fact];
    return text_format(f->config->arena, "%s of %s", known->key, known->file);
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
    return said(f, fact) ? set(f, trainer_config_fact_options[fact], said(f, fact)) : OK;
}

static void remark(struct filling *f, const char *key, const char *why)
{
    for (size_t i = 0; i < f->config->item_count; i++)
        if (f->config->items[i].remark == why)
            return;
    trainer_config_note(f->config, (struct trainer_config_item){ .file = "together",
                                                                 .key = key,
                                                                 .value = "not said",
                                                                 .effect = TRAINER_CONFIG_MATTERS,
                                                                 .remark = why });
}

// --- defaults ----------------------------------------------------------------

// A default that another fact makes pointless.
static bool is_moot(const struct filling *f, enum trainer_config_fact_name fact)
{
    bool full = says(f, FACT_ADAPTER, "full");
    switch (fact) {
    case FACT_RANK:
    case FACT_TARGETS: return full || !said(f, FACT_ADAPTER);
    case FACT_ADAPTER: return !said(f, FACT_MODEL) || said(f, FACT_RANK);
    case FACT_ACCUMULATION: return said(f, FACT_GLOBAL) != NULL;
    default: return false;
    }
}

static void apply_defaults(struct filling *f)
{
    struct trainer_config *config = f->config;
    if (!said(f, FACT_ADAPTER) && said(f, FACT_RANK))
        trainer_config_say(config, FACT_ADAPTER, "lora", config->facts[FACT_RANK].file,
                           config->facts[FACT_RANK].key);
    for (int t = 0; t < TRAINERS; t++) {
        const struct trainer_config_table *table = &trainer_config_tables[t];
        if (!(config->trainers >> t & 1))
            continue;
        for (const struct trainer_config_default *d = table->defaults; d && d->value; d++) {
            if (said(f, d->fact) || is_moot(f, d->fact))
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
    const char *quantization = said(f, FACT_QUANTIZATION);
    f->method = said(f, FACT_ADAPTER);
    if (quantization && f->method && !strcmp(f->method, "full")) {
        trainer_config_contradict(f->config,
                                  "%s quantizes the model and no adapter is trained, but quantized "
                                  "weights cannot be; qlora is taken",
                                  place(f, FACT_QUANTIZATION));
        f->method = "qlora";
    }
    if (f->method && !strcmp(f->method, "qlora") && !quantization && is_off(f, "load_in_4bit"))
        trainer_config_contradict(f->config,
                                  "%s is qlora and load_in_4bit is off; 4 bits are taken",
                                  place(f, FACT_ADAPTER));
    if (quantization)
        f->method = "qlora"; // LoRA over a quantized base is
    if (quantization && !strcmp(quantization, "nf4") && says(f, FACT_NESTED, "yes"))
        quantization = "nf4-nested";
    if (quantization)
        TRY(set(f, "quantization", quantization));
    if (!f->method)
        return OK;
    TRY(set(f, "method", f->method));
    if (!strcmp(f->method, "full")) {
        if (said(f, FACT_RANK) && strcmp(f->config->facts[FACT_RANK].key, "the default"))
            trainer_config_contradict(f->config,
                                      "%s sets a rank and %s trains the whole model; the whole "
                                      "model is taken",
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
        FACT_MODEL,  FACT_PRECISION,  FACT_WEIGHTS, FACT_OPTIMIZER, FACT_CONTEXT,
        FACT_EPOCHS, FACT_EVAL_SHARE, FACT_EVALS,   FACT_SEED,
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        TRY(set_fact(f, plain[i]));
    if (!said(f, FACT_PRECISION) && is_off(f, "bf16") && is_off(f, "fp16"))
        remark(f, "precision",
               "bf16 and fp16 are off: products have the dtype that weights are loaded in; "
               "--precision says which");
    return OK;
}

static enum err fill_batching(struct filling *f)
{
    const char *batching = NULL;
    if (says(f, FACT_PACKED, "yes"))
        batching = "packed";
    else if (says(f, FACT_GROUPED, "yes"))
        batching = "grouped";
    else if (says(f, FACT_PADDED, "yes"))
        batching = "max";
    else if (said(f, FACT_PACKED) || said(f, FACT_GROUPED))
        batching = "longest";
    if (says(f, FACT_PACKED, "yes") && says(f, FACT_GROUPED, "yes"))
        trainer_config_contradict(f->config,
                                  "%s packs rows and %s groups them by length, which packing "
                                  "leaves nothing of; packed is taken",
                                  place(f, FACT_PACKED), place(f, FACT_GROUPED));
    return batching ? set(f, "batching", batching) : OK;
}

static enum err fill_checkpointing(struct filling *f)
{
    bool both = says(f, FACT_RECOMPUTE, "full") && says(f, FACT_RECOMPUTE_FSDP, "yes");
    if (both)
        trainer_config_contradict(f->config,
                                  "%s and %s both recompute activations, which transformers "
                                  "refuses; one of them is taken",
                                  place(f, FACT_RECOMPUTE), place(f, FACT_RECOMPUTE_FSDP));
    if (says(f, FACT_RECOMPUTE_FSDP, "yes"))
        return set(f, "checkpointing", "full");
    return set_fact(f, FACT_RECOMPUTE);
}

// --- GPUs and batches --------------------------------------------------------

static enum err fill_gpus(struct filling *f, int64_t gpus)
{
    int64_t nodes = number(f, FACT_NODES, 1), each = number(f, FACT_GPUS_PER_NODE, 0);
    int64_t all = number(f, FACT_GPUS, 0);
    if (all && each && all != each * nodes)
        trainer_config_contradict(f->config, "%s is %lld GPUs and %s makes %lld; %lld are taken",
                                  place(f, FACT_GPUS), (long long)all, place(f, FACT_GPUS_PER_NODE),
                                  (long long)(each * nodes), (long long)all);
    f->gpus = all ? all : each * nodes;
    if (f->gpus > PLAN_MOST_GPUS)
        return fail(ERR_INPUT, "--from: %lld GPUs are more than %d", (long long)f->gpus,
                    PLAN_MOST_GPUS);
    if (f->gpus)
        TRY(set(f, "gpus", text_format(f->config->arena, "%lld", (long long)f->gpus)));
    if (f->gpus && nodes > 1)
        TRY(set(f, "nodes", said(f, FACT_NODES)));
    if (gpus > 0 && gpus <= PLAN_MOST_GPUS) // more are refused where the line is read
        f->gpus = gpus;
    double inside = (double)number(f, FACT_TENSOR, 1) * (double)number(f, FACT_SEQUENCE, 1) *
                    (double)number(f, FACT_PIPELINE, 1);
    bool divides = inside <= (double)f->gpus && f->gpus % (int64_t)inside == 0;
    f->ranks = divides ? f->gpus / (int64_t)inside : 0;
    if (f->gpus && !f->ranks)
        trainer_config_contradict(f->config,
                                  "the model is split over %.0f GPUs, of which %lld are no "
                                  "multiple; --gpus says how many there are",
                                  inside, (long long)f->gpus);
    return OK;
}

static enum err fill_batch(struct filling *f)
{
    struct arena *arena = f->config->arena;
    int64_t micro = number(f, FACT_MICRO, 0), steps = number(f, FACT_ACCUMULATION, 0);
    int64_t global = number(f, FACT_GLOBAL, 0), ranks = f->ranks ? f->ranks : 1;
    int64_t product = micro * steps * ranks;
    if (micro)
        TRY(set(f, "micro_batch", said(f, FACT_MICRO)));
    if (global && product && f->ranks && product != global) {
        trainer_config_contradict(f->config,
                                  "%s is %lld, but %lld rows × %lld passes × %lld GPUs are %lld; "
                                  "%lld are taken",
                                  place(f, FACT_GLOBAL), (long long)global, (long long)micro,
                                  (long long)steps, (long long)ranks, (long long)product,
                                  (long long)product);
        global = product;
    }
    if (!global)
        global = product;
    if (global && !f->ranks && !said(f, FACT_GLOBAL))
        remark(f, "gpus", "the global batch is that of one GPU; --gpus N multiplies it");
    return global ? set(f, "global_batch", text_format(arena, "%lld", (long long)global)) : OK;
}

// --- layout and stack --------------------------------------------------------

static const char *sharding(struct filling *f)
{
    static const char *const stages[] = { "ddp", "zero1", "zero2", "zero3" };
    const char *zero = said(f, FACT_ZERO), *fsdp = said(f, FACT_FSDP);
    if (!fsdp && says(f, FACT_FSDP_USED, "yes"))
        fsdp = "full"; // what FSDP does unless told
    if (zero && strcmp(zero, "0") && fsdp && strcmp(fsdp, "none"))
        trainer_config_contradict(f->config,
                                  "%s shards by DeepSpeed and %s by FSDP, of which a run has one; "
                                  "DeepSpeed is taken",
                                  place(f, FACT_ZERO),
                                  place(f, said(f, FACT_FSDP) ? FACT_FSDP : FACT_FSDP_USED));
    if (zero && *zero >= '0' && *zero <= '3')
        return stages[*zero - '0'];
    if (fsdp)
        return !strcmp(fsdp, "full") ? "fsdp" : !strcmp(fsdp, "gradients") ? "zero2" : "ddp";
    const char *many = NULL;
    for (int t = 0; t < TRAINERS && !many; t++)
        if (f->config->trainers >> t & 1)
            many = trainer_config_tables[t].many;
    return f->gpus > 1 ? many : NULL;
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
            out_put(&out, "%s%s%s", out.size ? " " : "", splits[i].word, said(f, splits[i].fact));
    bool optimizer = says(f, FACT_OFFLOAD_OPTIMIZER, "yes");
    bool weights = says(f, FACT_OFFLOAD_WEIGHTS, "yes");
    if (optimizer || weights)
        out_put(&out, "%soffload%s%s", out.size ? " " : "", optimizer ? " optimizer" : "",
                weights && !optimizer ? " weights" : "");
    if (optimizer && weights)
        remark(f, "offload", "weights are offloaded too; the optimizer's share is forecast");
    return out.size ? set(f, "parallel", out_string(&out)) : OK;
}

static enum err fill_stack(struct filling *f)
{
    const char *stack = said(f, FACT_STACK);
    for (int t = 0; t < TRAINERS && !stack; t++)
        if (f->config->trainers >> t & 1)
            stack = trainer_config_tables[t].stack;
    if (!stack && f->config->trainers >> TRAINER_PEFT & 1)
        stack = stack_default(RECIPE_LORA);
    bool plain = stack && !strcmp(stack, stack_default(RECIPE_LORA));
    if (plain && said(f, FACT_ZERO) && !says(f, FACT_ZERO, "0"))
        stack = "hf-deepspeed";
    else if (plain && f->method && !strcmp(f->method, "full"))
        stack = stack_default(RECIPE_FULL);
    return stack ? set(f, "stack", stack) : OK;
}

enum err plan_from(struct trainer_config *config, struct plan_request *request, int64_t gpus)
{
    struct filling f = { .config = config, .request = request };
    config->option_count = 0;
    apply_defaults(&f);
    TRY(fill_gpus(&f, gpus));
    TRY(fill_plain(&f));
    TRY(fill_method(&f));
    TRY(fill_batching(&f));
    TRY(fill_batch(&f));
    TRY(fill_checkpointing(&f));
    TRY(fill_parallel(&f));
    return fill_stack(&f);
}
