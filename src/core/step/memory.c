#include "core/step/memory.h"

#include <math.h>
#include <string.h>

const char *const memory_part_names[] = {
    "weights", "quantized weights", "adapters", "gradients", "optimizer",       "activations",
    "logits",  "temporaries",       "gathered", "buffers",   "allocator slack", "CUDA context",
};

// Bytes per trained weight.
struct rates {
    double weight, copy, gradient, state;
};

static struct rates rates_of(const struct step_request *r)
{
    const struct recipe *recipe = r->recipe;
    bool full = recipe->method == RECIPE_FULL;
    bool fp32 = recipe->precision == RECIPE_FP32;
    struct rates rates = {
        .weight = recipe_dtype_bytes(fp32   ? RECIPE_FP32
                                     : full ? recipe->weights
                                            : recipe->adapter_dtype),
        .gradient = recipe_dtype_bytes(fp32   ? RECIPE_FP32
                                       : full ? r->stack->gradients
                                              : recipe->adapter_dtype),
        .state = recipe_state_bytes(recipe, recipe->states),
    };
    if (full && r->stack->copies_weights && rates.weight == 4)
        rates.copy =
            recipe->precision == RECIPE_FP8 && r->stack->fp8_weights
                ? 1
                : 2; // the 16-bit weights that the products read; the fp32 ones are the master
    return rates;
}

static void plan_states(double *parts, const struct step *step, const struct step_request *r)
{
    struct rates rate = rates_of(r);
    double shards = (double)layout_shards(r->layout);
    double of_weights = r->layout->zero >= 3 ? shards : 1;
    double of_gradients = r->layout->zero >= 2 ? shards : 1;
    double of_states = r->layout->zero >= 1 ? shards : 1;
    bool full = r->recipe->method == RECIPE_FULL;
    bool small = r->recipe->precision == RECIPE_FP8 && r->stack->fp8_weights;
    bool wide = r->recipe->precision == RECIPE_FP32 ||
                (r->recipe->method == RECIPE_QLORA && r->stack->widens_unquantized);
    double element = wide ? 4 : small ? 1 : 2;
    double stages = r->layout->split ? (double)r->layout->pipeline : 1;
    double trained = step->trained_weights / stages;
    double main_copy = rate.copy ? rate.copy / of_weights : rate.weight / of_weights;
    double master = rate.copy ? rate.weight / of_states : 0;
    parts[full ? MEMORY_WEIGHTS : MEMORY_ADAPTERS] += trained * main_copy;
    parts[MEMORY_WEIGHTS] += step->frozen_weights / stages * element / of_weights;
    parts[MEMORY_QUANTIZED] +=
        step->quantized_weights / stages * recipe_weight_bytes(r->recipe) / of_weights;
    parts[MEMORY_GRADIENTS] += trained * rate.gradient / of_gradients;
    parts[MEMORY_OPTIMIZER] += trained * (rate.state / of_states + master);
    if (r->layout->zero == 3 && shards > 1) {
        // The layer at work and the one fetched ahead; embedding and head stay for the whole step.
        double gathered = r->recipe->precision == RECIPE_FP32 ? 4 : 2;
        double ends =
            (double)(model_embedding_parameters(r->model) +
                     (r->model->tied_embeddings ? 0 : r->model->vocabulary * r->model->width));
        parts[MEMORY_GATHERED] +=
            2 * step->largest_layer_weights *
                (step->quantized_weights > 0 ? recipe_weight_bytes(r->recipe) : gathered) +
            ends / (double)r->layout->tensor * gathered;
    }
    if (r->layout->data > 1 && r->layout->zero == 0)
        parts[MEMORY_BUFFERS] += trained * rate.gradient; // buckets of the reduction
    if (full && r->stack->copies_weights && r->stack->zero == 0)
        parts[MEMORY_BUFFERS] += fmin(5e8, trained) * rate.gradient * 2; // DeepSpeed's buckets
}

// Moves to host memory what the layout says; returns the host's bytes.
static double offload(double *parts, const struct step_request *r)
{
    double host = 0;
    if (r->layout->offload_optimizer || r->recipe->optimizer == RECIPE_ADAMW_PAGED) {
        host += parts[MEMORY_OPTIMIZER];
        parts[MEMORY_OPTIMIZER] = 0;
        if (r->layout->offload_optimizer && r->layout->zero >= 2) {
            host += parts[MEMORY_GRADIENTS];
            parts[MEMORY_GRADIENTS] *= 0.1; // buckets on their way out
        }
    }
    if (r->layout->offload_weights) {
        int moved[] = { MEMORY_WEIGHTS, MEMORY_QUANTIZED };
        for (int i = 0; i < 2; i++) {
            host += parts[moved[i]];
            parts[moved[i]] = 0;
        }
    }
    return host;
}

static double kept_activations(const struct step *step, const struct step_request *r)
{
    double flight = r->layout->split ? 1 : (double)r->layout->pipeline;
    flight = fmin(flight, fmax(1, r->accumulation)); // micro-batches begun and not finished
    if (flight > 1 && r->layout->interleave > 1)
        flight *= 1 + (flight - 1) / (flight * (double)r->layout->interleave);
    double layers = step->layers / (r->layout->split ? (double)r->layout->pipeline : 1);
    double per_layer = step->layer_kept_bytes;
    if (r->recipe->checkpointing == RECIPE_SELECTIVE)
        per_layer = fmin(step->layer_lean_bytes, per_layer);
    if (r->recipe->checkpointing == RECIPE_RECOMPUTE)
        per_layer = step->layer_input_bytes;
    if (r->layout->offload_activations)
        per_layer = 0;
    return flight * layers * per_layer + step->head_kept_bytes;
}

// What is alive for a moment: gradients of the feed-forward network's inner values, a whole layer
// where it was recomputed, one dequantised weight.
static double temporaries(const struct step *step, const struct step_request *r)
{
    const struct model *model = r->model;
    double tokens = r->batch.tokens / (double)r->layout->context,
           tensor = (double)r->layout->tensor;
    double element = r->recipe->precision == RECIPE_FP32 ? 4 : 2;
    double inner =
        (double)(model->experts ? model->experts_active * model->expert_width + model->shared_width
                                : model->ffn_width);
    double bytes = tokens * element * (3 * inner / tensor + 2 * (double)model->width);
    if (r->recipe->checkpointing == RECIPE_RECOMPUTE)
        bytes += step->layer_kept_bytes;
    if (r->recipe->checkpointing == RECIPE_SELECTIVE)
        bytes += fmax(0, step->layer_kept_bytes - step->layer_lean_bytes);
    if (r->recipe->method != RECIPE_FULL && r->recipe->adapter_dtype == RECIPE_FP32 &&
        r->stack->adapters != STACK_ADAPTERS_FUSED)
        bytes += 12 * tokens * (double)model->ffn_width / tensor; // an adapter's sum, in fp32
    if (r->recipe->method == RECIPE_QLORA)
        bytes += 2 * (double)model->width * inner / tensor;
    return bytes;
}

static double sum(const double *parts)
{
    double total = 0;
    for (int i = 0; i < MEMORY_PARTS; i++)
        total += parts[i];
    return total;
}

// Chooses the fullest moment and leaves in parts what is alive then.
static const char *take_peak(double *parts, const struct step *step, const struct step_request *r)
{
    double activations = kept_activations(step, r), passing = temporaries(step, r);
    bool holds_gradients = r->accumulation > 1 || r->stack->copies_weights;
    double gradients = parts[MEMORY_GRADIENTS];
    double at_loss = activations + step->loss_peak_bytes + (holds_gradients ? gradients : 0);
    // Backward: layers' activations go as their gradients come; the larger end counts.
    double first_layer = activations + passing + (holds_gradients ? gradients : 0);
    double last_layer = activations / fmax(1, step->layers) + passing + gradients;
    double at_backward = fmax(first_layer, last_layer);
    // An fp32 master is updated from an fp32 copy of 16-bit gradients.
    struct rates rate = rates_of(r);
    double shards = r->layout->zero ? (double)layout_shards(r->layout) : 1;
    double widened = rate.copy > 0 && rate.gradient < 4 && !r->stack->fp8_weights
                         ? 4 * step->trained_weights / shards
                         : 0;
    widened += r->stack->update_copies * step->trained_weights / shards *
               recipe_state_bytes(r->recipe, r->recipe->states) / 2;
    double at_update = gradients + widened;
    if (at_loss >= at_backward && at_loss >= at_update) {
        parts[MEMORY_ACTIVATIONS] = activations;
        parts[MEMORY_LOGITS] = step->loss_peak_bytes;
        parts[MEMORY_GRADIENTS] = holds_gradients ? gradients : 0;
        return "loss";
    }
    if (at_backward >= at_update) {
        bool early = first_layer >= last_layer;
        parts[MEMORY_ACTIVATIONS] = early ? activations : activations / fmax(1, step->layers);
        parts[MEMORY_TEMPORARIES] = passing;
        parts[MEMORY_GRADIENTS] = early && !holds_gradients ? 0 : gradients;
        return "backward";
    }
    parts[MEMORY_TEMPORARIES] = widened;
    return "update";
}

// What the allocator holds and does not use. Large blocks of the loss leave holes of about their
// fp32 size; batches of ever other widths leave blocks of every size behind (measured: 28 GiB
// allocated, 82 reserved when shuffled, 31 when grouped by length).
static double slack(const double *parts, const struct step *step, const struct step_request *r,
                    bool varied)
{
    double allocated = sum(parts);
    double dynamic = parts[MEMORY_ACTIVATIONS] + parts[MEMORY_LOGITS] + parts[MEMORY_TEMPORARIES];
    double holes =
        r->stack->loss_bytes >= 8 ? 0.75 * 4 / r->stack->loss_bytes * step->loss_peak_bytes : 0;
    return varied ? 2 * dynamic : (r->stack->slack - 1) * allocated + holes;
}

// On Hopper the backward pass of cuDNN that gives the same bits twice keeps a square for each head
// of up to four documents at a time (src/train/cuda/attention.cu), in a share of the card.
static double squares(const struct step_request *r, const struct memory_device *device)
{
    const struct model *model = r->model;
    double heads = (double)model->heads / (double)r->layout->tensor, length = 128;
    double room = r->stack->square_share * device->bytes;
    if (!device->is_hopper || !(room > 0) || r->recipe->precision == RECIPE_FP32)
        return 0;
    while (length < r->batch.width)
        length *= 2;
    double shared = model->heads > model->kv_heads ? 4 * (double)model->head_size : 0;
    double one = heads * length * (2 * length + shared + 4), some = one;
    while (some < 4 * one && 2 * some < room)
        some *= 2;
    some = fmin(fmax(some, 0x1p29), one * ceil(r->batch.tokens / length));
    return fmin(some, room);
}

struct memory_device memory_device(const struct gpu *gpu, bool varied_widths)
{
    const char *capability = gpu ? gpu->compute_capability : NULL;
    return (struct memory_device){ .bytes = gpu ? gpu->memory_bytes : NAN,
                                   .varied_widths = varied_widths,
                                   .is_hopper = capability && !strncmp(capability, "9.0", 3) };
}

void memory_plan(struct memory *out, const struct step *step, const struct step_request *request,
                 const struct memory_device *device)
{
    *out = (struct memory){ .device_bytes = device->bytes };
    double *parts = out->parts;
    plan_states(parts, step, request);
    // The host keeps a copy of the weights while they load, and what is moved to it.
    double weights = parts[MEMORY_WEIGHTS] + parts[MEMORY_QUANTIZED];
    out->host_bytes = offload(parts, request) + fmax(weights, 4e9);
    out->moment = take_peak(parts, step, request);
    out->allocated_bytes = sum(parts);
    parts[MEMORY_SLACK] = slack(parts, step, request, device->varied_widths);
    double context = request->stack->context_bytes + squares(request, device) +
                     (layout_gpus(request->layout) > 1 ? 0.8e9 : 0);
    double room = device->bytes - context - out->allocated_bytes;
    if (isfinite(room) && room >= 0) // under pressure the allocator gives its cache back
        parts[MEMORY_SLACK] = fmin(parts[MEMORY_SLACK], room);
    out->reserved_bytes = out->allocated_bytes + parts[MEMORY_SLACK];
    parts[MEMORY_CONTEXT] = context;
    out->total_bytes = out->reserved_bytes + context;
    out->fits = isnan(device->bytes) || memory_needed_bytes(out) <= device->bytes;
}

double memory_needed_bytes(const struct memory *memory)
{
    return 1.01 * memory->allocated_bytes + memory->parts[MEMORY_CONTEXT];
}

struct range memory_range(const struct memory *memory)
{
    double bytes = memory->total_bytes;
    return (struct range){ 0.80 * bytes, bytes, 1.26 * bytes };
}
