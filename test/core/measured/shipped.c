// SPDX-License-Identifier: Apache-2.0
// shipped: all runs of data/runs.csv, each forecast without its source, once a process.

#include "test/core/measured/shipped.h"

#include "base/embedded.h"
#include "test/core/knowledge.h"

static struct validate_row *forecast_all(size_t *count)
{
    struct knowledge k = knowledge_open();
    struct validate_model model = { &k.catalog, k.stacks, k.stack_count };
    struct run *runs;
    struct validate_row *rows;
    CHECK(!run_read(&runs, count, &test_arena, embedded_file("runs.csv"), "runs.csv"));
    CHECK(!validate_runs(&rows, &test_arena, runs, *count, runs, *count, &model));
    return rows;
}

const struct validate_row *shipped_rows(size_t *count)
{
    static struct arena kept;
    static struct validate_row *rows;
    static size_t row_count;
    if (!rows) { // in an arena that outlives the test
        struct arena of_test = test_arena;
        test_arena = kept;
        rows = forecast_all(&row_count);
        kept = test_arena;
        test_arena = of_test;
    }
    *count = row_count;
    return rows;
}
