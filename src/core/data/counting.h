// SPDX-License-Identifier: Apache-2.0
// counting: adds up examples, one by one, into a profile: sums, and the rows to inspect.
//
//     struct counting counting = { .profile = &profile, .lengths = &lengths };
//     counting_add(&counting, &example); …
//     counting_end(&counting);
//
// The list receives the lengths in order. Beyond LENGTHS_SIMULATED examples the order is dropped
// and lengths go into the profile's tally, so that memory stays bounded. Beyond 4 million distinct
// texts a sample of them, chosen by their hashes, is watched for duplicates; the profile has an
// estimate with its standard deviation.

#pragma once

#include "core/data/example.h"
#include "core/data/profile.h"

struct counting {
    struct profile *profile;
    struct lengths *lengths;  // its arena owns what the profile points to
    struct arena tally_arena; // until counting_end()
    struct counting_seen {    // hashes of the texts
        struct arena arena;
        uint64_t *slots;  // 0 is empty
        uint32_t *copies; // of each
        size_t count, room;
        size_t most; // texts that it may hold; 0: 4 million
        int level;   // hashes that begin with so many zero bits are watched
    } seen;
};

void counting_add(struct counting *counting, const struct example *example);

// Notes alone what warnings of the profile are about: parts as text, parts left out, media.
void counting_note_parts(struct profile *profile, struct arena *arena,
                         const struct example *example);

// Completes the sums and frees the scratch memory.
void counting_end(struct counting *counting);

// ERR_INPUT if there is no usable example, with the problem of the first bad row. name: the data's.
enum err counting_check(const struct counting *counting, const char *name);
