// SPDX-License-Identifier: Apache-2.0
// The columns of all rows: their sums in any order, and of any number of names.

#include "core/data/census.h"

#include "test/test.h"

#include <string.h>

enum { NAMES = 5000 };

static void add(struct census *census, int i)
{
    census_add(census, text_of(text_format(&test_arena, "column %d", i)), i % 3 ? NULL : "input",
               i % 7 + 1);
}

static bool same(const struct census *a, const struct census *b)
{
    bool equal = a->count == b->count && a->bytes == b->bytes;
    for (size_t i = 0; equal && i < a->count; i++)
        equal = !strcmp(a->columns[i].name, b->columns[i].name) &&
                a->columns[i].bytes == b->columns[i].bytes &&
                !a->columns[i].part == !b->columns[i].part;
    return equal;
}

TEST(census_adds_up_the_bytes_of_each_column)
{
    struct census census = { .arena = &test_arena };
    census_add(&census, TEXT("id"), NULL, 0);
    census_add(&census, TEXT("essay"), NULL, 30);
    census_add(&census, TEXT("essay"), "input", 12);
    census_add(&census, TEXT("text"), "text", 8);
    CHECK(census.count == 2 && census.bytes == 50);
    CHECK(census_find(&census, TEXT("essay"))->bytes == 42);
    CHECK(!strcmp(census_find(&census, TEXT("essay"))->part, "input"));
    CHECK(!census_find(&census, TEXT("id")));
}

TEST(census_of_very_many_names_is_bounded_and_the_same_in_any_order)
{
    struct census whole = { .arena = &test_arena }, reversed = whole, merged = whole, odd = whole;
    for (int i = 0; i < 3 * NAMES; i++) {
        add(&whole, i % NAMES);
        add(&reversed, NAMES - 1 - i % NAMES);
        add(i % 2 ? &odd : &merged, i % NAMES);
    }
    census_merge(&merged, &odd);
    CHECK(whole.count == CENSUS_NAMES);
    CHECK(same(&whole, &reversed) && same(&whole, &merged));
}

TEST(census_counts_a_name_as_long_as_a_text_without_keeping_it)
{
    char name[CENSUS_NAME_BYTES + 1];
    memset(name, 'a', sizeof name);
    struct census census = { .arena = &test_arena };
    census_add(&census, (struct text){ name, sizeof name }, NULL, 5);
    CHECK(!census.count && census.bytes == 5);
}
