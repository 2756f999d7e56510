// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "test/test.h"

#include <float.h>
#include <string.h>

static bool is(const char *found, const char *wanted)
{
    return !strcmp(found, wanted);
}

TEST(text_of_nothing_is_empty_everywhere)
{
    struct text none = { 0 }, piece;
    CHECK(text_is(none, "") && text_equal(none, TEXT("")) && !text_trim(none).size);
    CHECK(!text_next(&none, ',', &piece) && text_of(NULL).size == 0);
    CHECK(*text_copy(&test_arena, none) == 0);
}

TEST(text_next_gives_every_piece_also_empty_ones)
{
    struct text rest = TEXT(",a,,b,"), piece;
    const char *wanted[] = { "", "a", "", "b", "" };
    for (int i = 0; i < 5; i++)
        CHECK(text_next(&rest, ',', &piece) && text_is(piece, wanted[i]));
    CHECK(!text_next(&rest, ',', &piece));
}

TEST(text_out_grows_over_any_size_and_stays_terminated)
{
    struct out out = { .arena = &test_arena };
    CHECK(is(out_string(&out), "") && out_view(&out).size == 0);
    for (int i = 0; i < 3000; i++)
        out_put(&out, "%d,%s", i, i % 7 ? "" : "abcdefghij");
    out_repeat(&out, '-', 1000);
    out_repeat(&out, '-', -5);
    CHECK(strlen(out_string(&out)) == out.size && !strncmp(out.at, "0,abcdefghij1,2,", 16));
}

TEST(text_numbers_are_spelled_for_people)
{
    struct arena *a = &test_arena;
    CHECK(is(text_bytes(a, 0), "0 B") && is(text_bytes(a, 1023), "1023 B"));
    CHECK(is(text_bytes(a, 1024), "1.00 KiB") && is(text_bytes(a, 44238000000), "41.2 GiB"));
    CHECK(is(text_count(a, 512), "512") && is(text_count(a, 9999), "9,999"));
    CHECK(is(text_count(a, 21400000), "21.4 M") && is(text_count(a, 8.03e9), "8.03 B"));
    CHECK(is(text_commas(a, 52002), "52,002") && is(text_commas(a, -1234567), "-1,234,567"));
    CHECK(is(text_commas(a, -123), "-123") && is(text_commas(a, 0), "0"));
    CHECK(is(text_commas(a, INT64_MIN), "-9,223,372,036,854,775,808"));
    CHECK(is(text_seconds(a, 15120), "4 h 12 min") && is(text_seconds(a, 0.012), "12.0 ms"));
    CHECK(is(text_seconds(a, 3599.6), "1 h 00 min") && is(text_seconds(a, 3599), "59 min 59 s"));
    CHECK(is(text_seconds(a, 2705 * 86400.0), "2,705 days"));
    CHECK(is(text_usd(a, 14.2), "$14.20") && is(text_usd(a, 1240), "$1,240"));
    CHECK(is(text_share(a, 0.0312), "3.1 %"));
}

TEST(text_numbers_beyond_reason_are_still_words)
{
    struct arena *a = &test_arena;
    const double odd[] = { NAN, INFINITY, -INFINITY, 1e30, -1e30, DBL_MAX, 5e-324, -0.0 };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        const char *said[] = { text_bytes(a, odd[i]), text_count(a, odd[i]),
                               text_share(a, odd[i]), text_seconds(a, odd[i]),
                               text_hours(a, odd[i]), text_usd(a, odd[i]) };
        for (int j = 0; j < 6; j++)
            CHECK(*said[j] && !strstr(said[j], "nan") && !strstr(said[j], "inf"));
    }
    CHECK(is(text_hours(a, 1e30), "1e+30") && is(text_count(a, NAN), "unknown"));
}

TEST(text_reads_what_people_write)
{
    double d;
    int64_t n;
    CHECK(!text_read_number(&d, TEXT(" 21.4M ")) && d == 21.4e6);
    CHECK(!text_read_number(&d, TEXT("1e6")) && d == 1e6);
    CHECK(!text_read_number(&d, TEXT("-2.5E-3")) && d == -2.5e-3);
    CHECK(!text_read_number(&d, TEXT("8B")) && d == 8e9);
    CHECK(!text_read_count(&n, TEXT("21.4M")) && n == 21400000);
    CHECK(!text_read_bytes(&d, TEXT("80 GiB")) && d == 80.0 * (1 << 30));
    CHECK(!text_read_seconds(&d, TEXT("1.5h")) && d == 5400);
    CHECK(!text_read_share(&d, TEXT("20%")) && fabs(d - 0.2) < 1e-15);
    CHECK(!text_read_rate(&d, TEXT("3.35TB/s")) && d == 3.35e12);
}

TEST(text_reads_dollars_and_prices_as_people_write_them)
{
    static const char *const dollars[] = { "2.49",    "$2.49",    "2.49$",        "$ 2.49",
                                           "US$2.49", "2.49 USD", "2.49 dollars", "USD 2.49" };
    static const char *const hours[] = {
        "", "/gpu-h", "/GPU-hour", "/gpuh", "/gpu/hr", " / gpu h"
    };
    static const char *const bad[] = { "",       "$",          "USD", "2.49 EUR", "$$2.49",
                                       "$2.49$", "2.49/h",     "20/", "2.49/gpu", "2,49",
                                       "/gpu-h", "2.49/month", "free" };
    double usd;
    bool per_gpu;
    for (size_t i = 0; i < sizeof dollars / sizeof *dollars; i++) {
        CHECK(!text_read_usd(&usd, text_of(dollars[i])) && usd == 2.49);
        for (size_t j = 0; j < sizeof hours / sizeof *hours; j++) {
            const char *price = text_format(&test_arena, "%s%s", dollars[i], hours[j]);
            CHECK(!text_read_price(&usd, &per_gpu, text_of(price)) && usd == 2.49 && per_gpu);
        }
    }
    CHECK(!text_read_usd(&usd, TEXT("$5k")) && usd == 5000);
    CHECK(!text_read_usd(&usd, TEXT("$1,240")) && usd == 1240 && text_read_usd(&usd, TEXT("1,24")));
    CHECK(!text_read_price(&usd, &per_gpu, TEXT("$20/h")) && usd == 20 && !per_gpu);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(text_read_usd(&usd, text_of(bad[i])) &&
              strstr(error_text(), "such as 2.49 or $2.49"));
}

TEST(text_reads_times_as_people_and_the_program_write_them)
{
    static const struct {
        const char *text;
        double seconds;
    } cases[] = { { "24h", 86400 },        { "1h30m", 5400 },       { "1d12h", 129600 },
                  { "4 h 12 min", 15120 }, { "24 hrs", 86400 },     { "1 week", 604800 },
                  { "30 seconds", 30 },    { "12.0 ms", 0.012 },    { "2.5e3s", 2500 },
                  { "36 min 05 s", 2165 }, { "3.25 days", 280800 }, { "90", 90 } };
    static const char *const bad[] = { "",   "soon",     "5 5", "1h 30", "1h-30m", "1h30x",    "h",
                                       "1e", "1h1e999h", "nan", "1:30",  "1,5h",   "1,23 days" };
    double d;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum err err = text_read_seconds(&d, text_of(cases[i].text));
        test_check(!err && fabs(d / cases[i].seconds - 1) < 1e-12, cases[i].text, __FILE__,
                   __LINE__);
    }
    for (double s = 0.001; s < 1e9; s *= 1.7) {
        CHECK(!text_read_seconds(&d, text_of(text_seconds(&test_arena, s))));
        CHECK_NEAR(d, s, 0.01);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(text_read_seconds(&d, text_of(bad[i])) &&
              strstr(error_text(), "24h, 90min or 1d12h"));
}

TEST(text_reads_binary_units_of_a_count)
{
    int64_t n;
    CHECK(!text_read_count(&n, TEXT("32k")) && n == 32000);
    CHECK(!text_read_count(&n, TEXT("32Ki")) && n == 32768);
    CHECK(!text_read_count(&n, TEXT("2 Mi")) && n == 2097152);
}

TEST(text_refuses_what_is_no_number)
{
    static const char *const bad[] = { "",    "nan",  "inf",  "0x10", "--5",    "1e999", "1.2.3",
                                       "M",   "5 5",  "1e",   "+-1",  "1e308B", "8 Q",   "..",
                                       "1e+", "five", "1,00", "\x01", "-",      ".",     "e5" };
    double d;
    int64_t n;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(text_read_number(&d, text_of(bad[i])) == ERR_INPUT);
        CHECK(text_read_count(&n, text_of(bad[i])) == ERR_INPUT);
    }
    CHECK(text_read_count(&n, TEXT("1234567.5")) == ERR_INPUT);
    CHECK(text_read_count(&n, TEXT("1e30")) == ERR_INPUT && strstr(error_text(), "too large"));
    CHECK(text_read_number(&d, TEXT("5\0M")) == ERR_INPUT);
}

TEST(text_sentences_quote_a_giant_value_briefly)
{
    char giant[100000];
    memset(giant, '9', sizeof giant);
    giant[0] = 'x';
    double d;
    CHECK(text_read_number(&d, (struct text){ giant, sizeof giant }) == ERR_INPUT);
    CHECK(strstr(error_text(), "is not a number") && strlen(error_text()) < 100);
    memset(giant, '9', sizeof giant);
    CHECK(text_read_number(&d, (struct text){ giant, sizeof giant }) == ERR_INPUT);
    CHECK(text_precision((size_t)1 << 40, INT_MAX) == INT_MAX);
}

TEST(text_nearest_finds_a_slip_and_nothing_far)
{
    static const char *const names[] = { "h100-sxm", "a100-80gb", "rtx-4090" };
    CHECK(is(text_nearest(TEXT("H100 SMX"), names, 3), "h100-sxm"));
    CHECK(is(text_nearest(TEXT("rtx4090"), names, 3), "rtx-4090"));
    CHECK(!text_nearest(TEXT("completely different"), names, 3));
    CHECK(!text_nearest(TEXT("x"), names, 0));
    char giant[5000];
    memset(giant, 'z', sizeof giant);
    CHECK(!text_nearest((struct text){ giant, 40 }, names, 3));
    text_nearest((struct text){ giant, sizeof giant }, names, 3); // must not run over its table
}

TEST(text_ends_with_itself_and_its_tail)
{
    CHECK(text_ends(TEXT("a.weight"), ".weight") && text_ends(TEXT("abc"), "abc"));
    CHECK(text_ends(TEXT("abc"), "") && text_ends(TEXT(""), ""));
    CHECK(!text_ends(TEXT("abc"), "ab") && !text_ends(TEXT("bc"), "abc"));
}

TEST(text_reads_a_count_with_commas_between_thousands_alone)
{
    int64_t n = 0;
    CHECK(!text_read_count(&n, TEXT("10,000,000")) && n == 10000000);
    CHECK(!text_read_count(&n, TEXT(" 1,024 ")) && n == 1024);
    static const char *const bad[] = { "1,5",    "1,5M",     "10,00",  ",000",   "1000,000",
                                       "1,,000", "1,000,00", "1,000,", "1,000.5" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(text_read_count(&n, text_of(bad[i])) == ERR_INPUT);
    double x;
    CHECK(text_read_number(&x, TEXT("1,500")) == ERR_INPUT); // it could be 1.5
}

TEST(text_bytes_apart_has_the_digits_that_tell_two_sizes_apart)
{
    const double gib = 1024.0 * 1024 * 1024;
    CHECK(!strcmp(text_bytes_apart(&test_arena, 14.84 * gib, 14.80 * gib), "14.84 GiB"));
    CHECK(!strcmp(text_bytes_apart(&test_arena, 14.80 * gib, 14.84 * gib), "14.80 GiB"));
    CHECK(!strcmp(text_bytes_apart(&test_arena, 27.7 * gib, 24 * gib), "27.7 GiB"));
    CHECK(!strcmp(text_bytes_apart(&test_arena, gib, gib), "1.00 GiB"));
}

TEST(text_of_one_thing_has_no_plural)
{
    CHECK(!*text_plural(1) && !strcmp(text_plural(0), "s") && !strcmp(text_plural(2), "s"));
    CHECK(!strcmp(text_plural(1.5), "s"));
}
