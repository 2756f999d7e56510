// SPDX-License-Identifier: Apache-2.0
// Reads one row as examples and counts their tokens: exactly with the model's tokenizer, or as an
// estimate with the built-in vocabulary.

#include "core/data/example.h"

#include "base/unicode.h"

#include <string.h>

enum { DETECT_ROWS = 64 }; // rows inspected to detect the format

// --- how text becomes tokens -------------------------------------------------

enum err example_family_template(const char **out, struct arena *arena, const char *model)
{
    struct tokenizer_family family;
    TRY(tokenizer_family(&family, arena, model));
    *out = strcmp(family.family, "Llama 3") ? "chatml" : "llama3";
    return OK;
}

enum err example_rule_estimate(struct example_rule *rule, struct arena *arena,
                               struct chat_format *format, const char *model)
{
    struct tokenizer_family *family = ARENA_NEW(arena, struct tokenizer_family, 1);
    TRY(tokenizer_builtin(&rule->tokenizer, arena));
    TRY(tokenizer_family(family, arena, model));
    rule->exact = false;
    rule->family = family;
    rule->tokenizer_name =
        text_format(arena, "built-in estimate for %s",
                    strcmp(family->family, "others") ? family->family : "other families");
    TRY(example_family_template(&rule->template_name, arena, model));
    chat_format_built_in(format, rule->template_name);
    return OK;
}

// Profiles made with different templates must not be merged. A profile does not store the template,
// so its name is the name of the file and a hash of the template's text.
static const char *name_of(struct arena *arena, const char *name, struct text source)
{
    const char *slash = strrchr(name, '/');
    uint32_t number = 2166136261u; // FNV-1a
    for (size_t i = 0; i < source.size; i++)
        number = (number ^ (unsigned char)source.at[i]) * 16777619u;
    return text_format(arena, "%s (%08x)", slash ? slash + 1 : name, number);
}

enum err example_rule_format(struct example_rule *rule, struct arena *arena,
                             const struct chat_format *format)
{
    if (format->source.at)
        TRY(template_compile(&rule->chat.template, arena, format->source, rule->template_name));
    rule->template_name =
        format->source.at ? name_of(arena, rule->template_name, format->source) : NULL;
    rule->chat.bos = format->bos;
    rule->chat.eos = format->eos;
    rule->chat.tokens = format->tokens;
    rule->chat.adapts = true;
    rule->chat.raw_pairs = true;
    return OK;
}

// --- rows --------------------------------------------------------------------

enum err example_detect(struct record_schema *out, struct arena *arena, const struct lines *rows,
                        const struct example_table *table, enum record_format format,
                        struct text fields)
{
    struct lines walk = *rows;
    struct text first[DETECT_ROWS];
    size_t count = 0;
    if (rows->cutter.format == LINES_CSV) {
        struct text *cells = ARENA_NEW(arena, struct text, DETECT_ROWS * table->name_count + 1);
        while (count < DETECT_ROWS && lines_next(&walk, &first[0]))
            count += !lines_cells(first[0], rows->cutter.separator, arena,
                                  cells + count * table->name_count, table->name_count);
        return record_detect_columns(out, arena, table->names, table->name_count, cells, count,
                                     format, fields);
    }
    while (count < DETECT_ROWS && lines_next(&walk, &first[count]))
        count++;
    return record_detect(out, arena, first, count, format, fields);
}

enum err example_read(struct record *out, struct arena *arena, const struct example_table *table,
                      const struct lines *rows, struct text row)
{
    if (rows->cutter.format == LINES_TEXT) {
        if (!unicode_valid(row.at, row.size))
            return fail(ERR_INPUT, "contains bytes that are not valid UTF-8" RECORD_CONVERT);
        *out = (struct record){ ARENA_NEW(arena, struct record_sequence, 1), 1 };
        out->sequences[0] = (struct record_sequence){ .kind = RECORD_PLAIN, .completion = row };
        return OK;
    }
    if (rows->cutter.format != LINES_CSV)
        return record_read(out, table->schema, arena, row);
    struct text *cells = ARENA_NEW(arena, struct text, table->name_count);
    const char *problem = lines_cells(row, rows->cutter.separator, arena, cells, table->name_count);
    if (problem)
        return fail(ERR_INPUT, "%s", problem);
    return record_read_columns(out, table->schema, arena, table->names, cells, table->name_count);
}

static bool is_blank(struct text text)
{
    return !text_trim(text).size;
}

bool example_is_empty(const struct record_sequence *sequence)
{
    if (sequence->kind == RECORD_CHAT)
        return sequence->messages.kind != TEMPLATE_LIST || !sequence->messages.list->count;
    return is_blank(sequence->prompt) && is_blank(sequence->input) &&
           is_blank(sequence->completion);
}

// --- counting ----------------------------------------------------------------

enum err example_worker_init(struct example_worker *worker, const struct example_rule *rule)
{
    *worker = (struct example_worker){ .rule = rule };
    TRY(chat_init(&worker->chat, &rule->chat));
    worker->cache = tokenizer_cache_init();
    tokenizer_cache_share(worker->cache, rule->words);
    return OK;
}

void example_worker_release(struct example_worker *worker)
{
    if (worker->cache) {
        chat_release(&worker->chat);
        tokenizer_cache_release(worker->cache);
    }
    arena_release(&worker->kept);
    *worker = (struct example_worker){ 0 };
}

static uint64_t folded(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0xD6E8FEB86659FD93);
    return hash ^ hash >> 32;
}

// Eight bytes at a time, multiplied and folded; in long texts four such hashes side by side, as
// each step waits for the one before. A copy of a size that the compiler knows is one instruction.
uint64_t example_hash(struct text text)
{
    enum { LANES = 4 };
    uint64_t hash = text.size * UINT64_C(0x9E3779B97F4A7C15), word;
    uint64_t lanes[LANES] = { 1, 2, 3, 4 };
    size_t at = 0;
    for (; text.size - at >= 8 * LANES; at += 8 * LANES)
        for (size_t i = 0; i < LANES; i++) {
            memcpy(&word, text.at + at + 8 * i, 8);
            lanes[i] = folded(lanes[i], word);
        }
    for (size_t i = 0; at && i < LANES; i++)
        hash = folded(hash, lanes[i]);
    for (; text.size - at >= 8; at += 8) {
        memcpy(&word, text.at + at, 8);
        hash = folded(hash, word);
    }
    if (at == text.size)
        return hash;
    word = 0;
    memcpy(&word, text.at + at, text.size - at);
    return folded(hash, word);
}

// The labelled bytes in the type that the tokenizer takes.
static const struct tokenizer_span *spans_of(struct example_worker *worker,
                                             const struct chat_text *text)
{
    if (worker->span_room < text->span_count) {
        worker->span_room = 2 * text->span_count;
        worker->spans = ARENA_NEW(&worker->kept, struct tokenizer_span, worker->span_room);
    }
    for (size_t i = 0; i < text->span_count; i++)
        worker->spans[i] = (struct tokenizer_span){ text->spans[i].start, text->spans[i].end };
    return worker->spans;
}

bool example_labels_all(const struct chat_text *text)
{
    return text->span_count == 1 && !text->spans[0].start && text->spans[0].end == text->text.size;
}

// Estimates the tokens that the model's family would count. A marker such as <|im_end|> is one
// token there; the built-in vocabulary has no special tokens and would split it into several.
static double estimate(struct example_worker *worker, struct text text, double *doubt)
{
    enum { LONGEST_MARKER = 32 };
    const struct example_rule *rule = worker->rule;
    struct tokenizer_parts parts = { 0 };
    double markers = 0;
    const char *end = text.at + text.size, *from = text.at;
    for (const char *at = from; (at = memchr(at, '<', (size_t)(end - at))); at++) {
        size_t room = (size_t)(end - at) < LONGEST_MARKER ? (size_t)(end - at) : LONGEST_MARKER;
        const char *close = room > 2 && at[1] == '|' ? memchr(at, '>', room) : NULL;
        if (!close || close[-1] != '|')
            continue;
        tokenizer_parts_add(&parts, rule->family, rule->tokenizer, worker->cache,
                            (struct text){ from, (size_t)(at - from) });
        markers++;
        from = close + 1;
        at = close;
    }
    tokenizer_parts_add(&parts, rule->family, rule->tokenizer, worker->cache,
                        (struct text){ from, (size_t)(end - from) });
    return tokenizer_estimate(rule->family, &parts, doubt) + markers;
}

static void count_estimate(struct example_worker *worker, struct example *out,
                           const struct chat_text *text)
{
    double sum = 0, doubt;
    for (size_t i = 0; i < text->span_count; i++)
        sum += estimate(worker,
                        (struct text){ text->text.at + text->spans[i].start,
                                       text->spans[i].end - text->spans[i].start },
                        &doubt);
    out->tokens = (int64_t)(estimate(worker, text->text, &doubt) + 0.5);
    out->labelled = example_labels_all(text) ? out->tokens : (int64_t)(sum + 0.5);
    out->labelled = out->labelled < out->tokens ? out->labelled : out->tokens;
    out->doubt = (int64_t)(doubt * TOKENIZER_DOUBT + 0.5);
}

static void describe(struct example *out, const struct chat_text *text)
{
    out->hash = example_hash(text->text);
    out->text_bytes = (int64_t)text->text.size;
    out->adapted = text->adapted;
    out->left_out = text->left_out;
    out->has_media = text->has_media;
}

void example_count(struct example_worker *worker, struct example *out, const struct chat_text *text)
{
    const struct example_rule *rule = worker->rule;
    int flags = text->wants_special_tokens ? TOKENIZER_SPECIAL : 0;
    if (!rule->exact)
        count_estimate(worker, out, text);
    else if (example_labels_all(text))
        out->tokens = out->labelled =
            tokenizer_count(rule->tokenizer, worker->cache, text->text, flags);
    else
        out->tokens =
            tokenizer_count_spans(rule->tokenizer, worker->cache, text->text, flags,
                                  spans_of(worker, text), text->span_count, &out->labelled);
    describe(out, text);
}

bool example_count_later(struct example_worker *worker, struct example *out,
                         const struct chat_text *text, int64_t *tokens)
{
    const struct example_rule *rule = worker->rule;
    if (!rule->exact || rule->vision || !example_labels_all(text)) {
        example_count(worker, out, text);
        return false;
    }
    tokenizer_count_later(rule->tokenizer, worker->cache, text->text,
                          text->wants_special_tokens ? TOKENIZER_SPECIAL : 0, tokens);
    describe(out, text);
    return true;
}

void example_finish(struct example_worker *worker)
{
    tokenizer_count_waiting(worker->rule->tokenizer, worker->cache);
}

// --- images ------------------------------------------------------------------

static enum err unknown_size(const struct record_image *image, const char *why)
{
    return fail(ERR_INPUT,
                "the size of an image is not known: %.*s%s%s; --image-folder names the folder of "
                "the images, --image-size WxH gives all of them one size",
                TEXT_BRIEF(image->source), image->source.size ? ": " : "", why);
}

static enum err size_of(struct image_size *out, struct example_worker *worker,
                        const struct record_image *image)
{
    const struct example_rule *rule = worker->rule;
    *out = rule->image_size;
    if (out->width > 0)
        return OK;
    if (vision_ignores_size(rule->vision)) {
        *out = (struct image_size){ 1, 1 };
        return OK;
    }
    switch (image->kind) {
    case RECORD_IMAGE_BASE64:
    case RECORD_IMAGE_ESCAPED: return record_image_size(out, image);
    case RECORD_IMAGE_REMOTE: return unknown_size(image, "it is not on this machine");
    case RECORD_IMAGE_UNKNOWN: return unknown_size(image, "the row does not say where it is");
    default: break;
    }
    if (!rule->read_file)
        return unknown_size(image, "no file can be read here");
    struct arena_mark mark = arena_mark(&worker->kept);
    enum err err = rule->read_file(out, &worker->kept, worker->folder, image->source);
    const char *why = err ? text_copy(&worker->chat.rows, text_of(error_text())) : NULL;
    arena_rewind(&worker->kept, mark);
    return err ? unknown_size(image, why) : OK;
}

// How often a text holds the family's placeholder or the usual one, and the tokens of both.
static int64_t placeholders(struct example_worker *worker, struct text text, double *tokens)
{
    const struct example_rule *rule = worker->rule;
    struct text marks[] = { text_of(rule->vision->placeholder ? rule->vision->placeholder : ""),
                            TEXT("<image>") };
    int64_t count = 0, of_mark[2] = { 0 };
    double doubt;
    for (size_t at = 0; at < text.size; at++)
        for (int i = 0; i < 2; i++) {
            bool here = marks[i].size && text.size - at >= marks[i].size &&
                        !memcmp(text.at + at, marks[i].at, marks[i].size);
            if (!here)
                continue;
            of_mark[i]++, count++;
            at += marks[i].size - 1;
            break;
        }
    for (int i = 0; i < 2; i++)
        if (of_mark[i])
            *tokens +=
                (double)of_mark[i] *
                (rule->exact ? (double)tokenizer_count(rule->tokenizer, worker->cache, marks[i], 0)
                             : estimate(worker, marks[i], &doubt));
    return count;
}

enum err example_images(struct example_worker *worker, struct example *example,
                        const struct chat_text *text)
{
    const struct example_rule *rule = worker->rule;
    const struct record_sequence *from = text->from;
    if (!rule->vision)
        return OK;
    double written = 0;
    int64_t places = placeholders(worker, text->text, &written);
    size_t count = from->image_count > (size_t)places ? from->image_count : (size_t)places;
    for (size_t i = 0; i < count; i++) {
        static const struct record_image unknown = { .kind = RECORD_IMAGE_UNKNOWN };
        const struct record_image *image = i < from->image_count ? &from->images[i] : &unknown;
        struct image_size size;
        struct vision_image cost;
        TRY(size_of(&size, worker, image));
        size = vision_shrunk(&size, rule->image_max_pixels);
        TRY(vision_measure(&cost, rule->vision, &size));
        vision_load_add(&example->images, &cost);
        example->hash = example->hash * 31 + example_hash(image->source);
    }
    int64_t replaced = (int64_t)(written + 0.5);
    replaced = replaced < example->tokens ? replaced : example->tokens;
    if (example_labels_all(text))
        example->labelled -= replaced; // images carry no loss
    example->tokens += (int64_t)example->images.tokens - replaced;
    example->has_media = from->has_other;
    return OK;
}
