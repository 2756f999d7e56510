// SPDX-License-Identifier: Apache-2.0
// Lists the runs that a row may mean where it leaves out facts that decide its memory: one for each
// usual value of each.

#include "core/measured/run.h"

#include <stddef.h>
#include <string.h>

enum { MOST_VALUES = 5 };

// Columns in which a blank cell does not mean the stack's default: publications leave them out
// whatever they were. (Of checkpointing, the default held in all rows that leave it out.) Of
// adapters' precision: transformers' Trainer computes in fp32 unless told otherwise.
static const struct unsaid {
    size_t column; // of struct run
    bool of_adapters;
    const char *words[MOST_VALUES]; // of a text; NULL ends them
    double numbers[MOST_VALUES];    // of a number; 0 ends them
} columns[] = {
    { offsetof(struct run, lora_rank), true, { "8", "16", "64" }, { 0 } },
    { offsetof(struct run, lora_targets), true, { "q,v", "all-linear" }, { 0 } },
    { offsetof(struct run, precision), true, { "bf16", "fp32" }, { 0 } },
    { offsetof(struct run, micro_batch), false, { NULL }, { 1, 2, 4, 8, 16 } },
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static bool is_unsaid(const struct run *run, const struct unsaid *column)
{
    const char *cell = (const char *)run + column->column;
    bool has_adapters = run->method && strstr(run->method, "lora");
    if (column->of_adapters && !has_adapters)
        return false;
    if (!column->words[0])
        return !(*(const double *)cell >= 1);
    const char *word = *(const char *const *)cell;
    return !word || !strcmp(word, "unknown");
}

// Appends a copy of each run so far for each value but the first, which the run itself takes.
static size_t multiply(struct run *runs, size_t count, const struct unsaid *column)
{
    size_t values = 0;
    while (values < MOST_VALUES && (column->words[values] || column->numbers[values] > 0))
        values++;
    for (size_t v = values; v-- > 0;)
        for (size_t i = 0; i < count; i++) {
            struct run *run = &runs[v * count + i];
            *run = runs[i];
            char *cell = (char *)run + column->column;
            if (column->words[0])
                *(const char **)cell = column->words[v];
            else
                *(double *)cell = column->numbers[v];
        }
    return values * count;
}

size_t run_unsaid(struct run **out, struct arena *arena, const struct run *run)
{
    size_t most = 1, count = 1;
    for (size_t i = 0; i < COLUMNS; i++)
        most *= is_unsaid(run, &columns[i]) ? MOST_VALUES : 1;
    *out = ARENA_NEW(arena, struct run, most);
    (*out)[0] = *run;
    for (size_t i = 0; i < COLUMNS; i++)
        if (is_unsaid(run, &columns[i]))
            count = multiply(*out, count, &columns[i]);
    return count;
}
