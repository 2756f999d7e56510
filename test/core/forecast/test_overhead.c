// SPDX-License-Identifier: Apache-2.0
#include "core/forecast/overhead.h"
#include "test/core/knowledge.h"

static struct overheads assumed(const struct knowledge *k)
{
    struct overheads overheads;
    CHECK(!overhead_assume(&overheads, &k->catalog, NULL));
    return overheads;
}

static void configure(struct overheads *overheads, const struct setup *setup,
                      const struct estimate *estimate)
{
    overhead_configure(overheads, setup, &estimate->step, estimate->timing.evaluation_share);
}

static double drawn(const struct assumption *assumption, double z)
{
    struct assumption_spread spread = assumption_spread(assumption);
    return assumption_at(&spread, z);
}

static double wall(const struct overheads *overheads, double train_seconds)
{
    struct overhead_draw middle = overhead_middle(overheads);
    struct overhead_times times;
    overhead_run(&times, overheads, &middle, train_seconds, 1e6);
    return times.wall_seconds;
}

TEST(overhead_save_interval_is_young_dalys)
{
    // One minute to save, one failure a day: √(2 · 60 · 86,400) s.
    CHECK_NEAR(overhead_save_interval(60, 86400), 3219.938, 1e-6);
    // Nothing else loses less: saving costs save/τ, failures undo τ/2 each.
    double best = overhead_save_interval(60, 86400);
    for (double factor = 0.5; factor < 2; factor += 0.1) {
        double other = best * factor;
        CHECK(60 / best + best / 2 / 86400 <= 60 / other + other / 2 / 86400 + 1e-15);
    }
}

TEST(overhead_counts_events_as_poisson_does)
{
    enum { DRAWS = 20000 };
    for (double mean = 0.3; mean < 200; mean *= 5) {
        double sum = 0, squares = 0;
        for (int i = 0; i < DRAWS; i++) {
            double count = overhead_count(mean, (i + 0.5) / DRAWS);
            sum += count;
            squares += count * count;
        }
        CHECK_NEAR(sum / DRAWS, mean, 0.01);
        CHECK_NEAR(squares / DRAWS - sum / DRAWS * sum / DRAWS, mean, 0.02);
    }
    CHECK(overhead_count(2.5, NAN) == 2.5);
    CHECK(overhead_count(0, 0.999) == 0);
}

TEST(overhead_of_evaluation_is_the_forward_share_of_a_step)
{
    // A third of a full step, half of a LoRA step; a quarter and a third where all is recomputed.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "llmq", 4, 2048);
    const struct {
        int method, checkpointing;
        double share;
    } cases[] = {
        { RECIPE_FULL, RECIPE_KEEP_ALL, 1.0 / 3 },
        { RECIPE_LORA, RECIPE_KEEP_ALL, 1.0 / 2 },
        { RECIPE_FULL, RECIPE_RECOMPUTE, 1.0 / 4 },
        { RECIPE_LORA, RECIPE_RECOMPUTE, 1.0 / 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setup.recipe.method = cases[i].method;
        setup.recipe.checkpointing = cases[i].checkpointing;
        struct estimate estimate = knowledge_estimate(&setup);
        CHECK_NEAR(estimate.timing.evaluation_share, cases[i].share, 0.12);
    }
}

// Weights are gathered once in an evaluation, and as often as there are passes in training.
TEST(overhead_of_evaluation_waits_for_the_network_in_its_own_passes_alone)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "native", 1, 64);
    CHECK(!catalog_gpu(&setup.gpu, &k.catalog, "rtx-5000-ada")); // PCIe: nearly all is gathers
    setup.layout.data = 8;
    setup.layout.zero = 3;
    double kept = 0;
    for (int level = RECIPE_KEEP_ALL; level <= RECIPE_RECOMPUTE; level++) {
        setup.recipe.checkpointing = level;
        struct estimate estimate = knowledge_estimate(&setup);
        double seconds = estimate.timing.evaluation_share * estimate.timing.step_seconds;
        kept = level == RECIPE_KEEP_ALL ? seconds : kept;
        CHECK(estimate.timing.exposed_seconds > 0.8 * estimate.timing.step_seconds);
        CHECK_NEAR(seconds, kept, 0.03);
    }
    setup.layout.zero = 0; // gradients are summed, and an evaluation has none
    setup.recipe.checkpointing = RECIPE_KEEP_ALL;
    struct estimate estimate = knowledge_estimate(&setup);
    CHECK(estimate.timing.reduce_seconds > 0 && estimate.timing.forward_exposed_seconds == 0);
}

// Evaluations of 64 rows in two runs of transformers' Trainer on an H200, 0.5 s and 1.5 s, whose
// steps wait for the host: bench/results/h200.md.
TEST(overhead_evaluation_takes_the_hosts_time_without_gradients)
{
    static const struct {
        const char *model;
        double rows, width, accumulation, seconds; // of one evaluation
        int checkpointing;
    } runs[] = {
        { "llama-3.2-3b", 8, 178, 1, 0.5, RECIPE_KEEP_ALL },
        { "llama-3.1-8b", 4, 180, 4, 1.5, RECIPE_RECOMPUTE },
    };
    struct knowledge k = knowledge_open();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct setup setup =
            knowledge_setup(&k, runs[i].model, "hf-peft", runs[i].rows, runs[i].width);
        setup.accumulation = runs[i].accumulation;
        setup.recipe.checkpointing = runs[i].checkpointing;
        setup.batch.padded = true;
        struct estimate estimate = knowledge_estimate(&setup);
        struct overheads overheads = assumed(&k);
        configure(&overheads, &setup, &estimate);
        double trained = estimate.timing.step_seconds / (runs[i].accumulation * runs[i].rows);
        CHECK_NEAR(64 * overheads.eval_cost * trained, runs[i].seconds, 0.25);
    }
}

TEST(overhead_saves_adapters_or_the_whole_state)
{
    struct knowledge k = knowledge_open();
    struct overheads overheads = assumed(&k);
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "torchtitan", 1, 2048);
    setup.recipe.method = RECIPE_FULL;
    struct estimate estimate = knowledge_estimate(&setup);
    configure(&overheads, &setup, &estimate);
    // Public decompositions of the training state: 12 to 16 bytes a parameter.
    double per_parameter = overheads.save_bytes / (double)model_parameters(setup.model);
    CHECK(per_parameter >= 12 && per_parameter <= 16);
    setup.recipe.method = RECIPE_LORA;
    estimate = knowledge_estimate(&setup);
    configure(&overheads, &setup, &estimate);
    CHECK(overheads.save_bytes < 1e9);
    CHECK_NEAR(overheads.load_bytes, 2.0 * 8030261248, 1e-9);
}

// FlashAttention, which TRL packs for, makes no plan of a width: 72 of them once cost 10 of 26 s.
TEST(overhead_of_packed_rows_has_no_attention_plan_of_each_width)
{
    struct knowledge k = knowledge_open();
    struct overheads overheads = assumed(&k);
    struct setup setup = knowledge_setup(&k, "llama-3.2-1b", "hf-peft", 8, 1024);
    struct estimate estimate = knowledge_estimate(&setup);
    setup.distinct_widths = 72;
    configure(&overheads, &setup, &estimate);
    struct range padded = overheads.first_width_seconds.value;
    setup.batch.packed = true;
    configure(&overheads, &setup, &estimate);
    struct range packed = overheads.first_width_seconds.value;
    CHECK(padded.mid == 0.14 && packed.mid == 0.02);
    CHECK(packed.high / packed.low > padded.high / padded.low); // nobody measured it
}

// The first width, then all widths; never more than PyTorch makes of one function.
TEST(overhead_of_compilation_is_of_two_to_eight_programs_where_widths_vary)
{
    struct knowledge k = knowledge_open();
    struct overheads overheads = assumed(&k);
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-compile", 1, 2048);
    struct estimate estimate = knowledge_estimate(&setup);
    struct overhead_draw draw = overhead_middle(&overheads);
    struct overhead_times one, many;
    setup.distinct_widths = 1;
    configure(&overheads, &setup, &estimate);
    overhead_run(&one, &overheads, &draw, 3600, 1e6);
    CHECK(one.seconds[OVERHEAD_COMPILATION] == draw.compile_seconds);
    setup.distinct_widths = 200;
    configure(&overheads, &setup, &estimate);
    static const struct {
        double z, programs;
    } cases[] = { { -2, 2 }, { 0, 2 }, { STATS_P90, 8 }, { 3, 8 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        draw.compilations = drawn(&overheads.compilations, cases[i].z);
        overhead_run(&many, &overheads, &draw, 3600, 1e6);
        CHECK_NEAR(many.seconds[OVERHEAD_COMPILATION],
                   cases[i].programs * one.seconds[OVERHEAD_COMPILATION], 1e-9);
    }
}

TEST(overhead_of_every_kind_only_lengthens_a_run)
{
    struct knowledge k = knowledge_open();
    struct overheads plain = assumed(&k);
    plain.save_bytes = 1e9;
    plain.load_bytes = 1e10;
    plain.eval_cost = 0.5;
    plain.failed_runs = assumption_given(plain.failed_runs, 0);
    double before = wall(&plain, 3600);
    CHECK(before > 3600);
    struct overheads changed = plain;
    changed.retries = assumption_given(changed.retries, 2);
    CHECK_NEAR(wall(&changed, 3600), 3 * before, 1e-9);
    changed = plain;
    changed.failed_runs = assumption_given(changed.failed_runs, 1);
    CHECK(wall(&changed, 3600) > 1.2 * before && wall(&changed, 3600) < 1.5 * before);
    changed.save_interval_seconds = assumption_given(changed.save_interval_seconds, 60);
    CHECK(wall(&changed, 3600) < 1.1 * before); // it goes on from its last save
    changed = plain;
    changed.compiles = true;
    CHECK(wall(&changed, 3600) > before);
    changed = plain;
    changed.storage_bytes_per_s = assumption_given(changed.storage_bytes_per_s, 1e8);
    CHECK(wall(&changed, 3600) > before);
    changed = plain;
    changed.gpus = 1024;
    CHECK(wall(&changed, 360000) > wall(&plain, 360000));
}

TEST(overhead_of_evaluations_and_saves_by_steps_is_as_many_as_the_run_holds)
{
    struct knowledge k = knowledge_open();
    struct overheads o = assumed(&k);
    struct overhead_times times;
    o.save_bytes = 1e9;
    o.eval_cost = 0.5;
    o.eval_share = assumption_given(o.eval_share, 0.1);
    o.evaluate_every = 100;
    o.save_every = 300;
    overhead_pace(&o, 2, 1250);
    CHECK(o.evals_per_epoch.value.mid == 6); // 12 in 2 epochs
    struct overhead_draw middle = overhead_middle(&o);
    overhead_run(&times, &o, &middle, 3600, 1e6);
    CHECK(times.saves == 5);
    CHECK_NEAR(times.seconds[OVERHEAD_EVALUATION] - middle.first_evaluation_seconds,
               12 * 1800 * 0.1 * 0.5, 1e-9);
    o.evaluate_every = o.save_every = 0; // at the end
    overhead_pace(&o, 2, 1250);
    overhead_run(&times, &o, &middle, 3600, 1e6);
    CHECK(times.saves == 1 && o.evals_per_epoch.value.mid == 0.5);
}

TEST(overhead_stalls_only_when_storage_is_slower_than_training)
{
    struct knowledge k = knowledge_open();
    struct overheads overheads = assumed(&k);
    struct overhead_draw draw = overhead_middle(&overheads);
    struct overhead_times times;
    overhead_run(&times, &overheads, &draw, 100, 1e6);
    CHECK(times.seconds[OVERHEAD_STALLS] == 0);
    draw.storage_bytes_per_s = 8e6; // a million tokens a second
    overhead_run(&times, &overheads, &draw, 100, 1e9);
    CHECK_NEAR(times.seconds[OVERHEAD_STALLS], 900, 1e-9);
}

TEST(overhead_assumptions_all_have_a_source)
{
    struct knowledge k = knowledge_open();
    struct overheads o = assumed(&k);
    const struct assumption *all[] = { &o.startup_seconds,       &o.compile_seconds,
                                       &o.storage_bytes_per_s,   &o.eval_share,
                                       &o.evals_per_epoch,       &o.failures_per_gpu_hour,
                                       &o.save_interval_seconds, &o.retries,
                                       &o.failed_runs,           &o.data_bytes_per_token };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(all[i]->name && all[i]->unit && all[i]->source);
        CHECK(all[i]->origin != ASSUMPTION_CATALOG || all[i]->as_of);
        CHECK(!(all[i]->value.low > all[i]->value.mid || all[i]->value.mid > all[i]->value.high));
    }
}

TEST(assumption_draws_its_own_quantiles)
{
    struct assumption lognormal = { .value = { 60, 180, 600 } };
    CHECK_NEAR(drawn(&lognormal, -STATS_P90), 60, 1e-12);
    CHECK_NEAR(drawn(&lognormal, 0), 180, 1e-12);
    CHECK_NEAR(drawn(&lognormal, STATS_P90), 600, 1e-12);
    struct assumption cut = { .value = { 0, 0.05, 0.1 } };
    CHECK_NEAR(drawn(&cut, STATS_P90), 0.1, 1e-12);
    CHECK(drawn(&cut, -5) == 0);
    struct assumption given = assumption_given(lognormal, 7);
    CHECK(drawn(&given, 3) == 7 && given.origin == ASSUMPTION_GIVEN);
}

TEST(overhead_of_a_save_begins_before_its_first_byte)
{
    // The Trainer's saves of 11.3 M adapters, 12 bytes each: 0.2 to 0.4 s, an H200's own disk.
    struct knowledge k = knowledge_open();
    struct overheads overheads = assumed(&k);
    overheads.save_bytes = 11.3e6 * 12;
    overheads.save_interval_seconds = assumption_given(overheads.save_interval_seconds, 25);
    struct overhead_draw draw = overhead_middle(&overheads);
    draw.storage_bytes_per_s = 2e9;
    draw.evaluation = 0;
    struct overhead_times times;
    overhead_run(&times, &overheads, &draw, 100, 1e6);
    CHECK_NEAR(times.saves, 4, 1e-12);
    CHECK_NEAR(times.seconds[OVERHEAD_SAVES], 4 * (0.25 + 0.0678), 1e-9);
}
