// SPDX-License-Identifier: Apache-2.0
// The lines of bash that run on each node, and the comments at the top of every file.

#include "core/launch/launch_internal.h"

#include <math.h>
#include <string.h>

const char *launch_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

bool launch_is_bucket(const char *path)
{
    return strstr(path, "://") != NULL;
}

const char *launch_record(const struct launch *job)
{
    return text_format(job->arena, "%s/run.json", job->output_at);
}

// --- comments ----------------------------------------------------------------

static void comment(struct out *out, const char *text)
{
    struct out lines = { .arena = out->arena };
    struct text rest, line;
    out_wrapped(&lines, 0, 2, text);
    rest = out_view(&lines);
    while (text_next(&rest, '\n', &line))
        if (line.size)
            out_put(out, "# %.*s\n", TEXT_ARGS(line));
}

static const char *place_words(const struct launch *job)
{
    const struct launch_place *p = job->place;
    struct arena *arena = job->arena;
    struct out out = { .arena = arena };
    out_put(&out, "Where: %lld × %s", (long long)(p->nodes * p->gpus_per_node),
            launch_plain(arena, p->gpu));
    if (p->nodes > 1)
        out_put(&out, " on %lld nodes", (long long)p->nodes);
    if (p->provider)
        out_put(&out, ", %s/%s %s", launch_plain(arena, p->provider),
                launch_plain(arena, p->instance), p->kind);
    if (p->provider && p->region)
        out_put(&out, ", %s", launch_plain(arena, p->region));
    if (!isnan(p->usd_per_hour))
        out_put(&out, ", %s an hour", text_usd(arena, p->usd_per_hour * (double)p->nodes));
    return out_string(&out);
}

void launch_head(const struct launch *job, struct out *out)
{
    const struct launch_place *p = job->place;
    struct arena *arena = job->arena;
    comment(out, text_format(arena, "Written by gpuhours launch from %s.",
                             launch_plain(arena, job->plan->path)));
    comment(out, place_words(job));
    comment(out,
            text_format(
                arena,
                "Time limit: %s. The forecast is %s, its 95th percentile %s%s; %lld s more to "
                "save, rounded up.",
                text_seconds(arena, (double)job->limit_seconds),
                text_seconds(arena, 3600 * p->hours), text_seconds(arena, 3600 * p->hours_p95),
                p->spot ? " with waits for spot instances" : "", (long long)job->grace_seconds));
    if (job->save_steps)
        comment(out, text_format(arena, "Checkpoints: every %lld step%s (%s)%s.",
                                 (long long)job->save_steps, text_plural((double)job->save_steps),
                                 text_seconds(arena, (double)job->save_steps * p->step_seconds),
                                 job->is_engine ? "" : "; set this in your trainer"));
}

// --- lines -------------------------------------------------------------------

static void put_words(const struct launch *job, struct out *out)
{
    out_put(out, "set --");
    for (size_t i = 0; i < job->words.count; i++) {
        const struct launch_word *word = &job->words.at[i];
        out_char(out, ' ');
        if (word->is_shell)
            out_put(out, "%s", word->text);
        else
            launch_shell_word(out, word->text);
    }
    out_char(out, '\n');
}

// A machine may have more GPUs than the plan, which a trainer would take, too; or fewer.
static void put_gpus(const struct launch_place *p, struct out *out)
{
    long long count = (long long)p->gpus_per_node;
    out_put(out, "export CUDA_VISIBLE_DEVICES=\"$(cut -d, -f-%lld <<<\"${CUDA_VISIBLE_DEVICES:-",
            count);
    for (long long i = 0; i < count; i++)
        out_put(out, "%s%lld", i ? "," : "", i);
    out_put(out,
            "}\")\"\n"
            "if [ \"$(tr , '\\n' <<<\"$CUDA_VISIBLE_DEVICES\" | wc -l)\" -lt %lld ] ||\n"
            "    { command -v nvidia-smi >/dev/null && "
            "[ \"$(nvidia-smi -L | grep -c '^GPU ')\" -lt %lld ]; }; then\n"
            "    echo 'fewer GPUs here than the %lld of this job' >&2\n"
            "    exit 1\nfi\n",
            count, count, count);
}

static void put_environment(const struct launch *job, const struct launch_node *node,
                            struct out *out)
{
    const struct launch_place *p = job->place;
    if (p->nodes == 1)
        return;
    out_put(out, "export NODE_RANK=%s NNODES=%lld NPROC_PER_NODE=%lld\n", node->rank,
            (long long)p->nodes, (long long)p->gpus_per_node);
    if (node->master)
        out_put(out, "export MASTER_ADDR=%s MASTER_PORT=%d\n", node->master, LAUNCH_PORT);
    if (p->gpus_per_node == 1) // one process per node is a rank; else the launcher counts them
        out_put(out, "export RANK=\"$NODE_RANK\" WORLD_SIZE=\"$NNODES\" LOCAL_RANK=0\n");
}

// The first node is watched; a machine without gpuhours trains all the same.
static void put_watch(const struct launch *job, const struct launch_node *node, struct out *out)
{
    const struct launch_place *p = job->place;
    const char *first = p->nodes > 1 ? "[ \"$NODE_RANK\" = 0 ] && " : "";
    out_put(out, "if %scommand -v gpuhours >/dev/null; then\n    set -- gpuhours watch --plan ",
            first);
    launch_shell_word(out, job->plan_at);
    out_put(out, " --out ");
    launch_shell_word(out, launch_record(job));
    if (launch_is_elsewhere(job)) {
        out_put(out, " --gpu ");
        launch_shell_word(out, p->gpu);
        out_put(out, " --gpus %lld", (long long)(p->nodes * p->gpus_per_node));
    }
    if (!isnan(p->usd_per_hour))
        out_put(out, " --price %.4g", p->usd_per_hour / (double)p->gpus_per_node);
    out_put(out, " -- \"$@\"\n%sfi\n", node->restarts ? "    watched=yes\n" : "");
}

// Told to stop, a trainer may save and end with 0. What watch makes of that, these lines make of it
// where nothing watches it, so that the target starts the job again.
static const char alone[] =
    "alone() { # a trainer that was told to stop has not finished, though it ends with 0\n"
    "    local told=0 code\n"
    "    trap 'told=143; kill \"$!\" 2>/dev/null' INT TERM\n"
    "    \"$@\" &\n"
    "    while wait \"$!\"; code=$?; kill -0 \"$!\" 2>/dev/null; do :; done\n"
    "    exit \"$((code ? code : told))\"\n"
    "}\n"
    "[ \"$watched\" ] || alone \"$@\"\n";

// What follows needs the set-up, so one that fails ends the job.
void launch_setup(const struct launch *job, struct out *out)
{
    if (job->request->setup)
        out_put(out, "{\n%s\n} || { echo 'the set-up failed' >&2; exit 1; }\n\n",
                job->request->setup);
}

void launch_body(const struct launch *job, const struct launch_node *node, struct out *out)
{
    put_gpus(job->place, out);
    put_environment(job, node, out);
    out_put(out, "mkdir -p -- ");
    launch_shell_word(out, job->output_at);
    out_char(out, '\n');
    if (node->restarts)
        out_put(out, "watched=\n");
    put_words(job, out);
    put_watch(job, node, out);
    if (!node->limits)
        out_put(out, "set -- timeout --foreground --signal=TERM --kill-after=%lld %lld \"$@\"\n",
                (long long)job->grace_seconds,
                (long long)(job->limit_seconds - job->grace_seconds));
    if (node->restarts)
        out_put(out, "%s", alone);
    out_put(out, "exec \"$@\"\n");
}
