// runs: what the parts of `gpuhours runs` share.

#pragma once

#include "cli/ledger_entry.h"

// What is printed of entries, newest first.
void runs_list(const struct history_entry *entries, size_t count, struct arena *arena,
               struct out *out);
void runs_show(const struct history_entry *entry, const struct history_entry *others, size_t count,
               struct arena *arena, struct out *out);

// Side by side: what differs first, then what is the same.
void runs_compare(const struct history_entry *const *entries, size_t count, struct arena *arena,
                  struct out *out);

// By stack and GPU, and over all; the document where is_json.
void runs_coverage(const struct history_entry *entries, size_t count, struct arena *arena,
                   struct out *out, bool is_json);

// How a run of some trainer ended.
struct runs_actual {
    const char *plan, *log, *pattern; // files; how steps look in the log
    double gpu_hours, wall_hours, tokens_per_second;
    int64_t tokens_per_step;
};
extern const struct field runs_actual_fields[];

// The document of a finished run, from numbers or a log; of that plan where there is one.
enum err runs_actual_document(struct out *out, struct arena *arena,
                              const struct runs_actual *actual, const struct history_entry *plan);
