#include "core/plan/fit.h"

#include "core/chart/chart.h"
#include "core/plan/plan_internal.h"
#include "core/trainers/trainer_config.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 1 << 16, MOST_STEPS = 1 << 14 }; // where the searches below end

// The byte plan of that many rows of that width.
static enum err plan_bytes(struct memory *out, struct arena *arena, const struct fit *fit,
                           double rows, double width)
{
    struct setup setup = { .model = fit->model, .stack = fit->stack, .recipe = fit->recipe };
    struct recipe recipe = estimate_recipe(&setup);
    struct step_request request = { .model = fit->model,
                                    .recipe = &recipe,
                                    .layout = &fit->layout,
                                    .stack = fit->stack,
                                    .batch = step_batch(rows, width),
                                    .accumulation = fit->accumulation };
    struct memory_device device = memory_device(fit->gpu, false);
    struct arena_mark mark = arena_mark(arena);
    struct step step;
    TRY(step_list(&step, arena, &request));
    memory_plan(out, &step, &request, &device);
    arena_rewind(arena, mark);
    return OK;
}

// The largest of 1 … most for which rows (or context steps, where rows is 0) fit; 0 if none does.
static enum err largest(int64_t *out, struct arena *arena, const struct fit *fit, bool of_rows,
                        int64_t most)
{
    int64_t fits = 0, too_many = most + 1;
    for (int64_t next = 1; fits + 1 < too_many;) {
        struct memory memory;
        TRY(plan_bytes(&memory, arena, fit, of_rows ? (double)next : fit->micro_batch,
                       of_rows ? fit->context : (double)(next * FIT_CONTEXT_STEP)));
        *(memory.fits ? &fits : &too_many) = next;
        next = too_many > most && fits * 2 <= most ? fits * 2 : fits + (too_many - fits) / 2;
        next = next > fits ? next : fits + 1;
    }
    *out = fits;
    return OK;
}

// Reads what the request says; what it leaves open becomes one row, one GPU and the stack's habits.
static enum err read_request(struct fit *out, const struct plan_data *data,
                             const struct plan_request *request)
{
    *out = (struct fit){ .model = request->shape, .stack = request->own_stack };
    TRY(plan_request_check(request));
    if (!out->model)
        TRY(catalog_model(&out->model, &data->catalog, request->model));
    if (!out->stack)
        TRY(stack_find(&out->stack, data->stacks, data->stack_count,
                       request->stack ? request->stack : stack_default(request->recipe.method)));
    if (request->gpu)
        TRY(catalog_gpu(&out->gpu, &data->catalog, request->gpu));
    TRY(plan_request_rows(&out->micro_batch, request));
    out->micro_batch = fmax(1, out->micro_batch);
    out->context = request->context > 0 ? (double)request->context : 2048;
    out->recipe = request->recipe;
    return recipe_check(&out->recipe, out->model);
}

// The first of the usual layouts that fits, or the last of them.
static enum err choose_layout(struct fit *out, struct arena *arena,
                              const struct plan_request *request)
{
    int64_t gpus = request->gpus > 0 ? request->gpus : 1;
    const char *const usual[] = { "ddp", "zero2", "fsdp" };
    if (request->parallel && strcmp(request->parallel, "auto"))
        return layout_read(&out->layout, text_of(request->parallel), gpus);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        TRY(layout_read(&out->layout, text_of(usual[i]), gpus));
        struct memory memory;
        TRY(plan_bytes(&memory, arena, out, out->micro_batch, out->context));
        if (gpus == 1 || memory.fits)
            return OK;
    }
    return OK;
}

enum err fit_make(struct fit *out, struct arena *arena, const struct plan_data *data,
                  const struct plan_request *request)
{
    TRY(read_request(out, data, request));
    out->accumulation = 1;
    out->from = request->from;
    bool any = out->recipe.checkpointing == RECIPE_AUTO;
    if (any)
        out->recipe.checkpointing = out->gpu ? RECIPE_KEEP_ALL : out->stack->checkpointing;
    TRY(choose_layout(out, arena, request));
    if (request->global_batch > 0)
        out->accumulation = fmax(
            1, rint((double)request->global_batch / (out->micro_batch * (double)out->layout.data)));
    for (;; out->recipe.checkpointing++) { // the lightest recomputation that fits
        TRY(plan_bytes(&out->memory, arena, out, out->micro_batch, out->context));
        if (!any || !out->gpu || out->memory.fits || out->recipe.checkpointing == RECIPE_RECOMPUTE)
            break;
    }
    struct setup setup = { .model = out->model, .stack = out->stack, .recipe = out->recipe };
    out->recipe = estimate_recipe(&setup);
    struct fit trial = *out;
    for (int again = RECIPE_KEEP_ALL; out->gpu && again <= RECIPE_RECOMPUTE; again++) {
        int64_t steps;
        trial.recipe.checkpointing = again;
        TRY(largest(&out->largest[again].micro_batch, arena, &trial, true, MOST_ROWS));
        TRY(largest(&steps, arena, &trial, false, MOST_STEPS));
        out->largest[again].context = steps * FIT_CONTEXT_STEP;
    }
    return OK;
}

// --- writing -----------------------------------------------------------------

void fit_write(const struct fit *fit, struct arena *arena, struct out *out)
{
    struct json_writer w = { .out = out };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "memory");
    json_put_count(&w, "version", 1);
    plan_put_memory(&w, &fit->memory, fit->memory.fits);
    json_open(&w, "configuration", '{');
    json_put_string(&w, "model", fit->model->name);
    json_put_string(&w, "stack", fit->stack->name);
    json_put_string(&w, "gpu", fit->gpu ? fit->gpu->name : NULL);
    json_put_count(&w, "gpus", layout_gpus(&fit->layout));
    json_put_string(&w, "parallel", layout_spell(&fit->layout, arena));
    json_put_number(&w, "context", fit->context);
    json_put_number(&w, "micro_batch", fit->micro_batch);
    json_put_number(&w, "accumulation", fit->accumulation);
    field_write(recipe_fields, &fit->recipe, &w);
    json_close(&w, '}');
    if (fit->from)
        trainer_config_write(fit->from, &w);
    json_open(&w, "largest", '[');
    for (int i = 0; fit->gpu && i < 3; i++) {
        json_open(&w, NULL, '{');
        json_put_string(&w, "checkpointing", recipe_checkpointings[i]);
        json_put_count(&w, "micro_batch", fit->largest[i].micro_batch);
        json_put_count(&w, "context", fit->largest[i].context);
        json_close(&w, '}');
    }
    json_close(&w, ']');
    json_close(&w, '}');
    out_char(out, '\n');
}

static void put_largest(const struct fit *fit, struct arena *arena, struct out *out)
{
    out_put(out, "\n  The largest that fit         rows of %-7.0f   context of %.0f row%s\n",
            fit->context, fit->micro_batch, fit->micro_batch == 1 ? "" : "s");
    for (int i = 0; i < 3; i++) {
        const struct fit_largest *l = &fit->largest[i];
        out_put(out, "  --checkpointing %-11s %12s %18s%s\n", recipe_checkpointings[i],
                l->micro_batch ? text_commas(arena, l->micro_batch) : "none",
                l->context ? text_commas(arena, l->context) : "none",
                l->context > fit->model->max_positions && fit->model->max_positions
                    ? text_format(arena, "  (the model has %s)",
                                  text_commas(arena, fit->model->max_positions))
                    : "");
    }
}

void fit_text(const struct fit *fit, struct arena *arena, struct out *out)
{
    const struct memory *m = &fit->memory;
    out_wrapped(out, 0, 0,
                text_format(arena, "%s, %s with %s: %.0f × %.0f tokens, %s, recomputation %s",
                            fit->model->name, recipe_methods[fit->recipe.method], fit->stack->name,
                            fit->micro_batch, fit->context, layout_spell(&fit->layout, arena),
                            recipe_checkpointings[fit->recipe.checkpointing]));
    out_char(out, '\n');
    if (fit->gpu)
        out_put(out, "  %s: %s of %s on each GPU\n\n", m->fits ? "fits" : "DOES NOT FIT",
                text_bytes(arena, m->total_bytes), text_bytes(arena, m->device_bytes));
    for (int i = 0; i < MEMORY_PARTS; i++)
        if (m->parts[i] > 0) {
            out_put(out, "  %-22s %10s  ", memory_part_names[i], text_bytes(arena, m->parts[i]));
            chart_put_bar(out, m->parts[i] / m->total_bytes, 36);
            out_char(out, '\n');
        }
    struct range range = memory_range(m);
    out_put(out, "\n  %-22s %10s  at its fullest, %s %s\n", "allocated",
            text_bytes(arena, m->allocated_bytes), strcmp(m->moment, "loss") ? "in" : "at the",
            m->moment);
    out_put(out, "  %-22s %10s  with the allocator's slack\n", "reserved",
            text_bytes(arena, m->reserved_bytes));
    out_put(out, "  %-22s %10s  as nvidia-smi shows; %s to %s\n", "total",
            text_bytes(arena, m->total_bytes), text_bytes(arena, range.low),
            text_bytes(arena, range.high));
    out_put(out, "  %-22s %10s  of each process while weights load\n", "host memory",
            text_bytes(arena, m->host_bytes));
    if (fit->gpu)
        put_largest(fit, arena, out);
}
