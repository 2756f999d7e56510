// The examples of a dataset as a profile: sums, and the rows worth looking at.

#include "cli/dataset.h"

#include <stdlib.h>
#include <string.h>

// Hashes of the texts seen. Beyond so many distinct ones repeats are no longer found: memory stays
// flat, and the profile says that its number of duplicates is a lower bound.
enum { MOST_HASHES = 1 << 22 };

struct seen {
    uint64_t *slots; // 0 is empty
    size_t count, room;
    bool full;
};

// True if the hash was there before.
static bool seen_before(struct seen *seen, uint64_t hash)
{
    if (!hash)
        hash = 1;
    if (2 * seen->count >= seen->room && !seen->full) {
        struct seen larger = { .room = seen->room ? seen->room * 2 : 1 << 12 };
        larger.slots = seen->count < MOST_HASHES ? calloc(larger.room, sizeof *larger.slots) : NULL;
        seen->full = !larger.slots;
        for (size_t i = 0; !seen->full && i < seen->room; i++)
            if (seen->slots[i])
                seen_before(&larger, seen->slots[i]);
        if (!seen->full) {
            free(seen->slots);
            *seen = larger;
        }
    }
    for (size_t i = hash & (seen->room - 1);; i = (i + 1) & (seen->room - 1)) {
        if (seen->slots[i] == hash)
            return true;
        if (seen->slots[i])
            continue;
        if (!seen->full) {
            seen->slots[i] = hash;
            seen->count++;
        }
        return false;
    }
}

struct sums {
    struct profile *profile;
    struct lengths *lengths;
    struct arena *arena;
    struct seen seen;
};

// More examples than are simulated in order are kept by their lengths alone: memory stays flat.
static void fold(struct sums *sums)
{
    struct lengths_tally tally, merged;
    lengths_tally(&tally, sums->arena, sums->lengths);
    lengths_merge(&merged, sums->arena, &sums->profile->tally, &tally);
    sums->profile->tally = merged;
    sums->lengths->count = 0;
}

static enum err add(void *context, const struct dataset_example *example)
{
    struct sums *sums = context;
    struct profile *profile = sums->profile;
    profile->rows += !example->is_second;
    if (example->problem) {
        profile_note(profile, sums->arena, PROFILE_BAD, example->file, example->line, 0,
                     example->problem);
        return OK;
    }
    profile->text_bytes += example->text_bytes;
    if (sums->lengths->count == LENGTHS_SIMULATED)
        fold(sums);
    lengths_add(sums->lengths, example->tokens, example->labelled);
    profile_note(profile, sums->arena, PROFILE_LONGEST, example->file, example->line,
                 example->tokens, NULL);
    enum profile_kind kind = example->is_empty                         ? PROFILE_EMPTY
                             : !example->labelled                      ? PROFILE_UNLABELLED
                             : seen_before(&sums->seen, example->hash) ? PROFILE_DUPLICATE
                                                                       : PROFILE_KINDS;
    if (kind != PROFILE_KINDS)
        profile_note(profile, sums->arena, kind, example->file, example->line, example->tokens,
                     NULL);
    return OK;
}

enum err dataset_profile(struct profile *out, struct lengths *lengths, struct dataset *dataset,
                         const char *const *words, size_t count, bool quiet)
{
    *out = (struct profile){ .tokenizer = dataset->tokenizer_name,
                             .exact = dataset->exact,
                             .spread = dataset->spread,
                             .template = dataset->template_name,
                             .labels = chat_label_names[dataset->options.labels],
                             .duplicates_exact = true };
    struct sums sums = { .profile = out, .lengths = lengths, .arena = lengths->arena };
    struct dataset_reading reading = { .context = &sums, .give = add, .quiet = quiet };
    enum err err = dataset_read(dataset, words, count, &reading);
    out->duplicates_exact = !sums.seen.full;
    free(sums.seen.slots);
    TRY(err);
    if (out->tally.count)
        fold(&sums);
    out->files = reading.files;
    out->file_count = reading.file_count;
    out->format = reading.format;
    if (!lengths->count && !out->tally.count)
        return out->rows ? fail(ERR_INPUT, "%s:%lld: none of %lld rows can be used; the first: %s",
                                out->spots[PROFILE_BAD].spots[0].file,
                                (long long)out->spots[PROFILE_BAD].spots[0].line,
                                (long long)out->rows, out->spots[PROFILE_BAD].spots[0].problem)
                         : fail(ERR_INPUT, "%s: there are no rows in it", words[0]);
    return OK;
}
