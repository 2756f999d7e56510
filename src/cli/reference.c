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
    { "RANK",
      "with WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT: which rank train is (torchrun)" },
    { "OMPI_COMM_WORLD_RANK", "the same, set by Open MPI's mpirun" },
    { "OMPI_COMM_WORLD_SIZE", "set by mpirun: ranks use MPI, if the build has it" },
    { "PMIX_RANK", "the same, set by other PMIx launchers" },
    { "OMP_NUM_THREADS", "threads of a rank (default with --ranks: its share of the cores)" },
    { "OPENBLAS_NUM_THREADS", "the same, of OpenBLAS" },
    { "SLURM_PROCID", "the same, set by Slurm's srun, with SLURM_STEP_NUM_TASKS" },
    { "SKYPILOT_NODE_RANK",
      "the same of hosts, set by SkyPilot; --ranks counts those of one host" },
    { "DSTACK_NODE_RANK", "the same of hosts, set by dstack" },
    { "GPUHOURS_GROUP_SECRET",
      "a word that all ranks of a run share (default: group.key beside the ledger)" },
    { "GPUHOURS_GROUP_PORT",
      "where rank 0 listens (default: one after MASTER_PORT, or by the job)" },
    { "GPUHOURS_GROUP_PATIENCE",
      "seconds that ranks wait for each other at the start (default: 300)" },
    { 0 },
};

const struct reference_item reference_files[] = {
    { "~/.local/share/gpuhours/ledger.sqlite",
      "past plans, pilots and runs; --ledger names another" },
    { "~/.local/share/gpuhours/group.key", "random, by which ranks of one user know each other" },
    { "~/.cache/huggingface/hub", "downloaded models and tokenizers, read only" },
    { "profile.json, pilot.json", "written by profile and pilot in the current folder" },
    { 0 },
};
