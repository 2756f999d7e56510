// SPDX-License-Identifier: Apache-2.0
// Reads rows for a pilot, or makes random ones of the right lengths.

#include "cli/engine/pilot_rows.h"

#include "base/rng.h"
#include "core/data/profile.h"
#include "host/file.h"

#include <math.h>

enum { MOST_TOKENS = 1 << 25, MADE_DOCUMENTS = 4096 };

struct reading {
    struct loader *loader;
    const struct pilot_rows *rows;
    bool is_enough;
};

static enum err add_example(void *context, const struct example *example)
{
    struct reading *reading = context;
    struct loader *loader = reading->loader;
    if (example->problem || !example->is_second)
        loader_drop_half(loader);
    if (example->problem)
        return OK;
    for (int64_t i = 0; i < example->tokens; i++)
        if (example->ids[i] < 0 || example->ids[i] >= reading->rows->vocabulary)
            return fail(ERR_INPUT,
                        "%s:%lld: token %d is outside the model's vocabulary of %lld; --tokenizer "
                        "must be the model's own",
                        example->file, (long long)example->line, example->ids[i],
                        (long long)reading->rows->vocabulary);
    loader_add(loader, example->ids, example->learned, example->tokens);
    reading->is_enough = loader->starts[loader->count] >= MOST_TOKENS;
    return reading->is_enough ? fail(ERR_ANSWER, "enough rows") : OK;
}

static enum err read_rows(struct loader *out, struct arena *arena, const struct pilot_rows *rows)
{
    struct dataset dataset;
    struct dataset_options options = rows->data;
    options.trainer = "native";
    if (rows->pairs)
        dataset_label_answers(&options);
    if (!rows->folder && options.tokenizer)
        options.model = NULL;
    else if (rows->folder)
        options.model = rows->folder;
    TRY(dataset_open(&dataset, arena, &options));
    struct reading context = { .loader = out, .rows = rows };
    struct dataset_reading reading = {
        .context = &context, .give = add_example, .wants_ids = true, .quiet = rows->quiet
    };
    enum err err = dataset_read(&dataset, rows->words, rows->count, &reading);
    if (!context.is_enough)
        TRY(err);
    loader_drop_half(out);
    return rows->pairs ? dataset_check_pairs(&reading) : OK;
}

// Random tokens; the last ones of a document carry loss.
static void make_document(struct loader *out, struct rng *rng, int32_t *ids, uint8_t *learned,
                          int64_t tokens, int64_t labelled, int64_t vocabulary)
{
    for (int64_t i = 0; i < tokens; i++) {
        ids[i] = (int32_t)rng_below(rng, (uint64_t)vocabulary);
        learned[i] = i >= tokens - labelled;
    }
    loader_add(out, ids, learned, tokens);
}

enum err pilot_rows_lengths(struct lengths *out, struct arena *arena, const char *profile_path,
                            uint64_t seed)
{
    struct profile profile = { 0 };
    struct text text;
    TRY(file_read(&text, arena, profile_path));
    TRY(profile_read(&profile, arena, text, profile_path));
    out->arena = arena;
    lengths_unroll(out, arena, &profile.tally, seed);
    return out->count ? OK : fail(ERR_INPUT, "%s: has no examples", profile_path);
}

static enum err make_rows(struct loader *out, struct arena *arena, const struct pilot_rows *rows)
{
    struct lengths lengths = { .arena = arena };
    struct rng rng = rng_seeded(rows->seed);
    double mean = fmax(2, fmin(rows->mean_length, (double)rows->window));
    if (rows->profile)
        TRY(pilot_rows_lengths(&lengths, arena, rows->profile, rows->seed));
    else if (!(rows->mean_length > 0))
        return fail(ERR_USAGE, "the plan has no row lengths; give --data or --profile");
    else
        for (int i = 0; i < MADE_DOCUMENTS; i++)
            lengths_add(&lengths, (int64_t)rint(mean), (int64_t)rint(mean * rows->labelled_share));
    int32_t *ids = ARENA_NEW(arena, int32_t, rows->window);
    uint8_t *learned = ARENA_NEW(arena, uint8_t, rows->window);
    for (size_t i = 0; i < lengths.count && out->starts[out->count] < MOST_TOKENS; i++) {
        int64_t tokens = lengths.items[i].tokens, labelled = lengths.items[i].labelled;
        if (tokens > rows->window) // truncates at the end, as the packer does
            labelled -= tokens - rows->window, tokens = rows->window;
        make_document(out, &rng, ids, learned, tokens, labelled, rows->vocabulary);
    }
    return OK;
}

enum err pilot_rows_load(struct loader *out, struct arena *arena, const struct pilot_rows *rows)
{
    loader_init(out, arena,
                &(struct loader_settings){ .window = rows->window,
                                           .micro_batch = rows->micro_batch,
                                           .seed = rows->seed,
                                           .pairs = rows->pairs });
    TRY(rows->count ? read_rows(out, arena, rows) : make_rows(out, arena, rows));
    return loader_start(out);
}
