// SPDX-License-Identifier: Apache-2.0
// Makes a plan again from its document, with the pilot, and prints before and after.

#include "cli/pilot_forecast.h"

#include "cli/data.h"
#include "core/hosting/hosting.h"
#include "core/plan/plan.h"
#include "host/file.h"

#include <math.h>
#include <string.h>

static const char *spell(const struct range *gpu_hours, const struct range *wall_hours,
                         struct arena *arena)
{
    return text_format(
        arena, "%s GPU hours (80 %% range %s – %s), %s (%s – %s)",
        text_hours(arena, gpu_hours->mid), text_hours(arena, gpu_hours->low),
        text_hours(arena, gpu_hours->high), text_seconds(arena, 3600 * wall_hours->mid),
        text_seconds(arena, 3600 * wall_hours->low), text_seconds(arena, 3600 * wall_hours->high));
}

// The plan's request from its document, with exactly the configuration that it chose.
static enum err read_request(struct plan_request *request, struct arena *arena,
                             const struct json *tree, struct text json, const char *path)
{
    struct hosting_document document;
    struct pilot_configuration c;
    TRY(hosting_read_plan(request, &document, arena, json, path));
    TRY(pilot_configuration_read(&c, arena, tree, path));
    request->recipe = c.recipe;
    request->parallel = c.parallel;
    if (c.micro_batch >= 1)
        request->micro_batch = text_format(arena, "%.0f", c.micro_batch);
    request->batches = plan_read_batches(tree, arena);
    return OK;
}

// A CPU's rate tells how long the run would take here, and nothing about the plan's GPUs.
static void put_here(struct out *out, struct arena *arena, const struct json *tree,
                     const struct pilot *pilot)
{
    const struct json *workload = json_get(tree, "workload");
    double tokens = workload ? json_get_number(workload, "processed_tokens", NAN) : NAN;
    out_labelled(
        out, "forecast",
        text_format(arena,
                    "the plan's %s tokens would take %s on this CPU; about its GPUs this pilot "
                    "tells nothing",
                    text_count(arena, tokens),
                    text_seconds(arena, tokens / pilot->tokens_per_s.mean)));
}

static enum err put(struct out *out, struct command_line *line, const char *plan_path,
                    const struct pilot *pilot, const char *pilot_name)
{
    struct arena *arena = line->arena;
    struct text json;
    struct json tree;
    TRY(file_read(&json, arena, plan_path));
    TRY(json_read(&tree, arena, json, plan_path));
    if (pilot->gpu.name && !strcmp(pilot->gpu.name, "cpu")) {
        put_here(out, arena, &tree, pilot);
        return OK;
    }
    struct plan_request request;
    struct plan_data data;
    TRY(read_request(&request, arena, &tree, json, plan_path));
    TRY(data_plan(&data, line));
    const char *planned = request.stack;
    if (pilot->stack)
        request.stack = pilot->stack;
    TRY(data_request(&request, &data));
    request.pilot = pilot;
    request.pilot_name = pilot_name;
    struct plan *after = ARENA_NEW(arena, struct plan, 1);
    TRY(plan_make(after, arena, &data, &request));
    struct range gpu_hours = json_get_range(&tree, "gpu_hours"),
                 wall_hours = json_get_range(&tree, "wall_hours");
    out_labelled(out, "before", spell(&gpu_hours, &wall_hours, arena));
    out_labelled(out, "after",
                 spell(&after->forecast.gpu_hours, &after->forecast.wall_hours, arena));
    out_labelled(out, "", plan_pilot_words(after, arena));
    for (size_t i = 0; i < after->advice.count; i++)
        if (!strcmp(after->advice.items[i].code, "pilot_contradicts"))
            out_labelled(out, "DOUBTFUL", after->advice.items[i].text);
    if (planned && pilot->stack && strcmp(planned, pilot->stack))
        out_labelled(out, "",
                     text_format(arena, "The plan used %s; this forecast is for %s.", planned,
                                 pilot->stack));
    return OK;
}

void pilot_forecast_put(struct out *out, struct command_line *line, const char *plan_path,
                        const struct pilot *pilot, const char *pilot_name)
{
    if (put(out, line, plan_path, pilot, pilot_name))
        out_labelled(out, "forecast",
                     text_format(line->arena, "unchanged, because %s", error_text()));
}
