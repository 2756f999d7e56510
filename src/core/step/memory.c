// SPDX-License-Identifier: Apache-2.0
// Adds up the bytes of a step list by part, finds the moment of the peak, and adds what the
// allocator and CUDA hold beside them.
//
// Bytes on one GPU over the last micro-batch of a step and its update:
//
//        forward            loss       backward                        update
//   ─────────────────────▶ ───────▶ ─────────────────────────────▶ ────────────▶
//                          ┌──────┐
//                          │logits│┌──────────┐
//                       ┌──┘      └┘temporaries└──┐
//                    ┌──┘                         └──┐
//                 ┌──┘   kept activations            └──┐          ┌────────┐
//              ┌──┘      one layer after another        └──┐ ┌─────┘ copies └──┐
//   ───────────┴───────────────────────────────────────────┴─┘   gradients     └──
//   weights, optimizer states, gathered weights, buffers: all the time
//                             ①      ②                     ③            ④
//
//   ① at the loss              all activations, the logits with what the loss keeps of them
//   ② in the first layer of backward   all activations, and the temporaries of one layer
//   ③ in the last layer of backward    one layer's activations, temporaries, all gradients
//   ④ in the update            gradients, and the copies that the optimizer makes
//   ⑤ in the save of a checkpoint, after ④: nothing but what some versions of bitsandbytes copy
//
// ② and ③ are both "backward"; the larger counts. Gradients are there from the start where micro-
// batches accumulate, or where the stack keeps a buffer for them. The peak is the largest of the
// moments, not the sum of the largest parts: parts that are not alive then are 0.

#include "core/step/memory.h"

#include "core/step/engine.h"
#include "core/step/moe.h"
#include "core/step/shared_base.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const char *const memory_part_names[] = {
    "weights", "quantized weights", "adapters", "gradients", "optimizer",       "activations",
    "logits",  "temporaries",       "gathered", "buffers",   "allocator slack", "CUDA context",
};

static const double deepspeed_bucket = 5e8; // elements: reduce_bucket_size, allgather_bucket_size
static const double offloaded_gradients = 0.1; // share on the GPU: buckets on their way out
static const double layers_in_flight = 2; // whose activations are here while others are offloaded
static const double loss_hole = 0.75;     // of the loss's fp32 block (measured 0.57 to 1.07)
static const double varied_slack = 2;     // × the dynamic part (measured: 28 GiB become 82)
// NCCL's buffers: of the first communicator, with its kernels, and of each further one (0.57e9 of a
// group of two A100, 0.72e9 of more, by NCCL's issue 964; linear in the number of communicators).
static const double communicator_bytes = 0.8e9, further_communicator_bytes = 0.7e9;
static const double least_host_bytes = 4e9; // assumed of the process itself
// Of allocated bytes, unusable because of fragmentation: 31 public messages of failures on T4s that
// were full have 0 to 8.1 %, 1.0 % at the median (docs/formulas.md).
static const double lost_share = 0.010;
static const double lost_varied = 0.10;   // where widths vary (failed at 126 GiB with 12.7 lost)
static const double lost_gathering = 0.2; // of what comes and goes, where a second stream gathers
static const double live_weights = 1e9;   // DeepSpeed's stage3_max_live_parameters: stay gathered
static const double expert_spread = 0.3;  // at least: nine of ten of 61 mixtures in frameworks
const double memory_sure = 0.95;

// Bytes per trained weight.
struct rates {
    double weight; // as the optimizer updates it
    double copy;   // the 16- or 8-bit copy that products read beside an fp32 master; 0: none
    double gradient;
    double state; // of the optimizer
};

// Weights of the embedding and of a head of its own.
static double end_weights(const struct step_request *r)
{
    const struct model *model = r->model;
    bool tied = model->tied_embeddings && !r->stack->unties;
    double head = tied ? 0 : (double)(model->vocabulary * model->width);
    return ((double)model_embedding_parameters(model) + head) / (double)r->layout->tensor;
}

// Bytes of a weight that is neither trained nor quantised.
static double frozen_bytes(const struct step_request *r)
{
    bool small = recipe_is_small(r->recipe) && r->stack->fp8_weights;
    bool wide = r->recipe->precision == RECIPE_FP32 || stack_widens(r->stack, r->recipe);
    return wide ? 4 : small ? 1 : recipe_dtype_bytes(r->stack->frozen);
}

// Weights that PEFT trains as copies of the embedding and the head, which stay beside them. The
// copies have the type of these, not that of adapters.
static double copied_weights(const struct step_request *r)
{
    bool copies = r->recipe->method != RECIPE_FULL && r->recipe->trains_embeddings &&
                  r->stack->adapters == STACK_ADAPTERS_AUTOCAST && !r->stack->copies_weights;
    return copies ? end_weights(r) : 0;
}

// Of adapters and of copied weights, the mean.
static struct rates rates_of(const struct step_request *r, const struct step *step)
{
    const struct recipe *recipe = r->recipe;
    bool full = recipe->method == RECIPE_FULL;
    bool fp32 = recipe->precision == RECIPE_FP32;
    bool masters = r->stack->exact_gradients && recipe->weights == RECIPE_FP32;
    bool copies = r->stack->copies_weights || masters;
    struct rates rates = {
        .weight = recipe_dtype_bytes(fp32             ? RECIPE_FP32
                                     : full || copies ? recipe->weights
                                                      : recipe->adapter_dtype),
        .gradient = recipe_dtype_bytes(stack_gradients(r->stack, recipe)),
        .state = recipe_state_bytes(recipe, recipe->states),
    };
    bool fp8 = full && recipe_is_small(recipe) && r->stack->fp8_weights;
    if (copies && rates.weight == 4 && (full || recipe->adapter_dtype != RECIPE_FP32))
        rates.copy = fp8 ? 1 : 2;
    double copied = copied_weights(r), bytes = frozen_bytes(r), all = step->trained_weights;
    if (copied > 0) {
        int type = bytes == 4 ? RECIPE_FP32 : r->stack->frozen;
        rates.weight += copied / all * (bytes - rates.weight);
        rates.gradient += copied / all * (bytes - rates.gradient);
        rates.state += copied / all * (recipe_state_bytes(recipe, type) - rates.state);
    }
    return rates;
}

// The stage of ZeRO that weights, gradients and states are held under; a shared base is counted
// apart.
static int zero_of(const struct step_request *r)
{
    return shared_base(r) ? 0 : r->layout->zero;
}

// Bytes of weights gathered from other ranks: that many layers and the ends, under FSDP. DeepSpeed
// frees none of the last 1e9 weights.
static double gathered(const struct step *step, const struct step_request *r, double layers)
{
    if (shared_base(r))
        return 2 * shared_base_weights(r) * shared_base_bytes(r);
    if (zero_of(r) != 3 || layout_shards(r->layout) == 1)
        return 0;
    double largest = step->largest_layer_weights;
    if (step_stays_gathered(r))
        layers = step->layers;
    double element = r->recipe->precision == RECIPE_FP32 || step_autocasts(r) ? 4 : 2;
    double of_layer = r->recipe->method == RECIPE_QLORA ? recipe_weight_bytes(r->recipe) : element;
    if (stack_is_deepspeed(r->stack))
        layers = fmax(2, fmin(live_weights / largest, step->layers));
    return layers * largest * of_layer + end_weights(r) * element;
}

// How many weights' gradients one GPU holds while the passes run, of those trained on it; experts
// are among these.
static double held_gradients(const struct step *step, const struct step_request *r, double trained,
                             double experts, double frozen)
{
    double shards = zero_of(r) >= 2 ? (double)layout_shards(r->layout) : 1;
    int held = r->stack->held_gradients;
    if (r->recipe->optimizer_in_backward) { // one weight's at a time: a layer's, or the embedding
        double embedding = (double)(r->model->vocabulary * r->model->width);
        return fmin(trained, fmax(step->largest_layer_weights, embedding)) / shards;
    }
    if (step_stays_gathered(r))
        return trained;
    if (zero_of(r) == 3 && shards > 1 && r->accumulation > 1 && held && !r->layout->sync_each_batch)
        return trained + (held == STACK_GRADIENTS_FLAT ? frozen : 0);
    return moe_held(trained, experts, shards, r->layout);
}

// Weights, gradients, optimizer states and buffers: what does not depend on the batch.
static void plan_states(double *parts, const struct step *step, const struct step_request *r)
{
    struct rates rate = rates_of(r, step);
    double shards = (double)layout_shards(r->layout);
    double of_weights = zero_of(r) >= 3 ? shards : 1;
    double of_states = zero_of(r) >= 1 ? shards : 1;
    bool full = r->recipe->method == RECIPE_FULL;
    double stages = r->layout->split ? (double)r->layout->pipeline : 1;
    double trained = step->trained_weights / stages;
    double experts = step->expert_trained_weights / stages;
    double main_copy = rate.copy ? rate.copy : rate.weight, master = rate.copy ? rate.weight : 0;
    parts[full ? MEMORY_WEIGHTS : MEMORY_ADAPTERS] +=
        moe_held(trained, experts, of_weights, r->layout) * main_copy;
    parts[MEMORY_WEIGHTS] += moe_held(step->frozen_weights + copied_weights(r),
                                      step->expert_frozen_weights, of_weights, r->layout) /
                             stages * frozen_bytes(r);
    parts[MEMORY_QUANTIZED] +=
        moe_held(step->quantized_weights, step->expert_quantized_weights, of_weights, r->layout) /
        stages * recipe_weight_bytes(r->recipe);
    if (shared_base(r))
        parts[r->recipe->method == RECIPE_QLORA ? MEMORY_QUANTIZED : MEMORY_WEIGHTS] -=
            step->layers * shared_base_weights(r) * shared_base_bytes(r) * (1 - 1 / shards);
    parts[MEMORY_GRADIENTS] +=
        rate.gradient * held_gradients(step, r, trained, experts, step->frozen_weights / stages);
    parts[MEMORY_OPTIMIZER] +=
        moe_held(trained, experts, of_states, r->layout) * (rate.state + master);
    // Of all weights, in 16 bits, sharded as those that are trained. The list has a critic's too.
    double copies = r->passes.frozen_copies / (1 + r->passes.critic);
    if (copies > 0)
        parts[MEMORY_WEIGHTS] +=
            moe_held(trained + step->frozen_weights / stages,
                     experts + step->expert_frozen_weights / stages, of_weights, r->layout) *
            (r->recipe->precision == RECIPE_FP32 ? 4 : 2) * copies;
    if (r->layout->data > 1 && zero_of(r) == 0)
        parts[MEMORY_BUFFERS] += trained * rate.gradient; // DDP reduces a flat copy
    if (full && stack_is_deepspeed(r->stack))
        parts[MEMORY_BUFFERS] += 2 * fmin(deepspeed_bucket, trained) * rate.gradient;
}

// Moves what the layout offloads to host memory; returns the host's bytes.
static double offload(double *parts, const struct step_request *r)
{
    double host = 0;
    if (r->layout->offload_optimizer || recipe_is_paged(r->recipe)) {
        host += parts[MEMORY_OPTIMIZER];
        parts[MEMORY_OPTIMIZER] = 0;
        if (r->layout->offload_optimizer && zero_of(r) >= 2) {
            host += parts[MEMORY_GRADIENTS];
            parts[MEMORY_GRADIENTS] *= offloaded_gradients;
        }
    }
    if (r->layout->offload_weights) {
        host += parts[MEMORY_WEIGHTS] + parts[MEMORY_QUANTIZED];
        parts[MEMORY_WEIGHTS] = parts[MEMORY_QUANTIZED] = 0;
    }
    return host;
}

// Not whole layers: of a model that the engine does not train its levels are counted as one.
static bool recomputes_some(const struct recipe *recipe)
{
    return recipe->checkpointing > RECIPE_KEEP_ALL && recipe->checkpointing < RECIPE_RECOMPUTE;
}

// Pieces that a pipeline makes of a micro-batch, to have as many as stages (core/step/compute.c).
static double pieces(const struct step_request *r)
{
    double stages = r->layout->split ? 1 : (double)r->layout->pipeline;
    double batches = fmax(1, r->accumulation), rows = fmax(1, r->batch.rows);
    return fmax(1, fmin(stages, batches * rows) / batches);
}

// Pieces that are begun and not finished. A pipeline of p stages has up to p of them on its first
// stage and 1 on its last, which has the loss; of v interleaved chunks (p − 1)/v more on the first,
// and as many less than p on the last.
static double in_flight(const struct step_request *r, bool last)
{
    double stages = r->layout->split ? 1 : (double)r->layout->pipeline;
    double flight = fmin(stages, fmax(1, r->accumulation) * pieces(r));
    double chunks = (double)r->layout->interleave;
    bool interleaves = flight > 1 && chunks > 1;
    if (last)
        return interleaves ? flight - (flight - 1) / chunks : 1;
    return interleaves ? flight + (flight - 1) / chunks : flight;
}

// 16-bit copies of fp32 weights, of those that layers and head multiply with. Autocast keeps them
// until the loss is there: it has a cache of those that are trained, and products that are not
// recomputed keep what they read.
static double cast_copies(const struct step *step, const struct step_request *r)
{
    bool full = r->recipe->method == RECIPE_FULL;
    bool kept = r->recipe->checkpointing != RECIPE_RECOMPUTE;
    double stages = r->layout->split ? (double)r->layout->pipeline : 1;
    if (!step_autocasts(r) || !(full || kept))
        return 0;
    double head = (double)(r->model->vocabulary * r->model->width) / (double)r->layout->tensor;
    return 2 * (step->layers / stages * step->largest_layer_weights + head);
}

// Activations kept for backward, of the pieces that are in flight.
static double kept_activations(const struct step *step, const struct step_request *r, double flight)
{
    flight /= pieces(r);
    double layers = step->layers / (r->layout->split ? (double)r->layout->pipeline : 1);
    double per_layer = step->layer_kept_bytes;
    if (recomputes_some(r->recipe))
        per_layer = fmin(step->layer_lean_bytes, per_layer);
    if (r->recipe->checkpointing == RECIPE_RECOMPUTE)
        per_layer = step->layer_input_bytes;
    if (r->layout->offload_activations)
        layers = fmin(layers, layers_in_flight);
    return flight * (layers * per_layer + step->images_kept_bytes) + step->head_kept_bytes;
}

// What is alive while one layer runs backward: gradients of the feed-forward network's inner values
// or, if larger, of eager attention's scores, and of two hidden states for each token and each copy
// that is routed, the layer's activations where they are recomputed, one dequantised weight.
static double temporaries(const struct step *step, const struct step_request *r)
{
    const struct model *model = r->model;
    double tokens = r->batch.tokens / (double)r->layout->context,
           tensor = (double)r->layout->tensor;
    double element = r->recipe->precision == RECIPE_FP32 ? 4 : 2;
    double inner =
        (double)(model->experts ? model->experts_active * model->expert_width + model->shared_width
                                : model->ffn_width);
    double rows = 1 + (double)(model->experts ? model->experts_active : 0); // per token
    tokens /= pieces(r);
    double inner_bytes = tokens * element * r->stack->inner_gradients * inner / tensor;
    double bytes = fmax(inner_bytes, step->score_bytes / pieces(r)) +
                   tokens * element * 2 * rows * (double)model->width;
    if (r->recipe->checkpointing == RECIPE_RECOMPUTE)
        bytes += step->layer_kept_bytes / pieces(r);
    if (recomputes_some(r->recipe))
        bytes += fmax(0, step->layer_kept_bytes - step->layer_lean_bytes) / pieces(r);
    // By PyTorch's operations 64-bit indices of half of the weights, what is found of them and the
    // result: 12.0 bytes a weight on an H200 (bench/gpu/nf4_in_torch.py).
    if (r->recipe->method == RECIPE_QLORA)
        bytes += (stack_widens_in_parts(r->stack, r->recipe) ? 12 : 2) * (double)model->width *
                 inner / tensor;
    return bytes;
}

static double sum(const double *parts)
{
    double total = 0;
    for (int i = 0; i < MEMORY_PARTS; i++)
        total += parts[i];
    return total;
}

// What Adafactor of transformers has beside a tensor while it updates it: the old and the new
// update in fp32, and of 16-bit weights fp32 copies of themselves and their gradient. The embedding
// is the largest: 6.0 GiB of OLMo 2 7B's in bf16 on an H200 (bench/results/h200.md).
static double adafactor_copies(const struct step_request *r)
{
    if (r->recipe->optimizer != RECIPE_ADAFACTOR || r->recipe->method != RECIPE_FULL)
        return 0;
    double shards = zero_of(r) ? (double)layout_shards(r->layout) : 1;
    double largest = (double)(r->model->vocabulary * r->model->width) / (double)r->layout->tensor;
    return (recipe_dtype_bytes(r->recipe->weights) < 4 ? 16 : 8) * largest / shards;
}

// What the optimizer makes for the update. An fp32 master is updated from an fp32 copy of 16-bit
// gradients; an optimizer over lists of tensors copies one of the two states that AdamW has.
static double update_copies(const struct step *step, const struct step_request *r)
{
    struct rates rate = rates_of(r, step);
    double weights = step->trained_weights / (zero_of(r) ? (double)layout_shards(r->layout) : 1);
    if (r->recipe->optimizer_in_backward)
        return 0;
    bool widens = rate.copy && rate.gradient < 4 && !r->stack->fp8_weights;
    return (widens ? 4 * weights : 0) + r->stack->update_copies * weights * rate.state / 2 +
           adafactor_copies(r);
}

// What a checkpoint of adapters copies beside the weights: bitsandbytes 0.38.0 to 0.39.0 turned
// 8-bit linears back to their first layout for it, all of them (its issue 324, pull request 503).
static double checkpoint_copies(const double *parts, const struct step_request *r)
{
    bool copies = r->stack->copies_on_save && r->recipe->quantization == RECIPE_INT8;
    return copies ? parts[MEMORY_QUANTIZED] : 0;
}

// Bytes of gradients in the update: each GPU has its shard, however many it held before.
static double reduced_gradients(const struct step *step, const struct step_request *r, double held)
{
    double shards = zero_of(r) >= 2 ? (double)layout_shards(r->layout) : 1;
    return fmin(held, rates_of(r, step).gradient * step->trained_weights / shards);
}

// Activations in the last layer of backward: its own. Under FSDP with reentrant recomputation all
// stay, and as many bytes of gradients beside them: each layer's backward pass of its own starts at
// its input, and the hook by which FSDP frees a frozen layer holds this input with its gradient
// until the step's backward pass ends.
static double last_activations(const struct step *step, const struct step_request *r,
                               double activations)
{
    bool gathers = zero_of(r) == 3 && layout_shards(r->layout) > 1;
    if (gathers && !stack_is_deepspeed(r->stack) && r->stack->reentrant &&
        r->recipe->method != RECIPE_FULL && r->recipe->checkpointing == RECIPE_RECOMPUTE)
        return 2 * (activations - step->head_kept_bytes);
    return activations / fmax(1, step->layers);
}

// The parts that are not there all the time.
struct moment {
    const char *name;
    double activations, logits, temporaries, gradients, gathered;
};

static double bytes_of(const struct moment *m)
{
    return m->activations + m->logits + m->temporaries + m->gradients + m->gathered;
}

// Finds the moment of the peak and leaves in parts what is alive then. FSDP has gathered the layer
// at work and the next one, which there is not in the last layer of backward; at the loss, the ends
// alone; in the update, nothing.
static const char *take_peak(double *parts, const struct step *step, const struct step_request *r)
{
    double activations = kept_activations(step, r, in_flight(r, false));
    double at_loss = kept_activations(step, r, in_flight(r, true));
    double copies = cast_copies(step, r), passing = temporaries(step, r);
    if (r->recipe->checkpointing != RECIPE_RECOMPUTE)
        activations += copies;
    double gradients = parts[MEMORY_GRADIENTS];
    bool accumulates = r->accumulation * pieces(r) > 1 || r->stack->copies_weights;
    double held = accumulates ? gradients : 0;
    const struct moment moments[] = {
        { .name = "loss",
          .activations = at_loss + copies,
          .logits = step->loss_peak_bytes / pieces(r),
          .gradients = held,
          .gathered = gathered(step, r, 0) },
        { .name = "backward", // its first layer
          .activations = activations,
          .temporaries = passing,
          .gradients = held,
          .gathered = gathered(step, r, 2) },
        { .name = "backward", // its last layer
          .activations = last_activations(step, r, activations),
          .temporaries = passing,
          .gradients = gradients,
          .gathered = gathered(step, r, 1) },
        { .name = "update",
          .temporaries = update_copies(step, r),
          .gradients = reduced_gradients(step, r, gradients),
          .gathered = stack_is_deepspeed(r->stack) || shared_base(r) ? gathered(step, r, 0) : 0 },
        { .name = "checkpoint", .temporaries = checkpoint_copies(parts, r) },
    };
    const struct moment *peak = &moments[0];
    for (size_t i = 1; i < sizeof moments / sizeof *moments; i++)
        if (bytes_of(&moments[i]) > bytes_of(peak))
            peak = &moments[i];
    parts[MEMORY_ACTIVATIONS] = peak->activations;
    parts[MEMORY_LOGITS] = peak->logits;
    parts[MEMORY_TEMPORARIES] = peak->temporaries;
    parts[MEMORY_GRADIENTS] = peak->gradients;
    parts[MEMORY_GATHERED] = peak->gathered;
    return peak->name;
}

// The host has a copy of the weights while they load.
static double loaded_bytes(const double *parts)
{
    return fmax(parts[MEMORY_WEIGHTS] + parts[MEMORY_QUANTIZED], least_host_bytes);
}

static void take_framework(struct memory *out, const struct step *step,
                           const struct step_request *r)
{
    plan_states(out->parts, step, r);
    out->host_bytes = loaded_bytes(out->parts);
    out->host_bytes += offload(out->parts, r);
    out->moment = take_peak(out->parts, step, r);
}

// Our engine allocates all of it before the first step.
static void take_engine(struct memory *out, const struct step_request *r)
{
    struct engine_bytes bytes = engine_bytes(r, &engine_cuda);
    bool full = r->recipe->method == RECIPE_FULL;
    out->parts[MEMORY_WEIGHTS] = (double)(bytes.frozen + bytes.trained);
    out->parts[MEMORY_QUANTIZED] = (double)bytes.quantized;
    out->parts[MEMORY_GRADIENTS] = (double)bytes.gradients;
    out->parts[MEMORY_OPTIMIZER] = (double)bytes.moments;
    out->parts[full ? MEMORY_OPTIMIZER : MEMORY_ADAPTERS] += (double)bytes.masters;
    out->parts[MEMORY_ACTIVATIONS] = (double)bytes.activations;
    out->parts[MEMORY_LOGITS] = (double)bytes.logits;
    out->parts[MEMORY_TEMPORARIES] = (double)bytes.scratch;
    out->host_bytes = loaded_bytes(out->parts) + (double)bytes.host;
    out->moment = "start";
}

// What comes and goes within a step.
static double dynamic_bytes(const double *parts)
{
    return parts[MEMORY_ACTIVATIONS] + parts[MEMORY_LOGITS] + parts[MEMORY_TEMPORARIES];
}

// What the allocator reserves and does not use. The large fp32 blocks of an unfused loss leave
// holes; widths that vary at random leave free blocks of every size (measured: 28 GiB allocated, 82
// reserved when shuffled, 31 when grouped by length).
static double slack(const double *parts, const struct step *step, const struct step_request *r,
                    bool varied)
{
    double allocated = sum(parts);
    double per_logit = r->passes.loss_bytes > 0 ? r->passes.loss_bytes : r->stack->loss_bytes;
    bool fp32 = per_logit >= 6 || r->passes.loss_row_bytes > 0;
    double holes = fp32 ? loss_hole * 4 / per_logit * step->loss_peak_bytes / pieces(r) : 0;
    return varied ? varied_slack * dynamic_bytes(parts) : (r->stack->slack - 1) * allocated + holes;
}

// What fragmentation makes unusable even under pressure. Gathered weights come and go between
// activations: 70B QLoRA under FSDP, 43.5 GiB allocated, held 5.9 GiB more, a quarter of what comes
// and goes; twice its rows, 67 GiB, failed with 77 held.
static double fragmented(const struct memory *memory, const struct step_request *r, bool varied)
{
    double lost = (varied ? lost_varied : lost_share) * memory->allocated_bytes;
    bool gathers = zero_of(r) == 3 && layout_shards(r->layout) > 1;
    return gathers ? fmax(lost, lost_gathering * dynamic_bytes(memory->parts)) : lost;
}

struct memory_device memory_device(const struct gpu *gpu, bool varied_widths)
{
    const char *capability = gpu ? gpu->compute_capability : NULL;
    return (struct memory_device){ .bytes = gpu ? gpu->memory_bytes : NAN,
                                   .varied_widths = varied_widths,
                                   .is_hopper = capability && !strcmp(capability, "9.0") };
}

// Student's distribution with two degrees of freedom: measured runs have such tails (90 % of them
// are within 0.15 on the logarithm, 95 % within 0.30), and its distribution function is closed:
// F(t) = 1/2 + t / (2·√(2 + t²)), with F = 0.9 at t = 1.886.
double memory_share_within(const struct memory *memory, double times)
{
    double t = 1.886 * log(times) / memory->spread;
    return 0.5 + t / (2 * sqrt(2 + t * t));
}

double memory_fit_probability(const struct memory *memory, double device_bytes)
{
    double room = device_bytes - memory->parts[MEMORY_CONTEXT];
    if (isnan(room))
        return NAN;
    if (room <= 0)
        return 0;
    return memory_share_within(memory, room / (memory->allocated_bytes * memory->lost_share));
}

const char *memory_chance(const struct memory *memory, struct arena *arena)
{
    double percent = nearbyint(100 * memory->fit_probability);
    bool sure = memory->fit_probability >= memory_sure;
    return text_format(arena, "%.0f %%", sure ? percent : fmin(percent, 100 * memory_sure - 1));
}

const char *memory_verdict(const struct memory *memory, struct arena *arena)
{
    double share = memory->fit_probability;
    if (!memory->fits)
        return "does not fit";
    if (isnan(share) || share >= 0.995)
        return "fits";
    return text_format(arena, share >= memory_sure ? "fits (%s)" : "may not fit (%s that it does)",
                       memory_chance(memory, arena));
}

// Each way in which a layout splits work has a communicator of its own.
static double communicators(const struct layout *l)
{
    bool stages = l->pipeline > 1 && !l->split; // layers that are spread alone are copied to
    double ways = (l->data > 1) + (l->tensor > 1) + stages + (l->context > 1) + (l->expert > 1);
    if (layout_gpus(l) == 1)
        return 0;
    return communicator_bytes + fmax(0, ways - 1) * further_communicator_bytes;
}

void memory_plan(struct memory *out, const struct step *step, const struct step_request *request,
                 const struct memory_device *device)
{
    *out = (struct memory){ .device_bytes = device->bytes };
    double *parts = out->parts;
    bool engine = engine_runs(request), varied = device->varied_widths;
    if (engine)
        take_engine(out, request);
    else
        take_framework(out, step, request);
    out->allocated_bytes = sum(parts);
    parts[MEMORY_SLACK] = engine ? 0 : slack(parts, step, request, varied);
    double context = request->stack->context_bytes +
                     engine_attention(request, device->bytes, device->is_hopper).workspace +
                     communicators(request->layout);
    double room = device->bytes - context - out->allocated_bytes;
    double lost = engine ? 0 : fragmented(out, request, varied);
    if (isfinite(room)) // before it fails, the allocator frees its cache
        parts[MEMORY_SLACK] = fmin(parts[MEMORY_SLACK], fmax(room, lost));
    out->reserved_bytes = out->allocated_bytes + parts[MEMORY_SLACK];
    parts[MEMORY_CONTEXT] = context;
    out->total_bytes = out->reserved_bytes + context;
    out->lost_share = 1 + lost / out->allocated_bytes;
    out->spread = request->recipe->method == RECIPE_QLORA ? request->stack->quantized_spread
                                                          : request->stack->memory_spread;
    if (request->model->experts && !engine)
        out->spread = fmax(out->spread, expert_spread);
    out->fit_probability = memory_fit_probability(out, device->bytes);
    out->fits = isnan(device->bytes) || memory_needed_bytes(out) <= device->bytes;
    assert(!(out->reserved_bytes < out->allocated_bytes) && !(out->total_bytes < context));
}

void memory_fill(struct memory *memory, const struct step_request *request,
                 const struct memory_device *device)
{
    if (!engine_runs(request) || !memory->fits || isnan(device->bytes))
        return;
    double attention = engine_attention(request, device->bytes, device->is_hopper).workspace;
    double beside = memory->parts[MEMORY_CONTEXT] - attention;
    double budget = engine_card_share * device->bytes - beside;
    struct engine_fill fill = engine_fill(request, &engine_cuda, budget, attention);
    memory->filled.total_bytes = (double)fill.bytes + memory->parts[MEMORY_CONTEXT];
    memory->filled.level = fill.level;
    memory->filled.lighter = fill.lighter;
}

double memory_needed_bytes(const struct memory *memory)
{
    return memory->allocated_bytes * memory->lost_share + memory->parts[MEMORY_CONTEXT];
}

struct range memory_range(const struct memory *memory)
{
    double bytes = memory->total_bytes, factor = exp(memory->spread), high = bytes * factor;
    if (bytes <= memory->device_bytes) // a run that needs more fails, and shows no more
        high = fmin(high, memory->device_bytes);
    return (struct range){ bytes / factor, bytes, high };
}
