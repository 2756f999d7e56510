// SPDX-License-Identifier: Apache-2.0
// Reads "3/8", or the variables in which job arrays and launchers number their tasks.

#include "host/shard.h"

#include "base/text.h"
#include "host/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Schedulers that start a command many times and number the tasks; the first whose index is set
// counts. `first`, `step`: of the numbers; NULL: 0 and 1. `last` tells arrays with gaps, whose
// tasks cannot be numbered.
struct numbering {
    const char *name, *index, *count, *first, *last, *step;
};
static const struct numbering arrays[] = {
    { "the Slurm array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN",
      "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP" },
    { "the AWS Batch array", "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE", NULL, NULL,
      NULL },
    { "the SGE array", "SGE_TASK_ID", NULL, "SGE_TASK_FIRST", "SGE_TASK_LAST",
      "SGE_TASK_STEPSIZE" },
    { "the Kubernetes job", "JOB_COMPLETION_INDEX", NULL, NULL, NULL, NULL },
};

enum { ARRAYS = sizeof arrays / sizeof *arrays };

static const int64_t MOST = 1000000000;

static bool read_count(int64_t *out, const char *text)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    *out = strtoll(text, &end, 10);
    return !*end && *out <= MOST;
}

static int64_t variable(const char *name, int64_t otherwise)
{
    int64_t value;
    return name && read_count(&value, getenv(name)) ? value : otherwise;
}

// The task of one scheduler. `stated`: its count, or 0.
static enum err read_task(struct shard *out, const struct numbering *from, int64_t stated)
{
    int64_t first = variable(from->first, 0), step = variable(from->step, 1), number;
    if (!read_count(&number, getenv(from->index)))
        return fail(ERR_USAGE, "--shard auto: %s of %s is %s, must be a number", from->index,
                    from->name, getenv(from->index));
    step = step > 0 ? step : 1;
    int64_t last = variable(from->last, -1), range = last < 0 ? 0 : (last - first) / step + 1;
    int64_t count = stated ? stated : variable(from->count, range);
    if (!count)
        return fail(ERR_USAGE,
                    "--shard auto: %s does not tell how many tasks it has; give --shard auto/N, or "
                    "--shard all for a process that does everything",
                    from->name);
    *out = (struct shard){ (number - first) / step, count, true };
    bool gaps = range && variable(from->count, range) != range;
    if (gaps || number < first || (number - first) % step || out->index >= count)
        return fail(ERR_USAGE,
                    "--shard auto: task %lld of %s is not one of %lld tasks numbered without gaps; "
                    "give --shard K/N",
                    (long long)number, from->name, (long long)count);
    return OK;
}

static bool is_task(const char *index)
{
    return index && *index && strcmp(index, "undefined"); // SGE's word for a job without an array
}

// The task of the job array, and within it the rank. Finds neither: count is 0. `stated`: how many
// there are of the outer of the two, or 0.
static enum err read_environment(struct shard *out, int64_t stated)
{
    const struct launcher *launcher = launcher_find(getenv);
    struct numbering ranks = { 0 };
    if (launcher)
        ranks =
            (struct numbering){ launcher->name, launcher->rank, launcher->size, NULL, NULL, NULL };
    int array = 0;
    while (array < ARRAYS && !is_task(getenv(arrays[array].index)))
        array++;
    *out = (struct shard){ 0 };
    if (array < ARRAYS)
        TRY(read_task(out, &arrays[array], stated));
    if (!launcher)
        return OK;
    struct shard task = { 0 }, outer = out->count ? *out : (struct shard){ 0, 1, true };
    TRY(read_task(&task, &ranks, out->count ? 0 : stated));
    *out = (struct shard){ outer.index * task.count + task.index, outer.count * task.count, true };
    return OK;
}

static enum err read_share(struct shard *out, const char *word)
{
    struct text rest = text_of(word), first = { 0 };
    char index[16], count[16];
    bool two = text_next(&rest, '/', &first) && rest.at;
    snprintf(index, sizeof index, "%.*s", TEXT_ARGS(first));
    snprintf(count, sizeof count, "%s", two ? rest.at : "");
    int64_t number = 0, stated = 0;
    if (two && (!read_count(&stated, count) || stated < 1))
        return fail(ERR_USAGE, "--shard is %s: the number after / must be at least 1", word);
    if (!strcmp(index, "auto")) {
        TRY(read_environment(out, stated));
        return out->count ? OK
                          : fail(ERR_USAGE, "--shard auto: no job array and no ranks are known "
                                            "here; give --shard K/N, such as 1/8");
    }
    if (!two || !read_count(&number, index) || number < 1 || number > stated)
        return fail(ERR_USAGE, "--shard is %s, must be K/N with K from 1 to N, auto or all", word);
    *out = (struct shard){ number - 1, stated, true };
    return OK;
}

enum err shard_read(struct shard *out, const char *word)
{
    static const struct shard all = { 0, 1, false };
    *out = all;
    if (word && !strcmp(word, "all"))
        return OK;
    if (word)
        return read_share(out, word);
    TRY(read_environment(out, 0));
    if (out->count <= 1)
        *out = all;
    return OK;
}

bool shard_has(const struct shard *shard, size_t unit)
{
    return (int64_t)(unit % (size_t)shard->count) == shard->index;
}
