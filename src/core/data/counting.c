// SPDX-License-Identifier: Apache-2.0
// Adds examples to a profile, detects duplicates by hash, and bounds the memory that this takes.

#include "core/data/counting.h"

enum { MOST_HASHES = 1 << 22 };

static bool seen_before(struct counting_seen *seen, uint64_t hash);

static void grow(struct counting_seen *seen)
{
    if (seen->count >= MOST_HASHES) {
        seen->full = true;
        return;
    }
    struct counting_seen larger = { .room = seen->room ? seen->room * 2 : 1 << 12 };
    larger.slots = ARENA_NEW(&larger.arena, uint64_t, larger.room);
    for (size_t i = 0; i < larger.room; i++)
        larger.slots[i] = 0;
    for (size_t i = 0; i < seen->room; i++)
        if (seen->slots[i])
            seen_before(&larger, seen->slots[i]);
    arena_release(&seen->arena);
    *seen = larger;
}

// Whether the hash was added before; adds it.
static bool seen_before(struct counting_seen *seen, uint64_t hash)
{
    if (!hash)
        hash = 1;
    if (2 * seen->count >= seen->room && !seen->full)
        grow(seen);
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

// Moves the lengths of the list into the tally.
static void fold(struct counting *counting)
{
    struct arena *arena = counting->lengths->arena;
    struct lengths_tally tally, merged;
    lengths_tally(&tally, arena, counting->lengths);
    lengths_merge(&merged, arena, &counting->profile->tally, &tally);
    counting->profile->tally = merged;
    counting->lengths->count = 0;
}

static void note_parts(struct profile *profile, struct arena *arena, const struct example *example)
{
    const struct {
        enum profile_kind kind;
        int parts;
    } notes[] = { { PROFILE_ADAPTED, example->adapted }, { PROFILE_LEFT_OUT, example->left_out } };
    char names[128];
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (notes[i].parts)
            profile_note(profile, arena, notes[i].kind, example->file, example->line, 0,
                         chat_part_names(names, sizeof names, notes[i].parts));
    if (example->has_media)
        profile_note(profile, arena, PROFILE_MEDIA, example->file, example->line, 0, NULL);
}

void counting_add(struct counting *counting, const struct example *example)
{
    struct profile *profile = counting->profile;
    struct arena *arena = counting->lengths->arena;
    profile->rows += !example->is_second;
    if (example->problem) {
        profile_note(profile, arena, PROFILE_BAD, example->file, example->line, 0,
                     example->problem);
        return;
    }
    profile->text_bytes += example->text_bytes;
    profile->images = vision_load_sum(&profile->images, &example->images);
    if (counting->lengths->count == LENGTHS_SIMULATED)
        fold(counting);
    lengths_add(counting->lengths, example->tokens, example->labelled);
    profile_note(profile, arena, PROFILE_LONGEST, example->file, example->line, example->tokens,
                 NULL);
    note_parts(profile, arena, example);
    enum profile_kind kind = example->is_empty                             ? PROFILE_EMPTY
                             : !example->labelled                          ? PROFILE_UNLABELLED
                             : seen_before(&counting->seen, example->hash) ? PROFILE_DUPLICATE
                                                                           : PROFILE_KINDS;
    if (kind != PROFILE_KINDS)
        profile_note(profile, arena, kind, example->file, example->line, example->tokens, NULL);
}

void counting_end(struct counting *counting)
{
    counting->profile->duplicates_exact = !counting->seen.full;
    arena_release(&counting->seen.arena);
    counting->seen = (struct counting_seen){ 0 };
    if (counting->profile->tally.count)
        fold(counting);
}

enum err counting_check(const struct counting *counting, const char *name)
{
    const struct profile *profile = counting->profile;
    const struct profile_spot *bad = profile->spots[PROFILE_BAD].spots;
    if (counting->lengths->count || profile->tally.count)
        return OK;
    if (!profile->rows)
        return fail(ERR_INPUT, "%s: has no rows", name);
    return fail(ERR_INPUT, "%s:%lld: none of the %lld rows is valid; the first one: %s", bad->file,
                (long long)bad->line, (long long)profile->rows, bad->problem);
}
