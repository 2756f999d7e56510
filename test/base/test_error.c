// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>

TEST(error_text_is_the_last_sentence_and_can_be_prefixed)
{
    CHECK(fail(ERR_INPUT, "row %d", 3) == ERR_INPUT && !strcmp(error_text(), "row 3"));
    CHECK(error_prefix(ERR_USAGE, "%s: ", "file") == ERR_USAGE);
    CHECK(!strcmp(error_text(), "file: row 3"));
}

TEST(error_text_may_be_part_of_the_next_sentence)
{
    fail(ERR_INPUT, "inner");
    fail(ERR_INPUT, "outer: %s; %s", error_text(), error_text());
    CHECK(!strcmp(error_text(), "outer: inner; inner"));
}

TEST(error_text_of_any_length_keeps_its_beginning)
{
    char long_text[5000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    fail(ERR_INPUT, "%s", long_text);
    CHECK(strlen(error_text()) == 1023);
    error_prefix(ERR_INPUT, "file:1: ");
    CHECK(!strncmp(error_text(), "file:1: xxx", 11) && strlen(error_text()) == 1023);
    error_prefix(ERR_INPUT, "%s", long_text);
    CHECK(strlen(error_text()) == 1023);
}

TEST(error_text_sends_no_escape_sequence_to_a_terminal)
{
    fail(ERR_INPUT, "\"%s\" is odd", "\033[2J\a\x7F");
    CHECK(!strcmp(error_text(), "\"?[2J??\" is odd"));
    fail(ERR_INPUT, "%s",
         "\xC2\x9B"
         "2J a\xE2\x80\xAE"
         "b \x9B"
         "c é");
    CHECK(!strcmp(error_text(), "?2J a?b ?c é"));
    fail(ERR_INPUT, "%s: cannot be opened", "none\nforged line");
    CHECK(!strcmp(error_text(), "none forged line: cannot be opened"));
    error_prefix(ERR_INPUT, "%s: ", "\033]0;");
    CHECK(!strncmp(error_text(), "?]0;: none", 10));
}

TEST(error_codes_are_listed_once_each_with_a_meaning)
{
    static const int codes[] = { OK,         ERR_ANSWER, ERR_USAGE, ERR_INPUT, ERR_UNAVAILABLE,
                                 ERR_MEMORY, ERR_BUG };
    size_t count = 0;
    for (const struct error_code *code = error_codes; code->name; code++, count++) {
        CHECK(count < sizeof codes / sizeof *codes && code->number == codes[count]);
        CHECK(*code->name && *code->meaning);
    }
    CHECK(count == sizeof codes / sizeof *codes);
}
