// SPDX-License-Identifier: Apache-2.0
// Finds the tokenizer and the chat template of a dataset.

#include "cli/dataset/dataset.h"

#include "base/checksum.h"
#include "core/data/chat_format.h"
#include "host/file.h"
#include "host/hub.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const bad_rows_names[] = { "stop", "skip", NULL };

const struct field dataset_fields[] = {
    FIELD(dataset_options, model, TEXT, "model whose tokenizer and chat template are used",
          .value = "MODEL", .fallback = ""),
    FIELD(dataset_options, tokenizer, TEXT,
          "tokenizer.json, .model or .tiktoken file, folder, or hub name", .value = "FILE",
          .fallback = "that of the model, else an estimate"),
    FIELD(dataset_options, template, TEXT,
          "chat template: .jinja file, chatml, llama3, plain or none", .value = "FILE",
          .fallback = "that of the model"),
    FIELD_OF(dataset_options, format, record_format_names,
             "format of the rows; csv reads the data as CSV whatever its name", .value = "FORMAT"),
    FIELD(dataset_options, fields, TEXT, "column names, e.g. instruction=query,output=reply",
          .value = "LIST", .fallback = "detected"),
    FIELD_OF(dataset_options, labels, chat_label_names, "which tokens carry loss",
             .value = "TOKENS"),
    FIELD(dataset_options, system, TEXT, "system message for conversations without one",
          .value = "TEXT", .fallback = ""),
    FIELD(dataset_options, date, DATE, "date that chat templates see", .fallback = "today"),
    FIELD(dataset_options, image_size, TEXT,
          "size of every image, in pixels, instead of its file's", .value = "WxH",
          .fallback = "read from the files"),
    FIELD(dataset_options, image_max_pixels, COUNT,
          "pixels to which the trainer shrinks larger images",
          .fallback = "as the model's processor does"),
    FIELD(dataset_options, image_folder, TEXT, "folder of the images that rows name",
          .value = "DIR", .fallback = "that of the data"),
    FIELD_OF(dataset_options, bad_rows, bad_rows_names, "what to do at an unusable row",
             .value = "ACTION"),
    FIELD(dataset_options, threads, COUNT, "threads for reading and tokenizing",
          .fallback = "all cores"),
    { 0 },
};

// --- identity ----------------------------------------------------------------

static void identify(struct dataset *dataset, const char *what, struct text content)
{
    out_put(&dataset->identity, "%s %zu %s\n", what, content.size,
            checksum_text(dataset->arena, checksum(content, 0)));
}

// The options but those that change nothing about a row.
static void identify_options(struct dataset *dataset)
{
    for (const struct field *field = dataset_fields; field->name; field++) {
        const char *value = field_spell(field, &dataset->options, dataset->arena);
        if (strcmp(field->name, "threads") && strcmp(field->name, "date"))
            out_put(&dataset->identity, "%s=%zu:%s\n", field->name, strlen(value), value);
    }
    const struct vision *vision = dataset->options.vision;
    out_put(&dataset->identity, "vision=%s raw_pairs=%d\n", vision ? vision->name : "",
            dataset->rule.chat.raw_pairs);
}

// The date counts only where a template shows it: else a job may run past midnight.
static void identify_date(struct dataset *dataset, struct text template)
{
    static const struct text call = TEXT("strftime_now");
    bool shown = false;
    for (size_t i = 0; i + call.size <= template.size && !shown; i++)
        shown = !memcmp(template.at + i, call.at, call.size);
    const struct template_date *date = &dataset->rule.chat.date;
    if (shown)
        out_put(&dataset->identity, "date=%d-%d-%d\n", date->year, date->month, date->day);
    dataset->needs_date = shown && !dataset->options.date;
}

// --- tokenizer and template --------------------------------------------------

static const char *beside(struct arena *arena, const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return slash ? text_format(arena, "%.*s/%s", (int)(slash - path), path, name) : name;
}

static bool is_config(struct arena *arena, const char *path)
{
    struct json root;
    struct text text;
    size_t size = strlen(path);
    return size > 5 && !strcmp(path + size - 5, ".json") && !access(path, R_OK) &&
           !file_read(&text, arena, path) && !json_read(&root, arena, text, path) &&
           json_get(&root, "model_type");
}

// The tokenizer of --model. The files of a model whose config.json was given lie beside it.
static enum err find_model_tokenizer(const char **path, struct arena *arena, const char *model)
{
    const char *place = is_config(arena, model) ? beside(arena, model, ".") : model;
    return hub_find_tokenizer(path, arena, place);
}

// path stays NULL if the tokens are estimated.
static enum err read_tokenizer(struct dataset *dataset, const char **path)
{
    const struct dataset_options *options = &dataset->options;
    const char *given = options->tokenizer;
    *path = NULL;
    if (given && !strcmp(given, "built-in"))
        return OK;
    if (!given && (!options->model || find_model_tokenizer(path, dataset->arena, options->model)))
        return OK;
    if (given)
        TRY(hub_find_tokenizer(path, dataset->arena, given));
    struct file file;
    TRY(file_open(&file, *path));
    enum err err = tokenizer_read(&dataset->rule.tokenizer, dataset->arena, file.text, *path);
    identify(dataset, "tokenizer", file.text);
    file_close(&file);
    dataset->rule.tokenizer_name = given ? given : options->model;
    dataset->rule.exact = true;
    return err;
}

// Reads a tokenizer_config.json or a template; the text stays in the arena.
static enum err read_format(struct chat_format *out, struct dataset *dataset, const char *path)
{
    struct text copy;
    TRY(file_read(&copy, dataset->arena, path));
    identify(dataset, "template", copy);
    return chat_format_read(out, dataset->arena, copy, path, NULL);
}

// Replaces the template of format by other's. Special tokens are the tokenizer's own, and other's
// only where it names none: a trainer ends a row with a token that its tokenizer has.
static void use_template(struct chat_format *format, const struct chat_format *other)
{
    format->source = other->source;
    format->bos = format->bos.at ? format->bos : other->bos;
    format->eos = format->eos.at ? format->eos : other->eos;
}

// The template beside a tokenizer: chat_template.jinja, else the one in tokenizer_config.json,
// which has the special tokens in either case.
static enum err read_beside(struct chat_format *format, struct dataset *dataset,
                            const char *tokenizer_path)
{
    const char *config = beside(dataset->arena, tokenizer_path, "tokenizer_config.json");
    const char *jinja = beside(dataset->arena, tokenizer_path, "chat_template.jinja");
    if (!access(config, R_OK)) {
        TRY(read_format(format, dataset, config));
        dataset->rule.template_name = config;
    }
    if (access(jinja, R_OK))
        return OK;
    struct chat_format other;
    TRY(read_format(&other, dataset, jinja));
    use_template(format, &other);
    dataset->rule.template_name = jinja;
    return OK;
}

// The template that --model alone would use: the one beside its own tokenizer, else its family's.
static enum err read_model_template(struct chat_format *format, struct dataset *dataset)
{
    struct chat_format other = { 0 };
    const char *model = dataset->options.model, *path;
    if (!find_model_tokenizer(&path, dataset->arena, model)) {
        TRY(read_beside(&other, dataset, path));
    } else {
        TRY(example_family_template(&dataset->rule.template_name, dataset->arena, model));
        chat_format_built_in(&other, dataset->rule.template_name);
    }
    use_template(format, &other);
    return OK;
}

static enum err find_format(struct chat_format *format, struct dataset *dataset,
                            const char *tokenizer_path)
{
    const struct dataset_options *options = &dataset->options;
    const char *given = options->template;
    if (tokenizer_path)
        TRY(read_beside(format, dataset, tokenizer_path));
    else
        TRY(example_rule_estimate(&dataset->rule, dataset->arena, format,
                                  options->model ? options->model : ""));
    struct chat_format other = { 0 };
    if (given && !strcmp(given, "none")) {
        format->source = (struct text){ 0 };
        return OK;
    }
    if (!given)
        return format->source.at || !options->tokenizer || !options->model
                   ? OK
                   : read_model_template(format, dataset);
    if (!chat_format_built_in(&other, given)) {
        TRY(read_format(&other, dataset, given));
        if (!other.source.at)
            return fail(ERR_INPUT, "%s: has no chat template in it", given);
    }
    dataset->rule.template_name = given;
    use_template(format, &other);
    return OK;
}

enum err dataset_read_date(struct template_date *out, const char *date)
{
    return sscanf(date, "%d-%d-%d", &out->year, &out->month, &out->day) == 3
               ? OK
               : fail(ERR_USAGE, "--date is %s, must be a date like 2026-08-22", date);
}

static struct template_date today(void)
{
    time_t now = time(NULL);
    struct tm t;
    gmtime_r(&now, &t);
    struct template_date date = { .year = t.tm_year + 1900,
                                  .month = t.tm_mon + 1,
                                  .day = t.tm_mday };
    return date;
}

void dataset_label_answers(struct dataset_options *options)
{
    if (options->labels == CHAT_ALL)
        options->labels = CHAT_COMPLETION;
}

enum err dataset_open(struct dataset *dataset, struct arena *arena,
                      const struct dataset_options *options)
{
    *dataset =
        (struct dataset){ .options = *options, .arena = arena, .identity = { .arena = arena } };
    struct chat_format format = { 0 };
    const char *path;
    TRY(read_tokenizer(dataset, &path));
    TRY(find_format(&format, dataset, path));
    TRY(example_rule_format(&dataset->rule, arena, &format));
    dataset->rule.chat.labels = (enum chat_labels)options->labels;
    dataset->rule.chat.raw_pairs = packing_strings_raw(options->trainer);
    dataset->rule.vision = options->vision;
    dataset->rule.image_max_pixels = options->image_max_pixels;
    dataset->rule.read_file = dataset_image_file;
    if (options->image_size)
        TRY(error_prefix(image_read_words(&dataset->rule.image_size, text_of(options->image_size)),
                         "--image-size: "));
    if (options->system)
        dataset->rule.chat.system = text_of(options->system);
    dataset->rule.chat.date = today();
    if (options->date)
        TRY(dataset_read_date(&dataset->rule.chat.date, options->date));
    identify_options(dataset);
    identify_date(dataset, format.source);
    return OK;
}
