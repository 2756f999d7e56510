// SPDX-License-Identifier: Apache-2.0
// Puts a job together from plan, place and request: names, paths, limits, and what was assumed.

#include "core/launch/launch_internal.h"

#include <math.h>
#include <string.h>

const char *const launch_targets[] = { "slurm", "sky", "dstack", "k8s", "script", NULL };

const struct field launch_fields[] = {
    FIELD_OF(launch_request, to, launch_targets, "what starts the job", .value = "SYSTEM"),
    FIELD(launch_request, offer, TEXT,
          "PROVIDER/INSTANCE as hosts prints it, or plan: its own GPUs", .value = "NAME",
          .fallback = "what hosts recommends; for slurm, k8s and script the plan's"),
    FIELD(launch_request, data, TEXT, "data set: path, bucket (sky) or volume claim (k8s)",
          .value = "DATA", .fallback = ""),
    FIELD(launch_request, output, TEXT,
          "where results go: path, bucket (sky), volume (dstack, k8s)", .value = "DIR",
          .fallback = "output"),
    FIELD(launch_request, model, TEXT, "folder of the model, for the built-in engine",
          .value = "DIR", .fallback = "that of the plan"),
    FIELD(launch_request, image, TEXT, "container image (required by k8s)", .value = "IMAGE",
          .fallback = ""),
    FIELD(launch_request, setup, TEXT, "shell command to run first", .value = "COMMAND",
          .fallback = ""),
    FIELD(launch_request, env, TEXT, "environment variables to hand on, as a list of names",
          .value = "NAMES", .fallback = ""),
    FIELD(launch_request, job, TEXT, "name of the job", .value = "NAME",
          .fallback = "from the model's name"),
    FIELD(launch_request, partition, TEXT, "Slurm's partition, or Kueue's queue", .value = "NAME",
          .fallback = ""),
    FIELD(launch_request, account, TEXT, "Slurm's account", .value = "NAME", .fallback = ""),
    FIELD(launch_request, sbatch, TEXT, "further options of sbatch, such as --sbatch=--qos=long",
          .value = "OPTIONS", .fallback = ""),
    { 0 },
};

struct launch_request launch_request_default(void)
{
    return (struct launch_request){ 0 };
}

void launch_note(struct launch *job, const char *format, ...)
{
    struct out out = { .arena = job->arena };
    va_list args;
    va_start(args, format);
    out_put_args(&out, format, args);
    va_end(args);
    if (job->note_count < LAUNCH_NOTES)
        job->notes[job->note_count++] = out_string(&out);
}

// --- names and paths ---------------------------------------------------------

// Lower case letters, digits and single dashes, at most 40: a name that every system takes.
static const char *job_name(struct arena *arena, const char *text)
{
    struct out out = { .arena = arena };
    for (; *text && out.size < 40; text++) {
        char c = *text >= 'A' && *text <= 'Z' ? (char)(*text - 'A' + 'a') : *text;
        bool good = (c >= 'a' && c <= 'z') || (out.size && c >= '0' && c <= '9');
        if (good)
            out_char(&out, c);
        else if (out.size && out.at[out.size - 1] != '-')
            out_char(&out, '-');
    }
    while (out.size && out.at[out.size - 1] == '-')
        out.size--;
    return out.size ? out_string(&out) : "fine-tuning";
}

// A word that needs no quotes anywhere: a partition, an account, a claim.
static enum err check_word(const char *option, const char *word)
{
    size_t size = word ? strlen(word) : 0;
    for (size_t i = 0; i < size; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,-", word[i]))
            size = 0;
    return !word || (size && size < 200)
               ? OK
               : fail(ERR_USAGE, "--%s takes letters, digits, _ . and -, not \"%.60s\"", option,
                      word);
}

static bool is_utf8(const char *text)
{
    for (const char *at = text, *end = text + strlen(text); at < end;) {
        const char *from = at;
        char again[4];
        size_t size = text_put_utf8(again, text_next_code(&at, end));
        if (size != (size_t)(at - from) || memcmp(again, from, size))
            return false;
    }
    return true;
}

// Texts that go into YAML must be text, and paths one line.
static enum err check_texts(const struct launch_request *r, const char *plan)
{
    if (!is_utf8(plan) || strpbrk(plan, "\n\r"))
        return fail(ERR_USAGE, "--plan is not one line of UTF-8");
    for (const struct field *f = launch_fields; f->name; f++) {
        if (f->kind != FIELD_TEXT)
            continue;
        const char *value = *(const char *const *)((const char *)r + f->offset);
        if (value && !is_utf8(value))
            return fail(ERR_USAGE, "--%s is not UTF-8", f->name);
        if (value && strpbrk(value, "\n\r") && strcmp(f->name, "setup"))
            return fail(ERR_USAGE, "--%s has a line break in it", f->name);
    }
    return OK;
}

static void find_paths(struct launch *job)
{
    const struct launch_request *r = job->request;
    bool here = r->to == LAUNCH_SLURM || r->to == LAUNCH_SCRIPT; // the job sees these files itself
    bool whole = r->data && (launch_is_bucket(r->data) || r->to == LAUNCH_K8S);
    job->plan_at = here ? job->plan->path : "/gpuhours/plan.json";
    if (r->data)
        job->data_at = here    ? r->data
                       : whole ? "/data"
                               : text_format(job->arena, "/data/%s", launch_base(r->data));
    bool mounted = r->to == LAUNCH_K8S || r->output;
    job->output_at = here ? (r->output ? r->output : "output") : mounted ? "/output" : "output";
}

// --- limits ------------------------------------------------------------------

// Minutes up to half an hour, five minutes up to four hours, then quarters of an hour.
static int64_t round_up(double seconds)
{
    double unit = seconds <= 1800 ? 60 : seconds <= 4 * 3600 ? 300 : 900;
    return (int64_t)(ceil(seconds / unit) * unit);
}

// A plan saves once an epoch at least; of epochs of seconds a job need not keep each.
enum { SHORTEST_BETWEEN_SAVES = 60 };

static void set_limits(struct launch *job)
{
    const struct launch_place *p = job->place;
    double step = p->step_seconds > 0 ? fmin(p->step_seconds, 3600) : 0;
    // A trainer stops after its step, and then writes a checkpoint.
    job->grace_seconds = (int64_t)(30 * ceil((90 + 2 * step) / 30));
    job->limit_seconds = round_up(3600 * p->hours_p95 + (double)job->grace_seconds);
    double between = fmax(p->save_seconds, SHORTEST_BETWEEN_SAVES);
    if (p->save_seconds > 0 && p->step_seconds > 0)
        job->save_steps = (int64_t)fmin(1e9, fmax(1, floor(between / p->step_seconds)));
    if ((double)job->save_steps >= job->plan->steps) // a run that ends before saves at its end
        job->save_steps = 0;
}

// --- notes -------------------------------------------------------------------

static bool is_bought(const struct launch_place *p)
{
    return !strcmp(p->kind, offers_kind_names[OFFERS_OWN]) ||
           !strcmp(p->kind, offers_kind_names[OFFERS_COLOCATION]);
}

static void note_place(struct launch *job)
{
    const struct launch_place *p = job->place;
    const struct launch_plan *plan = job->plan;
    struct arena *arena = job->arena;
    struct out path = { .arena = arena };
    launch_shell_word(&path, plan->path);
    if (p->provider)
        launch_note(job, "place: %s/%s %s, %lld × %s, as hosts priced it",
                    launch_plain(arena, p->provider), launch_plain(arena, p->instance), p->kind,
                    (long long)(p->nodes * p->gpus_per_node), launch_plain(arena, p->gpu));
    else
        launch_note(job, "place: the plan's own %lld × %s on %lld node%s", (long long)plan->gpus,
                    launch_plain(arena, p->gpu), (long long)p->nodes, text_plural(p->nodes));
    if (launch_is_elsewhere(job))
        launch_note(job,
                    "the plan is for %lld × %s: watch compares the run with the plan's GPU hours; "
                    "for a plan of this place: gpuhours plan --plan %s --gpu %s --gpus %lld",
                    (long long)plan->gpus, launch_plain(arena, plan->gpu), out_string(&path),
                    launch_plain(arena, p->gpu), (long long)(p->nodes * p->gpus_per_node));
    if (job->request->to == LAUNCH_SLURM || job->request->to == LAUNCH_K8S)
        launch_note(job,
                    "the file names no GPU type, because clusters have their own names: the time "
                    "limit is for %s, so choose a %s that has it",
                    launch_plain(arena, p->gpu),
                    job->request->to == LAUNCH_SLURM ? "partition (--partition)" : "node pool");
    if (p->provider && !p->spot && isnan(p->cap_usd_per_hour))
        launch_note(job, "no price cap: %s",
                    is_bought(p)
                        ? "the machine is yours, and nothing is paid by the hour"
                        : text_format(arena,
                                      "%s is paid by a commitment, which is bought elsewhere",
                                      p->kind));
}

static void note_limit(struct launch *job)
{
    const struct launch_place *p = job->place;
    struct arena *arena = job->arena;
    launch_note(job,
                "time limit: %s = P95 of the forecast (%s%s) and %lld s to save, rounded up; one "
                "run in twenty takes longer%s",
                text_seconds(arena, (double)job->limit_seconds),
                text_seconds(arena, 3600 * p->hours_p95), p->spot ? ", waits included" : "",
                (long long)job->grace_seconds,
                job->request->to == LAUNCH_SLURM ? " and is queued again" : "");
    if (!isnan(p->cap_usd_per_hour) &&
        (job->request->to == LAUNCH_SKY || job->request->to == LAUNCH_DSTACK))
        launch_note(job, "price cap: %s an hour for each instance",
                    text_usd(arena, p->cap_usd_per_hour));
    else if (!isnan(p->cap_usd_per_hour))
        launch_note(job, "no price cap: %s has no field for one", launch_targets[job->request->to]);
    if (job->save_steps && !job->is_engine)
        launch_note(job,
                    "checkpoints: let the trainer save every %lld step%s (%s) and resume from the "
                    "newest one without being told",
                    (long long)job->save_steps, text_plural((double)job->save_steps),
                    text_seconds(arena, (double)job->save_steps * p->step_seconds));
}

enum { DSTACK_UPLOAD_BYTES = 2 << 20 }; // of an entry of files, by its server's default

static void note_files(struct launch *job)
{
    const struct launch_request *r = job->request;
    struct arena *arena = job->arena;
    bool here = r->to == LAUNCH_SLURM || r->to == LAUNCH_SCRIPT;
    if (here)
        launch_note(
            job, "%s and all other paths are relative to the folder in which the job is submitted",
            launch_plain(arena, job->plan->path));
    if (!here && job->data_at)
        launch_note(job, "data: %s lies at %s there", launch_plain(arena, r->data),
                    launch_plain(arena, job->data_at));
    if (r->to == LAUNCH_DSTACK && r->data && !(job->data_bytes <= DSTACK_UPLOAD_BYTES))
        launch_note(job,
                    "dstack uploads %s%s with the job, and its server takes 2 MiB unless "
                    "DSTACK_SERVER_CODE_UPLOAD_LIMIT allows more: fetch the data with --setup, or "
                    "keep it in a volume",
                    launch_plain(arena, r->data),
                    job->data_bytes > 0
                        ? text_format(arena, " (%s)", text_bytes(arena, job->data_bytes))
                        : "");
    if (r->to == LAUNCH_K8S && !r->output)
        launch_note(job,
                    "output: %s is lost with the pod, with its checkpoints: a pod that starts "
                    "again begins at step 0; --output names a volume claim",
                    job->output_at);
    else if (!here && !r->output)
        launch_note(job,
                    "output: %s on the machine's own disk, which is lost with the machine; "
                    "--output names %s",
                    job->output_at, r->to == LAUNCH_SKY ? "a bucket" : "a volume");
    if (r->to == LAUNCH_SLURM && !r->sbatch)
        launch_note(job, "%s; --sbatch \"--cpus-per-task=N --mem=SIZE\" asks for others",
                    launch_slurm_host(job));
    if (r->to == LAUNCH_K8S)
        launch_note(job, "%s; change resources.requests in the file where your nodes have less",
                    launch_k8s_host(job));
    if (r->to == LAUNCH_K8S && job->place->nodes > 1)
        launch_note(job,
                    "a pod that is lost starts again alone, and the others follow when their "
                    "collectives time out (10 minutes in PyTorch); Kubernetes' JobSet restarts "
                    "all at once");
    if (r->to == LAUNCH_SLURM && r->image)
        launch_note(job, "--image needs the pyxis plugin of Slurm");
    launch_note(job, "where gpuhours is installed on the node, gpuhours watch runs the command; "
                     "elsewhere the command runs alone");
}

// The command that starts the file. Secrets are taken from the environment of who types it.
static const char *next_words(const struct launch *job)
{
    static const char *const words[] = { "sbatch", "sky jobs launch", "dstack apply -f", "",
                                         "bash" };
    struct out out = { .arena = job->arena };
    bool k8s = job->request->to == LAUNCH_K8S;
    if (k8s) {
        out_put(&out, "kubectl create configmap %s --from-file=plan.json=", job->name);
        launch_shell_word(&out, job->plan->path);
        out_put(&out, " && ");
    }
    if (k8s && job->variable_count)
        out_put(&out, "kubectl create secret generic %s", job->name);
    for (size_t i = 0; k8s && i < job->variable_count; i++)
        out_put(&out, " --from-literal=%s=\"$%s\"", job->variables[i], job->variables[i]);
    if (k8s)
        out_put(&out, "%skubectl apply -f", job->variable_count ? " && " : "");
    out_put(&out, "%s", words[job->request->to]);
    for (size_t i = 0; job->request->to == LAUNCH_SKY && i < job->variable_count; i++)
        out_put(&out, " --secret %s", job->variables[i]);
    out_put(&out, " FILE");
    return out_string(&out);
}

// --- the job -----------------------------------------------------------------

static enum err check(const struct launch *job)
{
    const struct launch_request *r = job->request;
    const struct launch_place *p = job->place;
    TRY(launch_refuse_secrets(r));
    TRY(check_texts(r, job->plan->path));
    TRY(check_word("partition", r->partition));
    TRY(check_word("account", r->account));
    if (r->sbatch && r->to != LAUNCH_SLURM)
        return fail(ERR_USAGE, "--sbatch is for --to slurm");
    if (r->sbatch && *r->sbatch != '-')
        return fail(ERR_USAGE,
                    "--sbatch is \"%.60s\"; give options of sbatch as one text, such as "
                    "--sbatch \"--qos=long --constraint=h100\"",
                    r->sbatch);
    if (r->to == LAUNCH_K8S) {
        TRY(check_word("data", r->data));
        TRY(check_word("output", r->output));
    }
    if (r->to == LAUNCH_K8S && !r->image)
        return fail(ERR_USAGE, "k8s needs --image: a container image with bash and the trainer");
    if (r->to == LAUNCH_DSTACK && r->data && launch_is_bucket(r->data))
        return fail(ERR_USAGE, "dstack mounts no buckets; --data takes a file or folder of yours");
    if (r->to == LAUNCH_SKY && r->output && !launch_is_bucket(r->output))
        return fail(ERR_USAGE,
                    "with sky, --output is a bucket, such as s3://runs/mine: a folder of "
                    "the machine is lost with it");
    if (p->provider && !launch_cloud((enum launch_to)r->to, p->provider))
        return fail(ERR_USAGE, "%s does not rent from %s", launch_targets[r->to], p->provider);
    if (launch_asks_by_gpu(job) && !launch_gpu((enum launch_to)r->to, p->gpu, job->arena))
        return fail(
            ERR_USAGE,
            "gpuhours does not know what %s calls %s: name a place with another GPU (--offer), or "
            "write the file for another and change the name in it",
            launch_targets[r->to], p->gpu);
    if (p->nodes > 1 && !p->gpus_per_node)
        return fail(ERR_USAGE,
                    "the GPUs of this place do not divide evenly among its %lld nodes, and one "
                    "process is started on each GPU; plan a multiple of %lld GPUs (--gpus)",
                    (long long)p->nodes, (long long)p->nodes);
    if (!(p->hours_p95 > 0 && p->hours_p95 < 1e6) || p->nodes < 1 || p->gpus_per_node < 1)
        return fail(ERR_INPUT, "the forecast has no 95th percentile, which the time limit needs");
    return OK;
}

enum err launch_make(struct launch *out, struct arena *arena, const struct launch_input *input)
{
    *out = (struct launch){
        .request = input->request,
        .plan = input->plan,
        .place = input->place,
        .arena = arena,
        .data_bytes = input->data_bytes,
    };
    TRY(check(out));
    out->name = job_name(arena, input->request->job ? input->request->job
                                                    : launch_base(input->plan->model));
    find_paths(out);
    set_limits(out);
    note_place(out);
    TRY(launch_command(out, input->command));
    note_limit(out);
    note_files(out);
    out->next = next_words(out);
    return OK;
}

void launch_file(const struct launch *job, struct out *out)
{
    static void (*const targets[])(const struct launch *, struct out *) = {
        [LAUNCH_SLURM] = launch_slurm,   [LAUNCH_SKY] = launch_sky,
        [LAUNCH_DSTACK] = launch_dstack, [LAUNCH_K8S] = launch_k8s,
        [LAUNCH_SCRIPT] = launch_script,
    };
    targets[job->request->to](job, out);
}

void launch_write(const struct launch *job, struct out *out)
{
    const struct launch_place *p = job->place;
    struct json_writer w = { .out = out };
    struct out file = { .arena = job->arena };
    launch_file(job, &file);
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "launch");
    json_put_count(&w, "version", 1);
    json_put_string(&w, "to", launch_targets[job->request->to]);
    json_put_string(&w, "name", job->name);
    json_open(&w, "place", '{');
    json_put_string(&w, "provider", p->provider);
    json_put_string(&w, "instance", p->instance);
    json_put_string(&w, "region", p->region);
    json_put_string(&w, "kind", p->kind);
    json_put_string(&w, "gpu", p->gpu);
    json_put_count(&w, "nodes", p->nodes);
    json_put_count(&w, "gpus_per_node", p->gpus_per_node);
    json_put_number(&w, "max_usd_per_hour", p->cap_usd_per_hour);
    json_close(&w, '}');
    json_put_number(&w, "wall_hours_p50", p->hours);
    json_put_number(&w, "wall_hours_p95", p->hours_p95);
    json_put_count(&w, "limit_seconds", job->limit_seconds);
    json_put_count(&w, "grace_seconds", job->grace_seconds);
    json_put_number(&w, "save_steps", job->save_steps ? (double)job->save_steps : NAN);
    json_open(&w, "variables", '[');
    for (size_t i = 0; i < job->variable_count; i++)
        json_put_string(&w, NULL, job->variables[i]);
    json_close(&w, ']');
    json_open(&w, "assumed", '[');
    for (size_t i = 0; i < job->note_count; i++)
        json_put_string(&w, NULL, job->notes[i]);
    json_close(&w, ']');
    json_put_string(&w, "next", job->next);
    json_put_text(&w, "file", out_view(&file));
    json_close(&w, '}');
    out_char(out, '\n');
}
