// gpuhours profile: what is in the data, in tokens.

#include "cli/command.h"
#include "cli/data.h"
#include "cli/dataset.h"
#include "cli/ledger_entry.h"
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

// Whatever the command line leaves open is as in the first of the profiles.
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
    if (settings.stack)
        TRY(data_trainer(&settings.trainer, line, settings.stack));
    return profile_finish(out, line->arena, NULL, &settings);
}

static enum err count(struct profile *out, struct command_line *line)
{
    struct lengths lengths = { .arena = line->arena };
    if (settings.batching < 0)
        settings.batching = BATCHING_LONGEST;
    const struct packing_trainer *trainer; // a misspelled one is reported before the data is read
    if (settings.stack)
        TRY(data_trainer(&settings.trainer, line, settings.stack));
    TRY(packing_trainer_find(&trainer, settings.trainer, settings.packer));
    struct dataset dataset;
    TRY(dataset_open(&dataset, line->arena, &data));
    TRY(dataset_profile(out, &lengths, &dataset, line->positional, (size_t)line->positional_count,
                        line->common.quiet));
    return profile_finish(out, line->arena, lengths.count ? &lengths : NULL, &settings);
}

static enum err put_out(struct profile *profile, struct command_line *line)
{
    struct out document = { .arena = line->arena }, text = { .arena = line->arena };
    struct json_writer w = { .out = &document };
    profile_write(profile, &w);
    out_char(&document, '\n');
    if (line->common.json) {
        fwrite(document.at, 1, document.size, stdout);
    } else if (!request.out || strcmp(request.out, "-")) {
        profile_print(profile, line->arena, &text);
        fwrite(text.at, 1, text.size, stdout);
    }
    ledger_entry_document(line, out_view(&document));
    const char *path = request.out ? request.out : line->common.json ? NULL : "profile.json";
    if (!path || (line->common.json && !strcmp(path, "-")))
        return OK;
    TRY(file_write(path, out_view(&document)));
    if (!line->common.json && strcmp(path, "-"))
        printf("\n  written     %s: no text in it; gpuhours plan --profile %s goes on from here\n",
               path, path);
    return OK;
}

static enum err run(struct command_line *line)
{
    for (int i = 0; i < line->count && strcmp(line->words[i], "--"); i++)
        if (!strcmp(line->words[i], "-o")) // the one letter that everybody types
            line->words[i] = "--out";
    TRY(command_read(line, options()));
    if (!line->positional_count)
        return fail(ERR_USAGE, "profile wants data: files, folders or - for standard input");
    struct profile profile = { 0 };
    TRY(request.merge ? merge(&profile, line) : count(&profile, line));
    return put_out(&profile, line);
}

const struct command command_profile = {
    "profile",
    "what is in the data, in tokens, and how full batches are",
    "gpuhours profile train.jsonl --model meta-llama/Llama-3.1-8B-Instruct",
    run,
    options,
};
