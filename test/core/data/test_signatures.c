// SPDX-License-Identifier: Apache-2.0
// One row in the shape of each public data set, and the text that a trainer makes of it.

#include "core/data/chat.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>

// Rows are written with ' in place of ". The template shows who speaks; </> ends a text.
static const struct {
    const char *from, *row;
    enum record_format format;
    const char *text; // the second answer of a pair after " | "
} rows[] = {
    // conversations
    { "HuggingFaceH4/ultrachat_200k",
      "{'prompt': 'q', 'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
      "'content': 'a'}]}",
      RECORD_MESSAGES, "[user]q[assistant]a" },
    { "ShareGPT_Vicuna_unfiltered",
      "{'id': '1', 'conversations': [{'from': 'human', 'value': 'q'}, {'from': 'gpt', 'value': "
      "'a'}]}",
      RECORD_SHAREGPT, "[user]q[assistant]a" },
    { "ShareGPT, other speakers",
      "{'conversations': [{'from': 'user', 'value': 'q'}, {'from': 'bing', 'value': 'a'}, {'from': "
      "'Human', 'value': 'r'}, {'from': 'bard', 'value': 'b'}]}",
      RECORD_SHAREGPT, "[user]q[assistant]a[user]r[assistant]b" },
    { "lmsys/lmsys-chat-1m",
      "{'model': 'm', 'conversation': [{'content': 'q', 'role': 'user'}, {'content': 'a', 'role': "
      "'assistant'}]}",
      RECORD_MESSAGES, "[user]q[assistant]a" },
    { "conversations of role and value",
      "{'conversations': [{'role': 'user', 'value': 'q'}, {'role': 'assistant', 'value': 'a'}]}",
      RECORD_MESSAGES, "[user]q[assistant]a" },
    { "conversations of role and text",
      "{'conversations': [{'role': 'prompter', 'text': 'q'}, {'role': 'assistant', 'text': 'a'}]}",
      RECORD_MESSAGES, "[user]q[assistant]a" },
    { "conversations of from and content",
      "{'conversations': [{'from': 'human', 'content': 'q'}, {'from': 'gpt', 'content': 'a'}]}",
      RECORD_SHAREGPT, "[user]q[assistant]a" },
    { "teknium/OpenHermes-2.5",
      "{'system_prompt': 's', 'conversations': [{'from': 'human', 'value': 'q', 'weight': null}, "
      "{'from': 'gpt', 'value': 'a'}]}",
      RECORD_SHAREGPT, "[system]s[user]q[assistant]a" },
    { "NousResearch/hermes-function-calling-v1",
      "{'conversations': [{'from': 'system', 'value': 's <tools>t</tools>'}, {'from': 'human', "
      "'value': 'q'}, {'from': 'gpt', 'value': '<tool_call>c</tool_call>'}, {'from': 'tool', "
      "'value': 'r'}]}",
      RECORD_SHAREGPT,
      "[system]s <tools>t</tools>[user]q[assistant]<tool_call>c</tool_call>[tool]r" },
    { "glaiveai/glaive-function-calling-v2",
      "{'system': 'SYSTEM: s', 'chat': 'USER: q\\n\\n\\nASSISTANT: <functioncall> c "
      "<|endoftext|>\\n\\n\\nFUNCTION RESPONSE: r\\n\\n\\nASSISTANT: a <|endoftext|>'}",
      RECORD_MESSAGES, "[system]s[user]q[assistant]<functioncall> c[tool]r[assistant]a" },
    { "llamafactory/glaive_toolcall_en",
      "{'conversations': [{'from': 'human', 'value': 'q'}, {'from': 'function_call', 'value': "
      "'{\\'name\\': \\'f\\', \\'arguments\\': {}}'}, {'from': 'observation', 'value': 'r'}, "
      "{'from': 'gpt', 'value': 'a'}], 'tools': '[{\\'name\\': \\'f\\'}]'}",
      RECORD_SHAREGPT,
      "[system]# Tools\n\n<tools>\n{\"name\": "
      "\"f\"}\n</tools>[user]q[assistant]<tool_call>\n{\"name\": \"f\", \"arguments\": "
      "{}}\n</tool_call>[tool]r[assistant]a" },
    { "OpenAI fine-tuning files, function_call",
      "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': null, "
      "'function_call': {'name': 'f', 'arguments': '{}'}}, {'role': 'function', 'name': 'f', "
      "'content': 'r'}], 'functions': [{'name': 'f'}]}",
      RECORD_MESSAGES,
      "[system]# Tools\n\n<tools>\n{\"name\": "
      "\"f\"}\n</tools>[user]q[assistant]<tool_call>\n{\"name\": \"f\", \"arguments\": "
      "\"{}\"}\n</tool_call>[tool]r" },
    { "OpenAI fine-tuning files, tool_calls",
      "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'tool_calls': [{'id': "
      "'1', 'type': 'function', 'function': {'name': 'f', 'arguments': '{}'}}]}, {'role': 'tool', "
      "'tool_call_id': '1', 'content': 'r'}]}",
      RECORD_MESSAGES,
      "[user]q[assistant]<tool_call>\n{\"name\": \"f\", \"arguments\": "
      "\"{}\"}\n</tool_call>[tool]r" },
    { "messages with reasoning_content",
      "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'reasoning_content': "
      "'hm', 'content': 'a'}]}",
      RECORD_MESSAGES, "[user]q[assistant]<think>\nhm\n</think>\n\na" },
    { "HuggingFaceH4/Multilingual-Thinking (harmony)",
      "{'messages': [{'role': 'user', 'content': 'q', 'thinking': null}, {'role': 'assistant', "
      "'content': 'a', 'thinking': 'hm'}]}",
      RECORD_MESSAGES, "[user]q[assistant]<think>\nhm\n</think>\n\na" },
    { "Gemini tuning files",
      "{'systemInstruction': {'parts': [{'text': 's'}]}, 'contents': [{'role': 'user', 'parts': "
      "[{'text': 'q'}]}, {'role': 'model', 'parts': [{'text': 'a'}, {'text': 'b'}]}]}",
      RECORD_MESSAGES, "[system]s[user]q[assistant]ab" },
    { "stingning/ultrachat", "{'id': '0', 'data': ['q', 'a', 'r', 'b']}", RECORD_MESSAGES,
      "[user]q[assistant]a[user]r[assistant]b" },
    { "daily_dialog", "{'dialog': ['q', 'a'], 'act': [1, 2]}", RECORD_MESSAGES,
      "[user]q[assistant]a" },
    { "dialogue as messages",
      "{'dialogue': [{'speaker': 'user', 'text': 'q'}, {'speaker': 'assistant', 'text': 'a'}]}",
      RECORD_MESSAGES, "[user]q[assistant]a" },
    { "chat as messages",
      "{'chat': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'a'}]}",
      RECORD_MESSAGES, "[user]q[assistant]a" },
    { "OpenAI batch files",
      "{'custom_id': '1', 'body': {'model': 'm', 'messages': [{'role': 'user', 'content': 'q'}]}}",
      RECORD_MESSAGES, "[user]q" },
    { "liuhaotian/LLaVA-Instruct-150K",
      "{'image': 'x.jpg', 'conversations': [{'from': 'human', 'value': '<image> q'}, {'from': "
      "'gpt', 'value': 'a'}]}",
      RECORD_SHAREGPT, "[user]<image> q[assistant]a" },
    { "OpenAI vision files",
      "{'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'q'}, {'type': "
      "'image_url', 'image_url': {'url': 'u'}}]}]}",
      RECORD_MESSAGES, "[user]q" },
    { "OpenAssistant/oasst1 (trees.jsonl.gz)",
      "{'message_tree_id': '1', 'tree_state': 'ready_for_export', 'prompt': {'message_id': '1', "
      "'text': 'q', 'role': 'prompter', 'replies': [{'text': 'a', 'role': 'assistant', 'replies': "
      "[{'text': 'r', 'role': 'prompter', 'replies': [{'text': 'b', 'role': 'assistant', "
      "'replies': "
      "[]}]}]}, {'text': 'c', 'role': 'assistant', 'replies': [{'text': 's', 'role': 'prompter', "
      "'replies': []}, {'text': 't', 'role': 'prompter', 'replies': []}]}, {'text': 'd', 'role': "
      "'assistant', 'deleted': true, 'replies': []}]}}",
      RECORD_TREE, "[user]q[assistant]a[user]r[assistant]b | [user]q[assistant]c" },
    // instructions
    { "tatsu-lab/alpaca", "{'instruction': 'i', 'input': 'x', 'output': 'o', 'text': 'long'}",
      RECORD_ALPACA, "[user]i\nx[assistant]o" },
    { "databricks/databricks-dolly-15k",
      "{'instruction': 'i', 'context': 'c', 'response': 'o', 'category': 'k'}", RECORD_ALPACA,
      "[user]i\nc[assistant]o" },
    { "capitalised names", "{'Instruction': 'i', 'Response': 'o'}", RECORD_ALPACA,
      "[user]i[assistant]o" },
    { "Muennighoff/natural-instructions", "{'definition': 'i', 'inputs': 'x', 'targets': 'o'}",
      RECORD_ALPACA, "[user]i\nx[assistant]o" },
    { "output as a list", "{'instruction': 'i', 'output': ['o']}", RECORD_ALPACA,
      "[user]i[assistant]o" },
    { "openai/gsm8k", "{'question': 'q', 'answer': 'a'}", RECORD_QUESTION, "[user]q[assistant]a" },
    { "b-mc2/sql-create-context", "{'question': 'q', 'context': 'c', 'answer': 'a'}",
      RECORD_QUESTION, "[user]q\nc[assistant]a" },
    { "rajpurkar/squad",
      "{'context': 'c', 'question': 'q', 'answers': {'text': ['a', 'b'], 'answer_start': [1, 2]}}",
      RECORD_QUESTION, "[user]q\nc[assistant]a" },
    { "Open-Orca/OpenOrca", "{'system_prompt': 's', 'question': 'q', 'response': 'a'}",
      RECORD_QUESTION, "[system]s[user]q[assistant]a" },
    { "meta-math/MetaMathQA", "{'query': 'q', 'response': 'a', 'type': 't'}", RECORD_QUESTION,
      "[user]q[assistant]a" },
    { "AI-MO/NuminaMath-1.5", "{'problem': 'q', 'solution': 'a'}", RECORD_QUESTION,
      "[user]q[assistant]a" },
    { "nvidia/OpenMathInstruct-2",
      "{'problem': 'q', 'generated_solution': 'a', 'expected_answer': '1'}", RECORD_QUESTION,
      "[user]q[assistant]a" },
    { "user and assistant columns", "{'user': 'q', 'assistant': 'a', 'system': 's'}",
      RECORD_QUESTION, "[system]s[user]q[assistant]a" },
    // prompts and completions, as strings: no template
    { "trl-lib/tldr", "{'prompt': 'p', 'completion': 'c'}", RECORD_COMPLETION, "pc</>" },
    { "prompt and completion as messages",
      "{'prompt': [{'role': 'user', 'content': 'p'}], 'completion': [{'role': 'assistant', "
      "'content': 'c'}]}",
      RECORD_COMPLETION, "[user]p[assistant]c" },
    { "Muennighoff/flan", "{'inputs': 'p', 'targets': 'c', 'task': 't'}", RECORD_COMPLETION,
      "pc</>" },
    { "T0's input and target", "{'input': 'p', 'target': 'c'}", RECORD_COMPLETION, "pc</>" },
    { "EdinburghNLP/xsum", "{'document': 'p', 'summary': 'c', 'id': '1'}", RECORD_COMPLETION,
      "pc</>" },
    { "abisee/cnn_dailymail", "{'article': 'p', 'highlights': 'c', 'id': '1'}", RECORD_COMPLETION,
      "pc</>" },
    { "knkarthick/samsum", "{'dialogue': 'p', 'summary': 'c'}", RECORD_COMPLETION, "pc</>" },
    { "wmt/wmt16", "{'translation': {'de': 'p', 'en': 'c'}}", RECORD_COMPLETION, "pc</>" },
    // text, and prompts alone
    { "allenai/c4", "{'text': 't', 'url': 'u'}", RECORD_TEXT, "t</>" },
    { "codeparrot/github-code", "{'code': 't', 'repo_name': 'r'}", RECORD_TEXT, "t</>" },
    { "completion alone", "{'completion': 't'}", RECORD_TEXT, "t</>" },
    { "trl-lib/ultrafeedback-prompt", "{'prompt': [{'role': 'user', 'content': 'p'}]}",
      RECORD_PROMPT, "[user]p[assistant]" },
    { "prompts as strings", "{'prompt': 'p', 'level': 3}", RECORD_PROMPT, "p" },
    // preference
    { "Anthropic/hh-rlhf",
      "{'chosen': 'Human: q Assistant: c', 'rejected': 'Human: q Assistant: r'}", RECORD_PREFERENCE,
      "Human: q Assistant: c</> | Human: q Assistant: r</>" },
    { "trl-lib/ultrafeedback_binarized",
      "{'chosen': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'c'}], "
      "'rejected': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'r'}]}",
      RECORD_PREFERENCE, "[user]q[assistant]c | [user]q[assistant]r" },
    { "argilla/ultrafeedback-binarized-preferences-cleaned",
      "{'prompt': 'q', 'chosen': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
      "'content': 'c'}], 'rejected': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
      "'content': 'r'}]}",
      RECORD_PREFERENCE, "[user]q[assistant]c | [user]q[assistant]r" },
    { "a prompt beside answers alone",
      "{'prompt': 'q', 'chosen': [{'role': 'assistant', 'content': 'c'}], 'rejected': [{'role': "
      "'assistant', 'content': 'r'}]}",
      RECORD_PREFERENCE, "[user]q[assistant]c | [user]q[assistant]r" },
    { "Intel/orca_dpo_pairs", "{'system': 's', 'question': 'q', 'chosen': 'c', 'rejected': 'r'}",
      RECORD_PREFERENCE, "[system]s[user]q[assistant]c | [system]s[user]q[assistant]r" },
    { "argilla/distilabel-intel-orca-dpo-pairs",
      "{'system': 's', 'input': 'q', 'chosen': 'c', 'rejected': 'r'}", RECORD_PREFERENCE,
      "[system]s[user]q[assistant]c | [system]s[user]q[assistant]r" },
    { "instruction and input beside chosen and rejected",
      "{'instruction': 'q', 'input': 'x', 'chosen': 'c', 'rejected': 'r'}", RECORD_PREFERENCE,
      "[user]q\nx[assistant]c | [user]q\nx[assistant]r" },
    { "llamafactory/DPO-En-Zh-20k",
      "{'conversations': [{'from': 'human', 'value': 'q'}], 'chosen': {'from': 'gpt', 'value': "
      "'c'}, 'rejected': {'from': 'gpt', 'value': 'r'}}",
      RECORD_PREFERENCE, "[user]q[assistant]c | [user]q[assistant]r" },
    { "chosen_messages and rejected_messages",
      "{'chosen_messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': "
      "'c'}], 'rejected_messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
      "'content': 'r'}]}",
      RECORD_PREFERENCE, "[user]q[assistant]c | [user]q[assistant]r" },
    { "OpenAI preference files",
      "{'input': {'messages': [{'role': 'user', 'content': 'q'}], 'tools': [{'name': 'f'}], "
      "'parallel_tool_calls': true}, 'preferred_output': [{'role': 'assistant', 'content': 'a'}], "
      "'non_preferred_output': [{'role': 'assistant', 'content': 'b'}]}",
      RECORD_PREFERENCE,
      "[system]# Tools\n\n<tools>\n{\"name\": \"f\"}\n</tools>[user]q[assistant]a | "
      "[system]# Tools\n\n<tools>\n{\"name\": \"f\"}\n</tools>[user]q[assistant]b" },
    { "OpenAI preference files without tools",
      "{'input': {'messages': [{'role': 'user', 'content': 'q'}]}, 'preferred_output': [{'role': "
      "'assistant', 'content': 'a'}], 'non_preferred_output': [{'role': 'assistant', 'content': "
      "'b'}]}",
      RECORD_PREFERENCE, "[user]q[assistant]a | [user]q[assistant]b" },
    { "lvwerra/stack-exchange-paired", "{'question': 'q', 'response_j': 'c', 'response_k': 'r'}",
      RECORD_PREFERENCE, "[user]q[assistant]c | [user]q[assistant]r" },
    { "trl-internal-testing/zen", "{'prompt': 'p', 'chosen': 'c', 'rejected': 'r'}",
      RECORD_PREFERENCE, "pc</> | pr</>" },
};

static struct text as_json(const char *row)
{
    struct out out = { .arena = &test_arena };
    for (const char *c = row; *c; c++)
        out_char(&out, *c == '\'' ? '"' : *c);
    return out_view(&out);
}

static struct record_schema schema;

static bool render(struct out *out, struct text row, struct chat_text *text)
{
    const struct template *template;
    struct chat chat;
    struct record record;
    CHECK(!template_compile(&template, &test_arena,
                            TEXT("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
                                 "{% if add_generation_prompt %}[assistant]{% endif %}"),
                            "bare"));
    CHECK(!chat_init(&chat, &(struct chat_settings){ .template = template,
                                                     .eos = TEXT("</>"),
                                                     .labels = CHAT_COMPLETION,
                                                     .raw_pairs = true,
                                                     .adapts = true }));
    bool done = !record_detect(&schema, &test_arena, &row, 1, RECORD_AUTO, TEXT("")) &&
                !record_read(&record, &schema, &test_arena, row);
    for (int i = 0; done && i < record.count; i++) {
        done = !chat_render(&chat, text, &record.sequences[i]);
        out_put(out, "%s%.*s", i ? " | " : "", TEXT_ARGS(text->text));
    }
    chat_release(&chat);
    return done;
}

TEST(sixty_shapes_of_public_data_sets_become_the_text_that_trainers_make)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct out out = { .arena = &test_arena };
        struct chat_text text;
        bool done = render(&out, as_json(rows[i].row), &text);
        bool same =
            done && schema.format == rows[i].format && text_is(out_view(&out), rows[i].text);
        CHECK(same);
        if (!same)
            printf("%s: %s\n  %s\n", rows[i].from,
                   done ? record_format_names[schema.format] : error_text(), out_string(&out));
    }
    CHECK(sizeof rows / sizeof *rows >= 60);
}

// The part named with a word in ~; taking the word out must shorten the text.
TEST(no_part_of_a_conversation_can_be_taken_out_unnoticed)
{
    static const char whole[] =
        "{'system': 'sys', 'tools': [{'type': 'function', 'function': {'name': 'tool', "
        "'description': 'descr', 'parameters': {'type': 'object', 'properties': {'param': {}}}}}], "
        "'messages': [{'role': 'user', 'content': 'question'}, {'role': 'assistant', 'content': "
        "'said', 'reasoning_content': 'thought', 'tool_calls': [{'type': 'function', 'function': "
        "{'name': 'called', 'arguments': {'param': 'argument'}}}]}, {'role': 'tool', 'content': "
        "'result'}, {'role': 'assistant', 'content': 'answer', 'thinking': 'later'}]}";
    static const char *const words[] = { "sys",    "tool'",   "descr",  "question",
                                         "said",   "thought", "called", "argument",
                                         "result", "answer",  "later" };
    struct out all = { .arena = &test_arena };
    struct chat_text text;
    CHECK(render(&all, as_json(whole), &text) && text.adapted);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct out row = { .arena = &test_arena }, out = { .arena = &test_arena };
        size_t size = strcspn(words[i], "'");
        const char *at = strstr(whole, text_format(&test_arena, "'%.*s'", (int)size, words[i]));
        while (at && !strcmp(words[i], "tool'") && strncmp(at + 6, ", 'descr", 8))
            at = strstr(at + 1, "'tool'");
        CHECK(at != NULL);
        out_bytes(&row, whole, (size_t)(at + 1 - whole));
        out_put(&row, "%s", at + 1 + size);
        CHECK(render(&out, as_json(out_string(&row)), &text));
        CHECK(out.size < all.size);
    }
}

TEST(shapes_that_need_a_choice_are_refused_by_name)
{
    static const char *const refused[] = {
        "{'message_id': '1', 'parent_id': null, 'text': 't', 'role': 'prompter', 'lang': 'en'}",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct text row = as_json(refused[i]);
        CHECK(record_detect(&schema, &test_arena, &row, 1, RECORD_AUTO, TEXT("")) == ERR_INPUT);
        CHECK(strstr(error_text(), "OpenAssistant") && strstr(error_text(), "\"messages\""));
    }
    struct text row = as_json(refused[0]);
    CHECK(!record_detect(&schema, &test_arena, &row, 1, RECORD_TEXT, TEXT("")));
}

TEST(a_tree_without_an_answer_is_an_unusable_row)
{
    static const char *const rows_without[] = {
        "{'message_tree_id': '1', 'prompt': {'text': 't', 'role': 'prompter', 'replies': []}}",
        "{'message_tree_id': '1', 'prompt': {'text': 't', 'role': 'prompter', 'replies': ['a']}}",
        "{'message_tree_id': '1', 'prompt': 'a string'}",
    };
    for (size_t i = 0; i < sizeof rows_without / sizeof *rows_without; i++) {
        struct text row = as_json(rows_without[i]);
        struct record record;
        CHECK(!record_detect(&schema, &test_arena, &row, 1, RECORD_AUTO, TEXT("")));
        CHECK(record_read(&record, &schema, &test_arena, row) == ERR_INPUT);
    }
}

TEST(unused_columns_are_listed_with_their_share_of_the_text)
{
    struct text row = as_json("{'instruction': 'i', 'output': 'o', 'essay': 'a long text that "
                              "nobody asked for', 'score': 3}");
    CHECK(!record_detect(&schema, &test_arena, &row, 1, RECORD_AUTO, TEXT("")));
    CHECK(schema.count == 4 && schema.all[0].part && !strcmp(schema.all[1].part, "output"));
    CHECK(!schema.all[2].part && schema.all[2].is_text && schema.all[2].share > 0.8);
    CHECK(!schema.all[3].part && !schema.all[3].is_text && schema.all[3].share == 0);
}

TEST(every_column_of_every_shape_is_read_or_listed_as_unused)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct out row = { .arena = &test_arena };
        out_put(
            &row, "{'a column nobody reads': '%s', %s",
            "a text that is longer than one in twenty bytes of any of the rows above, so that it "
            "has to be a warning where it is left out",
            rows[i].row + 1);
        struct text json = as_json(out_string(&row));
        CHECK(!record_detect(&schema, &test_arena, &json, 1, RECORD_AUTO, TEXT("")));
        struct json document;
        CHECK(!json_read(&document, &test_arena, json, "row"));
        double share = 0;
        for (size_t k = 0; k < schema.count; k++)
            share += schema.all[k].share;
        CHECK(schema.count == document.count && share > 0.999 && share < 1.001);
        CHECK(!schema.all[0].part && schema.all[0].is_text && schema.all[0].share > 0.05);
        CHECK(schema.format == rows[i].format);
    }
}

TEST(media_is_noticed_in_columns_and_in_content)
{
    static const char *const with[] = {
        "{'images': ['x.png'], 'messages': [{'role': 'user', 'content': 'q'}]}",
        "{'messages': [{'role': 'user', 'content': [{'type': 'image'}, {'type': 'text', 'text': "
        "'q'}]}]}",
    };
    struct chat_text text;
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        struct out out = { .arena = &test_arena };
        CHECK(render(&out, as_json(with[i]), &text) && text.has_media);
        CHECK(text_is(out_view(&out), "[user]q"));
    }
    struct out out = { .arena = &test_arena };
    CHECK(render(&out, as_json("{'images': [], 'messages': [{'role': 'user', 'content': 'q'}]}"),
                 &text));
    CHECK(!text.has_media);
}
