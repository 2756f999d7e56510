// SPDX-License-Identifier: Apache-2.0
// Counts the examples of a dataset into a profile.

#include "cli/dataset.h"
#include "core/data/counting.h"

static enum err add(void *context, const struct example *example)
{
    counting_add(context, example);
    return OK;
}

enum err dataset_profile(struct profile *out, struct lengths *lengths, struct dataset *dataset,
                         const char *const *words, size_t count, bool quiet)
{
    *out = (struct profile){ .tokenizer = dataset->rule.tokenizer_name,
                             .exact = dataset->rule.exact,
                             .spread = dataset->rule.spread,
                             .template = dataset->rule.template_name,
                             .labels = chat_label_names[dataset->options.labels] };
    struct counting counting = { .profile = out, .lengths = lengths };
    struct dataset_reading reading = { .context = &counting, .give = add, .quiet = quiet };
    enum err err = dataset_read(dataset, words, count, &reading);
    counting_end(&counting);
    TRY(err);
    out->files = reading.files;
    out->file_count = reading.file_count;
    out->format = reading.format;
    return counting_check(&counting, words[0]);
}
