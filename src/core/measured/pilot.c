// SPDX-License-Identifier: Apache-2.0
// The pilot document: its fields as tables, written, read and checked.

#include "core/measured/pilot.h"
#include "core/trainers/trainer_config.h"

#include <math.h>
#include <string.h>

static const struct field head_fields[] = {
    FIELD(pilot, warmup_steps, COUNT, "steps before the rate was sustained"),
    FIELD(pilot, steps, COUNT, "steps measured after the warm-up"),
    FIELD(pilot, steady, FLAG, "whether the rate held"),
    FIELD(pilot, verdict, TEXT, "why the rate is not steady"),
    FIELD(pilot, not_seen, TEXT, "parts of the run that did not occur in the pilot",
          .since = "0.3.0"),
    FIELD(pilot, doubts, TEXT, "what in the log contradicts itself or the plan", .since = "0.6.0"),
    FIELD(pilot, peak_bytes, BYTES, "peak device memory"),
    FIELD(pilot, stack, TEXT, "as in stacks.json"),
    FIELD(pilot, trainer, TEXT, "trainer that ran"),
    FIELD(pilot, objective, TEXT, "what was optimised", .since = "0.4.0"),
    FIELD(pilot, answer_tokens, NUMBER, "mean length of a sampled answer", .since = "0.4.0"),
    FIELD(pilot, elapsed_seconds, SECONDS, "duration of the whole pilot"),
    FIELD(pilot, as_of, TEXT, "date"),
    { 0 },
};

static const struct field rate_fields[] = {
    FIELD_AS("mean", pilot, tokens_per_s.mean, NUMBER, "tokens/s over all GPUs"),
    FIELD_AS("low", pilot, tokens_per_s.low, NUMBER, "end of the 90 % interval"),
    FIELD_AS("high", pilot, tokens_per_s.high, NUMBER, "end of the 90 % interval"),
    { 0 },
};

static const struct field seconds_fields[] = {
    FIELD_AS("mean", pilot, step_seconds.mean, SECONDS, "mean of a step"),
    FIELD_AS("p10", pilot, step_seconds.p10, SECONDS, "10th percentile"),
    FIELD_AS("p50", pilot, step_seconds.p50, SECONDS, "median"),
    FIELD_AS("p90", pilot, step_seconds.p90, SECONDS, "90th percentile"),
    FIELD_AS("p99", pilot, step_seconds.p99, SECONDS, "99th percentile"),
    FIELD_AS("max", pilot, step_seconds.max, SECONDS, "longest step"),
    { 0 },
};

static const struct field fit_fields[] = {
    FIELD_AS("constant_seconds", pilot, fit.constant_seconds, NUMBER, "per micro-batch"),
    FIELD_AS("seconds_per_token", pilot, fit.seconds_per_token, NUMBER, "per processed token"),
    FIELD_AS("seconds_per_square", pilot, fit.seconds_per_square, NUMBER, "per squared token"),
    FIELD_AS("seconds_per_labelled", pilot, fit.seconds_per_labelled, NUMBER,
             "per token with loss"),
    FIELD_AS("spread", pilot, fit.spread, NUMBER, "standard deviation of residuals over the mean"),
    FIELD_AS("samples", pilot, fit.samples, COUNT, "micro-batches timed"),
    FIELD_AS("tokens_low", pilot, fit.tokens_low, NUMBER, "fewest tokens of a micro-batch"),
    FIELD_AS("tokens_high", pilot, fit.tokens_high, NUMBER, "most tokens of a micro-batch"),
    FIELD_AS("attended_low", pilot, fit.attended_low, NUMBER, "squared lengths over tokens, least"),
    FIELD_AS("attended_high", pilot, fit.attended_high, NUMBER,
             "squared lengths over tokens, most"),
    { 0 },
};

static const struct field composition_fields[] = {
    FIELD_AS("tokens", pilot, composition.tokens, NUMBER, "processed tokens of a step"),
    FIELD_AS("squares", pilot, composition.squares, NUMBER, "sum of squared lengths"),
    FIELD_AS("labelled", pilot, composition.labelled, NUMBER, "tokens with loss"),
    { 0 },
};

static const struct field card_fields[] = {
    FIELD_AS("name", pilot, gpu.name, TEXT, "as the driver reports it"),
    FIELD_AS("count", pilot, gpu.count, COUNT, "GPUs that took part"),
    FIELD_AS("memory_bytes", pilot, gpu.memory_bytes, BYTES, "memory of each GPU"),
    FIELD_AS("power_watts", pilot, gpu.power_watts, NUMBER, "mean power of each GPU"),
    FIELD_AS("power_limit_watts", pilot, gpu.power_limit_watts, NUMBER, "limit of each GPU"),
    FIELD_AS("clock_hertz", pilot, gpu.clock_hertz, NUMBER, "mean multiprocessor clock"),
    FIELD_AS("clock_limit_hertz", pilot, gpu.clock_limit_hertz, NUMBER,
             "highest multiprocessor clock"),
    FIELD_AS("temperature_celsius", pilot, gpu.temperature_celsius, NUMBER, "highest"),
    FIELD_AS("utilisation", pilot, gpu.utilisation, SHARE, "share of time with a kernel running"),
    FIELD_AS("throttled_share", pilot, gpu.throttled_share, SHARE, "share of time throttled"),
    FIELD_AS("throttling", pilot, gpu.throttling, TEXT, "reasons"),
    { 0 },
};

static const struct field stalls_fields[] = {
    FIELD_AS("data_seconds", pilot, stalls.data_seconds, SECONDS, "waiting for data"),
    FIELD_AS("evaluation_seconds", pilot, stalls.evaluation_seconds, SECONDS, "evaluation"),
    FIELD_AS("save_seconds", pilot, stalls.save_seconds, SECONDS, "checkpoints"),
    FIELD_AS("other_seconds", pilot, stalls.other_seconds, SECONDS, "unexplained stalls"),
    FIELD_AS("recurring_share", pilot, stalls.recurring_share, NUMBER,
             "of these two, what goes on, over the time of all steps without it: plans add it",
             .since = "0.9.9"),
    FIELD_AS("recurring_error", pilot, stalls.recurring_error, NUMBER,
             "its standard deviation: few were seen", .since = "0.9.9"),
    { 0 },
};

static const struct field apart_fields[] = {
    FIELD_AS("startup_seconds", pilot, apart.startup_seconds, SECONDS,
             "from start to the first step"),
    FIELD_AS("update_seconds", pilot, apart.update_seconds, SECONDS, "optimizer, per step"),
    FIELD_AS("evaluation_seconds_per_token", pilot, apart.evaluation_seconds_per_token, NUMBER,
             "forward pass only"),
    FIELD_AS("evaluations", pilot, apart.evaluations, COUNT, "evaluations that were seen",
             .since = "0.6.0"),
    FIELD_AS("first_evaluation_seconds", pilot, apart.first_evaluation_seconds, SECONDS,
             "of the first evaluation, which loads its kernels", .since = "0.6.0"),
    FIELD_AS("evaluation_seconds", pilot, apart.evaluation_seconds, SECONDS,
             "of one evaluation after the first", .since = "0.6.0"),
    FIELD_AS("evaluation_share", pilot, apart.evaluation_share, SHARE,
             "of the data, as the plan that was measured has it", .since = "0.6.0"),
    FIELD_AS("saves", pilot, apart.saves, COUNT, "saves that were seen", .since = "0.6.0"),
    FIELD_AS("save_seconds", pilot, apart.save_seconds, SECONDS, "of one checkpoint"),
    FIELD_AS("save_bytes", pilot, apart.save_bytes, BYTES, "of one checkpoint"),
    FIELD_AS("communication_seconds", pilot, apart.communication_seconds, SECONDS,
             "in collectives of several ranks, per step", .since = "0.6.0"),
    FIELD_AS("waited_seconds", pilot, apart.waited_seconds, SECONDS,
             "of these, while computation waited; the rest lay under it", .since = "0.6.0"),
    { 0 },
};

static const struct field transient_fields[] = {
    FIELD_AS("seconds_per_width", pilot, transient.seconds_per_width, SECONDS,
             "at the first sight of a width"),
    FIELD_AS("widths_seen", pilot, transient.widths_seen, NUMBER, "expected in the pilot"),
    FIELD_AS("widths_run", pilot, transient.widths_run, NUMBER, "expected in the whole run"),
    FIELD_AS("first_steps_seconds", pilot, transient.first_steps_seconds, SECONDS,
             "of the first steps and of stalls, beyond steady ones: kernels are loaded"),
    { 0 },
};

#define PHASE_FIELDS(member)                                                                  \
    {                                                                                         \
        FIELD_AS("rollout", pilot, member.rollout, SECONDS, "answers are sampled"),           \
            FIELD_AS("reward", pilot, member.reward, SECONDS, "answers are scored"),          \
            FIELD_AS("reference", pilot, member.reference, SECONDS, "pass of the reference"), \
            FIELD_AS("log_probabilities", pilot, member.log_probabilities, SECONDS,           \
                     "passes of the policy without gradients, or all that score"),            \
            FIELD_AS("critic", pilot, member.critic, SECONDS,                                 \
                     "values and training of the critic"),                                    \
            FIELD_AS("training", pilot, member.training, SECONDS, "training of the policy"),  \
            FIELD_AS("weight_update", pilot, member.weight_update, SECONDS,                   \
                     "new weights to the sampler"),                                           \
            { 0 },                                                                            \
    }
static const struct field phases_fields[] = PHASE_FIELDS(phases);
static const struct field planned_fields[] = PHASE_FIELDS(planned);

static const struct field configuration_fields[] = {
    FIELD(pilot_configuration, model, TEXT, "as in the catalog, or a folder"),
    FIELD(pilot_configuration, stack, TEXT, "as in stacks.json"),
    FIELD(pilot_configuration, gpu, TEXT, "as in the catalog"),
    FIELD(pilot_configuration, gpus, COUNT, "number of GPUs, all nodes"),
    FIELD(pilot_configuration, nodes, COUNT, "number of nodes"),
    FIELD(pilot_configuration, sampler_gpus, COUNT, "GPUs that only sample", .since = "0.4.0"),
    FIELD(pilot_configuration, parallel, TEXT, "layout"),
    FIELD(pilot_configuration, context, NUMBER, "most tokens of a row"),
    FIELD(pilot_configuration, batching, TEXT, "how rows become batches"),
    FIELD(pilot_configuration, micro_batch, NUMBER, "rows per GPU and pass"),
    FIELD(pilot_configuration, accumulation, NUMBER, "micro-batches per step"),
    FIELD(pilot_configuration, global_batch, NUMBER, "rows per step"),
    FIELD(pilot_configuration, micro_batch_tokens, NUMBER,
          "mean tokens of a micro-batch, padding included", .since = "0.8.0"),
    FIELD(pilot_configuration, attended_tokens, NUMBER,
          "mean length that a token's attention covers", .since = "0.8.0"),
    FIELD_AS("planned_tokens", pilot_configuration, tokens, NUMBER, "of the plan's data set, once"),
    FIELD_AS("planned_padding_share", pilot_configuration, padding_share, NUMBER,
             "of the tokens that the plan processes"),
    FIELD(pilot_configuration, lighter_share, SHARE,
          "of the layers, which recompute one level less (built-in engine)", .since = "0.9.9"),
    { 0 },
};

static const struct section {
    const char *key; // NULL: members of the document itself
    const struct field *fields;
} sections[] = {
    { "tokens_per_second", rate_fields },  { NULL, head_fields },
    { "step_seconds", seconds_fields },    { "fit", fit_fields },
    { "composition", composition_fields }, { "gpu", card_fields },
    { "stalls", stalls_fields },           { "apart", apart_fields },
    { "transient", transient_fields },     { "phases", phases_fields },
    { "planned_phases", planned_fields },
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static void clear_configuration(struct pilot_configuration *configuration)
{
    field_clear(configuration_fields, configuration);
    configuration->recipe = recipe_default();
}

void pilot_clear(struct pilot *pilot)
{
    memset(pilot, 0, sizeof *pilot);
    for (int i = 0; i < SECTIONS; i++)
        field_clear(sections[i].fields, pilot);
    clear_configuration(&pilot->configuration);
}

void pilot_configuration_write(const struct pilot_configuration *configuration,
                               struct json_writer *w)
{
    json_open(w, "configuration", '{');
    field_write(configuration_fields, configuration, w);
    field_write(recipe_fields, &configuration->recipe, w);
    json_close(w, '}');
}

void pilot_write(const struct pilot *pilot, struct out *out)
{
    struct json_writer w = { .out = out };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "pilot");
    json_put_count(&w, "version", 1);
    for (int i = 0; i < SECTIONS; i++) {
        if (sections[i].key)
            json_open(&w, sections[i].key, '{');
        field_write(sections[i].fields, pilot, &w);
        if (sections[i].key)
            json_close(&w, '}');
    }
    pilot_configuration_write(&pilot->configuration, &w);
    if (pilot->from)
        trainer_config_write(pilot->from, &w);
    json_close(&w, '}');
    out_char(out, '\n');
}

// Whole numbers are made of these: one beyond what a double counts exactly is none of rows or
// tokens.
static enum err check_counts(const struct pilot_configuration *c, const char *place)
{
    const double most = 1e15, counts[] = { c->context, c->micro_batch, c->accumulation,
                                           c->global_batch, c->tokens };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] < 0 || counts[i] > most)
            return fail(ERR_INPUT, "%s: has %g rows or tokens; expected are 0 to %g", place,
                        counts[i], most);
    return OK;
}

enum err pilot_configuration_read_member(struct pilot_configuration *out, struct arena *arena,
                                         const struct json *member, const char *place)
{
    clear_configuration(out);
    TRY(field_read(configuration_fields, out, arena, member, place, false));
    TRY(check_counts(out, place));
    return field_read(recipe_fields, &out->recipe, arena, member, place, false);
}

enum err pilot_configuration_read(struct pilot_configuration *out, struct arena *arena,
                                  const struct json *document, const char *name)
{
    clear_configuration(out);
    const struct json *in = json_get(document, "configuration");
    if (!in || in->kind != JSON_OBJECT)
        return fail(ERR_INPUT,
                    "%s: has no \"configuration\"; gpuhours plan --json and gpuhours pilot "
                    "--json write one",
                    name);
    TRY(pilot_configuration_read_member(out, arena, in,
                                        text_format(arena, "%s: configuration", name)));
    const struct json *workload = json_get(document, "workload"); // of a plan
    if (workload && isnan(out->tokens)) {
        out->tokens = json_get_number(workload, "tokens", NAN);
        out->padding_share = json_get_number(workload, "padding_share", NAN);
    }
    return check_counts(out, name);
}

double pilot_trainer_seconds(const struct pilot *pilot)
{
    const struct pilot_phases *p = &pilot->phases;
    const double parts[] = { p->reference, p->log_probabilities, p->critic };
    double seconds = p->rollout > 0 && p->training > 0 ? p->training : NAN;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        seconds += parts[i] > 0 ? parts[i] : 0;
    return seconds;
}

void pilot_phases_read(struct pilot_phases *out, const struct json *plan)
{
    struct pilot planned;
    pilot_clear(&planned);
    const struct json *phases = json_get(plan, "phases");
    for (size_t i = 0; phases && phases->kind == JSON_ARRAY && i < phases->count; i++) {
        struct text name = json_get_text(&phases->items[i], "name");
        char key[32] = { 0 };
        for (size_t c = 0; c < name.size && c + 1 < sizeof key; c++)
            key[c] = (char)(name.at[c] == ' ' ? '_' : name.at[c]);
        const struct field *field = field_find(planned_fields, text_of(key));
        if (field)
            *(double *)((char *)&planned + field->offset) =
                json_get_number(&phases->items[i], "seconds", NAN);
        // A trainer's time of sampling has the wait for the longest answer in it.
        if (text_is(name, "waiting") && planned.planned.rollout > 0)
            planned.planned.rollout += json_get_number(&phases->items[i], "seconds", 0);
    }
    *out = planned.planned;
}

static enum err check_kind(const struct json *tree, const char *name)
{
    if (tree->kind != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: is %s, must be an object", name, json_kind_name(tree->kind));
    struct text kind = json_get_text(tree, "kind");
    if (!text_is(kind, "pilot"))
        return fail(ERR_INPUT,
                    "%s: is not a pilot (kind \"%.*s\"); gpuhours pilot --out writes one", name,
                    TEXT_BRIEF(kind));
    double version = json_get_number(tree, "version", NAN);
    if (version != 1)
        return fail(ERR_INPUT, "%s: has version %g, this program reads 1", name, version);
    return OK;
}

// A pilot without tokens per step measured seconds per step: whoever adds the tokens has the rate.
static void complete_rate(struct pilot *pilot)
{
    double rate = pilot->composition.tokens / pilot->step_seconds.mean;
    if (isnan(pilot->tokens_per_s.mean) && rate > 0)
        pilot->tokens_per_s = (struct pilot_rate){ rate, NAN, NAN };
}

static enum err check_rate(const struct pilot *pilot, const char *name)
{
    const struct pilot_rate *rate = &pilot->tokens_per_s;
    if (isnan(rate->mean) && pilot->step_seconds.mean > 0)
        return fail(ERR_INPUT,
                    "%s: has %.3g steps/s but no tokens/s; set composition.tokens in it to the "
                    "tokens per step (rows × tokens per row × GPUs × accumulation), or run the "
                    "pilot again with --tokens-per-step",
                    name, 1 / pilot->step_seconds.mean);
    if (!(rate->mean > 0 && rate->mean < 1e12))
        return fail(ERR_INPUT,
                    "%s: tokens_per_second.mean is %g, must be above 0; run the pilot longer to "
                    "measure a rate",
                    name, rate->mean);
    if (rate->low > rate->mean || rate->high < rate->mean || rate->low <= 0)
        return fail(ERR_INPUT,
                    "%s: tokens_per_second.mean is %g, outside its own interval %g to %g", name,
                    rate->mean, rate->low, rate->high);
    if (pilot->composition.tokens < 1)
        return fail(ERR_INPUT,
                    "%s: composition.tokens is %g: a step has at least one; check the numbers of "
                    "the steps in the log",
                    name, pilot->composition.tokens);
    const double coefficients[] = { pilot->fit.constant_seconds, pilot->fit.seconds_per_token,
                                    pilot->fit.seconds_per_square, pilot->fit.seconds_per_labelled,
                                    pilot->fit.spread };
    for (size_t i = 0; i < sizeof coefficients / sizeof *coefficients; i++)
        if (coefficients[i] < 0)
            return fail(ERR_INPUT, "%s: fit.%s is %g, must be 0 or more", name, fit_fields[i].name,
                        coefficients[i]);
    return OK;
}

enum err pilot_read(struct pilot *out, struct arena *arena, struct text json, const char *name)
{
    struct json tree;
    TRY(json_read(&tree, arena, json, name));
    TRY(check_kind(&tree, name));
    pilot_clear(out);
    for (int i = 0; i < SECTIONS; i++) {
        const char *key = sections[i].key;
        const struct json *in = key ? json_get(&tree, key) : &tree;
        if (!in)
            continue;
        TRY(field_read(sections[i].fields, out, arena, in,
                       key ? text_format(arena, "%s: %s", name, key) : name, false));
    }
    TRY(pilot_configuration_read(&out->configuration, arena, &tree, name));
    complete_rate(out);
    return check_rate(out, name);
}

const struct field *pilot_table(int index, const char **key)
{
    const struct section more[] = { { "configuration", configuration_fields },
                                    { "configuration", recipe_fields },
                                    { 0 } };
    const int most = SECTIONS + sizeof more / sizeof *more - 1;
    const struct section *section = index < SECTIONS ? &sections[index]
                                    : index < most   ? &more[index - SECTIONS]
                                                     : &more[most - SECTIONS];
    *key = section->key;
    return section->fields;
}

const char *pilot_lacks(const struct pilot *pilot)
{
    const struct pilot_configuration *c = &pilot->configuration;
    const char *gpu = c->gpu ? c->gpu : pilot->gpu.name;
    bool has_names = c->model && (c->stack || pilot->stack);
    if (gpu && !strcmp(gpu, "cpu"))
        return "was measured on a CPU, which tells nothing about a GPU; run the pilot on the GPU "
               "that will train";
    if (pilot->planned.rollout > 0 && isnan(pilot_trainer_seconds(pilot)))
        return "does not tell the phases of its steps apart; verl, NeMo-RL and OpenRLHF print "
               "them, TRL does not";
    if (!(pilot->tokens_per_s.mean > 0))
        return "has no tokens/s; set composition.tokens in it, or repeat the command "
               "with --tokens-per-step N, --from CONFIG or --plan FILE";
    if (!has_names)
        return "does not name model and stack; repeat the command with --plan FILE or --from "
               "CONFIG";
    return gpu ? NULL : "does not name its GPU; set configuration.gpu in it";
}
