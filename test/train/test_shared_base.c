// SPDX-License-Identifier: Apache-2.0
// A base that ranks share, a part of every layer each: the run is the one with a whole base.

#include "test/train/crew.h"
#include "train/arrange.h"

// Five layers: more than the two that are whole at a time, and an odd number of them.
static const char five_layers[] =
    "{\"model_type\": \"qwen3\", \"hidden_size\": 32, \"num_hidden_layers\": 5, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "
    "\"intermediate_size\": 48, \"vocab_size\": 61, \"max_position_embeddings\": 64, "
    "\"rope_theta\": 100.0, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false}";

// Mixtures: Mixtral's experts, and Qwen 3's, with norms of heads and small experts.
static const char mixtral[] =
    "{\"model_type\": \"mixtral\", \"hidden_size\": 32, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 24, "
    "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"vocab_size\": 61, "
    "\"max_position_embeddings\": 64, \"rope_theta\": 100.0, \"rms_norm_eps\": 1e-5, "
    "\"tie_word_embeddings\": false}";
static const char qwen3_moe[] =
    "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 32, \"num_hidden_layers\": 3, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "
    "\"intermediate_size\": 48, \"moe_intermediate_size\": 16, \"num_experts\": 6, "
    "\"num_experts_per_tok\": 2, \"norm_topk_prob\": true, \"decoder_sparse_step\": 1, "
    "\"mlp_only_layers\": [], \"vocab_size\": 61, \"max_position_embeddings\": 64, "
    "\"rope_theta\": 100.0, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false}";

static const struct kind {
    const char *model;
    int method;
    enum dtype compute;
    bool fp8;
    double dropout;
    enum recompute level;
} kinds[] = {
    { five_layers, RECIPE_LORA, DTYPE_F32, false, 0, RECOMPUTE_NONE },
    { five_layers, RECIPE_LORA, DTYPE_BF16, false, 0.1, RECOMPUTE_BLOCK },
    { five_layers, RECIPE_LORA, DTYPE_BF16, true, 0, RECOMPUTE_NORMS },
    { five_layers, RECIPE_QLORA, DTYPE_F32, false, 0, RECOMPUTE_GATE },
    { five_layers, RECIPE_QLORA, DTYPE_BF16, false, 0, RECOMPUTE_NONE },
    { mixtral, RECIPE_LORA, DTYPE_F32, false, 0, RECOMPUTE_NONE },
    { qwen3_moe, RECIPE_QLORA, DTYPE_F32, false, 0, RECOMPUTE_BLOCK },
    { mixtral, RECIPE_LORA, DTYPE_BF16, false, 0.1, RECOMPUTE_GATE },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const struct kind *present; // set before a crew is made

static void make_whole(struct whole *run, int rank, int size)
{
    CHECK(!decoder_read(&run->tiny->decoder, &test_arena, text_of(present->model), "model"));
    run->tiny->recipe.dropout = present->dropout;
    run->tiny->setup.fp8 = present->fp8;
    run->tiny->setup.level = present->level;
    run->tiny->setup.rank = rank;
    run->tiny->setup.ranks = size;
    run->training.settings.epochs = 1;
    run->training.settings.evaluate_every = 2;
}

static void make_shared(struct whole *run, int rank, int size)
{
    make_whole(run, rank, size);
    run->tiny->setup.shards_base = true;
}

static struct crew *crew_of(const struct kind *kind, bool is_shared, int size)
{
    present = kind;
    return crew_make(size, kind->method, kind->compute, is_shared ? make_shared : make_whole);
}

static bool have_same_adapters(const struct whole *a, const struct whole *b)
{
    const struct transformer *s = &a->tiny->transformer, *t = &b->tiny->transformer;
    for (size_t i = 0; i < t->parameter_count; i++)
        if (t->parameters[i].is_adapter &&
            memcmp(s->parameters[i].master.at, t->parameters[i].master.at,
                   (size_t)tensor_bytes(t->parameters[i].master)))
            return false;
    return true;
}

static bool have_same_losses(const struct whole *a, const struct whole *b)
{
    return !memcmp(a->losses, b->losses, sizeof a->losses) &&
           a->training.state.best_loss == b->training.state.best_loss;
}

// The first kind with every number of ranks, the others with one each.
TEST(training_with_a_shared_base_gives_the_bits_of_a_whole_one)
{
    for (int i = 0; i < KINDS; i++)
        for (int size = i                      ? 2 + i % 3
                        : TEST_UNDER_SANITIZER ? 4
                                               : 1;
             size <= (i ? 2 + i % 3 : 4); size++) {
            struct crew *whole = crew_of(&kinds[i], false, size);
            struct crew *shared = crew_of(&kinds[i], true, size);
            CHECK(ranks_run(size, crew_run_rank, whole) && ranks_run(size, crew_run_rank, shared));
            CHECK(shared->runs[0]->training.steps > 2 && shared->runs[0]->losses[2] > 0);
            CHECK(shared->runs[0]->training.epoch_batches % CREW_ACCUMULATION % size || size < 3);
            for (int rank = 0; rank < size; rank++) {
                CHECK(have_same_losses(shared->runs[rank], whole->runs[0]));
                CHECK(have_same_adapters(shared->runs[rank], whole->runs[0]));
            }
            crew_finish(whole, size);
            crew_finish(shared, size);
        }
}

// All parts together are the linears, which begin at multiples of 256 bytes, and the moments;
// besides, a rank has two whole layers in its workspace, and what was planned is what was
// allocated.
TEST(training_with_a_shared_base_needs_its_part_of_the_memory)
{
    for (int i = 0; i < KINDS; i++) {
        struct crew *whole = crew_of(&kinds[i], false, 4), *shared = crew_of(&kinds[i], true, 4);
        const struct blocks *all = &whole->runs[0]->tiny->transformer.blocks;
        const struct transformer *t = &shared->runs[3]->tiny->transformer;
        int64_t layers = t->base.own.rows;
        int64_t own = tensor_bytes(t->base.own), layer = tensor_bytes(t->base.gathered[0]);
        int64_t gone = all->bytes[BLOCKS_WEIGHTS] - (t->blocks.bytes[BLOCKS_WEIGHTS] - own);
        if (kinds[i].fp8 || kinds[i].method == RECIPE_QLORA || kinds[i].compute == DTYPE_F32)
            CHECK(4 * own >= gone && 4 * own - gone < layers * 4 * 512);
        int64_t parts = 4 * shared->runs[0]->tiny->transformer.blocks.bytes[BLOCKS_OPTIMIZER];
        int64_t moments = all->bytes[BLOCKS_OPTIMIZER];
        CHECK(parts >= moments && parts - moments <= 2 * 4 * GROUP_ALIGNMENT * 4);
        CHECK(t->blocks.bytes[BLOCKS_WORKSPACE] - all->bytes[BLOCKS_WORKSPACE] == 2 * layer);
        CHECK(layers * layer == 4 * own && blocks_are_full(&t->blocks));
        CHECK(t->device->allocated_bytes == blocks_total(&t->blocks));
        crew_finish(whole, 4);
        crew_finish(shared, 4);
    }
}

// Stopped after half of the steps by three ranks with a shared base, and continued by one rank, by
// two with a whole base, and by three with a shared one.
TEST(training_with_a_shared_base_goes_on_with_any_number_of_ranks)
{
    for (int i = 3; i < KINDS; i += 3) { // QLoRA in fp32, of a dense model and of a mixture
        struct crew *straight = crew_of(&kinds[i], true, 3), *stopped = crew_of(&kinds[i], true, 3);
        CHECK(ranks_run(3, crew_run_rank, straight));
        int64_t all = straight->runs[0]->training.steps, half = all / 2;
        for (int rank = 0; rank < 3; rank++)
            stopped->runs[rank]->stop_at = half;
        CHECK(ranks_run(3, crew_run_rank, stopped) && stopped->runs[0]->training.is_stopped);
        for (int size = 3; size > 0; size--) {
            struct crew *resumed = crew_of(&kinds[i], size == 3, size);
            crew_go_on(resumed, size, stopped);
            CHECK(ranks_run(size, crew_run_rank, resumed));
            const double *a = resumed->runs[0]->losses, *b = straight->runs[0]->losses;
            double band = kinds[i].compute == DTYPE_BF16 ? 2e-2 : 1e-6;
            CHECK(a[half - 1] == 0 && crew_farthest(a + half, b + half, all - half) < band);
            CHECK(size < 3 || have_same_adapters(resumed->runs[0], straight->runs[0]));
            crew_finish(resumed, size);
        }
        crew_finish(stopped, 3);
        crew_finish(straight, 3);
    }
}
