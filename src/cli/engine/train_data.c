// SPDX-License-Identifier: Apache-2.0
// Reads a rank's share of the data files, checks that all ranks see the same files, and gathers.

#include "cli/engine/train_data.h"

#include "base/checksum.h"
#include "host/source.h"
#include "train/data_share.h"

struct reading {
    struct train_data *data;
    struct loader *loader;
    struct dataset dataset;
    const struct manifest_unit *unit; // that is being read; NULL: all
    int64_t read_bytes;
    bool is_first; // the rank that speaks
};

static enum err add_example(void *context, const struct example *example)
{
    struct reading *r = context;
    if (example->problem || !example->is_second)
        loader_drop_half(r->loader);
    if (example->problem)
        return OK;
    for (int64_t i = 0; i < example->tokens; i++)
        if (example->ids[i] < 0 || example->ids[i] >= r->data->vocabulary) {
            int64_t before = r->unit ? source_lines_before(example->file, r->unit->from) : 0;
            return fail(
                ERR_INPUT,
                "%s:%lld: token %d is outside the model's vocabulary of %lld; give the model's own "
                "--tokenizer",
                example->file, (long long)(example->line + before), example->ids[i],
                (long long)r->data->vocabulary);
        }
    loader_add(r->loader, example->ids, example->learned, example->tokens);
    return OK;
}

static enum err read_unit(struct reading *r, const char *const *words, size_t count,
                          const struct manifest_unit *unit)
{
    struct dataset_reading reading = { .context = r,
                                       .give = add_example,
                                       .wants_ids = true,
                                       .quiet = r->data->quiet || !r->is_first,
                                       .from = unit ? unit->from : 0,
                                       .to = unit ? unit->to : 0 };
    r->unit = unit && unit->from ? unit : NULL;
    TRY(dataset_read(&r->dataset, words, count, &reading));
    r->read_bytes += reading.read_bytes;
    loader_drop_half(r->loader);
    return r->loader->settings.pairs ? dataset_check_pairs(&reading) : OK;
}

// Of the sizes, in order: hosts that see other files would train on other rows.
static uint64_t sum_files(const struct inputs *inputs)
{
    struct text sizes = { (const char *)inputs->sizes, inputs->count * sizeof *inputs->sizes };
    return checksum(sizes, 0) >> 12; // exact as a double
}

static enum err check_same_files(struct group *group, const struct inputs *inputs)
{
    double sum = (double)sum_files(inputs), least[] = { sum, -sum };
    TRY(group_least(group, least, 2));
    return least[0] == -least[1]
               ? OK
               : fail(ERR_INPUT, "the ranks see data files of different sizes; give --data "
                                 "a folder that all hosts share, or the same copies");
}

static enum err read_share(struct reading *r, struct arena *arena, struct group *group)
{
    const struct train_data *data = r->data;
    struct inputs inputs;
    struct manifest_unit *units;
    if (group->size == 1)
        return read_unit(r, data->words, data->count, NULL);
    if (dataset_is_example(data->words, data->count))
        return group->rank ? OK : read_unit(r, data->words, data->count, NULL);
    TRY(inputs_find(&inputs, arena, data->words, data->count));
    TRY(check_same_files(group, &inputs));
    if (r->is_first)
        dataset_note_left_out(&inputs);
    size_t count = data_share(&units, arena, &inputs, group->rank, group->size);
    for (size_t i = 0; i < count; i++)
        TRY(read_unit(r, inputs.paths + units[i].file, units[i].files, &units[i]));
    return OK;
}

static enum err tell_bytes(struct train_data *data, struct group *group, int64_t read_bytes)
{
    double all = (double)read_bytes, most = -all;
    TRY(group_sum(group, &all, 1));
    TRY(group_least(group, &most, 1));
    data->read_bytes = (int64_t)all;
    data->most_bytes = (int64_t)-most;
    return OK;
}

enum err train_data_read(struct train_data *data, struct loader *loader, struct arena *arena,
                         struct group *group)
{
    struct reading reading = { .data = data, .loader = loader, .is_first = !group->rank };
    TRY(dataset_open(&reading.dataset, arena, data->options));
    if (!reading.dataset.rule.exact && !data->options->tokenizer)
        return fail(ERR_INPUT,
                    "%s: no tokenizer found there (tokenizer.json, tokenizer.model), and training "
                    "needs the model's own; give --tokenizer",
                    data->options->model);
    TRY(read_share(&reading, arena, group));
    TRY(loader_gather(loader, group));
    return tell_bytes(data, group, reading.read_bytes);
}
