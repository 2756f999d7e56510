// SPDX-License-Identifier: Apache-2.0
// Activations that wait in host memory: planned to the byte, and training keeps its bits.

#include "test/train/whole.h"

enum { LAYERS = 7, ROOM = 2 };

// A device whose copies are made as late as it may: when somebody waits for their lane. Whoever
// does not wait finds other numbers.
static struct late_copy {
    void *to;
    const void *from;
    int64_t bytes;
} late[ROOM];
static int64_t copied_bytes;

static void make_late_copy(struct device *device, int lane)
{
    (void)device;
    if (late[lane].bytes)
        memcpy(late[lane].to, late[lane].from, (size_t)late[lane].bytes);
    late[lane].bytes = 0;
}

static void copy_late(int lane, void *to, const void *from, int64_t bytes)
{
    CHECK(!late[lane].bytes); // one at a time in a lane
    late[lane] = (struct late_copy){ to, from, bytes };
    copied_bytes += bytes;
}

static void copy_out_late(struct device *device, int lane, void *host, const void *at,
                          int64_t bytes)
{
    (void)device;
    copy_late(lane, host, at, bytes);
}

static void copy_in_late(struct device *device, int lane, void *at, const void *host, int64_t bytes)
{
    (void)device;
    copy_late(lane, at, host, bytes);
}

struct offload_case {
    const char *model;
    int method;
    enum recompute level;
    double beta;
};

static struct whole *make_case(const struct offload_case *of, int64_t offloaded)
{
    struct tiny *tiny = tiny_make_deep(of->model, LAYERS);
    struct whole *run = whole_make_of(tiny, of->method, DTYPE_F32, 2, 2);
    run->tiny->setup.level = of->level;
    run->tiny->setup.beta = of->beta;
    run->tiny->setup.offloaded = offloaded;
    return run;
}

static struct whole *run_case(const struct offload_case *of, int64_t offloaded,
                              struct device *device)
{
    struct whole *run = whole_start(make_case(of, offloaded), device);
    run->training.settings.max_steps = 3;
    run->training.settings.evaluate_every = 2;
    CHECK(!training_plan(&run->training));
    CHECK(!training_resume(&run->training, &test_arena));
    CHECK(!training_run(&run->training));
    return run;
}

static const struct offload_case cases[] = {
    { "qwen3", RECIPE_FULL, RECOMPUTE_NONE, 0 },
    { "llama", RECIPE_LORA, RECOMPUTE_NORMS, 0 },
    { "qwen3", RECIPE_LORA, RECOMPUTE_GATE, 0.1 },
    { "gemma2", RECIPE_QLORA, RECOMPUTE_PROJECTIONS, 0 },
    { "qwen3_moe", RECIPE_LORA, RECOMPUTE_NONE, 0 }, // its first layer is smaller
    { "gpt_oss", RECIPE_QLORA, RECOMPUTE_BLOCK, 0 },
};
enum { CASES = sizeof cases / sizeof *cases };

TEST(offloaded_activations_change_no_bit_of_training)
{
    struct backend backend = backend_cpu;
    backend.copied = make_late_copy;
    backend.copy_out = copy_out_late, backend.copy_in = copy_in_late;
    struct device device = *gradient_device();
    device.backend = &backend;
    for (int i = 0; i < CASES; i++) {
        struct whole *straight = run_case(&cases[i], 0, gradient_device());
        for (int64_t offloaded = 1; offloaded <= LAYERS; offloaded += i ? 3 : 1) {
            copied_bytes = 0;
            struct whole *run = run_case(&cases[i], offloaded, &device);
            CHECK(whole_have_same_bits(straight, run));
            CHECK((copied_bytes > 0) == (offloaded > 2));
            whole_finish(run);
        }
        whole_finish(straight);
    }
}

// All layers of Llama are alike: what all but two offloaded ones keep goes to the host.
TEST(offloaded_activations_are_planned_to_the_byte)
{
    struct offload_case of = { "llama", RECIPE_LORA, RECOMPUTE_NONE, 0 };
    int64_t whole = 0, layer = 0;
    for (int64_t offloaded = 0; offloaded <= LAYERS; offloaded++) {
        struct whole *run = whole_start(make_case(&of, offloaded), gradient_device());
        const struct transformer *t = &run->tiny->transformer;
        int64_t kept = t->blocks.bytes[BLOCKS_ACTIVATIONS];
        whole = offloaded ? whole : kept;
        layer = t->layers[0].kept_bytes;
        int64_t moved = offloaded > ROOM ? offloaded - ROOM : 0;
        CHECK(layer > 0 && kept == whole - moved * layer);
        CHECK(t->host_bytes == moved * layer && (t->host != NULL) == (moved > 0));
        whole_finish(run);
    }
}
