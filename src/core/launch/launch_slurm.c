// SPDX-License-Identifier: Apache-2.0
// The batch script for Slurm: one task per node, saved and requeued at its time limit.

#include "core/launch/launch_internal.h"

#include <math.h>
#include <string.h>

// --- what a node gives besides GPUs --------------------------------------------

// Slurm gives one CPU to a task, and often little memory, unless more is asked for. Nodes with more
// than eight GPUs are rare, and nobody gives parts of several. CPUs: what all but the smallest
// offers of the catalog have for a GPU.
enum { CPUS_PER_GPU = 8, NODE_GPUS = 8 };

static bool is_whole(const struct launch_place *place)
{
    return place->nodes > 1 || place->gpus_per_node >= NODE_GPUS;
}

static int64_t cpus_of(const struct launch *job)
{
    return CPUS_PER_GPU * job->place->gpus_per_node;
}

const char *launch_slurm_host(const struct launch *job)
{
    return is_whole(job->place)
               ? "the job asks for whole nodes, with all of their CPUs and memory"
               : text_format(job->arena, "the job asks for %lld CPUs and %lld GiB of memory",
                             (long long)cpus_of(job), (long long)launch_memory_gib(job));
}

// What --sbatch names is not asked for twice.
static void put_host(const struct launch *job, struct out *out)
{
    const char *given = job->request->sbatch ? job->request->sbatch : "";
    bool memory = !strstr(given, "--mem"), cpus = !strstr(given, "--cpus-per");
    if (is_whole(job->place) && cpus)
        out_put(out, "#SBATCH --exclusive\n");
    else if (cpus)
        out_put(out, "#SBATCH --cpus-per-task=%lld\n", (long long)cpus_of(job));
    if (is_whole(job->place) && memory)
        out_put(out, "#SBATCH --mem=0\n"); // all of a node's
    else if (memory)
        out_put(out, "#SBATCH --mem=%lldG\n", (long long)launch_memory_gib(job));
}

// --- the script ----------------------------------------------------------------

static void put_options(const struct launch *job, struct out *out)
{
    const struct launch_place *p = job->place;
    int64_t minutes = job->limit_seconds / 60;
    out_put(out, "#SBATCH --job-name=%s\n", job->name);
    if (job->request->partition)
        out_put(out, "#SBATCH --partition=%s\n", job->request->partition);
    if (job->request->account)
        out_put(out, "#SBATCH --account=%s\n", job->request->account);
    out_put(out, "#SBATCH --nodes=%lld\n#SBATCH --ntasks-per-node=1\n", (long long)p->nodes);
    out_put(out, "#SBATCH --gpus-per-node=%lld\n", (long long)p->gpus_per_node);
    put_host(job, out);
    out_put(out, "#SBATCH --time=%lld-%02lld:%02lld:00\n", (long long)(minutes / 1440),
            (long long)(minutes / 60 % 24), (long long)(minutes % 60));
    out_put(out, "#SBATCH --signal=B:TERM@%lld\n", (long long)job->grace_seconds);
    out_put(out, "#SBATCH --requeue\n#SBATCH --open-mode=append\n");
    out_put(out, "#SBATCH --output=%s-%%j.log\n", job->name);
    if (job->request->sbatch)
        out_put(out, "#SBATCH %s\n", launch_plain(job->arena, job->request->sbatch));
}

// Before its limit, and when it is preempted, Slurm sends SIGTERM to this script, which hands it to
// the steps: srun itself would kill them.
static const char beginning[] =
    "# Near its time limit or when preempted, the run saves and is put into the queue again.\n"
    "stopped= code=143\n"
    "stop() {\n"
    "    stopped=yes\n"
    "    scancel --quiet --signal=TERM \"$SLURM_JOB_ID\" 2>/dev/null # the tasks, not this script\n"
    "}\n"
    "trap stop TERM\n\n";

static const char ending[] =
    "if [ -z \"$stopped\" ]; then\n"
    "    srun --kill-on-bad-exit=1 --cpus-per-task=\"$SLURM_CPUS_ON_NODE\"%s bash -c \"$(declare "
    "-f task); task\" &\n"
    "    while wait \"$!\"; code=$?; kill -0 \"$!\" 2>/dev/null; do :; done\n"
    "fi\n"
    "# A trainer may save and end with 0 when it is told to stop; watch records which it was.\n"
    "[ -z \"$stopped\" ] || [ \"$code\" -ne 0 ] || grep -qs '\"complete\": true' %s || code=143\n"
    "if [ \"$stopped\" ] && [ \"$code\" -ne 0 ] && [ \"${SLURM_RESTART_COUNT:-0}\" -lt %d ]; then\n"
    "    exec scontrol requeue \"$SLURM_JOB_ID\"\n"
    "fi\n"
    "exit \"$code\"\n";

static const char *container_of(const struct launch *job)
{
    struct out out = { .arena = job->arena };
    if (job->request->image) {
        out_put(&out, " --container-image=");
        launch_shell_word(&out, job->request->image);
        out_put(&out, " --container-mounts=\"$PWD\":\"$PWD\" --container-workdir=\"$PWD\"");
    }
    return out_string(&out);
}

void launch_slurm(const struct launch *job, struct out *out)
{
    struct out body = { .arena = job->arena }, record = body;
    struct text rest, line;
    out_put(out, "#!/bin/bash\n");
    put_options(job, out);
    launch_head(job, out);
    out_put(out, "\n%s", beginning);
    if (job->place->nodes > 1)
        out_put(out, "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
                     "export MASTER_ADDR MASTER_PORT=$((20000 + SLURM_JOB_ID %% 20000))\n\n");
    launch_setup(job, out);
    launch_body(job, &(struct launch_node){ .rank = "\"$SLURM_NODEID\"", .limits = true }, &body);
    out_put(out, "task() { # on each node\n");
    rest = out_view(&body);
    while (text_next(&rest, '\n', &line))
        if (line.size)
            out_put(out, "    %.*s\n", TEXT_ARGS(line));
    out_put(out, "}\n\n");
    launch_shell_word(&record, launch_record(job));
    out_put(out, ending, container_of(job), out_string(&record), LAUNCH_RESTARTS);
}
