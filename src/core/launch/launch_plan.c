// SPDX-License-Identifier: Apache-2.0
// Reads what a job file needs from a plan's document.

#include "core/launch/launch.h"

#include <math.h>
#include <string.h>

static int64_t count_of(const struct json *object, const char *key)
{
    double number = json_get_number(object, key, NAN);
    return number >= 1 && number <= PLAN_MOST_GPUS ? (int64_t)number : 0;
}

// P95 of the GPU hours; NAN where the document has no percentiles.
static double last_percentile(const struct json *list)
{
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++)
        if (json_get_number(&list->items[i], "percentile", NAN) == 95)
            return json_get_number(&list->items[i], "gpu_hours", NAN);
    return NAN;
}

static double save_interval(const struct json *list)
{
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++)
        if (text_is(json_get_text(&list->items[i], "name"), "save interval"))
            return json_get_number(&list->items[i], "value", NAN);
    return NAN;
}

static void read_files(struct launch_plan *out, struct arena *arena, const struct json *files)
{
    for (size_t i = 0; files && files->kind == JSON_ARRAY && i < files->count; i++) {
        const char *name = json_copy_text(arena, &files->items[i], "name");
        const char *trainer = json_copy_text(arena, &files->items[i], "trainer");
        if (name && trainer && out->file_count < LAUNCH_FILES) {
            out->files[out->file_count].name = name;
            out->files[out->file_count++].trainer = trainer;
        }
    }
}

enum err launch_plan_read(struct launch_plan *out, struct arena *arena, struct text document,
                          const char *path)
{
    struct json tree;
    TRY(json_read_document(&tree, arena, document, path, "plan"));
    const struct json *c = json_get(&tree, "configuration"), *from = json_get(&tree, "from");
    const struct json *work = json_get(&tree, "workload"), *model = json_get(&tree, "model");
    const struct json *list = json_get(&tree, "assumptions"), *step = json_get(&tree, "step");
    if (!c || c->kind != JSON_OBJECT)
        return fail(ERR_INPUT,
                    "%s: lacks \"configuration\"; gpuhours plan --json writes whole plans", path);
    *out = (struct launch_plan){
        .path = path,
        .model = json_copy_text(arena, model, "given"),
        .stack = json_copy_text(arena, c, "stack"),
        .gpu = json_copy_text(arena, c, "gpu"),
        .method = json_copy_text(arena, c, "method"),
        .targets = json_copy_text(arena, c, "targets"),
        .objective = json_copy_text(arena, &tree, "objective"),
        .rslora = json_get_bool(c, "rslora", false),
        .dora = json_get_bool(c, "dora", false),
        .trains_embeddings = json_get_bool(c, "trains_embeddings", false),
        .nondeterministic = json_get_bool(c, "nondeterministic", false),
        .gpus = count_of(c, "gpus"),
        .nodes = count_of(c, "nodes"),
        .context = json_get_number(c, "context", NAN),
        .rank = json_get_number(c, "rank", NAN),
        .alpha = json_get_number(c, "alpha", NAN),
        .epochs = json_get_number(work, "epochs", NAN),
        .micro_batch = json_get_number(c, "micro_batch", NAN),
        .global_batch = json_get_number(c, "global_batch", NAN),
        .max_steps = json_get_number(json_get(&tree, "request"), "steps", NAN),
        .steps = json_get_number(work, "steps", NAN),
        .step_seconds = json_get_number(step, "seconds", NAN),
        .save_seconds = save_interval(list),
        .hours = json_get_range(&tree, "wall_hours").mid,
        .host_bytes = json_get_number(json_get(&tree, "memory"), "host_bytes", NAN),
    };
    if (!out->model)
        out->model = json_copy_text(arena, c, "model");
    read_files(out, arena, json_get(from, "files"));
    double gpu_hours = last_percentile(json_get(&tree, "gpu_hours_percentiles"));
    out->hours_p95 = out->gpus ? gpu_hours / (double)out->gpus : NAN;
    if (!out->gpus || !out->gpu || !out->model)
        return fail(ERR_INPUT, "%s: names no model or no GPUs; gpuhours plan --json writes them",
                    path);
    if (!out->nodes)
        out->nodes = 1;
    if (!(out->hours_p95 > 0 && out->hours_p95 < 1e6))
        return fail(ERR_INPUT,
                    "%s: has no 95th percentile of GPU hours, which the time limit is made from; "
                    "write it again with this version of gpuhours plan --json",
                    path);
    return OK;
}
