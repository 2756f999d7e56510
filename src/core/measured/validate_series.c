// SPDX-License-Identifier: Apache-2.0
// Compares how jobs scale over GPUs, as published and as predicted.

#include "core/measured/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A run that fills its card does not show how its job scales: PyTorch waits for the device, frees
// its cache and asks anew, in each step. Of Llama-3-8B, full, on A100s (fms-acceleration,
// a100_80gb_liger.csv), four runs with 98.6 to 99.1 % of the card held are 13 to 32 % slower than
// the same with room; those up to 97.5 % are not.
static bool fills_card(const struct validate_row *row)
{
    static const double full = 0.985, GIB = 1073741824.0;
    const struct gpu *gpu = row->setup->gpu;
    return gpu && row->run->held_gib * GIB > full * gpu->memory_bytes;
}

static bool has_rate(const struct validate_row *row)
{
    return row->run->series && row->setup && row->tokens_per_s.error > 0 && !fills_card(row);
}

// What may differ within a job: its layout, which has to grow, and what was measured. Any other
// column that differs (software, recomputation, offload, rows) makes it another job, whose rate
// says nothing of scaling.
static bool may_differ(const char *column)
{
    static const char *const columns[] = {
        "id",
        "source",
        "params_b",
        "notes",
        "n_gpus",
        "parallelism",
        "grad_accum",
        "global_batch_tokens",
        "no_sync",
        "mfu",
        "tokens_per_s_total",
        "tokens_per_s_per_gpu",
        "wall_hours",
        "wall_covers",
        "evaluation_hours",
        "tflops_per_gpu",
        "total_tokens",
        "mem_kind",
        "outcome",
        "peak_mem_gib_per_gpu",
        "held_gib",
    };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (!strcmp(columns[i], column))
            return true;
    return false;
}

static bool is_same(const struct validate_row *a, const struct validate_row *b, struct arena *arena)
{
    if (strcmp(a->run->series, b->run->series) ||
        !text_equal(run_source(a->run), run_source(b->run)))
        return false;
    struct arena_mark mark = arena_mark(arena);
    bool same = true;
    for (const struct field *f = run_fields; f->name && same; f++) {
        const char *left = field_spell(f, a->run, arena), *right = field_spell(f, b->run, arena);
        same = may_differ(f->name) || left == right || (left && right && !strcmp(left, right));
    }
    arena_rewind(arena, mark);
    return same;
}

static int64_t gpus_of(const struct validate_row *row)
{
    return row->run->n_gpus > 0 ? row->run->n_gpus : 1;
}

static int by_gpus(const void *a, const void *b)
{
    const struct validate_point *p = a, *q = b;
    int64_t left = gpus_of(p->row), right = gpus_of(q->row);
    return (left > right) - (left < right);
}

static void set_shares(struct validate_series *series)
{
    qsort(series->points, series->count, sizeof *series->points, by_gpus);
    const struct validate_row *first = series->points[0].row;
    double start = (double)gpus_of(first);
    for (size_t i = 0; i < series->count; i++) {
        struct validate_point *point = &series->points[i];
        const struct validate_value *value = &point->row->tokens_per_s;
        double gpus = (double)gpus_of(point->row) / start;
        point->published = value->measured / first->tokens_per_s.measured / gpus;
        point->predicted = value->predicted.mid / first->tokens_per_s.predicted.mid / gpus;
        series->worst = fmax(series->worst, fabs(point->predicted - point->published));
    }
}

size_t validate_series(struct validate_series **out, struct arena *arena,
                       const struct validate_row *rows, size_t count)
{
    *out = ARENA_NEW(arena, struct validate_series, count + 1);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        bool seen = !has_rate(&rows[i]);
        for (size_t before = 0; before < i && !seen; before++)
            seen = has_rate(&rows[before]) && is_same(&rows[before], &rows[i], arena);
        if (seen)
            continue;
        struct validate_series series = {
            .name = rows[i].run->series,
            .points = ARENA_NEW(arena, struct validate_point, count - i),
        };
        bool grows = false;
        for (size_t k = i; k < count; k++)
            if (has_rate(&rows[k]) && is_same(&rows[k], &rows[i], arena)) {
                series.points[series.count++].row = &rows[k];
                grows |= gpus_of(&rows[k]) != gpus_of(&rows[i]);
            }
        set_shares(&series);
        if (grows)
            (*out)[used++] = series;
    }
    return used;
}
