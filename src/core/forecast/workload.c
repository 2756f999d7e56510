// SPDX-License-Identifier: Apache-2.0
// From a rule to a workload: padding, batches and steps for one micro-batch and layout.

#include "core/forecast/workload.h"

#include <math.h>

enum { LARGEST_RUN = 1000 }; // million million tokens

struct workload_rule workload_rule(void)
{
    // From batches simulated on Alpaca, GSM8K, T0, SGD and MOSS at contexts of 2,048 and 4,096
    // with Llama 3's tokenizer: padded to the context 2 to 32 % of the slots were useful, to the
    // longest of 8 rows 31 to 64 %, grouped by length 87 to 98 %, packed 96 to 99 %. The spreads
    // are those that give a lognormal the same longest of eight.
    return (struct workload_rule){
        .examples = NAN,
        .epochs = 1,
        .context = 2048,
        .batching = BATCHING_PACKED,
        .labelled_share = 1,
        .mean_length = NAN,
        .length_spread = { 0.336, 0.590, 1.054 },
        .grouped_fill = { 0.875, 0.95, 0.98 },
        .packed_fill = { 0.96, 0.98, 0.99 },
    };
}

const char *workload_spell_epochs(double epochs, struct arena *arena)
{
    bool whole = epochs == nearbyint(epochs) || epochs >= 99.95;
    return text_format(arena, whole ? "%.0f" : "%.3g", epochs);
}

enum err workload_check(const struct workload_rule *rule)
{
    if (!(rule->tokens >= 1))
        return fail(ERR_USAGE, "%s",
                    rule->missing ? rule->missing
                                  : "there are no tokens to train on; give data files, --profile "
                                    "profile.json or --tokens 21.4M");
    if (rule->tokens > LARGEST_RUN * 1e12)
        return fail(ERR_USAGE, "--tokens is %.3g, more than any data set has (%d T at most)",
                    rule->tokens, LARGEST_RUN);
    if (!(rule->epochs > 0 && rule->epochs <= WORKLOAD_MOST_EPOCHS))
        return fail(
            ERR_USAGE,
            "--epochs is %g, must be above 0 and at most " FIELD_WORDS(WORKLOAD_MOST_EPOCHS),
            rule->epochs);
    if (!(rule->context >= 1 && rule->context <= 1 << 24))
        return fail(ERR_USAGE, "--context is %.0f, must be from 1 to %d tokens", rule->context,
                    1 << 24);
    if (rule->mean_length < 1)
        return fail(ERR_USAGE, "--mean-length is %g, must be at least 1 token", rule->mean_length);
    if (rule->examples > rule->tokens)
        return fail(ERR_USAGE,
                    "--examples is %.0f, more than the %.0f tokens; an example has one or more",
                    rule->examples, rule->tokens);
    return OK;
}

double workload_longest(double spread, double examples)
{
    return stats_lognormal_longest(spread, examples);
}

double workload_known_mean(const struct workload_rule *rule)
{
    return !isnan(rule->mean_length) ? rule->mean_length
           : rule->examples > 0      ? rule->tokens / rule->examples
                                     : NAN;
}

// A line through ln mean over ln context of 45 public data sets and recipes that train on them, at
// contexts up to 16,384 (bench/data_lengths.csv); 80 % lie within 2.5 times either way of it.
// Longer contexts are chosen for long examples: the means of seven recipes are up to 0.37 of
// theirs.
struct range workload_assumed_lengths(double context)
{
    double mid = exp(2.1 + 0.53 * log(context)), fullest = 0.85 * context;
    double high = context > 16384 ? fmax(2.5 * mid, 0.37 * context) : 2.5 * mid;
    return (struct range){ fmax(1, fmin(mid / 2.5, fullest)), fmax(1, fmin(mid, fullest)),
                           fmax(1, fmin(high, fullest)) };
}

struct range workload_mean_lengths(const struct workload_rule *rule)
{
    double known = workload_known_mean(rule);
    if (!isnan(known)) {
        known = fmin(known, rule->context);
        return (struct range){ known, known, known };
    }
    return workload_assumed_lengths(rule->context);
}

struct range workload_spread(const struct workload_rule *rule)
{
    const struct range *usual = &rule->length_spread;
    double room = STATS_P90 * STATS_P90 - 2 * log(rule->context / workload_mean_lengths(rule).mid);
    if (!(room > 0))
        return *usual;
    double most = STATS_P90 - sqrt(room); // with it P90 is the context
    return (struct range){ fmin(usual->low, most), fmin(usual->mid, most),
                           fmin(usual->high, most) };
}

// Useful over processed tokens, for lengths of that mean and spread.
static double fill(const struct workload_rule *rule, double mean, double spread, double micro_batch)
{
    double widest = rule->context / mean;
    return rule->batching == BATCHING_MAX ? 1 / widest
                                          : 1 / fmin(widest, workload_longest(spread, micro_batch));
}

// The fill as a range: low is what the least favourable lengths leave.
static struct range fills(const struct workload_rule *rule, const struct range *mean,
                          const struct range *spread, double micro_batch)
{
    switch (rule->batching) {
    case BATCHING_GROUPED: // one row is as long as itself
        return micro_batch > 1 ? rule->grouped_fill : (struct range){ 1, 1, 1 };
    case BATCHING_PACKED: return rule->packed_fill;
    case BATCHING_MAX:
        return (struct range){ fill(rule, mean->low, 0, 1), fill(rule, mean->mid, 0, 1),
                               fill(rule, mean->high, 0, 1) };
    default:
        return (struct range){ fill(rule, mean->mid, spread->high, micro_batch),
                               fill(rule, mean->mid, spread->mid, micro_batch),
                               fill(rule, mean->mid, spread->low, micro_batch) };
    }
}

// One micro-batch on average: padded rows attend over their whole width, packed ones within each
// example, whose mean square is mean² · exp(spread²).
static struct step_batch average(const struct workload_rule *rule, double mean, double spread,
                                 double useful_share, double micro_batch)
{
    bool packed = rule->batching == BATCHING_PACKED;
    double width = packed ? rule->context : fmin(rule->context, mean / useful_share);
    double attended = packed ? fmin(rule->context, mean * exp(spread * spread)) : width;
    double tokens = micro_batch * width;
    bool varied = rule->batching == BATCHING_LONGEST, grouped = rule->batching == BATCHING_GROUPED;
    double varies = varied ? step_batch_spread(spread, micro_batch, true) : 0;
    return (struct step_batch){ .rows = micro_batch,
                                .width = width,
                                .tokens = tokens,
                                .squares = tokens * attended,
                                .labelled = tokens * useful_share * rule->labelled_share,
                                .padded = !packed && useful_share < 1,
                                .spread = varies,
                                .varies = grouped ? spread : varies };
}

static const struct workload_shape *nearest_shape(const struct workload_rule *rule,
                                                  double micro_batch)
{
    const struct workload_shape *best = rule->shapes;
    for (size_t i = 1; i < rule->shape_count; i++)
        if (fabs(log(rule->shapes[i].micro_batch / micro_batch)) <
            fabs(log(best->micro_batch / micro_batch)))
            best = &rule->shapes[i];
    return best;
}

// The measured shape at a micro-batch: between two, in proportion to their logarithms.
static struct workload_shape shape_at(const struct workload_rule *rule, double micro_batch)
{
    const struct workload_shape *shapes = rule->shapes;
    size_t above = 0;
    while (above < rule->shape_count && shapes[above].micro_batch < micro_batch)
        above++;
    if (above == rule->shape_count)
        return shapes[above - 1];
    if (above == 0 || shapes[above].micro_batch == micro_batch)
        return shapes[above];
    const struct workload_shape *a = &shapes[above - 1], *b = &shapes[above];
    double share = log(micro_batch / a->micro_batch) / log(b->micro_batch / a->micro_batch);
    return (struct workload_shape){
        .micro_batch = micro_batch,
        .fill = a->fill + share * (b->fill - a->fill),
        .width = a->width + share * (b->width - a->width),
        .attended = a->attended + share * (b->attended - a->attended),
        .worst_width = fmax(a->worst_width, b->worst_width),
        .spread = a->spread + share * (b->spread - a->spread),
        .varies = a->varies + share * (b->varies - a->varies),
        .rows = a->rows,
        .sights = nearest_shape(rule, micro_batch)->sights,
    };
}

// Replaces what was assumed by what was measured.
static void measure(struct workload *out, const struct workload_rule *rule)
{
    struct workload_shape shape = shape_at(rule, out->batch.rows);
    double rows = fmin(out->batch.rows, shape.rows);
    double tokens = rows * shape.width;
    out->processed_tokens = rule->tokens / shape.fill * rule->epochs;
    out->padding_share = 1 - shape.fill;
    double off = 1 + STATS_P90 * rule->token_spread;
    out->processed_factor = (struct range){ 1 / off, 1, off };
    out->batch = (struct step_batch){ .rows = rows,
                                      .width = shape.width,
                                      .tokens = tokens,
                                      .squares = tokens * shape.attended,
                                      .labelled = tokens * shape.fill * rule->labelled_share,
                                      .padded = rule->batching != BATCHING_PACKED && shape.fill < 1,
                                      .spread = shape.spread,
                                      .varies = shape.varies };
    out->worst = step_batch(rows, shape.worst_width);
}

// Assumes that every row fills the context. Packing leaves its usual gaps. What padding would add,
// were lengths as in the assumed data sets, is the range's high end.
static void fill_rows(struct workload *out, const struct workload_rule *rule)
{
    bool packed = rule->batching == BATCHING_PACKED;
    double share = packed ? rule->packed_fill.mid : 1;
    out->mean_length = rule->context;
    out->examples = fmax(1, rint(rule->tokens / rule->context));
    out->processed_tokens = rule->tokens / share * rule->epochs;
    out->padding_share = 1 - share;
    out->batch = step_batch(out->batch.rows, rule->context);
    out->batch.labelled *= share * rule->labelled_share;
    out->varied_widths = false;
}

// Widths as simulated. Where lengths are unknown: two thirds of a lognormal's rows lie within one
// spread of the mean, so that as many widths recur; rows that fill the context have one width.
static void find_widths(struct workload *out, const struct workload_rule *rule, double mean,
                        double spread)
{
    bool varied = rule->batching == BATCHING_LONGEST || rule->batching == BATCHING_GROUPED;
    double multiple = rule->multiple > 1 ? (double)rule->multiple : 1;
    const struct workload_shape *shape =
        rule->shapes ? nearest_shape(rule, fmax(1, rule->rows_each) * out->micro_batch) : NULL;
    if (shape && shape->sights.count)
        out->sights = &shape->sights;
    else if (varied && !rule->full_rows && !rule->shapes)
        out->likely_widths = 2 * spread * mean / multiple;
    out->distinct_widths = workload_widths(out, out->steps);
    out->alignments = workload_alignments(out->distinct_widths, multiple);
}

// Half of all widths are odd, a quarter divides by 2 alone, an eighth by 4 alone, an eighth by 8.
double workload_alignments(double widths, double multiple)
{
    double met = 0, share = 1;
    for (double alignment = 2; alignment <= 8; alignment *= 2) {
        if (fmod(multiple, alignment) == 0)
            continue;
        share /= 2;
        met += 1 - pow(1 - share, widths);
    }
    return met + 1 - pow(1 - share, widths);
}

double workload_widths(const struct workload *workload, double steps)
{
    double micro_batches = steps * workload->accumulation, likely = workload->likely_widths;
    if (workload->sights)
        return packing_widths_seen(workload->sights, micro_batches);
    // Of equally likely widths: those that so many samples have met.
    return likely > 1 ? likely * (1 - exp(-micro_batches / likely)) : micro_batches > 0;
}

enum { MARKS = 20 }; // counts in a plan's document

void workload_write_widths(const struct workload *workload, struct json_writer *w)
{
    double done = 0;
    json_open(w, "widths", '[');
    for (int i = 0; i < MARKS; i++) {
        double steps = rint(pow(workload->steps, (double)i / (MARKS - 1)));
        if (steps <= done)
            continue;
        done = steps;
        json_open(w, NULL, '{');
        json_put_number(w, "steps", steps);
        json_put_number(w, "widths", workload_widths(workload, steps));
        if (workload->sights && workload->batching == BATCHING_GROUPED) // others have no order
            json_put_number(w, "tokens",
                            packing_tokens_seen(workload->sights, steps * workload->accumulation));
        json_close(w, '}');
    }
    json_close(w, ']');
}

void workload_read_widths(struct packing_sights *out, const struct json *workload,
                          double accumulation)
{
    const struct json *list = json_get(workload, "widths");
    double each = accumulation >= 1 ? accumulation : 1, before = 0, seen = 0;
    *out = (struct packing_sights){ 0 };
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++) {
        double steps = json_get_number(&list->items[i], "steps", NAN);
        double widths = json_get_number(&list->items[i], "widths", NAN);
        if (out->count == PACKING_SIGHTS || !(steps > before) || !(widths >= seen))
            continue;
        before = steps, seen = widths;
        out->micro_batches[out->count] = steps * each;
        out->tokens[out->count] = fmax(json_get_number(&list->items[i], "tokens", 0), 0);
        out->widths[out->count++] = widths;
        out->epoch = steps * each; // the whole run: further steps add nothing
    }
}

// The longest row sets the peak: all the context allows, unless the mean is known and says that
// hardly any row of such a number comes near it. How long the tail is, is assumed: one of the
// longest.
static double longest_row(const struct workload_rule *rule, double examples)
{
    bool varied = rule->batching == BATCHING_LONGEST || rule->batching == BATCHING_GROUPED;
    double mean = workload_known_mean(rule);
    if (!varied || isnan(mean) || rule->full_rows)
        return rule->context;
    return fmin(rule->context, ceil(mean * workload_longest(rule->length_spread.high, examples)));
}

void workload_make(struct workload *out, const struct workload_rule *rule, double micro_batch,
                   double data, double global_batch)
{
    double each = rule->rows_each > 0 ? rule->rows_each : 1;
    if (!(global_batch > 0))
        global_batch = micro_batch * data;
    if (rule->single_rows)
        micro_batch = 1;
    double sequences = each * micro_batch;
    struct range mean = workload_mean_lengths(rule), spread = workload_spread(rule);
    struct range share = fills(rule, &mean, &spread, sequences);
    *out = (struct workload){
        .tokens = rule->tokens,
        .labelled_tokens = rule->tokens * rule->labelled_share,
        .epochs = rule->epochs,
        .mean_length = mean.mid,
        .examples = rule->examples > 0 ? rule->examples : fmax(1, rint(rule->tokens / mean.mid)),
        .processed_tokens = rule->tokens / share.mid * rule->epochs,
        .padding_share = 1 - share.mid,
        .micro_batch = micro_batch,
        .batch = average(rule, mean.mid, spread.mid, share.mid, sequences),
        .batching = rule->batching,
        .varied_widths = rule->batching == BATCHING_LONGEST && spread.mid > 0,
        .processed_factor = { share.mid / share.high, 1, share.mid / share.low },
    };
    out->worst = step_batch(sequences, fmax(out->batch.width, longest_row(rule, out->examples)));
    if (rule->shapes)
        measure(out, rule);
    else if (rule->full_rows)
        fill_rows(out, rule);
    out->batch.fullest = out->worst.tokens;
    out->worst.padded = out->batch.padded;
    out->worst.packed = out->batch.packed = rule->batching == BATCHING_PACKED;
    double useful = out->batch.tokens * (1 - out->padding_share);
    out->batch.images = vision_load_scaled(&rule->images, useful);
    out->worst.images = vision_load_scaled(&rule->images, out->worst.tokens);
    // Where lengths are unknown, any part of a row may be padding.
    if (rule->full_rows && rule->batching != BATCHING_PACKED)
        out->processed_factor = (struct range){ 1, 1, 1 / share.low };
    out->accumulation = fmax(1, rint(global_batch / (micro_batch * data)));
    out->global_batch = micro_batch * data * out->accumulation;
    double rows = rule->shapes ? shape_at(rule, sequences).rows
                  : rule->batching == BATCHING_PACKED
                      ? ceil(rule->tokens / ((1 - out->padding_share) * rule->context))
                      : out->examples;
    double of_epoch = ceil(rows / each / out->global_batch);
    out->steps = fmax(1, of_epoch * rule->epochs);
    if (rule->steps > 0) {
        out->steps = rule->steps;
        out->epochs = rule->steps / fmax(1, of_epoch);
        out->processed_tokens *= out->epochs / rule->epochs;
    }
    find_widths(out, rule, mean.mid, spread.mid);
}
