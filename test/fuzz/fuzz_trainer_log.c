// SPDX-License-Identifier: Apache-2.0
// A trainer's output; the first line is a pattern if it begins with '/'. However it is cut, the
// events are the same, steps go up between two begins, and the statistics end in numbers or NAN.

#include "core/trainers/step_series.h"
#include "core/trainers/trainer_files.h"
#include "core/trainers/trainer_log.h"
#include "test/fuzz/mutate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(lines)

struct seen {
    struct step_series series;
    uint64_t hash;
    double step;
};

static void on_event(void *context, const struct trainer_log_event *event)
{
    struct seen *seen = context;
    step_series_add(&seen->series, event);
    if (event->kind == TRAINER_LOG_STEP && !(event->step > seen->step))
        abort();
    if (event->kind <= TRAINER_LOG_STEP)
        seen->step = event->step;
    seen->hash = (seen->hash ^ (uint64_t)event->kind) * 0x100000001B3;
    for (const double *value = &event->step; value <= &event->clock_seconds; value++) {
        uint64_t bits;
        memcpy(&bits, value, sizeof bits);
        seen->hash = (seen->hash ^ (isnan(*value) ? 1 : bits)) * 0x100000001B3;
    }
}

static uint64_t read_log(const char *pattern, const char *text, size_t size, size_t piece)
{
    struct arena arena = { 0 };
    struct seen seen = { .step = NAN };
    struct trainer_log *log = ARENA_NEW(&arena, struct trainer_log, 1);
    step_series_init(&seen.series, &arena);
    if (!trainer_log_init(log, &arena, pattern, on_event, &seen)) {
        for (size_t at = 0; at < size; at += piece)
            trainer_log_feed(log, text + at, size - at < piece ? size - at : piece, (double)at);
        trainer_log_end(log);
        struct steady steady;
        step_series_finish(&seen.series);
        steady_measure(&steady, &arena, seen.series.steps, seen.series.count,
                       &(struct steady_rule){ 0 });
        if (steady.verdict == STEADY_YES && !(steady.step_seconds.mid > 0))
            abort();
        trainer_files_state(log, (struct text){ text, size }, "fuzz");
        trainer_files_csv(log, (struct text){ text, size }, "fuzz", 0);
    }
    arena_release(&arena);
    return seen.hash;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    char pattern[256] = { 0 };
    const char *text = (const char *)data;
    const char *end = size && text[0] == '/' ? memchr(text, '\n', size) : NULL;
    if (end && (size_t)(end - text) < sizeof pattern)
        memcpy(pattern, text + 1, (size_t)(end - text) - 1);
    if (read_log(*pattern ? pattern : NULL, text, size, size + 1) !=
        read_log(*pattern ? pattern : NULL, text, size, 3))
        abort();
    return 0;
}
