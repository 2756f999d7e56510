#include "core/step_series.h"

#include <math.h>

void step_series_init(struct step_series *series, struct arena *arena)
{
    *series = (struct step_series){ .arena = arena,
                                    .first_step = NAN,
                                    .last_step = NAN,
                                    .total = NAN,
                                    .last_seconds = NAN,
                                    .loss = NAN,
                                    .rate = NAN,
                                    .epoch = NAN,
                                    .peak_bytes = NAN,
                                    .run_seconds = NAN };
}

static void append(struct step_series *s, const struct trainer_log_event *event)
{
    if (s->count == s->room) {
        size_t room = s->room ? s->room * 2 : 256;
        s->steps =
            arena_grow(s->arena, s->steps, s->room * sizeof *s->steps, room * sizeof *s->steps);
        s->counters =
            arena_grow(s->arena, s->counters, s->room * sizeof(double), room * sizeof(double));
        s->rates = arena_grow(s->arena, s->rates, s->room * sizeof(double), room * sizeof(double));
        s->room = room;
    }
    s->counters[s->count] = event->tokens;
    s->rates[s->count] = event->tokens_per_s;
    s->steps[s->count++] = (struct steady_step){ .number = (int64_t)event->step,
                                                 .count = (int64_t)(event->step - s->last_step),
                                                 .end_seconds = event->seconds,
                                                 .seconds = event->seconds - s->last_seconds,
                                                 .flags = s->flags };
    s->flags = 0;
}

void step_series_add(void *series, const struct trainer_log_event *event)
{
    struct step_series *s = series;
    switch (event->kind) {
    case TRAINER_LOG_BEGIN:
        s->count = 0;
        s->first_step = event->step;
        break;
    case TRAINER_LOG_STEP: append(s, event); break;
    case TRAINER_LOG_EVALUATION_BEGIN: s->flags |= STEADY_EVALUATED; break;
    case TRAINER_LOG_SAVE: s->flags |= STEADY_SAVED; break;
    default: return;
    }
    if (event->kind <= TRAINER_LOG_STEP) {
        s->last_step = event->step;
        s->total = event->total;
        s->last_seconds = event->seconds;
    }
}

void step_series_finish(struct step_series *s)
{
    s->origin = s->step_tokens > 0 ? STEP_SERIES_GIVEN : STEP_SERIES_NONE;
    for (size_t i = 0; i < s->count; i++)
        s->steps[i].tokens = s->step_tokens * (double)s->steps[i].count;
}
