// SPDX-License-Identifier: Apache-2.0
// Warnings of a profile: what of the data was not read as its owner may believe.

#include "core/data/profile.h"

#include <stdlib.h>
#include <string.h>

static const double much_text = 0.05; // of the bytes, in a column that is not used

// --- the warnings ------------------------------------------------------------

static const char *unused_text(const struct profile *profile, struct arena *arena)
{
    struct out out = { .arena = arena };
    for (size_t i = 0; i < profile->column_count; i++) {
        const struct record_column *column = &profile->columns[i];
        if (!column->part && column->is_text && column->share > much_text)
            out_put(&out, "%s\"%s\" (%s of the bytes)", out.size ? ", " : "", column->name,
                    text_share(arena, column->share));
    }
    if (!out.size)
        return NULL;
    return text_format(arena,
                       "text that is not used: %s; if it is trained on, name its part with "
                       "--fields PART=COLUMN",
                       out_string(&out));
}

static const char *media_uncounted(const struct profile *profile, struct arena *arena)
{
    int64_t count = profile->spots[PROFILE_MEDIA].count;
    if (!count)
        return NULL;
    return text_format(arena,
                       "examples with images, video or sound: %s; only their text is counted",
                       text_commas(arena, count));
}

static const char *parts_as_text(const struct profile *profile, struct arena *arena)
{
    const struct profile_spots *spots = &profile->spots[PROFILE_ADAPTED];
    if (!spots->count)
        return NULL;
    return text_format(arena,
                       "examples with parts that the chat template drops: %s (in the first: %s); "
                       "they are counted as text; with --template, give one that renders them",
                       text_commas(arena, spots->count),
                       spots->named ? spots->spots[0].problem : "tools");
}

static const char *parts_left_out(const struct profile *profile, struct arena *arena)
{
    const struct profile_spots *spots = &profile->spots[PROFILE_LEFT_OUT];
    if (!spots->count)
        return NULL;
    return text_format(
        arena,
        "examples of which the chat template leaves something out: %s (of the first: "
        "%s); a trainer would too, so it is not counted",
        text_commas(arena, spots->count), spots->named ? spots->spots[0].problem : "text");
}

static const char *splits_left_out(const struct profile *profile, struct arena *arena)
{
    if (!profile->left_out_files)
        return NULL;
    return text_format(arena,
                       "test and validation splits are left out: %s%s; name them by themselves to "
                       "count them",
                       profile->left_out_file ? profile->left_out_file : "?",
                       profile->left_out_files > 1 ? " and more" : "");
}

// Prompts alone carry no loss: a policy answers them.
static const char *nothing_labelled(const struct profile *profile, struct arena *arena)
{
    const char *prompts = record_format_names[RECORD_PROMPT];
    if (!profile->tokens || profile->labelled_tokens ||
        (profile->format && !strcmp(profile->format, prompts)))
        return NULL;
    return text_format(arena,
                       "no token carries loss with --labels %s, so nothing would be learned; see "
                       "that answers have the role assistant and are not cut off, or give "
                       "--labels all",
                       profile->labels ? profile->labels : "as given");
}

static const struct {
    const char *code;
    const char *(*look)(const struct profile *profile, struct arena *arena);
} table[] = {
    { "splits_left_out", splits_left_out }, { "unused_text", unused_text },
    { "media_uncounted", media_uncounted }, { "parts_as_text", parts_as_text },
    { "parts_left_out", parts_left_out },   { "nothing_labelled", nothing_labelled },
};

size_t profile_warnings(struct profile_warning *out, const struct profile *profile,
                        struct arena *arena)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table && count < PROFILE_WARNINGS; i++) {
        const char *text = table[i].look(profile, arena);
        if (text)
            out[count++] = (struct profile_warning){ table[i].code, text };
    }
    return count;
}

// --- columns -----------------------------------------------------------------

bool profile_has_verdicts(const struct profile *profile)
{
    for (size_t i = 0; i < profile->column_count; i++)
        if (profile->columns[i].part && !strcmp(profile->columns[i].part, RECORD_VERDICT))
            return true;
    return false;
}

void profile_add_columns(struct profile *profile, struct arena *arena,
                         const struct record_column *columns, size_t count)
{
    struct record_column *all =
        ARENA_NEW(arena, struct record_column, profile->column_count + count + 1);
    size_t known = profile->column_count;
    for (size_t i = 0; i < known; i++)
        all[i] = profile->columns[i];
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < known && !text_is(text_of(all[at].name), columns[i].name))
            at++;
        if (at < known)
            continue;
        all[known] = columns[i];
        all[known].name = text_copy(arena, text_of(columns[i].name));
        known++;
    }
    profile->columns = all;
    profile->column_count = known;
}

static int by_bytes(const void *a, const void *b)
{
    const struct census_column *one = a, *other = b;
    int order = (one->bytes < other->bytes) - (one->bytes > other->bytes);
    return order ? order : strcmp(one->name, other->name);
}

// The columns that are used or large; the first of them has most text.
static void add_counted(struct profile *profile, struct arena *arena, const struct census *census)
{
    static const double large = 0.01;
    size_t count = 0;
    struct census_column *sorted = ARENA_NEW(arena, struct census_column, census->count);
    struct record_column *counted = ARENA_NEW(arena, struct record_column, census->count);
    for (size_t i = 0; i < census->count; i++)
        if (census->columns[i].part ||
            (double)census->columns[i].bytes >= large * (double)census->bytes)
            sorted[count++] = census->columns[i];
    qsort(sorted, count, sizeof *sorted, by_bytes);
    for (size_t i = 0; i < count; i++)
        counted[i] = (struct record_column){
            .name = text_one_line(arena, text_of(sorted[i].name)),
            .part = sorted[i].part,
            .share = (double)sorted[i].bytes / (double)census->bytes,
            .is_text = true,
        };
    profile_add_columns(profile, arena, counted, count);
}

void profile_add_census(struct profile *profile, struct arena *arena, const struct census *census)
{
    for (size_t i = 0; i < profile->column_count; i++) {
        struct record_column *column = &profile->columns[i];
        const struct census_column *counted = census_find(census, text_of(column->name));
        if (!counted)
            continue; // of a table, or without text
        column->share = (double)counted->bytes / (double)census->bytes;
        column->is_text = true;
    }
    if (census->count)
        add_counted(profile, arena, census);
}
