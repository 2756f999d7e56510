// SPDX-License-Identifier: Apache-2.0
// workload: the training data as the batches that a step sees.
//
// From a token count alone the lengths are unknown. Every row is then assumed to fill the context,
// and the range's high end is what padding could add. Where the user asks for padded rows, lengths
// are assumed to be like those of data sets whose batches were simulated.
//
//     struct workload_rule rule = workload_rule();
//     rule.tokens = 21.4e6, rule.context = 2048, rule.batching = BATCHING_PACKED;
//     workload_make(&workload, &rule, micro_batch, data_ranks, global_batch);
//
// A profile of the user's own data adds its simulated batches to the rule, as shapes.
// Formulas: docs/formulas.md, section workload.

#pragma once

#include "base/json.h"
#include "base/stats.h"
#include "core/data/packing.h"
#include "core/step/step.h"

// Batches simulated on the user's own data, for one micro-batch.
struct workload_shape {
    double micro_batch; // rows: sequences
    double fill;        // useful tokens over processed ones
    double width;       // of a row, on average
    double attended;    // Σ l² over processed tokens
    double worst_width;
    double rows;                  // of an epoch: examples, or packs
    struct packing_sights sights; // of widths; without any, one width is assumed
    double spread, varies;        // of tokens between ranks and micro-batches, see step_batch
};

struct workload_rule {
    const char *missing; // what to say where there are no tokens; NULL: the usual
    double tokens;       // of the data set, once
    double examples;     // NAN: unknown
    double epochs;
    double steps; // of the run, whatever the epochs; 0: as the epochs make
    double context;
    int batching;       // enum batching, not AUTO
    double rows_each;   // sequences of what --micro-batch counts: 2 of a pair; 0 is 1
    bool single_rows;   // the trainer takes packed rows one at a time: others of a micro-batch wait
    double only_rows;   // the one micro-batch that shapes tell of: others are not tried; 0: all
    bool paired;        // the lengths hold two answers of a pair side by side
    double micro_batch; // where given: it is simulated too, whatever its size; 0: not
    int64_t step_rows;  // of one rank, where given: grouping by length depends on it; 0: not
    int64_t multiple;   // widths are padded to a multiple of this; 0: any width
    double labelled_share;      // of the tokens, those that the loss counts
    double mean_length;         // of the examples; NAN: assumed
    struct range length_spread; // usual deviation of the logarithm of lengths
    bool full_rows;             // lengths are unknown: every row is assumed to fill the context
    struct range grouped_fill, packed_fill; // useful tokens over processed ones
    struct vision_load images;              // per token of the data; zero: text alone
    double token_spread;                    // relative deviation of the token count; 0: it is exact
    struct packing_loss loss;               // at the context; all zero: nothing is known
    const struct workload_shape *shapes;    // measured, by ascending micro-batch; NULL: assumed
    size_t shape_count;
};

// Tokens of an example on average, by what was said of the data; NAN: nothing was.
double workload_known_mean(const struct workload_rule *rule);

// The same as a range: the assumed lengths below where nothing was said.
struct range workload_mean_lengths(const struct workload_rule *rule);

// What those means are taken to be where nobody says: P10, P50 and P90 of public data sets that are
// trained on with that context.
struct range workload_assumed_lengths(double context);

// The deviation of the logarithm of assumed lengths. Rows end at the context, so that with a mean
// near it they spread less than they usually do: P90 is the context at most.
struct range workload_spread(const struct workload_rule *rule);

struct workload {
    double examples, tokens, labelled_tokens, epochs;
    double processed_tokens; // over all epochs, with padding
    double padding_share;
    double steps;
    double mean_length;
    double micro_batch, global_batch, accumulation; // rows, or pairs; as a step really takes them
    struct step_batch batch, worst;                 // on average; the one that needs most memory
    int batching;
    bool varied_widths;
    double distinct_widths;              // that one rank meets in the whole run
    double alignments;                   // 1, 2, 4 and 8 by which they divide at most: how many met
    const struct packing_sights *sights; // as simulated; NULL: unknown
    double likely_widths;                // where they are unknown: as many recur
    // How processed_tokens change with the padding, where the lengths are uncertain. What that does
    // to the time, with all else that lengths decide, is lengths_factor() in lengths.h.
    struct range processed_factor;
};

// A rule with the assumptions for unknown lengths, and without tokens.
struct workload_rule workload_rule(void);

// ERR_USAGE for what no run can have: no tokens, no context, a negative number of epochs.
#define WORKLOAD_MOST_EPOCHS 10000

enum err workload_check(const struct workload_rule *rule);

// Whole epochs as they are, parts of them in three digits: "15", "64.9".
const char *workload_spell_epochs(double epochs, struct arena *arena);

// global_batch 0 is micro_batch × data.
void workload_make(struct workload *out, const struct workload_rule *rule, double micro_batch,
                   double data, double global_batch);

// Distinct (rows, width) that one rank has met after so many steps.
double workload_widths(const struct workload *workload, double steps);

// How many of the alignments 1, 2, 4 and 8 that many widths, all multiples of one number, have.
double workload_alignments(double widths, double multiple);

// The counts of "workload.widths" in a plan's document, for that many micro-batches a step.
void workload_read_widths(struct packing_sights *out, const struct json *workload,
                          double accumulation);
void workload_write_widths(const struct workload *workload, struct json_writer *w);

// Replaces assumed lengths by those of the user's own examples: tokens, examples, and
// the micro-batches that the trainer (a stack's "trainer") would make of them, simulated for
// powers of two up to 256 and the given size. The rule's context, batching and epochs are set.
// Beyond a few hundred thousand examples an even sample is simulated.
enum err workload_measure(struct workload_rule *rule, struct arena *arena,
                          const struct lengths *lengths, const char *trainer, uint64_t seed);

// Whether the trainer takes packed rows one at a time, which a rule with shapes has to follow.
bool workload_has_single_rows(const struct workload_rule *rule, const char *trainer);

// The longest of that many examples over the mean length, when lengths are lognormal.
double workload_longest(double spread, double examples);
