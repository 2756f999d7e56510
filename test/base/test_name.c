// SPDX-License-Identifier: Apache-2.0
// Loosely spelled names and what they match.

#include "base/name.h"
#include "test/test.h"

#include <string.h>

static const char *const noise[] = { "nvidia", "instruct", NULL };
static const char *const strict[] = { "ti", "laptop", NULL };

static struct name_list list(bool extras)
{
    struct name_list out = {
        .arena = &test_arena, .noise = noise, .strict = strict, .extras = extras
    };
    name_add(&out, "h100-sxm", "h100|h100-80gb", 0);
    name_add(&out, "h100-pcie", NULL, 1);
    name_add(&out, "qwen2.5-7b", NULL, 2);
    name_add(&out, "qwen2-57b", " qwen-57b | ", 3);
    return out;
}

static int found(bool extras, const char *query)
{
    struct name_list names = list(extras);
    return name_find(&names, text_of(query));
}

TEST(name_ignores_case_separators_and_noise)
{
    CHECK(found(false, "H100 SXM") == 0);
    CHECK(found(false, "h100sxm") == 0);
    CHECK(found(false, "NVIDIA (H100) 80 GB") == 0);
    CHECK(found(false, "Qwen2.5_7B Instruct") == 2);
    CHECK(found(false, "qwen-57b") == 3);
}

TEST(name_keeps_points_inside_numbers_apart_from_other_sizes)
{
    CHECK(found(false, "Qwen2-57B") == 3);
    CHECK(found(false, "Qwen2.5-7B") == 2);
}

TEST(name_takes_the_longest_entry_within_a_longer_query_where_extras_are_allowed)
{
    CHECK(found(true, "H100 PCIe 350W") == 1);
    CHECK(found(false, "H100 PCIe 350W") == -1);
    CHECK(found(true, "8x H100 in a box") == 0);
    CHECK(found(true, "h100 laptop") == -1);
    CHECK(found(true, "nothing of the kind") == -1);
}

TEST(name_survives_queries_of_any_size)
{
    char endless[5000];
    for (size_t i = 0; i < sizeof endless; i++)
        endless[i] = i % 3 ? 'a' : '-';
    struct name_list names = list(true);
    struct text query = { endless, sizeof endless };
    CHECK(name_find(&names, query) == -1);
    CHECK(name_unknown(&names, query, "GPU", "gpus") == ERR_USAGE);
    CHECK(name_find(&names, (struct text){ "", 0 }) == -1);
    CHECK(name_find(&names, TEXT("\xff\xfe\x00")) == -1);
}
