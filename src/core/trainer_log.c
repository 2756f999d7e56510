#include "core/trainer_log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *trainer_log_kind_name(enum trainer_log_kind kind)
{
    static const char *const names[] = {
        "begin",         "step",  "report", "evaluation_begin", "evaluation_end", "save",
        "out_of_memory", "error", "end"
    };
    return names[kind];
}

enum err trainer_log_init(struct trainer_log *log, struct arena *arena, const char *pattern,
                          trainer_log_callback *call, void *context)
{
    *log = (struct trainer_log){ .arena = arena,
                                 .call = call,
                                 .context = context,
                                 .step = NAN,
                                 .total = NAN,
                                 .announced = NAN,
                                 .epochs = NAN,
                                 .speaker = -1 };
    if (pattern)
        return fail(ERR_UNAVAILABLE, "--pattern: not yet");
    return OK;
}

static void tell(struct trainer_log *log, enum trainer_log_kind kind, double step, double total)
{
    struct trainer_log_event event = { .kind = kind,
                                       .rank = -1,
                                       .seconds = log->line_seconds,
                                       .line = { log->line, log->size },
                                       .step = step,
                                       .total = total };
    double *values = &event.epoch;
    for (size_t i = 0; i < (sizeof event - offsetof(struct trainer_log_event, epoch)) / 8; i++)
        values[i] = NAN;
    log->call(log->context, &event);
}

// "  12%|███   | 12/100 [00:12<01:23, 1.23it/s]"
static void look(struct trainer_log *log)
{
    log->line[log->size] = 0;
    char *bar = strstr(log->line, "%|"), *end;
    if (!bar || !(bar = strstr(bar + 2, "| ")))
        return;
    double at = strtod(bar + 2, &end);
    if (*end != '/')
        return;
    double total = strtod(end + 1, NULL);
    if (isnan(log->step))
        tell(log, TRAINER_LOG_BEGIN, at, total);
    else if (at > log->step)
        tell(log, TRAINER_LOG_STEP, at, total);
    else
        return;
    log->step = at;
}

void trainer_log_feed(struct trainer_log *log, const char *bytes, size_t size, double seconds)
{
    for (size_t i = 0; i < size; i++) {
        char c = bytes[i];
        if (c == '\n' || c == '\r') {
            look(log);
            log->size = 0;
        } else if (log->size + 1 < TRAINER_LOG_LINE) {
            log->line[log->size++] = c;
            log->line_seconds = seconds;
        }
    }
}

void trainer_log_end(struct trainer_log *log, double seconds)
{
    trainer_log_feed(log, "\n", 1, seconds);
}
