// SPDX-License-Identifier: Apache-2.0
// What PyYAML 6.0.3 makes of the same words, and what no configuration may do to us.

#include "host/yaml.h"

#include "test/test.h"

#include <string.h>

static struct json read(const char *yaml)
{
    struct json tree = { 0 };
    CHECK(!yaml_read(&tree, &test_arena, text_of(yaml), "test.yaml"));
    return tree;
}

static const struct json *value_of(const char *word)
{
    static struct json tree;
    tree = read(text_format(&test_arena, "k: %s\n", word));
    CHECK(tree.kind == JSON_OBJECT && tree.count == 1);
    return &tree.items[1];
}

static const char *refusal(const char *yaml)
{
    struct json tree;
    CHECK(yaml_read(&tree, &test_arena, text_of(yaml), "test.yaml") == ERR_INPUT);
    return error_text();
}

TEST(yaml_numbers_are_those_of_pyyaml)
{
    static const struct {
        const char *word;
        double number;
    } cases[] = {
        { "010", 8 },
        { "0x1F", 31 },
        { "0b101", 5 },
        { "1_000", 1000 },
        { "1.0e+5", 1e5 },
        { ".5", 0.5 },
        { "1.", 1 },
        { "-3", -3 },
        { "+7", 7 },
        { "1:30", 90 },
        { "190:20:30", 685230 },
        { "1.5_5", 1.55 },
        { "0.0", 0 },
        { "-0x10", -16 },
        { "0", 0 },
        { "00", 0 },
        { "-1:30", -90 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct json *value = value_of(cases[i].word);
        CHECK(value->kind == JSON_NUMBER && value->number == cases[i].number);
    }
}

TEST(yaml_numbers_that_pyyaml_leaves_as_text_are_numbers_all_the_same)
{
    CHECK(value_of("1e-4")->number == 1e-4);
    CHECK(value_of("1e5")->number == 1e5);
    CHECK(value_of("1.0e5")->number == 1e5);
}

TEST(yaml_words_that_are_no_numbers_stay_text)
{
    static const char *const words[] = { "y",    "n",   "0o17", "08",    "2024-01-01", "1.2.3",
                                         "1:70", "_1",  "0x",   "1e",    ".",          "\"16\"",
                                         "'on'", "inf", "nan",  "0x1p3", "!!str 5" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        CHECK(value_of(words[i])->kind == JSON_STRING);
}

TEST(yaml_truths_are_those_of_1_1)
{
    static const char *const truths[] = { "yes", "Yes", "ON", "true", "True" };
    static const char *const lies[] = { "no", "No", "off", "OFF", "FALSE" };
    for (int i = 0; i < 5; i++) {
        CHECK(value_of(truths[i])->kind == JSON_BOOL && value_of(truths[i])->flag);
        CHECK(value_of(lies[i])->kind == JSON_BOOL && !value_of(lies[i])->flag);
    }
    CHECK(value_of("~")->kind == JSON_NULL && value_of("")->kind == JSON_NULL);
}

TEST(yaml_lists_in_block_and_in_flow_are_the_same)
{
    struct json tree = read("a:\n  - q_proj\n  - 2\nb: [q_proj, 2]\n");
    for (int i = 0; i < 2; i++) {
        const struct json *list = &tree.items[2 * i + 1];
        CHECK(list->kind == JSON_ARRAY && list->count == 2);
        CHECK(text_is(list->items[0].string, "q_proj") && list->items[1].number == 2);
    }
}

TEST(yaml_merge_keys_yield_to_the_mappings_own)
{
    struct json tree = read("a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc:\n  <<: [*a, *b]\n  x: 9\n");
    const struct json *c = json_get(&tree, "c");
    CHECK(c && c->count == 3);
    CHECK(json_get_number(c, "x", 0) == 9); // its own
    CHECK(json_get_number(c, "y", 0) == 2); // of the first
    CHECK(json_get_number(c, "z", 0) == 4);
    CHECK(json_get_number(json_get(&tree, "a"), "x", 0) == 1); // untouched
}

TEST(yaml_keys_given_twice_have_their_last_value)
{
    struct json tree = read("a: 1\na: 2\n");
    CHECK(tree.count == 1 && json_get_number(&tree, "a", 0) == 2);
}

TEST(yaml_refuses_hostile_files_with_a_line)
{
    CHECK(strstr(refusal("a: &a [*a]\n"), "test.yaml:1: alias *a has no anchor"));
    CHECK(strstr(refusal("a: 1\n---\nb: 2\n"), "test.yaml:2: begins a second document"));
    CHECK(strstr(refusal("a: [1\nb: 2"), "is not valid YAML"));
    CHECK(strstr(refusal("? [a]\n: 1\n"), "a key that is not a scalar"));
    CHECK(strstr(refusal("a: *none\n"), "alias *none has no anchor"));
    CHECK(strstr(refusal("a:\n  <<: 3\n"), "<< takes a mapping"));
    struct out laughs = { .arena = &test_arena }, deep = { .arena = &test_arena };
    out_put(&laughs, "a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 9; i++) {
        out_put(&laughs, "a%d: &a%d [", i, i);
        for (int n = 0; n < 9; n++)
            out_put(&laughs, "%s*a%d", n ? ", " : "", i - 1);
        out_put(&laughs, "]\n");
    }
    CHECK(strstr(refusal(out_string(&laughs)), "more than 100,000 values"));
    out_repeat(&deep, '[', 300);
    out_repeat(&deep, ']', 300);
    CHECK(strstr(refusal(out_string(&deep)), "nested too deeply"));
}

TEST(yaml_of_nothing_is_null)
{
    CHECK(read("").kind == JSON_NULL);
    CHECK(read("# a remark\n").kind == JSON_NULL);
}
