// SPDX-License-Identifier: Apache-2.0
// Adds examples to a profile, detects duplicates by hash, and bounds the memory that this takes.

#include "core/data/counting.h"

#include <math.h>
#include <string.h>

enum { MOST_HASHES = 1 << 22 };

// --- duplicates --------------------------------------------------------------
//
// The table counts the copies of every text while the texts fit. When they no longer do, it keeps
// half of them: those whose hash has a further zero in front, and so on. Which ones it keeps in the
// end follows from the texts alone, not from their order.

static bool is_kept(const struct counting_seen *seen, uint64_t hash)
{
    return !seen->level || !(hash >> (64 - seen->level));
}

// Where the hash is, or where it belongs.
static size_t find_slot(const struct counting_seen *seen, uint64_t hash)
{
    size_t i = hash & (seen->room - 1);
    while (seen->slots[i] && seen->slots[i] != hash)
        i = (i + 1) & (seen->room - 1);
    return i;
}

// Makes the table larger, or where it is as large as it may be, keeps half of the hashes.
static void grow(struct counting_seen *seen)
{
    struct counting_seen next = { .room = seen->room ? seen->room * 2 : 1 << 12,
                                  .most = seen->most,
                                  .level = seen->level };
    if (seen->count >= (seen->most ? seen->most : MOST_HASHES)) {
        next.room = seen->room;
        next.level++;
    }
    next.slots = ARENA_NEW(&next.arena, uint64_t, next.room);
    next.copies = ARENA_NEW(&next.arena, uint32_t, next.room);
    memset(next.slots, 0, next.room * sizeof *next.slots);
    for (size_t i = 0; i < seen->room; i++)
        if (seen->slots[i] && is_kept(&next, seen->slots[i])) {
            size_t at = find_slot(&next, seen->slots[i]);
            next.slots[at] = seen->slots[i];
            next.copies[at] = seen->copies[i];
            next.count++;
        }
    arena_release(&seen->arena);
    *seen = next;
}

// Whether the hash was added before; adds it. Asks for the place of one that comes soon, as a table
// of many texts is not in the cache. (Not in a function of its own: gcc takes one without effects
// away.)
static bool seen_before(struct counting_seen *seen, uint64_t hash, uint64_t later)
{
    if (!hash)
        hash = 1;
    while (2 * seen->count >= seen->room)
        grow(seen);
    __builtin_prefetch(&seen->slots[later & (seen->room - 1)]);
    __builtin_prefetch(&seen->copies[later & (seen->room - 1)]);
    if (!is_kept(seen, hash))
        return false;
    size_t at = find_slot(seen, hash);
    bool known = seen->slots[at];
    seen->slots[at] = hash;
    seen->copies[at] = known ? seen->copies[at] + (seen->copies[at] < UINT32_MAX) : 1;
    seen->count += !known;
    return known;
}

// From the texts that were kept to all: each stands for 2^level, with its copies or without.
static void estimate(struct profile *profile, const struct counting_seen *seen)
{
    double sum = 0, squares = 0, each = ldexp(1, seen->level);
    profile->duplicates_exact = !seen->level;
    if (!seen->level)
        return;
    for (size_t i = 0; i < seen->room; i++) {
        double more = seen->slots[i] ? (double)seen->copies[i] - 1 : 0;
        sum += more;
        squares += more * more;
    }
    profile->spots[PROFILE_DUPLICATE].count = (int64_t)(each * sum);
    profile->duplicates_spread = sum > 0 ? sqrt(squares * (1 - 1 / each)) / sum : 0;
}

// Moves the lengths of the list into the tally.
static void fold(struct counting *counting)
{
    lengths_fold(&counting->profile->tally, &counting->tally_arena, counting->lengths);
}

void counting_note_parts(struct profile *profile, struct arena *arena,
                         const struct example *example)
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
    profile->tokens += example->tokens;
    profile->labelled_tokens += example->labelled;
    profile->doubt += example->doubt;
    profile->text_bytes += example->text_bytes;
    profile->images = vision_load_sum(&profile->images, &example->images);
    if (counting->lengths->count == LENGTHS_SIMULATED)
        fold(counting);
    lengths_add(counting->lengths, example->tokens, example->labelled);
    profile_note(profile, arena, PROFILE_LONGEST, example->file, example->line, example->tokens,
                 NULL);
    counting_note_parts(profile, arena, example);
    enum profile_kind kind = PROFILE_KINDS;
    if (example->is_empty)
        kind = PROFILE_EMPTY;
    else if (!example->labelled)
        kind = PROFILE_UNLABELLED;
    else if (seen_before(&counting->seen, example->hash, example->later_hash))
        kind = PROFILE_DUPLICATE;
    if (kind != PROFILE_KINDS)
        profile_note(profile, arena, kind, example->file, example->line, example->tokens, NULL);
}

void counting_end(struct counting *counting)
{
    estimate(counting->profile, &counting->seen);
    profile_set_spread(counting->profile);
    arena_release(&counting->seen.arena);
    counting->seen = (struct counting_seen){ 0 };
    struct lengths_tally *tally = &counting->profile->tally;
    if (tally->count) {
        fold(counting);
        lengths_merge(tally, counting->lengths->arena, tally, &(struct lengths_tally){ 0 });
    }
    arena_release(&counting->tally_arena);
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
