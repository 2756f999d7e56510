// SPDX-License-Identifier: Apache-2.0
// Rows counted with the built-in vocabulary, and names of templates.

#include "core/data/example.h"

#include "test/test.h"

#include <string.h>

// Counts the rows of a text with the built-in vocabulary; -1 for an invalid row.
static int64_t count_rows(const char *name, const char *text, int64_t *tokens, int64_t *labelled,
                          enum chat_labels labels)
{
    struct example_rule rule = { .chat.labels = labels };
    struct chat_format format = { 0 };
    struct example_worker worker;
    CHECK(example_rule_estimate(&rule, &test_arena, &format, "llama-3.1-8b") == OK);
    CHECK(example_rule_format(&rule, &test_arena, &format) == OK);
    CHECK(example_worker_init(&worker, &rule) == OK);
    struct lines rows = { .cutter.format = lines_guess(name, text_of(text)),
                          .at = text,
                          .end = text + strlen(text),
                          .next_line = 1 };
    struct record_schema schema;
    struct example_table table = { .schema = &schema };
    CHECK(example_detect(&schema, &test_arena, &rows, &table, RECORD_AUTO, (struct text){ 0 }) ==
          OK);
    int64_t count = 0;
    for (struct text row; lines_next(&rows, &row); count++) {
        struct record record;
        struct chat_text rendered;
        struct example example = { 0 };
        if (example_read(&record, &test_arena, &table, &rows, row))
            continue;
        CHECK(chat_render(&worker.chat, &rendered, &record.sequences[0]) == OK);
        example_count(&worker, &example, &rendered);
        *tokens += example.tokens;
        *labelled += example.labelled;
    }
    example_worker_release(&worker);
    return count;
}

TEST(example_never_labels_more_tokens_than_there_are)
{
    const char *rows = "{\"messages\":[{\"role\":\"user\",\"content\":\"one two three\"},"
                       "{\"role\":\"assistant\",\"content\":\"four\"}]}\n{\"messages\":5}\n";
    int64_t tokens = 0, all = 0, same = 0, answer = 0;
    CHECK(count_rows("a.jsonl", rows, &tokens, &all, CHAT_ALL) == 2);
    CHECK(tokens > 4 && all == tokens);
    CHECK(count_rows("a.jsonl", rows, &same, &answer, CHAT_ASSISTANT) == 2);
    CHECK(same == tokens && answer > 0 && answer < tokens);
}

TEST(example_gives_different_templates_different_names)
{
    struct example_rule rule = { .template_name = "folder/chat_template.jinja" }, other = rule;
    struct chat_format a = { .source = TEXT("{{ messages }}") }, b = { .source = TEXT("{{ 1 }}") };
    CHECK(example_rule_format(&rule, &test_arena, &a) == OK);
    CHECK(example_rule_format(&other, &test_arena, &b) == OK);
    CHECK(!strncmp(rule.template_name, "chat_template.jinja (", 21));
    CHECK(strcmp(rule.template_name, other.template_name));
    CHECK(example_hash(TEXT("abc")) != example_hash(TEXT("abd")));
}

TEST(example_hash_changes_with_every_bit_and_with_the_size)
{
    char bytes[100] = { 0 };
    for (size_t size = 0; size <= sizeof bytes; size++) {
        struct text text = { bytes, size };
        uint64_t hash = example_hash(text);
        CHECK(hash == example_hash((struct text){ arena_copy(&test_arena, bytes, size), size }));
        CHECK(!size || hash != example_hash((struct text){ bytes, size - 1 }));
        for (size_t bit = 0; bit < 8 * size; bit++) {
            bytes[bit / 8] ^= (char)(1 << bit % 8);
            CHECK(example_hash(text) != hash);
            bytes[bit / 8] ^= (char)(1 << bit % 8);
        }
    }
}

TEST(example_hash_differs_when_two_words_change_places)
{
    char bytes[96];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i / 8);
    struct text text = { bytes, sizeof bytes };
    uint64_t hash = example_hash(text);
    for (size_t i = 0; i < 12; i++)
        for (size_t k = 0; k < i; k++) {
            memset(bytes + 8 * i, (int)k, 8);
            memset(bytes + 8 * k, (int)i, 8);
            CHECK(example_hash(text) != hash);
            memset(bytes + 8 * i, (int)i, 8);
            memset(bytes + 8 * k, (int)k, 8);
        }
}

TEST(text_that_is_not_utf8_is_a_bad_row)
{
    struct lines rows = { .cutter.format = LINES_TEXT };
    struct example_table table = { 0 };
    struct record record;
    CHECK(!example_read(&record, &test_arena, &table, &rows, TEXT("caf\xc3\xa9")));
    CHECK(example_read(&record, &test_arena, &table, &rows, TEXT("caf\xe9")) == ERR_INPUT);
    CHECK(strstr(error_text(), "not valid UTF-8") != NULL);
}
