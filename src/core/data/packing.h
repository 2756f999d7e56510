// packing: the batches that a trainer really makes of examples of given lengths.
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
// The result lives in the arena and keeps no pointer to the lengths. `gpuhours pack` writes its
// rows with the same code, so a forecast counts the very batches that the engine trains on.

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
    PACKING_NONE,     // a row is an example
    PACKING_GROUPED,  // likewise, sorted by length within mega-batches (transformers)
    PACKING_BEST_FIT, // decreasing; of equal free spaces the bin that has waited longest
    PACKING_WRAPPED,  // examples end to end, cut at the window
    PACKING_FIRST_FIT,
    PACKING_FIRST_FIT_DECREASING,
    PACKING_NEXT_FIT,
    PACKING_KNAPSACK, // fills a row with the largest that fits until nothing does
    PACKING_VOLUME,   // decreasing into the fullest row that has room; the last row of a chunk
                      // goes on in the next
};

enum packing_excess {  // an example longer than the window is
    PACKING_CUT,       // cut at the end
    PACKING_CUT_SHARE, // shortened in prompt and answer by their shares (LLaMA-Factory)
    PACKING_SPLIT,     // cut into pieces, all kept
    PACKING_DROP,      // left out
};

enum packing_width {       // a micro-batch is
    PACKING_WIDTH_WINDOW,  // rows as wide as the window
    PACKING_WIDTH_LONGEST, // rows as wide as its longest
    PACKING_WIDTH_FLAT,    // one row, everything end to end (padding-free)
};

struct packing_rule {
    enum packing_method method;
    enum packing_excess excess;
    enum packing_width width;
    int64_t chunk_examples; // packed at a time; 0: the whole set
    int64_t bin_examples;   // at most in a row; 0: no limit
    int64_t multiple;       // widths are multiples of this; 0: any
    int64_t align;          // inside a row, examples are padded to a multiple of this; 0: not
    int reserve;            // tokens of the window that packing leaves free
    int shift;              // tokens by which an example is counted shorter (NeMo: 1)
    bool shuffles_examples; // before they are packed or padded
    bool shuffles_rows;     // the packed rows
    bool fills_micro_batch; // one row holds micro_batch windows (axolotl)
    bool single_rows;       // a micro-batch is one row; more become accumulation (NeMo)
    bool attends_across;    // attention sees the neighbours in a row
    bool skips_unlabelled;  // leaves out examples without a labelled token
    bool drops_last;        // short micro-batches and short steps end the epoch unseen
};

struct packing_trainer {
    const char *name;   // as stacks refer to it (data/stacks.json, "trainer")
    const char *packer; // as --packer names it; a trainer's first row is its default
    const struct packing_rule *packed, *padded;
    const char *note; // where the simulation is not the trainer's own packing, else NULL
    bool unpadded;    // packed rows lie end to end and pilots count their tokens without padding
};
extern const struct packing_trainer packing_trainers[]; // ended by a NULL name

// NULL is "hf" and its default packer. ERR_USAGE lists the trainers or the packers.
enum err packing_trainer_find(const struct packing_trainer **out, const char *name,
                              const char *packer);
bool packing_unpadded(const char *trainer);
struct packing_rule packing_rule(const struct packing_trainer *trainer, enum batching batching);

struct packing_setup {
    int64_t window;       // tokens: the context length, and the length of a packed row
    int64_t micro_batch;  // rows on a rank at once; 0 is 1
    int64_t accumulation; // micro-batches a step; 0 is 1
    int64_t ranks;        // data-parallel; 0 is 1
    int64_t multiple;     // overrides the rule's; 0: does not
    uint64_t seed;
};

enum { PACKING_LARGEST_WINDOW = 1 << 24 };

// One micro-batch of one rank. Micro-batch i of an epoch is rank i % ranks's.
struct packing_batch {
    int64_t rows, width; // processed: rows × width tokens
    int64_t tokens;      // useful ones: the rest is padding
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
    int count;
    double epoch; // micro-batches of the first epoch
};

// What a planner needs of an epoch.
struct batches {
    int64_t examples;           // seen in the epoch
    int64_t rows;               // padded examples, or packs; with those repeated for other ranks
    int64_t micro_batches;      // over all ranks
    int64_t steps;              // of the optimizer
    int64_t processed_tokens;   // Σ rows × width
    int64_t useful_tokens;      // Σ tokens
    int64_t labelled_tokens;    // Σ labelled
    double squares, attended;   // Σ of the batches' own
    double padding_share;       // of the processed tokens
    double fill;                // useful tokens over rows × window
    int64_t fewest_rows;        // no packing can need fewer; 0 where nothing is packed
    int64_t cut_examples;       // too long, and shortened
    int64_t dropped_examples;   // too long or empty, and left out
    int64_t lost_tokens;        // by cutting and dropping
    int64_t unseen_tokens;      // at the end of the epoch, where the trainer drops what is short
    struct packing_batch worst; // the most processed tokens; of those the most attended
    int64_t distinct_widths;    // shapes that the allocator sees
    struct range widths;        // P10, P50, P90 over the micro-batches
    double mean_width;
};

struct packing_piece {
    uint32_t example; // index in the list
    int32_t start;    // its first token here
    int32_t size;
    int32_t labelled; // of size
};

struct packing {
    struct packing_piece *pieces;
    size_t *starts; // row r has the pieces starts[r] … starts[r + 1] - 1
    size_t rows;    // in the order of training
    struct packing_batch *batches;
    size_t count;
    struct batches sums;
};

enum err packing_plan(struct packing *out, struct arena *arena, const struct lengths *lengths,
                      const struct packing_rule *rule, const struct packing_setup *setup);

// Counts first sights over an epoch and, unless NULL, another one with another shuffle.
void packing_count_sights(struct packing_sights *out, const struct packing *epoch,
                          const struct packing *next);

// The widths met after so many micro-batches: between the simulated counts a straight line, after
// the last one every further epoch adds its share of what the epoch before it added.
double packing_widths_seen(const struct packing_sights *sights, double micro_batches);

// What the sums would be of `factor` times as many examples: everything that is counted grows, what
// an average batch is stays. Steps are counted anew, so that they are whole.
void packing_scale(struct batches *sums, double factor, const struct packing_rule *rule,
                   const struct packing_setup *setup);

// Only how many rows there are and how many useful tokens in them, in a fraction of the time.
enum err packing_count(int64_t *rows, int64_t *tokens, const struct lengths *lengths,
                       const struct packing_rule *rule, const struct packing_setup *setup);

// The permutation that a seed stands for; everything that is random here comes from it.
void packing_shuffle(uint32_t *order, size_t count, uint64_t seed);

// The order in which transformers' group_by_length sees examples that a permutation put in order:
// mega-batches of min(n / 4b, 50) batches, each by falling length, the longest example first of
// all.
void packing_group(uint32_t *order, const int32_t *sizes, size_t count, int64_t batch,
                   struct arena *scratch);

// No packing of these sizes into rows of this capacity has fewer rows (Martello and Toth's L2).
int64_t packing_fewest(const int32_t *sizes, size_t count, int64_t capacity, struct arena *scratch);
