// workload: what is to be trained, as the batches that a step sees.
//
// Of a token count alone the lengths are not known. Rows are then taken as full, and what padding
// could add is the high end of a range. Where the user says that rows are padded, lengths are
// assumed from data sets whose batches were simulated.
//
//     struct workload_rule rule = workload_rule();
//     rule.tokens = 21.4e6, rule.context = 2048, rule.batching = BATCHING_PACKED;
//     workload_make(&workload, &rule, micro_batch, data_ranks, global_batch);
//
// A profile of the user's own data puts its simulated batches into the same rule, as shapes.
// Formulas: docs/formulas.md, section workload.

#pragma once

#include "base/stats.h"
#include "core/data/packing.h"
#include "core/step/step.h"

// Batches as simulated on the user's own data, for one micro-batch.
struct workload_shape {
    double micro_batch; // rows
    double fill;        // useful tokens over processed ones
    double width;       // of a row, on average
    double attended;    // Σ l² over processed tokens
    double worst_width;
    double rows;   // of an epoch: examples, or packs
    double widths; // distinct ones
};

struct workload_rule {
    double tokens;   // of the data set, once
    double examples; // NAN: unknown
    double epochs;
    double context;
    int batching;               // enum batching, not AUTO
    double labelled_share;      // of the tokens that carry loss
    double mean_length;         // of the examples; NAN: assumed
    struct range length_spread; // deviation of the logarithm of lengths
    struct range mean_share;    // of the context that an example fills, where it is not known
    bool full_rows;             // nothing is known of the lengths: every row fills the context
    struct range grouped_fill, packed_fill; // useful tokens over processed ones
    double token_spread;                    // relative deviation of the token count; 0: it is exact
    const struct workload_shape *shapes;    // measured, by ascending micro-batch; NULL: assumed
    size_t shape_count;
};

struct workload {
    double examples, tokens, labelled_tokens, epochs;
    double processed_tokens; // over all epochs, padding in it
    double padding_share;
    double steps;
    double mean_length;
    double micro_batch, global_batch, accumulation; // rows; as a step really takes them
    struct step_batch batch, worst;                 // on average; the one that needs most memory
    int batching;
    bool varied_widths;
    double distinct_widths;
    struct range processed_factor; // of processed_tokens, by what is not known of the lengths
};

// The assumptions where nothing else is known; a rule without tokens.
struct workload_rule workload_rule(void);

// ERR_USAGE for what no run has: no tokens, no context, a negative number of epochs.
enum err workload_check(const struct workload_rule *rule);

// global_batch 0 is micro_batch × data.
void workload_make(struct workload *out, const struct workload_rule *rule, double micro_batch,
                   double data, double global_batch);

// Puts the lengths of the user's own examples in the place of assumed ones: tokens, examples, and
// the micro-batches that the trainer (a stack's "trainer") would make of them, simulated for each
// size up to 256. The rule's context, batching and epochs are set. Beyond a few hundred thousand
// examples an even sample is simulated.
enum err workload_measure(struct workload_rule *rule, struct arena *arena,
                          const struct lengths *lengths, const char *trainer, uint64_t seed);

// The longest of that many examples over the mean length, when lengths are lognormal.
double workload_longest(double spread, double examples);
