// SPDX-License-Identifier: Apache-2.0
// Unpacks files of prices and hands them to the readers of offers.

#include "cli/prices.h"

#include "cli/command.h"
#include "cli/terminal/print.h"
#include "host/archive.h"
#include "host/file.h"
#include "host/zip.h"

#include <string.h>

static bool is_packed(struct text bytes)
{
    return bytes.size >= 4 &&
           (!memcmp(bytes.at, "\x1f\x8b", 2) || !memcmp(bytes.at, "\x28\xb5\x2f\xfd", 4));
}

// "prices/aws.csv.gz" is the catalog of aws: the name without the packing.
static const char *name_inside(struct arena *arena, const char *path)
{
    size_t size = strlen(path);
    for (const char *const *end = (const char *const[]){ ".gz", ".zst", NULL }; *end; end++)
        if (size > strlen(*end) && !strcmp(path + size - strlen(*end), *end))
            return text_copy(arena, (struct text){ path, size - strlen(*end) });
    return path;
}

static bool is_table(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (!strcmp(dot, ".csv") || !strcmp(dot, ".json") || !strcmp(dot, ".jsonl"));
}

static enum err read_zip(struct offers *out, struct offers_report *report, struct arena *arena,
                         const struct offers_source *source, struct text bytes, const char *path)
{
    struct zip_file *files;
    size_t count, read = 0;
    *out = (struct offers){ 0 };
    *report = (struct offers_report){ 0 };
    TRY(zip_read(&files, &count, arena, bytes, path));
    for (size_t i = 0; i < count; i++) {
        struct offers more;
        struct offers_report part;
        struct offers_source inside = *source;
        if (!is_table(files[i].name))
            continue;
        inside.text = files[i].text;
        inside.name = text_format(arena, "%s/%s", path, files[i].name);
        TRY(offers_read(&more, &part, arena, &inside));
        offers_override(out, arena, &more);
        offers_report_add(report, &part);
        read++;
    }
    return read ? OK : fail(ERR_INPUT, "%s: has no CSV or JSON file", path);
}

enum err prices_read(struct offers *out, struct offers_report *report, struct arena *arena,
                     const struct offers_source *source, const char *path)
{
    struct file file;
    struct offers_source inside = *source;
    TRY(file_open(&file, path));
    inside.text = file.text;
    inside.name = name_inside(arena, path);
    enum err err = OK;
    if (is_packed(file.text) && strcmp(path, "-"))
        err = archive_read_all(&inside.text, arena, path);
    if (!err)
        err = zip_is(file.text) ? read_zip(out, report, arena, source, file.text, path)
                                : offers_read(out, report, arena, &inside);
    file_close(&file);
    return err;
}

static enum err override(struct offers *offers, struct arena *arena, const struct catalog *catalog,
                         const char *path)
{
    struct offers_source source = { .catalog = catalog };
    struct offers more;
    struct offers_report report;
    TRY(prices_read(&more, &report, arena, &source, path));
    if (report.kept + report.merged + report.parts < report.rows + report.formed ||
        report.unplaced || report.undated)
        print_note("%s: %s", path, offers_report_spell(&report, arena));
    offers_override(offers, arena, &more);
    return OK;
}

// The value of a word "--offers FILE" or "--offers=FILE", or NULL.
static const char *offers_file(const struct command_line *line, int at)
{
    const char *word = line->words[at];
    if (!strncmp(word, "--offers=", 9))
        return word + 9;
    return !strcmp(word, "--offers") && at + 1 < line->count ? line->words[at + 1] : NULL;
}

enum err prices_override(struct offers *offers, const struct command_line *line,
                         const struct catalog *catalog, const char *other,
                         const struct offers_machine *machine)
{
    size_t files = 0;
    for (int i = 0; i < line->count && strcmp(line->words[i], "--"); i++)
        if (offers_file(line, i)) {
            files++;
            TRY(override(offers, line->arena, catalog, offers_file(line, i)));
        }
    if (other && !files)
        TRY(override(offers, line->arena, catalog, other));
    return offers_machine_add(offers, line->arena, catalog, machine);
}

enum err prices_of_catalog(struct catalog *catalog, const struct command_line *line,
                           const char *other, const struct offers_machine *machine)
{
    struct offers offers;
    offers_of_catalog(&offers, line->arena, catalog);
    TRY(prices_override(&offers, line, catalog, other, machine));
    struct offer *rows = ARENA_NEW(line->arena, struct offer, offers.count + 1);
    for (size_t i = 0; i < offers.count; i++)
        rows[i] = offers.rows[i].offer;
    catalog->offers = rows;
    catalog->offer_count = offers.count;
    return OK;
}
