// SPDX-License-Identifier: Apache-2.0
// Lists the runs that a row may mean where it leaves out facts that decide its memory: one for each
// usual value of each.

#include "core/measured/run.h"

#include <stddef.h>
#include <string.h>

enum { MOST_VALUES = 5 };

// Columns in which a blank cell does not mean the stack's default: publications leave them out
// whatever they were. (Of checkpointing, the default held in all rows that leave it out.) How often
// values are meant is how often 129 public scripts of QLoRA under transformers' Trainer or TRL have
// them, found by queries that name neither: ranks, those between them at the nearest; adapters on
// query and value (29 by PEFT's default), on attention, on all linears. Under LoRA the sources of
// runs.csv have the first and the last as often. Of adapters' precision it is not known:
// transformers' Trainer computes in fp32 unless told otherwise.
static const struct unsaid {
    size_t column;                  // of struct run
    const char *method;             // in whose name it is; NULL: of every method
    const char *words[MOST_VALUES]; // of a text; NULL ends them
    double numbers[MOST_VALUES];    // of a number; 0 ends them
    double weights[MOST_VALUES];
} columns[] = {
    { offsetof(struct run, lora_rank),
      "lora",
      { "8", "16", "32", "64" },
      { 0 },
      { 42, 44, 11, 32 } },
    { offsetof(struct run, lora_targets),
      "qlora",
      { "q,v", "q,k,v,o", "all-linear" },
      { 0 },
      { 57, 25, 40 } },
    { offsetof(struct run, lora_targets), "lora", { "q,v", "all-linear" }, { 0 }, { 1, 1 } },
    { offsetof(struct run, precision), "lora", { "bf16", "fp32" }, { 0 }, { 1, 1 } },
    { offsetof(struct run, micro_batch), NULL, { NULL }, { 1, 2, 4, 8, 16 }, { 1, 1, 1, 1, 1 } },
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static bool is_unsaid(const struct run *run, const struct unsaid *column)
{
    const char *cell = (const char *)run + column->column;
    if (column->method && !(run->method && strstr(run->method, column->method)))
        return false;
    if (!column->words[0])
        return !(*(const double *)cell >= 1);
    const char *word = *(const char *const *)cell;
    return !word || !strcmp(word, "unknown");
}

// Appends a copy of each run so far for each value but the first, which the run itself takes.
static size_t multiply(struct run *runs, double *weights, size_t count, const struct unsaid *column)
{
    size_t values = 0;
    while (values < MOST_VALUES && column->weights[values] > 0)
        values++;
    for (size_t v = values; v-- > 0;)
        for (size_t i = 0; i < count; i++) {
            struct run *run = &runs[v * count + i];
            *run = runs[i];
            weights[v * count + i] = weights[i] * column->weights[v];
            char *cell = (char *)run + column->column;
            if (column->words[0])
                *(const char **)cell = column->words[v];
            else
                *(double *)cell = column->numbers[v];
        }
    return values * count;
}

size_t run_unsaid(struct run **out, double **weights, struct arena *arena, const struct run *run)
{
    size_t most = 1, count = 1;
    for (size_t i = 0; i < COLUMNS; i++)
        most *= is_unsaid(run, &columns[i]) ? MOST_VALUES : 1;
    *out = ARENA_NEW(arena, struct run, most);
    *weights = ARENA_NEW(arena, double, most);
    (*out)[0] = *run;
    (*weights)[0] = 1;
    for (size_t i = 0; i < COLUMNS; i++) // a column that has a value by now is passed over
        if (is_unsaid(*out, &columns[i]))
            count = multiply(*out, *weights, count, &columns[i]);
    return count;
}
