// counting: examples one by one as a profile: sums, and the rows worth looking at.
//
//     struct counting counting = { .profile = &profile, .lengths = &lengths };
//     counting_add(&counting, &example); …
//     counting_end(&counting);
//
// The list gets the lengths in order. More examples than are simulated in order are kept by their
// lengths alone, in the profile's tally: memory stays flat. Likewise, beyond so many distinct texts
// repeats are no longer found, and the profile says that its number of duplicates is a lower bound.

#pragma once

#include "core/data/example.h"
#include "core/data/profile.h"

struct counting {
    struct profile *profile;
    struct lengths *lengths; // its arena holds what the profile points to
    struct counting_seen {   // hashes of the texts
        struct arena arena;
        uint64_t *slots; // 0 is empty
        size_t count, room;
        bool full;
    } seen;
};

void counting_add(struct counting *counting, const struct example *example);

// Ends the sums and lets go of what they needed.
void counting_end(struct counting *counting);

// ERR_INPUT where there is no example: why, by the first bad row. name is the data's.
enum err counting_check(const struct counting *counting, const char *name);
