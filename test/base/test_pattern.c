// SPDX-License-Identifier: Apache-2.0
// Patterns with the semantics of Oniguruma; test_tokenizer.c compares more of them with it.

#include "base/pattern.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

// All matches, with bars around them.
static const char *matches(const char *source, struct text text)
{
    struct pattern *pattern;
    if (pattern_read(&pattern, &test_arena, text_of(source), "t"))
        return error_text();
    struct pattern_stack stack = { .arena = &test_arena };
    struct pattern_match match;
    struct out out = { .arena = &test_arena };
    for (size_t at = 0; at <= text.size && pattern_find(pattern, &stack, text, at, &match);) {
        out_put(&out, "|%.*s", (int)(match.end - match.start), text.at + match.start);
        at = match.end > match.start ? match.end : match.end + 1;
    }
    return out_string(&out);
}

static bool gives(const char *source, const char *text, const char *wanted)
{
    const char *got = matches(source, text_of(text));
    if (strcmp(got, wanted))
        printf("/%s/ on \"%s\" gives %s\n", source, text, got);
    return !strcmp(got, wanted);
}

TEST(patterns_match_as_oniguruma_does)
{
    CHECK(gives("a|ab", "abab", "|a|a"));
    CHECK(gives("a*b", "aaab b ac", "|aaab|b"));
    CHECK(gives("a+?", "aaa", "|a|a|a"));
    CHECK(gives("a{2,3}", "aaaaaa a", "|aaa|aaa"));
    CHECK(gives("a++a|b", "aaab", "|b"));
    CHECK(gives("(?>a+)a|b", "aab", "|b"));
    CHECK(gives("(?:ab){2}", "ababab", "|abab"));
    CHECK(gives("(?:a|b)+c", "ababc", "|ababc"));
    CHECK(gives("(?:ab){1,2}c|x", "abababc x", "|ababc|x"));
    CHECK(gives("\\s+(?!\\S)", "a   b  ", "|  |  "));
    CHECK(gives("(?<=a)b|(?<!a)c", "ab c ac", "|b|c"));
    CHECK(gives("(?i:straSSe)", "STRASSE strasse", "|STRASSE|strasse"));
    CHECK(gives("(?i:'s)", "'S 's '\u017f", "|'S|'s|'\u017f"));
    CHECK(gives("^b|a$", "a\nb", "|a|b"));
    CHECK(gives("\\bfoo\\b", "foo food", "|foo"));
    CHECK(gives("[^\\r\\n\\p{L}]?\\p{L}+", "a -b\nc", "|a|-b|c"));
    CHECK(gives("[\\p{Lu}\\d_-]+", "aB1_-x", "|B1_-"));
    CHECK(gives("[]a]+", "a]b", "|a]"));
    CHECK(gives(".", "a\n\u4e2d", "|a|\u4e2d"));
    CHECK(gives("\\p{^L}+|\\P{N}", "a1", "|a|1"));
    CHECK(gives("x{,2}y", "xxxy", "|xxy"));
    CHECK(gives("a{b", "a{b", "|a{b"));
    CHECK(gives("", "ab", "|||"));
}

TEST(patterns_name_what_they_do_not_support)
{
    static const char *const bad[][2] = {
        { "(a", "a group without its closing bracket" },
        { "a)", "an unmatched closing bracket" },
        { "[a", "a set without its closing bracket" },
        { "\\1", "the escape \\1" },
        { "(?<n>a)", "the group (?<" },
        { "\\p{Klingon}", "the property \\p{Klingon}" },
        { "[[:letter:]]", "the class [:letter:]" },
        { "(?s).", "the group (?s" }, // the library refuses it, too
        { "\\G", "the escape \\G" },
        { "(?<=ab)c", "a lookbehind of more than one character" },
        { "*a", "a quantifier without an operand" },
        { "(?:a*)*", "a repeated group that may be empty" },
        { "a\\", "a backslash at the end" },
        { "(?:(?:(?:(?:a{999}){999}){999}){999}){999}", "a pattern of too many parts" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pattern *pattern;
        CHECK(pattern_read(&pattern, &test_arena, text_of(bad[i][0]), "t") == ERR_INPUT);
        if (!strstr(error_text(), bad[i][1]))
            printf("%s\n", error_text());
        CHECK(strstr(error_text(), bad[i][1]));
    }
}

static const char *nested(const char *open, const char *inner, const char *close, int depth)
{
    struct out out = { .arena = &test_arena };
    for (int i = 0; i < depth; i++)
        out_put(&out, "%s", open);
    out_put(&out, "%s", inner);
    for (int i = 0; i < depth; i++)
        out_put(&out, "%s", close);
    return out_string(&out);
}

TEST(nothing_repeated_is_nothing_however_deep)
{
    CHECK(gives(nested("(", "", "){1000}", 20), "ab", "|||"));
    CHECK(gives(nested("(?:", "(?:ab){0}", "){999}", 20), "ab", "|||"));
    CHECK(gives("(?:){1000}a", "ba", "|a"));
}

TEST(a_class_means_the_same_at_any_depth)
{
    for (int depth = 60; depth <= 64; depth++) {
        CHECK(gives(nested("(", "\\h", ")", depth), "xa", "|a"));
        CHECK(gives(nested("(", "\\p{alnum}", ")", depth), "-a", "|a"));
        CHECK(gives(nested("(", "\\R", ")", depth), "a\r\n", "|\r\n"));
    }
    CHECK(strstr(matches(nested("(", "\\h", ")", 65), TEXT("a")), "too deeply nested groups"));
}

TEST(pattern_of_a_megabyte_is_refused_at_once)
{
    struct pattern *pattern;
    char *source = arena_alloc(&test_arena, 1000000);
    memset(source, '[', 1000000);
    struct text text = { source, 1000000 };
    CHECK(pattern_read(&pattern, &test_arena, text, "t") == ERR_INPUT);
    CHECK(strstr(error_text(), "has 1000000 bytes; at most 32768"));
}

TEST(no_pattern_runs_forever)
{
    char text[4000];
    memset(text, 'a', sizeof text);
    const char *got = matches("(?:a+)+b", (struct text){ text, 200 });
    CHECK(!strcmp(got, ""));
    clock_t start = clock();
    got = matches("(a+)+b", (struct text){ text, sizeof text });
    CHECK(!strcmp(got, ""));
    got = matches("x|(?:a+)+b|a", (struct text){ text, sizeof text });
    CHECK(!*got || *got == '|');
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 1);
    got = matches("(?:a|aa)+$", (struct text){ text, sizeof text });
    CHECK(strlen(got) == sizeof text + 1);
}

TEST(sets_inside_sets_take_no_time_without_regard_to_case)
{
    const char *deep = "(?i)[[[[[[[[[[[[[[[[[[[[\xC3\xA9]]]]]]]]]]]]]]]]]]]]";
    clock_t start = clock();
    CHECK(gives(deep, "e\xC3\xA9x\xC3\x89", "|\xC3\xA9|\xC3\x89"));
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 0.5);
    CHECK(gives("(?i)[[^a]]", "aAb", "|b"));
    CHECK(gives("(?i)[^[^[ks]]]", "kK\xC5\xBF\xE2\x84\xAA z", "|k|K|\xC5\xBF|\xE2\x84\xAA"));
    CHECK(gives("(?i)[^[^[^[^a]]]]", "a",
                "t: the pattern (?i)[^[^[^[^a]]]] has negated sets nested too deep, which is not "
                "supported"));
}
