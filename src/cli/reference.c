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
    { "AWS_ACCESS_KEY_ID", "access key for s3:// and gs:// (with AWS_SECRET_ACCESS_KEY)" },
    { "AWS_SECRET_ACCESS_KEY", "its secret, which is never printed and in no core dump" },
    { "AWS_SESSION_TOKEN", "token of temporary keys" },
    { "AWS_PROFILE", "profile of ~/.aws/credentials and ~/.aws/config (default: default)" },
    { "AWS_DEFAULT_PROFILE", "the same, if AWS_PROFILE is not set" },
    { "AWS_SHARED_CREDENTIALS_FILE", "file of keys (default: ~/.aws/credentials)" },
    { "AWS_CONFIG_FILE", "file of settings (default: ~/.aws/config)" },
    { "AWS_REGION", "region of the buckets (default: the profile's, else us-east-1)" },
    { "AWS_DEFAULT_REGION", "the same, if AWS_REGION is not set" },
    { "AWS_ENDPOINT_URL_S3", "URL of another store that speaks S3 (MinIO, Ceph, R2)" },
    { "AWS_ENDPOINT_URL", "the same, if AWS_ENDPOINT_URL_S3 is not set" },
    { "AWS_MAX_ATTEMPTS", "attempts at a request without progress (default: 8)" },
    { "STORAGE_EMULATOR_HOST", "URL in place of https://storage.googleapis.com for gs://" },
    { "GPUHOURS_NVML", "file of NVIDIA's management library (default: libnvidia-ml.so.1)" },
    { "OPENBLAS_CORETYPE", "OpenBLAS kernels to use (default: the best for this processor)" },
    { "OMPI_COMM_WORLD_SIZE", "set by mpirun: train starts MPI if it is there" },
    { "PMI_SIZE", "the same, set by MPICH and Slurm" },
    { "PMIX_RANK", "the same, set by PMIx launchers" },
    { 0 },
};

const struct reference_item reference_files[] = {
    { "~/.local/share/gpuhours/ledger.sqlite",
      "past plans, pilots and runs; --ledger names another" },
    { "~/.cache/huggingface/hub", "downloaded models, tokenizers and data sets, read only" },
    { "~/.aws/credentials, ~/.aws/config", "keys and settings for s3:// and gs://, read only" },
    { "profile.json, pilot.json", "written by profile and pilot in the current folder" },
    { 0 },
};
