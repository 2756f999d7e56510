// SPDX-License-Identifier: Apache-2.0
// Seconds of the collectives that a layout needs, over rings inside a node and between nodes.
//
// A ring of n GPUs: each sends 1/n of the bytes to its neighbour, n − 1 times. After one round
// every GPU has gathered all pieces, or holds the sum of one; an all-reduce is both, two rounds.
//
//     ┌──▶ 0 ──▶ 1 ──▶ 2 ──▶ 3 ──┐        seconds = rounds · (bytes · (n−1)/n / rate + latency ·
//     hops) └──────────────────────────┘
//
// Across nodes (hierarchical): a ring inside each node leaves every GPU with its 1/g of the bytes;
// each GPU then runs a ring with the GPUs of its rank in the other nodes, over its own network
// card.
//
//     node A:  A0 ─ A1 ─ … ─ Ag         rate of the links, all bytes
//               ║    ║        ║         rate of the network, bytes / g each
//     node B:  B0 ─ B1 ─ … ─ Bg
//
// A group whose neighbours lie `stride` GPUs apart, as those of data parallelism beside tensor
// parallelism do, has g = node GPUs / stride of its members in a node: each of them carries more.
//
// Which bytes: tensor parallelism sums hidden states twice per layer and pass; context parallelism
// passes keys and values around; experts exchange routed rows, once per node; FSDP gathers weights
// in every pass; gradients are reduced once per optimizer step. What can overlap with compute is
// reported apart.

#include "core/step/network.h"

#include "core/step/moe.h"
#include "core/step/shared_base.h"

#include <math.h>
#include <string.h>

// A bridge between pairs of cards is an extra and often absent.
double network_usual_link(const struct gpu *gpu)
{
    return gpu->link && strstr(gpu->link, "bridge") ? 0 : gpu->link_bytes_per_s;
}

struct node network_plain_node(const struct gpu *gpu, int64_t gpus)
{
    return (struct node){ .gpus = gpus,
                          .link = gpu->link,
                          .link_bytes_per_s = network_usual_link(gpu),
                          .link_p2p_bytes_per_s = gpu->link_p2p_bytes_per_s };
}

// Without peer access what cards send each other lies in host memory on its way. Four RTX 4090
// gathered and scattered the weights of 3B, 7B and 14B at 7.1, 7.7 and 7.6 GB/s each (ZeRO-3 by
// LLaMA-Factory, github:IST-DASLab/llmq benchmarks/4090x4.md), all on one machine; two reach what
// their PCIe does; of eight nothing was measured.
static const double HOST_STAGED_BYTES_PER_S = 30e9;

struct links network_links(const struct gpu *gpu, const struct node *node)
{
    struct links links = {
        .node_gpus = node ? (double)node->gpus : 8,
        .host_gpus = node ? (double)node->gpus : 8,
        .pcie_bytes_per_s = gpu->pcie_bytes_per_s > 0 ? gpu->pcie_bytes_per_s : 25e9,
        .node_latency_seconds = 8e-6,
        .network_latency_seconds = 20e-6,
    };
    if (node && node->link_domain_gpus > 1)
        links.node_gpus = (double)node->link_domain_gpus;
    const char *name = node ? node->link : gpu->link;
    double link = node ? node->link_bytes_per_s : network_usual_link(gpu);
    bool fast = link > 0 && name && !strstr(name, "PCIe");
    // NVLink reaches about 0.8 of its datasheet rate in collectives; without it, traffic crosses
    // the host's PCIe bridges twice and shares them.
    links.node_bytes_per_s = fast ? 0.8 * link : 0.35 * links.pcie_bytes_per_s;
    if (gpu->peers_through_host && !fast)
        links.staged_bytes_per_s = HOST_STAGED_BYTES_PER_S;
    double pair = node ? node->link_p2p_bytes_per_s : gpu->link_p2p_bytes_per_s;
    links.pair_bytes_per_s = fast && pair > 0 ? 0.8 * pair : 0;
    double network = node ? node->network_bytes_per_s_per_gpu : NAN;
    links.network_bytes_per_s = 0.8 * (network > 0 ? network : 12.5e9);
    return links;
}

// Inside a node, of each of so many GPUs that exchange with each other. A switch gives every pair
// the whole rate. In a mesh each pair has a wire of its own, so that a group of two uses one wire
// and a group of eight seven: two MI300X sum at 48 GB/s, eight at 313 (data/nodes.csv).
static double node_rate(double group, const struct links *links)
{
    double wires = links->pair_bytes_per_s > 0 ? links->pair_bytes_per_s * (group - 1) : INFINITY;
    return fmin(links->node_bytes_per_s, wires);
}

// Seconds of a ring over a group; rounds: 2 for an all-reduce, 1 for a gather or scatter.
static double ring(double bytes, double group, double rounds, const struct links *links)
{
    if (group <= 1 || bytes <= 0)
        return 0;
    bool inside = group <= links->node_gpus;
    double rate = inside ? node_rate(group, links)
                         : fmin(links->node_bytes_per_s, links->network_bytes_per_s);
    double latency = inside ? links->node_latency_seconds : links->network_latency_seconds;
    double hops = inside ? group - 1 : links->node_gpus - 1 + log2(group / links->node_gpus) * 2;
    return rounds * (bytes * (group - 1) / group / rate + latency * hops);
}

// Pieces that travel from neighbour to neighbour until each GPU has seen all, as keys and values do
// under context parallelism. Each GPU sends to one other: in a mesh, over the one wire between
// them.
static double passed_around(double bytes, double group, const struct links *links)
{
    struct links wire = *links;
    if (links->pair_bytes_per_s > 0)
        wire.node_bytes_per_s = links->pair_bytes_per_s;
    return ring(bytes * group, group, 1, &wire);
}

static double hierarchical(double bytes, double group, double stride, double rounds,
                           const struct links *links)
{
    double members = fmax(1, links->node_gpus / stride); // of the group, in one node
    if (group <= members)
        return ring(bytes, group, rounds, links);
    double inside = ring(bytes, members, rounds, links);
    double nodes = group / members, share = bytes / members;
    double outside = rounds * (share * (nodes - 1) / nodes / links->network_bytes_per_s +
                               links->network_latency_seconds * log2(nodes) * 2);
    return inside + outside;
}

// GPUs that hold the same weights. Under expert parallelism those of an expert are fewer and
// further apart: with one node's GPUs for all experts, each has its replicas in other nodes.
struct replicas {
    double gpus, stride;   // of all other weights
    double routed, expert; // share of the bytes that are experts; GPUs that experts are spread over
};

static double among(const struct replicas *replicas, double bytes, double rounds,
                    const struct links *links)
{
    double routed = replicas->routed * bytes;
    double others = hierarchical(bytes - routed, replicas->gpus, replicas->stride, rounds, links);
    if (!(routed > 0))
        return others;
    return others + hierarchical(routed, fmax(1, replicas->gpus / replicas->expert),
                                 replicas->stride * replicas->expert, rounds, links);
}

// Hidden states from stage to stage, forward and back, once for each of the stages that a GPU
// holds. Ranks are numbered stage by stage (Megatron, torchtitan), so that a stage as wide as a
// node has all of its neighbours in other nodes.
static double pipeline_seconds(double bytes, const struct layout *layout, const struct links *links)
{
    if (layout->pipeline <= 1 || layout->split)
        return 0;
    double width = (double)(layout->tensor * layout->context * layout->data);
    bool crosses = (double)layout_gpus(layout) > links->node_gpus;
    double outside = crosses ? fmin(1, width / links->node_gpus) : 0;
    double far = bytes / links->network_bytes_per_s + 2 * links->network_latency_seconds;
    double hop = (1 - outside) * ring(bytes, 2, 2, links) + outside * far;
    return 2 * (double)layout->interleave * hop;
}

// Bytes of weights that products read, of all or of routed experts. small: those of linears travel
// as fp8 products read them.
static double read_bytes(const struct step_request *r, double trained, double frozen,
                         double quantized, bool small)
{
    double element = r->recipe->precision == RECIPE_FP32 ? 4 : small ? 1 : 2;
    return quantized * recipe_weight_bytes(r->recipe) + frozen * element +
           (r->recipe->method == RECIPE_FULL ? trained * element : 0);
}

static bool gathers_fp8(const struct step_request *r)
{
    return r->recipe->precision == RECIPE_FP8 && r->stack->fp8_gathers;
}

static double weights_gather(const struct step *step, const struct step_request *r)
{
    double bytes = read_bytes(r, step->trained_weights, step->frozen_weights,
                              step->quantized_weights, gathers_fp8(r));
    if (!gathers_fp8(r))
        return bytes;
    double wide =
        (double)(model_embedding_parameters(r->model) + // embedding and head stay 16 bits
                 (r->model->tied_embeddings ? 0 : r->model->width * r->model->vocabulary));
    return bytes + wide / (double)(r->layout->tensor * r->layout->pipeline);
}

// What a pass gathers of a base that GPUs share: all layers but the two that the last one ended
// with.
static double fetched_bytes(const struct step *step, const struct step_request *r,
                            const struct engine_device *device)
{
    double layer = engine_runs(r) ? (double)engine_traffic(r, device).layer
                                  : shared_base_weights(r) * shared_base_bytes(r);
    return fmax(0, step->layers - 2) * layer;
}

// Seconds in which every GPU gathers the weights of one pass; experts lie on fewer GPUs.
static double gather_seconds(const struct step *step, const struct step_request *r,
                             const struct links *links)
{
    double experts = read_bytes(r, step->expert_trained_weights, step->expert_frozen_weights,
                                step->expert_quantized_weights, gathers_fp8(r));
    double stride = (double)r->layout->tensor;
    if (shared_base(r))
        return hierarchical(fetched_bytes(step, r, &engine_cuda), (double)layout_shards(r->layout),
                            stride, 1, links);
    return hierarchical(weights_gather(step, r) - experts, (double)layout_shards(r->layout), stride,
                        1, links) +
           hierarchical(experts, moe_shards(r->layout), stride * (double)r->layout->expert, 1,
                        links);
}

// Two exchanges per pass and sparse layer: rows to their experts, and back.
static double exchange_seconds(const struct step *step, const struct step_request *r,
                               double own_bytes, double passes, const struct links *links)
{
    double gpus = (double)r->layout->expert;
    if (gpus <= 1 || !r->model->experts)
        return 0;
    struct moe_exchange sent = moe_exchange(r->model, gpus, links->node_gpus);
    double nodes = gpus / links->node_gpus;
    double members = fmin(gpus, links->node_gpus); // in one node
    double once = own_bytes * sent.inside / node_rate(members, links) +
                  own_bytes * sent.outside / links->network_bytes_per_s +
                  (members - 1) * links->node_latency_seconds / 2 +
                  (nodes > 1 ? log2(nodes) * 2 * links->network_latency_seconds : 0);
    return 2 * passes * step->sparse_layers * once * moe_load(r);
}

static int gradient_dtype(const struct step_request *r)
{
    const struct recipe *recipe = r->recipe;
    bool full = recipe->method == RECIPE_FULL;
    if (r->stack->exact_gradients)
        return full && recipe->states == RECIPE_BF16 && recipe->precision != RECIPE_FP32
                   ? RECIPE_BF16
                   : RECIPE_FP32;
    if (!full)
        return recipe->adapter_dtype;
    bool as_held = r->layout->zero < 3 && !r->stack->copies_weights; // DDP sums what it finds
    return as_held && stack_gradients(r->stack, recipe) == RECIPE_FP32 ? RECIPE_FP32
                                                                       : r->stack->reduces;
}

// Experts that no other GPU holds need no sum.
static double shared_weights(const struct step *step, const struct step_request *r)
{
    bool alone = r->layout->expert > 1 && moe_shards(r->layout) <= 1;
    return step->trained_weights - (alone ? step->expert_trained_weights : 0);
}

// The share of these that are experts, of which only every so many GPUs hold the same.
static double routed_share(const struct step *step, const struct step_request *r)
{
    bool apart = r->layout->expert > 1 && moe_shards(r->layout) > 1;
    return apart ? step->expert_trained_weights / shared_weights(step, r) : 0;
}

static double gradient_bytes(const struct step *step, const struct step_request *r)
{
    return shared_weights(step, r) * recipe_dtype_bytes(gradient_dtype(r));
}

// Gradients that are sharded while micro-batches accumulate are summed over GPUs in each of them,
// others before each update.
static double reductions(const struct step_request *r)
{
    bool sharded = r->layout->sync_each_batch || !r->stack->held_gradients;
    double updates = step_updates(r);
    return r->layout->zero >= 2 && sharded && !shared_base(r) && !step_stays_gathered(r)
               ? fmax(updates, step_rounds(r) * r->accumulation)
               : updates;
}

// Our own engine's. Sharded states: gradients are scattered, and weights gathered after the update.
static struct network_payload engine_payload(const struct step *step, const struct step_request *r,
                                             const struct engine_device *device)
{
    struct engine_traffic traffic = engine_traffic(r, device);
    double gradients = (double)traffic.gradients, weights = (double)traffic.weights;
    double passes = shared_base(r) ? 2 * step_rounds(r) * r->accumulation : 0;
    return (struct network_payload){ .all_reduced = weights > 0 ? 0 : gradients,
                                     .scattered = weights > 0 ? reductions(r) * gradients : 0,
                                     .gathered = weights,
                                     .fetched = passes * fetched_bytes(step, r, device) };
}

// Weights are gathered in their own type where that is known, in the gradients' where it is not.
struct network_payload network_payload(const struct step *step, const struct step_request *r,
                                       const struct engine_device *device)
{
    double gradients = gradient_bytes(step, r);
    double element = r->recipe->precision == RECIPE_FP32 ? 4 : 2;
    if (r->layout->data * r->layout->context <= 1)
        return (struct network_payload){ 0 };
    if (engine_runs(r))
        return engine_payload(step, r, device);
    if (shared_base(r)) // of a model that the engine does not train
        return (struct network_payload){ .all_reduced = gradients,
                                         .fetched = 2 * step_rounds(r) * r->accumulation *
                                                    fetched_bytes(step, r, device) };
    if (!r->layout->zero)
        return (struct network_payload){ .all_reduced = gradients };
    double weights = r->stack->exact_gradients ? shared_weights(step, r) * element : gradients;
    return (struct network_payload){ .scattered = reductions(r) * gradients, .gathered = weights };
}

// The optimizer in host memory: each micro-batch's gradients are copied to the host beside the
// backward pass, and summed there if there is more than one; once per step the host updates its
// shard at the speed of its memory and copies the weights back. A native engine streams the states
// to the GPU instead. The GPUs of a host share its rate; one process reaches 32 GB/s.
static void add_offload(struct network_seconds *out, const struct step *step,
                        const struct step_request *r, const struct links *links)
{
    if (!r->layout->offload_optimizer)
        return;
    double weights = step->trained_weights / (double)layout_shards(r->layout);
    double gpus = fmin((double)layout_gpus(r->layout), links->host_gpus);
    double host_bytes_per_s = fmin(32e9, r->stack->host_bytes_per_s / gpus);
    double states = recipe_state_bytes(r->recipe, r->recipe->states) + 4;
    bool fast = r->stack->updates_on_gpu;
    double updates = step_updates(r);
    double summed = step_rounds(r) * r->accumulation > updates ? 8 / host_bytes_per_s : 0;
    double copied = fast ? 0 : weights * (2 / links->pcie_bytes_per_s + summed);
    out->per_layer += copied;
    out->copied += copied;
    double update = fast ? 2 * states / links->pcie_bytes_per_s
                         : 4 / links->pcie_bytes_per_s + 2 * states / host_bytes_per_s;
    out->offload = updates * weights * update;
}

// Our engine's activations go to the host beside forward and come back beside backward.
static void add_activations(struct network_seconds *out, const struct step_request *r,
                            const struct links *links)
{
    if (!r->layout->offload_activations || !engine_runs(r))
        return;
    double copied = 2 * (double)engine_bytes(r, &engine_cuda).host / links->pcie_bytes_per_s;
    out->per_layer += copied;
    out->copied += copied;
}

// Gradients are summed, and states that are sharded have their weights gathered after the update.
static void add_reduction(struct network_seconds *out, const struct step *step,
                          const struct step_request *r, const struct links *links)
{
    const struct layout *layout = r->layout;
    double shards = (double)layout_shards(layout), data = (double)(layout->data * layout->context);
    double gradients = gradient_bytes(step, r), stride = (double)layout->tensor;
    struct replicas all = { data, stride, routed_share(step, r), (double)layout->expert };
    struct replicas sharing = all;
    sharing.gpus = shards;
    out->reductions = reductions(r);
    if (layout->zero > 2 && !shared_base(r)) {
        out->per_step = out->reductions * (among(&sharing, gradients, 1, links) +
                                           hierarchical(gradients / shards, data / shards,
                                                        stride * shards, 2, links));
        return;
    }
    struct network_payload payload = network_payload(step, r, &engine_cuda);
    double updates = step_updates(r);
    double summed = updates * among(&all, payload.all_reduced, 2, links) +
                    out->reductions * among(&all, payload.scattered / out->reductions, 1, links);
    double gathered = updates * among(&all, payload.gathered, 1, links);
    out->per_step = summed + gathered;
    if (r->stack->late_reduction)
        out->late = gathered + (layout->zero < 2 ? summed : 0);
}

// As the job has them: all of its GPUs of a host pass what they send through its memory, whatever
// groups they form.
static struct links shared_links(const struct links *links, const struct layout *layout)
{
    struct links out = *links;
    double gpus = fmin((double)layout_gpus(layout), links->host_gpus);
    if (links->staged_bytes_per_s > 0)
        out.node_bytes_per_s = fmin(links->node_bytes_per_s, links->staged_bytes_per_s / gpus);
    return out;
}

struct network_seconds network_time(const struct step *step, const struct step_request *r,
                                    const struct links *given)
{
    const struct layout *layout = r->layout;
    const struct links shared = shared_links(given, layout), *links = &shared;
    struct network_seconds out = { 0 };
    double element = r->recipe->precision == RECIPE_FP32 ? 4 : 2;
    double tokens = r->batch.tokens / (double)layout->context, layers = step->layers;
    double hidden = element * tokens * (double)r->model->width;
    bool recomputes = r->recipe->checkpointing == RECIPE_RECOMPUTE;
    double passes = recomputes ? 3 : 2; // forward, backward, and the recomputed forward
    double backward = (passes - 1) * (1 + r->passes.critic); // with what they recompute
    double critic = r->passes.critic * (passes + 1); // trains, and judges the answers before
    passes += r->passes.reference + r->passes.policy + r->passes.reward + critic;
    // The list's weights are the critic's too, and a pass gathers those of one model.
    double gathers = passes / (1 + r->passes.critic);
    if (shared_base(r) || !r->stack->gathers_again)
        gathers -= recomputes; // from the layer that the backward pass has gathered
    double first = 1 / (step_rounds(r) * r->accumulation); // of the micro-batches of a step
    bool once = step_stays_gathered(r);
    if (once)
        gathers = first;
    out.gathers = gathers;

    // Tensor: two sums of the hidden states per pass and layer; with sequence parallelism the same
    // bytes as gathers and scatters.
    double tensor = layers * passes * 2 * ring(hidden, (double)layout->tensor, 2, links);
    // Context: keys and values pass around the ring, their gradients too.
    double keys =
        element * tokens * (double)(model_key_width(r->model) + model_value_width(r->model));
    double context = layers * (passes + 1) * passed_around(keys, (double)layout->context, links);
    double expert = exchange_seconds(step, r, hidden / (double)layout->tensor, passes, links);
    double pipeline = pipeline_seconds(hidden / (double)layout->tensor, layout, links);
    double shards = (double)layout_shards(layout);
    double gather =
        layout->zero == 3 || layout->offload_weights ? gathers * gather_seconds(step, r, links) : 0;
    double fetch = layout->offload_weights
                       ? gathers * weights_gather(step, r) / shards / links->pcie_bytes_per_s
                       : 0;
    out.per_layer = tensor + context + expert + pipeline + gather + fetch;
    double forward = passes - backward;
    double gathered_before = once ? 1 : forward / (gathers * (1 + r->passes.critic));
    out.forward = (tensor + expert) * forward / passes + context * forward / (passes + 1) +
                  pipeline / 2 + (gather + fetch) * gathered_before;
    // A tensor that is gathered when its product asks for it is waited for: transformers lets
    // DeepSpeed fetch 0.9·width² elements ahead, less than most tensors have.
    out.hideable = (r->stack->gathers_ahead ? gather : 0) + context + 0.5 * (pipeline + tensor);
    out.copied = fetch;

    add_reduction(&out, step, r, links);
    add_offload(&out, step, r, links);
    add_activations(&out, r, links);
    out.doublings = fmax(0, log2((double)layout_gpus(layout) / links->node_gpus));
    out.host_doublings = fmax(0, log2((double)layout_gpus(layout) / links->host_gpus));
    return out;
}
