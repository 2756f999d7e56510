// SPDX-License-Identifier: Apache-2.0
// launch: writes the job file that starts a planned run at the place that was chosen for it.
//
//     struct launch_plan plan;
//     TRY(launch_plan_read(&plan, arena, document, "plan.json"));
//     struct launch_place place = launch_place_of_plan(&plan);
//     struct launch job;
//     TRY(launch_make(&job, arena, &(struct launch_input){ &request, &plan, &place, words, 0 }));
//     launch_file(&job, &out);                   // a Slurm script, a SkyPilot task, …
//     job.notes[0] …                             // what was assumed, in sentences
//
// Pure: it opens no file and asks nobody. The time limit is the 95th percentile of the forecast and
// the time to save, rounded up. Words of a command that look like secrets become environment
// variables, which the file names and never holds. Each word of the command reaches the trainer as
// it was given, whatever it contains (launch_quote.c).

#pragma once

#include "core/hosting/hosting.h"

enum launch_to {
    LAUNCH_SLURM,
    LAUNCH_SKY,
    LAUNCH_DSTACK,
    LAUNCH_K8S,
    LAUNCH_SCRIPT,
    LAUNCH_TARGETS,
};
extern const char *const launch_targets[]; // "slurm", …; ended by NULL

// What is asked for beyond the plan; NULL: not given.
struct launch_request {
    int to; // enum launch_to
    const char *offer, *model, *data, *output, *image, *setup, *env, *job, *partition, *account;
    const char *sbatch; // further options of sbatch
};
extern const struct field launch_fields[];
struct launch_request launch_request_default(void);

enum { LAUNCH_FILES = 16, LAUNCH_NOTES = 24, LAUNCH_VARIABLES = 32 };

// What a plan's document says about its run. Numbers that it lacks are NAN, texts NULL.
struct launch_plan {
    const char *path, *model, *stack, *gpu, *method, *targets;
    const char *objective; // NULL: supervised tuning
    bool rslora, dora, trains_embeddings, nondeterministic;
    int64_t gpus, nodes;
    double context, rank, alpha, epochs, micro_batch, global_batch;
    double max_steps; // where the plan was asked for a number of steps, else NAN
    double steps, step_seconds, save_seconds; // save_seconds: between checkpoints
    double hours, hours_p95;                  // wall time: P50 and P95
    double host_bytes;                        // of each process, while weights load
    struct {
        const char *name, *trainer;
    } files[LAUNCH_FILES]; // of the trainer's configuration
    size_t file_count;
};
enum err launch_plan_read(struct launch_plan *out, struct arena *arena, struct text document,
                          const char *path);

// Where it runs.
struct launch_place {
    const char *provider, *instance, *region, *kind; // provider NULL: the plan's own GPUs
    const char *machine;      // what the provider calls the instance; NULL: a price for its GPUs
    const char *gpu, *vendor; // vendor NULL: nvidia
    int64_t nodes, gpus_per_node; // gpus_per_node 0: not as many on every node
    bool spot;
    double usd_per_hour, cap_usd_per_hour; // of one instance; NAN: no price
    double hours, hours_p95;               // from the first step of the job file to the last
    double save_seconds;                   // between checkpoints; NAN: not known
    double step_seconds;
    double disk_bytes; // for model, data and checkpoints; NAN: not known
    double micro_batch, global_batch;
};
struct launch_place launch_place_of_plan(const struct launch_plan *plan);
// ERR_USAGE for a row that is no machine: a service that is paid by the token.
enum err launch_place_of_row(struct launch_place *out, const struct hosting_row *row,
                             struct arena *arena);
// What the target calls the provider, or NULL where it does not serve it.
const char *launch_cloud(enum launch_to to, const char *provider);
// What SkyPilot or dstack call a GPU of the catalog, or NULL where that is not known.
const char *launch_gpu(enum launch_to to, const char *gpu, struct arena *arena);
// Whether the target can start it: what is rented, a tool must be able to rent.
bool launch_serves(enum launch_to to, const struct hosting_row *row);

// A word of a command line.
struct launch_word {
    const char *text;
    bool is_shell; // already shell: "$NODE_RANK", in its quotes
};

struct launch_words {
    struct launch_word *at;
    size_t count, room;
};

struct launch_input {
    const struct launch_request *request;
    const struct launch_plan *plan;
    const struct launch_place *place;
    char *const *command; // the trainer's words, ended by NULL; NULL: by the plan
    double data_bytes;    // of --data, where it is a file of this machine; NAN: not known
};

struct launch {
    const struct launch_request *request;
    const struct launch_plan *plan;
    const struct launch_place *place;
    struct arena *arena;
    const char *name;          // of the job: letters, digits, dashes
    struct launch_words words; // the trainer's command, for one node
    bool is_engine;            // the built-in one
    double data_bytes;
    int64_t limit_seconds, grace_seconds, save_steps; // save_steps 0: not known
    const char *plan_at, *data_at, *output_at;        // paths where the job runs; data may be NULL
    const char *variables[LAUNCH_VARIABLES];          // environment variables that are handed on
    struct text secrets[LAUNCH_VARIABLES]; // what they stand for in the command; empty: not known
    size_t variable_count;
    const char *notes[LAUNCH_NOTES];
    size_t note_count;
    const char *next; // the command that starts the file
};

// ERR_USAGE where a text holds a secret, or the target cannot run this.
enum err launch_make(struct launch *out, struct arena *arena, const struct launch_input *input);
void launch_file(const struct launch *job, struct out *out);
void launch_write(const struct launch *job, struct out *out); // the JSON document

// --- quoting -----------------------------------------------------------------

// One word for bash: as it is, in quotes, or as $'…' where it holds what is not printable.
void launch_shell_word(struct out *out, const char *word);
// A text as one YAML scalar: plain where that is safe, else in double quotes.
void launch_yaml_text(struct out *out, struct text text);
// "key: |" and the text in lines below it, or in double quotes where a block cannot hold it.
void launch_yaml_block(struct out *out, int indent, const char *key, struct text text);
// The text without line breaks and control characters, for a comment.
const char *launch_plain(struct arena *arena, const char *text);
