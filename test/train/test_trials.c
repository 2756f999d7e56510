// SPDX-License-Identifier: Apache-2.0
// Trials of products with a made-up device and clock, and training that waits for them.

#include "train/cuda/trials.h"

#include "test/files.h"
#include "test/train/whole.h"

#include <math.h>

// A device whose runs of an offer take what is written here, times a little noise.
struct made_up {
    struct rng rng;
    int offers;
    double milliseconds[TRIALS_OFFERS];
    bool has_other_bits[TRIALS_OFFERS];
    double spent, longest; // milliseconds: of all trials, of one
    int runs[TRIALS_OFFERS];
};

static struct trial_result run_made_up(void *context, struct trial trial)
{
    struct made_up *device = context;
    double each = device->milliseconds[trial.offer] * (1 + 0.02 * rng_normal(&device->rng));
    struct trial_result result = {
        .has_same_bits = !device->has_other_bits[trial.offer],
        .milliseconds = each,
        .spent = (trial.settle + trial.runs + (trial.is_first ? TRIALS_CHECKS : 0)) * each
    };
    device->runs[trial.offer] += trial.runs;
    device->spent += result.spent;
    device->longest = fmax(device->longest, result.spent);
    return result;
}

static struct made_up draw_device(uint64_t seed)
{
    struct made_up device = { .rng = rng_seeded(seed) };
    device.offers = 1 + (int)rng_below(&device.rng, TRIALS_OFFERS);
    double size = exp(2 * rng_normal(&device.rng));
    for (int i = 0; i < device.offers; i++) {
        device.milliseconds[i] = size * (1 + rng_uniform(&device.rng));
        device.has_other_bits[i] = i && rng_below(&device.rng, 3) == 0;
    }
    return device;
}

static double fastest_allowed(const struct made_up *device)
{
    double best = INFINITY;
    for (int i = 0; i < device->offers; i++)
        if (!device->has_other_bits[i])
            best = fmin(best, device->milliseconds[i]);
    return best;
}

TEST(trials_take_the_fastest_offer_of_those_with_the_bits_of_the_first)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct made_up device = draw_device(seed);
        struct trials trials = trials_of(device.offers);
        double left = INFINITY;
        CHECK(trials_go_on(&trials, &left, run_made_up, &device));
        int best = trials_best(&trials);
        CHECK(best >= 0 && !device.has_other_bits[best]);
        CHECK(device.milliseconds[best] <= 1.05 * fastest_allowed(&device)); // noise is 2 %
        CHECK(!trials_next(&trials).runs);
    }
}

// A device at its power limit, whose clock follows what it runs after 50 ms: a run takes the time
// of its energy then, before that the time of its cycles at the clock of the offer before.
struct limited {
    double cycles[8], energy[8]; // in milliseconds, at a clock of 1 and at the limit
    double clock;
};

static struct trial_result run_limited(void *context, struct trial trial)
{
    struct limited *device = context;
    const double lag = 50;
    double cycles = device->cycles[trial.offer], energy = device->energy[trial.offer], at = 0;
    struct trial_result result = { .has_same_bits = true };
    for (int i = -trial.settle; i < trial.runs; i++) {
        double each = at < lag ? cycles / device->clock : energy;
        at += each;
        result.milliseconds += i < 0 ? 0 : each / trial.runs;
    }
    device->clock = at < lag ? device->clock : cycles / energy;
    result.spent = at;
    return result;
}

TEST(trials_at_the_power_limit_take_the_offer_that_needs_least_energy)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct rng rng = rng_seeded(seed);
        struct limited device = { .clock = 1 };
        double size = 1.5 * exp(fabs(rng_normal(&rng))), least = INFINITY; // of large products
        for (int i = 0; i < 8; i++) {
            device.cycles[i] = size * (1 + 0.1 * rng_uniform(&rng));
            device.energy[i] = size * (1.2 + 0.1 * rng_uniform(&rng));
            least = fmin(least, device.energy[i]);
        }
        struct trials trials = trials_of(8);
        double left = INFINITY;
        CHECK(trials_go_on(&trials, &left, run_limited, &device));
        CHECK(device.energy[trials_best(&trials)] <= 1.001 * least);
    }
}

TEST(trials_of_offers_that_all_fail_choose_none)
{
    struct made_up device = { .rng = rng_seeded(1), .offers = 3, .has_other_bits = { 1, 1, 1 } };
    struct trials none = trials_of(0), trials = trials_of(device.offers);
    double left = INFINITY;
    CHECK(trials_go_on(&none, &left, run_made_up, &device) && trials_best(&none) == -1);
    CHECK(trials_go_on(&trials, &left, run_made_up, &device) && trials_best(&trials) == -1);
}

// A step gives a fifth of its time, and what a trial took beyond that is taken back.
TEST(trials_between_steps_take_their_share_of_the_time_and_choose_as_at_once)
{
    const double share = 0.2;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct made_up at_once = draw_device(seed), spread = at_once;
        struct trials all = trials_of(at_once.offers), some = all;
        double left = INFINITY, step = 5 * exp(rng_normal(&spread.rng)), stepped = 0;
        spread.rng = at_once.rng;
        trials_go_on(&all, &left, run_made_up, &at_once);
        for (bool done = false; !done;) {
            stepped += step;
            left = share * stepped - spread.spent;
            done = left > 0 && trials_go_on(&some, &left, run_made_up, &spread);
            CHECK(spread.spent <= share * stepped + spread.longest);
        }
        CHECK(!memcmp(spread.runs, at_once.runs, sizeof spread.runs));
        CHECK(trials_best(&some) == trials_best(&all));
        CHECK(share * (stepped - step) <= spread.spent + spread.longest); // and use it
    }
}

// --- training with a device that waits for its trials ------------------------

static struct {
    enum tuning mode;
    int calls, left;
    bool listed;
} waiting;

static void note_tuning(struct device *device, enum tuning mode)
{
    (void)device;
    waiting.listed = waiting.listed || mode == TUNE_LATER;
    waiting.mode = mode;
}

// As cuBLASLt's trials do: what was in the room is lost.
static bool spoil_room(struct device *device, void *room, int64_t bytes, double seconds)
{
    (void)device;
    CHECK(waiting.mode == TUNE_OFF && seconds > 0 && bytes > 0);
    memset(room, 0xFF, (size_t)bytes); // NaN in every type
    waiting.calls++;
    return --waiting.left > 0;
}

static void describe(struct device *device, char out[TUNED_ABOUT])
{
    (void)device;
    strcpy(out, "made up");
}

static int64_t list_one(struct device *device, struct tuned *out, int64_t most)
{
    (void)device;
    CHECK(most > 0 && waiting.left == 0); // all or nothing is kept
    memset(out, 1, sizeof *out);
    return 1;
}

static void take_none(struct device *device, const struct tuned *choices, int64_t count)
{
    (void)device, (void)choices, (void)count;
}

static struct backend waiting_backend(void)
{
    struct backend backend = backend_cpu;
    backend.tune = note_tuning, backend.tune_some = spoil_room;
    backend.tuned_about = describe, backend.tuned_list = list_one, backend.tuned_take = take_none;
    return backend;
}

static struct whole *run_with(struct device *device, struct whole *run, int trials)
{
    waiting.calls = 0, waiting.left = trials, waiting.listed = false;
    whole_start(run, device);
    transformer_tune(&run->tiny->transformer, TUNE_LATER);
    run->training.settings.max_steps = 6;
    run->training.settings.epochs = 9;
    CHECK(!training_plan(&run->training));
    CHECK(!training_resume(&run->training, &test_arena));
    CHECK(!training_run(&run->training));
    return run;
}

// Everything that decides what a micro-batch leaves in its activations.
struct spread_case {
    const char *model;
    int method;
    double dropout, beta;
    enum recompute level;
};

static struct whole *make_case(const struct spread_case *spread)
{
    struct whole *run = whole_make_of(tiny_make(spread->model), spread->method, DTYPE_F32, 2, 2);
    run->tiny->recipe.dropout = spread->dropout;
    run->tiny->setup.beta = spread->beta;
    run->tiny->setup.level = spread->level;
    return run;
}

// Activations are the trials' room, because nothing in them outlives a step.
static void check_spread(const struct spread_case *spread)
{
    struct backend backend = waiting_backend();
    struct device plain = *gradient_device(), tuned = plain;
    tuned.backend = &backend;
    struct whole *without = run_with(&plain, make_case(spread), 3);
    CHECK(!waiting.listed && !waiting.calls && without->training.tuning_seconds == 0);
    struct whole *with = run_with(&tuned, make_case(spread), 3);
    CHECK(waiting.listed && waiting.calls == 3); // then there is nothing left to do
    CHECK(with->training.tuning_seconds > 0 && !with->tiny->transformer.waits_for_tuning);
    CHECK(whole_have_same_bits(without, with));
    whole_finish(without);
    whole_finish(with);
}

// Products that the first micro-batch could not tell apart are tried before the first step.
TEST(tuning_before_the_first_step_leaves_no_trial_for_later)
{
    struct backend backend = waiting_backend();
    struct device tuned = *gradient_device();
    tuned.backend = &backend;
    const char *path = text_format(&test_arena, "%s/before", files_folder());
    setenv("GPUHOURS_TUNED", path, 1);
    struct spread_case lora = { "llama", RECIPE_LORA, 0, 0, RECOMPUTE_NONE };
    struct whole *run = make_case(&lora);
    waiting.calls = 0, waiting.left = 1, waiting.listed = false;
    whole_start(run, &tuned);
    transformer_tune(&run->tiny->transformer, TUNE_NOW);
    CHECK(waiting.calls == 1 && !waiting.listed && !run->tiny->transformer.waits_for_tuning);
    CHECK(!unlink(path)); // what was chosen is kept
    unsetenv("GPUHOURS_TUNED");
    whole_finish(run);
}

TEST(training_keeps_its_bits_while_products_are_tried_between_steps)
{
    static const struct spread_case cases[] = {
        { "qwen3", RECIPE_FULL, 0, 0, RECOMPUTE_NONE },
        { "qwen3", RECIPE_FULL, 0, 0, RECOMPUTE_BLOCK },
        { "llama", RECIPE_LORA, 0.1, 0, RECOMPUTE_NONE },
        { "gemma2", RECIPE_LORA, 0, 0, RECOMPUTE_NORMS },
        { "qwen3", RECIPE_LORA, 0, 0.1, RECOMPUTE_GATE },
        { "llama", RECIPE_QLORA, 0.1, 0, RECOMPUTE_BLOCK },
        { "qwen3_moe", RECIPE_LORA, 0, 0, RECOMPUTE_NONE },
        { "gpt_oss", RECIPE_QLORA, 0, 0, RECOMPUTE_BLOCK },
    };
    const char *path = text_format(&test_arena, "%s/spread", files_folder());
    setenv("GPUHOURS_TUNED", path, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_spread(&cases[i]);
        CHECK(!unlink(path)); // what was chosen is kept
    }
    unsetenv("GPUHOURS_TUNED");
}
