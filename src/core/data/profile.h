// SPDX-License-Identifier: Apache-2.0
// profile: a dataset's statistics in tokens; a document without any of its text, safe to share.
//
// The code that reads the data adds counts, notes rows to inspect, then finishes the profile:
//
//     struct profile profile = { .tokenizer = "llama-3.2", .exact = true };
//     profile_note(&profile, arena, PROFILE_EMPTY, file, line, 0, NULL);
//     TRY(profile_finish(&profile, arena, &lengths, &settings));
//     profile_write(&profile, &writer);
//
// Profiles of parts merge into the profile of the whole: every count is a sum, the histogram of
// lengths is exact. Duplicates are only detected within one run (or its work units, see
// counted.h), because a profile stores no hashes. The table of contexts and the batches are
// simulated in the order of the files; a merged profile, or one read from a file, has no order and
// is shuffled instead.

#pragma once

#include "base/field.h"
#include "core/data/record.h"
#include "core/data/window.h"
#include "core/vision/vision.h"

enum profile_kind { // of rows to inspect
    PROFILE_LONGEST,
    PROFILE_BAD,
    PROFILE_EMPTY,
    PROFILE_UNLABELLED,
    PROFILE_DUPLICATE,
    PROFILE_MEDIA,    // images, video or sound, whose tokens are not counted
    PROFILE_ADAPTED,  // parts that the template drops, counted as text
    PROFILE_LEFT_OUT, // text that the template leaves out here
    PROFILE_KINDS,
};

enum { PROFILE_SPOTS = 5 };

struct profile_spots {
    int64_t count; // of all such rows; the first (or longest) PROFILE_SPOTS are listed
    struct profile_spot {
        const char *file;
        int64_t line, tokens;
        const char *problem; // of a bad row
    } spots[PROFILE_SPOTS];
    int named;
};

struct profile_file {
    const char *name;
    int64_t bytes;
};

// How to simulate the batches.
struct profile_settings {
    const char *stack, *packer; // NULL: the default ones
    const char *trainer;        // of the stack, as packing.h has it; NULL: hf. No option
    int batching;               // enum batching
    int64_t context;            // 0: the recommended one
    int64_t positions;          // of the model; 0: not known. No option
    int64_t micro_batch, accumulation, ranks;
    int64_t seed;
};
extern const struct field profile_settings_fields[];
extern const struct field window_fields[], batches_fields[]; // of the document

// The settings with defaults where they are 0 or NULL, but for the context, which the data decides.
struct profile_settings profile_settings_complete(const struct profile_settings *given);

struct profile {
    int64_t rows;                              // read, including bad ones
    int64_t examples, tokens, labelled_tokens; // a pair of answers is two examples
    int64_t text_bytes;                        // of the rendered examples
    const char *format;                        // of the records, as detected
    const char *labels;                        // which tokens carry loss
    const char *template;                      // NULL: none
    const char *tokenizer;
    const char *vision;        // family by whose rule images are counted; NULL: they are not
    struct vision_load images; // counted; their tokens are among those above
    bool exact;                // the tokenizer is the model's own
    double spread;             // relative standard deviation of an estimate of text; 0 if exact
    int64_t doubt;             // the same in tokens × TOKENIZER_DOUBT
    bool duplicates_exact;     // false: their number is an estimate, or of merged profiles a lower
                               // bound
    double duplicates_spread;  // relative standard deviation of an estimate, else 0
    struct profile_file *files;
    size_t file_count;
    int64_t left_out_files;        // of test and validation splits, which are not read
    const char *left_out_file;     // the first of them
    struct record_column *columns; // of the data, and what each was read as
    size_t column_count;
    struct profile_spots spots[PROFILE_KINDS];
    struct lengths_tally tally;
    struct window_plan windows;
    struct profile_settings settings;
    struct batches batches;
    bool ordered; // the batches follow the order of the files
};

// Counts a row and lists it if it is among the first (or longest). Call in the order of the rows.
void profile_note(struct profile *profile, struct arena *arena, enum profile_kind kind,
                  const char *file, int64_t line, int64_t tokens, const char *problem);

// Adds the columns whose names are new.
void profile_add_columns(struct profile *profile, struct arena *arena,
                         const struct record_column *columns, size_t count);

// Takes the shares of columns from all rows, and adds used and large ones that appear late.
void profile_add_census(struct profile *profile, struct arena *arena, const struct census *census);

enum { PROFILE_WARNINGS = 8 };
struct profile_warning {
    const char *code, *text;
};
size_t profile_warnings(struct profile_warning *out, const struct profile *profile,
                        struct arena *arena); // at most PROFILE_WARNINGS; returns how many

// The spread of an estimate, from the tokens and the doubt that were added up.
void profile_set_spread(struct profile *profile);

// Computes sums, contexts and batches. With a NULL list, the tally must be set; the order is lost.
enum err profile_finish(struct profile *profile, struct arena *arena, const struct lengths *list,
                        const struct profile_settings *settings);

// Simulates an epoch: of the list, or if it is NULL of the tally in shuffled order.
enum err profile_simulate(struct batches *out, const struct lengths_tally *tally,
                          const struct lengths *list, const struct profile_settings *settings);

// Call profile_finish() afterwards. Fails if tokenizer, template or labels differ.
enum err profile_merge(struct profile *out, struct arena *arena, const struct profile *a,
                       const struct profile *b);

void profile_write(const struct profile *profile, struct json_writer *w);
void profile_write_warnings(const struct profile *profile, struct json_writer *w);
enum err profile_read(struct profile *out, struct arena *arena, struct text in, const char *name);

// Whether each answer is marked as a good or a bad one, as KTO needs it.
bool profile_has_verdicts(const struct profile *profile);

// As text, as wide as out.
void profile_print(const struct profile *profile, struct arena *arena, struct out *out);
