// SPDX-License-Identifier: Apache-2.0
// The whole model against differences, against itself at other levels, and against its plan.

#include "test/core/knowledge.h"
#include "test/train/tiny.h"

static const int32_t mixed_sizes[] = { 1, 2, 7, 24 };

struct tiny_case {
    struct transformer *t;
    const struct micro_batch *batch;
    struct parameter *p;
    struct tensor x; // its numbers that are computed with
    const double *direction;
    double *before;
    double at; // along the direction
};

static double element_loss(void *context)
{
    struct tiny_case *c = context;
    return tiny_loss(c->t, c->batch);
}

static double direction_loss(void *context)
{
    struct tiny_case *c = context;
    for (int64_t i = 0; i < tensor_count(c->x); i++)
        *gradient_at(c->x, i) = c->before[i] + c->at * c->direction[i];
    return tiny_loss(c->t, c->batch);
}

// Along a random direction through all elements of a weight, and for some elements alone.
static void check_parameter(struct tiny_case *c)
{
    c->x = c->p->value.at ? c->p->value : c->p->master;
    int64_t count = tensor_count(c->x);
    struct tensor direction = gradient_random(1, count, 77), before = gradient_random(1, count, 0);
    for (int64_t i = 0; i < count; i++) {
        ((double *)before.at)[i] = *gradient_at(c->x, i);
        ((double *)direction.at)[i] /= sqrt((double)count); // of length one
    }
    c->direction = direction.at;
    c->before = before.at;
    double exact = gradient_dot(direction, tensor_flat(c->p->gradient));
    c->at = 0;
    double measured = gradient_difference(&c->at, direction_loss, c);
    c->at = 0;
    direction_loss(c); // puts it back
    double size = sqrt(gradient_dot(c->p->gradient, c->p->gradient));
    test_check(fabs(exact - measured) < GRADIENT_BOUND * fmax(size, fabs(exact)),
               "the difference along a direction is the gradient", c->p->name, 0);
    int64_t between = count / (TEST_UNDER_SANITIZER ? 2 : 5) + 1;
    test_check(gradient_error(c->x, c->p->gradient, between, element_loss, c) < GRADIENT_BOUND,
               "differences of elements are the gradient", c->p->name, 0);
}

static void check_model(struct tiny *tiny, uint64_t dropout_key)
{
    struct transformer *t = tiny_open(tiny);
    struct micro_batch batch = tiny_batch(mixed_sizes, 4, 5);
    batch.key = dropout_key;
    struct tiny_case c = { .t = t, .batch = &batch };
    tiny_pass(t, &batch, 1);
    int trained = 0;
    for (size_t i = 0; i < t->parameter_count; i++) {
        c.p = &t->parameters[i];
        if (!c.p->gradient.at)
            continue;
        if (tiny->recipe.dora && c.p->start != PARAMETER_NORMS)
            continue; // factors change lengths, which are taken for constants: not differences
        trained++;
        check_parameter(&c);
    }
    CHECK(trained > 0);
    transformer_release(t);
}

TEST(transformer_full_gradients_are_those_of_the_loss)
{
    static const char *const kinds[] = { "llama",  "qwen2",       "qwen3",   "phi3",   "gemma",
                                         "gemma2", "gemma3_text", "smollm3", "granite" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct tiny *tiny = tiny_make(kinds[i]);
        tiny->recipe.method = RECIPE_FULL;
        check_model(tiny, 0);
    }
}

TEST(transformer_adapter_gradients_are_those_of_the_loss)
{
    struct tiny *windowed = tiny_make("mistral");
    CHECK(decoder_window(&windowed->decoder, 1) == 5);
    check_model(windowed, 0);
    struct tiny *dropping = tiny_make("qwen2");
    dropping->recipe.dropout = 0.2;
    check_model(dropping, 9);
    struct tiny *some = tiny_make("llama");
    some->recipe.targets = "q,down";
    check_model(some, 0);
    struct tiny *quantized = tiny_make("qwen3");
    quantized->recipe.method = RECIPE_QLORA;
    check_model(quantized, 0);
    struct tiny *fused = tiny_make("phi3");
    fused->recipe.dropout = 0.2;
    check_model(fused, 9);
    struct tiny *magnified = tiny_make("qwen2"); // with biases
    magnified->recipe.dora = true;
    magnified->recipe.targets = "q,v,o,gate,down";
    check_model(magnified, 0);
    struct tiny *whole = tiny_make("llama");
    whole->recipe.trains_embeddings = true;
    whole->recipe.targets = "attention";
    check_model(whole, 0);
    check_model(tiny_make("granite"), 0);
    struct tiny *headed = tiny_make("qwen2");
    headed->recipe.method = RECIPE_QLORA;
    headed->recipe.targets = "v,down,head";
    check_model(headed, 0);
    struct tiny *normed = tiny_make("gemma2");
    normed->recipe.method = RECIPE_QLORA;
    check_model(normed, 0);
}

// Every expert computes every token: no difference changes a choice, which has no gradient. What is
// chosen, and with which weight, is held against transformers (test_goldens.c).
static struct tiny *smooth_mixture(const char *kind, int method)
{
    struct tiny *tiny = tiny_make(kind);
    tiny->recipe.method = method;
    tiny->decoder.model.experts_active = tiny->decoder.model.experts;
    return tiny;
}

TEST(transformer_gradients_of_experts_are_those_of_the_loss)
{
    check_model(smooth_mixture("qwen3_moe", RECIPE_FULL), 0);
    struct tiny *dropping = smooth_mixture("qwen3_moe", RECIPE_LORA);
    dropping->recipe.dropout = 0.2;
    check_model(dropping, 9);
    check_model(smooth_mixture("mixtral", RECIPE_QLORA), 0);
    check_model(smooth_mixture("gpt_oss", RECIPE_FULL), 0); // with biases, and sinks of attention
    check_model(smooth_mixture("gpt_oss", RECIPE_LORA), 0);
    check_model(smooth_mixture("gpt_oss", RECIPE_QLORA), 0);
}

// --- bitwise -----------------------------------------------------------------

static struct tensor copied_gradients(struct tiny *tiny)
{
    struct transformer *t = tiny_open(tiny);
    struct micro_batch batch = tiny_batch(mixed_sizes, 4, 5);
    batch.key = 9;
    tiny_pass(t, &batch, 0.1);
    struct tensor all = transformer_gradients(t);
    struct tensor out = gradient_tensor(all.dtype, 1, all.columns);
    memcpy(out.at, all.at, (size_t)tensor_bytes(all));
    transformer_release(t);
    return out;
}

// Two pairs of answers; the reference is the same weights without the adapters.
static struct tiny *tiny_pairs(struct tiny *tiny)
{
    tiny->setup.beta = 0.3;
    tiny->decoder.balance = 0;
    return tiny;
}

TEST(transformer_gradients_of_pairs_are_those_of_their_loss)
{
    struct tiny *dropping = tiny_pairs(tiny_make("qwen2"));
    dropping->recipe.dropout = 0.2;
    check_model(dropping, 9);
    struct tiny *quantized = tiny_pairs(tiny_make("qwen3"));
    quantized->recipe.method = RECIPE_QLORA;
    check_model(quantized, 0);
    check_model(tiny_pairs(smooth_mixture("mixtral", RECIPE_LORA)), 0);
}

// The reference skips adapters instead of computing with zeros: with any adapters it is the model
// as it was before they were trained.
TEST(transformer_reference_of_pairs_is_the_model_with_adapters_that_do_nothing)
{
    static const char *const kinds[] = { "llama", "mixtral" };
    for (int i = 0; i < 2; i++) {
        struct tiny *tiny = tiny_pairs(tiny_make(kinds[i]));
        tiny->setup.compute = DTYPE_F32;
        struct transformer *t = tiny_open(tiny);
        struct micro_batch batch = tiny_batch(mixed_sizes, 4, 5);
        CHECK(fabs(tiny_loss(t, &batch) - 2 * log(2)) > 1e-3); // their adapters do something
        transformer_random_weights(t, 3);                      // second factors are zeros
        CHECK_NEAR(tiny_loss(t, &batch), 2 * log(2), 1e-6);
        CHECK(fabs(t->preferences.chosen) < 1e-5 && t->preferences.pairs == 2);
        transformer_release(t);
    }
}

// As on a GPU, where the ranks of a projection together are rounded up.
static void check_padding(const char *kind, int method)
{
    struct device *device = gradient_device();
    struct micro_batch batch = tiny_batch(mixed_sizes, 4, 5);
    struct tiny *narrow = tiny_make(kind), *wide = tiny_make(kind);
    narrow->recipe.method = wide->recipe.method = method;
    struct transformer *a = tiny_open(narrow);
    device->padding = 64;
    struct transformer *b = tiny_open(wide);
    device->padding = 1;
    struct tensor workspace = b->scratch.unpacked; // whatever lies there: not a number
    if (workspace.at)
        memset(workspace.at, 0xFF, (size_t)tensor_bytes(workspace));
    CHECK_NEAR(tiny_pass(a, &batch, 1), tiny_pass(b, &batch, 1), 1e-12);
    struct tensor x = transformer_gradients(a), y = transformer_gradients(b);
    CHECK(x.columns == y.columns);
    for (int64_t i = 0; i < x.columns; i++)
        CHECK_NEAR(*gradient_at(x, i), *gradient_at(y, i), 1e-9);
    for (int kept = BLOCKS_TRAINABLES; kept <= BLOCKS_OPTIMIZER; kept++)
        CHECK(a->blocks.bytes[kept] == b->blocks.bytes[kept]);
    transformer_release(a);
    transformer_release(b);
}

TEST(transformer_pads_ranks_without_a_trace_in_losses_gradients_and_states)
{
    for (int method = RECIPE_LORA; method <= RECIPE_QLORA; method++) {
        check_padding("llama", method);
        check_padding("qwen3_moe", method);
        check_padding("gpt_oss", method);
        check_padding("gemma2", method);
    }
}

// Between steps tuning tries products where activations lie (transformer_tune.c).
static void check_other_activations(const char *kind, int method, enum recompute level,
                                    double dropout, bool dora)
{
    struct device *device = gradient_device();
    struct micro_batch batch = tiny_batch(mixed_sizes, 4, 5);
    struct transformer *t[2];
    device->padding = 64;
    for (int i = 0; i < 2; i++) {
        struct tiny *tiny = tiny_make(kind);
        tiny->recipe.method = method;
        tiny->recipe.dropout = dropout;
        tiny->recipe.dora = dora;
        tiny->setup.level = level;
        batch.key = dropout > 0 ? 7 : 0;
        t[i] = tiny_open(tiny);
    }
    device->padding = 1;
    const struct blocks *blocks = &t[1]->blocks;
    memset(blocks->at[BLOCKS_ACTIVATIONS], 0xFF, (size_t)blocks->bytes[BLOCKS_ACTIVATIONS]);
    CHECK(tiny_pass(t[0], &batch, 1) == tiny_pass(t[1], &batch, 1));
    struct tensor x = transformer_gradients(t[0]), y = transformer_gradients(t[1]);
    CHECK(!memcmp(x.at, y.at, (size_t)tensor_bytes(x)));
    for (int i = 0; i < 2; i++)
        transformer_release(t[i]);
}

TEST(transformer_steps_do_not_depend_on_what_lay_in_the_activations_before)
{
    static const char *const kinds[] = { "llama", "qwen3", "qwen3_moe", "gpt_oss", "gemma2" };
    for (int i = 0; i < 5; i++)
        for (int level = RECOMPUTE_NONE; level < RECOMPUTE_LEVELS; level++) {
            check_other_activations(kinds[i], RECIPE_LORA, (enum recompute)level, 0, false);
            check_other_activations(kinds[i], RECIPE_QLORA, (enum recompute)level, 0, false);
            check_other_activations(kinds[i], RECIPE_FULL, (enum recompute)level, 0, false);
        }
    check_other_activations("llama", RECIPE_LORA, RECOMPUTE_NORMS, 0.2, false);
    check_other_activations("qwen3_moe", RECIPE_LORA, RECOMPUTE_NONE, 0.2, false);
    check_other_activations("llama", RECIPE_LORA, RECOMPUTE_NONE, 0, true);
}

TEST(transformer_unpacks_experts_one_by_one_or_all_together_to_the_same_bits)
{
    struct device *device = gradient_device();
    int64_t before = device->chunk_bytes;
    for (int drops = 0; drops < 2; drops++) {
        struct tiny *tiny = tiny_make("qwen3_moe");
        tiny->recipe.method = RECIPE_QLORA;
        tiny->recipe.dropout = drops ? 0.2 : 0;
        tiny->setup.compute = DTYPE_F32;
        struct tensor together = copied_gradients(tiny);
        device->chunk_bytes = 1; // an expert at a time
        struct tensor alone = copied_gradients(tiny);
        device->chunk_bytes = before;
        CHECK(!memcmp(together.at, alone.at, (size_t)tensor_bytes(alone)));
    }
}

// What is trained, and how: the same bits are wanted at every level of recomputation.
struct trained {
    const char *kind;
    int method;
    enum dtype compute;
    double beta;         // of DPO
    const char *targets; // NULL: tiny's own
};

static struct tensor gradients_at(const struct trained *how, enum recompute level, double *loss)
{
    struct tiny *tiny = tiny_make(how->kind);
    tiny->setup.beta = how->beta;
    tiny->recipe.method = how->method;
    tiny->recipe.targets = how->targets ? how->targets : tiny->recipe.targets;
    tiny->setup.compute = how->compute;
    tiny->setup.level = level;
    struct transformer *t = tiny_open(tiny);
    struct micro_batch batch = tiny_batch(mixed_sizes, 4, 5);
    *loss = tiny_pass(t, &batch, 0.1);
    struct tensor all = transformer_gradients(t);
    struct tensor copy = gradient_tensor(all.dtype, all.rows, all.columns);
    memcpy(copy.at, all.at, (size_t)tensor_bytes(all));
    transformer_release(t);
    return copy;
}

TEST(transformer_recomputation_changes_no_bit)
{
    static const struct trained varieties[] = {
        { "qwen3", RECIPE_LORA, DTYPE_BF16, 0.3, NULL },
        { "llama", RECIPE_QLORA, DTYPE_F32, 0.3, NULL },
        { "llama", RECIPE_LORA, DTYPE_F32, 0, NULL },
        { "llama", RECIPE_LORA, DTYPE_F32, 0, "o,up" },
        { "qwen2", RECIPE_QLORA, DTYPE_BF16, 0, "q,down" },
        { "qwen3", RECIPE_FULL, DTYPE_F32, 0, NULL },
        { "qwen2", RECIPE_FULL, DTYPE_BF16, 0, NULL },
        { "qwen3", RECIPE_QLORA, DTYPE_BF16, 0, NULL },
        { "qwen3_moe", RECIPE_FULL, DTYPE_F32, 0, NULL },
        { "qwen3_moe", RECIPE_QLORA, DTYPE_BF16, 0, NULL },
        { "qwen3_moe", RECIPE_LORA, DTYPE_BF16, 0, "attention" },
        { "mixtral", RECIPE_LORA, DTYPE_BF16, 0, NULL },
        { "mixtral", RECIPE_LORA, DTYPE_F32, 0, "o,down" },
        { "gpt_oss", RECIPE_FULL, DTYPE_BF16, 0, NULL },
        { "gpt_oss", RECIPE_LORA, DTYPE_BF16, 0, NULL },
        { "gpt_oss", RECIPE_QLORA, DTYPE_F32, 0, "k,gate" },
        { "phi3", RECIPE_LORA, DTYPE_BF16, 0, NULL },
        { "gemma2", RECIPE_FULL, DTYPE_F32, 0, NULL },
        { "gemma3_text", RECIPE_LORA, DTYPE_BF16, 0, NULL },
    };
    for (size_t i = 0; i < sizeof varieties / sizeof *varieties; i++) {
        double loss, again;
        struct tensor kept = gradients_at(&varieties[i], RECOMPUTE_NONE, &loss);
        for (int level = RECOMPUTE_NORMS; level < RECOMPUTE_LEVELS; level++) {
            struct tensor remade = gradients_at(&varieties[i], (enum recompute)level, &again);
            CHECK(loss == again && loss > 0);
            test_check(kept.columns == remade.columns &&
                           !memcmp(kept.at, remade.at, (size_t)tensor_bytes(kept)),
                       "the gradients have the same bits", varieties[i].kind, level);
        }
    }
}

// Bytes that layers keep from forward to backward under this name.
static int64_t kept_bytes(const char *kind, const char *targets, const char *name)
{
    struct tiny *tiny = tiny_make(kind);
    struct blocks plan;
    enum recompute level;
    int64_t bytes = 0;
    tiny->recipe.targets = targets;
    CHECK(!transformer_plan(&plan, &level, &test_arena, gradient_device(), &tiny->setup));
    for (int i = 0; i < plan.entry_count; i++)
        if (plan.entries[i].kind == BLOCKS_ACTIVATIONS && !strcmp(plan.entries[i].name, name))
            bytes += plan.entries[i].bytes;
    return bytes;
}

// The gradient of a frozen linear's input needs its weights alone.
TEST(transformer_keeps_no_input_of_a_frozen_linear)
{
    CHECK(!kept_bytes("qwen3_moe", "attention", "expert inputs"));
    CHECK(!kept_bytes("qwen3_moe", "attention", "expert activations"));
    CHECK(kept_bytes("qwen3_moe", "all-linear", "expert inputs") > 0);
    CHECK(kept_bytes("qwen3_moe", "down", "expert activations") > 0);
    CHECK(!kept_bytes("llama", "q,gate", "activations"));
    CHECK(kept_bytes("llama", "q,gate", "norm outputs") ==
          2 * kept_bytes("llama", "q", "norm outputs"));
    CHECK(!kept_bytes("llama", "o,down", "norm outputs"));
}

static double sum_of(const struct transformer *t, int from, int to)
{
    double sum = 0;
    for (int i = from; i < to; i++)
        sum += ((const float *)t->scratch.losses.at)[i];
    return sum;
}

TEST(transformer_document_never_sees_its_neighbour)
{
    struct tiny *tiny = tiny_make("llama");
    tiny->setup.compute = DTYPE_F32;
    struct transformer *t = tiny_open(tiny);
    static const int32_t sizes[] = { 9, 20 };
    struct micro_batch batch = tiny_batch(sizes, 2, 3);
    int first = 0;
    while (batch.rows[first] < 9)
        first++;
    tiny_loss(t, &batch);
    double a = sum_of(t, 0, first), b = sum_of(t, first, (int)batch.labelled);
    ((int32_t *)batch.ids)[2] ^= 1;
    tiny_loss(t, &batch);
    CHECK(a != sum_of(t, 0, first));
    CHECK(b == sum_of(t, first, (int)batch.labelled));
    transformer_release(t);
}

TEST(transformer_packed_documents_equal_those_alone)
{
    struct tiny *tiny = tiny_make("qwen2");
    tiny->recipe.method = RECIPE_FULL;
    tiny->setup.compute = DTYPE_F32;
    struct transformer *t = tiny_open(tiny);
    static const int32_t sizes[] = { 9, 20 };
    struct micro_batch both = tiny_batch(sizes, 2, 3), a = both, b = both;
    struct span second = { 0, 20 };
    int32_t rows[20];
    int first = 0;
    while (both.rows[first] < 9)
        first++;
    a.tokens = 9;
    a.span_count = 1;
    a.labelled = first;
    b = (struct micro_batch){ 20,   both.ids + 9,         both.positions + 9,    &second, 1,
                              rows, both.targets + first, both.labelled - first, 0 };
    for (int i = 0; i < b.labelled; i++)
        rows[i] = both.rows[first + i] - 9;
    double packed = tiny_pass(t, &both, 0.1);
    struct tensor all = transformer_gradients(t);
    struct tensor kept = gradient_tensor(DTYPE_F32, 1, all.columns);
    memcpy(kept.at, all.at, (size_t)tensor_bytes(all));
    struct transformer_sums sums;
    tiny_pass(t, &a, 0.1);
    transformer_loss(t, &b, 0.1);
    transformer_backward(t, &b); // added to those of a
    CHECK(!transformer_sums(t, &sums));
    CHECK_NEAR(packed, sums.loss, 1e-6);
    double difference = 0, size = 0;
    for (int64_t i = 0; i < all.columns; i++) {
        double x = ((float *)all.at)[i], y = ((float *)kept.at)[i];
        difference += (x - y) * (x - y);
        size += y * y;
    }
    CHECK(size > 0 && sqrt(difference / size) < 1e-6);
    transformer_release(t);
}

TEST(transformer_in_bf16_is_near_fp32)
{
    double wide, narrow;
    struct tensor a = gradients_at(&(struct trained){ "llama", RECIPE_FULL, DTYPE_F32, 0, NULL },
                                   RECOMPUTE_NONE, &wide);
    struct tensor b = gradients_at(&(struct trained){ "llama", RECIPE_FULL, DTYPE_BF16, 0, NULL },
                                   RECOMPUTE_NONE, &narrow);
    double along = 0, first = 0, second = 0;
    for (int64_t i = 0; i < a.columns; i++) {
        double x = ((float *)a.at)[i], y = ((float *)b.at)[i];
        along += x * y;
        first += x * x;
        second += y * y;
    }
    CHECK_NEAR(narrow, wide, 2e-2);
    CHECK(along / sqrt(first * second) > 0.999);
}

// --- the plan ----------------------------------------------------------------

static void check_plan(const char *model)
{
    for (int method = RECIPE_FULL; method <= RECIPE_QLORA; method++)
        for (int level = 0; level < RECOMPUTE_LEVELS; level++) {
            struct tiny *tiny = tiny_make(model);
            tiny->recipe.method = method;
            tiny->setup.compute = DTYPE_BF16;
            tiny->setup.level = (enum recompute)level;
            struct blocks plan;
            enum recompute highest;
            int64_t before = gradient_device()->allocated_bytes;
            CHECK(!transformer_plan(&plan, &highest, &test_arena, gradient_device(), &tiny->setup));
            CHECK((int)highest == level);
            CHECK(gradient_device()->allocated_bytes == before);
            struct transformer *t = tiny_open(tiny);
            CHECK(gradient_device()->allocated_bytes - before == blocks_total(&plan));
            for (int kind = 0; kind < BLOCKS_KINDS; kind++) // and nothing of it is left over
                CHECK(t->blocks.used[kind] == plan.bytes[kind]);
            transformer_release(t);
            CHECK(gradient_device()->allocated_bytes == before);
        }
}

TEST(transformer_allocates_what_it_predicts)
{
    check_plan("qwen3");
    check_plan("qwen3_moe");
    check_plan("gpt_oss");
    check_plan("gemma3_text");
}

TEST(transformer_refuses_experts_in_fp8)
{
    struct tiny *tiny = tiny_make("mixtral");
    struct blocks plan;
    enum recompute level;
    tiny->setup.compute = DTYPE_BF16;
    tiny->setup.fp8 = true;
    CHECK(transformer_plan(&plan, &level, &test_arena, gradient_device(), &tiny->setup) ==
          ERR_UNAVAILABLE);
    CHECK(strstr(error_text(), "mixtral: has experts, for which the engine has no fp8 products"));
}

TEST(transformer_refuses_dropout_of_adapters_on_stacked_experts_which_peft_has_not)
{
    struct tiny *tiny = tiny_make("gpt_oss");
    struct blocks plan;
    enum recompute level;
    tiny->recipe.dropout = 0.1;
    CHECK(transformer_plan(&plan, &level, &test_arena, gradient_device(), &tiny->setup) ==
          ERR_USAGE);
    CHECK(strstr(error_text(), "gpt_oss: PEFT's adapters on experts that files hold as one tensor "
                               "have no dropout"));
    tiny->recipe.targets = "attention";
    CHECK(!transformer_plan(&plan, &level, &test_arena, gradient_device(), &tiny->setup));
}

static struct attention asked;

static int64_t remember_shape(struct device *device, const struct attention *a, enum dtype dtype)
{
    asked = *a;
    return backend_cpu.attention_bytes(device, a, dtype);
}

// A device may have a faster attention, with a workspace, for what has neither windows nor caps.
TEST(transformer_asks_for_a_workspace_of_attention_by_its_widest_window_and_its_cap)
{
    struct backend asking = backend_cpu;
    struct device device = *gradient_device();
    struct blocks plan;
    enum recompute level;
    asking.attention_bytes = remember_shape;
    device.backend = &asking;
    struct tiny *tiny = tiny_make("gemma2");
    CHECK(!transformer_plan(&plan, &level, &test_arena, &device, &tiny->setup));
    CHECK(asked.window == 0 && asked.cap == tiny->decoder.attention_cap && asked.cap > 0);
    tiny = tiny_make("llama");
    tiny->decoder.model.sliding_window = 3;
    CHECK(!transformer_plan(&plan, &level, &test_arena, &device, &tiny->setup));
    CHECK(asked.window == 3 && asked.cap == 0);
}

TEST(transformer_meets_a_budget_layer_by_layer)
{
    struct tiny *tiny = tiny_make("llama");
    struct blocks most, least;
    enum recompute level;
    tiny->decoder.model.layers = 6; // with two, what one gives up is what both then share
    CHECK(!transformer_plan(&most, &level, &test_arena, gradient_device(), &tiny->setup));
    tiny->setup.level = RECOMPUTE_BLOCK;
    CHECK(!transformer_plan(&least, &level, &test_arena, gradient_device(), &tiny->setup));
    tiny->setup.level = RECOMPUTE_NONE;
    CHECK(blocks_total(&least) < blocks_total(&most));
    tiny->setup.budget_bytes = (double)(blocks_total(&most) - 1);
    struct transformer *t = tiny_open(tiny);
    CHECK((double)blocks_total(&t->blocks) <= tiny->setup.budget_bytes);
    CHECK(t->layers[0].level < t->layers[5].level);
    transformer_release(t);
    tiny->setup.budget_bytes = 1000;
    CHECK(transformer_plan(&least, &level, &test_arena, gradient_device(), &tiny->setup) ==
          ERR_MEMORY);
}

// --- the step list -----------------------------------------------------------

static double listed_flops(const struct step *step, const char *name, enum step_phase phase)
{
    double sum = 0;
    for (size_t i = 0; i < step->count; i++)
        if (!strcmp(step->ops[i].name, name) && step->ops[i].phase == phase)
            sum += step->ops[i].flops * step->ops[i].repeats;
    return sum;
}

static bool is_listed(const struct step *step, const char *name, enum step_phase phase)
{
    for (size_t i = 0; i < step->count; i++)
        if (!strcmp(step->ops[i].name, name) && step->ops[i].phase == phase)
            return true;
    return false;
}

static const struct transformer_traced *find_traced(const struct transformer_trace *trace,
                                                    const char *name, enum step_phase phase)
{
    for (int i = 0; i < trace->count; i++)
        if (!strcmp(trace->items[i].name, name) && trace->items[i].phase == phase)
            return &trace->items[i];
    return NULL;
}

static void compare_steps(const struct step *step, const struct transformer_trace *trace)
{
    for (int i = 0; i < trace->count; i++) {
        const struct transformer_traced *run = &trace->items[i];
        test_check(is_listed(step, run->name, run->phase), "what runs is listed", run->name, 0);
        double listed = listed_flops(step, run->name, run->phase);
        test_check(fabs(run->flops - listed) <= 1e-12 * listed, "FLOPs are those listed", run->name,
                   (int)run->phase);
    }
    for (size_t i = 0; i < step->count; i++) {
        const struct step_op *op = &step->ops[i];
        // Sums on an adapter's input and output are part of its products here.
        bool fused = !strcmp(op->name, "adapter sum") || !strcmp(op->name, "adapter input");
        if (!fused && op->phase != STEP_UPDATE)
            test_check(find_traced(trace, op->name, op->phase), "what is listed runs", op->name,
                       (int)op->phase);
    }
}

static void check_step_of(struct tiny *tiny, enum recompute level)
{
    struct knowledge k = knowledge_open();
    struct setup known = knowledge_setup(&k, "llama-3.1-8b", "native", 1, 24);
    static const int32_t full[] = { 24, 24 };
    bool pairs = tiny->setup.beta > 0;
    int documents = pairs ? 2 : 1;
    double rows = documents, tokens = 24 * rows;
    struct micro_batch batch = tiny_batch(full, documents, 2);
    tiny->setup.level = level;
    tiny->setup.compute = DTYPE_BF16;
    struct transformer *t = tiny_open(tiny);
    struct transformer_trace trace = { 0 };
    t->trace = &trace;
    tiny_pass(t, &batch, 1);
    static const int kinds[] = { RECIPE_KEEP_ALL, RECIPE_SELECTIVE, RECIPE_GATE, RECIPE_PROJECTIONS,
                                 RECIPE_RECOMPUTE };
    tiny->recipe.checkpointing = kinds[level];
    tiny->recipe.adapter_dtype = RECIPE_FP32;
    tiny->recipe.experts = stack_experts(known.stack, &tiny->decoder.model);
    struct step_request request = { .model = &tiny->decoder.model,
                                    .recipe = &tiny->recipe,
                                    .layout = &known.layout,
                                    .stack = known.stack,
                                    .batch = { rows, 24, tokens, 24 * tokens,
                                               (double)batch.labelled },
                                    .passes = { .reference = pairs },
                                    .accumulation = 1 };
    struct step step;
    CHECK(!step_list(&step, &test_arena, &request));
    compare_steps(&step, &trace);
    transformer_release(t);
}

static void check_step(const char *kind, int method, enum recompute level)
{
    struct tiny *tiny = tiny_make(kind);
    tiny->recipe.method = method;
    check_step_of(tiny, level);
}

TEST(transformer_recomputes_at_each_level_what_the_step_list_says)
{
    static const struct trained varieties[] = {
        { "llama", RECIPE_FULL, DTYPE_BF16, 0, NULL },
        { "qwen3", RECIPE_LORA, DTYPE_BF16, 0, NULL },
        { "llama", RECIPE_LORA, DTYPE_BF16, 0, "o,down" },
        { "gemma2", RECIPE_FULL, DTYPE_BF16, 0, NULL },
        { "qwen3_moe", RECIPE_FULL, DTYPE_BF16, 0, NULL },
        { "qwen3_moe", RECIPE_LORA, DTYPE_BF16, 0, "attention" },
        { "mixtral", RECIPE_LORA, DTYPE_BF16, 0, NULL },
        { "gpt_oss", RECIPE_LORA, DTYPE_BF16, 0, NULL },
        { "gpt_oss", RECIPE_LORA, DTYPE_BF16, 0, "q,gate" },
    };
    for (size_t i = 0; i < sizeof varieties / sizeof *varieties; i++)
        for (int level = RECOMPUTE_NONE; level < RECOMPUTE_LEVELS; level++) {
            struct tiny *tiny = tiny_make(varieties[i].kind);
            tiny->recipe.method = varieties[i].method;
            tiny->recipe.targets =
                varieties[i].targets ? varieties[i].targets : tiny->recipe.targets;
            check_step_of(tiny, (enum recompute)level);
        }
}

// Attention costs more per byte than any projection in long documents.
TEST(transformer_recomputes_attention_after_everything_else)
{
    static const int32_t full[] = { 24 };
    struct micro_batch batch = tiny_batch(full, 1, 2);
    int64_t kept = INT64_MAX;
    for (int level = RECOMPUTE_NORMS; level < RECOMPUTE_LEVELS; level++) {
        struct tiny *tiny = tiny_make("llama");
        struct transformer_trace trace = { 0 };
        tiny->decoder.model.layers = 6;
        tiny->setup.level = (enum recompute)level;
        struct transformer *t = tiny_open(tiny);
        t->trace = &trace;
        tiny_pass(t, &batch, 1);
        bool attends = find_traced(&trace, "attention", STEP_RECOMPUTE) != NULL;
        bool projects = find_traced(&trace, "q", STEP_RECOMPUTE) != NULL;
        CHECK(attends == (level == RECOMPUTE_BLOCK));
        CHECK(projects == (level >= RECOMPUTE_PROJECTIONS));
        CHECK(t->blocks.bytes[BLOCKS_ACTIVATIONS] < kept);
        kept = t->blocks.bytes[BLOCKS_ACTIVATIONS];
        transformer_release(t);
    }
}

TEST(transformer_runs_the_operations_of_the_step_list)
{
    check_step("qwen2", RECIPE_QLORA, RECOMPUTE_NONE);
    check_step("phi3", RECIPE_LORA, RECOMPUTE_NORMS);
    check_step_of(tiny_pairs(tiny_make("qwen3")), RECOMPUTE_NONE);
    struct tiny *quantized = tiny_pairs(tiny_make("llama"));
    quantized->recipe.method = RECIPE_QLORA;
    check_step_of(quantized, RECOMPUTE_BLOCK);
    struct tiny *headed = tiny_make("llama");
    headed->recipe.targets = "q,v,head";
    check_step_of(headed, RECOMPUTE_NONE);
    struct tiny *magnified = tiny_pairs(tiny_make("qwen2"));
    magnified->recipe.dora = true;
    check_step_of(magnified, RECOMPUTE_NONE);
}
