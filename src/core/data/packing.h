// SPDX-License-Identifier: Apache-2.0
// packing: simulates the batches that a trainer makes from examples of given lengths.
//
// Padding, grouping by length and packing are simulated example by example, as the named trainer
// does them: in its order and chunks, with its rules for examples that are too long and for the end
// of an epoch. Time needs the sums over all batches, memory the largest batch.
//
//     const struct packing_trainer *trainer;
//     TRY(packing_trainer_find(&trainer, "axolotl", NULL));
//     struct packing_rule rule = packing_rule(trainer, BATCHING_PACKED);
//     struct packing_setup setup = { .window = 4096, .micro_batch = 2 };
//     TRY(packing_plan(&packing, arena, &lengths, &rule, &setup));
//     packing.sums.steps, packing.batches[0].width …
//
// The result lives in the arena and does not point to the lengths. `gpuhours pack` writes its rows
// with the same code, so a forecast counts exactly the batches that the engine trains on.

#pragma once

#include "base/stats.h"
#include "core/data/lengths.h"

// How the user asks for it; a trainer's table row turns PACKED into its own method.
enum batching {
    BATCHING_MAX,     // every row is padded to the context
    BATCHING_LONGEST, // rows are padded to the longest of their micro-batch
    BATCHING_GROUPED, // likewise, of rows of similar length
    BATCHING_PACKED,  // rows are filled with several examples
    BATCHING_AUTO,    // as the stack does; only where a stack is known
};
extern const char *const batching_names[];      // "max", "longest", "grouped", "packed", NULL
extern const char *const batching_names_auto[]; // the same and "auto", NULL

enum packing_method {
    PACKING_NONE,     // one example per row
    PACKING_GROUPED,  // the same, sorted by length within mega-batches (transformers)
    PACKING_BEST_FIT, // decreasing; among rows of equal free space the least recently used
    PACKING_WRAPPED,  // examples end to end, cut at the window
    PACKING_FIRST_FIT,
    PACKING_FIRST_FIT_DECREASING,
    PACKING_NEXT_FIT,
    PACKING_KNAPSACK, // fills one row at a time, always with the largest example that fits
    PACKING_VOLUME,   // decreasing, into the fullest row with room; the examples of a chunk's last
                      // row move on to the next chunk
};

enum packing_excess {  // what happens to an example longer than the window
    PACKING_CUT,       // its end is cut off
    PACKING_CUT_SHARE, // prompt and answer are shortened in proportion (LLaMA-Factory)
    PACKING_SPLIT,     // it is split into pieces, all of which are kept
    PACKING_DROP,      // it is left out
};

enum packing_width {       // shape of a micro-batch
    PACKING_WIDTH_WINDOW,  // rows padded to the window
    PACKING_WIDTH_LONGEST, // rows padded to its longest row
    PACKING_WIDTH_FLAT,    // all rows end to end in one (padding-free)
};

struct packing_rule {
    enum packing_method method;
    enum packing_excess excess;
    enum packing_width width;
    int64_t chunk_examples; // examples packed together; 0: the whole set
    int64_t bin_examples;   // most examples in a row; 0: no limit
    int64_t multiple;       // widths are rounded up to a multiple of this; 0: not
    int64_t align;          // examples in a row are padded to a multiple of this; 0: not
    int reserve;            // tokens of the window that packing leaves free
    int shift;              // tokens subtracted from each example's length (NeMo: 1)
    bool shuffles_examples; // before packing or padding
    bool shuffles_rows;     // after packing
    bool fills_micro_batch; // one row holds micro_batch windows (axolotl)
    bool single_rows;       // a micro-batch is one row; a larger one accumulates (NeMo)
    bool attends_across;    // attention crosses the examples of a row
    bool skips_unlabelled;  // leaves out examples without labelled tokens
    bool drops_last;        // drops an incomplete micro-batch or step at the end of the epoch
};

struct packing_trainer {
    const char *name;   // as stacks refer to it (data/stacks.json, "trainer")
    const char *packer; // as --packer names it; a trainer's first row is its default
    const struct packing_rule *packed, *padded;
    const char *note; // where the simulation is not the trainer's own packing, else NULL
    bool unpadded;    // packed rows lie end to end and pilots count their tokens without padding
    bool raw_strings; // prompt and completion strings get no chat template
};
extern const struct packing_trainer packing_trainers[]; // ended by a NULL name

// NULL is "hf" and its default packer. ERR_USAGE lists the trainers or the packers.
enum err packing_trainer_find(const struct packing_trainer **out, const char *name,
                              const char *packer);
bool packing_unpadded(const char *trainer);
bool packing_strings_raw(const char *trainer);
struct packing_rule packing_rule(const struct packing_trainer *trainer, enum batching batching);

struct packing_setup {
    int64_t window;       // context length in tokens, also the length of a packed row
    int64_t micro_batch;  // rows per rank and forward pass; 0 means 1
    int64_t accumulation; // micro-batches per step and rank; 0 means 1
    int64_t ranks;        // data-parallel; 0 means 1
    int64_t multiple;     // replaces the rule's; 0: keeps it
    uint64_t seed;
    const uint32_t *order; // packing_order() of the examples and the seed, if the caller has it
};

enum { PACKING_LARGEST_WINDOW = 1 << 24 };

// One micro-batch of one rank. Micro-batch i of an epoch belongs to rank i % ranks.
struct packing_batch {
    int64_t rows, width; // processed: rows × width tokens
    int64_t tokens;      // without padding
    int64_t labelled;
    int64_t squares;  // Σ length² of the examples
    int64_t attended; // Σ length² of the spans that attention runs over
};

// How many shapes (rows × width) one rank has met after so many micro-batches: kernels and
// attention plans are chosen, and memory is reserved, at the first sight of each. Log-spaced over
// the first epoch, then evenly over a second one where it was simulated.
enum { PACKING_SIGHTS = 24 };
struct packing_sights {
    double micro_batches[PACKING_SIGHTS], widths[PACKING_SIGHTS]; // both rise
    double tokens[PACKING_SIGHTS]; // processed until then; 0: their order tells nothing
    int count;
    double epoch; // micro-batches of the first epoch
};

// Sums over an epoch.
struct batches {
    int64_t examples;         // trained on in the epoch
    int64_t rows;             // padded examples, or packs; including rows repeated for other ranks
    int64_t micro_batches;    // over all ranks
    int64_t steps;            // of the optimizer
    int64_t processed_tokens; // Σ rows × width
    int64_t useful_tokens;    // Σ tokens
    int64_t labelled_tokens;  // Σ labelled
    double squares, attended; // Σ over the batches
    double padding_share;     // of the processed tokens
    double fill;              // useful tokens over rows × window
    int64_t fewest_rows;      // lower bound for any packing; 0 if rows are not packed
    int64_t cut_examples;     // too long, and shortened
    int64_t dropped_examples; // too long or empty, and left out
    int64_t lost_tokens;      // by cutting and dropping
    int64_t unseen_tokens;    // dropped at the end of the epoch (drops_last)
    struct packing_batch worst; // most processed tokens; among those, most attended
    int64_t distinct_widths;    // number of different widths
    struct range widths;        // P10, P50, P90 over the micro-batches
    double mean_width;
};

// What a data set loses at a context window. NAN: unknown.
struct packing_loss {
    double examples, tokens; // of the data
    double cut, dropped;     // examples that are shortened; left out
    double lost;             // tokens of both
    double longest;          // example, in tokens
};
void packing_loss_add(struct packing_loss *loss, int64_t tokens, int64_t window); // that cuts
// Whether it is more than a recommended window may lose (core/data/window).
bool packing_loss_matters(const struct packing_loss *loss);
// "of 20 rows, 3 are cut at the context of 2,048: 5,120 of 41,000 tokens (12.5 %) are not trained
// on"
const char *packing_loss_text(const struct packing_loss *loss, struct arena *arena, double window);

struct packing_piece {
    uint32_t example; // index in the list
    int32_t start;    // its first token here
    int32_t size;
    int32_t labelled; // of size
};

struct packing {
    struct packing_piece *pieces;
    size_t *starts; // row r has the pieces starts[r] … starts[r + 1] - 1
    size_t rows;    // in training order
    struct packing_batch *batches;
    size_t count;
    struct batches sums;
};

enum err packing_plan(struct packing *out, struct arena *arena, const struct lengths *lengths,
                      const struct packing_rule *rule, const struct packing_setup *setup);

// Simulates one rule at many windows, from sizes that are gathered and sorted once.
struct packing_sizes {
    struct arena *arena;
    const struct lengths *lengths;
    struct packing_rule rule;
    int32_t *all, *cut; // of the examples; cut: at the window
    size_t count, mega;
    int32_t longest;
    bool suits; // sizes alone tell the sums
};
// The setup's window does not matter. Points to the lengths.
void packing_sizes_init(struct packing_sizes *out, struct arena *arena,
                        const struct lengths *lengths, const struct packing_rule *rule,
                        const struct packing_setup *setup);
// Fills in rows, processed and useful tokens, attended, padding_share and fill exactly as
// packing_plan() would; false where only that one can tell. Only the setup's window may differ.
bool packing_sizes_simulate(struct batches *out, const struct packing_sizes *sizes,
                            const struct packing_setup *setup);

// Counts first sights over an epoch and, unless NULL, another one with another shuffle.
void packing_count_sights(struct packing_sights *out, const struct packing *epoch,
                          const struct packing *next);

// The widths met after so many micro-batches: between the simulated counts a straight line, after
// the last one every further epoch adds its share of what the epoch before it added.
double packing_widths_seen(const struct packing_sights *sights, double micro_batches);
double packing_tokens_seen(const struct packing_sights *sights, double micro_batches); // likewise
// Standard deviation of the number of widths, which depends on the order of the rows.
double packing_widths_error(const struct packing_sights *sights, double micro_batches);

// Scales the sums to `factor` times as many examples: counts grow, averages stay. Steps are
// computed again, so that they are integers.
void packing_scale(struct batches *sums, double factor, const struct packing_rule *rule,
                   const struct packing_setup *setup);

// The permutation of a seed; the only source of randomness here.
void packing_shuffle(uint32_t *order, size_t count, uint64_t seed);
const uint32_t *packing_order(struct arena *arena, size_t count,
                              uint64_t seed); // of 0 to count - 1

// A lower bound of the rows of this capacity that these sizes need (Martello and Toth's L2).
int64_t packing_fewest(const int32_t *sizes, size_t count, int64_t capacity, struct arena *scratch);
