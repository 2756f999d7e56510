// gpuhours profile: counts the tokens of a dataset and simulates its batches.

#include "cli/command.h"
#include "cli/dataset.h"
#include "cli/ledger_entry.h"
#include "cli/print.h"
#include "host/file.h"

#include <stdio.h>
#include <string.h>

static struct request {
    const char *out;
    bool merge;
} request;

static struct dataset_options data;
static struct profile_settings settings = { .batching = -1 };

static const struct field output_fields[] = {
    FIELD(request, out, TEXT,
          "where the profile is written; profile.json if not said, - is stdout"),
    FIELD(request, merge, FLAG, "the files are profiles: add them up"),
    { 0 },
};

static const struct options *options(void)
{
    static const struct options groups[] = {
        { "Data", dataset_fields, &data },
        { "Batches", profile_settings_fields, &settings },
        { "Output", output_fields, &request },
        { 0 },
    };
    return groups;
}

// Settings that are not given are taken from the first profile.
static void keep_settings(const struct profile_settings *first)
{
    for (const struct field *field = profile_settings_fields; field->name; field++) {
        const char *from = (const char *)first + field->offset;
        char *to = (char *)&settings + field->offset;
        if (field->kind == FIELD_TEXT && !*(const char **)to)
            *(const char **)to = *(const char *const *)from;
        if (field->kind == FIELD_COUNT && !*(int64_t *)to)
            *(int64_t *)to = *(const int64_t *)from;
    }
    if (settings.batching < 0)
        settings.batching = first->batching;
}

static enum err merge(struct profile *out, struct command_line *line)
{
    for (int i = 0; i < line->positional_count; i++) {
        struct file file;
        struct profile next;
        const char *path = line->positional[i];
        TRY(file_open(&file, path));
        enum err err = profile_read(&next, line->arena, file.text, path);
        if (!err && !i)
            *out = next;
        else if (!err && (err = profile_merge(out, line->arena, out, &next)))
            error_prefix(err, "%s: ", path);
        file_close(&file);
        TRY(err);
    }
    keep_settings(&out->settings);
    return profile_finish(out, line->arena, NULL, &settings);
}

static enum err count(struct profile *out, struct command_line *line)
{
    struct lengths lengths = { .arena = line->arena };
    if (settings.batching < 0)
        settings.batching = BATCHING_LONGEST;
    const struct packing_trainer *trainer; // report a misspelled name before reading the data
    TRY(packing_trainer_find(&trainer, settings.stack, settings.packer));
    struct dataset dataset;
    TRY(dataset_open(&dataset, line->arena, &data));
    TRY(dataset_profile(out, &lengths, &dataset, line->positional, (size_t)line->positional_count,
                        line->common.quiet));
    return profile_finish(out, line->arena, lengths.count ? &lengths : NULL, &settings);
}

static enum err write_profile(struct profile *profile, struct command_line *line)
{
    struct out document = { .arena = line->arena }, text = print_out(line->arena);
    struct json_writer w = { .out = &document };
    profile_write(profile, &w);
    out_char(&document, '\n');
    if (line->common.json) {
        print_data(out_view(&document));
    } else if (!request.out || strcmp(request.out, "-")) {
        profile_print(profile, line->arena, &text);
        print_text(&text);
    }
    ledger_entry_document(line, out_view(&document));
    const char *path = request.out ? request.out : line->common.json ? NULL : "profile.json";
    if (!path || (line->common.json && !strcmp(path, "-")))
        return OK;
    TRY(file_write(path, out_view(&document)));
    if (!line->common.json && strcmp(path, "-"))
        print_put("\n  written     %s: contains no text of the data; use it with gpuhours plan "
                  "--profile %s\n",
                  path, path);
    return OK;
}

static enum err run(struct command_line *line)
{
    for (int i = 0; i < line->count && strcmp(line->words[i], "--"); i++)
        if (!strcmp(line->words[i], "-o")) // a common habit
            line->words[i] = "--out";
    TRY(command_read(line, options()));
    if (!line->positional_count)
        return fail(ERR_USAGE, "profile needs data: files, folders or - for standard input");
    struct profile profile = { 0 };
    TRY(request.merge ? merge(&profile, line) : count(&profile, line));
    return write_profile(&profile, line);
}

const struct command command_profile = {
    "profile",
    "what is in the data, in tokens, and how full batches are",
    "gpuhours profile train.jsonl --model meta-llama/Llama-3.1-8B-Instruct",
    run,
    options,
};
