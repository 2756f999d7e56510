// SPDX-License-Identifier: Apache-2.0
// Prints the profile as text: counts, a histogram of lengths, the table of contexts, the batches of
// an epoch and the rows to inspect.

#include "core/data/profile.h"

#include "base/columns.h"
#include "base/stats.h"
#include "core/chart/chart.h"

#include <math.h>
#include <string.h>

enum { BARS = 14, BAR_START = 25, LABEL = 14, MARGIN = 9 };

// --- the head ----------------------------------------------------------------

static void print_words(struct out *out, const char *sentence)
{
    out_wrapped(out, LABEL, LABEL, sentence);
}

static const char *average(struct arena *arena, const struct profile *profile)
{
    double mean = (double)profile->tokens / (double)profile->examples;
    return mean < 1000 ? text_format(arena, "%.1f", mean)
                       : text_commas(arena, (int64_t)(mean + 0.5));
}

// "instruction, input from context; not used: id". Nothing if all are read as what they are called.
static void print_columns(const struct profile *profile, struct arena *arena, struct out *out)
{
    struct out words = { .arena = arena };
    bool plain = true;
    for (size_t i = 0; i < profile->column_count; i++)
        plain = plain && profile->columns[i].part &&
                !strcmp(profile->columns[i].part, profile->columns[i].name);
    if (plain)
        return;
    for (int unused = 0; unused < 2; unused++) {
        const char *before = unused ? "; not used: " : "";
        for (size_t i = 0; i < profile->column_count; i++) {
            const struct record_column *column = &profile->columns[i];
            if ((column->part == NULL) != (unused == 1))
                continue;
            bool same = unused || !strcmp(column->name, column->part);
            out_put(&words, "%s%s%s%s", words.size || unused ? before : "",
                    same ? "" : column->part, same ? "" : " from ", column->name);
            before = ", ";
        }
    }
    out_put(out, "  columns     ");
    print_words(out, out_string(&words));
}

// Each answer of a pair is an example.
static const char *pairs(const struct profile *profile, struct arena *arena)
{
    bool paired = profile->format && !strcmp(profile->format, "preference");
    int64_t count = profile->examples / 2;
    return paired
               ? text_format(arena, " (%s pair%s)", text_commas(arena, count), text_plural(count))
               : "";
}

static void print_head(const struct profile *profile, struct arena *arena, struct out *out)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < profile->file_count; i++)
        bytes += profile->files[i].bytes;
    out_put(out, "  data        %s example%s%s in %zu file%s, %s%s%s%s\n",
            text_commas(arena, profile->examples), text_plural(profile->examples),
            pairs(profile, arena), profile->file_count, text_plural(profile->file_count),
            text_bytes(arena, (double)bytes), profile->format ? ": " : "",
            profile->format ? profile->format : "",
            profile_has_verdicts(profile) ? " with labels, as for KTO" : "");
    print_columns(profile, arena, out);
    if (profile->tokenizer)
        out_put(out, "  tokenizer   %s%s\n", profile->tokenizer,
                profile->exact ? ""
                               : text_format(arena, ": ± %.0f %% (80 %% range)",
                                             100 * STATS_P90 * profile->spread));
    if (profile->template)
        out_put(out, "  template    %s\n", profile->template);
    if (!profile->examples)
        return;
    out_put(out, "  tokens      %s, %s of them labelled%s%s%s\n",
            text_commas(arena, profile->tokens),
            text_share(arena, (double)profile->labelled_tokens /
                                  (double)(profile->tokens ? profile->tokens : 1)),
            profile->labels ? " (" : "", profile->labels ? profile->labels : "",
            profile->labels ? ")" : "");
    const struct vision_load *images = &profile->images;
    if (images->images > 0)
        out_put(out, "  images      %s of %s tokens on average (%s): %s of the tokens\n",
                text_commas(arena, (int64_t)images->images),
                text_commas(arena, (int64_t)(images->tokens / images->images + 0.5)),
                profile->vision, text_share(arena, images->tokens / (double)profile->tokens));
    const struct lengths_tally *tally = &profile->tally;
    out_put(out, "  length      mean %s, median %s, P90 %s, P99 %s, longest %s\n",
            average(arena, profile), text_commas(arena, lengths_quantile(tally, 0.5)),
            text_commas(arena, lengths_quantile(tally, 0.9)),
            text_commas(arena, lengths_quantile(tally, 0.99)),
            text_commas(arena, lengths_quantile(tally, 1)));
}

// --- the histogram -----------------------------------------------------------

// Tokens per bar: 1, 2 or 5 times a power of ten, so that the bars reach the 99th percentile.
static int64_t bar_tokens(const struct lengths_tally *tally)
{
    static const int64_t steps[] = { 1, 2, 5 };
    int64_t last = lengths_quantile(tally, 0.99);
    for (int64_t power = 1;; power *= 10)
        for (int i = 0; i < 3; i++)
            if (last / (steps[i] * power) < BARS - 1)
                return steps[i] * power;
}

static void print_histogram(const struct profile *profile, struct arena *arena, struct out *out)
{
    const struct lengths_tally *tally = &profile->tally;
    int64_t step = bar_tokens(tally), counts[BARS] = { 0 }, most = 0, longest = 0;
    for (size_t i = 0; i < tally->count; i++) {
        int64_t bar = tally->bins[i].tokens / step;
        counts[bar < BARS - 1 ? bar : BARS - 1] += tally->bins[i].examples;
        longest = bar;
    }
    for (int i = 0; i < BARS; i++)
        most = counts[i] > most ? counts[i] : most;
    out_put(out, "\n       tokens  examples\n");
    for (int i = 0; i < BARS && i <= longest; i++) {
        const char *from = text_commas(arena, i * step);
        out_put(out, "%11s%s %9s%s", from, i == BARS - 1 ? " +" : "  ",
                text_commas(arena, counts[i]), counts[i] ? "  " : "");
        chart_put_bar(out, most ? (double)counts[i] / (double)most : 0,
                      out_columns(out) - BAR_START - MARGIN);
        out_put(out, "\n");
    }
}

// --- windows and batches -----------------------------------------------------

static void print_windows(const struct profile *profile, struct arena *arena, struct out *out)
{
    const struct window_plan *plan = &profile->windows;
    static const char *const titles[] = { "context", "cut examples", "cut tokens", "padded",
                                          "grouped", "packed",       "cost",       "",
                                          NULL };
    struct columns columns = {
        .arena = arena, .align = "rrrrrrrl", .spare = "02130000", .indent = 3
    };
    columns_add_row(&columns, titles);
    for (size_t i = 0; i < plan->count; i++) {
        const struct window *row = &plan->rows[i];
        columns_add(&columns, text_commas(arena, row->context));
        columns_add(&columns, text_commas(arena, row->truncated_examples));
        columns_add(&columns, text_commas(arena, row->truncated_tokens));
        columns_add(&columns, text_share(arena, row->padded_efficiency));
        columns_add(&columns, text_share(arena, row->grouped_efficiency));
        columns_add(&columns, text_share(arena, row->packed_efficiency));
        columns_add(&columns, text_format(arena, "%.2f", row->relative_cost));
        columns_add(&columns, i == plan->recommended ? "<" : "");
    }
    out_char(out, '\n');
    columns_write(&columns, out);
    out_put(out, "   ");
    out_wrapped(out, 3, 3,
                "padded, grouped, packed: share of the processed tokens that is not padding. cost: "
                "of an epoch, over that of the smallest context that cuts nothing.");
    out_put(out, "\n  recommended ");
    print_words(out, text_format(arena, "%s: %s",
                                 text_commas(arena, plan->rows[plan->recommended].context),
                                 plan->reason));
}

static void print_batches(const struct profile *profile, struct arena *arena, struct out *out)
{
    static const char *const methods[] = { "padded to the context", "padded to the longest",
                                           "grouped by length", "packed" };
    const struct profile_settings *settings = &profile->settings;
    const struct batches *sums = &profile->batches;
    int64_t rows = settings->micro_batch * settings->accumulation * settings->ranks;
    bool packed = settings->batching == BATCHING_PACKED;
    out_put(out, "  batches     ");
    print_words(out, text_format(arena,
                                 "%s step%s per epoch, %s row%s per step, context %s, %s as in "
                                 "%s%s%s: %s tokens processed, %s of them padding; largest "
                                 "micro-batch %lld × %s (%s%s width%s)",
                                 text_commas(arena, sums->steps), text_plural(sums->steps),
                                 text_commas(arena, rows), text_plural(rows),
                                 text_commas(arena, settings->context), methods[settings->batching],
                                 settings->stack, packed ? " " : "", packed ? settings->packer : "",
                                 text_commas(arena, sums->processed_tokens),
                                 text_share(arena, sums->padding_share),
                                 (long long)sums->worst.rows, text_commas(arena, sums->worst.width),
                                 text_commas(arena, sums->distinct_widths),
                                 sums->distinct_widths == 1 ? "" : " distinct",
                                 text_plural(sums->distinct_widths)));
    if (packed)
        out_put(out, "              %s row%s, %s full (lower bound: %s)\n",
                text_commas(arena, sums->rows), text_plural(sums->rows),
                text_share(arena, sums->fill), text_commas(arena, sums->fewest_rows));
    if (sums->cut_examples + sums->dropped_examples)
        out_put(out, "              %s example%s cut, %s left out: %s token%s lost\n",
                text_commas(arena, sums->cut_examples), text_plural(sums->cut_examples),
                text_commas(arena, sums->dropped_examples), text_commas(arena, sums->lost_tokens),
                text_plural(sums->lost_tokens));
}

// --- rows to inspect ---------------------------------------------------

static void print_spots(const struct profile *profile, struct arena *arena, struct out *out)
{
    static const char *const what[PROFILE_KINDS] = { "longest",
                                                     "invalid",
                                                     "empty",
                                                     "without labelled tokens",
                                                     "duplicate",
                                                     "with media",
                                                     "with parts as text",
                                                     "with text left out" };
    static const enum profile_kind order[] = { PROFILE_BAD,        PROFILE_EMPTY,
                                               PROFILE_UNLABELLED, PROFILE_DUPLICATE,
                                               PROFILE_MEDIA,      PROFILE_ADAPTED,
                                               PROFILE_LEFT_OUT,   PROFILE_LONGEST };
    bool first = true;
    for (size_t i = 0; i < PROFILE_KINDS; i++) {
        const struct profile_spots *spots = &profile->spots[order[i]];
        if (!spots->named)
            continue;
        const char *head =
            order[i] == PROFILE_LONGEST ? text_format(arena, "longest, %s tokens",
                                                      text_commas(arena, spots->spots[0].tokens))
            : order[i] == PROFILE_DUPLICATE && profile->duplicates_spread > 0
                ? text_format(arena, "about %s (± %s) duplicate", text_commas(arena, spots->count),
                              text_share(arena, profile->duplicates_spread))
                : text_format(arena, "%s %s", text_commas(arena, spots->count), what[order[i]]);
        out_put(out, "%s%s: %s:%lld%s%s\n", first ? "\n  inspect     " : "              ", head,
                text_one_line(arena, text_of(spots->spots[0].file)),
                (long long)spots->spots[0].line, spots->spots[0].problem ? ": " : "",
                spots->spots[0].problem ? spots->spots[0].problem : "");
        first = false;
    }
}

static void print_warnings(const struct profile *profile, struct arena *arena, struct out *out)
{
    struct profile_warning warnings[PROFILE_WARNINGS];
    size_t count = profile_warnings(warnings, profile, arena);
    for (size_t i = 0; i < count; i++) {
        out_put(out, i ? "              " : "\n  warnings    ");
        print_words(out, text_format(arena, "%s: %s", warnings[i].code, warnings[i].text));
    }
}

void profile_print(const struct profile *profile, struct arena *arena, struct out *out)
{
    print_head(profile, arena, out);
    if (profile->examples) {
        print_histogram(profile, arena, out);
        print_windows(profile, arena, out);
        print_batches(profile, arena, out);
    }
    print_spots(profile, arena, out);
    print_warnings(profile, arena, out);
}
