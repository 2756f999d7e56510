// SPDX-License-Identifier: Apache-2.0
// Shares of work: as they are told, and as schedulers number their tasks.

#include "host/shard.h"

#include "test/test.h"

#include <stdlib.h>
#include <string.h>

static const char *const variables[] = {
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_MAX",
    "SLURM_ARRAY_TASK_STEP",
    "AWS_BATCH_JOB_ARRAY_INDEX",
    "SGE_TASK_ID",
    "SGE_TASK_FIRST",
    "SGE_TASK_LAST",
    "SGE_TASK_STEPSIZE",
    "JOB_COMPLETION_INDEX",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "RANK",
    "WORLD_SIZE",
    "MPI_LOCALRANKID",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SKYPILOT_NODE_RANK",
    "SKYPILOT_NUM_NODES",
    "DSTACK_NODE_RANK",
    "DSTACK_NODES_NUM",
    "SLURM_NTASKS",
    "AWS_BATCH_JOB_ARRAY_SIZE",
};

// Sets "NAME=1 OTHER=2" in an environment that has no other scheduler.
static void set(const char *words)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    char copy[256];
    strncpy(copy, words, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value = 0;
        setenv(word, value + 1, 1);
    }
}

static bool is(const char *environment, const char *word, int64_t index, int64_t count)
{
    struct shard shard;
    set(environment);
    bool right = !shard_read(&shard, word) && shard.index == index && shard.count == count;
    set("");
    return right;
}

static bool refused(const char *environment, const char *word, const char *reason)
{
    struct shard shard;
    set(environment);
    bool right = shard_read(&shard, word) == ERR_USAGE && strstr(error_text(), reason);
    set("");
    return right;
}

TEST(shard_is_read_as_k_of_n)
{
    CHECK(is("", NULL, 0, 1) && is("", "all", 0, 1) && is("", "1/1", 0, 1) && is("", "3/8", 2, 8));
    CHECK(refused("", "0/8", "K from 1") && refused("", "9/8", "K from 1"));
    CHECK(refused("", "3", "K/N") && refused("", "3/", "at least 1"));
    CHECK(refused("", "-1/8", "K/N") && refused("", "1/8x", "at least 1"));
    CHECK(refused("", "1/99999999999999999999", "at least 1"));
}

TEST(shard_auto_follows_job_arrays)
{
    CHECK(is("SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=3 "
             "SLURM_ARRAY_TASK_MAX=6 SLURM_ARRAY_TASK_STEP=1",
             "auto", 2, 4));
    CHECK(is("SLURM_ARRAY_TASK_ID=20 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=0 "
             "SLURM_ARRAY_TASK_MAX=20 SLURM_ARRAY_TASK_STEP=10",
             "auto", 2, 3));
    CHECK(is("AWS_BATCH_JOB_ARRAY_INDEX=6 AWS_BATCH_JOB_ARRAY_SIZE=7", "auto", 6, 7));
    CHECK(is("SGE_TASK_ID=3 SGE_TASK_FIRST=1 SGE_TASK_LAST=5 SGE_TASK_STEPSIZE=2", "auto", 1, 3));
    CHECK(is("JOB_COMPLETION_INDEX=2", "auto/4", 2, 4));
    CHECK(refused("JOB_COMPLETION_INDEX=2", "auto", "auto/N"));
    CHECK(refused("JOB_COMPLETION_INDEX=4", "auto/4", "not one of 4"));
}

TEST(shard_auto_refuses_an_array_with_gaps)
{
    CHECK(refused("SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1 "
                  "SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_STEP=1",
                  "auto", "without gaps"));
    CHECK(refused("", "auto", "no job array"));
    CHECK(refused("RANK=x WORLD_SIZE=2", "auto", "must be a number"));
}

TEST(shard_auto_gives_ranks_their_part_of_a_task)
{
    CHECK(is("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3", "auto", 1, 3));
    CHECK(is("PMI_RANK=0 PMI_SIZE=2 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2", "auto", 0, 2));
    CHECK(is("SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4", "auto", 2, 4));
    CHECK(is("SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MIN=0 "
             "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4",
             "auto", 7, 8));
    CHECK(is("SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MIN=0 SLURM_PROCID=0",
             "auto", 1, 2)); // the batch script itself
}

TEST(shard_without_a_word_is_that_of_the_rank_or_task)
{
    CHECK(is("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3", NULL, 1, 3));
    CHECK(is("SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=3 "
             "SLURM_ARRAY_TASK_MAX=6 SLURM_ARRAY_TASK_STEP=1",
             NULL, 2, 4));
    CHECK(is("DSTACK_NODE_RANK=1 DSTACK_NODES_NUM=2", NULL, 1, 2));
    CHECK(is("SLURM_PROCID=0 SLURM_NTASKS=4", NULL, 0, 1)); // a batch script
    CHECK(is("SGE_TASK_ID=undefined", NULL, 0, 1));         // a job without an array
    CHECK(is("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3", "all", 0, 1));
    CHECK(refused("JOB_COMPLETION_INDEX=2", NULL, "auto/N"));
}

TEST(shard_is_a_part_unless_one_process_does_everything)
{
    struct shard shard;
    set("");
    CHECK(!shard_read(&shard, NULL) && !shard.is_part);
    CHECK(!shard_read(&shard, "1/1") && shard.is_part);
    set("RANK=0 WORLD_SIZE=1");
    CHECK(!shard_read(&shard, NULL) && !shard.is_part);
    set("RANK=0 WORLD_SIZE=2");
    CHECK(!shard_read(&shard, NULL) && shard.is_part);
    CHECK(!shard_read(&shard, "all") && !shard.is_part);
    set("");
}

TEST(shard_counts_ranks_of_mpiexec_not_the_hosts_that_it_reaches_through_srun)
{
    CHECK(is("PMI_RANK=5 PMI_SIZE=8 MPI_LOCALRANKID=1 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2",
             "auto", 5, 8));
    CHECK(is("RANK=3 WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "auto", 3, 4));
}

TEST(shards_have_every_unit_once)
{
    int times[100] = { 0 };
    for (int64_t k = 0; k < 7; k++)
        for (size_t i = 0; i < 100; i++)
            times[i] += shard_has(&(struct shard){ k, 7, true }, i);
    for (size_t i = 0; i < 100; i++)
        CHECK(times[i] == 1);
}
