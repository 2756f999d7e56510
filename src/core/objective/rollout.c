// SPDX-License-Identifier: Apache-2.0
// Integrates decode steps over the lengths of answers, for the engine that ends on average and for
// the one that ends last.

#include "core/objective/rollout.h"

#include "base/stats.h"
#include "core/step/compute.h"

#include <math.h>

// Shares and seconds are assumed from how the engines work; docs/formulas.md says what they were
// held against. hf: transformers' generate launches the 12 operations of a layer one by one (50 µs
// each, as the Trainer's forward pass), appends to the cache by copying it, and never lets a new
// row in.
const struct sampler samplers[] = {
    { .name = "vllm",
      .title = "vLLM",
      .bandwidth_share = 0.65,
      .step_seconds = 0.004,
      .token_seconds = 30e-6,
      .memory_share = 0.9,
      .shared_share = 0.6,
      .most_rows = 1024,
      .cache_moves = 1,
      .continuous = true,
      .tensor = true,
      .source = "CUDA graphs and continuous batching; the step's host time is assumed" },
    { .name = "sglang",
      .title = "SGLang",
      .bandwidth_share = 0.65,
      .step_seconds = 0.004,
      .token_seconds = 30e-6,
      .memory_share = 0.9,
      .shared_share = 0.6,
      .most_rows = 1024,
      .cache_moves = 1,
      .continuous = true,
      .tensor = true,
      .source = "taken to be as vLLM" },
    { .name = "hf",
      .title = "transformers generate",
      .bandwidth_share = 0.7,
      .step_seconds = 0.003,
      .layer_seconds = 0.0006,
      .memory_share = 0.9,
      .shared_share = 0.5,
      .most_rows = 1 << 16,
      .cache_moves = 3,
      .source = "one padded batch until its longest row; host times assumed from training steps" },
    { 0 },
};
const char *const sampler_names[] = { "vllm", "sglang", "hf", NULL };
const char *const sampler_precisions[] = { "bf16", "fp8", NULL };

enum { POINTS = 160 };                       // of an integral over lengths
static const double reward_seconds = 0.001;  // per answer, on the host's cores: assumed
static const double wake_seconds = 5;        // to free the GPUs for the other side: assumed
static const double tensor_seconds = 0.0013; // per tensor, on the same GPUs: names, handles
static const double resend_seconds = 1;      // to stop, load and start separate engines
static const double decode_products = 0.6;   // of the sustained rate, for few rows

// --- lengths -----------------------------------------------------------------

static double deviation(double low, double high)
{
    return fmax(1e-6, log(high / low) / STATS_P90);
}

double rollout_quantile(const struct rollout *r, double share)
{
    double z = stats_normal_quantile(share);
    double spread = z < 0 ? deviation(r->p10, r->p50) : deviation(r->p50, r->p90);
    return fmin(r->limit, r->p50 * exp(z * spread));
}

// The share of answers that are longer.
static double longer(const struct rollout *r, double length)
{
    if (length >= r->limit)
        return 0;
    if (length <= 0)
        return 1;
    double spread = length < r->p50 ? deviation(r->p10, r->p50) : deviation(r->p50, r->p90);
    return 1 - stats_normal_below(log(length / r->p50) / spread);
}

// The longest of that many answers, at its median.
static double longest_of(const struct rollout *r, double rows)
{
    return rollout_quantile(r, pow(0.5, 1 / fmax(1, rows)));
}

double rollout_mean_length(const struct rollout *r)
{
    double end = longest_of(r, 1e6), step = end / POINTS, sum = 0;
    for (int i = 0; i < POINTS; i++)
        sum += longer(r, (i + 0.5) * step) * step;
    return sum;
}

// --- one decode step of one engine -------------------------------------------

struct engine {
    const struct rollout *rollout;
    double tensor;
    double memory, products;               // of all its GPUs, per second
    double weights, experts, expert_share; // bytes read always; of all experts; of one per row
    double active;                         // weights that a token passes
    double cache;                          // bytes of a token's keys and values
    double launch;                         // of the host beside the GPU, per step
    double seconds;                        // of host and sums over GPUs, per step
};

static double cache_bytes(const struct model *model)
{
    double values = model->kv_lora_rank
                        ? (double)(model->kv_lora_rank + model->qk_rope_size)
                        : (double)(model_key_width(model) + model_value_width(model));
    return 2 * values * (double)model->layers;
}

// 8-bit weights run on the 8-bit units where the GPU has some, else they are widened.
static int products_of(const struct rollout *r, const struct gpu *gpu)
{
    return r->precision == SAMPLER_FP8 && gpu->supports_fp8 ? RECIPE_FP8 : RECIPE_BF16;
}

static struct engine engine_of(const struct rollout *r, const struct model *model,
                               const struct gpu *gpu, const struct links *links, double tensor)
{
    double bytes = r->precision == SAMPLER_FP8 ? 1 : 2;
    double all = bytes * (double)model_parameters(model),
           active = (double)model_active_parameters(model);
    double experts = 0;
    struct model_linear linears[MODEL_LINEARS];
    size_t count = model->experts ? model_linears(model, MODEL_SPARSE, linears) : 0;
    for (size_t i = 0; i < count; i++)
        if (linears[i].role == MODEL_EXPERT)
            experts += bytes * (double)(linears[i].in * linears[i].out * linears[i].count) *
                       (double)model_layers(model, MODEL_SPARSE);
    // A sum over few rows is latency: one hop inside a node, a tree over nodes.
    double nodes = tensor / fmin(tensor, links->node_gpus);
    double latency =
        2 * links->node_latency_seconds + 2 * links->network_latency_seconds * log2(nodes);
    return (struct engine){
        .rollout = r,
        .tensor = tensor,
        .memory = tensor * compute_memory_bytes_per_s(gpu) * r->sampler->bandwidth_share,
        .products = tensor * decode_products * compute_matmul_flops_per_s(gpu, products_of(r, gpu)),
        .weights = all - experts,
        .experts = experts,
        .expert_share = model->experts ? (double)model->experts_active / (double)model->experts : 0,
        .active = active,
        .cache = cache_bytes(model),
        .launch = (double)model->layers * r->sampler->layer_seconds,
        .seconds =
            r->sampler->step_seconds + (tensor > 1 ? 2 * (double)model->layers * latency : 0),
    };
}

// Rows route alone: so many touch this share of the experts, and those are read.
static double decode_seconds(const struct engine *e, double rows, double length)
{
    double touched = e->expert_share > 0 ? 1 - pow(1 - e->expert_share, rows) : 0;
    double read = (e->weights + e->experts * touched) / e->memory;
    double computed = 2 * e->active * rows / e->products;
    double moved =
        rows * (e->rollout->prompt_length + length) * e->cache * e->rollout->sampler->cache_moves;
    double device = fmax(read, computed) + moved / e->memory;
    double host = e->seconds + rows * e->rollout->sampler->token_seconds;
    return pow(pow(device, 4) + pow(e->launch, 4), 0.25) + host; // as compute.c adds the two
}

// --- an engine's answers -----------------------------------------------------

// While the queue feeds it: every slot is taken, rows are of every age.
static double full_seconds(const struct engine *e, double rows, double tokens, double age)
{
    return tokens > 0 ? tokens / rows * decode_seconds(e, rows, age) : 0;
}

// All rows begin together and end one by one, up to a length.
static double drain_seconds(const struct engine *e, double rows, double end)
{
    double step = end / POINTS, sum = 0;
    for (int i = 0; i < POINTS; i++) {
        double at = (i + 0.5) * step;
        double live = e->rollout->sampler->continuous ? rows * longer(e->rollout, at) : rows;
        sum += decode_seconds(e, fmax(1, live), at) * step;
    }
    return sum;
}

// Until the engine has written its rows, the last of them of that length.
static double engine_seconds(const struct engine *e, double rows, double cap, double end)
{
    const struct rollout *r = e->rollout;
    if (rows <= cap)
        return drain_seconds(e, rows, end);
    if (!r->sampler->continuous)
        return ceil(rows / cap) * drain_seconds(e, cap, longest_of(r, cap));
    double mean = rollout_mean_length(r);
    return full_seconds(e, cap, (rows - cap) * mean, mean / 2) + drain_seconds(e, cap, end);
}

// Rows whose cache fits beside the weights.
static double rows_that_fit(const struct engine *e, const struct gpu *gpu, double share)
{
    double mean = rollout_mean_length(e->rollout);
    double room = e->tensor * share * gpu->memory_bytes - e->weights - e->experts;
    double rows = room / (e->cache * (e->rollout->prompt_length + 0.6 * mean));
    return fmin(e->rollout->sampler->most_rows, rows);
}

// The new weights go to the sampler gathered whole: every GPU sees all bytes. Engines on the same
// GPUs take them tensor by tensor through handles; GPUs of their own get them in large broadcasts.
static double transfer_seconds(const struct rollout *r, const struct model *model,
                               const struct links *links)
{
    double tensors = 0, sent = 2 * (double)model_parameters(model) / links->network_bytes_per_s;
    if (r->gpus > 0)
        return resend_seconds + sent;
    for (int kind = MODEL_DENSE; kind <= MODEL_SPARSE; kind++) {
        struct model_linear linears[MODEL_LINEARS];
        size_t count = model_linears(model, (enum model_layer)kind, linears);
        for (size_t i = 0; i < count; i++)
            tensors += (double)(linears[i].count * model_layers(model, (enum model_layer)kind));
    }
    return wake_seconds + tensors * tensor_seconds + sent;
}

double rollout_total(const struct rollout_seconds *s)
{
    return s->prefill + s->decode + s->waiting + s->transfer + s->reward;
}

void rollout_time(struct rollout_seconds *out, const struct rollout *r, const struct model *model,
                  const struct gpu *gpu, const struct links *links, double trainer_gpus)
{
    const double least_rows = 8; // below, an engine spans more GPUs
    double gpus = r->gpus > 0 ? r->gpus : trainer_gpus, answers = r->prompts * r->generations;
    double share = r->gpus > 0 ? r->sampler->memory_share : r->sampler->shared_share;
    double most = r->sampler->tensor ? gpus : 1, tensor = r->tensor > 0 ? r->tensor : 1;
    struct engine engine = engine_of(r, model, gpu, links, tensor);
    while (!(r->tensor > 0) && rows_that_fit(&engine, gpu, share) < least_rows &&
           2 * tensor <= most)
        engine = engine_of(r, model, gpu, links, tensor *= 2);
    answers *= fmax(1, r->oversampling);
    *out = (struct rollout_seconds){ .tensor = tensor, .engines = fmax(1, floor(gpus / tensor)) };
    double cap = rows_that_fit(&engine, gpu, share), rows = answers / out->engines;
    out->rows = cap;
    double mean_end = longest_of(r, rows), last_end = longest_of(r, answers);
    if (cap < 1) {
        out->decode = NAN;
        return;
    }
    // Answers to one prompt share its prefill.
    out->prefill = 2 * engine.active * r->prompts * r->prompt_length /
                   (gpus * compute_matmul_flops_per_s(gpu, products_of(r, gpu)));
    double mean = rollout_mean_length(r);
    if (r->async_steps > 1) { // rows of every age, of as many steps as may be under way
        double live = fmax(1, fmin(cap, rows * r->async_steps));
        out->decode = full_seconds(&engine, live, rows * mean, mean / 2);
    } else {
        out->decode = engine_seconds(&engine, rows, cap, mean_end);
        out->waiting = fmax(0, engine_seconds(&engine, rows, cap, last_end) - out->decode);
    }
    out->transfer = transfer_seconds(r, model, links);
    out->reward = answers * reward_seconds;
    if (r->transfer_measured > 0)
        out->transfer *= r->transfer_measured;
    if (r->measured > 0)
        out->prefill *= r->measured, out->decode *= r->measured, out->waiting *= r->measured;
}

double rollout_added(const struct rollout_seconds *s, const struct rollout *r,
                     double training_seconds)
{
    if (!r || !(r->async_steps > 0))
        return rollout_total(s);
    return fmax(0, rollout_total(s) - s->transfer - training_seconds) + s->transfer;
}

double rollout_sampling(const struct step_request *request, const struct gpu *gpu,
                        const struct links *links, double training_seconds)
{
    const struct rollout *r = request->passes.rollout;
    struct rollout_seconds seconds;
    rollout_time(&seconds, r, request->model, gpu, links, (double)layout_gpus(request->layout));
    if (isnan(seconds.decode))
        return INFINITY;
    return rollout_added(&seconds, r, training_seconds / r->efficiency) * r->efficiency;
}
