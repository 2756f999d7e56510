// SPDX-License-Identifier: Apache-2.0
// Names and layout of PEFT's adapters on stacked experts.

#include "train/files/adapter_stack.h"

#include "train/files/stacked.h"

#include <string.h>

// In the order in which the module has them, which is the order in which PEFT wraps it.
static const char *const parameters[] = { "gate_up_proj", "down_proj" };
enum { INNER, OUTER, PARAMETERS };

bool adapter_stack_is_target(const char *name)
{
    struct text text = text_of(name);
    return text_ends(text, "experts.gate_up_proj") || text_ends(text, "experts.down_proj");
}

// As PEFT matches: the whole path of the parameter, or its end from a dot on.
static bool is_adapted(struct arena *arena, const char *experts_path, const char *parameter,
                       const struct adapter_stack_targets *targets)
{
    struct text path = text_of(text_format(arena, ".%s.%s", experts_path, parameter));
    for (size_t i = 0; i < targets->count; i++)
        if (text_ends(path, text_format(arena, ".%s", targets->names[i])))
            return true;
    return false;
}

static const char base[] = ".base_layer";

const char *adapter_stack_name(struct arena *arena, const struct adapter_stack *stack, bool both)
{
    bool is_inner = both && !strcmp(stack->parameter, parameters[INNER]);
    return text_format(arena, "%s%s", stack->experts_path, is_inner ? base : "");
}

bool adapter_stack_module(struct adapter_stack *out, struct arena *arena, struct text module,
                          const struct adapter_stack_targets *targets)
{
    bool is_inner = text_ends(module, base), adapted[PARAMETERS];
    module.size -= is_inner ? strlen(base) : 0;
    const char *path = text_copy(arena, module);
    if (!text_ends(module, ".experts"))
        return false;
    for (int i = 0; i < PARAMETERS; i++)
        adapted[i] = is_adapted(arena, path, parameters[i], targets);
    bool both = adapted[INNER] && adapted[OUTER];
    int found = is_inner || !adapted[OUTER] ? INNER : OUTER;
    *out = (struct adapter_stack){ .experts_path = path, .parameter = parameters[found] };
    return adapted[found] && (both || !is_inner);
}

int64_t adapter_stack_linears(const struct adapter_stack *stack)
{
    return strcmp(stack->parameter, parameters[INNER]) ? 1 : 2;
}

// Where an element of an expert's B lies among those of all experts.
static int64_t place_in_b(const struct adapter_stack *stack, int64_t expert, int64_t row,
                          int64_t column)
{
    struct stacked rows = { .rows = stack->out, .alternates = adapter_stack_linears(stack) > 1 };
    return (stacked_row(&rows, row) * stack->rank + column) * stack->experts + expert;
}

void adapter_stack_read_a(float *out, const struct adapter_stack *stack, int64_t expert,
                          const struct safetensors_tensor *a)
{
    size_t count = (size_t)(stack->rank * stack->in);
    storage_read(out, a->type, a->at + (size_t)expert * count * storage_bytes(a->type), count);
}

void adapter_stack_read_b(float *out, const struct adapter_stack *stack, int64_t expert,
                          const struct safetensors_tensor *b)
{
    for (int64_t row = 0; row < stack->out; row++)
        for (int64_t column = 0; column < stack->rank; column++) {
            size_t place = (size_t)place_in_b(stack, expert, row, column);
            storage_read(out++, b->type, b->at + place * storage_bytes(b->type), 1);
        }
}

void adapter_stack_put(float *all_a, float *all_b, const struct adapter_stack *stack,
                       int64_t expert, const float *a, const float *b)
{
    int64_t count = stack->rank * stack->in;
    memcpy(all_a + expert * count, a, (size_t)count * sizeof *a);
    for (int64_t row = 0; row < stack->out; row++)
        for (int64_t column = 0; column < stack->rank; column++)
            all_b[place_in_b(stack, expert, row, column)] = b[row * stack->rank + column];
}
