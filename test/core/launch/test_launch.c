// SPDX-License-Identifier: Apache-2.0
// launch: words survive, secrets do not, limits come from the forecast, and files are well formed.

#include "core/launch/launch.h"

#include "host/yaml.h"
#include "test/core/launch/asking.h"
#include "test/core/launch/unquote.h"

// --- words -------------------------------------------------------------------

static char *const hostile[] = {
    "python",
    "",
    " ",
    "a b",
    "it's",
    "\"quoted\"",
    "$HOME",
    "$(reboot)",
    "`reboot`",
    "a;b|c&d",
    "line\nbreak",
    "tab\there",
    "back\\slash",
    "*?[x]",
    "{a,b}",
    "~",
    "#no",
    "!history",
    "-n",
    "--x=y z",
    "=",
    "yes",
    ": |",
    "- item",
    "&anchor",
    "*alias",
    "%YAML",
    "---",
    "\xff\xfe",
    "\x01\x7f",
    "é ü 漢",
    "\xe2\x80\xa8",
    "\xef\xbb\xbf",
    "'''",
    "\\'",
    "\x1b]0;x\x07",
    "#SBATCH --nodes=99",
    "EOF",
    "\r\n",
    "\xf0\x9f\x98\x80",
    NULL,
};

// The words of the line "set -- …".
static void check_words(const char *script, char *const *words)
{
    const char *line = strstr(script, "set -- ");
    CHECK(line);
    if (!line)
        return;
    line += strlen("set -- ");
    for (; *words; words++) {
        const char *word = unquote_word(&line, &test_arena);
        test_check(word && !strcmp(word, *words), *words, "word", 0);
    }
    CHECK(!unquote_word(&line, &test_arena));
}

TEST(launch_words_stay_words_whatever_they_hold)
{
    check_words(file_of(asking(LAUNCH_SLURM), hostile), hostile);
    check_words(file_of(asking(LAUNCH_SCRIPT), hostile), hostile);
}

static struct json read_yaml(const char *text)
{
    struct json tree = { 0 };
    enum err err = yaml_read(&tree, &test_arena, text_of(text), "job.yaml");
    test_check(!err, err ? error_text() : "", text, 0);
    return tree;
}

TEST(launch_words_survive_yaml)
{
    struct json sky = read_yaml(file_of(asking(LAUNCH_SKY), hostile));
    struct json dstack = read_yaml(file_of(asking(LAUNCH_DSTACK), hostile));
    struct json k8s = read_yaml(file_of(asking(LAUNCH_K8S), hostile));
    const struct json *commands = json_get(&dstack, "commands");
    const struct json *pod = json_get(json_get(json_get(&k8s, "spec"), "template"), "spec");
    const struct json *container = pod ? &json_get(pod, "containers")->items[0] : NULL;
    check_words(text_copy(&test_arena, json_get_text(&sky, "run")), hostile);
    check_words(text_copy(&test_arena, commands->items[0].string), hostile);
    check_words(text_copy(&test_arena, json_get(container, "command")->items[2].string), hostile);
}

TEST(launch_quotes_each_text_of_yaml_so_that_it_reads_back)
{
    for (size_t i = 0; hostile[i]; i++) {
        struct out out = { .arena = &test_arena };
        bool text = strcmp(hostile[i], "\xff\xfe") != 0; // no text: it has no spelling in YAML
        out_put(&out, "k: ");
        launch_yaml_text(&out, text_of(hostile[i]));
        out_put(&out, "\nl:\n  ");
        launch_yaml_block(&out, 2, "m:", text_of(hostile[i]));
        struct json tree = read_yaml(out_string(&out));
        struct text block = json_get_text(json_get(&tree, "l"), "m");
        test_check(!text || text_is(json_get_text(&tree, "k"), hostile[i]), hostile[i], "text", 0);
        test_check(!text || text_is(block, hostile[i]), hostile[i], "block", 0);
    }
}

// --- secrets -----------------------------------------------------------------

#define HUB "hf_abcdefghijklmnopqrstuvwxyz"

TEST(launch_names_secrets_and_never_writes_them)
{
    static char *const words[] = { "python",    "train.py",         "--hub_token",
                                   HUB,         "--wandb_key=" HUB, "--db_password=tiger",
                                   "--api_key", "lion; a b",        NULL };
    for (int to = 0; to < LAUNCH_TARGETS; to++) {
        struct asking *a = asking((enum launch_to)to);
        const char *file = file_of(a, words);
        struct out out = { .arena = &test_arena };
        launch_write(&a->job, &out);
        CHECK(!strstr(file, HUB) && !strstr(out_string(&out), HUB));
        CHECK(!strstr(file, "lion") && strstr(file, "--api_key \"$API_KEY\""));
        CHECK(!strstr(file, "tiger") && !strstr(out_string(&out), "tiger"));
        CHECK(strstr(file, "--hub_token \"$HUB_TOKEN\"") && strstr(file, "$DB_PASSWORD"));
        CHECK(notes(&a->job, "HUB_TOKEN"));
    }
}

TEST(launch_refuses_secrets_that_it_cannot_name)
{
    static char *const script[] = { "sh", "-c", "export HF_TOKEN=" HUB "; train", NULL };
    static char *const named[] = { "sh", "-c", "export HF_TOKEN=$MINE; train", NULL };
    struct asking *a = asking(LAUNCH_SLURM);
    CHECK(attempt(a, script) == ERR_USAGE && strstr(error_text(), "--env"));
    CHECK(!strstr(error_text(), HUB));
    CHECK(!attempt(a, named));
    a->request.setup = "huggingface-cli login --token " HUB;
    CHECK(attempt(a, named) == ERR_USAGE && strstr(error_text(), "--setup"));
    a->request.setup = NULL;
    a->request.env = "HF_TOKEN=" HUB;
    CHECK(attempt(a, named) == ERR_USAGE);
    a->request.env = "HF_TOKEN, WANDB_API_KEY";
    CHECK(!attempt(a, named) && a->job.variable_count == 2);
}

TEST(launch_gives_no_variable_two_secrets)
{
    static char *const two[] = { "train", "--token", HUB, "--read.token", HUB "2", NULL };
    static char *const other[] = { "train", "--token", HUB, "--token", HUB "2", NULL };
    static char *const same[] = { "train", "--token", HUB, "--token", HUB, NULL };
    struct asking *a = asking(LAUNCH_SLURM);
    CHECK(!attempt(a, two) && a->job.variable_count == 2);
    CHECK(attempt(a, other) == ERR_USAGE && strstr(error_text(), "variable TOKEN"));
    CHECK(!strstr(error_text(), HUB));
    CHECK(!attempt(a, same) && a->job.variable_count == 1);
    a->request.env = "TOKEN"; // where the user has it
    CHECK(!attempt(a, same) && a->job.variable_count == 1);
}

// --- limits ------------------------------------------------------------------

TEST(launch_limit_is_p95_and_the_time_to_save_rounded_up)
{
    struct asking *a = asking(LAUNCH_SLURM);
    const char *file = file_of(a, usual_words);
    CHECK_NEAR(a->plan.hours_p95, 4, 1e-12);       // 32 GPU hours on 8 GPUs
    CHECK(a->job.grace_seconds == 120);            // 90 s and two steps of 2 s, in half minutes
    CHECK(a->job.limit_seconds == 4 * 3600 + 900); // 4 h 2 min, in quarters of an hour
    CHECK(strstr(file, "#SBATCH --time=0-04:15:00\n"));
    CHECK(strstr(file, "95th percentile 4 h 00"));
    CHECK(a->job.save_steps == 300); // 600 s of 2 s each
    a->place.hours_p95 = 50.0 / 3600;
    file_of(a, usual_words);
    CHECK(a->job.limit_seconds == 180); // 170 s, in minutes
    a->place.hours_p95 = 30;
    CHECK(strstr(file_of(a, usual_words), "#SBATCH --time=1-06:15:00\n"));
}

// --- several nodes -----------------------------------------------------------

TEST(launch_tells_each_node_its_number_in_the_words_of_its_scheduler)
{
    static const char *const ranks[] = { "$SLURM_NODEID", "$SKYPILOT_NODE_RANK",
                                         "$DSTACK_NODE_RANK", "$JOB_COMPLETION_INDEX",
                                         "${NODE_RANK:?" };
    static const char *const masters[] = { "$SLURM_JOB_NODELIST", "$SKYPILOT_NODE_IPS",
                                           "$DSTACK_MASTER_NODE_IP", "llama-3-1-8b-0.llama-3-1-8b",
                                           "${MASTER_ADDR:?" };
    for (int to = 0; to < LAUNCH_TARGETS; to++) {
        struct asking *a = asking((enum launch_to)to);
        a->place.nodes = 2;
        const char *file = file_of(a, usual_words);
        CHECK(strstr(file, ranks[to]) && strstr(file, masters[to]));
        CHECK(strstr(file,
                     "torchrun --nproc-per-node 8 --nnodes 2 --node-rank \"$NODE_RANK\" "
                     "--master-addr \"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" train.py"));
        CHECK(strstr(file, "if [ \"$NODE_RANK\" = 0 ] && command -v gpuhours")); // watched once
        CHECK(!strstr(file, "WORLD_SIZE")); // torchrun sets it for eight processes a node
        a->place.gpus_per_node = 1;
        CHECK(strstr(file_of(a, usual_words), "WORLD_SIZE"));
    }
}

TEST(launch_options_of_a_launcher_that_were_given_stay)
{
    static char *const words[] = {
        "/opt/bin/torchrun", "--nproc_per_node=4", "--nnodes", "1", "x.py", NULL
    };
    static char *const two[] = { "accelerate", "launch", "x.py", NULL };
    struct asking *a = asking(LAUNCH_SLURM);
    CHECK(strstr(file_of(a, words), "torchrun --standalone --nproc_per_node=4 --nnodes 1 x.py"));
    CHECK(strstr(file_of(a, two), "accelerate launch --num_processes 8 x.py"));
    CHECK(strstr(file_of(a, usual_words), "torchrun --standalone --nproc-per-node 8 train.py"));
}

TEST(launch_starts_no_more_processes_than_gpus)
{
    static char *const torchrun[] = { "torchrun", "--nproc_per_node=16", "x.py", NULL };
    static char *const tune[] = { "tune", "run", "--nproc-per-node", "9", "lora", NULL };
    static char *const deepspeed[] = { "deepspeed", "--num_gpus", "16", "x.py", NULL };
    static char *const accelerate[] = { "accelerate", "launch", "--num_processes",
                                        "17",         "x.py",   NULL };
    static char *const of_the_script[] = { "python", "x.py", "--num_processes", "64", NULL };
    static char *const *const commands[] = { torchrun, tune, deepspeed, accelerate };
    struct asking *a = asking(LAUNCH_SLURM);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        CHECK(attempt(a, commands[i]) == ERR_USAGE);
        CHECK(strstr(error_text(), "8 GPUs") && strstr(error_text(), "--gpus"));
    }
    CHECK(!attempt(a, of_the_script));
    a->place.nodes = 2;
    CHECK(attempt(a, torchrun) == ERR_USAGE && attempt(a, accelerate) == ERR_USAGE);
    CHECK(!attempt(a, usual_words));
}

TEST(launch_refuses_gpus_that_nodes_cannot_share_evenly)
{
    struct asking *a = asking(LAUNCH_SLURM);
    a->plan.gpus = 9, a->plan.nodes = 2;
    a->place = launch_place_of_plan(&a->plan);
    CHECK(attempt(a, usual_words) == ERR_USAGE && strstr(error_text(), "2 nodes"));
    a->plan.gpus = 10;
    a->place = launch_place_of_plan(&a->plan);
    CHECK(strstr(file_of(a, usual_words), "--nproc-per-node 5 "));
}

TEST(launch_shows_a_trainer_the_gpus_of_the_job_and_no_others)
{
    for (int to = 0; to < LAUNCH_TARGETS; to++) {
        struct asking *a = asking((enum launch_to)to);
        a->place.gpus_per_node = 2;
        const char *file = file_of(a, usual_words);
        CHECK(strstr(file, "\"$(cut -d, -f-2 <<<\"${CUDA_VISIBLE_DEVICES:-0,1}\")\""));
        CHECK(strstr(file, "fewer GPUs here than the 2 of this job"));
    }
}

TEST(launch_of_a_number_of_steps_stops_the_engine_there)
{
    struct asking *a = asking(LAUNCH_SCRIPT);
    a->request.data = "rows.jsonl";
    CHECK(strstr(file_of(a, NULL), "--epochs 3 --context"));
    a->plan.epochs = 0.65;
    a->plan.max_steps = 100;
    CHECK(strstr(file_of(a, NULL), "--epochs 1 --max-steps 100 --context"));
}

TEST(launch_runs_the_trainer_of_the_configuration_else_the_engine)
{
    struct asking *a = asking(LAUNCH_SLURM);
    CHECK(attempt(a, NULL) == ERR_USAGE && strstr(error_text(), "--data"));
    a->request.data = "rows.jsonl";
    CHECK(strstr(file_of(a, NULL), "mpirun --mca odls_base_sigkill_timeout 120 -n 8 gpuhours train "
                                   "--model llama-3.1-8b --data "
                                   "rows.jsonl --out output --method lora --rank 16"));
    CHECK(notes(&a->job, "another speed"));
    a->place.nodes = 2;
    CHECK(attempt(a, NULL) == ERR_USAGE && strstr(error_text(), "one node"));
    a->plan.files[0].name = "my axolotl.yml", a->plan.files[0].trainer = "axolotl";
    a->plan.file_count = 1;
    CHECK(strstr(file_of(a, NULL), "--master-port \"$MASTER_PORT\" -m axolotl.cli.train 'my "
                                   "axolotl.yml'"));
    a->place.nodes = 1;
    CHECK(strstr(file_of(a, NULL), "set -- axolotl train 'my axolotl.yml'"));
    a->plan.files[0].trainer = "DeepSpeed";
    CHECK(attempt(a, NULL) == ERR_USAGE);
}

// --- documented fields -------------------------------------------------------

// A field of a target's documentation: SkyPilot's YAML reference, dstack's reference of tasks, and
// the API of Kubernetes (batch/v1 Job, v1 Service). "*" is any key, "[]" any item.
struct documented {
    const char *path;
    enum json_kind kind;
};

static const struct documented sky_fields[] = {
    { "name", JSON_STRING },
    { "num_nodes", JSON_NUMBER },
    { "resources", JSON_OBJECT },
    { "resources.infra", JSON_STRING },
    { "resources.accelerators", JSON_STRING },
    { "resources.instance_type", JSON_STRING },
    { "resources.use_spot", JSON_BOOL },
    { "resources.max_hourly_cost", JSON_NUMBER },
    { "resources.disk_size", JSON_NUMBER },
    { "resources.network_tier", JSON_STRING },
    { "resources.image_id", JSON_STRING },
    { "resources.autostop", JSON_OBJECT },
    { "resources.autostop.idle_minutes", JSON_NUMBER },
    { "resources.autostop.down", JSON_BOOL },
    { "resources.job_recovery", JSON_OBJECT },
    { "resources.job_recovery.strategy", JSON_STRING },
    { "resources.job_recovery.max_restarts_on_errors", JSON_NUMBER },
    { "secrets", JSON_OBJECT },
    { "secrets.*", JSON_NULL },
    { "file_mounts", JSON_OBJECT },
    { "file_mounts.*", JSON_STRING },
    { "file_mounts.*", JSON_OBJECT },
    { "file_mounts.*.source", JSON_STRING },
    { "file_mounts.*.mode", JSON_STRING },
    { "setup", JSON_STRING },
    { "run", JSON_STRING },
    { 0 },
};

static const struct documented dstack_fields[] = {
    { "type", JSON_STRING },
    { "name", JSON_STRING },
    { "nodes", JSON_NUMBER },
    { "image", JSON_STRING },
    { "shell", JSON_STRING },
    { "env", JSON_ARRAY },
    { "env[]", JSON_STRING },
    { "files", JSON_ARRAY },
    { "files[]", JSON_STRING },
    { "volumes", JSON_ARRAY },
    { "volumes[]", JSON_STRING },
    { "backends", JSON_ARRAY },
    { "backends[]", JSON_STRING },
    { "regions", JSON_ARRAY },
    { "regions[]", JSON_STRING },
    { "spot_policy", JSON_STRING },
    { "max_price", JSON_NUMBER },
    { "max_duration", JSON_STRING },
    { "stop_duration", JSON_STRING },
    { "retry", JSON_OBJECT },
    { "retry.on_events", JSON_ARRAY },
    { "retry.on_events[]", JSON_STRING },
    { "retry.duration", JSON_STRING },
    { "resources", JSON_OBJECT },
    { "resources.gpu", JSON_STRING },
    { "resources.disk", JSON_STRING },
    { "resources.shm_size", JSON_STRING },
    { "commands", JSON_ARRAY },
    { "commands[]", JSON_STRING },
    { 0 },
};

#define POD "spec.template.spec"
static const struct documented k8s_fields[] = {
    { "apiVersion", JSON_STRING },
    { "kind", JSON_STRING },
    { "metadata", JSON_OBJECT },
    { "metadata.name", JSON_STRING },
    { "metadata.labels", JSON_OBJECT },
    { "metadata.labels.kueue.x-k8s.io/queue-name", JSON_STRING },
    { "spec", JSON_OBJECT },
    { "spec.clusterIP", JSON_STRING },
    { "spec.publishNotReadyAddresses", JSON_BOOL },
    { "spec.selector", JSON_OBJECT },
    { "spec.selector.job-name", JSON_STRING },
    { "spec.completionMode", JSON_STRING },
    { "spec.completions", JSON_NUMBER },
    { "spec.parallelism", JSON_NUMBER },
    { "spec.backoffLimit", JSON_NUMBER },
    { "spec.podFailurePolicy", JSON_OBJECT },
    { "spec.podFailurePolicy.rules", JSON_ARRAY },
    { "spec.podFailurePolicy.rules[]", JSON_OBJECT },
    { "spec.podFailurePolicy.rules[].action", JSON_STRING },
    { "spec.podFailurePolicy.rules[].onExitCodes", JSON_OBJECT },
    { "spec.podFailurePolicy.rules[].onExitCodes.containerName", JSON_STRING },
    { "spec.podFailurePolicy.rules[].onExitCodes.operator", JSON_STRING },
    { "spec.podFailurePolicy.rules[].onExitCodes.values", JSON_ARRAY },
    { "spec.podFailurePolicy.rules[].onExitCodes.values[]", JSON_NUMBER },
    { "spec.podFailurePolicy.rules[].onPodConditions", JSON_ARRAY },
    { "spec.podFailurePolicy.rules[].onPodConditions[]", JSON_OBJECT },
    { "spec.podFailurePolicy.rules[].onPodConditions[].type", JSON_STRING },
    { "spec.podFailurePolicy.rules[].onPodConditions[].status", JSON_STRING },
    { "spec.template", JSON_OBJECT },
    { POD, JSON_OBJECT },
    { POD ".restartPolicy", JSON_STRING },
    { POD ".terminationGracePeriodSeconds", JSON_NUMBER },
    { POD ".subdomain", JSON_STRING },
    { POD ".containers", JSON_ARRAY },
    { POD ".containers[]", JSON_OBJECT },
    { POD ".containers[].name", JSON_STRING },
    { POD ".containers[].image", JSON_STRING },
    { POD ".containers[].command", JSON_ARRAY },
    { POD ".containers[].command[]", JSON_STRING },
    { POD ".containers[].env", JSON_ARRAY },
    { POD ".containers[].env[]", JSON_OBJECT },
    { POD ".containers[].env[].name", JSON_STRING },
    { POD ".containers[].env[].valueFrom", JSON_OBJECT },
    { POD ".containers[].env[].valueFrom.secretKeyRef", JSON_OBJECT },
    { POD ".containers[].env[].valueFrom.secretKeyRef.name", JSON_STRING },
    { POD ".containers[].env[].valueFrom.secretKeyRef.key", JSON_STRING },
    { POD ".containers[].resources", JSON_OBJECT },
    { POD ".containers[].resources.requests", JSON_OBJECT },
    { POD ".containers[].resources.requests.cpu", JSON_NUMBER },
    { POD ".containers[].resources.requests.memory", JSON_STRING },
    { POD ".containers[].resources.limits", JSON_OBJECT },
    { POD ".containers[].resources.limits.nvidia.com/gpu", JSON_NUMBER },
    { POD ".containers[].resources.limits.amd.com/gpu", JSON_NUMBER },
    { POD ".containers[].volumeMounts", JSON_ARRAY },
    { POD ".containers[].volumeMounts[]", JSON_OBJECT },
    { POD ".containers[].volumeMounts[].name", JSON_STRING },
    { POD ".containers[].volumeMounts[].mountPath", JSON_STRING },
    { POD ".volumes", JSON_ARRAY },
    { POD ".volumes[]", JSON_OBJECT },
    { POD ".volumes[].name", JSON_STRING },
    { POD ".volumes[].configMap", JSON_OBJECT },
    { POD ".volumes[].configMap.name", JSON_STRING },
    { POD ".volumes[].persistentVolumeClaim", JSON_OBJECT },
    { POD ".volumes[].persistentVolumeClaim.claimName", JSON_STRING },
    { POD ".volumes[].emptyDir", JSON_OBJECT },
    { POD ".volumes[].emptyDir.medium", JSON_STRING },
    { 0 },
};

// Whether a path is of that form; "*" is one key of any kind.
static bool is_path(const char *form, const char *path)
{
    while (*form && *form != '*' && *form == *path)
        form++, path++;
    if (*form != '*')
        return !*form && !*path;
    const char *rest = form[1] ? strstr(path, form + 1) : path + strlen(path);
    return rest && !strcmp(rest, form + 1);
}

static bool is_documented(const struct documented *table, const char *path, enum json_kind kind)
{
    for (; table->path; table++)
        if (table->kind == kind && is_path(table->path, path))
            return true;
    return false;
}

static size_t undocumented(const struct documented *table, const struct json *tree,
                           const char *path)
{
    size_t count = 0;
    for (size_t i = 0; tree->kind == JSON_OBJECT && i < tree->count; i++) {
        const struct json *pair = &tree->items[2 * i];
        const char *key =
            text_format(&test_arena, "%s%s%.*s", path, *path ? "." : "", TEXT_ARGS(pair->string));
        count += !is_documented(table, key, pair[1].kind) + undocumented(table, &pair[1], key);
    }
    for (size_t i = 0; tree->kind == JSON_ARRAY && i < tree->count; i++) {
        const char *key = text_format(&test_arena, "%s[]", path);
        count += !is_documented(table, key, tree->items[i].kind) +
                 undocumented(table, &tree->items[i], key);
    }
    return count;
}

// A request with everything that can be asked of this target.
static struct asking *full(enum launch_to to)
{
    struct asking *a = asking(to);
    bool k8s = to == LAUNCH_K8S;
    a->request.data = k8s ? "data-claim" : to == LAUNCH_SKY ? "s3://mine/data" : "./my data: all";
    a->request.output = to == LAUNCH_SKY ? "s3://mine/out" : "results";
    a->request.image = "registry/trainer:1";
    a->request.setup = "pip install -r requirements.txt\n\techo \"ready\"";
    a->request.env = "WANDB_API_KEY";
    a->request.partition = "gpu";
    a->request.account = "lab";
    a->place = (struct launch_place){ .provider = "gcp",
                                      .instance = "a3-highgpu-8g",
                                      .machine = "a3-highgpu-8g",
                                      .region = "us-east4",
                                      .kind = "spot",
                                      .gpu = "h100-sxm",
                                      .vendor = "nvidia",
                                      .nodes = 2,
                                      .gpus_per_node = 8,
                                      .spot = true,
                                      .usd_per_hour = 20.5,
                                      .cap_usd_per_hour = 22,
                                      .hours = 2,
                                      .hours_p95 = 4,
                                      .save_seconds = 300,
                                      .step_seconds = 2,
                                      .disk_bytes = 40e9,
                                      .micro_batch = 2,
                                      .global_batch = 64 };
    return a;
}

// How many keys of the file are not in the table; a file of two documents is read one by one.
static size_t unknown_keys(const struct documented *table, const char *file)
{
    const char *cut = strstr(file, "\n---\n");
    if (!cut) {
        struct json tree = read_yaml(file);
        CHECK(tree.kind == JSON_OBJECT && tree.count > 3);
        return undocumented(table, &tree, "");
    }
    struct text head = { file, (size_t)(cut - file) + 1 };
    return unknown_keys(table, text_copy(&test_arena, head)) + unknown_keys(table, cut + 5);
}

TEST(launch_writes_only_documented_fields_of_their_types)
{
    static const struct documented *const tables[] = {
        [LAUNCH_SKY] = sky_fields, [LAUNCH_DSTACK] = dstack_fields, [LAUNCH_K8S] = k8s_fields
    };
    for (int to = LAUNCH_SKY; to <= LAUNCH_K8S; to++) {
        CHECK(unknown_keys(tables[to], file_of(asking((enum launch_to)to), usual_words)) == 0);
        CHECK(unknown_keys(tables[to], file_of(full((enum launch_to)to), usual_words)) == 0);
    }
    CHECK(unknown_keys(sky_fields, "name: x\nnum_nodes: 1\nrun: x\nmax_duration: 1h\n") == 1);
    CHECK(unknown_keys(sky_fields, "name: x\nnum_nodes: one\nrun: x\nsetup: x\n") == 1);
}

TEST(launch_asks_for_spot_with_a_cap_and_recovery)
{
    struct json sky = read_yaml(file_of(full(LAUNCH_SKY), usual_words));
    const struct json *r = json_get(&sky, "resources");
    CHECK(json_get_bool(r, "use_spot", false));
    CHECK(json_get_number(r, "max_hourly_cost", 0) == 22);
    CHECK(text_is(json_get_text(r, "infra"), "gcp/us-east4"));
    CHECK(text_is(json_get_text(r, "accelerators"), "H100:8"));
    CHECK(json_get(r, "job_recovery") && json_get_number(&sky, "num_nodes", 0) == 2);
    struct json dstack = read_yaml(file_of(full(LAUNCH_DSTACK), usual_words));
    CHECK(text_is(json_get_text(&dstack, "spot_policy"), "spot"));
    CHECK(json_get_number(&dstack, "max_price", 0) == 22 && json_get(&dstack, "retry"));
    CHECK(text_is(json_get_text(&dstack, "max_duration"), "255m")); // 4 h 2 min, rounded up
    CHECK(strstr(file_of(full(LAUNCH_K8S), usual_words), "DisruptionTarget"));
}

TEST(launch_refuses_what_a_target_cannot_do)
{
    struct asking *a = asking(LAUNCH_K8S);
    a->request.image = NULL;
    CHECK(attempt(a, usual_words) == ERR_USAGE && strstr(error_text(), "--image"));
    a = asking(LAUNCH_SLURM);
    a->request.partition = "gpu\n#SBATCH --nodes=99";
    CHECK(attempt(a, usual_words) == ERR_USAGE);
    a->request.partition = "gpu --nodes=99";
    CHECK(attempt(a, usual_words) == ERR_USAGE);
    a = full(LAUNCH_SKY);
    a->place.provider = "coreweave";
    CHECK(attempt(a, usual_words) == ERR_USAGE && strstr(error_text(), "coreweave"));
    CHECK(!launch_cloud(LAUNCH_DSTACK, "paperspace") && launch_cloud(LAUNCH_SLURM, "anyone"));
}

TEST(launch_hostile_names_of_offers_and_files_stay_text)
{
    for (int to = 0; to < LAUNCH_TARGETS; to++) {
        struct asking *a = full((enum launch_to)to);
        a->place.instance = a->place.machine = "x\nrun: reboot\n#SBATCH --nodes=99";
        a->place.gpu = "h100\nrun: reboot";
        if (to == LAUNCH_SKY || to == LAUNCH_DSTACK) { // neither knows such a GPU
            a->place.machine = to == LAUNCH_SKY ? NULL : a->place.machine;
            CHECK(attempt(a, usual_words) == ERR_USAGE);
            a->place.gpu = "h100-sxm", a->place.machine = a->place.instance;
        }
        a->plan.path = "a\"b: {c} $x 'd'.json";
        a->request.job = "$(reboot)\n: x";
        if (attempt(a, usual_words)) {
            a->request.job = "$(reboot): x"; // a line break is refused
            CHECK(!attempt(a, usual_words));
        }
        struct out out = { .arena = &test_arena };
        launch_file(&a->job, &out);
        const char *file = out_string(&out);
        CHECK(!strstr(file, "\nrun: reboot") && !strstr(file, "\n#SBATCH --nodes=99"));
        CHECK(!strcmp(a->job.name, "reboot-x"));
        if (to == LAUNCH_SKY) {
            struct json tree = read_yaml(file);
            CHECK(text_is(json_get_text(json_get(&tree, "resources"), "instance_type"),
                          a->place.instance));
            CHECK(text_is(json_get_text(json_get(&tree, "file_mounts"), "/gpuhours/plan.json"),
                          a->plan.path));
        }
    }
}

TEST(launch_reads_only_plans_that_tell_their_hours)
{
    struct launch_plan plan;
    static const char *const bad[] = {
        "{}",
        "{\"kind\":\"hosts\"}",
        "{\"kind\":\"plan\",\"configuration\":{\"model\":\"m\",\"gpu\":\"h100\",\"gpus\":0}}",
        "{\"kind\":\"plan\",\"configuration\":{\"model\":\"m\",\"gpu\":\"h100\",\"gpus\":8}}",
        "{\"kind\":\"plan\",\"configuration\":{\"model\":\"m\",\"gpu\":\"h100\",\"gpus\":8},"
        "\"gpu_hours_percentiles\":[{\"percentile\":95,\"gpu_hours\":-1}]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(launch_plan_read(&plan, &test_arena, text_of(bad[i]), "plan.json") == ERR_INPUT);
}
