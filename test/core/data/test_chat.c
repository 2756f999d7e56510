// SPDX-License-Identifier: Apache-2.0
// Conversations rendered as text, and the bytes that carry loss.

#include "core/data/chat.h"
#include "core/data/chat_format.h"
#include "test/test.h"

#include <string.h>
#include <time.h>

static struct chat_settings settings;

static const struct template *template_of(const char *name)
{
    struct chat_format format;
    const struct template *template = NULL;
    if (!chat_format_built_in(&format, name))
        format.source = text_of(name);
    CHECK(!template_compile(&template, &test_arena, format.source, "t"));
    return template;
}

// The text with its labelled parts in [brackets], or the error message.
static const char *marked_sequence(const char *row, int sequence)
{
    struct text text = text_of(row);
    struct record_schema schema;
    struct record record;
    struct chat chat;
    struct chat_text rendered;
    struct out out = { .arena = &test_arena };
    CHECK(!record_detect(&schema, &test_arena, &text, 1, RECORD_AUTO, TEXT("")));
    CHECK(!record_read(&record, &schema, &test_arena, text));
    CHECK(!chat_init(&chat, &settings));
    enum err err = chat_render(&chat, &rendered, &record.sequences[sequence]);
    if (err)
        rendered = (struct chat_text){ .text = text_of(error_text()) };
    size_t at = 0;
    for (size_t i = 0; i < rendered.span_count; i++) {
        struct template_span span = rendered.spans[i];
        out_bytes(&out, rendered.text.at + at, span.start - at);
        out_char(&out, '[');
        out_bytes(&out, rendered.text.at + span.start, span.end - span.start);
        out_char(&out, ']');
        at = span.end;
    }
    out_bytes(&out, rendered.text.at + at, rendered.text.size - at);
    const char *copy = out_string(&out);
    chat_release(&chat);
    return copy;
}

static bool marks(const char *row, const char *wanted)
{
    return !strcmp(marked_sequence(row, 0), wanted);
}

#define TURNS                                                                                 \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "    \
    "\"content\": \"a\"}, {\"role\": \"user\", \"content\": \"r\"}, {\"role\": \"assistant\"" \
    ", \"content\": \"b\"}]}"

// ChatML without generation blocks.
#define BARE                                                              \
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}" \
    "{% if add_generation_prompt %}<assistant>{% endif %}"

TEST(generation_blocks_are_labelled)
{
    settings =
        (struct chat_settings){ .template = template_of("chatml"), .labels = CHAT_ASSISTANT };
    CHECK(marks(TURNS, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>]\n"
                       "<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>]\n"));
    settings.template = template_of("llama3");
    settings.bos = TEXT("<|begin_of_text|>");
    CHECK(marks("{\"question\": \" q \", \"answer\": \"a\"}",
                "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|>"
                "<|start_header_id|>assistant<|end_header_id|>\n\n[a<|eot_id|>]"));
}

TEST(without_generation_blocks_prefixes_find_the_answers)
{
    settings = (struct chat_settings){ .template = template_of(BARE), .labels = CHAT_ASSISTANT };
    CHECK(marks(TURNS, "<user>q</><assistant>[a</>]<user>r</><assistant>[b</>]"));
    settings.labels = CHAT_ALL;
    CHECK(marks(TURNS, "[<user>q</><assistant>a</><user>r</><assistant>b</>]"));
    settings.labels = CHAT_COMPLETION;
    CHECK(marks(TURNS, "<user>q</><assistant>a</><user>r</><assistant>[b</>]"));
    settings.add_generation_prompt = true;
    settings.labels = CHAT_ASSISTANT;
    CHECK(marks("{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}",
                "<user>q</><assistant>"));
}

TEST(labels_are_the_same_when_loop_passes_are_no_longer_checked)
{
    struct text row = TEXT(TURNS);
    struct record_schema schema;
    struct record record;
    struct chat chat;
    struct chat_text text;
    settings = (struct chat_settings){ .template = template_of(BARE), .labels = CHAT_ASSISTANT };
    CHECK(!record_detect(&schema, &test_arena, &row, 1, RECORD_AUTO, TEXT("")));
    CHECK(!record_read(&record, &schema, &test_arena, row));
    CHECK(!chat_init(&chat, &settings));
    bool same = true;
    for (int i = 0; i < 300; i++)
        same = !chat_render(&chat, &text, &record.sequences[0]) && text.span_count == 2 &&
               text.spans[0].start == 21 && text.spans[0].end == 25 && text.spans[1].start == 46 &&
               text.spans[1].end == 50 && same;
    CHECK(same && !chat.passes_differ);
    chat_release(&chat);
}

// A conversation of count messages, of which each fourth has loss weight 0.
static const char *long_row(int count)
{
    struct out out = { .arena = &test_arena };
    out_put(&out, "{\"messages\": [");
    for (int i = 0; i < count; i++)
        out_put(&out, "%s{\"role\": \"%s\", \"content\": \"c\", \"weight\": %d}", i ? ", " : "",
                i % 2 ? "assistant" : "user", i % 4 != 3);
    out_put(&out, "]}");
    return out_string(&out);
}

// Processor seconds in which a conversation of count messages is rendered and labelled.
static double label_seconds(int count)
{
    struct text row = text_of(long_row(count));
    struct record_schema schema;
    struct record record;
    struct chat chat;
    struct chat_text text;
    CHECK(!record_detect(&schema, &test_arena, &row, 1, RECORD_AUTO, TEXT("")));
    CHECK(!record_read(&record, &schema, &test_arena, row));
    CHECK(!chat_init(&chat, &settings));
    clock_t start = clock();
    CHECK(!chat_render(&chat, &text, &record.sequences[0]) && !chat.passes_differ);
    clock_t end = clock();
    CHECK(text.span_count == (size_t)count / 4);
    chat_release(&chat);
    return (double)(end - start) / CLOCKS_PER_SEC;
}

TEST(labels_of_a_long_conversation_take_time_in_proportion_to_its_length)
{
    settings = (struct chat_settings){ .template = template_of(BARE), .labels = CHAT_ASSISTANT };
    double answers = label_seconds(10000), more_answers = label_seconds(160000);
    CHECK(more_answers < 64 * answers);
    settings.labels = CHAT_ALL;
    double all = label_seconds(10000), more = label_seconds(160000);
    CHECK(more < 64 * all);
}

// Drops the thoughts of all answers but the last, as templates of reasoning models do.
#define THINKING                                                                            \
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and not loop.last %}" \
    "{{ m.content.split('#')[-1] }}{% else %}{{ m.content }}{% endif %}</>\n\n{% endfor %}" \
    "{% if add_generation_prompt %}<assistant>{% endif %}"

TEST(templates_that_rewrite_earlier_turns_are_labelled_too)
{
    settings =
        (struct chat_settings){ .template = template_of(THINKING), .labels = CHAT_ASSISTANT };
    CHECK(marks("{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
                "\"assistant\", \"content\": \"hm#a\"}, {\"role\": \"user\", \"content\": \"r\"}, "
                "{\"role\": \"assistant\", \"content\": \"hm#b\"}]}",
                "<user>q</>\n\n<assistant>[a</>\n\n]<user>r</>\n\n<assistant>[hm#b</>\n\n]"));
}

TEST(a_message_with_weight_zero_carries_no_loss)
{
    const char *row = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\", \"loss_weight\": "
                      "0.0}, {\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0}, "
                      "{\"role\": \"user\", \"content\": \"r\"}, {\"role\": \"assistant\", "
                      "\"content\": \"b\", \"loss_weight\": 1.0}]}";
    settings = (struct chat_settings){ .template = template_of(BARE), .labels = CHAT_ASSISTANT };
    CHECK(marks(row, "<user>q</><assistant>a</><user>r</><assistant>[b</>]"));
    settings.labels = CHAT_ALL;
    CHECK(marks(row, "<user>q</>[<assistant>]a</>[<user>r</><assistant>b</>]"));
    settings.template = template_of("plain");
    settings.labels = CHAT_ASSISTANT;
    CHECK(marks(row, "user: q\nassistant: a\nuser: r\nassistant: [b]\n"));
}

TEST(completions_are_labelled_after_their_prompt)
{
    const char *pair = "{\"prompt\": \"2+2=\", \"completion\": \"4\"}";
    settings = (struct chat_settings){ .labels = CHAT_COMPLETION, .eos = TEXT("</s>") };
    CHECK(marks(pair, "2+2=[4</s>]"));
    settings.labels = CHAT_ALL;
    CHECK(marks(pair, "[2+2=4</s>]"));
    settings.labels = CHAT_COMPLETION;
    settings.template = template_of(BARE);
    CHECK(marks(pair, "<user>2+2=</><assistant>[4</>]"));
    settings.raw_pairs = true;
    CHECK(marks(pair, "2+2=[4</s>]"));
    CHECK(marks("{\"prompt\": [{\"role\": \"user\", \"content\": \"p\"}], \"completion\": "
                "[{\"role\": \"assistant\", \"content\": \"c\"}]}",
                "<user>p</><assistant>[c</>]"));
}

TEST(instructions_without_a_template_get_the_alpaca_prompt)
{
    settings = (struct chat_settings){ .labels = CHAT_ASSISTANT, .eos = TEXT("</s>") };
    CHECK(marks("{\"instruction\": \"i\", \"input\": \"\", \"output\": \"o</s>\"}",
                "Below is an instruction that describes a task. Write a response that "
                "appropriately completes the request.\n\n### Instruction:\ni\n\n### "
                "Response:\n[o</s>]"));
    CHECK(
        strstr(marked_sequence("{\"instruction\": \"i\", \"input\": \"x\", \"output\": \"o\"}", 0),
               "paired with an input that provides further context. Write") != NULL);
    CHECK(strstr(marked_sequence(TURNS, 0), "no chat template is known") != NULL);
    CHECK(marks("{\"text\": \"t\"}", "[t</s>]"));
}

TEST(instructions_with_a_template_become_messages_with_the_given_system_message)
{
    settings = (struct chat_settings){ .template = template_of(BARE),
                                       .labels = CHAT_ASSISTANT,
                                       .system = TEXT("s") };
    CHECK(marks("{\"instruction\": \"i\", \"input\": \"x\", \"output\": \"o\"}",
                "<system>s</><user>i\nx</><assistant>[o</>]"));
    CHECK(marks("{\"messages\": [{\"role\": \"system\", \"content\": \"own\"}, {\"role\": "
                "\"assistant\", \"content\": \"a\"}]}",
                "<system>own</><assistant>[a</>]"));
}

#define CALLS                                                                              \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", " \
    "\"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\"}}]}, {\"role\": " \
    "\"tool\","                                                                            \
    " \"content\": \"r\"}]}"

TEST(a_row_that_the_template_cannot_render_names_the_message_and_what_it_lacks)
{
    settings = (struct chat_settings){ .template = template_of("chatml") };
    const char *message = marked_sequence(CALLS, 0);
    CHECK(strstr(message,
                 "message 2 (assistant) has tool calls and no content, which the chat "
                 "template cannot render (t:1: unsupported operands for +: None and str); ") ==
          message);
    CHECK(strstr(message, "--template") != NULL);
    settings.system = TEXT("s"); // not one of the row's messages
    CHECK(strstr(marked_sequence(CALLS, 0), "message 2 (assistant)") != NULL);
    CHECK(strstr(marked_sequence("{\"messages\": [{\"role\": \"user\"}]}", 0),
                 "message 1 (user) has no content, which") != NULL);

    settings.template = template_of("{% for m in messages %}{% if m.role == 'system' %}"
                                    "{{ raise_exception('no system role') }}{% endif %}"
                                    "{{ m.content }}{% endfor %}");
    CHECK(strstr(marked_sequence(TURNS, 0), "the chat template rejects the system message (t:1: "
                                            "raise_exception: no system role); ") != NULL);
    settings.template = template_of("{{ raise_exception('never') }}");
    CHECK(strstr(marked_sequence(TURNS, 0),
                 "the chat template cannot render this row (t:1: raise_exception: never); ") !=
          NULL);
}

TEST(a_preference_pair_renders_twice_from_one_prompt)
{
    const char *row = "{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"r\"}";
    settings = (struct chat_settings){ .template = template_of(BARE), .labels = CHAT_COMPLETION };
    CHECK(!strcmp(marked_sequence(row, 0), "<user>p</><assistant>[c</>]"));
    CHECK(!strcmp(marked_sequence(row, 1), "<user>p</><assistant>[r</>]"));
}

TEST(chat_formats_are_read_from_tokenizer_configs)
{
    struct chat_format format;
    CHECK(!chat_format_read(&format, &test_arena,
                            TEXT("{\"model_max_length\": 1000000000000000019884624838656, "
                                 "\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\", "
                                 "\"chat_template\": \"{{ x }}\"}"),
                            "c", NULL));
    CHECK(text_is(format.source, "{{ x }}") && text_is(format.bos, "<s>") &&
          text_is(format.eos, "</s>"));
    struct text several =
        TEXT("{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"T\"}, "
             "{\"name\": \"default\", \"template\": \"D\"}]}");
    CHECK(!chat_format_read(&format, &test_arena, several, "c", NULL));
    CHECK(text_is(format.source, "D"));
    CHECK(!chat_format_read(&format, &test_arena, several, "c", "tool_use"));
    CHECK(text_is(format.source, "T"));
    CHECK(chat_format_read(&format, &test_arena, several, "c", "rag") == ERR_INPUT);
    CHECK(!chat_format_read(&format, &test_arena, TEXT("{{ bos_token }}x"), "c", NULL));
    CHECK(text_is(format.source, "{{ bos_token }}x"));
    CHECK(!chat_format_read(&format, &test_arena, TEXT("{\"eos_token\": null}"), "c", NULL));
    CHECK(!format.source.at && !format.eos.at);
    CHECK(!chat_format_built_in(&format, "nonsense"));
}
