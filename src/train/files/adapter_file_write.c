// SPDX-License-Identifier: Apache-2.0
// Writes adapters in PEFT's format.

#include "train/files/adapter_file.h"

#include "train/files/stacked.h"

#include <stdlib.h>
#include <string.h>

// --- factors -----------------------------------------------------------------

// What a file holds as one pair: the factors of a linear, or those of all experts of a stack.
struct pair {
    const char *name; // of the module in the file
    int64_t rank, in, out;
    const float *a, *b, *magnitude;
    struct adapter_stack *stack; // NULL: of a linear
};

struct pairs {
    struct pair *at;
    size_t count;
};

// Expert e of "model.layers.3.mlp.experts.7.down_proj" is 7.
static struct adapter_stack stack_of(struct arena *arena, const struct adapter_file_factors *f,
                                     const struct adapter_file_content *content, int64_t rank,
                                     int64_t *expert)
{
    const char *name = stacked_name(arena, text_format(arena, "%s.weight", f->name), expert);
    const char *dot = strrchr(name, '.');
    return (struct adapter_stack){ .experts_path = arena_copy(arena, name, (size_t)(dot - name)),
                                   .parameter = dot + 1,
                                   .experts = content->stacked_experts,
                                   .rank = rank,
                                   .in = f->in,
                                   .out = f->out };
}

// The pair of a stack, which is new with its first expert; an expert's linears come in turn.
static struct pair *pair_of(struct arena *arena, struct pairs *pairs,
                            const struct adapter_stack *stack)
{
    for (size_t i = pairs->count; i-- > 0;) {
        const struct adapter_stack *s = pairs->at[i].stack;
        if (s && !strcmp(s->experts_path, stack->experts_path) &&
            !strcmp(s->parameter, stack->parameter))
            return &pairs->at[i];
    }
    struct pair *pair = &pairs->at[pairs->count++];
    int64_t rank = stack->rank * stack->experts;
    *pair = (struct pair){ .rank = rank,
                           .in = stack->in,
                           .out = stack->out,
                           .a = ARENA_NEW(arena, float, rank * stack->in),
                           .b = ARENA_NEW(arena, float, rank * stack->out),
                           .stack = ARENA_NEW(arena, struct adapter_stack, 1) };
    *pair->stack = *stack;
    return pair;
}

static void name_stacks(struct arena *arena, struct pairs *pairs)
{
    const struct adapter_stack *first = NULL;
    bool both = false;
    for (size_t i = 0; i < pairs->count; i++) {
        const struct adapter_stack *stack = pairs->at[i].stack;
        first = first ? first : stack;
        both |= stack && strcmp(stack->parameter, first->parameter) != 0;
    }
    for (size_t i = 0; i < pairs->count; i++)
        if (pairs->at[i].stack)
            pairs->at[i].name = adapter_stack_name(arena, pairs->at[i].stack, both);
}

static struct pairs list_pairs(struct arena *arena, int64_t rank,
                               const struct adapter_file_content *content)
{
    struct pairs pairs = { ARENA_NEW(arena, struct pair, content->factor_count + 1), 0 };
    for (size_t i = 0; i < content->factor_count; i++) {
        const struct adapter_file_factors *f = &content->factors[i];
        if (!content->stacked_experts || !strstr(f->name, ".experts.")) {
            pairs.at[pairs.count++] =
                (struct pair){ f->name, rank, f->in, f->out, f->a, f->b, f->magnitude, NULL };
            continue;
        }
        int64_t expert;
        struct adapter_stack stack = stack_of(arena, f, content, rank, &expert);
        struct pair *pair = pair_of(arena, &pairs, &stack);
        adapter_stack_put((float *)pair->a, (float *)pair->b, &stack, expert, f->a, f->b);
    }
    name_stacks(arena, &pairs);
    return pairs;
}

// --- config ------------------------------------------------------------------

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Each name once, sorted: the same adapter gives the same bytes.
static void put_names(struct json_writer *w, const char *key, const char **names, size_t count)
{
    qsort(names, count, sizeof *names, by_text);
    json_open(w, key, '[');
    for (size_t i = 0; i < count; i++)
        if (!i || strcmp(names[i - 1], names[i]))
            json_put_string(w, NULL, names[i]);
    json_close(w, ']');
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

// Names of linears and, of stacked experts, of parameters: "mlp.experts.down_proj".
struct targets {
    const char **modules, **parameters;
    size_t module_count, parameter_count;
};

static struct targets targets_of(struct arena *arena, const struct pairs *pairs)
{
    struct targets out = { .modules = ARENA_NEW(arena, const char *, pairs->count + 1),
                           .parameters = ARENA_NEW(arena, const char *, pairs->count + 1) };
    for (size_t i = 0; i < pairs->count; i++) {
        const struct pair *pair = &pairs->at[i];
        if (pair->stack)
            out.parameters[out.parameter_count++] =
                text_format(arena, "mlp.experts.%s", pair->stack->parameter);
        else
            out.modules[out.module_count++] = last_part(pair->name);
    }
    return out;
}

// "model.embed_tokens.weight" → "embed_tokens"
static const char **saved_names(struct arena *arena, const struct adapter_file_content *content)
{
    const char **names = ARENA_NEW(arena, const char *, content->whole_count + 1);
    for (size_t i = 0; i < content->whole_count; i++) {
        const char *name = content->whole[i].name, *dot = strrchr(name, '.');
        names[i] = last_part(dot ? arena_copy(arena, name, (size_t)(dot - name)) : name);
    }
    return names;
}

static void put_empty(struct json_writer *w, const char *key)
{
    json_open(w, key, '{');
    json_close(w, '}');
}

static void put_names_or_null(struct json_writer *w, const char *key, const char **names,
                              size_t count)
{
    if (count)
        put_names(w, key, names, count);
    else
        json_put_string(w, key, NULL);
}

// Only keys that every PEFT since 0.9 knows, in its order: PEFT refuses unknown keys. Parameters of
// stacked experts need PEFT 0.17. Beside them no module is an empty list: with null PEFT would
// adapt the modules that it takes for usual.
static struct text spell_config(struct arena *arena, const struct adapter_file_config *config,
                                const struct adapter_file_content *content,
                                const struct pairs *pairs)
{
    struct targets targets = targets_of(arena, pairs);
    struct out out = { .arena = arena };
    struct json_writer w = { .out = &out };
    json_open(&w, NULL, '{');
    put_empty(&w, "alpha_pattern");
    json_put_string(&w, "auto_mapping", NULL);
    json_put_string(&w, "base_model_name_or_path", config->base);
    json_put_string(&w, "bias", "none");
    json_put_bool(&w, "fan_in_fan_out", false);
    json_put_bool(&w, "inference_mode", true);
    json_put_bool(&w, "init_lora_weights", true);
    json_put_string(&w, "layers_pattern", NULL);
    json_put_string(&w, "layers_to_transform", NULL);
    json_put_number(&w, "lora_alpha", config->alpha);
    json_put_number(&w, "lora_dropout", config->dropout);
    put_names_or_null(&w, "modules_to_save", saved_names(arena, content), content->whole_count);
    json_put_string(&w, "peft_type", "LORA");
    json_put_count(&w, "r", config->rank);
    put_empty(&w, "rank_pattern");
    json_put_string(&w, "revision", NULL);
    if (targets.parameter_count) {
        put_names(&w, "target_modules", targets.modules, targets.module_count);
        put_names(&w, "target_parameters", targets.parameters, targets.parameter_count);
    } else {
        put_names_or_null(&w, "target_modules", targets.modules, targets.module_count);
    }
    json_put_string(&w, "task_type", "CAUSAL_LM");
    json_put_bool(&w, "use_dora", config->has_magnitudes);
    json_put_bool(&w, "use_rslora", config->rank_stabilized);
    json_close(&w, '}');
    out_char(&out, '\n');
    return out_view(&out);
}

// --- tensors -----------------------------------------------------------------

static const char *full_name(struct arena *arena, const char *name, const char *ending)
{
    return text_format(arena, "base_model.model.%s%s", name, ending);
}

// Slots in order: A, B and the magnitudes of each pair, then the weights saved in full.
static void declare(struct safetensors_writer *out, struct arena *arena, const struct pairs *pairs,
                    const struct adapter_file_content *content)
{
    for (size_t i = 0; i < pairs->count; i++) {
        const struct pair *p = &pairs->at[i];
        const int64_t a[] = { p->rank, p->in }, b[] = { p->out, p->rank };
        safetensors_declare(out, full_name(arena, p->name, ".lora_A.weight"), content->type, 2, a);
        safetensors_declare(out, full_name(arena, p->name, ".lora_B.weight"), content->type, 2, b);
        if (p->magnitude)
            safetensors_declare(out, full_name(arena, p->name, ".lora_magnitude_vector"),
                                content->type, 1, &p->out);
    }
    for (size_t i = 0; i < content->whole_count; i++) {
        const struct adapter_file_whole *w = &content->whole[i];
        safetensors_declare(out, full_name(arena, w->name, ""), content->type, w->rank, w->shape);
    }
}

static enum err write_tensors(struct safetensors_writer *out, const struct pairs *pairs,
                              const struct adapter_file_content *content)
{
    size_t slot = 0;
    TRY(safetensors_begin(out));
    for (size_t i = 0; i < pairs->count; i++) {
        const struct pair *p = &pairs->at[i];
        TRY(safetensors_write_floats(out, slot++, 0, p->a, p->rank * p->in));
        TRY(safetensors_write_floats(out, slot++, 0, p->b, p->rank * p->out));
        if (p->magnitude)
            TRY(safetensors_write_floats(out, slot++, 0, p->magnitude, p->out));
    }
    for (size_t i = 0; i < content->whole_count; i++) {
        const struct adapter_file_whole *w = &content->whole[i];
        int64_t count = w->rank == 2 ? w->shape[0] * w->shape[1] : w->shape[0];
        TRY(safetensors_write_floats(out, slot++, 0, w->values, count));
    }
    return safetensors_finish(out);
}

enum err adapter_file_write(const char *folder, struct arena *arena,
                            const struct adapter_file_config *config,
                            const struct adapter_file_content *content)
{
    struct safetensors_writer out;
    struct pairs pairs = list_pairs(arena, config->rank, content);
    safetensors_init(&out, arena, folder, "adapter_model");
    out.shard_bytes = SIZE_MAX; // PEFT reads a single file
    declare(&out, arena, &pairs, content);
    enum err err = write_tensors(&out, &pairs, content);
    safetensors_release_writer(&out);
    TRY(err);
    return file_write(text_format(arena, "%s/adapter_config.json", folder),
                      spell_config(arena, config, content, &pairs));
}
