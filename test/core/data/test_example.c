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

// Byte by byte into words, as it is defined.
static uint64_t slow_hash(const unsigned char *at, size_t size)
{
    uint64_t hash = size * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t first = 0; first < size; first += 8) {
        uint64_t word = 0;
        for (size_t i = first; i < size && i < first + 8; i++)
            word |= (uint64_t)at[i] << 8 * (i - first);
        hash = (hash ^ word) * UINT64_C(0xD6E8FEB86659FD93);
        hash ^= hash >> 32;
    }
    return hash;
}

TEST(example_hash_of_every_size_is_the_one_that_results_of_units_hold)
{
    unsigned char bytes[40];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + 200);
    for (size_t size = 0; size <= sizeof bytes; size++)
        CHECK(example_hash((struct text){ (const char *)bytes, size }) == slow_hash(bytes, size));
}
