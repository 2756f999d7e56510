// SPDX-License-Identifier: Apache-2.0
// Operations and bytes of routed experts under each kernel, and how unevenly they are loaded.

#include "core/step/moe.h"

#include "base/stats.h"
#include "core/step/catalog.h"

#include <math.h>

// What a kernel moves and starts. Bytes are per element of the routed rows (t·k·h) in 16 bits;
// launches are in units of the stack's launch_seconds, which is what an operation costs with the
// module around it: those of one function without modules count a third.
struct kernel {
    double dispatch_forward, dispatch_backward; // bytes: rows are copied and sorted by expert
    double combine_forward, combine_backward;   // bytes: weighted, brought back, summed
    double layer_forward, layer_backward;       // launches per layer
    double expert_forward, expert_backward;     // launches and waits per expert
    double product_share;                       // of the dense rate, for rows that fill tiles
    double kept_widths;                         // of a gated expert: values kept per row
    double kept_rows;                           // copies of the routed rows that are kept
};

// Backward of an index in PyTorch sorts the indices and adds row after row: 32 bytes per element,
// where a copy moves 4 (pytorch/ao pull request 4623: 1.85 ms for 196,608 × 2,048 on a B200).
#define INDEX_BACKWARD 24

static const struct kernel kernels[] = {
    // Repeated and weighted 6; weighted sum 2.
    [RECIPE_EXPERTS_DENSE] = { 6, 8, 2, 2, 4, 4, 0, 0, 0.9, 3, 0 },
    // Gather 4; its backward. Weight 4, add into the result 6; gather 4, two products and a sum 12.
    [RECIPE_EXPERTS_EAGER] = { 4, INDEX_BACKWARD, 10, 16, 4, 4, 5.4, 5.1, 0, 3, 2 },
    // Copies 4, sorted 4. Weight 4, unsorted 4, summed 2.
    [RECIPE_EXPERTS_GROUPED] = { 8, 2 * INDEX_BACKWARD, 10, 12 + INDEX_BACKWARD, 7, 7.5, 0, 0, 0.95,
                                 3, 1 },
    // Permuted by token 4, by expert 4 where several share a GPU; the same back, weighted.
    [RECIPE_EXPERTS_FUSED] = { 6, 6, 5, 7, 15, 20, 0, 0, 1, 2, 0 },
};

// Popularity of an expert over its mean, as a standard deviation. None where routing is forced to
// be even. Nobody published it for fine-tuning: assumed.
static const struct range popularity_spread = { 0, 0.3, 1 };

// Half a tile of 128 rows is empty for each expert; the last part of a product, which writes the
// result, weighs more than in a dense one (docs/formulas.md has the measurements).
static const double tile_rest = 64, epilogue_depth = 500;

// PyTorch reads 16-bit views with a stride, and products with a broadcast column, value by value: a
// profile of four shapes on an H200 finds them at a fifth of a copy's rate. Of the activation's 10
// and 18 bytes that is all in forward; in backward 12, and the gradients of the views are joined.
// Weighting the rows, and casting around it, moves 55 bytes more than a copy would.
static const double strided_gate_forward = 50, strided_gate_backward = 74;
static const double strided_combine_forward = 30, strided_combine_backward = 25;

static double at_least_one(double x)
{
    return x > 1 ? x : 1;
}

// --- layout ------------------------------------------------------------------

// Tensor parallelism splits experts too, unless expert parallelism needs its GPUs.
static double expert_tensor(const struct layout *layout)
{
    double tensor = (double)layout->tensor;
    double gpus = tensor * (double)(layout->data * layout->context);
    return fmin(tensor, at_least_one(gpus / (double)layout->expert));
}

double moe_shards(const struct layout *layout)
{
    double group = (double)layout->expert * expert_tensor(layout) / (double)layout->tensor;
    return at_least_one((double)layout_shards(layout) / at_least_one(group));
}

double moe_held(double weights, double experts, double shards, const struct layout *layout)
{
    return (weights - experts) / shards + experts / fmin(shards, moe_shards(layout));
}

struct range moe_imbalance(const struct model *model, double gpus)
{
    if (gpus <= 1 || !model->experts)
        return (struct range){ 1, 1, 1 };
    double held = (double)model->experts / gpus;
    // The largest of n normal numbers, in standard deviations (Blom).
    double largest = stats_normal_quantile((gpus - 0.375) / (gpus + 0.25)) / sqrt(held);
    return (struct range){ 1 + popularity_spread.low * largest, 1 + popularity_spread.mid * largest,
                           1 + popularity_spread.high * largest };
}

static struct range load_of(const struct step_request *r)
{
    bool even = r->stack->even_routing || r->recipe->experts == RECIPE_EXPERTS_DENSE;
    return moe_imbalance(r->model, even ? 1 : (double)r->layout->expert);
}

double moe_load(const struct step_request *r)
{
    return load_of(r).mid;
}

// Of the weights that a token passes, those of routed experts.
static double routed_share(const struct model *model)
{
    struct model_linear linears[MODEL_LINEARS];
    size_t count = model_linears(model, MODEL_SPARSE, linears);
    double routed = 0;
    for (size_t i = 0; i < count; i++)
        if (linears[i].role == MODEL_EXPERT)
            routed += (double)(linears[i].in * linears[i].out * linears[i].active);
    return routed * (double)model_layers(model, MODEL_SPARSE) /
           (double)model_active_linear_weights(model);
}

static double load_spread(const struct step_request *r)
{
    struct range load = load_of(r);
    if (load.low == load.high)
        return 0;
    double share = routed_share(r->model);
    double least = 1 + share * (load.low / load.mid - 1),
           most = 1 + share * (load.high / load.mid - 1);
    return log(most / least) / (2 * STATS_P90);
}

// A turn of transformers' loop took one host 0.40 ms and another 1.12 (bench/results/h200.md), of
// which the step list has a value near the first: the deviation of the logarithm of two such. What
// a loop over products costs nobody measured: as unsure.
static double loop_spread(const struct step_request *r, double flops_per_s, bool serial)
{
    bool eager = r->recipe->experts == RECIPE_EXPERTS_EAGER;
    if (!(eager || serial) || !r->model->experts)
        return 0;
    const struct kernel *k = &kernels[RECIPE_EXPERTS_EAGER];
    double products = (2 + 0.6 * 4) * STEP_PLAIN_LAUNCH; // gate and up are one
    double launches = eager ? k->expert_forward + 0.6 * k->expert_backward : products;
    double turns = (double)(r->model->experts * model_layers(r->model, MODEL_SPARSE)) /
                   (double)r->layout->expert;
    double host = turns * launches * r->stack->launch_seconds;
    double device =
        4 * (double)model_active_linear_weights(r->model) * r->batch.tokens / flops_per_s;
    return log(1.12 / 0.40) / sqrt(2) * host / (host + device);
}

double moe_spread(const struct step_request *r, double flops_per_s, bool serial)
{
    return hypot(load_spread(r), loop_spread(r, flops_per_s, serial));
}

// Other stacks' grouped products are kernels of their own.
static bool is_of_torch(int kernel, const struct stack *stack)
{
    return kernel == RECIPE_EXPERTS_GROUPED && stack->experts == RECIPE_EXPERTS_GROUPED;
}

// torch._grouped_mm has kernels for Hopper and for Blackwell's data centre cards. On others it
// copies the borders of the groups to the host and starts a product for each group (pytorch pull
// requests 161407, 191718 and 194227).
bool moe_is_serial(const struct step_request *r, const struct gpu *gpu)
{
    if (!r->model->experts || !is_of_torch(r->recipe->experts, r->stack))
        return false;
    double capability = catalog_capability(gpu);
    return capability > 0 && (capability < 9 || capability >= 11);
}

struct moe_exchange moe_exchange(const struct model *model, double gpus, double node_gpus)
{
    double chosen = (double)model->experts_active;
    double nodes = at_least_one(gpus / node_gpus), near = fmin(gpus, node_gpus);
    double reached = nodes * (1 - pow(1 - 1 / nodes, chosen)); // nodes that hold one of its experts
    // A node that a token is sent to hands it on to its GPUs, as the token's own node does.
    return (struct moe_exchange){ .inside = chosen * (near - 1) / near,
                                  .outside = reached * (nodes - 1) / nodes };
}

struct moe moe_of(const struct step_request *r, double tokens)
{
    const struct model *model = r->model;
    double tensor = expert_tensor(r->layout), gpus = (double)r->layout->expert;
    double own = tokens / (double)r->layout->tensor; // each tensor rank routes its own tokens
    bool dense = r->recipe->experts == RECIPE_EXPERTS_DENSE;
    double imbalance = moe_load(r);
    double chosen = (double)(dense ? model->experts : model->experts_active);
    return (struct moe){ .kernel = r->recipe->experts,
                         .tensor = tensor,
                         .experts = (double)model->experts / gpus,
                         .tokens = own,
                         .chosen = chosen,
                         .copies = own * tensor * chosen * imbalance,
                         .imbalance = imbalance };
}

// --- operations --------------------------------------------------------------

void moe_repeat(struct step_op *op, const struct moe *moe, const struct step_request *r)
{
    const struct kernel *kernel = &kernels[moe->kernel];
    bool fused = moe->kernel == RECIPE_EXPERTS_FUSED;
    double each = fused ? r->stack->expert_launches : 0, rate = fused ? r->stack->expert_rate : 1;
    op->flops *= moe->experts;
    op->bytes *= moe->experts;
    // Those of the loop are counted with it; operands in 8 bits are cast for each expert.
    op->launches = moe->kernel == RECIPE_EXPERTS_EAGER
                       ? 0
                       : fmax(1, each * moe->experts * (op->small ? 2 : 1));
    bool grouped = is_of_torch(moe->kernel, r->stack);
    op->groups = grouped ? moe->experts * (r->model->gated ? 2.0 / 3 : 1) : 0;
    if (kernel->product_share > 0)
        op->share = rate * kernel->product_share * op->rows / (op->rows + tile_rest) * op->depth /
                    (op->depth + epilogue_depth);
}

double moe_gradient_bytes(const struct moe *moe, const struct model *model, double weights)
{
    if (moe->kernel != RECIPE_EXPERTS_EAGER || !model->fused_gate_up)
        return 0;
    return 8 * moe->experts *
           weights; // cleared, and added to what is there: four passes in 16 bits
}

static bool is_strided(const struct moe *moe, const struct step_request *r)
{
    bool of_torch = moe->kernel == RECIPE_EXPERTS_EAGER || moe->kernel == RECIPE_EXPERTS_GROUPED;
    return r->stack->strided_experts && of_torch;
}

void moe_gate_bytes(double *forward, double *backward, const struct moe *moe,
                    const struct step_request *r)
{
    if (!is_strided(moe, r) || !r->model->gated)
        return;
    *forward = strided_gate_forward;
    *backward = strided_gate_backward;
}

double moe_kept_widths(const struct moe *moe, const struct model *model)
{
    return model->gated ? kernels[moe->kernel].kept_widths : 1;
}

static struct step_op elementwise(const char *name, enum step_phase phase, double bytes,
                                  double launches)
{
    return (struct step_op){ .name = name,
                             .phase = phase,
                             .kind = STEP_ELEMENTWISE,
                             .bytes = bytes,
                             .launches = launches,
                             .share = 1, // rows are copied whole
                             .cheap = true };
}

double moe_turns(const struct moe *moe)
{
    return moe->kernel == RECIPE_EXPERTS_EAGER ? moe->experts : 1;
}

double moe_tensors(const struct moe *moe, const struct model *model)
{
    return moe->kernel == RECIPE_EXPERTS_EAGER && !model->fused_gate_up ? moe->experts : 1;
}

size_t moe_ops(struct step_op out[MOE_OPS], const struct moe *moe, const struct step_request *r)
{
    const struct kernel *k = &kernels[moe->kernel];
    const struct model *model = r->model;
    double size = r->recipe->precision == RECIPE_FP32 ? 4 : 2, width = (double)model->width;
    double scores = 4 * moe->tokens * (double)model->experts; // in fp32
    double rows = size / 2 * moe->copies * width;
    double forward = k->layer_forward + k->expert_forward * moe->experts;
    double backward = k->layer_backward + k->expert_backward * moe->experts;
    double dispatched = k->dispatch_backward * rows;
    bool strided = is_strided(moe, r);
    double combined = k->combine_forward + (strided ? strided_combine_forward : 0),
           uncombined = k->combine_backward + (strided ? strided_combine_backward : 0);
    if (moe->kernel ==
        RECIPE_EXPERTS_EAGER) // each expert's gradient is added to that of all tokens
        dispatched += 4 * size * moe->experts * moe->tokens * width;
    size_t n = 0;
    out[n++] = elementwise("top-k", STEP_FORWARD, 4 * scores, 0);
    out[n - 1].kept_bytes = scores;
    out[n++] = elementwise("top-k", STEP_BACKWARD, 4 * scores, 0);
    out[n++] = elementwise("dispatch", STEP_FORWARD, k->dispatch_forward * rows, forward);
    out[n++] = elementwise("dispatch", STEP_BACKWARD, dispatched, backward);
    out[n++] = elementwise("combine", STEP_FORWARD, combined * rows, 0);
    out[n - 1].kept_bytes = k->kept_rows * size * moe->copies * width;
    out[n++] = elementwise("combine", STEP_BACKWARD, uncombined * rows, 0);
    return n;
}
