// SPDX-License-Identifier: Apache-2.0
// units: counts a dataset in work units, by as many processes and tries as it takes.
//
//     struct units units;
//     TRY(units_open(&units, &dataset, words, count, &options));
//     TRY(units_work(&units, &dataset, &shard, &work));   // by every worker
//     TRY(units_profile(&profile, &lengths, &units, NULL)); // when all are done
//
// host/manifest cuts the files into units. The result of a unit (core/data/counted) is a file in a
// folder that all workers see, named by the hash of all that decides it: the program, the options,
// the contents of tokenizer and template, the names, sizes and dates of the files, the range. It
// appears complete or not at all. So "is there" means "is done": a job that was killed, started
// again, or given to another number of workers does only what is missing, and whoever sees all
// results can merge them. units.json in the same folder lists the units: a merge needs no data.

#pragma once

#include "cli/dataset/dataset.h"
#include "host/manifest.h"
#include "host/shard.h"

struct units_options {
    const char *units; // the folder; NULL: no units
    const char *shard; // host/shard
    double unit_size;  // in bytes
    bool wants_ids;    // the tokens too. No option
};
extern const struct field units_fields[];

// The share of this process. Without units: all, with a note where other ranks read the same.
enum err units_share(struct shard *out, const struct units_options *options);

enum { UNITS_BYTES = 256 << 20 }; // of a unit, unless told

struct units {
    struct arena *arena;
    const char *folder;
    struct manifest manifest;
    int64_t unit_bytes;               // as asked for
    const char **keys;                // of each unit
    const char *key;                  // of all of them
    struct profile head;              // tokenizer, template, files: all that is no count
    struct profile_settings settings; // of batches, as given
    bool raw_pairs;                   // as the stack's trainer reads pairs (core/data/packing.h)
    bool wants_ids;                   // results have the tokens too
};

// `program` is its version. Writes units.json. ERR_INPUT if the folder has another job's.
enum err units_open(struct units *out, struct dataset *dataset, const char *const *words,
                    size_t count, const struct units_options *options,
                    const struct profile_settings *settings, const char *program);

// From units.json alone; ERR_INPUT if there is none.
enum err units_load(struct units *out, struct arena *arena, const char *folder);
bool units_is_folder(const char *path); // whether it has a units.json

struct units_work {
    bool quiet;
    bool lines;        // prints a line of JSON after each unit
    size_t mine, done; // units of this shard, and those of them that were there or are now
    size_t counted;    // in this run
};
enum err units_work(struct units *units, struct dataset *dataset, const struct shard *shard,
                    struct units_work *work);

size_t units_present(const struct units *units);

// Like dataset_profile(), from the results of all units.
enum err units_profile(struct profile *out, struct lengths *lengths, struct units *units,
                       const char *lengths_path);

// The tokens of a unit's examples lie in FOLDER/KEY.ids and FOLDER/KEY.learned (cli/dataset/spool).
// ERR_INPUT if they are damaged.
enum err units_check_tokens(int64_t *count, const struct units *units, size_t unit);

// Gives the examples of all units, in order and without their ids, and fills shapes and files.
enum err units_read(struct units *units, struct dataset_reading *reading);

// units.json: as text, as a file, and read again. ERR_INPUT if the text is nothing that was
// written.
void units_put_document(struct out *out, const struct units *units);
enum err units_write_document(const struct units *units);
enum err units_read_document(struct units *out, struct arena *arena, struct text text,
                             const char *path);
