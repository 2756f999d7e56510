// workload: what is to be trained, as the batches that a step sees.
//
// Of a token count alone the lengths are not known; they are assumed, visibly, from data sets whose
// batches were simulated. What padding does to the tokens processed is then a range, not a number.
//
//     struct workload_rule rule = workload_rule();
//     rule.tokens = 21.4e6, rule.context = 2048, rule.batching = WORKLOAD_PACKED;
//     workload_make(&workload, &rule, micro_batch, data_ranks, global_batch);
//
// A profile of the user's own data fills the same rule: tokens, examples, mean_length, fill.
// Formulas: docs/formulas.md, section workload.

#pragma once

#include "base/stats.h"
#include "core/step.h"

enum workload_batching {
    WORKLOAD_MAX,     // every row is as wide as the context
    WORKLOAD_LONGEST, // a batch is as wide as its longest row
    WORKLOAD_GROUPED, // likewise, of rows of like length
    WORKLOAD_PACKED,  // rows are filled with several examples
    WORKLOAD_AUTO,    // as the stack does
};
extern const char *const workload_batchings[]; // their names, ended by NULL

struct workload_rule {
    double tokens;   // of the data set, once
    double examples; // NAN: unknown
    double epochs;
    double context;
    int batching;               // enum workload_batching, not AUTO
    double labelled_share;      // of the tokens that carry loss
    double mean_length;         // of the examples; NAN: assumed
    struct range length_spread; // deviation of the logarithm of lengths
    struct range mean_share;    // of the context that an example fills, where it is not known
    struct range grouped_fill, packed_fill; // useful tokens over processed ones
};

struct workload {
    double examples, tokens, labelled_tokens, epochs;
    double processed_tokens; // over all epochs, padding in it
    double padding_share;
    double steps;
    double mean_length;
    double micro_batch, global_batch, accumulation; // rows; as a step really takes them
    struct batch batch, worst;                      // on average; the one that needs most memory
    int batching;
    bool varied_widths;
    struct range processed_factor; // of processed_tokens, by what is not known of the lengths
};

// The assumptions where nothing else is known; a rule without tokens.
struct workload_rule workload_rule(void);

// ERR_USAGE for what no run has: no tokens, no context, a negative number of epochs.
enum err workload_check(const struct workload_rule *rule);

// global_batch 0 is micro_batch × data.
void workload_make(struct workload *out, const struct workload_rule *rule, double micro_batch,
                   double data, double global_batch);

// The longest of that many examples over the mean length, when lengths are lognormal.
double workload_longest(double spread, double examples);
