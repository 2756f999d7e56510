// SPDX-License-Identifier: Apache-2.0
// Which measured runs the range of a plan's speed rests on, and what nobody has measured, in words
// and in the document.

#include "core/plan/plan_internal.h"

#include <math.h>
#include <string.h>

// What a reader is told about, in this order. Pairs and families follow from these.
static const struct {
    enum evidence_factor factor;
    const char *words;
    bool far; // nothing near was measured where nobody has measured this
} told[] = {
    { EVIDENCE_STACK, "of %s", false },
    { EVIDENCE_GPU, "on %s", false },
    { EVIDENCE_GENERATION, "on %s cards", true },
    { EVIDENCE_METHOD, "with %s", true },
    { EVIDENCE_PRECISION, "in %s", true },
    { EVIDENCE_GPUS, "on about %s GPUs", false },
    { EVIDENCE_CONTEXT, "near a context of %s", false },
};
enum { TOLD = sizeof told / sizeof *told };

static const struct evidence_level *level_at(const struct plan *plan, enum evidence_factor factor)
{
    const struct evidence_level *level =
        evidence_level(&plan->data->calibration.evidence, &plan->place, factor);
    return level && level->runs > 0 ? level : NULL;
}

// The place's own name of a factor, or its number.
static const char *name_of(const struct plan *plan, enum evidence_factor factor,
                           struct arena *arena)
{
    if (factor < EVIDENCE_NAMES)
        return plan->place.names[factor];
    double number = factor == EVIDENCE_GPUS      ? plan->place.gpus
                    : factor == EVIDENCE_CONTEXT ? plan->place.context
                                                 : plan->place.batch_tokens;
    return text_format(arena, "%.0f", number);
}

// "on h200-sxm"
static const char *words_of(const struct plan *plan, int item, struct arena *arena)
{
    enum evidence_factor factor = told[item].factor;
    struct out out = { .arena = arena };
    const char *words = told[item].words, *at = strstr(words, "%s");
    out_put(&out, "%.*s%s%s", (int)(at - words), words, name_of(plan, factor, arena), at + 2);
    return out_string(&out);
}

static const char *kind_words(const struct plan *plan)
{
    static const char *const words[][2] = { { "dense", "dense models" },
                                            { "moe", "mixtures of experts" },
                                            { "vision", "training on images" },
                                            { "vision moe", "mixtures of experts with images" },
                                            { "vision trained", "training an encoder of images" } };
    const char *kind = plan->place.names[EVIDENCE_KIND];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(kind, words[i][0]))
            return words[i][1];
    return kind;
}

// "of hf-peft, on mi300x"; NULL where all was measured. far_only: what nothing near stands for.
static const char *unmeasured(const struct plan *plan, struct arena *arena, bool far_only)
{
    struct out out = { .arena = arena };
    for (int i = 0; i < TOLD; i++)
        if (!level_at(plan, told[i].factor) && (told[i].far || !far_only))
            out_put(&out, "%s%s", out.size ? ", " : "", words_of(plan, i, arena));
    return out.size ? out_string(&out) : NULL;
}

static const double SEEN_TAIL = 0.1; // worth a word
static const int SEEN_REST = 3;      // likewise, in percent

static int percent_of(double log_spread)
{
    return (int)lround(100 * expm1(STATS_P90 * log_spread));
}

// "how little was measured of l4 (1 source)": what is strange about a plan, where it is the most of
// what runs do not narrow.
static const char *strange_words(const struct plan *plan, struct arena *arena)
{
    const struct calibration *c = &plan->data->calibration;
    double card = calibration_strange_card(c, plan->chosen.gpu);
    double trainer = calibration_strange_trainer(c, plan->stack);
    enum evidence_factor factor = card > trainer ? EVIDENCE_GPU : EVIDENCE_STACK;
    const char *name = plan->place.names[factor];
    long long sources = (long long)evidence_sources(&c->evidence, factor, name);
    if (hypot(card, trainer) < calibration_untold)
        return NULL;
    return sources ? text_format(arena, "how little was measured of %s (%lld source%s)", name,
                                 sources, sources == 1 ? "" : "s")
                   : text_format(arena, "that nobody has measured %s", name);
}

// What most of a range is that runs do not narrow.
static const char *rest_words(const struct plan *plan, struct arena *arena)
{
    const struct search_result *chosen = &plan->chosen;
    const struct timing *timing = &plan->estimate.timing;
    const char *strange = strange_words(plan, arena);
    if (plan->stack->trainer_spread > 0)
        return "which trainer it is";
    if (plan->model->experts &&
        (chosen->recipe.experts == RECIPE_EXPERTS_EAGER || plan_has_serial_experts(plan)))
        return "what a loop over experts costs the host";
    if (chosen->layout.expert > 1)
        return "how evenly GPUs share the experts";
    if (strange)
        return strange;
    return compute_network_share(timing) > compute_host_share(timing)
               ? "what the network and the pipeline really take"
               : "how fast the host launches kernels";
}

// The range of a run like none that was measured, on a card and by a trainer that nobody has.
static double unmeasured_spread(const struct plan *plan)
{
    double strange = calibration_strangeness(0);
    return hypot(exp(plan->data->calibration.evidence.log_widest), hypot(strange, strange));
}

const char *plan_evidence_words(const struct plan *plan, struct arena *arena)
{
    struct out out = { .arena = arena };
    const struct evidence *evidence = &plan->data->calibration.evidence;
    const struct evidence_level *kind = level_at(plan, EVIDENCE_KIND);
    if (!kind)
        out_put(&out, "no run of %s was measured", kind_words(plan));
    else
        out_put(&out, "%lld measured run%s of %s (%lld source%s)", (long long)kind->runs,
                text_plural(kind->runs), kind_words(plan), (long long)kind->sources,
                text_plural(kind->sources));
    for (int i = 0, shown = 0; i < TOLD; i++) {
        const struct evidence_level *level = level_at(plan, told[i].factor);
        if (level)
            out_put(&out, "%s%lld %s (%lld)", shown++ ? ", " : ": ", (long long)level->runs,
                    words_of(plan, i, arena), (long long)level->sources);
    }
    const char *missing = kind ? unmeasured(plan, arena, false) : NULL;
    if (missing)
        out_put(&out, "; none %s: widened", missing);
    out_put(&out, "; without any the range would be ± %d %%", percent_of(unmeasured_spread(plan)));
    double runs = evidence_spread(evidence, &plan->place);
    double known = hypot(runs, calibration_untold);
    out_put(&out, "; these runs leave ± %d %%, with what no recipe tells ± %d %%", percent_of(runs),
            percent_of(known));
    if (percent_of(plan->prior.log_spread) > percent_of(known) + SEEN_REST)
        out_put(&out, "; the rest is %s", rest_words(plan, arena));
    if (plan->prior.slow_tail >= SEEN_TAIL)
        out_put(&out,
                "; on a machine whose CPU is slow, or shared with others, the speed may be %d %% "
                "lower: a pilot on it measures that",
                (int)lround(100 * (1 - 1 / efficiency_slowdown(&plan->prior))));
    return out_string(&out);
}

const char *plan_unmeasured_words(const struct plan *plan, struct arena *arena)
{
    bool known = level_at(plan, EVIDENCE_KIND) != NULL;
    const char *missing = known ? unmeasured(plan, arena, true) : "at all";
    if (!missing)
        return NULL;
    return text_format(arena,
                       "there is no measured run of %s %s, so the range of the speed is wide, "
                       "± %d %%; %s measures it",
                       kind_words(plan), missing, percent_of(plan->prior.log_spread),
                       plan_pilot_length(plan, arena));
}

static void put_level(struct json_writer *w, const struct plan *plan, int factor,
                      struct arena *arena)
{
    const struct evidence_level *level = level_at(plan, (enum evidence_factor)factor);
    json_open(w, NULL, '{');
    json_put_string(w, "factor", evidence_factors[factor]);
    json_put_string(w, "level",
                    level ? level->level : name_of(plan, (enum evidence_factor)factor, arena));
    json_put_count(w, "runs", level ? level->runs : 0);
    json_put_count(w, "sources", level ? level->sources : 0);
    json_put_number(w, "narrowing", level ? level->narrowing : 0);
    json_close(w, '}');
}

void plan_put_evidence(struct json_writer *w, const struct plan *plan, struct arena *arena)
{
    json_open(w, "evidence", '{');
    json_put_number(w, "log_spread", plan->prior.log_spread);
    json_put_number(w, "slow_tail", plan->prior.slow_tail);
    json_put_number(w, "log_spread_unmeasured", unmeasured_spread(plan));
    json_put_number(w, "log_spread_card",
                    calibration_strange_card(&plan->data->calibration, plan->chosen.gpu));
    json_put_number(w, "log_spread_trainer",
                    calibration_strange_trainer(&plan->data->calibration, plan->stack));
    for (int missing = 0; missing < 2; missing++) {
        json_open(w, missing ? "never_measured" : "measured", '[');
        for (int f = 0; f < EVIDENCE_FACTORS; f++)
            if (f != EVIDENCE_STACK_VENDOR && f != EVIDENCE_STACK_METHOD &&
                !level_at(plan, (enum evidence_factor)f) == (bool)missing)
                put_level(w, plan, f, arena);
        json_close(w, ']');
    }
    json_close(w, '}');
}
