// SPDX-License-Identifier: Apache-2.0
// Counts the examples of a dataset into a profile.

#include "cli/dataset/units.h"
#include "core/data/counting.h"
#include "host/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sums {
    struct counting counting;
    FILE *lengths; // of each example, in memory until all are known; NULL: not wanted
    char *text;
    size_t size;
    const char *path;
};

static enum err cannot_write(const struct sums *sums)
{
    return fail(ERR_UNAVAILABLE, "%s: cannot be written: %s", sums->path, strerror(errno));
}

static enum err add(void *context, const struct example *example)
{
    struct sums *sums = context;
    counting_add(&sums->counting, example);
    bool wanted = sums->lengths && !example->problem;
    if (wanted && fprintf(sums->lengths, "%lld,%lld\n", (long long)example->tokens,
                          (long long)example->labelled) < 0)
        return cannot_write(sums);
    return OK;
}

// Said before hours of counting. The file is written after them.
static bool has_folder(const char *path, struct arena *arena)
{
    const char *slash = strrchr(path, '/');
    return !slash || !access(arena_copy(arena, path, (size_t)(slash - path) + 1), W_OK);
}

static enum err open_lengths(struct sums *sums, struct arena *arena, const char *path)
{
    sums->path = path;
    if (!path)
        return OK;
    if (!has_folder(path, arena))
        return cannot_write(sums);
    sums->lengths = open_memstream(&sums->text, &sums->size);
    if (!sums->lengths || fputs("tokens,labelled\n", sums->lengths) < 0)
        return cannot_write(sums);
    return OK;
}

static enum err close_lengths(struct sums *sums, enum err err)
{
    if (!sums->lengths)
        return err;
    bool failed = ferror(sums->lengths) != 0;
    failed = fclose(sums->lengths) || failed;
    if (!err && failed)
        err = cannot_write(sums);
    if (!err)
        err = file_write(sums->path, (struct text){ sums->text, sums->size });
    free(sums->text);
    return err;
}

struct profile dataset_head(const struct dataset *dataset)
{
    return (struct profile){ .tokenizer = dataset->rule.tokenizer_name,
                             .exact = dataset->rule.exact,
                             .spread = dataset->rule.exact ? 0 : dataset->rule.family->spread,
                             .vision = dataset->rule.vision ? dataset->rule.vision->name : NULL,
                             .template = dataset->rule.template_name,
                             .labels = chat_label_names[dataset->options.labels] };
}

void dataset_describe(struct profile *out, struct arena *arena,
                      const struct dataset_reading *reading)
{
    size_t listed = 0;
    for (size_t i = 0; i < reading->shape_count; i++)
        counted_add_shape(out, arena, &listed, &reading->shapes[i]);
    profile_add_census(out, arena, &reading->census);
    out->left_out_files = reading->left_out_files;
    out->left_out_file = reading->left_out_file;
}

// After the last example: closes the file of lengths, and adds what is known of the data.
static enum err finish(struct sums *sums, struct arena *arena,
                       const struct dataset_reading *reading, const char *name, enum err err)
{
    struct profile *out = sums->counting.profile;
    err = close_lengths(sums, err);
    counting_end(&sums->counting);
    TRY(err);
    dataset_describe(out, arena, reading);
    out->files = reading->files;
    out->file_count = reading->file_count;
    return counting_check(&sums->counting, name);
}

enum err dataset_profile(struct profile *out, struct lengths *lengths, struct dataset *dataset,
                         const char *const *words, size_t count, const char *lengths_path,
                         bool quiet)
{
    *out = dataset_head(dataset);
    struct sums sums = { .counting = { .profile = out, .lengths = lengths } };
    struct dataset_reading reading = { .context = &sums, .give = add, .quiet = quiet };
    enum err err = open_lengths(&sums, dataset->arena, lengths_path);
    if (!err)
        err = dataset_read(dataset, words, count, &reading);
    const char *name = strcmp(words[0], "-") ? words[0] : "standard input";
    return finish(&sums, dataset->arena, &reading, name, err);
}

enum err units_profile(struct profile *out, struct lengths *lengths, struct units *units,
                       const char *lengths_path)
{
    *out = units->head;
    struct sums sums = { .counting = { .profile = out, .lengths = lengths } };
    struct dataset_reading reading = { .context = &sums, .give = add };
    enum err err = open_lengths(&sums, units->arena, lengths_path);
    if (!err)
        err = units_read(units, &reading);
    return finish(&sums, units->arena, &reading, units->folder, err);
}
