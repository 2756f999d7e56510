// SPDX-License-Identifier: Apache-2.0
// Counts the tensors that our own engine places, in its order and with its alignment.

#include "core/step/engine.h"

#include "base/attention_workspace.h"
#include "core/step/shared_base.h"

#include <math.h>
#include <string.h>

const double engine_card_share = 0.98;
const struct engine_device engine_cuda = { .padding = 64, .chunk_bytes = (int64_t)1 << 30 };

enum { ALIGNMENT = 256, PART_ALIGNMENT = 128 }; // bytes of a tensor; elements of a rank's part
enum { EXACT = 4 };                             // bytes of fp32
static const double MOST_TOKENS = 1e8;          // no card has room for more; the sums stay exact
enum { QKV, O, GATE, DOWN, EXPERT_GATE, EXPERT_DOWN, PRODUCTS };
static const enum model_layer kinds[] = { MODEL_DENSE, MODEL_SPARSE };
enum { KINDS = sizeof kinds / sizeof *kinds };
// Levels of recomputation, as recipe_checkpointing has them, and that of what backward does not
// read.
enum {
    NEVER = -1,
    KEEP_ALL = RECIPE_KEEP_ALL,
    AGAIN_NORMS = RECIPE_SELECTIVE,
    AGAIN_GATE = RECIPE_GATE,
    AGAIN_PROJECTIONS = RECIPE_PROJECTIONS,
    AGAIN_BLOCK = RECIPE_RECOMPUTE,
};

// Linears that read the same input, and so are one product with their adapters.
struct product {
    int64_t in, out;
    int64_t adapters; // linears that have one
    int64_t columns;  // of all their ranks, rounded up, where products read them
    int64_t outs[3];  // of each linear
    bool adapted[3], biased[3];
    int count;
};

struct layout_of {
    const struct step_request *r;
    struct engine_device device;
    struct product products[PRODUCTS];
    int64_t compute, state; // bytes of a value; of a gradient or moment
    int64_t tokens, rank;
    int level;
    int64_t lighter; // layers, the first ones, that recompute one level less
    bool full, quantized, fp8, bf16_states;
    bool sharded; // moments, and of full training masters, over ranks
    bool has_masters;
};

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t tensor(int64_t rows, int64_t columns, int64_t element)
{
    return round_up(rows * columns * element, ALIGNMENT);
}

// What ranks train begins at the same element of the values and of the gradients.
static int64_t trained(const struct layout_of *l, int64_t rows, int64_t columns, int64_t element)
{
    return tensor(1, round_up(rows * columns, l->r->layout->data > 1 ? PART_ALIGNMENT : 1),
                  element);
}

// A weight of the model, which full training trains.
static int64_t placed(const struct layout_of *l, int64_t rows, int64_t columns, int64_t element)
{
    return l->full ? trained(l, rows, columns, element) : tensor(rows, columns, element);
}

static int64_t layers_of(const struct layout_of *l, enum model_layer kind)
{
    return model_layers(l->r->model, kind);
}

// How often a layer of a kind has a product.
static int64_t times(const struct layout_of *l, int product, enum model_layer kind)
{
    bool of_experts = product >= EXPERT_GATE, sparse = kind == MODEL_SPARSE;
    return product <= O ? 1 : of_experts != sparse ? 0 : sparse ? l->r->model->experts : 1;
}

// Products that no layer has stay empty.
static void list_products(struct layout_of *l)
{
    enum { NAMES = 4 };
    static const char *const names[PRODUCTS][NAMES] = {
        { "q", "k", "v", "qkv" },
        { "o" },
        { "gate", "up", "gate_up" },
        { "down" },
        { "expert_gate", "expert_up", "expert_gate_up" },
        { "expert_down" },
    };
    struct model_linear linears[MODEL_LINEARS];
    for (int p = 0; p < PRODUCTS; p++) {
        enum model_layer kind = p >= EXPERT_GATE ? MODEL_SPARSE : MODEL_DENSE;
        size_t count = p <= O || layers_of(l, kind) ? model_linears(l->r->model, kind, linears) : 0;
        struct product *product = &l->products[p];
        for (int n = 0; n < NAMES && names[p][n]; n++)
            for (size_t i = 0; i < count; i++) {
                if (strcmp(linears[i].name, names[p][n]))
                    continue;
                bool adapted = !l->full && recipe_targets(l->r->recipe, &linears[i]);
                product->in = linears[i].in;
                product->out += linears[i].out;
                product->outs[product->count] = linears[i].out;
                product->biased[product->count] = linears[i].bias;
                product->adapted[product->count++] = adapted;
                product->adapters += adapted;
            }
        product->columns = round_up(product->adapters * l->rank, l->device.padding);
    }
}

static struct layout_of layout_for(const struct step_request *r, const struct engine_device *device)
{
    const struct recipe *recipe = r->recipe;
    bool wide = recipe->precision == RECIPE_FP32;
    struct model_linear head = model_head(r->model);
    bool only_layers = !recipe->trains_embeddings && !recipe_targets(recipe, &head);
    struct layout_of l = {
        .r = r,
        .device = *device,
        .compute = wide ? EXACT : 2,
        .tokens = (int64_t)fmin(ceil(r->batch.tokens), MOST_TOKENS),
        .rank = recipe->rank,
        .level = recipe->checkpointing == RECIPE_AUTO ? KEEP_ALL : recipe->checkpointing,
        .full = recipe->method == RECIPE_FULL,
        .quantized = recipe->method == RECIPE_QLORA,
        .fp8 = recipe->method == RECIPE_LORA && recipe->precision == RECIPE_FP8,
        .sharded =
            recipe->method == RECIPE_FULL ? r->layout->data > 1 : shared_base(r) && only_layers,
    };
    l.bf16_states = l.full && !wide && recipe->states == RECIPE_BF16;
    l.state = l.bf16_states ? 2 : EXACT;
    l.has_masters = !l.full || (!wide && !l.bf16_states);
    list_products(&l);
    return l;
}

// --- weights and states ------------------------------------------------------

// Codes of 4 bits; a scale for 64 weights; a scale for 256 scales; 256 levels and an offset.
static int64_t nf4_bytes(int64_t weights)
{
    int64_t blocks = (weights + 63) / 64;
    return tensor(1, (weights + 1) / 2, 1) + tensor(1, blocks, 1) +
           tensor(1, (blocks + 255) / 256, 4) + tensor(1, 256, 4) + tensor(1, 1, 4);
}

// Codes of 4 bits, and a power of two for 32 weights: of experts that are published so.
static int64_t mxfp4_bytes(int64_t weights)
{
    return tensor(1, (weights + 1) / 2, 1) + tensor(1, (weights + 31) / 32, 1);
}

static int64_t fp8_bytes(int64_t rows, int64_t columns)
{
    return tensor(rows, columns, 1) + tensor(rows, 1, 4);
}

// Codes of a row of so many weights, with those of its adapters after them (train/backend.h).
static int64_t code_columns(const struct layout_of *l, const struct product *p, int64_t columns)
{
    int64_t z_columns = p->adapters * l->rank;
    return z_columns ? round_up(columns + 3 * z_columns, 2 * l->device.padding) : columns;
}

static int64_t linear_bytes(const struct layout_of *l, const struct product *p)
{
    int64_t bytes = 0;
    if (l->quantized) {
        bool mxfp4 = p >= &l->products[EXPERT_GATE] && l->r->model->fused_gate_up;
        for (int i = 0; i < p->count; i++)
            bytes += (mxfp4 ? mxfp4_bytes : nf4_bytes)(p->outs[i] * p->in);
        return bytes;
    }
    if (l->fp8)
        return fp8_bytes(p->out, code_columns(l, p, p->in)) +
               fp8_bytes(p->in, code_columns(l, p, p->out));
    return placed(l, p->out + p->columns, p->in + p->columns, l->compute);
}

// Adapters in the compute type, where they do not lie in the linear's own block.
static int64_t beside_bytes(const struct layout_of *l, const struct product *p)
{
    return l->fp8 ? tensor(p->columns, p->in, l->compute) + tensor(p->out, p->columns, l->compute)
                  : 0;
}

// Masters, gradients or moments of a product's adapters: all first factors together, each second
// factor by itself, and magnitudes.
static int64_t adapter_bytes(const struct layout_of *l, const struct product *p, int64_t element)
{
    int64_t bytes = trained(l, p->adapters * l->rank, p->in, element);
    for (int i = 0; i < p->count; i++)
        bytes += p->adapted[i] ? trained(l, p->outs[i], l->rank, element) : 0;
    for (int i = 0; l->r->recipe->dora && i < p->count; i++)
        bytes += p->adapted[i] ? trained(l, 1, p->outs[i], element) : 0;
    return bytes;
}

// Norms, sinks, biases and the router of a layer.
static int64_t other_layer_bytes(const struct layout_of *l, enum model_layer kind, int64_t element)
{
    const struct model *m = l->r->model;
    int64_t layer = m->norms_per_layer * placed(l, 1, m->width, element);
    if (kind == MODEL_SPARSE)
        layer += placed(l, m->experts, m->width, element) +
                 (m->router_bias ? placed(l, 1, m->experts, element) : 0);
    if (m->attention_sinks)
        layer += placed(l, 1, m->heads, element);
    if (m->qk_norm == MODEL_QK_HEAD)
        layer += 2 * placed(l, 1, m->head_size, element);
    for (int p = 0; p < PRODUCTS; p++)
        for (int i = 0; i < l->products[p].count; i++)
            if (l->products[p].biased[i])
                layer += times(l, p, kind) * placed(l, 1, l->products[p].outs[i], element);
    return layer;
}

static int64_t embedding_bytes(const struct layout_of *l, int64_t element)
{
    return placed(l, l->r->model->vocabulary, l->r->model->width, element);
}

// The last norm and the head.
static int64_t end_bytes(const struct layout_of *l, int64_t element)
{
    const struct model *m = l->r->model;
    return placed(l, 1, m->width, element) + (m->tied_embeddings ? 0 : embedding_bytes(l, element));
}

// All but the linears of the layers.
static int64_t other_bytes(const struct layout_of *l, int64_t element)
{
    int64_t bytes = embedding_bytes(l, element) + end_bytes(l, element);
    for (int i = 0; i < KINDS; i++)
        bytes += layers_of(l, kinds[i]) * other_layer_bytes(l, kinds[i], element);
    return bytes;
}

static int64_t trained_layer_bytes(const struct layout_of *l, enum model_layer kind,
                                   int64_t element)
{
    int64_t layer = l->full ? other_layer_bytes(l, kind, element) : 0;
    for (int i = 0; i < PRODUCTS; i++) {
        const struct product *p = &l->products[i];
        layer += times(l, i, kind) *
                 (l->full ? placed(l, p->out, p->in, element) : adapter_bytes(l, p, element));
    }
    return layer;
}

// Embedding and head, where they are trained beside adapters.
static int64_t beside_adapters_bytes(const struct layout_of *l, int64_t element)
{
    const struct model *m = l->r->model;
    return l->full || !l->r->recipe->trains_embeddings
               ? 0
               : 2 * trained(l, m->vocabulary, m->width, element);
}

// The factors of an adapter on the head, which lie apart.
static int64_t head_adapter_bytes(const struct layout_of *l, int64_t element)
{
    struct model_linear head = model_head(l->r->model);
    return l->full || !recipe_targets(l->r->recipe, &head)
               ? 0
               : trained(l, l->rank, head.in, element) + trained(l, head.out, l->rank, element);
}

// Of everything that is trained, in values of this size.
static int64_t trained_bytes(const struct layout_of *l, int64_t element)
{
    int64_t bytes = l->full ? embedding_bytes(l, element) + end_bytes(l, element)
                            : beside_adapters_bytes(l, element) + head_adapter_bytes(l, element);
    for (int i = 0; i < KINDS; i++)
        bytes += layers_of(l, kinds[i]) * trained_layer_bytes(l, kinds[i], element);
    return bytes;
}

// Elements of a row that the first rank keeps; no other keeps more.
static int64_t part_of(const struct layout_of *l, int64_t all)
{
    int64_t each = (all + l->r->layout->data - 1) / l->r->layout->data;
    return smaller(round_up(each, PART_ALIGNMENT), all);
}

// A rank's part of what all of them share, or all. Adapters are one piece that is cut into parts;
// of full training each layer is one, and what lies before and after the layers.
static int64_t state_bytes(const struct layout_of *l)
{
    if (!l->sharded)
        return trained_bytes(l, l->state);
    if (!l->full)
        return tensor(1, part_of(l, trained_bytes(l, l->state) / l->state), l->state);
    int64_t kept = part_of(l, embedding_bytes(l, l->state) / l->state) +
                   part_of(l, end_bytes(l, l->state) / l->state);
    for (int i = 0; i < KINDS; i++)
        kept += layers_of(l, kinds[i]) *
                part_of(l, trained_layer_bytes(l, kinds[i], l->state) / l->state);
    return tensor(1, kept, l->state);
}

static int64_t layer_bytes(const struct layout_of *l, enum model_layer kind)
{
    int64_t bytes = 0;
    for (int i = 0; i < PRODUCTS; i++)
        bytes += times(l, i, kind) * linear_bytes(l, &l->products[i]);
    return bytes;
}

static int64_t beside_layer_bytes(const struct layout_of *l, enum model_layer kind)
{
    int64_t bytes = 0;
    for (int i = 0; i < PRODUCTS; i++)
        bytes += times(l, i, kind) * beside_bytes(l, &l->products[i]);
    return bytes;
}

// Elements of a shared layer that a rank keeps. Only layers of one kind are shared.
static int64_t layer_part(const struct layout_of *l)
{
    enum model_layer kind = layers_of(l, MODEL_SPARSE) ? MODEL_SPARSE : MODEL_DENSE;
    return part_of(l, layer_bytes(l, kind) / EXACT);
}

// The linears of all layers. A rank that shares them keeps its part of each layer, and two whole
// ones, the present and the next, in the workspace.
static int64_t count_linears(struct engine_bytes *out, const struct layout_of *l)
{
    int64_t bytes = 0, part = layer_part(l);
    bool shared = shared_base(l->r);
    for (int i = 0; i < KINDS; i++)
        bytes += layers_of(l, kinds[i]) *
                 (beside_layer_bytes(l, kinds[i]) + (shared ? 0 : layer_bytes(l, kinds[i])));
    if (!shared)
        return bytes;
    out->scratch += 2 * tensor(1, part * l->r->layout->data, EXACT);
    return bytes + tensor(l->r->model->layers, part, EXACT);
}

static void count_weights(struct engine_bytes *out, const struct layout_of *l)
{
    *(l->full        ? &out->trained
      : l->quantized ? &out->quantized
                     : &out->frozen) += count_linears(out, l);
    *(l->full ? &out->trained : &out->frozen) += other_bytes(l, l->compute);
    out->trained += beside_adapters_bytes(l, l->compute) + head_adapter_bytes(l, l->compute);
    if (!l->full && l->r->recipe->trains_embeddings)
        out->frozen -= 2 * embedding_bytes(l, l->compute);
    out->masters = !l->has_masters ? 0 : l->full ? state_bytes(l) : trained_bytes(l, EXACT);
    if (l->compute == EXACT) // adapters alone are copied into the product's block
        out->masters -= beside_adapters_bytes(l, EXACT);
    out->gradients = trained_bytes(l, l->state);
    out->moments = (l->r->recipe->optimizer == RECIPE_SGD ? 0 : 2) * state_bytes(l);
}

// --- activations and workspace -----------------------------------------------

// A tensor of one layer: kept for backward up to a level, which may differ between layers with and
// without experts; beyond it shared by all layers.
struct slot {
    int dense, sparse;
    int64_t rows, columns, element;
};
enum { ALWAYS = AGAIN_BLOCK, ABSENT = NEVER - 1, SLOTS = 24 };

static int64_t expert_rows(const struct layout_of *l)
{
    return l->tokens * l->r->model->experts_active;
}

// Until which level the input of a product is kept: backward reads it where the product is trained.
static int input_level(const struct layout_of *l, int product)
{
    return l->full || l->products[product].columns ? KEEP_ALL : NEVER;
}

static int list_slots(struct slot *out, const struct layout_of *l)
{
    const struct model *m = l->r->model;
    int64_t T = l->tokens, N = expert_rows(l), C = m->width, F = m->ffn_width, value = l->compute;
    int64_t Q = model_query_width(m), K = model_key_width(m), E = m->experts, X = m->expert_width;
    const struct product *p = l->products;
    bool normed = m->qk_norm == MODEL_QK_HEAD, added = m->norms_per_layer > 2;
    int to_qkv = input_level(l, QKV), to_gate = input_level(l, GATE),
        to_down = input_level(l, DOWN);
    int to_router = l->full ? KEEP_ALL : NEVER;
    int to_experts = input_level(l, EXPERT_GATE), to_expert_down = input_level(l, EXPERT_DOWN);
    const struct slot slots[SLOTS] = {
        // dense, sparse; rows, columns, bytes of an element
        { ALWAYS, ALWAYS, T, C, value },                            // the layer's input
        { ALWAYS, ALWAYS, T, 1, EXACT },                            // statistics of both norms
        { ALWAYS, ALWAYS, T, 1, EXACT },                            //
        { to_qkv, to_qkv, T, C + p[QKV].columns, value },           // outputs of the norms
        { to_gate, to_router, T, C + p[GATE].columns, value },      //
        { to_down, ABSENT, T, F + p[DOWN].columns, value },         // the activation function's
        { AGAIN_NORMS, ABSENT, T, 2 * F + p[GATE].columns, value }, // gate and up
        { AGAIN_GATE, AGAIN_GATE, T, Q + 2 * K, value },            // q, k, v
        { AGAIN_PROJECTIONS, AGAIN_PROJECTIONS, T, Q + p[O].columns, value }, // attention's output
        { AGAIN_PROJECTIONS, AGAIN_PROJECTIONS, T, m->heads, EXACT }, // its logarithms of sums
        { AGAIN_GATE, AGAIN_GATE, T, C, value },                      // the stream in the middle
        { KEEP_ALL, KEEP_ALL, T, normed ? Q + K : 0, value },         // normalised q and k
        { ALWAYS, ALWAYS, T, normed ? m->heads : 0, EXACT },          // statistics of their norms
        { ALWAYS, ALWAYS, T, normed ? m->kv_heads : 0, EXACT },       //
        { AGAIN_GATE, AGAIN_GATE, T, added ? C : 0,
          value },                                   // what attention adds, before its norm,
        { ALWAYS, ALWAYS, T, added ? C : 0, value }, // and the feed-forward network
        { ALWAYS, ALWAYS, T, added, EXACT },         // statistics of these norms
        { ALWAYS, ALWAYS, T, added, EXACT },         //
        { ABSENT, ALWAYS, 1, 3 * N + E, 4 },         // the choice of experts
        { ABSENT, ALWAYS, T, E, EXACT },             // their probabilities
        { ABSENT, ALWAYS, N, 1, EXACT },             // weights of the rows
        { ABSENT, to_experts, N, C + p[EXPERT_GATE].columns, value },      // copies of the tokens
        { ABSENT, AGAIN_NORMS, N, 2 * X + p[EXPERT_GATE].columns, value }, // gate and up
        { ABSENT, to_expert_down, N, X + p[EXPERT_DOWN].columns,
          value }, // the activation function's
    };
    memcpy(out, slots, sizeof slots);
    return SLOTS;
}

// Low-rank activations lie beside the input of their product; a layer that recomputes this input
// and not them keeps a copy. Experts compute them again.
static int64_t low_rank_bytes(const struct layout_of *l, int level, enum model_layer kind)
{
    static const int until[] = {
        [QKV] = AGAIN_PROJECTIONS, [O] = AGAIN_NORMS, [GATE] = AGAIN_GATE, [DOWN] = AGAIN_BLOCK + 1
    };
    int64_t bytes = 0;
    for (int i = 0; i <= DOWN; i++)
        if (level >= AGAIN_NORMS && level < until[i])
            bytes += times(l, i, kind) * tensor(l->tokens, l->products[i].columns, l->compute);
    return bytes;
}

// Layers by their level, the recipe's or one less, and by their kind.
enum { USUAL, LIGHTER, LEVELS };

static int level_of(const struct layout_of *l, int64_t layer)
{
    return layer < l->lighter ? LIGHTER : USUAL;
}

// Of what layers keep. Offloaded ones have two places in turn, as large as the largest layer that
// is there, and the last two are not copied.
static void count_layers(struct engine_bytes *out, const struct layout_of *l,
                         int64_t kept[LEVELS][KINDS])
{
    enum { PLACES = 2 };
    int64_t layers = l->r->model->layers, all = 0, places[PLACES] = { 0 };
    for (int64_t i = 0; i < layers; i++) {
        int64_t bytes = kept[level_of(l, i)][model_layer(l->r->model, i)];
        all += bytes;
        out->host += i < layers - PLACES ? bytes : 0;
        places[i % PLACES] = larger(places[i % PLACES], bytes);
    }
    if (l->r->layout->offload_activations)
        all = places[0] + places[1];
    else
        out->host = 0;
    out->activations += all;
}

static void count_activations(struct engine_bytes *out, const struct layout_of *l)
{
    struct slot slots[SLOTS];
    int64_t kept[LEVELS][KINDS];
    bool has[LEVELS][KINDS] = { 0 };
    for (int64_t i = 0; i < l->r->model->layers; i++)
        has[level_of(l, i)][model_layer(l->r->model, i)] = true;
    for (int i = 0; i < LEVELS; i++)
        for (int kind = 0; kind < KINDS; kind++)
            kept[i][kind] = low_rank_bytes(l, l->level - i, (enum model_layer)kind);
    for (int s = list_slots(slots, l); s-- > 0;) {
        int64_t bytes = tensor(slots[s].rows, slots[s].columns, slots[s].element);
        const int until[KINDS] = {
            [MODEL_DENSE] = slots[s].dense, [MODEL_SPARSE] = slots[s].sparse
        };
        bool shared = false; // by layers that do not keep it
        for (int i = 0; i < LEVELS; i++)
            for (int kind = 0; kind < KINDS; kind++) {
                bool keeps = l->level - i <= until[kind];
                kept[i][kind] += keeps ? bytes : 0;
                shared |= has[i][kind] && until[kind] != ABSENT && !keeps;
            }
        out->scratch += shared ? bytes : 0;
    }
    count_layers(out, l, kept);
    out->activations +=
        tensor(l->tokens, l->r->model->width, l->compute) + tensor(l->tokens, 1, EXACT);
}

// Rows whose logits exist at once.
static int64_t head_rows(const struct layout_of *l)
{
    enum { LEAST = 64, STEP = 128 };
    int64_t rows = l->device.chunk_bytes / (l->r->model->vocabulary * l->compute);
    rows = larger(rows > STEP ? rows - rows % STEP : rows, LEAST);
    return rows < l->tokens ? rows : larger(l->tokens, 1);
}

static int64_t block_elements(const struct product *p)
{
    return (p->in + p->columns) * (p->out + p->columns);
}

// Experts that are unpacked together.
static int64_t at_once(const struct layout_of *l)
{
    const struct product *p = l->products;
    int64_t most = larger(block_elements(&p[EXPERT_GATE]), block_elements(&p[EXPERT_DOWN]));
    int64_t fit = l->device.chunk_bytes / (larger(most, 1) * l->compute);
    return smaller(larger(fit, 1), l->r->model->experts);
}

static int64_t widest_bytes(const struct layout_of *l)
{
    int64_t widest_in = 0, widest_out = 0, largest = 0, bytes = 0, codes = 0, z_columns = 0;
    const struct product *experts = &l->products[EXPERT_GATE];
    bool on_experts = experts[0].columns + experts[1].columns > 0;
    for (int i = 0; i < PRODUCTS; i++) {
        const struct product *p = &l->products[i];
        codes = larger(codes, code_columns(l, p, larger(p->in, p->out)));
        z_columns = larger(z_columns, p->adapters * l->rank);
        widest_in = larger(widest_in, p->in);
        widest_out = larger(widest_out, p->out);
        largest = larger(largest, (i >= EXPERT_GATE ? at_once(l) : 1) * block_elements(p));
    }
    if (!l->full && l->r->recipe->dropout > 0)
        bytes += 2 * tensor(on_experts ? expert_rows(l) : l->tokens, widest_in, l->compute);
    if (l->quantized || l->fp8)
        bytes += tensor(1, largest, l->compute); // a product's block, unpacked
    if (l->r->recipe->dora && !l->full) // outputs before their magnitudes, and lengths of rows
        bytes += tensor(l->tokens, widest_out, l->compute) + tensor(1, widest_out, EXACT);
    return bytes + (l->fp8 ? fp8_bytes(l->tokens, codes) + tensor(1, z_columns, 4) : 0);
}

// Of the routers and experts.
static int64_t expert_scratch(const struct layout_of *l)
{
    const struct model *m = l->r->model;
    int64_t N = expert_rows(l);
    if (!layers_of(l, MODEL_SPARSE))
        return 0;
    return tensor(l->tokens, m->experts, l->compute) + // logits
           tensor(N, m->width + l->products[EXPERT_DOWN].columns, l->compute) +
           tensor(N, m->expert_width, l->compute) + tensor(N, 1, EXACT); // gradients
}

static void count_scratch(struct engine_bytes *out, const struct layout_of *l)
{
    const struct model *m = l->r->model;
    const struct product *p = l->products;
    int64_t T = l->tokens, C = m->width, Q = model_query_width(m), K = model_key_width(m);
    int64_t added = C + larger(p[O].columns, p[DOWN].columns);
    bool scaled = m->family && !strcmp(m->family, "granite");
    bool changed = m->norms_per_layer > 2 || scaled || (l->r->recipe->dora && !l->full);
    const int64_t columns[] = {
        C,                          // the last norm's output
        C,                          // a branch
        C,                          // rows that have a label
        C,                          // their gradients
        added,                      // gradients of the residual stream,
        changed ? added : 0,        // of what a layer adds, before its norm, scale or magnitudes,
        Q + 2 * K + p[QKV].columns, // of q, k, v,
        Q,                          // of attention,
        layers_of(l, MODEL_DENSE) ? m->ffn_width : 0, // of the activation function
    };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        out->scratch += tensor(T, columns[i], l->compute);
    out->scratch += tensor(T, 1, EXACT) + expert_scratch(l) + widest_bytes(l); // losses
    out->scratch += 4 * tensor(T, 1, 4) + tensor(T, 2, 4); // ids, positions, rows, targets; spans
    out->scratch += tensor(2, larger(m->head_size / 2, 1), 8) + 3 * tensor(1, 1, 8);
    out->logits = tensor(head_rows(l), m->vocabulary, l->compute);
    if (head_adapter_bytes(l, 1)) // its z and dz
        out->scratch += 2 * tensor(head_rows(l), l->rank, l->compute);
}

static struct engine_bytes bytes_of(const struct layout_of *l)
{
    struct engine_bytes out = { 0 };
    count_weights(&out, l);
    count_activations(&out, l);
    count_scratch(&out, l);
    return out;
}

struct engine_bytes engine_bytes(const struct step_request *request,
                                 const struct engine_device *device)
{
    struct layout_of l = layout_for(request, device);
    return bytes_of(&l);
}

static int64_t total_of(const struct layout_of *l)
{
    struct engine_bytes b = bytes_of(l);
    return b.frozen + b.quantized + b.trained + b.masters + b.gradients + b.moments +
           b.activations + b.logits + b.scratch;
}

struct engine_fill engine_fill(const struct step_request *request,
                               const struct engine_device *device, double budget_bytes,
                               double attention_bytes)
{
    enum { CHUNK_LEAST = 16 << 20, CHUNK_SHARE = 16 }; // of train/transformer.c
    struct layout_of l = layout_for(request, device);
    int64_t *chunk = &l.device.chunk_bytes;
    double room = budget_bytes - attention_bytes;
    while ((double)*chunk * CHUNK_SHARE > budget_bytes && *chunk > CHUNK_LEAST)
        *chunk /= 2;
    for (l.level = KEEP_ALL; l.level < AGAIN_BLOCK && (double)total_of(&l) > room;)
        l.level++;
    int64_t low = 0, high = l.level > KEEP_ALL ? request->model->layers : 1; // fits; does not
    while (high - low > 1) {
        l.lighter = (low + high) / 2;
        *((double)total_of(&l) <= room ? &low : &high) = l.lighter;
    }
    l.lighter = low;
    while ((double)total_of(&l) > room && *chunk > CHUNK_LEAST)
        *chunk /= 2;
    return (struct engine_fill){ l.level, l.lighter, total_of(&l) };
}

struct engine_traffic engine_traffic(const struct step_request *request,
                                     const struct engine_device *device)
{
    struct layout_of l = layout_for(request, device);
    int64_t gradients = trained_bytes(&l, l.state);
    return (struct engine_traffic){ .gradients = gradients,
                                    .weights = !l.sharded ? 0
                                               : l.full   ? gradients / l.state * l.compute
                                                          : gradients,
                                    .layer = layer_part(&l) * request->layout->data * EXACT };
}

bool engine_trains(const struct model *m)
{
    bool llama = !m->kv_lora_rank && m->gated && m->norm == MODEL_RMS_NORM &&
                 (m->norms_per_layer == 2 || m->norms_per_layer == 4) &&
                 m->qk_norm != MODEL_QK_WIDTH && !m->parallel;
    const bool of_gpt_oss[] = { m->router_bias, m->mlp_bias, m->out_bias, m->attention_sinks,
                                m->fused_gate_up };
    int found = 0, all = sizeof of_gpt_oss / sizeof *of_gpt_oss;
    for (int i = 0; i < all; i++)
        found += of_gpt_oss[i];
    bool shared = m->shared_experts || m->shared_width;
    return llama && (!m->experts || (!shared && (!found || found == all)));
}

bool engine_adapts(const struct model *model, const struct recipe *recipe)
{
    struct model_linear linears[MODEL_LINEARS];
    bool stacked = model->experts && model->fused_gate_up;
    size_t count = stacked && recipe->dropout > 0 ? model_linears(model, MODEL_SPARSE, linears) : 0;
    for (size_t i = 0; i < count; i++)
        if (linears[i].role == MODEL_EXPERT && recipe_targets(recipe, &linears[i]))
            return false;
    return true;
}

bool engine_runs(const struct step_request *r)
{
    const struct layout *layout = r->layout;
    const struct recipe *recipe = r->recipe;
    bool alone = layout->tensor == 1 && layout->context == 1 && layout->pipeline == 1 &&
                 layout->expert == 1 && !layout->offload_optimizer && !layout->offload_weights;
    bool supervised =
        !(r->passes.frozen_copies > 0) && !(r->passes.critic > 0) && !(r->batch.images.tokens > 0);
    bool fp8 = recipe->precision == RECIPE_FP8;
    bool typed = recipe->precision == RECIPE_BF16 || recipe->precision == RECIPE_FP32 ||
                 (fp8 && recipe->method == RECIPE_LORA && !r->model->experts);
    bool optimized = recipe->optimizer == RECIPE_ADAMW || recipe->optimizer == RECIPE_SGD;
    struct model_linear head = model_head(r->model);
    bool headed = recipe->method == RECIPE_FULL || !r->model->tied_embeddings ||
                  (!recipe->trains_embeddings && !recipe_targets(recipe, &head));
    return stack_is_engine(r->stack) && headed && engine_trains(r->model) && alone && supervised &&
           typed && optimized && engine_adapts(r->model, recipe);
}

struct engine_attention engine_attention(const struct step_request *r, double device_bytes,
                                         bool is_hopper)
{
    const struct model *model = r->model;
    double tensor = (double)r->layout->tensor;
    struct attention_shape shape = {
        .tokens = (int64_t)ceil(r->batch.tokens / (double)r->layout->context),
        .longest = (int64_t)ceil(r->batch.width),
        .heads = (int64_t)fmax(1, (double)model->heads / tensor),
        .kv_heads = (int64_t)fmax(1, (double)model->kv_heads / tensor),
        .head_size = model->head_size,
        .any_order = r->recipe->nondeterministic,
        .own_kernel = is_hopper,
    };
    struct engine_attention out = { ENGINE_CUDNN, ENGINE_CUDNN, 0, false };
    bool is_bf16 = r->recipe->precision == RECIPE_BF16 || recipe_is_small(r->recipe);
    int64_t window = model_full_attention_layers(model) > 0 ? 0 : model->sliding_window;
    if (!r->stack->attention_workspace || !is_bf16 || !isfinite(device_bytes))
        return out;
    if (model_caps_scores(model) || !attention_has_plan(window, shape.longest, shape.head_size))
        return (struct engine_attention){ ENGINE_BUILT_IN, ENGINE_BUILT_IN, 0, false };
    int64_t length = attention_length(shape.longest);
    int64_t room = attention_room(&shape, attention_room_most((int64_t)device_bytes, is_hopper));
    int64_t part = attention_part(&shape, length, room);
    int64_t documents = (int64_t)fmax(1, r->batch.tokens / r->batch.width);
    bool is_own = attention_is_own(&shape) &&
                  attention_own_heads(&shape, attention_own_blocks(shape.tokens, documents), room);
    out.backward = is_own          ? ENGINE_HOPPER
                   : !part         ? ENGINE_BUILT_IN
                   : part < length ? ENGINE_CUDNN_IN_PARTS
                                   : ENGINE_CUDNN;
    out.workspace = (double)room;
    out.even = r->layout->context == 1 && r->batch.squares == r->batch.tokens * r->batch.width &&
               r->batch.width == (double)length;
    return out;
}
