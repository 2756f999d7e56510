// SPDX-License-Identifier: Apache-2.0
// Completes and merges profiles: sums, the table of contexts and the simulated batches.

#include "core/data/profile.h"

#include "core/tokenizer/tokenizer.h"

#include <math.h>
#include <string.h>

void profile_note(struct profile *profile, struct arena *arena, enum profile_kind kind,
                  const char *file, int64_t line, int64_t tokens, const char *problem)
{
    struct profile_spots *spots = &profile->spots[kind];
    spots->count++;
    int at = spots->named;
    if (kind == PROFILE_LONGEST) // among equally long rows the first stays first
        while (at > 0 && spots->spots[at - 1].tokens < tokens)
            at--;
    if (at == PROFILE_SPOTS)
        return;
    if (spots->named < PROFILE_SPOTS)
        spots->named++;
    for (int i = spots->named - 1; i > at; i--)
        spots->spots[i] = spots->spots[i - 1];
    spots->spots[at] = (struct profile_spot){
        .file = text_copy(arena, text_of(file)),
        .line = line,
        .tokens = tokens,
        .problem = problem ? text_copy(arena, text_of(problem)) : NULL,
    };
}

// --- finishing ---------------------------------------------------------------

enum err profile_simulate(struct batches *out, const struct lengths_tally *tally,
                          const struct lengths *list, const struct profile_settings *settings)
{
    const struct packing_trainer *trainer;
    TRY(packing_trainer_find(&trainer, settings->trainer, settings->packer));
    struct packing_rule rule = packing_rule(trainer, (enum batching)settings->batching);
    struct packing_setup setup = { .window = settings->context,
                                   .micro_batch = settings->micro_batch,
                                   .accumulation = settings->accumulation,
                                   .ranks = settings->ranks,
                                   .seed = (uint64_t)settings->seed };
    struct arena scratch = { 0 };
    struct lengths shuffled;
    struct packing packing;
    if (!list) {
        lengths_unroll(&shuffled, &scratch, tally, setup.seed);
        list = &shuffled;
    }
    enum err err = packing_plan(&packing, &scratch, list, &rule, &setup);
    *out = packing.sums;
    if (!err && list->each > 0)
        packing_scale(out, list->each, &rule, &setup);
    arena_release(&scratch);
    return err;
}

struct profile_settings profile_settings_complete(const struct profile_settings *given)
{
    const struct packing_trainer *trainer;
    struct profile_settings all = *given;
    if (!packing_trainer_find(&trainer, given->trainer, given->packer)) {
        all.stack = given->stack ? given->stack : trainer->name;
        all.packer = trainer->packer;
    }
    if (!all.micro_batch)
        all.micro_batch = WINDOW_MICRO_BATCH;
    if (!all.accumulation)
        all.accumulation = 1;
    if (!all.ranks)
        all.ranks = 1;
    return all;
}

void profile_set_spread(struct profile *profile)
{
    double text = (double)profile->tokens - profile->images.tokens;
    profile->spread =
        profile->exact || text <= 0 ? 0 : (double)profile->doubt / text / TOKENIZER_DOUBT;
}

enum err profile_finish(struct profile *profile, struct arena *arena, const struct lengths *list,
                        const struct profile_settings *settings)
{
    const struct packing_trainer *trainer;
    TRY(packing_trainer_find(&trainer, settings->trainer, settings->packer));
    if (list)
        lengths_tally(&profile->tally, arena, list);
    struct lengths_sums sums = lengths_sum(&profile->tally);
    profile->examples = sums.examples;
    profile->tokens = sums.tokens;
    profile->labelled_tokens = sums.labelled;
    profile->settings = profile_settings_complete(settings);
    profile_set_spread(profile);

    struct window_request request = { .trainer = trainer,
                                      .batching = (enum batching)settings->batching,
                                      .list = list,
                                      .micro_batch = profile->settings.micro_batch,
                                      .accumulation = profile->settings.accumulation,
                                      .ranks = profile->settings.ranks,
                                      .context = settings->context,
                                      .positions = settings->positions,
                                      .seed = (uint64_t)settings->seed };
    TRY(window_plan(&profile->windows, arena, &profile->tally, &request));
    if (!settings->context)
        profile->settings.context = profile->windows.rows[profile->windows.recommended].context;

    profile->ordered = list != NULL;
    return profile_simulate(&profile->batches, &profile->tally, list, &profile->settings);
}

// --- merging -----------------------------------------------------------------

static bool same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static enum err check_alike(const struct profile *a, const struct profile *b)
{
    const struct {
        const char *what, *a, *b;
    } must[] = {
        { "tokenizer", a->tokenizer, b->tokenizer },
        { "template", a->template, b->template },
        { "labels", a->labels, b->labels },
        { "model", a->vision, b->vision },
    };
    for (size_t i = 0; i < sizeof must / sizeof *must; i++)
        if (!same(must[i].a, must[i].b))
            return fail(ERR_INPUT,
                        "cannot merge profiles with different %s (%s and %s); profile both with "
                        "the same --%s",
                        must[i].what, must[i].a ? must[i].a : "none",
                        must[i].b ? must[i].b : "none", must[i].what);
    if (a->exact != b->exact)
        return fail(ERR_INPUT,
                    "cannot merge a profile of exact token counts with one of estimates; "
                    "profile the data again with the same tokenizer");
    return OK;
}

static void merge_spots(struct profile *out, struct arena *arena, const struct profile *from)
{
    for (int kind = 0; kind < PROFILE_KINDS; kind++) {
        const struct profile_spots *spots = &from->spots[kind];
        int64_t count = out->spots[kind].count + spots->count;
        for (int i = 0; i < spots->named; i++)
            profile_note(out, arena, (enum profile_kind)kind, spots->spots[i].file,
                         spots->spots[i].line, spots->spots[i].tokens, spots->spots[i].problem);
        out->spots[kind].count = count;
    }
}

enum err profile_merge(struct profile *out, struct arena *arena, const struct profile *a,
                       const struct profile *b)
{
    TRY(check_alike(a, b));
    struct profile sum = *a;
    sum.rows += b->rows;
    sum.doubt += b->doubt;
    sum.text_bytes += b->text_bytes;
    sum.images = vision_load_sum(&a->images, &b->images);
    sum.format = same(a->format, b->format) ? a->format : "mixed";
    sum.duplicates_exact = false;
    sum.duplicates_spread = 0;
    sum.file_count = a->file_count + b->file_count;
    sum.files = ARENA_NEW(arena, struct profile_file, sum.file_count);
    for (size_t i = 0; i < sum.file_count; i++)
        sum.files[i] = i < a->file_count ? a->files[i] : b->files[i - a->file_count];
    sum.left_out_files += b->left_out_files;
    sum.left_out_file = a->left_out_file ? a->left_out_file : b->left_out_file;
    lengths_merge(&sum.tally, arena, &a->tally, &b->tally);
    profile_add_columns(&sum, arena, b->columns, b->column_count);
    merge_spots(&sum, arena, b);
    *out = sum;
    return OK;
}
