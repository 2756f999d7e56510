// SPDX-License-Identifier: Apache-2.0
// Lists and tallies of lengths: sums, merging, sampling, cutting, JSON.

#include "core/data/lengths.h"

#include "test/real_lengths.h"

#include <string.h>

static bool same(const struct lengths_tally *a, const struct lengths_tally *b)
{
    return a->count == b->count && !memcmp(a->bins, b->bins, a->count * sizeof *a->bins);
}

TEST(lengths_of_gsm8k_add_up_to_the_published_tokens)
{
    struct lengths list = real_lengths("test/data/gsm8k_lengths.csv");
    struct lengths_tally tally;
    lengths_tally(&tally, &test_arena, &list);
    struct lengths_sums sums = lengths_sum(&tally);
    // The row "GSM8K train" of the survey of real datasets: 7,473 records, Llama 3 ids.
    CHECK(sums.examples == 7473 && sums.tokens == 1260163 && sums.longest == 469);
    CHECK(lengths_quantile(&tally, 0.5) == 158 && lengths_quantile(&tally, 0.9) == 248);
    CHECK(lengths_quantile(&tally, 0.99) == 338 && lengths_quantile(&tally, 1) == 469);
    int64_t labelled = 0;
    for (size_t i = 0; i < list.count; i++)
        labelled += list.items[i].labelled;
    CHECK(sums.labelled == labelled);
}

TEST(lengths_merged_are_the_lengths_of_both)
{
    struct lengths both = real_lengths("test/data/gsm8k_lengths.csv");
    struct lengths a = both, b = both;
    a.count = 3000;
    b.items += 3000;
    b.count -= 3000;
    struct lengths_tally whole, first, second, merged;
    lengths_tally(&whole, &test_arena, &both);
    lengths_tally(&first, &test_arena, &a);
    lengths_tally(&second, &test_arena, &b);
    lengths_merge(&merged, &test_arena, &first, &second);
    CHECK(same(&whole, &merged));
    lengths_merge(&merged, &test_arena, &second, &first);
    CHECK(same(&whole, &merged));
    struct lengths_tally none = { 0 };
    lengths_merge(&merged, &test_arena, &whole, &none);
    CHECK(same(&whole, &merged));
}

TEST(lengths_unrolled_have_the_same_tally_with_any_seed)
{
    struct lengths list = real_lengths("test/data/c4_lengths.csv"), again, other;
    struct lengths_tally tally, back;
    lengths_tally(&tally, &test_arena, &list);
    lengths_unroll(&again, &test_arena, &tally, 1);
    lengths_unroll(&other, &test_arena, &tally, 2);
    lengths_tally(&back, &test_arena, &again);
    CHECK(same(&tally, &back));
    CHECK(again.count == list.count);
    CHECK(memcmp(again.items, other.items, again.count * sizeof *again.items));
}

TEST(lengths_of_very_many_examples_unroll_to_a_sample_of_the_same_shares)
{
    struct lengths_bin bins[] = {
        { 10, 3000000, 9000000 }, { 20, 1, 5 }, { 30, 6000000, 60000001 }, { 90000, 999999, 999999 }
    };
    struct lengths_tally tally = { bins, 4 }, back;
    struct lengths sample;
    lengths_unroll(&sample, &test_arena, &tally, 1);
    double each = lengths_each(&sample);
    CHECK(sample.count == LENGTHS_SIMULATED);
    CHECK_NEAR(each * LENGTHS_SIMULATED, 10000000, 1e-12);
    lengths_tally(&back, &test_arena, &sample);
    struct lengths_sums a = lengths_sum(&tally), b = lengths_sum(&back);
    CHECK_NEAR(each * (double)b.tokens, (double)a.tokens, 1e-5);
    CHECK_NEAR(each * (double)b.labelled, (double)a.labelled, 1e-5);
    CHECK_NEAR(each * b.squares, a.squares, 1e-5);
}

TEST(lengths_sort_any_size_of_example)
{
    struct lengths list = { .arena = &test_arena };
    static const int64_t tokens[] = { 0, 1 << 30, 5, 70000, 5, 1 << 21, 0, 3000000000 };
    for (size_t i = 0; i < 8; i++)
        lengths_add(&list, tokens[i], tokens[i]);
    struct lengths_tally tally;
    lengths_tally(&tally, &test_arena, &list);
    CHECK(tally.count == 5);
    CHECK(tally.bins[0].tokens == 0 && tally.bins[0].examples == 2);
    CHECK(tally.bins[1].tokens == 5 && tally.bins[1].labelled == 10);
    CHECK(tally.bins[4].tokens == LENGTHS_LONGEST && tally.bins[4].examples == 2);
}

TEST(lengths_cut_to_a_window_lose_what_is_after_it)
{
    struct lengths list = { .arena = &test_arena };
    lengths_add(&list, 100, 30);
    lengths_add(&list, 300, 300);
    lengths_add(&list, 300, 20);
    lengths_add(&list, 120, 10);
    struct lengths_tally tally;
    lengths_tally(&tally, &test_arena, &list);
    struct lengths_cut cut = lengths_cut(&tally, 110);
    CHECK(cut.examples == 3 && cut.tokens == 10 + 190 + 190);
    CHECK(cut.labelled == 10 + 320); // answers are last: all of them are after the window
    CHECK(lengths_cut(&tally, 300).tokens == 0);
}

TEST(lengths_written_read_back_equal)
{
    struct lengths list = real_lengths("test/data/c4_lengths.csv");
    struct lengths_tally tally, back;
    lengths_tally(&tally, &test_arena, &list);
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out };
    lengths_write(&tally, &w, NULL);
    struct json tree;
    CHECK(json_read(&tree, &test_arena, out_view(&out), "t") == OK);
    CHECK(lengths_read(&back, &test_arena, &tree, "t") == OK);
    CHECK(same(&tally, &back));
}

TEST(lengths_refuse_an_invalid_histogram)
{
    static const char *const bad[] = { "{}",
                                       "[1]",
                                       "[[1,2]]",
                                       "[[1,2,3,4]]",
                                       "[[1,2,3]]",
                                       "[[5,1,1],[5,1,1]]",
                                       "[[5,0,0]]",
                                       "[[-5,1,1]]",
                                       "[[5,1.5,1]]",
                                       "[[5,1,\"\"]]",
                                       "[[5,1e300,1]]",
                                       "[[9,1,1],[5,1,1]]",
                                       "[[1000000,1000000000,1],[9000000,1000000000,1]]" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct json tree;
        struct lengths_tally tally;
        CHECK(json_read(&tree, &test_arena, text_of(bad[i]), "t") == OK);
        CHECK(lengths_read(&tally, &test_arena, &tree, "t") == ERR_INPUT);
    }
}
