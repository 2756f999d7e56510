// SPDX-License-Identifier: Apache-2.0
// Rows of every format, good and bad.

#include "core/data/record.h"
#include "test/test.h"

#include <string.h>

static struct record_schema schema;
static struct record record;

// Of a file of two such rows: one alone may be a table.
static enum err detect(const char *row, enum record_format format, const char *fields)
{
    struct text rows[] = { text_of(row), text_of(row) };
    return record_detect(&schema, &test_arena, rows, 2, format, text_of(fields));
}

// Detects the format of a row and reads it.
static bool reads_as(const char *row, enum record_format format)
{
    return !detect(row, RECORD_AUTO, "") && schema.format == format &&
           !record_read(&record, &schema, &test_arena, text_of(row));
}

static struct template_value message(int sequence, size_t index)
{
    return record.sequences[sequence].messages.list->items[index];
}

static bool says(struct template_value of, const char *key, const char *wanted)
{
    const struct template_value *value = template_value_find(of.dict, text_of(key));
    return value && value->kind == TEMPLATE_STRING && text_is(value->string, wanted);
}

TEST(messages_are_read_with_their_tools)
{
    CHECK(
        reads_as("{\"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\", \"messages\": [{\"role\": \"user\", "
                 "\"content\": \"a\\nb\"}, {\"role\": \"assistant\", \"content\": null, "
                 "\"tool_calls\": []}]}",
                 RECORD_MESSAGES));
    CHECK(record.count == 1 && record.sequences[0].kind == RECORD_CHAT);
    CHECK(says(message(0, 0), "role", "user") && says(message(0, 0), "content", "a\nb"));
    CHECK(record.sequences[0].tools.list->count == 1);
    CHECK(!strcmp(schema.sentence, "messages: messages from \"messages\", tools from \"tools\""));
}

TEST(content_in_parts_becomes_text_reasoning_and_calls)
{
    CHECK(reads_as(
        "{\"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": \"reasoning\", "
        "\"value\": \"hm\"}, {\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"text\", "
        "\"value\": \"b\"}, {\"type\": \"tool_call\", \"value\": \"{\\\"name\\\": "
        "\\\"f\\\", \\\"arguments\\\": {}}\"}]}]}",
        RECORD_MESSAGES));
    CHECK(says(message(0, 0), "content", "ab") && says(message(0, 0), "reasoning_content", "hm"));
    const struct template_value *calls =
        template_value_find(message(0, 0).dict, TEXT("tool_calls"));
    CHECK(calls && calls->list->count == 1);
    CHECK(reads_as("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
                   RECORD_MESSAGES));
    CHECK(template_value_find(message(0, 0).dict, TEXT("content"))->kind == TEMPLATE_LIST);
}

TEST(sharegpt_speakers_become_roles)
{
    CHECK(reads_as("{\"conversations\": [{\"from\": \"system\", \"value\": \"s\"}, {\"from\": "
                   "\"human\", \"value\": \"q\"}, {\"from\": \"function_call\", \"value\": "
                   "\"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"x\\\": 1}}\"}, {\"from\": "
                   "\"observation\", \"value\": \"1\"}, {\"from\": \"gpt\", \"value\": \"a\"}], "
                   "\"tools\": \"[]\"}",
                   RECORD_SHAREGPT));
    CHECK(says(message(0, 0), "role", "system") && says(message(0, 1), "role", "user"));
    CHECK(says(message(0, 2), "role", "assistant") && says(message(0, 3), "role", "tool"));
    CHECK(template_value_find(message(0, 2).dict, TEXT("tool_calls")) != NULL);
    CHECK(says(message(0, 4), "content", "a"));
    CHECK(record.sequences[0].tools.kind == TEMPLATE_NONE);
    CHECK(reads_as("{\"conversations\": [{\"role\": \"user\", \"content\": \"q\"}]}",
                   RECORD_MESSAGES));
}

TEST(alpaca_rows_have_an_optional_input_and_history)
{
    CHECK(
        reads_as("{\"instruction\": \"i\", \"input\": \"\", \"response\": \"o\"}", RECORD_ALPACA));
    CHECK(record.sequences[0].kind == RECORD_INSTRUCTION);
    CHECK(text_is(record.sequences[0].completion, "o") && !record.sequences[0].input.size);
    CHECK(reads_as("{\"instruction\": \"i\", \"input\": \"x\", \"output\": \"o\", \"history\": "
                   "[[\"q\", \"a\"]]}",
                   RECORD_ALPACA));
    CHECK(record.sequences[0].kind == RECORD_CHAT && record.sequences[0].prompt_count == 3);
    CHECK(says(message(0, 2), "content", "i\nx"));
}

TEST(prompts_and_completions_are_strings_or_messages)
{
    CHECK(reads_as("{\"prompt\": \"p\", \"completion\": \" c\"}", RECORD_COMPLETION));
    CHECK(record.sequences[0].kind == RECORD_PAIR && text_is(record.sequences[0].prompt, "p"));
    CHECK(reads_as("{\"prompt\": [{\"role\": \"user\", \"content\": \"p\"}], \"completion\": "
                   "[{\"role\": \"assistant\", \"content\": \"c\"}]}",
                   RECORD_COMPLETION));
    CHECK(record.sequences[0].kind == RECORD_CHAT && record.sequences[0].prompt_count == 1);
    CHECK(reads_as("{\"question\": \"p\", \"answer\": \"c\"}", RECORD_QUESTION));
    CHECK(reads_as("{\"text\": \"t\", \"meta\": {\"x\": [1, 2]}}", RECORD_TEXT));
    CHECK(text_is(record.sequences[0].completion, "t"));
}

TEST(a_preference_pair_is_two_sequences)
{
    CHECK(
        reads_as("{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"r\"}", RECORD_PREFERENCE));
    CHECK(record.count == 2 && text_is(record.sequences[1].completion, "r"));
    CHECK(reads_as(
        "{\"chosen\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
        "\"content\": \"c\"}], \"rejected\": [{\"role\": \"user\", \"content\": \"q\"}, "
        "{\"role\": \"assistant\", \"content\": \"r\"}]}",
        RECORD_PREFERENCE));
    CHECK(record.sequences[0].prompt_count == 1 && says(message(1, 1), "content", "r"));
    CHECK(reads_as("{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}], \"chosen\": "
                   "{\"from\": \"gpt\", \"value\": \"c\"}, \"rejected\": {\"from\": \"gpt\", "
                   "\"value\": \"r\"}}",
                   RECORD_PREFERENCE));
    CHECK(record.sequences[0].prompt_count == 1 && says(message(0, 1), "content", "c"));
}

TEST(fields_and_format_override_what_is_found)
{
    const char *row = "{\"query\": \"q\", \"reply\": \"r\", \"text\": \"t\"}";
    CHECK(!detect(row, RECORD_AUTO, "instruction=query,output=reply"));
    CHECK(schema.format == RECORD_ALPACA);
    CHECK(!record_read(&record, &schema, &test_arena, text_of(row)));
    CHECK(text_is(record.sequences[0].prompt, "q") && text_is(record.sequences[0].completion, "r"));
    CHECK(!detect(row, RECORD_TEXT, "text=reply"));
    CHECK(!record_read(&record, &schema, &test_arena, text_of(row)));
    CHECK(text_is(record.sequences[0].completion, "r"));
    CHECK(detect(row, RECORD_MESSAGES, "") == ERR_INPUT && strstr(error_text(), "--fields"));
    CHECK(detect(row, RECORD_AUTO, "nonsense=x") == ERR_USAGE);
    CHECK(detect("{\"a\": 1, \"b\": 2}", RECORD_AUTO, "") == ERR_INPUT);
    CHECK(strstr(error_text(), "a, b") != NULL);
}

TEST(columns_of_a_table_are_read_with_their_nested_json)
{
    struct text names[] = { TEXT("id"), TEXT("messages") };
    struct text cells[] = { TEXT("7"), TEXT("[{\"role\": \"user\", \"content\": \"x\"}]") };
    CHECK(!record_detect_columns(&schema, &test_arena, names, 2, cells, 1, RECORD_AUTO, TEXT("")));
    CHECK(!record_read_columns(&record, &schema, &test_arena, names, cells, 2));
    CHECK(says(message(0, 0), "content", "x"));
}

TEST(a_bad_row_is_refused_with_its_reason)
{
    static const char *const cases[][2] = {
        { "{\"messages\": \"text\"}", "messages" },
        { "{\"messages\": 7}", "is a int; it must be a list" },
        { "{\"messages\": []}", "empty list" },
        { "{\"messages\": [{\"content\": \"x\"}]}", "message 1 has no role" },
        { "{\"messages\": [{\"question\": \"q\", \"answer\": \"a\"}]}",
          "message 1 has no role, but \"answer\"; if the list holds rows" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": 3}]}",
          "the content of message 1 is a int" },
        { "{\"messages\": [\"x\"]}", "message 1 is a str" },
        { "{\"messages\": [{\"from\": \"nobody\", \"value\": \"x\"}]}", "is from \"nobody\"" },
        { "{\"other\": 1}", "has no \"messages\"" },
        { "{\"messages\": [{\"role\": \"user\"}], \"tools\": \"{broken\"}", "tools" },
        { "{\"messages\": [{\"role\": \"user\"}]", "ends too early" },
        { "{\"messages\": [{\"role\": \"user\"}]} trailing", "after the end of the row" },
        { "[1, 2]", "is a list; it must be an object" },
        { "", "not JSON" },
        { "null", "is null; it must be an object" },
        { "no more rows", "is not JSON; it must be an object" },
        { "text", "is not JSON; it must be an object" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"\xff\"}]}", "valid UTF-8" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"\xed\xa0\x80\"}]}", "valid UTF-8" },
    };
    CHECK(!detect("{\"messages\": [], \"tools\": []}", RECORD_AUTO, ""));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(record_read(&record, &schema, &test_arena, text_of(cases[i][0])) == ERR_INPUT);
        CHECK(strstr(error_text(), cases[i][1]) != NULL);
    }
    struct out deep = { .arena = &test_arena };
    out_put(&deep, "{\"messages\": ");
    out_repeat(&deep, '[', 100000);
    CHECK(record_read(&record, &schema, &test_arena, out_view(&deep)) == ERR_INPUT);
}

TEST(many_keys_crowd_no_column_out)
{
    struct out row = { .arena = &test_arena };
    out_put(&row, "{\"meta\": {");
    for (int i = 0; i < 500; i++)
        out_put(&row, "%s\"k%d\": %d", i ? ", " : "", i, i);
    out_put(&row, "}, \"messages\": [{\"role\": \"user\", \"content\": \"q\"}]");
    for (int i = 0; i < 500; i++)
        out_put(&row, ", \"n%d\": %d", i, i);
    out_put(&row, ", \"system\": \"s\", \"extra\": \"");
    out_repeat(&row, 'x', 5000);
    out_put(&row, "\"}");
    CHECK(reads_as(out_string(&row), RECORD_MESSAGES));
    CHECK(text_is(record.sequences[0].system, "s"));
    bool warns = false;
    for (size_t i = 0; i < schema.count; i++)
        warns = warns || (!strcmp(schema.all[i].name, "extra") && schema.all[i].is_text &&
                          schema.all[i].share > 0.05 && !schema.all[i].part);
    CHECK(warns && schema.count < 200);
}

TEST(optional_columns_are_read_in_whatever_row_they_first_appear)
{
    CHECK(!detect("{\"prompt\": \"p\", \"completion\": \"c\"}", RECORD_AUTO, ""));
    struct text late = TEXT("{\"prompt\": \"p\", \"completion\": \"c\", \"system_prompt\": "
                            "\"worse\", \"tools\": \"[{}]\", \"System\": \"s\", \"images\": "
                            "[\"a.png\"], \"system_message\": null}");
    CHECK(!record_read(&record, &schema, &test_arena, late));
    CHECK(text_is(record.sequences[0].system, "s") && record.sequences[0].tools.list->count == 1);
    CHECK(record.sequences[0].image_count == 1);
    CHECK(!detect("{\"instruction\": \"i\", \"output\": \"o\", \"context\": \"x\"}", RECORD_AUTO,
                  ""));
    late = TEXT("{\"instruction\": \"i\", \"output\": \"o\", \"input\": \"y\", \"context\": null, "
                "\"history\": [[\"q\", \"a\"]]}");
    CHECK(!record_read(&record, &schema, &test_arena, late));
    CHECK(says(message(0, 2), "content", "i\ny"));
    CHECK(record_read(&record, &schema, &test_arena,
                      TEXT("{\"instruction\": \"i\", \"output\": \"o\", \"system\": 7}")));
    CHECK(strstr(error_text(), "\"system\" is a int") != NULL);
}

TEST(a_column_that_another_part_has_is_no_optional_one)
{
    CHECK(!detect("{\"input\": \"p\", \"output\": \"c\"}", RECORD_AUTO, ""));
    CHECK(schema.format == RECORD_COMPLETION);
    CHECK(!detect("{\"input\": \"p\", \"chosen\": \"c\", \"rejected\": \"r\"}", RECORD_AUTO, ""));
    CHECK(!record_read(&record, &schema, &test_arena,
                       TEXT("{\"input\": \"p\", \"chosen\": \"c\", \"rejected\": \"r\", "
                            "\"context\": \"x\"}")));
    CHECK(text_is(record.sequences[0].prompt, "p") && text_is(record.sequences[0].input, "x"));
    CHECK(!detect("{\"instruction\": \"i\", \"output\": \"o\"}", RECORD_AUTO, ""));
    CHECK(!record_read(&record, &schema, &test_arena,
                       TEXT("{\"instruction\": \"i\", \"output\": \"o\", \"prompt\": \"x\"}")));
    CHECK(record.sequences[0].kind == RECORD_INSTRUCTION && !record.sequences[0].input.size);
}

TEST(fields_join_a_column_or_are_refused_by_name)
{
    const char *row = "{\"prompt\": \"p\", \"completion\": \"c\", \"Context\": \"x\"}";
    CHECK(!detect(row, RECORD_AUTO, ""));
    CHECK(!record_read(&record, &schema, &test_arena, text_of(row)));
    CHECK(!record.sequences[0].input.size);
    CHECK(!detect(row, RECORD_AUTO, "input=context"));
    CHECK(!record_read(&record, &schema, &test_arena, text_of(row)));
    CHECK(schema.format == RECORD_COMPLETION && text_is(record.sequences[0].input, "x"));
    CHECK(!detect("{\"prompt\": \"p\", \"context\": \"x\"}", RECORD_AUTO, "input=context"));
    CHECK(!record_read(&record, &schema, &test_arena,
                       TEXT("{\"prompt\": \"p\", \"context\": \"x\"}")));
    CHECK(schema.format == RECORD_PROMPT && text_is(record.sequences[0].input, "x"));
    CHECK(record_read(&record, &schema, &test_arena,
                      TEXT("{\"prompt\": [{\"role\": \"user\", \"content\": \"q\"}], "
                           "\"context\": \"x\"}")));
    CHECK(strstr(error_text(), "\"context\" cannot be joined") != NULL);
    CHECK(detect(row, RECORD_AUTO, "history=Context") == ERR_INPUT);
    CHECK(strstr(error_text(), "for history, which format prompt-completion does not read; it "
                               "reads prompt, completion, tools, system, media and input"));
    CHECK(detect(row, RECORD_AUTO, "system=nosuch") == ERR_INPUT);
    CHECK(strstr(error_text(), "system=nosuch") && strstr(error_text(), "prompt, completion, C"));
}

TEST(fields_choose_a_format_that_reads_what_they_name)
{
    const char *row = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}], \"a\": \"x\", "
                      "\"b\": \"y\", \"question\": \"z\"}";
    CHECK(!detect(row, RECORD_AUTO, "instruction=a,output=b"));
    CHECK(schema.format == RECORD_ALPACA);
    CHECK(!detect(row, RECORD_AUTO, "output=b"));
    CHECK(!record_read(&record, &schema, &test_arena, text_of(row)));
    CHECK(schema.format == RECORD_QUESTION && text_is(record.sequences[0].completion, "y"));
    CHECK(!detect(row, RECORD_AUTO, "system=b") && schema.format == RECORD_MESSAGES);
    CHECK(detect(row, RECORD_MESSAGES, "input=a") && strstr(error_text(), "does not read"));
}

// Reads a row after it was detected.
static const struct record_sequence *first_of(const char *row)
{
    bool fine =
        !detect(row, RECORD_AUTO, "") && !record_read(&record, &schema, &test_arena, text_of(row));
    return fine ? &record.sequences[0] : NULL;
}

TEST(lists_of_strings_are_lines_but_answers_are_alternatives)
{
    const struct record_sequence *read = first_of("{\"text\": [\"one\", \"two\"]}");
    CHECK(read && text_is(read->completion, "one\ntwo"));
    read = first_of("{\"prompt\": [\"p\", \"q\"], \"completion\": [\"a\", \"b\"], \"system\": "
                    "[\"s\", \"t\"]}");
    CHECK(read && text_is(read->prompt, "p\nq") && text_is(read->completion, "a"));
    CHECK(text_is(read->system, "s\nt"));
    read = first_of("{\"instruction\": [\"i\", \"j\"], \"input\": [\"x\", \"y\"], \"output\": "
                    "[\"a\", \"b\"]}");
    CHECK(read && text_is(read->prompt, "i\nj") && text_is(read->input, "x\ny"));
    CHECK(text_is(read->completion, "a"));
    CHECK(!first_of("{\"text\": [\"one\", 2]}") && strstr(error_text(), "a list of strings"));
}

TEST(calls_and_results_in_parts_keep_their_names_and_ids)
{
    CHECK(reads_as(
        "{\"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": \"tool_use\", \"id\": "
        "\"t1\", \"name\": \"f\", \"input\": {\"a\": 1}}]}, {\"role\": \"user\", \"content\": "
        "[{\"type\": \"tool_result\", \"tool_use_id\": \"t1\", \"content\": \"r\"}]}]}",
        RECORD_MESSAGES));
    CHECK(record.sequences[0].messages.list->count == 2);
    const struct template_value *calls =
        template_value_find(message(0, 0).dict, TEXT("tool_calls"));
    CHECK(calls && calls->list->count == 1 && says(calls->list->items[0], "id", "t1"));
    const struct template_value *function =
        template_value_find(calls->list->items[0].dict, TEXT("function"));
    CHECK(function && says(*function, "name", "f"));
    CHECK(says(message(0, 1), "role", "tool") && says(message(0, 1), "content", "r"));
    CHECK(says(message(0, 1), "tool_call_id", "t1"));
}

TEST(parts_of_unknown_types_are_refused_by_their_type)
{
    static const char *const cases[][2] = {
        { "{\"type\": \"document\", \"source\": {}}", "a part of type \"document\", which" },
        { "{\"type\": \"tool_result\", \"content\": [{\"type\": \"document\"}]}",
          "a part of type \"document\", which" },
        { "{\"key\": 1}", "a part without a type, which" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *row = text_format(
            &test_arena, "{\"messages\": [{\"role\": \"user\", \"content\": [%s]}]}", cases[i][0]);
        CHECK(!reads_as(row, RECORD_MESSAGES) && strstr(error_text(), cases[i][1]));
        CHECK(strstr(error_text(), "the content of message 1") && strstr(error_text(), "as text"));
    }
}

TEST(only_object_of_a_file_that_holds_a_table_is_refused_and_a_row_is_not)
{
    static const struct {
        const char *object, *layout; // NULL: it is a row
    } cases[] = {
        { "{\"text\": {\"0\": \"a\", \"1\": \"b\"}}", "numbered values" },
        { "{\"prompt\": {\"7\": \"a\"}, \"completion\": {\"7\": \"b\"}}", "numbered values" },
        { "{\"0\": {\"text\": \"a\"}, \"1\": {\"text\": \"b\"}}", "numbered rows" },
        { "{\"columns\": [\"text\"], \"index\": [0], \"data\": [[\"a\"]]}", "split" },
        { "{\"schema\": {\"fields\": []}, \"data\": [{\"text\": \"a\"}]}", "table" },
        { "{\"text\": [\"a\", \"b\"]}", "a list of its values" },
        { "{\"prompt\": [\"a\", \"b\"], \"completion\": [\"c\", \"d\"]}", "a list of its values" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", NULL },
        { "{\"dialog\": [\"a\", \"b\"], \"act\": [1, 2]}", NULL },
        { "{\"chosen\": [{\"role\": \"user\", \"content\": \"a\"}], \"rejected\": [{\"role\": "
          "\"user\", \"content\": \"b\"}]}",
          NULL },
        { "{\"text\": [\"a\", \"b\"], \"id\": 1}", NULL },
        { "{\"text\": [\"a\"]}", NULL },
        { "{\"schema\": \"CREATE TABLE t\", \"data\": [\"a\", \"b\"]}", NULL },
        { "{\"prompt\": \"a\", \"completion\": \"b\", \"meta\": {\"0\": \"c\"}}", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text row = text_of(cases[i].object);
        enum err err = record_detect(&schema, &test_arena, &row, 1, RECORD_AUTO, TEXT(""));
        CHECK(cases[i].layout ? err && strstr(error_text(), cases[i].layout) : !err);
        CHECK(!cases[i].layout || strstr(error_text(), "orient=\"records\", lines=True"));
    }
    struct text row = text_of(cases[5].object);
    CHECK(!record_detect(&schema, &test_arena, &row, 1, RECORD_TEXT, TEXT("")));
}

TEST(rows_without_columns_say_what_the_first_is)
{
    static const char *const cases[][2] = {
        { "[1]", "the first row is a list; each row must be an object" },
        { "\"a\"", "the first row is a string" },
        { "{}", "an empty object" },
        { "{", "is not JSON (column 2: ends too early)" },
        { "{'text': 'a'}", "(column 2: expected a string)" },
        { "plain words", "plain text is named .txt" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(detect(cases[i][0], RECORD_AUTO, "") && strstr(error_text(), cases[i][1]));
}

TEST(rows_in_a_list_within_the_only_object_are_named_with_the_command_that_takes_them_out)
{
    struct text row = TEXT("{\"version\": 1, \"examples\": [{\"text\": \"a\"}]}");
    CHECK(record_detect(&schema, &test_arena, &row, 1, RECORD_AUTO, TEXT("")) == ERR_INPUT);
    CHECK(strstr(error_text(), "jq -c '.[\"examples\"][]'"));
}

TEST(token_ids_are_refused_unless_there_is_text_too)
{
    CHECK(detect("{\"input_ids\": [1, 2], \"labels\": [1, 2]}", RECORD_AUTO, ""));
    CHECK(strstr(error_text(), "the rows are token ids"));
    CHECK(!detect("{\"input_ids\": [1, 2], \"text\": \"a\"}", RECORD_AUTO, ""));
}

TEST(messages_in_pythons_own_text_are_refused_by_that_name)
{
    CHECK(!reads_as("{\"messages\": \"[{'role': 'user', 'content': 'a'}]\"}", RECORD_MESSAGES));
    CHECK(strstr(error_text(), "json.dumps"));
    CHECK(!reads_as("{\"messages\": \"[{]\"}", RECORD_MESSAGES));
    CHECK(!strstr(error_text(), "json.dumps"));
}

TEST(both_turns_in_one_object_are_two_messages)
{
    static const char *const cases[] = {
        "{\"user\": \"q\", \"assistant\": \"a\", \"source\": \"s\"}",
        "{\"human\": \"q\", \"assistant\": \"a\"}",
        "{\"system\": null, \"input\": \"q\", \"output\": \"a\"}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(reads_as(text_format(&test_arena, "{\"conversation\": [%s, %s]}", cases[i], cases[i]),
                       RECORD_MESSAGES));
        CHECK(record.sequences[0].messages.list->count == 4);
        CHECK(says(message(0, 0), "role", "user") && says(message(0, 0), "content", "q"));
        CHECK(says(message(0, 1), "role", "assistant") && says(message(0, 3), "content", "a"));
    }
    CHECK(reads_as("{\"conversation\": [{\"system\": \"s\", \"input\": \"q\", \"output\": \"a\"}]}",
                   RECORD_MESSAGES));
    CHECK(says(message(0, 0), "role", "system") && says(message(0, 2), "content", "a"));
}

TEST(numbers_and_booleans_are_answers)
{
    static const char *const cases[][2] = {
        { "{\"question\": \"1+1?\", \"answer\": 2}", "2" },
        { "{\"question\": \"1+1?\", \"answer\": [-2.5, 3]}", "-2.5" },
        { "{\"prompt\": \"true?\", \"completion\": true}", "true" },
        { "{\"instruction\": \"i\", \"output\": 123456789012345678901234567890}",
          "123456789012345678901234567890" },
        { "{\"prompt\": \"p\", \"chosen\": 1, \"rejected\": false}", "1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct record_sequence *read = first_of(cases[i][0]);
        CHECK(read && text_is(read->completion, cases[i][1]));
    }
}

TEST(history_as_json_text_is_read_and_other_text_refused)
{
    const struct record_sequence *read = first_of("{\"instruction\": \"i\", \"output\": \"o\", "
                                                  "\"history\": \" [ [\\\"q\\\", \\\"a\\\"] ]\"}");
    CHECK(read && read->kind == RECORD_CHAT && read->prompt_count == 3);
    read = first_of("{\"instruction\": \"i\", \"output\": \"o\", \"history\": \"[]\"}");
    CHECK(read && read->kind == RECORD_INSTRUCTION);
    CHECK(!first_of("{\"instruction\": \"i\", \"output\": \"o\", \"history\": \"We spoke.\"}"));
    CHECK(strstr(error_text(), "\"history\" is a str; it must be a list of [question, answer]"));
}

TEST(two_columns_of_one_name_are_refused_where_they_are_read)
{
    struct text names[] = { TEXT("id"), TEXT("text"), TEXT("id"), TEXT("text") };
    struct text cells[] = { TEXT("1"), TEXT("a"), TEXT("2"), TEXT("b") };
    CHECK(!record_detect_columns(&schema, &test_arena, names, 3, cells, 1, RECORD_AUTO, TEXT("")));
    CHECK(record_detect_columns(&schema, &test_arena, names, 4, cells, 1, RECORD_AUTO, TEXT("")) ==
          ERR_INPUT);
    CHECK(strstr(error_text(), "two columns named text") != NULL);
}

TEST(rows_of_two_formats_are_read_as_most_of_them_if_the_first_is_one)
{
    const struct text chat = TEXT("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
                                  "{\"role\": \"assistant\", \"content\": \"b\"}]}");
    const struct text pair = TEXT("{\"prompt\": \"a\", \"completion\": \"b\"}");
    const struct text more[] = { pair, pair, chat, pair }, less[] = { pair, chat, chat, chat };
    CHECK(!record_detect(&schema, &test_arena, more, 4, RECORD_AUTO, TEXT("")));
    CHECK(!record_read(&record, &schema, &test_arena, pair));
    CHECK(record_read(&record, &schema, &test_arena, chat) == ERR_INPUT);
    CHECK(!record_detect(&schema, &test_arena, less, 4, RECORD_AUTO, TEXT("")));
    CHECK(!record_read(&record, &schema, &test_arena, chat));
}
