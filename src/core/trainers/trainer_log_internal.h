// SPDX-License-Identifier: Apache-2.0
// trainer_log_internal: shared by the files of trainer_log: tables, bars, numbers in a line.

#pragma once

#include "core/trainers/trainer_log.h"

// --- tables (trainer_log_tables.c) -------------------------------------------

// The values of a line: an event, and a few that only trainer_log uses.
struct trainer_log_found {
    struct trainer_log_event event;
    double micro_step; // "iter" if "step" means something else, otherwise the step
    double announced;  // total steps of a banner
    double epochs;     // of a banner
    double gathered;   // likewise: micro-batches of a step
    double ranks;      // likewise: GPUs that share a step's rows
    int count;         // values found
};

enum trainer_log_key_rule {
    KEY_PLAIN,
    KEY_INVERSE,
    KEY_WITH_UNIT,
    KEY_CLOCK,
    KEY_DURATION,
    KEY_OF_TOTAL, // '12/94'
};

struct trainer_log_key {
    const char *name; // in lower case; ends in '*' if it is a prefix
    size_t offset;    // of the value in struct trainer_log_found
    double scale;
    enum trainer_log_key_rule rule;
};

// NULL if it is not in the table. The name is in lower case.
const struct trainer_log_key *trainer_log_find_key(const char *name);

enum trainer_log_bar_kind { BAR_BARE, BAR_TRAINING, BAR_EPOCH, BAR_EVALUATION, BAR_OTHER };
enum trainer_log_bar_kind trainer_log_find_bar_kind(struct text name, double *epoch, double *step);

enum trainer_log_phrase_kind {
    PHRASE_NONE,
    PHRASE_EVALUATION_BEGIN,
    PHRASE_EVALUATION_END,
    PHRASE_SAVE,
    PHRASE_OUT_OF_MEMORY,
    PHRASE_END,
    PHRASE_BANNER,  // has totals
    PHRASE_VALUES,  // has values, but no step
    PHRASE_COUNTED, // is followed by the step
    PHRASE_BATCHES, // is followed by the number of micro-batches
    PHRASE_HEADING, // the step that begins, "Step 2/4"
    PHRASE_RESULTS, // one value per line follows
    PHRASE_STEP,    // its end, then one value per line
    PHRASE_BLOCK,   // Composer: "[batch=12/100]:", then one value per line
};
enum trainer_log_phrase_kind trainer_log_find_phrase(const char *line, const char **after);
int trainer_log_find_base(const char *line); // 1 if its step numbers start at 0

// --- values in a line (trainer_log_values.c) ---------------------------------

void trainer_log_clear(struct trainer_log_found *found);
void trainer_log_pairs(struct trainer_log_found *found, const char *line); // "loss: 0.5 | lr 1e-4"
bool trainer_log_dict(struct trainer_log_found *found, const char *line);  // {'loss': 0.5}
const char *trainer_log_number(const char *at,
                               double *value); // position after it; NULL if there is none
const char *trainer_log_total(struct trainer_log_found *found,
                              const char *at); // "/ 500" after a step
double trainer_log_duration(const char *at);   // "00:12", "1:02:03", "1h 2m 3s"; else NAN
double trainer_log_time(const char *line); // "2024-06-01T12:00:00.5Z" in it, Unix time; else NAN

// --- progress bars (trainer_log_bar.c) ---------------------------------------

struct trainer_log_bar {
    enum trainer_log_bar_kind kind;
    double at, total;   // INFINITY: it has none
    bool keras;         // without time since its begin; an evaluation ends with its last bar
    double epoch, step; // in its description; NAN
    double step_seconds, elapsed_seconds;
    struct text name;
    const char *postfix, *end; // "…, loss=0.5]", and the position after it
};

// The first complete bar in the text from `at` on; false if there is none.
bool trainer_log_read_bar(struct trainer_log_bar *bar, const char *at);

// --- the user's pattern (trainer_log_pattern.c) ------------------------------

struct trainer_log_pattern;
enum err trainer_log_read_pattern(struct trainer_log_pattern **out, struct arena *arena,
                                  const char *source);
bool trainer_log_match(struct trainer_log_pattern *pattern, struct trainer_log_found *found,
                       struct text line);
