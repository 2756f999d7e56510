// SPDX-License-Identifier: Apache-2.0
// Reads the normalizer, the pre-tokenizer and the post-processor of tokenizer.json.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

static bool is_absent(const struct json *value)
{
    return !value || value->kind == JSON_NONE || value->kind == JSON_NULL;
}

static struct text own(struct arena *arena, struct text text)
{
    return (struct text){ text_copy(arena, text), text.size };
}

// A pattern is {"String": …} or {"Regex": …}. A plain string has no pattern, only its text.
static enum err read_pattern(struct arena *arena, const struct json *value, struct text *source,
                             struct pattern **pattern, const char *name)
{
    struct text plain =
        value && value->kind == JSON_STRING ? value->string : json_get_text(value, "String");
    struct text regex = json_get_text(value, "Regex");
    if (!plain.at && !regex.at)
        return fail(ERR_INPUT, "%s: a pattern must have \"String\" or \"Regex\"", name);
    *source = own(arena, plain.at ? plain : regex);
    return plain.at ? OK : pattern_read(pattern, arena, *source, name);
}

// --- normalizer --------------------------------------------------------------

static const struct {
    const char *type;
    enum normal_kind kind;
    enum unicode_form form;
} normal_types[] = {
    { "NFC", NORMAL_FORM, UNICODE_NFC },   { "NFD", NORMAL_FORM, UNICODE_NFD },
    { "NFKC", NORMAL_FORM, UNICODE_NFKC }, { "NFKD", NORMAL_FORM, UNICODE_NFKD },
    { "Lowercase", NORMAL_LOWER, 0 },      { "Strip", NORMAL_STRIP, 0 },
    { "StripAccents", NORMAL_ACCENTS, 0 }, { "BertNormalizer", NORMAL_BERT, 0 },
    { "Replace", NORMAL_REPLACE, 0 },      { "Prepend", NORMAL_PREPEND, 0 },
    { "Precompiled", NORMAL_CHARSMAP, 0 }, { "Nmt", NORMAL_NMT, 0 },
};

static enum err fill_normal(struct normal_step *step, struct arena *arena, const struct json *value,
                            const char *name)
{
    struct text content;
    switch (step->kind) {
    case NORMAL_STRIP:
        step->left = json_get_bool(value, "strip_left", true);
        step->right = json_get_bool(value, "strip_right", true);
        break;
    case NORMAL_BERT:
        step->cleans = json_get_bool(value, "clean_text", true);
        step->chinese = json_get_bool(value, "handle_chinese_chars", true);
        step->lowers = json_get_bool(value, "lowercase", true);
        step->accents = json_get_bool(value, "strip_accents", step->lowers);
        break;
    case NORMAL_REPLACE:
        TRY(read_pattern(arena, json_get(value, "pattern"), &step->from, &step->pattern, name));
        step->to = own(arena, json_get_text(value, "content"));
        break;
    case NORMAL_PREPEND: step->to = own(arena, json_get_text(value, "prepend")); break;
    case NORMAL_CHARSMAP:
        content = json_get_text(value, "precompiled_charsmap");
        TRY(tokenizer_read_charsmap(step, arena, content, name));
        break;
    default: break;
    }
    return OK;
}

static enum err read_normal(struct tokenizer *t, struct arena *arena, const struct json *value,
                            const char *name, int depth)
{
    if (is_absent(value))
        return OK;
    struct text type = json_get_text(value, "type");
    if (!type.at || depth > 8)
        return fail(ERR_INPUT, "%s: a normalizer has no type", name);
    if (text_is(type, "Sequence")) {
        const struct json *list = json_get(value, "normalizers");
        for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++)
            TRY(read_normal(t, arena, &list->items[i], name, depth + 1));
        return OK;
    }
    for (size_t i = 0; i < sizeof normal_types / sizeof *normal_types; i++) {
        if (!text_is(type, normal_types[i].type))
            continue;
        if (t->normal_count == TOKENIZER_STEPS)
            return fail(ERR_INPUT, "%s: more than %d normalizers", name, TOKENIZER_STEPS);
        struct normal_step *step = &t->normal_steps[t->normal_count++];
        step->kind = normal_types[i].kind;
        step->form = normal_types[i].form;
        return fill_normal(step, arena, value, name);
    }
    return fail(ERR_INPUT, "%s: the normalizer %.*s is not supported", name, TEXT_ARGS(type));
}

enum err tokenizer_read_normal(struct tokenizer *t, struct arena *arena, const struct json *normal,
                               const char *name)
{
    return read_normal(t, arena, normal, name, 0);
}

// --- pre-tokenizer -----------------------------------------------------------

static const struct {
    const char *type;
    enum split_kind kind;
} split_types[] = {
    { "Split", SPLIT_PATTERN },
    { "ByteLevel", SPLIT_BYTE_LEVEL },
    { "Digits", SPLIT_DIGITS },
    { "Punctuation", SPLIT_PUNCTUATION },
    { "Whitespace", SPLIT_WHITESPACE },
    { "WhitespaceSplit", SPLIT_ON_WHITESPACE },
    { "BertPreTokenizer", SPLIT_BERT },
    { "Metaspace", SPLIT_METASPACE },
    { "CharDelimiterSplit", SPLIT_DELIMITER },
    { "UnicodeScripts", SPLIT_SCRIPTS },
    { "FixedLength", SPLIT_LENGTH },
};

static enum err read_behavior(struct split_step *step, const struct json *value, const char *name)
{
    static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous" };
    struct text behavior = json_get_text(value, "behavior");
    step->behavior = SPLIT_ISOLATED;
    if (!behavior.at)
        return OK;
    for (int i = 0; i < 5; i++)
        if (text_is(behavior, names[i])) {
            step->behavior = (enum split_behavior)i;
            return OK;
        }
    return fail(ERR_INPUT, "%s: the split behavior %.*s is not supported", name,
                TEXT_ARGS(behavior));
}

static enum err read_metaspace(struct split_step *step, struct arena *arena,
                               const struct json *value, const char *name)
{
    struct text scheme = json_get_text(value, "prepend_scheme");
    struct text mark = json_get_text(value, "replacement");
    step->literal = own(arena, mark.at ? mark : TEXT(TOKENIZER_MARK));
    step->splits = json_get_bool(value, "split", true);
    step->prepend = json_get_bool(value, "add_prefix_space", true) ? 2 : 0;
    if (text_is(scheme, "never"))
        step->prepend = 0;
    else if (text_is(scheme, "first"))
        step->prepend = 1;
    else if (text_is(scheme, "always"))
        step->prepend = 2;
    else if (scheme.at)
        return fail(ERR_INPUT, "%s: the prepend_scheme %.*s is not supported", name,
                    TEXT_ARGS(scheme));
    return OK;
}

static enum err read_length(struct split_step *step, const struct json *value, const char *name)
{
    double length = json_get_number(value, "length", 5);
    if (!(length >= 1 && length <= UINT32_MAX))
        return fail(ERR_INPUT, "%s: the pre-tokenizer FixedLength has the length %.17g", name,
                    length);
    step->length = (size_t)length;
    return OK;
}

static enum err fill_split(struct split_step *step, struct arena *arena, const struct json *value,
                           const char *name)
{
    switch (step->kind) {
    case SPLIT_PATTERN:
        TRY(read_behavior(step, value, name));
        step->inverted = json_get_bool(value, "invert", false);
        return read_pattern(arena, json_get(value, "pattern"), &step->literal, &step->pattern,
                            name);
    case SPLIT_DIGITS:
        step->each = json_get_bool(value, "individual_digits", false);
        step->behavior = step->each ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        return OK;
    case SPLIT_PUNCTUATION: return read_behavior(step, value, name);
    case SPLIT_DELIMITER: step->literal = own(arena, json_get_text(value, "delimiter")); return OK;
    case SPLIT_METASPACE: return read_metaspace(step, arena, value, name);
    case SPLIT_LENGTH: return read_length(step, value, name);
    case SPLIT_SCRIPTS:
        step->han = unicode_script_named("Han", 3);
        step->hiragana = unicode_script_named("Hiragana", 8);
        step->katakana = unicode_script_named("Katakana", 8);
        return OK;
    case SPLIT_BYTE_LEVEL:
        step->prefix_space = json_get_bool(value, "add_prefix_space", true);
        step->splits = json_get_bool(value, "use_regex", true);
        return pattern_read(&step->pattern, arena,
                            TEXT("'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                                 "\\s+(?!\\S)|\\s+"),
                            name);
    default: return OK;
    }
}

static enum err read_split(struct tokenizer *t, struct arena *arena, const struct json *value,
                           const char *name, int depth)
{
    if (is_absent(value))
        return OK;
    struct text type = json_get_text(value, "type");
    if (!type.at || depth > 8)
        return fail(ERR_INPUT, "%s: a pre-tokenizer has no type", name);
    if (text_is(type, "Sequence")) {
        const struct json *list = json_get(value, "pretokenizers");
        for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++)
            TRY(read_split(t, arena, &list->items[i], name, depth + 1));
        return OK;
    }
    if (t->byte_level && (text_is(type, "ByteLevel") || text_is(type, "Metaspace")))
        return fail(ERR_INPUT, "%s: the pre-tokenizer %.*s after ByteLevel is not supported", name,
                    TEXT_ARGS(type));
    for (size_t i = 0; i < sizeof split_types / sizeof *split_types; i++) {
        if (!text_is(type, split_types[i].type))
            continue;
        if (t->split_count == TOKENIZER_STEPS)
            return fail(ERR_INPUT, "%s: more than %d pre-tokenizers", name, TOKENIZER_STEPS);
        struct split_step *step = &t->split_steps[t->split_count++];
        step->kind = split_types[i].kind;
        step->mapped = t->byte_level;
        t->byte_level |= step->kind == SPLIT_BYTE_LEVEL;
        return fill_split(step, arena, value, name);
    }
    return fail(ERR_INPUT, "%s: the pre-tokenizer %.*s is not supported", name, TEXT_ARGS(type));
}

enum err tokenizer_read_split(struct tokenizer *t, struct arena *arena, const struct json *split,
                              const char *name)
{
    return read_split(t, arena, split, name, 0);
}

// --- post-processor ----------------------------------------------------------

enum { MOST_ADDED = 256 }; // tokens before a text, and as many after it: real ones have a few

// Adds a token of every text to its beginning or end.
static enum err add_token(struct tokenizer *t, struct arena *arena, bool after, double id,
                          const char *name)
{
    int32_t **ids = after ? &t->after : &t->before;
    int *count = after ? &t->after_count : &t->before_count;
    if (!(id >= 0 && id < TOKENIZER_IDS) || id != (double)(int32_t)id)
        return fail(ERR_INPUT, "%s: the post-processor adds a token of id %.17g", name, id);
    if (*count == MOST_ADDED)
        return fail(ERR_INPUT, "%s: the post-processor adds more than %d tokens to a text", name,
                    MOST_ADDED);
    if (!*count)
        *ids = ARENA_NEW(arena, int32_t, MOST_ADDED);
    (*ids)[(*count)++] = (int32_t)id;
    if ((int32_t)id >= t->size)
        t->size = (int32_t)id + 1;
    return OK;
}

// {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": …}], "special_tokens": {"<s>": {"ids":
// []}}}
static enum err read_template(struct tokenizer *t, struct arena *arena, const struct json *value,
                              const char *name)
{
    const struct json *list = json_get(value, "single"), *known = json_get(value, "special_tokens");
    bool after = false;
    for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++) {
        const struct json *piece = json_get(&list->items[i], "SpecialToken");
        if (!piece) {
            after = true;
            continue;
        }
        struct text token = json_get_text(piece, "id");
        const struct json *ids =
            json_get(json_get(known, token.at ? text_copy(arena, token) : ""), "ids");
        if (!ids || ids->kind != JSON_ARRAY)
            return fail(ERR_INPUT, "%s: the post-processor has no ids for %.*s", name,
                        TEXT_ARGS(token));
        for (size_t k = 0; k < ids->count; k++) {
            double id = ids->items[k].kind == JSON_NUMBER ? ids->items[k].number : -1;
            TRY(add_token(t, arena, after, id, name));
        }
    }
    return OK;
}

// {"sep": ["[SEP]", 102], "cls": ["[CLS]", 101]}
static enum err read_cls_sep(struct tokenizer *t, struct arena *arena, const struct json *value,
                             const char *name)
{
    const struct json *cls = json_get(value, "cls"), *sep = json_get(value, "sep");
    const struct json *const both[] = { cls, sep };
    for (int i = 0; i < 2; i++)
        if (!both[i] || both[i]->kind != JSON_ARRAY || both[i]->count != 2 ||
            both[i]->items[1].kind != JSON_NUMBER)
            return fail(ERR_INPUT, "%s: the post-processor has no cls and sep", name);
    TRY(add_token(t, arena, false, cls->items[1].number, name));
    return add_token(t, arena, true, sep->items[1].number, name);
}

static enum err read_post(struct tokenizer *t, struct arena *arena, const struct json *value,
                          const char *name, int depth)
{
    if (is_absent(value))
        return OK;
    struct text type = json_get_text(value, "type");
    if (!type.at || depth > 8)
        return fail(ERR_INPUT, "%s: a post-processor has no type", name);
    if (text_is(type, "Sequence")) {
        const struct json *list = json_get(value, "processors");
        for (size_t i = 0; list && list->kind == JSON_ARRAY && i < list->count; i++)
            TRY(read_post(t, arena, &list->items[i], name, depth + 1));
        return OK;
    }
    if (text_is(type, "ByteLevel") || text_is(type, "RobertaProcessing")) {
        t->trims_places = json_get_bool(value, "trim_offsets", true);
        t->keeps_first_space = json_get_bool(value, "add_prefix_space", true);
    }
    if (text_is(type, "ByteLevel"))
        return OK;
    if (text_is(type, "TemplateProcessing"))
        return read_template(t, arena, value, name);
    if (text_is(type, "BertProcessing") || text_is(type, "RobertaProcessing"))
        return read_cls_sep(t, arena, value, name);
    return fail(ERR_INPUT, "%s: the post-processor %.*s is not supported", name, TEXT_ARGS(type));
}

enum err tokenizer_read_post(struct tokenizer *t, struct arena *arena, const struct json *post,
                             const char *name)
{
    return read_post(t, arena, post, name, 0);
}
