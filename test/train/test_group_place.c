// SPDX-License-Identifier: Apache-2.0
// Which rank a process is, from the environments that launchers give it.

#include "test/test.h"
#include "train/group/group_place.h"

#include <string.h>

static const char *const *environment; // names and values in turn, ended by NULL

static char *variable(const char *name)
{
    for (const char *const *at = environment; *at; at += 2)
        if (!strcmp(at[0], name))
            return (char *)at[1];
    return NULL;
}

static struct group_place found(const char *const *pairs)
{
    struct group_place place;
    environment = pairs;
    enum err err = group_place_find(&place, &test_arena, variable);
    test_check(!err, err ? error_text() : "", __FILE__, __LINE__);
    return place;
}

TEST(group_place_without_a_launcher_is_a_single_rank)
{
    struct group_place place = found((const char *const[]){ "HOME", "/home/a", NULL });
    CHECK(!place.launcher && place.rank == 0 && place.size == 1 && place.listener < 0);
}

TEST(group_place_reads_torchrun)
{
    struct group_place place = found((const char *const[]){
        "RANK", "5", "WORLD_SIZE", "16", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "4", "MASTER_ADDR",
        "node7", "MASTER_PORT", "29400", "TORCHELASTIC_RUN_ID", "abc", NULL });
    CHECK(!strcmp(place.launcher, "torchrun") && place.rank == 5 && place.size == 16);
    CHECK(place.local_rank == 1 && place.local_size == 4 && !strcmp(place.address, "node7"));
    CHECK(place.port == 29401); // torchrun's own store listens on MASTER_PORT
    CHECK(!strcmp(place.job, "abc"));
}

TEST(group_place_reads_open_mpi_on_one_host)
{
    struct group_place place = found((const char *const[]){
        "OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_RANK", "2",
        "OMPI_COMM_WORLD_LOCAL_SIZE", "4", "PMIX_NAMESPACE", "123@0", NULL });
    CHECK(place.rank == 2 && place.size == 4 && !strcmp(place.address, "127.0.0.1"));
}

TEST(group_place_asks_where_rank_0_is_if_the_launcher_does_not_say)
{
    struct group_place place;
    environment = (const char *const[]){ "OMPI_COMM_WORLD_RANK",
                                         "2",
                                         "OMPI_COMM_WORLD_SIZE",
                                         "4",
                                         "OMPI_COMM_WORLD_LOCAL_SIZE",
                                         "2",
                                         NULL };
    CHECK(group_place_find(&place, &test_arena, variable) == ERR_USAGE);
    CHECK(strstr(error_text(), "set MASTER_ADDR"));
}

TEST(group_place_reads_a_step_of_slurm_but_no_batch_script)
{
    const char *const step[] = { "SLURM_PROCID",
                                 "3",
                                 "SLURM_NTASKS",
                                 "4",
                                 "SLURM_LOCALID",
                                 "1",
                                 "SLURM_JOB_ID",
                                 "77",
                                 "SLURM_STEP_NODELIST",
                                 "gpu[07-08]",
                                 "SLURM_STEP_NUM_TASKS",
                                 "4",
                                 "SLURM_STEP_TASKS_PER_NODE",
                                 "2(x2)",
                                 NULL };
    struct group_place place = found(step);
    CHECK(!strcmp(place.launcher, "Slurm") && place.rank == 3 && place.size == 4);
    CHECK(place.local_rank == 1 && place.local_size == 2 && !strcmp(place.address, "gpu07"));
    place = found((const char *const[]){ "SLURM_PROCID", "0", "SLURM_NTASKS", "4", NULL });
    CHECK(!place.launcher && place.size == 1);
}

TEST(group_place_reads_skypilot_and_dstack_by_host)
{
    struct group_place place = found((const char *const[]){
        "SKYPILOT_NODE_RANK", "1", "SKYPILOT_NUM_NODES", "2", "SKYPILOT_NODE_IPS",
        "10.0.0.4\n10.0.0.5", "SKYPILOT_TASK_ID", "sky-1", NULL });
    CHECK(place.is_per_host && place.rank == 1 && place.size == 2 && place.local_size == 1);
    CHECK(!strcmp(place.address, "10.0.0.4"));
    place = found((const char *const[]){ "DSTACK_NODE_RANK", "0", "DSTACK_NODES_NUM", "3",
                                         "DSTACK_MASTER_NODE_IP", "10.1.0.2", NULL });
    CHECK(place.is_per_host && !strcmp(place.address, "10.1.0.2") && place.size == 3);
}

TEST(group_place_reads_mpich_and_other_pmi_launchers)
{
    struct group_place place = found((const char *const[]){
        "PMI_RANK", "3", "PMI_SIZE", "4", "MPI_LOCALRANKID", "3", "MPI_LOCALNRANKS", "4", NULL });
    CHECK(!strcmp(place.launcher, "MPICH") && place.rank == 3 && place.local_size == 4);
    CHECK(!strcmp(place.address, "127.0.0.1"));
    place = found((const char *const[]){ "PMI_RANK", "5", "PMI_SIZE", "8", "PMI_LOCAL_RANK", "1",
                                         "PMI_LOCAL_SIZE", "4", "MASTER_ADDR", "node7", NULL });
    CHECK(!strcmp(place.launcher, "PMI") && place.rank == 5 && place.local_rank == 1);
}

TEST(group_place_refuses_numbers_that_cannot_be)
{
    static const char *const bad[][5] = { { "RANK", "4", "WORLD_SIZE", "4" },
                                          { "RANK", "-1", "WORLD_SIZE", "4" },
                                          { "RANK", "one", "WORLD_SIZE", "4" },
                                          { "RANK", "0", "WORLD_SIZE", "99999999999999999999" } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct group_place place;
        environment = bad[i];
        CHECK(group_place_find(&place, &test_arena, variable) == ERR_USAGE);
    }
}

TEST(group_place_finds_the_first_of_slurms_hosts)
{
    static const char *const lists[][2] = {
        { "node1", "node1" },        { "node1,node2", "node1" },
        { "node[3-9,12]", "node3" }, { "gpu[007,009]-ib", "gpu007-ib" },
        { "a[1-2],b[3-4]", "a1" },   { "x[1", "x1" }
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        CHECK(!strcmp(group_place_first_host(&test_arena, lists[i][0]), lists[i][1]));
}

TEST(group_place_gives_jobs_on_one_host_ports_of_their_own)
{
    const char *a[] = { "SLURM_PROCID",
                        "0",
                        "SLURM_STEP_NUM_TASKS",
                        "2",
                        "SLURM_JOB_ID",
                        "41",
                        "SLURM_STEP_TASKS_PER_NODE",
                        "2",
                        NULL };
    const char *b[] = { "SLURM_PROCID",
                        "0",
                        "SLURM_STEP_NUM_TASKS",
                        "2",
                        "SLURM_JOB_ID",
                        "42",
                        "SLURM_STEP_TASKS_PER_NODE",
                        "2",
                        NULL };
    CHECK(found(a).port != found(b).port && found(a).port > 29500 && found(a).port < 65536);
}
