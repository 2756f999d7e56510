// SPDX-License-Identifier: Apache-2.0
// The table of what each level of recomputation computes again.

#include "core/step/recompute.h"

#include <string.h>

// Whose input an operation makes.
enum reader { READER_NONE, READER_QKV, READER_GATE, READER_DOWN };

// An operation without a row is that of full recomputation. Where backward reads what it made, the
// lightest level recomputes it.
static const struct {
    const char *name;
    int level;
    enum reader reader;
} operations[] = {
    { "attention_norm", RECIPE_PROJECTIONS, READER_QKV },
    { "q", RECIPE_PROJECTIONS, READER_NONE },
    { "k", RECIPE_PROJECTIONS, READER_NONE },
    { "v", RECIPE_PROJECTIONS, READER_NONE },
    { "qkv", RECIPE_PROJECTIONS, READER_NONE },
    { "q_norm", RECIPE_SELECTIVE, READER_NONE },
    { "k_norm", RECIPE_SELECTIVE, READER_NONE },
    { "rotary", RECIPE_PROJECTIONS, READER_NONE },
    { "o", RECIPE_PROJECTIONS, READER_NONE },
    { "attention_out_norm", RECIPE_PROJECTIONS, READER_NONE },
    { "residual", RECIPE_PROJECTIONS, READER_NONE },
    { "mlp_norm", RECIPE_GATE, READER_GATE },
    { "router", RECOMPUTE_NEVER, READER_NONE }, // the choice of experts is kept
    { "top-k", RECOMPUTE_NEVER, READER_NONE },
    { "dispatch", RECIPE_GATE, READER_GATE },
    { "gate", RECIPE_GATE, READER_NONE },
    { "up", RECIPE_GATE, READER_NONE },
    { "gate_up", RECIPE_GATE, READER_NONE },
    { "expert_gate", RECIPE_GATE, READER_NONE },
    { "expert_up", RECIPE_GATE, READER_NONE },
    { "expert_gate_up", RECIPE_GATE, READER_NONE },
    { "activation", RECOMPUTE_NEVER, READER_DOWN },
    { "expert activation", RECOMPUTE_NEVER, READER_DOWN },
    { "combine", RECOMPUTE_NEVER, READER_NONE },
    { "mlp_out_norm", RECOMPUTE_NEVER, READER_NONE },
};

static enum reader reader_of(const struct model_linear *linear)
{
    if (linear->role == MODEL_ATTENTION)
        return strcmp(linear->name, "o") ? READER_QKV : READER_NONE;
    return linear->role == MODEL_ROUTER   ? READER_NONE
           : strstr(linear->name, "down") ? READER_DOWN
                                          : READER_GATE;
}

// Whether a linear that reads this is trained, in layers with experts or in others.
static bool is_read(const struct step_request *r, enum reader reader)
{
    struct model_linear linears[MODEL_LINEARS];
    for (int kind = MODEL_DENSE; kind <= MODEL_SPARSE; kind++) {
        bool has = model_layers(r->model, (enum model_layer)kind) > 0;
        size_t count = has ? model_linears(r->model, (enum model_layer)kind, linears) : 0;
        for (size_t i = 0; i < count; i++)
            if (reader_of(&linears[i]) == reader &&
                (r->recipe->method == RECIPE_FULL || recipe_targets(r->recipe, &linears[i])))
                return true;
    }
    return false;
}

int recompute_level(const struct step_request *r, const char *name)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (strcmp(operations[i].name, name))
            continue;
        bool normed = !strcmp(name, "rotary") && r->model->qk_norm == MODEL_QK_HEAD;
        bool read = operations[i].reader && is_read(r, operations[i].reader);
        return normed || read ? RECIPE_SELECTIVE : operations[i].level;
    }
    return RECIPE_RECOMPUTE;
}

// What selective recomputation computes again: enum stack_selective.
static int selective_of(const struct step_request *r)
{
    bool half = r->stack->recomputes == STACK_RECOMPUTES_HALF;
    return half && r->recipe->method != RECIPE_FULL ? STACK_RECOMPUTES_CHEAP : r->stack->recomputes;
}

// torchtitan saves what attention and every second product of a layer give, the first, third and so
// on, and nothing of its experts.
bool recompute_again(const struct step_request *r, const struct step_op *op, bool of_experts,
                     int products)
{
    switch (selective_of(r)) {
    case STACK_RECOMPUTES_HALF:
        return op->cheap || of_experts || (op->kind == STEP_MATMUL && products % 2 == 0);
    case STACK_RECOMPUTES_ATTENTION: return op->kind == STEP_ATTENTION;
    default: return op->cheap;
    }
}

double recompute_kept(const struct step_request *r, const struct step_op *op, bool again,
                      bool is_last)
{
    bool unread = is_last && r->stack->kernels == STACK_COMPILED;
    switch (selective_of(r)) {
    case STACK_RECOMPUTES_HALF: return again || unread ? 0 : op->output_bytes;
    case STACK_RECOMPUTES_ATTENTION: return op->kept_bytes - op->score_bytes;
    default: return op->cheap ? 0 : op->kept_bytes;
    }
}

double recompute_states(const struct step_request *r)
{
    switch (selective_of(r)) {
    case STACK_RECOMPUTES_HALF: // the layer's input, and both sums over tensor ranks
        return r->layout->tensor > 1 ? 3 : 1;
    case STACK_RECOMPUTES_ATTENTION: return 0; // these are among what norms keep
    default: return 2;                         // the inputs of both norms
    }
}
