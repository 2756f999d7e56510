// SPDX-License-Identifier: Apache-2.0
// Escaping of untrusted text for HTML, Markdown, CSV and terminals.

#include "base/markup.h"

#include "test/test.h"

#include <string.h>

static const char *put(enum markup_form form, const char *text, size_t most)
{
    struct out out = { .arena = &test_arena };
    markup_put(&out, form, text_of(text), most);
    return out_string(&out);
}

TEST(markup_shows_html_as_text)
{
    CHECK(!strcmp(put(MARKUP_HTML, "<script>alert('1' & \"2\")</script>", 99),
                  "&lt;script&gt;alert(&#39;1&#39; &amp; &quot;2&quot;)&lt;/script&gt;"));
}

TEST(markup_shows_characters_that_would_reverse_or_hide_text)
{
    CHECK(!strcmp(put(MARKUP_HTML, "a\xE2\x80\xAEgnp.exe", 99), "a⟨202E⟩gnp.exe"));
    CHECK(!strcmp(put(MARKUP_PLAIN, "\x1b[31mred\x07", 99), "⟨001B⟩[31mred⟨0007⟩"));
    CHECK(!strcmp(put(MARKUP_PLAIN, "zero\xE2\x80\x8Bwidth\xEF\xBB\xBF", 99),
                  "zero⟨200B⟩width⟨FEFF⟩"));
    CHECK(!strcmp(put(MARKUP_PLAIN, "two\nlines\tand", 99), "two lines and"));
}

TEST(markup_replaces_bytes_that_are_not_utf8)
{
    CHECK(!strcmp(put(MARKUP_HTML, "a\xff\xc0\xafz", 99), "a���z"));
    CHECK(!strcmp(put(MARKUP_HTML, "\xed\xa0\x80", 99), "���")); // a surrogate
    CHECK(!strcmp(put(MARKUP_HTML, "cut \xe2\x82", 99), "cut ��"));
}

TEST(markup_shortens_long_text_with_an_ellipsis)
{
    CHECK(!strcmp(put(MARKUP_PLAIN, "abcdef", 6), "abcdef"));
    CHECK(!strcmp(put(MARKUP_PLAIN, "abcdefg", 6), "abcde…"));
    CHECK(!strcmp(put(MARKUP_PLAIN, "äöüß", 3), "äö…"));
}

TEST(markup_in_markdown_makes_no_link_image_or_cell)
{
    CHECK(!strcmp(put(MARKUP_MARKDOWN, "[x](javascript:1)|![y]<b>", 99),
                  "\\[x\\]\\(javascript:1\\)\\|\\!\\[y\\]&lt;b&gt;"));
    CHECK(!strcmp(put(MARKUP_MARKDOWN, "http://x", 99), "http\\://x"));
}

TEST(markup_in_csv_is_one_cell_and_no_formula)
{
    CHECK(!strcmp(put(MARKUP_CSV, "a,\"b\"\nc", 99), "\"a,\"\"b\"\" c\""));
    CHECK(!strcmp(put(MARKUP_CSV, "=HYPERLINK(1)", 99), "\"'=HYPERLINK(1)\""));
}
