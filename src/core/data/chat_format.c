// SPDX-License-Identifier: Apache-2.0
// Reads chat templates and special tokens from a tokenizer's files; holds the built-in templates.

#include "core/data/chat_format.h"

#include <string.h>

// Written from the formats' documentation, for use without the tokenizer's files.
static const struct {
    const char *name, *source, *bos, *eos;
} built_in[] = {
    { "chatml",
      "{% for message in messages %}"
      "{{ '<|im_start|>' + message.role + '\\n' }}"
      "{% if message.role == 'assistant' %}"
      "{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}"
      "{% else %}{{ message.content + '<|im_end|>\\n' }}{% endif %}"
      "{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
      NULL, "<|im_end|>" },
    { "llama3",
      "{{ bos_token }}{% for message in messages %}"
      "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}"
      "{% if message.role == 'assistant' %}"
      "{% generation %}{{ (message.content | trim) + '<|eot_id|>' }}{% endgeneration %}"
      "{% else %}{{ (message.content | trim) + '<|eot_id|>' }}{% endif %}"
      "{% endfor %}"
      "{% if add_generation_prompt %}"
      "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
      "<|begin_of_text|>", "<|eot_id|>" },
    { "plain",
      "{% for message in messages %}"
      "{{ message.role + ': ' }}"
      "{% if message.role == 'assistant' %}"
      "{% generation %}{{ message.content }}{% endgeneration %}{{ '\\n' }}"
      "{% else %}{{ message.content + '\\n' }}{% endif %}"
      "{% endfor %}"
      "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}",
      NULL, NULL },
};

const char *const chat_format_names[] = { "chatml", "llama3", "plain", NULL };

static struct text text_or_none(const char *string)
{
    return string ? text_of(string) : (struct text){ 0 };
}

bool chat_format_built_in(struct chat_format *out, const char *name)
{
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
        if (!strcmp(name, built_in[i].name)) {
            *out = (struct chat_format){ .source = text_of(built_in[i].source),
                                         .bos = text_or_none(built_in[i].bos),
                                         .eos = text_or_none(built_in[i].eos) };
            return true;
        }
    return false;
}

// A special token is a string, or an object with a content.
static struct text token_text(const struct template_value *value)
{
    if (value && value->kind == TEMPLATE_DICT)
        value = template_value_find(value->dict, TEXT("content"));
    return value && value->kind == TEMPLATE_STRING ? value->string : (struct text){ 0 };
}

static bool is_token(struct text key)
{
    static const char *const names[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                         "pad_token", "cls_token", "mask_token" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_is(key, names[i]))
            return true;
    return false;
}

// Reads the special tokens and the template; skips everything else.
static enum err read_config(struct chat_format *out, struct arena *arena, struct text in,
                            const char *name, struct template_value *template)
{
    struct json_reader reader = json_reader(in);
    struct text key;
    out->tokens = template_value_dict(arena, 8);
    for (json_object(&reader); json_key(&reader, arena, &key);) {
        if (text_is(key, "chat_template")) {
            *template = template_value_take(&reader, arena);
        } else if (is_token(key)) {
            struct template_value value = template_value_take(&reader, arena);
            struct text token = token_text(&value);
            if (token.at)
                template_value_put(arena, out->tokens.dict, template_value_string(key),
                                   template_value_string(token));
        } else {
            json_skip(&reader);
        }
    }
    out->bos = token_text(template_value_find(out->tokens.dict, TEXT("bos_token")));
    out->eos = token_text(template_value_find(out->tokens.dict, TEXT("eos_token")));
    return json_end(&reader, name);
}

// Picks from a list of {name, template}: the requested one, else "default", else the first.
static enum err pick(struct chat_format *out, const struct template_list *list, const char *name,
                     const char *which)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].kind != TEMPLATE_DICT)
            return fail(ERR_INPUT, "%s: chat_template is a list with an item that is not an object",
                        name);
        const struct template_dict *entry = list->items[i].dict;
        struct text label = token_text(template_value_find(entry, TEXT("name")));
        struct text source = token_text(template_value_find(entry, TEXT("template")));
        if (!source.at)
            return fail(ERR_INPUT, "%s: entry %zu of chat_template has no template", name, i + 1);
        if ((!out->source.at && !which) || text_is(label, which ? which : "default"))
            out->source = source;
    }
    if (which && !out->source.at)
        return fail(ERR_INPUT, "%s: chat_template has no entry named %s", name, which);
    return OK;
}

enum err chat_format_read(struct chat_format *out, struct arena *arena, struct text in,
                          const char *name, const char *which)
{
    *out = (struct chat_format){ 0 };
    struct text start = text_trim(in);
    bool object = start.size > 1 && start.at[0] == '{' && start.at[1] != '{' &&
                  start.at[1] != '%' && start.at[1] != '#';
    if (!object) {
        out->source = in;
        return OK;
    }
    struct template_value template = { .kind = TEMPLATE_NONE };
    TRY(read_config(out, arena, in, name, &template));
    if (template.kind == TEMPLATE_NONE)
        return OK;
    if (template.kind == TEMPLATE_LIST)
        return pick(out, template.list, name, which);
    if (template.kind != TEMPLATE_STRING)
        return fail(ERR_INPUT, "%s: chat_template is neither a string nor a list", name);
    out->source = template.string;
    return OK;
}
