// SPDX-License-Identifier: Apache-2.0
// The table of launchers.

#include "host/launcher.h"

#include <stddef.h>

// The first row that applies is taken. torchrun is started by the others; mpirun and mpiexec reach
// their hosts through srun, whose variables then number hosts, not ranks.
static const struct launcher launchers[] = {
    // torchrun's own store listens on MASTER_PORT.
    { .name = "torchrun",
      .rank = "RANK",
      .size = "WORLD_SIZE",
      .local_rank = "LOCAL_RANK",
      .local_size = "LOCAL_WORLD_SIZE",
      .address = "MASTER_ADDR",
      .port = "MASTER_PORT",
      .job = "TORCHELASTIC_RUN_ID" },
    { .name = "Open MPI",
      .rank = "OMPI_COMM_WORLD_RANK",
      .size = "OMPI_COMM_WORLD_SIZE",
      .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
      .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
      .address = "MASTER_ADDR",
      .port = "MASTER_PORT",
      .job = "PMIX_NAMESPACE" },
    // PMI_RANK alone may be srun's (--mpi=pmi2).
    { .name = "MPICH",
      .rank = "PMI_RANK",
      .size = "PMI_SIZE",
      .local_rank = "MPI_LOCALRANKID",
      .local_size = "MPI_LOCALNRANKS",
      .mark = "MPI_LOCALRANKID",
      .address = "MASTER_ADDR",
      .port = "MASTER_PORT" },
    // Not SLURM_NTASKS: a batch script has it too, which is a single process.
    { .name = "Slurm",
      .rank = "SLURM_PROCID",
      .size = "SLURM_STEP_NUM_TASKS",
      .local_rank = "SLURM_LOCALID",
      .local_size = "SLURM_STEP_TASKS_PER_NODE",
      .address = "SLURM_STEP_NODELIST",
      .port = "MASTER_PORT",
      .job = "SLURM_JOB_ID" },
    { .name = "PMI",
      .rank = "PMI_RANK",
      .size = "PMI_SIZE",
      .local_rank = "PMI_LOCAL_RANK",
      .local_size = "PMI_LOCAL_SIZE",
      .address = "MASTER_ADDR",
      .port = "MASTER_PORT" },
    { .name = "SkyPilot",
      .rank = "SKYPILOT_NODE_RANK",
      .size = "SKYPILOT_NUM_NODES",
      .is_per_host = true,
      .address = "SKYPILOT_NODE_IPS",
      .port = "MASTER_PORT",
      .job = "SKYPILOT_TASK_ID" },
    { .name = "dstack",
      .rank = "DSTACK_NODE_RANK",
      .size = "DSTACK_NODES_NUM",
      .is_per_host = true,
      .address = "DSTACK_MASTER_NODE_IP",
      .port = "MASTER_PORT",
      .job = "DSTACK_RUN_NAME" },
};

static bool is_set(char *(*variable)(const char *name), const char *name)
{
    const char *value = variable(name);
    return value && *value;
}

const struct launcher *launcher_find(char *(*variable)(const char *name))
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct launcher *row = &launchers[i];
        if (is_set(variable, row->rank) && is_set(variable, row->size) &&
            (!row->mark || is_set(variable, row->mark)))
            return row;
    }
    return NULL;
}
