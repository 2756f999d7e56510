// SPDX-License-Identifier: Apache-2.0
// What `gpuhours memory` prints: the byte plan as bars, and the largest sizes that fit.

#include "core/plan/fit.h"

#include "base/columns.h"
#include "core/chart/chart.h"
#include "core/plan/plan_internal.h"

static void put_largest(const struct fit *fit, struct arena *arena, struct out *out)
{
    struct columns columns = { .arena = arena, .align = "lrrl", .spare = "0001", .indent = 2 };
    columns_add(&columns, "Largest that fits (≥ 50 %)");
    columns_add(&columns, text_format(arena, "micro-batch at %.0f", fit->context));
    columns_add(&columns, text_format(arena, "context at micro-batch %.0f", fit->micro_batch));
    columns_add(&columns, "");
    for (int i = 0; i < RECIPE_AUTO; i++) {
        const struct fit_largest *l = &fit->largest[i];
        if (!fit_offers(fit, i))
            continue;
        columns_add(&columns, text_format(arena, "--checkpointing %s", recipe_checkpointings[i]));
        columns_add(&columns, l->micro_batch ? text_commas(arena, l->micro_batch) : "none");
        columns_add(&columns, l->context ? text_commas(arena, l->context) : "none");
        columns_add(&columns, l->context > fit->model->max_positions && fit->model->max_positions
                                  ? text_format(arena, "(the model has %s)",
                                                text_commas(arena, fit->model->max_positions))
                                  : "");
    }
    out_char(out, '\n');
    columns_write(&columns, out);
}

static void put_fewest(const struct fit *fit, struct arena *arena, struct out *out)
{
    struct columns columns = { .arena = arena, .align = "lrrl", .spare = "0001", .indent = 2 };
    columns_add(&columns, "Fewest that fit");
    columns_add(&columns, "GPUs");
    columns_add(&columns, "probability");
    columns_add(&columns, "");
    for (int i = 0; i < RECIPE_METHODS; i++) {
        const struct fit_fewest *f = &fit->fewest[i];
        if (f->gpus < 0)
            continue;
        columns_add(&columns, text_format(arena, "--method %s", recipe_methods[i]));
        columns_add(&columns, f->gpus ? text_commas(arena, f->gpus)
                                      : text_format(arena, "above %d", FIT_MOST_GPUS));
        columns_add(&columns,
                    f->gpus ? text_format(arena, "%.0f %%", 100 * f->fit_probability) : "");
        columns_add(&columns, f->gpus ? text_format(arena, "%s, checkpointing %s",
                                                    layout_spell(&f->layout, arena),
                                                    recipe_checkpointings[f->checkpointing])
                                      : "");
    }
    out_char(out, '\n');
    columns_write(&columns, out);
}

static void put_parts(const struct memory *memory, struct arena *arena, struct out *out)
{
    for (int i = 0; i < MEMORY_PARTS; i++)
        if (memory->parts[i] > 0) {
            out_put(out, "  %-22s %10s  ", memory_part_names[i],
                    text_bytes(arena, memory->parts[i]));
            chart_put_bar(out, memory->parts[i] / memory->total_bytes, out_columns(out) - 44);
            out_char(out, '\n');
        }
}

static void put_readings(const struct memory *memory, struct arena *arena, struct out *out)
{
    struct range range = memory_range(memory);
    const struct {
        const char *name;
        double bytes;
        const char *what;
    } rows[] = {
        { "allocated", memory->allocated_bytes,
          text_format(arena, "peak, %s", plan_moment_words(memory)) },
        { "reserved", memory->reserved_bytes, "with the allocator's slack" },
        { "total", memory->total_bytes,
          text_format(arena, "in nvidia-smi; 80 %% range %s – %s", text_bytes(arena, range.low),
                      text_bytes(arena, range.high)) },
        { "host memory", memory->host_bytes, "per process, while weights load" },
    };
    out_char(out, '\n');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        out_put(out, "  %-22s %10s  %s\n", rows[i].name, text_bytes(arena, rows[i].bytes),
                rows[i].what);
}

// "dpo (reference: model), "; nothing of supervised tuning.
static const char *objective_of(const struct fit *fit, struct arena *arena)
{
    enum objective_reference reference = objective_reference_of(&fit->objective, &fit->recipe);
    if (fit->objective.kind == OBJECTIVE_SFT)
        return "";
    return text_format(arena, "%s (reference: %s), ", objective_names[fit->objective.kind],
                       objective_reference_names[reference]);
}

void fit_text(const struct fit *fit, struct arena *arena, struct out *out)
{
    const char *what =
        text_format(arena,
                    "%s, %s%s with %s: micro-batch %.0f %s× %.0f tokens, %s, checkpointing %s, "
                    "gradient accumulation %.0f",
                    fit->model->name, objective_of(fit, arena), recipe_methods[fit->recipe.method],
                    fit->stack->name, fit->micro_batch,
                    objective_rows_each(fit->objective.kind) > 1 ? "× 2 " : "", fit->context,
                    layout_spell(&fit->layout, arena),
                    recipe_checkpointings[fit->recipe.checkpointing], fit->accumulation);
    out_wrapped(out, 0, 0, out_styled(out, OUT_HEADING, what));
    out_char(out, '\n');
    if (fit->gpu) {
        out_put(out, "  ");
        out_wrapped(out, 2, 2,
                    text_format(arena, "%s on each %s", plan_memory_words(&fit->memory, out),
                                fit->gpu->title));
        out_char(out, '\n');
    }
    const char *filled =
        fit->chooses ? plan_filled_words(&fit->memory, fit->recipe.checkpointing, fit->model, arena)
                     : NULL;
    if (filled) {
        out_put(out, "  ");
        out_wrapped(out, 2, 2, filled);
        out_char(out, '\n');
    }
    put_parts(&fit->memory, arena, out);
    put_readings(&fit->memory, arena, out);
    if (fit->gpu) {
        put_largest(fit, arena, out);
        put_fewest(fit, arena, out);
    }
}
