// SPDX-License-Identifier: Apache-2.0
// launch_internal: what the files of launch share.

#pragma once

#include "core/launch/launch.h"

void launch_note(struct launch *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

// --- the command (launch_command.c) ------------------------------------------

// Fills job->words: the words that were given, those for the trainer's configuration, or the
// built-in engine. Secrets become variables.
enum err launch_command(struct launch *job, char *const *words);
// ERR_USAGE where a text of the request looks like a secret.
enum err launch_refuse_secrets(const struct launch_request *request);

// --- what runs on each node (launch_body.c) ----------------------------------

// How a target tells a node about itself, as shell words.
struct launch_node {
    const char *rank, *master;
    bool limits;   // the target itself ends the job at its limit
    bool restarts; // the target starts it again, unless it ends with 0
};

// The command of --setup, if one was given.
void launch_setup(const struct launch *job, struct out *out);
// Lines of bash: environment, and the command under gpuhours watch, which replaces the
// shell, so that signals reach it.
void launch_body(const struct launch *job, const struct launch_node *node, struct out *out);
// Comments at the top of a file: what it is, where it runs, its time limit, checkpoints.
void launch_head(const struct launch *job, struct out *out);

// Whether the file asks for GPUs by name: dstack's always does, SkyPilot's where no instance is
// named that has them. An instance of GCP's takes its GPUs by name.
bool launch_asks_by_gpu(const struct launch *job);
// Whether the catalog calls its regions as it does itself, and so dstack.
bool launch_regions_are_its_own(const char *provider);
// The part after the last slash: "train.jsonl" of "/home/me/train.jsonl".
const char *launch_base(const char *path);
bool launch_is_bucket(const char *path);             // "s3://…"
const char *launch_record(const struct launch *job); // the file that watch writes at the end
bool launch_is_elsewhere(const struct launch *job);  // not on the plan's own GPUs
int64_t launch_memory_gib(const struct launch *job); // of a node, for the processes of the job

// --- targets -----------------------------------------------------------------

void launch_slurm(const struct launch *job, struct out *out);
const char *launch_slurm_host(const struct launch *job); // CPUs and memory, in words
const char *launch_k8s_host(const struct launch *job);   // likewise
void launch_sky(const struct launch *job, struct out *out);
void launch_dstack(const struct launch *job, struct out *out);
void launch_k8s(const struct launch *job, struct out *out);
void launch_script(const struct launch *job, struct out *out);

enum { LAUNCH_PORT = 29500, LAUNCH_RESTARTS = 3 };
