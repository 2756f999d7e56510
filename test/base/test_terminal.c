// SPDX-License-Identifier: Apache-2.0
#include "base/columns.h"
#include "base/terminal.h"
#include "test/test.h"

#include <string.h>
#include <time.h>

static const char *ascii(const char *text)
{
    struct out out = { .arena = &test_arena };
    terminal_ascii(&out, text_of(text));
    return out_string(&out);
}

static const char *folded(const char *text, int columns)
{
    struct out out = { .arena = &test_arena };
    terminal_fold(&out, text_of(text), columns);
    return out_string(&out);
}

static bool is(const char *found, const char *wanted)
{
    return !strcmp(found, wanted);
}

TEST(text_columns_are_those_of_a_terminal)
{
    CHECK(text_columns(TEXT("abc")) == 3 && text_columns((struct text){ 0 }) == 0);
    CHECK(text_columns(TEXT("数据")) == 4 && text_columns(TEXT("e\xCC\x81")) == 1);
    CHECK(text_columns(TEXT("\033[1;31mno\033[0m")) == 2);
    CHECK(text_columns(TEXT("\xFF\xC3")) == 2); // bytes that are no UTF-8
}

TEST(text_cut_ends_in_an_ellipsis_and_never_inside_a_character)
{
    CHECK(is(text_cut(&test_arena, "p5.48xlarge", 11), "p5.48xlarge"));
    CHECK(is(text_cut(&test_arena, "p5.48xlarge", 6), "p5.48…"));
    CHECK(is(text_cut(&test_arena, "数据集", 4), "数…") && is(text_cut(&test_arena, NULL, 4), ""));
    for (int columns = 1; columns < 9; columns++)
        CHECK(text_columns(text_of(text_cut(&test_arena, "8×µ数据\xCC\x81–ab", columns))) <=
              columns);
}

TEST(out_styles_only_where_it_is_styled)
{
    struct out plain = { .arena = &test_arena }, styled = { .arena = &test_arena, .styled = true };
    CHECK(is(out_styled(&plain, OUT_BAD, "DOES NOT FIT"), "DOES NOT FIT"));
    CHECK(is(out_styled(&styled, OUT_BAD, "no"), "\033[1;31mno\033[0m"));
    CHECK(is(out_styled(&styled, OUT_BAD, ""), ""));
}

TEST(out_wrapped_of_a_megabyte_without_a_space_takes_no_time)
{
    char *word = arena_alloc(&test_arena, 1000001);
    memset(word, 'x', 1000000);
    struct out out = { .arena = &test_arena, .columns = 20 };
    clock_t start = clock();
    out_wrapped(&out, 0, 0, word); // each line measured the rest again: 3 s
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 0.5);
    CHECK(out.size == 1000000 + 1000000 / 20 && !memcmp(out.at + 20, "\nxxx", 4));
}

TEST(out_wrapped_counts_no_style_and_breaks_long_words_at_characters)
{
    struct out out = { .arena = &test_arena, .columns = 10, .styled = true };
    out_wrapped(&out, 2, 0, out_styled(&out, OUT_GOOD, "aaaa bbbbb"));
    CHECK(is(out_string(&out), "\033[32maaaa bbbbb\033[0m\n"));
    struct out wide = { .arena = &test_arena, .columns = 5 };
    out_wrapped(&wide, 0, 0, "××××××××");
    CHECK(is(out_string(&wide), "×××××\n×××\n"));
}

TEST(terminal_ascii_keeps_every_column)
{
    static const char *const texts[] = {
        "8 × h100 … – — ± 3 % ≤ 4 ±3 → x ",
        "██▉▊▋▌▍▎▏░▒▓▚▞▙▖",
        "●○▲△■□◆◇·┈┊│┃┤└─",
        "µ²³°λσ√ é 数据",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *spelled = ascii(texts[i]);
        CHECK(strlen(spelled) == (size_t)text_columns(text_of(texts[i])));
        for (const char *at = spelled; *at; at++)
            CHECK((unsigned char)*at < 0x80);
    }
    CHECK(is(ascii("8 × h100 ± 3 %, p5…"), "8 x h100 +-3 %, p5~"));
    CHECK(is(ascii("±3 and ±  4"), "~3 and ~  4")); // no blank to take, or one that separates
}

TEST(terminal_ascii_tells_every_shade_and_symbol_apart)
{
    static const char *const sets[] = { "█▓▒░▚▞▙▖", "●○▲△■□◆◇·" };
    for (int s = 0; s < 2; s++) {
        const char *spelled = ascii(sets[s]);
        for (size_t i = 0; spelled[i]; i++)
            CHECK(!strchr(spelled + i + 1, spelled[i]));
    }
}

TEST(terminal_fold_goes_on_below_the_text_and_keeps_short_lines)
{
    CHECK(is(folded("short\n\n  lines  stay\n", 20), "short\n\n  lines  stay\n"));
    CHECK(
        is(folded("  memory  fits: 48 of 80 GiB", 20), "  memory  fits: 48\n          of 80 GiB"));
    CHECK(
        is(folded("  code: some words that go on", 16), "  code: some\n    words that\n    go on"));
    CHECK(is(folded("  key     llama/lora/hf", 18), "  key\n    llama/lora/hf"));
    CHECK(is(folded("plain words that go on", 12), "plain words\nthat go on"));
    CHECK(is(folded("a/path/longer/than/a/line x", 12), "a/path/longer/than/a/line\nx"));
}

static const char *table(int columns, const char *spare)
{
    struct out out = { .arena = &test_arena, .columns = columns };
    struct columns t = { .arena = &test_arena, .align = "Lrl", .spare = spare, .least = 6 };
    columns_add_row(&t, (const char *const[]){ "name", "GiB", "as of", NULL });
    columns_add_row(&t, (const char *const[]){ "h100-sxm-80gb", "79.6", "2026-08", NULL });
    columns_write(&t, &out);
    return out_string(&out);
}

TEST(columns_are_cut_then_left_out_and_named)
{
    CHECK(is(table(80, "001"), "name            GiB  as of\nh100-sxm-80gb  79.6  2026-08\n"));
    CHECK(is(table(24, "001"), "name        GiB  as of\nh100-sxm…  79.6  2026-08\n"));
    CHECK(is(table(20, "001"), "name            GiB\nh100-sxm-80gb  79.6\n"
                               "(columns not shown:\n"
                               "as of; widen the\n"
                               "terminal or set\n"
                               "COLUMNS)\n"));
    CHECK(is(table(16, NULL), "…   GiB  as of\n…  79.6  2026-08\n"));
}

TEST(terminal_gets_no_control_from_a_name_and_colours_only_where_styled)
{
    struct out out = { .arena = &test_arena };
    const char *text = "a\tb\n\033[1mbold\033[0m \033]0;title\a \xC2\x9B"
                       "2J \xE2\x80\xAEx é \x9B";
    terminal_disarm(&out, text_of(text), true);
    CHECK(!strcmp(out_string(&out), "a\tb\n\033[1mbold\033[0m ?]0;title? ?2J ?x é ?"));
    struct out plain = { .arena = &test_arena };
    terminal_disarm(&plain, TEXT("\033[1mb\033[2J"), false);
    CHECK(!strcmp(out_string(&plain), "?[1mb?[2J"));
}
