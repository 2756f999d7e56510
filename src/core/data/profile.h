// profile: what is known of a dataset in tokens; a document without text that can leave the
// building.
//
// A reader of the data fills the counts and notes the rows worth looking at, then finishes:
//
//     struct profile profile = { .tokenizer = "llama-3.2", .exact = true };
//     profile_note(&profile, arena, PROFILE_EMPTY, file, line, 0, NULL);
//     TRY(profile_finish(&profile, arena, &lengths, &settings));
//     profile_write(&profile, &writer);
//
// Profiles of parts merge into the profile of the whole: every count is a sum, the histogram of
// lengths is exact, and the table of windows comes from the histogram alone. Duplicates are known
// within one run only, because no hash of a text is kept. The batches of one run are those of the
// files' order; a merged or read profile has lost it and shuffles instead, as most trainers do.

#pragma once

#include "base/field.h"
#include "core/data/window.h"

enum profile_kind { // rows worth looking at
    PROFILE_LONGEST,
    PROFILE_BAD,
    PROFILE_EMPTY,
    PROFILE_UNLABELLED,
    PROFILE_DUPLICATE,
    PROFILE_KINDS,
};

enum { PROFILE_SPOTS = 5 };

struct profile_spots {
    int64_t count; // of such rows; the first few, or the longest, are named
    struct profile_spot {
        const char *file;
        int64_t line, tokens;
        const char *problem; // of a bad one
    } spots[PROFILE_SPOTS];
    int named;
};

struct profile_file {
    const char *name;
    int64_t bytes;
};

// How the batches are to be simulated.
struct profile_settings {
    const char *stack, *packer; // NULL: the default ones
    const char *trainer;        // of the stack, as packing.h has it; NULL: hf. No option
    int batching;               // enum batching
    int64_t context;            // 0: the recommended one
    int64_t micro_batch, accumulation, ranks;
    int64_t seed;
};
extern const struct field profile_settings_fields[];

struct profile {
    int64_t rows;                              // read, bad ones too
    int64_t examples, tokens, labelled_tokens; // a pair of answers is two examples
    int64_t text_bytes;                        // of the examples as they were tokenised
    const char *format;                        // of the records, as detected
    const char *labels;                        // which tokens carry loss
    const char *template;                      // NULL: none was applied
    const char *tokenizer;
    bool exact;            // the tokenizer is the model's own
    double spread;         // of an estimate: relative standard deviation over texts; 0 if exact
    bool duplicates_exact; // false once profiles were merged
    struct profile_file *files;
    size_t file_count;
    struct profile_spots spots[PROFILE_KINDS];
    struct lengths_tally tally;
    struct window_plan windows;
    struct profile_settings settings;
    struct batches batches;
    bool ordered; // the batches come from the files' order
};

// Counts a row and names its place if it is one of the first, or of the longest. Call in order.
void profile_note(struct profile *profile, struct arena *arena, enum profile_kind kind,
                  const char *file, int64_t line, int64_t tokens, const char *problem);

// Makes sums, windows and batches. list may be NULL: then the tally is there, and its order is
// lost.
enum err profile_finish(struct profile *profile, struct arena *arena, const struct lengths *list,
                        const struct profile_settings *settings);

// The batches of an epoch: of the list, or without one of the tally in shuffled order.
enum err profile_simulate(struct batches *out, const struct lengths_tally *tally,
                          const struct lengths *list, const struct profile_settings *settings);

// To be finished again. Refuses profiles of different tokenizers, templates or labels.
enum err profile_merge(struct profile *out, struct arena *arena, const struct profile *a,
                       const struct profile *b);

void profile_write(const struct profile *profile, struct json_writer *w);
enum err profile_read(struct profile *out, struct arena *arena, struct text in, const char *name);

// For a terminal of 80 columns.
void profile_print(const struct profile *profile, struct arena *arena, struct out *out);
