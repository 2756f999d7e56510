// SPDX-License-Identifier: Apache-2.0
// runs: shared by the files of `gpuhours runs`.

#pragma once

#include "cli/ledger_entry.h"

// Prints entries, newest first.
void runs_list(const struct history_entry *entries, size_t count, struct arena *arena,
               struct out *out);
void runs_show(const struct history_entry *entry, const struct history_entry *others, size_t count,
               struct arena *arena, struct out *out);

// Side by side: first what differs, then what is identical.
void runs_compare(const struct history_entry *const *entries, size_t count, struct arena *arena,
                  struct out *out);

// By stack and GPU, and in total; as JSON if is_json.
void runs_coverage(const struct history_entry *entries, size_t count, struct arena *arena,
                   struct out *out, bool is_json);

// The result of a run, as the user gives it.
struct runs_actual {
    const char *plan, *log, *pattern; // two files; how to recognise steps in the log
    double gpu_hours, wall_hours, tokens_per_second;
    int64_t tokens_per_step;
};
extern const struct field runs_actual_fields[];

// Writes the document of a finished run of this plan, from numbers or a log.
enum err runs_actual_document(struct out *out, struct arena *arena,
                              const struct runs_actual *actual, const struct history_entry *plan);
