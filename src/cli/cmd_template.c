// SPDX-License-Identifier: Apache-2.0
// gpuhours template: renders a chat template, to show the text that a model is trained on.

#include "cli/command.h"
#include "base/json.h"
#include "cli/dataset/dataset.h"
#include "cli/terminal/print.h"

#include "core/data/chat.h"
#include "core/data/chat_format.h"
#include "host/file.h"

#include <stdio.h>
#include <string.h>

struct template_options {
    const char *template, *messages, *which, *date;
    bool generation_prompt, spans;
    int labels;
};

static struct template_options given;
static struct template_date date; // that was given

static const char *const label_choices[] = { "none", "all", "assistant", "completion", NULL };

static const struct field fields[] = {
    FIELD(template_options, template, TEXT,
          "tokenizer_config.json, .jinja file, chatml, llama3 or plain", .value = "FILE",
          .fallback = "required"),
    FIELD(template_options, messages, TEXT,
          "JSON file: list of messages, or object of template variables", .value = "FILE",
          .fallback = "required"),
    FIELD(template_options, which, TEXT, "name of the template, for files with several",
          .value = "NAME", .fallback = "default"),
    FIELD(template_options, date, DATE, "date that the template sees", .fallback = "none"),
    FIELD(template_options, generation_prompt, FLAG, "end with the header of an answer"),
    FIELD(template_options, spans, FLAG, "also print the byte ranges of generation blocks"),
    FIELD_OF(template_options, labels, label_choices, "also print the byte ranges that carry loss",
             .value = "TOKENS"),
    { 0 },
};

static const struct options *list_options(struct arena *arena)
{
    static const struct options groups[] = { OPTIONS("template", fields, &given), { 0 } };
    (void)arena;
    given = (struct template_options){ 0 };
    return groups;
}

static enum err load_format(struct chat_format *format, struct arena *arena, struct file *file)
{
    if (!given.template)
        return fail(ERR_USAGE, "template needs --template: a file, or chatml, llama3 or plain");
    if (chat_format_built_in(format, given.template))
        return OK;
    TRY(file_open(file, given.template));
    TRY(chat_format_read(format, arena, file->text, given.template, given.which));
    if (!format->source.at)
        return fail(ERR_INPUT, "%s: has no chat_template", given.template);
    return OK;
}

static void set_token(struct template_run *run, const char *name, struct text token)
{
    if (token.at)
        template_set(run, name, template_value_string(token));
}

// Variables as trainers set them: special tokens, and no tools or documents unless the file has
// some.
static void set_defaults(struct template_run *run, const struct chat_format *format)
{
    struct template_value none = { .kind = TEMPLATE_NONE };
    const struct template_dict *tokens = format->tokens.dict;
    template_set(run, "tools", none);
    template_set(run, "documents", none);
    template_set(run, "add_generation_prompt", template_value_flag(given.generation_prompt));
    set_token(run, "bos_token", format->bos);
    set_token(run, "eos_token", format->eos);
    for (size_t i = 0; tokens && i < tokens->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", TEXT_ARGS(tokens->entries[i].key.string));
        template_set(run, name, tokens->entries[i].value);
    }
}

static void set_variables(struct template_run *run, struct arena *arena,
                          struct template_value variables)
{
    if (variables.kind != TEMPLATE_DICT) {
        template_set(run, "messages", variables);
        return;
    }
    for (size_t i = 0; i < variables.dict->count; i++)
        template_set(run, text_copy(arena, variables.dict->entries[i].key.string),
                     variables.dict->entries[i].value);
}

static void print_document(struct arena *arena, struct text text, const struct template_span *spans,
                           size_t count)
{
    struct out document = { .arena = arena };
    struct json_writer w = { .out = &document };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "rendered");
    json_put_count(&w, "version", 1);
    json_put_text(&w, "text", text);
    json_open(&w, "spans", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(&w, NULL, '{');
        json_put_count(&w, "start", (int64_t)spans[i].start);
        json_put_count(&w, "end", (int64_t)spans[i].end);
        json_close(&w, '}');
    }
    json_close(&w, ']');
    json_close(&w, '}');
    out_char(&document, '\n');
    print_data(out_view(&document));
}

static bool wants_json; // as the command line says

static enum err print(struct arena *arena, struct text text, const struct template_span *spans,
                      size_t count)
{
    if (wants_json) {
        print_document(arena, text, spans, count);
        return OK;
    }
    TRY(file_write("-", text));
    for (size_t i = 0; i < count; i++)
        printf("\n%zu %zu", spans[i].start, spans[i].end);
    return OK;
}

static void take_token(struct text *token, struct template_value variables, const char *name)
{
    const struct template_value *given_token = template_value_find(variables.dict, text_of(name));
    if (given_token && given_token->kind == TEMPLATE_STRING)
        *token = given_token->string;
}

// Renders the conversation with its labels, as a trainer does.
static enum err render_labelled(const struct template *template, const struct chat_format *format,
                                struct arena *arena, struct template_value variables)
{
    const struct template_value *tools = NULL;
    struct text bos = format->bos, eos = format->eos;
    if (variables.kind == TEMPLATE_DICT) {
        take_token(&bos, variables, "bos_token");
        take_token(&eos, variables, "eos_token");
        tools = template_value_find(variables.dict, TEXT("tools"));
        const struct template_value *messages =
            template_value_find(variables.dict, TEXT("messages"));
        if (!messages)
            return fail(ERR_INPUT, "%s: has no messages", given.messages);
        variables = *messages;
    }
    struct chat_settings settings = { .template = template,
                                      .bos = bos,
                                      .eos = eos,
                                      .tokens = format->tokens,
                                      .labels = (enum chat_labels)(given.labels - 1),
                                      .add_generation_prompt = given.generation_prompt,
                                      .date = date };
    struct record_schema schema = { .format = RECORD_MESSAGES,
                                    .columns = { [RECORD_F_MESSAGES] = TEXT("messages") } };
    struct chat chat;
    struct chat_text text;
    struct record record;
    TRY(record_from_messages(&record, &schema, arena, variables));
    if (tools)
        record.sequences[0].tools = *tools;
    TRY(chat_init(&chat, &settings));
    enum err err = chat_render(&chat, &text, &record.sequences[0]);
    if (!err)
        err = print(arena, text.text, text.spans, text.span_count);
    chat_release(&chat);
    return err;
}

static enum err render(const struct template *template, const struct chat_format *format,
                       struct arena *arena, struct template_value variables)
{
    struct template_run run;
    struct out out = { .arena = arena };
    template_run_init(&run, template);
    run.date = date;
    set_defaults(&run, format);
    set_variables(&run, arena, variables);
    enum err err = template_render(&run, &out);
    if (!err)
        err = print(arena, out_view(&out), run.spans, given.spans ? run.span_count : 0);
    template_run_release(&run);
    return err;
}

static enum err run_template(struct command_line *line)
{
    struct chat_format format = { 0 };
    struct file source = { 0 }, messages = { 0 };
    const struct template *template;
    struct template_value variables;
    TRY(command_read(line, list_options(line->arena)));
    wants_json = line->common.json;
    if (!given.messages)
        return fail(ERR_USAGE, "template needs --messages: a JSON file, or - for standard input");
    if (given.date)
        TRY(dataset_read_date(&date, given.date));
    enum err err = load_format(&format, line->arena, &source);
    if (!err)
        err = file_open(&messages, given.messages);
    if (!err)
        err = template_value_read(&variables, line->arena, messages.text, given.messages);
    if (!err)
        err = template_compile(&template, line->arena, format.source, given.template);
    if (!err)
        err = (given.labels ? render_labelled : render)(template, &format, line->arena, variables);
    file_close(&source);
    file_close(&messages);
    return err;
}

static const char *const first[] = { "template", "messages", "generation_prompt",
                                     "labels",   "spans",    "which",
                                     "date",     NULL };

static const struct command_example examples[] = {
    { "a conversation in ChatML", "gpuhours template --template chatml --messages chat.json" },
    { "with a model's own template, and which bytes carry loss",
      "gpuhours template --template llama3 --messages chat.json --labels assistant" },
    { 0 },
};

const struct command command_template = {
    .name = "template",
    .summary = "render a conversation with a chat template",
    .usage = "--template FILE --messages FILE [OPTION...]",
    .about =
        "Prints the text that a model is trained on: messages rendered with a chat template, as "
        "Transformers would, and on request the byte ranges that carry loss.",
    .first = first,
    .examples = examples,
    .run = run_template,
    .options = list_options,
};
