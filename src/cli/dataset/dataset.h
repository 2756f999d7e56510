// SPDX-License-Identifier: Apache-2.0
// dataset: examples of tokens from data files, read, rendered and tokenised on all cores.
//
//     struct dataset dataset;
//     TRY(dataset_open(&dataset, arena, &options));
//     struct dataset_reading reading = { .context = &sums, .give = add, .quiet = quiet };
//     err = dataset_read(&dataset, words, count, &reading);
//     dataset_close(&dataset);
//
// The examples come in the order of the files with any number of threads; memory is a few blocks of
// data per thread. An unusable row is an example with a problem. Ids are computed only on request:
// counting is much faster.

#pragma once

#include "base/field.h"
#include "cli/terminal/progress.h"
#include "core/data/counted.h"
#include "core/data/example.h"
#include "core/data/profile.h"
#include "host/inputs.h"

enum dataset_bad_rows { DATASET_STOP, DATASET_SKIP };

struct dataset_options {
    const char *model, *tokenizer; // where the tokenizer and the template come from
    const char *template;          // overrides the model's; "none" applies none
    const char *fields, *system, *date, *image_size, *image_folder;
    const struct vision *vision; // how the model reads images; NULL: it does not. No option
    const char *trainer;         // of the stack, as packing.h has it; NULL: hf. No option
    int format;                  // enum record_format; RECORD_CSV too
    int labels;                  // enum chat_labels
    int bad_rows;                // enum dataset_bad_rows
    int64_t threads, image_max_pixels;
};
extern const struct field dataset_fields[];

struct dataset {
    struct dataset_options options;
    struct arena *arena;
    struct example_rule rule;
    struct out identity; // all that decides what a row becomes, in words and checksums
    bool needs_date;     // the template shows the day, and --date does not give it
    bool warns_later;    // the caller prints all warnings of the profile: none is said before
};

// Finds and reads tokenizer and template. Without a tokenizer of the model on this machine, tokens
// are estimated with the built-in vocabulary and the template of the model's family.
enum err dataset_open(struct dataset *dataset, struct arena *arena,
                      const struct dataset_options *options);

// The size of an image file below the folder (host/file). ERR_INPUT for one that is elsewhere.
example_image_file dataset_image_file;

struct dataset_reading {
    void *context;
    enum err (*give)(void *context, const struct example *example); // in order
    bool wants_ids;
    bool quiet;
    int64_t from, to;           // bytes of a single file that can be cut (host/source); 0, 0: all
    struct progress *progress;  // shown instead of a bar of its own; NULL: it has one
    int64_t before_bytes;       // of that bar, done before
    struct profile_file *files; // filled, in the dataset's arena
    size_t file_count;
    int64_t left_out_files;       // of test and validation splits
    const char *left_out_file;    // the first of them
    struct counted_shape *shapes; // how the rows of each file were read, likewise
    size_t shape_count;
    struct census census; // of the columns of all rows that are no tables, likewise
    int64_t lines;        // of the last file
    int64_t read_bytes;   // of the files or the range, as they lie on disk; packed ones packed
};

// Whether the words name the built-in data set, "example", which is no file.
bool dataset_is_example(const char *const *words, size_t count);

// Says which files of folders are not read. It is no progress: --quiet does not silence it.
void dataset_note_left_out(const struct inputs *inputs);

// Prints the warnings of a profile as notes. was_read: all but what was said as the data was read.
void dataset_print_warnings(const struct profile *profile, struct arena *arena, bool was_read);

enum err dataset_read(struct dataset *dataset, const char *const *words, size_t count,
                      struct dataset_reading *reading);

// Adds what a reading says of the data: format, columns, files that were left out.
void dataset_describe(struct profile *out, struct arena *arena,
                      const struct dataset_reading *reading);

// The date that templates see, for options that take years and months too: it must have a day.
enum err dataset_read_date(struct template_date *out, const char *date);

// Of preference data answers alone carry loss: the prompt is the same for both of a pair.
void dataset_label_answers(struct dataset_options *options);

// After dataset_read(): ERR_INPUT unless every row of every file was a pair of answers.
enum err dataset_check_pairs(const struct dataset_reading *reading);

// Tokenizer, template and labels of a profile: what is known before the data is read.
struct profile dataset_head(const struct dataset *dataset);

// The part of a profile that comes from the data. `lengths` gets the lengths in order; with very
// many examples it stays empty and the tally of the profile is filled instead. lengths_path, unless
// NULL, is a CSV file that gets tokens and labelled tokens of each example, in file order.
enum err dataset_profile(struct profile *out, struct lengths *lengths, struct dataset *dataset,
                         const char *const *words, size_t count, const char *lengths_path,
                         bool quiet);
