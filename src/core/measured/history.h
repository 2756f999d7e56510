// history: past plans, pilots and runs: what was forecast, and what became of it.
//
// An entry is what a ledger keeps of a document: its configuration, the forecast, the actual. Its
// fields are the ledger's columns, the keys and columns of an export, and what `runs` lists.
//
//     struct history_entry entry;
//     TRY(history_read(&entry, arena, document, "plan.json"));   // any of our documents
//     history_answer(&run, &plan, true);                         // the run ends what the plan
//     began struct history_coverage all = history_coverage(arena, entries, count, NULL, NULL);
//
// Texts point into the arena or the document. Numbers that are not known are NAN, texts NULL.

#pragma once

#include "base/field.h"
#include "base/stats.h"

enum history_kind { HISTORY_PROFILE, HISTORY_PLAN, HISTORY_PILOT, HISTORY_RUN };
extern const char *const history_kinds[];

struct history_entry {
    int64_t id;      // in one ledger
    const char *uid; // of the content: the same wherever it is copied to
    int kind;
    const char *at;      // universal time: 2026-11-15T11:20:05Z
    const char *program; // the version that wrote it
    const char *name;    // that the user gave
    const char *plan;    // uid of the plan that a pilot or run answers
    const char *key;     // model/method/stack/gpu×gpus/context: like configurations share it
    const char *model, *method, *stack, *gpu;
    int64_t gpus, context;
    double tokens; // processed in the whole run; of a profile: in the data
    struct range tokens_per_second, wall_hours, gpu_hours; // forecast
    double actual_tokens_per_second, actual_wall_hours, actual_gpu_hours;
    double roofline_tokens_per_second;    // of the plan, before any efficiency
    const char *configuration, *document; // JSON
};

extern const struct field history_fields[];

void history_clear(struct history_entry *entry);

// Reads a plan, a profile, a pilot or a run. ERR_INPUT where it is none of them.
enum err history_read(struct history_entry *out, struct arena *arena, struct text document,
                      const char *name);

// Spells the key and the uid anew, from the rest. Without a configuration there is no key.
void history_seal(struct history_entry *entry, struct arena *arena);

// Makes a pilot or run the answer to a plan: takes over what it does not know itself and, where it
// is the same job, the hours that were forecast. The rate is comparable for all like ones.
void history_answer(struct history_entry *entry, const struct history_entry *plan, bool same_job);

// All of them as one document, and back: {"kind": "runs", "version": 1, "runs": […]}, or a table
// in CSV without documents.
void history_write(const struct history_entry *entries, size_t count, struct out *out);
void history_write_csv(const struct history_entry *entries, size_t count, struct arena *arena,
                       struct out *out);
enum err history_read_all(struct history_entry **out, size_t *count, struct arena *arena,
                          struct text in, const char *name);

// How forecasts held: of each quantity, over entries that have both.
struct history_held {
    int64_t n, inside;   // P10–P90
    double median_error; // a factor: 1.08 is 8 % off
};

struct history_coverage {
    struct history_held tokens_per_second, wall_hours, gpu_hours;
};

// Over the entries of one stack and one GPU; NULL is any.
struct history_coverage history_coverage(struct arena *arena, const struct history_entry *entries,
                                         size_t count, const char *stack, const char *gpu);

// Whether an entry tells something about the next run: a pilot or run with a measured and a
// roofline rate, the newest of its configuration. Entries are newest first: a run repeated ten
// times counts once.
bool history_teaches(const struct history_entry *entries, size_t at);
