// SPDX-License-Identifier: Apache-2.0
// Reads PEFT adapters: config, then pairs of factors.

#include "train/files/adapter_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EXPERTS = 4096 }; // of a stack

static const char prefix[] = "base_model.model.", magnitude_ending[] = ".lora_magnitude_vector";

double adapter_file_scale(const struct adapter_file_config *config)
{
    double rank = (double)config->rank;
    return config->alpha / (config->rank_stabilized ? sqrt(rank) : rank);
}

// --- config ------------------------------------------------------------------

// Keys with any value: they are read elsewhere, or only say how the adapter was made.
static const char *const harmless[] = {
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_dropout",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "revision",
    "runtime_config",
    "target_modules",
    "target_parameters",
    "task_type",
    "use_dora",
    "use_rslora",
};

// Initializations that also change the weights of the base, which the adapter does not contain.
static const char *const changed_bases[] = { "pissa", "olora", "loftq", "corda", "lora_ga" };

static bool is_harmless(struct text key)
{
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (text_is(key, harmless[i]))
            return true;
    return false;
}

// A feature that is off is null, false or empty. Numbers and strings only qualify other keys.
static bool is_off(const struct json *value)
{
    switch (value->kind) {
    case JSON_BOOL: return !value->flag;
    case JSON_ARRAY:
    case JSON_OBJECT: return !value->count;
    default: return true;
    }
}

static enum err check_features(const struct json *json, const char *name)
{
    for (size_t i = 0; i < json->count; i++) {
        struct text key = json->items[2 * i].string;
        if (!is_harmless(key) && !is_off(&json->items[2 * i + 1]))
            return fail(ERR_INPUT,
                        "%s: %.*s is set, which is not supported; LoRA, rsLoRA and DoRA are", name,
                        TEXT_BRIEF(key));
    }
    struct text init = json_get_text(json, "init_lora_weights");
    for (size_t i = 0; init.at && i < sizeof changed_bases / sizeof *changed_bases; i++) {
        size_t size = strlen(changed_bases[i]);
        if (init.size >= size && !memcmp(init.at, changed_bases[i], size))
            return fail(
                ERR_INPUT,
                "%s: init_lora_weights is %.*s, which also changed the weights of the base; "
                "convert the adapter to plain LoRA with PEFT first",
                name, TEXT_BRIEF(init));
    }
    return OK;
}

static enum err check_kind(const struct json *json, const char *name)
{
    struct text type = json_get_text(json, "peft_type"), task = json_get_text(json, "task_type");
    struct text bias = json_get_text(json, "bias");
    if (!type.at)
        return fail(ERR_INPUT, "%s: has no peft_type; is it an adapter's config?", name);
    if (!text_is(type, "LORA"))
        return fail(ERR_INPUT, "%s: peft_type is %.*s, must be LORA", name, TEXT_BRIEF(type));
    if (task.at && !text_is(task, "CAUSAL_LM"))
        return fail(ERR_INPUT, "%s: task_type is %.*s, must be CAUSAL_LM", name, TEXT_BRIEF(task));
    if (bias.at && !text_is(bias, "none"))
        return fail(ERR_INPUT, "%s: bias is %.*s, must be none", name, TEXT_BRIEF(bias));
    return OK;
}

static enum err read_names(const struct json *json, const char *key, struct arena *arena,
                           const char *name, const char ***out, size_t *count)
{
    const struct json *list = json_get(json, key);
    *count = 0;
    if (!list ||
        list->kind == JSON_STRING) // a regular expression; the tensors show what it matched
        return OK;
    if (list->kind != JSON_ARRAY)
        return fail(ERR_INPUT, "%s: %s is %s, must be a list of names", name, key,
                    json_kind_name(list->kind));
    *out = ARENA_NEW(arena, const char *, list->count + 1);
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].kind != JSON_STRING)
            return fail(ERR_INPUT, "%s: %s holds %s, must hold names", name, key,
                        json_kind_name(list->items[i].kind));
        (*out)[(*count)++] = text_copy(arena, list->items[i].string);
    }
    return OK;
}

enum err adapter_file_read_config(struct adapter_file_config *out, struct arena *arena,
                                  struct text json, const char *name)
{
    struct json tree;
    *out = (struct adapter_file_config){ 0 };
    TRY(json_read(&tree, arena, json, name));
    if (tree.kind != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: is %s, must be an object", name, json_kind_name(tree.kind));
    TRY(check_kind(&tree, name));
    TRY(check_features(&tree, name));
    double rank = json_get_number(&tree, "r", NAN);
    if (!(rank >= 1 && rank <= 65536) || rank != floor(rank))
        return fail(ERR_INPUT, "%s: r must be a whole number from 1 to 65536", name);
    out->rank = (int64_t)rank;
    out->alpha = json_get_number(&tree, "lora_alpha", NAN);
    if (!(fabs(out->alpha) <= 1e9))
        return fail(ERR_INPUT, "%s: lora_alpha must be a number", name);
    out->dropout = json_get_number(&tree, "lora_dropout", 0);
    if (!(out->dropout >= 0 && out->dropout < 1))
        return fail(ERR_INPUT, "%s: lora_dropout is %g, must be at least 0 and below 1", name,
                    out->dropout);
    out->rank_stabilized = json_get_bool(&tree, "use_rslora", false);
    out->has_magnitudes = json_get_bool(&tree, "use_dora", false);
    struct text base = json_get_text(&tree, "base_model_name_or_path");
    out->base = base.at ? text_copy(arena, base) : NULL;
    TRY(read_names(&tree, "target_modules", arena, name, &out->targets, &out->target_count));
    TRY(read_names(&tree, "target_parameters", arena, name, &out->parameters.names,
                   &out->parameters.count));
    for (size_t i = 0; i < out->parameters.count; i++)
        if (!adapter_stack_is_target(out->parameters.names[i]))
            return fail(ERR_INPUT,
                        "%s: target_parameters has %.80s, which is not supported; "
                        "experts.gate_up_proj and experts.down_proj are",
                        name, out->parameters.names[i]);
    return read_names(&tree, "modules_to_save", arena, name, &out->saved_modules,
                      &out->saved_count);
}

// --- tensors -----------------------------------------------------------------

static int by_module(const void *a, const void *b)
{
    return strcmp(((const struct adapter_file_module *)a)->name,
                  ((const struct adapter_file_module *)b)->name);
}

static int by_saved(const void *a, const void *b)
{
    return strcmp(((const struct adapter_file_saved *)a)->name,
                  ((const struct adapter_file_saved *)b)->name);
}

const struct adapter_file_module *adapter_file_find(const struct adapter_file *adapter,
                                                    const char *name)
{
    struct adapter_file_module key = { .name = name };
    return adapter->module_count
               ? bsearch(&key, adapter->modules, adapter->module_count, sizeof key, by_module)
               : NULL;
}

const struct adapter_file_saved *adapter_file_find_saved(const struct adapter_file *adapter,
                                                         const char *name)
{
    struct adapter_file_saved key = { .name = name };
    return adapter->saved_count
               ? bsearch(&key, adapter->saved, adapter->saved_count, sizeof key, by_saved)
               : NULL;
}

static bool cut_ending(struct text *name, const char *ending)
{
    bool ends = text_ends(*name, ending);
    name->size -= ends ? strlen(ending) : 0;
    return ends;
}

static enum err check_numbers(const struct safetensors_tensor *t, const char *folder)
{
    if (!storage_is_real(t->type))
        return fail(ERR_INPUT, "%s: %s is stored as %s; F64, F32, F16 and BF16 can be read", folder,
                    t->name, storage_name(t->type));
    size_t count = (size_t)safetensors_elements(t);
    size_t bad = storage_first_not_finite(t->type, t->at, count);
    if (bad < count)
        return fail(ERR_INPUT, "%s: %s: element %zu is not a finite number", folder, t->name, bad);
    return OK;
}

static enum err sort_magnitude(struct adapter_file *adapter, struct arena *arena,
                               struct adapter_file_module *m)
{
    const char *name = text_format(arena, "%s%s%s", prefix, m->name, magnitude_ending);
    m->magnitude = safetensors_find(&adapter->file, name);
    if (!m->magnitude != !adapter->config.has_magnitudes)
        return fail(
            ERR_INPUT, "%s: %s has %s lora_magnitude_vector, and the config says use_dora %s",
            adapter->folder, m->name, m->magnitude ? "a" : "no", m->magnitude ? "false" : "true");
    if (!m->magnitude)
        return OK;
    if (m->magnitude->rank != 1 || m->magnitude->shape[0] != m->out)
        return fail(ERR_INPUT, "%s: %s: lora_magnitude_vector is %s, must be [%lld]",
                    adapter->folder, m->name,
                    safetensors_shape(arena, m->magnitude->rank, m->magnitude->shape),
                    (long long)m->out);
    return check_numbers(m->magnitude, adapter->folder);
}

// A factor without its counterpart is refused.
static enum err find_b(const struct safetensors_tensor **out, const struct adapter_file *adapter,
                       struct arena *arena, const char *module)
{
    *out =
        safetensors_find(&adapter->file, text_format(arena, "%s%s.lora_B.weight", prefix, module));
    if (!*out)
        return fail(ERR_INPUT, "%s: %s has lora_A but no lora_B", adapter->folder, module);
    return check_numbers(*out, adapter->folder);
}

// Adds a module for each expert of a stack.
static enum err sort_stack(struct adapter_file *adapter, struct arena *arena,
                           const struct adapter_stack *found, struct text module,
                           const struct safetensors_tensor *a)
{
    const char *name = text_copy(arena, module);
    int64_t rank = adapter->config.rank;
    const struct safetensors_tensor *b;
    TRY(check_numbers(a, adapter->folder));
    TRY(find_b(&b, adapter, arena, name));
    bool good = a->rank == 2 && b->rank == 2 && a->shape[0] == b->shape[1] && a->shape[0] > 0 &&
                a->shape[0] % rank == 0 && a->shape[0] / rank <= MOST_EXPERTS && a->shape[1] > 0 &&
                b->shape[0] > 0 && b->shape[0] % adapter_stack_linears(found) == 0;
    if (!good)
        return fail(ERR_INPUT,
                    "%s: %s: lora_A is %s and lora_B is %s; of up to %d experts with r = %lld they "
                    "must be [experts · r, in] and [out, r · experts]",
                    adapter->folder, name, safetensors_shape(arena, a->rank, a->shape),
                    safetensors_shape(arena, b->rank, b->shape), MOST_EXPERTS, (long long)rank);
    struct adapter_stack *stack = ARENA_NEW(arena, struct adapter_stack, 1);
    *stack = *found;
    stack->experts = a->shape[0] / rank;
    stack->rank = rank;
    stack->in = a->shape[1];
    stack->out = b->shape[0];
    for (int64_t i = 0; i < stack->experts; i++)
        adapter->modules[adapter->module_count++] = (struct adapter_file_module){
            .name = text_format(arena, "%s.%lld.%s", stack->experts_path, (long long)i,
                                stack->parameter),
            .in = stack->in,
            .out = stack->out,
            .a = a,
            .b = b,
            .stack = stack,
            .expert = i,
        };
    return OK;
}

// Adds the module of a factor A, with its B.
static enum err sort_factors(struct adapter_file *adapter, struct arena *arena, struct text module,
                             const struct safetensors_tensor *a)
{
    struct adapter_stack stack;
    if (adapter_stack_module(&stack, arena, module, &adapter->config.parameters))
        return sort_stack(adapter, arena, &stack, module, a);
    struct adapter_file_module *m = &adapter->modules[adapter->module_count];
    int64_t rank = adapter->config.rank;
    *m = (struct adapter_file_module){ .name = text_copy(arena, module), .a = a };
    TRY(check_numbers(m->a, adapter->folder));
    TRY(find_b(&m->b, adapter, arena, m->name));
    if (a->rank != 2 || m->b->rank != 2 || a->shape[0] != rank || m->b->shape[1] != rank)
        return fail(ERR_INPUT,
                    "%s: %s: lora_A is %s and lora_B is %s; with r = %lld they must be [r, in] and "
                    "[out, r]",
                    adapter->folder, m->name, safetensors_shape(arena, a->rank, a->shape),
                    safetensors_shape(arena, m->b->rank, m->b->shape), (long long)rank);
    m->in = a->shape[1];
    m->out = m->b->shape[0];
    TRY(sort_magnitude(adapter, arena, m));
    adapter->module_count++;
    return OK;
}

static enum err sort_tensor(struct adapter_file *adapter, struct arena *arena,
                            const struct safetensors_tensor *t)
{
    struct text name = text_of(t->name);
    if (name.size <= sizeof prefix - 1 || memcmp(name.at, prefix, sizeof prefix - 1))
        return fail(ERR_INPUT, "%s: tensor %.80s: does not begin with %s, as PEFT names them",
                    adapter->folder, t->name, prefix);
    name = (struct text){ name.at + sizeof prefix - 1, name.size - (sizeof prefix - 1) };
    struct text saved_name = name;
    if (cut_ending(&name, ".lora_A.weight"))
        return sort_factors(adapter, arena, name, t);
    if (cut_ending(&name, ".lora_B.weight") || cut_ending(&name, magnitude_ending)) {
        const char *a = text_format(arena, "%s%.*s.lora_A.weight", prefix, TEXT_ARGS(name));
        return safetensors_find(&adapter->file, a)
                   ? OK
                   : fail(ERR_INPUT, "%s: %.*s has %s but no lora_A", adapter->folder,
                          TEXT_ARGS(name),
                          text_ends(saved_name, magnitude_ending) ? "a magnitude" : "lora_B");
    }
    // Beside factors on the head PEFT saves the head itself, under this name.
    if (cut_ending(&name, ".base_layer.weight"))
        saved_name = text_of(text_format(arena, "%.*s.weight", TEXT_ARGS(name)));
    else if (strstr(t->name, ".lora_") || strstr(t->name, ".base_layer.") ||
             !(cut_ending(&name, ".weight") || cut_ending(&name, ".bias")))
        return fail(ERR_INPUT, "%s: tensor %.80s: adapters of this kind are not supported",
                    adapter->folder, t->name);
    TRY(check_numbers(t, adapter->folder));
    adapter->saved[adapter->saved_count++] =
        (struct adapter_file_saved){ text_copy(arena, saved_name), t };
    return OK;
}

// A stack is a module for each of its experts.
static size_t most_modules(const struct adapter_file *adapter)
{
    size_t count = 1;
    for (size_t i = 0; i < adapter->file.count; i++) {
        const struct safetensors_tensor *t = &adapter->file.tensors[i];
        bool may_be_stack = adapter->config.parameters.count && t->rank == 2 &&
                            text_ends(text_of(t->name), ".lora_A.weight");
        int64_t experts = may_be_stack ? t->shape[0] / adapter->config.rank : 1;
        count += (size_t)(experts < 1 ? 1 : experts > MOST_EXPERTS ? MOST_EXPERTS : experts);
    }
    return count;
}

enum err adapter_file_sort(struct adapter_file *adapter, struct arena *arena)
{
    const struct safetensors *file = &adapter->file;
    adapter->modules = ARENA_NEW(arena, struct adapter_file_module, most_modules(adapter));
    adapter->saved = ARENA_NEW(arena, struct adapter_file_saved, file->count + 1);
    adapter->module_count = adapter->saved_count = 0;
    for (size_t i = 0; i < file->count; i++)
        TRY(sort_tensor(adapter, arena, &file->tensors[i]));
    if (!adapter->module_count && !adapter->saved_count)
        return fail(ERR_INPUT, "%s: the adapter is empty", adapter->folder);
    qsort(adapter->modules, adapter->module_count, sizeof *adapter->modules, by_module);
    for (size_t i = 1; i < adapter->module_count; i++) // an expert's own factors, and in a stack
        if (!by_module(&adapter->modules[i - 1], &adapter->modules[i]))
            return fail(ERR_INPUT, "%s: adapts %s twice", adapter->folder,
                        adapter->modules[i].name);
    qsort(adapter->saved, adapter->saved_count, sizeof *adapter->saved, by_saved);
    return OK;
}

static float *factor(struct arena *arena, const struct adapter_file_module *m, bool is_b)
{
    const struct safetensors_tensor *t = is_b ? m->b : m->a;
    int64_t count = safetensors_elements(t) / (m->stack ? m->stack->experts : 1);
    float *values = ARENA_NEW(arena, float, count);
    if (m->stack)
        (is_b ? adapter_stack_read_b : adapter_stack_read_a)(values, m->stack, m->expert, t);
    else
        storage_read(values, t->type, t->at, (size_t)count);
    return values;
}

float *adapter_file_a(struct arena *arena, const struct adapter_file_module *module)
{
    return factor(arena, module, false);
}

float *adapter_file_b(struct arena *arena, const struct adapter_file_module *module)
{
    return factor(arena, module, true);
}

enum err adapter_file_open(struct adapter_file *out, struct arena *arena, const char *folder)
{
    *out = (struct adapter_file){ .folder = folder };
    const char *path = text_format(arena, "%s/adapter_config.json", folder);
    struct file config;
    TRY(file_open(&config, path));
    enum err err = adapter_file_read_config(&out->config, arena, config.text, path);
    file_close(&config);
    TRY(err);
    TRY(safetensors_open(&out->file, arena,
                         text_format(arena, "%s/adapter_model.safetensors", folder)));
    err = adapter_file_sort(out, arena);
    if (err)
        adapter_file_release(out);
    return err;
}

void adapter_file_release(struct adapter_file *adapter)
{
    safetensors_release(&adapter->file);
    *adapter = (struct adapter_file){ 0 };
}
