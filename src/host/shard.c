// SPDX-License-Identifier: Apache-2.0
// Reads "3/8", or the variables in which schedulers number their tasks.

#include "host/shard.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The first row of each level whose index is set counts. `first`, `step`: of the numbers; NULL: 0
// and 1. `last` tells arrays with gaps, whose tasks cannot be numbered.
enum level { ARRAY, RANKS, LEVELS };
static const struct scheduler {
    enum level level;
    const char *name, *index, *count, *first, *last, *step;
} schedulers[] = {
    { ARRAY, "the Slurm array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT",
      "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP" },
    { ARRAY, "the AWS Batch array", "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE", NULL,
      NULL, NULL },
    { ARRAY, "the SGE array", "SGE_TASK_ID", NULL, "SGE_TASK_FIRST", "SGE_TASK_LAST",
      "SGE_TASK_STEPSIZE" },
    { ARRAY, "the Kubernetes job", "JOB_COMPLETION_INDEX", NULL, NULL, NULL, NULL },
    { RANKS, "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, NULL, NULL },
    { RANKS, "mpiexec", "PMI_RANK", "PMI_SIZE", NULL, NULL, NULL },
    { RANKS, "torchrun", "RANK", "WORLD_SIZE", NULL, NULL, NULL },
    { RANKS, "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, NULL, NULL },
    { RANKS, "SkyPilot", "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", NULL, NULL, NULL },
};

enum { SCHEDULERS = sizeof schedulers / sizeof *schedulers };

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
static enum err read_task(struct shard *out, const struct scheduler *from, int64_t stated)
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
                    "--shard auto: %s does not tell how many tasks it has; give --shard auto/N",
                    from->name);
    *out = (struct shard){ (number - first) / step, count };
    bool gaps = range && variable(from->count, range) != range;
    if (gaps || number < first || (number - first) % step || out->index >= count)
        return fail(ERR_USAGE,
                    "--shard auto: task %lld of %s is not one of %lld tasks numbered without gaps; "
                    "give --shard K/N",
                    (long long)number, from->name, (long long)count);
    return OK;
}

static enum err read_environment(struct shard *out, int64_t stated)
{
    bool found = false;
    *out = (struct shard){ 0, 1 };
    for (int level = 0; level < LEVELS; level++)
        for (int i = 0; i < SCHEDULERS; i++) {
            const struct scheduler *from = &schedulers[i];
            bool ranks = level == RANKS; // only where their number is known: batch scripts have one
            if ((int)from->level != level || !getenv(from->index) ||
                (ranks && !getenv(from->count)))
                continue;
            struct shard task = { 0, 1 };
            TRY(read_task(&task, from, ranks && found ? 0 : stated));
            *out = (struct shard){ out->index * task.count + task.index, out->count * task.count };
            found = true;
            break;
        }
    if (!found)
        return fail(ERR_USAGE, "--shard auto: no job array and no ranks are known here; give "
                               "--shard K/N, such as 1/8");
    return OK;
}

enum err shard_read(struct shard *out, const char *word)
{
    *out = (struct shard){ 0, 1 };
    if (!word)
        return OK;
    struct text rest = text_of(word), first = { 0 };
    char index[16], count[16];
    bool two = text_next(&rest, '/', &first) && rest.at;
    snprintf(index, sizeof index, "%.*s", TEXT_ARGS(first));
    snprintf(count, sizeof count, "%s", two ? rest.at : "");
    int64_t number = 0, stated = 0;
    if (two && (!read_count(&stated, count) || stated < 1))
        return fail(ERR_USAGE, "--shard is %s: the number after / must be at least 1", word);
    if (!strcmp(index, "auto"))
        return read_environment(out, stated);
    if (!two || !read_count(&number, index) || number < 1 || number > stated)
        return fail(ERR_USAGE, "--shard is %s, must be K/N with K from 1 to N, or auto", word);
    *out = (struct shard){ number - 1, stated };
    return OK;
}

bool shard_has(const struct shard *shard, size_t unit)
{
    return (int64_t)(unit % (size_t)shard->count) == shard->index;
}
