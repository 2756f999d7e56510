// SPDX-License-Identifier: Apache-2.0
// What the forecast says that ranks send each other is what the engine counts.

#include "core/step/network.h"
#include "test/core/knowledge.h"
#include "test/train/ranks.h"
#include "test/train/whole.h"

// Sizes that are no multiples of any alignment.
static const char odd_model[] =
    "{\"model_type\": \"qwen2\", \"hidden_size\": 60, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 10, "
    "\"intermediate_size\": 100, \"vocab_size\": 67, \"max_position_embeddings\": 64, "
    "\"rope_theta\": 100.0, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false}";

struct counted {
    struct whole *runs[RANKS_MOST];
    struct device devices[RANKS_MOST];
    struct group_traffic traffic[RANKS_MOST][GROUP_OPERATIONS];
};

static bool run_a_step(struct group *group, void *context)
{
    struct counted *counted = context;
    struct whole *run = counted->runs[group->rank];
    struct training_report report;
    run->group = *group;
    bool good = !group_use(&run->group, run->tiny->transformer.device) &&
                !training_plan(&run->training) && !training_step(&run->training, &report);
    memcpy(counted->traffic[group->rank], run->group.traffic, sizeof run->group.traffic);
    return good;
}

static int64_t sent(const struct counted *counted, int size, enum group_operation operation)
{
    int64_t sum = 0;
    for (int i = 0; i < size; i++)
        sum += counted->traffic[i][operation].bytes;
    return sum;
}

struct variety {
    int method;
    enum dtype compute;
    bool has_bf16_states, fp8;
};

static struct network_payload forecast(const struct knowledge *k, const struct whole *run,
                                       const struct variety *v, int size, int zero,
                                       double accumulation)
{
    struct setup known = knowledge_setup(k, "llama-3.1-8b", "native", 1, 24);
    struct recipe recipe = run->tiny->recipe;
    struct layout layout = layout_single();
    struct step step;
    layout.data = size;
    layout.zero = zero;
    recipe.precision = v->compute == DTYPE_F32 ? RECIPE_FP32 : v->fp8 ? RECIPE_FP8 : RECIPE_BF16;
    recipe.states = v->has_bf16_states ? RECIPE_BF16 : RECIPE_FP32;
    recipe.adapter_dtype = RECIPE_BF16;
    recipe.checkpointing = RECIPE_KEEP_ALL;
    struct step_request request = { .model = &run->tiny->decoder.model,
                                    .recipe = &recipe,
                                    .layout = &layout,
                                    .stack = known.stack,
                                    .batch = step_batch(1, 24),
                                    .accumulation = accumulation / size };
    CHECK(!step_list(&step, &test_arena, &request) && engine_runs(&request));
    const struct device *device = run->tiny->transformer.device;
    return network_payload(&step, &request,
                           &(struct engine_device){ device->padding, device->chunk_bytes });
}

// One number, which ranks that share the states sum.
static int64_t norm_bytes(int size)
{
    return 2 * 8 * (size - 1);
}

static void check_bytes(const struct knowledge *k, const struct variety *v, int size)
{
    struct counted *counted = ARENA_NEW(&test_arena, struct counted, 1);
    for (int i = 0; i < size; i++) {
        struct whole *run = counted->runs[i] = whole_make(v->method, v->compute, 1, 24);
        CHECK(!decoder_read(&run->tiny->decoder, &test_arena, text_of(odd_model), "model"));
        CHECK(!backend_cpu.open(&counted->devices[i], 0));
        run->tiny->setup.bf16_states = v->has_bf16_states;
        run->tiny->setup.rank = i;
        run->tiny->setup.ranks = size;
        whole_start(run, &counted->devices[i]);
    }
    CHECK(ranks_run(size, run_a_step, counted));
    int zero = v->method == RECIPE_FULL; // as the search lays native runs out
    struct network_payload payload = forecast(k, counted->runs[0], v, size, zero, 24);
    double others = size - 1; // all ranks together send n − 1 times the bytes
    int64_t norm = v->method == RECIPE_FULL ? norm_bytes(size) : 0;
    CHECK((double)(sent(counted, size, GROUP_ALL_REDUCE) - norm) ==
          2 * others * payload.all_reduced);
    CHECK((double)sent(counted, size, GROUP_REDUCE_SCATTER) == others * payload.scattered);
    CHECK((double)sent(counted, size, GROUP_ALL_GATHER) == others * payload.gathered);
    CHECK(payload.all_reduced + payload.scattered > 0);
    for (int i = 0; i < size; i++) {
        whole_finish(counted->runs[i]);
        counted->devices[i].backend->close(&counted->devices[i]);
    }
}

// --- a base that ranks share -------------------------------------------------

// The bytes of the second step: the first begins without any layer.
static bool run_two_steps(struct group *group, void *context)
{
    struct counted *counted = context;
    struct whole *run = counted->runs[group->rank];
    struct training_report report;
    if (!run_a_step(group, context))
        return false;
    memset(run->group.traffic, 0, sizeof run->group.traffic);
    bool good = !training_step(&run->training, &report);
    memcpy(counted->traffic[group->rank], run->group.traffic, sizeof run->group.traffic);
    return good;
}

TEST(network_forecasts_the_bytes_of_a_base_that_ranks_share)
{
    static const struct variety varieties[] = { { RECIPE_LORA, DTYPE_F32, false, false },
                                                { RECIPE_LORA, DTYPE_BF16, false, false },
                                                { RECIPE_LORA, DTYPE_BF16, false, true },
                                                { RECIPE_QLORA, DTYPE_BF16, false, false } };
    struct knowledge k = knowledge_open();
    for (int v = 0; v < 4; v++) {
        struct counted *counted = ARENA_NEW(&test_arena, struct counted, 1);
        int size = 2 + v % 3, batches = 2 * size;
        for (int i = 0; i < size; i++) {
            struct whole *run = counted->runs[i] =
                whole_make(varieties[v].method, varieties[v].compute, 1, batches);
            CHECK(!decoder_read(&run->tiny->decoder, &test_arena, text_of(odd_model), "model"));
            CHECK(!backend_cpu.open(&counted->devices[i], 0));
            counted->devices[i].padding = 8; // as a GPU's, which is 64
            run->tiny->setup.fp8 = varieties[v].fp8;
            run->tiny->setup.rank = i;
            run->tiny->setup.ranks = size;
            run->tiny->setup.shards_base = true;
            whole_start(run, &counted->devices[i]);
        }
        CHECK(ranks_run(size, run_two_steps, counted));
        struct network_payload payload =
            forecast(&k, counted->runs[0], &varieties[v], size, 3, batches);
        CHECK((double)sent(counted, size, GROUP_ALL_GATHER) ==
              (size - 1) * (payload.fetched + payload.gathered));
        CHECK((double)sent(counted, size, GROUP_REDUCE_SCATTER) == (size - 1) * payload.scattered);
        CHECK(sent(counted, size, GROUP_ALL_REDUCE) == norm_bytes(size));
        CHECK(payload.fetched > 0 && payload.gathered == payload.scattered);
        for (int i = 0; i < size; i++) {
            whole_finish(counted->runs[i]);
            counted->devices[i].backend->close(&counted->devices[i]);
        }
    }
}

TEST(network_forecasts_the_bytes_that_the_engines_ranks_send)
{
    static const struct variety varieties[] = {
        { RECIPE_LORA, DTYPE_F32, false, false },   { RECIPE_LORA, DTYPE_BF16, false, false },
        { RECIPE_QLORA, DTYPE_BF16, false, false }, { RECIPE_FULL, DTYPE_F32, false, false },
        { RECIPE_FULL, DTYPE_BF16, false, false },  { RECIPE_FULL, DTYPE_BF16, true, false },
    };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof varieties / sizeof *varieties; i++)
        for (int size = 2; size <= 4; size++)
            check_bytes(&k, &varieties[i], size);
}
