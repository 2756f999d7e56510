// SPDX-License-Identifier: Apache-2.0
// Memory of a plan: whether it fits, and what takes it, in the words that plan and memory use.

#include "core/report/report_internal.h"
#include "core/step/memory.h"

#include <math.h>
#include <string.h>

// Bytes that the run needs at the p10, p50 or p90 of memory: the allocated peak with its relative
// error, plus the CUDA context. What is reserved beyond that is the allocator's cache, which it
// gives back when memory is short.
static double needed_bytes(const struct json *plan, const char *percentile)
{
    const struct json *m = report_at(plan, "memory"), *range = report_at(m, "total_range_bytes");
    double factor = report_number(range, percentile) / report_number(range, "p50");
    double context = report_number(m, "total_bytes") - report_number(m, "reserved_bytes");
    return report_number(m, "allocated_bytes") * factor + context;
}

// The plan's memory as far as the verdict needs it. A document from before 0.3.0 has no
// probability; its "fits" then stands alone.
static struct memory read_memory(const struct json *plan)
{
    const struct json *fits = report_at(plan, "memory.fits");
    return (struct memory){ .fits = fits && fits->kind == JSON_BOOL && fits->flag,
                            .fit_probability = report_number(plan, "memory.fit_probability") };
}

static bool is_sure(const struct memory *memory)
{
    return memory->fits && !(memory->fit_probability < memory_sure);
}

static const char *bytes_at(struct arena *arena, const struct json *plan, const char *path)
{
    return text_bytes(arena, report_number(plan, path));
}

struct report_fact report_memory_fact(struct arena *arena, const struct json *plan)
{
    struct memory memory = read_memory(plan);
    return (struct report_fact){
        .name = "Peak memory per GPU",
        .value = bytes_at(arena, plan, "memory.allocated_bytes"),
        .range = text_format(arena, "allocated, %s reserved, of %s: %s",
                             bytes_at(arena, plan, "memory.reserved_bytes"),
                             bytes_at(arena, plan, "memory.device_bytes"),
                             memory_verdict(&memory, arena)),
        .mood = is_sure(&memory) ? 1 : -1,
    };
}

struct part {
    const char *name;
    double bytes;
};

enum { PARTS = 64, SHOWN_PARTS = 7 };

// The parts of more than zero bytes, largest first.
static size_t sort_parts(struct part *out, struct arena *arena, const struct json *list)
{
    size_t count = 0;
    for (size_t i = 0; i < report_items(list) && count < PARTS; i++) {
        struct part part = { report_word(arena, &list->items[i], "name"),
                             report_number(&list->items[i], "bytes") };
        if (!(part.bytes > 0))
            continue;
        size_t at = count++;
        for (; at > 0 && out[at - 1].bytes < part.bytes; at--)
            out[at] = out[at - 1];
        out[at] = part;
    }
    return count;
}

static const char *moment_words(const char *moment)
{
    return !strcmp(moment, "loss")       ? "at the loss"
           : !strcmp(moment, "backward") ? "in the backward pass"
           : !strcmp(moment, "update")   ? "in the optimizer step"
           : !strcmp(moment, "start")    ? "from the start on"
                                         : moment;
}

static const char *describe_memory(struct arena *arena, const struct json *plan)
{
    const struct json *memory = report_at(plan, "memory"), *step = report_at(plan, "step");
    const char *moment = report_word(arena, memory, "moment");
    const char *batch = "";
    struct memory judged = read_memory(plan);
    if (report_number(step, "worst_batch.rows") > 0)
        batch = text_format(
            arena, ", with the largest batch: %.0f row%s of %s tokens (the average row has %s)",
            report_number(step, "worst_batch.rows"),
            text_plural(report_number(step, "worst_batch.rows")),
            chart_spell(arena, report_number(step, "worst_batch.width"), CHART_COUNT),
            chart_spell(arena, rint(report_number(step, "batch.width")), CHART_COUNT));
    return text_format(
        arena,
        "The peak is %s%s. PyTorch reports %s allocated and %s reserved, part of which is a cache "
        "that it can give back. Without that cache and with the CUDA context the run needs %s – %s "
        "(80 %% range) of the device's %s.%s",
        moment_words(moment), batch, bytes_at(arena, plan, "memory.allocated_bytes"),
        bytes_at(arena, plan, "memory.reserved_bytes"),
        text_bytes(arena, needed_bytes(plan, "p10")), text_bytes(arena, needed_bytes(plan, "p90")),
        bytes_at(arena, plan, "memory.device_bytes"),
        judged.fits && !is_sure(&judged)
            ? " That is close to the device's memory: a smaller micro-batch or more activation "
              "checkpointing makes room."
            : "");
}

static void draw_memory(struct report_page *page, struct report_section *s,
                        const struct part *parts, size_t count, double device)
{
    struct arena *arena = page->arena;
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, SHOWN_PARTS + 1);
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, SHOWN_PARTS + 1);
    struct chart_reference *limit = ARENA_NEW(arena, struct chart_reference, 1);
    struct out alt = { .arena = arena };
    size_t shown = 0;
    double other = 0;
    for (size_t i = SHOWN_PARTS; i < count; i++)
        other += parts[i].bytes;
    for (; shown < count && shown <= SHOWN_PARTS; shown++) {
        bool last = shown == SHOWN_PARTS;
        points[shown] =
            (struct chart_point){ .label = "at the peak", .x = last ? other : parts[shown].bytes };
        series[shown] =
            (struct chart_series){ text_format(arena, "%s %s", last ? "other" : parts[shown].name,
                                               text_bytes(arena, points[shown].x)),
                                   &points[shown], 1 };
        out_put(&alt, "%s%s", shown ? ", " : "", series[shown].name);
    }
    out_put(&alt, "; the device has %s.", text_bytes(arena, device));
    *limit = (struct chart_reference){
        .at = device, .label = text_format(arena, "device: %s", text_bytes(arena, device))
    };
    report_add_chart(
        page, s,
        (struct chart){ .kind = CHART_STACKED,
                        .title = "Memory by part, and the size of the device",
                        .alt = out_string(&alt),
                        .x = { .title = "bytes on the fullest GPU", .unit = CHART_BYTES },
                        .series = series,
                        .series_count = shown,
                        .references = limit,
                        .reference_count = 1 });
}

void report_memory(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    struct part parts[PARTS];
    size_t count = sort_parts(parts, arena, report_at(plan, "memory.parts"));
    double total = report_number(plan, "memory.total_bytes");
    if (!count || !(total > 0))
        return;
    struct memory memory = read_memory(plan);
    struct report_section *s = report_open(
        page, "memory", "Memory",
        text_format(arena, "It %s: peak %s allocated, %s reserved; the device has %s",
                    memory_verdict(&memory, arena), bytes_at(arena, plan, "memory.allocated_bytes"),
                    bytes_at(arena, plan, "memory.reserved_bytes"),
                    bytes_at(arena, plan, "memory.device_bytes")));
    s->lead = describe_memory(arena, plan);
    draw_memory(page, s, parts, count, report_number(plan, "memory.device_bytes"));
    static const char *const heads[] = { "part", "bytes", "share" };
    struct report_table *table = report_tabulate(page, s, heads, 3, 6);
    s->blocks[s->count - 1].folded = "All parts in numbers";
    for (size_t i = 0; i < count; i++)
        report_row(page, table,
                   (const char *[]){ parts[i].name, text_bytes(arena, parts[i].bytes),
                                     text_share(arena, parts[i].bytes / total) });
}
