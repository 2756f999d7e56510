#include "cli/runs.h"

#include <math.h>

const struct field runs_actual_fields[] = {
    FIELD(runs_actual, plan, TEXT, "plan.json, in the place of an id"),
    FIELD(runs_actual, gpu_hours, NUMBER, "that the run took"),
    FIELD(runs_actual, wall_hours, NUMBER, "from its start to its end"),
    FIELD(runs_actual, tokens_per_second, NUMBER, "processed, over all GPUs, while it trained"),
    { 0 },
};

// What one of the two hours says about the other.
static void complete(struct runs_actual *a, const struct history_entry *plan)
{
    double gpus = plan->gpus > 0 ? (double)plan->gpus : NAN;
    if (isnan(a->gpu_hours))
        a->gpu_hours = a->wall_hours * gpus;
    if (isnan(a->wall_hours))
        a->wall_hours = a->gpu_hours / gpus;
}

static enum err check(const struct runs_actual *a)
{
    const struct {
        const char *option;
        double value;
    } rows[] = { { "gpu-hours", a->gpu_hours },
                 { "wall-hours", a->wall_hours },
                 { "tokens-per-second", a->tokens_per_second } };
    bool any = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        any = any || !isnan(rows[i].value);
        if (rows[i].value <= 0 || rows[i].value > 1e15)
            return fail(ERR_USAGE, "--%s is %g, must be above 0", rows[i].option, rows[i].value);
    }
    return any ? OK
               : fail(ERR_USAGE, "how did the run end? --gpu-hours, --wall-hours, "
                                 "--tokens-per-second or --log say it");
}

enum err runs_actual_document(struct out *out, struct arena *arena,
                              const struct runs_actual *actual, const struct history_entry *plan)
{
    struct runs_actual a = *actual;
    (void)arena;
    TRY(check(&a));
    complete(&a, plan);
    struct json_writer w = { .out = out };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "run");
    json_put_count(&w, "version", 1);
    json_put_number(&w, "tokens_per_second", a.tokens_per_second);
    json_put_number(&w, "wall_hours", a.wall_hours);
    json_put_number(&w, "gpu_hours", a.gpu_hours);
    json_close(&w, '}');
    return OK;
}
