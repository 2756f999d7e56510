// SPDX-License-Identifier: Apache-2.0
// Sums, duplicates and rows to inspect of a stream of examples.

#include "core/data/counting.h"

#include "test/test.h"

static struct example example(int64_t tokens, int64_t labelled, uint64_t hash)
{
    return (struct example){ .file = "a.jsonl",
                             .line = 1,
                             .tokens = tokens,
                             .labelled = labelled,
                             .text_bytes = 4 * tokens,
                             .hash = hash };
}

TEST(counting_finds_duplicates_among_any_number_of_examples)
{
    struct profile profile = { 0 };
    struct lengths lengths = { .arena = &test_arena };
    struct counting counting = { .profile = &profile, .lengths = &lengths };
    for (int round = 0; round < 2; round++)
        for (uint64_t i = 0; i < 20000; i++) {
            struct example next = example(10, 5, i * UINT64_C(0x9E3779B97F4A7C15));
            counting_add(&counting, &next);
        }
    counting_end(&counting);
    CHECK(profile.rows == 40000 && lengths.count == 40000);
    CHECK(profile.spots[PROFILE_DUPLICATE].count == 20000 && profile.duplicates_exact);
    CHECK(counting_check(&counting, "a.jsonl") == OK);
}

// Rows of which every third text has three copies; other: another order.
static struct profile counted_with(size_t most, bool other)
{
    struct profile profile = { 0 };
    struct lengths lengths = { .arena = &test_arena };
    struct counting counting = { .profile = &profile, .lengths = &lengths, .seen.most = most };
    for (uint64_t i = 0; i < 50000; i++) {
        uint64_t k = other ? 49999 - i : i, text = k % 5 < 2 ? k : k / 5 * 5 + 2;
        text = (text + 1) * UINT64_C(0x9E3779B97F4A7C15);
        struct example next = example(10, 5, text ^ text >> 29);
        counting_add(&counting, &next);
    }
    counting_end(&counting);
    return profile;
}

TEST(counting_estimates_duplicates_of_more_texts_than_fit_and_says_how_well)
{
    struct profile all = counted_with(1 << 20, false), some = counted_with(1 << 11, false),
                   other = counted_with(1 << 11, true);
    int64_t truth = all.spots[PROFILE_DUPLICATE].count;
    double off = (double)some.spots[PROFILE_DUPLICATE].count / (double)truth - 1;
    CHECK(truth == 20000 && all.duplicates_exact && all.duplicates_spread == 0);
    CHECK(!some.duplicates_exact && some.duplicates_spread > 0.005 && some.duplicates_spread < 0.1);
    CHECK(off < 4 * some.duplicates_spread && off > -4 * some.duplicates_spread);
    CHECK(some.spots[PROFILE_DUPLICATE].count == other.spots[PROFILE_DUPLICATE].count);
}

TEST(counting_lists_empty_unlabelled_and_invalid_rows)
{
    struct profile profile = { 0 };
    struct lengths lengths = { .arena = &test_arena };
    struct counting counting = { .profile = &profile, .lengths = &lengths };
    struct example bad = { .file = "a.jsonl", .line = 3, .problem = "is a number" };
    counting_add(&counting, &bad);
    CHECK(counting_check(&counting, "a.jsonl") == ERR_INPUT);
    struct example unlabelled = example(7, 0, 1), empty = example(2, 2, 2),
                   second = example(9, 9, 3);
    empty.is_empty = second.is_second = true;
    counting_add(&counting, &unlabelled);
    counting_add(&counting, &empty);
    counting_add(&counting, &second);
    counting_end(&counting);
    CHECK(profile.rows == 3 && lengths.count == 3);
    CHECK(profile.spots[PROFILE_BAD].count == 1 && profile.spots[PROFILE_EMPTY].count == 1);
    CHECK(profile.spots[PROFILE_UNLABELLED].count == 1);
    CHECK(!profile.spots[PROFILE_DUPLICATE].count);
}
