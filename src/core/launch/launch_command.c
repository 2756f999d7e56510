// SPDX-License-Identifier: Apache-2.0
// The trainer's command: as given, for its configuration file, or the built-in engine.

#include "core/launch/launch_internal.h"

#include "base/secret.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add(struct launch *job, const char *text, bool is_shell)
{
    struct launch_words *w = &job->words;
    w->at = arena_room(job->arena, w->at, sizeof *w->at, w->count, &w->room);
    w->at[w->count++] = (struct launch_word){ text, is_shell };
}

static void add_all(struct launch *job, const char *const *words)
{
    for (; *words; words++)
        add(job, *words, false);
}

static void add_number(struct launch *job, const char *option, double value)
{
    if (isnan(value))
        return;
    add(job, option, false);
    add(job, text_format(job->arena, "%.10g", value), false);
}

static void add_text(struct launch *job, const char *option, const char *value)
{
    if (!value)
        return;
    add(job, option, false);
    add(job, value, false);
}

static void add_flag(struct launch *job, const char *option, bool is_set)
{
    if (is_set)
        add(job, option, false);
}

// --- secrets -----------------------------------------------------------------

static bool is_name(char c, bool first)
{
    return (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

// "--hub-token" is HUB_TOKEN.
static const char *variable_of(struct arena *arena, struct text key)
{
    struct out out = { .arena = arena };
    for (size_t i = 0; i < key.size; i++) {
        char c = key.at[i];
        c = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        if (is_name(c, !out.size))
            out_char(&out, c);
        else if (out.size && out.at[out.size - 1] != '_')
            out_char(&out, '_');
    }
    return out.size && out.size < 64 ? out_string(&out) : "TRAINER_SECRET";
}

// secret: what the variable stands for in the command; empty: not known, of --env.
static enum err add_variable(struct launch *job, const char *name, struct text secret)
{
    size_t i = 0;
    while (i < job->variable_count && strcmp(job->variables[i], name))
        i++;
    if (i == LAUNCH_VARIABLES)
        return fail(ERR_USAGE, "more than %d environment variables are named", LAUNCH_VARIABLES);
    if (secret.size && job->secrets[i].size && !text_equal(secret, job->secrets[i]))
        return fail(ERR_USAGE,
                    "two secrets of the command would both be taken from the environment variable "
                    "%s; write variables of your own in their places, and pass them with --env",
                    name);
    job->variables[i] = name;
    if (secret.size)
        job->secrets[i] = secret;
    job->variable_count += i == job->variable_count;
    return OK;
}

// The key that a word is the value of: what stands before its "=", or the option before it.
static struct text key_of(struct text *value, const char *before)
{
    const char *equals = memchr(value->at, '=', value->size);
    if (equals) {
        struct text key = { value->at, (size_t)(equals - value->at) };
        *value = (struct text){ equals + 1, value->size - key.size - 1 };
        return key;
    }
    return text_of(before && before[0] == '-' && !strchr(before, '=') ? before : "");
}

// What ends a piece of a longer text, such as a script.
static const char cuts[] = " \t\n\r;&|()\"'`<>{},";

// Whether a longer text has a secret among its pieces.
static bool hides_secret(const char *text)
{
    while (*text) {
        size_t size = strcspn(text, cuts);
        struct text value = { text, size };
        struct text key = key_of(&value, NULL);
        bool named = value.size && value.at[0] == '$'; // a variable by its name is no secret
        if (!named && secret_is(key, value))
            return true;
        text += size + !!text[size];
    }
    return false;
}

// A word that is the value of an option, or one piece, and looks like a secret becomes a variable.
static enum err add_secret(bool *is_secret, struct launch *job, const char *word,
                           const char *before)
{
    struct text value = text_of(word), key = key_of(&value, before);
    struct out out = { .arena = job->arena };
    bool inside = value.at != word, pieces = word[strcspn(word, cuts)];
    *is_secret = value.size && value.at[0] != '$' && value.at[0] != '-' && !(inside && pieces) &&
                 secret_is(key, value);
    if (!*is_secret)
        return OK;
    const char *name = variable_of(job->arena, key);
    if (inside)
        launch_shell_word(&out, text_format(job->arena, "%.*s=", TEXT_ARGS(key)));
    out_put(&out, "\"$%s\"", name);
    add(job, out_string(&out), true);
    TRY(add_variable(job, name, value));
    launch_note(job,
                "a secret of the command is not written: the job takes it from the environment "
                "variable %s",
                name);
    return OK;
}

static enum err add_given(struct launch *job, const char *word, const char *before)
{
    bool is_secret;
    TRY(add_secret(&is_secret, job, word, before));
    if (is_secret)
        return OK;
    if (hides_secret(word))
        return fail(ERR_USAGE, "the command holds what looks like a secret inside a longer word; "
                               "name an environment variable there, and pass it with --env NAME");
    add(job, word, false);
    return OK;
}

enum err launch_refuse_secrets(const struct launch_request *request)
{
    for (const struct field *f = launch_fields; f->name; f++) {
        if (f->kind != FIELD_TEXT)
            continue;
        const char *value = *(const char *const *)((const char *)request + f->offset);
        if (value && (secret_is(TEXT(""), text_of(value)) || hides_secret(value)))
            return fail(ERR_USAGE,
                        "--%s holds what looks like a secret; job files are shared: name an "
                        "environment variable with --env instead",
                        f->name);
    }
    return OK;
}

static enum err read_variables(struct launch *job)
{
    struct text rest = text_of(job->request->env ? job->request->env : ""), name;
    while (rest.size && text_next(&rest, ',', &name)) {
        name = text_trim(name);
        bool good = name.size > 0 && name.size < 128;
        for (size_t i = 0; i < name.size; i++)
            good = good && (is_name(name.at[i], !i) || (name.at[i] >= 'a' && name.at[i] <= 'z'));
        if (!good)
            return fail(
                ERR_USAGE,
                "--env names environment variables, without values: HF_TOKEN,WANDB_API_KEY");
        TRY(add_variable(job, text_copy(job->arena, name), (struct text){ 0 }));
    }
    return OK;
}

// --- launchers: one process per GPU, over all nodes --------------------------

enum value { PER_NODE, TOTAL, NODES, RANK, MASTER, PORT };

// Options that a launcher is given unless the command has them.
static const struct launcher {
    const char *first, *second; // its words
    struct {
        const char *option;
        enum value value;
    } options[5];
} launchers[] = {
    { "torchrun",
      NULL,
      { { "--nproc-per-node", PER_NODE },
        { "--nnodes", NODES },
        { "--node-rank", RANK },
        { "--master-addr", MASTER },
        { "--master-port", PORT } } },
    { "accelerate",
      "launch",
      { { "--num_processes", TOTAL },
        { "--num_machines", NODES },
        { "--machine_rank", RANK },
        { "--main_process_ip", MASTER },
        { "--main_process_port", PORT } } },
};

// The launcher of a command, and how many words it takes; NULL: another program.
static const struct launcher *launcher_of(char *const *words, size_t *count)
{
    const char *program = launch_base(words[0]);
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct launcher *l = &launchers[i];
        bool two = l->second != NULL;
        if (strcmp(program, l->first) || (two && (!words[1] || strcmp(words[1], l->second))))
            continue;
        *count = two ? 2 : 1;
        return l;
    }
    return NULL;
}

// Whether a word is this option; "-" and "_" are equal.
static bool is_option(const char *word, const char *option)
{
    for (; *option; word++, option++)
        if (*word != *option &&
            !((*word == '-' || *word == '_') && (*option == '-' || *option == '_')))
            return false;
    return !*word || *word == '=';
}

static bool has_option(char *const *words, const char *option)
{
    for (; *words; words++)
        if (is_option(*words, option) ||
            (is_option(*words, "--standalone") && strcmp(option, "--nproc-per-node") != 0))
            return true;
    return false;
}

static void add_launcher(struct launch *job, const struct launcher *l, char *const *words)
{
    const struct launch_place *p = job->place;
    static const char *const shell[] = {
        [RANK] = "\"$NODE_RANK\"", [MASTER] = "\"$MASTER_ADDR\"", [PORT] = "\"$MASTER_PORT\""
    };
    if (p->nodes == 1 && l == launchers && !has_option(words, "--standalone") &&
        !has_option(words, "--master-port") && !has_option(words, "--rdzv-backend"))
        add(job, "--standalone", false); // a free port: other jobs may run on the node
    for (size_t i = 0; i < sizeof l->options / sizeof *l->options; i++) {
        enum value value = l->options[i].value;
        bool several = value != PER_NODE && value != TOTAL;
        if ((several && p->nodes == 1) || has_option(words, l->options[i].option))
            continue;
        int64_t count = value == PER_NODE ? p->gpus_per_node
                        : value == TOTAL  ? p->gpus_per_node * p->nodes
                                          : p->nodes;
        add(job, l->options[i].option, false);
        if (value >= RANK)
            add(job, shell[value], true);
        else
            add(job, text_format(job->arena, "%lld", (long long)count), false);
    }
}

// Options by which a command itself says how many processes it starts.
static const struct {
    const char *program; // NULL: torchrun, tune, python -m torch.distributed.run …
    const char *option;
    bool total; // over all nodes
} counts[] = {
    { NULL, "--nproc-per-node", false },
    { "deepspeed", "--num-gpus", false },
    { "accelerate", "--num-processes", true },
};

// No more processes than GPUs.
static enum err check_processes(const struct launch *job, char *const *words)
{
    const struct launch_place *p = job->place;
    const char *program = launch_base(words[0]);
    for (size_t i = 0; words[i]; i++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            if (!is_option(words[i], counts[c].option) ||
                (counts[c].program && strcmp(counts[c].program, program)))
                continue;
            const char *equals = strchr(words[i], '=');
            const char *value = equals ? equals + 1 : words[i + 1];
            int64_t gpus = p->gpus_per_node * (counts[c].total ? p->nodes : 1);
            if (value && strtod(value, NULL) > (double)gpus)
                return fail(ERR_USAGE,
                            "%s asks for %.20s processes, and there %s %lld GPU%s%s; leave the "
                            "option out, or plan for more (--gpus)",
                            counts[c].option, value, gpus == 1 ? "is" : "are", (long long)gpus,
                            text_plural(gpus),
                            p->nodes > 1 && !counts[c].total ? " on each node" : "");
        }
    return OK;
}

static enum err add_command(struct launch *job, char *const *words)
{
    size_t taken = 0;
    const struct launcher *l = launcher_of(words, &taken);
    TRY(check_processes(job, words));
    for (size_t i = 0; words[i]; i++) {
        if (l && i == taken)
            add_launcher(job, l, words);
        TRY(add_given(job, words[i], i ? words[i - 1] : NULL));
    }
    if (!l && job->place->gpus_per_node * job->place->nodes > 1)
        launch_note(job,
                    "the command starts once on each node and finds its %lld GPU%s by itself; "
                    "torchrun and accelerate launch are given the number of GPUs and nodes",
                    (long long)job->place->gpus_per_node, text_plural(job->place->gpus_per_node));
    return OK;
}

// --- trainers with a configuration file --------------------------------------

// Words for one node; %F stands for the file.
static const struct trainer {
    const char *name, *method; // method: NULL any
    bool several;              // on several GPUs; for torchtune, whose recipes differ
    const char *words[8];
    const char *nodes[6];   // the same on several nodes, after torchrun's options
    bool reads_environment; // NNODES, NODE_RANK, …: the same words serve several nodes
} trainers[] = {
    { "axolotl",
      NULL,
      true,
      { "axolotl", "train", "%F" },
      { "-m", "axolotl.cli.train", "%F" },
      false },
    { "LLaMA-Factory",
      NULL,
      true,
      { "env", "FORCE_TORCHRUN=1", "llamafactory-cli", "train", "%F" },
      { NULL },
      true },
    { "litgpt", "full", true, { "litgpt", "finetune_full", "--config", "%F" }, { NULL }, false },
    { "litgpt", NULL, true, { "litgpt", "finetune_lora", "--config", "%F" }, { NULL }, false },
    { "TRL", NULL, true, { "trl", "sft", "--config", "%F" }, { NULL }, false },
    { "torchtune",
      "full",
      false,
      { "tune", "run", "full_finetune_single_device", "--config", "%F" },
      { NULL },
      false },
    { "torchtune",
      NULL,
      false,
      { "tune", "run", "lora_finetune_single_device", "--config", "%F" },
      { NULL },
      false },
    { "torchtune",
      "full",
      true,
      { "tune", "run", "--nproc_per_node", "%N", "full_finetune_distributed", "--config", "%F" },
      { NULL },
      false },
    { "torchtune",
      NULL,
      true,
      { "tune", "run", "--nproc_per_node", "%N", "lora_finetune_distributed", "--config", "%F" },
      { NULL },
      false },
};

static const struct trainer *trainer_of(const struct launch *job, const char **file)
{
    const struct launch_plan *plan = job->plan;
    bool several = job->place->gpus_per_node > 1;
    for (size_t f = 0; f < plan->file_count; f++)
        for (size_t i = 0; i < sizeof trainers / sizeof *trainers; i++) {
            const struct trainer *t = &trainers[i];
            bool method = !t->method || (plan->method && !strcmp(plan->method, t->method));
            bool count = strcmp(t->name, "torchtune") != 0 || t->several == several;
            *file = plan->files[f].name;
            if (!strcmp(plan->files[f].trainer, t->name) && method && count)
                return t;
        }
    return NULL;
}

static enum err add_trainer(struct launch *job, const struct trainer *t, const char *file)
{
    if (job->place->nodes > 1 && !t->nodes[0] && !t->reads_environment)
        return fail(ERR_USAGE,
                    "how %s starts on several nodes is not known; give its command after --, or a "
                    "place of one node with --offer",
                    t->name);
    bool by_torchrun = job->place->nodes > 1 && t->nodes[0];
    const char *const *words = by_torchrun ? t->nodes : t->words;
    if (by_torchrun) {
        char *none[] = { NULL };
        add(job, "torchrun", false);
        add_launcher(job, &launchers[0], none);
    }
    for (; *words; words++)
        add(job,
            !strcmp(*words, "%F") ? file
            : !strcmp(*words, "%N")
                ? text_format(job->arena, "%lld", (long long)job->place->gpus_per_node)
                : *words,
            false);
    launch_note(job,
                "%s runs with %s, which must lie there under the same path; another command "
                "may follow --",
                t->name, launch_plain(job->arena, file));
    return OK;
}

// --- the built-in engine -----------------------------------------------------

static enum err add_engine(struct launch *job)
{
    const struct launch_plan *plan = job->plan;
    const struct launch_place *place = job->place;
    if (place->nodes > 1)
        return fail(ERR_USAGE,
                    "the built-in engine trains on one node, and this place has %lld; give the "
                    "trainer's command after --, or a place of one node with --offer",
                    (long long)place->nodes);
    if (!job->data_at)
        return fail(ERR_USAGE, "the built-in engine needs --data; or give the trainer's command "
                               "after --: gpuhours launch … -- torchrun train.py");
    const char *objective = plan->objective ? plan->objective : "sft";
    if (strcmp(objective, "sft") && strcmp(objective, "dpo"))
        return fail(ERR_USAGE,
                    "the built-in engine trains sft and dpo, and the plan is of %s; give the "
                    "trainer's command after --",
                    objective);
    if (place->gpus_per_node >
        1) { // mpirun kills a second after SIGTERM, unless it is told to wait
        add_all(job, (const char *const[]){ "mpirun", "--mca", "odls_base_sigkill_timeout", NULL });
        add(job, text_format(job->arena, "%lld", (long long)job->grace_seconds), false);
        add_number(job, "-n", (double)place->gpus_per_node);
    }
    const char *model = job->request->model ? job->request->model : plan->model;
    add_all(job, (const char *const[]){ "gpuhours", "train", "--model", model, "--data",
                                        job->data_at, "--out", job->output_at, NULL });
    if (strcmp(objective, "sft"))
        add_text(job, "--objective", objective);
    add_text(job, "--method", plan->method);
    if (plan->method && strcmp(plan->method, "full")) {
        add_number(job, "--rank", plan->rank);
        add_number(job, "--alpha", plan->alpha);
        add_text(job, "--targets", plan->targets);
        add_flag(job, "--rslora", plan->rslora);
        add_flag(job, "--dora", plan->dora);
        add_flag(job, "--trains-embeddings", plan->trains_embeddings);
    }
    add_flag(job, "--nondeterministic", plan->nondeterministic);
    add_number(job, "--epochs", isnan(plan->max_steps) ? plan->epochs : ceil(plan->epochs));
    add_number(job, "--max-steps", plan->max_steps);
    add_number(job, "--context", plan->context);
    add_number(job, "--micro-batch", place->micro_batch);
    add_number(job, "--accumulation", fmax(1, rint(place->global_batch / place->micro_batch)));
    if (job->save_steps)
        add_number(job, "--save-every", (double)job->save_steps);
    job->is_engine = true;
    launch_note(job,
                "no command follows --, so the built-in engine trains; it reads the model's "
                "weights from the folder %s (--model names another)",
                launch_plain(job->arena, model));
    if (plan->stack && strcmp(plan->stack, "native"))
        launch_note(job, "the plan is for the stack %s: the built-in engine has another speed",
                    launch_plain(job->arena, plan->stack));
    return OK;
}

enum err launch_command(struct launch *job, char *const *words)
{
    const char *file;
    TRY(read_variables(job));
    if (words && words[0])
        return add_command(job, words);
    const struct trainer *trainer = trainer_of(job, &file);
    if (trainer)
        return add_trainer(job, trainer, file);
    if (job->plan->file_count)
        return fail(ERR_USAGE,
                    "%s does not say which program reads it; give the trainer's command after --",
                    job->plan->files[0].name);
    return add_engine(job);
}
