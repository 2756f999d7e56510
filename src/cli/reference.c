// SPDX-License-Identifier: Apache-2.0
// Environment variables and files, each described once.

#include "cli/reference.h"

#include <stddef.h>

const struct reference_item reference_variables[] = {
    { "XDG_DATA_HOME",
      "folder of the ledger, as gpuhours/ledger.sqlite (default: ~/.local/share)" },
    { "HF_HUB_CACHE", "Hugging Face hub cache that is searched for models and tokenizers" },
    { "HUGGINGFACE_HUB_CACHE", "the same, under its former name" },
    { "HF_HOME", "folder whose hub folder is that cache" },
    { "XDG_CACHE_HOME", "folder whose huggingface/hub folder is that cache" },
    { "HOME", "home folder, for the defaults of the variables above" },
    { "TMPDIR", "folder for temporary files of a pilot (default: /tmp)" },
    { "TERM", "terminal type; dumb turns off progress lines and colour" },
    { "COLUMNS", "width of tables and charts, 60 to 200 (default: of the terminal, else 80)" },
    { "LC_ALL", "locale; output is ASCII unless it names UTF-8" },
    { "LC_CTYPE", "the same, if LC_ALL is not set" },
    { "LANG", "the same, if neither is set" },
    { "NO_COLOR", "no colour, if set to anything" },
    { "GPUHOURS_DUCKDB", "file or folder of the DuckDB library, for Parquet and remote data" },
    { "GPUHOURS_NVML", "file of NVIDIA's management library (default: libnvidia-ml.so.1)" },
    { "OPENBLAS_CORETYPE", "OpenBLAS kernels to use (default: the best for this processor)" },
    { "OMPI_COMM_WORLD_SIZE", "set by mpirun: train starts MPI if it is there; --shard auto" },
    { "OMPI_COMM_WORLD_RANK", "set by mpirun: the share of --shard auto" },
    { "PMI_SIZE", "the same as OMPI_COMM_WORLD_SIZE, set by MPICH and Slurm" },
    { "PMI_RANK", "the same as OMPI_COMM_WORLD_RANK, set by MPICH and Slurm" },
    { "RANK", "the same, set by torchrun" },
    { "WORLD_SIZE", "how many there are" },
    { "SLURM_PROCID", "the same, set by srun" },
    { "SLURM_STEP_NUM_TASKS", "how many there are" },
    { "SKYPILOT_NODE_RANK", "the same, set by SkyPilot" },
    { "SKYPILOT_NUM_NODES", "how many there are" },
    { "SLURM_ARRAY_TASK_ID", "task of a Slurm array: the share of --shard auto" },
    { "SLURM_ARRAY_TASK_COUNT", "how many there are" },
    { "SLURM_ARRAY_TASK_MIN", "the first of them" },
    { "SLURM_ARRAY_TASK_MAX", "the last of them" },
    { "SLURM_ARRAY_TASK_STEP", "the step between them" },
    { "AWS_BATCH_JOB_ARRAY_INDEX", "the same, of an AWS Batch array" },
    { "AWS_BATCH_JOB_ARRAY_SIZE", "how many there are" },
    { "SGE_TASK_ID", "the same, of an SGE array" },
    { "SGE_TASK_FIRST", "the first of them" },
    { "SGE_TASK_LAST", "the last of them" },
    { "SGE_TASK_STEPSIZE", "the step between them" },
    { "JOB_COMPLETION_INDEX", "the same, of an indexed Kubernetes job, with --shard auto/N" },
    { "PMIX_RANK", "the same, set by PMIx launchers" },
    { 0 },
};

const struct reference_item reference_files[] = {
    { "~/.local/share/gpuhours/ledger.sqlite",
      "past plans, pilots and runs; --ledger names another" },
    { "~/.cache/huggingface/hub", "downloaded models and tokenizers, read only" },
    { "profile.json, pilot.json", "written by profile and pilot in the current folder" },
    { "units.json, KEY.unit", "in the folder of profile --units: the work units, their results" },
    { 0 },
};
