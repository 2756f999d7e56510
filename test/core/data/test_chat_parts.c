// SPDX-License-Identifier: Apache-2.0
// Templates that render a part get it as it is; for those that drop it, it becomes text.

#include "core/data/chat.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>

#define LOOP(body) "{% for m in messages %}[{{ m.role }}]" body "{% endfor %}"

static struct chat_text text;
static char rendered[4096];

// Renders a row, written with ' in place of ".
static bool renders(const char *source, const char *row, enum chat_labels labels)
{
    const struct template *template;
    struct record_schema schema;
    struct record record;
    struct chat chat;
    struct out out = { .arena = &test_arena };
    for (const char *c = row; *c; c++)
        out_char(&out, *c == '\'' ? '"' : *c);
    struct text json = out_view(&out);
    CHECK(!template_compile(&template, &test_arena, text_of(source), "t"));
    CHECK(!record_detect(&schema, &test_arena, &json, 1, RECORD_AUTO, TEXT("")));
    CHECK(!record_read(&record, &schema, &test_arena, json));
    CHECK(!chat_init(
        &chat, &(struct chat_settings){ .template = template, .labels = labels, .adapts = true }));
    bool done = !chat_render(&chat, &text, &record.sequences[0]);
    rendered[0] = 0;
    size_t at = 0;
    for (size_t i = 0; done && i < text.span_count; i++)
        at += (size_t)snprintf(rendered + at, sizeof rendered - at, "%.*s",
                               (int)(text.spans[i].end - text.spans[i].start),
                               text.text.at + text.spans[i].start);
    if (done && labels == CHAT_ALL)
        snprintf(rendered, sizeof rendered, "%.*s", TEXT_ARGS(text.text));
    chat_release(&chat);
    return done;
}

static const char call[] =
    "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': '', "
    "'tool_calls': [{'type': 'function', 'function': {'name': 'f', 'arguments': {'x': 1}}}]}, "
    "{'role': 'tool', 'content': 'r'}, {'role': 'assistant', 'content': 'a'}]}";

TEST(a_template_that_renders_tool_calls_gets_them_as_they_are)
{
    CHECK(renders(LOOP("{{ m.content }}{% for c in m.tool_calls %}<{{ c.function.name }} {{ "
                       "c.function.arguments | tojson }}>{% endfor %}"),
                  call, CHAT_ALL));
    CHECK(!strcmp(rendered, "[user]q[assistant]<f {\"x\": 1}>[tool]r[assistant]a"));
    CHECK(!text.adapted && !text.left_out);
}

TEST(tool_calls_that_a_template_drops_become_text_that_carries_loss)
{
    CHECK(renders(LOOP("{{ m.content }}"), call, CHAT_ALL));
    CHECK(!strcmp(rendered, "[user]q[assistant]<tool_call>\n{\"name\": \"f\", \"arguments\": "
                            "{\"x\": 1}}\n</tool_call>[tool]r[assistant]a"));
    CHECK(text.adapted == CHAT_CALLS);
    CHECK(renders("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
                  "{% if add_generation_prompt %}[assistant]{% endif %}",
                  call, CHAT_ASSISTANT));
    CHECK(!strcmp(rendered,
                  "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>a"));
}

TEST(calls_that_a_template_renders_only_without_content_get_none)
{
    CHECK(renders(LOOP("{% if m.content is none %}<{{ m.tool_calls[0].function.name }} {{ "
                       "m.tool_calls[0].function.arguments | tojson }}>{% else %}{{ m.content "
                       "}}{% endif %}"),
                  call, CHAT_ALL));
    CHECK(!strcmp(rendered, "[user]q[assistant]<f {\"x\": 1}>[tool]r[assistant]a"));
    CHECK(!text.adapted);
}

TEST(what_tools_return_goes_to_the_user_where_a_template_knows_no_tools)
{
    CHECK(renders("{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
                  "{{ raise_exception('roles') }}{% endif %}[{{ m.role }}]{{ m.content }}"
                  "{% endfor %}",
                  "{'messages': [{'role': 'system', 'content': 's'}, {'role': 'user', 'content': "
                  "'q'}, {'role': 'assistant', 'content': 'c'}, {'role': 'tool', 'content': 'r'}, "
                  "{'role': 'tool', 'content': {'x': 1}}, {'role': 'assistant', 'content': 'a'}]}",
                  CHAT_ALL));
    CHECK(!strcmp(rendered, "[user]s\nq[assistant]c[user]<tool_response>\nr\n</tool_response>\n"
                            "<tool_response>\n{\"x\": 1}\n</tool_response>[assistant]a"));
    CHECK(text.adapted == (CHAT_SYSTEM | CHAT_RESULTS));
}

TEST(reasoning_is_read_under_each_of_its_names)
{
    static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };
    for (int has = 0; has < 3; has++)
        for (int reads = 0; reads < 3; reads++) {
            const char *row =
                text_format(&test_arena,
                            "{'messages': [{'role': 'user', 'content': 'q'}, {'role': "
                            "'assistant', '%s': 'hm', 'content': 'a'}]}",
                            names[has]);
            const char *source = text_format(
                &test_arena,
                "{%% for m in messages %%}[{{ m.role }}]{%% if m.%s %%}({{ m.%s }}){%% endif "
                "%%}{{ m.content }}{%% endfor %%}",
                names[reads], names[reads]);
            CHECK(renders(source, row, CHAT_ALL));
            CHECK(!strcmp(rendered, "[user]q[assistant](hm)a") && !text.adapted);
        }
}

TEST(thoughts_that_a_template_drops_on_purpose_are_reported)
{
    static const char source[] =
        "{% for m in messages %}[{{ m.role }}]{% if loop.last and m.reasoning_content %}({{ "
        "m.reasoning_content }}){% endif %}{{ m.content.split('</think>')[-1] }}{% endfor %}";
    CHECK(renders(source,
                  "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
                  "'reasoning_content': 'first', 'content': 'a'}, {'role': 'user', 'content': "
                  "'r'}, {'role': 'assistant', 'reasoning_content': 'second', 'content': 'b'}]}",
                  CHAT_ALL));
    CHECK(!strcmp(rendered, "[user]q[assistant]a[user]r[assistant](second)b"));
    CHECK(text.left_out == CHAT_REASONING && !text.adapted);
    CHECK(renders(source,
                  "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
                  "'content': '<think>inner</think>a'}]}",
                  CHAT_ALL));
    CHECK(text.left_out == CHAT_REASONING);
}

TEST(messages_that_a_template_skips_are_reported)
{
    CHECK(renders("{% for m in messages %}{% if m.role != 'critic' %}[{{ m.role }}]{{ m.content "
                  "}}{% endif %}{% endfor %}",
                  "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'critic', 'content': "
                  "'hmm'}, {'role': 'assistant', 'content': 'a'}]}",
                  CHAT_ALL));
    CHECK(text.left_out == CHAT_CONTENT);
}

// An answer with this beside its content, rendered by templates with and without tool calls.
static bool answers(const char *source, const char *beside)
{
    return renders(source,
                   text_format(&test_arena,
                               "{'messages': [{'role': 'user', 'content': 'q'}, {'role': "
                               "'assistant', 'content': '', %s}]}",
                               beside),
                   CHAT_ALL);
}

#define WITH_CALLS                                                                       \
    LOOP("{{ m.content }}{% for c in m.tool_calls %}<{{ c.function.name }} {{ "          \
         "c.function.arguments | tojson }}>{% endfor %}{% if m.reasoning_content %}({{ " \
         "m.reasoning_content }}){% endif %}")

TEST(tool_calls_as_json_text_or_one_object_count_as_the_list_does)
{
    static const char *const forms[] = {
        "'tool_calls': [{'type': 'function', 'function': {'name': 'f', 'arguments': {'x': 1}}}]",
        "'tool_calls': {'type': 'function', 'function': {'name': 'f', 'arguments': {'x': 1}}}",
        "'tool_calls': '[{\\'type\\': \\'function\\', \\'function\\': {\\'name\\': \\'f\\', "
        "\\'arguments\\': {\\'x\\': 1}}}]'",
        "'tool_calls': '{\\'function\\': {\\'name\\': \\'f\\', \\'arguments\\': {\\'x\\': 1}}}'",
        "'function_call': {'name': 'f', 'arguments': {'x': 1}}",
        "'function_call': '{\\'name\\': \\'f\\', \\'arguments\\': {\\'x\\': 1}}'",
        "'tool_calls': null, 'function_call': {'name': 'f', 'arguments': {'x': 1}}",
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        CHECK(answers(WITH_CALLS, forms[i]));
        CHECK(!strcmp(rendered, "[user]q[assistant]<f {\"x\": 1}>") && !text.adapted);
        CHECK(answers(LOOP("{{ m.content }}"), forms[i]));
        CHECK(!strcmp(rendered, "[user]q[assistant]<tool_call>\n{\"name\": \"f\", \"arguments\": "
                                "{\"x\": 1}}\n</tool_call>"));
        CHECK(text.adapted == CHAT_CALLS);
    }
}

TEST(tool_calls_that_are_no_json_are_counted_as_text)
{
    static const char *const names[] = { "tool_calls", "function_call" };
    for (int i = 0; i < 2; i++) {
        const char *beside = text_format(&test_arena, "'%s': 'f(x)'", names[i]);
        CHECK(answers(WITH_CALLS, beside) && text.adapted == CHAT_CALLS);
        CHECK(!strcmp(rendered, "[user]q[assistant]<tool_call>\nf(x)\n</tool_call>"));
        CHECK(answers(LOOP("{{ m.content }}"), beside) && text.adapted == CHAT_CALLS);
        CHECK(!strcmp(rendered, "[user]q[assistant]<tool_call>\nf(x)\n</tool_call>"));
    }
    CHECK(answers(WITH_CALLS, "'tool_calls': '[]'") && !text.adapted);
    CHECK(answers(WITH_CALLS, "'tool_calls': 'null'") && !text.adapted);
    CHECK(!strcmp(rendered, "[user]q[assistant]"));
}

TEST(reasoning_in_parts_counts_as_its_text)
{
    static const char *const forms[] = {
        "'reasoning_content': ['h', 'm']",
        "'reasoning': [{'type': 'text', 'text': 'hm'}]",
        "'thinking': {'thinking': 'hm'}",
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        CHECK(answers(WITH_CALLS, forms[i]) && !text.adapted);
        CHECK(!strcmp(rendered, "[user]q[assistant](hm)"));
        CHECK(answers(LOOP("{{ m.content }}"), forms[i]) && text.adapted == CHAT_REASONING);
        CHECK(!strcmp(rendered, "[user]q[assistant]<think>\nhm\n</think>\n\n"));
    }
    CHECK(answers(WITH_CALLS, "'reasoning': {'steps': 2}") && text.adapted == CHAT_REASONING);
    CHECK(!strcmp(rendered, "[user]q[assistant]({\"steps\": 2})"));
}
