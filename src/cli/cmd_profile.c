// SPDX-License-Identifier: Apache-2.0
// gpuhours profile: counts the tokens of a dataset and simulates its batches.

#include "cli/command.h"
#include "cli/data.h"
#include "cli/dataset/units.h"
#include "cli/ledger_entry.h"
#include "cli/terminal/print.h"
#include "host/file.h"

#include <stdio.h>
#include <string.h>

static struct request {
    const char *out, *lengths;
    bool merge;
} request;

static struct dataset_options data;
static struct profile_settings settings;
static struct units_options work;
static struct shard shard; // of the units

static const struct field output_fields[] = {
    FIELD(request, out, TEXT, "file to write; - is standard output", .value = "FILE",
          .fallback = "profile.json, or none with --json"),
    FIELD(request, lengths, TEXT, "CSV file to write: tokens of each example, in file order",
          .value = "FILE", .fallback = "none"),
    FIELD(request, merge, FLAG, "merge profiles, or the folder of all units, into one"),
    { 0 },
};

// Whether standard output gets the profile in words; else it gets the document.
static bool prints_words(const struct command_line *line)
{
    return !line->common.json && (!request.out || strcmp(request.out, "-") != 0);
}

// Settings that are not given, of data that is counted; merged profiles have their own.
static struct profile_settings complete(struct profile_settings given)
{
    if (given.batching < 0)
        given.batching = BATCHING_LONGEST;
    return profile_settings_complete(&given);
}

static const struct options *list_options(struct arena *arena)
{
    static struct profile_settings defaults;
    static const struct options groups[] = {
        OPTIONS("reading the data", dataset_fields, &data),
        OPTIONS("simulated batches", profile_settings_fields, &settings, .defaults = &defaults),
        OPTIONS("work units", units_fields, &work),
        OPTIONS("output", output_fields, &request),
        { 0 },
    };
    (void)arena;
    request = (struct request){ 0 };
    data = (struct dataset_options){ 0 };
    settings = (struct profile_settings){ .batching = -1 };
    work = (struct units_options){ .unit_size = UNITS_BYTES };
    defaults = complete(settings);
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
    if (!settings.positions)
        settings.positions = first->positions;
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

// The units of a folder, without their data.
static enum err merge_units(struct profile *out, struct command_line *line)
{
    struct units units;
    struct lengths lengths = { .arena = line->arena };
    TRY(units_load(&units, line->arena, line->positional[0]));
    keep_settings(&units.settings);
    if (settings.stack)
        TRY(data_trainer(&settings.trainer, line, settings.stack));
    if (packing_strings_raw(settings.trainer) != units.raw_pairs)
        return fail(ERR_USAGE,
                    "%s: the units were counted for another kind of stack, which renders "
                    "prompts differently; count them again with --stack %s",
                    units.folder, settings.stack ? settings.stack : "hf");
    TRY(units_profile(out, &lengths, &units, request.lengths));
    return profile_finish(out, line->arena, lengths.count ? &lengths : NULL, &settings);
}

static void print_work(const struct units *units, const struct units_work *done)
{
    size_t all = units->manifest.count, present = units_present(units);
    print_put("  units       %zu of this share (%lld/%lld): %zu counted now, %zu were there\n",
              done->mine, (long long)shard.index + 1, (long long)shard.count, done->counted,
              done->done - done->counted);
    if (present < all)
        print_put("              %zu of %zu are in %s; when all are, merge them with\n", present,
                  all, units->folder);
    else
        print_put("              all %zu are in %s; merge them with\n", all, units->folder);
    print_put("              gpuhours profile --merge %s\n", units->folder);
}

// Counts the units of this process's share. Merges them too, if it has them all.
static enum err count_units(struct profile *out, struct lengths *lengths, struct dataset *dataset,
                            struct command_line *line)
{
    struct units units;
    struct units_work done = { .quiet = line->common.quiet,
                               .lines = line->common.json && shard.is_part };
    TRY(units_open(&units, dataset, line->positional, (size_t)line->positional_count, &work,
                   &settings, command_version));
    TRY(units_work(&units, dataset, &shard, &done));
    if (!shard.is_part)
        return units_profile(out, lengths, &units, request.lengths);
    if (!line->common.json)
        print_work(&units, &done);
    return OK;
}

static enum err count(struct profile *out, struct command_line *line)
{
    struct lengths lengths = { .arena = line->arena };
    settings.batching = complete(settings).batching;
    const struct packing_trainer *trainer; // report a misspelled name before reading the data
    if (settings.stack)
        TRY(data_trainer(&settings.trainer, line, settings.stack));
    TRY(packing_trainer_find(&trainer, settings.trainer, settings.packer));
    struct dataset dataset;
    data.trainer = settings.trainer;
    TRY(dataset_open(&dataset, line->arena, &data));
    dataset.warns_later = prints_words(line) && !shard.is_part;
    if (work.units)
        TRY(count_units(out, &lengths, &dataset, line));
    else
        TRY(dataset_profile(out, &lengths, &dataset, line->positional,
                            (size_t)line->positional_count, request.lengths, line->common.quiet));
    if (shard.is_part)
        return OK;
    return profile_finish(out, line->arena, lengths.count ? &lengths : NULL, &settings);
}

static const char *written(const struct command_line *line)
{
    return request.out ? request.out : line->common.json ? NULL : "profile.json";
}

static enum err write_profile(struct profile *profile, struct command_line *line)
{
    struct out document = { .arena = line->arena }, text = print_out(line->arena);
    struct json_writer w = { .out = &document };
    profile_write(profile, &w);
    out_char(&document, '\n');
    if (line->common.json) {
        print_data(out_view(&document));
    } else if (prints_words(line)) {
        profile_print(profile, line->arena, &text);
        print_text(&text);
    }
    ledger_entry_document(line, out_view(&document));
    const char *path = written(line);
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
    TRY(command_read(line, list_options(line->arena)));
    if (!line->positional_count)
        return fail(ERR_USAGE, "profile needs data: files, folders or - for standard input");
    bool of_units =
        request.merge && line->positional_count == 1 && units_is_folder(line->positional[0]);
    TRY(units_share(&shard, &work));
    if (work.units && request.merge)
        return fail(ERR_USAGE,
                    "to merge units, give their folder alone: gpuhours profile --merge %s",
                    work.units);
    if (request.merge && request.lengths && !of_units)
        return fail(ERR_USAGE, "--lengths needs the data; profiles that are merged have no order");
    TRY(shard.is_part ? OK : file_try(written(line)));
    TRY(shard.is_part ? OK : file_try(request.lengths));
    struct profile profile = { 0 };
    TRY(data_vision(&data.vision, &settings.positions, line, data.model));
    TRY(of_units        ? merge_units(&profile, line)
        : request.merge ? merge(&profile, line)
                        : count(&profile, line));
    return shard.is_part ? OK : write_profile(&profile, line);
}

static const char *const first[] = { "model",  "tokenizer", "template", "labels",
                                     "format", "context",   "batching", "stack",
                                     "out",    "merge",     "bad_rows", NULL };

static const struct command_example examples[] = {
    { "the built-in example data, as Llama 3.1 would read it",
      "gpuhours profile example --model llama-3.1-8b" },
    { "your data with the tokenizer and chat template of a model folder",
      "gpuhours profile train.jsonl --model ./model --out profile.json" },
    { "in units, by two processes, a job array, srun or mpirun; then merged",
      "gpuhours profile train.jsonl --model ./model --units counted --shard 1/2" },
    { "profiles of parts, counted on several machines",
      "gpuhours profile --merge profile.json profile.json --out all.json" },
    { 0 },
};

const struct command command_profile = {
    .name = "profile",
    .summary = "count tokens, lengths and padding; recommend a context",
    .usage = "DATA... [OPTION...]",
    .about =
        "Reads training data as a trainer would, counts tokens and labelled tokens with the "
        "model's tokenizer and chat template, and shows the distribution of lengths and how "
        "full batches are with padding, grouping and packing. The profile that it writes holds "
        "no text. DATA are files, folders, - for standard input, or the word example.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
