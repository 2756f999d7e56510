// SPDX-License-Identifier: Apache-2.0
// history: past plans, pilots and runs: what was forecast, and what was measured.
//
// An entry is the ledger's summary of a document: its configuration, the forecast, the measurement.
// Its fields are the columns of the ledger, the keys and columns of an export, and what `runs`
// lists.
//
//     struct history_entry entry;
//     TRY(history_read(&entry, arena, document, "plan.json"));   // any document of gpuhours
//     history_answer(&run, &plan, true);                         // this run was that plan
//     struct history_coverage all = history_coverage(arena, entries, count, NULL, NULL);
//
// Texts point into the arena or the document. Unknown numbers are NAN, unknown texts NULL.

#pragma once

#include "base/field.h"
#include "base/stats.h"

enum history_kind { HISTORY_PROFILE, HISTORY_PLAN, HISTORY_PILOT, HISTORY_RUN };
extern const char *const history_kinds[];

struct history_entry {
    int64_t id;      // in one ledger
    const char *uid; // hash of the content (and of a second name): the same in every ledger
    int kind;
    const char *at;      // UTC: 2026-11-15T11:20:05Z
    const char *program; // the version that wrote it
    const char *name;    // given by the user; without one the files of a profile
    const char *plan;    // uid of the plan that a pilot or run measured
    const char *key;     // model/method/stack/gpu×gpus/context: the same for one configuration
    const char *model, *method, *stack, *gpu; // model: of a profile the tokenizer
    int64_t gpus, context;
    double tokens; // processed in the whole run; of a profile: tokens of the data
    struct range tokens_per_second, wall_hours, gpu_hours; // forecast
    double actual_tokens_per_second, actual_wall_hours, actual_gpu_hours;
    double roofline_tokens_per_second;    // of the plan, before any efficiency
    const char *configuration, *document; // JSON
};

extern const struct field history_fields[];

void history_clear(struct history_entry *entry);

// Reads a plan, a profile, a pilot or a run. ERR_INPUT if it is none of them.
enum err history_read(struct history_entry *out, struct arena *arena, struct text document,
                      const char *name);

// Computes key and uid from the other fields. Without a configuration there is no key.
void history_seal(struct history_entry *entry, struct arena *arena);

// After history_seal(), of a plan that is stored under another name: it becomes an entry of its
// own.
void history_seal_named(struct history_entry *entry, struct arena *arena);

// Links a pilot or run to its plan: fills in what it does not know itself and, if it is the same
// job, the forecast hours. The rate is comparable between all runs of a configuration. What ran on
// another GPU than the plan's has no forecast.
void history_answer(struct history_entry *entry, const struct history_entry *plan, bool same_job);

// All entries as one document, {"kind": "runs", "version": 1, "runs": […]}, and back; or as a CSV
// table without documents.
void history_write(const struct history_entry *entries, size_t count, struct out *out);
void history_write_csv(const struct history_entry *entries, size_t count, struct arena *arena,
                       struct out *out);
enum err history_read_all(struct history_entry **out, size_t *count, struct arena *arena,
                          struct text in, const char *name);

// How often forecasts held, per quantity, over entries with both forecast and measurement.
struct history_held {
    int64_t n, inside;   // inside: within P10–P90
    double median_error; // a factor: 1.08 is 8 % off
};

struct history_coverage {
    struct history_held tokens_per_second, wall_hours, gpu_hours;
};

// Over the entries of one stack and one GPU; NULL is any.
struct history_coverage history_coverage(struct arena *arena, const struct history_entry *entries,
                                         size_t count, const char *stack, const char *gpu);

// Why an entry tells nothing about the speed of the next run, as a clause; NULL: it does.
const char *history_lacks(const struct history_entry *entry);
