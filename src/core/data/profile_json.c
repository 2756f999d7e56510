// SPDX-License-Identifier: Apache-2.0
// Writes a profile as JSON and reads it back.

#include "core/data/profile.h"

#include "core/tokenizer/tokenizer.h"

#include <math.h>
#include <string.h>

const struct field window_fields[] = {
    FIELD(window, context, COUNT, "context window, in tokens"),
    FIELD(window, truncated_examples, COUNT, "examples longer than the window"),
    FIELD(window, truncated_tokens, COUNT, "tokens cut off those examples"),
    FIELD(window, truncated_labelled, COUNT, "labelled tokens among them"),
    FIELD(window, padded_efficiency, NUMBER,
          "useful over processed tokens, padded to the longest row"),
    FIELD(window, grouped_efficiency, NUMBER, "useful over processed tokens, grouped by length"),
    FIELD(window, packed_efficiency, NUMBER, "useful tokens over the capacity of the packed rows"),
    FIELD(window, packs, COUNT, "rows when packed"),
    FIELD(window, relative_cost, NUMBER, "cost of an epoch; 1 without truncation"),
    { 0 },
};

const struct field profile_settings_fields[] = {
    FIELD(profile_settings, stack, TEXT, "trainer whose batches are simulated", .value = "STACK"),
    FIELD(profile_settings, packer, TEXT, "packing algorithm of the trainer", .value = "NAME"),
    FIELD_OF(profile_settings, batching, batching_names, "how rows form batches", .value = "MODE"),
    FIELD(profile_settings, context, COUNT,
          "context window: longest row, in tokens; 32k is 32,000, 32Ki 32,768", .value = "TOKENS",
          .fallback = "recommended for the data"),
    FIELD(profile_settings, micro_batch, COUNT, "rows per GPU and forward pass"),
    FIELD(profile_settings, accumulation, COUNT, "micro-batches per step"),
    FIELD(profile_settings, ranks, COUNT, "data-parallel GPUs"),
    FIELD(profile_settings, seed, COUNT, "random seed of shuffling"),
    { 0 },
};

const struct field batches_fields[] = {
    FIELD(batches, examples, COUNT, "examples in an epoch"),
    FIELD(batches, rows, COUNT, "rows: padded examples, or packs"),
    FIELD(batches, micro_batches, COUNT, "micro-batches, over all ranks"),
    FIELD(batches, steps, COUNT, "optimizer steps"),
    FIELD(batches, processed_tokens, COUNT, "tokens with padding"),
    FIELD(batches, useful_tokens, COUNT, "tokens without padding"),
    FIELD(batches, labelled_tokens, COUNT, "tokens that carry loss"),
    FIELD(batches, squares, NUMBER, "sum of squared lengths of the examples"),
    FIELD(batches, attended, NUMBER, "sum of squared lengths of the spans that attention covers"),
    FIELD(batches, padding_share, NUMBER, "share of processed tokens that is padding"),
    FIELD(batches, fill, NUMBER, "useful tokens over rows times context"),
    FIELD(batches, fewest_rows, COUNT, "lower bound on the rows of any packing"),
    FIELD(batches, cut_examples, COUNT, "examples truncated to the window"),
    FIELD(batches, dropped_examples, COUNT, "examples left out: too long or empty"),
    FIELD(batches, lost_tokens, COUNT, "tokens lost to truncation and dropping"),
    FIELD(batches, unseen_tokens, COUNT, "tokens left over at the end of the epoch"),
    FIELD(batches, distinct_widths, COUNT, "distinct widths of micro-batches"),
    FIELD(batches, mean_width, NUMBER, "mean width of a micro-batch, in tokens"),
    FIELD_AS("width_p10", batches, widths.low, NUMBER, "10th percentile of the width"),
    FIELD_AS("width_p50", batches, widths.mid, NUMBER, "median width"),
    FIELD_AS("width_p90", batches, widths.high, NUMBER, "90th percentile of the width"),
    FIELD_AS("worst_rows", batches, worst.rows, COUNT, "rows of the largest micro-batch"),
    FIELD_AS("worst_width", batches, worst.width, COUNT,
             "width of the largest micro-batch, in tokens"),
    FIELD_AS("worst_labelled", batches, worst.labelled, COUNT,
             "labelled tokens of the largest micro-batch"),
    { 0 },
};

static const char *const kind_names[PROFILE_KINDS] = { "longest",    "bad",       "empty",
                                                       "unlabelled", "duplicate", "media",
                                                       "adapted",    "left_out" };

// --- writing -----------------------------------------------------------------

static void write_spots(const struct profile *profile, struct json_writer *w)
{
    json_open(w, "look_at", '{');
    for (int kind = 0; kind < PROFILE_KINDS; kind++) {
        json_open(w, kind_names[kind], '[');
        for (int i = 0; i < profile->spots[kind].named; i++) {
            const struct profile_spot *spot = &profile->spots[kind].spots[i];
            json_open(w, NULL, '{');
            json_put_string(w, "file", spot->file);
            json_put_count(w, "line", spot->line);
            if (kind == PROFILE_LONGEST)
                json_put_count(w, "tokens", spot->tokens);
            if (spot->problem)
                json_put_string(w, "problem", spot->problem);
            json_close(w, '}');
        }
        json_close(w, ']');
    }
    json_close(w, '}');
}

static void write_lengths(const struct profile *profile, struct json_writer *w)
{
    const struct lengths_tally *tally = &profile->tally;
    double examples = (double)profile->examples;
    json_open(w, "length", '{');
    json_put_number(w, "mean", examples ? (double)profile->tokens / examples : NAN);
    json_put_count(w, "p50", lengths_quantile(tally, 0.5));
    json_put_count(w, "p90", lengths_quantile(tally, 0.9));
    json_put_count(w, "p95", lengths_quantile(tally, 0.95));
    json_put_count(w, "p99", lengths_quantile(tally, 0.99));
    json_put_count(w, "max", lengths_quantile(tally, 1));
    lengths_write(tally, w, "histogram");
    json_close(w, '}');
}

static void write_columns(const struct profile *profile, struct json_writer *w)
{
    json_open(w, "columns", '[');
    for (size_t i = 0; i < profile->column_count; i++) {
        const struct record_column *column = &profile->columns[i];
        json_open(w, NULL, '{');
        json_put_string(w, "name", column->name);
        json_put_string(w, "part", column->part);
        json_put_bool(w, "text", column->is_text);
        json_put_number(w, "share", column->share);
        json_close(w, '}');
    }
    json_close(w, ']');
}

void profile_write_warnings(const struct profile *profile, struct json_writer *w)
{
    struct arena scratch = { 0 };
    struct profile_warning warnings[PROFILE_WARNINGS];
    size_t count = profile_warnings(warnings, profile, &scratch);
    json_open(w, "warnings", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "code", warnings[i].code);
        json_put_string(w, "text", warnings[i].text);
        json_close(w, '}');
    }
    json_close(w, ']');
    arena_release(&scratch);
}

static void write_batches(const struct profile *profile, struct json_writer *w)
{
    json_open(w, "batches", '{');
    field_write(profile_settings_fields, &profile->settings, w);
    json_put_string(w, "order", profile->ordered ? "file" : "shuffled");
    field_write(batches_fields, &profile->batches, w);
    json_close(w, '}');
}

void profile_write(const struct profile *profile, struct json_writer *w)
{
    json_open(w, NULL, '{');
    json_put_string(w, "kind", "profile");
    json_put_count(w, "version", 1);
    json_put_count(w, "examples", profile->examples);
    json_put_count(w, "tokens", profile->tokens);
    json_put_count(w, "labelled_tokens", profile->labelled_tokens);
    json_put_count(w, "rows", profile->rows);
    json_put_count(w, "bad_rows", profile->spots[PROFILE_BAD].count);
    json_put_count(w, "empty_examples", profile->spots[PROFILE_EMPTY].count);
    json_put_count(w, "unlabelled_examples", profile->spots[PROFILE_UNLABELLED].count);
    json_put_count(w, "duplicate_examples", profile->spots[PROFILE_DUPLICATE].count);
    json_put_bool(w, "duplicates_exact", profile->duplicates_exact);
    if (profile->duplicates_spread > 0)
        json_put_number(w, "duplicates_spread", profile->duplicates_spread);
    json_put_count(w, "media_examples", profile->spots[PROFILE_MEDIA].count);
    json_put_count(w, "adapted_examples", profile->spots[PROFILE_ADAPTED].count);
    json_put_count(w, "left_out_examples", profile->spots[PROFILE_LEFT_OUT].count);
    json_put_count(w, "text_bytes", profile->text_bytes);
    json_put_string(w, "format", profile->format);
    json_put_string(w, "labels", profile->labels);
    json_put_string(w, "template", profile->template);
    json_open(w, "tokenizer", '{');
    json_put_string(w, "name", profile->tokenizer);
    json_put_bool(w, "exact", profile->exact);
    json_put_number(w, "spread", profile->spread);
    json_close(w, '}');
    if (profile->vision && profile->images.images > 0) {
        json_open(w, "images", '{');
        json_put_string(w, "family", profile->vision);
        field_write(vision_load_fields, &profile->images, w);
        json_close(w, '}');
    }
    json_open(w, "files", '[');
    for (size_t i = 0; i < profile->file_count; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", profile->files[i].name);
        json_put_count(w, "bytes", profile->files[i].bytes);
        json_close(w, '}');
    }
    json_close(w, ']');
    if (profile->left_out_files) {
        json_put_count(w, "left_out_files", profile->left_out_files);
        json_put_string(w, "left_out_file", profile->left_out_file);
    }
    write_columns(profile, w);
    write_lengths(profile, w);
    json_open(w, "contexts", '[');
    for (size_t i = 0; i < profile->windows.count; i++) {
        json_open(w, NULL, '{');
        field_write(window_fields, &profile->windows.rows[i], w);
        json_close(w, '}');
    }
    json_close(w, ']');
    const struct window_plan *windows = &profile->windows;
    json_put_count(w, "recommended_context",
                   windows->count ? windows->rows[windows->recommended].context : 0);
    json_put_string(w, "recommended_because", windows->reason);
    if (profile->settings.positions > 0)
        json_put_count(w, "model_positions", profile->settings.positions);
    write_batches(profile, w);
    write_spots(profile, w);
    profile_write_warnings(profile, w);
    json_close(w, '}');
}

// --- reading -----------------------------------------------------------------

static void read_spots(struct profile *out, struct arena *arena, const struct json *in)
{
    static const char *const counts[PROFILE_KINDS] = { "examples",           "bad_rows",
                                                       "empty_examples",     "unlabelled_examples",
                                                       "duplicate_examples", "media_examples",
                                                       "adapted_examples",   "left_out_examples" };
    const struct json *look_at = json_get(in, "look_at");
    for (int kind = 0; kind < PROFILE_KINDS; kind++) {
        const struct json *list = json_get(look_at, kind_names[kind]);
        for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++) {
            const struct json *spot = &list->items[i];
            const char *file = json_copy_text(arena, spot, "file");
            if (file)
                profile_note(out, arena, (enum profile_kind)kind, file,
                             json_get_count(spot, "line"), json_get_count(spot, "tokens"),
                             json_copy_text(arena, spot, "problem"));
        }
        out->spots[kind].count = json_get_count(in, counts[kind]);
    }
}

static void read_images(struct profile *out, struct arena *arena, const struct json *in)
{
    struct vision_load load = { 0 };
    if (!in || in->kind != JSON_OBJECT ||
        field_read(vision_load_fields, &load, arena, in, "images", false))
        return;
    for (const struct field *field = vision_load_fields; field->name; field++)
        if (!(field_number(field, &load) >= 0 && field_number(field, &load) <= 1e18))
            return;
    out->vision = json_copy_text(arena, in, "family");
    out->images = load;
}

static void read_files(struct profile *out, struct arena *arena, const struct json *list)
{
    if (!list || list->kind != JSON_ARRAY)
        return;
    out->files = ARENA_NEW(arena, struct profile_file, list->count);
    for (size_t i = 0; i < list->count; i++) {
        const char *name = json_copy_text(arena, &list->items[i], "name");
        out->files[out->file_count++] =
            (struct profile_file){ name ? name : "?", json_get_count(&list->items[i], "bytes") };
    }
}

static void read_columns(struct profile *out, struct arena *arena, const struct json *list)
{
    if (!list || list->kind != JSON_ARRAY)
        return;
    out->columns = ARENA_NEW(arena, struct record_column, list->count + 1);
    for (size_t i = 0; i < list->count; i++) {
        const struct json *column = &list->items[i];
        const char *name = json_copy_text(arena, column, "name");
        double share = json_get_number(column, "share", 0);
        out->columns[out->column_count++] = (struct record_column){
            .name = name ? name : "?",
            .part = json_copy_text(arena, column, "part"),
            .share = share >= 0 && share <= 1 ? share : 0,
            .is_text = json_get_bool(column, "text", false),
        };
    }
}

// The contexts and batches in the document are not read: they are computed from the histogram.
static void read_settings(struct profile *out, struct arena *arena, const struct json *in)
{
    const struct json *batches = json_get(in, "batches");
    out->settings.stack = json_copy_text(arena, batches, "stack");
    out->settings.packer = json_copy_text(arena, batches, "packer");
    struct text batching = json_get_text(batches, "batching");
    for (int i = 0; batching.at && batching_names[i]; i++)
        if (text_is(batching, batching_names[i]))
            out->settings.batching = i;
    out->settings.context = json_get_count(batches, "context");
    out->settings.micro_batch = json_get_count(batches, "micro_batch");
    out->settings.accumulation = json_get_count(batches, "accumulation");
    out->settings.ranks = json_get_count(batches, "ranks");
    out->settings.seed = json_get_count(batches, "seed");
    out->settings.positions = json_get_count(in, "model_positions");
}

enum err profile_read(struct profile *out, struct arena *arena, struct text in, const char *name)
{
    struct json tree;
    *out = (struct profile){ 0 };
    TRY(json_read(&tree, arena, in, name));
    if (!text_is(json_get_text(&tree, "kind"), "profile"))
        return fail(ERR_INPUT, "%s: not a profile; create one with gpuhours profile DATA --out %s",
                    name, name);
    if (json_get_number(&tree, "version", 0) != 1)
        return fail(ERR_INPUT, "%s: a profile of version %g; this program reads version 1", name,
                    json_get_number(&tree, "version", 0));
    const struct json *histogram = json_get(json_get(&tree, "length"), "histogram");
    TRY(lengths_read(&out->tally, arena, histogram, name));
    struct lengths_sums sums = lengths_sum(&out->tally);
    out->examples = sums.examples;
    out->tokens = sums.tokens;
    out->labelled_tokens = sums.labelled;
    if (out->examples != json_get_count(&tree, "examples") ||
        out->tokens != json_get_count(&tree, "tokens"))
        return fail(
            ERR_INPUT,
            "%s: examples and tokens differ from the sums of length.histogram (%lld and %lld); "
            "the file was edited; profile the data again",
            name, (long long)out->examples, (long long)out->tokens);
    out->rows = json_get_count(&tree, "rows");
    out->text_bytes = json_get_count(&tree, "text_bytes");
    out->duplicates_exact = json_get_bool(&tree, "duplicates_exact", false);
    double spread = json_get_number(&tree, "duplicates_spread", 0);
    out->duplicates_spread = spread > 0 && spread < 1e9 ? spread : 0;
    out->format = json_copy_text(arena, &tree, "format");
    out->labels = json_copy_text(arena, &tree, "labels");
    out->template = json_copy_text(arena, &tree, "template");
    const struct json *tokenizer = json_get(&tree, "tokenizer");
    out->tokenizer = json_copy_text(arena, tokenizer, "name");
    out->exact = json_get_bool(tokenizer, "exact", false);
    out->spread = fmin(1, fmax(0, json_get_number(tokenizer, "spread", 0)));
    read_images(out, arena, json_get(&tree, "images"));
    double text = fmax(0, (double)out->tokens - out->images.tokens);
    out->doubt = llround(out->spread * text * TOKENIZER_DOUBT);
    read_files(out, arena, json_get(&tree, "files"));
    out->left_out_files = json_get_count(&tree, "left_out_files");
    out->left_out_file = json_copy_text(arena, &tree, "left_out_file");
    read_columns(out, arena, json_get(&tree, "columns"));
    read_spots(out, arena, &tree);
    read_settings(out, arena, &tree);
    return OK;
}
